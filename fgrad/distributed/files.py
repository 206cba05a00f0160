"""L7. Trees of arrays on disk, written and read by any number of ranks.

    model/tree.json     the path, shape and dtype of each leaf
    model/0.npy         the whole array of the first leaf, of which each rank writes its block

All ranks see one file system.  A directory appears under its name when it is complete.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.format import open_memmap

from fgrad import tree
from fgrad.distributed.blocks import block_slices, engine_of, whole_shape
from fgrad.distributed.engine import Engine
from fgrad.distributed.mesh import Mesh, P
from fgrad.distributed.shard import spec_leaves
from fgrad.errors import ArgumentError, Row
from fgrad.ir.aval import is_bfloat16, is_stored
from fgrad.typing import PyTree

LIST = "tree.json"
WHOLE = P()


def save(path: str | os.PathLike[str], x: PyTree, specs: PyTree = WHOLE, *, mesh: Mesh) -> None:
    """Write a tree of arrays, of which each rank has its blocks, as a directory.

    Arguments:
        path: of the directory; one that is there is replaced when all is written.
        x: a tree of arrays.
        specs: how they are cut: a `P`, or a pytree prefix of `x`.

    Example:
        >>> import numpy as np, tempfile
        >>> from fgrad import distributed as dist
        >>> mesh = dist.simulate(data=2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     dist.save(folder + "/model", {"w": np.arange(3.0)}, mesh=mesh)
        ...     dist.load(folder + "/model", {"w": None}, mesh=mesh)
        {'w': array([0., 1., 2.])}
    """
    engine, target = engine_of(mesh), Path(path)
    whole = target.with_name(f".{target.name}.new")
    leaves = [np.asarray(leaf) for leaf in tree.leaves(x)]
    cut = spec_leaves(specs, x, mesh, "specs")
    shapes = _shapes(leaves, cut, mesh)
    if engine is None or engine.rank == 0:
        _begin(whole, x, leaves, shapes)
    _meet(engine, "save")
    for k, (leaf, spec, shape) in enumerate(zip(leaves, cut, shapes, strict=True)):
        if _writes(spec, mesh):
            file = open_memmap(whole / f"{k}.npy", "r+") if leaf.size else None
            if file is not None:
                file[_place(shape, spec, mesh)] = _plain(leaf)
                file.flush()
    _meet(engine, "save")
    if engine is None or engine.rank == 0:
        _replace(whole, target)
    _meet(engine, "save")


def load(
    path: str | os.PathLike[str], like: PyTree, specs: PyTree = WHOLE, *, mesh: Mesh
) -> PyTree:
    """A tree of arrays that `save` has written, or this rank's blocks of them.

    Arguments:
        path: of the directory.
        like: a tree of the same structure; its leaves are not looked at, and may be None.
        specs: how the arrays are cut now, by any number of ranks.

    Raises:
        ArgumentError: there is no complete directory, or it has another structure.
        ShapeError: an axis has no such number of equal blocks.

    Example:
        >>> import numpy as np, tempfile
        >>> from fgrad import distributed as dist
        >>> mesh = dist.simulate(data=2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     dist.save(folder + "/model", {"w": np.arange(3.0)}, mesh=mesh)
        ...     dist.load(folder + "/model", {"w": None}, mesh=mesh)
        {'w': array([0., 1., 2.])}
    """
    source = Path(path)
    written = _listed(source)
    marked = tree.map(lambda _: 0, like, is_leaf=lambda x: x is None)
    names = list(tree.paths(marked))
    if names != [leaf["path"] for leaf in written]:
        rows: tuple[Row, ...] = (
            ("file", " ".join([leaf["path"] or "(one array)" for leaf in written])[:200]),
            ("like", " ".join([name or "(one array)" for name in names])[:200]),
        )
        raise ArgumentError(f"load: {source} has another structure than `like`.", rows)
    cut = spec_leaves(specs, marked, mesh, "specs")
    found: list[Any] = []
    for k, (leaf, spec) in enumerate(zip(written, cut, strict=True)):
        shape, dtype = tuple(leaf["shape"]), np.dtype(leaf["dtype"])
        array = np.load(source / f"{k}.npy", mmap_mode="r" if 0 not in shape else None)
        mesh.split(np.broadcast_to(np.int8(0), shape), spec, lambda k=k: f"leaf{names[k]} of load")
        block = np.array(array[_place(shape, spec, mesh)]).view(dtype)
        found.append(block if block.ndim else block[()])
    return tree.unflatten(tree.structure(marked), found)


def _plain(x: np.ndarray) -> np.ndarray:
    """What the format of NumPy has a name for."""
    if is_stored(x.dtype):
        return x.view(np.uint8)
    return x.view(np.uint16) if is_bfloat16(x.dtype) else x


def _shapes(leaves: Sequence[np.ndarray], cut: Sequence[P], mesh: Mesh) -> list[tuple[int, ...]]:
    if mesh.index is None:
        return [x.shape for x in leaves]
    return [whole_shape(x.shape, spec, mesh) for x, spec in zip(leaves, cut, strict=True)]


def _place(shape: tuple[int, ...], spec: P, mesh: Mesh) -> Any:
    """Where this rank's block lies."""
    return ... if mesh.index is None else block_slices(shape, spec, mesh, mesh.index)


def _writes(spec: P, mesh: Mesh) -> bool:
    """Whether this rank is the first of those that have the same block."""
    if mesh.index is None:
        return True
    pairs = zip(mesh.axes, mesh.index, strict=True)
    return all([k == 0 for (name, _), k in pairs if name not in spec.names])


def _begin(
    folder: Path, x: PyTree, leaves: Sequence[np.ndarray], shapes: Sequence[tuple[int, ...]]
) -> None:
    """Files of the right size, and the list of them."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    rows: list[dict[str, object]] = []
    for k, (name, leaf, shape) in enumerate(zip(tree.paths(x), leaves, shapes, strict=True)):
        rows.append({"path": name, "shape": shape, "dtype": leaf.dtype.name})
        if leaf.size:
            open_memmap(folder / f"{k}.npy", "w+", _plain(leaf).dtype, shape).flush()
        else:
            np.save(folder / f"{k}.npy", np.empty(shape, _plain(leaf).dtype))
    (folder / LIST).write_text(json.dumps(rows))


def _replace(folder: Path, target: Path) -> None:
    """Give a complete directory its name."""
    old = target.with_name(f".{target.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        target.rename(old)
    folder.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def _listed(folder: Path) -> list[dict[str, Any]]:
    try:
        return json.loads((folder / LIST).read_text())
    except FileNotFoundError:
        raise ArgumentError(
            f"load: there is no tree of arrays at {folder}.",
            (("write", "the path that was given to dist.save, seen by all ranks"),),
        ) from None


def _meet(engine: Engine | None, what: str) -> None:
    if engine is not None:
        with engine.noted(what):
            engine.control.Barrier()
