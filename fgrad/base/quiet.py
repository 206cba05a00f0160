"""L0. Silence NumPy's floating-point warnings: infinities in derivatives are not errors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fgrad.typing import P, R


def quiet(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator: NumPy's floating-point errors are ignored while the function runs."""
    return np.errstate(all="ignore")(function)
