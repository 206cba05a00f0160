"""L7. `scipy.signal`: smoothing by polynomials, medians, local means and splines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fgrad.errors import ShapeError
from fgrad.numpy.arrange import moveaxis
from fgrad.numpy.promote import as_operand, convert, inexact, user_line
from fgrad.scipy import ndimage as nd
from fgrad.scipy.ndimage.common import known
from fgrad.scipy.signal.common import in_precision, lines, of_signals, plain, refused, wrong
from fgrad.trace import Value
from fgrad.typing import ArrayLike


@of_signals
def savgol_filter(
    x: ArrayLike,
    window_length: int,
    polyorder: int,
    deriv: int = 0,
    delta: float = 1.0,
    axis: int = -1,
    mode: str = "interp",
    cval: float = 0.0,
) -> Value:
    """A signal smoothed by the polynomial nearest to each window, or its derivative.

    Arguments:
        x, axis: the signal, and the axis of its values.
        window_length, polyorder: values of a window, and the degree of its polynomial.
        deriv, delta: the order of the derivative, and the distance of the values.
        mode, cval: "interp", polynomials of the outermost windows, or a mode of
            `scipy.ndimage.correlate1d`.

    Raises:
        ArgumentError: if the window is longer than the signal, for "interp".

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.savgol_filter(np.arange(5.0) ** 2, 3, 2).round(9)
        array([ 0.,  1.,  4.,  9., 16.])
    """
    if mode not in ("interp", "mirror", "constant", "nearest", "wrap"):
        raise wrong("savgol_filter", f"mode={mode!r}", 'mode="interp"')
    signal, place = lines(in_precision(x)[0], axis)
    coeffs = plain.savgol_coeffs(window_length, polyorder, deriv=deriv, delta=delta)
    if mode != "interp":
        return moveaxis(nd.convolve1d(signal, coeffs, -1, None, mode, cval), -1, place)
    n, half = signal.shape[-1], window_length // 2
    if window_length > n:
        raise wrong(
            "savgol_filter", f"a window of {window_length} for {n} values", 'mode="nearest"'
        )
    inner = nd.convolve1d(signal, coeffs, -1, None, "constant")
    if not half:
        return moveaxis(inner, -1, place)
    fitted = plain.savgol_filter(
        np.eye(window_length), window_length, polyorder, deriv, delta, axis=0
    ).astype(signal.dtype)
    first = signal[..., :window_length] @ fitted[:half].T
    last = signal[..., n - window_length :] @ fitted[-half:].T
    whole = np.concatenate([first, inner[..., half : n - half], last], axis=-1)
    return moveaxis(whole, -1, place)


# --- medians and local means --------------------------------------------------------------------


def _sizes(name: str, given: int | Sequence[int] | None, rank: int) -> list[int]:
    found = np.broadcast_to(3 if given is None else np.asarray(given), (rank,)).tolist()
    if any([n % 2 == 0 or n < 1 for n in found]):
        raise wrong(name, f"windows of {found}", "odd numbers")
    return found


@of_signals
def medfilt(volume: ArrayLike, kernel_size: int | Sequence[int] | None = None) -> Value:
    """The median of the window around each value, with zeros outside.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.medfilt(np.array([3.0, 1.0, 2.0]))
        array([1., 2., 1.])
    """
    x = np.atleast_1d(as_operand(volume))
    return nd.median_filter(x, _sizes("medfilt", kernel_size, len(x.shape)), mode="constant")


@of_signals
def medfilt2d(input: ArrayLike, kernel_size: int | Sequence[int] = 3) -> Value:
    """The median of the window around each value of a matrix, with zeros outside.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.medfilt2d(np.ones((2, 2)), 1)
        array([[1., 1.],
               [1., 1.]])
    """
    x = as_operand(input)
    if len(x.shape) != 2:
        raise ShapeError(f"scipy.signal.medfilt2d: an array of shape {x.shape}.", user_line())
    return medfilt(x, kernel_size)


@of_signals
def order_filter(a: ArrayLike, domain: ArrayLike, rank: int) -> Value:
    """The value of a rank in the window around each value, with zeros outside.

    Arguments:
        a: the values.
        domain: which places of the window count, of odd lengths.
        rank: 0 for the least value.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.order_filter(np.array([3.0, 1.0, 2.0]), np.ones(3), 1)
        array([1., 2., 1.])
    """
    marks = np.asarray(known("order_filter", "domain", domain, "it decides places.", "a constant"))
    _sizes("order_filter", marks.shape, marks.ndim)
    return nd.rank_filter(as_operand(a), rank, footprint=marks, mode="constant")


@of_signals
def wiener(
    im: ArrayLike, mysize: int | Sequence[int] | None = None, noise: ArrayLike | None = None
) -> Value:
    """Wiener's filter: local means, and what is more than noise of the differences from them.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.wiener(np.array([0.0, 3.0, 0.0]), 3, noise=9.0)
        array([1., 1., 1.])
    """
    x = inexact(as_operand(im))
    if x.dtype.kind == "c":
        raise wrong("wiener", "complex values", "wiener(x.real)")
    sizes = np.broadcast_to(3 if mysize is None else np.asarray(mysize), x.shape and (x.ndim,))
    w = np.full(sizes.tolist(), 1.0 / np.prod(sizes))
    wide = convert(x, np.dtype(np.float64))
    mean = nd.correlate(wide, w, mode="constant")
    variance = nd.correlate(wide**2, w, mode="constant") - mean**2
    level = np.mean(variance) if noise is None else as_operand(noise)
    noisy = variance < level  # its gain is zero there
    gain = np.where(noisy, 0.0, 1 - level / np.where(noisy | (variance == 0), 1.0, variance))
    return mean + (wide - mean) * gain


@of_signals
def sepfir2d(input: ArrayLike, hrow: ArrayLike, hcol: ArrayLike) -> Value:
    """A matrix filtered along rows and along columns, mirrored at its edges.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.sepfir2d(np.ones((3, 3)), [1.0], [2.0])[0]
        array([2., 2., 2.])
    """
    (x,), rows, columns = in_precision(input), as_operand(hrow), as_operand(hcol)
    for h in (rows, columns):
        if not np.can_cast(h.dtype, x.dtype, "safe"):
            raise TypeError(f"scipy.signal.sepfir2d: a filter of {h.dtype} for {x.dtype} values")
    rows, columns = convert(rows, x.dtype), convert(columns, x.dtype)
    if len(x.shape) != 2 or any([len(h.shape) != 1 or h.size % 2 == 0 for h in (rows, columns)]):
        raise wrong("sepfir2d", f"{x.shape} by {rows.shape} and {columns.shape}", "odd filters")
    along = nd.convolve1d(x, rows, 1, None, "reflect")
    return nd.convolve1d(along, columns, 0, None, "reflect")


# --- splines ------------------------------------------------------------------------------------


def _spline(name: str, signal: ArrayLike, lamb: float) -> Value:
    (x,) = in_precision(signal)
    if lamb:
        refused(name, f"lamb={lamb}", "smoothing splines have no traced form.", f"{name}(x)")
    if len(x.shape) != 1:
        raise ShapeError(f"scipy.signal.{name}: a signal of shape {x.shape}.", user_line())
    matrix = np.stack([getattr(plain, name)(row) for row in np.eye(x.shape[0])], axis=1)
    return matrix @ convert(x, np.result_type(x.dtype, np.float64))


@of_signals
def cspline1d(signal: ArrayLike, lamb: float = 0.0) -> Value:
    """The coefficients of the cubic spline through a signal that is mirrored at its ends.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.cspline1d(np.ones(4)).round(2)
        array([1., 1., 1., 1.])
    """
    return _spline("cspline1d", signal, lamb)


@of_signals
def qspline1d(signal: ArrayLike, lamb: float = 0.0) -> Value:
    """The coefficients of the quadratic spline through a signal that is mirrored at its ends.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.qspline1d(np.ones(4)).round(2)
        array([1., 1., 1., 1.])
    """
    return _spline("qspline1d", signal, lamb)


def _evaluated(cj: ArrayLike, newx: ArrayLike, dx: float, x0: float, order: int) -> Value:
    """A spline of coefficients that are mirrored at their ends, at places."""
    c, x = in_precision(cj)[0], in_precision(newx)[0]
    if len(c.shape) != 1:
        raise ShapeError(f"scipy.signal: coefficients of shape {c.shape}.", user_line())
    last = c.shape[0] - 1
    places = np.mod((x - x0) / dx, 2 * last)
    places = np.where(places > last, 2 * last - places, places)
    return nd.map_coordinates(c, places[None], c.dtype, order, "nearest", prefilter=False)


@of_signals
def cspline1d_eval(cj: ArrayLike, newx: ArrayLike, dx: float = 1.0, x0: float = 0) -> Value:
    """The cubic spline of coefficients at places, of knots dx apart from x0 on.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.cspline1d_eval(np.ones(4), np.array([0.5])).round(9)
        array([1.])
    """
    return _evaluated(cj, newx, dx, x0, 3)


@of_signals
def qspline1d_eval(cj: ArrayLike, newx: ArrayLike, dx: float = 1.0, x0: float = 0) -> Value:
    """The quadratic spline of coefficients at places, of knots dx apart from x0 on.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.qspline1d_eval(np.ones(4), np.array([0.5])).round(9)
        array([1.])
    """
    found = _evaluated(cj, newx, dx, x0, 2)
    return convert(found, in_precision(newx)[0].dtype)  # as SciPy
