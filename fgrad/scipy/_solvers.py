"""L7. SciPy's root finders and minimisers, differentiated by the implicit function theorem.

Inside a transform the function is traced; SciPy computes the solution on plain numbers, and the
solution is differentiated by the equation that it satisfies:

    f(x, p) = 0                       roots
    df/dx = 0                         minima
    x - clip(x - df/dx, low, high)    minima within bounds: a minimum on a bound moves with it

Initial guesses, brackets and tolerances have no derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.progress import Progress, Told
from fgrad.compile.jit.jitted import jit
from fgrad.ir.aval import Aval
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
    Untraced,
    arguments,
    as_result,
    constant,
    floats,
    implicit,
    inside,
    must_be_real,
    on_host,
    part_of,
    refuse_options,
    refuse_unknown,
)
from fgrad.trace import Value
from fgrad.tracing.capturing import user_form
from fgrad.transforms.core.wrap import function_name
from fgrad.transforms.custom.callback import pure_callback
from fgrad.transforms.grad import grad
from fgrad.typing import ArrayLike, PyTree

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult, RootResults

plain = lazy_module("scipy.optimize")

Function: TypeAlias = Callable[..., PyTree]
NUMBER = Aval((), np.dtype(np.float64))
FLAG = Aval((), np.dtype(np.bool_))


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


def _applied(fun: Function, args: PyTree) -> Function:
    """A function of the unknown alone."""
    rest = arguments(args)

    def applied(x: ArrayLike) -> Value:
        return must_be_real(
            user_form(fun)(x, *rest), f"The function {function_name(fun)} of scipy.optimize"
        )

    applied.__name__ = function_name(fun)
    return applied


def _scalar(fun: Function, args: PyTree) -> Function:
    """A scalar function of a scalar."""
    applied = _applied(fun, args)

    def scalar(x: ArrayLike) -> Value:
        return np.reshape(applied(x), ())

    scalar.__name__ = applied.__name__
    return scalar


def _as_float(function: Function) -> Function:
    return lambda x, *args: float(function(float(x), *args))


def _number(f: Function, transform: Transform = itself) -> Function:
    call = of_number(f, transform)
    return lambda x: float(call(x))


def _of_type(f: Function, dtype: np.dtype) -> Function:
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
    for k, name in enumerate(several):
        options[name] = _as_float(jit(part_of(f, k + 1)))
    if method in ("newton", "halley") and options.get("fprime") is None:
        options["fprime"] = _as_float(jit(grad(f)))
    if method == "halley" and options.get("fprime2") is None:
        options["fprime2"] = _as_float(jit(grad(grad(f))))
    with Told(progress, "root_scalar") as told:
        counted = told.counted(_as_float(jit(value)))
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
    rest = {k: v for k, v in options.items() if k not in given}
    first, second = rest.pop("fprime", None), rest.pop("fprime2", None)

    def solver(plain_f: Function, start: Options) -> tuple[np.float64, np.bool_]:
        if first is not None or method in ("newton", "halley"):
            rest["fprime"] = _number(plain_f, grad)
        if second is not None or method == "halley":
            rest["fprime2"] = _number(plain_f, second_derivative)
        with Told(progress, "root_scalar") as told:
            counted = told.counted(_number(plain_f))
            found = plain.root_scalar(counted, method=method, **start, **rest)
        return np.float64(found.root), np.bool_(found.converged)

    fun = _scalar(f, args)
    x, converged = on_host(solver, (NUMBER, FLAG), fun, np.float64(0.5), given)
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

        def solver(plain_f: Function, low: np.float64, high: np.float64) -> np.float64:
            with Told(progress, name) as told:
                counted = told.counted(_number(plain_f))
                return np.float64(getattr(plain, name)(counted, low, high, **options))

        fun = _scalar(f, args)
        settings = settings_of(options) if name == "brentq" and not progress else None
        if settings is not None and in_program():
            return implicit(fun, brent(fun, a, b, settings))
        return implicit(fun, on_host(solver, NUMBER, fun, np.float64(0.5), a, b))

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
        start = floats(xin)
        like = Aval(start.shape, start.dtype)
        applied = _applied(F, ())

        def residual(x: ArrayLike) -> Value:
            return np.reshape(applied(x), like.shape).astype(like.dtype)

        def solver(plain_f: Function, x: Value) -> np.ndarray:
            with Told(progress, name) as told:
                counted = told.counted(plain_f)
                found = getattr(plain, name)(counted, np.array(x), *further, **options)
            return np.reshape(found, like.shape).astype(like.dtype)

        residual.__name__ = applied.__name__
        return implicit(residual, on_host(solver, like, residual, start, start))

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
    start, fun = floats(x0), _applied(func, args)
    like = Aval(start.shape, start.dtype)

    def solver(plain_f: Function, x: Value) -> np.ndarray:
        if fprime is not None:
            options["fprime"] = derived(plain_f, along)
        if fprime2 is not None:
            options["fprime2"] = derived(plain_f, twice_along)
        with Told(progress, "newton") as told:
            found = plain.newton(told.counted(plain_f), x, **options)
        return np.asarray(found, like.dtype).reshape(like.shape)

    return implicit(fun, on_host(solver, like, fun, start, start))


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
    start, applied = floats(x0), _applied(fun, args)
    like = Aval(start.shape, start.dtype)

    def residual(x: ArrayLike) -> Value:
        return np.reshape(applied(x), like.shape).astype(like.dtype)

    residual.__name__ = applied.__name__

    def flat(v: ArrayLike) -> Value:
        return np.reshape(residual(np.reshape(v, like.shape)), -1)

    flat.__name__ = applied.__name__

    def solver(plain_f: Function, x: np.ndarray) -> tuple[np.ndarray, np.bool_]:
        jac = _of_type(derived(plain_f, jacobian), like.dtype) if method in ("hybr", "lm") else None
        with Told(progress, name) as told:
            counted = told.counted(_of_type(plain_f, like.dtype))
            found = plain.root(counted, x, method=method, jac=jac, **options)
        return np.reshape(found.x, like.shape).astype(like.dtype), np.bool_(found.success)

    begin = np.reshape(start, -1)
    found, success = on_host(solver, (like, FLAG), flat, begin, begin)
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


def minimize_scalar(
    fun: Function,
    bracket: Sequence[ArrayLike] | None = None,
    bounds: Sequence[ArrayLike] | None = None,
    args: PyTree = (),
    method: str | None = None,
    *,
    progress: bool | Progress = False,
    **options: object,
) -> OptimizeResult | Solution:
    """`scipy.optimize.minimize_scalar` with derivatives of the minimum and of where it lies.

    Arguments:
        fun: `fun(x, *args)` to a number, of NumPy operations; derivatives flow to `args` and to
            what it closes over, and to `bounds` if the minimum lies on one.
        bracket, bounds, method, options: as SciPy takes them.
        progress: as for `minimize`.

    Returns:
        SciPy's `OptimizeResult`; inside of transforms `(x, fun, success)`.

    Example:
        >>> import fgrad
        >>> where = fgrad.grad(lambda p: minimize_scalar(lambda x: (x * x - p) ** 2, (1.0, 2.0)).x)
        >>> float(where(4.0).round(9))
        0.25
    """
    if not inside(bracket, bounds, args):
        with Told(progress, "minimize_scalar") as told:
            return plain.minimize_scalar(
                told.counted(fun), bracket, bounds, arguments(args), method=method, **options
            )
    told = Told(progress, "minimize_scalar")
    return scalar_minimum(fun, bracket, bounds, args, method, options, told)


def scalar_minimum(
    fun: Function,
    bracket: Sequence[ArrayLike] | None,
    bounds: Sequence[ArrayLike] | None,
    args: PyTree,
    method: str | None,
    options: Options,
    told: Told,
) -> Solution:
    """`minimize_scalar` inside of a transform."""
    given = {"bracket": bracket, "bounds": bounds}
    known = {k: v for k, v in given.items() if v is not None}
    f = _scalar(fun, args)

    def solver(plain_f: Function, start: Options) -> tuple[np.float64, np.bool_]:
        with told:
            counted = told.counted(_number(plain_f))
            found = plain.minimize_scalar(counted, method=method, **start, **options)
        return np.float64(found.x), np.bool_(found.success)

    x, success = on_host(solver, (NUMBER, FLAG), f, np.float64(0.5), known)
    slope = grad(f)
    if bounds is None:
        x = implicit(slope, x, success)
    else:
        low, high = floats(bounds[0]), floats(bounds[1])
        x = implicit(projected(slope, low, high), x, success)
    return Solution(x, f(x), success)


def projected(slope: Function, low: ArrayLike, high: ArrayLike) -> Function:
    """The projected gradient step, which is zero at a minimum within bounds."""
    return lambda x: x - np.clip(x - slope(x), low, high)


def ends_of(bounds: Box | Pairs | None) -> tuple[Value, Value] | None:
    """SciPy's bounds, an object or pairs -> two arrays."""
    if bounds is None:
        return None
    if isinstance(bounds, Box):
        return floats(bounds.lb), floats(bounds.ub)
    ends = []
    for k, open_end in ((0, -np.inf), (1, np.inf)):
        given = [open_end if (end := pair[k]) is None else end for pair in bounds]
        ends.append(np.stack([floats(end) for end in given]))
    return ends[0], ends[1]


def vector_minimum(
    fun: Function,
    x0: ArrayLike,
    ends: Ends,
    find: Callable[..., PyTree],
    shown: Function | None = None,
    data: tuple[PyTree, ...] = (),
) -> Solution:
    """A minimum inside of a transform.

    Arguments:
        fun: a function of one array to a number.
        ends: the bounds, as arrays or numbers.
        find: `find(f, x, ends)` is SciPy's result on plain numbers.
        shown: the function whose value is part of the result, if it is not `fun`.
        data: what `find` takes instead, if it needs no function.
    """
    start, seen = np.atleast_1d(floats(x0)), shown or fun
    like = Aval(start.shape, start.dtype)

    def solver(
        plain_f: Function, x: Value, limits: tuple[Value, Value] | None
    ) -> tuple[np.ndarray, np.bool_]:
        return taken(find(plain_f, x, limits))

    def of_data(*data: np.ndarray) -> tuple[np.ndarray, np.bool_]:
        with Untraced():
            return taken(find(*data))

    def taken(found: PyTree) -> tuple[np.ndarray, np.bool_]:
        return np.reshape(found.x, like.shape).astype(like.dtype), np.bool_(found.success)

    if data:
        outs = pure_callback(of_data, (like, FLAG), *constant(data))
    else:
        outs = on_host(solver, (like, FLAG), seen, start, start, ends)
    x, success = outs
    slope = grad(fun)
    x = implicit(slope if ends is None else projected(slope, *ends), x, success)
    return Solution(x, seen(x), success)
