"""L3. Random bits: a pure function of a key and the position of the element.

    random_bits(key, shape)[i] = y0 ^ y1  where  (y0, y1) = threefry2x32(key, (i >> 32, i mod 2^32))

with i the flat index.  Threefry-2x32 with 20 rounds is from J. Salmon, M. Moraes, R. Dror, D. Shaw,
"Parallel random numbers: as easy as 1, 2, 3", SC 2011.  Elements depend on nothing but key and
index: results are the same for one key and for that key in a batch, eagerly and compiled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fgrad.errors import DtypeError, ShapeError
from fgrad.ir import traits
from fgrad.ir.aval import INT64, UINT32, Aval
from fgrad.ir.primitive import DISCRETE, NOT_LINEAR, Primitive
from fgrad.ops.elementwise import add, convert, or_, shift_left, shift_right, xor
from fgrad.ops.shape import broadcast, iota, move_axis, reshape, slice_
from fgrad.trace import Value, bind

random_bits_p = Primitive("random_bits", traits.whole(host=None), params=("shape",))

# Rotations of the rounds, in two groups of four, and the parity of the key schedule (SC 2011, 4.3).
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = np.uint32(0x1BD11BDA)
GROUPS = 5


def random_bits(key: Value, shape: tuple[int, ...]) -> Value:
    """Uniform uint32 of a shape, from a key: uint32 of shape (2,), or (..., 2) for many keys."""
    return bind(random_bits_p, key, shape=shape)


@random_bits_p.type_rule
def _(key: Aval, *, shape: tuple[int, ...]) -> Aval:
    if key.dtype != UINT32:
        raise DtypeError(f"random_bits: the key is {key.dtype}, not uint32.")
    if not key.shape or key.shape[-1] != 2:
        raise ShapeError(f"random_bits: the key has shape {key.shape}, its last axis is not 2.")
    return Aval((*key.shape[:-1], *shape), UINT32)


random_bits_p.refuse("jvp", DISCRETE)
random_bits_p.refuse("transpose", NOT_LINEAR)


@random_bits_p.batch
def _(
    size: int, operands: Sequence[Value], dims: Sequence[int], *, shape: tuple[int, ...]
) -> tuple[Value, int]:
    return random_bits(move_axis(operands[0], dims[0], 0), shape), 0


# --- evaluation: in place, in pieces that stay in the cache --------------------------------------

_PIECE = 1 << 14


@random_bits_p.evaluate
def _(key: np.ndarray, *, shape: tuple[int, ...]) -> Value:
    count = math.prod(shape)
    keys = key.reshape(-1, 2)
    out = np.empty((len(keys), count), np.uint32)
    for row, (k0, k1) in zip(out, keys, strict=True):
        for start in range(0, count, _PIECE):
            piece = np.arange(start, min(start + _PIECE, count), dtype=np.uint64)
            x0 = (piece >> np.uint64(32)).astype(np.uint32)
            x1 = piece.astype(np.uint32)
            threefry2x32(k0, k1, x0, x1)
            np.bitwise_xor(x0, x1, out=row[start : start + len(piece)])
    return out.reshape(key.shape[:-1] + shape)[()]


def threefry2x32(k0: np.uint32, k1: np.uint32, x0: np.ndarray, x1: np.ndarray) -> None:
    """Encrypt the counters (x0, x1), uint32 arrays of rank 1, in place."""
    schedule = (k0, k1, k0 ^ k1 ^ PARITY)
    x0 += schedule[0]
    x1 += schedule[1]
    high = np.empty_like(x1)
    for group in range(GROUPS):
        for r in ROTATIONS[group % 2]:
            x0 += x1
            np.left_shift(x1, np.uint32(r), out=high)
            x1 >>= np.uint32(32 - r)
            x1 |= high
            x1 ^= x0
        x0 += schedule[(group + 1) % 3]
        x1 += np.array(schedule[(group + 2) % 3]) + np.uint32(group + 1)


# --- the same as elementwise equations, for compilers --------------------------------------------


def random_bits_elementwise(key: Value, shape: tuple[int, ...]) -> Value:
    """`random_bits` of one key, or of keys (..., 2), composed of elementwise primitives."""
    lead = tuple(key.shape[:-1])
    full_shape = (*lead, *shape)
    schedule = [_key_word(key, i, full_shape) for i in (0, 1)]
    schedule.append(xor(xor(schedule[0], schedule[1]), PARITY))
    index = reshape(iota((math.prod(shape),), INT64, 0), shape)
    index = broadcast(index, full_shape, tuple(range(len(lead), len(full_shape))))
    x0 = add(convert(shift_right(index, np.int64(32)), UINT32), schedule[0])
    x1 = add(convert(index, UINT32), schedule[1])
    for group in range(GROUPS):
        for r in ROTATIONS[group % 2]:
            x0 = add(x0, x1)
            x1 = xor(x0, _rotated(x1, r))
        x0 = add(x0, schedule[(group + 1) % 3])
        x1 = add(add(x1, schedule[(group + 2) % 3]), np.uint32(group + 1))
    return xor(x0, x1)


def _key_word(key: Value, i: int, shape: tuple[int, ...]) -> Value:
    """Word i of every key, repeated for every element."""
    lead = tuple(key.shape[:-1])
    zero = (0,) * len(lead)
    word = reshape(slice_(key, (*zero, i), (*lead, i + 1)), lead)
    return broadcast(word, shape, tuple(range(len(lead))))


def _rotated(x: Value, r: int) -> Value:
    """The 32 bits of x rotated to the left."""
    return or_(shift_left(x, np.uint32(r)), shift_right(x, np.uint32(32 - r)))
