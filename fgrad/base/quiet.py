"""L0. Silence NumPy's floating-point warnings: infinities in derivatives are not errors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from fgrad.typing import PyTree

Function = TypeVar("Function", bound=Callable[..., PyTree])


def quiet(function: Function) -> Function:
    """Decorator: NumPy's floating-point errors are ignored while the function runs."""
    if np.lib.NumpyVersion(np.__version__) >= "2.0.0":
        return np.errstate(all="ignore")(function)

    @functools.wraps(function)
    def silent(*args: PyTree) -> Any:
        with np.errstate(all="ignore"):  # as a decorator it does not nest in this NumPy
            return function(*args)

    return silent  # type: ignore[return-value]
