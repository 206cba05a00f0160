"""L5. ELF relocatable objects of x86-64 and AArch64 -> bytes that run at a given address.

    image = [ sections | veneers | GOT ]     code and constants, in memory that is executed
    data  = [ writable sections ]            in memory of its own, which may be anywhere

Symbols that an object lacks may be anywhere: x86-64 code has 64-bit addresses (the large code
model), AArch64 code calls through a veneer and reads addresses from the GOT, which stand behind the
code.  Debugging and unwinding sections are left out: no function that we compile throws, and a
forced unwinding (the end of a thread) stops at a frame without such a record.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from fgrad.base.named_tuple import NamedTuple

X86_64, AARCH64 = 62, 183
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QIIq")
_WORD = struct.Struct("<Q")
_CODE = struct.Struct("<I")
_RELA, _REL, _NOBITS, _SYMTAB, _NOTE = 4, 9, 8, 2, 7
_WRITE, _ALLOC, _TLS = 1, 2, 0x400
_UNDEFINED, _ABSOLUTE, _COMMON = 0, 0xFFF1, 0xFFF2
_GLOBAL_FUNCTION = 0x12
_SKIPPED = (b".eh_frame", b".note")
_VENEER = 16  # bytes: ldr x16, .+8; br x16; the address
_VENEER_CODE = _CODE.pack(0x58000050) + _CODE.pack(0xD61F0200)
_ALIGNMENT = 64
_MASK = (1 << 64) - 1


class UnsupportedObject(Exception):
    """An object that only LLVM's own loader takes; never leaves this package."""


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry: int


class _Symbol(NamedTuple):
    name: str
    info: int
    section: int
    value: int


class Relocation(NamedTuple):
    """Where in the object, of which type, and against which symbol."""

    section: int
    offset: int
    kind: int
    symbol: int
    addend: int


class Linked(NamedTuple):
    """What is to be put into memory, and the addresses of the functions of other modules."""

    image: bytes
    data: bytes
    functions: dict[str, int]


class ElfObject:
    """A parsed object: how much memory it wants, and which symbols.

    Raises:
        UnsupportedObject: another format or processor, or a relocation that is not known here.
    """

    def __init__(self, code: bytes) -> None:
        if len(code) < _HEADER.size or code[:6] != b"\x7fELF\x02\x01":
            raise UnsupportedObject("not an ELF object of 64 bits, the lowest byte first")
        _, kind, self.machine, _, _, _, at, _, _, _, _, _, count, names = _HEADER.unpack_from(code)
        if kind != 1 or self.machine not in _APPLY:
            raise UnsupportedObject("not a relocatable object of x86-64 or AArch64")
        self.code = code
        self.sections = [
            _Section(*_SECTION.unpack_from(code, at + _SECTION.size * k)) for k in range(count)
        ]
        self._strings = self.sections[names].offset
        self.symbols = self._symbols()
        self.places: dict[int, tuple[bool, int]] = {}  # of a section: whether it is data, and where
        self._size, self.data_size = self._lay_out()
        self.relocations = self._relocations()
        self.veneers, self.entries = self._indirections()

    @property
    def size(self) -> int:
        """The bytes of the image."""
        return self._size + _VENEER * len(self.veneers) + _WORD.size * len(self.entries)

    @property
    def undefined(self) -> list[str]:
        """The symbols that it needs of others."""
        return [s.name for s in self.symbols if s.section == _UNDEFINED and s.name]

    def _text(self, offset: int) -> bytes:
        return self.code[offset : self.code.index(b"\0", offset)]

    def _symbols(self) -> list[_Symbol]:
        tables = [s for s in self.sections if s.kind == _SYMTAB]
        if not tables:
            return []
        table, found = tables[0], []
        strings = self.sections[table.link].offset
        for at in range(table.offset, table.offset + table.size, _SYMBOL.size):
            name, info, _, section, value, _ = _SYMBOL.unpack_from(self.code, at)
            text = self._text(strings + name).decode() if name else ""
            found.append(_Symbol(text, info, section, value))
        return found

    def _lay_out(self) -> tuple[int, int]:
        """Places for the sections that are in memory when the program runs."""
        sizes = [0, 0]
        for k, s in enumerate(self.sections):
            if not s.flags & _ALLOC or not s.size:
                continue
            if s.flags & _TLS:
                raise UnsupportedObject("variables of threads")
            if s.kind == _NOTE or self._text(self._strings + s.name).startswith(_SKIPPED):
                continue
            is_data = bool(s.flags & _WRITE)
            start = _rounded(sizes[is_data], min(max(s.alignment, 1), _ALIGNMENT))
            self.places[k] = is_data, start
            sizes[is_data] = start + s.size
        return _rounded(sizes[0], _VENEER), sizes[1]

    def _relocations(self) -> list[Relocation]:
        """All relocations of sections in memory."""
        found = []
        for s in self.sections:
            if s.info not in self.places:
                continue
            if s.kind == _REL:
                raise UnsupportedObject("relocations without addends")
            if s.kind == _RELA:
                for at in range(s.offset, s.offset + s.size, _RELOCATION.size):
                    where, kind, symbol, addend = _RELOCATION.unpack_from(self.code, at)
                    if kind not in _APPLY[self.machine]:
                        raise UnsupportedObject(f"relocations of type {kind}")
                    found.append(Relocation(s.info, where, kind, symbol, addend))
        return found

    def _indirections(self) -> tuple[dict[int, int], dict[int, int]]:
        """The symbols that are called through veneers, and those whose addresses are in the GOT."""
        veneers: dict[int, int] = {}
        entries: dict[int, int] = {}
        if self.machine == AARCH64:
            for r in self.relocations:
                if r.kind in _CALLS and self.symbols[r.symbol].section not in self.places:
                    veneers.setdefault(r.symbol, len(veneers))
                elif r.kind in _IN_GOT:
                    entries.setdefault(r.symbol, len(entries))
        return veneers, entries

    def linked(self, base: int, data_base: int, imports: Mapping[str, int]) -> Linked:
        """The contents of memory for an image at `base` and data at `data_base`, both aligned to 64
        bytes.

        Raises:
            UnsupportedObject: a symbol of another kind, or out of reach.
        """
        memory = bytearray(self.size), bytearray(self.data_size)
        for k, (is_data, start) in self.places.items():
            s = self.sections[k]
            if s.kind != _NOBITS:
                memory[is_data][start : start + s.size] = self.code[s.offset : s.offset + s.size]
        bases = base, data_base
        values = [self._value(s, bases, imports) for s in self.symbols]
        got = self._write_indirections(memory[0], base, values)
        apply = _APPLY[self.machine]
        for section, offset, kind, symbol, addend in self.relocations:
            is_data, start = self.places[section]
            value = values[symbol]
            if kind in _IN_GOT and self.machine == AARCH64:
                value = got[symbol]
            elif symbol in self.veneers and kind in _CALLS:
                value = base + self._size + _VENEER * self.veneers[symbol]
            at = start + offset
            apply[kind](memory[is_data], at, value + addend, bases[is_data] + at)
        functions = {
            s.name: value
            for s, value in zip(self.symbols, values, strict=True)
            if s.info == _GLOBAL_FUNCTION and s.section in self.places
        }
        return Linked(bytes(memory[0]), bytes(memory[1]), functions)

    def _value(self, s: _Symbol, bases: tuple[int, int], imports: Mapping[str, int]) -> int:
        if s.section in self.places:
            is_data, start = self.places[s.section]
            return bases[is_data] + start + s.value
        if s.section == _UNDEFINED:
            return imports[s.name] if s.name else 0
        if s.section == _ABSOLUTE:
            return s.value
        if s.section == _COMMON:
            raise UnsupportedObject("common symbols")
        return 0  # in a section that is not in memory

    def _write_indirections(self, image: bytearray, base: int, values: list[int]) -> dict[int, int]:
        """Write the veneers and the GOT; gives where the address of a symbol stands."""
        for symbol, k in self.veneers.items():
            at = self._size + _VENEER * k
            image[at : at + 8] = _VENEER_CODE
            _WORD.pack_into(image, at + 8, values[symbol])
        start, got = self._size + _VENEER * len(self.veneers), {}
        for symbol, k in self.entries.items():
            at = start + _WORD.size * k
            _WORD.pack_into(image, at, values[symbol])
            got[symbol] = base + at
        return got


def _rounded(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


# --- relocations: apply(memory, at, S + A, P) -----------------------------------------------------

_Apply = Callable[[bytearray, int, int, int], None]


def _absolute(memory: bytearray, at: int, value: int, _place: int) -> None:
    """A 64-bit address."""
    _WORD.pack_into(memory, at, value & _MASK)


def _distance(bits: int) -> _Apply:
    """A distance in 32 or 64 bits."""
    layout = struct.Struct("<i" if bits == 32 else "<q")

    def apply(memory: bytearray, at: int, value: int, place: int) -> None:
        layout.pack_into(memory, at, _within(value - place, bits))

    return apply


def _within(distance: int, bits: int) -> int:
    if not -(1 << bits - 1) <= distance < 1 << bits - 1:
        raise UnsupportedObject(f"a distance of more than {bits} bits")
    return distance


def _insert(memory: bytearray, at: int, field: int, mask: int) -> None:
    """Replace the bits of `mask` of an instruction."""
    (word,) = _CODE.unpack_from(memory, at)
    _CODE.pack_into(memory, at, word & ~mask | field & mask)


def _move_wide(group: int) -> _Apply:
    """`movz`, `movk`: 16 bits of an address."""

    def apply(memory: bytearray, at: int, value: int, _place: int) -> None:
        _insert(memory, at, (value >> 16 * group & 0xFFFF) << 5, 0xFFFF << 5)

    return apply


def _branch(memory: bytearray, at: int, value: int, place: int) -> None:
    """`b`, `bl`: a distance of 26 bits, in instructions."""
    _insert(memory, at, _within(value - place, 28) >> 2, 0x3FFFFFF)


def _page(memory: bytearray, at: int, value: int, place: int) -> None:
    """`adrp`: a distance of 21 bits, in pages of 4 kB; the two lowest bits stand apart."""
    pages = _within((value >> 12) - (place >> 12), 21)
    _insert(memory, at, (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5, 0x60FFFFE0)


def _low(scale: int) -> _Apply:
    """`add`, `ldr`, `str`: the 12 lowest bits of an address, in multiples of the operand's size."""

    def apply(memory: bytearray, at: int, value: int, _place: int) -> None:
        if value & (1 << scale) - 1:
            raise UnsupportedObject("an operand that is not aligned")
        _insert(memory, at, (value & 0xFFF) >> scale << 10, 0xFFF << 10)

    return apply


_CALLS = frozenset({282, 283})  # JUMP26, CALL26
_IN_GOT = frozenset({311, 312})  # ADR_GOT_PAGE, LD64_GOT_LO12_NC

_APPLY: dict[int, dict[int, _Apply]] = {
    X86_64: {
        1: _absolute,  # 64
        2: _distance(32),  # PC32
        24: _distance(64),  # PC64
    },
    AARCH64: {
        257: _absolute,  # ABS64
        260: _distance(64),  # PREL64
        261: _distance(32),  # PREL32
        **dict.fromkeys((263, 264), _move_wide(0)),  # MOVW_UABS_G0, G0_NC
        **dict.fromkeys((265, 266), _move_wide(1)),
        **dict.fromkeys((267, 268), _move_wide(2)),
        269: _move_wide(3),
        **dict.fromkeys((275, 276), _page),  # ADR_PREL_PG_HI21, its form without a check
        277: _low(0),  # ADD_ABS_LO12_NC
        278: _low(0),  # LDST8_ABS_LO12_NC
        **dict.fromkeys(_CALLS, _branch),
        284: _low(1),  # LDST16
        285: _low(2),
        286: _low(3),
        299: _low(4),  # LDST128
        311: _page,
        312: _low(3),
    },
}
