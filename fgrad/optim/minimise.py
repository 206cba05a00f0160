"""L7. A function and a start -> its minimum, by a loop of fgrad's own, with derivatives.

x(p) = argmin f(x, p)     d2f/dx2 dx = -d2f/dxdp dp     (the implicit function theorem)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.base.progress import Progress
from fgrad.errors import ArgumentError
from fgrad.optim import descent, nelder_mead, trust_region
from fgrad.optim.problem import (
    Found,
    Problem,
    as_vector,
    check_count,
    differentiable,
    frozen,
    slope_size,
    solve_positive,
    tolerance,
)
from fgrad.scipy import _host
from fgrad.scipy._host import arguments
from fgrad.scipy._told import steps_of
from fgrad.trace import Value
from fgrad.tracing.capturing import user_form
from fgrad.transforms.core.wrap import function_name
from fgrad.transforms.grad import grad
from fgrad.typing import PyTree

METHODS: dict[str, Callable[[Problem, Value, Value, int], Found]] = {
    "l-bfgs": descent.lbfgs,
    "newton-cg": descent.newton_cg,
    "nelder-mead": nelder_mead.nelder_mead,
    "trust-ncg": trust_region.trust_ncg,
}
_STEPS = 1000  # the default of max_steps; 400 n with the simplex


class Minimum(NamedTuple):
    """What `minimize` found: the place, the value, the largest number of the gradient (None where
    no gradient was taken), the number of steps, and whether it is a minimum to the tolerance."""

    x: PyTree
    fun: Value
    grad_norm: Value | None
    steps: Value
    success: Value


def minimize(
    fun: Callable[..., PyTree],
    x0: PyTree,
    args: PyTree = (),
    method: str = "l-bfgs",
    *,
    tol: float | None = None,
    max_steps: int | None = None,
    progress: bool | Progress = False,
) -> Minimum:
    """The minimum of a function near a start, by machine code that runs under `jit` and `vmap`.

    Derivatives of the result, of any order and in both modes, flow to `args` and to what `fun`
    closes over, by the implicit function theorem and not through the steps; `x0` and `tol` have
    none.  Under `vmap` every example ends by its own tolerance.  For bounds, constraints and other
    methods see `fgrad.scipy.optimize.minimize`, which calls SciPy.

    Arguments:
        fun: `fun(x, *args)` to a real number, of NumPy operations, with two derivatives.
        x0: the start, a tree of real numbers and arrays.
        args: further arguments of `fun`, a tuple of trees or a single one.
        method: "l-bfgs" (Nocedal and Wright 2006, algorithm 7.5), "newton-cg" (7.1), "trust-ncg"
            (4.1 and 7.2: for saddles and valleys) or "nelder-mead" (9.5: takes no gradient, for a
            few unknowns); capital letters do not matter.
        tol: a minimum is where |df/dx_i| max(|x_i|, 1) <= tol max(|f|, 1) for all i; for
            "nelder-mead", where all vertices and values agree to tol.  By default eps**0.4: 6e-7
            in float64, 2e-3 in float32.
        max_steps: after how many steps a search ends; 1000, or 400 n with "nelder-mead".
        progress: whether to tell on stderr of the steps, or a function of their number and None.

    Returns:
        `Minimum(x, fun, grad_norm, steps, success)`, with x a tree like `x0`.  Where `success` is
        false x is the best place that was found.

    Raises:
        ArgumentError: there is no such method; `x0` is complex or empty; `fun` does not return one
            number; `tol` or `max_steps` is negative.
        UnsupportedNumpyError: `fun` is complex.
        MissingRuleError: from a derivative of x where there is no minimum: `success` is false, and
            Newton's step from x is not small.

    Example: a fit, and the derivative of its slope by a measurement.
        >>> import fgrad
        >>> def loss(line, y):
        ...     return np.sum((line["slope"] * np.arange(3.0) + line["start"] - y) ** 2)
        >>> @fgrad.jit
        ... def slope(y):
        ...     return minimize(loss, {"slope": 0.0, "start": 0.0}, (y,)).x["slope"]
        >>> slope(np.array([1.0, 3.0, 5.0])).round(5)
        np.float64(2.0)
        >>> fgrad.grad(slope)(np.array([1.0, 3.0, 5.0])).round(5) + 0.0
        array([-0.5,  0. ,  0.5])

    Example: many starts at once.
        >>> lowest = fgrad.vmap(lambda x0: minimize(lambda x: (x * x - 1) ** 2, x0).x)
        >>> lowest(np.array([-3.0, 0.5])).round(5)
        array([-1.,  1.])
    """
    search = _search_of(method)
    start, of = as_vector("minimize", x0)
    if max_steps is None:
        max_steps = 400 * start.size if search is nelder_mead.nelder_mead else _STEPS
    check_count("minimize", "max_steps", max_steps, 0)
    limit, rest = tolerance("minimize", tol, start.dtype, 0.4), arguments(args)

    def objective(x: Value) -> Value:
        what = f"The function {function_name(fun)} of minimize"
        value = _host.must_be_real(user_form(fun)(of(x), *rest), what)
        if value.size != 1:
            raise ArgumentError(
                f"optim.minimize: {function_name(fun)} returns shape {value.shape}.",
                (("write", "one number, such as np.sum(...)"),),
            )
        return np.reshape(value, ()).astype(start.dtype)

    plain, began = frozen(objective, start)
    found = search(Problem(plain, steps_of(progress, "minimize")), began, limit, max_steps)
    x = differentiable(grad(objective), found.x, found.success, solve_positive)
    norm = None if found.gradient is None else slope_size(found.gradient)
    return Minimum(of(x), objective(x), norm, found.steps, found.success)


def _search_of(method: str) -> Callable[[Problem, Value, Value, int], Found]:
    """The search of this name; a card if there is none."""
    found = METHODS.get(str(method).lower())
    if found is None:
        write = ", ".join(f'"{name}"' for name in METHODS)
        others = "fgrad.scipy.optimize.minimize    for SciPy's other methods"
        raise ArgumentError(
            f"optim.minimize: method={method!r}.", (("write", write), ("or", others))
        )
    return found
