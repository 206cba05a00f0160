"""Loops without an extent in kernels, products that are added, and their invariants."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_oracle import Oracle, run_native

from fgrad.compile.kernel.check import check_kernel
from fgrad.compile.kernel.fuse_multiply_add import fuse_multiply_add
from fgrad.compile.kernel.ir import Kernel, Op
from fgrad.compile.kernel.rewrite import walk
from fgrad.compile.kernel.text import canonical, parse_kernel, print_kernel
from fgrad.errors import CheckError

DOUBLING = """kernel k(x: in f64[37], y: out f64[37], n: out i64[37])
  %9 = const f64 100.0
  %8 = const i64 1
  parallel i in 37 lanes LANES:
    %0 = load x[i]
    acc s = carry f64 %0
    acc c = carry i64 0
    while a in 1:
      %1 = read s
      %2 = gt bool %1 %9
      break if %2
      %3 = add f64 %1 %1
      %6 = read c
      %7 = add i64 %6 %8
      %4 = select f64 %2 %1 %3
      %10 = select i64 %2 %6 %7
      update s %4
      update c %10
    %5 = read s
    %11 = read c
    store y[i] %5
    store n[i] %11
"""


def agree(kernel: Kernel, arrays: list[np.ndarray], pieces: int = 1) -> list[np.ndarray]:
    """The arrays after the kernel as it is, equal to the oracle's."""
    check_kernel(kernel)
    expected, actual = [a.copy() for a in arrays], [a.copy() for a in arrays]
    Oracle(kernel, expected)
    run_native(kernel, actual, pieces)
    for want, got in zip(expected, actual, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-14)
    return actual


@pytest.mark.parametrize("lanes", [0, 4, 8, 16, 32])
@pytest.mark.parametrize("pieces", [1, 3])
def test_lanes_leave_together(lanes: int, pieces: int) -> None:
    kernel = parse_kernel(DOUBLING.replace(" lanes LANES", f" lanes {lanes}" if lanes else ""))
    assert parse_kernel(print_kernel(canonical(kernel))) == canonical(kernel)
    x = np.random.default_rng(0).uniform(0.01, 300.0, 37)
    _, y, n = agree(kernel, [x, np.zeros(37), np.zeros(37, np.int64)], pieces)
    np.testing.assert_array_equal(y, x * 2.0**n)
    assert (y > 100).all() and n.min() == 0


def test_loops_of_both_kinds_inside_of_each_other() -> None:
    """The sum of the steps that halving each number takes."""
    kernel = parse_kernel("""kernel k(x: in i64[5], y: out i64[1])
  %0 = const i64 1
  acc total = carry i64 0
  serial i in 5:
    %1 = load x[i]
    acc s = carry i64 %1
    while a in 1:
      %2 = read s
      %3 = le bool %2 %0
      break if %3
      %4 = shift_right i64 %2 %0
      update s %4
      %5 = read total
      %6 = add i64 %5 %0
      update total %6
  %7 = read total
  store y[0] %7
""")
    check_kernel(kernel)
    x, y = np.array([1, 8, 5, 0, 1000]), np.zeros(1, np.int64)
    run_native(kernel, [x, y])
    assert y[0] == 0 + 3 + 2 + 0 + 9


BROKEN = {
    "a while loop without a break": ("      break if %2\n", ""),
    "a break after an update": (
        "      break if %2\n      %3 = add f64 %1 %1\n",
        "      %3 = add f64 %1 %1\n      update s %3\n      break if %2\n",
    ),
    "an extent": ("while a in 1", "while a in 2"),
    "a leave in another loop": ("while a in 1", "serial a in 1"),
    "a number that is no bool": ("break if %2", "break if %1"),
    "its axis in an index": ("store y[i] %5", "store y[i] %5"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_invariants_of_while(name: str) -> None:
    old, new = BROKEN[name]
    text = DOUBLING.replace(" lanes LANES", "").replace(old, new)
    if name == "its axis in an index":
        text = text.replace("%6 = read c", "%6 = index i64 a")
    with pytest.raises(CheckError, match=r"K[37]"):
        check_kernel(parse_kernel(text))


CONTRACTED = {
    "%4 = add f64 %3 %2": ["muladd"],
    "%4 = add f64 %2 %3": ["muladd"],
    "%4 = sub f64 %3 %2": ["neg", "muladd"],
    "%4 = sub f64 %2 %3": ["neg", "muladd"],
    "%4 = add f64 %3 %3": ["mul", "add"],
    "%5 = mul f64 %0 %0\n    %4 = sub f64 %3 %5": ["mul", "mul", "sub"],
    "%4 = max f64 %3 %2": ["mul", "max"],
}


@pytest.mark.parametrize("line", CONTRACTED)
def test_products_that_are_added(line: str) -> None:
    text = f"""kernel k(x: in f64[8], y: in f64[8], z: in f64[8], r: out f64[8])
  parallel i in 8:
    %0 = load x[i]
    %1 = load y[i]
    %2 = load z[i]
    %3 = mul f64 %0 %1
    {line}
    store r[i] %4
"""
    rng = np.random.default_rng(1)
    kernel = fuse_multiply_add(parse_kernel(text))
    assert [s.op for s in walk(kernel.body) if isinstance(s, Op)] == CONTRACTED[line]
    agree(kernel, [*rng.normal(size=(3, 8)), np.zeros(8)])
