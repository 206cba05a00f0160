"""Forms of kernels: threads wait where they could meet, indices have room, all sizes are right.

Sizes are around multiples of vectors, warps and blocks.  FGRAD_CUDA_ALL=1 runs all of them in all
dtypes.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator

import numpy as np
import pytest
from emulator.driver import StubDriver
from kernel_runs import check_launches
from real_device import real_device_or
from size_cases import EVERY, SIZE_CASES, SizeCase

import fgrad
from fgrad.compile.kernel.text import parse_kernel
from fgrad.lower_cuda.emit import body as emit_body
from fgrad.lower_cuda.emit.calls import KernelCall
from fgrad.lower_cuda.schedule import _launches, launches, schedule

# In another turn of the serial loop an element is of another thread.
OVERLAP = """kernel k(x: in f32[640], y: inout f32[80])
  serial t in 10:
    parallel j in 64:
      %0 = load x[j + 64*t]
      store y[j + t] add= %0
"""
# A turn may not write before all threads have read in the turn before.
TURNS = """kernel k(x: in f32[640], tmp: scratch f32[64], y: out f32[640])
  serial t in 10:
    parallel i in 64:
      %0 = load x[i + 64*t]
      store tmp[i] %0
    parallel j in 64:
      %1 = load tmp[-1*j + 63]
      store y[j + 64*t] %1
"""
# Every turn keeps elements of its own.
HISTORY = """kernel k(x: in f32[640], tmp: scratch f32[640], y: out f32[640])
  serial t in 10:
    parallel i in 64:
      %0 = load x[i + 64*t]
      store tmp[i + 64*t] %0
  serial t in 10:
    parallel j in 64:
      %1 = load tmp[j + 64*t]
      store y[j + 64*t] %1
"""
# What each lane keeps in registers is added to.
SUMS = """kernel k(x: in f32[640], tmp: scratch f32[64], y: out f32[64])
  %0 = const f32 0.0
  parallel i in 64:
    store tmp[i] %0
  serial t in 10:
    parallel i in 64:
      %1 = load x[i + 64*t]
      store tmp[i] add= %1
  parallel j in 64:
    %2 = load tmp[j]
    store y[j] %2
"""
# A loop is left after a read of what is written then.
LEAVE = """kernel k(x: in i64[64], tmp: scratch i64[64], y: out i64[64])
  %0 = const i64 3
  parallel i in 64:
    %1 = load x[i]
    store tmp[i] %1
  while w in 1:
    %2 = load tmp[0]
    %3 = ge bool %2 %0
    break if %3
    parallel j in 64:
      %4 = load tmp[j]
      %5 = const i64 1
      %6 = add i64 %4 %5
      store tmp[j] %6
  parallel k in 64:
    %7 = load x[k]
    store tmp[-1*k + 63] %7
  parallel l in 64:
    %8 = load tmp[l]
    store y[l] %8
"""
# Both kernels of a long sum begin with a number; it counts once.
START = """kernel k(x: in f64[200000], y: out f64[1])
  acc s = add f64 5.0
  reduce i in 200000:
    %0 = load x[i]
    update s %0
  %1 = read s
  store y[0] %1
"""
# All threads must have the number before one of them writes over it.
BEFORE = """kernel k(y: inout f32[1000])
  %0 = load y[0]
  parallel i in 1000:
    %1 = load y[i]
    %2 = sub f32 %1 %0
    store y[i] %2
"""
# Numbers of 64 bits from few threads.
LARGE_INDEX = """kernel k(y: out i64[50])
  parallel i in 50:
    %0 = index i64 {stride}*i + 5
    store y[i] %0
"""


@pytest.mark.parametrize(
    "text", [OVERLAP, TURNS, HISTORY, SUMS], ids=["overlap", "turns", "history", "sums"]
)
@pytest.mark.parametrize("seed", range(3))
def test_turns_of_a_serial_loop(text: str, seed: int) -> None:
    check_launches(text, seed=seed)
    wider = text.replace("64", "128").replace("63", "127").replace("80", "138")
    check_launches(wider, seed=seed)


@pytest.mark.parametrize("size", [32, 64, 100, 1024, 1025])
def test_a_loop_is_left_after_a_read(size: int) -> None:
    check_launches(LEAVE.replace("64]", f"{size}]").replace("63", str(size - 1))
                   .replace("in 64", f"in {size}"), seed=size)  # fmt: skip


def test_a_long_sum_begins_once() -> None:
    assert len(check_launches(START, native=True).calls) == 2


@pytest.mark.parametrize("seed", range(3))
def test_a_number_is_read_before_it_is_written_over(seed: int) -> None:
    check_launches(BEFORE, seed=seed)


@pytest.mark.parametrize("stride", [100_000_000, 10_000_000_000, -(1 << 33)])
def test_large_indices_as_numbers(stride: int) -> None:
    check_launches(LARGE_INDEX.format(stride=stride))


def test_a_large_scratch_area_has_long_indices() -> None:
    text = """kernel k(x: in f32[200000], tmp: scratch f32[40000], y: out f32[100000])
  parallel i in 100000:
    parallel j in 40000:
      %0 = load x[i + j]
      store tmp[j] %0
    acc s = max f32 0.0
    reduce k in 40000:
      %1 = load tmp[-1*k + 39999]
      update s %1
    %2 = read s
    store y[i] %2
"""
    calls = launches(schedule(parse_kernel(text)))
    assert max(calls.scratch) > 1 << 31
    first = calls.calls[0]
    assert isinstance(first, KernelCall) and "mul i64" in first.body


# Sizes.

ALL = os.environ.get("FGRAD_CUDA_ALL") == "1"
SIZES = [0, 1, 2, 3, 5, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 1000, 1023, 1024, 1025, 4096,
         4099] if ALL else [33, 1025]  # fmt: skip
TOLERANCE = {"e": 2e-2, "f": 5e-5, "d": 1e-10, "F": 5e-5, "D": 1e-10}


@pytest.fixture(scope="module")
def device() -> Iterator[StubDriver]:
    """A stub, or the machine's device."""
    made = StubDriver()
    with real_device_or(made):
        yield made


def arguments(case: SizeCase, size: int, dtype: str) -> list[np.ndarray]:
    """Random arrays for a row."""
    rng = np.random.default_rng(size + zlib.adler32(case.name.encode()))
    shapes = case.shapes(size)
    if dtype in "FD":
        return [(rng.normal(size=s) + 1j * rng.normal(size=s)).astype(dtype) for s in shapes]
    if dtype in "efd":
        return [rng.normal(size=s).astype(dtype) for s in shapes]
    low, high = (0 if dtype in "?BHIL" else -9), (2 if dtype == "?" else 10)
    return [rng.integers(low, high, s).astype(dtype) for s in shapes]


def check(case: SizeCase, size: int, dtype: str) -> None:
    """Both devices give the same."""
    args = arguments(case, size, dtype)
    with np.errstate(all="ignore"):
        wanted = fgrad.tree.leaves(fgrad.jit(case.fun)(*args))
        found = fgrad.tree.leaves(fgrad.jit(case.fun, device="cuda")(*args))
    for got, want in zip(found, wanted, strict=True):
        got, want = got.numpy(), np.asarray(want)
        assert got.shape == want.shape and got.dtype == want.dtype
        if want.dtype.kind in "fc":
            tol = TOLERANCE[dtype if dtype in TOLERANCE else "d"]
            scale = float(np.abs(want[np.isfinite(want)]).max(initial=1.0))
            np.testing.assert_allclose(got, want, tol, tol * scale)
        else:
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    "case, dtype",
    [(c, t) for c in SIZE_CASES for t in (c.dtypes if ALL else c.dtypes[:1])],
    ids=lambda x: x if isinstance(x, str) else x.name,
)
def test_sizes(device: StubDriver, case: SizeCase, dtype: str) -> None:
    for size in SIZES:
        if size >= case.least:
            check(case, size, dtype)


@pytest.mark.parametrize("dtype", EVERY)
def test_dtypes(device: StubDriver, dtype: str) -> None:
    check(SIZE_CASES[0], 1025, dtype)


@pytest.mark.parametrize("case", SIZE_CASES[:: 1 if ALL else 8], ids=lambda c: c.name)
def test_long_indices(device: StubDriver, case: SizeCase, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bodies are right with indices of 64 bits, which large arrays need."""
    monkeypatch.setattr(emit_body, "_is_wide", lambda *_: True)
    _launches.cache_clear()
    check(case, 129, case.dtypes[-1])
    _launches.cache_clear()
