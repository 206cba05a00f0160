"""L7. Keys of random numbers: explicit values in place of hidden generator state.

A key is a uint32 array of shape (2,).  A function of `fgrad.random` gives the same numbers for the
same key, eagerly, compiled and batched; `split` and `fold_in` make independent keys of one.  Each
purpose encrypts another tweak of the key, so that `bits(key)` does not repeat `split(key)`.
"""

from __future__ import annotations

from typing import SupportsInt, TypeAlias

import numpy as np

from fgrad.base.keywords import also_takes
from fgrad.errors import ArgumentError
from fgrad.ir.aval import INT64, UINT32
from fgrad.numpy.promote import user_line
from fgrad.ops.elementwise import convert, shift_right, xor
from fgrad.ops.random_bits import random_bits
from fgrad.ops.shape import concatenate, reshape
from fgrad.trace import Tracer, Value
from fgrad.tracing.on_device import OnDevice
from fgrad.typing import Array, DType

Key: TypeAlias = Array  # of dtype uint32 and shape (2,)
Shape: TypeAlias = "int | tuple[int, ...]"

UINT64: DType = np.dtype(np.uint64)

# Tweaks: words of the fractional parts of sqrt(2) and sqrt(3), as in FIPS 180-4.
_SPLIT = np.array([0x6A09E667, 0xF3BCC908], UINT32)
_FOLD = np.array([0xBB67AE85, 0x84CAA73B], UINT32)


@also_takes(impl=None, dtype=None)
def key(seed: SupportsInt) -> Key:
    """The key that belongs to a seed.

    Arguments:
        seed: an integer from -2^63 to 2^64 - 1, or a traced integer scalar.

    Returns:
        A uint32 array of shape (2,): the high and the low half of the seed.

    Raises:
        ArgumentError: if the seed is not such an integer.

    Example:
        >>> from fgrad import random
        >>> random.key(7)
        array([0, 7], dtype=uint32)
    """
    if isinstance(seed, Tracer):
        if seed.shape or seed.dtype.kind not in "iu":
            raise ArgumentError(
                f"random.key takes an integer scalar, not {seed.aval}.", user_line()
            )
        wide = convert(seed, UINT64)
    elif isinstance(seed, (int, np.integer)) and -(2**63) <= int(seed) < 2**64:
        wide = UINT64.type(int(seed) % 2**64)
    else:
        raise ArgumentError(
            f"random.key takes an integer of 64 bits, not {_describe(seed)}.", user_line()
        )
    return _key_of(wide)


def _describe(x: object) -> str:
    return repr(x) if isinstance(x, (int, float, str)) else type(x).__name__


def _key_of(wide: Value) -> Key:
    """The high and the low word of an uint64 scalar."""
    words = (convert(shift_right(wide, np.uint64(32)), UINT32), convert(wide, UINT32))
    return concatenate([reshape(word, (1,)) for word in words], 0)


def split(key: Key, num: Shape = 2) -> Key:
    """Independent keys made of one, which must not be used again.

    Arguments:
        key: a key.
        num: how many, or a shape.

    Returns:
        A uint32 array of shape (*num, 2); its rows are keys.

    Example:
        >>> from fgrad import random
        >>> first, second = random.split(random.key(0))
        >>> first.shape
        (2,)
    """
    key = check_key(key, "split")
    return random_bits(xor(key, _SPLIT), (*as_shape(num, "split"), 2))


def fold_in(key: Key, data: SupportsInt) -> Key:
    """The key for item number `data` of a stream: `fold_in(key, step)` in a training loop.

    Arguments:
        key: a key; other data give other, independent keys.
        data: an integer or a traced integer scalar.

    Returns:
        A key.

    Example:
        >>> from fgrad import random
        >>> bool(np.any(random.fold_in(random.key(0), 1) != random.fold_in(random.key(0), 2)))
        True
    """
    hidden = random_bits(xor(check_key(key, "fold_in"), _FOLD), (2,))
    return random_bits(xor(hidden, _data_key(data)), (2,))


def _data_key(data: SupportsInt) -> Key:
    is_integer = isinstance(data, (int, np.integer)) or (
        isinstance(data, Tracer) and not data.shape and data.dtype.kind in "iu"
    )
    if not is_integer:
        raise ArgumentError(f"random.fold_in takes an integer, not {_describe(data)}.", user_line())
    if isinstance(data, Tracer):
        return _key_of(convert(convert(data, INT64), UINT64))
    return _key_of(UINT64.type(int(data) % 2**64))


def check_key(key: object, function: str) -> Key:
    """The key itself, if it is one; else an error card that says where keys come from.

    Raises:
        ArgumentError: for a `numpy.random.Generator`, a seed, several keys at once, or others.
    """
    if isinstance(key, (Tracer, np.ndarray, OnDevice)):
        shape, dtype = key.shape, key.dtype
    else:
        raise _not_a_key(key, function)
    if dtype != UINT32 or shape != (2,):
        raise _wrong_key(shape, dtype, function)
    return key


def _not_a_key(key: object, function: str) -> ArgumentError:
    kind = type(key)
    name = f"{kind.__module__}.{kind.__name__}".removeprefix("builtins.")
    rows = [*user_line()]
    if kind.__module__.startswith("numpy.random"):
        rows.append(("why", "a generator changes when it is used: traced and compiled functions"))
        rows.append(("why", "would repeat one draw, or draw in another order."))
        seed = "rng.integers(2**63)"
    else:
        rows.append(("why", "a key is a uint32 array of shape (2,)."))
        seed = "seed"
    rows.append(("write", f"key = fgrad.random.key({seed})        once, outside"))
    rows.append(("write", f"fgrad.random.{function}(key, ...)"))
    rows.append(("write", "first, second = fgrad.random.split(key)     for each further draw"))
    return ArgumentError(f"random.{function} takes a key, not a {name}.", rows)


def _wrong_key(shape: tuple[int, ...], dtype: np.dtype, function: str) -> ArgumentError:
    rows = [*user_line(), ("why", "a key is a uint32 array of shape (2,).")]
    if dtype == UINT32 and shape[-1:] == (2,):
        rows.append(
            ("write", f"fgrad.vmap(fgrad.random.{function})(keys)     for several keys at once")
        )
    else:
        rows.append(("write", "fgrad.random.key(seed)"))
    return ArgumentError(
        f"random.{function} takes one key, not an array of shape {shape} and dtype {dtype}.", rows
    )


def as_shape(shape: Shape, function: str) -> tuple[int, ...]:
    """A shape as a tuple of Python integers.

    Raises:
        ArgumentError: if a length is negative or not an integer.
    """
    given = shape if isinstance(shape, (tuple, list)) else (shape,)
    if any(not isinstance(n, (int, np.integer)) or n < 0 for n in given):
        raise ArgumentError(f"random.{function}: {shape!r} is not a shape.", user_line())
    return tuple([int(n) for n in given])
