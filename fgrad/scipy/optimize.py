"""L7. `scipy.optimize` with derivatives filled in: SciPy's own methods, compiled functions.

    import fgrad.scipy.optimize as so
    so.minimize(loss, x0)                  # gradient by reverse mode, in the same call as the value
    so.minimize(loss, x0, method="trust-ncg")       # and products with the Hessian
    so.root(f, x0); so.least_squares(residuals, x0) # Jacobians

What SciPy takes and returns stays as it is; a derivative that you give is used instead.  The result
is not differentiable: `fgrad.custom_root` is for that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.compile.jit import jit
from fgrad.errors import ArgumentError
from fgrad.lazy import lazy_module
from fgrad.numpy.promote import user_line
from fgrad.numpy.register import has_tracer
from fgrad.transforms.grad import grad, value_and_grad
from fgrad.transforms.jacobian import hessian, jacfwd, jacrev
from fgrad.transforms.linearize import jvp

plain = lazy_module("scipy.optimize")

WITHOUT_GRADIENT = frozenset({"nelder-mead", "powell", "cobyla", "cobyqa"})
WITH_PRODUCTS = frozenset({"newton-cg", "trust-ncg", "trust-krylov", "trust-constr"})
WITH_HESSIAN = frozenset({"dogleg", "trust-exact"})


def _known(function: str, x0: Any, args: Any) -> np.ndarray:
    """The starting point as floats; a card if it, or an argument, is traced."""
    if has_tracer((x0, *args)):
        raise ArgumentError(
            f"scipy.optimize.{function} does not take traced arrays.",
            (
                *user_line(),
                ("why", "its iterations depend on values, in SciPy's code."),
                ("write", "fgrad.custom_root, whose solution is differentiable"),
            ),
        )
    x = np.asarray(x0)
    return x if x.dtype.kind == "f" else x.astype(np.float64)


def _arguments(args: Any) -> tuple[Any, ...]:
    return tuple(args) if isinstance(args, (tuple, list)) else (args,)


def _constraints(constraints: Any) -> Any:
    """Constraints given as dictionaries, with their Jacobians."""
    if isinstance(constraints, dict):
        if constraints.get("jac") is not None:
            return constraints
        return {**constraints, "jac": jit(jacrev(constraints["fun"]))}
    if isinstance(constraints, Sequence):
        return [_constraints(c) for c in constraints]
    return constraints


def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: Any = None,
    jac: Any = None,
    hess: Any = None,
    hessp: Any = None,
    bounds: Any = None,
    constraints: Any = (),
    **options: Any,
) -> Any:
    """`scipy.optimize.minimize` with gradient and Hessian of `fun`, traced and compiled.

    Arguments:
        fun: `fun(x, *args)` to a scalar, of NumPy operations.
        x0: where to start, shape (n,).
        jac, hess, hessp: your own derivatives; those that the method needs are filled in.
        options: everything else as SciPy takes it (`tol`, `callback`, `options`, ...).

    Returns:
        SciPy's `OptimizeResult`.

    Raises:
        ArgumentError: if `x0` or `args` are traced.

    Example:
        >>> import numpy as np
        >>> minimize(lambda x: np.sum((x - 3.0) ** 2), np.zeros(2)).x
        array([3., 3.])
    """
    args = _arguments(args)
    x = _known("minimize", x0, args)
    name = method.lower() if isinstance(method, str) else None
    function: Any = fun
    if jac is None and name not in WITHOUT_GRADIENT:
        both = jit(value_and_grad(fun))
        function, jac = _value_and_gradient(both), True
    if hess is None and hessp is None:
        if name in WITH_PRODUCTS:
            hessp = _products(fun)
        elif name in WITH_HESSIAN:
            hess = jit(hessian(fun))
    return plain.minimize(
        function if function is not fun else jit(fun),
        x,
        args=args,
        method=method,
        jac=jac,
        hess=hess,
        hessp=hessp,
        bounds=bounds,
        constraints=_constraints(constraints),
        **options,
    )


def _value_and_gradient(both: Callable[..., Any]) -> Callable[..., Any]:
    """SciPy wants a Python float and an array of its own."""

    def function(x: np.ndarray, *args: Any) -> tuple[float, np.ndarray]:
        value, gradient = both(x, *args)
        return float(value), gradient

    return function


def _products(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Products with the Hessian: the gradient, pushed forward."""

    @jit
    def hessp(x: np.ndarray, p: np.ndarray, *args: Any) -> np.ndarray:
        return jvp(lambda x: grad(fun)(x, *args), (x,), (p.astype(x.dtype),))[1]

    return hessp


def root(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: str = "hybr",
    jac: Any = None,
    **options: Any,
) -> Any:
    """`scipy.optimize.root` with the Jacobian of `fun`.

    Example:
        >>> import numpy as np
        >>> root(lambda x: x + 2.0 * np.cos(x), np.array([0.3])).x.round(6)
        array([-1.029867])
    """
    args = _arguments(args)
    x = _known("root", x0, args)
    if jac is None and method in ("hybr", "lm"):
        jac = jit(jacfwd(fun))
    return plain.root(jit(fun), x, args=args, method=method, jac=jac, **options)


def least_squares(
    fun: Callable[..., Any],
    x0: Any,
    jac: Any = None,
    bounds: Any = (-np.inf, np.inf),
    args: Any = (),
    kwargs: dict[str, Any] | None = None,
    **options: Any,
) -> Any:
    """`scipy.optimize.least_squares` with the Jacobian of `fun`.

    It comes by forward mode, or by reverse mode if there are fewer residuals than parameters.

    Example:
        >>> import numpy as np
        >>> k = np.arange(3.0)
        >>> least_squares(lambda p: p[0] * k + p[1] - (2.0 * k + 1.0), np.zeros(2)).x.round(6)
        array([2., 1.])
    """
    args, keywords = _arguments(args), kwargs or {}
    x = np.atleast_1d(_known("least_squares", x0, (*args, *keywords.values())))
    compiled = jit(fun)
    if jac is None:
        residuals = np.size(compiled(x, *args, **keywords))
        jac = jit(jacrev(fun) if residuals < x.size else jacfwd(fun))
    return plain.least_squares(
        compiled, x, jac=jac, bounds=bounds, args=args, kwargs=keywords, **options
    )


def curve_fit(
    f: Callable[..., Any], xdata: Any, ydata: Any, p0: Any = None, jac: Any = None, **options: Any
) -> Any:
    """`scipy.optimize.curve_fit` with the Jacobian of `f(xdata, *params)`.

    Example:
        >>> import numpy as np
        >>> x = np.linspace(0.0, 1.0, 5)
        >>> params, _ = curve_fit(lambda x, a, b: a * np.exp(b * x), x, 2.0 * np.exp(x), [1.0, 0.5])
        >>> params.round(6)
        array([2., 1.])
    """
    filled = jac if jac is not None else jit(_columns(f))
    return plain.curve_fit(jit(f), xdata, ydata, p0=p0, jac=filled, **options)


def _columns(f: Callable[..., Any]) -> Callable[..., Any]:
    """The Jacobian of f(x, *params) in the parameters."""

    def jac(x: Any, *params: Any) -> Any:
        return jacfwd(lambda p: f(x, *[p[k] for k in range(len(params))]))(np.stack(params))

    return jac


def root_scalar(
    f: Callable[..., Any], args: Any = (), method: str | None = None, **options: Any
) -> Any:
    """`scipy.optimize.root_scalar` with the derivatives that Newton's and Halley's methods need.

    Example:
        >>> float(root_scalar(lambda x: x**2 - 2.0, x0=1.0, method="newton").root)
        1.4142135623730951
    """
    args = _arguments(args)
    _known("root_scalar", options.get("x0", 0.0), args)
    if method in ("newton", "halley") and options.get("fprime") is None:
        options["fprime"] = _as_float(jit(grad(f)))
    if method == "halley" and options.get("fprime2") is None:
        options["fprime2"] = _as_float(jit(grad(grad(f))))
    return plain.root_scalar(_as_float(jit(f)), args=args, method=method, **options)


def _as_float(function: Callable[..., Any]) -> Callable[..., float]:
    return lambda x, *args: float(function(float(x), *args))


def __getattr__(name: str) -> Any:
    """The other names of `scipy.optimize`."""
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(plain, name)
