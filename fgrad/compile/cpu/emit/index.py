"""L5. Index values as LLVM text: the integer value of an affine map of the loop variables."""

from __future__ import annotations

import numpy as np

from fgrad.base.sizes import NotShared
from fgrad.compile.cpu.emit.frame import Frame, Scope, Value
from fgrad.compile.cpu.emit.numbers import Register
from fgrad.compile.kernel.ir import Affine
from fgrad.compile.llvm.text import element_type, lane_type, literal


def emit_index(frame: Frame, index: Affine, dtype: np.dtype) -> Value:
    """`const + sum(stride * axis)` as a value of `dtype`, a vector along the vector axis."""
    const, stride, scope, terms = 0, 0, frame.root, []
    for name, step in index.terms:
        axis = frame.axes[name]
        if axis.offset and isinstance(step, Register):
            terms.append((frame.root, str(axis.offset), step))
        elif axis.offset:
            const += step * axis.offset
        if axis.lanes > 1:
            stride = step
        if axis.text is not None:
            scope = frame.deepest(scope, axis.scope)
            terms.append((scope, axis.text, step))
    if isinstance(index.const, Register):
        terms.append((frame.root, index.const.text, 1))
    else:
        const += index.const
    if scope is frame.root and (terms or isinstance(stride, Register)):
        raise NotShared("an index that LLVM would know")
    return _sum(frame, const, terms, stride, scope, dtype)


def _sum(
    frame: Frame,
    const: int,
    terms: list[tuple[Scope, str, int | Register]],
    stride: int | Register,
    scope: Scope,
    dtype: np.dtype,
) -> Value:
    text, inner = None, frame.root
    for place, factor, step in sorted(terms, key=lambda term: term[0].depth):
        inner = frame.deepest(inner, place)
        term = factor if step == 1 else frame.enter(place).emit(f"mul nsw i64 {factor}, {step}")
        text = term if text is None else frame.enter(inner).emit(f"add nsw i64 {text}, {term}")
    integer = dtype if dtype.kind in "iu" else np.dtype(np.int64)
    if text is None and not stride:
        return Value(literal(const, dtype), 1, dtype, frame.root, True)
    function = frame.enter(scope)
    if text is None:
        text = literal(const, integer)
    else:
        if const:
            text = function.emit(f"add nsw i64 {text}, {const}")
        if integer.itemsize < 8:
            text = function.emit(f"trunc i64 {text} to {element_type(integer)}")
    lanes = frame.lanes if stride else 1
    if stride:
        text = _ramp(frame, text, stride, integer, lanes)
    if dtype.kind == "f":
        kinds = lane_type(integer, lanes), lane_type(dtype, lanes)
        text = function.emit(f"sitofp {kinds[0]} {text} to {kinds[1]}")
    return Value(text, lanes, dtype, scope)


def _ramp(frame: Frame, base: str, stride: int | Register, dtype: np.dtype, lanes: int) -> str:
    """`base + stride * lane` in every lane."""
    scope, kind = frame.scope, lane_type(dtype, lanes)
    if isinstance(stride, Register):
        steps = _multiples(frame, stride, dtype, lanes)
    else:
        element = element_type(dtype)
        numbers = [f"{element} {literal(stride * k, dtype)}" for k in range(lanes)]
        steps = f"<{', '.join(numbers)}>"
    first = frame.splat(base, dtype, lanes, scope)
    return frame.enter(scope).emit(f"add {kind} {first}, {steps}")


def _multiples(frame: Frame, stride: Register, dtype: np.dtype, lanes: int) -> str:
    """`stride * lane` in every lane."""
    element, text = element_type(dtype), stride.text
    if dtype.itemsize < 8:
        text = frame.enter(frame.root).emit(f"trunc i64 {text} to {element}")
    strides = frame.splat(text, dtype, lanes, frame.root)
    numbers = ", ".join([f"{element} {k}" for k in range(lanes)])
    function = frame.enter(frame.root)
    return function.emit(f"mul {lane_type(dtype, lanes)} {strides}, <{numbers}>")
