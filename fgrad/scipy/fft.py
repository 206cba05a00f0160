"""L7. `scipy.fft` with derivatives: cosine and sine transforms, and the Fourier transforms.

    import fgrad.scipy.fft as sf
    fgrad.grad(lambda x: np.sum(sf.dct(x, norm="ortho") ** 4))(np.arange(4.0))

A cosine or sine transform is a Fourier transform of the (anti)symmetric sequence, or of the
sequence in another order:

    type 1    x_0 .. x_(n-1) x_(n-2) .. x_1          cos(pi j k / (n - 1))
    type 2    x_0 x_2 .. x_3 x_1                     cos(pi (2 j + 1) k / (2 n))
    type 3    the transpose of type 2                type 4    cos(pi (2 j + 1) (2 k + 1) / (4 n))

On plain arrays the functions are SciPy's own, which ignore `orthogonalize` where they are complex,
and so do those of traced ones.  `workers`, `overwrite_x` and `plan` mean nothing for
traced ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from fgrad.base.lazy_import import lazy_module, names_shown
from fgrad.errors import ArgumentError, ShapeError
from fgrad.numpy.arrange import moveaxis
from fgrad.numpy.dispatch import has_tracer
from fgrad.numpy.promote import as_operand, convert, inexact, normalize_axis, user_line
from fgrad.ops.complex import complex_
from fgrad.scipy._either import either, others, refusal
from fgrad.trace import Value
from fgrad.typing import ArrayLike

plain = lazy_module("scipy.fft")

__getattr__ = others(__name__, plain)

_NORMS = (None, "backward", "ortho", "forward")
_BACK = {1: 1, 2: 3, 3: 2, 4: 4}  # the type of the inverse


def _floats(x: ArrayLike) -> Value:
    """An operand in single or double precision, real or complex."""
    x = inexact(as_operand(x))
    return convert(x, np.dtype(np.float32)) if x.dtype == np.float16 else x


def _fitted(x: Value, n: int | None, name: str) -> Value:
    """The last axis cut or filled with zeros to a length."""
    length = x.shape[-1] if n is None else n
    if length < 1:
        raise ShapeError(f"scipy.fft.{name}: {length} points.", user_line())
    missing = length - x.shape[-1]
    if missing <= 0:
        return x[..., :length]
    return np.pad(x, [(0, 0)] * (len(x.shape) - 1) + [(0, missing)])


def _turns(angles: np.ndarray, like: Value) -> np.ndarray:
    """exp(i angles) in the precision of an array."""
    return np.exp(1j * angles).astype(np.result_type(like.dtype, np.complex64))


def _woven(even: Value, odd: Value) -> Value:
    """e0 o0 e1 o1 ..., of as many or one more even ones."""
    n = even.shape[-1] + odd.shape[-1]
    if odd.shape[-1] < even.shape[-1]:
        odd = np.concatenate([odd, even[..., -1:]], axis=-1)
    both = np.stack([even, odd], axis=-1)
    return np.reshape(both, (*even.shape[:-1], 2 * even.shape[-1]))[..., :n]


def _cosines(x: Value, kind: int) -> Value:
    """The transform of real numbers in the last axis, without any factor: by a Fourier transform of
    n numbers (Makhoul, 1980), of half as many complex ones for type 4, of 2 n - 2 for type 1."""
    n = x.shape[-1]
    if kind == 1:
        return np.fft.irfft(x, 2 * n - 2)[..., :n] * x.dtype.type(2 * n - 2)
    quarter = np.pi / (2 * n)
    if kind == 2:
        order = np.concatenate([x[..., ::2], x[..., 1::2][..., ::-1]], axis=-1)
        found = np.fft.rfft(order) * (2 * _turns(np.arange(n // 2 + 1) * -quarter, x))
        last = -np.imag(found)[..., 1 : (n + 1) // 2][..., ::-1]
        return np.concatenate([np.real(found), last], axis=-1)
    if kind == 3:
        half = n // 2 + 1
        back = np.concatenate([x[..., :1] * 0, x[..., :0:-1][..., : half - 1]], axis=-1)
        turned = complex_(x[..., :half], -back[..., :half]) * _turns(np.arange(half) * quarter, x)
        found = np.fft.irfft(turned, n) * x.dtype.type(n)
        return _woven(found[..., : (n + 1) // 2], found[..., (n + 1) // 2 :][..., ::-1])
    if n % 2:
        wide = np.fft.fft(x * _turns(np.arange(n) * -quarter, x), 2 * n)[..., :n]
        return (wide * (2 * _turns((2 * np.arange(n) + 1) * (-quarter / 2), x))).real
    k = np.arange(n // 2)
    pairs = complex_(x[..., ::2], x[..., ::-1][..., ::2]) * _turns((4 * k + 1) * (-quarter / 2), x)
    found = np.fft.fft(pairs) * (2 * _turns(k * (-2 * quarter), x))
    return _woven(np.real(found), -np.imag(found)[..., ::-1])


def _sines(x: Value, kind: int) -> Value:
    """The same with sines: a transform with cosines of a sequence with other signs or order."""
    n = x.shape[-1]
    if kind == 1:
        wide = np.pad(x, [*[(0, 0)] * (len(x.shape) - 1), (1, 1)])
        found = np.fft.irfft(complex_(wide * 0, -wide), 2 * n + 2)[..., 1 : n + 1]
        return found * x.dtype.type(2 * n + 2)
    signs = np.where(np.arange(n) % 2, -1, 1).astype(x.dtype)
    if kind == 2:
        return _cosines(x * signs, 2)[..., ::-1]
    return _cosines(x[..., ::-1], kind) * signs


def _ends(kind: int, sine: bool, n: int, before: bool) -> np.ndarray:
    """The factors that make a transform orthogonal: of its input, or of its output."""
    factors = np.ones(n)
    if kind == 1 and not sine:
        factors[[0, -1]] = math.sqrt(2) if before else math.sqrt(0.5)
    elif kind == (3 if before else 2):
        factors[-1 if sine else 0] = math.sqrt(2) if before else math.sqrt(0.5)
    return factors


def _along(
    x: Value, sine: bool, kind: int, inverse: bool, norm: str | None, orthogonalize: bool
) -> Value:
    """A transform of the last axis."""
    if x.dtype.kind == "c":
        ends = norm == "ortho"
        re, im = [_along(p, sine, kind, inverse, norm, ends) for p in (np.real(x), np.imag(x))]
        return complex_(re, im)
    n = x.shape[-1]
    if kind == 1 and not sine and n < 2:
        raise ShapeError("scipy.fft: the transform of type 1 takes two points or more.")
    kind = _BACK[kind] if inverse else kind
    period = 2 * (n + (0 if kind != 1 else 1 if sine else -1))
    scale = 1.0
    if norm == "ortho":
        scale = math.sqrt(1 / period)
    elif (norm == "forward") != inverse:
        scale = 1 / period
    before, after = [_ends(kind, sine, n, b) if orthogonalize else 1.0 for b in (True, False)]
    wide = x * np.asarray(before, x.dtype)
    return (_sines if sine else _cosines)(wide, kind) * np.asarray(scale * after, x.dtype)


def _checked(name: str, kind: int, norm: str | None) -> None:
    if kind not in _BACK:
        raise ArgumentError(f"scipy.fft.{name}: type={kind!r}.", (("write", "1, 2, 3 or 4"),))
    if norm not in _NORMS:
        rows = (("write", " or ".join(map(repr, _NORMS))),)
        raise ArgumentError(f"scipy.fft.{name}: norm={norm!r}.", rows)


def _one(name: str, sine: bool, inverse: bool) -> Callable[..., Value]:
    """A transform of one axis, with SciPy's signature."""

    def public(
        x: ArrayLike,
        type: int = 2,
        n: int | None = None,
        axis: int = -1,
        norm: str | None = None,
        overwrite_x: bool = False,
        workers: int | None = None,
        orthogonalize: bool | None = None,
    ) -> Value:
        _checked(name, type, norm)
        values = _floats(x)
        place = normalize_axis(axis, len(values.shape))
        moved = _fitted(moveaxis(values, place, -1), n, name)
        ends = norm == "ortho" if orthogonalize is None else orthogonalize
        return moveaxis(_along(moved, sine, type, inverse, norm, ends), -1, place)

    return _published(public, name)


def _axes(
    shape: tuple[int, ...], s: Sequence[int] | None, axes: Sequence[int] | int | None, name: str
) -> tuple[list[int], list[int | None]]:
    """The axes of a transform of many axes, and the lengths there."""
    rank = len(shape)
    sizes: list[int] | None = None if s is None else [s] if isinstance(s, int) else list(s)
    if axes is None:
        places = list(range(rank)) if sizes is None else list(range(rank - len(sizes), rank))
    else:
        places = [axes] if isinstance(axes, (int, np.integer)) else list(axes)
        places = [normalize_axis(a, rank) for a in places]
    if len({*places}) != len(places) or any([a < 0 for a in places]):
        raise ShapeError(f"scipy.fft.{name}: axes={axes} of an array of shape {shape}.")
    if not places and name not in ("fftn", "ifftn", "fft2", "ifft2"):
        raise ShapeError(f"scipy.fft.{name}: no axis is transformed.", user_line())
    given: list[int] = [-1] * len(places) if sizes is None else sizes
    lengths = [None if k == -1 else k for k in given]
    if len(lengths) != len(places):
        raise ShapeError(f"scipy.fft.{name}: s={s} for axes={axes}.")
    return places, lengths


def _many(name: str, one: str) -> Callable[..., Value]:
    """A transform of several axes, with SciPy's signature."""

    def public(
        x: ArrayLike,
        type: int = 2,
        s: Sequence[int] | None = None,
        axes: Sequence[int] | None = None,
        norm: str | None = None,
        overwrite_x: bool = False,
        workers: int | None = None,
        *,
        orthogonalize: bool | None = None,
    ) -> Value:
        values = _floats(x)
        for axis, n in zip(*_axes(values.shape, s, axes, name), strict=True):
            values = globals()[one](values, type, n, axis, norm, orthogonalize=orthogonalize)
        return values

    return _published(public, name)


def _without(name: str, plan: object) -> None:
    """Raise for a plan, which SciPy does not take either."""
    if plan is not None:
        raise refusal(f"scipy.fft.{name} with plan", "it has none.", f"{name}(x)")


def _fourier(name: str) -> Callable[..., Value]:
    """A transform that `numpy.fft` has too, of one axis or of several."""
    transform = getattr(np.fft, name)

    def one(
        x: ArrayLike,
        n: int | None = None,
        axis: int = -1,
        norm: str | None = None,
        overwrite_x: bool = False,
        workers: int | None = None,
        *,
        plan: None = None,
    ) -> Value:
        _without(name, plan)
        return transform(_floats(x), n, axis, norm)

    def several(
        x: ArrayLike,
        s: Sequence[int] | None = None,
        axes: Sequence[int] | None = (-2, -1) if name.endswith("2") else None,
        norm: str | None = None,
        overwrite_x: bool = False,
        workers: int | None = None,
        *,
        plan: None = None,
    ) -> Value:
        _without(name, plan)
        values = _floats(x)
        places, lengths = _axes(values.shape, s, axes, name)
        return transform(values, None if s is None else lengths, places, norm)

    return _published(one if name.endswith("fft") else several, name)


_SWAPPED = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}


def _hermitian(name: str) -> Callable[..., Value]:
    """A transform of several axes whose signal, or whose spectrum if inverse, is real."""
    inverse = name.startswith("i")
    transform = getattr(np.fft, "rfftn" if inverse else "irfftn")

    def public(
        x: ArrayLike,
        s: Sequence[int] | None = None,
        axes: Sequence[int] | None = (-2, -1) if name.endswith("2") else None,
        norm: str | None = None,
        overwrite_x: bool = False,
        workers: int | None = None,
        *,
        plan: None = None,
    ) -> Value:
        _checked(name, 1, norm)
        _without(name, plan)
        values = _floats(x)
        if inverse and values.dtype.kind == "c":
            raise TypeError("x must be a real sequence")
        places, lengths = _axes(values.shape, s, axes, name)
        found = values if inverse else np.conj(values)
        found = transform(found, None if s is None else lengths, places, _SWAPPED[norm])
        return np.conj(found) if inverse else found

    return _published(public, name)


# --- Hankel's transform -------------------------------------------------------------------------


def _logarithmic(name: str, a: ArrayLike, settings: tuple[float, float, float, float]) -> Value:
    """Fourier's transform, times SciPy's factors of Hankel's, and back, in reverse order."""
    if has_tracer(settings):
        what = f"scipy.fft.{name} with traced dln, mu, offset or bias"
        raise refusal(what, "they decide the factors.", "plain numbers")
    x = inexact(as_operand(a))
    if not x.shape or x.dtype.kind == "c":
        raise ArgumentError(f"scipy.fft.{name}: {x.dtype} values of shape {x.shape}.", user_line())
    dln, mu, offset, bias = settings
    n = x.shape[-1]
    wide = convert(x, np.dtype(np.float64))
    inverse = name == "ifht"
    places = np.arange(n) - (n - 1) / 2
    near, far = np.exp(-bias * places * dln), np.exp(-bias * (places * dln + offset))
    before, after = (1 / far, 1 / near) if inverse else (near, far)
    first = np.eye(1, n)[0] / before  # whose transform, without a bias, is that of a unit impulse
    factors = np.fft.rfft((getattr(plain, name)(first, dln, mu, offset, bias) / after)[::-1])
    found = np.fft.irfft(np.fft.rfft(wide * before) * factors, n)[..., ::-1] * after
    return convert(found, np.result_type(x.dtype, np.float64 if bias else np.float32))


def _fht(a: ArrayLike, dln: float, mu: float, offset: float = 0.0, bias: float = 0.0) -> Value:
    """The discrete transform of Hankel of values at places whose logarithms are dln apart.

    Example:
        >>> fht(np.zeros(2), 0.1, 0.0)
        array([0., 0.])
    """
    return _logarithmic("fht", a, (dln, mu, offset, bias))


def _ifht(A: ArrayLike, dln: float, mu: float, offset: float = 0.0, bias: float = 0.0) -> Value:
    """The inverse of `fht`.

    Example:
        >>> ifht(np.zeros(2), 0.1, 0.0)
        array([0., 0.])
    """
    return _logarithmic("ifht", A, (dln, mu, offset, bias))


def _shifted(name: str) -> Callable[..., Value]:
    """The middle of axes exchanged with their ends."""
    shift = getattr(np.fft, name)

    def public(x: ArrayLike, axes: int | Sequence[int] | None = None) -> Value:
        return shift(as_operand(x), axes)

    return _published(public, name)


def _published(traced: Callable[..., Value], name: str) -> Callable[..., Value]:
    traced.__name__ = traced.__qualname__ = name
    traced.__doc__ = f"`scipy.fft.{name}`; with derivatives for traced arrays."
    return either(plain, traced, name)


dct, idct = _one("dct", sine=False, inverse=False), _one("idct", sine=False, inverse=True)
dst, idst = _one("dst", sine=True, inverse=False), _one("idst", sine=True, inverse=True)
dctn, idctn = _many("dctn", "dct"), _many("idctn", "idct")
dstn, idstn = _many("dstn", "dst"), _many("idstn", "idst")
fft, ifft, rfft, irfft = [_fourier(n) for n in ("fft", "ifft", "rfft", "irfft")]
hfft, ihfft = _fourier("hfft"), _fourier("ihfft")
fft2, ifft2, rfft2, irfft2 = [_fourier(n) for n in ("fft2", "ifft2", "rfft2", "irfft2")]
hfft2, ihfft2, hfftn, ihfftn = [_hermitian(n) for n in ("hfft2", "ihfft2", "hfftn", "ihfftn")]
fftshift, ifftshift = _shifted("fftshift"), _shifted("ifftshift")
fht, ifht = either(plain, _fht, "fht"), either(plain, _ifht, "ifht")
fftn, ifftn, rfftn, irfftn = [_fourier(n) for n in ("fftn", "ifftn", "rfftn", "irfftn")]


__dir__ = names_shown(__name__)
