"""L5. `LoopWriter`: a program's equations written into a kernel, one scalar at a time.

A small array is an array of value ids (see `values.py`): moving elements rearranges ids and costs
nothing, arithmetic writes one scalar operation for each element.  What does not depend on a loop is
written before it by the builder, so that invariant equations are computed once.

Arrays in memory that a loop updates have versions: whoever reads one after it was overwritten is a
`TooLarge`, and `ordered` (`order.py`) puts readers first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.base.size_functions import integer
from fgrad.base.sizes import Num
from fgrad.compile.kernel.affine import (
    AffineIndex,
    bounds,
    row_major,
    shifted,
    total,
    value,
)
from fgrad.compile.kernel.builder import KernelBuilder
from fgrad.compile.kernel.cost import weight
from fgrad.compile.kernel.ir import Load, Loop, Ref, Statement
from fgrad.compile.kernel.machine import VECTOR_BYTES
from fgrad.compile.loops.find_batch_axes import LaneWhile
from fgrad.compile.loops.order import last_uses, ordered, overwritten, replaced
from fgrad.compile.loops.values import Counting, Row, Sparse, Stored, TooLarge, Update, Value
from fgrad.ir.aval import BOOL, INT64, Aval
from fgrad.ir.primitive import Primitive
from fgrad.ir.program import Atom, Eqn, Lit, Program, Var
from fgrad.ir.walk import use_counts
from fgrad.ops import primitives as prims
from fgrad.typing import PyTree

MOST_CELLS = 512  # elements of an array that is written out, each a scalar or one of each lane
FEW = 4  # elements of a carry that is in registers even if it is updated at computed places
LARGEST = 1 << 31  # of numbers that are affine in places
FEW_CELLS = 64  # those that are, where a loop over a row could compute them
FEW_COSTLY = 12  # the same in loops that compute functions or products of more elements
FEW_SUMMED = 32  # or sums of more
MOST_TERMS = 216  # of a product of matrices that is written out: 6 x 6 x 6
MOST_ROW = 1 << 13  # elements that one kernel computes as fast as others do
KINDS = "biuf"  # of dtypes that kernels know
WRITTEN_OUT = 32  # elements of a copy in memory that is no loop
MOST_CODE = 6000  # instructions of one kernel, which take about 0.2 s to compile
WIDE = 2  # instructions of an operation on several vectors

LoopRule = Callable[["LoopWriter", Eqn], "Sequence[Value]"]


class LoopBuilder(KernelBuilder):
    """A builder that knows the dtype of each value."""

    def __init__(self) -> None:
        super().__init__({}, {}, {})
        self.dtypes: dict[int, np.dtype] = {}
        self.acc_dtypes: dict[str, np.dtype] = {}
        self.buffer_dtypes: dict[str, np.dtype] = {}
        self.size = 0.0  # of the code, in instructions

    def accumulator(self, op: str, dtype: np.dtype, start: object) -> str:
        """A fresh accumulator in the innermost open loop."""
        name = super().accumulator(op, dtype, start)
        self.acc_dtypes[name] = dtype
        return name

    def accumulator_around(self, op: str, dtype: np.dtype, start: object, depth: int) -> str:
        """A fresh accumulator around the loops that are open below a depth."""
        inner, self.frames = self.frames[depth + 1 :], self.frames[: depth + 1]
        name = self.accumulator(op, dtype, start)
        self.frames += inner
        return name

    def read(self, acc: str) -> int:
        """The present value of an accumulator."""
        id = super().read(acc)
        self.dtypes[id] = self.acc_dtypes[acc]
        return id

    def _emit(self, key: object, depth: int, make: Callable[[int], Statement]) -> int:
        def typed(id: int) -> Statement:
            s = make(id)
            self.dtypes[id] = self._held(s.buffer) if isinstance(s, Load) else s.dtype  # type: ignore[union-attr]
            self.size += max(1.0, weight(s))
            return s

        return super()._emit(key, depth, typed)

    def _held(self, buffer: str) -> np.dtype:
        """The dtype of what a buffer holds."""
        for new in self.buffers[len(self.buffer_dtypes) :]:
            self.buffer_dtypes[new.name] = new.dtype
        return self.buffer_dtypes[buffer]

    def widen(self, dtype: np.dtype) -> None:
        """Make the loop that was closed last one of vectors."""
        loop = self.frames[-1].body[-1]
        assert isinstance(loop, Loop)
        self.frames[-1].body[-1] = loop._replace(lanes=VECTOR_BYTES // dtype.itemsize)

    def lanes(self, lanes: int, unroll: int) -> None:
        """Vectors in the innermost open loop, some at a time."""
        frame = self.frames[-1]
        assert frame.loop is not None
        frame.loop = frame.loop._replace(lanes=lanes, unroll=unroll)

    def dtype_of(self, id: int) -> np.dtype:
        """The dtype of a value."""
        return self.dtypes[id]


class Block(NamedTuple):
    """Steps of a loop that are written as one.

    Arguments:
        depth: of the loop over blocks.
        axis: of the loop over steps.
        length: how many they are.
        needs: what must hold for that, as ids.
    """

    depth: int
    axis: str
    length: int
    needs: list[int]


class LoopWriter:
    """Writes programs into a kernel.

    Arguments:
        builder: the kernel.
        rules: how each primitive is written.
        prepare: optimises a program that an equation holds.
        lanes: for each variable of the programs, the places of its axes that are lanes; such an
            axis has length 1 in its values.
        ends: the loops that end lane by lane, by the identity of their bodies.
    """

    def __init__(
        self,
        builder: LoopBuilder,
        rules: Mapping[Primitive, LoopRule],
        prepare: Callable[[Program], Program],
        lanes: Mapping[Var, Mapping[int, AffineIndex]],
        constant: Callable[[np.ndarray], Var],
        ends: Mapping[int, LaneWhile],
    ) -> None:
        self.ends = ends
        self.few = FEW_CELLS
        self.progressions: dict[str, tuple[int, int]] = {}  # constants: the first, and the step
        self.b = builder
        self.rules = rules
        self.prepare = prepare
        self.lanes = lanes
        self.constant = constant
        self.env: dict[Var, Value] = {}
        self.numbers: dict[int, PyTree] = {}  # ids of constants
        self.affine: dict[int, AffineIndex] = {}  # ids of integers that are affine in loop axes
        self.ranges: dict[int, tuple[int, int]] = {}  # of ids of integers that were checked
        self.between: dict[int, tuple[int, int]] = {}  # the ranges of counters, by id
        self.versions: dict[str, int] = {}  # how often a buffer was written
        self.homes: dict[Var, Stored] = {}  # where results should be written
        self.predicate: int | None = None  # of all writes to memory
        self.uses: Mapping[Var, int] = {}  # how often the variables of a program are read
        self.failures: dict[str, str] = {}  # accumulators of what has failed
        self.extents: tuple[int, ...] = ()  # of the lanes
        self.lane = AffineIndex()  # the lane that code is written for, among all
        self.around = builder.depth  # the loops around it
        self.block: Block | None = None  # the steps that are written now

    # --- shapes and constants

    def shape(self, var: Atom) -> tuple[int, ...]:
        """The shape of a variable's value: lanes have length 1."""
        lanes = self.lanes.get(var) if isinstance(var, Var) else None
        shape = var.aval.shape
        return tuple([1 if k in lanes else n for k, n in enumerate(shape)]) if lanes else shape

    def number(self, x: Any, dtype: np.dtype) -> int:
        """A constant."""
        id = self.b.const(x, dtype)
        if type(x) is not Num:
            self.numbers[id] = np.asarray(x).astype(dtype)[()]
        if dtype == INT64:
            self.affine[id] = AffineIndex(integer(x))
        return id

    def index(self, place: AffineIndex, dtype: np.dtype = INT64) -> int:
        """A place as an integer."""
        if not place.terms and not place.values:
            return self.number(place.const, dtype)
        id = self.b.index(place)
        self.affine[id] = place
        return id if dtype == INT64 else self.b.op("convert", dtype, id)

    def place(self, id: int) -> AffineIndex:
        """An integer as a place, affine where that is known."""
        return self.affine.get(id, value(id))

    def limits(self, place: AffineIndex) -> tuple[int, int] | None:
        """The range of a place, if it is known."""
        known = [(self.between.get(id), stride) for id, stride in place.values]
        found = bounds(place._replace(values=()), self.b.extents)
        for between, stride in known:
            if between is None or found is None:
                return None
            ends = [stride * end for end in between]
            found = found[0] + min(ends), found[1] + max(ends)
        return found

    def assumed(self, place: AffineIndex, low: int, high: int | None) -> bool:
        """Whether low <= place < high may be taken to hold, as the block is left otherwise."""
        stride = 0 if self.block is None else dict(place.terms).get(self.block.axis, 0)
        if self.block is None or not stride:
            return False
        first = total((place, AffineIndex(0, ((self.block.axis, 1),))), (1, -stride))
        if self.b.place_depth(first) > self.block.depth:
            return False  # it is not known before the steps
        for end in (first, shifted(first, 1, stride * (self.block.length - 1))):
            most = (1 << 62) if high is None else high
            needed = self.b.within(end, low, most, None)
            if needed is not None:
                self.block.needs.append(needed)
        return True

    def zeros(self, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
        """Zeros, which take no room."""
        return np.broadcast_to(np.int64(self.number(0, dtype)), tuple(shape))

    def is_zero(self, x: Value) -> bool:
        """Whether all elements are the constant 0."""
        if not isinstance(x, np.ndarray) or any([s for s, n in zip(x.strides, x.shape) if n > 1]):  # noqa: B905
            return False
        number = self.numbers.get(int(x.flat[0])) if x.size else None
        return number is not None and not number

    @property
    def most_cells(self) -> int:
        """Elements of memory that is read at once rather than where loops need it."""
        return MOST_CELLS if self.lanes else self.few

    # --- values

    def value(self, atom: Atom) -> Value:
        """What an atom is."""
        if isinstance(atom, Lit):
            return np.array(self.number(atom.value, atom.aval.dtype), np.int64)
        return self.env[atom]

    def cells(self, x: Value) -> np.ndarray:
        """A value in registers."""
        if isinstance(x, np.ndarray):
            return x
        if isinstance(x, Stored):
            return self.loaded(x)
        if isinstance(x, Counting) and x.length <= MOST_CELLS:
            return np.array([self.number(k, x.dtype) for k in range(x.length)], np.int64)
        if isinstance(x, Sparse):
            return self.loaded(self.memory(x, x.shape, x.dtype))
        raise TooLarge

    def loaded(self, x: Stored) -> np.ndarray:
        """The elements of a view, read now if the memory changes."""
        if x.version is not None and x.version != self.versions[x.buffer]:
            raise TooLarge
        if x.size > MOST_CELLS:
            raise TooLarge
        ids = [self.element_at(x, shifted(x.base, 1, int(k)), None) for k in x.offsets().flat]
        self.check_size()
        return np.array(ids, np.int64).reshape(x.shape)

    def element_at(self, x: Stored, at: AffineIndex, predicate: int | None) -> int:
        """An element of memory; that of an arithmetic progression is affine as its place is."""
        known = self.progressions.get(x.buffer)
        if known is None or at.values:
            return self.b.load(x.buffer, at, predicate, mutable=x.version is not None)
        first, step = known
        return self.index(shifted(at, step, first))

    def operand(self, atom: Atom) -> np.ndarray:
        """An operand in registers."""
        return self.cells(self.value(atom))

    def check_size(self) -> None:
        """Give up if the kernel has grown too long."""
        if self.b.size * (WIDE if self.lanes else 1) > MOST_CODE:
            raise TooLarge

    # --- memory

    def scratch(self, shape: Sequence[int], dtype: np.dtype) -> Stored:
        """Fresh memory of this kernel."""
        size = math.prod(shape)
        buffer = self.b.scratch(dtype, max(size, 1))
        self.versions[buffer] = 0
        return Stored(buffer, dtype, AffineIndex(), tuple(shape), row_major(shape), 0)

    def memory(self, x: Value, shape: Sequence[int], dtype: np.dtype) -> Stored:
        """A value in fresh memory of the kernel."""
        target = self.scratch(shape, dtype)
        if not isinstance(x, Sparse):
            return self.write(target, x)
        target = self.write(target, self.zeros(shape, dtype))
        for update in x.updates:
            target = self.apply(target, update)
        return target

    def write(self, target: Stored, x: Value) -> Stored:
        """Store a value element by element, or in a loop if it lies in memory."""
        size = math.prod(target.shape)
        plain = isinstance(x, Stored) or (isinstance(x, np.ndarray) and not any(x.strides))
        if size > MOST_CELLS or (size > WRITTEN_OUT and plain):
            self._fill(target, x)
            return self.written(target)
        ids = self.cells(x)
        for offset, id in zip(target.offsets().flat, ids.flat, strict=True):
            self.b.store(
                target.buffer, shifted(target.base, 1, int(offset)), int(id), "set", self.predicate
            )
        return self.written(target)

    def _fill(self, target: Stored, x: Value) -> None:
        """A loop that copies memory, or repeats one scalar."""
        if isinstance(x, Stored) and x.version is not None:
            if x.version != self.versions[x.buffer]:
                raise TooLarge
        elif not isinstance(x, Stored) and (not isinstance(x, np.ndarray) or any(x.strides)):
            raise TooLarge
        if target.is_contiguous() and not self.lanes and self._fill_by_vectors(target, x):
            return
        depth = self.b.depth
        places = self.b.open_all(target.shape, "serial")
        if isinstance(x, Stored):
            at = total((x.base, *places), (1, *x.strides))
            id = self.b.load(x.buffer, at, mutable=True)
        else:
            id = int(x.flat[0])
        to = total((target.base, *places), (1, *target.strides))
        self.b.store(target.buffer, to, id, "set", self.predicate)
        self.b.close_to(depth)

    def _fill_by_vectors(self, target: Stored, x: Stored | np.ndarray) -> bool:
        """The same where both follow one another: whether it was done."""
        if isinstance(x, Stored) and (not x.is_contiguous() or x.buffer == target.buffer):
            return False
        if self.predicate is not None:
            return False
        at = self.b.open(target.size, "parallel")
        if isinstance(x, Stored):
            id = self.b.load(x.buffer, total((x.base, at), (1, 1)), mutable=x.version is not None)
        else:
            id = int(x.flat[0])
        self.b.store(target.buffer, total((target.base, at), (1, 1)), id, "set", None)
        self.b.close()
        self.b.widen(target.dtype)
        return True

    def written(self, target: Stored) -> Stored:
        """The view after a write to its buffer."""
        if target.version is None:
            return target
        self.versions[target.buffer] += 1
        return target._replace(version=self.versions[target.buffer])

    def apply(self, target: Stored, update: Update) -> Stored:
        """An update of memory that holds the newest version."""
        if target.version is None or target.version != self.versions[target.buffer]:
            raise TooLarge
        rest = [k for k in range(len(target.shape)) if k not in update.axes]
        inner = Stored(
            target.buffer, target.dtype, AffineIndex(),
            tuple([target.shape[k] for k in rest]), tuple([target.strides[k] for k in rest]),
        )  # fmt: skip
        long = not isinstance(update.updates, np.ndarray)
        offsets = inner.offsets() if not long else np.zeros(0, np.int64)
        strides = [target.strides[a] for a in update.axes]
        for at in np.ndindex(update.indices[0].shape):
            places = [self.place(int(i[at])) for i in update.indices]
            first = total((target.base, *places), (1, *strides))
            predicate = self.predicate
            if update.inside is not None and update.inside[at] >= 0:
                predicate = self.b.both(predicate, int(update.inside[at]))
            if long:
                row = inner._replace(base=first, version=target.version)
                self.add_row(row, update.updates, at, update.mode, predicate)
                continue
            ids = update.updates[at]  # type: ignore[index]
            for k, id in zip(offsets.flat, ids.flat, strict=True):
                self.b.store(
                    target.buffer, shifted(first, 1, int(k)), int(id), update.mode, predicate
                )
        self.check_size()
        return self.written(target)

    def add_row(
        self, target: Stored, x: Value, at: Sequence[int], mode: str, predicate: int | None
    ) -> None:
        """An update of memory by what stands at a place of the first axes of what a loop computes,
        where there are such loops."""
        raise TooLarge

    def note(self, message: str, condition: int) -> None:
        """Remember where a condition holds: an error with this message, once the kernel has run."""
        ones, zero = self.number(-1, INT64), self.number(0, INT64)
        self.note_nonzero(message, self.b.op("select", INT64, condition, ones, zero))

    def note_nonzero(self, message: str, id: int) -> None:
        """The same where an int64 is not 0: masks take fewer instructions than truth values."""
        if self.predicate is not None:
            id = self.b.op("select", INT64, self.predicate, id, self.number(0, INT64))
        acc = self.failures.get(message)
        if acc is None:
            acc = self.b.accumulator_around("or", INT64, 0, self.around)
            self.failures[message] = acc
        self.b.update(acc, id)

    def failed(self, among: Collection[str]) -> list[int]:
        """Whether checks have failed, for each of some accumulators."""
        zero = self.number(0, INT64)
        accs = [acc for acc in self.failures.values() if acc in among]
        return [self.b.op("ne", BOOL, self.b.read(acc), zero) for acc in accs]

    def flags(self) -> list[tuple[str, Var]]:
        """What has failed: for each message an array with a number for each lane."""
        found: list[tuple[str, Var]] = []
        for message, acc in self.failures.items():
            flag = Var(Aval(self.extents or (1,), INT64))
            (failed,) = self.failed([acc])
            failed = self.b.op("convert", INT64, failed)
            self.b.store(self.b.buffer(flag, "out"), self.lane, failed)
            found.append((message, flag))
        return found

    # --- accumulators

    def carried(self, ids: np.ndarray, dtype: np.dtype) -> list[str]:
        """An accumulator for each element, that begins with it."""
        if ids.size > MOST_CELLS:
            raise TooLarge
        return [self.b.accumulator("carry", dtype, Ref(int(id))) for id in ids.flat]

    def reads(self, accs: Sequence[str], shape: Sequence[int]) -> np.ndarray:
        """The present values of accumulators."""
        return np.array([self.b.read(a) for a in accs], np.int64).reshape(tuple(shape))

    # --- programs

    def program(self, program: Program, inputs: Sequence[Value]) -> list[Value]:
        """Write all equations; returns the outputs."""
        saved, saved_uses = self.env, self.uses
        self.env = dict(zip(program.inputs, inputs, strict=True))
        self.uses = use_counts(program)
        for var, array in program.consts:
            self.env[var] = self.known(var, array)
        mutable = {v for v, x in self.env.items() if is_mutable(x)}
        eqns = ordered(program, mutable) if mutable else program.eqns
        last = last_uses(program, eqns)
        for k, eqn in enumerate(eqns):
            later = {v for v, end in last.items() if end > k} if overwritten(eqn) else set()
            old = self.kept_old(eqn, later)
            self.equation(eqn)
            self.env.update(old)
        outs = [self.value(a) for a in program.outputs]
        self.env, self.uses = saved, saved_uses
        return outs

    def known(self, var: Var, array: np.ndarray) -> Value:
        """A constant; one number repeated takes no room, and zeros are seen to be zeros."""
        if array.size and array.dtype.kind in KINDS and is_repeated(array):
            number = self.number(array.flat[0], array.dtype)
            return np.broadcast_to(np.int64(number), self.shape(var))
        return self.known_memory(self.stored(self.constant(array), known_as=var), array)

    def known_memory(self, x: Stored, array: np.ndarray) -> Stored:
        """Memory that holds a constant."""
        if array.ndim == 1 and array.dtype == INT64 and array.size > 1:
            first, step = int(array[0]), int(array[1]) - int(array[0])
            if max(abs(first), abs(step)) < LARGEST and np.all(np.diff(array) == step):
                self.progressions[x.buffer] = first, step
        return x

    def kept_old(self, eqn: Eqn, later: set[Var]) -> dict[Var, Value]:
        """What an equation may overwrite and others read later, read before, if it is small."""
        if not later or (eqn.prim is prims.add and not self._adds_updates(eqn)):
            return {}
        buffers = {x.buffer for a in replaced(eqn) if is_mutable(x := self.value(a))}  # type: ignore[union-attr]
        found: dict[Var, Value] = {}
        for var in later & self.env.keys() if buffers else ():
            x = self.env[var]
            if isinstance(x, Stored) and x.buffer in buffers and x.size <= MOST_CELLS:
                current = is_mutable(x) and x.version == self.versions[x.buffer]
                found[var] = self.kept(x) if current else x
            elif isinstance(x, Row) and not buffers.isdisjoint([s.buffer for s in x.reads]):
                found[var] = self.staged(x)
        return found

    def _adds_updates(self, eqn: Eqn) -> bool:
        """Whether a sum writes updates of zeros into the memory of its other operand."""
        return any([isinstance(self.value(a), Sparse) for a in eqn.inputs])

    def kept(self, x: Stored) -> Value:
        """What memory holds before it is overwritten: in registers, or in other memory."""
        return self.loaded(x) if x.size <= self.most_cells else self.staged(x)

    def staged(self, x: Stored | Row) -> Stored:
        """A copy of what will be overwritten; kernels that share long ones copy less."""
        if math.prod(x.shape) > MOST_CELLS:
            raise TooLarge
        return self.memory(x, x.shape, x.dtype)

    def equation(self, eqn: Eqn) -> None:
        """Write one equation."""
        rule = self.rules.get(eqn.prim)
        if rule is None or any([v.aval.dtype.kind not in KINDS for v in eqn.outputs]):
            raise TooLarge
        self.env.update(zip(eqn.outputs, rule(self, eqn), strict=True))
        self.check_size()

    def stored(self, var: Var, role: str = "in", known_as: Var | None = None) -> Stored:
        """A variable of the program around the loop; its lanes are those of what it is known as."""
        shape, strides = var.aval.shape, row_major(var.aval.shape)
        lanes = self.lanes.get(var if known_as is None else known_as, {})
        base = total([*lanes.values()], [strides[k] for k in lanes])
        own = tuple([1 if k in lanes else n for k, n in enumerate(shape)])
        if var.aval.dtype.kind not in KINDS:
            raise TooLarge
        return Stored(self.b.buffer(var, role), var.aval.dtype, base, own, strides)


def mapped(fun: Callable[..., int], *arrays: np.ndarray) -> np.ndarray:
    """A function of ids, on arrays of one shape."""
    ids = [fun(*map(int, row)) for row in zip(*[np.asarray(x).flat for x in arrays], strict=True)]
    return np.array(ids, np.int64).reshape(np.shape(arrays[0]))


def settled(w: LoopWriter, x: Stored) -> Value:
    """A view; small parts of memory that changes are read at once."""
    return w.loaded(x) if is_mutable(x) and x.size <= w.most_cells else x


def is_repeated(array: np.ndarray) -> bool:
    """Whether all elements are one number, to the bit."""
    first = array.flat[0].tobytes()
    return array.tobytes() == first * array.size


def is_one_number(x: Value) -> bool:
    """Whether a value is one number in so many places that a loop writes them."""
    return isinstance(x, np.ndarray) and x.size > WRITTEN_OUT and not any(x.strides)


def is_mutable(x: Value) -> bool:
    """Whether a value is memory that the loop writes."""
    return isinstance(x, Stored) and x.version is not None
