"""L0. Values of any type -> whether they are containers, so that type checkers know what is inside:
objects.  For paths where a call costs nothing; others write `type(x) is tuple`.
"""

from __future__ import annotations

from collections import deque
from typing import TypeGuard

import numpy as np


def is_tuple(x: object) -> TypeGuard[tuple[object, ...]]:
    """Whether a value is a plain tuple."""
    return type(x) is tuple


def is_dict(x: object) -> TypeGuard[dict[object, object]]:
    """Whether a value is a dictionary, or of a class derived from it."""
    return isinstance(x, dict)


def is_series(x: object) -> TypeGuard[list[object] | deque[object]]:
    """Whether a value is a list or a deque."""
    return isinstance(x, (list, deque))


def is_array(x: object) -> TypeGuard[np.ndarray]:
    """Whether a value is a NumPy array, or of a class derived from it."""
    return isinstance(x, np.ndarray)


def is_scalar(x: object) -> TypeGuard[np.generic]:
    """Whether a value is a NumPy scalar."""
    return isinstance(x, np.generic)
