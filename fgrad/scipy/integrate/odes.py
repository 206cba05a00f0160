"""L7. Initial value problems, with derivatives.

Outside of every transform these are SciPy's own solvers.  Inside, steps are those of Dormand and
Prince, 5(4), adapted to the tolerances, in one compiled loop; outputs are met exactly.  Derivatives
in reverse solve the adjoint equation backwards, so that memory does not grow with the steps
(Pontryagin et al., 1962; Chen et al., 2018, arXiv:1806.07366), or go back through the steps.

Arguments:
    func, f: functions of NumPy operations; derivatives flow to `args` and to what they close over.
    args: further arguments of a function.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from fgrad import tree
from fgrad.base.lazy_import import lazy_module
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.progress import Progress
from fgrad.errors import ArgumentError
from fgrad.lax.loops import scan, while_loop
from fgrad.numpy.dispatch import has_tracer
from fgrad.numpy.promote import as_operand, convert, inexact, user_line
from fgrad.ops.elementwise import stop_gradient
from fgrad.scipy._either import refusal
from fgrad.scipy._host import as_result, at_once, refuse_options, refuse_unknown
from fgrad.scipy.integrate._checks import check_times, misshapen
from fgrad.scipy.integrate._progress import telling
from fgrad.scipy.integrate.by_scipy import Method, event_times, solve_by_scipy
from fgrad.scipy.integrate.complex_problems import (
    as_given,
    as_real,
    event_of_parts,
    joined,
    kind,
    of_parts,
    split,
)
from fgrad.trace import Value, concrete, innermost
from fgrad.tracing.capturing import user_form
from fgrad.transforms.core.linearize import vjp
from fgrad.transforms.custom.implicit import closure_convert
from fgrad.transforms.custom.vjp import custom_vjp
from fgrad.typing import ArrayLike, PyTree

if TYPE_CHECKING:
    from scipy.integrate import OdeSolver
    from scipy.optimize import OptimizeResult

plain = lazy_module("scipy.integrate")

Field: TypeAlias = Callable[..., Value]
Residuals: TypeAlias = tuple[Value, Value, list[Value]]  # solution, times, parameters
Pair: TypeAlias = tuple[Value, Value]

# Hairer, Norsett, Wanner (1993), Solving Ordinary Differential Equations I, table II.5.2.
_NODES = (0.0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0)
_STAGES = (
    (),
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
_ERROR = (-71 / 57600, 0.0, 71 / 16695, -71 / 1920, 17253 / 339200, -22 / 525, 1 / 40)
_SAFETY, _LEAST, _MOST = 0.9, 0.2, 10.0
_SHORTEST = 2e-15  # step, of the time


class Control(NamedTuple):
    """Tolerances, and the number of steps between two outputs after which the result is NaN."""

    rtol: float
    atol: float
    steps: int
    through: bool  # whether the loop has a bound, so that compiled code can be reversed


class State(NamedTuple):
    """The solution at t, its slope there, and the step to try."""

    t: Value
    y: Value
    slope: Value
    h: Value


def _combined(weights: Sequence[float], slopes: Sequence[Value]) -> Value | int:
    return sum([w * k for w, k in zip(weights, slopes, strict=False) if w])


def _norm(x: Value) -> Value:
    """The root of the mean square."""
    return np.sqrt(np.mean(x * x))


def _first_step(f: Field, t: Value, y: Value, slope: Value, control: Control) -> Value:
    """A step whose error is likely below the tolerance; Hairer et al., II.4."""
    scale = control.atol + control.rtol * np.abs(y)
    d0, d1 = _norm(y / scale), _norm(slope / scale)
    h0 = np.where((d0 < 1e-5) | (d1 < 1e-5), 1e-6, 0.01 * d0 / np.where(d1 > 0, d1, 1.0))
    d2 = _norm((f(y + h0 * slope, t + h0) - slope) / scale) / h0
    top = np.maximum(d1, d2)
    h1 = np.where(
        top <= 1e-15, np.maximum(1e-6, h0 * 1e-3), (0.01 / np.where(top > 0, top, 1.0)) ** 0.2
    )
    return stop_gradient(np.minimum(100 * h0, h1))


def _step(f: Field, s: State, end: Value, control: Control) -> State:
    """One step towards `end`, taken if its error is small enough."""
    left = end - s.t
    last = s.h >= np.abs(left)
    h = np.where(last, left, s.h * np.sign(left))
    slopes = [s.slope]
    for node, weights in zip(_NODES[1:], _STAGES[1:], strict=True):
        y = s.y + h * _combined(weights, slopes)
        slopes.append(f(y, s.t + node * h))
    error = h * _combined(_ERROR, slopes)
    scale = control.atol + control.rtol * np.maximum(np.abs(s.y), np.abs(y))
    size = stop_gradient(_norm(error / scale))
    accept = size <= 1
    factor = _SAFETY * np.where(size > 0, size, 1e-10) ** -0.2
    factor = np.where(np.isnan(size), _LEAST, np.minimum(np.maximum(factor, _LEAST), _MOST))
    tried = np.abs(stop_gradient(h)) * np.where(accept, factor, np.minimum(factor, 1.0))
    return State(
        np.where(accept, np.where(last, end, s.t + h), s.t),
        np.where(accept, y, s.y),
        np.where(accept, slopes[-1], s.slope),
        np.where(accept & last, np.maximum(tried, s.h), tried),
    )


def _advance(f: Field, s: State, end: Value, control: Control) -> State:
    """The solution at `end`; NaN if that takes too many steps."""

    def go_on(carry: tuple[Value, State]) -> Value:
        steps, s = carry
        moves = s.h > _SHORTEST * np.abs(s.t)  # not where slopes are NaN
        return (steps < control.steps) & (s.t != end) & moves

    def body(carry: tuple[Value, State]) -> tuple[Value, State]:
        return carry[0] + 1, _step(f, carry[1], end, control)

    bound = control.steps if control.through else None
    _, found = while_loop(go_on, body, (np.int64(0), s), bound)
    reached = found.t == end
    return found._replace(y=np.where(reached, found.y, np.nan), t=end)


def _integrate(f: Field, y0: Value, ts: Value, control: Control) -> Value:
    """The solution at each of `ts`, stacked, shape (T, n)."""
    slope = f(y0, ts[0])
    start = State(ts[0], y0, slope, _first_step(f, ts[0], y0, slope, control))

    def interval(s: State, end: Value) -> tuple[State, Value]:
        found = _advance(f, s, end, control)
        return found, found.y

    _, ys = scan(interval, start, ts[1:])
    return np.concatenate([y0[None], ys])


# --- the adjoint ----------------------------------------------------------------------------------


def _solve(field: Field, control: Control, y0: Value, ts: Value, params: list[Value]) -> Value:
    return _integrate(lambda y, t: field(y, t, params), y0, ts, control)


_solve_adjoint = custom_vjp(_solve, nondiff_argnums=(0, 1))


def _forward(
    field: Field, control: Control, y0: Value, ts: Value, params: list[Value]
) -> tuple[Value, Residuals]:
    ys = _solve(field, control, y0, ts, params)
    return ys, (ys, ts, params)


def _backward(
    field: Field, control: Control, residuals: Residuals, ct: Value
) -> tuple[Value, Value, Sequence[Value]]:
    """d(y, a, g)/dt = (f, -a' df/dy, -a' df/dparams), from the last output to the first."""
    ys, ts, params = residuals
    n = ys.shape[1]
    sizes = [int(np.prod(p.shape)) for p in params]
    ends = np.cumsum([0, *sizes])

    def augmented(state: Value, back: Value) -> Value:
        y, a = state[:n], state[n : 2 * n]
        slope, pull = vjp(lambda y, p: field(y, -back, p), y, params)
        dy, dparams = pull(a)
        return np.concatenate([-slope, dy, *[np.reshape(d, -1) for d in dparams]])

    def interval(carry: Pair, x: tuple[Value, Value, Value, Value]) -> tuple[Pair, Value]:
        a, g = carry
        y, ct_y, late, early = x
        a = a + ct_y
        slope = field(y, late, params)
        start = np.concatenate([y, a, g])
        state = _integrate(augmented, start, np.stack([-late, -early]), control)[1]
        return (state[n : 2 * n], state[2 * n :]), np.sum(slope * ct_y)

    a, g = np.zeros(n, ys.dtype), np.zeros(ends[-1], ys.dtype)
    (a, g), ct_late = scan(interval, (a, g), (ys[1:], ct[1:], ts[1:], ts[:-1]), reverse=True)
    # An output moves with its own time along the slope; the start's time moves all others.
    ct_first = -np.sum(field(ys[0], ts[0], params) * a)
    ct_ts = np.concatenate([np.reshape(ct_first, (1,)), ct_late])
    ct_params = [
        np.reshape(g[low:high], p.shape)
        for low, high, p in zip(ends, ends[1:], params, strict=False)
    ]
    return a + ct[0], ct_ts, ct_params


_solve_adjoint.defvjp(_forward, _backward)


# --- SciPy's signatures ---------------------------------------------------------------------------


def _inside(values: Iterable[object]) -> bool:
    return innermost() is not None or has_tracer(values)


def _doubles(x: ArrayLike) -> Value:
    """Numbers in double precision, in which SciPy's solvers compute."""
    x = inexact(as_operand(x))
    return convert(x, np.dtype(np.complex128 if x.dtype.kind == "c" else np.float64))


def _solution(
    f: Field, y0: ArrayLike, ts: ArrayLike, args: Sequence[PyTree], control: Control | Method
) -> Value:
    """Convert a user's f(y, t, *args), with what it closes over, to one of floating parameters."""
    y0, ts = np.reshape(_doubles(y0), -1), _doubles(ts)
    converted, consts = closure_convert(f, y0, ts[0], *args)
    leaves, treedef = tree.flatten((list(args), consts))
    leaves = [as_operand(x) for x in leaves]
    floats = [k for k, x in enumerate(leaves) if kind(x) in "fc"]

    def field(y: Value, t: Value, params: list[Value]) -> Value:
        given = list(leaves)
        for k, p in zip(floats, params, strict=True):
            given[k] = as_given(p, leaves[k])
        arguments, captured = tree.unflatten(treedef, given)
        slope = as_operand(converted(y, t, *arguments, *captured))
        if slope.shape not in ((), (1,), y0.shape, (*y0.shape, 1)):
            raise misshapen(slope.shape, y0.shape)
        return np.broadcast_to(np.reshape(slope, -1).astype(y0.dtype), y0.shape)

    params = [as_real(leaves[k]) for k in floats]
    if isinstance(control, Method):
        return solve_by_scipy(field, control, y0, ts, params)
    if control.through:
        return _solve(field, control, y0, ts, params)
    return _solve_adjoint(field, control, y0, ts, params)


# Options of SciPy's `odeint` about how it steps within the tolerances, and what it prints.
_ODEINT_HINTS = (
    "Dfun", "col_deriv", "ml", "mu", "h0", "ixpr", "mxhnil", "mxordn", "mxords", "printmessg",
)  # fmt: skip


def odeint(
    func: Callable[..., PyTree],
    y0: ArrayLike,
    t: ArrayLike,
    args: PyTree = (),
    *,
    rtol: float | None = None,
    atol: float | None = None,
    mxstep: int = 0,
    tfirst: bool = False,
    adjoint: bool = True,
    progress: bool | Progress = False,
    **options: object,
) -> Value:
    """The solution of dy/dt = func(y, t, *args) at given times.

    Arguments:
        func: `func(y, t, *args)` to the slopes of y; `func(t, y, *args)` with `tfirst`.
        y0: the values at t[0], shape (n,).
        t: times, rising or falling, shape (T,).
        args: further arguments, pytrees; derivatives flow to them, and to what `func` closes over.
        rtol, atol: tolerances of the error of a step; 1.49e-8.
        mxstep: steps between two times, after which the solution is NaN; 0 means 100,000, or 500
            with `adjoint=False`.
        adjoint: whether derivatives in reverse solve the adjoint equation.  If not, they go back
            through the steps, which takes memory for each, and forward mode is there too.
        progress: whether to tell on stderr how far the time is, or a function of (time since the
            beginning, all of it); the backward pass counts down.
        options: other options of SciPy's; inside of transforms those that guide its steps, such as
            `Dfun` and `h0`, mean nothing; `full_output`, `tcrit`, `hmax` and `hmin` are refused.

    Returns:
        The solution, shape (T, n).

    Example:
        >>> import fgrad
        >>> ts = np.array([0.0, 1.0])
        >>> slope = fgrad.grad(lambda k: odeint(lambda y, t: -k * y, 1.0, ts)[-1, 0])(1.0)
        >>> float(round(slope, 6)), float(-np.exp(-1.0).round(6))
        (-0.367879, -0.367879)
    """
    args = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    func = telling(func, progress, "odeint", t, 0 if tfirst else 1)
    if not _inside((y0, t, *tree.leaves(args))):
        return plain.odeint(
            func, y0, t, args, rtol=rtol, atol=atol, mxstep=mxstep, tfirst=tfirst, **options
        )
    refuse_unknown(plain.odeint, options)
    if kind(as_operand(y0)) == "c":
        why = "SciPy's drops imaginary parts."
        raise refusal("scipy.integrate.odeint of complex values", why, "solve_ivp(...)")
    meant = {k: v for k, v in options.items() if k not in _ODEINT_HINTS}
    refuse_options("scipy.integrate.odeint", meant)
    field = (lambda y, t, *a: user_form(func)(t, y, *a)) if tfirst else func
    tolerance = 1.49012e-8
    steps = mxstep or (100_000 if adjoint else 500)
    control = Control(
        tolerance if rtol is None else rtol, tolerance if atol is None else atol, steps, not adjoint
    )
    return _solution(field, y0, t, args, control)


@as_result
class OdeSolution(NamedTuple):
    """What `solve_ivp` returns inside of a transform."""

    t: Value
    y: Value
    success: Value | np.bool_
    t_events: list[Value] | None = None
    y_events: list[Value] | None = None
    sol: Callable[[ArrayLike], Value] | None = None


def solve_ivp(
    fun: Callable[..., PyTree],
    t_span: Sequence[ArrayLike],
    y0: ArrayLike,
    method: str | type[OdeSolver] = "RK45",
    t_eval: ArrayLike | None = None,
    dense_output: bool = False,
    events: PyTree = None,
    vectorized: bool = False,
    args: Sequence[PyTree] | None = None,
    *,
    rtol: float = 1e-3,
    atol: ArrayLike = 1e-6,
    adjoint: bool = True,
    progress: bool | Progress = False,
    **options: PyTree,
) -> OptimizeResult | OdeSolution:
    """The solution of dy/dt = fun(t, y, *args), with SciPy's arguments.

    Arguments:
        fun: `fun(t, y, *args)`.
        t_span: the first and the last time.
        y0: the values at the first, shape (n,).
        method: any of SciPy's. Inside of transforms "RK45" without further options is traced,
            and the others are SciPy's own, with sensitivities beside the solution.
        t_eval: the times of the results, in order; if they are not given, those of SciPy's steps,
            for which all values must be known: not under `jit` and `vmap`.
        dense_output: whether `sol`, a function of time, is part of the result.
        events: functions `event(t, y, *args)` whose roots are wanted, with SciPy's attributes
            `terminal` and `direction`; their times and values have derivatives, and all values must
            be known.
        args, rtol, atol, adjoint, progress: as for `odeint`.
        vectorized, options: as SciPy takes them (`max_step`, `first_step`, ...); the Jacobian is
            fgrad's.

    Returns:
        SciPy's result; inside of transforms `(t, y, success, t_events, y_events, sol)`, with y of
        shape (n, T).

    Raises:
        ArgumentError: without `t_eval` or with events, where values are not known.
        UnsupportedNumpyError: inside of transforms, for `lband` and `uband`.

    Example:
        >>> import fgrad
        >>> def end(k):
        ...     found = solve_ivp(lambda t, y: -k * y, (0.0, 1.0), [1.0], rtol=1e-9, atol=1e-9)
        ...     return found.y[0, -1]
        >>> float(fgrad.grad(end)(1.0).round(6))
        -0.367879
    """
    args = () if args is None else tuple(args)
    fun = telling(fun, progress, "solve_ivp", t_span, 0)
    known = (y0, *tree.leaves(t_span), t_eval, *tree.leaves(args))
    if not _inside(known):
        return plain.solve_ivp(
            fun, t_span, y0, method, t_eval, dense_output, events, vectorized, args or None,
            rtol=rtol, atol=atol, **options,
        )  # fmt: skip
    _refuse_unknown(method, options)
    refuse_options("scipy.integrate.solve_ivp", {k: options.pop(k, None) for k in BANDS})
    options = {k: v for k, v in options.items() if k not in ("jac", "jac_sparsity")}
    ends, y0 = [_doubles(e) for e in t_span], as_operand(y0)
    if len(np.shape(y0)) != 1:
        raise ArgumentError(
            f"solve_ivp: y0 of shape {np.shape(y0)}.", (*user_line(), ("write", "a vector"))
        )
    problem = Problem(fun, y0, args, method, rtol, atol, ends, options)
    if kind(y0) != "c":
        return _traced_problem(problem, t_eval, dense_output, events, adjoint)
    return _complex_problem(problem, t_eval, dense_output, events, adjoint)


def _complex_problem(
    problem: Problem, t_eval: ArrayLike | None, dense_output: bool, events: PyTree, adjoint: bool
) -> OdeSolution:
    """`solve_ivp` of complex values inside of a transform."""
    fun, y0, atol = of_parts(problem.fun), split(_doubles(problem.y0)), problem.atol
    wide = np.concatenate([atol, atol]) if np.ndim(atol) else atol
    several = events if isinstance(events, (list, tuple)) else [events]
    real = problem._replace(fun=fun, y0=y0, atol=wide)
    given = None if events is None else [event_of_parts(e) for e in several]
    found = _traced_problem(real, t_eval, dense_output, given, adjoint)
    sol, there = found.sol, found.y_events
    return found._replace(
        y=joined(found.y),
        y_events=None if there is None else [np.transpose(joined(np.transpose(y))) for y in there],
        sol=None if sol is None else lambda t: joined(sol(t)),
    )


def _traced_problem(
    problem: Problem, t_eval: ArrayLike | None, dense_output: bool, events: PyTree, adjoint: bool
) -> OdeSolution:
    """`solve_ivp` inside of a transform."""
    fun, y0, args, method, rtol, atol, ends, options = problem
    control: Control | Method = Control(rtol, atol, 100_000 if adjoint else 500, not adjoint)  # type: ignore[arg-type]
    if method != "RK45" or options or np.ndim(atol) or events is not None:
        control = Method(method, rtol, atol, stop_gradient(ends[1]), options)

    def solve(ts: Value) -> Value:
        return _solution(lambda y, t, *a: user_form(fun)(t, y, *a), y0, ts, args, control)

    several: list[Callable[..., PyTree]] = (
        list(events) if isinstance(events, (list, tuple)) else [events]  # type: ignore[list-item]
    )
    t_events, y_events, stop = None, None, None
    steps: Value | None = None
    if t_eval is None or events is not None:
        steps, found_events, stop = _steps_of_scipy(problem, several if events else [])
        if events is not None:
            pairs = [
                event_times(_with(g, args), solve, ends[0], t)
                for g, t in zip(several, found_events, strict=True)
            ]
            t_events, y_events = [p[0] for p in pairs], [p[1] for p in pairs]
    if t_eval is None:
        assert steps is not None
        last = ends[1] if stop is None else t_events[stop][-1]  # type: ignore[index]
        ts, inner = np.stack([ends[0], *steps[1:-1], last]), slice(None)
    else:
        middle = _doubles(t_eval)
        check_times(middle, ends)
        if stop is not None:
            middle = middle[: int(np.sum(_until(middle, ends, t_events[stop][-1])))]  # type: ignore[index]
        ts, inner = np.concatenate([np.reshape(ends[0], (1,)), middle]), slice(1, None)
    ys = np.transpose(solve(ts)[inner])
    sol = _dense(solve, ends) if dense_output else None
    return OdeSolution(ts[inner], ys, np.all(np.isfinite(ys)), t_events, y_events, sol)


BANDS = ("lband", "uband")
_OPTIONS = frozenset({"max_step", "first_step", "min_step", "jac", "jac_sparsity", *BANDS})


def _refuse_unknown(method: str | type[OdeSolver], options: Iterable[str]) -> None:
    """A TypeError for an option that none of SciPy's methods has, and not the one given."""
    own = () if isinstance(method, str) else inspect.signature(method).parameters
    refuse_unknown(plain.solve_ivp, [k for k in options if k not in _OPTIONS and k not in own])


class Problem(NamedTuple):
    """An initial value problem as SciPy takes it."""

    fun: Callable[..., PyTree]
    y0: ArrayLike
    args: Sequence[PyTree]
    method: PyTree
    rtol: float
    atol: ArrayLike
    ends: Sequence[Value]
    options: dict[str, PyTree]


def _with(event: Callable[..., PyTree], args: Sequence[PyTree]) -> Callable[[Value, Value], Value]:
    return lambda t, y: user_form(event)(t, y, *args)


def _until(ts: Value, ends: Sequence[Value], stop: Value) -> np.ndarray:
    """Which times come before the end of an integration, of known values."""
    plain_ts, first, last, end = [np.asarray(concrete(x)) for x in (ts, *ends, stop)]
    return plain_ts <= end if last >= first else plain_ts >= end


def _dense(solve: Callable[[Value], Value], ends: Sequence[Value]) -> Callable[[ArrayLike], Value]:
    """The solution as a function of time: y of shape (n,), or (n, T) for several times."""

    def sol(t: ArrayLike) -> Value:
        times = inexact(as_operand(t))
        line = np.reshape(times, -1)
        sign = np.where(ends[1] >= ends[0], 1.0, -1.0)
        order = np.argsort(stop_gradient(line) * sign)
        ys = solve(np.concatenate([np.reshape(ends[0], (1,)), line[order]]))[1:]
        found = np.transpose(ys[np.argsort(order)])
        return found if times.shape else found[:, 0]

    return sol


def _steps_of_scipy(
    problem: Problem, events: list[Callable[..., PyTree]]
) -> tuple[Value, list[PyTree], int | None]:
    """The times at which SciPy's solver has results of its own accord, those of events, and which
    event ended it."""
    start = np.reshape(inexact(as_operand(problem.y0)), -1)
    functions = [problem.fun, *events]

    def all_of(x: tuple[Value, Value]) -> list[Value]:
        return [user_form(f)(x[0], x[1], *problem.args) for f in functions]

    def solver(field: Callable[[PyTree], PyTree], span: Sequence[Value], y: ArrayLike) -> PyTree:
        def event(k: int) -> Callable[..., PyTree]:
            def g(t: float, y: np.ndarray) -> float:
                return float(np.reshape(field((np.float64(t), y))[k], ()))

            for name in ("terminal", "direction"):
                if hasattr(functions[k], name):
                    setattr(g, name, getattr(functions[k], name))
            return g

        def slopes(t: ArrayLike, y: ArrayLike) -> np.ndarray:
            return np.reshape(field((np.float64(t), y))[0], -1)  # type: ignore[arg-type]

        if not np.isfinite(slopes(span[0], y)).all():  # SciPy would not return
            return OdeSolution(
                np.stack(span), np.asarray(y), np.False_, [np.zeros(0) for _ in events]
            )
        return plain.solve_ivp(
            slopes, span, y, problem.method,
            events=[event(k + 1) for k in range(len(events))] or None,
            rtol=problem.rtol, atol=problem.atol, **problem.options,
        )  # fmt: skip

    found = at_once(solver, all_of, (np.float64(0.5), start), problem.ends, start)
    if found is None:
        raise ArgumentError(
            "solve_ivp needs t_eval, and no events, where values are not known while tracing.",
            (
                *user_line(),
                ("why", "else the number of results depends on SciPy's adaptive steps."),
                ("write", "t_eval=np.linspace(t0, t1, 50)"),
                ("write", "t_eval=[t1]                      the end alone"),
            ),
        )
    times: list[PyTree] = [np.asarray(t, np.float64) for t in (found.t_events or [])]
    stop = None
    if getattr(found, "status", None) == 1:
        last = [k for k, t in enumerate(times) if t.size and t[-1] == found.t[-1]]
        stop = last[0]
    return found.t, times, stop
