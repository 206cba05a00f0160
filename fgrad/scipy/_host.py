"""L7. SciPy's solvers on traced functions: solve outside the trace, differentiate inside it.

    x = on_host(solver, ...)      SciPy's own code, on plain numbers, when the program runs
    y = implicit(f, x)            the same x, as the root of f: dy = -(df/dx)^-1 (df/dp) dp

The second gives x its derivatives, of any order and in both modes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import NoReturn, TypeVar

import numpy as np

from fgrad import tree
from fgrad.errors import ArgumentError, MissingRuleError
from fgrad.numpy.dispatch import has_tracer
from fgrad.numpy.promote import as_operand, inexact, user_line
from fgrad.ops import checked
from fgrad.ops.complex import complex_
from fgrad.ops.elementwise import stop_gradient
from fgrad.scipy._bound import Bound, in_program
from fgrad.scipy._either import refusal
from fgrad.trace import Value, concrete, innermost
from fgrad.tracing.capturing import user_form
from fgrad.tracing.thread_state import THREAD, State
from fgrad.transforms.core.shapes import eval_shape
from fgrad.transforms.core.wrap import function_name
from fgrad.transforms.custom.callback import pure_callback
from fgrad.transforms.custom.implicit import closure_convert, custom_root
from fgrad.transforms.vmap import vmap
from fgrad.typing import ArrayLike, PyTree

_SMALL = 0.01  # Newton's step, of the size of a solution, that may be left without success
R = TypeVar("R")


def as_result(kind: type[R]) -> type[R]:
    """A named tuple that can be read as SciPy's results are: `result["x"]`, `result.items()`."""
    fields = kind._fields  # type: ignore[attr-defined]

    def get(self: R, key: object) -> object:
        return getattr(self, key) if isinstance(key, str) else tuple.__getitem__(self, key)  # type: ignore[type-var,arg-type]

    def missing(self: R, name: str) -> NoReturn:
        raise AttributeError(
            f"{name!r} is not part of the result inside of transforms, which has "
            f"{', '.join(fields)}: SciPy's other fields are known outside of them alone."
        )

    there = {
        "__getitem__": get,
        "__getattr__": missing,
        "keys": lambda self: fields,
        "values": tuple,
        "items": lambda self: tuple(zip(fields, self, strict=True)),
    }
    for name, method in there.items():
        setattr(kind, name, method)
    return kind


def inside(*values: object) -> bool:
    """Whether a call belongs to a trace, by its arguments or by what a function closes over."""
    return innermost() is not None or has_tracer(tree.leaves(values))


def arguments(args: PyTree) -> tuple[Value, ...]:
    """SciPy's `args`: a tuple, or a single argument."""
    return tuple(args) if isinstance(args, (tuple, list)) else (args,)


def constant(x: ArrayLike) -> Value:
    """A tree whose leaves have derivative zero."""
    return tree.map(lambda leaf: stop_gradient(as_operand(leaf)), x)


def part_of(fun: Callable[..., PyTree], k: int) -> Callable[..., PyTree]:
    """A part of what a function returns: its value, where it returns derivatives as well."""

    def part(*args: PyTree, **kwargs: PyTree) -> PyTree:
        return user_form(fun)(*args, **kwargs)[k]

    part.__name__ = function_name(fun)
    return part


def floats(x: ArrayLike) -> Value:
    """A number or an array as floating point values."""
    return inexact(as_operand(x))


def must_be_real(x: ArrayLike, what: str) -> Value:
    """The value of a function that must be real, as floats; a card for complex ones."""
    value = floats(x)
    if value.dtype.kind == "c":
        why = "its values are complex, and their imaginary parts would be lost."
        raise refusal(what, why, "f(x).real and f(x).imag    one function for each part")
    return value


def refuse_options(name: str, given: Mapping[str, object]) -> None:
    """Raise a card for the first option of SciPy's function `name` that has no traced form."""
    for option, value in given.items():
        if isinstance(value, np.ndarray) or (
            value is not None and value is not False and value != 0
        ):
            raise refusal(f"{name} with {option}", "it has no traced form.", f"{name}(...)")


def refuse_unknown(function: Callable[..., object], given: Iterable[str]) -> None:
    """Raise, as Python does, for the first keyword that SciPy's function does not take."""
    known = inspect.signature(function).parameters
    for option in given:
        if option not in known:
            name = function.__name__
            raise TypeError(f"{name}() got an unexpected keyword argument {option!r}")


class Untraced:
    """Context without a trace: what runs inside computes with plain numbers."""

    def __enter__(self) -> None:
        self.saved, THREAD.state = THREAD.state, State()

    def __exit__(self, *_exc: object) -> None:
        THREAD.state = self.saved


def on_host(
    solver: Callable[..., PyTree],
    like: PyTree,
    fun: Callable[..., PyTree],
    example: PyTree,
    *values: PyTree,
    compiled: bool = False,
    options: Mapping[str, PyTree] | None = None,
) -> PyTree:
    """`solver(fun, *values)` on plain numbers when the program runs; `fun` may close over tracers.

    Arguments:
        solver: gets a function of plain arrays, and plain values.
        like: a tree with the shapes and dtypes of the result.
        fun: a function of one value like `example`.
        values: pytrees; the result has no derivative by them, nor by what `fun` closes over.
        compiled: whether the function is compiled outside of `jit` too.
        options: keywords of `solver`, of which some may be traced.
    """
    converted, consts = closure_convert(fun, example)
    compiled, made = compiled or in_program(), {}
    leaves, treedef = tree.flatten(dict(options or {}))
    late = {k: constant(x) for k, x in enumerate(leaves) if has_tracer([x])}

    def call(
        plain: tuple[PyTree, ...], closure: list[np.ndarray], known: dict[int, np.ndarray]
    ) -> PyTree:
        given = [known[k][()] if k in known else x for k, x in enumerate(leaves)]
        with Untraced():
            more = tree.unflatten(treedef, given)
            return solver(Bound(converted, closure, made, compiled), *plain, **more)

    return pure_callback(call, like, constant(values), constant(consts), late)


def must_start_real(x: ArrayLike) -> Value:
    """A start, an end or a bound as floats; a card for complex ones."""
    value = floats(x)
    if value.dtype.kind == "c":
        raise ArgumentError(
            f"scipy.optimize: this method takes real numbers, not {value.dtype}.",
            (
                *user_line(),
                ("why", "SciPy's code drops imaginary parts."),
                ("write", "real unknowns p = np.r_[x0.real, x0.imag], of which fun takes"),
                ("write", "p[: x0.size] + 1j * p[x0.size :]"),
                ("write", "fgrad.optim.adam(rate) and others take complex parameters"),
            ),
        )
    return value


def real_number(x: ArrayLike) -> Value:
    """A number that a search starts at, or an end of it, in double precision."""
    return must_start_real(x).astype(np.float64)


def start_of(x0: ArrayLike, fun: Callable[[Value], PyTree]) -> Value:
    """A start in the precision of the search: that of its function too, and single at least."""
    start = floats(x0)
    if start.dtype in (np.float64, np.complex128):
        return start
    values = tree.leaves(eval_shape(fun, start))
    return start.astype(np.result_type(start.dtype, np.float32, *[v.dtype for v in values]))


def at_once(
    solver: Callable[..., PyTree], fun: Callable[..., PyTree], example: PyTree, *values: PyTree
) -> PyTree | None:
    """`on_host` while tracing, for results of any kind; None if some value is not known yet."""
    converted, consts = closure_convert(fun, example)
    leaves, treedef = tree.flatten((list(values), consts))
    known = [concrete(x) for x in leaves]
    if any([x is None for x in known]):
        return None
    plain, closure = tree.unflatten(treedef, known)
    with Untraced():
        return solver(lambda x: converted(x, *closure), *plain)


def implicit(
    residual: Callable[[PyTree], PyTree],
    root: Value,
    success: Value | None = None,
    solver: Callable[[Callable[[PyTree], PyTree], Value], Value] | None = None,
    method: str = "SciPy's method",
) -> Value:
    """The root of `residual`, with derivatives by the implicit function theorem.

    Arguments:
        success: whether the solver says that it found one. If not, the root may still be exact
            enough, as after a line search that ended at rounding errors; a derivative raises a card
            where Newton's step from there is not small.
        solver: `solver(linear, y)` gives the x with linear(x) = y; by default by the dense matrix.
        method: what the card says that did not find it.
    """
    solver = solver or dense_solve
    if success is None:
        return custom_root(residual, root, lambda _, x: x, solver)
    found, done = stop_gradient(root), stop_gradient(success)
    away = stop_gradient(residual(found))

    def solve(linear: Callable[[PyTree], PyTree], y: Value) -> Value:
        require_found(done, found, solver(linear, away), method)
        return solver(linear, y)

    return custom_root(residual, root, lambda _, x: x, solve)


def dense_solve(linear: Callable[[PyTree], PyTree], y: Value) -> Value:
    """The x with linear(x) = y, by the dense matrix of `linear`."""
    if y.dtype.kind == "c":
        return _complex_solve(linear, y)
    if not y.shape:
        return y / linear(np.ones((), y.dtype)[()])
    n = int(np.prod(y.shape))
    basis = np.eye(n, dtype=y.dtype).reshape(n, *y.shape)
    matrix = np.transpose(np.reshape(vmap(linear)(basis), (n, n)))
    regular = np.linalg.slogdet(matrix)[0] != 0
    checked.require(regular, checked.text_of(_not_isolated()))
    matrix = np.where(regular, matrix, np.eye(n, dtype=y.dtype))
    return np.reshape(np.linalg.solve(matrix, np.reshape(y, -1)), y.shape)


def _complex_solve(linear: Callable[[PyTree], PyTree], y: Value) -> Value:
    """The same by real and imaginary parts: a linear function may take conjugates."""

    def of_parts(parts: Value) -> Value:
        found = linear(complex_(parts[0], parts[1]))
        return np.stack([np.real(found), np.imag(found)])

    parts = dense_solve(of_parts, np.stack([np.real(y), np.imag(y)]))
    return complex_(parts[0], parts[1])


def require_found(
    success: Value, found: Value, step: Value, method: str = "SciPy's method"
) -> None:
    """Raise a card where a solver did not succeed, and Newton's step from there is not small."""
    near = np.max(np.abs(step)) <= _SMALL * (1 + np.max(np.abs(found)))
    error = MissingRuleError(
        f"There is no solution to differentiate: {method} did not find one.",
        (
            *user_line(),
            ("why", "Newton's step from where it stopped is not small."),
            ("write", "another start, method or number of steps"),
            ("or", "result.success             tells it; x itself is where the method stopped"),
        ),
    )
    checked.require(success | near, checked.text_of(error))


def _not_isolated() -> MissingRuleError:
    """The card for a solution that its equations do not determine."""
    return MissingRuleError(
        "The derivative of this solution is not determined.",
        (
            *user_line(),
            ("why", "its equations are singular there: others next to it are solutions too."),
            ("write", "constraints of which none follows from others"),
            ("or", "+ 1e-8 * np.sum(x**2)    in a function that is flat along some unknowns"),
        ),
    )
