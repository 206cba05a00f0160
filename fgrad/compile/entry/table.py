"""L5. A signature as a table of int64 words: what a call must look like, and what it returns.

f(x, {"w": w}) -> (y, s)        x: f32[8], w: f32[3], y: f32[8], s: f64[]

ARRAY 0 -> slot 0  f32[8]                LEAF 0
DICT 1, 1 item -> register 2  "w"        LEAF 1
ARRAY 2 -> slot 1  f32[3]                MAKE_TUPLE 2
"""

from __future__ import annotations

import ctypes
import functools
import inspect
import types
from array import array
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fgrad import tree
from fgrad.base.lazy_import import lazy_module
from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.entry.fields import (
    APART,
    ARRAY,
    BOOL,
    CALL,
    DICT,
    END,
    FIELDS,
    INT,
    LEAF,
    LIST,
    MAKE_DICT,
    MAKE_LIST,
    MAKE_NAMED,
    MAKE_TUPLE,
    NODE,
    PLACE,
    PUSH,
    RECORD,
    RECORD_SIZE,
    RESULT_ARRAY,
    RESULT_BOOL,
    RESULT_LARGE,
    RESULT_OWN,
    RESULT_SCALAR,
    RETURN,
    SAME,
    TUPLE,
)
from fgrad.compile.entry.outside import NotWatched, number_words, outside_words
from fgrad.compile.entry.pool import POOLED_BYTES
from fgrad.compile.llvm.abi import SCALAR_TYPES, WORD, descr_word, type_slot
from fgrad.ir.aval import Aval
from fgrad.tracing.outside.watches import Number, Watches
from fgrad.typing import Array, PyTree

if TYPE_CHECKING:
    import dataclasses
else:
    dataclasses = lazy_module("dataclasses")

KEPT_BYTES = 1 << 16  # result arrays up to this size may be used again
MAX_WORDS = 2048  # objects of one call, some 100 KB on the stack
_TP_ALLOC, _TP_NEW = 47, 65

# Static arguments of these types are known again by identity: equal ones may be missed, never
# mistaken.
_STATIC_TYPES = (bool, int, float, str, bytes, type(None), type, type(len), type(lambda: 0))


class NotNative(Exception):
    """A call that only Python can make; never leaves this package."""


class Work(NamedTuple):
    """The native program of a signature.

    Arguments:
        run: address of `void run(ptr table, ptr slots)`, or of a kernel, `void run(ptr slots, 0,
            extent)`.
        table: what it is given; 0 for a kernel.
        extent: of the kernel's range.
        slots: how many slots the caller fills.
        inputs: the slot of each input.
        outputs: the slot of each output.
        arena: slot and size of the temporaries.
        constants: (slot, address) of arrays that do not change.
        lends: (output, input) where the output may take the memory of a donated input.
        fills: (slot of an output, address, bytes) of results known beforehand.
        release: whether it runs long enough to let other threads go on.
        after: called when it has run, to raise what went wrong; or None.
        keep: what must live as long.
        numbers: the slots of numbers from outside.
    """

    run: int
    table: int
    extent: int
    slots: int
    inputs: Sequence[int]
    outputs: Sequence[int]
    arena: tuple[int, int]
    constants: Sequence[tuple[int, int]]
    fills: Sequence[tuple[int, int, int]]
    lends: Sequence[tuple[int, int]]
    release: bool
    after: Callable[[], None] | None
    keep: object
    numbers: Sequence[tuple[int, Number]] = ()


class Parameters(NamedTuple):
    """The arguments of a call: leaves where they are traced, values where they are static."""

    args: tuple[PyTree, ...]
    kwargs: Mapping[str, PyTree]
    treedef: tree.TreeDef  # of (args, kwargs), static ones replaced by None
    statics: Mapping[Hashable, object]  # by position or name
    avals: Sequence[Aval]
    watches: Watches = Watches()  # what else the call depends on


class Results(NamedTuple):
    """What a call returns.

    `leaves` says for each leaf which output it is, or ~k for the argument k; the last outputs are
    written over the arguments `writes`.
    """

    avals: Sequence[Aval]
    treedef: tree.TreeDef
    recycle: bool
    leaves: Sequence[int]
    writes: Sequence[int] = ()


_release = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(("Py_DecRef", ctypes.pythonapi))


class Signature:
    """A table for the native entry; it lives as long as a callee's chain holds it."""

    def __init__(
        self, parameters: Parameters, results: Results, work: Work, epoch: int, pool: object
    ) -> None:
        self.references: list[object] = [work.keep, work.after, pool]
        reader = _Reader(parameters, work.inputs, self.references, work.numbers)
        reader.apart(results.writes)
        if results.writes and parameters.watches.arrays():
            raise NotNative  # what reads what is written must not have written yet
        lends = [] if results.writes and work.after is not None else work.lends  # it may fail
        donors = {k: i for k, i in lends if i in reader.arrays}
        kept = self.references
        writer = _Writer(results, work.outputs, reader, kept, id(pool), donors, work.slots)
        names = list(parameters.kwargs)
        self.references.append(names)
        sections = {
            "program": reader.words,
            "names": [id(name) for name in names],
            "records": writer.records,
            "pairs": [x for pair in work.constants for x in pair],
            "sources": [x for fill in work.fills for x in fill],
            "build": writer.words,
            "extents": reader.extents() if donors else [],
        }
        fields = {
            "epoch": epoch,
            "nargs": len(parameters.args),
            "keywords": len(names),
            "registers": reader.registers,
            "slots": work.slots + 1,
            "cells": writer.cells + 1,
            "outputs": len(writer.dims),
            "constants": len(work.constants),
            "fills": len(work.fills),
            "arena_slot": work.arena[0],
            "arena_bytes": work.arena[1],
            "run": work.run,
            "table": work.table,
            "direct": int(work.table == 0),
            "extent": work.extent,
            "release": int(work.release),
            "after": 0 if work.after is None else id(work.after),
            "bools": int(writer.bools),
            "recycle": int(writer.recycles),
            "owns": int(reader.owns),
            "reads": len(reader.arrays),
            "depth": writer.depth + 1,
            "writes": len(results.writes),
        }
        self.key = (tuple(reader.words), tuple(names), epoch)
        self.words, start = _assemble(fields, sections, writer.dims)
        self.address: int = self.words.buffer_info()[0]
        self.kept = [
            start + RECORD_SIZE * k + RECORD[name]
            for k in range(len(writer.dims))
            for name in ("first", "second")
        ]

    @property
    def running(self) -> bool:
        """Whether calls are running it."""
        return self.words[NODE["running"]] != 0

    def was_used(self) -> bool:
        """Whether a call matched it since the last query."""
        used, self.words[NODE["used"]] = self.words[NODE["used"]], 0
        return used != 0

    def __del__(self, _release: Callable[[int], None] = _release) -> None:
        for at in getattr(self, "kept", ()):
            array, self.words[at] = self.words[at], 0
            if array:
                _release(array)


def _assemble(
    fields: Mapping[str, int], sections: Mapping[str, Sequence[int]], dims: Sequence[Sequence[int]]
) -> tuple[array[int], int]:
    """All words in one block of memory, with addresses where fields refer to sections."""
    starts, length = {}, len(NODE)
    for name, words in sections.items():
        starts[name] = length
        length += len(words)
    dims_at = length
    block = array("q", bytes(WORD * (length + sum(len(d) for d in dims))))
    base = block.buffer_info()[0]
    for name, value in fields.items():
        block[NODE[name]] = value
    for name, words in sections.items():
        start = starts[name]
        block[start : start + len(words)] = array("q", words)
        block[NODE[name]] = base + WORD * start if words else 0
    for k, shape in enumerate(dims):
        block[dims_at : dims_at + len(shape)] = array("q", shape)
        block[starts["records"] + RECORD_SIZE * k + RECORD["dims"]] = base + WORD * dims_at
        dims_at += len(shape)
    return block, starts["records"]


# --- arguments ------------------------------------------------------------------------------------


def is_plain(treedef: tree.TreeDef) -> bool:
    """Whether a tree consists of dicts, lists, tuples, named tuples, dataclasses and None only."""
    if treedef.is_leaf():
        return True
    kind = treedef.type
    usual = kind in (dict, list, tuple, type(None)) or tree.is_named_tuple(kind)
    if not usual and field_names(kind) != tuple(treedef.entries()):
        return False
    return all([is_plain(child) for child in treedef.children()])


def field_names(kind: object) -> tuple[str, ...] | None:
    """The fields of a dataclass that consists of them and is made of them in this order; or None.

    Its attributes can be read without running Python code.
    """
    if not isinstance(kind, type) or not dataclasses.is_dataclass(kind):
        return None
    fields = dataclasses.fields(kind)
    own_code = ("__post_init__", "__getattr__")
    made: Any = getattr(kind, "__dataclass_params__", None)
    if (
        not made.init
        or kind.__getattribute__ is not object.__getattribute__
        or any([hasattr(kind, name) for name in own_code])
        or not all([f.init and not f.kw_only for f in fields])
    ):
        return None
    for f in fields:
        stored = inspect.getattr_static(kind, f.name, None)
        if hasattr(type(stored), "__get__") and type(stored) is not types.MemberDescriptorType:
            return None
    return tuple([f.name for f in fields])


class _Reader:
    """Writes the program that recognises a call.

    Registers hold objects: first the arguments, then the items of containers as these are opened.
    """

    def __init__(
        self,
        parameters: Parameters,
        slots: Sequence[int],
        references: list[object],
        given: Sequence[tuple[int, Number]] = (),
    ) -> None:
        if not is_plain(parameters.treedef):
            raise NotNative
        self.words: list[int] = []
        self.arrays: dict[int, int] = {}  # number of an input -> register of the array
        self.cells = 0
        self.owns = False  # whether the registers own the objects in them
        self.slots = slots
        self.avals = parameters.avals
        self.references = references
        numbers = tree.unflatten(parameters.treedef, range(len(parameters.avals)))
        places = [*enumerate(parameters.args), *parameters.kwargs.items()]
        self.registers = len(places)
        for register, (where, value) in enumerate(places):
            if where in parameters.statics:
                self.static(register, parameters.statics[where])
            else:
                self.visit(register, value, numbers[isinstance(where, str)][where])
        try:
            self.words += outside_words(parameters.watches, references)
            for slot, number in given:
                self.words += number_words(number, slot, self.cells)
                self.cells += 2
        except NotWatched:
            raise NotNative from None

    def apart(self, written: Sequence[int]) -> None:
        """Write the instructions that look at the arrays that are written, and end the program."""
        sizes = {r: self.avals[k].dtype.itemsize for k, r in self.arrays.items()}
        for k in written:
            register = self.arrays.get(k)
            if register is None:
                raise NotNative
            others = [word for r, n in sizes.items() if r != register for word in (r, n)]
            size = self.avals[k].size * self.avals[k].dtype.itemsize
            self.words += [APART, register, size, len(others) // 2, *others]
        self.words += [END, 0, 0]

    def static(self, register: int, value: object) -> None:
        kind = type(value)
        by_identity = kind.__eq__ is object.__eq__ and kind.__hash__ is object.__hash__
        if kind not in _STATIC_TYPES and not by_identity:
            raise NotNative
        self.same(register, value)

    def same(self, register: int, value: object) -> None:
        self.references.append(value)
        self.words += [SAME, register, id(value)]

    def visit(self, register: int, value: PyTree, number: PyTree) -> None:
        """Write the instructions for the object in a register; `number` has its leaves' numbers."""
        kind = type(value)
        if value is None:
            self.same(register, value)
        elif kind is dict:
            first = self.open(len(value))
            self.references.extend(value)
            self.words += [DICT, register, len(value), first, *map(id, value)]
            for k, key in enumerate(value):
                self.visit(first + k, value[key], number[key])
        elif kind is list or kind is tuple or tree.is_named_tuple(kind):
            first = self.open(len(value))
            self.references.append(kind)
            head = LIST if kind is list else TUPLE
            self.words += [head, register, len(value), first, *([id(kind)] * (kind is not list))]
            for k, item in enumerate(value):
                self.visit(first + k, item, number[k])
        elif names := field_names(kind):
            first = self.open(len(names))
            self.references += [kind, names]
            self.owns = True
            self.words += [FIELDS, register, len(names), first, id(kind), *map(id, names)]
            for k, name in enumerate(names):
                self.visit(first + k, getattr(value, name), getattr(number, name))
        else:
            self.leaf(register, value, kind, number)

    def extents(self) -> list[int]:
        """Slot and bytes of each array."""
        sizes = [(k, self.avals[k].size * self.avals[k].dtype.itemsize) for k in self.arrays]
        return [word for k, size in sizes for word in (self.slots[k], size)]

    def open(self, count: int) -> int:
        """The first of `count` new registers."""
        first = self.registers
        self.registers += count
        if self.registers > MAX_WORDS:
            raise NotNative
        return first

    def leaf(self, register: int, value: Array, kind: type, number: int) -> None:
        aval, slot = self.avals[number], self.slots[number]
        if kind is np.ndarray:
            if value.dtype != aval.dtype or not value.dtype.isnative or value.shape != aval.shape:
                raise NotNative
            shape = value.shape
            self.arrays[number] = register
            self.words += [ARRAY, register, slot, descr_word(value.dtype), len(shape), *shape]
        elif kind is float or kind is complex or kind in SCALAR_TYPES:
            if np.dtype(kind) != aval.dtype or aval.shape:
                raise NotNative
            self.words += [PLACE, register, slot, id(kind)]
        elif kind is int and aval.dtype == np.int64:
            self.words += [INT, register, slot, self.cells]
            self.cells += 1
        elif kind is bool and aval.dtype == np.bool_:
            self.words += [BOOL, register, slot]
        else:
            raise NotNative


# --- results --------------------------------------------------------------------------------------


class _Writer:
    """Writes the records of the results and the program that puts them together."""

    def __init__(
        self,
        results: Results,
        slots: Sequence[int],
        reader: _Reader,
        references: list[object],
        pool: int,
        donors: Mapping[int, int],
        spare: int,
    ) -> None:
        self.spare = spare  # a slot that nobody reads
        self.pool = pool
        self.reader = reader
        self.records: list[int] = []
        self.dims: list[Sequence[int]] = []
        self.words: list[int] = []
        self.cells = reader.cells
        self.bools = self.recycles = False
        self.references = references
        self.height = self.depth = 0
        if len(results.avals) + len(results.leaves) > MAX_WORDS:
            raise NotNative
        first = len(results.avals) - len(results.writes)
        for k, (aval, slot) in enumerate(zip(results.avals, slots, strict=True)):
            if k < first:
                self.record(aval, slot, results.recycle, donors.get(k))
            else:
                self.written(aval, slot, results.writes[k - first], k in donors)
        leaves = [k if k >= 0 else self.given(~k) for k in results.leaves]
        treedef = results.treedef
        if treedef.is_leaf() and leaves == [0]:
            return
        if is_plain(treedef):
            self.visit(tree.unflatten(treedef, leaves))
        else:
            unflatten = functools.partial(tree.unflatten, treedef)
            self.references.append(unflatten)
            self.items(leaves, CALL, id(unflatten))
        self.words += [RETURN, 0]

    def given(self, argument: int) -> int:
        """The record of a result that is an argument itself."""
        register = self.reader.arrays.get(argument)
        if register is None:
            raise NotNative
        fields = {"kind": RESULT_OWN, "own": register, "slot": self.spare}
        self.records += [fields.get(name, 0) for name in RECORD]
        self.dims.append(())
        return len(self.dims) - 1

    def written(self, aval: Aval, slot: int, argument: int, direct: bool) -> None:
        """The record of a value that is written over an argument: computed there, if possible."""
        dtype = np.dtype(aval.dtype)
        self.references.append(dtype)
        register, size = self.reader.arrays[argument], aval.size * dtype.itemsize
        fields = {
            "kind": RESULT_LARGE if size >= POOLED_BYTES else RESULT_ARRAY,
            "slot": slot,
            "rank": aval.ndim,
            "descr": id(dtype),
            "type": id(np.ndarray),
            "pool": self.pool,
            "bytes": size,
            "written": register + 1,
        }
        if direct:
            fields |= {"kind": RESULT_OWN, "own": register}
        self.records += [fields.get(name, 0) for name in RECORD]
        self.dims.append(aval.shape)

    def record(self, aval: Aval, slot: int, recycle: bool, donor: int | None) -> None:
        dtype = np.dtype(aval.dtype)
        self.references.append(dtype)
        fields = {"slot": slot, "rank": aval.ndim, "descr": id(dtype), "type": id(np.ndarray)}
        if aval.ndim:
            size = aval.size * dtype.itemsize
            fields["kind"] = RESULT_LARGE if size >= POOLED_BYTES else RESULT_ARRAY
            fields["pool"], fields["bytes"] = self.pool, size
            if donor is not None:
                fields["donor"] = self.reader.arrays[donor] + 1
                fields["donor_slot"] = self.reader.slots[donor]
            if recycle and size <= KEPT_BYTES:
                fields["recycle"] = 1
                self.recycles = True
                fields["flags"] = np.empty(aval.shape, dtype).flags.num
        elif dtype.kind == "b":
            fields["kind"], fields["cell"] = RESULT_BOOL, self.cells
            self.cells += 1
            self.bools = True
        else:
            fields["kind"], fields["type"] = RESULT_SCALAR, id(dtype.type)
            fields["alloc"] = type_slot(dtype.type, _TP_ALLOC)
        self.records += [fields.get(name, 0) for name in RECORD]
        self.dims.append(aval.shape)

    def push(self, *words: int) -> None:
        self.words += words
        self.height += 1
        self.depth = max(self.depth, self.height)

    def items(self, values: Iterable[object], head: int, *rest: int) -> None:
        """The items, and then what makes a container of them."""
        before = self.height
        for value in values:
            self.visit(value)
        count, self.height = self.height - before, before
        self.push(head, count, *rest)

    def visit(self, value: PyTree) -> None:
        """Write the instructions that make a tree whose leaves are their numbers."""
        kind = type(value)
        if kind is int:
            self.push(LEAF, value)
        elif value is None:
            self.push(PUSH, id(None))
        elif kind is dict:
            self.references.extend(value)
            self.items(value.values(), MAKE_DICT, *map(id, value))
        elif kind is list or kind is tuple:
            self.items(value, MAKE_LIST if kind is list else MAKE_TUPLE)
        elif kind.__bases__ == (tuple,):
            self.references.append(kind)
            self.items(value, MAKE_NAMED, id(kind), type_slot(tuple, _TP_NEW))
        else:
            names = field_names(kind)
            make = functools.partial(_make, kind)
            self.references.append(make)
            self.items([getattr(value, n) for n in names] if names else value, CALL, id(make))


def _make(kind: Callable[..., PyTree], items: tuple[object, ...]) -> PyTree:
    return kind(*items)
