"""L6. The text of a body for the device -> the text of a module that a CPU runs.

`float addrspace(1)*` becomes `ptr`, and a barrier names its place in the text:

    %v = load float, float addrspace(1)* %q, align 4, !invariant.load !0
    call void @llvm.nvvm.barrier0()
->  %v = load float, ptr %q, align 4
    call void @emulate.barrier(i32 1)

In a checked module each address of global or shared memory passes through a test that records the
first access outside of the arrays, or not aligned, and makes it harmless.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from fgrad.lower_cuda.emulate_device import definitions, libdevice_globals

HEAD_WORDS = 8  # of the table of a checked run, before the ranges: see _CHECK

_POINTER = re.compile(
    r"(?:\{[^{}]*\}|\[[^\[\]]*\]|<[^<>]*>|%[\w.]+|\b(?:i\d+|float|double|half|void|ptr))"
    r"(?: addrspace\(\d+\))?\*+"
)
_SHARED = re.compile(
    r"^@([\w.$]+) = .*addrspace\(3\) global (\[.*\]|\w+) (?:undef|zeroinit\w*)", re.M
)
_ACCESS = re.compile(
    r"^(?P<before>\s*(?:%[\w.]+ = )?(?:load|store|atomicrmw|cmpxchg)\b.*?)"
    r"(?P<type>\[[^\[\]]*\]|<[^<>]*>|\b\w+) addrspace\((?P<space>[13])\)\* "
    r"(?P<address>%[\w.]+|@[\w.$]+)(?P<after>.*)$",
    re.M,
)
_WIDTHS = {"half": 2, "float": 4, "double": 8}

# The table of a checked run, in words: first bad address (0: none), its size, place in the text,
# block, x, y, number of ranges of global memory, unused, then the begin and end of each range.
_CHECK = """@emulate.table = internal global ptr null
@emulate.nowhere = internal global [256 x i8] zeroinitializer, align 16
define internal i1 @emulate.inside(i64 %first, i64 %last, ptr %ranges, i64 %count) {
entry:
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %after, %test ]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %test, label %outside
test:
  %begin.at = getelementptr [2 x i64], ptr %ranges, i64 %k, i64 0
  %end.at = getelementptr [2 x i64], ptr %ranges, i64 %k, i64 1
  %begin = load i64, ptr %begin.at
  %end = load i64, ptr %end.at
  %above = icmp uge i64 %first, %begin
  %below = icmp ule i64 %last, %end
  %in = and i1 %above, %below
  %after = add i64 %k, 1
  br i1 %in, label %inside, label %next
inside:
  ret i1 true
outside:
  ret i1 false
}
define internal ptr @emulate.judge(
    i1 %in, i64 %first, i64 %size, i64 %align, i64 %place, i32 %block, i32 %x, i32 %y) {
  %table = load ptr, ptr @emulate.table
  %rest = urem i64 %first, %align
  %aligned = icmp eq i64 %rest, 0
  %good = and i1 %in, %aligned
  br i1 %good, label %done, label %bad
bad:
  %earlier = load i64, ptr %table
  %is.first = icmp eq i64 %earlier, 0
  br i1 %is.first, label %record, label %harmless
record:
  %block.word = sext i32 %block to i64
  %x.word = sext i32 %x to i64
  %y.word = sext i32 %y to i64
  %a1 = getelementptr i64, ptr %table, i64 1
  %a2 = getelementptr i64, ptr %table, i64 2
  %a3 = getelementptr i64, ptr %table, i64 3
  %a4 = getelementptr i64, ptr %table, i64 4
  %a5 = getelementptr i64, ptr %table, i64 5
  store i64 %first, ptr %table
  store i64 %size, ptr %a1
  store i64 %place, ptr %a2
  store i64 %block.word, ptr %a3
  store i64 %x.word, ptr %a4
  store i64 %y.word, ptr %a5
  br label %harmless
harmless:
  ret ptr @emulate.nowhere
done:
  %same = inttoptr i64 %first to ptr
  ret ptr %same
}
define internal ptr @emulate.check1(
    ptr %at, i64 %size, i64 %align, i64 %place, i32 %block, i32 %x, i32 %y) {
  %first = ptrtoint ptr %at to i64
  %last = add i64 %first, %size
  %table = load ptr, ptr @emulate.table
  %count.at = getelementptr i64, ptr %table, i64 6
  %count = load i64, ptr %count.at
  %ranges = getelementptr i64, ptr %table, i64 8
  %in = call i1 @emulate.inside(i64 %first, i64 %last, ptr %ranges, i64 %count)
  %safe = call ptr @emulate.judge(
    i1 %in, i64 %first, i64 %size, i64 %align, i64 %place, i32 %block, i32 %x, i32 %y)
  ret ptr %safe
}
define internal ptr @emulate.check3(
    ptr %at, i64 %size, i64 %align, i64 %place, i32 %block, i32 %x, i32 %y) {
  %first = ptrtoint ptr %at to i64
  %last = add i64 %first, %size
  %in = call i1 @emulate.inside(i64 %first, i64 %last, ptr @emulate.shared, i64 SHARED_COUNT)
  %safe = call ptr @emulate.judge(
    i1 %in, i64 %first, i64 %size, i64 %align, i64 %place, i32 %block, i32 %x, i32 %y)
  ret ptr %safe
}"""


class Shared(NamedTuple):
    """An array of shared memory."""

    name: str
    nbytes: int


class Retargeted(NamedTuple):
    """A body for a CPU."""

    lines: list[str]  # all that its entry needs at the level of the module
    shared: list[Shared]
    waits: bool  # whether its threads wait for each other
    places: list[str]  # the instructions that a check or a barrier is named after


def retarget(body: str, checked: bool = False) -> Retargeted:
    """A body for a CPU; a checked one tests all addresses."""
    text = re.sub(r";[^\n]*", "", body)
    text = re.sub(r'@"([\w.$]+)"', r"@\1", text)
    text = re.sub(r"^(?:target |!|declare |attributes |source_filename).*$", "", text, flags=re.M)
    text = re.sub(r",? ![\w.]+ !\d+", "", text)
    text = re.sub(r" #\d+", "", text)
    shared = [Shared(name, width_of(kind)) for name, kind in _SHARED.findall(text)]
    places: list[str] = []
    if checked:
        text = _ACCESS.sub(lambda found: _checked_access(found, places), text)
    text = _number_barriers(text, places)
    text = re.sub(r"addrspacecast \(", "bitcast (", text).replace("addrspacecast ", "bitcast ")
    text = _opaque(text)
    text = re.sub(r" addrspace\(\d+\)", "", text)
    text = re.sub(r"^(@.* global .*)\bundef\b", r"\1zeroinitializer", text, flags=re.M)
    text = text.replace("@llvm.nvvm.", "@nvvm.")
    lines = [text, *_needed(text)]
    if checked:
        lines += [_CHECK.replace("SHARED_COUNT", str(len(shared))), _shared_ranges(shared)]
    waits = any("@emulate_wait" in line for line in lines)
    return Retargeted(lines, shared, waits, places)


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
    aligned = re.search(r", align (\d+)", found["after"])
    width = width_of(kind)
    align = int(aligned[1]) if aligned else min(16, 1 << (width - 1).bit_length())
    test = (
        f"  {safe} = call ptr @emulate.check{space}({pointer} {found['address']}, i64 {width}, "
        f"i64 {align}, i64 {len(places) - 1}, i32 %block, i32 %x, i32 %y)\n"
    )
    return f"{test}{found['before']}ptr {safe}{found['after']}"


def _shared_ranges(shared: list[Shared]) -> str:
    """The begin and end of each array of shared memory."""
    ends = [
        f"i64 ptrtoint (ptr @{array.name} to i64), "
        f"i64 ptrtoint (ptr getelementptr (i8, ptr @{array.name}, i64 {array.nbytes}) to i64)"
        for array in shared
    ]
    values = f"[{', '.join(ends)}]" if ends else "zeroinitializer"
    return f"@emulate.shared = internal global [{2 * len(shared)} x i64] {values}"


def width_of(kind: str) -> int:
    """The bytes of a type in memory: 16 of <4 x float>."""
    many = re.fullmatch(r"[\[<](\d+) x (.*)[\]>]", kind.strip())
    if many:
        return int(many[1]) * width_of(many[2])
    return _WIDTHS.get(kind) or (int(kind[1:]) + 7) // 8


def entry(symbol: str, arity: int, body: Retargeted, checked: bool = False) -> str:
    """The text of a function that runs ranges of blocks and threads.

    `void f(ptr table, i32 block, i32 end, i32 x, i32 end, i32 y, i32 end, i32 poison)`: the table
    holds the addresses of the arrays, and after them, for a checked body, the table of the run.
    With `poison` all bits of shared memory are set before each block.
    """
    lines = [
        f"define void @{symbol}(ptr %table, i32 %b0, i32 %b1, i32 %x0, i32 %x1, "
        "i32 %y0, i32 %y1, i32 %poison) {",
        "entry:",
    ]
    for k in range(arity):
        lines.append(f"  %p{k}.at = getelementptr ptr, ptr %table, i64 {k}")
        lines.append(f"  %p{k} = load ptr, ptr %p{k}.at")
    if checked:
        lines.append(f"  %check.at = getelementptr ptr, ptr %table, i64 {arity}")
        lines.append("  %check = load ptr, ptr %check.at")
        lines.append("  store ptr %check, ptr @emulate.table")
    lines.append("  %poisons = icmp ne i32 %poison, 0")
    lines.append("  br label %block.head")
    lines += [
        "block.head:",
        "  %block = phi i32 [ %b0, %entry ], [ %block.next, %y.end ]",
        "  %block.more = icmp slt i32 %block, %b1",
        "  br i1 %block.more, label %block.begin, label %end",
        "block.begin:",
        "  br i1 %poisons, label %fill, label %y.head",
        "fill:",
    ]
    for array in body.shared:
        lines.append(
            f"  call void @llvm.memset.p0.i64(ptr @{array.name}, i8 -1, i64 {array.nbytes}, i1 0)"
        )
    pointers = "".join(f", ptr %p{k}" for k in range(arity))
    lines += [
        "  br label %y.head",
        "y.head:",
        "  %y = phi i32 [ %y0, %block.begin ], [ %y0, %fill ], [ %y.next, %x.end ]",
        "  %y.more = icmp slt i32 %y, %y1",
        "  br i1 %y.more, label %x.head, label %y.end",
        "x.head:",
        "  %x = phi i32 [ %x0, %y.head ], [ %x.next, %thread ]",
        "  %x.more = icmp slt i32 %x, %x1",
        "  br i1 %x.more, label %thread, label %x.end",
        "thread:",
        f"  call void @fgrad_body(i32 %block, i32 %x, i32 %y{pointers})",
        "  %x.next = add i32 %x, 1",
        "  br label %x.head",
        "x.end:",
        "  %y.next = add i32 %y, 1",
        "  br label %y.head",
        "y.end:",
        "  %block.next = add i32 %block, 1",
        "  br label %block.head",
        "end:",
        "  ret void",
        "}",
    ]
    return "\n".join(lines)
