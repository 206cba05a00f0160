"""Exported programs whose sizes may change: the bits of `jit` at each size, or a card."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from export_programs import DYNAMIC, PROGRAMS
from resized import resized, same

import fgrad
from fgrad import lax
from fgrad.errors import ArgumentError, ExportError

TRUST = pytest.mark.parametrize("trust", [False, True], ids=["compiled", "trusted"])
SIZES = (2, 7, 16, 31, 64, 129)  # some have machine code in the files, others have none
LONG = ("mlp_step", "newton", "per_sample_softmax")  # to which a length of 700 is nothing
CALLS = 4  # the first ones are Python's


@TRUST
@pytest.mark.parametrize("name", DYNAMIC)
def test_programs_have_the_bits_of_jit_at_each_size(
    name: str, trust: bool, tmp_path: Path, rng: np.random.Generator
) -> None:
    (f, make), (dynamic, lengths) = PROGRAMS[name], DYNAMIC[name]
    args = make(rng)
    fgrad.export(f, *args, path=tmp_path / "f", dynamic=dynamic)
    loaded, jitted = fgrad.load(tmp_path / "f", trust=trust), fgrad.jit(f, dynamic=dynamic)
    assert loaded.is_native == trust
    for n in (*SIZES, *[700] * (name in LONG)):
        given = list(args)
        for k, length in enumerate(lengths):
            given = resized(given, length, n + 200 * k)
        if name == "lu_by_loops":  # repeated rows are singular
            given[0] = given[0] + np.diag(np.arange(20.0, 20.0 + n))
        expected = jitted(*given)
        assert all([same(loaded(*given), expected) for _ in range(CALLS)])
        for x, y in zip(fgrad.tree.leaves(expected), fgrad.tree.leaves(f(*given)), strict=True):
            few = 1e-3 if x.dtype == np.float32 else 1e-7
            np.testing.assert_allclose(x, y, rtol=few, atol=few)


def test_a_program_for_one_size_is_refused(tmp_path: Path, rng: np.random.Generator) -> None:
    """Three stars: the number of coordinates stands in the function."""
    f, make = PROGRAMS["three_stars"]
    with pytest.raises(ExportError, match="one length of axis 1 of x, 2"):
        fgrad.export(f, *make(rng), path=tmp_path / "f", dynamic={"x": 1, "v": 1})
    assert not (tmp_path / "f").exists()


def _total(x: Any) -> Any:
    total = 0.0
    for v in x:
        total = 0.9 * total + v
    return total


def _by_index(x: Any) -> Any:
    total = 0.0
    for k in range(x.shape[0]):
        total = total * 0.5 + x[k]
    return total


def _scan(x: Any) -> Any:
    return lax.scan(lambda c, v: (np.tanh(c * 0.9 + v), c * v), 0.0, x)[1]


# What may be asked of a size.  Each is right at all sizes, refused when it is exported, or refused
# when it is called with another size.
USES: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda x: np.sin(x) * 2,
    "mean": lambda x: np.mean(x * x),
    "divided by the size": lambda x: x / x.shape[0],
    "root": lambda x: x / x.shape[0] ** 0.5,
    "root by NumPy": lambda x: x / np.sqrt(x.shape[0]),
    "NumPy's number": lambda x: x / (x.shape[0] * np.float64(2)),
    "len": lambda x: np.sum(x) / len(x),
    "range": _by_index,
    "plain loop": _total,
    "scan": _scan,
    "zeros": lambda x: x + np.zeros(x.shape[0]),
    "key of a dictionary": lambda x: x * {9: 2.0}.get(x.shape[0], 3.0),
    "text": lambda x: x * float(f"{x.shape[0]}"),
    "isinstance": lambda x: x * isinstance(x.shape[0], int),
    "class": lambda x: x * (2.0 if type(x.shape[0]) is int else 3.0),
    "branch": lambda x: x * 2 if x.shape[0] > 20 else x * 3,
    "even": lambda x: x[::2] if x.shape[0] % 2 == 0 else x,
    "half": lambda x: x[: x.shape[0] // 2],
    "bits": lambda x: x * (x.shape[0] & 3),
    "list": lambda x: x * len([0] * x.shape[0]),
    "integer": lambda x: x * int(x.shape[0]),
    "set": lambda x: x * (x.shape[0] in {9, 33}),
    "slices": lambda x: x[1:] - x[:-1],
    "outer": lambda x: np.sum(np.exp(-((x[:, None] - x[None]) ** 2)), 1),
    "sort": lambda x: np.sort(x),
    "solve": lambda x: np.linalg.solve(np.eye(x.shape[0]) * 2 + x[:, None] * x, x),
    "result": lambda x: {"n": x.shape[0] * 1.0, "y": x},
    "Fourier transform": lambda x: np.fft.rfft(x),
    "float16": lambda x: x.astype(np.float16) / x.shape[0],
    "gradient": fgrad.grad(lambda x: np.mean(np.sin(x) ** 2)),
    "second derivative": fgrad.grad(lambda x: np.sum(fgrad.grad(lambda y: np.mean(y**3))(x) ** 2)),
    "vmap": fgrad.vmap(lambda v: np.sin(v) * v),
    "jvp": lambda x: fgrad.jvp(np.sin, (x,), (x,))[1],
    "running sum": lambda x: np.cumsum(x),
    "checked places": lambda x: x[(np.abs(x) * 2).astype(int)],
}
# Those that are not for all sizes from 2 on, and the card's words.
FOR_SOME: dict[str, str] = {
    "key of a dictionary": "one length", "text": "one length", "bits": "one length",
    "list": "one length", "integer": "one length", "set": "one length",
    "result": r"n0\) \* \(1.0", "root by NumPy": "one length",
    "NumPy's number": "one length", "class": "class or identity",
    "isinstance": "class or identity", "branch": "n0 <= 20",
    "even": r"n0\) % \(2",
}  # fmt: skip


# Those that call what has lengths in its code, or what another process may not have.
WITHOUT_CODE = ("sort", "solve", "Fourier transform")


@TRUST
@pytest.mark.parametrize("name", USES)
def test_sizes_in_programs(
    name: str, trust: bool, tmp_path: Path, rng: np.random.Generator
) -> None:
    f = USES[name]
    try:
        fgrad.export(f, np.ones(9), path=tmp_path / "f", dynamic=True)
    except ExportError as error:
        assert FOR_SOME[name] in str(error)
        assert not (tmp_path / "f").exists()
        return
    loaded = fgrad.load(tmp_path / "f", trust=trust)
    assert loaded.is_native == (trust and name not in WITHOUT_CODE)
    jitted, plain = fgrad.jit(f, dynamic=True), fgrad.jit(f)
    served = 0
    for n in (9, 10, 33, 2, 3, 64, 21, 100):
        x = rng.normal(size=n) / 4
        try:
            found = [loaded(x) for _ in range(CALLS)]
        except ArgumentError as error:
            assert name in FOR_SOME and _says(FOR_SOME[name], error)
            continue
        served += 1
        assert all([same(y, jitted(x)) for y in found])
        for y, z in zip(fgrad.tree.leaves(found[0]), fgrad.tree.leaves(plain(x)), strict=True):
            np.testing.assert_allclose(y, z, rtol=1e-3 if y.dtype == np.float16 else 1e-12)
    assert served == 8 or name in FOR_SOME


def _says(words: str, error: Exception) -> bool:
    with pytest.raises(type(error), match=words):
        raise error
    return True


def test_the_line_that_needs_a_number_is_named(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"test_export_sizes\.py:\d+"):
        fgrad.export(USES["text"], np.ones(9), path=tmp_path / "f", dynamic={"x": 0})


@pytest.mark.parametrize("dynamic", ["auto", {"z": 0}, {"x": 3}, {"y": 0}], ids=str)
def test_axes_that_cannot_be_meant(dynamic: Any, tmp_path: Path) -> None:
    with pytest.raises((ExportError, ArgumentError), match="dynamic"):
        fgrad.export(
            lambda x, y: x * y, np.ones(9), np.ones(1), path=tmp_path / "f", dynamic=dynamic
        )


def _pair(x: Any, y: Any) -> Any:
    return x[:, 0] * y if x.shape[0] < 40 else x[:, 1] * y


WRONG: dict[str, tuple[tuple[Any, ...], str]] = {
    "no elements": ((np.ones((0, 3)), np.ones(0)), "length 0"),
    "one element": ((np.ones((1, 3)), np.ones(1)), "n0 is 2 or more"),
    "no longer equal": ((np.ones((5, 3)), np.ones(6)), "axis 0 of argument .1. has 6"),
    "guard": ((np.ones((40, 3)), np.ones(40)), "the program is for n0 <= 39"),
    "another axis": ((np.ones((5, 4)), np.ones(5)), r"wants +f64\[n0,3\]"),
    "rank": ((np.ones(5), np.ones(5)), "not fit"),
    "dtype": ((np.ones((5, 3), np.float32), np.ones(5)), "not fit"),
    "no array": (([1.0] * 5, np.ones(5)), "not fit"),
}  # fmt: skip


@TRUST
@pytest.mark.parametrize("name", WRONG)
def test_arguments_of_other_lengths_are_refused(name: str, trust: bool, tmp_path: Path) -> None:
    given, words = WRONG[name]
    fgrad.export(_pair, np.ones((9, 3)), np.ones(9), path=tmp_path / "f", dynamic={"x": 0, "y": 0})
    loaded = fgrad.load(tmp_path / "f", trust=trust)
    for n in (9, 12, 5):
        loaded(np.ones((n, 3)), np.ones(n))
        with pytest.raises(ArgumentError, match=words):
            loaded(*given)
        assert same(loaded(np.ones((n, 3)), np.ones(n)), np.ones(n))


@TRUST
def test_transforms_of_loaded_programs(
    trust: bool, tmp_path: Path, rng: np.random.Generator
) -> None:
    def f(w: Any, x: Any) -> Any:
        return np.sum(_scan(np.tanh(x @ w)) ** 2) / x.shape[0]

    w = rng.normal(size=3)
    fgrad.export(f, w, np.ones((9, 3)), path=tmp_path / "f", dynamic={"x": 0})
    loaded = fgrad.load(tmp_path / "f", trust=trust)
    for n in (9, 4, 17):
        x = rng.normal(size=(n, 3))
        np.testing.assert_allclose(fgrad.grad(loaded)(w, x), fgrad.grad(f)(w, x), rtol=1e-12)
        many = np.stack([w, 2 * w])
        mapped = fgrad.vmap(loaded, in_axes=(0, None))(many, x)
        np.testing.assert_allclose(mapped, [f(v, x) for v in many], rtol=1e-12)
        np.testing.assert_allclose(fgrad.jit(loaded)(w, x), f(w, x), rtol=1e-12)


def test_most_sizes_need_no_compilation(tmp_path: Path, rng: np.random.Generator) -> None:
    f, make = PROGRAMS["mlp_step"]
    args = make(rng)
    fgrad.export(f, *args, path=tmp_path / "f", dynamic={"x": 0, "t": 0})
    loaded = fgrad.load(tmp_path / "f")
    for n in range(300, 340):
        loaded(*resized(args, 48, n))
    assert len(loaded._changing.compiled.templates) <= 12  # type: ignore[attr-defined]


@TRUST
def test_sizes_are_kept_in_bounds(
    trust: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fgrad.aot.lengths.MOST_FORMS", 5)
    fgrad.export(lambda x: x * 2, np.ones(9), path=tmp_path / "f", dynamic=True)
    loaded = fgrad.load(tmp_path / "f", trust=trust)
    for n in [*range(2, 20), *range(2, 20)]:
        assert all([same(loaded(np.ones(n)), np.full(n, 2.0)) for _ in range(CALLS)])
    assert len(loaded._changing._forms) == 5  # type: ignore[attr-defined]


@TRUST
def test_threads_with_different_sizes(trust: bool, tmp_path: Path) -> None:
    fgrad.export(lambda x: np.cumsum(x) / x.shape[0], np.ones(9), path=tmp_path / "f", dynamic=True)
    loaded = fgrad.load(tmp_path / "f", trust=trust)
    wrong: list[int] = []

    def work(first: int) -> None:
        for n in range(first, 60, 3):
            if not np.allclose(loaded(np.ones(n)), np.arange(1, n + 1) / n):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(2 + k % 3,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


LOAD = """
import sys
import numpy as np
import fgrad
f = fgrad.load(sys.argv[1], trust=True)
for n in (5, 30, 31):
    print(*f(np.arange(float(n)) / n))
assert "fgrad.compile.pipeline" not in sys.modules
"""


def test_other_processes(tmp_path: Path) -> None:
    """They run lengths near that of the example without the compiler."""

    def f(x: Any) -> Any:
        return _scan(x) * fgrad.grad(_total)(x)

    path = tmp_path / "f.fgx"
    fgrad.export(f, np.ones(9), path=path, dynamic=True)
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(path)],
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    for n, line in zip((5, 30, 31), done.stdout.splitlines(), strict=True):
        found = [float(word) for word in line.split()]
        np.testing.assert_allclose(found, f(np.arange(float(n)) / n), rtol=1e-12)


def test_file_is_the_same_each_time(tmp_path: Path, rng: np.random.Generator) -> None:
    f, make = PROGRAMS["soft_dtw_grad"]
    args = make(rng)
    for name in ("a", "b"):
        fgrad.export(f, *args, path=tmp_path / name, dynamic={"x": 0, "y": 0})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
