"""L4. Linearisation at a point: one trace of the user's function, and the linear maps along it.

    jvp       : (a -> b) -> (a, T a) -> (b, T b)
    linearize : (a -> b) -> a -> (b, T a -o T b)
    vjp       : (a -> b) -> a -> (b, CT b -o CT a)

The function runs once, eagerly, so its values are the residuals and Python control flow works.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, overload

import numpy as np

from fgrad import tree
from fgrad.base.frames import hides_own_frames
from fgrad.base.keywords import also_takes
from fgrad.base.kinds import is_array
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.pickling import pickles_as_call
from fgrad.errors import ArgumentError, GradDtypeError
from fgrad.ir.aval import aval_of
from fgrad.ops.elementwise import convert
from fgrad.ops.families import FLOATS, zeros_like
from fgrad.ops.moved import as_given
from fgrad.ops.selected import ZERO, Selected, Tangent, known_support, plain
from fgrad.trace import Builder, Tracer, Value
from fgrad.tracing.capturing import user_form
from fgrad.tracing.device_tracing import is_lifted, lower, on_same_device
from fgrad.transforms.core.arguments import warn_of_writes, watched
from fgrad.transforms.core.linear_function import Form, linear_function
from fgrad.transforms.core.tape import Tape, pull_selected, push_selected
from fgrad.transforms.core.wrap import (
    argument_names,
    as_value,
    as_values,
    check_callable,
    flatten,
    function_name,
    ids_of,
    is_weak,
    outside,
    outside_tree,
    own_each,
    split_aux,
)
from fgrad.typing import Aux, PyTree, R


class Linearized(NamedTuple):
    """A function traced at a point: its result there and the tape of its derivative."""

    outs: list[Value]
    out_tree: tree.TreeDef
    aux: PyTree
    tape: Tape
    in_tree: tree.TreeDef
    primals: list[Value]

    def without_values(self) -> Linearized:
        """What the linear map needs: no value but those that derivatives read."""
        return self._replace(
            outs=_likenesses(self.outs), primals=_likenesses(self.primals), aux=None
        )


def _likenesses(values: Sequence[Value]) -> list[PyTree]:
    """Avals in place of values, but of those on a device, which say where their derivatives go."""
    return [x if is_lifted(x) else aval_of(x).strong() for x in values]


def trace_linear(
    what: str, fun: Callable[..., PyTree], primals: Sequence[PyTree], has_aux: bool, saves: bool
) -> Linearized:
    """Run `fun(*primals)` once, recording it for differentiation."""
    leaves, in_tree = tree.flatten(tuple(primals))
    values = as_values(leaves, fun, primals, {})
    if what != "jvp":
        values = [_snapshot(x) for x in values]
    builder = Builder(what, function_name(fun), eager=True, saves=saves)
    try:
        with builder.running, builder:
            inputs = [
                builder.input(v, None, is_weak(x)) for v, x in zip(values, leaves, strict=True)
            ]
            call_args = tree.unflatten(in_tree, inputs)
            watch = watched(call_args)
            out, aux = user_form(fun)(*call_args), None
            if has_aux:
                out, aux = split_aux(out, what)
            name = f"{what}({function_name(fun)})"
            warn_of_writes(
                name, inputs, watch, (out, aux), lambda: argument_names(fun, primals, {})
            )
            if has_aux:
                aux = outside_tree(builder, aux, ids_of(values))
            out_leaves, out_tree = flatten(out)
            outs = [
                builder.lift(as_value(x, f"a result of {function_name(fun)}")) for x in out_leaves
            ]
            tape = Tape(builder, outs)
            results = [outside(builder, x) for x in outs]
            if what == "jvp":
                given = ids_of([*values, *[x for x in outs if type(x) is not Tracer]])
                if not any([is_lifted(x) for x in results]):
                    results = own_each(results, given)
            else:
                results = [_snapshot(x) for x in results]
    finally:
        builder.release()
    return Linearized(results, out_tree, aux, tape, in_tree, values)


def _snapshot(x: Value) -> Value:
    """An array of its own: the tape is used later, when the caller may have written into his."""
    return x.copy("K") if is_array(x) else x


def is_inexact(x: Value) -> bool:
    """Whether a value has a dtype with derivatives: floating or complex."""
    return x.dtype.kind in FLOATS


def _is_float0(x: object) -> bool:
    """Whether it is an array of JAX's `float0`, the dtype of tangents of integers."""
    return getattr(getattr(x, "dtype", None), "names", None) == ("float0",)


def _check_linear(
    values: Sequence[object], like: Sequence[Value], what: str, of: str, whose: str
) -> list[Value | None]:
    """Tangents or cotangents as values of the right shape and dtype; None stands for zero."""
    checked: list[Value | None] = []
    for x, primal in zip(values, like, strict=True):
        if not is_inexact(primal) and _is_float0(x):
            checked.append(None)
            continue
        v = as_value(x, f"a {what}")
        if not is_inexact(primal):
            if np.dtype(v.dtype).kind != "V" and not isinstance(v, Tracer) and not np.any(v):
                checked.append(None)
                continue
            raise GradDtypeError(
                f"{of}: the {whose} has dtype {primal.dtype}, so its {what} must be zero.",
                (("why", "only floating-point values have derivatives."),),
            )
        if v.shape != primal.shape:
            raise ArgumentError(
                f"{of}: a {what} has shape {v.shape}, but its {whose} has shape {primal.shape}."
            )
        if v.dtype != primal.dtype:
            if not is_weak(x) and np.result_type(v.dtype, primal.dtype) != primal.dtype:
                raise ArgumentError(
                    f"{of}: a {what} has dtype {v.dtype}, but its {whose} has dtype {primal.dtype}."
                )
            v = convert(v, primal.dtype)
        checked.append(v)
    return checked


@overload
def jvp(
    fun: Callable[..., tuple[R, Aux]], primals: Sequence[PyTree], tangents: Sequence[PyTree],
    has_aux: Literal[True],
) -> tuple[R, R, Aux]: ...  # fmt: skip
@overload
def jvp(
    fun: Callable[..., R], primals: Sequence[PyTree], tangents: Sequence[PyTree],
    has_aux: Literal[False] = ...,
) -> tuple[R, R]: ...  # fmt: skip
@hides_own_frames
@also_takes()
def jvp(
    fun: Callable[..., PyTree],
    primals: Sequence[PyTree],
    tangents: Sequence[PyTree],
    has_aux: bool = False,
) -> tuple[PyTree, ...]:
    """The value of `fun` at `primals` and its directional derivative along `tangents`.

    Arguments:
        fun: a function of pytrees of arrays.
        primals: a tuple or list of its positional arguments.
        tangents: a tuple or list of the same structure, shapes and dtypes.
        has_aux: whether `fun` returns `(result, aux)`.

    Returns:
        `(result, tangent)`, or `(result, tangent, aux)`.

    Raises:
        ArgumentError: if the tangents do not match the primals.

    Example:
        >>> import numpy as np, fgrad
        >>> fgrad.jvp(np.sin, (0.0,), (2.0,))
        (np.float64(0.0), np.float64(2.0))
    """
    check_callable(fun, "jvp")
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise ArgumentError("jvp: primals and tangents must be tuples or lists of arguments.")
    lin = trace_linear("jvp", fun, primals, has_aux, saves=False)
    out_tangents = apply_tangents(lin, tuple(tangents), "jvp")
    result = tree.unflatten(lin.out_tree, map(lower, lin.outs))
    return (result, out_tangents, lin.aux) if has_aux else (result, out_tangents)


def _selected(ts: Sequence[Value | None], supports: Sequence[Value]) -> list[Tangent]:
    if not supports:
        return [as_given(t) for t in ts]
    return [
        t if t is None else Selected(t, known_support(bits, loose=True), ZERO)
        for t, bits in zip(ts, supports, strict=True)
    ]


def apply_tangents(
    lin: Linearized, tangents: tuple[PyTree, ...], what: str, supports: Sequence[Value] = ()
) -> PyTree:
    """The tangents of the results; `supports` says where those that are given are not zero."""
    leaves, treedef = tree.flatten(tangents)
    if treedef != lin.in_tree:
        raise ArgumentError(
            f"{what}: the tangents have structure {treedef}, the primals {lin.in_tree}."
        )
    checked = _check_linear(leaves, lin.primals, "tangent", what, "primal")
    with np.errstate(all="ignore"):
        pushed = [plain(t) for t in push_selected(lin.tape, _selected(checked, supports))]
    filled = [
        on_same_device(zeros_like(y) if t is None else t, y)
        for t, y in zip(pushed, lin.outs, strict=True)
    ]
    given = ids_of(leaves)
    return tree.unflatten(lin.out_tree, own_each(filled, given))


@overload
def linearize(
    fun: Callable[..., tuple[R, Aux]], *primals: PyTree, has_aux: Literal[True]
) -> tuple[R, Callable[..., R], Aux]: ...
@overload
def linearize(
    fun: Callable[..., R], *primals: PyTree, has_aux: Literal[False] = ...
) -> tuple[R, Callable[..., R]]: ...
@hides_own_frames
@also_takes()
def linearize(
    fun: Callable[..., PyTree], *primals: PyTree, has_aux: bool = False
) -> tuple[PyTree, ...]:
    """The value of `fun` at `primals`, and its derivative there as a function of tangents.

    Arguments:
        fun: a function of pytrees of arrays.
        primals: its arguments.
        has_aux: whether `fun` returns `(result, aux)`; `aux` is passed through.

    Returns:
        `(result, fun_jvp)`, or `(result, fun_jvp, aux)`; `fun_jvp(*tangents)` repeats no work
        of `fun`.

    Example:
        >>> import fgrad
        >>> y, f_jvp = fgrad.linearize(lambda x: x**2, 3.0)
        >>> float(f_jvp(1.0))
        6.0
    """
    check_callable(fun, "linearize")
    lin = trace_linear("linearize", fun, primals, has_aux, saves=False)
    pushforward = _pushforward(lin.without_values(), function_name(fun))
    result = tree.unflatten(lin.out_tree, map(lower, lin.outs))
    return (result, pushforward, lin.aux) if has_aux else (result, pushforward)


@pickles_as_call
def _pushforward(linear: Linearized, name: str) -> Callable[..., PyTree]:
    """The derivative at a point, as a function."""

    def fun_jvp(*tangents: PyTree) -> PyTree:
        """The tangent of the result, for one of each primal."""
        return apply_tangents(linear, tangents, "linearize")

    def form() -> Form:
        check = partial(
            _check_linear, like=linear.primals, what="tangent", of="linearize", whose="primal"
        )
        avals = tuple(map(aval_of, linear.primals))
        return Form("linearize", name, linear.in_tree, avals, check)

    return linear_function(fun_jvp, f"linearize({name})", form)


@overload
def vjp(
    fun: Callable[..., tuple[R, Aux]], *primals: PyTree, has_aux: Literal[True]
) -> tuple[R, Callable[[PyTree], tuple[PyTree, ...]], Aux]: ...
@overload
def vjp(
    fun: Callable[..., R], *primals: PyTree, has_aux: Literal[False] = ...
) -> tuple[R, Callable[[PyTree], tuple[PyTree, ...]]]: ...
@hides_own_frames
@also_takes(reduce_axes=())
def vjp(fun: Callable[..., PyTree], *primals: PyTree, has_aux: bool = False) -> tuple[PyTree, ...]:
    """The value of `fun` at `primals`, and the transpose of its derivative there.

    Arguments:
        fun: a function of pytrees of arrays.
        primals: its positional arguments.
        has_aux: whether `fun` returns `(result, aux)`.

    Returns:
        `(result, fun_vjp)`, or `(result, fun_vjp, aux)`.  `fun_vjp(cotangent)` returns a tuple with
        one cotangent for each primal; it may be called again, and from several threads.

    Example:
        >>> import numpy as np, fgrad
        >>> y, f_vjp = fgrad.vjp(np.sin, 0.0)
        >>> f_vjp(3.0)
        (np.float64(3.0),)
    """
    check_callable(fun, "vjp")
    lin = trace_linear("vjp", fun, primals, has_aux, saves=True)
    pullback = _pullback(lin.without_values(), function_name(fun))
    result = tree.unflatten(lin.out_tree, map(lower, lin.outs))
    return (result, pullback, lin.aux) if has_aux else (result, pullback)


@pickles_as_call
def _pullback(linear: Linearized, name: str) -> Callable[..., PyTree]:
    """The transposed derivative at a point, as a function."""

    def fun_vjp(cotangent: PyTree) -> PyTree:
        """The cotangents of the primals, for one of the result."""
        return pull_tree(linear, cotangent)

    def form() -> Form:
        check = partial(_check_linear, like=linear.outs, what="cotangent", of="vjp", whose="result")
        avals = tuple(map(aval_of, linear.outs))
        return Form("vjp", name, tree.tuple_of(linear.out_tree), avals, check)

    return linear_function(fun_vjp, f"vjp({name})", form)


def pull_tree(lin: Linearized, cotangent: PyTree, supports: Sequence[Value] = ()) -> PyTree:
    """The cotangents of the primals; `supports` says where those that are given are not zero."""
    leaves, treedef = flatten(cotangent)
    if treedef != lin.out_tree:
        raise ArgumentError(
            f"vjp: the cotangent has structure {treedef}, the result {lin.out_tree}."
        )
    checked = _check_linear(leaves, lin.outs, "cotangent", "vjp", "result")
    with np.errstate(all="ignore"):
        pulled = [plain(ct) for ct in pull_selected(lin.tape, _selected(checked, supports))]
    given = ids_of(leaves)
    filled = [
        on_same_device(zeros_like(x) if ct is None else ct, x)
        for ct, x in zip(pulled, lin.primals, strict=True)
    ]
    return tree.unflatten(lin.in_tree, own_each(filled, given))
