"""L3. `fft`: discrete Fourier transforms over axes, by SciPy's pocketfft.

    fft, ifft     complex -> complex, over several axes      y_k = sum_j x_j e^(-2 pi i jk / n)
    rfft          real -> half of the complex spectrum       one axis of n numbers -> n // 2 + 1
    irfft         half a spectrum -> real                    one axis of n // 2 + 1 -> n numbers

The matrices of fft and ifft are symmetric, so each is its own transpose.  With c for the cotangent
and h = (1, 1/2, ..., 1/2, 1), whose last 1 is there for even n:

    transpose of rfft:  c -> irfft(n h conj c)        of irfft:  c -> conj(rfft(c)) / (n h)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.errors import DtypeError, ShapeError
from fgrad.ir import traits
from fgrad.ir.aval import Aval
from fgrad.ir.primitive import Primitive
from fgrad.ops.complex import COMPLEX_OF, REAL_OF, complex_dtype, conj
from fgrad.ops.elementwise import lit, mul
from fgrad.ops.families import linear
from fgrad.ops.shape import broadcast
from fgrad.trace import Value
from fgrad.tracing.fastpath import bind_one

scipy_fft = lazy_module("scipy.fft")

Ints = tuple[int, ...]

fft_p = Primitive(
    "fft",
    traits.whole(algorithm=traits.Algorithm.FOURIER),
    params=("kind", "axes", "n"),
    linear_in="all",
)


@fft_p.type_rule
def _(x: Aval, *, kind: str, axes: Ints, n: int | None) -> Aval:
    if any(not 0 <= a < x.ndim for a in axes) or len(set(axes)) != len(axes):
        raise ShapeError(f"fft: axes {axes} are not those of shape {x.shape}.")
    if x.dtype not in (COMPLEX_OF if kind == "rfft" else REAL_OF):
        raise DtypeError(f"{kind} does not take {x.dtype} operands.")
    if kind in ("fft", "ifft"):
        return x.strong()
    (axis,) = axes
    assert n is not None
    shape = list(x.shape)
    if shape[axis] != (n if kind == "rfft" else n // 2 + 1) or n < 1:
        raise ShapeError(f"{kind}: axis {axis} of shape {x.shape} does not fit n={n}.")
    shape[axis] = n // 2 + 1 if kind == "rfft" else n
    dtype = complex_dtype(x.dtype) if kind == "rfft" else REAL_OF[x.dtype]
    return Aval(tuple(shape), dtype)


@fft_p.evaluate
def _(x: Value, *, kind: str, axes: Ints, n: int | None) -> np.ndarray:
    if kind == "rfft":
        return scipy_fft.rfft(x, n, axes[0])
    if kind == "irfft":
        return scipy_fft.irfft(x, n, axes[0])
    if len(axes) == 1:
        one = scipy_fft.fft if kind == "fft" else scipy_fft.ifft
        return one(x, axis=axes[0])
    return (scipy_fft.fftn if kind == "fft" else scipy_fft.ifftn)(x, axes=axes)


linear(fft_p)


def half_weights(n: int) -> np.ndarray:
    """1 for the numbers of half a spectrum that have no conjugate partner, else 1/2."""
    weights = np.full(n // 2 + 1, 0.5)
    weights[0] = 1
    if n % 2 == 0:
        weights[-1] = 1
    return weights


def _weighted(x: Value, axis: int, weights: np.ndarray) -> Value:
    weights = weights.astype(x.dtype)
    return mul(x, broadcast(weights, tuple(x.shape), (axis,)))


@fft_p.transpose
def _(
    ct: Value, wanted: Sequence[bool], x: Value, *, kind: str, axes: Ints, n: int | None
) -> tuple[Value]:
    if kind in ("fft", "ifft"):
        return (bind_one(fft_p, ct, {"kind": kind, "axes": axes, "n": n}),)
    (axis,) = axes
    assert n is not None
    if kind == "rfft":
        return (irfft(_weighted(conj(ct), axis, n * half_weights(n)), n, axis),)
    return (_weighted(conj(rfft(ct, axis)), axis, 1 / (n * half_weights(n))),)


@fft_p.batch
def _(
    size: int,
    operands: Sequence[Value],
    dims: Sequence[int],
    *,
    kind: str,
    axes: Ints,
    n: int | None,
) -> tuple[Value, int]:
    (x,), (d,) = operands, dims
    return bind_one(fft_p, x, {"kind": kind, "axes": tuple(a + (a >= d) for a in axes), "n": n}), d


def fft(x: Value, axes: Ints) -> Value:
    """The transform of complex numbers over some axes."""
    return bind_one(fft_p, x, {"kind": "fft", "axes": axes, "n": None}) if axes else x


def ifft(x: Value, axes: Ints) -> Value:
    """The inverse transform of complex numbers over some axes."""
    return bind_one(fft_p, x, {"kind": "ifft", "axes": axes, "n": None}) if axes else x


def rfft(x: Value, axis: int) -> Value:
    """The first n // 2 + 1 numbers of the transform of n real ones."""
    return bind_one(fft_p, x, {"kind": "rfft", "axes": (axis,), "n": x.shape[axis]})


def irfft(x: Value, n: int, axis: int) -> Value:
    """The n real numbers whose transform begins with `x`."""
    return bind_one(fft_p, x, {"kind": "irfft", "axes": (axis,), "n": n})


def scale(x: Value, factor: float) -> Value:
    """`x` times a number; `x` itself for 1."""
    return x if factor == 1 else mul(x, lit(x, factor))
