"""Loops split where their predicates change: the values stay NumPy's, and few loops stand there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kernel_oracle import compare, fill

import fgrad
from fgrad.compile.kernel.ir import Kernel, Load, Loop
from fgrad.compile.kernel.predicates import LEAST_PIECE, MOST_PIECES
from fgrad.compile.kernel.rewrite import walk
from fgrad.compile.kernel.text import parse_kernel
from fgrad.compile.schedule.order import schedule

DTYPES = ["f4", "f8", "i4", "u1", "?", "f2"]
GUARDED = """
kernel k(b0: in f64[{n}], b1: out f64[{m}])
  %0 = const i64 {limit}
  %1 = const f64 2.5
  {kind} i in {m}:
    %2 = index i64 {place}
    %3 = {op} bool %2 %0
    %4 = load b0[i] if %3 else 7
    %5 = select f64 %3 %4 %1
    store b1[i] %5 if %3
"""


def predicated(kernel: Kernel) -> int:
    """How many loads of the kernel have a predicate."""
    return sum([isinstance(s, Load) and s.predicate is not None for s in walk(kernel.body)])


def loops(kernel: Kernel) -> int:
    """How many loops contain no other."""
    found = [s for s in walk(kernel.body) if isinstance(s, Loop)]
    return sum([not any([isinstance(s, Loop) for s in loop.body]) for loop in found])


def kernels(fun: Callable[..., Any], *args: Any) -> tuple[Kernel, ...]:
    """The scheduled kernels of a function, whose result is NumPy's."""
    np.testing.assert_array_equal(fgrad.jit(fun)(*args), fun(*args))
    return fgrad.inspect(fun)(*args).kernels


@pytest.mark.parametrize("seed", range(24))
def test_pads(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 4))
    shape = tuple(int(rng.choice([0, 1, 2, 5, 63, 64, 130][rank - 1 :])) for _ in range(rank))
    width = [tuple(map(int, rng.integers(0, 6, 2))) for _ in range(rank)]
    x = fill(rng, int(np.prod(shape)), np.dtype(DTYPES[seed % 6])).reshape(shape)
    y = np.pad(x, width)

    def f(x: Any, y: Any) -> Any:
        return np.pad(x, width, constant_values=1) != y, np.pad(x[..., ::-1], width)

    for a, e in zip(fgrad.jit(f)(x, y), f(x, y), strict=True):
        np.testing.assert_array_equal(a, e)


@pytest.mark.parametrize("seed", range(12))
def test_concatenations_in_formulas(seed: int) -> None:
    rng = np.random.default_rng(seed)
    axis, count = int(rng.integers(2)), int(rng.integers(1, 6))
    sizes = [int(rng.choice([0, 1, 3, 64, 100])) for _ in range(count)]
    shapes = [(n, 9) if axis == 0 else (9, n) for n in sizes]
    xs = [fill(rng, n * 9, np.dtype("f8")).reshape(s) for n, s in zip(sizes, shapes, strict=True)]

    def f(*xs: Any) -> Any:
        joined = np.concatenate(xs, axis)
        return np.pad(joined, 2)[1:-1] * 3, np.stack([joined, -joined], axis)[..., ::2]

    for a, e in zip(fgrad.jit(f)(*xs), f(*xs), strict=True):
        np.testing.assert_array_equal(a, e)


@pytest.mark.parametrize("op", ["lt", "le", "gt", "ge"])
@pytest.mark.parametrize("place", ["i", "-3 + i", "200 + -2*i", "3*i"])
@pytest.mark.parametrize("limit", [-1, 0, 1, 100, 101, 1000])
@pytest.mark.parametrize("kind", ["parallel", "serial"])
def test_comparisons(op: str, place: str, limit: int, kind: str) -> None:
    text = GUARDED.format(n=150, m=150, op=op, place=place, limit=limit, kind=kind)
    rng = np.random.default_rng(0)
    compare(parse_kernel(text), [rng.normal(size=150), rng.normal(size=150)], 0)


def test_predicates_of_pads_are_gone() -> None:
    x = np.arange(300.0)
    (kernel,) = kernels(lambda x: np.pad(x, (3, 4)) * 2, x)
    assert (predicated(kernel), loops(kernel)) == (0, 3)
    (kernel,) = kernels(lambda x: np.pad(x, ((1, 2), (3, 4))), np.ones((70, 80)))
    assert (predicated(kernel), loops(kernel)) == (0, 5)


def test_long_pads_become_a_kernel_for_each_piece() -> None:
    x = np.arange(700_000.0)

    def f(x: Any) -> Any:
        return np.pad(x, (3, 4), constant_values=1)

    np.testing.assert_array_equal(fgrad.jit(f)(x), f(x))
    assert len(fgrad.inspect(f)(x).passes["loop_fission"]) == 3


def test_arguments_given_away_are_read_before_they_are_written() -> None:
    def f(x: Any) -> Any:
        return np.pad(x[:-100], (100, 0)) + x

    x = np.arange(1000.0)
    (kernel,) = kernels(f, x)
    assert loops(kernel) == 2
    np.testing.assert_array_equal(fgrad.jit(f, donate_argnums=0)(x.copy()), f(x))


def test_short_rows_keep_their_predicates() -> None:
    x = np.ones((40, LEAST_PIECE - 1))
    (kernel,) = kernels(lambda x: np.pad(x, ((0, 0), (3, 4))), x)
    assert (predicated(kernel), loops(kernel)) == (1, 1)


def test_many_cases_leave_one_long_loop() -> None:
    def f(x: Any) -> Any:
        return sum([np.pad(x, (k, 6 - k)) for k in range(7)])

    (kernel,) = kernels(f, np.arange(500.0))
    assert loops(kernel) == 3 < MOST_PIECES


def test_sums_are_not_split() -> None:
    (kernel,) = kernels(lambda x: np.max(np.pad(x, (3, 4))), np.arange(500.0))
    assert loops(kernel) == 1


def test_kernels_without_predicates_stay() -> None:
    text = "kernel k(b0: in f64[9], b1: out f64[9])\n  parallel i in 9:\n    %0 = load b0[i]\n"
    kernel = parse_kernel(text + "    store b1[i] %0\n")
    assert [s.axis for s in walk(schedule(kernel).body) if isinstance(s, Loop)] == ["i"]
