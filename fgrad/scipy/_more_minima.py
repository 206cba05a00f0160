"""L7. SciPy's further minimisers, by its older names and over whole boxes, with derivatives.

Inside of a transform SciPy's own code finds the minimum, of which `_minima.py` takes derivatives:
they are those of the minimum that was found, whatever others there are.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.progress import Progress, Told
from fgrad.errors import ShapeError
from fgrad.ir.aval import Aval
from fgrad.numpy.promote import as_operand, user_line
from fgrad.ops.elementwise import stop_gradient
from fgrad.scipy import _minima
from fgrad.scipy._bound import compiled
from fgrad.scipy._derivatives import jacobian
from fgrad.scipy._host import (
    arguments,
    floats,
    implicit,
    inside,
    must_be_real,
    on_host,
    refuse_options,
    start_of,
)
from fgrad.scipy._solvers import Ends, Function, Solution, of_type
from fgrad.trace import Value
from fgrad.tracing.capturing import user_form
from fgrad.transforms.core.wrap import function_name
from fgrad.transforms.custom.callback import pure_callback
from fgrad.transforms.grad import grad
from fgrad.transforms.jacobian import jacfwd
from fgrad.typing import ArrayLike, PyTree

plain = lazy_module("scipy.optimize")


class _Found(NamedTuple):
    """What `find` of `vector_minimum` gives."""

    x: PyTree
    success: bool


# Names of arguments that are a function's derivatives, and those that ask for more results.
_OWN = frozenset({"fprime", "approx_grad", "Dfun", "fhess", "fhess_p"})
_WITH_GRADIENT = frozenset({"fmin_l_bfgs_b", "fmin_tnc"})  # that the function may return too
_MORE = ("full_output", "retall", "constraints", "integrality", "vectorized", "col_deriv")


def _given(name: str, args: tuple[PyTree, ...], kwargs: Mapping[str, PyTree]) -> dict[str, PyTree]:
    """The arguments of SciPy's function by name; TypeError for what it does not take."""
    return dict(inspect.signature(getattr(plain, name)).bind(*args, **kwargs).arguments)


def _taken(name: str, found: PyTree) -> _Found:
    """The place of a minimum, and whether it was found, of what SciPy's function returns."""
    if isinstance(found, tuple):
        return _Found(found[0], True)
    return _Found(found, True) if isinstance(found, np.ndarray) else _Found(found.x, found.success)


def _inside_of_a_transform(
    name: str, given: dict[str, PyTree], residuals: bool, progress: bool | Progress
) -> Solution:
    options = {k: v for k, v in given.items() if k not in _OWN}
    refuse_options(f"scipy.optimize.{name}", {k: options.pop(k, None) for k in _MORE})
    fun, rest = options.pop(next(iter(options))), arguments(options.pop("args", ()))
    x0 = options.get("x0")
    started = x0 is not None
    box = next((k for k in ("bounds", "ranges") if options.get(k) is not None), None)
    ends: Ends = None if box is None else _minima.ends_of(options.pop(box))
    if x0 is None:
        assert ends is not None
        x0 = 0.5 * (ends[0] + ends[1])
    else:
        del options["x0"]
        x0 = x0 if name == "basinhopping" else np.ravel(x0)
    taken = inspect.signature(getattr(plain, name)).parameters

    def of(x: Value) -> PyTree:
        found = user_form(fun)(x, *rest)
        return found[0] if name in _WITH_GRADIENT and isinstance(found, tuple) else found

    of.__name__ = function_name(fun)

    def find(f: Function, x: Value, limits: Ends, **more: PyTree) -> _Found:
        if limits is not None and box is not None:
            both = [np.broadcast_to(end, x.shape).tolist() for end in limits]
            more[box] = list(zip(*both, strict=True))
        if "fprime" in taken:
            more["fprime"] = compiled(f, grad)
        if "Dfun" in taken:
            more["Dfun"] = compiled(f, jacobian)
        if started:
            more["x0"] = np.array(x)
        with Told(progress, name) as told:
            found = getattr(plain, name)(told.counted(compiled(f)), **more)
        return _taken(name, found)

    def half(x: Value) -> Value:
        return 0.5 * np.sum(of(x) ** 2) if residuals else np.reshape(of(x), ())

    half.__name__ = of.__name__
    return _minima.vector_minimum(
        half, x0, ends, find, of if residuals else None, options=options, double=residuals
    )


_ALONE = """`scipy.optimize.{name}` with derivatives of where the minimum lies.

    Arguments:
        func: `func(x, *args)` to {value}, of NumPy operations; derivatives flow to what it closes
            over and to SciPy's `args`.
        {second}
        further, options: everything else as SciPy takes it; inside of transforms derivatives of
            `func` are fgrad's.
        progress: whether to tell on stderr how often `func` was evaluated, or a function of that
            number and None.

    Returns:
        What SciPy returns; inside of transforms {result}.

    Example:
        >>> import numpy as np, fgrad
        >>> def place(p):
        ...     return {name}(lambda x: {example}, {given}){pick}
        >>> float(fgrad.grad(place)(2.0).round(3))
        1.0
    """
_START = "x0: where to start."
_BOX = "bounds: the least and the greatest value of each unknown, in pairs."
_QUIET = "np.zeros(1), disp=0"
_PAIRS = "[(-5.0, 5.0)]"
_SQUARE = "np.sum((x - p) ** 2)"


def _minimiser(name: str, second: str, given: str, pick: str) -> Callable[..., PyTree]:
    """SciPy's minimiser of this name; `pick` is what a program writes to get the first unknown."""

    def found_by(
        func: Function, args: tuple[PyTree, ...], options: PyTree, progress: bool | Progress
    ) -> PyTree:
        known = _given(name, (func, *args), options)
        if not inside(list(known.values())):
            with Told(progress, name) as told:
                return getattr(plain, name)(told.counted(func), *args, **options)
        found = _inside_of_a_transform(name, known, name == "leastsq", progress)
        if pick.startswith(".x"):
            return found
        if not pick.startswith("[0]["):
            return found.x
        return (found.x, 1) if name == "leastsq" else (found.x, found.fun, {})

    def in_box(
        func: Function,
        bounds: PyTree,
        *further: PyTree,
        progress: bool | Progress = False,
        **options: PyTree,
    ) -> PyTree:
        return found_by(func, (bounds, *further), options, progress)

    def from_start(
        func: Function,
        x0: PyTree,
        *further: PyTree,
        progress: bool | Progress = False,
        **options: PyTree,
    ) -> PyTree:
        return found_by(func, (x0, *further), options, progress)

    made: Callable[..., PyTree] = in_box if second is _BOX else from_start
    made.__name__ = made.__qualname__ = name
    made.__doc__ = _ALONE.format(
        name=name,
        value="residuals" if name == "leastsq" else "a number",
        second=second,
        given=given,
        pick=pick,
        example="x - p" if name == "leastsq" else _SQUARE,
        result=_result_of(pick),
    )
    return made


def _result_of(pick: str) -> str:
    if pick.startswith(".x"):
        return "`(x, fun, success)`"
    return "SciPy's tuple" if pick.startswith("[0][") else "x alone"


fmin = _minimiser("fmin", _START, "np.zeros(1), xtol=1e-8, disp=0", "[0]")
fmin_bfgs = _minimiser("fmin_bfgs", _START, _QUIET, "[0]")
fmin_cg = _minimiser("fmin_cg", _START, _QUIET, "[0]")
fmin_powell = _minimiser("fmin_powell", _START, _QUIET, "[0]")
fmin_ncg = _minimiser("fmin_ncg", _START, "np.zeros(1), None, disp=0", "[0]")
fmin_l_bfgs_b = _minimiser("fmin_l_bfgs_b", _START, "np.zeros(1)", "[0][0]")
fmin_tnc = _minimiser("fmin_tnc", _START, _QUIET, "[0][0]")
leastsq = _minimiser("leastsq", _START, "np.zeros(1)", "[0][0]")
basinhopping = _minimiser("basinhopping", _START, "np.zeros(1), niter=3", ".x[0]")
differential_evolution = _minimiser("differential_evolution", _BOX, _PAIRS + ", rng=1", ".x[0]")
dual_annealing = _minimiser("dual_annealing", _BOX, _PAIRS + ", maxiter=20, rng=1", ".x[0]")
shgo = _minimiser("shgo", _BOX, _PAIRS, ".x[0]")
direct = _minimiser("direct", _BOX, _PAIRS, ".x[0]")
brute = _minimiser("brute", _BOX, _PAIRS, "[0]")


def _line(
    name: str,
    method: str,
    given: Mapping[str, PyTree],
    options: PyTree,
    progress: bool | Progress,
) -> Value:
    """One of the minimisers of functions of a number, by `minimize_scalar`."""
    more = {k: given.get(k) for k in ("full_output",)}
    refuse_options(f"scipy.optimize.{name}", more)
    ends = (given["x1"], given["x2"]) if "x1" in given else None
    return _minima.scalar_minimum(
        given["func"], given.get("brack"), ends, given.get("args", ()), method,
        {"options": options}, Told(progress, name), strict=method != "bounded",
    ).x  # fmt: skip


def fminbound(
    func: Function,
    x1: ArrayLike,
    x2: ArrayLike,
    *further: PyTree,
    progress: bool | Progress = False,
    **options: PyTree,
) -> Value:
    """`scipy.optimize.fminbound` with derivatives of the minimum between two ends.

    Arguments:
        func: `func(x, *args)` to a number, of NumPy operations.
        x1, x2: the ends; a minimum on one moves with it.
        further, options: everything else as SciPy takes it.
        progress: as for `minimize`.

    Example:
        >>> import fgrad
        >>> float(fgrad.grad(lambda p: fminbound(lambda x: (x - p) ** 2, 0.0, 3.0))(2.0).round(6))
        1.0
    """
    given = _given("fminbound", (func, x1, x2, *further), options)
    if not inside(list(given.values())):
        with Told(progress, "fminbound") as told:
            return plain.fminbound(told.counted(func), x1, x2, *further, **options)
    control = {"xatol": given.get("xtol", 1e-5), "maxiter": given.get("maxfun", 500)}
    return _line("fminbound", "bounded", given, control, progress)


def brent(
    func: Function, *further: PyTree, progress: bool | Progress = False, **options: PyTree
) -> Value:
    """`scipy.optimize.brent` with derivatives of where the minimum lies.

    Arguments:
        func: `func(x, *args)` to a number, of NumPy operations.
        further, options: everything else as SciPy takes it (`args`, `brack`, `tol`, `maxiter`).
        progress: as for `minimize`.

    Example:
        >>> import fgrad
        >>> float(fgrad.grad(lambda p: brent(lambda x: (x - p) ** 2))(2.0).round(6))
        1.0
    """
    given = _given("brent", (func, *further), options)
    if not inside(list(given.values())):
        with Told(progress, "brent") as told:
            return plain.brent(told.counted(func), *further, **options)
    control = {"xtol": given.get("tol", 1.48e-8), "maxiter": given.get("maxiter", 500)}
    return _line("brent", "brent", given, control, progress)


def golden(
    func: Function, *further: PyTree, progress: bool | Progress = False, **options: PyTree
) -> Value:
    """`scipy.optimize.golden` with derivatives of where the minimum lies; see `brent`.

    Arguments:
        func: `func(x, *args)` to a number, of NumPy operations.
        further, options: everything else as SciPy takes it (`args`, `brack`, `tol`, `maxiter`).
        progress: as for `minimize`.

    Example:
        >>> import fgrad
        >>> float(fgrad.grad(lambda p: golden(lambda x: (x - p) ** 2))(2.0).round(6))
        1.0
    """
    given = _given("golden", (func, *further), options)
    if not inside(list(given.values())):
        with Told(progress, "golden") as told:
            return plain.golden(told.counted(func), *further, **options)
    control = {"xtol": given.get("tol", 1.49e-8), "maxiter": given.get("maxiter", 5000)}
    return _line("golden", "golden", given, control, progress)


def fixed_point(
    func: Function,
    x0: ArrayLike,
    args: PyTree = (),
    xtol: float = 1e-8,
    maxiter: int = 500,
    method: str = "del2",
) -> Value:
    """The x with func(x, *args) = x, as `scipy.optimize.fixed_point`, with its derivatives.

    Arguments:
        func: `func(x, *args)` to an array like x, of NumPy operations.
        x0: where to start.
        args: further arguments, to which derivatives flow, as to what `func` closes over.
        xtol, maxiter, method: as in SciPy.

    Raises:
        ShapeError: if `func` gives an array of another shape than x0.

    Example:
        >>> import fgrad
        >>> float(fgrad.grad(lambda p: fixed_point(lambda x: 0.5 * (x + p / x), 1.0))(4.0).round(9))
        0.25
    """
    rest = arguments(args)
    if not inside(x0, rest):
        return plain.fixed_point(func, x0, args, xtol, maxiter, method)
    given = floats(x0)

    def value_of(x: Value) -> Value:
        value = user_form(func)(x, *rest)
        if given.dtype.kind != "c":
            value = must_be_real(value, f"The function {function_name(func)} of scipy.optimize")
        if np.shape(value) != given.shape:
            raise ShapeError(
                f"scipy.optimize.fixed_point: the function gives an array of shape "
                f"{np.shape(value)} for one of shape {given.shape}.",
                (*user_line(), ("write", "x0 of the shape of func(x0)")),
            )
        return floats(value)

    start = start_of(given, value_of)
    like = Aval(start.shape, start.dtype)

    def of(x: Value) -> Value:
        return value_of(x).astype(like.dtype)

    def solver(f: Function, x: Value, **options: PyTree) -> np.ndarray:
        found = plain.fixed_point(of_type(f, like.dtype), x, method=method, **options)
        return np.asarray(found, like.dtype).reshape(like.shape)

    options = {"xtol": xtol, "maxiter": maxiter}
    found = on_host(solver, like, of, start, start, options=options)
    return implicit(lambda x: x - of(x), found)


def linear_sum_assignment(cost_matrix: ArrayLike, maximize: bool = False) -> tuple[Value, Value]:
    """Rows and columns of the cheapest assignment, as `scipy.optimize.linear_sum_assignment`.

    They are constant between ties, so that their derivative is zero.

    Arguments:
        cost_matrix: the cost of each pair, shape (m, n).
        maximize: whether the dearest is wanted.

    Example:
        >>> import fgrad
        >>> def price(c):
        ...     rows, columns = linear_sum_assignment(c)
        ...     return c[rows, columns].sum()
        >>> fgrad.grad(price)(np.array([[4.0, 1.0], [2.0, 3.0]]))
        array([[0., 1.],
               [1., 0.]])
    """
    if not inside(cost_matrix):
        return plain.linear_sum_assignment(cost_matrix, maximize)
    cost = stop_gradient(as_operand(cost_matrix))
    like = Aval((min(cost.shape),), np.dtype(np.int64))
    return pure_callback(
        lambda c: tuple(plain.linear_sum_assignment(c, maximize)), (like, like), cost
    )


# --- Rosenbrock's valley, for examples


def rosen(x: ArrayLike) -> Value:
    """The sum of 100 (x[k+1] - x[k]**2)**2 + (1 - x[k])**2.

    Arguments:
        x: numbers, shape (n, ...).

    Example:
        >>> float(rosen(np.ones(3)))
        0.0
    """
    v = as_operand(x)
    return np.sum(100.0 * (v[1:] - v[:-1] ** 2.0) ** 2.0 + (1 - v[:-1]) ** 2.0, axis=0)


def rosen_der(x: ArrayLike) -> Value:
    """The gradient of `rosen`.

    Arguments:
        x: numbers, shape (n,).

    Example:
        >>> rosen_der(np.ones(3))
        array([0., 0., 0.])
    """
    return grad(rosen)(floats(x))


def rosen_hess(x: ArrayLike) -> Value:
    """The Hessian of `rosen`.

    Arguments:
        x: numbers, shape (n,).

    Example:
        >>> rosen_hess(np.zeros(2))
        array([[  2.,   0.],
               [  0., 200.]])
    """
    return jacfwd(grad(rosen))(floats(x))


def rosen_hess_prod(x: ArrayLike, p: ArrayLike) -> Value:
    """The Hessian of `rosen` times a vector.

    Arguments:
        x: numbers, shape (n,).
        p: the vector, shape (n,).

    Example:
        >>> rosen_hess_prod(np.zeros(2), np.ones(2))
        array([  2., 200.])
    """
    return rosen_hess(x) @ as_operand(p)
