"""L5. Masks of a vector loop's live lanes as LLVM text.

Every pass but the last has all lanes, so what the last one has is computed once, in front of the
loop, and a pass chooses one of two words.
"""

from __future__ import annotations

import numpy as np

from fgrad.compile.cpu.emit.facts import Span
from fgrad.compile.cpu.emit.frame import BOOL, Frame, Scope, Value

LEAST_BITS = 8  # lanes from which a mask is a word


def leading(frame: Frame, live: int, lanes: int) -> Value:
    """The constant mask whose first `live` lanes are true."""
    text = "<" + ", ".join([f"i1 {str(k < live).lower()}" for k in range(lanes)]) + ">"
    return Value(text, lanes, BOOL, frame.root)


def live_lanes(frame: Frame, counter: str, span: Span) -> Value:
    """The mask of lanes below `stop`; it is the same in all runs of a loop of one pass."""
    live = span.only_pass()
    if live is not None:
        return leading(frame, live, span.lanes)
    key = ("live", span.start, span.stop, span.lanes)
    if not span.is_short:
        texts = _live_texts(frame, counter, span, frame.inner)
    elif (texts := frame.root.cache.get(key)) is None:
        texts = frame.root.cache[key] = _live_texts(frame, span.start, span, frame.root)
    mask, frame.tail = texts[0], texts[1:]
    scope = frame.root if span.is_short else frame.inner
    return Value(mask, span.lanes, BOOL, scope, is_tail=True)


def _live_texts(frame: Frame, first: str, span: Span, scope: Scope) -> tuple[str, str, str]:
    """The mask, whether all lanes are alive, and how many are, in the pass from `first` on."""
    lanes = span.lanes
    outside = frame.enter(frame.root)
    most = outside.emit(f"sub nsw i64 {span.stop}, {lanes}")
    left = outside.emit(f"sub nsw i64 {span.stop}, {span.start}")
    rest = outside.emit(f"and i64 {left}, {lanes - 1}")
    last = _word(frame, rest, lanes) if lanes >= LEAST_BITS else ""
    function = frame.enter(scope)
    whole = function.emit(f"icmp sle i64 {first}, {most}")
    live = function.emit(f"select i1 {whole}, i64 {lanes}, i64 {rest}")
    if last:
        bits = function.emit(f"select i1 {whole}, i{lanes} -1, i{lanes} {last}")
        mask = function.emit(f"bitcast i{lanes} {bits} to <{lanes} x i1>")
        return mask, whole, live
    narrow = function.emit(f"trunc i64 {live} to i32")
    bound = frame.splat(narrow, np.dtype(np.int32), lanes, scope)
    numbers = ", ".join([f"i32 {k}" for k in range(lanes)])
    mask = frame.enter(scope).emit(f"icmp slt <{lanes} x i32> <{numbers}>, {bound}")
    return mask, whole, live


def _word(frame: Frame, live: str, lanes: int) -> str:
    """A word with the first `live` bits set, in front of all loops."""
    outside, kind = frame.enter(frame.root), f"i{lanes}"
    count = live
    if lanes != 64:
        count = outside.emit(f"{'trunc' if lanes < 64 else 'zext'} i64 {live} to {kind}")
    power = outside.emit(f"shl {kind} 1, {count}")
    return outside.emit(f"sub {kind} {power}, 1")
