"""L7. Programs for many places: meshes of named axes, and functions of blocks.

mesh = dist.simulate(data=4)                              all places in this process
dist.shard_map(f, mesh=mesh, in_specs=P("data"), out_specs=P())    f runs at each of them
"""

from __future__ import annotations

from fgrad.distributed.mesh import Mesh, P, simulate
from fgrad.distributed.shard import shard_map

__all__ = ["Mesh", "P", "shard_map", "simulate"]
