"""L7. What initial value problems refuse: slopes of a wrong shape, times that are out of order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fgrad.errors import ArgumentError, ShapeError
from fgrad.numpy.promote import user_line
from fgrad.trace import Value, concrete


def misshapen(found: tuple[int, ...], wanted: tuple[int, ...]) -> ShapeError:
    """The card for slopes that are not of the shape of the values."""
    return ShapeError(
        f"The slopes of a differential equation have shape {found}, its values {wanted}.",
        (
            *user_line(),
            ("why", "there is one slope for each value of y, in one dimension."),
            ("write", "def fun(t, y): return np.stack([dy0, dy1, ...])    one for each y[k]"),
        ),
    )


def check_times(ts: Value, ends: Sequence[Value]) -> None:
    """Refuse times of results that SciPy refuses, if they are known."""
    known = [concrete(x) for x in (ts, *ends)]
    if any([x is None for x in known]):
        return
    times, first, last = [np.asarray(x) for x in known]
    steps = np.diff(times) if last >= first else -np.diff(times)
    low, high = min(first, last), max(first, last)
    what = (
        f"t_eval of shape {times.shape}"
        if times.ndim != 1
        else f"t_eval is not within t_span, from {low} to {high}"
        if ((times < low) | (times > high)).any()
        else "t_eval is not in order, or has equal times"
        if (steps <= 0).any()
        else None
    )
    if what is not None:
        write = ("write", "t_eval=np.linspace(*t_span, 50)")
        raise ArgumentError(f"solve_ivp: {what}.", (*user_line(), write))
