"""L7. SciPy's root finders, differentiated by the implicit function theorem.

Inside a transform the function is traced; SciPy computes the solution on plain numbers, and the
solution is differentiated by the equation that it satisfies:

    f(x, p) = 0                       roots

Initial guesses, brackets and tolerances have no derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

import numpy as np

from fgrad import tree
from fgrad.base.lazy_import import lazy_module
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.progress import Progress, Told
from fgrad.compile.jit.jitted import jit
from fgrad.errors import ShapeError
from fgrad.ir.aval import Aval
from fgrad.numpy.promote import user_line
from fgrad.scipy._bound import (
    Bound,
    Transform,
    along,
    derived,
    in_program,
    itself,
    of_number,
    second_derivative,
    twice_along,
)
from fgrad.scipy._brackets import brent, settings_of
from fgrad.scipy._derivatives import jacobian
from fgrad.scipy._host import (
    arguments,
    as_result,
    floats,
    implicit,
    inside,
    must_be_real,
    must_start_real,
    on_host,
    part_of,
    real_number,
    refuse_options,
    refuse_unknown,
    start_of,
)
from fgrad.trace import Value
from fgrad.tracing.capturing import user_form
from fgrad.transforms.core.wrap import function_name
from fgrad.transforms.grad import grad
from fgrad.typing import ArrayLike, PyTree

if TYPE_CHECKING:
    from scipy.optimize import RootResults

plain = lazy_module("scipy.optimize")

Function: TypeAlias = Callable[..., PyTree]
NUMBER = Aval((), np.dtype(np.float64))
FLAG = Aval((), np.dtype(np.bool_))
_OF_NUMBER = "The function of scipy.optimize.root_scalar"


@runtime_checkable
class Box(Protocol):
    """What `scipy.optimize.Bounds` has: the least and the greatest value of each unknown."""

    lb: ArrayLike
    ub: ArrayLike


Ends: TypeAlias = tuple[ArrayLike, ArrayLike] | None
Pairs: TypeAlias = Sequence[tuple[ArrayLike | None, ArrayLike | None]]
Options: TypeAlias = Mapping[str, object]  # of SciPy's function


@as_result
class Root(NamedTuple):
    """What `root_scalar` returns inside of a transform."""

    root: Value
    converged: Value


@as_result
class Solution(NamedTuple):
    """What `root`, `minimize`, `minimize_scalar`, `least_squares` return inside of transforms."""

    x: Value
    fun: Value
    success: Value


def _applied(fun: Function, args: PyTree, real: bool = True) -> Function:
    """A function of the unknown alone."""
    rest = arguments(args)

    def applied(x: ArrayLike) -> Value:
        value = user_form(fun)(x, *rest)
        if not real:
            return floats(value)
        return must_be_real(value, f"The function {function_name(fun)} of scipy.optimize")

    applied.__name__ = function_name(fun)
    return applied


def scalar_of(fun: Function, args: PyTree) -> Function:
    """A scalar function of a scalar."""
    applied = _applied(fun, args)

    def scalar(x: ArrayLike) -> Value:
        return np.reshape(applied(x), ())

    scalar.__name__ = applied.__name__
    return scalar


def _as_float(function: Function) -> Function:
    """A function of a number as SciPy calls it, in double precision."""

    def called(x: ArrayLike, *args: PyTree) -> float:
        place = x if isinstance(x, float) else must_start_real(x)
        value = function(np.float64(place), *args)
        real = value if isinstance(value, float) else must_be_real(value, _OF_NUMBER)
        return float(real)

    return called


def _as_complex(function: Function) -> Function:
    """The same of a complex number."""
    return lambda x, *args: complex(function(np.complex128(x), *args))


def number_of(f: Function, transform: Transform = itself) -> Function:
    call = of_number(f, transform)
    return lambda x: float(call(x))


def of_type(f: Function, dtype: np.dtype) -> Function:
    """A function of one array that SciPy may give in another type."""
    call = f.call if isinstance(f, Bound) else f
    return call if dtype == np.float64 else lambda x: call(np.asarray(x, dtype))


def root_scalar(
    f: Function,
    args: PyTree = (),
    method: str | None = None,
    *,
    progress: bool | Progress = False,
    **options: PyTree,
) -> RootResults | Root:
    """`scipy.optimize.root_scalar` with the derivatives that methods need, and those of the root.

    Arguments:
        f: `f(x, *args)` to a number, of NumPy operations; derivatives flow to `args` and to what
            it closes over.
        method, options: as SciPy takes them (`bracket`, `x0`, `x1`, `xtol`, ...).
        progress: as for `minimize`.

    Returns:
        SciPy's `RootResults`; inside of transforms `(root, converged)`.

    Example:
        >>> import fgrad
        >>> float(root_scalar(lambda x: x**2 - 2.0, x0=1.0, method="newton").root)
        1.4142135623730951
        >>> slope = fgrad.grad(lambda p: root_scalar(lambda x: x**3 - p, bracket=(0.0, 9.0)).root)
        >>> float(slope(8.0).round(9))
        0.083333333
    """
    args = arguments(args)
    several = [name for name in ("fprime", "fprime2") if options.get(name) is True]
    value = part_of(f, 0) if several else f
    if inside(list(options.values()), args):
        return _scalar_root(value, args, method, options, progress)
    starts = {k: options[k] for k in ("x0", "x1") if options.get(k) is not None}
    whole = any([np.iscomplexobj(x) for x in starts.values()])
    as_number = _as_complex if whole else _as_float
    options |= starts if whole else tree.map(real_number, starts)
    for k, name in enumerate(several):
        options[name] = as_number(jit(part_of(f, k + 1)))
    slope = grad(f, holomorphic=whole)
    if method in ("newton", "halley") and options.get("fprime") is None:
        options["fprime"] = as_number(jit(slope))
    if method == "halley" and options.get("fprime2") is None:
        options["fprime2"] = as_number(jit(grad(slope, holomorphic=whole)))
    with Told(progress, "root_scalar") as told:
        counted = told.counted(as_number(jit(value)))
        return plain.root_scalar(counted, args=args, method=method, **options)


def _scalar_root(
    f: Function,
    args: PyTree,
    method: str | None,
    options: Options,
    progress: bool | Progress,
) -> Root:
    """`root_scalar` inside of a transform."""
    given = {k: options[k] for k in ("bracket", "x0", "x1") if options.get(k) is not None}
    given = tree.map(real_number, given)
    options = {k: v for k, v in options.items() if k not in given}
    first, second = options.pop("fprime", None), options.pop("fprime2", None)

    def solver(plain_f: Function, start: Options, **rest: PyTree) -> tuple[np.float64, np.bool_]:
        if first is not None or method in ("newton", "halley"):
            rest["fprime"] = number_of(plain_f, grad)
        if second is not None or method == "halley":
            rest["fprime2"] = number_of(plain_f, second_derivative)
        with Told(progress, "root_scalar") as told:
            counted = told.counted(number_of(plain_f))
            found = plain.root_scalar(counted, method=method, **start, **rest)
        return np.float64(found.root), np.bool_(found.converged)

    fun = scalar_of(f, args)
    x, converged = on_host(solver, (NUMBER, FLAG), fun, np.float64(0.5), given, options=options)
    return Root(implicit(fun, x, converged), converged)


def _bracketing(name: str) -> Function:
    """SciPy's bracketing root finder of this name."""

    def bracketing(
        f: Function,
        a: ArrayLike,
        b: ArrayLike,
        args: PyTree = (),
        *,
        progress: bool | Progress = False,
        **options: object,
    ) -> Value:
        if not inside(a, b, args):
            with Told(progress, name) as told:
                return getattr(plain, name)(told.counted(f), a, b, arguments(args), **options)
        refuse_options(f"scipy.optimize.{name}", {"full_output": options.pop("full_output", None)})

        def solver(
            plain_f: Function, low: np.float64, high: np.float64, **options: PyTree
        ) -> np.float64:
            with Told(progress, name) as told:
                counted = told.counted(number_of(plain_f))
                return np.float64(getattr(plain, name)(counted, low, high, **options))

        fun, a, b = scalar_of(f, args), real_number(a), real_number(b)
        settings = settings_of(options) if name == "brentq" and not progress else None
        if settings is not None and in_program():
            return implicit(fun, brent(fun, a, b, settings))
        half = np.float64(0.5)
        return implicit(fun, on_host(solver, NUMBER, fun, half, a, b, options=options))

    bracketing.__name__ = bracketing.__qualname__ = name
    bracketing.__doc__ = f"""`scipy.optimize.{name}` with derivatives of the root.

    Arguments:
        f: `f(x, *args)` to a number, of NumPy operations; derivatives flow to `args` and to what
            it closes over.
        a, b: ends of an interval in which f changes its sign.
        options: everything else as SciPy takes it.
        progress: as for `minimize`.

    Example:
        >>> import fgrad
        >>> float(fgrad.grad(lambda p: {name}(lambda x: x**3 - p, 0.0, 9.0))(8.0).round(9))
        0.083333333
    """
    return bracketing


brentq, brenth, ridder, bisect, toms748 = [
    _bracketing(name) for name in ("brentq", "brenth", "ridder", "bisect", "toms748")
]


def _iterating(name: str) -> Function:
    """SciPy's root finder of this name, of large systems."""

    def iterating(
        F: Function,
        xin: ArrayLike,
        *further: object,
        progress: bool | Progress = False,
        **options: object,
    ) -> Value:
        if not inside(xin, list(further), list(options.values())):
            with Told(progress, name) as told:
                return getattr(plain, name)(told.counted(F), xin, *further, **options)
        applied = _applied(F, (), floats(xin).dtype.kind != "c")
        start = start_of(xin, applied)
        like = Aval(start.shape, start.dtype)

        def residual(x: ArrayLike) -> Value:
            return np.reshape(applied(x), like.shape).astype(like.dtype)

        def solver(plain_f: Function, x: Value, **options: PyTree) -> np.ndarray:
            with Told(progress, name) as told:
                counted = told.counted(of_type(plain_f, like.dtype))
                found = getattr(plain, name)(counted, np.array(x), *further, **options)
            return np.reshape(found, like.shape).astype(like.dtype)

        residual.__name__ = applied.__name__
        found = on_host(solver, like, residual, start, start, options=options)
        return implicit(residual, found)

    iterating.__name__ = iterating.__qualname__ = name
    iterating.__doc__ = f"""`scipy.optimize.{name}` with derivatives of the solution.

    Arguments:
        F: a function of an array to one like it, of NumPy operations; derivatives flow to what it
            closes over.
        xin: the initial guess.
        further, options: everything else as SciPy takes it.
        progress: as for `minimize`.

    Example:
        >>> import numpy as np, fgrad
        >>> def size(p):
        ...     return {name}(lambda x: p - x - x**3 / 9, np.full(2, 0.3), f_tol=1e-9)[0]
        >>> float(fgrad.grad(size)(1.0).round(4))
        0.7818
    """
    return iterating


_ITERATING = ("anderson", "broyden1", "broyden2", "diagbroyden", "excitingmixing", "linearmixing",
              "newton_krylov")  # fmt: skip
(anderson, broyden1, broyden2, diagbroyden, excitingmixing, linearmixing, newton_krylov) = [
    _iterating(name) for name in _ITERATING
]


def newton(
    func: Function,
    x0: ArrayLike,
    fprime: Function | None = None,
    args: PyTree = (),
    fprime2: Function | None = None,
    *,
    progress: bool | Progress = False,
    **options: object,
) -> Value:
    """`scipy.optimize.newton` with derivatives of the root; arrays element by element.

    Arguments:
        func: `func(x, *args)`, of NumPy operations.
        fprime, fprime2: as in SciPy; inside transforms fgrad's own derivatives replace
            these.
        options: everything else as SciPy takes it.
        x0: where to start.
        progress: as for `minimize`.

    Example:
        >>> import fgrad
        >>> float(fgrad.grad(lambda p: newton(lambda x: x**3 - p, 1.0))(8.0).round(9))
        0.083333333
    """
    if not inside(x0, args):
        with Told(progress, "newton") as told:
            counted = told.counted(func)
            return plain.newton(counted, x0, fprime, arguments(args), fprime2=fprime2, **options)
    refuse_options("scipy.optimize.newton", {"full_output": options.pop("full_output", None)})
    fun = _applied(func, args, floats(x0).dtype.kind != "c")
    start = start_of(x0, fun)
    like = Aval(start.shape, start.dtype)

    def solver(plain_f: Function, x: Value, **options: PyTree) -> np.ndarray:
        if fprime is not None:
            options["fprime"] = of_type(derived(plain_f, along), like.dtype)
        if fprime2 is not None:
            options["fprime2"] = of_type(derived(plain_f, twice_along), like.dtype)
        with Told(progress, "newton") as told:
            counted = told.counted(of_type(plain_f, like.dtype))
            found = plain.newton(counted, x, **options)
        return np.asarray(found, like.dtype).reshape(like.shape)

    return implicit(fun, on_host(solver, like, fun, start, start, options=options))


def vector_root(
    fun: Function,
    x0: ArrayLike,
    args: PyTree,
    method: str,
    options: Options,
    progress: bool | Progress = False,
    name: str = "root",
) -> Solution:
    """`root` inside of a transform."""
    by_matrix = method in ("hybr", "lm")  # of double precision, whose unknowns are one vector
    start = np.reshape(must_start_real(x0), -1).astype(np.float64) if by_matrix else floats(x0)
    applied = _applied(fun, args, start.dtype.kind != "c")
    start = start_of(start, applied)
    like = Aval(start.shape, start.dtype)

    def residual(x: ArrayLike) -> Value:
        value = applied(x)
        if by_matrix and value.shape != like.shape and like.shape != (1,):
            raise ShapeError(
                f"scipy.optimize.{name}: the function gives an array of shape {value.shape} for "
                f"unknowns of shape {like.shape}.",
                (*user_line(), ("write", "as many equations as unknowns")),
            )
        return np.reshape(value, like.shape).astype(like.dtype)

    residual.__name__ = applied.__name__

    def flat(v: ArrayLike) -> Value:
        return np.reshape(residual(np.reshape(v, like.shape)), -1)

    flat.__name__ = applied.__name__

    def solver(plain_f: Function, x: np.ndarray, **options: PyTree) -> tuple[np.ndarray, np.bool_]:
        jac = of_type(derived(plain_f, jacobian), like.dtype) if method in ("hybr", "lm") else None
        with Told(progress, name) as told:
            counted = told.counted(of_type(plain_f, like.dtype))
            found = plain.root(counted, x, method=method, jac=jac, **options)
        return np.reshape(found.x, like.shape).astype(like.dtype), np.bool_(found.success)

    begin = np.reshape(start, -1)
    found, success = on_host(solver, (like, FLAG), flat, begin, begin, options=options)
    x = implicit(residual, found, success)
    return Solution(x, residual(x), success)


def fsolve(
    func: Function,
    x0: ArrayLike,
    args: PyTree = (),
    fprime: Function | None = None,
    full_output: bool | int = 0,
    *,
    progress: bool | Progress = False,
    **options: object,
) -> Value:
    """`scipy.optimize.fsolve` with derivatives of the solution.

    Arguments:
        func: `func(x, *args)` to an array like x, of NumPy operations; derivatives flow to `args`
            and to what it closes over.
        x0: the initial guess, shape (n,).
        fprime: your own Jacobian, used outside transforms only.
        options: everything else as SciPy takes it.
        full_output: as in SciPy, outside of transforms.
        progress: as for `minimize`.

    Example:
        >>> import numpy as np, fgrad
        >>> def circle(p):
        ...     x = fsolve(lambda x: np.stack([x[0] - x[1], x @ x - p]), np.ones(2))
        ...     return x[0]
        >>> float(fgrad.grad(circle)(2.0).round(9))
        0.25
    """
    if not inside(x0, args):
        with Told(progress, "fsolve") as told:
            counted = told.counted(func)
            return plain.fsolve(counted, x0, arguments(args), fprime, full_output, **options)
    refuse_unknown(plain.fsolve, options)
    refuse_options("scipy.optimize.fsolve", {"full_output": full_output})
    start, names = (
        np.atleast_1d(floats(x0)),
        {"xtol": "xtol", "maxfev": "maxfev", "factor": "factor"},
    )
    control = {names[k]: v for k, v in options.items() if k in names}
    refuse_options("scipy.optimize.fsolve", {k: v for k, v in options.items() if k not in names})
    return vector_root(func, start, args, "hybr", {"options": control}, progress, "fsolve").x
