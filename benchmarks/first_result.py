"""Time from a function to its first result, in a process of its own; used by cpu.py and
start_up.py.

    python benchmarks/first_result.py fgrad|jax|stages  import|tiny|mlp|transformer|chain
    python benchmarks/first_result.py fgrad|jax         tiny|mlp|transformer|chain  third

Prints seconds: of the import, or of tracing, compiling and running a function once; for `stages`
a table of fgrad's stages, the parts of building, and distinct kernels against kernels called.  With
`third` it prints processor time from after the import of NumPy to the end of the third call,
without that of the benchmark's own modules and data.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any


def settle() -> None:
    """Wait until no thread of NumPy's BLAS is busy: a new one looks for work for 30 ms, which count
    as this process's where a core is free, before it sleeps."""
    while True:
        start = time.process_time()
        time.sleep(0.05)
        if time.process_time() - start < 0.002:
            return


if sys.argv[3:] == ["third"]:
    import numpy.random  # noqa: F401  (a part of NumPy that the data is made with)

    settle()

START, START_CPU = time.perf_counter(), time.process_time()

if sys.argv[1:2] == ["jax"]:
    import jax  # noqa: F401
else:
    import fgrad

IMPORTED, IMPORTED_CPU = time.perf_counter(), time.process_time()

from harness import Library, fgrad_library, jax_library  # noqa: E402
from workloads_arrays import Call, jitted, normal  # noqa: E402
from workloads_models import (  # noqa: E402
    F32,
    block,
    block_params,
    mlp_data,
    mlp_loss,
    mlp_params,
)

Function = Callable[..., Any]


def tiny(lib: Library) -> Function:
    """One operation and a sum."""
    xp = lib.np
    return lambda x: xp.sum(x * 2.0)


def mlp(lib: Library) -> Function:
    """Loss and gradient of the network 784-256-128-10."""
    return lib.api.value_and_grad(mlp_loss(lib))


def transformer(lib: Library) -> Function:
    """Loss and gradient of twelve blocks, unrolled by a Python loop."""

    def loss(layers: Any, x: Any) -> Any:
        for layer in layers:
            x = block(lib, layer, x)
        return lib.np.mean(x * x)

    return lib.api.value_and_grad(loss)


def chain(lib: Library) -> Function:
    """A thousand elementwise operations."""

    def f(x: Any) -> Any:
        for _ in range(500):
            x = lib.np.sin(x) * 1.01
        return x

    return f


# What makes the function, and what makes its arguments.
CASES: dict[str, tuple[Callable[[Library], Function], Callable[[], tuple[Any, ...]]]] = {
    "tiny": (tiny, lambda: (normal(8),)),
    "mlp": (mlp, lambda: (mlp_params(), *mlp_data())),
    "transformer": (
        transformer,
        lambda: ([block_params(64) for _ in range(12)], normal(2, 32, 64, dtype=F32)),
    ),
    "chain": (chain, lambda: (normal(1000),)),
}


def made(lib: Library, case: str) -> Call:
    """The compiled function of a case, with its arguments."""
    function, arguments = CASES[case]
    return jitted(lib, function(lib), *arguments())


class Inspected:
    """fgrad, with compiled functions that return how they were compiled."""

    def __getattr__(self, name: str) -> Any:
        return fgrad.inspect if name == "jit" else getattr(fgrad, name)


def three_calls(lib: Library, case: str) -> float:
    """Processor seconds of the import and of three calls."""
    function, arguments = CASES[case]
    given = arguments()
    start = time.process_time()
    call = jitted(lib, function(lib), *given)
    for _ in range(3):
        lib.ready(call())
    return time.process_time() - start + IMPORTED_CPU - START_CPU


def main() -> None:
    """Print one number, or the table of stages."""
    library, case, *how = sys.argv[1:]
    if library == "stages":
        print(made(fgrad_library()._replace(api=Inspected()), case)().report())
        return
    if case == "import":
        print(IMPORTED - START)
        return
    lib = jax_library() if library == "jax" else fgrad_library()
    if lib is None:
        raise SystemExit("jax is not installed")
    if how:
        print(three_calls(lib, case))
        return
    call = made(lib, case)
    start = time.perf_counter()
    lib.ready(call())
    print(time.perf_counter() - start)


if __name__ == "__main__":
    main()
