"""L4. Gradients of scalar functions.

grad : (a -> R) -> a -> CT a
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from itertools import islice
from operator import attrgetter
from typing import Literal, overload

import numpy as np

from fgrad import tree
from fgrad.base.keywords import also_takes
from fgrad.base.lazy_import import lazy_module
from fgrad.base.pickling import COMPILED, pickles_as_call, transformed_later
from fgrad.base.quiet import quiet
from fgrad.base.source import here, resolve
from fgrad.errors import NonScalarGradError
from fgrad.ir.aval import FLOAT64
from fgrad.ops.families import zeros_like
from fgrad.ops.selected import Selected, plain
from fgrad.trace import Builder, Tracer, Value
from fgrad.tracing.capturing import UserForm
from fgrad.tracing.device_tracing import lower, on_same_device
from fgrad.transforms.core.arguments import warn_of_writes, watched
from fgrad.transforms.core.dtypes import ascent, check_argument, check_result
from fgrad.transforms.core.tape import Tape, pull_selected
from fgrad.transforms.core.wrap import (
    PLAIN,
    argument_names,
    as_value,
    check_callable,
    converted,
    flatten,
    function_name,
    ids_of,
    is_weak,
    normal_argnums,
    outside,
    outside_tree,
    split_aux,
    writable_result,
)
from fgrad.typing import Aux, P, PyTree, R

by_name = lazy_module("fgrad.transforms.by_name")
memory_budget = lazy_module("fgrad.transforms.checkpoint.memory_budget")
varying = lazy_module("fgrad.ops.varying")

_VIEW = attrgetter("memory")
_ONE = np.float64(1.0)


@pickles_as_call
@also_takes(allow_int=False, reduce_axes=())
def value_and_grad(
    fun: Callable[P, R],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    argnames: str | Sequence[str] | None = None,
    memory: int | str | None = None,
) -> Callable[P, tuple[R, PyTree]]:
    """A function that returns both `fun(*args)` and its gradient.

    Arguments:
        fun: a function whose result is a scalar (shape ()) of a floating dtype.
        argnums: the position, or positions, of the arguments to differentiate: pytrees of
            floating-point arrays.
        has_aux: whether `fun` returns `(result, aux)`; `aux` is passed through.
        holomorphic: whether `fun` is a holomorphic function of complex arguments, whose derivative
            f'(z) is wanted; its result must be complex.
        argnames: in the place of `argnums`, the name of the argument to differentiate, or several:
            then the gradient is a dictionary.
        memory: the bytes that the derivative may use beyond its arguments, such as "500MB": what
            does not fit is computed again; see `fgrad.checkpoint`.  The function is traced as by
            `jit` then.

    Returns:
        A function with the arguments of `fun` that returns `(value, gradient)`, or
        `((value, aux), gradient)`.  The gradient has the structure, shapes and dtypes of the
        argument; it is a tuple if `argnums` is a sequence.  With respect to a complex z = x + iy
        it is dL/dx + i dL/dy, so that `z - step * gradient` descends.

    Raises:
        NonScalarGradError: if the result is not a scalar.
        GradDtypeError: if an argument is neither floating point nor complex, or the result not
            floating point (with `holomorphic`, if one of them is not complex).

    Example:
        >>> import numpy as np, fgrad
        >>> fgrad.value_and_grad(lambda x: np.sum(x**2))(np.array([1.0, 2.0]))
        (np.float64(5.0), array([2., 4.]))
    """
    check_callable(fun, "value_and_grad")
    return _later(fun, "value_and_grad", argnums, argnames, has_aux, holomorphic, memory)


def _later(
    fun: Callable[..., PyTree],
    name: str,
    argnums: int | Sequence[int],
    argnames: str | Sequence[str] | None,
    has_aux: bool,
    holomorphic: bool,
    memory: int | str | None,
) -> Callable[..., PyTree]:
    """What users get, in which the work begins when it is called."""
    of = fun if memory is None else memory_budget.budgeted(fun, memory)
    both = name != "grad"
    work = lambda: _differentiated(of, argnums, has_aux, holomorphic, both)  # noqa: E731
    if argnames is not None:
        place = 1 if both else 0 if has_aux else None
        one = functools.partial(
            _differentiated, argnums=0, has_aux=has_aux, holomorphic=holomorphic, with_value=both
        )
        named = by_name.with_names(of, argnames, argnums, place, one)
        work = lambda: named  # noqa: E731
    return transformed_later(work, fun, name)


def _differentiated(
    fun: Callable[..., PyTree],
    argnums: int | Sequence[int],
    has_aux: bool,
    holomorphic: bool,
    with_value: bool,
) -> Callable[..., PyTree]:
    """A function of the arguments of `fun` that returns its gradient, or its value and that."""
    name = function_name(fun)
    form = UserForm(fun)

    def differentiated(*args: PyTree, **kwargs: PyTree) -> PyTree:
        places, leaves, structures = _wanted(args, argnums)
        values = _differentiable(leaves, fun, holomorphic, args, places)
        builder = Builder("grad", name, eager=True, saves=True)
        try:
            with builder.running, builder:
                if values is leaves:  # plain arrays
                    inputs = list(map(builder.input, values))
                else:
                    pairs = zip(values, leaves, strict=True)
                    inputs = [builder.input(v, None, is_weak(x)) for v, x in pairs]
                given = inputs if structures is None else _gathered(inputs, structures)
                call_args: Sequence[PyTree] = given
                if len(args) > 1 or not given:
                    call_args = list(args)
                    for i, x in zip(places, given, strict=True):
                        call_args[i] = x
                watch = None if structures is None else watched(given)
                out, aux = form.within(builder)(*call_args, **kwargs), None
                if has_aux:
                    out, aux = split_aux(out, "grad")
                if watch is not None or any(map(_VIEW, inputs)):
                    names = functools.partial(_names, fun, args, places)
                    warn_of_writes(f"grad({name})", inputs, watch, aux, names)
                if has_aux:
                    aux = outside_tree(builder, aux, ids_of(values))
                out, value = _scalar_result(builder, out, fun, holomorphic)
                if builder.axes:
                    names = functools.partial(_names, fun, args, places)
                    varying.refuse_ambiguous(out, inputs, names, f"grad({name})")
                tape = Tape(builder, (out,))
        finally:
            builder.release()
        gathered: Sequence[PyTree] = _pull_scalar(tape, value, values, holomorphic)
        if structures is not None:
            gathered = _gathered(gathered, structures)
        gradient = gathered[0] if isinstance(argnums, int) else tuple(gathered)
        if not with_value:
            return (gradient, aux) if has_aux else gradient
        value = lower(value)
        return ((value, aux) if has_aux else value), gradient

    return differentiated


@overload
def grad(
    fun: Callable[P, tuple[PyTree, Aux]], argnums: int | Sequence[int] = ..., *,
    has_aux: Literal[True], holomorphic: bool = ..., argnames: str | Sequence[str] | None = ...,
    memory: int | str | None = ...,
) -> Callable[P, tuple[PyTree, Aux]]: ...  # fmt: skip
@overload
def grad(
    fun: Callable[P, PyTree], argnums: int | Sequence[int] = ..., has_aux: bool = ...,
    holomorphic: bool = ..., *, argnames: str | Sequence[str] | None = ...,
    memory: int | str | None = ...,
) -> Callable[P, PyTree]: ...  # fmt: skip
@pickles_as_call
@also_takes(allow_int=False, reduce_axes=())
def grad(
    fun: Callable[P, PyTree],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    argnames: str | Sequence[str] | None = None,
    memory: int | str | None = None,
) -> Callable[P, PyTree]:
    """A function that returns the gradient of `fun`.

    Arguments and errors are those of `value_and_grad`; with `has_aux` it returns `(gradient, aux)`.

    Arguments:
        fun, argnums, has_aux, holomorphic, argnames, memory: as in `value_and_grad`.

    Example:
        >>> import numpy as np, fgrad
        >>> fgrad.grad(lambda x: x**3)(2.0)
        np.float64(12.0)
    """
    check_callable(fun, "grad")
    return _later(fun, "grad", argnums, argnames, has_aux, holomorphic, memory)


def _wanted(
    args: tuple[PyTree, ...], argnums: int | Sequence[int]
) -> tuple[tuple[int, ...], list[PyTree], list[tree.TreeDef] | None]:
    """Where the differentiated arguments stand, their leaves, and their structures; these are None
    if all are arrays or numbers."""
    if type(argnums) is int and 0 <= argnums < len(args):
        places: tuple[int, ...] = (argnums,)
    else:
        places = normal_argnums(argnums, len(args), "grad")
    leaves: list[PyTree] = []
    for i in places:
        if type(args[i]) not in PLAIN:
            break
        leaves.append(args[i])
    else:
        return places, leaves, None
    flat = [flatten(args[i]) for i in places]
    return places, [x for found, _ in flat for x in found], [treedef for _, treedef in flat]


def _gathered(values: Sequence[PyTree], structures: list[tree.TreeDef]) -> Sequence[PyTree]:
    """Values for the leaves of all arguments, as arguments."""
    each = iter(values)
    return [tree.unflatten(s, list(islice(each, s.num_leaves))) for s in structures]


def _differentiable(
    leaves: list[PyTree],
    fun: Callable[..., PyTree],
    holomorphic: bool,
    args: tuple[PyTree, ...],
    places: Sequence[int],
) -> list[Value]:
    """The leaves of the arguments at some positions, all of which have a derivative."""
    for x in leaves:
        if holomorphic or type(x) is not np.ndarray or x.dtype is not FLOAT64:
            break
    else:
        return leaves
    name = function_name(fun)

    def one(x: object, what: str) -> Value:
        value = as_value(x, f"{what} of {name}")
        if value.dtype.kind != "f" or holomorphic:
            check_argument(value.dtype, holomorphic, name, "grad", what)
        return value

    return converted(one, leaves, functools.partial(_names, fun, args, places))


def _names(
    fun: Callable[..., PyTree], args: tuple[PyTree, ...], places: Sequence[int]
) -> list[str]:
    """How the leaves of the arguments at some positions are reached."""
    one_by_one = [argument_names(fun, [*[()] * i, args[i]], {}) for i in places]
    return [name for names in one_by_one for name in names]


def _scalar_result(
    builder: Builder, out: PyTree, fun: Callable[..., PyTree], holomorphic: bool
) -> tuple[Value, PyTree]:
    """The result as the trace sees it, and as the enclosing context does."""
    if type(out) is Tracer and out.builder is builder and out.memory is None and not holomorphic:
        value: PyTree = out.value
        if type(value) is np.float64:
            return out, value
    out = builder.lift(_checked_result(out, fun, holomorphic))
    return out, outside(builder, out)


def _checked_result(out: object, fun: Callable[..., PyTree], holomorphic: bool) -> Value:
    if type(out) is Tracer and out.shape == () and out.dtype.kind == ("c" if holomorphic else "f"):
        return out
    leaves, _ = flatten(out)
    name, used = function_name(fun), resolve(here())
    rows = (("used", f"{used}:  {used.text()}"),)
    if len(leaves) != 1 or leaves[0] is not out:
        raise NonScalarGradError(
            f"grad needs a scalar result, but {name} returned {_describe(out)}.",
            (
                *rows,
                ("write", "grad(f, has_aux=True)      f returns (loss, extra results)"),
                ("write", "fgrad.jacrev(f)            all derivatives of all results"),
            ),
        )
    value = as_value(out, f"the result of {name}")
    if value.shape != ():
        item = f"f(x)[{', '.join('0' * value.ndim)}]"
        single = ("write", f"{item:<32}the number, of a result that has one")
        raise NonScalarGradError(
            f"grad needs a scalar result, but {name} returned an array of shape {value.shape}.",
            (
                *rows,
                ("why", "a gradient is the derivative of one number."),
                *((single,) if math.prod(value.shape) == 1 else ()),
                ("write", "np.sum(...) or np.mean(...)     to make one number of the result"),
                ("write", "fgrad.jacrev(f)                 the derivative of every element"),
                ("write", "fgrad.vjp(f, x)                 the pullback of a chosen cotangent"),
            ),
        )
    check_result(value.dtype, holomorphic, fun, "grad")
    return value


def _describe(out: object) -> str:
    return "None" if out is None else f"a {type(out).__name__}"


@quiet
def _pull_scalar(tape: Tape, value: PyTree, values: list[Value], holomorphic: bool) -> list[Value]:
    """The gradient for each differentiated leaf."""
    seed: PyTree = _ONE if type(value) is np.float64 else value.dtype.type(1.0)
    if type(value) is Tracer:
        seed = on_same_device(seed, value)
    pulled = pull_selected(tape, (seed,), release=True)
    gradient: list[Value] = []
    for found, x in zip(pulled, values, strict=True):
        ct: PyTree = plain(found) if type(found) is Selected else found
        if type(ct) is not np.ndarray or type(x) is not np.ndarray:
            ct = on_same_device(zeros_like(x) if ct is None else ct, x)
        if ct.dtype.kind == "c":
            ct = ascent(ct, holomorphic)
        own = type(ct) is np.ndarray and ct.base is None and ct.ndim and ct.flags.writeable
        gradient.append(ct if own else writable_result(ct))
    return gradient


COMPILED.update((value_and_grad, grad))
