"""What goes wrong at one of the ranks: python failures.py NAME LIMIT"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from mpi4py import MPI

import fgrad
from fgrad import distributed as dist
from fgrad import lax
from fgrad.distributed import P, start

if __name__ == "__main__":
    if sys.argv[1] == "versions" and MPI.COMM_WORLD.rank:
        start.metadata.version = lambda _name: "0.0.1"  # type: ignore[assignment]
    mesh = dist.init("mpi", axes=("data",))
    assert mesh.index is not None
    LAST = mesh.index[0] == mesh.size - 1


def watched() -> None:
    """From here on, when nothing takes time but what is to be found."""
    dist.init("mpi", axes=("data",), timeout=float(sys.argv[2]))


def sharded(f: Callable[..., Any]) -> Callable[..., Any]:
    return dist.shard_map(f, mesh=mesh, in_specs=P("data"), out_specs=P())


def total(x: Any) -> Any:
    return lax.psum(np.sum(x), "data")


def work(x: Any) -> None:
    print(fgrad.jit(sharded(total))(x), flush=True)


def raises() -> None:
    if LAST:
        raise ValueError("this rank has no data")
    work(np.ones(3))


def raises_in_program() -> None:
    def body(x: Any) -> Any:
        return total(np.reshape(x, (2, 2)) if LAST else x)

    sharded(body)(np.ones(3))


def exits() -> None:
    if LAST:
        sys.exit(0)
    work(np.ones(3))


def dies() -> None:
    if LAST:
        os._exit(3)
    work(np.ones(3))


def is_killed() -> None:
    if LAST:
        os.kill(os.getpid(), signal.SIGKILL)
    work(np.ones(3))


def sleeps() -> None:
    f = fgrad.jit(sharded(total))
    f(np.ones(3))
    watched()
    if LAST:
        time.sleep(600)
    f(np.ones(3))


def waits_eager() -> None:
    f = sharded(total)
    f(np.ones(3))
    watched()
    if LAST:
        time.sleep(600)
    f(np.ones(3))


def reordered() -> None:
    def body(x: Any) -> Any:
        parts = [lambda: lax.psum(x, "data"), lambda: lax.pmax(x[:2], "data")]
        return [part() for part in (parts[::-1] if LAST else parts)]

    fgrad.jit(sharded(body))(np.ones(3))


def sizes() -> None:
    work(np.ones(4 if LAST else 3))
    sharded(lambda x: lax.psum(x, "data"))(np.ones(4 if LAST else 3))


def dtypes() -> None:
    sharded(lambda x: lax.psum(x, "data"))(np.ones(3, np.float32 if LAST else np.float64))


def other_values() -> None:
    f = dist.shard_map(
        lambda w, x: w * total(x), mesh=mesh, in_specs=(P(), P("data")), out_specs=P()
    )
    f(np.ones(2) * mesh.index, np.ones(3))


def other_values_compiled() -> None:
    f = dist.shard_map(
        lambda w, x: w * total(x), mesh=mesh, in_specs=(P(), P("data")), out_specs=P()
    )
    f = fgrad.jit(f)
    f(np.ones(2), np.ones(3))
    f(np.ones(2) * mesh.index, np.ones(3))


def other_order_of_calls() -> None:
    """Two functions that both ranks know, one after the other, in another order."""
    f = fgrad.jit(sharded(total))
    g = fgrad.jit(sharded(lambda x: total(2 * x)))
    calls = [f, g, g, f] if LAST else [f, g, f, g]
    for call in calls:
        call(np.ones(3))


def branch() -> None:
    f = fgrad.jit(sharded(total))
    if not LAST:
        f(np.ones(3))


def trip_counts() -> None:
    """More turns of a loop of Python at one rank, each a call."""
    f = fgrad.jit(sharded(total))
    for _ in range(2 if LAST else 5):
        f(np.ones(3))


def trip_counts_in_program() -> None:
    """Likewise, in one program."""

    def body(x: Any) -> Any:
        for _ in range(2 if LAST else 3):
            x = lax.pvary(lax.psum(x, "data"), "data")
        return total(x)

    fgrad.jit(sharded(body))(np.ones(3))


def retraces() -> None:
    """One rank compiles something new while the other one is in what both know."""
    f = fgrad.jit(sharded(total))
    f(np.ones(3))
    f(np.ones(4 if LAST else 3))


def profiles() -> None:
    """One rank repeats what both have compiled."""
    f = fgrad.jit(sharded(total))
    f(np.ones(3))
    if LAST:
        fgrad.profile(f)(np.ones(3))
    for _ in range(30):
        f(np.ones(3))


def other_code() -> None:
    """Another version of the function at one rank."""
    sharded(lambda x: total(x * x) if LAST else total(x) + lax.pmax(x[0], "data"))(np.ones(3))


def shadowed() -> None:
    f = sharded(lambda x: fgrad.vmap(lambda y: lax.psum(y, "data"), axis_name="data")(x))
    f(np.ones(3))


def no_axis() -> None:
    sharded(lambda x: lax.psum(x, "model"))(np.ones(3))


def does_not_divide() -> None:
    dist.my_block(np.ones(3), P("data"), mesh=mesh)


def computes() -> None:
    """Something that takes long, which Ctrl-C ends."""
    f = fgrad.jit(sharded(total))
    while True:
        f(np.ones(3))


def varying_condition() -> None:
    sharded(lambda x: lax.cond(np.sum(x) > 0, total, np.sum, x))(np.ones(3))


def others() -> None:
    sharded(total if not LAST else np.mean)(np.ones(3))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print("done", flush=True)
