"""L7. Blocks of whole arrays: this rank's, those of all, and on disk.

    my_block    whole arrays -> this rank's blocks        gather      blocks -> whole arrays
    broadcast   one rank's values -> the same everywhere

On a mesh whose places are all in this process, arrays are whole.  What is on a device stays there.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from fgrad import tree
from fgrad.distributed.engine import Engine, engine_here
from fgrad.distributed.mesh import Mesh, P
from fgrad.distributed.shard import spec_leaves
from fgrad.errors import ShapeError
from fgrad.tracing.on_device import OnDevice, put
from fgrad.typing import PyTree

Slices = tuple[slice, ...]


def engine_of(mesh: Mesh) -> Engine | None:
    """The ranks of a mesh; None if all of its places are in this process."""
    return None if mesh.index is None else engine_here()


def block_slices(shape: tuple[int, ...], spec: P, mesh: Mesh, index: tuple[int, ...]) -> Slices:
    """Where the block of a place lies in the whole array."""
    at = {name: k for (name, _), k in zip(mesh.axes, index, strict=True)}
    found: list[slice] = []
    for k, length in enumerate(shape):
        place, count = 0, 1
        for name in spec.parts[k] if k < len(spec.parts) else ():
            place, count = place * mesh.shape[name] + at[name], count * mesh.shape[name]
        size = length // count
        found.append(slice(place * size, (place + 1) * size))
    return tuple(found)


def whole_shape(shape: tuple[int, ...], spec: P, mesh: Mesh) -> tuple[int, ...]:
    """The shape of the array of which a block has this shape."""
    if len(spec.parts) > len(shape):
        raise ShapeError(f"a block of shape {shape} has too few axes for {spec}.")
    counts = [
        int(np.prod([mesh.shape[name] for name in (spec.parts[k] if k < len(spec.parts) else ())]))
        for k in range(len(shape))
    ]
    return tuple([n * count for n, count in zip(shape, counts, strict=True)])


def my_block(x: PyTree, specs: PyTree, *, mesh: Mesh) -> PyTree:
    """The blocks of whole arrays that belong to this rank.

    Arguments:
        x: a tree of arrays, equal at all ranks.
        specs: how they are cut: a `P`, or a pytree prefix of `x`.

    Raises:
        ShapeError: an axis has no such number of equal blocks.

    Example:
        >>> import numpy as np
        >>> from fgrad import distributed as dist
        >>> from fgrad.distributed import P
        >>> dist.my_block(np.arange(4), P("data"), mesh=dist.simulate(data=2))
        array([0, 1, 2, 3])
    """
    leaves, treedef = tree.flatten(x)
    cut = spec_leaves(specs, x, mesh, "specs")
    index, found = mesh.index, list[Any]()
    for k, (leaf, spec) in enumerate(zip(leaves, cut, strict=True)):
        if not spec.names:
            found.append(leaf)
            continue
        mesh.split(leaf, spec, functools.partial(lambda k: f"leaf {k} of my_block", k))
        whole = leaf if isinstance(leaf, OnDevice) else np.asarray(leaf)
        part = whole if index is None else whole[block_slices(whole.shape, spec, mesh, index)]
        found.append(part if isinstance(part, OnDevice) else np.ascontiguousarray(part))
    return tree.unflatten(treedef, found)


def gather(x: PyTree, specs: PyTree, *, mesh: Mesh) -> PyTree:
    """The whole arrays, at all ranks, of which these are this rank's blocks.

    Arguments:
        x: a tree of arrays.
        specs: how they are cut, as in `my_block`.

    Raises:
        ShapeError: if the blocks of two ranks differ in shape or dtype.

    Example:
        >>> import numpy as np
        >>> from fgrad import distributed as dist
        >>> from fgrad.distributed import P
        >>> dist.gather(np.arange(4), P("data"), mesh=dist.simulate(data=2))
        array([0, 1, 2, 3])
    """
    engine, cut = engine_of(mesh), spec_leaves(specs, x, mesh, "specs")
    leaves, treedef = tree.flatten(x)
    if engine is None:
        return x
    found: list[Any] = []
    for leaf, spec in zip(leaves, cut, strict=True):
        if not spec.names:
            found.append(leaf)
            continue
        block = np.ascontiguousarray(leaf)
        whole = np.empty(whole_shape(block.shape, spec, mesh), block.dtype)
        with engine.noted("gather", block.nbytes):
            parts = engine.control.allgather((engine.index, block))
        for index, part in parts:
            if part.shape != block.shape or part.dtype != block.dtype:
                raise ShapeError(
                    f"gather: this rank has a block of {block.dtype}{list(block.shape)}, that at "
                    f"{index} is {part.dtype}{list(part.shape)}."
                )
            whole[block_slices(whole.shape, spec, mesh, index)] = part
        found.append(put(whole, leaf.device) if isinstance(leaf, OnDevice) else whole)
    return tree.unflatten(treedef, found)


def broadcast(x: PyTree, *, mesh: Mesh, source: int = 0) -> PyTree:
    """What one rank has, at all of them: settings, initial parameters, a key.

    Arguments:
        x: any object that can be pickled; that of the other ranks is not looked at.
        source: the rank.

    Raises:
        ShapeError: if there is no rank `source`.

    Example:
        >>> from fgrad import distributed as dist
        >>> dist.broadcast({"rate": 0.1}, mesh=dist.simulate(data=2))
        {'rate': 0.1}
    """
    engine = engine_of(mesh)
    if engine is None:
        return x
    if not 0 <= source < engine.size:
        raise ShapeError(f"broadcast: there is no rank {source} of {engine.size}.")
    with engine.noted("broadcast"):
        found = engine.control.bcast(x if engine.rank == source else None, source)
    return x if engine.rank == source else found
