"""L6. What threads of a block do together, as LLVM text: shuffles, reductions, running totals.

    warp_fold    v = combine(v, v of lane ^ 16), then of lane ^ 8, 4, 2, 1
    block_fold   warp_fold; the first lane of each warp writes to shared memory; warp_fold of those
    block_scan   each warp adds from 1, 2, 4, 8, 16 lanes before; then the totals of warps before

All functions append to a FunctionText whose block has a multiple of 32 threads, all of which come
here; `thread` is the number of the own one.  Values are tuples, so that a value can have company:
a maximum its place.  Operands are registers of `element_type(dtype)`, so bools are i1.  The results
do not depend on the order in which threads run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from fgrad.compile.cpu.llvm_text import FunctionText, element_type

WARP = 32
Values: TypeAlias = "tuple[str, ...]"
Combine: TypeAlias = "Callable[[FunctionText, Values, Values], Values]"

_IDX, _UP, _XOR = 0, 1, 3  # modes of a shuffle
_BARRIER = "llvm.nvvm.barrier0"
_SHUFFLE = "llvm.nvvm.shfl.sync.i32"


def barrier(text: FunctionText) -> None:
    """All threads of the block come here, and see what the others have written."""
    text.declare(f"declare void @{_BARRIER}()")
    text.line(f"call void @{_BARRIER}()")


# Shared memory.


def memory_kind(dtype: np.dtype) -> str:
    """The type in memory, where a bool is i8."""
    return "i8" if dtype.kind == "b" else element_type(dtype)


def shared_array(text: FunctionText, name: str, kind: str, count: int) -> None:
    """Declare `count` elements of shared memory; a name is declared in one way only."""
    text.declare(f"@{name} = internal addrspace(3) global [{count} x {kind}] undef, align 16")


def shared_place(text: FunctionText, name: str, kind: str, count: int, index: str) -> str:
    """The address of element `index` (an i32), of type `kind addrspace(3)*`."""
    array = f"[{count} x {kind}]"
    return text.emit(f"getelementptr {array}, {array} addrspace(3)* @{name}, i32 0, i32 {index}")


def load_shared(text: FunctionText, place: str, dtype: np.dtype) -> str:
    """The register with the element at an address in shared memory."""
    kind = memory_kind(dtype)
    value = text.emit(f"load {kind}, {kind} addrspace(3)* {place}")
    return text.emit(f"trunc i8 {value} to i1") if dtype.kind == "b" else value


def store_shared(text: FunctionText, value: str, place: str, dtype: np.dtype) -> None:
    """Write a register to an address in shared memory."""
    kind = memory_kind(dtype)
    if dtype.kind == "b":
        value = text.emit(f"zext i1 {value} to i8")
    text.line(f"store {kind} {value}, {kind} addrspace(3)* {place}")


# Between the lanes of a warp.


def lane_of(text: FunctionText, thread: str = "%x") -> str:
    """The number of a thread in its warp."""
    return text.emit(f"and i32 {thread}, {WARP - 1}")


def shuffle_xor(text: FunctionText, value: str, dtype: np.dtype, offset: int) -> str:
    """The value of the lane whose number differs in the bits of `offset`."""
    return _shuffle(text, _XOR, value, dtype, str(offset), WARP - 1)


def shuffle_up(text: FunctionText, value: str, dtype: np.dtype, offset: int) -> str:
    """The value of the lane `offset` places before; the own one where there is none."""
    return _shuffle(text, _UP, value, dtype, str(offset), 0)


def shuffle_from(text: FunctionText, value: str, dtype: np.dtype, lane: str) -> str:
    """The value of lane `lane`, an i32."""
    return _shuffle(text, _IDX, value, dtype, lane, WARP - 1)


def _shuffle(
    text: FunctionText, mode: int, value: str, dtype: np.dtype, lane: str, clamp: int
) -> str:
    """A value of another lane, by words of 32 bits."""
    kind, bits = element_type(dtype), 8 * dtype.itemsize
    if bits == 64:
        word = _as_bits(text, value, kind, "i64")
        high = text.emit(f"trunc i64 {text.emit(f'lshr i64 {word}, 32')} to i32")
        low = text.emit(f"trunc i64 {word} to i32")
        low, high = (_shuffle_word(text, mode, x, lane, clamp) for x in (low, high))
        low, high = (text.emit(f"zext i32 {x} to i64") for x in (low, high))
        word = text.emit(f"or i64 {text.emit(f'shl i64 {high}, 32')}, {low}")
        return _from_bits(text, word, "i64", kind)
    raw = "i1" if dtype.kind == "b" else f"i{bits}"
    word = _as_bits(text, value, kind, raw)
    word = word if bits == 32 else text.emit(f"zext {raw} {word} to i32")
    word = _shuffle_word(text, mode, word, lane, clamp)
    word = word if bits == 32 else text.emit(f"trunc i32 {word} to {raw}")
    return _from_bits(text, word, raw, kind)


def _shuffle_word(text: FunctionText, mode: int, word: str, lane: str, clamp: int) -> str:
    text.declare(f"declare {{i32, i1}} @{_SHUFFLE}(i32, i32, i32, i32, i32)")
    arguments = f"i32 -1, i32 {mode}, i32 {word}, i32 {lane}, i32 {clamp}"
    both = text.emit(f"call {{i32, i1}} @{_SHUFFLE}({arguments})")
    return text.emit(f"extractvalue {{i32, i1}} {both}, 0")


def _as_bits(text: FunctionText, value: str, kind: str, raw: str) -> str:
    return value if kind == raw else text.emit(f"bitcast {kind} {value} to {raw}")


def _from_bits(text: FunctionText, word: str, raw: str, kind: str) -> str:
    return word if kind == raw else text.emit(f"bitcast {raw} {word} to {kind}")


# Reductions.


def warp_fold(
    text: FunctionText,
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
    text: FunctionText,
    name: str,
    combine: Combine,
    values: Values,
    dtypes: Sequence[np.dtype],
    threads: int,
    thread: str = "%x",
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
    lane = lane_of(text, thread)
    first = text.emit(f"icmp eq i32 {lane}, 0")
    _share(text, name, values, dtypes, first, warps, thread)
    own = text.emit(f"and i32 {lane}, {warps - 1}")
    found = _shared(text, name, dtypes, warps, own)
    if again:
        barrier(text)
    return warp_fold(text, combine, found, dtypes, warps)


def _share(
    text: FunctionText,
    name: str,
    values: Values,
    dtypes: Sequence[np.dtype],
    writes: str,
    warps: int,
    thread: str,
) -> None:
    """Where `writes` holds, the warp's values into shared memory, which all threads may then
    read."""
    then, after = (text.fresh(stem)[1:] for stem in ("share", "shared"))
    warp = text.emit(f"lshr i32 {thread}, 5")
    text.line(f"br i1 {writes}, label %{then}, label %{after}")
    text.label(then)
    for k, (value, dtype) in enumerate(zip(values, dtypes, strict=True)):
        shared_array(text, f"{name}{k}", memory_kind(dtype), warps)
        place = shared_place(text, f"{name}{k}", memory_kind(dtype), warps, warp)
        store_shared(text, value, place, dtype)
    text.line(f"br label %{after}")
    text.label(after)
    barrier(text)


def _shared(
    text: FunctionText, name: str, dtypes: Sequence[np.dtype], warps: int, warp: str
) -> Values:
    """The values of a warp, from shared memory."""
    found = []
    for k, dtype in enumerate(dtypes):
        place = shared_place(text, f"{name}{k}", memory_kind(dtype), warps, warp)
        found.append(load_shared(text, place, dtype))
    return tuple(found)


# Running totals.


def warp_scan(
    text: FunctionText,
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
        exists = text.emit(f"icmp uge i32 {lane}, {offset}")
        values = _choose(text, exists, combine(text, before, values), values, dtypes)
        offset *= 2
    return values


def block_scan(
    text: FunctionText,
    name: str,
    combine: Combine,
    values: Values,
    dtypes: Sequence[np.dtype],
    threads: int,
    neutral: Values,
    thread: str = "%x",
) -> tuple[Values, Values]:
    """The values of all threads before the own one combined, in order; and those of all threads.

    Arguments:
        name: of the shared memory, `name0`, `name1`, ...; it may be used again afterwards.
        combine: writes the combination of two tuples of values, the earlier one first.
        threads: of the block, a power of 2 from 32 on.
        neutral: what the first thread has before itself.
    """
    lane = lane_of(text, thread)
    running = warp_scan(text, combine, values, dtypes, lane)
    pairs = zip(running, dtypes, strict=True)
    before = tuple([shuffle_up(text, x, dtype, 1) for x, dtype in pairs])
    warps, last = threads // WARP, str(WARP - 1)
    if warps == 1:
        total = _from_lane(text, running, dtypes, last)
        has_lane = text.emit(f"icmp ne i32 {lane}, 0")
        return _choose(text, has_lane, before, neutral, dtypes), total
    is_last = text.emit(f"icmp eq i32 {lane}, {last}")
    _share(text, name, running, dtypes, is_last, warps, thread)
    own = text.emit(f"and i32 {lane}, {warps - 1}")
    totals = _shared(text, name, dtypes, warps, own)
    barrier(text)
    totals = warp_scan(text, combine, totals, dtypes, own, warps)
    warp = text.emit(f"lshr i32 {thread}, 5")
    total = _from_lane(text, totals, dtypes, str(warps - 1))
    earlier = text.emit(f"sub i32 {warp}, 1")
    earlier = text.emit(f"and i32 {earlier}, {warps - 1}")
    warps_before = _from_lane(text, totals, dtypes, earlier)
    return _joined(text, combine, (warps_before, warp), (before, lane), neutral, dtypes), total


def _joined(
    text: FunctionText,
    combine: Combine,
    warps: tuple[Values, str],
    lanes: tuple[Values, str],
    neutral: Values,
    dtypes: Sequence[np.dtype],
) -> Values:
    """What warps before hold and what lanes before hold, each of which may be none."""
    (of_warps, warp), (of_lanes, lane) = warps, lanes
    has_warp, has_lane = (text.emit(f"icmp ne i32 {k}, 0") for k in (warp, lane))
    both = combine(text, of_warps, of_lanes)
    with_warp = _choose(text, has_lane, both, of_warps, dtypes)
    without = _choose(text, has_lane, of_lanes, neutral, dtypes)
    return _choose(text, has_warp, with_warp, without, dtypes)


def _from_lane(text: FunctionText, values: Values, dtypes: Sequence[np.dtype], lane: str) -> Values:
    pairs = zip(values, dtypes, strict=True)
    return tuple([shuffle_from(text, x, dtype, lane) for x, dtype in pairs])


def _choose(
    text: FunctionText, condition: str, a: Values, b: Values, dtypes: Sequence[np.dtype]
) -> Values:
    """`a` where the condition holds, else `b`."""
    chosen = []
    for x, y, dtype in zip(a, b, dtypes, strict=True):
        kind = element_type(dtype)
        chosen.append(text.emit(f"select i1 {condition}, {kind} {x}, {kind} {y}"))
    return tuple(chosen)
