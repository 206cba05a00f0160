"""The disk cache: a damaged, foreign, full or shared directory never breaks a program."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import fgrad
from fgrad import lax
from fgrad.base.digest import digest
from fgrad.compile.cpu.program_cache import program_key, recall
from fgrad.compile.cpu.structural_hash import identity
from fgrad.compile.jit.call import executable_of
from fgrad.compile.llvm import own_files, runtime, store
from fgrad.compile.llvm.store import DiskStore, contents
from fgrad.config import config
from fgrad.errors import CacheWarning

X = np.linspace(0.1, 1.0, 24).reshape(4, 6)


def test_a_payload_comes_back(tmp_path: Path) -> None:
    cache = DiskStore(str(tmp_path / "cache"))
    assert cache.get("abc") is None
    cache.put("abc", b"payload")
    assert cache.get("abc") == b"payload"
    assert os.stat(cache.directory).st_mode & 0o777 == 0o700


def test_damaged_files_are_ignored(tmp_path: Path) -> None:
    """Each bit flipped, each shorter length, each byte left out, one more byte, zeros."""
    cache = DiskStore(str(tmp_path / "cache"))
    for payload in (b"", bytes(range(50))):
        cache.put("abc", payload)
        data = Path(cache.path("abc")).read_bytes()
        number = int.from_bytes(data, "little")
        damaged = [(number ^ 1 << k).to_bytes(len(data), "little") for k in range(8 * len(data))]
        damaged += [data[:k] for k in range(len(data))]
        damaged += [data[:k] + data[k + 1 :] for k in range(len(data))]
        damaged += [data + b"\0", bytes(len(data)), bytes(4096)]
        for other in damaged:
            Path(cache.path("abc")).write_bytes(other)
            assert cache.get("abc") is None
    cache.put("abc", b"new")
    assert cache.get("abc") == b"new"


def test_use_is_noted_once_an_hour(tmp_path: Path) -> None:
    cache = DiskStore(str(tmp_path / "cache"))
    cache.put("abc", b"payload")
    for age, noted in ((60.0, False), (7200.0, True)):
        then = time.time() - age
        os.utime(cache.path("abc"), (then, then))
        assert cache.get("abc") == b"payload"
        assert (os.stat(cache.path("abc")).st_mtime > then + 30) == noted


def test_contents_are_read_again_where_files_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change that keeps the size and the time of the file is seen; what did not change is not
    read."""
    cache, file = DiskStore(str(tmp_path / "cache")), tmp_path / "a.py"
    file.write_bytes(b"one")
    state = os.stat(file)
    assert contents([str(file)], cache) == digest(b"one")
    assert not list((tmp_path / "cache").rglob("d_*"))  # it may change again at this time
    monkeypatch.setattr(store, "_SETTLED", -1_000_000_000)
    for _ in range(2):
        assert contents([str(file)], cache) == digest(b"one")
    with monkeypatch.context() as patched:
        patched.setattr(store, "_read", None)
        assert contents([str(file)], cache) == digest(b"one")
    time.sleep(0.02)
    file.write_bytes(b"two")
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert contents([str(file)], cache) == digest(b"two")


def test_directory_that_others_can_write_is_refused_once(tmp_path: Path) -> None:
    directory = tmp_path / "cache"
    directory.mkdir()
    directory.chmod(0o777)
    cache = DiskStore(str(directory))
    with pytest.warns(RuntimeWarning, match="rm -r"):
        cache.put("abc", b"payload")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.put("abc", b"payload")
        assert cache.get("abc") is None
    assert not list(directory.iterdir())


def test_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = DiskStore(str(tmp_path / "file" / "cache"))
    cache.put("abc", b"payload")
    assert cache.get("abc") is None


def test_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_from: str, _to: str, **_folders: int) -> None:
        raise OSError(28, "No space left on device")

    cache = DiskStore(str(tmp_path / "cache"))
    cache.put("before", b"payload")
    monkeypatch.setattr(own_files.os, "replace", full)
    with pytest.warns(CacheWarning, match="no room"):
        cache.put("abc", b"payload")
    cache.put("abc", b"payload")  # nothing is tried again, and nothing said
    assert cache.get("abc") is None
    assert cache.get("before") == b"payload"
    files = [name for _, _, names in os.walk(cache.directory) for name in names]
    assert sorted(files) == ["before", "last-look"]


def test_size_is_bounded_and_used_files_stay(tmp_path: Path) -> None:
    cache = DiskStore(str(tmp_path / "cache"), size_limit=10_000)
    for k in range(8):
        cache.put(f"key{k}", bytes(1000))
        os.utime(cache.path(f"key{k}"), (k, k))
    assert cache.get("key0") is not None  # used now
    for k in range(8, 12):
        cache.put(f"key{k}", bytes(1000))
    total = sum([path.stat().st_size for path in Path(cache.directory).glob("*/*")])
    assert total <= 10_000
    assert cache.get("key0") is not None and cache.get("key1") is None


def _programs() -> list[fgrad.ir.program.Program]:
    rng = np.random.default_rng(0)
    table = rng.normal(size=(6, 6))
    functions = [
        lambda x: np.sum(np.tanh(x @ table) * 1.5),
        fgrad.grad(lambda x: np.sum(np.exp(x) / np.sum(np.exp(x), axis=1, keepdims=True))),
        lambda x: np.linalg.solve(x[:, :4] + 4 * np.eye(4), x),
        lambda x: (x, 3.0, np.sort(x, axis=1), table),
        lambda x: np.linalg.cholesky(x @ x.T + np.eye(4)),
        fgrad.vmap(fgrad.jit(lambda row: row * 2 + table[0])),
        lambda x: np.exp(1j * x) * (2 - 1j),
        lambda x: lax.fori_loop(0, 5, lambda i, y: np.sin(y @ table), x),
        lambda x: lax.scan(lambda c, r: (np.tanh(c + r), c * 2), x[0], x),
        lambda x: lax.cond(x[0, 0] > 0.5, lambda y: y @ table, lambda y: y * 3, x),
        lambda x: lax.while_loop(lambda c: np.sum(c) < 100, lambda c: c * 2 + table[:4], x),
    ]
    return [fgrad.make_program(f)(X) for f in functions]


@pytest.mark.parametrize("k", range(11))
def test_recalled_programs_compute_the_same(tmp_path: Path, k: int) -> None:
    program = _programs()[k]
    with config.override(cache=True, check=1, cache_dir=str(tmp_path / "cache")):
        expected = executable_of(program)([X])
        again = _programs()[k]
        assert identity(again) == identity(program)
        key = program_key(again)
        assert key is not None
        recalled = recall(key, again)
        assert recalled is not None
        for a, b in zip(recalled([X]), expected, strict=True):
            np.testing.assert_array_equal(a, b)


def test_recalled_constants_are_contiguous(tmp_path: Path) -> None:
    """Equal constants have equal names, whatever their strides."""
    program = fgrad.make_program(lambda x: x + np.tile(np.arange(6.0), (4, 1)))(X)
    views = tuple([(v, np.broadcast_to(a[0], a.shape)) for v, a in program.consts])
    with config.override(cache=True, check=1, cache_dir=str(tmp_path / "cache")):
        (expected,) = executable_of(program)([X])
        recalled = recall(str(program_key(program)), program.replace(consts=views))
        assert views and recalled is not None
        np.testing.assert_array_equal(recalled([X])[0], expected)


def test_identity_tells_programs_apart() -> None:
    def of(fun, *args):
        return identity(fgrad.make_program(fun)(*args))

    one = np.ones(3)
    names = [
        of(lambda x: x + 1.0, one),
        of(lambda x: x + 2.0, one),
        of(lambda x: x + 0.0, one),
        of(lambda x: x + -0.0, one),
        of(lambda x: x - 1.0, one),
        of(lambda x: x + 1.0, np.ones(4)),
        of(lambda x: x + 1.0, np.ones(3, np.float32)),
        of(lambda x: x + np.array([1.0, 2.0, 3.0]), one),
        of(lambda x: x + np.array([1.0, 2.0, 4.0]), one),
        of(lambda x, y: x + y, one, one),
        of(lambda x, y: x + x, one, one),
        of(lambda x: np.sum(x.reshape(3, 1), axis=0), one),
        of(lambda x: np.sum(x.reshape(3, 1), axis=1), one),
        of(fgrad.jit(lambda x: fgrad.jit(lambda y: y * 2)(x)), one),
        of(fgrad.jit(lambda x: fgrad.jit(lambda y: y * 3)(x)), one),
    ]
    assert len(set(names)) == len(names)
    assert of(lambda z: z + 1.0, one) == names[0]


def test_programs_with_python_steps_are_not_kept(tmp_path: Path) -> None:
    program = fgrad.make_program(lambda x: np.linalg.eig(x[:, :4])[0].real)(X)
    with config.override(cache=True, check=1, cache_dir=str(tmp_path / "cache")):
        executable_of(program)([X])
        key = program_key(program)
        assert key is None or recall(key, program) is None


def test_an_entry_whose_kernels_are_gone_is_compiled_anew(tmp_path: Path) -> None:
    code = (
        "import numpy as np, fgrad\n"
        "print(fgrad.jit(lambda x: np.sum(np.sin(x) * 1.25))(np.arange(5.0)))"
    )
    outputs = [_run(code, tmp_path)]
    for path in tmp_path.glob("cache/*/k_*"):
        path.unlink()
    outputs.append(_run(code, tmp_path))
    for path in tmp_path.glob("cache/*/*"):
        path.write_bytes(path.read_bytes()[:-1])
    outputs.append(_run(code, tmp_path))
    assert len(set(outputs)) == 1


_TORTURE = """
import numpy as np, fgrad
for k in range(6):
    f = fgrad.jit(lambda x: np.sum(np.exp(x) * (k + 1.5)))
    assert np.isclose(f(np.arange(4.0)), np.sum(np.exp(np.arange(4.0)) * (k + 1.5)))
print("good")
"""


def test_eight_processes_at_once(tmp_path: Path) -> None:
    running = [_start(_TORTURE, tmp_path) for _ in range(8)]
    outputs = [process.communicate(timeout=120)[0].strip() for process in running]
    assert outputs == ["good"] * 8


def _start(code: str, tmp_path: Path) -> subprocess.Popen[str]:
    env = {**os.environ, "FGRAD_CACHE_DIR": str(tmp_path / "cache"), "FGRAD_CHECK": "1"}
    env["FGRAD_CACHE"] = "1"
    return subprocess.Popen(
        [sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, text=True
    )


def _run(code: str, tmp_path: Path) -> str:
    process = _start(code, tmp_path)
    output = process.communicate(timeout=300)[0].strip()
    assert process.returncode == 0
    return output


def test_the_store_follows_the_settings(tmp_path: Path) -> None:
    with config.override(cache_dir=str(tmp_path)):
        assert runtime.store().directory == str(tmp_path)
    assert runtime.store().directory == config.cache_dir


def test_identity_of_a_program_at_two_depths() -> None:
    def small(x):
        return np.sum(x) < 9.0

    def twice(x):
        return x * 2.0

    def f(x):
        x = lax.while_loop(small, twice, x)
        return lax.while_loop(small, lambda x: lax.while_loop(small, twice, x) + 1.0, x)

    program, again = [fgrad.make_program(f)(np.ones(3)) for _ in range(2)]
    assert identity(program) is not None and identity(program) == identity(again)
