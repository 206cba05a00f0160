"""L7. `scipy.optimize` with fgrad's derivatives and compiled functions given to SciPy's methods.

    import fgrad.scipy.optimize as so
    so.minimize(loss, x0)                  # gradient by reverse mode, in the same call as the value
    so.minimize(loss, x0, method="trust-ncg")       # and products with the Hessian
    so.root(f, x0); so.least_squares(residuals, x0) # Jacobians

What SciPy takes and returns stays as it is; a derivative that you give is used instead.

Solutions are differentiable themselves (`_solvers.py`, `_minima.py`): inside of a transform,
`root_scalar`, `brentq` and its kin, `newton`, `root`, `fsolve`, `minimize_scalar`, `minimize`,
`least_squares` and `curve_fit` return the solution
with its derivatives by all that the function closes over.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from fgrad import tree
from fgrad.base.lazy_import import lazy_module, names_shown
from fgrad.base.progress import Progress, Told
from fgrad.compile.jit.jitted import jit
from fgrad.errors import ShapeError
from fgrad.numpy.promote import as_operand, user_line
from fgrad.ops import checked
from fgrad.ops.elementwise import stop_gradient
from fgrad.scipy import _minima, _solvers
from fgrad.scipy._bound import compiled
from fgrad.scipy._constrained import (
    Bounds,
    ConstrainedSolution,
    LinearConstraint,
    NonlinearConstraint,
    minimum_within,
)
from fgrad.scipy._derivatives import hessian_products, jacobian, value_and_gradient
from fgrad.scipy._either import passed_on
from fgrad.scipy._host import arguments, floats, inside, must_start_real, part_of, refuse_options
from fgrad.scipy._losses import robust
from fgrad.scipy._minima import minimize_scalar
from fgrad.scipy._more_minima import (
    basinhopping,
    brent,
    brute,
    differential_evolution,
    direct,
    dual_annealing,
    fixed_point,
    fmin,
    fmin_bfgs,
    fmin_cg,
    fmin_l_bfgs_b,
    fmin_ncg,
    fmin_powell,
    fmin_tnc,
    fminbound,
    golden,
    leastsq,
    linear_sum_assignment,
    rosen,
    rosen_der,
    rosen_hess,
    rosen_hess_prod,
    shgo,
)
from fgrad.scipy._older_minima import fmin_cobyla, fmin_slsqp
from fgrad.scipy._programs import isotonic_regression, linprog, lsq_linear, nnls
from fgrad.scipy._solvers import (
    Box,
    Ends,
    Function,
    Pairs,
    Solution,
    anderson,
    bisect,
    brenth,
    brentq,
    broyden1,
    broyden2,
    diagbroyden,
    excitingmixing,
    fsolve,
    linearmixing,
    newton,
    newton_krylov,
    ridder,
    root_scalar,
    toms748,
)
from fgrad.scipy._trees import OverTree, is_tree, least_squares_of_tree
from fgrad.trace import Value
from fgrad.tracing.capturing import user_form
from fgrad.transforms.core.wrap import function_name
from fgrad.transforms.grad import value_and_grad
from fgrad.transforms.jacobian import hessian, jacrev
from fgrad.typing import ArrayLike, PyTree

if TYPE_CHECKING:
    from scipy.optimize import LinearConstraint, NonlinearConstraint, OptimizeResult

__all__ = [
    "Bounds",
    "LinearConstraint",
    "NonlinearConstraint",
    "anderson",
    "basinhopping",
    "bisect",
    "brent",
    "brenth",
    "brentq",
    "broyden1",
    "broyden2",
    "brute",
    "curve_fit",
    "diagbroyden",
    "differential_evolution",
    "direct",
    "dual_annealing",
    "excitingmixing",
    "fixed_point",
    "fmin",
    "fmin_bfgs",
    "fmin_cg",
    "fmin_cobyla",
    "fmin_l_bfgs_b",
    "fmin_ncg",
    "fmin_powell",
    "fmin_slsqp",
    "fmin_tnc",
    "fminbound",
    "fsolve",
    "golden",
    "isotonic_regression",
    "least_squares",
    "leastsq",
    "linear_sum_assignment",
    "linearmixing",
    "linprog",
    "lsq_linear",
    "minimize",
    "minimize_scalar",
    "newton",
    "newton_krylov",
    "nnls",
    "ridder",
    "root",
    "root_scalar",
    "rosen",
    "rosen_der",
    "rosen_hess",
    "rosen_hess_prod",
    "shgo",
    "toms748",
]

plain = lazy_module("scipy.optimize")

Derivative: TypeAlias = Callable[..., PyTree] | str | bool | None
Constraint: TypeAlias = "Mapping[str, PyTree] | LinearConstraint | NonlinearConstraint"
Constraints: TypeAlias = "Constraint | Sequence[Constraint]"

WITHOUT_GRADIENT = frozenset({"nelder-mead", "powell", "cobyla", "cobyqa"})
WITH_PRODUCTS = frozenset({"newton-cg", "trust-ncg", "trust-krylov", "trust-constr"})
WITH_HESSIAN = frozenset({"dogleg", "trust-exact"})


def _start(x0: ArrayLike) -> np.ndarray:
    """The starting point as floats."""
    return np.asarray(must_start_real(np.asarray(x0)))


def _constraints(constraints: Constraints) -> Constraints:
    """Constraints given as dictionaries, with their Jacobians."""
    return [_constraint(_as_plain(c)) for c in _listed(constraints)]


def _constraint(constraint: Constraint) -> Constraint:
    if not isinstance(constraint, dict) or constraint.get("jac") is not None:
        return constraint
    return {**constraint, "jac": jit(jacrev(constraint["fun"]))}


def minimize(
    fun: Callable[..., PyTree],
    x0: ArrayLike,
    args: PyTree = (),
    method: str | Callable[..., PyTree] | None = None,
    jac: Derivative = None,
    hess: Derivative = None,
    hessp: Callable[..., PyTree] | None = None,
    bounds: Box | Pairs | None = None,
    constraints: Constraints = (),
    *,
    progress: bool | Progress = False,
    **options: PyTree,
) -> OptimizeResult | Solution | ConstrainedSolution:
    """`scipy.optimize.minimize` with gradient and Hessian of `fun`, traced and compiled.

    Arguments:
        fun: `fun(x, *args)` to a scalar, of NumPy operations.
        x0: where to start, shape (n,), or a tree of arrays; then `fun`, and functions in
            `constraints`, take such trees, `x` of the result is one, and so may be both parts of
            `Bounds`.
        jac, hess, hessp: your own derivatives; those that the method needs are filled in. With
            `jac=True`, `fun` returns a value and its gradient. Inside of transforms they are
            fgrad's.
        options: everything else as SciPy takes it (`tol`, `callback`, `options`, ...).
        bounds, constraints: as SciPy takes them; bounds of a tree may be pairs in place of its
            leaves, `{"a": (0.0, None)}`.
        progress: whether to tell on stderr how often `fun` was evaluated, or a function of that
            number and None.

    Returns:
        SciPy's `OptimizeResult`; inside of transforms `(x, fun, success)`, with constraints also
        `multipliers`, with derivatives: of a minimum that lies on a bound or a constraint, those of
        the bound or constraint.

    Example:
        >>> import numpy as np, fgrad
        >>> minimize(lambda x: np.sum((x - 3.0) ** 2), np.zeros(2)).x
        array([3., 3.])
        >>> def place(p):
        ...     return minimize(lambda x: np.sum((x - p**2) ** 2), np.zeros(2)).x[0]
        >>> float(fgrad.grad(place)(3.0).round(6))
        6.0
    """
    args = arguments(args)
    if is_tree(x0):
        own = {"jac": jac, "hess": hess, "hessp": hessp}
        refuse_options("scipy.optimize.minimize of a tree", {k: v for k, v in own.items() if v})
        over = OverTree(x0)
        found = minimize(
            over.function(fun), over.start, args, method, bounds=over.bounds(bounds),
            constraints=over.constraints(constraints), progress=progress, **options,
        )  # fmt: skip
        return over.result(found)
    value = part_of(fun, 0) if jac is True else fun
    if inside(x0, args, _parts(bounds), [_parts(c) for c in _listed(constraints)]):
        more = {**options, "progress": progress}
        return _traced_minimum(value, x0, args, method, bounds, constraints, more)
    x, bounds = _start(x0), _as_plain(bounds)
    name = method.lower() if isinstance(method, str) else None
    function: PyTree = fun
    if jac is None and name not in WITHOUT_GRADIENT:
        both = compiled(fun, value_and_grad)
        function, jac = value_and_gradient(both), True
    if hess is None and hessp is None:
        if name in WITH_PRODUCTS:
            hessp = compiled(value, hessian_products)
        elif name in WITH_HESSIAN:
            hess = compiled(value, hessian)
    function = function if function is not fun else compiled(fun)
    with Told(progress, "minimize") as told:
        return plain.minimize(
            told.counted(function), x, args=args, method=method, jac=jac, hess=hess, hessp=hessp,
            bounds=bounds, constraints=_constraints(constraints), **options,
        )  # fmt: skip


def _traced_minimum(
    fun: Callable[..., PyTree],
    x0: ArrayLike,
    args: tuple[Value, ...],
    method: str | Callable[..., PyTree] | None,
    bounds: Box | Pairs | None,
    constraints: Constraints,
    options: Mapping[str, PyTree],
) -> Solution | ConstrainedSolution:
    """`minimize` inside of a transform."""
    ends = _minima.ends_of(bounds)

    def of(x: Value) -> PyTree:
        return user_form(fun)(x, *args)

    of.__name__ = function_name(fun)
    if not _listed(constraints):

        def find(
            f: Function, x: Value, ends: Ends, **options: PyTree
        ) -> OptimizeResult | Solution | ConstrainedSolution:
            pairs = None if ends is None else plain.Bounds(*ends)
            return minimize(f, x, method=method, bounds=pairs, **options)

        return _minima.vector_minimum(of, x0, ends, find, options=options)

    def find_within(f: Function, x: Value, box: PyTree, rest: PyTree, **options: PyTree) -> PyTree:
        return minimize(f, x, method=method, bounds=box, constraints=rest, **options)

    return minimum_within(of, x0, constraints, ends, find_within, options)


def _listed(constraints: PyTree) -> list[PyTree]:
    """SciPy's constraints, one or several, as a list."""
    if isinstance(constraints, Sequence) and not hasattr(constraints, "lb"):
        return list(constraints)
    return [constraints]


def _parts(x: PyTree) -> list[PyTree]:
    """What may be traced in bounds or a constraint."""
    if isinstance(x, Mapping):
        return [x.get("args")]
    return [getattr(x, k, None) for k in ("A", "lb", "ub")] if hasattr(x, "lb") else [x]


def _as_plain(x: PyTree) -> PyTree:
    """Bounds and constraints of fgrad as SciPy's."""
    if isinstance(x, NonlinearConstraint):
        more = {} if x.hess is None else {"hess": x.hess}
        return plain.NonlinearConstraint(
            jit(x.fun), x.lb, x.ub, x.jac if callable(x.jac) else jit(jacrev(x.fun)),
            keep_feasible=x.keep_feasible, **more,
        )  # fmt: skip
    if isinstance(x, Bounds):
        return plain.Bounds(x.lb, x.ub, x.keep_feasible)
    if isinstance(x, LinearConstraint):
        return plain.LinearConstraint(x.A, x.lb, x.ub, x.keep_feasible)
    return x


def root(
    fun: Callable[..., PyTree],
    x0: PyTree,
    args: PyTree = (),
    method: str = "hybr",
    jac: Derivative = None,
    *,
    progress: bool | Progress = False,
    **options: PyTree,
) -> OptimizeResult | Solution:
    """`scipy.optimize.root` with the Jacobian of `fun`, and with derivatives of the solution.

    Arguments:
        fun: `fun(x, *args)` to an array like x, of NumPy operations; derivatives flow to `args` and
            to what it closes over.
        x0: where to begin, shape (n,), or a tree of arrays; then `fun` takes and returns such
            trees, and `x` of the result is one.
        method, jac, options: as SciPy takes them; inside of transforms the Jacobian is fgrad's.
        progress: as for `minimize`.

    Returns:
        SciPy's `OptimizeResult`; inside of transforms `(x, fun, success)`.

    Example:
        >>> import numpy as np, fgrad
        >>> root(lambda x: x + 2.0 * np.cos(x), np.array([0.3])).x.round(6)
        array([-1.029867])
        >>> slope = fgrad.grad(lambda p: root(lambda x: x**3 - p, np.ones(1)).x[0])
        >>> float(slope(8.0).round(9))
        0.083333333
    """
    args = arguments(args)
    if is_tree(x0):
        refuse_options("scipy.optimize.root of a tree", {"jac": jac})
        over = OverTree(x0)
        more = {**options, "progress": progress}
        return over.result(root(over.residuals(fun), over.start, args, method, **more))
    if inside(x0, args):
        value = part_of(fun, 0) if jac is True else fun
        return _solvers.vector_root(value, x0, args, method, options, progress)
    by_matrix = method in ("hybr", "lm")
    x = _start(x0) if by_matrix else floats(np.asarray(x0))
    if jac is None and by_matrix:
        jac = jit(jacobian(fun))
    with Told(progress, "root") as told:
        return plain.root(told.counted(jit(fun)), x, args=args, method=method, jac=jac, **options)


def least_squares(
    fun: Callable[..., PyTree],
    x0: PyTree,
    jac: Derivative = None,
    bounds: PyTree = (-np.inf, np.inf),
    args: PyTree = (),
    kwargs: Mapping[str, PyTree] | None = None,
    *,
    progress: bool | Progress = False,
    **options: PyTree,
) -> OptimizeResult | Solution:
    """`scipy.optimize.least_squares` with the Jacobian of `fun`.

    It comes by forward mode, or by reverse mode if there are fewer residuals than parameters, or if
    a part of `fun` has no forward derivative, such as the solution of a differential equation.

    Arguments:
        fun: `fun(x, *args, **kwargs)` to a vector of residuals.
        x0: where to start, shape (n,), or a tree of arrays; then `fun` takes such trees, and may
            return one, and `x` of the result is one.
        jac: your own Jacobian.
        bounds: the lowest and the highest values.
        args, kwargs: further arguments of `fun`.
        progress: as for `minimize`.
        options: everything else as SciPy takes it (`method`, `loss`, ...).

    Example:
        >>> import numpy as np
        >>> k = np.arange(3.0)
        >>> least_squares(lambda p: p[0] * k + p[1] - (2.0 * k + 1.0), np.zeros(2)).x.round(6)
        array([2., 1.])
    """
    args, keywords = arguments(args), kwargs or {}
    if is_tree(x0):
        refuse_options("scipy.optimize.least_squares of a tree", {"jac": jac})
        more = {**options, "progress": progress}
        return least_squares_of_tree(least_squares, fun, x0, bounds, args, keywords, more)
    if inside(x0, args, keywords):
        rho = robust(options.get("loss", "linear"), options.get("f_scale", 1.0))

        def residuals_of(x: Value) -> Value:
            return as_operand(user_form(fun)(x, *args, **keywords))

        def find(
            f: Function, x: Value, ends: tuple[ArrayLike, ArrayLike], **options: PyTree
        ) -> OptimizeResult | Solution:
            return least_squares(f, x, bounds=ends, progress=progress, **options)

        def half(x: Value) -> Value:
            return 0.5 * np.sum(rho(residuals_of(x)))

        ends = (bounds.lb, bounds.ub) if isinstance(bounds, Box) else tuple(bounds)
        return _minima.vector_minimum(
            half, x0, (ends[0], ends[1]), find, residuals_of, options=options, double=True
        )
    x = np.atleast_1d(_start(x0))
    residuals_at = compiled(fun)
    if jac is None:
        residuals = np.size(residuals_at(x, *args, **keywords))
        jac = compiled(fun, jacrev if residuals < x.size else jacobian)
    with Told(progress, "least_squares") as told:
        return plain.least_squares(
            told.counted(residuals_at),
            x,
            jac=jac,
            bounds=bounds,
            args=args,
            kwargs=keywords,
            **options,
        )


def curve_fit(
    f: Callable[..., PyTree],
    xdata: PyTree,
    ydata: ArrayLike,
    p0: ArrayLike | None = None,
    jac: Derivative = None,
    *,
    progress: bool | Progress = False,
    **options: PyTree,
) -> tuple[Value, ...]:
    """`scipy.optimize.curve_fit` with the Jacobian of `f(xdata, *params)`.

    Arguments:
        f: `f(xdata, *params)` to an array like `ydata`.
        ydata: what was measured.
        p0: where to start; without it, ones.
        jac: your own Jacobian.
        progress: as for `minimize`.
        options: everything else as SciPy takes it (`sigma`, `bounds`, ...).

    Example:
        >>> import numpy as np
        >>> x = np.linspace(0.0, 1.0, 5)
        >>> params, _ = curve_fit(lambda x, a, b: a * np.exp(b * x), x, 2.0 * np.exp(x), [1.0, 0.5])
        >>> params.round(6)
        array([2., 1.])
    """
    if inside(xdata, ydata, p0, list(options.values())):
        return _fit(f, xdata, ydata, p0, progress=progress, **options)
    filled = jac if jac is not None else jit(_columns(f))
    with Told(progress, "curve_fit") as told:
        return plain.curve_fit(told.counted(jit(f)), xdata, ydata, p0=p0, jac=filled, **options)


def _fit(
    f: Callable[..., PyTree],
    xdata: PyTree,
    ydata: ArrayLike,
    p0: ArrayLike | None,
    sigma: ArrayLike | None = None,
    absolute_sigma: bool = False,
    bounds: Box | tuple[ArrayLike, ArrayLike] = (-np.inf, np.inf),
    method: str | None = None,
    check_finite: bool = True,
    **options: PyTree,
) -> tuple[Value, Value]:
    """`curve_fit` inside of a transform: the parameters and their covariance."""
    refused = {k: options.pop(k, None) for k in ("full_output", "nan_policy")}
    refuse_options("scipy.optimize.curve_fit", refused)
    if "maxfev" in options:
        options["max_nfev"] = options.pop("maxfev")
    ends = (bounds.lb, bounds.ub) if isinstance(bounds, Box) else bounds
    free = all([isinstance(end, float) and np.isinf(end) for end in ends])
    options["method"] = method or ("lm" if free else "trf")
    count = len(inspect.signature(f).parameters) - 1
    start = np.ones(count) if p0 is None else np.atleast_1d(p0)
    scale: PyTree = 1.0 if sigma is None else sigma
    n = int(np.prod(np.shape(ydata)))
    if np.size(scale) != 1 and np.shape(scale) not in ((n,), (n, n)):
        rows = (*user_line(), ("write", f"sigma of shape {(n,)}, or covariances"))
        raise ShapeError(f"scipy.optimize.curve_fit: sigma has shape {np.shape(scale)}.", rows)
    factor = np.linalg.cholesky(scale) if np.ndim(scale) == 2 else None

    if check_finite:
        _require_finite(xdata, ydata)

    def residuals(p: Value) -> Value:
        away = user_form(f)(xdata, *[p[k] for k in range(start.shape[0])]) - ydata
        return away / scale if factor is None else np.linalg.solve(factor, away)

    p, r, _ = least_squares(residuals, start, bounds=(ends[0], ends[1]), **options)
    jac = jacobian(residuals)(p)
    spread = np.linalg.inv(jac.T @ jac)
    if not absolute_sigma:
        spread = spread * np.sum(r**2) / (r.shape[0] - start.shape[0])
    return p, spread


def _require_finite(*data: PyTree) -> None:
    """SciPy's error for infinities and NaN."""
    error = checked.text_of(ValueError("array must not contain infs or NaNs"))
    for x in tree.leaves(data):
        value = as_operand(x)
        if value.dtype.kind in "fc":
            checked.require(np.isfinite(stop_gradient(value)).all(), error)


def _columns(f: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """The Jacobian of f(x, *params) in the parameters."""

    def jac(x: ArrayLike, *params: ArrayLike) -> PyTree:
        return jacobian(lambda p: user_form(f)(x, *[p[k] for k in range(len(params))]))(
            np.stack(params)
        )

    return jac


__getattr__ = passed_on(__name__, plain)


__dir__ = names_shown(__name__)
