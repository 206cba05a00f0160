"""Programs in files: what is loaded computes what was exported, and refuses what it cannot."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from export_alterations import parts, run, sealed
from export_programs import PROGRAMS

import fgrad
import fgrad.scipy.special as special
from fgrad import lax
from fgrad.aot.files import parsed
from fgrad.aot.operations import MODULES, PACKAGES
from fgrad.errors import ArgumentError, ExportError, UnsupportedTypeError
from fgrad.ir.primitive import REGISTRY

TRUST = pytest.mark.parametrize("trust", [False, True], ids=["compiled", "trusted"])
CALLS = 12  # the first ones are Python's, the last ones native


def same(a: Any, b: Any) -> bool:
    """Whether two trees are the same, to the last bit."""
    (xs, one), (ys, other) = fgrad.tree.flatten(a), fgrad.tree.flatten(b)
    return one == other and list(map(_bits, xs)) == list(map(_bits, ys))


def _bits(x: Any) -> tuple[Any, ...]:
    array = np.asarray(x)
    return type(x), array.dtype, array.shape, array.tobytes()


@TRUST
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_have_the_same_bits(
    name: str, trust: bool, tmp_path: Path, rng: np.random.Generator
) -> None:
    f, make = PROGRAMS[name]
    args = make(rng)
    expected = fgrad.jit(f)(*args)
    fgrad.export(f, *args, path=tmp_path / "f.fgx")
    loaded = fgrad.load(tmp_path / "f.fgx", trust=trust)
    assert loaded.is_native == trust
    assert all([same(loaded(*args), expected) for _ in range(CALLS)])


def _matrix() -> np.ndarray:
    return np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]])


@fgrad.custom_vjp
def _ruled(x: Any) -> Any:
    return np.sin(x)


_ruled.defvjp(lambda x: (np.sin(x), x), lambda r, g: (g * 7.0,))
TABLE = np.arange(600.0).reshape(20, 30)

# What it computes, its arguments, and whether there is machine code of it.
KINDS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], bool]] = {
    "solve": (np.linalg.solve, (_matrix(), np.ones(3)), True),
    "cholesky": (np.linalg.cholesky, (np.stack([_matrix()] * 2),), True),
    "a stack": (np.linalg.solve, (np.stack([_matrix()] * 9), np.ones((9, 3, 2))), True),
    "factors of a stack": (
        lambda a: tuple(np.linalg.qr(a)),
        (np.stack([_matrix() + 1j] * 9),),
        True,
    ),
    "eigenvalues": (lambda a: np.linalg.eigh(a)[0], (_matrix(),), True),
    "matrix and vector": (lambda a, x: a @ x, (np.ones((300, 300)), np.ones(300)), True),
    "captured array": (lambda x: TABLE @ x, (np.ones(30),), True),
    "complex": (lambda x: np.exp(1j * x) * (x + 2j), (np.ones(9),), True),
    "float16": (lambda x: np.tanh(x) * 2, (np.ones(9, np.float16),), True),
    "truth values": (lambda x: (x > 0) & (x < 2), (np.ones(9),), True),
    "no elements": (lambda x: x * 2, (np.zeros((0, 3)),), True),
    "sorted": (lambda x: np.sort(x), (np.arange(900.0)[::-1].copy(),), True),
    "running sum": (np.cumsum, (np.ones(500),), True),
    "random": (lambda k: fgrad.random.normal(k, (5,)), (fgrad.random.key(3),), True),
    "Python numbers": (lambda x, n: x * n, (2.5, 3), True),
    "own arguments": (lambda x, n: (x, 2.0, None, {"b": [n], "a": x}), (np.ones(3), 4), True),
    "rules of one's own": (_ruled, (np.ones(3),), True),
    "several threads": (lambda x: np.sum(np.exp(x)), (np.ones(1_000_000),), True),
    "Fourier transform": (lambda x: np.fft.fft(x).real, (np.ones(8),), False),
    "function of SciPy": (special.j0, (np.ones(8),), False),
}


@TRUST
@pytest.mark.parametrize("name", KINDS)
def test_kinds_of_programs(name: str, trust: bool, tmp_path: Path) -> None:
    f, args, has_code = KINDS[name]
    jitted = fgrad.jit(f)
    fgrad.export(jitted, *args, path=tmp_path / "f.fgx")
    loaded = fgrad.load(tmp_path / "f.fgx", trust=trust)
    assert loaded.is_native == (trust and has_code)
    assert all([same(loaded(*args), jitted(*args)) for _ in range(CALLS)])


@TRUST
def test_failures_are_raised(trust: bool, tmp_path: Path) -> None:
    fgrad.export(np.linalg.solve, _matrix(), np.ones(3), path=tmp_path / "f.fgx")
    loaded = fgrad.load(tmp_path / "f.fgx", trust=trust)
    for _ in range(CALLS):
        with pytest.raises(np.linalg.LinAlgError, match="Singular"):
            loaded(np.zeros((3, 3)), np.ones(3))
        assert np.isfinite(loaded(_matrix(), np.ones(3))).all()


# What may fail; one step is all of most of these programs.
MAY_FAIL: dict[str, Callable[..., Any]] = {
    "alone": lambda a, b: np.linalg.cholesky(a),
    "with another result": lambda a, b: (np.linalg.cholesky(a), 2.0),
    "results": lambda a, b: (a, np.linalg.cholesky(a), a),
    "a stack": lambda a, b: np.linalg.cholesky(np.stack([a] * 3)),
    "inverse": lambda a, b: np.linalg.inv(a),
    "eigenvalues": lambda a, b: np.linalg.eigvalsh(a),
}


@TRUST
@pytest.mark.parametrize("name", MAY_FAIL)
def test_failures_leave_other_arguments_as_they_are(name: str, trust: bool, tmp_path: Path) -> None:
    f = MAY_FAIL[name]
    fgrad.export(f, _matrix(), np.ones(3), path=tmp_path / "f.fgx")
    loaded, other = fgrad.load(tmp_path / "f.fgx", trust=trust), np.ones(3)
    for _ in range(CALLS):
        if name != "eigenvalues":
            with pytest.raises(np.linalg.LinAlgError):
                loaded(-_matrix() if name != "inverse" else np.zeros((3, 3)), other)
        assert same(loaded(_matrix(), other), fgrad.jit(f)(_matrix(), other))
        assert np.all(other == 1.0)


@TRUST
def test_derivatives_of_loaded_programs(trust: bool, tmp_path: Path) -> None:
    def f(w: Any, x: Any) -> Any:
        return np.sum(np.tanh(x @ w) ** 2)

    w, x = np.array([0.5, -1.0]), np.array([[1.0, 2.0], [0.25, -1.0]])
    fgrad.export(f, w, x, path=tmp_path / "f.fgx")
    loaded = fgrad.load(tmp_path / "f.fgx", trust=trust)
    np.testing.assert_allclose(fgrad.grad(loaded)(w, x), fgrad.grad(f)(w, x), rtol=1e-12)
    mapped = fgrad.vmap(loaded, in_axes=(0, None))(np.stack([w, w]), x)
    np.testing.assert_allclose(mapped, [f(w, x)] * 2, rtol=1e-12)


@TRUST
def test_rules_of_derivatives_are_not_forgotten_in_silence(trust: bool, tmp_path: Path) -> None:
    fgrad.export(_ruled, np.float64(1.0), path=tmp_path / "f.fgx")
    loaded = fgrad.load(tmp_path / "f.fgx", trust=trust)
    with pytest.raises(ExportError, match="rules of yours"):
        fgrad.grad(loaded)(np.float64(1.0))


def test_file_is_the_same_each_time(tmp_path: Path) -> None:
    for name in ("a", "b"):
        fgrad.export(lambda x: np.sin(x) @ TABLE, np.ones(20), path=tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_without_targets_there_is_no_machine_code(tmp_path: Path) -> None:
    small = fgrad.export(np.sin, np.ones(3), path=tmp_path / "f", targets=())
    assert small < fgrad.export(np.sin, np.ones(3), path=tmp_path / "g")
    assert not fgrad.load(tmp_path / "f", trust=True).is_native


class Pair(tuple[Any, Any]):
    """A container that a file cannot name."""

    __slots__ = ()


fgrad.tree.register_node(Pair, lambda p: (tuple(p), None), lambda _, xs: Pair(xs))


def _writes(x: Any) -> Any:
    x[0] = 1.0
    return x


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "calls Python": (
        lambda: fgrad.jit(lambda x: fgrad.pure_callback(lambda y: y * 2, x, x)), "pure_callback"),
    "writes": (lambda: _writes, "writes into its arguments"),
    "container": (lambda: lambda x: Pair((x, x)), "Pair"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_file_can_hold(name: str, tmp_path: Path) -> None:
    make, words = REFUSED[name]
    with pytest.raises(ExportError, match=words):
        fgrad.export(make(), np.ones(3), path=tmp_path / "f")
    assert not (tmp_path / "f").exists()


def test_static_arguments_are_refused(tmp_path: Path) -> None:
    f = fgrad.jit(lambda x, n: x * len(n), static_argnums=1)
    with pytest.raises(ExportError, match="static"):
        fgrad.export(f, np.ones(3), "abc", path=tmp_path / "f")


def test_unknown_targets_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="no target"):
        fgrad.export(np.sin, np.ones(3), path=tmp_path / "f", targets=("moon",))


def test_cards_name_the_line(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"test_export\.py:\d+"):
        fgrad.export(REFUSED["calls Python"][0](), np.ones(3), path=tmp_path / "f")


WRONG: dict[str, tuple[Any, ...]] = {
    "shape": ({"w": np.ones(4)}, 2.0),
    "dtype": ({"w": np.ones(3, np.float32)}, 2.0),
    "list for array": ({"w": [1.0, 2.0, 3.0]}, 2.0),
    "key": ({"v": np.ones(3)}, 2.0),
    "no dictionary": (np.ones(3), 2.0),
    "one argument": ({"w": np.ones(3)},),
    "integer for float": ({"w": np.ones(3)}, 2),
}


@TRUST
@pytest.mark.parametrize("name", WRONG)
def test_other_arguments_are_refused(name: str, trust: bool, tmp_path: Path) -> None:
    args = {"w": np.ones(3)}, 2.0
    fgrad.export(lambda p, s: p["w"] * s, *args, path=tmp_path / "f")
    loaded = fgrad.load(tmp_path / "f", trust=trust)
    for _ in range(CALLS):
        loaded(*args)
        with pytest.raises(ArgumentError, match="not fit"):
            loaded(*WRONG[name])


@TRUST
def test_layouts_of_arguments(trust: bool, tmp_path: Path) -> None:
    x = np.arange(12.0).reshape(3, 4)
    fgrad.export(lambda x: x * 2 + 1, x, path=tmp_path / "f")
    loaded = fgrad.load(tmp_path / "f", trust=trust)
    other = np.asfortranarray(x), np.repeat(x, 2, axis=1)[:, ::2], x[::-1][::-1]
    assert all([same(loaded(y), x * 2 + 1) for y in other for _ in range(CALLS)])


@pytest.mark.parametrize("trust", [False, True])
def test_arrays_with_other_arithmetic_are_refused(trust: bool, tmp_path: Path) -> None:
    x = np.arange(4.0)
    fgrad.export(lambda x: np.sum(x * x), x, path=tmp_path / "f")
    loaded = fgrad.load(tmp_path / "f", trust=trust)
    for _ in range(3):  # the later calls are native
        assert loaded(x) == 14.0
        with pytest.raises(UnsupportedTypeError, match=r"argument \[0\] is a numpy MaskedArray"):
            loaded(np.ma.masked_array(x, [0, 1, 0, 0]))


def test_altered_files(tmp_path: Path) -> None:
    found = run(200)
    assert sum(found.values()) == 200
    assert not [name for name in found if name.startswith("raw") and "refused" not in name]


def test_other_formats_and_processors(tmp_path: Path) -> None:
    path = tmp_path / "f"
    fgrad.export(np.sin, np.ones(3), path=path)
    data = path.read_bytes()
    path.write_bytes(data[:8] + b"\x07\0\0\0" + data[12:])
    with pytest.raises(ExportError, match="format 7"):
        fgrad.load(path)
    head, body = parts(data)
    head["machine"][0].update(processor="another", target=["sparc-sun-solaris", "x", "+y"])
    path.write_bytes(sealed(json.dumps(head).encode(), body))
    loaded = fgrad.load(path, trust=True)
    assert not loaded.is_native
    assert same(loaded(np.ones(3)), np.sin(np.ones(3)))


def test_trusted_files_load_no_compiler(tmp_path: Path) -> None:
    path = tmp_path / "f.fgx"
    fgrad.export(fgrad.value_and_grad(lambda x: np.sum(np.sin(x @ TABLE))), np.ones(20), path=path)
    code = (
        "import sys, numpy as np, fgrad\n"
        f"f = fgrad.load({str(path)!r}, trust=True)\n"
        "value, slope = f(np.ones(20))\n"
        "heavy = ('llvmlite', 'scipy', 'fgrad.compile.pipeline', 'fgrad.compile.llvm.runtime',\n"
        "         'optree', 'fgrad.trace', 'fgrad.numpy', 'fgrad.ops', 'fgrad.errors', 'json',\n"
        "         'fgrad.base.keywords', 'fgrad.base.source', 'fgrad.compile.llvm.interrupts')\n"
        "print([m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True
    )
    assert done.stdout.strip() == "[]"


LOAD_ALL = """
import pathlib, sys
import numpy as np
import fgrad
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.fgx")):
    try:
        fgrad.load(path)
    except Exception as error:
        print(path.name, error)
"""


def test_other_processes_know_all_operations(tmp_path: Path, rng: np.random.Generator) -> None:
    """A fresh process has imported few of the modules that define primitives."""
    for name, (f, make) in PROGRAMS.items():
        fgrad.export(f, *make(rng), path=tmp_path / f"{name}.fgx", targets=())
    for name, (f, args, _) in KINDS.items():
        fgrad.export(f, *args, path=tmp_path / f"{name}.fgx", targets=())
    done = subprocess.run(
        [sys.executable, "-c", LOAD_ALL, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout == ""


DERIVE = """
import sys
import numpy as np
import fgrad
f = fgrad.load(sys.argv[1], trust=sys.argv[2] == "1")
x = np.arange(6.0)
print(*fgrad.grad(f)(x), *fgrad.vmap(f)(np.stack([x, -x])), fgrad.jvp(f, (x,), (x,))[1])
"""


@pytest.mark.parametrize("trust", [0, 1])
def test_loops_have_rules_in_other_processes(tmp_path: Path, trust: int) -> None:
    def f(x: Any) -> Any:
        s = 1.0
        for v in x:
            s = s * 0.5 + np.sin(v) if v > 1 else s + v * v
        return s

    path, x = tmp_path / "f.fgx", np.arange(6.0)
    fgrad.export(f, x, path=path)
    done = subprocess.run(
        [sys.executable, "-c", DERIVE, str(path), str(trust)],
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    right = [*fgrad.grad(f)(x), f(x), f(-x), fgrad.jvp(f, (x,), (x,))[1]]
    np.testing.assert_allclose([float(word) for word in done.stdout.split()], right, rtol=1e-12)


def test_modules_of_operations_are_listed() -> None:
    folders = tuple([f"{package}." for package in ("fgrad.ops", *PACKAGES)])
    refused = "fgrad.transforms.custom.callback"
    modules = {p.module for p in REGISTRY.values() if (p.module or "").startswith("fgrad.")}
    homeless = [m for m in modules if m and not m.startswith(folders) and m not in MODULES]
    assert [m for m in homeless if m != refused] == []


JSON = [
    "",
    "{",
    "[1]x",
    "NaN",
    "[" * 100_000,
    '{"a":1}}',
    '"a',
    "[1,",
    "{1:2}",
    "nul",
    "\x00",
    " 1",
]


@pytest.mark.parametrize("text", JSON, ids=[f"case {k}" for k in range(len(JSON))])
def test_what_is_no_json(text: str) -> None:
    """In a process without the package `json`, which defines the scanner's error."""
    code = (
        "import sys\n"
        "from fgrad.aot.files import parsed\n"
        "assert 'json' not in sys.modules\n"
        "try:\n    parsed(sys.stdin.read())\n"
        "except (ValueError, RecursionError):\n    print('refused')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=text, capture_output=True, text=True, check=True
    )
    assert done.stdout == "refused\n"


def test_json_is_read() -> None:
    assert parsed('{"a":[1,2.5,-3,null,true,"x"],"b":{}}  ') == {
        "a": [1, 2.5, -3, None, True, "x"], "b": {}
    }  # fmt: skip


class AlarmError(Exception):
    """What the handler of a signal raises."""


@TRUST
def test_loops_end_by_signals(trust: bool, tmp_path: Path) -> None:
    def settle(x: Any, limit: Any) -> Any:
        return lax.while_loop(lambda y: np.min(y) < limit, lambda y: np.sqrt(y * 1.5), x)

    def ring(_signal: int, _frame: Any) -> None:
        raise AlarmError

    x = np.full(300, 0.5)
    fgrad.export(settle, x, 1.0, path=tmp_path / "f")
    loaded = fgrad.load(tmp_path / "f", trust=trust)
    for _ in range(CALLS):
        loaded(x, 1.0)
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(AlarmError):
            loaded(x, 2.0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert same(loaded(x, 1.0), fgrad.jit(settle)(x, 1.0))


def test_missing_file() -> None:
    with pytest.raises(OSError, match="nothing"):
        fgrad.load("nothing/of/this/name.fgx")
