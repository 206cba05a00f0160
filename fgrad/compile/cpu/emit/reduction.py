"""L5. Accumulators as LLVM text: several vector partials, combined by a shuffle tree when read.

An accumulator that is updated inside a vector loop is kept as `parts` independent vectors of
partial results (one for each unrolled copy, to hide the latency of the operation); inside a vector
loop that encloses the accumulator itself every lane has its own, and nothing is combined.
"""

from __future__ import annotations

import numpy as np

from fgrad.compile.cpu.emit.frame import Frame, Scope, Value
from fgrad.compile.kernel.ir import Init, Loop, Read, Ref, Statement, Update
from fgrad.compile.kernel.rewrite import identity
from fgrad.compile.llvm.text import constant, element_type, lane_type

MAX_PARTS = 8


class Accumulator:
    """The present partial results of one accumulator, as operand texts."""

    __slots__ = ("dtype", "folds", "lanes", "op", "parts", "scope", "start")

    def __init__(self, s: Init, lanes: int, parts: list[str], folds: bool, scope: Scope) -> None:
        self.op = s.op
        self.dtype = s.dtype
        self.lanes = lanes
        self.parts = parts
        self.folds = folds  # whether a read combines the lanes
        self.start: Value | None = None  # combined at the read
        self.scope = scope


def partial_shapes(body: tuple[Statement, ...]) -> dict[str, tuple[int, int]]:
    """For each accumulator: the lanes and the number of partials that its updates ask for."""
    shapes: dict[str, tuple[int, int]] = {}
    depth_of: dict[str, int] = {}

    def walk(body: tuple[Statement, ...], loops: list[Loop]) -> None:
        for s in body:
            if isinstance(s, Init):
                depth_of[s.acc] = len(loops)
                shapes[s.acc] = (1, 1)
            elif isinstance(s, Update):
                around = loops[depth_of[s.acc] :]
                lanes, parts = shapes[s.acc]
                lanes = max([lanes, *[loop.lanes for loop in around]])
                unrolled = [loop.unroll for loop in around if loop.kind == "reduce"]
                shapes[s.acc] = (lanes, min(MAX_PARTS, max([parts, *unrolled])))
            elif isinstance(s, Loop):
                walk(s.body, [*loops, s])

    walk(body, [])
    return shapes


def emit_init(frame: Frame, s: Init, shape: tuple[int, int]) -> Accumulator:
    """Begin an accumulator; `shape` is its row of `partial_shapes`."""
    scope, own = frame.inner, frame.lanes
    lanes, parts = (own, shape[1]) if own > 1 else shape
    if isinstance(s.start, Ref):
        start = frame.values[s.start.id]
    else:
        start = Value(constant(s.start, s.dtype, 1), 1, s.dtype, frame.root, True)
    if s.op == "carry" or lanes * parts == 1 or (own > 1 and parts == 1):
        return Accumulator(s, lanes, [frame.spread(start, lanes)], False, scope)
    neutral = identity(s.op, s.dtype)
    folds = own == 1 and lanes > 1
    if not isinstance(s.start, Ref) and s.start == neutral:
        return Accumulator(s, lanes, [frame.spread(start, lanes)] * parts, folds, scope)
    texts = [constant(neutral, s.dtype, lanes)] * parts
    accumulator = Accumulator(s, lanes, texts, folds, scope)
    accumulator.start = start
    return accumulator


def emit_update(frame: Frame, accumulator: Accumulator, value: Value, copy: int) -> None:
    """`acc = op(acc, value)` in the partial of the unrolled copy.

    Where lanes are combined in the end, only live ones count; else nobody reads the others.
    """
    a, lanes = accumulator, accumulator.lanes
    part = copy % len(a.parts)
    old = a.parts[part]
    inserts = a.folds and frame.lanes == 1
    new = "" if inserts else frame.spread(value, lanes)
    mask = frame.spread(frame.mask, lanes) if frame.mask is not None and a.folds else None
    function = frame.enter(frame.inner)
    if inserts:
        kind, element = lane_type(a.dtype, lanes), element_type(a.dtype)
        neutral = constant(identity(a.op, a.dtype), a.dtype, lanes)
        new = function.emit(f"insertelement {kind} {neutral}, {element} {value.text}, i64 0")
    if a.op != "carry":
        new = frame.combine(a.op, lanes, new, old, a.dtype)
    if mask is not None:
        new = frame.choose(mask, lanes, new, old, a.dtype)
    a.parts[part] = new
    a.scope = frame.inner


def emit_read(frame: Frame, s: Read, accumulator: Accumulator) -> Value:
    """The accumulator's value: partials combined, then lanes, then the start."""
    a, lanes = accumulator, accumulator.lanes
    frame.enter(a.scope)
    parts = list(a.parts)
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=False)
        odd = parts[len(parts) & ~1 :]
        parts = [frame.combine(a.op, lanes, x, y, a.dtype) for x, y in pairs] + odd
    text = parts[0]
    if a.folds:
        text, lanes = fold_lanes(frame, a.op, text, a.dtype, lanes), 1
    value = Value(text, lanes, a.dtype, a.scope)
    if a.start is not None:
        value = frame.apply(a.op, [a.start, value], a.dtype, a.scope)
    return value


def fold_lanes(frame: Frame, op: str, text: str, dtype: np.dtype, lanes: int) -> str:
    """Combine the lanes of a vector by a tree of shuffles; returns a scalar."""
    function, element = frame.function, element_type(dtype)
    while lanes > 1:
        kind, half = f"<{lanes} x {element}>", lanes // 2
        order = [", ".join([f"i32 {k}" for k in range(at, at + half)]) for at in (0, half)]
        low, high = [
            function.emit(f"shufflevector {kind} {text}, {kind} poison, <{half} x i32> <{o}>")
            for o in order
        ]
        lanes = half
        if lanes == 1:
            low, high = [
                function.emit(f"extractelement <1 x {element}> {v}, i64 0") for v in (low, high)
            ]
        text = frame.combine(op, lanes, low, high, dtype)
    return text
