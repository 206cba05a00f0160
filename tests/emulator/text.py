"""The text of a body for the device -> the text of a module that a CPU runs.

`float addrspace(1)*` becomes `ptr`, and a barrier names its place in the text:

    %v = load float, float addrspace(1)* %q, align 4, !invariant.load !0
    %w = fsub float -0.0, %v
    call void @llvm.nvvm.barrier0()
->  %v = load float, ptr %q, align 4
    %w = fneg float %v
    call void @emulate.barrier(i32 1)

In a checked module each address of global or shared memory passes through a test that records the
first access outside of the arrays, or not aligned, and makes it harmless; and jumps backwards are
counted.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from emulator.device import definitions, libdevice_globals
from emulator.entry import ATOMIC, READ, WRITE, Shared, around

# An array of arrays of arrays, at most.
_ARRAY = r"\[(?:[^\[\]]|\[(?:[^\[\]]|\[[^\[\]]*\])*\])*\]"
_POINTER = re.compile(
    rf"(?:\{{[^{{}}]*\}}|{_ARRAY}|<[^<>]*>|%[\w.]+|\b(?:i\d+|float|double|half|void|ptr))"
    r"(?: addrspace\(\d+\))?\*+"
)
_SHARED = re.compile(
    r"^@([\w.$]+) = .*addrspace\(3\) global (\[.*\]|\w+) (?:undef|zeroinit\w*)", re.M
)
_ACCESS = re.compile(
    r"^(?P<before>\s*(?:%[\w.]+ = )?"
    r"(?:load\b|store\b|atomicrmw\b|cmpxchg\b|call \w+ @llvm\.nvvm\.atomic\b).*?)"
    rf"(?P<type>{_ARRAY}|<[^<>]*>|\b\w+) addrspace\((?P<space>[13])\)\* "
    r"(?P<address>%[\w.]+|@[\w.$]+)(?P<after>.*)$",
    re.M,
)
_LABEL = re.compile(r"^([\w.$]+):")
_JUMP = re.compile(r"label %([\w.$]+)")
_ATOMIC = re.compile(r"\b(?:atomicrmw|cmpxchg)\b|@llvm\.nvvm\.atomic\b")
_WIDTHS = {"half": 2, "float": 4, "double": 8}


class Retargeted(NamedTuple):
    """A body for a CPU."""

    lines: list[str]  # all that its entry needs at the level of the module
    by_turns: bool  # whether its threads wait for each other, or their order may matter
    grain: int  # the bytes that all checked accesses are made of; 0 where none is checked
    places: list[str]  # the instructions that a check or a barrier is named after


def retarget(body: str, arity: int, checked: bool) -> Retargeted:
    """A body for a CPU; a checked one tests all addresses and counts jumps backwards."""
    text = re.sub(r";[^\n]*", "", body)
    text = re.sub(r'@"([\w.$]+)"', r"@\1", text)
    text = re.sub(r"^(?:target |!|declare |attributes |@llvm\.used).*$", "", text, flags=re.M)
    text = re.sub(r",? ![\w.]+ !\d+", "", text)
    text = re.sub(r" #\d+", "", text)
    shared = [Shared(name, width_of(kind)) for name, kind in _SHARED.findall(text)]
    places: list[str] = []
    atomics = _ATOMIC.search(text) is not None
    grain = 0
    if checked:
        grain = min([_width_and_align(found)[1] for found in _ACCESS.finditer(text)], default=1)
        text = _ACCESS.sub(lambda found: _checked_access(found, places), text)
        text = _count_jumps(text, places)
    text = _number_barriers(text, places)
    text = re.sub(r"addrspacecast \(", "bitcast (", text).replace("addrspacecast ", "bitcast ")
    text = _opaque(text)
    text = re.sub(r" addrspace\(\d+\)", "", text)
    text = re.sub(r"^(@.* global .*)\bundef\b", r"\1zeroinitializer", text, flags=re.M)
    text = re.sub(r"\bfsub ([^,%]*?) -0\.0, ", r"fneg \1 ", text)
    text = text.replace("@llvm.nvvm.", "@nvvm.")
    needed = _needed(text)
    by_turns = atomics or any(["@emulate_wait" in function for function in needed])
    lines = [text, *needed, *around(arity, shared, by_turns, grain, atomics)]
    return Retargeted(lines, by_turns, grain, places)


def _opaque(text: str) -> str:
    """`[4 x float] addrspace(3)*` -> `ptr`, from the inside out"""
    while True:
        shorter = _POINTER.sub("ptr", text)
        if shorter == text:
            return text
        text = shorter


def _number_barriers(text: str, places: list[str]) -> str:
    """Each barrier gets the number of its place in the text."""

    def numbered(found: re.Match[str]) -> str:
        places.append(found[0].strip())
        comma = ", " if found[3] else ""
        name = found[2].replace("barrier0", "barrier")
        return f"{found[1]}@emulate.{name}(i32 {len(places) - 1}{comma}{found[3]})"

    return re.sub(r"^(.*)@llvm\.nvvm\.(barrier0[\w.]*)\((.*)\)", numbered, text, flags=re.M)


def _needed(text: str) -> list[str]:
    """The definitions of all that a text calls, and the tables of libdevice where it is used."""
    functions = definitions(set(re.findall(r"@([\w.$]+)\(", text)) - {"fgrad_body"})
    if any("@__" in function for function in functions):
        return [*libdevice_globals(), *functions]
    return functions


def _checked_access(found: re.Match[str], places: list[str]) -> str:
    """The address of a load, a store or an atomic operation, tested."""
    places.append(found[0].strip())
    kind, space = found["type"], found["space"]
    pointer = f"{kind} addrspace({space})*"
    safe = f"%checked{len(places)}"
    width, align = _width_and_align(found)
    what = found["before"].split("=")[-1].split()[0]
    access = {"load": READ, "store": WRITE}.get(what, ATOMIC)
    test = (
        f"  {safe} = call ptr @emulate.check{space}({pointer} {found['address']}, i64 {width}, "
        f"i64 {align}, i64 {len(places) - 1}, i64 {access})\n"
    )
    return f"{test}{found['before']}ptr {safe}{found['after']}"


def _count_jumps(text: str, places: list[str]) -> str:
    """The text with a call before each jump to a label that stands above it."""
    lines: list[str] = []
    above: set[str] = set()
    for line in text.split("\n"):
        label = _LABEL.match(line)
        if line.startswith("define "):
            above = set()
        elif label:
            above.add(label[1])
        elif above.intersection(_JUMP.findall(line)):
            places.append(line.strip())
            lines.append(f"  call void @emulate.step(i64 {len(places) - 1})")
        lines.append(line)
    return "\n".join(lines)


def _width_and_align(found: re.Match[str]) -> tuple[int, int]:
    """The bytes of an access, and what its address is a multiple of."""
    width = width_of(found["type"])
    given = re.search(r", align (\d+)", found["after"])
    return width, int(given[1]) if given else min(16, 1 << (width - 1).bit_length())


def width_of(kind: str) -> int:
    """The bytes of a type in memory: 16 of <4 x float>."""
    many = re.fullmatch(r"[\[<](\d+) x (.*)[\]>]", kind.strip())
    if many:
        return int(many[1]) * width_of(many[2])
    return _WIDTHS.get(kind) or (int(kind[1:]) + 7) // 8
