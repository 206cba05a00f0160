"""L0. Functions of numbers that may be sizes as symbols (`fgrad/base/sizes.py`), which fix none.

Of plain numbers they are what Python's functions are.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Sequence

import numpy as np

from fgrad.base.sizes import Num, Size, is_symbolic, value_of


def truncated(x: Size) -> Size:
    """`int(x)` of a number that may be a Num."""
    if type(x) is not Num:
        return int(x)
    return x if x.is_integer else x.sizes.atom("int", (x,), int(x.value), -math.inf)


def integer(x: Size) -> Size:
    """`operator.index(x)` of a number that may be a Num."""
    return x if type(x) is Num and x.is_integer else operator.index(x)


def rounded(x: Size, dtype: np.dtype) -> Size:
    """A number as one of a dtype, as Python's."""
    if type(x) is not Num:
        return np.asarray(x).astype(dtype).item()
    value = np.asarray(x.value).astype(dtype).item()
    if dtype.kind in "iu":
        return x if x.is_integer and dtype.itemsize == 8 else x.__index__()
    atom = x.sizes.atoms[x.terms[0][0][0]] if x.terms[0][0] else None
    if atom is not None and len(x.terms) == 1 and atom.op == "float" and atom.args[1] == dtype.char:
        return x
    return x.sizes.atom("float", (x, dtype.char), value, -math.inf)


def least(*xs: Size) -> Size:
    """`min(xs)`, of which no guard is noted."""
    return _extreme("min", xs)


def most(*xs: Size) -> Size:
    """`max(xs)`, of which no guard is noted."""
    return _extreme("max", xs)


def _extreme(op: str, xs: tuple[Size, ...]) -> Size:
    function = min if op == "min" else max
    symbol = next((x for x in xs if type(x) is Num), None)
    if symbol is None:
        return function(xs)
    sizes = symbol.sizes
    xs = tuple({id(x) if type(x) is Num else x: x for x in xs}.values())
    lows = [sizes.low(x.terms) if type(x) is Num else x for x in xs]
    plain = [x for x in xs if type(x) is not Num]
    if plain:
        limit = function(plain)
        bounds = lows if op == "max" else [_high(x) for x in xs]
        beyond = [type(x) is Num and _beyond(op, b, limit) for x, b in zip(xs, bounds, strict=True)]
        if any(beyond):  # the number is never the answer
            xs = tuple([x for x in xs if type(x) is Num])
    if len(xs) == 1:
        return xs[0]
    value = function([value_of(x) for x in xs])
    if op == "max":
        return sizes.atom(op, xs, value, max(lows))
    return sizes.atom(op, xs, value, min(lows))


def _high(x: Size) -> float:
    return x.sizes.high(x.terms) if type(x) is Num else x


def _beyond(op: str, bound: float, limit: float) -> bool:
    return bound >= limit if op == "max" else bound <= limit


def chosen(a: Size, b: Size, x: Size, y: Size) -> Size:
    """`x if a < b else y` of integers x and y, of which no guard is noted."""
    symbol = next((z for z in (a, b) if type(z) is Num), None)
    if symbol is None:
        return x if a < b else y
    sizes = symbol.sizes
    value = value_of(x if value_of(a) < value_of(b) else y)
    lows = [sizes.low(z.terms) if type(z) is Num else z for z in (x, y)]
    return sizes.atom("chosen", (a, b, x, y), value, min(lows))


def ones(x: Size) -> Size:
    """How many bits of a positive integer are set."""
    if type(x) is not Num:
        return x.bit_count()
    return x.sizes.atom("ones", (x,), int(x.value).bit_count(), 1)


def is_power_of_two(x: Size) -> bool:
    """Whether a positive integer is a power of two."""
    return ones(x) == 1


def bits(x: Size) -> Size:
    """The 64 bits of a float as an integer."""
    if type(x) is not Num:
        return struct.unpack("<q", struct.pack("<d", x))[0]
    return x.sizes.atom("bits", (x,), bits(x.value), -math.inf)


def slice_of(part: slice, length: Size) -> tuple[Size, Size, Size]:
    """`part.indices(length)` where one of the numbers may be a Num."""
    if not is_symbolic((length, part.start, part.stop, part.step)):
        return part.indices(length)
    step = 1 if part.step is None else operator.index(part.step)
    if step == 0:
        raise ValueError("slice step cannot be zero")
    first, last = (0, length) if step > 0 else (-1, length - 1)

    def place(x: Size, default: Size) -> Size:
        if x is None:
            return default
        if type(x) is not Num:
            x = operator.index(x)
        x = x + length if x < 0 else x
        return first if x < first else last if x > last else x

    ends = (first, last) if step > 0 else (last, first)
    return place(part.start, ends[0]), place(part.stop, ends[1]), step


def length_of(low: Size, high: Size, step: int) -> Size:
    """`len(range(low, high, step))` of numbers that may be Nums."""
    count = -((low - high) // step) if step > 0 else -((high - low) // -step)
    return count if count > 0 else 0


def symbolic_array(words: Sequence[Size]) -> np.ndarray:
    """A table of words, as it is now; which of them are Nums is kept with the sizes."""
    array = np.array(at_present(tuple(words)), np.int64)
    symbol = next((x for x in words if type(x) is Num), None)
    if symbol is not None:
        symbol.sizes.tables[id(array)] = array, tuple(words)
    return array


def at_present(x: Size) -> Size:
    """Nested tuples with each Num replaced by its value, without fixing it: for what is right at
    all sizes."""
    if type(x) is Num:
        return x.value
    if not isinstance(x, tuple) or not is_symbolic(x):
        return x
    parts = [at_present(y) for y in x]
    return type(x)(*parts) if hasattr(x, "_fields") else tuple(parts)
