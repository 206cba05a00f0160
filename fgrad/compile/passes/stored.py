"""L5. Numbers of one byte and less as words of 8 bits, read and written by tables.

    y = convert[f32] x       ->  table[x]                   256 numbers
    z = convert[f8e4m3fn] y  ->  table[upper half of y]     65,536 words

The tables are what ml_dtypes gives.  A float32 is cut to its upper 16 bits, the last of which is
set where bits are lost, so that the shorter number rounds as the whole one does: it has seven bits
of fraction, and no such format more than four.
"""

from __future__ import annotations

import functools

import numpy as np

from fgrad.ir.aval import FLOAT32, INT64, STORED_INTEGERS, UINT32
from fgrad.ops import elementwise as ew
from fgrad.ops.index import gather
from fgrad.trace import Value

WIDE = FLOAT32  # what the numbers are read as
_UINT8 = np.dtype(np.uint8)
_HALF = 16


@functools.cache
def _numbers(dtype: np.dtype) -> np.ndarray:
    """The numbers of all words."""
    return np.arange(256, dtype=np.uint8).view(dtype).astype(WIDE)


@functools.cache
def _words_of_halves(dtype: np.dtype) -> np.ndarray:
    """The words of the upper halves of all float32."""
    with np.errstate(all="ignore"):
        numbers = (np.arange(1 << _HALF, dtype=np.uint32) << _HALF).view(np.float32)
        return numbers.astype(dtype).view(np.uint8)


@functools.cache
def _words_of_integers(dtype: np.dtype) -> np.ndarray:
    """The words of the last bytes of integers."""
    return np.arange(256, dtype=np.uint8).astype(dtype).view(np.uint8)


def number(word: Value, dtype: np.dtype) -> Value:
    """The numbers that words of a dtype stand for."""
    return gather(_numbers(dtype), [ew.convert(word, INT64)], (0,))


def word(x: Value, dtype: np.dtype) -> Value:
    """The words of numbers in a dtype, which are the nearest; integers wrap around."""
    if dtype.name in STORED_INTEGERS:
        last = ew.and_(ew.convert(x, INT64), np.int64(255))
        return gather(_words_of_integers(dtype), [last], (0,))
    bits = ew.bitcast(ew.convert(x, FLOAT32), UINT32)
    upper = ew.shift_right(bits, ew.lit(bits, _HALF))
    lower = ew.and_(bits, ew.lit(bits, 0xFFFF))
    lost = ew.convert(ew.ne(lower, ew.lit(bits, 0)), UINT32)
    place = ew.convert(ew.or_(upper, lost), INT64)
    return gather(_words_of_halves(dtype), [place], (0,))
