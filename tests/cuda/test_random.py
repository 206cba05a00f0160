"""Random kernels and random programs on a device that is not there give what a CPU gives.

Sizes are such that all forms occur: threads with whole and ragged vectors, teams of a warp and of
a block, tiles, long reductions in two passes, updates of computed places, scratch memory in
registers, shared memory and areas.  FGRAD_CUDA_RANDOM=n makes n kernels of each kind and n
programs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from defect_cases import updates
from emulator.driver import StubDriver
from emulator.libraries import StubLibraries
from hypothesis import HealthCheck, Phase, given, settings
from kernel_runs import arrays_of, check_launches
from random_kernels import KINDS, Maker
from random_programs import programs
from real_device import stub_device

from fgrad.compile.kernel.text import parse_kernel
from fgrad.compile.pipeline import compile_program
from fgrad.config import config
from fgrad.ir.program import Program
from fgrad.lower_cuda.device.array import on_device
from fgrad.lower_cuda.emit.calls import KernelCall
from fgrad.lower_cuda.emit.forms import form_of, ordered, pieces

COUNT = int(os.environ.get("FGRAD_CUDA_RANDOM", "12"))
EXTENTS = [1, 2, 3, 4, 5, 8, 16, 17, 31, 32, 33, 63, 64, 100, 127, 128, 129, 255, 256, 1000, 1023,
           1024, 1025, 2048, 4096, 5000, 20000, 70000]  # fmt: skip
LIMIT = 100_000  # elements of a kernel's iterations
STATES = [1, 3, 7, 31, 32, 33, 64, 100, 1000, 1025, 2048]
SHAPES = [(), (1,), (31,), (32,), (33,), (127,), (1000,), (1025,), (4099,), (40, 33), (64, 64),
          (33, 129), (5, 1000), (1000, 5), (2, 1025), (7, 16, 33), (16, 3, 64), (70000,),
          (128, 300), (3, 9000), (0,), (0, 7), (17, 4, 5, 6)]  # fmt: skip
TOLERANCE = {4: 1e-4, 8: 1e-9}
QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]


@pytest.mark.parametrize("seed", range(COUNT))
@pytest.mark.parametrize("kind", KINDS)
def test_kernels(kind: str, seed: int) -> None:
    maker = Maker(1000 + seed, EXTENTS, LIMIT, STATES)
    kernel = KINDS[kind](maker)
    halves = any([b.dtype == np.float16 for b in kernel.buffers])
    with np.errstate(all="ignore"):  # float16 overflows
        check_launches(kernel, maker.arrays, seed, 2e-2 if halves else 2e-5, native=True)


@pytest.mark.parametrize("dtype", ["f32", "f64", "i32"])
@pytest.mark.parametrize("seed", range(2))
def test_updates_in_any_order(dtype: str, seed: int) -> None:
    """By atomic instructions, which meet no other access."""
    kernel = parse_kernel(updates(700, dtype))
    rows, x, y = arrays_of(kernel, seed)
    with config.override(atomics=True):
        calls = check_launches(kernel, [np.abs(rows) % 7, x, y], seed, 1e-4)
    assert any(["atomic" in call.body for call in calls.calls if isinstance(call, KernelCall)])


def test_all_forms_occur() -> None:
    """In the kernels of the seeds that are always run."""
    seen: set[tuple[str, bool]] = set()
    for make in KINDS.values():
        for seed in range(12):
            maker = Maker(1000 + seed, EXTENTS, LIMIT, STATES)
            for piece in pieces(ordered(make(maker))):
                form = form_of(piece)
                team = "warp" if form.team == 32 else "block" if form.team > 1 else "thread"
                seen.add(("tiles" if form.crossed else team, form.vector > 1))
    every = {(name, wide) for name in ("thread", "warp", "block") for wide in (False, True)}
    assert seen >= every | {("tiles", False)}


@pytest.fixture(scope="module")
def device() -> Iterator[StubDriver]:
    """A stub in the place of the machine's driver; nothing was written outside of its blocks."""
    with stub_device(libraries=StubLibraries()) as made:
        yield made


def check_program(program: Program, args: list[Any]) -> None:
    """Both devices give the same."""
    arrays = [np.asarray(x) for x in args]
    with np.errstate(all="ignore"):
        wanted = [np.asarray(x) for x in compile_program(program).executable(arrays)]
    executable = compile_program(program, device="cuda").executable
    found = [x.numpy() for x in executable([on_device(x) for x in arrays])]
    for x, y in zip(found, wanted, strict=True):
        assert x.shape == y.shape and x.dtype == y.dtype
        if y.dtype.kind == "f":
            tol = TOLERANCE[y.dtype.itemsize]
            scale = np.abs(y[np.isfinite(y)]).max(initial=1.0)
            np.testing.assert_allclose(x, y, tol, tol * scale)
        else:
            np.testing.assert_array_equal(x, y)


@settings(max_examples=2 * COUNT, deadline=None, derandomize=True, database=None,
          phases=[Phase.generate, Phase.shrink],
          suppress_health_check=QUIET)  # fmt: skip
@given(case=programs())
def test_small_programs(device: StubDriver, case: tuple[Program, list[Any]]) -> None:
    check_program(*case)


@settings(max_examples=2 * COUNT, deadline=None, derandomize=True, database=None,
          phases=[Phase.generate, Phase.shrink],
          suppress_health_check=QUIET)  # fmt: skip
@given(case=programs(shapes=SHAPES))
def test_large_programs(device: StubDriver, case: tuple[Program, list[Any]]) -> None:
    check_program(*case)
