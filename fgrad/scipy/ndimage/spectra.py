"""L7. `scipy.ndimage`: filters of spectra, which multiply them by factors of SciPy's.

`n` is the length of the signal whose half spectrum lies along `axis`, or -1; `output` is a dtype.
"""

from __future__ import annotations

import numpy as np

from fgrad.numpy.dispatch import has_tracer
from fgrad.numpy.promote import as_operand, convert, inexact
from fgrad.scipy._either import refusal
from fgrad.scipy.ndimage.common import of_images, pixels, plain
from fgrad.trace import Value
from fgrad.typing import ArrayLike, DTypeLike


def _spectral(
    name: str, input: ArrayLike, by: ArrayLike, n: int, axis: int, output: DTypeLike | None
) -> Value:
    """A spectrum times what SciPy's filter makes of ones; `by` is plain."""
    if output is not None:
        _, kind = pixels(name, input, output)
    x = inexact(as_operand(input))
    kind = x.dtype
    if name == "fourier_shift" and kind.kind != "c":
        kind = np.dtype(np.complex128)
    if has_tracer((by,)):
        what, why = (
            f"scipy.ndimage.{name} with a traced size",
            "SciPy's own code makes the factors.",
        )
        raise refusal(what, why, "a plain number")
    factor = getattr(plain, name)(np.ones(x.shape, np.complex128), by, n, axis)
    factor = factor if name == "fourier_shift" else factor.real
    return convert(x * factor, kind)


@of_images
def fourier_gaussian(
    input: ArrayLike, sigma: ArrayLike, n: int = -1, axis: int = -1, output: DTypeLike | None = None
) -> Value:
    """A spectrum times that of a Gaussian; n is the length of a half spectrum's signal.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.fourier_gaussian(np.ones(2), 0.0)
        array([1., 1.])
    """
    return _spectral("fourier_gaussian", input, sigma, n, axis, output)


@of_images
def fourier_uniform(
    input: ArrayLike, size: ArrayLike, n: int = -1, axis: int = -1, output: DTypeLike | None = None
) -> Value:
    """A spectrum times that of a box.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.fourier_uniform(np.ones(2), 1.0).round(3)
        array([1.   , 0.637])
    """
    return _spectral("fourier_uniform", input, size, n, axis, output)


@of_images
def fourier_ellipsoid(
    input: ArrayLike, size: ArrayLike, n: int = -1, axis: int = -1, output: DTypeLike | None = None
) -> Value:
    """A spectrum times that of an ellipsoid.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.fourier_ellipsoid(np.ones(2), 1.0).shape
        (2,)
    """
    return _spectral("fourier_ellipsoid", input, size, n, axis, output)


@of_images
def fourier_shift(
    input: ArrayLike, shift: ArrayLike, n: int = -1, axis: int = -1, output: DTypeLike | None = None
) -> Value:
    """A spectrum times that of a shift.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.fourier_shift(np.ones(2), 0.0)
        array([1.+0.j, 1.+0.j])
    """
    return _spectral("fourier_shift", input, shift, n, axis, output)
