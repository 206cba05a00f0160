"""L6. What threads of a block do together, as LLVM text: shuffles, reductions, running totals.

    warp_fold    v = combine(v, v of lane ^ 16), then of lane ^ 8, 4, 2, 1
    block_fold   warp_fold; the first lane of each warp writes to shared memory; warp_fold of those
    block_scan   each warp adds from 1, 2, 4, 8, 16 lanes before; then the totals of warps before

All functions append to a BodyText whose block has a multiple of 32 threads, all of which come
here; `%x` is the number of the own one.  Values are tuples, so that a value can have company: a
maximum its place.  Operands are registers of `element_type(dtype)`, so bools are i1.  The results
do not depend on the order in which threads run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from fgrad.compile.llvm.text import element_type, memory_type
from fgrad.lower_cuda.emit.machine import WARP
from fgrad.lower_cuda.emit.text import BodyText

Values: TypeAlias = "tuple[str, ...]"
Combine: TypeAlias = "Callable[[BodyText, Values, Values], Values]"

_IDX, _UP, _XOR = 0, 1, 3  # modes of a shuffle
_SHUFFLE = "llvm.nvvm.shfl.sync.i32"


# Between the lanes of a warp.


def lane_of(text: BodyText) -> str:
    """The number of the thread in its warp."""
    return text.op("and", "i32", "%x", WARP - 1)


def shuffle_xor(text: BodyText, value: str, dtype: np.dtype, offset: int) -> str:
    """The value of the lane whose number differs in the bits of `offset`."""
    return _shuffle(text, _XOR, value, dtype, str(offset), WARP - 1)


def shuffle_up(text: BodyText, value: str, dtype: np.dtype, offset: int) -> str:
    """The value of the lane `offset` places before; the own one where there is none."""
    return _shuffle(text, _UP, value, dtype, str(offset), 0)


def shuffle_from(text: BodyText, value: str, dtype: np.dtype, lane: str) -> str:
    """The value of lane `lane`, an i32."""
    return _shuffle(text, _IDX, value, dtype, lane, WARP - 1)


def _shuffle(text: BodyText, mode: int, value: str, dtype: np.dtype, lane: str, clamp: int) -> str:
    """A value of another lane, by words of 32 bits."""
    kind, bits = element_type(dtype), 8 * dtype.itemsize
    raw = "i1" if dtype.kind == "b" else f"i{bits}"
    word = text.cast("bitcast", kind, value, raw)
    if bits == 64:
        halves = [word, text.op("lshr", "i64", word, 32)]
        halves = [text.cast("trunc", "i64", x, "i32") for x in halves]
        low, high = [text.wide(_shuffle_word(text, mode, x, lane, clamp)) for x in halves]
        word = text.op("or", "i64", text.op("shl", "i64", high, 32), low)
    else:
        word = text.cast("zext", raw, word, "i32")
        word = text.cast("trunc", "i32", _shuffle_word(text, mode, word, lane, clamp), raw)
    return text.cast("bitcast", raw, word, kind)


def _shuffle_word(text: BodyText, mode: int, word: str, lane: str, clamp: int) -> str:
    text.declare(f"declare {{i32, i1}} @{_SHUFFLE}(i32, i32, i32, i32, i32)")
    arguments = f"i32 -1, i32 {mode}, i32 {word}, i32 {lane}, i32 {clamp}"
    both = text.emit(f"call {{i32, i1}} @{_SHUFFLE}({arguments})")
    return text.emit(f"extractvalue {{i32, i1}} {both}, 0")


# Reductions.


def warp_fold(
    text: BodyText,
    combine: Combine,
    values: Values,
    dtypes: Sequence[np.dtype],
    width: int = WARP,
) -> Values:
    """All values of `width` neighbouring lanes combined, in each of these lanes.

    Arguments:
        combine: writes the combination of two tuples of values; it commutes.
        width: a power of 2 up to 32.
    """
    offset = width // 2
    while offset:
        pairs = zip(values, dtypes, strict=True)
        others = tuple([shuffle_xor(text, x, dtype, offset) for x, dtype in pairs])
        values = combine(text, values, others)
        offset //= 2
    return values


def block_fold(
    text: BodyText,
    name: str,
    combine: Combine,
    values: Values,
    dtypes: Sequence[np.dtype],
    threads: int,
    again: bool = True,
) -> Values:
    """All values of the block's threads combined, in each thread.

    Arguments:
        name: of the shared memory, `name0`, `name1`, ...
        again: whether it may be used again at once; else only after another barrier.
        combine: writes the combination of two tuples of values; it commutes.
        threads: of the block, a power of 2 from 32 on.
    """
    values = warp_fold(text, combine, values, dtypes)
    warps = threads // WARP
    if warps == 1:
        return values
    lane = lane_of(text)
    _share(text, name, values, dtypes, text.compare("eq", "i32", lane, 0), warps)
    found = _shared(text, name, dtypes, warps, text.op("and", "i32", lane, warps - 1))
    if again:
        text.barrier()
    return warp_fold(text, combine, found, dtypes, warps)


def _share(
    text: BodyText, name: str, values: Values, dtypes: Sequence[np.dtype], writes: str, warps: int
) -> None:
    """Where `writes` holds, the warp's values into shared memory, which all threads may then
    read."""
    with text.when(writes):
        for k, (value, dtype) in enumerate(zip(values, dtypes, strict=True)):
            memory = text.shared(f"{name}{k}", memory_type(dtype), warps)
            text.store(text.to_memory(value, dtype), memory, _warp(text), "i32")
    text.barrier()


def _shared(text: BodyText, name: str, dtypes: Sequence[np.dtype], warps: int, warp: str) -> Values:
    """The values of a warp, from shared memory."""
    found = []
    for k, dtype in enumerate(dtypes):
        memory = text.shared(f"{name}{k}", memory_type(dtype), warps)
        found.append(text.from_memory(text.load(memory, warp, "i32"), dtype))
    return tuple(found)


def _warp(text: BodyText) -> str:
    """The number of the thread's warp."""
    return text.op("lshr", "i32", "%x", 5)


# Running totals.


def warp_scan(
    text: BodyText,
    combine: Combine,
    values: Values,
    dtypes: Sequence[np.dtype],
    lane: str,
    width: int = WARP,
) -> Values:
    """The values of all lanes up to the own one combined, in order."""
    offset = 1
    while offset < width:
        pairs = zip(values, dtypes, strict=True)
        before = tuple([shuffle_up(text, x, dtype, offset) for x, dtype in pairs])
        exists = text.compare("uge", "i32", lane, offset)
        values = _choose(text, exists, combine(text, before, values), values, dtypes)
        offset *= 2
    return values


def block_scan(
    text: BodyText,
    name: str,
    combine: Combine,
    values: Values,
    dtypes: Sequence[np.dtype],
    threads: int,
    neutral: Values,
) -> tuple[Values, Values]:
    """The values of all threads before the own one combined, in order; and those of all threads.

    Arguments:
        name: of the shared memory, `name0`, `name1`, ...; it may be used again afterwards.
        combine: writes the combination of two tuples of values, the earlier one first.
        threads: of the block, a power of 2 from 32 on.
        neutral: what the first thread has before itself.
    """
    lane = lane_of(text)
    running = warp_scan(text, combine, values, dtypes, lane)
    pairs = zip(running, dtypes, strict=True)
    before = tuple([shuffle_up(text, x, dtype, 1) for x, dtype in pairs])
    warps, last = threads // WARP, WARP - 1
    if warps == 1:
        total = _from_lane(text, running, dtypes, str(last))
        has_lane = text.compare("ne", "i32", lane, 0)
        return _choose(text, has_lane, before, neutral, dtypes), total
    _share(text, name, running, dtypes, text.compare("eq", "i32", lane, last), warps)
    own = text.op("and", "i32", lane, warps - 1)
    totals = _shared(text, name, dtypes, warps, own)
    text.barrier()
    totals = warp_scan(text, combine, totals, dtypes, own, warps)
    total = _from_lane(text, totals, dtypes, str(warps - 1))
    warp = _warp(text)
    earlier = text.op("and", "i32", text.op("sub", "i32", warp, 1), warps - 1)
    warps_before = _from_lane(text, totals, dtypes, earlier)
    return _joined(text, combine, (warps_before, warp), (before, lane), neutral, dtypes), total


def _joined(
    text: BodyText,
    combine: Combine,
    warps: tuple[Values, str],
    lanes: tuple[Values, str],
    neutral: Values,
    dtypes: Sequence[np.dtype],
) -> Values:
    """What warps before hold and what lanes before hold, each of which may be none."""
    (of_warps, warp), (of_lanes, lane) = warps, lanes
    has_warp, has_lane = (text.compare("ne", "i32", k, 0) for k in (warp, lane))
    both = combine(text, of_warps, of_lanes)
    with_warp = _choose(text, has_lane, both, of_warps, dtypes)
    without = _choose(text, has_lane, of_lanes, neutral, dtypes)
    return _choose(text, has_warp, with_warp, without, dtypes)


def _from_lane(text: BodyText, values: Values, dtypes: Sequence[np.dtype], lane: str) -> Values:
    pairs = zip(values, dtypes, strict=True)
    return tuple([shuffle_from(text, x, dtype, lane) for x, dtype in pairs])


def _choose(
    text: BodyText, condition: str, a: Values, b: Values, dtypes: Sequence[np.dtype]
) -> Values:
    """`a` where the condition holds, else `b`."""
    triples = zip(a, b, dtypes, strict=True)
    return tuple([text.select(condition, element_type(dtype), x, y) for x, y, dtype in triples])
