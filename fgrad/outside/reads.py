"""L2. The code of a function -> what it reads by name: globals, cells, parameters, and their paths.

    cfg["lr"] * self.w + helper(x)    cfg -> item "lr"    self -> attribute w    helper

A path ends where something else is done with its value: stored, passed on, iterated over.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator, Sequence
from types import CodeType
from typing import Any, NamedTuple

GLOBAL, FREE, LOCAL, MODULE = "global", "free", "local", "module"
ATTRIBUTE, ITEM = "attribute", "item"

_LOADS = {
    "LOAD_GLOBAL": GLOBAL,
    "LOAD_NAME": GLOBAL,
    "LOAD_FROM_DICT_OR_GLOBALS": GLOBAL,
    "LOAD_DEREF": FREE,
    "LOAD_CLASSDEREF": FREE,
    "LOAD_FROM_DICT_OR_DEREF": FREE,
    "LOAD_FAST": LOCAL,
    "LOAD_FAST_CHECK": LOCAL,
    "LOAD_FAST_AND_CLEAR": LOCAL,
    "IMPORT_NAME": MODULE,
}
_PAIRS = ("LOAD_FAST_LOAD_FAST", "STORE_FAST_LOAD_FAST")
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
_SILENT = ("EXTENDED_ARG", "CACHE", "NOP", "PRECALL")
MOST_NAME = 64  # characters of a constant that may be the name of an attribute

Step = tuple[str, Any]


class Path(NamedTuple):
    """From a name of the code to a value."""

    source: str
    name: str
    steps: tuple[Step, ...]
    consumer: int | None = None  # the offset of the arithmetic that takes the value, if it is that
    called: bool = False  # the value is called, and nothing else


class Reads(NamedTuple):
    """What one code object reads."""

    paths: tuple[Path, ...]
    names: frozenset[str]  # attributes that it asks of anything
    inner: tuple[CodeType, ...]


_known: dict[int, tuple[CodeType, Reads]] = {}  # hashing a code object reads all of it
MOST_KNOWN = 4096


def reads_of(code: CodeType) -> Reads:
    """What a code object reads, apart from the functions that are made in it."""
    known = _known.get(id(code))
    if known is None:
        if len(_known) >= MOST_KNOWN:
            _known.clear()
        inner = tuple([c for c in code.co_consts if isinstance(c, CodeType)])
        words = [c for c in code.co_consts if isinstance(c, str) and len(c) <= MOST_NAME]
        names = frozenset([*code.co_names, *[w for w in words if w.isidentifier()]])
        known = _known[id(code)] = code, Reads(tuple(_paths(code)), names, inner)
    return known[1]


def _paths(code: CodeType) -> Iterator[Path]:
    instructions = [i for i in dis.get_instructions(code) if i.opname not in _SILENT]
    source, name = "", ""
    steps: list[Step] = []
    constant: list[Any] = []  # that may become an item's key
    for k, i in enumerate(instructions):
        op = i.opname
        if source:
            if op == "IMPORT_FROM":
                yield Path(source, name, (*steps, (ATTRIBUTE, i.argval)))
                continue
            if op in _ATTRIBUTES and not constant:
                steps.append((ATTRIBUTE, i.argval))
                continue
            if op == "BINARY_SUBSCR" and constant:
                steps.append((ITEM, constant.pop()))
                continue
            if op == "LOAD_CONST" and not constant:
                constant.append(i.argval)
                continue
            yield Path(source, name, tuple(steps), *_consumer(instructions, k, len(constant)))
        source, steps, constant = "", [], []
        if op in _LOADS:
            source, name = _LOADS[op], i.argval
        elif op in _PAIRS:
            first, name = i.argval
            source = LOCAL
            if op == "LOAD_FAST_LOAD_FAST":
                yield Path(LOCAL, first, ())
    if source:
        yield Path(source, name, tuple(steps))


_ARITHMETIC = ("+", "-", "*", "/", "@")
_OLD_NAMES = {
    "ADD": "+",
    "SUBTRACT": "-",
    "MULTIPLY": "*",
    "TRUE_DIVIDE": "/",
    "MATRIX_MULTIPLY": "@",
}  # up to Python 3.10
_POPS = {"BINARY_OP": 2, "COMPARE_OP": 2, "BINARY_SUBSCR": 2, "LOAD_ATTR": 1, "LOAD_METHOD": 1}
_POPS |= {"UNARY_NEGATIVE": 1, "UNARY_POSITIVE": 1, "UNARY_INVERT": 1, "PUSH_NULL": 0}
_POPS |= {"LOAD_CONST": 0, "KW_NAMES": 0, "LOAD_FAST_LOAD_FAST": 0}
_POPS |= dict.fromkeys(_LOADS, 0)
_CALLS = {"CALL": 2, "CALL_FUNCTION": 1, "CALL_METHOD": 2, "CALL_FUNCTION_KW": 2, "CALL_KW": 3}


def _consumer(
    instructions: Sequence[dis.Instruction], start: int, above: int
) -> tuple[int | None, bool]:
    """What takes a value off the stack: the offset of arithmetic, or None; whether it is called.

    Arguments:
        instructions: of the code.
        start: the first one behind the value.
        above: how many values lie on top of it there.
    """
    for i in instructions[start:]:
        op, old = i.opname, i.opname.partition("_")
        sign = i.argrepr if op == "BINARY_OP" else ""
        if old[0] in ("BINARY", "INPLACE") and old[2] in _OLD_NAMES:
            sign = _OLD_NAMES[old[2]] + "=" * (old[0] == "INPLACE")
        pops = 2 if sign else _POPS.get(op)
        if op in _CALLS:
            pops = (i.arg or 0) + _CALLS[op]
        if pops is None or i.is_jump_target:
            break
        if pops > above:
            arithmetic = sign in _ARITHMETIC or (sign[:-1] in _ARITHMETIC and above == 0)
            return i.offset if arithmetic else None, _is_callee(op, i.arg or 0, above)
        above += dis.stack_effect(i.opcode, i.arg)
    return None, False


def _is_callee(op: str, count: int, above: int) -> bool:
    """Whether a call's function lies so deep; since Python 3.13 something lies between."""
    between = op == "CALL" and sys.version_info >= (3, 13)
    return op in ("CALL", "CALL_FUNCTION", "CALL_METHOD") and above in (count, count + between)
