"""L7. The machine code of exported programs as Python loads it: one relocatable object.

fgrad_walk(table, given)                  the host program
fgrad_attach(share, pool, poll, notes)    from then on work is shared among threads, loops look
                                          for signals, and failures are told to functions:
                                          all that takes some ms to load
"""

from __future__ import annotations

from collections.abc import Sequence

from fgrad.aot.machine import NOTED, SHARING, WALK, Functions, Module, merged
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


def object_of(module: Module, symbols: Sequence[str]) -> bytes:
    """The relocatable object of a module, with these functions to be found in it."""
    functions: Functions = dict(module.functions)
    functions["helpers"] = _HELPERS, set()
    if interrupts.HAS_KEEPING:
        text = interrupts.keeping_text(target().features).format(symbol=interrupts.KEEPING)
        text = text.replace(f"@{interrupts.KEPT_FROM}", f"@{interrupts.POLL}")
        functions[interrupts.KEEPING] = text, set()
    if WALK not in symbols:
        del functions[WALK]
    lines = merged(functions, [*symbols, ATTACH, "helpers"])
    return generator.compile_text("\n".join(lines))
