"""L4. Vectorisation: a function of one example becomes a function of a batch.

    vmap : (a -> b) -> [a] -> [b]

The function is traced once, for one example; values that do not depend on a mapped argument are
known.  Each recorded equation is then applied to the whole batch by its primitive's batching rule.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

import numpy as np

from fgrad import tree
from fgrad.base.frames import note_read_only
from fgrad.base.keywords import also_takes
from fgrad.base.kinds import is_list, is_tuple_like
from fgrad.base.lazy_import import lazy_module, load
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.pickling import pickles_as_call
from fgrad.errors import ArgumentError, BatchSizeError
from fgrad.ir.aval import PYTHON_SCALARS
from fgrad.ops.families import batch_first
from fgrad.ops.shape import index, move_axis
from fgrad.trace import Builder, Tracer, Value
from fgrad.tracing.axes import open_axis, refuse_shadow
from fgrad.tracing.capturing import user_form, without_value
from fgrad.tracing.layouts import orders_known
from fgrad.tracing.on_device import OnDevice
from fgrad.tracing.outside.draws import Draws
from fgrad.transforms.core.arguments import Shared, refuse_writes
from fgrad.transforms.core.batching import Batched, example_input, run_batched
from fgrad.transforms.core.wrap import (
    argument_names,
    as_value,
    as_values,
    check_callable,
    converted,
    flatten,
    function_name,
    ids_of,
    is_weak,
    named_like,
    own,
    own_each,
)
from fgrad.typing import P, PyTree, R

chunks = lazy_module("fgrad.transforms.control.chunks")

ARRAYS = (Tracer, np.ndarray, np.generic, OnDevice, *PYTHON_SCALARS)
PASSED: Any = object()  # stands for an argument that all examples share and that is no array


@pickles_as_call
@also_takes(spmd_axis_name=None, sum_match=False)
def vmap(
    fun: Callable[P, R],
    in_axes: PyTree = 0,
    out_axes: PyTree = 0,
    axis_size: int | None = None,
    *,
    axis_name: str | None = None,
    chunk_size: int | None = None,
) -> Callable[P, R]:
    """Map `fun` over axes of its arguments.

    Arguments:
        fun: a function of pytrees of arrays, written for one example.
        in_axes: the mapped axis: an integer, None (not mapped; then it may be any object), or a
            tuple with an entry for each positional argument, each of which may be a pytree prefix
            of the argument.  Keyword arguments are mapped over axis 0.
        out_axes: where the mapped axis stands in the results: likewise; None only for results that
            are the same for all examples.
        axis_size: the number of examples, needed only if nothing is mapped.
        axis_name: a name for the mapped axis, by which `fgrad.lax.psum`, ... combine the examples.
        chunk_size: how many examples are computed at once; None for all.

    Returns:
        The batched function.

    Raises:
        BatchSizeError: if mapped axes differ in size, or do not exist.
        AxisNameError: if an axis of that name is open already.

    Example:
        >>> import numpy as np, fgrad
        >>> fgrad.vmap(np.dot)(np.ones((3, 2)), np.ones((3, 2)))
        array([2., 2., 2.])
        >>> fgrad.vmap(lambda x: x / fgrad.lax.psum(x, "all"), axis_name="all")(np.arange(1.0, 4.0))
        array([0.16666667, 0.33333333, 0.5       ])
    """
    check_callable(fun, "vmap")
    of_example: Callable[..., R] = fun

    def vmap_fun(*args: P.args, **kwargs: P.kwargs) -> R:
        leaves, in_tree = tree.flatten((args, kwargs))
        axes = _in_axes(in_axes, args, kwargs)
        values = _values(leaves, axes, fun, args, kwargs)
        axes = _normal_axes(axes, values, (args, kwargs))
        size = _batch_size(axes, values, axis_size, (args, kwargs))
        _check_axis(axis_name, chunk_size)
        if chunk_size is not None and chunk_size < size:
            whole = Mapped(leaves, values, axes, in_tree, size)
            return _by_chunks(fun, whole, out_axes, chunk_size)
        builder = Builder("vmap", function_name(fun), eager=True)
        draws = Draws(fun)
        try:
            with draws, open_axis(axis_name, size, builder), builder.running, builder:
                inputs = _inputs(builder, leaves, values, axes, axis_name)
                call = tree.unflatten(in_tree, inputs)
                shared = _shared(fun, inputs, leaves, axes, call, (args, kwargs))
                out = user_form(of_example)(*call[0], **call[1])
                out_leaves, out_tree = flatten(out)
                store = shared.after(out_leaves)
                what = f"a result of {function_name(fun)}"
                outs = [builder.lift(as_value(x, what)) for x in out_leaves]
                draws.check(f"vmap({function_name(fun)})")
                records, mapped = builder.records, builder.inputs
                orders = orders_known(outs)
        except NameError as error:
            raise without_value(error) from None
        finally:
            builder.release()
        if draws.missed():
            again = functools.partial(vmap, axis_name=axis_name, chunk_size=chunk_size)
            return again(fun, in_axes, out_axes, axis_size)(*args, **kwargs)
        batched = run_batched(records, _mapped(mapped, values, axes), outs, orders, size, axis_name)
        given = ids_of([*values, *[x for x in outs if not isinstance(x, Tracer)]])
        name, pairs = function_name(fun), zip(batched, _out_axes(out_axes, out), strict=True)
        results = own_each([_place(size, x, d, place, name) for (x, d), place in pairs], given)
        if store is not None:
            store()
        return tree.unflatten(out_tree, results)

    return named_like(vmap_fun, fun, "vmap")


def _values(
    leaves: Sequence[object],
    axes: Sequence[int | None],
    fun: Callable[..., PyTree],
    args: tuple[PyTree, ...],
    kwargs: dict[str, PyTree],
) -> list[Value]:
    """The leaves as arrays; what is no array and not mapped is passed on as it is."""
    if None not in axes:
        return as_values(leaves, fun, args, kwargs)
    name = function_name(fun)

    def convert(pair: tuple[PyTree, int | None], what: str) -> Value:
        x, axis = pair
        passed = axis is None and not isinstance(x, ARRAYS) and not hasattr(x, "__array__")
        return PASSED if passed else as_value(x, f"{what} of {name}")

    pairs = list(zip(leaves, axes, strict=True))
    return converted(convert, pairs, lambda: argument_names(fun, args, kwargs))


class Mapped(NamedTuple):
    """The arguments of a mapped call."""

    leaves: list[PyTree]
    values: list[Value]
    axes: list[int | None]
    treedef: tree.TreeDef
    size: int


SHARED = "With chunk_size the function runs for each part: what all share is read-only."


def _by_chunks(fun: Callable[..., PyTree], call: Mapped, out_axes: PyTree, length: int) -> PyTree:
    """The mapped call, one part of the examples after the other."""
    where = [k for k, a in enumerate(call.axes) if a is not None]
    firsts = [move_axis(call.values[k], call.axes[k], 0) for k in where]  # type: ignore[arg-type]

    # The function runs for each part: what it would write into these, it would write each time.
    shared = [_read_only(x) for x in call.leaves]

    def one(*examples: PyTree) -> PyTree:
        leaves = [x.twin() if type(x) is Tracer else x for x in shared]
        own = [x for k, x in enumerate(leaves) if type(x) is Tracer and k not in where]
        for k, x in zip(where, examples, strict=True):
            leaves[k] = x
        args, kwargs = tree.unflatten(call.treedef, leaves)
        try:
            out = user_form(fun)(*args, **kwargs)
        except ValueError as error:
            note_read_only(error, SHARED)
            raise
        refuse_writes(f"vmap({function_name(fun)})", own, tree.leaves(out))
        return out

    one.__name__ = function_name(fun)
    many_examples = vmap(one, out_axes=out_axes)

    def many(blocks: Sequence[Value]) -> list[Value]:
        out = many_examples(*blocks)
        places, size = _out_axes(out_axes, out), blocks[0].shape[0]
        leaves, treedef = tree.flatten(out)
        found.append((treedef, places))
        pairs = zip(leaves, places, strict=True)
        return [batch_first(size, y, p % len(y.shape) if p is not None else None) for y, p in pairs]

    found: list[tuple[tree.TreeDef, list[int | None]]] = []
    results = chunks.map_chunks(many, firsts, chunks.cut(call.size, length, "vmap"))
    treedef, places = found[-1]
    name = function_name(fun)
    placed = [
        index(y, (0,)) if place is None else _place(call.size, y, 0, place, name)
        for y, place in zip(results, places, strict=True)
    ]
    return tree.unflatten(treedef, [own(y, ()) for y in placed])


def _read_only(x: PyTree) -> PyTree:
    if type(x) is not np.ndarray:
        return x
    view = x.view()
    view.flags.writeable = False
    return view


def _shared(
    fun: Callable[..., PyTree],
    inputs: Sequence[PyTree],
    leaves: Sequence[object],
    axes: Sequence[int | None],
    inner: Sequence[PyTree],
    given: Sequence[PyTree],
) -> Shared:
    """What becomes of writes into the arguments of a mapped function."""
    trees = [*inner[0], *inner[1].values()], [*given[0], *given[1].values()]
    arrays = [k for k, x in enumerate(inputs) if type(x) is Tracer]
    name = f"vmap({function_name(fun)})"

    def names() -> list[str]:
        found = argument_names(fun, *given)
        return [found[k] for k in arrays]

    tracers, plain = [inputs[k] for k in arrays], [leaves[k] for k in arrays]
    return Shared(name, tracers, plain, [axes[k] is not None for k in arrays], trees, names)


def _mapped(
    inputs: Sequence[Tracer], values: Sequence[Value], axes: Sequence[int | None]
) -> dict[int, Batched]:
    """The batched inputs by number."""
    arrays = [(v, a) for v, a in zip(values, axes, strict=True) if v is not PASSED]
    pairs = zip(inputs, arrays, strict=True)
    return {x.index: (v, a) for x, (v, a) in pairs if a is not None}


def _check_axis(name: object, chunk_size: int | None) -> None:
    """Refuse a name for the mapped axis that cannot be used."""
    if name is None:
        return
    load("fgrad.ops.varying")  # what traces with named axes do
    refuse_shadow(name, "vmap")
    if chunk_size is not None:
        raise ArgumentError(
            "vmap: axis_name and chunk_size do not go together.",
            (("why", "a collective needs all examples at once."),),
        )


def _inputs(
    builder: Builder,
    leaves: Sequence[object],
    values: Sequence[Value],
    axes: Sequence[int | None],
    name: str | None,
) -> list[PyTree]:
    """The arguments of one example; what is no array is passed on."""
    return [
        x if v is PASSED else _input(builder, x, v, a, name)
        for x, v, a in zip(leaves, values, axes, strict=True)
    ]


def _input(
    builder: Builder, leaf: object, value: Value, axis: int | None, name: str | None
) -> Tracer:
    if axis is None:
        return builder.input(value, None, is_weak(leaf))
    return example_input(builder, value, axis, name)


def _is_axis(x: object) -> TypeGuard[int | None]:
    return x is None or isinstance(x, (int, np.integer))


def _prefix(axes: PyTree, whole: PyTree, what: str) -> list[int | None]:
    """An axis for each leaf of `whole`, from a prefix tree."""
    if _is_axis(axes):
        return [axes] * len(tree.leaves(whole))
    try:
        found = tree.broadcast_prefix(axes, whole)
    except (ValueError, TypeError) as error:
        raise ArgumentError(
            f"vmap: {what}={axes!r} is not a prefix of the structure {tree.structure(whole)}."
        ) from error
    if not all(_is_axis(a) for a in found):
        raise ArgumentError(f"vmap: {what} must hold integers or None, not {axes!r}.")
    return found


def _in_axes(
    in_axes: PyTree, args: tuple[PyTree, ...], kwargs: dict[str, PyTree]
) -> list[int | None]:
    if is_list(in_axes):
        in_axes = tuple(in_axes)
    if is_tuple_like(in_axes) and len(in_axes) != len(args):
        raise ArgumentError(
            f"vmap: in_axes={in_axes!r} has {len(in_axes)} entries, but there are "
            f"{len(args)} positional arguments."
        )
    axes: list[int | None]
    if _is_axis(in_axes):
        axes = [in_axes] * len(tree.leaves(args))
    else:
        axes = [
            a
            for entry, arg in zip(in_axes, args, strict=True)
            for a in _prefix(entry, arg, "in_axes")
        ]
    return axes + [0] * len(tree.leaves(kwargs))


def _out_axes(out_axes: PyTree, out: PyTree) -> list[int | None]:
    return _prefix(out_axes, out, "out_axes")


def _normal_axes(
    axes: Sequence[int | None], values: Sequence[Value], args: Sequence[object]
) -> list[int | None]:
    pairs = enumerate(zip(axes, values, strict=True))
    return [_normal_axis(a, v, i, args) for i, (a, v) in pairs]


def _normal_axis(axis: int | None, x: Value, position: int, args: Sequence[object]) -> int | None:
    if axis is None:
        return None
    ndim = len(x.shape)
    if not -ndim <= axis < ndim:
        raise no_axis("vmap", axis, x, path_of(args, position))
    return int(axis) % ndim


def no_axis(what: str, axis: int, x: Value, path: str) -> BatchSizeError:
    """The card for an argument that has no batched axis."""
    rows = [("write", "in_axes=None for arguments that all examples share.")]
    if re.search(r"\]\[\d+\]$", path):
        rows.append(("write", "np.asarray(x) for a list of numbers, which is a tree."))
    headline = f"{what}: there is no axis {axis} in the argument {path}, "
    return BatchSizeError(headline + f"which has shape {tuple(x.shape)}.", rows)


def path_of(args: Sequence[object], position: int) -> str:
    """A readable name of a leaf of (args, kwargs): `args[0]['w']`."""
    path = tree.paths(args)[position]
    return ("args" if path.startswith("[0]") else "kwargs") + path[3:]


def _batch_size(
    axes: list[int | None], values: list[Value], axis_size: int | None, args: Sequence[object]
) -> int:
    sizes = {
        i: v.shape[a] for i, (a, v) in enumerate(zip(axes, values, strict=True)) if a is not None
    }
    found = set(sizes.values())
    if axis_size is not None:
        found.add(int(axis_size))
    if not found:
        raise BatchSizeError(
            "vmap: no argument is mapped, so the number of examples is not known; "
            "give axis_size=, or an in_axes entry that is not None."
        )
    if len(found) > 1:
        rows = [
            (
                "sizes",
                f"{n:>6}   {path_of(args, i)}, axis {axes[i]} of shape {tuple(values[i].shape)}",
            )
            for i, n in sizes.items()
        ]
        if axis_size is not None:
            rows.append(("sizes", f"{int(axis_size):>6}   axis_size"))
        raise BatchSizeError(
            "vmap: the mapped axes have different sizes.",
            (*rows, ("write", "in_axes=None for arguments that all examples share.")),
        )
    return found.pop()


def _place(size: int, x: Value, dim: int | None, place: int | None, name: str) -> Value:
    """A result with its batched axis where `out_axes` says."""
    if place is None:
        if dim is not None:
            raise ArgumentError(
                f"vmap: out_axes is None for a result of {name} that differs between examples."
            )
        return x
    ndim = len(x.shape) + (dim is None)
    if not -ndim <= place < ndim:
        raise BatchSizeError(f"vmap: out_axes={place} does not exist in a result of {ndim} axes.")
    place = int(place) % ndim
    if dim is None:
        x, dim = batch_first(size, x, None), 0
    return move_axis(x, dim, place)
