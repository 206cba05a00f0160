"""At each rank: collectives on a device that is not there, by NCCL or through the host, equal the
same on a simulated mesh.

python device.py nccl | host | shared     shared: all ranks have one device
python device.py sleeps LIMIT             one rank never comes
"""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from emulator.driver import StubDriver
from emulator.libraries import StubLibraries
from emulator.nccl import NcclStub
from mpi4py import MPI
from rules import COLLECTIVES, N, arrays, outcome, same

import fgrad
from fgrad import distributed as dist
from fgrad import lax
from fgrad.distributed import P
from fgrad.errors import RankWarning
from fgrad.lower_cuda.device import driver
from fgrad.lower_cuda.library import functions as library_functions


def join(size: int, rank: int, identity: bytes) -> Any:
    """The ranks of a communicator: those of one identity."""
    return MPI.COMM_WORLD.Split(int.from_bytes(identity[:4], "little"), rank)


def use_stub(number: int, nccl: bool = True) -> tuple[StubDriver, StubLibraries]:
    """Let this rank have a device of this number, and NCCL."""
    made, libraries = StubDriver(), StubLibraries(NcclStub(join) if nccl else None)
    made.library.identity = bytes([number] * 16)
    driver.use(made)
    library_functions.use(libraries)
    return made, libraries


def main(how: str) -> None:
    mesh, whole = dist.init("mpi", axes=("i",)), dist.simulate(i=N)
    assert mesh.index is not None
    k = mesh.index[0]
    device, stub = use_stub(0 if how == "shared" else k, how != "host")
    wrong: list[str] = []
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        for x in [*arrays()][2 :: 4 if how == "nccl" else 8]:
            x = x[..., :100]
            for name, body in COLLECTIVES.items():
                wrong += _wrong(name, body, x, mesh, whole, k)
    assert not wrong, "\n".join(wrong)
    device.check_memory()
    told = [str(w.message) for w in heard if w.category is RankWarning]
    if how == "nccl":
        assert stub.nccl is not None and not stub.nccl.errors, stub.nccl
        called = {call.name for call in stub.nccl.log}
        assert called == {"AllReduce", "AllGather", "ReduceScatter", "Send", "Recv"}, called
        assert not told, told
    else:
        words = {"host": "place 0 has no NCCL", "shared": "several of its places have one GPU"}
        assert [words[how] in text for text in told] == [True] * (k == 0), told
    blocks(mesh, k)
    print("all collectives agree", flush=True)


def blocks(mesh: dist.Mesh, k: int) -> None:
    """What is on the device stays there."""
    x = np.arange(12.0).reshape(4, 3)
    mine = dist.my_block(fgrad.device_put(x), P("i"), mesh=mesh)
    assert type(mine) is fgrad.DeviceArray
    np.testing.assert_array_equal(mine.numpy(), x[2 * k : 2 * k + 2])
    for whole in (
        dist.gather(mine, P("i"), mesh=mesh),
        dist.broadcast(fgrad.device_put(x + k), mesh=mesh),
    ):
        assert type(whole) is fgrad.DeviceArray
        np.testing.assert_array_equal(whole.numpy(), x)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(dist.broadcast(folder, mesh=mesh)) / "x"
        dist.save(path, mine, P("i"), mesh=mesh)
        np.testing.assert_array_equal(dist.load(path, None, P("i"), mesh=mesh), mine.numpy())
        dist.broadcast(None, mesh=mesh, source=1)  # the folder ends when both have read it


def _wrong(name: str, body: Any, x: np.ndarray, mesh: Any, whole: Any, k: int) -> list[str]:
    def placed(x: Any) -> Any:
        out = body(np.reshape(x, x.shape[1:]))
        return fgrad.tree.map(lambda y: lax.pvary(y, "i")[None], out)

    made = [
        dist.shard_map(placed, mesh=m, in_specs=P("i"), out_specs=P("i")) for m in (mesh, whole)
    ]
    want = outcome(made[1], x)
    if not isinstance(want, type):
        want = fgrad.tree.map(lambda y: y[k : k + 1], want)
    mine = fgrad.device_put(np.ascontiguousarray(x[k : k + 1]))
    found: list[str] = []
    for way, f in (("prompt", made[0]), ("jit", fgrad.jit(made[0]))):
        got = outcome(f, mine)
        if not isinstance(got, type):
            kinds = {type(y) for y in fgrad.tree.leaves(got)}
            if kinds != {fgrad.DeviceArray}:
                found.append(f"{name} {way}: {kinds}")
            got = fgrad.tree.map(np.asarray, got)
        if not same(got, want):
            found.append(f"{name} of {x.dtype}{list(x.shape)} {way}: {got!r}, not {want!r}")
    return found


def sleeps(limit: float) -> None:
    """One rank waits for its device, and that for the other rank."""
    mesh = dist.init("mpi", axes=("i",))
    use_stub(0 if mesh.is_first else 1)
    total = dist.shard_map(
        lambda x: lax.psum(np.sum(x), "i"), mesh=mesh, in_specs=P("i"), out_specs=P()
    )
    f, x = fgrad.jit(total), fgrad.device_put(np.ones(3))
    f(x).numpy()
    dist.init("mpi", axes=("i",), timeout=limit)
    if not mesh.is_first:
        time.sleep(600)
    f(x).numpy()


if __name__ == "__main__":
    if sys.argv[1] == "sleeps":
        sleeps(float(sys.argv[2]))
    else:
        main(sys.argv[1])
