"""L7. Vectors that functions of `scipy.linalg` make matrices of."""

from __future__ import annotations

import numpy as np

from fgrad.errors import ShapeError
from fgrad.numpy.promote import as_operand, user_line
from fgrad.trace import Value
from fgrad.typing import ArrayLike


def vector(name: str, x: ArrayLike) -> Value:
    """An operand with one axis, also of one number; SciPy makes a matrix of each row of others."""
    value = np.atleast_1d(as_operand(x))
    if len(value.shape) > 1:
        rows = (*user_line(), ("write", f"fgrad.vmap({name})(rows)"))
        raise ShapeError(f"scipy.linalg.{name}: shape {value.shape} is not that of a vector.", rows)
    return value
