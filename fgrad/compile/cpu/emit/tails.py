"""L5. The last vector of a row, of which only the first lanes are stored.

With AVX-512 a masked store is as fast as any.  AVX2 takes 12 cycles or more for one, and has none
for elements of one or two bytes; others have none at all.  A number of lanes that is known is
stored in pieces, 13 as 8 + 4 + 1.  Loops that mask every pass look whether the vector is whole.
"""

from __future__ import annotations

import numpy as np

from fgrad.compile.cpu.emit.frame import Frame
from fgrad.compile.kernel.machine import MASKED_BYTES
from fgrad.compile.llvm.text import memory_lanes, memory_type


def store_pieces(frame: Frame, text: str, pointer: str, live: int, dtype: np.dtype) -> None:
    """Store the first `live` lanes of a vector as vectors of 2^k lanes."""
    function, lanes = frame.function, frame.lanes
    kind, element, size = memory_lanes(dtype, lanes), memory_type(dtype), dtype.itemsize
    first, piece = 0, lanes
    while first < live:
        while piece > live - first:
            piece //= 2
        at = pointer
        if first:
            at = function.emit(f"getelementptr {element}, ptr {pointer}, i64 {first}")
        order = ", ".join([f"i32 {first + k}" for k in range(piece)])
        if piece == 1:
            part = function.emit(f"extractelement {kind} {text}, i64 {first}")
        elif piece < lanes:
            part = function.emit(
                f"shufflevector {kind} {text}, {kind} poison, <{piece} x i32> <{order}>"
            )
        else:
            part = text
        function.line(f"store {memory_lanes(dtype, piece)} {part}, ptr {at}, align {size}")
        first += piece


def store_apart(
    frame: Frame, text: str, pointer: str, stride: int, live: int, dtype: np.dtype
) -> None:
    """Store the first `live` lanes of a vector at every `stride`-th place, one by one."""
    function, element = frame.function, memory_type(dtype)
    kind = memory_lanes(dtype, frame.lanes)
    for lane in range(live):
        one = function.emit(f"extractelement {kind} {text}, i64 {lane}")
        at = function.emit(f"getelementptr {element}, ptr {pointer}, i64 {lane * stride}")
        function.line(f"store {element} {one}, ptr {at}, align {dtype.itemsize}")


def store_tail(frame: Frame, text: str, pointer: str, dtype: np.dtype, masked: str) -> None:
    """Store a vector if the pass of the loop has all lanes, else run the line `masked`, or store
    the lanes one by one where the target has no such instruction."""
    assert frame.tail is not None
    function, element, size = frame.function, memory_type(dtype), dtype.itemsize
    kind = memory_lanes(dtype, frame.lanes)
    stem, live = _branch(frame)
    function.line(f"store {kind} {text}, ptr {pointer}, align {size}")
    function.line(f"br label %{stem}_done")
    function.label(f"{stem}_part")
    if size >= MASKED_BYTES:
        function.line(masked)
        function.line(f"br label %{stem}_done")
    else:
        i, following = _each_lane(frame, stem)
        one = function.emit(f"extractelement {kind} {text}, i64 {i}")
        at = function.emit(f"getelementptr {element}, ptr {pointer}, i64 {i}")
        function.line(f"store {element} {one}, ptr {at}, align {size}")
        _again(frame, stem, i, following, live)
    function.label(f"{stem}_done")


def load_tail(frame: Frame, pointer: str, dtype: np.dtype) -> str:
    """A vector if the pass of the loop has all lanes, else the live lanes one by one, and zeros."""
    function, element, size = frame.function, memory_type(dtype), dtype.itemsize
    kind = memory_lanes(dtype, frame.lanes)
    stem, live = _branch(frame)
    whole = function.emit(f"load {kind}, ptr {pointer}, align {size}")
    function.line(f"br label %{stem}_done")
    function.label(f"{stem}_part")
    part = function.fresh()
    i, following = _each_lane(frame, stem)
    before = function.fresh()
    function.line(
        f"{before} = phi {kind} [ zeroinitializer, %{stem}_part ], [ {part}, %{stem}_each ]"
    )
    at = function.emit(f"getelementptr {element}, ptr {pointer}, i64 {i}")
    one = function.emit(f"load {element}, ptr {at}, align {size}")
    function.line(f"{part} = insertelement {kind} {before}, {element} {one}, i64 {i}")
    _again(frame, stem, i, following, live)
    function.label(f"{stem}_done")
    return function.emit(f"phi {kind} [ {whole}, %{stem}_whole ], [ {part}, %{stem}_each ]")


def _branch(frame: Frame) -> tuple[str, str]:
    """Begin the block of a whole vector: the stem of labels, and how many lanes are alive."""
    assert frame.tail is not None
    function = frame.function
    stem = function.fresh("tail")[1:]
    whole, live = frame.tail
    function.line(f"br i1 {whole}, label %{stem}_whole, label %{stem}_part")
    function.label(f"{stem}_whole")
    return stem, live


def _each_lane(frame: Frame, stem: str) -> tuple[str, str]:
    """Begin a loop over the live lanes: the lane, and the name of the next."""
    function = frame.function
    i, following = function.fresh(), function.fresh()
    function.line(f"br label %{stem}_each")
    function.label(f"{stem}_each")
    function.line(f"{i} = phi i64 [ 0, %{stem}_part ], [ {following}, %{stem}_each ]")
    return i, following


def _again(frame: Frame, stem: str, i: str, following: str, live: str) -> None:
    """End a loop over the live lanes."""
    function = frame.function
    function.line(f"{following} = add i64 {i}, 1")
    again = function.emit(f"icmp slt i64 {following}, {live}")
    function.line(f"br i1 {again}, label %{stem}_each, label %{stem}_done")
