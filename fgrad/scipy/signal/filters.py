"""L7. `scipy.signal`: recursive filters, forward and in both directions.

A filter is one scan over the signal, of its transposed direct form II:

    y = z_0 + b_0 x      z_k <- z_(k+1) + b_(k+1) x - a_(k+1) y

which has derivatives in the signal, in the coefficients and in the initial state.  Coefficients
are divided by a_0 first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import fgrad.numpy as fnp
from fgrad import lax
from fgrad.errors import ShapeError
from fgrad.numpy.arrange import moveaxis
from fgrad.numpy.promote import as_operand, broadcast_to, convert, inexact, promote, user_line
from fgrad.scipy.signal.common import (
    Window,
    chosen,
    extended,
    in_precision,
    lines,
    of_signals,
    plain,
    refused,
    wrong,
)
from fgrad.scipy.signal.convolutions import full_sums
from fgrad.scipy.signal.resampling import resample_poly
from fgrad.trace import Value, concrete
from fgrad.typing import ArrayLike, PyTree


def _coefficients(name: str, b: ArrayLike, a: ArrayLike) -> tuple[Value, Value]:
    """Both polynomials divided by a_0."""
    top, bottom = [np.atleast_1d(inexact(as_operand(v))) for v in (b, a)]
    if len(top.shape) != 1 or len(bottom.shape) != 1 or not top.size or not bottom.size:
        raise ShapeError(
            f"scipy.signal.{name}: b of shape {top.shape} and a of {bottom.shape}.",
            (*user_line(), ("write", "two arrays of one axis, with at least one value")),
        )
    known = concrete(bottom[0])
    if known is not None and np.all(np.asarray(known) == 0):
        raise wrong(name, "a[0] is zero")
    return top / bottom[0], bottom / bottom[0]


def _lengthened(v: Value, n: int) -> Value:
    return np.concatenate([v, fnp.zeros(n - v.shape[0], v.dtype)]) if v.shape[0] < n else v


def _cascade(
    filters: Sequence[tuple[Value, Value]], x: Value, states: Sequence[Value]
) -> tuple[Value, list[Value]]:
    """Recursive filters one after the other along the last axis, in one scan; the coefficients of
    each are as many as the values of its state (..., order), and one more."""

    def step(before: PyTree, value: Value) -> tuple[PyTree, Value]:
        after = []
        for (b, a), z in zip(filters, before, strict=True):
            y = z[0] + b[0] * value
            moved = [*z[1:], 0.0]
            after.append(tuple([m + b[k] * value - a[k] * y for k, m in enumerate(moved, 1)]))
            value = y
        return tuple(after), value

    start = tuple([tuple([z[..., k] for k in range(z.shape[-1])]) for z in states])
    last, y = lax.scan(step, start, moveaxis(x, -1, 0))
    return moveaxis(y, 0, -1), [np.stack(z, axis=-1) for z in last]


def _filtered(b: Value, a: Value, x: Value, z: Value) -> tuple[Value, Value]:
    """A filter along the last axis, and its last state; sums over windows if not recursive."""
    order = z.shape[-1]
    if not order:
        return b[0] * x, z
    if a.shape[0] > 1 or not x.shape[-1]:
        n = order + 1
        y, (last,) = _cascade([(_lengthened(b, n), _lengthened(a, n))], x, [z])
        return y, last
    n = x.shape[-1]
    flat = full_sums(np.reshape(x, (-1, n)), np.reshape(b, (1, -1)))
    full = np.reshape(flat, (*x.shape[:-1], n + order))
    tail = fnp.zeros((*x.shape[:-1], n), x.dtype)
    full = full + np.concatenate([z, tail], axis=-1)
    return full[..., :n], full[..., n:]


def _state(name: str, zi: ArrayLike | None, shape: tuple[int, ...], x: Value, place: int) -> Value:
    """The initial state of a filter, with the axis of its values last."""
    if zi is None:
        return fnp.zeros(shape, x.dtype)
    z = as_operand(zi)
    if len(z.shape) == len(shape):
        z = moveaxis(z, place, -1)
    pairs = list(zip(z.shape, shape, strict=False))
    if len(z.shape) != len(shape) or any([m not in (1, n) for m, n in pairs[:-1]]) or (
        z.shape[-1] != shape[-1]
    ):  # fmt: skip
        raise ShapeError(f"scipy.signal.{name}: zi of shape {z.shape}, not {shape}.", user_line())
    return broadcast_to(convert(z, x.dtype), shape)


@of_signals
def lfilter(
    b: ArrayLike, a: ArrayLike, x: ArrayLike, axis: int = -1, zi: ArrayLike | None = None
) -> PyTree:
    """A signal filtered by the rational transfer function b / a.

    Arguments:
        b, a: the coefficients of numerator and denominator.
        x: the signal.
        axis: along which it is filtered.
        zi: the initial state, max(len(a), len(b)) - 1 values; then the last one is returned too.

    Raises:
        ArgumentError: if a[0] is zero.
        ShapeError: if the shapes do not fit.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.lfilter([1.0], [1.0, -0.5], np.array([1.0, 0.0, 0.0]))
        array([1.  , 0.5 , 0.25])
    """
    values = in_precision(b, a, x) if zi is None else in_precision(b, a, x, zi)
    top, bottom = _coefficients("lfilter", values[0], values[1])
    signal, place = lines(values[2], axis)
    order = max(top.shape[0], bottom.shape[0]) - 1
    state = None if zi is None else values[3]
    shape = (*signal.shape[:-1], order)
    z = _state("lfilter", state, shape, signal, place)
    y, last = _filtered(top, bottom, signal, z)
    return moveaxis(y, -1, place) if zi is None else (
        moveaxis(y, -1, place), moveaxis(last, -1, place)
    )  # fmt: skip


@of_signals
def lfilter_zi(b: ArrayLike, a: ArrayLike) -> Value:
    """The state of a filter in which a constant signal of ones stays constant.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.lfilter_zi(np.array([1.0, 0.0]), np.array([1.0, -0.5]))
        array([1.])
    """
    top, bottom = _coefficients("lfilter_zi", *in_precision(b, a))
    n = max(top.shape[0], bottom.shape[0])
    top, bottom = _lengthened(top, n), _lengthened(bottom, n)
    gains = top[1:] - bottom[1:] * top[0]
    first = np.sum(gains) / np.sum(bottom)
    sums = np.concatenate([fnp.zeros(1, gains.dtype), np.cumsum(gains)[:-1]]) if n > 1 else gains
    return np.cumsum(bottom)[:-1] * first - sums


def _edge(name: str, padlen: int | None, usual: int, padtype: str | None, n: int) -> int:
    """How far a signal of n values is continued."""
    edge = 0 if padtype is None else usual if padlen is None else int(padlen)
    if edge < 0 or (n <= edge and padtype is not None):
        raise wrong(name, f"{n} values, continued by padlen={edge}", f"padlen={max(n - 1, 0)}")
    return edge


@of_signals
def filtfilt(
    b: ArrayLike,
    a: ArrayLike,
    x: ArrayLike,
    axis: int = -1,
    padtype: str | None = "odd",
    padlen: int | None = None,
    method: str = "pad",
    irlen: int | None = None,
) -> Value:
    """A signal filtered forward and backward, which leaves its phase.

    Arguments:
        b, a, x, axis: as in `lfilter`.
        padtype: "odd", "even", "constant" or None: how the signal goes on at its ends.
        padlen: how far; three times the length of the filter if None.
        method, irlen: "pad"; "gust" has no traced form.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.filtfilt([0.5, 0.5], [1.0], np.arange(8.0), padlen=2)
        array([0., 1., 2., 3., 4., 5., 6., 7.])
    """
    chosen("filtfilt", "method", method, ("pad", "gust"))
    if method == "gust" or irlen is not None:
        refused("filtfilt", 'method="gust"', "it has no traced form.", 'method="pad"')
    top, bottom, x = in_precision(b, a, x)
    top, bottom = _coefficients("filtfilt", top, bottom)
    signal, place = lines(x, axis)
    usual = 3 * max(top.shape[0], bottom.shape[0])
    edge = _edge("filtfilt", padlen, usual, padtype, signal.shape[-1])
    wide = extended("filtfilt", signal, edge, padtype)
    zi = convert(lfilter_zi(top, bottom), wide.dtype)
    for _ in range(2):
        wide = _filtered(top, bottom, wide, wide[..., :1] * zi)[0][..., ::-1]
    return moveaxis(wide[..., edge : wide.shape[-1] - edge], -1, place)


def sections(name: str, sos: ArrayLike) -> Value:
    """Second-order sections, (n, 6), whose a_0 are one."""
    found = np.atleast_2d(as_operand(sos))
    if len(found.shape) != 2 or found.shape[1] != 6:
        raise ShapeError(f"scipy.signal.{name}: sos of shape {found.shape}.", user_line())
    known = concrete(found[:, 3])
    if known is not None and not np.all(np.asarray(known) == 1):
        raise wrong(name, "sos[:, 3] are not one", "sos / sos[:, 3:4]")
    return found


def _in_sections(sos: Value, x: Value, z: Value) -> tuple[Value, Value]:
    """Sections along the last axis, and their last states, (n, ..., 2)."""
    count = range(sos.shape[0])
    y, last = _cascade([(sos[k, :3], sos[k, 3:]) for k in count], x, [z[k] for k in count])
    return y, np.stack(last)


@of_signals
def sosfilt(sos: ArrayLike, x: ArrayLike, axis: int = -1, zi: ArrayLike | None = None) -> PyTree:
    """A signal filtered by second-order sections, (n, 6), one after the other.

    Arguments:
        sos: b and a of each section.
        x, axis: the signal, and along which axis it is filtered.
        zi: the initial state (n, ..., 2, ...); then the last one is returned too.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.sosfilt([[1.0, 0, 0, 1, -0.5, 0]], np.array([1.0, 0.0, 0.0]))
        array([1.  , 0.5 , 0.25])
    """
    given = in_precision(sos, x) if zi is None else in_precision(sos, x, zi)
    table = sections("sosfilt", given[0])
    signal, place = lines(given[1], axis)
    shape = (table.shape[0], *signal.shape[:-1], 2)
    z = _state("sosfilt", None if zi is None else given[2], shape, signal, place + 1)
    y, last = _in_sections(table, signal, z)
    y = moveaxis(y, -1, place)
    return y if zi is None else (y, moveaxis(last, -1, place + 1))


@of_signals
def sosfilt_zi(sos: ArrayLike) -> Value:
    """The states of sections, (n, 2), in which a constant signal of ones stays constant.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.sosfilt_zi(np.array([[1.0, 0, 0, 1, -0.5, 0]]))
        array([[1., 0.]])
    """
    table = sections("sosfilt_zi", in_precision(sos)[0])
    scale, found = fnp.ones((), table.dtype)[()], []
    for k in range(table.shape[0]):
        b, a = table[k, :3], table[k, 3:]
        found.append(scale * lfilter_zi(b, a))
        scale = scale * (np.sum(b) / np.sum(a))
    return np.stack(found)


@of_signals
def sosfiltfilt(
    sos: ArrayLike,
    x: ArrayLike,
    axis: int = -1,
    padtype: str | None = "odd",
    padlen: int | None = None,
) -> Value:
    """A signal filtered by sections forward and backward; arguments are those of `filtfilt`.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.sosfiltfilt([[0.5, 0.5, 0, 1, 0, 0]], np.arange(8.0), padlen=2)
        array([0., 1., 2., 3., 4., 5., 6., 7.])
    """
    table, x = in_precision(sos, x)
    table = sections("sosfiltfilt", table)
    known = concrete(table)
    if known is None and padlen is None and padtype is not None:
        why = "the usual length depends on which coefficients are zero."
        refused("sosfiltfilt", "traced sos and no padlen", why, "padlen=3 * (2 * len(sos) + 1)")
    zeros = 0 if known is None else min([int(np.sum(np.asarray(known)[:, k] == 0)) for k in (2, 5)])
    signal, place = lines(x, axis)
    usual = 3 * (2 * table.shape[0] + 1 - zeros)
    edge = _edge("sosfiltfilt", padlen, usual, padtype, signal.shape[-1])
    wide = extended("sosfiltfilt", signal, edge, padtype)
    zi = sosfilt_zi(table)
    zi = np.reshape(zi, (zi.shape[0], *[1] * (len(wide.shape) - 1), 2))
    for _ in range(2):
        wide = _in_sections(table, wide, zi * wide[..., :1])[0][..., ::-1]
    return moveaxis(wide[..., edge : wide.shape[-1] - edge], -1, place)


@of_signals
def decimate(
    x: ArrayLike,
    q: int,
    n: int | None = None,
    ftype: str = "iir",
    axis: int = -1,
    zero_phase: bool = True,
) -> Value:
    """Every q-th value of a signal, after a filter against aliasing.

    Arguments:
        x, axis: the signal, and the axis of its values.
        q: the factor.
        n: the order of the filter; 8 for "iir" and 20 q for "fir" if None.
        ftype: "iir", Chebyshev's filter, or "fir" with Hamming's window.
        zero_phase: whether the signal is filtered in both directions.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.decimate(np.ones(60), 4).round(3).shape
        (15,)
    """
    if ftype not in ("iir", "fir"):
        refused("decimate", f"ftype={ftype!r}", "it has no traced form.", 'ftype="iir"')
    (x,) = in_precision(x)
    if ftype == "fir":
        taps: Window = plain.firwin(20 * q + 1 if n is None else n + 1, 1.0 / q, window="hamming")
        if zero_phase:
            return resample_poly(x, 1, q, axis, convert(as_operand(taps), x.dtype))
        y = lfilter(convert(as_operand(taps), x.dtype), np.ones(1, x.dtype), x, axis)
    else:
        design = plain.cheby1(8 if n is None else n, 0.05, 0.8 / q, output="sos")
        sos = np.asarray(design).astype(np.result_type(x.dtype, np.float32))
        y = sosfiltfilt(sos, x, axis) if zero_phase else sosfilt(sos, x, axis)
    signal, place = lines(y, axis)
    return moveaxis(signal[..., ::q], -1, place)


@of_signals
def deconvolve(signal: ArrayLike, divisor: ArrayLike) -> tuple[Value, Value]:
    """Quotient and remainder of a signal by another one, as of polynomials.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.deconvolve(np.array([1.0, 3.0, 2.0]), np.array([1.0, 1.0]))
        (array([1., 2.]), array([0., 0., 0.]))
    """
    num, den = in_precision(signal, divisor)
    if len(num.shape) > 1 or len(den.shape) > 1:
        raise ShapeError(
            f"scipy.signal.deconvolve: arrays of shapes {num.shape} and {den.shape}.", user_line()
        )
    num, den = np.atleast_1d(num), np.atleast_1d(den)
    n, m = num.shape[0], den.shape[0]
    if m > n:
        return fnp.zeros(0, num.dtype), num
    impulse = np.zeros(n - m + 1)  # in double precision, as in SciPy
    impulse[0] = 1
    quotient = lfilter(num, den, impulse)
    return quotient, num - full_sums(*promote([den, quotient]))
