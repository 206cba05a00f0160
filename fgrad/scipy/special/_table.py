"""L7. Special functions of SciPy with slopes written as formulas: a row each of a table.

    erfx = tabulated("erfx", lambda x, out: 2 * x * out - 1)      # slope in x
    f = tabulated("f", None, "its order v", lambda n, v, x, out: ...)

A slope is a function of the operands and the result, None where the function is constant (a count
that enters by its integer part), or the name of an operand in which it has no formula: that
derivative is refused by a card.  Formulas are written with operators; Python numbers in them are
weak, so that float32 stays float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.ops.elementwise import abs_, eq, le, lit, select
from fgrad.ops.families import DerivativeMap
from fgrad.ops.special_functions import Function, external, refused
from fgrad.trace import Value
from fgrad.typing import Array, PyTree

special = lazy_module("scipy.special")

MOST = 1e6  # degrees that are summed by a recurrence

Slope = Callable[..., Value] | str | None


def tabulated(
    name: str,
    *slopes: Slope,
    evaluate: Callable[..., Array] | None = None,
    accepts: str = "f",
) -> Function:
    """An elementwise function that SciPy evaluates, with a slope for each operand.

    Arguments:
        name: its name in `scipy.special`, and of the primitive.
        slopes: for each operand a formula, None, or what the operand is called in a card.
        evaluate: the NumPy function, if it is not SciPy's of that name.
        accepts: the dtype kinds of the operands.
    """
    maps = [_as_map(name, slope) for slope in slopes]
    return external(name, *maps, evaluate=evaluate, accepts=accepts)


def _as_map(name: str, slope: Slope) -> DerivativeMap | None:
    """t -> t slope(operands, result)."""
    if slope is None:
        return None
    if isinstance(slope, str):
        return refused(name, slope)

    def rule(t: Value, *operands: Value) -> Value:
        with np.errstate(all="ignore"):
            return t * slope(*operands)

    return rule


def outputs(
    name: str,
    labels: Sequence[str],
    slopes: Sequence[Sequence[Slope]],
    accepts: str = "f",
    evaluate: Callable[..., tuple[Array, ...]] | None = None,
) -> list[Function]:
    """One function for each result of SciPy's function `name`; `slopes` has a row for each."""
    function = evaluate or in_double(name)

    def part(k: int) -> Callable[..., Array]:
        return lambda *xs: function(*xs)[k]

    return [
        tabulated(f"{name}_{label}", *row, evaluate=part(k), accepts=accepts)
        for k, (label, row) in enumerate(zip(labels, slopes, strict=True))
    ]


def in_double(name: str) -> Callable[..., Array]:
    """SciPy's function in double precision; some give NaN in float32, or do not return."""
    return lambda *xs: getattr(special, name)(*[np.asarray(x, np.result_type(x, "d")) for x in xs])


def guarded(name: str) -> Callable[..., PyTree]:
    """SciPy's function in double precision of finite operands, NaN elsewhere: some crash (1.17)."""

    def evaluate(*xs: Array) -> PyTree:
        finite = np.logical_and.reduce([np.isfinite(x) for x in np.broadcast_arrays(*xs)])
        found = in_double(name)(*[np.where(finite, x, 1) for x in xs])
        if not isinstance(found, tuple):
            return np.where(finite, found, np.nan)
        return tuple([np.where(finite, y, np.nan) for y in found])

    return evaluate


def where(condition: Value, x: Value | float, y: Value) -> Value:
    """x where a condition holds, y elsewhere."""
    return select(condition, lit(y, x) if isinstance(x, (int, float)) else x, y)


def divided(x: Value, y: Value, at_zero: float = 0.0) -> Value:
    """x / y, with a value where y is 0."""
    zero = le(abs_(y), lit(y, 4 * float(np.finfo(y.dtype).tiny)))
    return select(zero, lit(x, at_zero), x / select(zero, lit(y, 1), y))


def is_zero(x: Value) -> Value:
    """Whether x is 0."""
    return eq(x, lit(x, 0))


def whole(x: Array) -> np.ndarray:
    """Floats that are integers as those; NaN becomes the lowest."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.real(x)).astype(np.int64)


def by_order(name: str) -> Callable[..., Array]:
    """SciPy's function of (v, x), whose order is real also where x is complex."""
    return lambda v, x: getattr(special, name)(np.real(v), x)


def of_degree(name: str, counts: int = 1, reals: int = 0) -> Callable[..., Array]:
    """SciPy's function of an integer degree, in its variant for integers where the degree is one.

    Arguments:
        name: the name in `scipy.special`.
        counts: how many operands, the first ones, must be integers; 0 if the first alone may be.
        reals: how many operands after the degree are real.
    """

    def evaluate(n: Array, *xs: Array) -> Array:
        degree = np.asarray(np.real(n))
        rest = [np.real(x) for x in xs[:reals]] + list(xs[reals:])
        function = getattr(special, name)
        with np.errstate(invalid="ignore"):
            known = (degree == np.trunc(degree)) & (np.abs(degree) < MOST)
        if counts or known.all():
            return function(
                whole(degree),
                *[whole(x) for x in rest[: max(counts - 1, 0)]],
                *rest[max(counts - 1, 0) :],
            )
        by_recurrence = function(whole(np.where(known, degree, 0)), *rest)
        return np.where(known, by_recurrence, function(degree, *rest))

    return evaluate
