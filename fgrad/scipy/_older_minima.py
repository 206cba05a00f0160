"""L7. SciPy's minimisers under constraints by their older names, with derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.scipy import _minima
from fgrad.scipy._bound import compiled
from fgrad.scipy._constrained import minimum_within
from fgrad.scipy._host import arguments, inside, refuse_options
from fgrad.scipy._solvers import Function, Pairs
from fgrad.trace import Value
from fgrad.tracing.capturing import user_form
from fgrad.transforms.grad import grad
from fgrad.typing import ArrayLike, PyTree

plain = lazy_module("scipy.optimize")


def _minimum(
    fun: Function, x0: ArrayLike, constraints: list[PyTree], bounds: Pairs, how: PyTree
) -> Value:
    """The place of a minimum inside of a transform; `how` are arguments of SciPy's `minimize`."""
    derivative = how["method"] != "COBYLA"

    def find(f: Function, x: Value, box: PyTree, rest: PyTree = (), **how: PyTree) -> PyTree:
        more = {"jac": compiled(f, grad)} if derivative else {}
        limits = plain.Bounds(*box) if isinstance(box, tuple) else box
        return plain.minimize(f, x, bounds=limits, constraints=rest, **how, **more)

    ends, x0 = _minima.ends_of(bounds) if len(bounds) else None, np.ravel(x0)
    if constraints:
        return minimum_within(fun, x0, constraints, ends, find, how).x
    return _minima.vector_minimum(lambda x: np.reshape(fun(x), ()), x0, ends, find, options=how).x


def _of(fun: Function, kind: str, args: tuple[PyTree, ...]) -> dict[str, PyTree]:
    return {"type": kind, "fun": fun, "args": args}


def fmin_slsqp(
    func: Function,
    x0: ArrayLike,
    eqcons: Sequence[Function] = (),
    f_eqcons: Function | None = None,
    ieqcons: Sequence[Function] = (),
    f_ieqcons: Function | None = None,
    bounds: Pairs = (),
    fprime: Function | None = None,
    fprime_eqcons: Function | None = None,
    fprime_ieqcons: Function | None = None,
    args: Sequence[PyTree] = (),
    iter: int = 100,
    acc: float = 1e-6,
    iprint: int = 1,
    disp: int | None = None,
    full_output: int = 0,
    epsilon: float = 1.4901161193847656e-08,
    callback: Callable[..., object] | None = None,
) -> PyTree:
    """`scipy.optimize.fmin_slsqp` with derivatives of where the minimum lies.

    Arguments:
        func: `func(x, *args)` to a number, of NumPy operations; derivatives flow to what it and the
            constraints close over, and to `args`.
        x0: where to start.
        eqcons, ieqcons: functions `c(x, *args)` of which each is zero, or not negative.
        f_eqcons, f_ieqcons: such functions to vectors.
        bounds: the least and the greatest value of each unknown, in pairs.
        fprime, fprime_eqcons, fprime_ieqcons: as in SciPy; inside of transforms derivatives are
            fgrad's.
        iter, acc, iprint, disp, epsilon, callback: as in SciPy.
        full_output: as in SciPy, outside of transforms.

    Example:
        >>> import fgrad
        >>> def nearest(p):
        ...     on_line = lambda x: x[0] + x[1] - p
        ...     return fmin_slsqp(lambda x: x @ x, np.zeros(2), [on_line], iprint=0)[0]
        >>> float(fgrad.grad(nearest)(2.0).round(6))
        0.5
    """
    rest = arguments(args)
    if not inside(x0, rest, [list(pair) for pair in bounds]):
        return plain.fmin_slsqp(
            func, x0, eqcons, f_eqcons, ieqcons, f_ieqcons, bounds, fprime, fprime_eqcons,
            fprime_ieqcons, rest, iter, acc, iprint, disp, full_output, epsilon, callback,
        )  # fmt: skip
    refuse_options("scipy.optimize.fmin_slsqp", {"full_output": full_output})
    several = ((eqcons, f_eqcons, "eq"), (ieqcons, f_ieqcons, "ineq"))
    constraints = [
        _of(c, kind, rest)
        for single, vector, kind in several
        for c in (*single, *([vector] if vector else []))
    ]
    shown = iprint if disp is None else disp
    how = {
        "method": "SLSQP",
        "callback": callback,
        "options": {"maxiter": iter, "ftol": acc, "iprint": shown, "disp": shown != 0},
    }
    return _minimum(lambda x: user_form(func)(x, *rest), x0, constraints, bounds, how)


def fmin_cobyla(
    func: Function,
    x0: ArrayLike,
    cons: Function | Sequence[Function],
    args: Sequence[PyTree] = (),
    consargs: Sequence[PyTree] | None = None,
    rhobeg: float = 1.0,
    rhoend: float = 1e-4,
    maxfun: int = 1000,
    disp: int | None = None,
    catol: float = 2e-4,
    *,
    callback: Callable[..., object] | None = None,
) -> Value:
    """`scipy.optimize.fmin_cobyla` with derivatives of where the minimum lies.

    Arguments:
        func: `func(x, *args)` to a number, of NumPy operations; derivatives flow to what it and the
            constraints close over, and to `args`.
        x0: where to start.
        cons: functions `c(x, *consargs)`, none of which may be negative, or one of them.
        consargs: further arguments of these; `args` if None.
        rhobeg, rhoend, maxfun, disp, catol, callback: as in SciPy.

    Example:
        >>> import fgrad
        >>> def nearest(p):
        ...     beyond = lambda x: x[0] + x[1] - p
        ...     return fmin_cobyla(lambda x: x @ x, np.ones(2), beyond, rhoend=1e-9)[0]
        >>> float(fgrad.grad(nearest)(2.0).round(4))
        0.5
    """
    rest = arguments(args)
    more = rest if consargs is None else arguments(consargs)
    if not inside(x0, rest, more):
        return plain.fmin_cobyla(
            func, x0, cons, rest, consargs, rhobeg, rhoend, maxfun, disp, catol, callback=callback
        )
    constraints = [_of(c, "ineq", more) for c in ([cons] if callable(cons) else cons)]
    options = {"rhobeg": rhobeg, "tol": rhoend, "maxiter": maxfun, "catol": catol}
    how = {
        "method": "COBYLA",
        "callback": callback,
        "options": {**options, "disp": bool(disp)},
    }
    return _minimum(lambda x: user_form(func)(x, *rest), x0, constraints, (), how)
