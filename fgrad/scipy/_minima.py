"""L7. Minima of SciPy's methods, differentiated by the equation that they satisfy.

df/dx = 0                         minima
x - clip(x - df/dx, low, high)    minima within bounds: a minimum on a bound moves with it
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fgrad import tree
from fgrad.base.lazy_import import lazy_module
from fgrad.base.progress import Progress, Told
from fgrad.errors import ShapeError
from fgrad.ir.aval import Aval
from fgrad.numpy.promote import user_line
from fgrad.scipy._host import (
    Untraced,
    arguments,
    constant,
    floats,
    implicit,
    inside,
    must_start_real,
    on_host,
    real_number,
    start_of,
)
from fgrad.scipy._solvers import (
    FLAG,
    NUMBER,
    Box,
    Ends,
    Function,
    Options,
    Pairs,
    Solution,
    number_of,
    scalar_of,
)
from fgrad.trace import Value
from fgrad.transforms.core.wrap import function_name
from fgrad.transforms.custom.callback import pure_callback
from fgrad.transforms.grad import grad
from fgrad.typing import ArrayLike, PyTree

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

plain = lazy_module("scipy.optimize")


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
    strict: bool = False,
) -> Solution:
    """`minimize_scalar` inside of a transform; `strict` raises where no bracket was found."""
    given = {"bracket": bracket, "bounds": bounds}
    known = {k: tree.map(real_number, list(v)) for k, v in given.items() if v is not None}
    f = scalar_of(fun, args)

    def solver(plain_f: Function, start: Options, **options: PyTree) -> tuple[np.float64, np.bool_]:
        with told:
            counted = told.counted(number_of(plain_f))
            found = plain.minimize_scalar(counted, method=method, **start, **options)
        if strict and not found.success and "bracket" in found.message:
            raise RuntimeError(found.message)  # as SciPy's BracketError is
        return np.float64(found.x), np.bool_(found.success)

    x, success = on_host(solver, (NUMBER, FLAG), f, np.float64(0.5), known, options=options)
    slope = grad(f)
    if bounds is None:
        x = implicit(slope, x, success)
    else:
        low, high = known["bounds"]
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
    options: Mapping[str, PyTree] | None = None,
    double: bool = False,
) -> Solution:
    """A minimum inside of a transform.

    Arguments:
        fun: a function of one array to a number.
        ends: the bounds, as arrays or numbers.
        find: `find(f, x, ends, **options)` is SciPy's result on plain numbers.
        shown: the function whose value is part of the result, if it is not `fun`.
        data: what `find` takes instead, if it needs no function.
        double: whether the method gives numbers of double precision, whatever it starts at.
    """
    start, seen = np.atleast_1d(must_start_real(x0)), shown or fun
    if len(start.shape) > 1:
        rows = (*user_line(), ("write", "np.ravel(x0)"))
        raise ShapeError(f"scipy.optimize: the start x0 has shape {start.shape}.", rows)
    start = start.astype(np.float64) if double else start_of(start, seen)
    like = Aval(start.shape, start.dtype)
    if ends is not None:
        low, high = [must_start_real(end).astype(like.dtype) for end in ends]
        ends = low, high

    def solver(
        plain_f: Function, x: Value, limits: tuple[Value, Value] | None, **options: PyTree
    ) -> tuple[np.ndarray, np.bool_]:
        return taken(find(plain_f, x, limits, **options))

    def of_data(*data: np.ndarray) -> tuple[np.ndarray, np.bool_]:
        with Untraced():
            return taken(find(*data))

    def taken(found: PyTree) -> tuple[np.ndarray, np.bool_]:
        if np.size(found.x) != np.prod(like.shape):  # nothing was found
            return np.full(like.shape, np.nan, like.dtype), np.bool_(False)
        return np.reshape(found.x, like.shape).astype(like.dtype), np.bool_(found.success)

    def at(x: Value) -> PyTree:
        return seen(x if like.dtype == np.float64 else x.astype(like.dtype))

    at.__name__ = function_name(seen)
    if data:
        outs = pure_callback(of_data, (like, FLAG), *constant(data))
    else:
        wide = start.astype(np.float64)  # in which SciPy's methods search
        outs = on_host(solver, (like, FLAG), at, wide, wide, ends, options=options)
    x, success = outs
    slope = grad(fun)
    x = implicit(slope if ends is None else projected(slope, *ends), x, success)
    return Solution(x, seen(x), success)
