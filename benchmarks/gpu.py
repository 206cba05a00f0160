"""fgrad on a GPU: one command for a machine that has one; most of it runs without one too.

    python benchmarks/gpu.py                       everything, on the GPU; some minutes
    python benchmarks/gpu.py --stub                what needs no GPU, against a driver without one
    python benchmarks/gpu.py --parts kernels,host  only these
    python benchmarks/gpu.py --only softmax        workloads whose name contains this

    environment   versions, the device, the libraries that were found
    kernels       registers, spills, wide accesses, bytes, compile times of a fixed set of kernels
    plans         the launches of whole models
    host          what a call costs the host, without waiting for the device
    turns         a turn of a while loop that the device decides, and of one that the host does
    check         the op table on this device, by the tests
    copy          the rate at which the device copies memory, which rows below are compared with
    workloads     those of the CPU's suite, with JAX and PyTorch where they are installed

Results are printed and written as JSON into benchmarks/results/gpu.json (gpu-stub.json).
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gpu_kernels
import gpu_models
import numpy as np
from harness import Result, Workload, machine, show_header, show_row, take_turns
from libraries import Library, fgrad_library, has, jax_library, torch_library
from stub_device import StubDriver, StubLibraries
from workloads_arrays import ARRAYS, CALLS
from workloads_models import MODELS

import fgrad
from fgrad import lax
from fgrad.errors import FgradError
from fgrad.lower_cuda.device import driver
from fgrad.lower_cuda.library import functions

HERE = Path(__file__).parent
BATCH = 10  # calls that are enqueued before one waits
LAUNCHES = (1, 10, 50)
TURNS = 200  # of a while loop


def cuda_library() -> Library:
    """fgrad with arguments on the device, where jitted functions then run."""
    return fgrad_library()._replace(
        put=lambda tree: fgrad.device_put(tree, "cuda"), ready=fgrad.block_until_ready
    )


def cuda_peers() -> list[Library]:
    """JAX and PyTorch, if they are installed and see a GPU."""
    found = []
    jax = jax_library()
    if jax is not None and jax.api.default_backend() == "gpu":
        found.append(jax)
    torch = torch_library()
    if torch is not None and has("torch") and importlib.import_module("torch").cuda.is_available():
        module = importlib.import_module("torch")

        def put(tree: Any) -> Any:
            return fgrad.tree.map(lambda x: module.as_tensor(x, device="cuda"), tree)

        def ready(x: Any) -> Any:
            module.cuda.synchronize()
            return x

        found.append(torch._replace(put=put, ready=ready))
    return found


# --- parts ----------------------------------------------------------------------------------------


def environment(stub: bool) -> dict[str, Any]:
    """What this is measured on."""
    device = driver.driver()
    found = {"device": device.name, "arch": device.arch, "bytes": device.memory_bytes}
    print(f"\n{device.name}, {device.arch}, {device.memory_bytes / 2**30:.0f} GiB")
    return {**machine(), **found, "stub": stub}


def host() -> dict[str, float]:
    """Seconds of a jitted call, by its number of launches; nothing waits for the device."""
    show_header("a call's cost to the host", ["seconds"])
    found = {}
    for count in LAUNCHES:
        call = gpu_models.chain(count, cuda_library())
        for _ in range(100):  # compiled native calls and graphs come with the first ones
            call()
        found[str(count)] = take_turns({"fgrad": call})["fgrad"]
        fgrad.block_until_ready(call())
        show_row(Result(f"call, {count} launches", {"fgrad": found[str(count)]}, None))
    return found


def turns() -> dict[str, float]:
    """Seconds of a turn of a while loop, by who decides that there is another one."""
    device = driver.driver()
    could = device.conditional
    args = fgrad.device_put((np.ones((100, 1000), np.float32), 0), "cuda")
    show_header(f"a turn of {TURNS}", ["seconds"])
    found = {}
    for name, scale in (("the device", np.float32(0.99)), ("the host", np.float32(0.98))):
        device.conditional = could and name == "the device"

        def step(s: Any, scale: Any = scale) -> Any:
            return s[0] * scale + np.max(s[0], axis=1, keepdims=True), s[1] + 1

        loop = fgrad.jit(lambda s, step=step: lax.while_loop(lambda s: s[1] < TURNS, step, s))
        call = lambda loop=loop: fgrad.block_until_ready(loop(args))  # noqa: E731
        found[name] = take_turns({"fgrad": call})["fgrad"] / TURNS
        show_row(Result(name, {"fgrad": found[name]}, None))
    device.conditional = could
    return found


def check() -> dict[str, Any]:
    """The op table, random programs, loops and branches on the device, by the tests."""
    files = [f"tests/cuda/test_{name}.py" for name in ("ops", "forms", "conditional")]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files]
    environment = {**os.environ, "FGRAD_CUDA_DEVICE": "1", "FGRAD_CUDA_ALL": "1"}
    done = subprocess.run(
        command, cwd=HERE.parent, env=environment, capture_output=True, text=True, check=False
    )
    print("\n".join(done.stdout.splitlines()[-15:]))
    last = done.stdout.strip().splitlines()[-1:] or [""]
    return {"exit": done.returncode, "summary": last[0]}


def copy_rate() -> float:
    """Bytes per second, read and written, of a copy on the device."""
    device = driver.driver()
    size = 1 << 30
    a, b = device.allocate(size), device.allocate(size)

    def copy() -> None:
        for _ in range(BATCH):
            device.copy(b, a, size)
        device.synchronize()

    seconds = take_turns({"copy": copy})["copy"] / BATCH
    for pointer in (a, b):
        device.release(pointer, size)
    print(f"\na copy on the device: {2 * size / seconds / 1e9:.0f} GB/s, read and written")
    return 2 * size / seconds


def workloads(only: str, peers: Sequence[Library]) -> list[dict[str, Any]]:
    """Time per call when many calls are enqueued, for all workloads."""
    show_header("workloads", ["fgrad", *[p.name for p in peers[:1]], "ratio"])
    rows = []
    for workload in (*CALLS, *ARRAYS, *gpu_models.LARGE, *MODELS):
        if only in workload.name:
            rows.append(_measured(workload, peers))
            show_row(rows[-1])
    return [row._asdict() for row in rows]


def _measured(workload: Workload, peers: Sequence[Library]) -> Result:
    own = cuda_library()
    try:
        calls = {"fgrad": _batched(workload.make(own), own.ready)}
        calls["fgrad"]()
    except (FgradError, NotImplementedError) as error:
        return Result(workload.name, {}, None, f"refused: {str(error).splitlines()[0]}")
    for peer in peers:
        if peer.name == "jax" or workload.torch:
            calls[peer.name] = _batched(workload.make(peer), peer.ready)
    seconds = {name: t / BATCH for name, t in take_turns(calls).items()}
    return Result(workload.name, seconds, None)


def _batched(call: Callable[[], Any], ready: Callable[[Any], Any]) -> Callable[[], Any]:
    def batch() -> Any:
        for _ in range(BATCH - 1):
            call()
        return ready(call())

    return batch


def main() -> None:
    """Run what was asked for."""
    parts = ("environment", "kernels", "plans", "host", "turns", "check", "copy", "workloads")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--stub", action="store_true", help="no GPU: what it would do is counted")
    parser.add_argument("--parts", default="", help="a comma-separated list")
    parser.add_argument("--only", default="", help="only workloads whose name contains this")
    parser.add_argument("--json", type=Path, help="where the results are written")
    options = parser.parse_args()
    if options.stub:
        driver.use(StubDriver(execute=False))
        functions.use(StubLibraries())
        parts = parts[:4]
    chosen = [p for p in (options.parts.split(",") if options.parts else parts) if p]
    runs: dict[str, Callable[[], Any]] = {
        "environment": lambda: environment(options.stub),
        "kernels": gpu_kernels.table,
        "plans": lambda: gpu_models.plans(cuda_library()),
        "host": host,
        "turns": turns,
        "check": check,
        "copy": copy_rate,
        "workloads": lambda: workloads(options.only, cuda_peers()),
    }
    results: dict[str, Any] = {"date": time.strftime("%Y-%m-%d")}
    for name in chosen:
        results[name] = runs[name]()
    path = options.json or HERE / "results" / ("gpu-stub.json" if options.stub else "gpu.json")
    path.write_text(json.dumps(results, indent=1, default=str) + "\n")
    print(f"\nwritten: {path}")


if __name__ == "__main__":
    main()
