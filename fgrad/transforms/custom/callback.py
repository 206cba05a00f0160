"""L4. Python functions that are called while a program runs, compiled or not.

    pure_callback    y = f(x): may be left out, repeated, or run in any order
    io_callback      y = f(x): runs once for each time that the program runs it, in order
    debug callbacks  no result: prints, breakpoints; derivatives pass by them

Values of known arrays (under `grad`, at the prompt) are there at once, so that the function is
called while it is traced; under `jit` it is called by the compiled program, which takes the GIL.
A mapped callback is called once for each example, unless it says that it takes all of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from fgrad import tree
from fgrad.base.pickling import Transformed, pickles_as_call
from fgrad.errors import ArgumentError, CustomRuleError, UnsupportedTypeError
from fgrad.ir import traits
from fgrad.ir.aval import Aval
from fgrad.ir.primitive import DISCRETE, Primitive
from fgrad.ir.traits import Host
from fgrad.ops.families import batch_first
from fgrad.trace import Tracer, Value, bind, innermost
from fgrad.tracing.device_tracing import lower
from fgrad.transforms.core.wrap import as_value, function_name
from fgrad.transforms.custom.function import line_of
from fgrad.typing import PyTree

_LEAF = tree.leaf()
_PLAIN = frozenset({np.ndarray, np.float64})  # results of one leaf
VMAP_METHODS = ("sequential", "expand_dims", "broadcast_all")


class Function:
    """A user's function on flat arrays, and the types of its results; equal to itself alone."""

    __slots__ = ("avals", "call", "fun", "method", "treedef", "types")

    def __init__(
        self,
        fun: Callable[..., PyTree],
        call: Callable[..., PyTree],
        avals: tuple[Aval, ...],
        treedef: tree.TreeDef,
        method: str,
    ) -> None:
        self.fun, self.call, self.avals, self.treedef = fun, call, avals, treedef
        self.method = method
        self.types = [(a.shape, a.dtype) for a in avals]

    def __repr__(self) -> str:
        return function_name(self.fun)

    def __call__(self, *operands: Value) -> tuple[Value, ...]:
        """The results as arrays of the promised types."""
        result = self.call(*[np.array(x)[()] for x in operands])
        leaves, found = ([result], _LEAF) if type(result) in _PLAIN else tree.flatten(result)
        arrays = list(map(np.asarray, leaves))
        types = [(x.shape, x.dtype) for x in arrays]
        if types != self.types or found != self.treedef:
            raise CustomRuleError(
                f"The callback {self} gave a result of another type than was promised.",
                (
                    ("found", ", ".join(f"{dtype}{shape}" for shape, dtype in types) or str(found)),
                    ("type", ", ".join(map(str, self.avals)) or str(self.treedef)),
                    line_of(self.fun, "by"),
                ),
            )
        return tuple([x if x.ndim else x[()] for x in arrays])

    def mapped(self, size: int, batched: tuple[bool, ...]) -> Function:
        """The function of all examples, in the first axis of what is batched."""
        avals = tuple([Aval((size, *a.shape), a.dtype) for a in self.avals])

        mapped = self.each if self.method == "sequential" else self.together
        call = functools.partial(mapped, size, batched)
        return Function(self.fun, call, avals, self.treedef, "sequential")

    def each(self, size: int, batched: tuple[bool, ...], *operands: Value) -> PyTree:
        """The results for all examples, one after the other."""
        rows = [
            self(*[x[k] if b else x for x, b in zip(operands, batched, strict=True)])
            for k in range(size)
        ]
        columns = [
            np.array([row[j] for row in rows], a.dtype).reshape((size, *a.shape))
            for j, a in enumerate(self.avals)
        ]
        return tree.unflatten(self.treedef, columns)

    def together(self, size: int, batched: tuple[bool, ...], *operands: Value) -> PyTree:
        """The results for all examples at once."""
        length = size if self.method == "broadcast_all" else 1
        given = [
            x if b else np.broadcast_to(x, (length, *np.shape(x)))
            for x, b in zip(operands, batched, strict=True)
        ]
        return self.call(*given)


def _always(_values: object, _params: object) -> bool:
    return True


def _define(name: str, effect: bool) -> Primitive:
    prim = Primitive(name, traits.calling(Host.CALLBACK), params=("function",), multiple=True)
    prim.effect = effect
    prim.reorders = _always  # NumPy's results lie as they come from Python

    @prim.type_rule
    def _(*_avals: Aval, function: Function) -> tuple[Aval, ...]:
        return (*function.avals, TOKEN)

    @prim.evaluate
    def _(*operands: Value, function: Function) -> tuple[Value, ...]:
        return (*function(*operands), _CALLED)

    @prim.batch
    def _(
        size: int, operands: Sequence[Value], dims: Sequence[int | None], function: Function
    ) -> tuple[Sequence[Value], Sequence[int | None]]:
        batched = tuple([d is not None for d in dims])
        xs = [
            x if d is None else batch_first(size, x, d) for x, d in zip(operands, dims, strict=True)
        ]
        outs = bind(prim, *xs, function=function.mapped(size, batched))
        return outs, (*[0] * len(function.avals), None)

    return prim


TOKEN = Aval((), np.dtype(np.uint8))  # the last result of each callback: that it was called
_CALLED: Value = TOKEN.dtype.type(0)
pure_p = _define("pure_callback", effect=False)
io_p = _define("io_callback", effect=True)
debug_p = _define("debug_callback", effect=True)

_NO_RULE = "calls Python, whose derivative nobody knows: write one with fgrad.custom_jvp around it"
for _prim in (pure_p, io_p):
    _prim.refuse("jvp", _NO_RULE)
    _prim.refuse("transpose", _NO_RULE)
debug_p.refuse("jvp", DISCRETE)
debug_p.refuse("transpose", DISCRETE)


def _called(
    prim: Primitive,
    fun: Callable[..., PyTree],
    results: PyTree,
    args: PyTree,
    kwargs: object,
    method: str,
) -> PyTree:
    """Bind a callback on the leaves of its arguments; the leaves of its results."""
    if method not in VMAP_METHODS:
        raise ArgumentError(
            f"vmap_method is {method!r}.", (("write", " or ".join(map(repr, VMAP_METHODS))),)
        )
    wanted, treedef = tree.flatten(results)
    avals = tuple([Aval(tuple(r.shape), np.dtype(r.dtype)) for r in wanted])
    leaves, given = tree.flatten((args, kwargs))
    values = [as_value(x, f"an argument of {function_name(fun)}") for x in leaves]

    function = Function(fun, functools.partial(_on_leaves, fun, given), avals, treedef, method)
    *outs, _token = _bind(prim, values, function)
    return tree.unflatten(treedef, map(lower, outs))


def _on_leaves(fun: Callable[..., PyTree], given: tree.TreeDef, *operands: Value) -> PyTree:
    """The result of a function for the leaves of its arguments."""
    positional, named = tree.unflatten(given, operands)
    return fun(*positional, **named)


def _bind(prim: Primitive, values: Sequence[Value], function: Function) -> PyTree:
    """As `bind`; a call without traced operands belongs to the open trace all the same."""
    builder = innermost()
    if builder is not None and not builder.eager and not any([type(x) is Tracer for x in values]):
        return builder.record(prim, values, {"function": function})
    return bind(prim, *values, function=function)


def pure_callback(
    callback: Callable[..., PyTree],
    result_shape_dtypes: object,
    *args: PyTree,
    vmap_method: str = "sequential",
    **kwargs: PyTree,
) -> PyTree:
    """The result of a Python function without side effects, in any trace.

    Arguments:
        callback: a function of NumPy arrays.
        result_shape_dtypes: a pytree like its result, of anything with `shape` and `dtype`, such as
            `fgrad.ShapeDtype((3,), float)`.
        args, kwargs: pytrees of arrays.
        vmap_method: how it is mapped: "sequential" calls it for each example; "expand_dims" and
            "broadcast_all" call it once, with a new first axis in every array, of length 1 or of
            the number of examples where an array is not mapped.

    Raises:
        CustomRuleError: if the result is of another type.
        MissingRuleError: if it is differentiated: `fgrad.custom_jvp` gives it a derivative.

    Example:
        >>> import numpy as np, fgrad
        >>> def slow(x):
        ...     return np.sort(x)
        >>> f = fgrad.jit(lambda x: fgrad.pure_callback(slow, fgrad.ShapeDtype((3,), float), x) + 1)
        >>> f(np.array([3.0, 1.0, 2.0]))
        array([2., 3., 4.])
    """
    return _called(pure_p, callback, result_shape_dtypes, args, kwargs, vmap_method)


def io_callback(
    callback: Callable[..., PyTree],
    result_shape_dtypes: object,
    *args: PyTree,
    vmap_method: str = "sequential",
    ordered: bool = True,
    **kwargs: PyTree,
) -> PyTree:
    """The result of a Python function with side effects: it is called once each time, in order.

    Arguments:
        ordered: accepted for JAX's sake; calls are always in the order of the program.
        callback, result_shape_dtypes, args, kwargs, vmap_method: as for `pure_callback`.

    Example:
        >>> import numpy as np, fgrad
        >>> seen = []
        >>> def note(x):
        ...     seen.append(float(x))
        ...     return np.int64(len(seen))
        >>> fgrad.jit(lambda x: fgrad.io_callback(note, fgrad.ShapeDtype((), int), x))(2.5)
        np.int64(1)
        >>> seen
        [2.5]
    """
    return _called(io_p, callback, result_shape_dtypes, args, kwargs, vmap_method)


def debug_callback(
    callback: Callable[..., object], /, *args: PyTree, ordered: bool = True, **kwargs: PyTree
) -> None:
    """Call a Python function for its side effects, wherever the program runs.

    Derivatives pass it by; under `vmap` it is called for each example.  Objects that are no arrays,
    such as strings, are given as they are when the program is traced.

    Example:
        >>> import numpy as np, fgrad
        >>> seen = []
        >>> def f(x):
        ...     fgrad.debug.callback(seen.append, x)
        ...     return x * x
        >>> fgrad.grad(f)(3.0), seen
        (np.float64(6.0), [np.float64(3.0)])
    """

    leaves, treedef = tree.flatten((args, kwargs))
    arrays = [_is_value(x) for x in leaves]
    values = [x for x, a in zip(leaves, arrays, strict=True) if a]
    rest = [None if a else x for x, a in zip(leaves, arrays, strict=True)]
    _called(debug_p, _silent(callback, rest, arrays, treedef), (), values, {}, "sequential")


@pickles_as_call
def _silent(
    callback: Callable[..., PyTree], rest: list[PyTree], arrays: list[bool], treedef: tree.TreeDef
) -> Callable[..., PyTree]:
    """A function of the arrays among some leaves, the others being given, without a result."""

    def silent(*values: Value) -> tuple[()]:
        each = iter(values)
        given = [next(each) if a else x for x, a in zip(rest, arrays, strict=True)]
        xs, named = tree.unflatten(treedef, given)
        callback(*xs, **named)
        return ()

    return Transformed(silent, callback, function_name(callback))


def _is_value(x: object) -> bool:
    try:
        as_value(x)
    except UnsupportedTypeError:
        return False
    return True
