"""L2. The code of a function -> what it reads by name: globals, cells, parameters, and their paths.

    cfg["lr"] * self.w + helper(x)    cfg -> item "lr"    self -> attribute w    helper

A path ends where something else is done with its value: stored, passed on, iterated over.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator, Sequence
from inspect import CO_OPTIMIZED
from itertools import pairwise
from types import CodeType
from typing import Any

from fgrad.base.named_tuple import NamedTuple

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
_SILENT = ("EXTENDED_ARG", "CACHE", "NOP", "PRECALL", "NOT_TAKEN")
# What Python 3.14 splits by how values are counted, or has in one instruction: the names before.
_EARLIER = {
    "LOAD_FAST_BORROW": "LOAD_FAST",
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW": "LOAD_FAST_LOAD_FAST",
    "LOAD_SMALL_INT": "LOAD_CONST",
}
_STORES = ("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_DEREF", "DELETE_DEREF", "STORE_NAME")
_COPIES = ("COPY", "DUP_TOP", "DUP_TOP_TWO")
_SWAPS = ("SWAP", "ROT_TWO", "ROT_THREE")
WRITERS = frozenset({"append", "extend", "insert", "add", "update", "clear", "discard"})
MOST_NAME = 64  # characters of a constant that may be the name of an attribute

# Names of Python's by which code sees more of a value than its numbers, or reaches it unseen.
_LOOKING = frozenset(
    {"type", "isinstance", "issubclass", "hasattr", "callable", "id", "globals", "locals", "vars"}
    | {"eval", "exec", "dir", "getattr", "isscalar", "attrgetter", "methodcaller"}
)
_LOOKING_ATTRIBUTES = frozenset(
    {
        "__class__",
        "__dict__",
        "__globals__",
        "__closure__",
        "isscalar",
        "attrgetter",
        "methodcaller",
    }
    | {"__getattribute__", "modules"}
)

_TESTING = frozenset({"getattr", "hasattr", "vars", "__dict__"})  # find that there is nothing

Step = tuple[str, Any]


class Path(NamedTuple):
    """From a name of the code to a value."""

    source: str
    name: str
    steps: tuple[Step, ...]
    called: bool = False  # the value is called, and nothing else
    counted: bool = False  # of what the value holds, something is counted up, and nothing else
    keeps: bool = False  # the value is made to hold something that was computed


class Reads(NamedTuple):
    """What one code object reads."""

    paths: tuple[Path, ...]
    names: frozenset[str]  # attributes that it asks of anything
    perhaps: frozenset[str]  # of these, what it asks of objects that may not have it
    inner: tuple[CodeType, ...]
    stored: frozenset[str]  # names outside of it that it binds
    looks: bool  # at the class or the identity of values
    is_body: bool  # of a function; that of a class finds its names in other ways


_known: dict[int, tuple[CodeType, Reads]] = {}  # hashing a code object reads all of it
MOST_KNOWN = 4096


def reads_of(code: CodeType) -> Reads:
    """What a code object reads, apart from the functions that are made in it."""
    known = _known.get(id(code))
    if known is None:
        if len(_known) >= MOST_KNOWN:
            _known.clear()
        known = _known[id(code)] = code, _reads_of(code)
    return known[1]


def _reads_of(code: CodeType) -> Reads:
    instructions = [_as_earlier(i) for i in dis.get_instructions(code) if i.opname not in _SILENT]
    inner = tuple([c for c in code.co_consts if isinstance(c, CodeType)])
    words = [c for c in code.co_consts if isinstance(c, str) and len(c) <= MOST_NAME]
    words = [w for w in words if w.isidentifier()]
    names = frozenset([*code.co_names, *words])
    perhaps = frozenset(() if _TESTING.isdisjoint(code.co_names) else words)
    outer = set(code.co_freevars)
    stored = [
        i.argval
        for i in instructions
        if i.opname in _STORES and (not i.opname.endswith("DEREF") or i.argval in outer)
    ]
    paths = tuple(_paths(instructions))
    looks = _looks(instructions) or any([p.name in _LOOKING for p in paths if p.source == GLOBAL])
    looks = looks or not _LOOKING_ATTRIBUTES.isdisjoint(code.co_names)
    is_body = bool(code.co_flags & CO_OPTIMIZED)
    return Reads(paths, names, perhaps, inner, frozenset(stored), looks, is_body)


def _as_earlier(i: dis.Instruction) -> dis.Instruction:
    """An instruction by the name that Pythons before 3.14 have for it."""
    name = _EARLIER.get(i.opname)
    if i.opname == "BINARY_OP" and i.argrepr == "[]":
        name = "BINARY_SUBSCR"
    elif i.opname == "LOAD_CONST" and isinstance(i.argval, slice):
        name = "BUILD_SLICE"
    return i if name is None else i._replace(opname=name)


def _looks(instructions: Sequence[dis.Instruction]) -> bool:
    """Whether code matches classes, or compares identities other than that of None."""
    for before, i in pairwise(instructions):
        if i.opname in ("MATCH_CLASS", "MATCH_MAPPING", "MATCH_SEQUENCE"):
            return True
        constant = before.opname == "LOAD_CONST" and before.argval in (None, True, False)
        if i.opname == "IS_OP" and not constant:
            return True
    return False


def _paths(instructions: Sequence[dis.Instruction]) -> Iterator[Path]:
    source, name = "", ""
    steps: list[Step] = []
    constant: list[object] = []  # that may become an item's key
    skip = began = 0
    for k, i in enumerate(instructions):
        op = i.opname
        if skip:
            skip -= 1
            continue
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
            counted, skip = _counted(instructions, k, name, source, steps, constant)
            if counted:
                if op in _COPIES:
                    yield Path(source, name, tuple(steps), counted=True)
                source, steps, constant = "", [], []
                continue
            called = _is_called(instructions, k, len(constant))
            keeps = _keeps(instructions, k, began, steps)
            yield Path(source, name, tuple(steps), called, keeps=keeps)
        source, steps, constant = "", [], []
        began = k
        if op in _LOADS:
            source, name = _LOADS[op], i.argval
        elif op in _PAIRS:
            first, name = i.argval
            source = LOCAL
            if op == "LOAD_FAST_LOAD_FAST":
                yield Path(LOCAL, first, ())
    if source:
        yield Path(source, name, tuple(steps))


def _counted(
    instructions: Sequence[dis.Instruction],
    k: int,
    name: str,
    source: str,
    steps: Sequence[Step],
    constant: Sequence[object],
) -> tuple[bool, int]:
    """Whether `n += 1`, `x.n += 1` or `x["n"] += 1` follows a path, of which nothing else becomes;
    and how many more instructions that takes."""
    rest = instructions[k : k + 9]
    ops = [i.opname for i in rest]
    if len(constant) == 1 and not steps and _is_in_place(rest[0]) and len(rest) > 1:
        stores = ("STORE_GLOBAL",) if source == GLOBAL else ("STORE_DEREF",)
        return (ops[1] in stores and rest[1].argval == name), 1
    if not ops or ops[0] not in _COPIES:
        return False, 0
    copies = 2 if constant and ops[0] == "COPY" else 1
    rest, ops = rest[copies:], ops[copies:]
    swaps = sum([op in _SWAPS for op in ops[3:5]])
    if len(ops) < 5 or ops[1] != "LOAD_CONST" or not _is_in_place(rest[2]) or not swaps:
        return False, 0
    store = rest[3 + swaps] if len(rest) > 3 + swaps else rest[-1]
    of_item = bool(constant) and ops[0] == "BINARY_SUBSCR" and store.opname == "STORE_SUBSCR"
    of_attribute = not constant and ops[0] in _ATTRIBUTES and store.opname == "STORE_ATTR"
    same = of_attribute and store.argval == rest[0].argval
    return (of_item or same), copies + 3 + swaps


def _keeps(
    instructions: Sequence[dis.Instruction], k: int, began: int, steps: Sequence[Step]
) -> bool:
    """Whether something other than a constant is stored in what a path leads to."""
    op, before = instructions[k].opname, instructions[max(began - 1, 0)].opname
    if op in ("STORE_ATTR", "STORE_SUBSCR"):
        return before != "LOAD_CONST" or instructions[began].opname in _PAIRS
    written = bool(steps) and steps[-1][0] == ATTRIBUTE and steps[-1][1] in WRITERS
    return written and not (instructions[k - 1].opname == "LOAD_CONST" and op in _CALLS)


def _is_in_place(i: dis.Instruction) -> bool:
    return i.opname.startswith("INPLACE_") or (i.opname == "BINARY_OP" and i.argrepr.endswith("="))


_POPS = {
    **{"BINARY_OP": 2, "COMPARE_OP": 2, "BINARY_SUBSCR": 2, "LOAD_ATTR": 1, "LOAD_METHOD": 1},
    **{"UNARY_NEGATIVE": 1, "UNARY_POSITIVE": 1, "UNARY_INVERT": 1, "PUSH_NULL": 0},
    **{"LOAD_CONST": 0, "KW_NAMES": 0, "LOAD_FAST_LOAD_FAST": 0},
    **dict.fromkeys(_LOADS, 0),
}
_CALLS = {"CALL": 2, "CALL_FUNCTION": 1, "CALL_METHOD": 2, "CALL_FUNCTION_KW": 2, "CALL_KW": 3}


def _is_called(instructions: Sequence[dis.Instruction], start: int, above: int) -> bool:
    """Whether a value is called by what takes it off the stack.

    Arguments:
        instructions: of the code.
        start: the first one behind the value.
        above: how many values lie on top of it there.
    """
    for i in instructions[start:]:
        op = i.opname
        binary = op.startswith(("BINARY_", "INPLACE_")) and op not in _POPS
        pops = 2 if binary and "SLICE" not in op else _POPS.get(op)
        if op in _CALLS:
            pops = (i.arg or 0) + _CALLS[op]
        if pops is None or i.is_jump_target:
            return False
        if pops > above:
            return _is_callee(op, i.arg or 0, above)
        above += dis.stack_effect(i.opcode, i.arg)
    return False


def _is_callee(op: str, count: int, above: int) -> bool:
    """Whether a call's function lies so deep; since Python 3.13 something lies between."""
    between = op == "CALL" and sys.version_info >= (3, 13)
    return op in ("CALL", "CALL_FUNCTION", "CALL_METHOD") and above in (count, count + between)


def binds_globals(code: CodeType) -> bool:
    """Whether a function, or one made in it, binds names of its module or of functions around."""
    reads = reads_of(code)
    return bool(reads.stored) or any([binds_globals(inner) for inner in reads.inner])
