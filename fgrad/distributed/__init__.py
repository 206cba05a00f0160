"""L7. Programs for many places: meshes of named axes, and functions of blocks.

mesh = dist.init("mpi", axes=("data",))                   this process is one of the places
mesh = dist.simulate(data=4)                              all places in this process
dist.shard_map(f, mesh=mesh, in_specs=P("data"), out_specs=P())    f runs at each of them
dist.my_block, broadcast, gather, save, load              blocks of whole arrays, and on disk

Arguments:
    mesh: the mesh of this process, from `init` or `simulate`.
"""

from __future__ import annotations

from fgrad.base.lazy_import import names_shown
from fgrad.distributed.blocks import broadcast, gather, my_block
from fgrad.distributed.files import load, save
from fgrad.distributed.mesh import Mesh, P, simulate
from fgrad.distributed.shard import shard_map
from fgrad.distributed.start import init

__all__ = [
    "Mesh",
    "P",
    "broadcast",
    "gather",
    "init",
    "load",
    "my_block",
    "save",
    "shard_map",
    "simulate",
]


__dir__ = names_shown(__name__)
