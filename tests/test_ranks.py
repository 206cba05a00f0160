"""Programs of ranks under MPI equal the same on one process; what goes wrong ends with a card."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from ranks import blocks
from ranks.launch import HERE, MISSING, ROOT, must_pass, run_ranks

from fgrad import distributed as dist
from fgrad.distributed import P
from fgrad.errors import ArgumentError, RankError, ShapeError

needs_mpi = pytest.mark.skipif(MISSING, reason="needs mpi4py and mpiexec: pip install 'fgrad[mpi]'")


@needs_mpi
@pytest.mark.parametrize(("start", "check"), [(0, "2"), (1000, "1")])
def test_random_programs_on_two_ranks(start: int, check: str) -> None:
    text = must_pass(2, str(HERE / "random_cases.py"), "a", str(start), "14", FGRAD_CHECK=check)
    assert text.count("agree") == 2


@needs_mpi
def test_random_programs_on_a_mesh_of_two_axes() -> None:
    text = must_pass(4, str(HERE / "random_cases.py"), "ab", "2000", "7")
    assert text.count("agree") == 4


@needs_mpi
def test_every_collective_of_every_kind_of_array() -> None:
    assert must_pass(2, str(HERE / "rules.py"), FGRAD_CHECK="1").count("agree") == 2


@needs_mpi
@pytest.mark.parametrize(("data", "model"), [(2, 1), (1, 2), (2, 2)])
def test_a_transformer_block_and_the_heat_equation(data: int, model: int) -> None:
    text = must_pass(data * model, str(HERE / "models.py"), str(data), str(model))
    assert text.count("as on one process") == data * model


@needs_mpi
def test_the_example_of_data_parallel_training(tmp_path: Path) -> None:
    script, files = str(ROOT / "examples" / "data_parallel.py"), [tmp_path / n for n in "ab"]
    words = (script, "--steps", "20", "--batch", "64", "--save")
    text = must_pass(2, *words, str(files[0]))
    found = re.search(r"2 places: loss (\S+) -> (\S+) in", text)
    assert found and float(found[2]) < 0.8 * float(found[1])
    command = [sys.executable, *words, str(files[1]), "--simulate", "2"]
    subprocess.run(command, timeout=300, check=True)
    for k in range(6):
        a, b = [np.load(folder / f"{k}.npy") for folder in files]
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


# --- devices that are not there


@needs_mpi
@pytest.mark.parametrize("how", ["nccl", "host", "shared"])
def test_collectives_of_arrays_on_devices(how: str) -> None:
    assert must_pass(2, str(HERE / "device.py"), how, FGRAD_CHECK="1").count("agree") == 2


@needs_mpi
def test_a_rank_that_waits_for_its_device_is_watched() -> None:
    ended = run_ranks(2, str(HERE / "device.py"), "sleeps", str(LIMIT), FGRAD_CHECK="1")
    assert ended.status
    pattern = r"rank 0 +in the work of the device for .*rank 1 +in no collective.*sleep\(600"
    assert re.search(pattern, ended.text, re.DOTALL), ended.text


# What each failure prints, and whether the watching thread must find it, after LIMIT seconds.
LIMIT = 2.0
FAILURES: dict[str, tuple[str, bool]] = {
    "raises": ("rank 1 of 2:.*ValueError: this rank has no data", False),
    "raises_in_program": (r"rank 1 of 2:.*ShapeError: .*failures.py:\d+ \(body\)", False),
    "exits": (
        r"rank 0 waits for rank 1, which has ended.*rank 0 +in agreement.*\(work\).*rank 1 +has",
        False,
    ),
    "dies": ("", False),
    "is_killed": ("", False),
    "sleeps": (
        r"rank 0 +in psum of 8 bytes .*\(sleeps\).*rank 1 +in no collective.*sleep\(600",
        True,
    ),
    "waits_eager": (r"rank 0 +in psum of 8 bytes .*\(waits_eager\).*sleep\(600", True),
    "reordered": (
        r"they do not meet.*rank 0 .*psum\[data\] f64\[3\].*rank 1 .*pmax\[data\]",
        False,
    ),
    "sizes": (r"their arguments differ.*rank 0 .*f64\[3\].*rank 1 .*f64\[4\]", False),
    "dtypes": (r"their arguments differ.*rank 0 .*f64\[3\].*rank 1 .*f32\[3\]", False),
    "branch": (r"rank 0 +in agreement.*rank 1 +has ended", False),
    "trip_counts": (r"rank 0 waits for rank 1, which has.*rank 0 +in psum.*\(trip_counts\)", False),
    "trip_counts_in_program": (
        r"they do not meet.*rank 0 .*psum\[data\] f64\[3\].*rank 1 .*psum.data. f64\[\]",
        False,
    ),
    "retraces": (
        r"rank 0 and rank 1 are in different coll.*rank 0 +in psum.*rank 1 +in agreement",
        False,
    ),
    "profiles": (
        r"rank 0 and rank 1 are in different coll.*rank 0 +in psum.*rank 1 +in agree.*profile",
        False,
    ),
    "versions": (r"the ranks have different.*rank 0 .*fgrad 0.*rank 1 .*fgrad 0.0.1", False),
    "other_code": (r"they do not meet.*rank 0 .*pmax.*rank 1 ", False),
    "shadowed": ("AxisNameError: vmap: an axis named 'data' is open already", False),
    "no_axis": ("AxisNameError: lax.psum: there is no axis named 'model' here", False),
    "does_not_divide": ("has length 3, which .* cuts into 2 blocks.*pad it", False),
    "varying_condition": ("VaryingError: The choice of a branch varies", False),
    "others": ("VaryingError: shard_map: the result of mean varies", False),
}


@needs_mpi
@pytest.mark.parametrize("name", FAILURES)
def test_failures_end_all_ranks_and_say_why(name: str) -> None:
    pattern, waits = FAILURES[name]
    words = (str(HERE / "failures.py"), name, str(LIMIT))
    ended = run_ranks(2, *words, FGRAD_CHECK="1")
    assert ended.status, ended.text
    assert re.search(pattern, ended.text, re.DOTALL), ended.text
    if waits:
        assert f"has waited {LIMIT:g} s" in ended.text


@needs_mpi
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("other_values", r"their arguments differ.*holding.*dist.broadcast"),
        ("other_values_compiled", r"their arguments differ.*holding.*dist.broadcast"),
        ("other_order_of_calls", r"do different things.*total.*rank 1 .*lambda"),
    ],
)
def test_what_is_compared_each_time_when_all_is_checked(name: str, words: str) -> None:
    ended = run_ranks(2, str(HERE / "failures.py"), name, "5", FGRAD_CHECK="2")
    assert ended.status
    assert re.search(words, ended.text, re.DOTALL), ended.text


def is_gone(pid: int) -> bool:
    """Whether a process ends, which takes as long as nobody has asked for its status."""
    for _ in range(600):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


@needs_mpi
def test_ranks_that_hang_are_ended() -> None:
    """Nothing of them is left, though they ignore what asks them to end."""
    code = (
        "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "print(f' {os.getpid()} ', flush=True); time.sleep(600)"
    )
    ended = run_ranks(2, "-c", code, limit=3.0)
    assert ended.status is None
    for pid in ended.text.split():
        assert is_gone(int(pid))


REFUSED = """
import numpy as np, fgrad
from fgrad import distributed as dist, lax
from fgrad.distributed import P
mesh = dist.init("mpi", axes=("data",))
mean = lambda x: lax.pmean(np.mean(x), "data")
f = dist.shard_map(mean, mesh=mesh, in_specs=P("data"), out_specs=P())
"""


@needs_mpi
@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("fgrad.grad(f)(np.ones(2))", "VaryingError: A derivative of a program of ranks"),
        ("fgrad.grad(fgrad.jit(f))(np.ones(2))", "VaryingError: A derivative of a program"),
        ("fgrad.jvp(f, (np.ones(2),), (np.ones(2),))", "VaryingError: A derivative of a program"),
        ("fgrad.grad(lambda w: f(w * np.ones(2)))(1.0)", "VaryingError: A derivative of a program"),
        (
            "fgrad.vmap(f, axis_name='batch')(np.ones((2, 2)))",
            "AxisNameError: shard_map over ranks",
        ),
        ("dist.init('mpi', axes=('other',))", "RankError: init: this process has another mesh"),
        ("dist.init('mpi', axes={'data': 3})", "RankError: init: the mesh has 3 places"),
        ("dist.init('mpi', axes=('a', 'b'))", "ArgumentError: init: axes="),
        (
            "dist.broadcast(1, mesh=mesh, source=4)",
            "ShapeError: broadcast: there is no rank 4 of 1",
        ),
        ("lax.psum(np.ones(2), 'data')", "AxisNameError: lax.psum: there is no axis"),
        ("print(fgrad.vmap(f)(np.arange(4.0).reshape(2, 2))); 1 / 0", "ZeroDivisionError"),
    ],
)
def test_what_one_rank_refuses(call: str, words: str) -> None:
    command = [sys.executable, "-c", REFUSED + call]
    found = subprocess.run(command, timeout=300, capture_output=True, text=True)
    assert found.returncode and words in found.stderr, found.stderr
    if "print" in call:
        assert found.stdout == "[0.5 2.5]\n"


# --- blocks, files, keys


@needs_mpi
@pytest.mark.parametrize("what", ["blocks", "keys"])
def test_blocks(what: str) -> None:
    must_pass(2, str(HERE / "blocks.py"), what, ".")


@needs_mpi
def test_files_of_other_numbers_of_ranks(tmp_path: Path) -> None:
    """Written by 2, read by 3, 1 and 2 ranks, and in one process: the same bits."""
    script, folder = str(HERE / "blocks.py"), str(tmp_path)
    must_pass(2, script, "save", folder)
    for count in (3, 1, 2):
        must_pass(count, script, "load", folder)
    must_pass(3, script, "save", folder)
    must_pass(2, script, "load", folder)
    assert [p.name for p in tmp_path.iterdir()] == ["model"]
    found = dist.load(tmp_path / "model", blocks.whole(), mesh=dist.simulate(data=2))
    blocks.same(found, blocks.whole())


# --- without ranks


def test_files_in_one_process(tmp_path: Path) -> None:
    mesh, x = dist.simulate(data=2), blocks.whole()
    dist.save(tmp_path / "model", x, blocks.SPECS, mesh=mesh)
    blocks.same(dist.load(tmp_path / "model", x, blocks.SPECS, mesh=mesh), x)
    with pytest.raises(ArgumentError, match="another structure"):
        dist.load(tmp_path / "model", {"w": None}, mesh=mesh)
    with pytest.raises(ArgumentError, match="no tree of arrays"):
        dist.load(tmp_path / "other", x, mesh=mesh)
    with pytest.raises(ShapeError, match="5 blocks"):
        dist.load(tmp_path / "model", x, blocks.SPECS, mesh=dist.simulate(data=5))
    with pytest.raises(ShapeError, match="5 blocks"):
        dist.my_block(x.weights["rows"], P("data"), mesh=dist.simulate(data=5))


START = "from fgrad import distributed as dist; dist.init('mpi', axes=('data',))"


def one_process(**env: str) -> str:
    found = subprocess.run(
        [sys.executable, "-c", START], env={**os.environ, **env}, timeout=300,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert found.returncode
    return found.stderr


@needs_mpi
@pytest.mark.parametrize("name", ["PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"])
def test_processes_of_another_launcher(name: str) -> None:
    text = one_process(**{name: "4"})
    assert f"rank 0 of 1, but {name} says that there are 4" in text


def test_without_mpi4py(tmp_path: Path) -> None:
    (tmp_path / "mpi4py.py").write_text("raise ImportError('No module named mpi4py')")
    text = one_process(PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    assert "MissingMpiError" in text and "pip install 'fgrad[mpi]'" in text


def test_what_is_no_engine_or_mesh() -> None:
    sent = dist.Mesh((("data", 2),), (0,))
    f = dist.shard_map(np.sin, mesh=sent, in_specs=P("data"), out_specs=P("data"))
    for call in (lambda: f(np.ones(3)), lambda: dist.gather(np.ones(3), P("data"), mesh=sent)):
        with pytest.raises(RankError, match="none of them"):
            call()
    with pytest.raises(ArgumentError, match="no engine 'gloo'"):
        dist.init("gloo")
