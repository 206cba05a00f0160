"""L7. The machine code of an exported program as Python loads it: one relocatable object.

fgrad_run(_, given)                  the host program
fgrad_attach(share, pool, poll, notes)    from then on work is shared among threads, loops look
                                          for signals, and failures are told to functions:
                                          all that takes some ms to load
"""

from __future__ import annotations

from fgrad.aot.machine import NOTED, RUN, SHARED, SHARING, TABLE, WALK, Functions, Machine, merged
from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.cpu.native import whole
from fgrad.compile.host.program import Call
from fgrad.compile.llvm import generator, interrupts
from fgrad.compile.llvm.runtime import target

ATTACH = "fgrad_attach"
_HELPERS = f"""@fgrad_share_at = internal global ptr null
@fgrad_pool_at = internal global ptr null
@fgrad_poll_at = internal global ptr null
@fgrad_notes_at = internal global ptr null
define void @{ATTACH}(ptr %share, ptr %pool, ptr %poll, ptr %notes) #0 {{
  store ptr %share, ptr @fgrad_share_at, align 8
  store ptr %pool, ptr @fgrad_pool_at, align 8
  store ptr %poll, ptr @fgrad_poll_at, align 8
  store ptr %notes, ptr @fgrad_notes_at, align 8
  ret void
}}
define i64 @{interrupts.POLL}() #0 {{
  %poll = load ptr, ptr @fgrad_poll_at, align 8
  %none = icmp eq ptr %poll, null
  br i1 %none, label %go, label %ask
ask:
  %told = call i64 %poll()
  ret i64 %told
go:
  ret i64 0
}}
define void @{NOTED}(i64 %number) #0 {{
  %notes = load ptr, ptr @fgrad_notes_at, align 8
  %none = icmp eq ptr %notes, null
  br i1 %none, label %go, label %tell
tell:
  %before = sub i64 %number, 1
  %at = getelementptr ptr, ptr %notes, i64 %before
  %note = load ptr, ptr %at, align 8
  call void %note(ptr %notes, i64 0, i64 0)
  ret void
go:
  ret void
}}
{SHARING}"""
_RUN = f"""define void @{RUN}(ptr %none, ptr %given) #0 {{
  tail call void @{WALK}(ptr @{TABLE}, ptr %given)
  ret void
}}"""


class Object(NamedTuple):
    """An object, and the kernel that is the whole program, if it is one: its symbol, its range and
    the slots in its order."""

    code: bytes
    symbol: str
    extent: int
    order: list[int]


def object_of(machine: Machine) -> Object:
    """The relocatable object of a machine's module."""
    step = whole(machine.image.steps, machine.image.given)
    functions: Functions = dict(machine.functions)
    symbol, extent, order = RUN, 0, list[int]()
    if step is not None and isinstance(step, Call):
        symbol, extent = _symbol_of(machine), step.hi
        given = range(machine.image.given)
        order = [*step.slots, *[k for k in given if k not in step.slots]]
        functions = {name: f for name, f in functions.items() if name != WALK}
    else:
        functions[RUN] = _RUN, set()
    functions["helpers"] = _HELPERS, set()
    if interrupts.HAS_KEEPING:
        text = interrupts.keeping_text(target().features).format(symbol=interrupts.KEEPING)
        text = text.replace(f"@{interrupts.KEPT_FROM}", f"@{interrupts.POLL}")
        functions[interrupts.KEEPING] = text, set()
    lines = merged(functions, [RUN, ATTACH, symbol, "helpers"])
    if not order:
        lines.insert(0, machine.table())
    return Object(generator.compile_text("\n".join(lines)), symbol, extent, order)


def _symbol_of(machine: Machine) -> str:
    """The only function that the table names."""
    (symbol,) = {s for s in machine.relocations.values() if s != SHARED}
    return symbol
