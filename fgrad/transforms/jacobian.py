"""L4. Jacobians and Hessians: `vmap` of the pushforward or pullback over a basis.

jacfwd, jacrev : (a -> b) -> a -> b x CT a
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from fgrad import tree
from fgrad.base.keywords import also_takes
from fgrad.base.lazy_import import lazy_module
from fgrad.base.pickling import COMPILED, pickles_as_call
from fgrad.ops.shape import reshape, slice_
from fgrad.trace import Value
from fgrad.tracing.axes import varies
from fgrad.tracing.capturing import user_form
from fgrad.transforms.core.dtypes import ascent, check_argument, check_direction, check_result
from fgrad.transforms.core.linearize import apply_tangents, pull_tree, trace_linear
from fgrad.transforms.core.wrap import (
    argument_names,
    as_value,
    check_callable,
    function_name,
    named_like,
    normal_argnums,
    writable_result,
)
from fgrad.transforms.vmap import vmap
from fgrad.typing import P, PyTree

varying = lazy_module("fgrad.ops.varying")


@pickles_as_call
@also_takes()
def jacfwd(
    fun: Callable[P, PyTree],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    chunk_size: int | None = None,
) -> Callable[P, PyTree]:
    """The Jacobian of `fun` by forward mode: one pass for each element of the argument.

    Cheaper than `jacrev` when the result has more elements than the argument.

    Arguments:
        fun: a function of real arguments, whose results may be complex.
        argnums: the position, or positions, of the arguments to differentiate.
        has_aux: whether `fun` returns `(result, aux)`.
        holomorphic: whether `fun` is a holomorphic function of complex arguments.
        chunk_size: how many directions are computed at once, which bounds the memory; None for all.

    Returns:
        A function that returns, for each leaf y of the result and x of the argument, an array of
        shape `y.shape + x.shape`; with `has_aux`, `(jacobian, aux)`.

    Example:
        >>> import numpy as np, fgrad
        >>> fgrad.jacfwd(lambda x: x**2)(np.array([1.0, 2.0]))
        array([[2., 0.],
               [0., 4.]])
    """
    check_callable(fun, "jacfwd")
    return _forward(fun, argnums, has_aux, holomorphic, "jacfwd", fun, chunk_size)


def _forward(
    fun: Callable[..., PyTree],
    argnums: int | Sequence[int],
    has_aux: bool,
    holomorphic: bool,
    what: str,
    user_fun: Callable[..., PyTree],
    chunk_size: int | None,
) -> Callable[..., PyTree]:
    """`jacfwd` of `fun`; error cards name `user_fun`, from which `fun` was derived."""

    def jacfwd_fun(*args: PyTree, **kwargs: PyTree) -> PyTree:
        part, restricted = _restrict(fun, argnums, args, kwargs, what)
        leaves, in_tree = tree.flatten(tuple(part))
        values = [as_value(x) for x in leaves]
        for x in values:
            check_direction(x.dtype, holomorphic, user_fun, what)
        lin = trace_linear("linearize", restricted, part, has_aux, saves=False)
        for y in lin.outs if holomorphic else ():
            check_result(y.dtype, True, user_fun, what)
        linear, n = lin.without_values(), len(values)

        def push_flat(*parts: Value) -> PyTree:
            tangents = tree.unflatten(in_tree, parts[:n])
            return apply_tangents(linear, tangents, what, parts[n:])

        pushed = vmap(push_flat, out_axes=-1, chunk_size=chunk_size)(*_basis(values))
        columns, out_tree = tree.flatten(pushed)
        rows = [
            _split(column, len(column.shape) - 1, [v.shape for v in values]) for column in columns
        ]
        jacobian = tree.unflatten(out_tree, [_argument_tree(in_tree, row, argnums) for row in rows])
        return (jacobian, lin.aux) if has_aux else jacobian

    return named_like(jacfwd_fun, user_fun, what)


@pickles_as_call
@also_takes(allow_int=False)
def jacrev(
    fun: Callable[P, PyTree],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    chunk_size: int | None = None,
) -> Callable[P, PyTree]:
    """The Jacobian of `fun` by reverse mode: one pass for each element of the result.

    Cheaper than `jacfwd` when the argument has more elements than the result.  Takes and returns
    what `jacfwd` does, but with results that are real and arguments that may be complex; each row
    is the gradient of one element, as `grad` gives it.

    Arguments:
        fun, argnums, has_aux, holomorphic, chunk_size: as in `jacfwd`; a chunk is of rows.

    Example:
        >>> import numpy as np, fgrad
        >>> fgrad.jacrev(np.sum)(np.ones(3))
        array([1., 1., 1.])
    """
    check_callable(fun, "jacrev")

    def jacrev_fun(*args: PyTree, **kwargs: PyTree) -> PyTree:
        part, restricted = _restrict(fun, argnums, args, kwargs, "jacrev")
        values = [as_value(x) for x in tree.leaves(tuple(part))]
        for x in values:
            check_argument(x.dtype, holomorphic, function_name(fun), "jacrev")
        lin = trace_linear("vjp", restricted, part, has_aux, saves=True)
        out_tree, outs = lin.out_tree, lin.outs
        for y in outs:
            check_result(y.dtype, holomorphic, fun, "jacrev")
            if varies(y):
                names = functools.partial(argument_names, restricted, part, {})
                varying.refuse_ambiguous(y, values, names, f"jacrev({function_name(fun)})")
        linear, n = lin.without_values(), len(outs)

        def pull_flat(*parts: Value) -> PyTree:
            cotangent = tree.unflatten(out_tree, parts[:n])
            return pull_tree(linear, cotangent, parts[n:])

        pulled = vmap(pull_flat, chunk_size=chunk_size)(*_basis(outs))
        rows, in_tree = tree.flatten(pulled)
        rows = [ascent(row, holomorphic) for row in rows]
        pieces = [_split(row, 0, [y.shape for y in outs]) for row in rows]
        jacobian = tree.unflatten(
            out_tree,
            [
                _argument_tree(in_tree, [piece[i] for piece in pieces], argnums)
                for i in range(len(outs))
            ],
        )
        return (jacobian, lin.aux) if has_aux else jacobian

    return named_like(jacrev_fun, fun, "jacrev")


@pickles_as_call
@also_takes()
def hessian(
    fun: Callable[P, PyTree],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    chunk_size: int | None = None,
) -> Callable[P, PyTree]:
    """The matrix of second derivatives of `fun`: forward mode over reverse mode.

    Arguments are those of `jacfwd`; the arguments and results of `fun` are real, or complex with
    `holomorphic`.

    Arguments:
        fun, argnums, has_aux, holomorphic, chunk_size: as in `jacfwd`.

    Example:
        >>> import numpy as np, fgrad
        >>> fgrad.hessian(lambda x: np.sum(x**3))(np.array([1.0, 2.0]))
        array([[ 6.,  0.],
               [ 0., 12.]])
    """
    check_callable(fun, "hessian")
    rows = jacrev(fun, argnums, has_aux, holomorphic)
    return _forward(rows, argnums, has_aux, holomorphic, "hessian", fun, chunk_size)


def _restrict(
    fun: Callable[..., PyTree],
    argnums: int | Sequence[int],
    args: tuple[PyTree, ...],
    kwargs: dict[str, PyTree],
    what: str,
) -> tuple[list[PyTree], Callable[..., PyTree]]:
    """The differentiated arguments, and `fun` as a function of them alone."""
    positions = normal_argnums(argnums, len(args), what)

    def restricted(*part: PyTree) -> PyTree:
        whole = list(args)
        for i, x in zip(positions, part, strict=True):
            whole[i] = x
        return user_form(fun)(*whole, **kwargs)

    restricted.__name__ = function_name(fun)
    return [args[i] for i in positions], restricted


def _argument_tree(
    in_tree: tree.TreeDef, leaves: list[Value], argnums: int | Sequence[int]
) -> PyTree:
    parts = tree.unflatten(in_tree, [writable_result(x) for x in leaves])
    return parts[0] if isinstance(argnums, int) else tuple(parts)


def _basis(values: Sequence[Value]) -> list[np.ndarray]:
    """For each value, its part of all standard basis vectors, stacked along axis 0; then, if these
    contain zeros, masks of their nonzeros."""
    sizes = [int(np.prod(v.shape, dtype=int)) for v in values]
    total, at = sum(sizes), 0
    parts: list[np.ndarray] = []
    for v, n in zip(values, sizes, strict=True):
        eye = np.eye(total, n, -at, dtype=v.dtype)
        parts.append(eye.reshape((total, *v.shape)))
        at += n
    return [*parts, *[part != 0 for part in parts]] if total > 1 else parts


def _split(x: Value, axis: int, shapes: Sequence[tuple[int, ...]]) -> list[Value]:
    """Split an axis into pieces and reshape each piece."""
    pieces: list[Value] = []
    at = 0
    for shape in shapes:
        n = int(np.prod(shape, dtype=int))
        start = tuple(at if a == axis else 0 for a in range(len(x.shape)))
        stop = tuple(at + n if a == axis else m for a, m in enumerate(x.shape))
        piece = slice_(x, start, stop)
        pieces.append(reshape(piece, (*x.shape[:axis], *shape, *x.shape[axis + 1 :])))
        at += n
    return pieces


COMPILED.update((jacfwd, jacrev, hessian))
