"""L7. `scipy.cluster.vq` with derivatives: points and the nearest of some centres."""

from __future__ import annotations

import numpy as np

from fgrad.base.lazy_import import lazy_module, names_shown
from fgrad.errors import DtypeError, ShapeError
from fgrad.numpy.promote import as_operand, inexact, promote, user_line
from fgrad.scipy._either import either, others
from fgrad.trace import Value
from fgrad.typing import ArrayLike

plain = lazy_module("scipy.cluster.vq")

__getattr__ = others(__name__, plain)


def _vq(obs: ArrayLike, code_book: ArrayLike, check_finite: bool = True) -> tuple[Value, Value]:
    """For each point the number of the nearest centre, and how far it is.

    Arguments:
        obs: points (n, axes), or (n,) for one axis.
        code_book: centres (k, axes), or (k,).
        check_finite: of no meaning for traced arrays.

    Raises:
        ShapeError: if points and centres do not have as many axes.

    Example:
        >>> vq(np.array([0.5, 3.0]), np.array([0.0, 4.0]))
        (array([0, 1], dtype=int32), array([0.5, 1. ]))
    """
    x, centres = promote([inexact(as_operand(v)) for v in (obs, code_book)])
    if x.dtype.kind == "c":
        raise DtypeError(f"scipy.cluster.vq.vq takes real points, not {x.dtype}.", user_line())
    shapes = x.shape, centres.shape
    ranks = {len(s) for s in shapes}
    if len(ranks) > 1 or not ranks <= {1, 2} or shapes[0][1:] != shapes[1][1:] or 0 in shapes[1]:
        raise ShapeError(
            f"scipy.cluster.vq.vq: points of shape {shapes[0]}, centres of shape {shapes[1]}.",
            user_line(),
        )
    apart = x[:, None] - centres[None]
    squares = np.sum(apart * apart, axis=-1) if len(apart.shape) == 3 else apart * apart
    code = np.argmin(squares, axis=1)
    nearest = np.take_along_axis(squares, code[:, None], axis=1)[:, 0]
    positive = nearest > 0
    root = np.where(positive, np.sqrt(np.where(positive, nearest, 1)), nearest * 0)
    return code.astype(np.int32), root


vq = either(plain, _vq, "vq")


__dir__ = names_shown(__name__)
