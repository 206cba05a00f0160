"""L7. The machine code of a trusted file -> what runs it: no compiler, no LLVM."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fgrad.aot.files import ALIGNMENT, File
from fgrad.base.lazy_import import lazy_module
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.system import processor
from fgrad.compile.llvm.loader import Code, load
from fgrad.compile.llvm.signals import CELLS, SIGNALS
from fgrad.ir.aval import Aval

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from fgrad.aot import libraries
    from fgrad.base import size_words
    from fgrad.compile.llvm import generator
    from fgrad.ir.program import Program
    from fgrad.typing import PyTree

    class Executable(Protocol):
        """What runs a program on contiguous arrays."""

        def __call__(self, args: Sequence[np.ndarray], /) -> Sequence[object]: ...

else:
    generator = lazy_module("fgrad.compile.llvm.generator")
    libraries = lazy_module("fgrad.aot.libraries")
    size_words = lazy_module("fgrad.base.size_words")

ATTACH = "fgrad_attach"
_WORD = 8
_WALK = 0  # its number among the functions


class Form:
    """What runs a program for arguments of some types, and how it is called."""

    def __init__(self, executable: Executable, typed: Callable[[], Program]) -> None:
        self.executable = executable
        self.typed = typed  # a program of these types
        self.was_called = False
        self.signature: PyTree = None  # of the native calls


class Words(NamedTuple):
    """What the head says of machine code."""

    target: list[str]
    processor: str
    code: list[int]
    symbols: list[str]
    messages: list[str]
    libraries: list[str]
    templates: list[dict[str, PyTree]]


class TemplateWords(NamedTuple):
    """What it says of a program: numbers are operands, as those of `size_words` are.

    words: the table of the host program and those of its kernels, an array of the file.
    changed, functions: at which places which operands, and the addresses of which functions stand.
    arrays: the constants, arrays of the file or parts of the words.
    fills: results that are constants.
    single: the function that is all of the program, its range, the longest range that is not
        shared among threads, and the slots in its order.
    long: the cycles of a call, and how many are many.
    """

    numbers: list[list[PyTree]]
    guards: list[list[PyTree]]
    words: int
    changed: list[list[PyTree]]
    functions: list[list[int]]
    arrays: list[PyTree]
    fills: list[list[int]]
    arena: PyTree
    shapes: list[list[PyTree]]
    single: list[PyTree] | None
    long: list[PyTree]


def code_of(file: File, in_avals: Sequence[Aval], out_avals: Sequence[Aval]) -> TrustedCode | None:
    """A file's machine code; None if it has none for this machine.

    Raises:
        ExportError: the file is damaged.
    """
    machines = file.head.get("machine")
    if type(machines) is not list:
        file.refuse("it has no list of machine code")
    for each in machines:
        words = _words(file, each, Words)
        try:
            if words.processor == processor() or _runs_here(words.target):
                return TrustedCode(file, words, (*in_avals, *out_avals), len(in_avals))
        except (TypeError, ValueError, LookupError, RuntimeError) as error:
            file.refuse(f"its machine code cannot be loaded: {error}")
    return None


def _words(file: File, each: PyTree, kind: PyTree) -> PyTree:
    if type(each) is not dict or {*each} != {*kind._fields}:
        file.refuse("its machine code is not described as it should be")
    return kind(**each)


def _runs_here(target: Sequence[str]) -> bool:
    """Whether this machine is of the kind and has all that the code may use."""
    triple, _, features = target
    host = generator.host_target()
    wanted = {f for f in features.split(",") if f.startswith("+")}
    return triple == host.triple and wanted <= {*host.features.split(",")}


class TrustedCode:
    """The machine code of a file in memory, and the templates that it has.

    Arguments:
        avals: the types of the example's arguments and results, `inputs` of them arguments.
    """

    def __init__(self, file: File, words: Words, avals: Sequence[Aval], inputs: int) -> None:
        imports = {CELLS: SIGNALS.address}
        if words.libraries:
            imports |= libraries.addresses(words.libraries)
        names = [*words.symbols, ATTACH]
        self.code: Code = load(bytes(file.section(words.code)), file.path, names, imports)
        self.functions = [self.code.functions[name] for name in words.symbols]
        self.attach = self.code.functions[ATTACH]
        self.messages = words.messages
        self.callbacks: list[PyTree] | None = None  # what failures are told to, when it is attached
        self.keep: list[object] = []
        self.avals, self.inputs = avals, inputs
        self.templates = [_words(file, each, TemplateWords) for each in words.templates]
        self.tables = [_tables(file, template, self.functions) for template in self.templates]

    def form_at(self, lengths: tuple[int, ...], program: Callable[..., Program]) -> Form | None:
        """What runs the program for some lengths; None if no template is for them.

        Arguments:
            program: gives the program for these lengths.
        """
        for k, template in enumerate(self.templates):
            known: Sequence[PyTree] = lengths
            if lengths:
                try:
                    known = size_words.evaluated(template.numbers, lengths)
                except size_words.BadNumbers:
                    continue
                if size_words.failing(template.guards, known) is not None:
                    continue
            executable = TrustedExecutable(self, template, self.tables[k], known)
            return Form(executable, lambda: program(lengths))
        return None


class _Tables(NamedTuple):
    """The arrays of a template."""

    words: np.ndarray
    consts: list[PyTree]
    fills: list[tuple[int, np.ndarray]]


def _tables(file: File, template: TemplateWords, functions: Sequence[int]) -> _Tables:
    arrays = file.head["arrays"]
    words = file.array(arrays[template.words]).copy()
    for at, function in template.functions:
        words[at] = functions[function]
    consts = [file.array(arrays[c]) if type(c) is int else c for c in template.arrays]
    return _Tables(words, consts, [(k, file.array(arrays[n])) for k, n in template.fills])


class TrustedExecutable:
    """Runs machine code on C-contiguous arrays of some lengths.

    slots: inputs, constants, results, the arena, as those of a host program.

    Arguments:
        known: the lengths, and the numbers of the template for them.
    """

    def __init__(
        self, code: TrustedCode, template: TemplateWords, tables: _Tables, known: Sequence[PyTree]
    ) -> None:
        def value(operand: PyTree) -> PyTree:
            return known[operand] if type(operand) is int else operand[0]

        words = tables.words
        if template.changed:
            words = words.copy()
            for at, operand in template.changed:
                words[at] = value(operand)
        shapes = [tuple([value(n) for n in shape]) for shape in template.shapes]
        avals = [a.like(s, a.weak) for a, s in zip(code.avals, shapes, strict=True)]
        self.code, self.words = code, words
        self.in_avals, self.out_avals = avals[: code.inputs], avals[code.inputs :]
        self.consts = [words[c[0] : c[1]] if type(c) is list else c for c in tables.consts]
        self.const_pointers = [x.ctypes.data for x in self.consts]
        self.fills = tables.fills
        self.arena = value(template.arena)
        self.arena_bytes = self.arena + _WORD
        cycles, many = template.long
        self.is_long = value(cycles) > value(many)
        self.order: list[int] = []  # of the slots of a function that is all of the program
        self.address, self.extent, self.table = code.functions[_WALK], 0, words.ctypes.data
        if template.single is not None:
            function, extent, chunk, order = template.single
            if value(extent) <= value(chunk):
                self.address, self.extent = code.functions[function], value(extent)
                self.order, self.table = order, 0

    def __call__(self, args: Sequence[np.ndarray]) -> list[np.ndarray | np.generic]:
        """The results: fresh arrays; rank-0 ones as NumPy scalars."""
        outs = [np.empty(a.shape, a.dtype) for a in self.out_avals]
        arena = np.empty(self.arena_bytes + ALIGNMENT, np.uint8)
        start = -(-arena.ctypes.data // ALIGNMENT) * ALIGNMENT
        pointers = [x.ctypes.data for x in args]
        pointers += self.const_pointers
        pointers += [x.ctypes.data for x in outs]
        pointers.append(start)
        if self.order:
            pointers = [pointers[k] for k in self.order]
        table = (ctypes.c_void_p * len(pointers))(*pointers)
        status = ctypes.c_int64.from_address(start + self.arena)
        status.value = 0
        if self.order:
            kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
            kernel(self.address)(table, 0, self.extent)
        else:
            walk = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
            walk(self.address)(self.table, table)
        if status.value:
            failed = libraries.failure(self.code.messages[status.value - 1])
            failed.reraise()  # if it was noted too, for this thread
            failed.function()
        for k, value in self.fills:
            outs[k][...] = value.reshape(())
        return [x if x.ndim else x[()] for x in outs]
