"""L7. Boundary value problems by SciPy's collocation, with derivatives.

    dy/dx = f(x, y, p),  bc(y(a), y(b), p) = 0
    y_(i+1) - y_i - h/6 (f_i + 4 f_mid + f_(i+1)) = 0
    y_mid = (y_i + y_(i+1)) / 2 - h/8 (f_(i+1) - f_i)

SciPy finds the nodes and the solution there. These equations hold at it, so that its derivatives by
all that f and bc close over, and by the ends, follow from one sparse system for each direction.
Where the number of nodes is not known while tracing, the last one is repeated: of an interval
without width the equation says that both values are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.base.named_tuple import NamedTuple
from fgrad.errors import ArgumentError, ShapeError
from fgrad.ir.aval import Aval
from fgrad.numpy.arrange import moveaxis
from fgrad.numpy.dispatch import has_tracer
from fgrad.numpy.promote import as_operand, convert, user_line
from fgrad.numpy.sparse_matrices import CsrMatrix, gathered
from fgrad.scipy._either import refusal
from fgrad.scipy._host import Untraced, constant, inside, require_found
from fgrad.scipy.interpolate.piecewise import PPoly
from fgrad.scipy.sparse._direct import solved
from fgrad.trace import Value, concrete
from fgrad.tracing.capturing import user_form
from fgrad.transforms.core.linearize import jvp
from fgrad.transforms.custom.callback import pure_callback
from fgrad.transforms.custom.implicit import closure_convert
from fgrad.transforms.custom.jvp import CustomJvp
from fgrad.transforms.vmap import vmap
from fgrad.typing import ArrayLike, PyTree

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

plain = lazy_module("scipy.integrate")

FLOAT = np.dtype(np.float64)
Nodes: TypeAlias = tuple[Value, Value]  # values there (n, m), and unknown parameters (k,)
Parameters: TypeAlias = tuple[Value, list[Value], list[Value]]  # the ends, and what f and bc take


class Problem(NamedTuple):
    """The functions, converted to take what they close over, and the singular term."""

    fun: Callable[..., Value]
    bc: Callable[..., Value]
    singular: np.ndarray | None

    def field(self, x: Value, y: Value, p: Value, given: Parameters) -> Value:
        """The slopes at places (m,), of values (n, m)."""
        found = vmap(lambda x, y: self.fun(x, y, p, *given[1]), (0, 1), 1)(x, y)
        if self.singular is None:
            return found
        term, away = self.singular, x - given[0][0]
        at_start = away == 0
        first = np.linalg.pinv(np.eye(len(term)) - term) @ found
        return np.where(at_start, first, found + term @ y / np.where(at_start, 1.0, away))


class BvpSolution:
    """What `solve_bvp` returns inside of a transform: `sol`, `p`, `success`, `x`, `y`, `yp`.

    Example:
        >>> import fgrad
        >>> def end(c):
        ...     found = solve_bvp(lambda x, y: c * y, lambda a, b: a - 1, [0, 1], np.ones((1, 2)))
        ...     return found.y[0, -1]
        >>> float(fgrad.grad(end)(0.0))
        1.0
    """

    def __init__(self, sol: PPoly, p: Value | None, success: PyTree, nodes: PyTree) -> None:
        self.sol, self.p, self.success, self._nodes = sol, p, success, nodes

    def _of_nodes(self, which: str) -> Value:
        if self._nodes is None:
            what = f"scipy.integrate.solve_bvp(...).{which} of values that are not known"
            why = "SciPy's number of nodes depends on them."
            raise refusal(what, why, "solve_bvp(...).sol(places)")
        return self._nodes[which]

    @property
    def x(self) -> Value:
        """The nodes that SciPy chose, shape (m,)."""
        return self._of_nodes("x")

    @property
    def y(self) -> Value:
        """The values there, shape (n, m)."""
        return self._of_nodes("y")

    @property
    def yp(self) -> Value:
        """The slopes there, shape (n, m)."""
        return self._of_nodes("yp")


def _middle(
    problem: Problem, x: Value, h: Value, unknown: Nodes, given: Parameters
) -> tuple[Value, Value, Value]:
    """The slopes at the nodes, and places and values between them."""
    y, p = unknown
    f = problem.field(x, y, p, given)
    between = 0.5 * (y[:, 1:] + y[:, :-1]) - 0.125 * h * (f[:, 1:] - f[:, :-1])
    return f, x[:-1] + 0.5 * h, between


def _places(shares: Value, given: Parameters) -> tuple[Value, Value]:
    """The nodes and the widths of the intervals, of shares of the way between the ends."""
    x = given[0][0] + (given[0][1] - given[0][0]) * shares
    return x, x[1:] - x[:-1]


def _residual(problem: Problem, shares: Value, unknown: Nodes, given: Parameters) -> Value:
    """What is zero at the solution: of each interval, then of the boundary."""
    x, h = _places(shares, given)
    y, p = unknown
    f, places, between = _middle(problem, x, h, unknown, given)
    middle = problem.field(places, between, p, given)
    inner = y[:, 1:] - y[:, :-1] - h / 6.0 * (f[:, :-1] + f[:, 1:] + 4.0 * middle)
    ends = problem.bc(y[:, 0], y[:, -1], p, *given[2])
    return np.concatenate([np.ravel(np.transpose(inner)), ends])


def _slopes(
    problem: Problem, x: Value, y: Value, p: Value, given: Parameters
) -> tuple[Value, Value]:
    """df/dy (n, n, m) and df/dp (n, k, m)."""
    n, k = y.shape[0], p.shape[0]
    way = np.eye(n)

    def by_y(d: Value) -> Value:
        return jvp(lambda y: problem.field(x, y, p, given), (y,), (d[:, None] + 0.0 * y,))[1]

    def by_p(d: Value) -> Value:
        return jvp(lambda p: problem.field(x, y, p, given), (p,), (d,))[1]

    found = moveaxis(vmap(by_y)(way), 0, 1)
    none = np.zeros((n, 0, y.shape[1]))
    return found, moveaxis(vmap(by_p)(np.eye(k)), 0, 1) if k else none


def _product(a: Value, b: Value) -> Value:
    """The product of matrices (n, n, m) and (n, k, m), for each m."""
    return np.einsum("abm,bcm->acm", a, b)


def _matrix(problem: Problem, shares: Value, unknown: Nodes, given: Parameters) -> CsrMatrix:
    """The derivative of `_residual` by the values at the nodes, one by one, and p."""
    x, h = _places(shares, given)
    y, p = unknown
    (n, m), k = y.shape, p.shape[0]
    _, places, between = _middle(problem, x, h, unknown, given)
    fy, fp = _slopes(problem, x, y, p, given)
    fy_mid, fp_mid = _slopes(problem, places, between, p, given)
    left, right = fy[..., :-1], fy[..., 1:]
    one = np.eye(n)[:, :, None]
    by_left = -one - h / 6.0 * (left + 2.0 * fy_mid) - h * h / 12.0 * _product(fy_mid, left)
    by_right = one - h / 6.0 * (right + 2.0 * fy_mid) + h * h / 12.0 * _product(fy_mid, right)
    steps = fp[..., 1:] - fp[..., :-1]
    by_p = -h / 6.0 * (fp[..., :-1] + fp[..., 1:] + 4.0 * fp_mid)
    by_p = by_p + h * h / 12.0 * _product(fy_mid, steps)

    def ends(v: Value) -> Value:
        return problem.bc(v[:n], v[n : 2 * n], v[2 * n :], *given[2])

    at_ends = np.concatenate([y[:, 0], y[:, -1], p])
    by_ends = vmap(lambda d: jvp(ends, (at_ends,), (d,))[1])(np.eye(2 * n + k))
    parts = [np.moveaxis(block, -1, 0) for block in (by_left, by_right, by_p)]
    data = np.concatenate([*[np.ravel(part) for part in parts], np.ravel(np.transpose(by_ends))])
    return gathered(_numbers(n, m, k), data, (n * m + k, n * m + k))


def _numbers(n: int, m: int, k: int) -> np.ndarray:
    """Row and column of each entry of `_matrix`, as one number."""
    each = np.arange(m - 1)[:, None, None] * n
    rows, columns, last = np.arange(n)[:, None], np.arange(n), n * m + np.arange(k)
    parts = [(each + rows, each + columns), (each + rows, each + n + columns), (each + rows, last)]
    of_ends = np.concatenate([columns, n * (m - 1) + columns, last])
    parts.append((n * (m - 1) + np.arange(n + k)[:, None], of_ends))
    return np.concatenate([(np.int64(n * m + k) * r + c).ravel() for r, c in parts])


def _differentiable(
    problem: Problem, shares: Value, found: Nodes, given: Parameters, success: PyTree
) -> tuple[Value, Value]:
    """SciPy's solution, with derivatives by the ends and by what the functions close over."""
    n, m = found[0].shape

    @CustomJvp
    def nodes(given: Parameters, found: Nodes) -> Nodes:
        return found

    @nodes.defjvp
    def _(primals: PyTree, tangents: PyTree) -> PyTree:
        (given, _), (moved, _) = primals, tangents
        unknown = nodes(*primals)
        way = jvp(lambda given: _residual(problem, shares, unknown, given), (given,), (moved,))[1]
        matrix = _matrix(problem, shares, unknown, given)
        left = constant(solved("solve_bvp", matrix, _residual(problem, shares, unknown, given)))
        require_found(constant(success), constant(unknown[0]), left)
        step = solved("solve_bvp", matrix, -way)
        return unknown, (np.transpose(np.reshape(step[: n * m], (m, n))), step[n * m :])

    nodes.__name__ = nodes.name = "solve_bvp"
    return nodes(given, found)


def _polynomials(x: Value, y: Value, yp: Value) -> PPoly:
    """The cubics between the nodes; those of intervals without width go on with the last one."""
    h = x[1:] - x[:-1]
    empty = h == 0
    safe = np.where(empty, 1.0, h)[:, None]
    values, slopes = np.transpose(y), np.transpose(yp)
    rise = (values[1:] - values[:-1]) / safe
    bend = (slopes[:-1] + slopes[1:] - 2.0 * rise) / safe
    c = np.stack([bend / safe, (rise - slopes[:-1]) / safe - bend, slopes[:-1], values[:-1]])
    if not (concrete(empty) is None or np.any(np.asarray(concrete(empty)))):
        return PPoly.construct_fast(c, x, True, 1)
    last = np.sum(~empty) - 1
    away = np.arange(h.shape[0]) - last
    after = x[-1] + (x[-1] - x[0]) * np.where(away >= 0, away, 0)
    breaks = np.concatenate([x[:1], np.where(away >= 0, after, x[1:])])
    w = (breaks[:-1] - breaks[last])[:, None]
    c0, c1, c2, c3 = [c[row][last] for row in range(4)]
    on = [
        c0 + 0.0 * w, 3.0 * c0 * w + c1, (3.0 * c0 * w + 2.0 * c1) * w + c2,
        ((c0 * w + c1) * w + c2) * w + c3,
    ]  # fmt: skip
    return PPoly.construct_fast(np.where(empty[:, None], np.stack(on), c), breaks, True, 1)


def _by_scipy(
    problem: Problem, most: int | None, start: PyTree, given: PyTree, options: dict[str, PyTree]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.bool_]:
    """Shares of the nodes, values there, parameters and success, of plain numbers; `most` nodes, of
    which the last is repeated, if that is given."""

    def fun(x: np.ndarray, y: np.ndarray, *p: np.ndarray) -> np.ndarray:
        unknown = p[0] if p else np.zeros(0)
        return np.asarray(regular.field(np.asarray(x), np.asarray(y), unknown, given))

    def bc(ya: np.ndarray, yb: np.ndarray, *p: np.ndarray) -> np.ndarray:
        return np.asarray(problem.bc(ya, yb, p[0] if p else np.zeros(0), *given[2]))

    (x, y, p), regular = start, problem._replace(singular=None)
    found = plain.solve_bvp(
        fun, bc, np.array(x), np.array(y), np.array(p) if p.size else None, problem.singular,
        **options,
    )  # fmt: skip
    shares = (found.x - found.x[0]) / (found.x[-1] - found.x[0])
    values, more = found.y, 0 if most is None else most - len(shares)
    shares = np.pad(shares, (0, more), mode="edge")
    values = np.pad(values, ((0, 0), (0, more)), mode="edge")
    return shares, values, p if found.p is None else found.p, np.bool_(found.success)


def _checked(x: ArrayLike, y: ArrayLike, p: ArrayLike | None) -> tuple[Value, Value, Value]:
    """Nodes, guesses and parameters in double precision."""
    given = [as_operand(v) for v in (x, y, () if p is None else p)]
    if any([v.dtype.kind == "c" for v in given]):
        why = "its values are complex."
        raise refusal("scipy.integrate.solve_bvp", why, "real and imaginary parts as unknowns")
    nodes, guess, unknown = [convert(v, FLOAT) for v in given]
    ranks = (len(nodes.shape), len(guess.shape), len(unknown.shape))
    if ranks != (1, 2, 1) or guess.shape[1:] != nodes.shape or nodes.shape[0] < 2:
        what = f"x of shape {nodes.shape}, y of {guess.shape}, p of {unknown.shape}"
        raise ShapeError(
            f"scipy.integrate.solve_bvp: {what}.",
            (*user_line(), ("write", "x (m,), y (n, m), p (k,)")),
        )
    return nodes, guess, unknown


def _problem(
    fun: Callable[..., PyTree], bc: Callable[..., PyTree], given: tuple[Value, Value, Value],
    singular: ArrayLike | None,
) -> tuple[Problem, list[Value], list[Value]]:  # fmt: skip
    """Functions of single places, converted, and what they close over."""
    n, p = given[1].shape[0], given[2]
    with_p = (p,) if p.shape[0] else ()

    def single(x: Value, y: Value, p: Value) -> Value:
        found = as_operand(user_form(fun)(x[None], y[:, None], *((p,) if with_p else ())))
        if found.shape != (n, 1):
            what = f"fun returns shape {found.shape} for x of (1,) and y of {(n, 1)}"
            write = ("write", f"shape {(n, 1)}: slopes of each place")
            raise ArgumentError(f"scipy.integrate.solve_bvp: {what}.", (*user_line(), write))
        return convert(found[:, 0], FLOAT)

    def boundary(ya: Value, yb: Value, p: Value) -> Value:
        found = as_operand(user_form(bc)(ya, yb, *((p,) if with_p else ())))
        if found.shape != (n + p.shape[0],):
            what = f"bc returns shape {found.shape}, not {(n + p.shape[0],)}"
            raise ArgumentError(f"scipy.integrate.solve_bvp: {what}.", user_line())
        return convert(found, FLOAT)

    column, place = np.full(n, 0.5), np.float64(0.5)
    unknown = np.full(p.shape, 0.5)
    field, of_field = closure_convert(single, place, column, unknown)
    ends, of_ends = closure_convert(boundary, column, column, unknown)
    return Problem(field, ends, _constant_term(singular, n)), of_field, of_ends


def _constant_term(singular: ArrayLike | None, n: int) -> np.ndarray | None:
    """The matrix of the singular term, which has no derivative."""
    if singular is None:
        return None
    if has_tracer((singular,)) or np.shape(singular) != (n, n) or np.iscomplexobj(singular):
        what = "scipy.integrate.solve_bvp with this S"
        raise refusal(what, "it is a real constant.", f"S of shape {(n, n)}")
    return np.asarray(singular, FLOAT)


def solve_bvp(
    fun: Callable[..., PyTree],
    bc: Callable[..., PyTree],
    x: ArrayLike,
    y: ArrayLike,
    p: ArrayLike | None = None,
    S: ArrayLike | None = None,
    fun_jac: Callable[..., PyTree] | None = None,
    bc_jac: Callable[..., PyTree] | None = None,
    tol: float = 1e-3,
    max_nodes: int = 1000,
    verbose: int = 0,
    bc_tol: float | None = None,
) -> OptimizeResult | BvpSolution:
    """`scipy.integrate.solve_bvp` with derivatives: dy/dx = fun(x, y, p) with conditions at two
    ends.

    Arguments:
        fun: `fun(x, y)`, or `fun(x, y, p)`, of places (m,) and values (n, m) to slopes (n, m), of
            NumPy operations; derivatives flow to what it and `bc` close over, and to both ends.
        bc: `bc(ya, yb)`, or `bc(ya, yb, p)`, of values (n,) to n + k numbers that are to be zero.
        x: nodes to begin with, shape (m,).
        y: guesses there, shape (n, m).
        p: guesses of k unknown parameters.
        S: the matrix of a singular term S y / (x - a), constant.
        fun_jac, bc_jac: as in SciPy, outside of transforms.
        tol, max_nodes, verbose, bc_tol: as in SciPy.

    Returns:
        SciPy's result; inside of transforms an object with `sol`, `p`, `success`, and `x`, `y`,
        `yp`, which are refused where values are not known, as under `jit`.

    Raises:
        ArgumentError: `fun` or `bc` return another shape.
        ShapeError: `x`, `y` and `p` do not fit together.
        UnsupportedNumpyError: complex values inside of transforms.

    Example:
        >>> import fgrad
        >>> def middle(c):
        ...     fun = lambda x, y: np.stack([y[1], -c * y[0]])
        ...     ends = lambda ya, yb: np.stack([ya[0], yb[0] - 1.0])
        ...     x = np.linspace(0.0, 1.0, 5)
        ...     return solve_bvp(fun, ends, x, np.ones((2, 5)), tol=1e-6).sol(0.5)[0]
        >>> exact = np.tan(0.5) / np.cos(0.5) / 8
        >>> float(fgrad.grad(middle)(1.0).round(5)), float(exact.round(5))
        (0.07781, 0.07781)
    """
    options = {"tol": tol, "max_nodes": max_nodes, "verbose": verbose, "bc_tol": bc_tol}
    if not inside(x, y, p, S):
        return plain.solve_bvp(fun, bc, x, y, p, S, fun_jac, bc_jac, **options)
    start = _checked(x, y, p)
    problem, of_field, of_ends = _problem(fun, bc, start, S)
    given = (np.stack([start[0][0], start[0][-1]]), of_field, of_ends)
    known = [concrete(v) for v in (*start, given[0], *of_field, *of_ends)]
    if any([v is None for v in known]):
        found = _on_host(problem, max_nodes, start, given, options)
    else:
        count = 4 + len(of_field)
        plain_given = (known[3], known[4:count], known[count:])
        with Untraced():
            found = _by_scipy(problem, None, known[:3], plain_given, options)
    shares, y_found, p_found, success = found
    values, unknown = _differentiable(problem, shares, (y_found, p_found), given, success)
    nodes, _ = _places(shares, given)
    slopes = problem.field(nodes, values, unknown, given)
    all_known = all([v is not None for v in known])
    return BvpSolution(
        _polynomials(nodes, values, slopes),
        None if p is None else unknown,
        success,
        {"x": nodes, "y": values, "yp": slopes} if all_known else None,
    )


def _on_host(
    problem: Problem, most: int, start: tuple[Value, Value, Value], given: Parameters,
    options: dict[str, PyTree],
) -> PyTree:  # fmt: skip
    """`_by_scipy` when the program runs."""

    def call(start: PyTree, given: Parameters) -> PyTree:
        with Untraced():
            return _by_scipy(problem, most, start, given, options)

    n, k = start[1].shape[0], start[2].shape[0]
    like = (
        Aval((most,), FLOAT), Aval((n, most), FLOAT), Aval((k,), FLOAT), Aval((), np.dtype(bool))
    )  # fmt: skip
    return pure_callback(call, like, constant(start), constant(given))
