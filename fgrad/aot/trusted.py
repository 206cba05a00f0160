"""L7. The machine code of a trusted file -> what runs it: no compiler, no LLVM."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

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
    from fgrad.compile.llvm import generator
    from fgrad.ir.program import Program

    class Executable(Protocol):
        """What runs a program on contiguous arrays."""

        def __call__(self, args: Sequence[np.ndarray], /) -> Sequence[object]: ...

else:
    generator = lazy_module("fgrad.compile.llvm.generator")
    libraries = lazy_module("fgrad.aot.libraries")

RUN, ATTACH = "fgrad_run", "fgrad_attach"
_WORD = 8


class Form:
    """What runs a program for arguments of some types, and how it is called."""

    def __init__(self, executable: Executable, typed: Callable[[], Program]) -> None:
        self.executable = executable
        self.typed = typed  # a program of these types
        self.was_called = False
        self.signature: Any = None  # of the native calls


class Words(NamedTuple):
    """What the head says of machine code."""

    target: list[str]
    processor: str
    code: list[int]
    symbol: str
    extent: int
    order: list[int]
    arena: int
    arrays: list[int]
    fills: list[list[int]]
    messages: list[str]
    libraries: list[str]
    long: bool


def code_of(
    file: File, in_avals: Sequence[Aval], out_avals: Sequence[Aval]
) -> TrustedExecutable | None:
    """What runs a file's machine code; None if it has none for this machine.

    Raises:
        ExportError: the file is damaged.
    """
    machines = file.head.get("machine")
    if type(machines) is not list:
        file.refuse("it has no list of machine code")
    for each in machines:
        words = _words(file, each)
        try:
            if words.processor == processor() or _runs_here(words.target):
                return TrustedExecutable(file, words, in_avals, out_avals)
        except (TypeError, ValueError, LookupError, RuntimeError) as error:
            file.refuse(f"its machine code cannot be loaded: {error}")
    return None


def _words(file: File, each: Any) -> Words:
    if type(each) is not dict or {*each} != {*Words._fields}:
        file.refuse("its machine code is not described as it should be")
    return Words(**each)


def _runs_here(target: Sequence[str]) -> bool:
    """Whether this machine is of the kind and has all that the code may use."""
    triple, _, features = target
    host = generator.host_target()
    wanted = {f for f in features.split(",") if f.startswith("+")}
    return triple == host.triple and wanted <= {*host.features.split(",")}


class TrustedExecutable:
    """Runs machine code on C-contiguous arrays.

    slots: inputs, constants, results, the arena, as those of a host program.
    """

    def __init__(
        self, file: File, words: Words, in_avals: Sequence[Aval], out_avals: Sequence[Aval]
    ) -> None:
        arrays = file.head["arrays"]
        self.words = words
        self.in_avals, self.out_avals = tuple(in_avals), tuple(out_avals)
        self.consts = [file.array(arrays[k]) for k in words.arrays]
        self.const_pointers = [x.ctypes.data for x in self.consts]
        self.fills = [(k, file.array(arrays[n])) for k, n in words.fills]
        imports = {CELLS: SIGNALS.address}
        if words.libraries:
            imports |= libraries.addresses(words.libraries)
        symbols = [words.symbol, ATTACH]
        self.code: Code = load(bytes(file.section(words.code)), file.path, symbols, imports)
        self.address = self.code.functions[words.symbol]
        self.attach = self.code.functions[ATTACH]
        self.arena_bytes = words.arena + _WORD
        self.keep: list[object] = [file.body]

    def __call__(self, args: Sequence[np.ndarray]) -> list[np.ndarray | np.generic]:
        """The results: fresh arrays; rank-0 ones as NumPy scalars."""
        outs = [np.empty(a.shape, a.dtype) for a in self.out_avals]
        arena = np.empty(self.arena_bytes + ALIGNMENT, np.uint8)
        start = -(-arena.ctypes.data // ALIGNMENT) * ALIGNMENT
        pointers = [x.ctypes.data for x in args]
        pointers += self.const_pointers
        pointers += [x.ctypes.data for x in outs]
        pointers.append(start)
        if self.words.order:
            pointers = [pointers[k] for k in self.words.order]
        table = (ctypes.c_void_p * len(pointers))(*pointers)
        status = ctypes.c_int64.from_address(start + self.words.arena)
        status.value = 0
        if self.words.order:
            kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
            kernel(self.address)(table, 0, self.words.extent)
        else:
            ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(self.address)(None, table)
        if status.value:
            failed = libraries.failure(self.words.messages[status.value - 1])
            failed.reraise()  # if it was noted too, for this thread
            failed.function()
        for k, value in self.fills:
            outs[k][...] = value.reshape(())
        return [x if x.ndim else x[()] for x in outs]
