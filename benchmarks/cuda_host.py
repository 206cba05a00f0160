"""What a call on a GPU costs the host, in its parts, against a driver that only counts launches.

python benchmarks/cuda_host.py

jitted     f(x, y) of arrays on the device, by native code
Python     the same by the executable's `__call__`: a first call, another thread, a donation
calls      the native host program alone, which makes the launches one by one
graph      the same as one launch of a graph
changed    a graph whose first and last nodes have other addresses than before
link       from planned steps to something that can be called, without compiling kernels
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from stub_device import StubDriver

import fgrad
from fgrad.compile.jit.inspect import make_program
from fgrad.compile.pipeline import compile_program
from fgrad.lower_cuda.device.driver import use
from fgrad.lower_cuda.executable import CudaExecutable, link

LAUNCHES = (1, 10, 50, 200)
ROUNDS = 100
CALLS = 200


def chain(launches: int) -> Callable[..., Any]:
    """A function of two matrices that is so many launches."""

    def run(x: Any, y: Any) -> Any:
        for k in range(launches if launches > 1 else 0):
            x = x - np.max(x, axis=k % 2, keepdims=True) * y
        return x * y if launches == 1 else x

    return run


def microseconds(call: Callable[[], Any], calls: int = CALLS) -> float:
    """The best mean of a round: a busy machine disturbs the others."""
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        best = min(best, time.perf_counter() - start)
    return 1e6 * best / calls


def figures(launches: int) -> dict[str, float]:
    """All figures of a program, in microseconds."""
    x = np.ones((64, 64), np.float32)
    f, a, b = fgrad.jit(chain(launches)), fgrad.device_put(x), fgrad.device_put(x)
    for _ in range(5):
        f(a, b)
    found = {"jitted": microseconds(lambda: f(a, b))}
    compiled = compile_program(make_program(chain(launches))(x, x), device="cuda")
    executable: CudaExecutable = compiled.executable
    for _ in range(5):
        executable([a, b])
    found["Python"] = microseconds(lambda: executable([a, b]))
    resident = executable.resident
    assert resident is not None
    given = [a.pointer, b.pointer, *resident.consts, a.pointer, a.pointer]
    if resident.graphs is not None:
        resident.graphs.add(given)
        found["graph"] = microseconds(lambda: resident.call(*given))
        others = [b.pointer + 64, *given[1:-2], b.pointer + 64, given[-1]]
        pair = [given, others]

        def changed() -> None:
            resident.call(*pair[0])
            pair.reverse()

        found["changed"] = microseconds(changed)
        resident.caller.withdraw()
    found["calls"] = microseconds(lambda: resident.call(*given))
    results = {stage.name: stage.result for stage in compiled.stages}
    program, plan = results["control"][0], results["plan"]
    found["link"] = microseconds(lambda: link(program, plan).host.table, 5)
    return found


def main() -> None:
    """Print a table."""
    before = use(StubDriver(execute=False))
    names = ("jitted", "Python", "calls", "graph", "changed", "link")
    print(f"{'launches':>8}" + "".join([f"{name:>10}" for name in names]) + "   microseconds")
    for launches in LAUNCHES:
        found = figures(launches)
        cells = [f"{found[name]:10.2f}" if name in found else f"{'':>10}" for name in names]
        print(f"{launches:8}" + "".join(cells))
    use(before)


if __name__ == "__main__":
    main()
