"""L7. Operands of `scipy.stats`."""

from __future__ import annotations

from fgrad.errors import DtypeError
from fgrad.numpy.promote import as_operand, inexact, user_line
from fgrad.trace import Value
from fgrad.typing import ArrayLike


def real_floats(x: ArrayLike) -> Value:
    """Real floats; an error for complex numbers, whose imaginary parts SciPy drops."""
    value = inexact(as_operand(x))
    if value.dtype.kind == "c":
        raise DtypeError(f"scipy.stats takes real numbers, not {value.dtype}.", user_line())
    return value
