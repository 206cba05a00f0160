"""L5. The state of one function being emitted: scopes, values, axes, addresses and masks.

Every open loop is a scope with its own lines, so that an instruction can be placed in the outermost
scope where its operands live: loop-invariant code leaves loops while it is written, and no LLVM
pass has to move it.  Values are scalars (1 lane) until a vector axis touches them; scalars are
splatted in their own scope when a vector instruction needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.cpu.emit.numbers import Register
from fgrad.compile.kernel.ir import Affine, Buffer
from fgrad.compile.llvm.text import FunctionText, element_type, lane_type, memory_type
from fgrad.compile.llvm.vector.scalar_llvm import ACCUMULATE, AVX512_LLVM
from fgrad.errors import CheckError

Emit: TypeAlias = Callable[[FunctionText, int, Sequence[str], np.dtype, np.dtype], str]
BOOL = np.dtype(bool)


class Scope:
    """The inside of one open loop (or of the function, at depth 0)."""

    __slots__ = ("block", "cache", "depth", "lines", "stored")

    def __init__(self, depth: int, block: str, stored: frozenset[str]) -> None:
        self.depth = depth
        self.block = block
        self.stored = stored  # buffers that the loop's body stores to
        self.lines: list[str] = []
        self.cache: dict[tuple, Any] = {}  # texts already computed in this scope


class Value(NamedTuple):
    """An SSA value, or a constant (whose text is the literal of one element)."""

    text: str
    lanes: int
    dtype: np.dtype
    scope: Scope
    is_literal: bool = False
    is_tail: bool = False  # the mask of live lanes in the last pass of a loop


class Axis(NamedTuple):
    """The position on an axis: `text + offset + (0 .. lanes-1)`; no text means 0."""

    text: str | None
    offset: int
    lanes: int
    scope: Scope


class Address(NamedTuple):
    """A scalar pointer, its scope, and the stride along the vector axis in elements.

    `position` is the element's number if it is a constant.
    """

    pointer: str
    scope: Scope
    stride: int | Register
    position: int | None


class Frame:
    """One function under construction."""

    def __init__(self, ops: dict[str, Emit]) -> None:
        self.ops = ops
        self.function = FunctionText()
        self.root = Scope(0, "entry", frozenset())
        self.scope = self.root
        self.function.lines = self.root.lines
        self.scopes = [self.root]
        self.buffers: dict[str, Buffer] = {}
        self.bases: dict[str, str] = {}
        self.expanded: dict[str, int] = {}  # scratch buffers with one copy for each lane
        self.values: dict[int, Value] = {}
        self.axes: dict[str, Axis] = {}
        self.lanes = 1  # of the open vector loop
        self.mask: Value | None = None
        self.masks = ops is AVX512_LLVM  # whether masked stores are as fast as others
        self.tail: tuple[str, str] | None = None  # in a masked loop: if all lanes live; how many do

    # --- scopes

    @property
    def inner(self) -> Scope:
        """The innermost open scope."""
        return self.scopes[-1]

    def enter(self, scope: Scope) -> FunctionText:
        """Direct further text into `scope`."""
        function = self.function
        if scope is not self.scope:
            self.scope.block = function.block
            self.scope = scope
            function.lines = scope.lines
            function.block = scope.block
        return function

    def open(self, block: str, stored: frozenset[str]) -> Scope:
        """Open a loop scope whose first block is `block`."""
        scope = Scope(len(self.scopes), block, stored)
        self.scopes.append(scope)
        self.enter(scope)
        return scope

    def close(self) -> tuple[list[str], str]:
        """Close the innermost scope; returns its lines and last block, and enters the parent."""
        scope = self.scopes[-1]
        self.enter(scope)
        block = self.function.block
        self.enter(self.scopes[-2])
        self.scopes.pop()
        return scope.lines, block

    def after_stores(self, buffer: str) -> Scope:
        """The outermost scope in which a load of `buffer` may be placed."""
        if self.buffers[buffer].role == "in":
            return self.root
        for scope in reversed(self.scopes):
            if buffer in scope.stored:
                return scope
        return self.root

    # --- values

    def spread(self, value: Value, lanes: int) -> str:
        """The operand text of `value` for `lanes` lanes."""
        if value.lanes == lanes:
            return value.text
        if value.is_literal:
            return f"splat ({element_type(value.dtype)} {value.text})"
        return self.splat(value.text, value.dtype, lanes, value.scope)

    def splat(self, text: str, dtype: np.dtype, lanes: int, scope: Scope) -> str:
        """The scalar `text`, which lives in `scope`, in every lane."""
        key = (text, lanes, dtype)
        found = scope.cache.get(key)
        if found is None:
            before = self.scope
            function = self.enter(scope)
            element, vector = element_type(dtype), lane_type(dtype, lanes)
            first = function.emit(f"insertelement {vector} poison, {element} {text}, i64 0")
            found = function.emit(
                f"shufflevector {vector} {first}, {vector} poison, <{lanes} x i32> zeroinitializer"
            )
            scope.cache[key] = found
            self.enter(before)
        return found

    def apply(self, op: str, args: Sequence[Value], dtype: np.dtype, scope: Scope) -> Value:
        """One scalar operation on values of equal or single lanes, placed in `scope`."""
        lanes = max([a.lanes for a in args])
        texts = [self.spread(a, lanes) for a in args]
        function = self.enter(scope)
        text = self.ops[op](function, lanes, texts, args[-1].dtype, dtype)
        return Value(text, lanes, dtype, scope)

    def combine(self, op: str, lanes: int, a: str, b: str, dtype: np.dtype) -> str:
        """A step of an accumulator: `op(a, b)` on texts, where text is being written now."""
        row = ACCUMULATE.get(op, self.ops[op])
        return row(self.function, lanes, [a, b], dtype, dtype)

    def choose(self, mask: str, lanes: int, yes: str, no: str, dtype: np.dtype) -> str:
        """`select mask, yes, no` on operand texts, where text is being written now."""
        kind = lane_type(dtype, lanes)
        condition = lane_type(BOOL, lanes)
        return self.function.emit(f"select {condition} {mask}, {kind} {yes}, {kind} {no}")

    # --- addresses

    def address(self, name: str, index: Affine) -> Address:
        """The address of `name[index]` at the first lane, computed scope by scope."""
        buffer = self.buffers[name]
        spread = self.expanded.get(name, 1)
        const, stride = 0, 0 if spread == 1 else 1
        dynamic: list[tuple[int, str, int | Register]] = []
        if isinstance(index.const, Register):
            dynamic.append((0, index.const.text, spread))
        else:
            const = index.const * spread
        for axis_name, step in index.terms:
            axis = self.axes[axis_name]
            if not isinstance(step, Register):
                const += step * axis.offset * spread
            elif axis.offset:
                dynamic.append((0, str(axis.offset * spread), step))
            if axis.lanes > 1:
                if spread > 1:
                    raise CheckError(f"scratch buffer {name} is shared by the lanes of {axis_name}")
                stride = step
            if axis.text is not None:
                dynamic.append(
                    (axis.scope.depth, axis.text, step if spread == 1 else step * spread)
                )
        pointer, scope = self.bases[name], self.root
        for depth, text, step in sorted(dynamic, key=lambda term: term[:2]):
            scope = self.scopes[depth]
            pointer = self._advance(pointer, text, step, buffer.dtype, scope)
        if const:
            pointer = self._advance(pointer, str(const), 1, buffer.dtype, scope)
        return Address(pointer, scope, stride, None if dynamic else const)

    def _advance(
        self, pointer: str, text: str, step: int | Register, dtype: np.dtype, scope: Scope
    ) -> str:
        key = (pointer, text, str(step))
        found = scope.cache.get(key)
        if found is None:
            before = self.scope
            function = self.enter(scope)
            offset = text if step == 1 else function.emit(f"mul nsw i64 {text}, {step}")
            found = function.emit(
                f"getelementptr {memory_type(dtype)}, ptr {pointer}, i64 {offset}"
            )
            scope.cache[key] = found
            self.enter(before)
        return found

    def deepest(self, *scopes: Scope) -> Scope:
        """The innermost of some open scopes."""
        return max(scopes, key=lambda scope: scope.depth)

    def masked(self, predicate: Value | None) -> Value | None:
        """The lanes of the open vector loop that are alive and pass `predicate`; None means all."""
        mask = self.mask
        if predicate is None or mask is None:
            return mask if predicate is None else predicate
        scope = self.deepest(mask.scope, predicate.scope)
        function = self.enter(scope)
        lanes = self.lanes
        both = function.emit(
            f"and <{lanes} x i1> {self.spread(mask, lanes)}, {self.spread(predicate, lanes)}"
        )
        return Value(both, lanes, BOOL, scope)


def intrinsic_suffix(dtype: np.dtype, lanes: int) -> str:
    """How intrinsics spell a memory vector: `v16f32`."""
    letter = "f" if dtype.kind == "f" else "i"
    return f"v{lanes}{letter}{8 * dtype.itemsize}"
