"""L6. Indices and memory accesses of a kernel's body, as LLVM text.

A thread may run a tile of iterations side by side: values are tuples then, with a name for each
iteration, or one where all share it.  What several iterations load is loaded once; where neighbours
are neighbours in memory, one access of up to 128 bits serves them all.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import nullcontext
from typing import TypeVar

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.kernel.ir import Affine, Load, Store
from fgrad.compile.llvm.text import element_type, literal, memory_lanes, memory_type
from fgrad.lower_cuda.emit.forms import is_aligned
from fgrad.lower_cuda.emit.scalar_cuda import SCALAR_CUDA
from fgrad.lower_cuda.emit.text import BodyText, Pointer

T = TypeVar("T")
Names = tuple[str, ...]


class Home(NamedTuple):
    """Where a buffer is: the address of its first element.

    `registers` says that each lane of a team has its own elements of a shared loop here, in the
    order in which it takes them.
    """

    first: Pointer
    dtype: np.dtype
    size: int
    registers: bool = False


class Axes:
    """The values of the loop variables, and affine maps of them.

    Iterations of a tile stand side by side: its axes have the values of the first one, and
    `offsets` is what the others are further on.  The last axis of a tile is the fastest.
    """

    def __init__(self, text: BodyText, wide: bool) -> None:
        self.text = text
        self.type = "i64" if wide else "i32"
        self.values: dict[str, str | int] = {}
        self.slot: int | None = None  # the place of this tile among a lane's registers
        self.set_tile({})

    def set_tile(self, sizes: dict[str, int]) -> None:
        """From now on iterations of a tile of these sizes stand side by side."""
        self.tile = {axis: size for axis, size in sizes.items() if size > 1}
        places = itertools.product(*[range(size) for size in self.tile.values()])
        self.offsets = [dict(zip(self.tile, place, strict=True)) for place in places]

    @property
    def copies(self) -> int:
        """How many iterations stand side by side."""
        return len(self.offsets)

    @property
    def run(self) -> tuple[str, int]:
        """The last axis of the tile and its size."""
        return next(reversed(self.tile.items()), ("", 1))

    def own(self, index: Affine, copy: int) -> tuple[int, ...]:
        """What makes an index of one iteration different from that of others."""
        offsets = self.offsets[copy]
        return tuple([offsets[axis] for axis, _ in index.terms if axis in offsets])

    def varies(self, index: Affine) -> bool:
        """Whether iterations of the tile differ."""
        return any([axis in self.tile for axis, _ in index.terms])

    def affine(self, index: Affine, copy: int = 0) -> str:
        """The value of a map for one iteration of the tile."""
        const, offsets = index.const, self.offsets[copy]
        parts: list[str] = []
        for axis, stride in index.terms:
            value = self.values[axis]
            const += offsets.get(axis, 0) * stride
            if isinstance(value, int):
                const += value * stride
            else:
                parts.append(self.scaled(value, stride))
        if const or not parts:
            parts.append(str(const))
        total = parts[0]
        for part in parts[1:]:
            total = self.op("add", total, part)
        return total

    def op(self, opcode: str, a: str | int, b: str | int) -> str:
        """One instruction on indices."""
        return self.text.op(opcode, self.type, a, b)

    def scaled(self, value: str, stride: int) -> str:
        """An index times a stride."""
        return value if stride == 1 else self.op("mul", value, stride)

    def compare(self, condition: str, a: str | int, b: str | int) -> str:
        """A comparison of indices."""
        return self.text.compare(condition, self.type, a, b)

    def thread(self, name: str) -> str:
        """A number that the device gives, such as `%x`, as an index."""
        return name if self.type == "i32" else self.text.wide(name)

    def narrowed(self, value: str) -> str:
        """An int64 as an index."""
        return self.text.cast("trunc", "i64", value, self.type) if value.startswith("%") else value

    def widened(self, value: str) -> str:
        """An index as an int64."""
        return self.text.cast("sext", self.type, value, "i64") if value.startswith("%") else value


class Memory:
    """Loads and stores of a body, whose values are known by their ids."""

    def __init__(
        self, text: BodyText, axes: Axes, values: Mapping[int, Names], atomic: bool = False
    ) -> None:
        self.text, self.axes, self.values = text, axes, values
        self.atomic = atomic  # whether elements are changed by atomic instructions
        self.homes: Mapping[str, Home] = {}

    def load(self, s: Load) -> Names:
        """The values of a load."""
        home, axes = self.homes[s.buffer], self.axes
        copies = range(axes.copies)
        if home.registers:
            return tuple([self.read(home, self._own(k)) for k in copies])
        inputs = [self.values[v] for v, _ in s.gather]
        inputs += [self.values[s.predicate]] if s.predicate is not None else []
        if not axes.varies(s.index) and all([len(x) == 1 for x in inputs]):
            return (self._one(s, home, 0),)
        if not inputs and self._is_whole(s.index):
            size = axes.run[1]
            starts = [self._key(s.index, [], k) for k in copies[::size]]
            rows = memoised(starts, lambda k: self._vector(home, s.index, k * size))
            return tuple(itertools.chain(*rows))
        keys = [self._key(s.index, inputs, k) for k in copies]
        return tuple(memoised(keys, lambda k: self._one(s, home, k)))

    def _key(self, index: Affine, inputs: Sequence[Names], copy: int) -> Hashable:
        """What decides of the element that an iteration loads."""
        return self.axes.own(index, copy), *[of(x, copy) for x in inputs]

    def _is_whole(self, index: Affine) -> bool:
        """Whether the run of a tile is one access."""
        axis, size = self.axes.run
        return (axis, 1) in index.terms and is_aligned(index, axis, size)

    def _own(self, copy: int) -> str:
        """The index of an iteration among a lane's registers."""
        slot = self.axes.slot
        assert isinstance(slot, int)
        return str(slot * self.axes.copies + copy)

    def _one(self, s: Load, home: Home, copy: int) -> str:
        """One element; where the predicate is false memory is not touched: element 0 is read."""
        if s.predicate is None:
            return self.read(home, self._index(s.index, s.gather, copy))
        other = literal(s.other, home.dtype)
        if home.size == 0:
            return other
        predicate = of(self.values[s.predicate], copy)
        index = self._index(s.index, s.gather, copy)
        value = self.read(home, self.text.select(predicate, self.axes.type, index, 0))
        return self.text.select(predicate, element_type(home.dtype), value, other)

    def _index(self, index: Affine, indirect: Sequence[tuple[int, int]], copy: int) -> str:
        axes = self.axes
        total = axes.affine(index, copy)
        for id, stride in indirect:
            part = axes.scaled(axes.narrowed(of(self.values[id], copy)), stride)
            total = axes.op("add", total, part)
        return total

    def read(self, home: Home, index: str) -> str:
        """One element."""
        value = self.text.load(home.first, index, self.axes.type, home.dtype.itemsize)
        return self.text.from_memory(value, home.dtype)

    def _run(self, home: Home, index: Affine, copy: int) -> tuple[Pointer, int]:
        """A run of neighbours as one vector in memory: its address, and its bytes."""
        lanes = self.axes.run[1]
        at = self.text.at(home.first, self.axes.affine(index, copy), self.axes.type)
        return self.text.view(at, memory_lanes(home.dtype, lanes)), lanes * home.dtype.itemsize

    def _vector(self, home: Home, index: Affine, copy: int) -> Names:
        at, nbytes = self._run(home, index, copy)
        whole = self.text.load(at, align=nbytes)
        names = []
        for k in range(self.axes.run[1]):
            one = self.text.emit(f"extractelement {at.kind} {whole}, i32 {k}")
            names.append(self.text.from_memory(one, home.dtype))
        return tuple(names)

    # --- stores

    def store(self, s: Store) -> None:
        """Memory written, in the order of the iterations."""
        home, axes = self.homes[s.buffer], self.axes
        if home.registers:
            for k in range(axes.copies):
                self._put(home, s.mode, self._own(k), of(self.values[s.value], k))
            return
        plain = s.mode == "set" and not s.scatter and s.predicate is None
        if axes.copies > 1 and plain and self._is_whole(s.index):
            for k in range(0, axes.copies, axes.run[1]):
                self._store_vector(home, s, k)
            return
        for k in range(axes.copies):
            self._store_one(home, s, k)

    def _store_vector(self, home: Home, s: Store, copy: int) -> None:
        text, element = self.text, memory_type(home.dtype)
        at, nbytes = self._run(home, s.index, copy)
        whole = "undef"
        for k in range(self.axes.run[1]):
            one = text.to_memory(of(self.values[s.value], copy + k), home.dtype)
            whole = text.emit(f"insertelement {at.kind} {whole}, {element} {one}, i32 {k}")
        text.store(whole, at, align=nbytes)

    def _store_one(self, home: Home, s: Store, copy: int) -> None:
        predicate = None if s.predicate is None else of(self.values[s.predicate], copy)
        with nullcontext() if predicate is None else self.text.when(predicate):
            index = self._index(s.index, s.scatter, copy)
            change = self._change if s.mode != "set" and self.atomic else self._put
            change(home, s.mode, index, of(self.values[s.value], copy))

    def _put(self, home: Home, mode: str, index: str, value: str) -> None:
        """One element written, or joined with what it was."""
        if mode != "set":
            row = SCALAR_CUDA[mode]
            value = row(self.text, [self.read(home, index), value], home.dtype, home.dtype)
        self.write(home, index, value)

    def _change(self, home: Home, mode: str, index: str, value: str) -> None:
        """One element changed, while other threads may change it too."""
        at = self.text.at(home.first, index, self.axes.type)
        if home.dtype.kind == "f":
            kind = f"f{8 * home.dtype.itemsize}"
            name = f"@llvm.nvvm.atomic.load.add.{kind}.p1{kind}"
            self.text.declare(f"declare {at.kind} {name}({at.type}, {at.kind})")
            self.text.emit(f"call {at.kind} {name}({at.type} {at.name}, {at.kind} {value})")
            return
        unsigned = "u" if home.dtype.kind == "u" and mode != "add" else ""
        self.text.emit(f"atomicrmw {unsigned}{mode} {at.type} {at.name}, {at.kind} {value} seq_cst")

    def write(self, home: Home, index: str, value: str) -> None:
        """One element written."""
        value = self.text.to_memory(value, home.dtype)
        self.text.store(value, home.first, index, self.axes.type, home.dtype.itemsize)


def of(names: Names, copy: int) -> str:
    """The value of one iteration."""
    return names[min(copy, len(names) - 1)]


def memoised(keys: Sequence[Hashable], make: Callable[[int], T]) -> list[T]:
    """make(k) for each key, those of equal keys made once."""
    made: dict[Hashable, T] = {}
    for k, key in enumerate(keys):
        if key not in made:
            made[key] = make(k)
    return [made[key] for key in keys]
