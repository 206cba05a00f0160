"""L5. Objects -> machine code in memory, which is freed when nothing refers to it any longer.

    Code       the functions of an object, and their memory
    Address    of a function: an int that keeps the code

Who stores an address as an `Address` needs to do nothing else: its steps, caches and objects keep
the code, also while it runs, and the memory is used again when they are gone.  What the loader of
`elf.py` does not take, LLVM's loads for the life of the process: other formats and systems, and
systems that do not let memory be executed that was written.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from fgrad.base.lazy_import import lazy_module
from fgrad.base.system import c_library
from fgrad.compile.llvm.code_memory import LOCK, MEMORY, Block, CodeMemoryError
from fgrad.compile.llvm.elf import ElfObject, UnsupportedObject

if TYPE_CHECKING:
    from fgrad.compile.llvm import generator
else:
    generator = lazy_module("fgrad.compile.llvm.generator")
_ALIGNMENT = 64


class Code:
    """The functions of an object by their symbols; `keep` is what they call and write."""

    __slots__ = ("__weakref__", "_block", "functions", "keep")

    frees: ClassVar[bool] = True  # until the interpreter ends, which empties modules in any order

    def __init__(self, functions: dict[str, int], block: Block | None, keep: object) -> None:
        self.functions = functions
        self.keep = keep
        self._block = block

    def __del__(self) -> None:
        if self._block is not None and self.frees:
            MEMORY.give_back(self._block)

    def address(self, symbol: str) -> Address:
        """Where a function is."""
        return Address(self, symbol)


atexit.register(setattr, Code, "frees", False)


class Address(int):
    """The address of a function, which is in memory as long as this object."""

    code: Code
    symbol: str

    def __new__(cls, code: Code, symbol: str) -> Address:
        made = super().__new__(cls, code.functions[symbol])
        made.code, made.symbol = code, symbol
        return made


def load(code: bytes, name: str, symbols: Sequence[str], imports: Mapping[str, int]) -> Code:
    """Load an object, whose functions may call `imports` and the symbols of the process.

    Raises:
        RuntimeError: it cannot be loaded.
    """
    with LOCK:
        try:
            return _load(code, symbols, imports)
        except (UnsupportedObject, CodeMemoryError):
            functions = generator.load(code, name, symbols, imports)
            return Code(functions, None, tuple(imports.values()))


def _load(code: bytes, symbols: Sequence[str], imports: Mapping[str, int]) -> Code:
    found = ElfObject(code)
    needed = {name: imports.get(name) or process_symbol(name) for name in found.undefined}
    data = ctypes.create_string_buffer(found.data_size + _ALIGNMENT) if found.data_size else None
    data_base = 0 if data is None else -(-ctypes.addressof(data) // _ALIGNMENT) * _ALIGNMENT
    block = MEMORY.put(found.size)
    try:
        image, contents, functions = found.linked(block.address, data_base, needed)
        if not functions.keys() >= set(symbols):
            raise UnsupportedObject("a function is not there")
    except BaseException:
        MEMORY.give_back(block)
        raise
    ctypes.memmove(data_base, contents, len(contents))
    MEMORY.write(block, image)
    return Code({s: functions[s] for s in symbols}, block, (tuple(needed.values()), data))


@functools.cache
def process_symbol(name: str) -> int:
    """The address of a symbol of the process."""
    try:
        function = getattr(c_library(), name)
    except AttributeError:
        raise UnsupportedObject(f"there is no {name} in this process") from None
    return ctypes.cast(function, ctypes.c_void_p).value or 0
