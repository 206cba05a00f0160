"""L7. Initial value problems by SciPy's own solvers, of any method, with derivatives.

    dy/dt = f(y, t, p),   dS/dt = df/dy S + df/d(y0, p),   S(t0) = (1, 0)
    dy(t_k) = S_k (dy0, dp) + f(y_k, t_k) dt_k - S_k[y0] f(y0, t0) dt0

S is one more such problem, solved with the same method and tolerances; it has the same rule, so
that derivatives of any order exist, in both modes. Times of events are roots along the solution.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from fgrad import tree
from fgrad.base.lazy_import import lazy_module
from fgrad.base.named_tuple import NamedTuple
from fgrad.ir.aval import Aval
from fgrad.ops.elementwise import stop_gradient
from fgrad.scipy._host import implicit, on_host
from fgrad.trace import Value
from fgrad.transforms.core.linearize import jvp
from fgrad.transforms.custom.jvp import CustomJvp
from fgrad.transforms.jacobian import jacfwd
from fgrad.transforms.vmap import vmap
from fgrad.typing import PyTree

plain = lazy_module("scipy.integrate")

Field: TypeAlias = Callable[[Value, Value, list[Value]], Value]
Primals: TypeAlias = tuple[Value, Value, list[Value]]  # start, times, parameters
Tangents: TypeAlias = tuple[Value | None, Value | None, list[Value | None]]

NONE = np.float64(0.0)
WITH_JACOBIAN = frozenset({"Radau", "BDF", "LSODA"})


class Method(NamedTuple):
    """A solver of SciPy's, and what it is told."""

    name: PyTree
    rtol: float
    atol: PyTree
    end: Value  # to which it goes on
    options: Mapping[str, PyTree]


def with_jacobian(how: Method) -> bool:
    """Whether a method asks for the Jacobian of the slopes."""
    return (how.name if isinstance(how.name, str) else how.name.__name__) in WITH_JACOBIAN


def _numeric(how: Method, n: int, count: int) -> Callable[..., PyTree]:
    """SciPy's solution of a plain problem at `count` times, shape (count, n)."""

    def solve(f: Callable[[PyTree], PyTree], y0: np.ndarray, ts: np.ndarray, end: Value) -> PyTree:
        def field(t: float, y: np.ndarray) -> Value:
            return f((np.float64(t), y.astype(y0.dtype)))[0]

        if float(ts[0]) == float(end):  # SciPy has no results then
            return np.broadcast_to(y0, (count, n)).copy()
        ys = np.full((count, n), np.nan, y0.dtype)
        ys[0] = y0
        if not np.isfinite(field(float(ts[0]), y0)).all():  # SciPy would not return
            return ys
        more = dict(how.options)
        if with_jacobian(how):
            more["jac"] = lambda t, y: f((np.float64(t), y.astype(y0.dtype)))[1]
        found = plain.solve_ivp(
            field,
            (float(ts[0]), float(end)), np.array(y0), how.name, t_eval=ts[1:].astype(float),
            rtol=how.rtol, atol=how.atol, **more,
        )  # fmt: skip
        ys[1 : 1 + found.y.shape[1]] = found.y.T
        return ys

    return solve


def _atol_of_all(atol: PyTree, n: int, size: int) -> PyTree:
    """The tolerances of a problem and of its sensitivities."""
    if np.ndim(atol) == 0:
        return atol
    return np.concatenate([np.broadcast_to(atol, n), np.full(size - n, np.min(atol))])


def solve_by_scipy(
    field: Field,
    how: Method,
    y0: Value,
    ts: Value,
    params: list[Value],
    jacobian: Field | None = None,
) -> Value:
    """The solution at each of `ts`, shape (T, n), of which the first is y0.

    Arguments:
        jacobian: the derivatives of the slopes in y, or what Newton's iterations take for them.
    """
    block = jacobian or jacfwd(field)
    n, count = int(y0.shape[0]), int(ts.shape[0])

    @CustomJvp
    def solution(y0: Value, ts: Value, params: list[Value]) -> Value:
        def slope(t: Value, y: Value) -> Value:
            return field(y, t, params)

        def fun(x: tuple[Value, Value]) -> PyTree:
            return slope(*x), (block(x[1], x[0], params) if with_jacobian(how) else NONE)

        like, example = Aval((count, n), y0.dtype), (np.float64(0.5), y0)
        solver = _numeric(how, n, count)
        return on_host(solver, like, fun, example, y0, ts, how.end, compiled=True)

    def rule(primals: Primals, tangents: Tangents) -> tuple[Value, Value]:
        (y0, ts, params), (dy0, dts, dparams) = primals, tangents
        ys = solution(y0, ts, params)
        moved = np.zeros_like(ys)
        active = [k for k, d in enumerate(dparams) if d is not None]
        if dy0 is not None or dts is not None or active:
            slopes = _sensitivities(field, block, how, y0, ts, params, active)
            along = [np.zeros_like(y0) if dy0 is None else dy0]
            if dts is not None:
                along[0] = along[0] - field(y0, ts[0], params) * dts[0]
                each = vmap(lambda y, t: field(y, t, params))(ys, ts)
                moved = moved + each * dts[:, None]
            along += [np.reshape(d, -1) for d in dparams if d is not None]
            moved = moved + slopes @ np.concatenate(along)
        return ys, moved

    solution.defjvp(rule, symbolic_zeros=True)
    solution.__name__ = solution.name = "solve_ivp"
    return solution(y0, ts, params)


def _sensitivities(
    field: Field,
    block: Field,
    how: Method,
    y0: Value,
    ts: Value,
    params: list[Value],
    active: Sequence[int],
) -> Value:
    """The derivatives of the solution in its start and in some parameters, shape (T, n, n + m)."""
    n = int(y0.shape[0])
    vector, of = tree.ravel([params[k] for k in active])
    m = int(vector.shape[0])
    directions = np.eye(m, n + m, n).T.astype(vector.dtype)

    def both(state: Value, t: Value, given: list[Value]) -> Value:
        y, s = state[:n], np.reshape(state[n:], (n + m, n))

        def slope(y: Value, p: Value) -> Value:
            full = list(given)
            for k, value in zip(active, of(p), strict=True):
                full[k] = value
            return field(y, t, full)

        at = tree.ravel([given[k] for k in active])[0]
        ds = vmap(lambda s, d: jvp(slope, (y, at), (s, d))[1])(s, directions)
        return np.concatenate([slope(y, at), np.reshape(ds, -1)])

    def diagonal(state: Value, t: Value, given: list[Value]) -> Value:
        same = np.eye(1 + n + m, dtype=y0.dtype)[:, None, :, None]
        return np.reshape(same * block(state[:n], t, given)[:, None, :], (size, size))

    size = n * (1 + n + m)
    start = np.concatenate([y0, np.eye(n + m, n, dtype=y0.dtype).ravel()])
    wide = how._replace(atol=_atol_of_all(how.atol, n, size))
    found = solve_by_scipy(both, wide, start, ts, params, diagonal)[:, n:]
    return np.swapaxes(np.reshape(found, (int(ts.shape[0]), n + m, n)), 1, 2)


def event_times(
    event: Callable[[Value, Value], Value],
    solve: Callable[[Value], Value],
    start: Value,
    times: Value,
) -> tuple[Value, Value]:
    """The roots of event(t, y(t)) next to known times, in order, and y there.

    Arguments:
        solve: times, of which the first is the start, to the solution there.
    """
    if not times.shape[0]:
        return times, solve(np.stack([start, start]))[:0]

    def at(t: Value) -> Value:
        return solve(np.concatenate([np.reshape(start, (1,)), t]))[1:]

    def residual(t: Value) -> Value:
        ys = at(t)
        return np.stack([np.reshape(event(t[k], ys[k]), ()) for k in range(times.shape[0])])

    found = implicit(residual, stop_gradient(times))
    return found, at(found)
