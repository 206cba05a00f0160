"""L7. `shard_map`: a program of one place on the blocks of arrays.

    shard_map : (block a -> block b) -> a -> b

Each axis of the mesh is a `vmap` with its name; what is cut along it is mapped, all else is shared.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, overload

from fgrad import tree
from fgrad.base.pickling import pickles_as_call
from fgrad.distributed.mesh import Mesh, P
from fgrad.distributed.place import at_this_rank
from fgrad.errors import ArgumentError, VaryingError
from fgrad.tracing.axes import refuse_shadow, varies
from fgrad.tracing.capturing import user_form
from fgrad.transforms.core.wrap import argument_names, check_callable, function_name, named_like
from fgrad.transforms.vmap import vmap
from fgrad.typing import PyTree


@overload
def shard_map(
    fun: Callable[..., PyTree], *, mesh: Mesh, in_specs: PyTree, out_specs: PyTree
) -> Callable[..., PyTree]: ...
@overload
def shard_map(
    fun: None = None, *, mesh: Mesh, in_specs: PyTree, out_specs: PyTree
) -> Callable[[Callable[..., PyTree]], Callable[..., PyTree]]: ...
@pickles_as_call
def shard_map(
    fun: Callable[..., PyTree] | None = None,
    *,
    mesh: Mesh,
    in_specs: PyTree,
    out_specs: PyTree,
) -> Any:
    """A function of whole arrays, made of one that each place of a mesh runs on its blocks.

    Arguments:
        fun: a function of the blocks at one place, in which collectives (`fgrad.lax.psum`, ...)
            take the names of the mesh axes.
        mesh: the places, see `simulate`.
        in_specs: how arguments are cut: a `P` for all, or a tuple with an entry for each argument,
            which is a `P` or a pytree prefix of the argument.
        out_specs: how results are put together: likewise, for the result.  What is cut along no
            axis must be the same at all places of it.

    Returns:
        A function of arrays and pytrees of them.

    Raises:
        ShapeError: an axis that is cut has no such number of equal blocks.
        AxisNameError: a spec names an axis that the mesh has not.
        VaryingError: a result differs between places, but its spec says that it does not.

    Example:
        >>> import numpy as np, fgrad
        >>> from fgrad import distributed as dist
        >>> from fgrad.distributed import P
        >>> @fgrad.jit
        ... @dist.shard_map(mesh=dist.simulate(data=2), in_specs=(P(), P("data")), out_specs=P())
        ... def slope(w, x):
        ...     return fgrad.grad(lambda w: fgrad.lax.pmean(np.mean((w * x) ** 2), "data"))(w)
        >>> slope(3.0, np.array([1.0, 2.0, 3.0, 4.0]))
        np.float64(45.0)
    """
    if fun is None:
        return functools.partial(shard_map, mesh=mesh, in_specs=in_specs, out_specs=out_specs)
    check_callable(fun, "shard_map")
    name, program = function_name(fun), fun
    results = tree.map(lambda spec: mesh.check(spec, "out_specs"), out_specs)

    def sharded(*args: PyTree) -> PyTree:
        for axis, _ in mesh.axes:
            refuse_shadow(axis, "shard_map")
        leaves, in_tree = tree.flatten(args)
        specs = _in_specs(in_specs, args, mesh)
        if mesh.index is not None:
            return at_this_rank(
                program, mesh, args, specs, lambda out: _check_same(out, results, name)
            )

        def place(*blocks: PyTree) -> PyTree:
            out = user_form(program)(*tree.unflatten(in_tree, blocks))
            _check_same(out, results, name)
            return out

        place.__name__ = name
        mapped: Callable[..., PyTree] = place
        for axis, size in reversed(mesh.axes):
            ins = tuple([0 if axis in spec.names else None for spec in specs])
            outs = tree.map(functools.partial(_place_of, axis), results)
            mapped = vmap(mapped, ins, outs, size, axis_name=axis)

        def leaf(k: int) -> str:
            return f"{argument_names(program, args, {})[k]} of {name}"

        whats = [functools.partial(leaf, k) for k in range(len(leaves))]
        out = mapped(*map(mesh.split, leaves, specs, whats))
        whole, out_tree = tree.flatten(out)
        cut = _prefix(results, out, "out_specs")
        return tree.unflatten(out_tree, [mesh.join(y, s) for y, s in zip(whole, cut, strict=True)])

    return named_like(sharded, fun, "shard_map")


def _place_of(axis: str, spec: P) -> int | None:
    """Where the examples along a mesh axis stand in a result."""
    return 0 if axis in spec.names else None


def _in_specs(in_specs: PyTree, args: tuple[PyTree, ...], mesh: Mesh) -> list[P]:
    """A spec for each leaf of the arguments."""
    if isinstance(in_specs, P):
        found = [in_specs] * len(tree.leaves(args))
    else:
        entries = tuple(in_specs) if isinstance(in_specs, (tuple, list)) else (in_specs,)
        if len(entries) != len(args):
            raise ArgumentError(
                f"shard_map: in_specs has {len(entries)} entries, but there are {len(args)} "
                "arguments."
            )
        found = [s for e, x in zip(entries, args, strict=True) for s in _prefix(e, x, "in_specs")]
    return [mesh.check(spec, "in_specs") for spec in found]


def spec_leaves(specs: PyTree, whole: PyTree, mesh: Mesh, what: str) -> list[P]:
    """A spec of the mesh for each leaf, from a prefix tree."""
    found = (
        [specs] * len(tree.leaves(whole)) if isinstance(specs, P) else _prefix(specs, whole, what)
    )
    return [mesh.check(spec, what) for spec in found]


def _prefix(specs: PyTree, whole: PyTree, what: str) -> list[P]:
    """A spec for each leaf, from a prefix tree."""
    try:
        return tree.broadcast_prefix(specs, whole)
    except (ValueError, TypeError) as error:
        raise ArgumentError(
            f"shard_map: {what}={specs!r} is not a prefix of the structure {tree.structure(whole)}."
        ) from error


def _check_same(out: PyTree, specs: PyTree, name: str) -> None:
    """Refuse results that differ along an axis along which they are not put together."""
    cut = _prefix(specs, out, "out_specs")
    for y, spec, path in zip(tree.leaves(out), cut, tree.paths(out), strict=True):
        apart = sorted(varies(y) - spec.names)
        if apart:
            axis = apart[0]
            raise VaryingError(
                f"shard_map: the result{path} of {name} varies over {axis!r}, but {spec} says that "
                "it is the same.",
                (
                    ("write", f"out_specs=P({axis!r})          the results of all places, joined"),
                    ("write", f"return lax.pmean(y, {axis!r})  the mean over them"),
                ),
            )
