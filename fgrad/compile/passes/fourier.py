"""L5. Fourier transforms -> transforms that NumPy's loops are fast at.

NumPy takes a length n with a large prime factor p by a convolution of 2 n numbers (Bluestein). With
n = m p, w = exp(-2 pi i / n), it is m transforms of p numbers, then p of m (Cooley and Tukey):

    X[k + p l] = sum_j (w^m)^p^(j l) w^(j k) sum_i (w^m)^(i k) x[m i + j]

and a real one of an even length n = 2 h is a complex one, Z, of z[j] = x[2 j] + i x[2 j + 1]:

    X[k] = E[k] + w^k O[k],    E, i O = (Z[k] +- conj Z[h - k]) / 2
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from fgrad.ir.aval import Aval
from fgrad.ir.program import Program
from fgrad.ops.complex import complex_, conj, imag, real, real_dtype
from fgrad.ops.elementwise import add, lit, mul, sub
from fgrad.ops.fft import fft_p
from fgrad.ops.shape import concatenate, move_axis, permute, reshape, reverse, slice_
from fgrad.trace import Value, bind, trace

LARGE_PRIME = 200  # a factor of this size or more is not one of NumPy's passes over the numbers
SHORT = 500  # numbers that are transformed faster than they are moved
LONG = 1 << 17  # numbers whose factors are no constants of a program


@lru_cache(maxsize=256)
def expanded(x: Aval, kind: str, axes: tuple[int, ...], n: int | None) -> Program | None:
    """Transforms over several axes one after the other, the last first; one of a length with a
    large prime factor in parts."""
    if not axes:
        return None
    if len(axes) > 1:

        def one_by_one(x: Value) -> list[Value]:
            for axis in reversed(axes):
                x = _along(x, kind, axis, n)
            return [x]

        return trace(one_by_one, [x], kind).program
    [axis] = [*axes]
    length = n or x.shape[axis]
    if not x.size or not SHORT <= length <= LONG:
        return None
    prime = _largest_prime(length)
    halved = kind in ("rfft", "irfft") and length % 2 == 0
    if prime < LARGE_PRIME or (prime == length and not halved):
        return None

    def in_parts(x: Value) -> list[Value]:
        last = len(x.shape) - 1
        rows = move_axis(x, axis, last)
        outer = rows.shape[:-1]
        rows = reshape(rows, (math.prod(outer), rows.shape[-1]))
        found = _ROWS[kind](rows, length)
        return [move_axis(reshape(found, (*outer, found.shape[-1])), last, axis)]

    return trace(in_parts, [x], kind).program


def _along(x: Value, kind: str, axis: int, n: int | None = None) -> Value:
    return bind(fft_p, x, kind=kind, axes=(axis,), n=n)


def _largest_prime(n: int) -> int:
    found, p = 1, 2
    while p * p <= n:
        while n % p == 0:
            found, n = p, n // p
        p += 1
    return max(found, n)


def _turns(exponents: np.ndarray, n: int, like: Value) -> np.ndarray:
    """exp(2 pi i exponents / n), in the precision of `like`."""
    angles = 2 * np.pi / n * (exponents % n)
    return (np.cos(angles) + 1j * np.sin(angles)).astype(np.result_type(like.dtype, np.complex64))


def _complex(x: Value, kind: str) -> Value:
    """Each of some rows of complex numbers."""
    rows, n = x.shape
    p = _largest_prime(n)
    m = n // p
    if p < LARGE_PRIME or m == 1:
        return _along(x, kind, 1)
    sign = -1 if kind == "fft" else 1
    factors = _turns(sign * np.multiply.outer(np.arange(m), np.arange(p)), n, x)
    columns = permute(reshape(x, (rows, p, m)), (0, 2, 1))
    inner = mul(_along(columns, kind, 2), np.broadcast_to(factors, (rows, m, p)))
    return reshape(_along(inner, kind, 1), (rows, n))


def _real(x: Value, n: int) -> Value:
    """The first half of the transform of each of some rows of real numbers."""
    if n % 2:
        return _from_start(_complex(complex_(x, np.zeros(x.shape, x.dtype)), "fft"), n // 2 + 1)
    pairs = reshape(x, (x.shape[0], n // 2, 2))
    z = _complex(complex_(_part(pairs, 0), _part(pairs, 1)), "fft")
    z = concatenate([z, _from_start(z, 1)], 1)
    mirrored = conj(reverse(z, (1,)))
    even, odd = mul(add(z, mirrored), lit(z, 0.5)), mul(sub(z, mirrored), lit(z, -0.5j))
    turns = _turns(-np.arange(n // 2 + 1), n, z)
    return add(even, mul(odd, np.broadcast_to(turns, odd.shape)))


def _half(x: Value, n: int) -> Value:
    """The real numbers whose transforms begin with each of some rows."""
    rows, count = x.shape
    inner = slice_(imag(x), (0, 1), (rows, (n + 1) // 2))
    zeros = np.zeros((rows, 1), real_dtype(x.dtype))
    x = complex_(real(x), concatenate([zeros, inner, *([zeros] if n % 2 == 0 else [])], 1))
    if n % 2:
        rest = conj(reverse(slice_(x, (0, 1), (rows, count)), (1,)))
        return real(_complex(concatenate([x, rest], 1), "ifft"))
    mirrored = conj(reverse(x, (1,)))
    turns = np.broadcast_to(0.5j * _turns(np.arange(count), n, x), x.shape).astype(x.dtype)
    z = add(mul(add(x, mirrored), lit(x, 0.5)), mul(sub(x, mirrored), turns))
    pairs = _complex(_from_start(z, n // 2), "ifft")
    columns = [reshape(part, (rows, n // 2, 1)) for part in (real(pairs), imag(pairs))]
    return reshape(concatenate(columns, 2), (rows, n))


def _from_start(x: Value, count: int) -> Value:
    return slice_(x, (0, 0), (x.shape[0], count))


def _part(x: Value, k: int) -> Value:
    rows, n, _ = x.shape
    return reshape(slice_(x, (0, 0, k), (rows, n, k + 1)), (rows, n))


_ROWS = {
    "fft": lambda x, _: _complex(x, "fft"),
    "ifft": lambda x, _: _complex(x, "ifft"),
    "rfft": _real,
    "irfft": _half,
}
