"""Long reductions in two kernels: the numbers stay, whatever the number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_oracle import Oracle

import fgrad
from fgrad.compile.fuse import columns as fuse_columns
from fgrad.compile.kernel.ir import Kernel
from fgrad.compile.kernel.text import parse_kernel
from fgrad.compile.pipeline import compile_program
from fgrad.compile.schedule import loop_fission, split_steps
from fgrad.compile.tasks.steps import KernelStep
from fgrad.config import config
from fgrad.ir.aval import Aval, aval_of
from fgrad.ir.program import Var
from fgrad.trace import run, trace

# An accumulator begins with a number, of which there is one, however many blocks there are.
START = """kernel k(x: in {dtype}[35], y: out {dtype}[1])
  acc s = {op} {dtype} {start}
  reduce i in 35:
    %0 = load x[i]
    update s %0
  %1 = read s
  store y[0] %1
"""
RNG = np.random.default_rng(0)
LONG = RNG.normal(size=1_200_007)


def kernels(fun: Any, *args: Any) -> int:
    """How many kernels a function needs, after comparing it with the interpreter."""
    program = trace(lambda *xs: fgrad.tree.leaves(fun(*xs)), [aval_of(x) for x in args]).program
    compiled = compile_program(program)
    with np.errstate(all="ignore"):
        expected = run(program, args)
    for a, e in zip(compiled.executable(args), expected, strict=True):
        assert (np.shape(a), np.asarray(a).dtype) == (np.shape(e), np.asarray(e).dtype)
        np.testing.assert_allclose(a, e, 1e-5 if np.asarray(e).dtype == np.float32 else 1e-11)
    steps = next(s.result for s in compiled.stages if s.name == "loop_fission")
    return sum([isinstance(step, KernelStep) for step in steps])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize("name", ["sum", "max", "min", "any"])
def test_whole_arrays(dtype: Any, name: str) -> None:
    x = (10 * LONG).astype(dtype)
    assert kernels(lambda x: getattr(np, name)(x), x) == 2


def test_short_ones_stay() -> None:
    assert kernels(lambda x: np.sum(x), LONG[:100_000].copy()) == 1


def test_several_axes() -> None:
    x = LONG[:1_200_000].reshape(3, 400_000)
    assert kernels(lambda x: np.sum(np.exp(x)), x) == 2
    assert kernels(lambda x: np.sum(x.T * 2), LONG[:1_200_000].reshape(1200, 1000)) == 2


def test_a_value_and_its_gradient() -> None:
    def loss(x: Any, y: Any) -> Any:
        return np.mean(np.log1p(np.exp(-x * y)))

    y = np.sign(LONG)
    assert kernels(fgrad.value_and_grad(loss), LONG, y) == 2


def test_several_sums_and_what_follows() -> None:
    def f(x: Any) -> Any:
        return np.sum(x) / np.sqrt(np.sum(x * x)) + np.max(x), np.sin(x)

    kernels(f, LONG.astype(np.float32))


@pytest.mark.parametrize("place", [0, 599_999, 1_200_006])
def test_not_a_number_and_infinity(place: int) -> None:
    for value in (np.nan, np.inf, -np.inf):
        x = LONG.copy()
        x[place] = value
        kernels(lambda x: (np.max(x), np.min(x), np.sum(x)), x)


def test_sums_are_as_accurate_as_before() -> None:
    x = np.random.default_rng(1).uniform(size=10_000_019).astype(np.float32)
    exact = np.sum(x, dtype=np.float64)
    assert abs(float(fgrad.jit(np.sum)(x)) - exact) <= np.spacing(np.float32(exact))


def test_results_do_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for threads in (1, 2, 3):
        monkeypatch.setattr(config, "num_threads", threads)
        found.append(fgrad.jit(lambda x: np.sum(np.sin(x)))(LONG))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("shape", [(300, 3001), (1031, 770), (1024, 1030)], ids=str)
def test_ragged_transposes_are_shared_by_parts(shape: tuple[int, int]) -> None:
    x = LONG[: shape[0] * shape[1]].reshape(shape).copy()
    x[-1, -1], x[0, -1], x[-1, 0] = np.nan, np.inf, -0.0
    y = RNG.normal(size=shape[0])
    assert kernels(lambda x, y: x.T * (y * 2) - 1, x, y) > 1


def test_large_concatenations() -> None:
    x = LONG[:900_000].reshape(900, 1000)
    assert kernels(lambda x: np.concatenate([x * 2, x[:333], -x], axis=0), x) > 1
    assert kernels(lambda x: np.concatenate([x, x[:, :77]], axis=1), x) > 1


@pytest.mark.parametrize("shape", [(50, 50), (17, 33), (9, 130)], ids=str)
def test_numbers_between_the_loops_of_a_transpose(shape: tuple[int, int]) -> None:
    x, rows, columns = (RNG.normal(size=s) for s in (shape, shape[0], shape[1]))
    x[0, 0] = np.nan
    assert kernels(lambda x, r, c: c[:, None] * x.T * r, x, rows, columns) == 1
    assert kernels(lambda x, r, c: np.exp(c)[:, None] * x.T + (r + 1), x, rows, columns) <= 3


@pytest.fixture
def cut_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small arrays are cut like large ones."""
    monkeypatch.setattr(loop_fission, "FISSION_CYCLES", 0)
    monkeypatch.setattr(fuse_columns, "LEAST_BYTES", 0)
    monkeypatch.setattr(fuse_columns, "LEAST_ROWS", 2)
    monkeypatch.setattr(fuse_columns, "BLOCKS", 4)
    for name, value in (("LEAST_COST", 0), ("BLOCK", 2), ("MOST_BLOCKS", 3)):
        monkeypatch.setattr(split_steps, name, value)


def _some(shape: tuple[int, ...], seed: int) -> np.ndarray:
    x = np.random.default_rng(seed).normal(size=shape)
    x.flat[seed % x.size] = np.nan
    return x


@pytest.mark.usefixtures("cut_everything")
@pytest.mark.parametrize("shape", [(8, 12), (12, 5), (7, 9), (2, 6, 10), (4, 3, 2, 5)], ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_every_cut_on_small_arrays(shape: tuple[int, ...], seed: int) -> None:
    x, y = _some(shape, seed), _some(shape, seed + 7)
    leading = tuple(range(len(shape) - 1))

    def f(x: Any, y: Any) -> Any:
        z = np.tanh(x) * y
        row = np.sum(z, axis=-1, keepdims=True)
        rest = z / (1 + row * row)
        sums = np.sum(rest, axis=leading) + np.max(x * y, axis=leading)
        return rest, sums, np.sum(z), np.max(x), np.concatenate([x, rest], axis=0), (x * sums).T

    kernels(f, x, y)


def _after_split(kernel: Kernel, arrays: list[np.ndarray]) -> int:
    """Run the kernels that a kernel becomes; returns how many there are."""
    step = KernelStep(kernel, tuple([Var(Aval(x.shape, x.dtype)) for x in arrays]))
    memory = dict(zip(step.args, arrays, strict=True))
    steps = split_steps.split_steps([step])
    for part in steps:
        assert isinstance(part, KernelStep)
        buffers = [memory.setdefault(v, np.zeros(v.aval.shape, v.aval.dtype)) for v in part.args]
        Oracle(part.kernel, buffers)
    return len(steps)


@pytest.mark.usefixtures("cut_everything")
@pytest.mark.parametrize("dtype", ["f32", "f64", "i64"])
@pytest.mark.parametrize("op, start", [("add", 5), ("mul", 3), ("max", 1), ("min", -1)])
def test_a_start_that_is_not_the_identity_counts_once(op: str, start: int, dtype: str) -> None:
    number = str(start) if dtype == "i64" else f"{start}.0"
    kernel = parse_kernel(START.format(op=op, start=number, dtype=dtype))
    kinds = {"f32": np.float32, "f64": np.float64, "i64": np.int64}
    x = RNG.integers(1, 4, 35).astype(kinds[dtype])
    whole, parts = ([x, np.zeros(1, x.dtype)] for _ in range(2))
    Oracle(kernel, whole)
    assert _after_split(kernel, parts) == 2
    np.testing.assert_allclose(parts[1], whole[1], 1e-6)


@pytest.mark.usefixtures("cut_everything")
def test_rows_behind_the_last_block_are_a_kernel_of_their_own() -> None:
    """Three loops hand each other a row of sums; threads share the blocks before them."""
    x = RNG.normal(size=(70, 600))
    assert kernels(lambda x: (np.sum(x, 0), np.sum(x, 1)), x) == 3
