"""L7. The losses of `scipy.optimize.least_squares`, as functions of residuals.

0.5 sum_k C^2 rho((r_k / C)^2)        C = f_scale
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fgrad.scipy._either import refusal
from fgrad.scipy._host import floats
from fgrad.trace import Value
from fgrad.typing import ArrayLike

RHO: dict[str, Callable[[Value], Value]] = {
    "soft_l1": lambda z: 2 * (np.sqrt(1 + z) - 1),
    "huber": lambda z: np.where(z <= 1, z, 2 * np.sqrt(np.where(z <= 1, 1.0, z)) - 1),
    "cauchy": np.log1p,
    "arctan": np.arctan,
}


def robust(loss: object, scale: ArrayLike) -> Callable[[Value], Value]:
    """C^2 rho((r / C)^2) of residuals r, for a loss of SciPy's."""
    if loss == "linear":
        return np.square
    if not isinstance(loss, str):
        why = "its derivatives are told by numbers."
        raise refusal("scipy.optimize.least_squares with a function as loss", why, "minimize(...)")
    if loss not in RHO:
        names = ", ".join(["linear", *RHO])
        raise ValueError(f"least_squares: loss={loss!r} is none of {names}.")
    rho, size = RHO[loss], floats(scale)
    return lambda r: size * size * rho((r / size) ** 2)
