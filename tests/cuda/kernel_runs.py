"""Kernels run as launches of the device on host memory, and compared with the oracle or a CPU."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
from emulator.run import Emulated
from kernel_oracle import Oracle, fill, run_native

from fgrad.compile.kernel.check import check_kernel
from fgrad.compile.kernel.ir import Kernel
from fgrad.compile.kernel.text import parse_kernel
from fgrad.compile.schedule.order import schedule as schedule_for_cpu
from fgrad.lower_cuda.emit.calls import Calls, KernelCall
from fgrad.lower_cuda.schedule import launches, schedule

ALIGNMENT = 256  # of the blocks of the device's memory


def block_of(nbytes: int) -> np.ndarray:
    """Bytes that begin where a block of the device's memory may; all are NaN."""
    room = np.full(nbytes + ALIGNMENT, 0xFF, np.uint8)
    skip = -room.ctypes.data % ALIGNMENT
    return room[skip : skip + nbytes]


def run_calls(
    calls: Calls, arrays: Sequence[np.ndarray], order: random.Random | None = None
) -> None:
    """Run all launches; each access is checked to be inside of an array or area."""
    given = [block_of(a.nbytes) for a in arrays]
    for block, array in zip(given, arrays, strict=True):
        block[:] = array.reshape(-1).view(np.uint8)
    blocks = [*given, *[block_of(n) for n in calls.scratch]]
    bounds = [(block.ctypes.data, block.nbytes) for block in blocks]
    for call in calls.calls:
        assert isinstance(call, KernelCall)
        pointers = [bounds[p.number][0] + p.offset for p in call.places]
        body = Emulated(call.body, len(call.places))
        body.run(call.grid, call.block, pointers, order, bounds=bounds)
    for block, array in zip(given, arrays, strict=True):
        array.reshape(-1).view(np.uint8)[:] = block


def arrays_of(kernel: Kernel, seed: int = 0) -> list[np.ndarray]:
    """Random arrays for the buffers of a kernel that are no scratch."""
    rng = np.random.default_rng(seed)
    return [fill(rng, b.size, b.dtype) for b in kernel.buffers if b.role != "scratch"]


def assert_same(
    kernel: Kernel, found: Sequence[np.ndarray], wanted: Sequence[np.ndarray], rtol: float = 1e-5
) -> None:
    """All buffers are equal, floats nearly."""
    names = [b.name for b in kernel.buffers if b.role != "scratch"]
    for name, x, y in zip(names, found, wanted, strict=True):
        if y.dtype.kind == "f":
            scale = float(np.abs(y[np.isfinite(y)]).max(initial=1.0))
            atol = scale * rtol * (1e3 if y.dtype == np.float16 else 1)
            np.testing.assert_allclose(x, y, rtol, atol, err_msg=name)
        else:
            np.testing.assert_array_equal(x, y, err_msg=name)


def check_launches(
    kernel: Kernel | str,
    arrays: Sequence[np.ndarray] | None = None,
    seed: int = 0,
    rtol: float = 1e-5,
    native: bool = False,
) -> Calls:
    """A kernel's launches give what the oracle gives, threads taking turns in a random order.

    Arguments:
        native: compare with the kernel of the CPU, which is faster than the oracle.
    """
    kernel = parse_kernel(kernel) if isinstance(kernel, str) else kernel
    check_kernel(kernel)
    arrays = arrays_of(kernel, seed) if arrays is None else arrays
    wanted, found = [a.copy() for a in arrays], [a.copy() for a in arrays]
    if native:
        run_native(schedule_for_cpu(kernel), wanted)
    else:
        Oracle(kernel, wanted)
    calls = launches(schedule(kernel))
    run_calls(calls, found, random.Random(seed))
    assert_same(kernel, found, wanted, rtol)
    return calls
