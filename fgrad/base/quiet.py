"""L0. Silence NumPy's floating-point warnings: infinities in derivatives are not errors."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from fgrad.typing import P, R


def quiet(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator: NumPy's floating-point errors are ignored while the function runs."""
    if np.lib.NumpyVersion(np.__version__) >= "2.0.0":
        return np.errstate(all="ignore")(function)

    @functools.wraps(function)
    def silent(*args: P.args, **kwargs: P.kwargs) -> R:
        with np.errstate(all="ignore"):  # as a decorator it does not nest in this NumPy
            return function(*args, **kwargs)

    return silent
