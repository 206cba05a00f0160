"""L7. Operands of `scipy.stats`."""

from __future__ import annotations

from fgrad.numpy.promote import as_operand, inexact, only_real
from fgrad.trace import Value
from fgrad.typing import ArrayLike


def real_floats(x: ArrayLike) -> Value:
    """Real floats; an error for complex numbers, whose imaginary parts SciPy drops."""
    return only_real("scipy.stats", inexact(as_operand(x)))
