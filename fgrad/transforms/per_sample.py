"""L4. Gradients of each example of a batch, their norms, and their clipped sum.

    per_sample_grad : (a -> b -> R) -> a -> [b] -> [CT a]

Compiled norms and sums of dense layers need no gradient of any single example (see
`compile/passes/factor_contractions.py`); for other layers, chunks bound how many are there at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce

import numpy as np

from fgrad import tree
from fgrad.base.keywords import also_takes
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.pickling import pickles_as_call
from fgrad.errors import ArgumentError, BatchSizeError
from fgrad.ir.aval import aval_of
from fgrad.ir.memory import peak_bytes
from fgrad.ops import elementwise as ew
from fgrad.ops.complex import imag, is_complex, real
from fgrad.ops.families import ADD
from fgrad.ops.reduce import reduce_sum
from fgrad.ops.shape import broadcast, move_axis
from fgrad.trace import Value, bind, trace
from fgrad.tracing.capturing import user_form
from fgrad.transforms.control.chunks import Chunks, byte_count, cut, map_chunks, sum_chunks
from fgrad.transforms.core.batching import example_aval
from fgrad.transforms.core.wrap import (
    as_value,
    check_callable,
    function_name,
    named_like,
    normal_argnums,
    writable_result,
)
from fgrad.transforms.grad import grad
from fgrad.transforms.vmap import no_axis, path_of, vmap
from fgrad.typing import P, PyTree


@pickles_as_call
@also_takes()
def per_sample_grad(
    fun: Callable[P, PyTree],
    argnums: int | Sequence[int] = 0,
    in_axes: int | Sequence[PyTree] | None = 0,
    *,
    chunk: int | str | None = None,
    norms_only: bool = False,
    clip: float | None = None,
) -> Callable[P, PyTree]:
    """The gradient for each example of a batch, or what is wanted of these gradients.

    Arguments:
        fun: the loss of one example: a function of parameters and of an example.
        argnums: the position, or positions, of the parameters, which all examples share.
        in_axes: the batched axis of the other arguments: an integer for all, or a sequence with an
            entry for each positional argument: integers, None, or pytrees of these.
        chunk: how many examples are differentiated at once, or the memory that their gradients
            may take, such as "500MB"; None for all at once.
        norms_only: return the Euclidean norm of each example's whole gradient.
        clip: return the sum of all gradients, each scaled to a norm of at most `clip`.

    Returns:
        A function with the arguments of `fun`, of a batch.  Its result is like the parameters with
        the batched axis first, or an array of norms, or a sum like the parameters.

    Raises:
        ArgumentError: if both norms and a clipped sum are asked for.
        BatchSizeError: if batched axes differ in size.

    Example:
        >>> import numpy as np, fgrad
        >>> def loss(w, x, y):
        ...     return (np.dot(w, x) - y) ** 2
        >>> w, x, y = np.zeros(2), np.array([[1.0, 0.0], [3.0, 4.0]]), np.array([1.0, -1.0])
        >>> fgrad.per_sample_grad(loss)(w, x, y)
        array([[-2.,  0.],
               [ 6.,  8.]])
        >>> fgrad.per_sample_grad(loss, norms_only=True)(w, x, y)
        array([ 2., 10.])
        >>> fgrad.per_sample_grad(loss, clip=1.0)(w, x, y)
        array([-0.4,  0.8])
    """
    check_callable(fun, "per_sample_grad")
    if norms_only and clip is not None:
        raise ArgumentError("per_sample_grad: give norms_only=True or clip=..., not both.")
    if clip is not None and not _is_positive(clip):
        raise ArgumentError(f"per_sample_grad: clip={clip}; it must be positive, and a number.")

    def per_sample_fun(*args: PyTree, **kwargs: PyTree) -> PyTree:
        batch = _batch(fun, args, kwargs, argnums, in_axes)
        chunks = _chunks(batch, chunk)

        def many(mapped: Sequence[Value]) -> list[Value]:
            gradients = batch.gradients(mapped)
            if norms_only:
                return [_norms(gradients)]
            return gradients if clip is None else _clipped(gradients, float(clip))

        if not tree.leaves(batch.params) and norms_only:
            return np.zeros(batch.size)

        if not batch.size:
            found = many(batch.mapped)
        elif clip is not None:
            found = sum_chunks(many, batch.mapped, chunks)
        else:
            found = map_chunks(many, batch.mapped, chunks)
        return writable_result(found[0]) if norms_only else batch.tree_of(found)

    return named_like(per_sample_fun, fun, "per_sample_grad")


def _is_positive(clip: object) -> bool:
    """Whether a bound of norms is one; it is known when the function is made."""
    return isinstance(clip, (float, int, np.floating, np.integer)) and bool(clip > 0)


class Batch(NamedTuple):
    """Arguments with those that are batched as leaves, batched axes first."""

    fun: Callable[..., PyTree]
    params: list[PyTree]
    mapped: list[Value]
    size: int
    restore: Callable[[Sequence[PyTree], Sequence[Value]], tuple[PyTree, PyTree]]
    single: bool

    def one(self, params: Sequence[PyTree], mapped: Sequence[Value]) -> PyTree:
        """The loss of one example."""
        args, kwargs = self.restore(params, mapped)
        return user_form(self.fun)(*args, **kwargs)

    def gradients(self, mapped: Sequence[Value]) -> list[Value]:
        """The leaves of the gradients for some examples, batched axes first."""

        def one(params: Sequence[PyTree], mapped: Sequence[Value]) -> PyTree:
            return self.one(params, mapped)

        gradient = grad(one)
        found = vmap(gradient, in_axes=(None, 0))(tuple(self.params), tuple(mapped))
        return tree.leaves(found)

    def tree_of(self, leaves: Sequence[Value]) -> PyTree:
        """The leaves of gradients as trees like the parameters."""
        found = tree.unflatten(
            tree.structure(tuple(self.params)), [writable_result(x) for x in leaves]
        )
        return found[0] if self.single else found


def _batch(
    fun: Callable[..., PyTree],
    args: tuple[PyTree, ...],
    kwargs: dict[str, PyTree],
    argnums: int | Sequence[int],
    in_axes: int | Sequence[PyTree] | None,
) -> Batch:
    """The arguments of a call, sorted."""
    positions = normal_argnums(argnums, len(args), "per_sample_grad")
    axes: list[PyTree] = (
        [in_axes] * len(args) if in_axes is None or isinstance(in_axes, int) else list(in_axes)
    )
    if len(axes) != len(args):
        raise ArgumentError(
            f"per_sample_grad: in_axes={in_axes!r} has {len(axes)} entries, but there are "
            f"{len(args)} positional arguments."
        )
    rest = [None if k in positions else x for k, x in enumerate(args)]
    leaves, treedef = tree.flatten((rest, kwargs))
    flat = [
        a
        for k, x in enumerate(rest)
        for a in ([] if x is None else tree.broadcast_prefix(axes[k], x))
    ]
    flat += [0] * (len(leaves) - len(flat))
    values = [as_value(x, f"an argument of {function_name(fun)}") for x in leaves]
    where = [k for k, a in enumerate(flat) if a is not None]
    given_args = (rest, kwargs)
    mapped = [_first(values[k], flat[k], k, given_args) for k in where]
    sizes = {x.shape[0] for x in mapped}
    if not sizes:
        raise BatchSizeError("per_sample_grad: no argument has a batched axis; see in_axes.")
    if len(sizes) != 1:
        rows = [
            ("sizes", f"{x.shape[0]:>6}   {path_of(given_args, k)}")
            for k, x in zip(where, mapped, strict=True)
        ]
        raise BatchSizeError("per_sample_grad: the batched axes have different sizes.", rows)

    def restore(params: Sequence[PyTree], examples: Sequence[Value]) -> tuple[PyTree, PyTree]:
        whole: list[Value] = list(values)
        for k, x in zip(where, examples, strict=True):
            whole[k] = x
        given, keywords = tree.unflatten(treedef, whole)
        for k, p in zip(positions, params, strict=True):
            given[k] = p
        return given, keywords

    params = [args[k] for k in positions]
    return Batch(fun, params, mapped, sizes.pop(), restore, isinstance(argnums, int))


def _first(x: Value, axis: int, position: int, args: Sequence[object]) -> Value:
    ndim = len(x.shape)
    if not -ndim <= axis < ndim:
        raise no_axis("per_sample_grad", axis, x, path_of(args, position))
    return move_axis(x, axis % ndim, 0)


def _chunks(batch: Batch, chunk: int | str | None) -> Chunks:
    size = batch.size
    if chunk is None:
        return Chunks(size, 1, 0)
    if isinstance(chunk, str):
        chunk = max(byte_count(chunk, "chunk") // max(_bytes_of_one(batch), 1), 1)
    return cut(size, min(int(chunk), max(size, 1)), "per_sample_grad")


def _bytes_of_one(batch: Batch) -> int:
    """The memory that the gradient of one example takes."""

    def one(*example: Value) -> list[Value]:
        def loss(params: Sequence[PyTree]) -> PyTree:
            return batch.one(params, example)

        return tree.leaves(grad(loss)(tuple(batch.params)))

    avals = [example_aval(aval_of(x), 0) for x in batch.mapped]
    return peak_bytes(trace(one, avals, "example").program)


def _norms(gradients: Sequence[Value]) -> Value:
    """The norm of each example's gradient, all leaves together."""
    squares = [reduce_sum(_squared(g), tuple(range(1, len(g.shape)))) for g in gradients]
    return ew.sqrt(reduce(partial(bind, ADD), squares))


def _squared(g: Value) -> Value:
    """|g|^2, which is real."""
    if not is_complex(g):
        return ew.mul(g, g)
    return bind(ADD, *[ew.mul(part, part) for part in (real(g), imag(g))])


def _clipped(gradients: Sequence[Value], most: float) -> list[Value]:
    """sum_b g[b] min(1, most / |g[b]|)"""
    if not gradients:
        return []
    norms = _norms(gradients)
    limit, one = norms.dtype.type(most), norms.dtype.type(1)
    large = ew.gt(norms, limit)
    factors = ew.select(large, ew.div(limit, ew.select(large, norms, one)), one)
    out: list[Value] = []
    for g in gradients:
        scale = ew.convert(factors, g.dtype) if g.dtype != norms.dtype else factors
        spread = broadcast(scale, tuple(g.shape), (0,)) if len(g.shape) > 1 else scale
        out.append(reduce_sum(ew.mul(g, spread), (0,)))
    return out
