"""L5. Loads and stores of a kernel as LLVM text: scalar, contiguous, reversed, strided and
indirect.

Inside a vector loop an access is classified by its stride along the vector axis: 0 is one scalar
load, 1 and -1 are vector accesses, anything else (and any indirect term) is a gather or scatter. A
predicate becomes a mask; a scalar predicated access is redirected to a spare stack slot instead of
branching.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, TypeGuard

import numpy as np

from fgrad.base.sizes import NotShared
from fgrad.compile.cpu.emit.frame import BOOL, Address, Frame, Scope, Value, intrinsic_suffix
from fgrad.compile.cpu.emit.numbers import Register
from fgrad.compile.cpu.emit.reduction import fold_lanes
from fgrad.compile.cpu.emit.tails import (
    load_tail,
    store_apart,
    store_pieces,
    store_tail,
)
from fgrad.compile.kernel.ir import Load, Store
from fgrad.compile.kernel.machine import CLOSE_STRIDE, MASKED_BYTES
from fgrad.compile.llvm.text import constant, lane_type, memory_lanes, memory_type

# Terms of an address that are values, and their strides.
Indirect: TypeAlias = "Sequence[tuple[Value, int | Register]]"

SPARE = "%spare"  # the address of memory that nobody reads
SPARE_BYTES = 512


def emit_load(frame: Frame, s: Load) -> Value:
    """Emit a load in the outermost scope where it is the same."""
    dtype = frame.buffers[s.buffer].dtype
    address = frame.address(s.buffer, s.index)
    predicate = None if s.predicate is None else frame.values[s.predicate]
    factor = frame.expanded.get(s.buffer, 1)
    indirect = [
        (frame.values[v], stride if factor == 1 else stride * factor) for v, stride in s.gather
    ]
    scope = frame.deepest(
        address.scope,
        frame.after_stores(s.buffer),
        *[v.scope for v, _ in indirect],
        *([predicate.scope] if predicate else []),
    )
    vector = (
        address.stride
        or any([v.lanes > 1 for v, _ in indirect])
        or (predicate and predicate.lanes > 1)
    )
    if not vector:
        text = _scalar_load(frame, scope, address.pointer, indirect, dtype, predicate, s)
        return Value(text, 1, dtype, scope)
    scope = frame.deepest(scope, _vector_scope(frame))
    if predicate is None and not indirect and _is_lane_by_lane(frame, s.buffer, address):
        return Value(_lane_by_lane_load(frame, scope, address, dtype), frame.lanes, dtype, scope)
    padded = frame.buffers[s.buffer].role == "scratch" and address.stride == 1 and not indirect
    mask = frame.masked(predicate) if predicate or not padded else None
    scope = frame.deepest(scope, mask.scope) if mask else scope
    other = constant(s.other, dtype, frame.lanes) if predicate else "zeroinitializer"
    frame.enter(scope)
    pointer, indirect = _row_start(frame, address, indirect, dtype)
    raw = _vector_load(frame, scope, pointer, address.stride, indirect, dtype, mask, other)
    return Value(raw, frame.lanes, dtype, scope)


def _is_lane_by_lane(frame: Frame, name: str, address: Address) -> bool:
    """Whether lanes are loaded one by one: from scratch memory, at constant positions with a
    stride, so that LLVM can keep the buffer in registers."""
    scratch = frame.buffers[name].role == "scratch" and name not in frame.expanded
    return scratch and address.position is not None and address.stride != 1


def _live_count(frame: Frame) -> int | None:
    """How many leading lanes of the loop are alive; None if that is known only at run time."""
    if frame.mask is None:
        return frame.lanes
    return frame.mask.text.count("true") if frame.mask.text.startswith("<") else None


def _lane_by_lane_load(frame: Frame, scope: Scope, address: Address, dtype: np.dtype) -> str:
    function, kind = frame.enter(scope), lane_type(dtype, frame.lanes)
    text = "zeroinitializer"
    live = _live_count(frame)
    if isinstance(address.stride, Register):
        raise NotShared("registers")
    for lane in range(frame.lanes if live is None else live):
        offset = lane * address.stride
        at = function.emit(
            f"getelementptr {memory_type(dtype)}, ptr {address.pointer}, i64 {offset}"
        )
        raw = function.emit(f"load {memory_type(dtype)}, ptr {at}, align {dtype.itemsize}")
        one = _from_memory(frame, raw, dtype, 1)
        element = lane_type(dtype, 1)
        text = function.emit(f"insertelement {kind} {text}, {element} {one}, i64 {lane}")
    return text


def _vector_scope(frame: Frame) -> Scope:
    """The scope in which the vector axis lives."""
    return frame.deepest(frame.root, *[a.scope for a in frame.axes.values() if a.lanes > 1])


def _row_start(
    frame: Frame, address: Address, indirect: Indirect, dtype: np.dtype
) -> tuple[str, Indirect]:
    """The pointer moved by the terms that are the same for all lanes, and the other terms.

    Along `x[i, :]` for a computed `i` vectors are contiguous.
    """
    same = [p for p in indirect if p[0].lanes == 1]
    apart = [p for p in indirect if p[0].lanes > 1]
    return _offset_scalar(frame, address.pointer, same, dtype), apart


def _offset_scalar(frame: Frame, pointer: str, indirect: Indirect, dtype: np.dtype) -> str:
    function = frame.function
    for value, stride in indirect:
        step = function.emit(f"mul nsw i64 {value.text}, {stride}") if stride != 1 else value.text
        pointer = function.emit(f"getelementptr {memory_type(dtype)}, ptr {pointer}, i64 {step}")
    return pointer


def _scalar_load(
    frame: Frame,
    scope: Scope,
    pointer: str,
    indirect: Indirect,
    dtype: np.dtype,
    predicate: Value | None,
    s: Load,
) -> str:
    function = frame.enter(scope)
    pointer = _offset_scalar(frame, pointer, indirect, dtype)
    if predicate:
        pointer = function.emit(f"select i1 {predicate.text}, ptr {pointer}, ptr {SPARE}")
    kind = memory_type(dtype)
    raw = function.emit(f"load {kind}, ptr {pointer}, align {dtype.itemsize}")
    text = _from_memory(frame, raw, dtype, 1)
    if predicate:
        text = frame.choose(predicate.text, 1, text, constant(s.other, dtype, 1), dtype)
    return text


def _from_memory(frame: Frame, raw: str, dtype: np.dtype, lanes: int) -> str:
    if dtype.kind != "b":
        return raw
    return frame.function.emit(
        f"icmp ne {memory_lanes(dtype, lanes)} {raw}, {'0' if lanes == 1 else 'zeroinitializer'}"
    )


def _to_memory(frame: Frame, text: str, dtype: np.dtype, lanes: int) -> str:
    if dtype.kind != "b":
        return text
    return frame.function.emit(
        f"zext {lane_type(BOOL, lanes)} {text} to {memory_lanes(dtype, lanes)}"
    )


def _spread_to_memory(frame: Frame, value: Value, dtype: np.dtype, lanes: int) -> str:
    """A value for all lanes as memory holds it; one that is the same for all is made once."""
    if dtype.kind != "b" or value.lanes == lanes or value.is_literal:
        return _to_memory(frame, frame.spread(value, lanes), dtype, lanes)
    frame.enter(value.scope)
    byte = _to_memory(frame, value.text, dtype, 1)
    frame.enter(frame.inner)
    return frame.splat(byte, np.dtype(np.int8), lanes, value.scope)


def _combined(frame: Frame, mode: str, lanes: int, a: str, b: str, dtype: np.dtype) -> str:
    """What a mode makes of two values as memory holds them."""
    if dtype.kind == "b":
        op = "or" if mode in ("add", "max") else "and"
        return frame.function.emit(f"{op} {memory_lanes(dtype, lanes)} {a}, {b}")
    return frame.combine(mode, lanes, a, b, dtype)


def _vector_load(
    frame: Frame,
    scope: Scope,
    pointer: str,
    stride: int | Register,
    indirect: Indirect,
    dtype: np.dtype,
    mask: Value | None,
    other: str,
) -> str:
    """One load of all lanes; `other` where the mask is false."""
    lanes = frame.lanes
    mask_text = frame.spread(mask, lanes) if mask else None
    if dtype.kind == "b" and other != "zeroinitializer":
        other = "splat (i8 1)" if "true" in other else "zeroinitializer"
    live = lanes if mask_text is None else _leading_count(mask_text)
    if _is_close(stride) and live and not indirect and other == "zeroinitializer":
        frame.enter(scope)
        return _from_memory(frame, _spread_load(frame, pointer, stride, live, dtype), dtype, lanes)
    if indirect or stride not in (1, -1):
        pointers = _lane_pointers(frame, scope, pointer, stride, indirect, dtype)
        frame.enter(scope)
        raw = _gather(frame, pointers, mask_text, dtype, other)
        return _from_memory(frame, raw, dtype, lanes)
    frame.enter(scope)
    if stride == 1 and _is_tail(frame, mask) and dtype.itemsize < MASKED_BYTES:
        return _from_memory(frame, load_tail(frame, pointer, dtype), dtype, lanes)
    if stride == -1:
        pointer, mask_text = _reversed(frame, pointer, mask_text, dtype)
    raw = _contiguous(frame, pointer, mask_text, dtype, other)
    if stride == -1:
        raw = reverse(frame, raw, memory_lanes(dtype, lanes), lanes)
    return _from_memory(frame, raw, dtype, lanes)


def _is_close(stride: int | Register) -> TypeGuard[int]:
    """Whether contiguous vectors that are loaded whole and shuffled are faster than a gather."""
    return not isinstance(stride, Register) and 2 <= stride <= CLOSE_STRIDE


def _is_tail(frame: Frame, mask: Value | None) -> bool:
    """Whether a mask is that of a loop's live lanes, on a target where whole vectors are faster."""
    return mask is not None and mask.is_tail and not frame.masks


def _leading_count(mask: str) -> int:
    """How many leading lanes a constant mask leaves alive; 0 for a mask of run-time values."""
    return mask.count("true") if mask.startswith("<") else 0


def _spread_load(frame: Frame, pointer: str, stride: int, live: int, dtype: np.dtype) -> str:
    """Every `stride`-th element: all from the first to the last one are loaded, then shuffled."""
    function, lanes = frame.function, frame.lanes
    wide, kind = stride * lanes, memory_lanes(dtype, stride * lanes)
    read = [f"i1 {str(k <= (live - 1) * stride).lower()}" for k in range(wide)]
    name = f"@llvm.masked.load.{intrinsic_suffix(dtype, wide)}.p0"
    function.declare(f"declare {kind} {name}(ptr, i32, <{wide} x i1>, {kind})")
    raw = function.emit(
        f"call {kind} {name}(ptr {pointer}, i32 {dtype.itemsize}, "
        f"<{wide} x i1> <{', '.join(read)}>, {kind} zeroinitializer)"
    )
    order = ", ".join([f"i32 {k * stride}" for k in range(lanes)])
    return function.emit(f"shufflevector {kind} {raw}, {kind} poison, <{lanes} x i32> <{order}>")


def _spread_store(
    frame: Frame, pointer: str, stride: int, live: int, dtype: np.dtype, text: str
) -> None:
    """Write every `stride`-th element by stores that leave the others as they are."""
    function, lanes = frame.function, frame.lanes
    if not frame.masks:
        store_apart(frame, text, pointer, stride, live, dtype)
        return
    wide, narrow = stride * lanes, memory_lanes(dtype, lanes)
    kind, last = memory_lanes(dtype, wide), (live - 1) * stride
    order = [f"i32 {k // stride}" if k % stride == 0 else "i32 poison" for k in range(wide)]
    written = [f"i1 {str(k <= last and k % stride == 0).lower()}" for k in range(wide)]
    apart = function.emit(
        f"shufflevector {narrow} {text}, {narrow} poison, <{wide} x i32> <{', '.join(order)}>"
    )
    name = f"@llvm.masked.store.{intrinsic_suffix(dtype, wide)}.p0"
    function.declare(f"declare void {name}({kind}, ptr, i32, <{wide} x i1>)")
    function.line(
        f"call void {name}({kind} {apart}, ptr {pointer}, i32 {dtype.itemsize}, "
        f"<{wide} x i1> <{', '.join(written)}>)"
    )


def _contiguous(frame: Frame, pointer: str, mask: str | None, dtype: np.dtype, other: str) -> str:
    function, lanes = frame.function, frame.lanes
    kind, size = memory_lanes(dtype, lanes), dtype.itemsize
    if mask is None:
        return function.emit(f"load {kind}, ptr {pointer}, align {size}")
    name = f"@llvm.masked.load.{intrinsic_suffix(dtype, lanes)}.p0"
    function.declare(f"declare {kind} {name}(ptr, i32, <{lanes} x i1>, {kind})")
    return function.emit(
        f"call {kind} {name}(ptr {pointer}, i32 {size}, <{lanes} x i1> {mask}, {kind} {other})"
    )


def _gather(frame: Frame, pointers: str, mask: str | None, dtype: np.dtype, other: str) -> str:
    function, lanes = frame.function, frame.lanes
    kind = memory_lanes(dtype, lanes)
    name = f"@llvm.masked.gather.{intrinsic_suffix(dtype, lanes)}.v{lanes}p0"
    function.declare(f"declare {kind} {name}(<{lanes} x ptr>, i32, <{lanes} x i1>, {kind})")
    return function.emit(
        f"call {kind} {name}(<{lanes} x ptr> {pointers}, i32 {dtype.itemsize}, "
        f"<{lanes} x i1> {mask or 'splat (i1 true)'}, {kind} {other})"
    )


def _lane_pointers(
    frame: Frame,
    scope: Scope,
    pointer: str,
    stride: int | Register,
    indirect: Indirect,
    dtype: np.dtype,
) -> str:
    """A vector of addresses: `pointer + stride * lane + sum(value * stride)`, vectors of values."""
    lanes = frame.lanes
    vector = f"<{lanes} x i64>"
    offsets = _lane_offsets(frame, stride)
    for value, step in indirect:
        scaled, all_lanes = value.text, _splat(frame, step)
        function = frame.enter(scope)
        if step != 1:
            scaled = function.emit(f"mul nsw {vector} {scaled}, {all_lanes}")
        offsets = function.emit(f"add nsw {vector} {scaled}, {offsets}")
    function = frame.enter(scope)
    return function.emit(f"getelementptr {memory_type(dtype)}, ptr {pointer}, {vector} {offsets}")


def _splat(frame: Frame, step: int | Register) -> str:
    """A number of elements in all lanes."""
    if isinstance(step, Register):
        return frame.splat(step.text, np.dtype(np.int64), frame.lanes, frame.root)
    return f"splat (i64 {step})"


def _lane_offsets(frame: Frame, stride: int | Register) -> str:
    """`stride * lane` in each lane."""
    lanes = frame.lanes
    if not isinstance(stride, Register):
        return "<" + ", ".join([f"i64 {stride * k}" for k in range(lanes)]) + ">"
    key = ("lanes", stride.text, lanes)
    if key not in frame.root.cache:
        steps, kind = _splat(frame, stride), f"<{lanes} x i64>"
        numbers = _lane_offsets(frame, 1)
        text = frame.enter(frame.root).emit(f"mul nsw {kind} {steps}, {numbers}")
        frame.root.cache[key] = text
    return frame.root.cache[key]


def reverse(frame: Frame, text: str, kind: str, lanes: int) -> str:
    """The lanes of a vector in opposite order."""
    order = ", ".join([f"i32 {k}" for k in range(lanes - 1, -1, -1)])
    return frame.function.emit(
        f"shufflevector {kind} {text}, {kind} poison, <{lanes} x i32> <{order}>"
    )


def _reversed(
    frame: Frame, pointer: str, mask: str | None, dtype: np.dtype
) -> tuple[str, str | None]:
    """The lowest address of a reversed access, and the mask in memory order."""
    lanes = frame.lanes
    low = frame.function.emit(f"getelementptr {memory_type(dtype)}, ptr {pointer}, i64 {1 - lanes}")
    return low, mask and reverse(frame, mask, f"<{lanes} x i1>", lanes)


def emit_store(frame: Frame, s: Store) -> None:
    """Emit a store in the innermost scope."""
    dtype = frame.buffers[s.buffer].dtype
    value = frame.values[s.value]
    address = frame.address(s.buffer, s.index)
    predicate = None if s.predicate is None else frame.values[s.predicate]
    factor = frame.expanded.get(s.buffer, 1)
    indirect = [
        (frame.values[v], stride if factor == 1 else stride * factor) for v, stride in s.scatter
    ]
    vector = address.stride or any([v.lanes > 1 for v, _ in indirect])
    mode = "add" if s.mode == "sum" else s.mode
    if s.mode == "sum" and not vector and frame.lanes > 1:
        value, predicate = _lane_sum(frame, value, predicate, dtype), None
    if not vector and frame.lanes > 1 and (value.lanes > 1 or (predicate and predicate.lanes > 1)):
        vector = True
    if vector:
        redirect = predicate if _can_redirect(frame, predicate, address, indirect, dtype) else None
        mask = frame.masked(None if redirect else predicate)
        if predicate is None and not indirect and _ends_scratch(frame, s.buffer, address):
            mask = None
        function = frame.enter(frame.inner)
        pointer, indirect = _row_start(frame, address, indirect, dtype)
        if redirect:
            pointer = function.emit(f"select i1 {redirect.text}, ptr {pointer}, ptr {SPARE}")
        _vector_store(frame, pointer, address.stride, indirect, dtype, value, mask, mode)
    else:
        frame.enter(frame.inner)
        pointer = _offset_scalar(frame, address.pointer, indirect, dtype)
        _scalar_store(frame, pointer, dtype, value, predicate, mode)


def _lane_sum(frame: Frame, value: Value, predicate: Value | None, dtype: np.dtype) -> Value:
    """The sum of the lanes that are alive and pass a predicate."""
    lanes, mask = frame.lanes, frame.masked(predicate)
    text = frame.spread(value, lanes)
    passes = None if mask is None else frame.spread(mask, lanes)
    frame.enter(frame.inner)
    if passes is not None:
        text = frame.choose(passes, lanes, text, constant(0, dtype, lanes), dtype)
    return Value(fold_lanes(frame, "add", text, dtype, lanes), 1, dtype, frame.inner)


def _can_redirect(
    frame: Frame,
    predicate: Value | None,
    address: Address,
    indirect: Indirect,
    dtype: np.dtype,
) -> bool:
    """Whether a store whose predicate, one for all lanes, fails can write its whole vector to the
    spare memory: then it needs no mask."""
    contiguous = address.stride == 1 and all([v.lanes == 1 for v, _ in indirect])
    fits = frame.lanes * dtype.itemsize <= SPARE_BYTES
    return predicate is not None and predicate.lanes == 1 and contiguous and fits


def _ends_scratch(frame: Frame, name: str, address: Address) -> bool:
    """Whether the dead lanes of a store fall into the padding behind a scratch buffer."""
    buffer = frame.buffers[name]
    if buffer.role != "scratch" or address.position is None or frame.mask is None:
        return False
    live = _live_count(frame)
    inside = live is None or address.position + live != buffer.size
    return address.stride == 1 and name not in frame.expanded and not inside


def _scalar_store(
    frame: Frame, pointer: str, dtype: np.dtype, value: Value, predicate: Value | None, mode: str
) -> None:
    function, kind = frame.function, memory_type(dtype)
    text, after = value.text, ""
    if predicate and mode != "set":
        # What is read waits for all addresses that were written before: a test that is foreseen
        # leaves them known early, a selection between two would not.
        inside, after = function.fresh("inside")[1:], function.fresh("after")[1:]
        function.line(f"br i1 {predicate.text}, label %{inside}, label %{after}")
        function.label(inside)
    elif predicate:
        pointer = function.emit(f"select i1 {predicate.text}, ptr {pointer}, ptr {SPARE}")
    text = _to_memory(frame, text, dtype, 1)
    if mode != "set":
        raw = function.emit(f"load {kind}, ptr {pointer}, align {dtype.itemsize}")
        text = _combined(frame, mode, 1, raw, text, dtype)
    function.line(f"store {kind} {text}, ptr {pointer}, align {dtype.itemsize}")
    if after:
        function.line(f"br label %{after}")
        function.label(after)


def _vector_store(
    frame: Frame,
    pointer: str,
    stride: int | Register,
    indirect: Indirect,
    dtype: np.dtype,
    value: Value,
    mask: Value | None,
    mode: str,
) -> None:
    lanes, scope = frame.lanes, frame.inner
    mask_text = frame.spread(mask, lanes) if mask else None
    one = frame.spread(value, lanes)
    direct = not indirect and stride in (1, -1) and not (mask and _may_truncate(dtype, mask))
    function = frame.enter(scope)
    if mask_text and mask_text.startswith(_FIRST_LANE) and not indirect:
        _store_first(frame, pointer, dtype, one, mode)
        return
    text = _spread_to_memory(frame, value, dtype, lanes)
    live = lanes if mask_text is None else _leading_count(mask_text)
    if _is_close(stride) and live and not indirect and mode == "set":
        _spread_store(frame, pointer, stride, live, dtype, text)
        return
    target = pointer if direct else _lane_pointers(frame, scope, pointer, stride, indirect, dtype)
    if direct and stride == -1:
        target, mask_text = _reversed(frame, pointer, mask_text, dtype)
        text = reverse(frame, text, memory_lanes(dtype, lanes), lanes)
    if mode != "set":
        read = _contiguous if direct else _gather
        raw = read(frame, target, mask_text, dtype, "zeroinitializer")
        # Memory stands last: LLVM makes `p = nan(p) ? p : max(p, x)` a masked store, which is slow.
        text = _combined(frame, mode, lanes, text, raw, dtype)
    kind, size = memory_lanes(dtype, lanes), dtype.itemsize
    if direct and mask_text is None:
        function.line(f"store {kind} {text}, ptr {target}, align {size}")
        return
    if direct and stride == 1 and live and not frame.masks:
        store_pieces(frame, text, target, live, dtype)
        return
    kinds = "ptr" if direct else f"<{lanes} x ptr>"
    suffix = f"{intrinsic_suffix(dtype, lanes)}." + ("p0" if direct else f"v{lanes}p0")
    name = f"@llvm.masked.{'store' if direct else 'scatter'}.{suffix}"
    function.declare(f"declare void {name}({kind}, {kinds}, i32, <{lanes} x i1>)")
    masked = (
        f"call void {name}({kind} {text}, {kinds} {target}, i32 {size}, "
        f"<{lanes} x i1> {mask_text or 'splat (i1 true)'})"
    )
    if direct and stride == 1 and _is_tail(frame, mask):
        store_tail(frame, text, target, dtype, masked)
    else:
        function.line(masked)


_FIRST_LANE = "<i1 true, i1 false"


def _store_first(frame: Frame, pointer: str, dtype: np.dtype, text: str, mode: str) -> None:
    """Store the first lane of a vector.

    All is computed in the vector, behind a fence: LLVM would compute one number instead, and not
    fuse a product into a sum as it does in vectors.
    """
    function, lanes = frame.function, frame.lanes
    kind, memory = lane_type(dtype, lanes), memory_type(dtype)
    if mode != "set":
        raw = function.emit(f"load {memory}, ptr {pointer}, align {dtype.itemsize}")
        raw = function.emit(
            f"insertelement {memory_lanes(dtype, lanes)} zeroinitializer, {memory} {raw}, i64 0"
        )
        text = frame.combine(mode, lanes, text, _from_memory(frame, raw, dtype, lanes), dtype)
    if dtype.kind == "f":
        name = f"@llvm.arithmetic.fence.{intrinsic_suffix(dtype, lanes)}"
        function.declare(f"declare {kind} {name}({kind})")
        text = function.emit(f"call {kind} {name}({kind} {text})")
    first = function.emit(f"extractelement {kind} {text}, i64 0")
    stored = _to_memory(frame, first, dtype, 1)
    function.line(f"store {memory} {stored}, ptr {pointer}, align {dtype.itemsize}")


def _may_truncate(dtype: np.dtype, mask: Value) -> bool:
    """Whether LLVM 22 could write dead lanes of a masked store.

    It turns a masked store of truncated integers into a wide scalar store where it finds the mask
    to be a constant with one lane.  Masks of loop tails are either spelt out or truly variable, but
    the mask of a predicate may fold to such a constant; a scatter is not affected.
    """
    spelt = mask.text.startswith("<")
    return dtype.kind in "iub" and dtype.itemsize < 8 and not spelt and not mask.is_tail
