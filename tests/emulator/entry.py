"""The functions around a body on a CPU: loops over threads, turns of threads, checked accesses.

A body whose threads do not wait is called in a loop.  Else each thread has a stack of its own and
runs until it waits: it leaves a request in its record and goes back to the function that gives the
turns.  When all have had theirs, `emulate_turns` answers the requests that can be answered.

A checked access looks up its array.  For each grain, the smallest piece that the body touches, a
shadow holds the stamps of the last write and of the last reads and atomic operations of two threads
each, so that two threads that touch it, not both reading and not both atomic, without a barrier in
between, are found whatever the order in which they ran.  A checked jump backwards counts: a thread
that makes too many without waiting is left where it is.
"""

from __future__ import annotations

from typing import NamedTuple

# Columns of a thread's record.
STATE, KIND, PLACE, MODE, VALUE, LANE, CLAMP, ANSWER, STAMP = range(9)
RECORD_WORDS = 9
READY, WAITING, ENDED, NEW = range(4)  # NEW: ready, but its stack is empty
# Kinds of requests.
BARRIER, POPC, AND, OR, WARP, SHUFFLE, VOTE = range(7)

CONTEXT_BYTES = 8192  # of a ucontext_t and then a jmp_buf, whose sizes depend on the processor
JUMP_BYTES = 2048
JUMP_AT = CONTEXT_BYTES - JUMP_BYTES
STACK_BYTES = 1 << 16

# Words of the table of a checked run, before its ranges.
FAULT, ADDRESS, SIZE, PLACE_OF_FAULT, BLOCK, THREAD, OTHER, LIMIT, RANGES = range(9)
HEAD_WORDS = 9
RANGE_WORDS = 3  # begin, end, address of the shadow or 0
SHADOW_WORDS = (
    5  # of one grain: stamps of the last write, of two reads and of two atomic operations
)
OUTSIDE, RACE, ENDLESS = 1, 2, 3
READ, WRITE, ATOMIC = range(3)
# A stamp is (interval, thread, how often its warp has come together).
INTERVAL_SHIFT, THREAD_SHIFT = 32, 22

_SWITCHING = f"""@emulate.table = internal global ptr null
@emulate.records = internal global ptr null
@emulate.contexts = internal global ptr null
declare i32 @getcontext(ptr)
declare void @makecontext(ptr, ptr, i32, ...)
declare i32 @setcontext(ptr)
declare i32 @_setjmp(ptr) returns_twice
declare void @_longjmp(ptr, i32) noreturn
define internal ptr @emulate.record() {{
  %records = load ptr, ptr @emulate.records
  %t = load i64, ptr @emulate.thread
  %record = getelementptr [{RECORD_WORDS} x i64], ptr %records, i64 %t
  ret ptr %record
}}
define internal ptr @emulate.context(i64 %t) {{
  %contexts = load ptr, ptr @emulate.contexts
  %slot = add i64 %t, 1
  %context = getelementptr [{CONTEXT_BYTES} x i8], ptr %contexts, i64 %slot
  ret ptr %context
}}
define internal i64 @emulate_wait(
    i32 %kind, i32 %place, i32 %mode, i32 %value, i32 %lane, i32 %clamp) {{
  %record = call ptr @emulate.record()
  %request = getelementptr i64, ptr %record, i64 {KIND}
  call void @emulate.words(ptr %request, i32 %kind, i32 %place, i32 %mode)
  %rest = getelementptr i64, ptr %record, i64 {VALUE}
  call void @emulate.words(ptr %rest, i32 %value, i32 %lane, i32 %clamp)
  store i64 {WAITING}, ptr %record
  %t = load i64, ptr @emulate.thread
  call void @emulate.switch(i64 %t, i64 -1, i1 false)
  %answer.at = getelementptr i64, ptr %record, i64 {ANSWER}
  %answer = load i64, ptr %answer.at
  ret i64 %answer
}}
define internal void @emulate.switch(i64 %from, i64 %to, i1 %new) {{
entry:
  %from.context = call ptr @emulate.context(i64 %from)
  %from.jump = getelementptr i8, ptr %from.context, i64 {JUMP_AT}
  %to.context = call ptr @emulate.context(i64 %to)
  %to.jump = getelementptr i8, ptr %to.context, i64 {JUMP_AT}
  %back = call i32 @_setjmp(ptr %from.jump) returns_twice
  %leaves = icmp eq i32 %back, 0
  br i1 %leaves, label %leave, label %end
leave:
  br i1 %new, label %start, label %jump
start:
  %never = call i32 @setcontext(ptr %to.context)
  br label %end
jump:
  call void @_longjmp(ptr %to.jump, i32 1)
  unreachable
end:
  ret void
}}
define internal void @emulate.words(ptr %at, i32 %a, i32 %b, i32 %c) {{
  %a.word = zext i32 %a to i64
  %b.word = zext i32 %b to i64
  %c.word = zext i32 %c to i64
  %b.at = getelementptr i64, ptr %at, i64 1
  %c.at = getelementptr i64, ptr %at, i64 2
  store i64 %a.word, ptr %at
  store i64 %b.word, ptr %b.at
  store i64 %c.word, ptr %c.at
  ret void
}}
define internal void @emulate.prepare(i64 %t, i64 %count) {{
  %context = call ptr @emulate.context(i64 %t)
  %got = call i32 @getcontext(ptr %context)
  %stacks = call ptr @emulate.context(i64 %count)
  %stack = getelementptr [{STACK_BYTES} x i8], ptr %stacks, i64 %t
  %stack.at = getelementptr i64, ptr %context, i64 2
  %size.at = getelementptr i64, ptr %context, i64 4
  store ptr %stack, ptr %stack.at
  store i64 {STACK_BYTES}, ptr %size.at
  call void (ptr, ptr, i32, ...) @makecontext(ptr %context, ptr @emulate.run_thread, i32 0)
  ret void
}}
define internal void @emulate.run_thread() {{
entry:
  br label %again
again:
  %t = load i64, ptr @emulate.thread
  %nx = load i64, ptr @emulate.nx
  %x.word = urem i64 %t, %nx
  %y.word = udiv i64 %t, %nx
  %x = trunc i64 %x.word to i32
  %y = trunc i64 %y.word to i32
  %block = load i32, ptr @emulate.block
  %table = load ptr, ptr @emulate.table
  call void @emulate.body(ptr %table, i32 %block, i32 %x, i32 %y)
  %record = call ptr @emulate.record()
  store i64 {ENDED}, ptr %record
  call void @emulate.switch(i64 %t, i64 -1, i1 false)
  br label %again
}}"""

_TURNS = f"""define void @SYMBOL(ptr %table, i32 %block, i64 %nx, i64 %count, ptr %records,
    ptr %order, ptr %contexts, i64 %interval, i32 %begins, i32 %poisons) {{
entry:
  store ptr %table, ptr @emulate.table
  store i32 %block, ptr @emulate.block
  store i64 %nx, ptr @emulate.nx
  store ptr %records, ptr @emulate.records
  store ptr %contexts, ptr @emulate.contexts
  %first = icmp ne i32 %begins, 0
  br i1 %first, label %begin, label %turns
begin:
  call void @emulate.poison(i32 %poisons)
  store i64 %interval, ptr @emulate.first_interval
  br label %turns
turns:
  br label %turn
turn:
  %k = phi i64 [ 0, %turns ], [ %k.next, %next ]
  %t.at = getelementptr i64, ptr %order, i64 %k
  %t = load i64, ptr %t.at
  store i64 %t, ptr @emulate.thread
  %record = call ptr @emulate.record()
  %state = load i64, ptr %record
  %is.new = icmp eq i64 %state, {NEW}
  br i1 %is.new, label %prepare, label %known
prepare:
  call void @emulate.prepare(i64 %t, i64 %count)
  store i64 {READY}, ptr %record
  br label %switch
known:
  %ready = icmp eq i64 %state, {READY}
  br i1 %ready, label %switch, label %next
switch:
  %stamp.at = getelementptr i64, ptr %record, i64 {STAMP}
  %stamp = load i64, ptr %stamp.at
  store i64 %stamp, ptr @emulate.stamp
  store i64 0, ptr @emulate.steps
  call void @emulate.switch(i64 -1, i64 %t, i1 %is.new)
  br label %next
next:
  %k.next = add i64 %k, 1
  %k.more = icmp slt i64 %k.next, %count
  br i1 %k.more, label %turn, label %end
end:
  ret void
}}"""

# A thread that is left where it is: its request is that it has ended, or its loop ends.
_LEAVE_TURN = f"""define internal void @emulate.leave() {{
  %record = call ptr @emulate.record()
  store i64 {ENDED}, ptr %record
  %t = load i64, ptr @emulate.thread
  call void @emulate.switch(i64 %t, i64 -1, i1 false)
  ret void
}}"""
_LEAVE_LOOP = f"""@emulate.jump = internal global [{JUMP_BYTES} x i8] zeroinitializer, align 16
declare i32 @_setjmp(ptr) returns_twice
declare void @_longjmp(ptr, i32) noreturn
define internal void @emulate.leave() {{
  call void @_longjmp(ptr @emulate.jump, i32 1)
  unreachable
}}"""

_LOOP = f"""define void @SYMBOL(
    ptr %table, i32 %grid, i32 %nx, i32 %ny, i64 %interval, i32 %poisons) {{
entry:
  %nx.word = zext i32 %nx to i64
  store i64 %nx.word, ptr @emulate.nx
  %left = call i32 @_setjmp(ptr @emulate.jump) returns_twice
  %begins = icmp eq i32 %left, 0
  br i1 %begins, label %blocks, label %end
blocks:
  br label %block.head
block.head:
  %block = phi i32 [ 0, %blocks ], [ %block.next, %block.end ]
  %block.more = icmp slt i32 %block, %grid
  br i1 %block.more, label %block.begin, label %end
block.begin:
  store i32 %block, ptr @emulate.block
  call void @emulate.poison(i32 %poisons)
  %block.word = zext i32 %block to i64
  %now = add i64 %interval, %block.word
  store i64 %now, ptr @emulate.first_interval
  %now.stamp = shl i64 %now, {INTERVAL_SHIFT}
  br label %y.head
y.head:
  %y = phi i32 [ 0, %block.begin ], [ %y.next, %y.end ]
  %y.more = icmp slt i32 %y, %ny
  br i1 %y.more, label %x.head, label %block.end
x.head:
  %x = phi i32 [ 0, %y.head ], [ %x.next, %thread ]
  %x.more = icmp slt i32 %x, %nx
  br i1 %x.more, label %thread, label %y.end
thread:
  %before = mul i32 %y, %nx
  %t = add i32 %before, %x
  %t.word = zext i32 %t to i64
  %t.stamp = shl i64 %t.word, {THREAD_SHIFT}
  %stamp = or i64 %now.stamp, %t.stamp
  store i64 %t.word, ptr @emulate.thread
  store i64 %stamp, ptr @emulate.stamp
  store i64 0, ptr @emulate.steps
  call void @emulate.body(ptr %table, i32 %block, i32 %x, i32 %y)
  %x.next = add i32 %x, 1
  br label %x.head
y.end:
  %y.next = add i32 %y, 1
  br label %y.head
block.end:
  %block.next = add i32 %block, 1
  br label %block.head
end:
  ret void
}}"""

_PLACE = """@emulate.block = internal global i32 0
@emulate.nx = internal global i64 1
@emulate.thread = internal global i64 0
@emulate.stamp = internal global i64 0
@emulate.steps = internal global i64 0
@emulate.first_interval = internal global i64 0"""

_CHECK = f"""@emulate.watch = internal global ptr null
@emulate.nowhere = internal global [256 x i8] zeroinitializer, align 16
define internal ptr @emulate.check1(
    ptr %at, i64 %size, i64 %align, i64 %place, i64 %kind) {{
  %watch = load ptr, ptr @emulate.watch
  %count.at = getelementptr i64, ptr %watch, i64 {RANGES}
  %count = load i64, ptr %count.at
  %ranges = getelementptr i64, ptr %watch, i64 {HEAD_WORDS}
  %safe = call ptr @emulate.check(ptr %at, i64 %size, i64 %align, i64 %place, i64 %kind,
    ptr %ranges, i64 %count, i1 true)
  ret ptr %safe
}}
define internal ptr @emulate.check3(
    ptr %at, i64 %size, i64 %align, i64 %place, i64 %kind) {{
  %safe = call ptr @emulate.check(ptr %at, i64 %size, i64 %align, i64 %place, i64 %kind,
    ptr @emulate.shared, i64 SHARED_COUNT, i1 false)
  ret ptr %safe
}}
define internal ptr @emulate.check(ptr %at, i64 %size, i64 %align, i64 %place, i64 %kind,
    ptr %ranges, i64 %count, i1 %global) {{
entry:
  %first = ptrtoint ptr %at to i64
  %last = add i64 %first, %size
  %rest = urem i64 %first, %align
  %aligned = icmp eq i64 %rest, 0
  br i1 %aligned, label %look, label %bad
look:
  %k = phi i64 [ 0, %entry ], [ %after, %test ]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %test, label %bad
test:
  %range = getelementptr [{RANGE_WORDS} x i64], ptr %ranges, i64 %k
  %end.at = getelementptr i64, ptr %range, i64 1
  %begin = load i64, ptr %range
  %end = load i64, ptr %end.at
  %above = icmp uge i64 %first, %begin
  %below = icmp ule i64 %last, %end
  %in = and i1 %above, %below
  %after = add i64 %k, 1
  br i1 %in, label %inside, label %look
inside:
  %shadow.at = getelementptr i64, ptr %range, i64 2
  %shadow = load i64, ptr %shadow.at
  %watched = icmp ne i64 %shadow, 0
  br i1 %watched, label %cells.begin, label %done
cells.begin:
  %offset = sub i64 %first, %begin
  %cell.first = udiv i64 %offset, GRAIN
  %cell.count = udiv i64 %size, GRAIN
  %shadow.first = inttoptr i64 %shadow to ptr
  %cells = getelementptr [{SHADOW_WORDS} x i64], ptr %shadow.first, i64 %cell.first
  br label %each
each:
  %n = phi i64 [ 0, %cells.begin ], [ %n.next, %cell.end ]
  %cell = getelementptr [{SHADOW_WORDS} x i64], ptr %cells, i64 %n
  %other = call i64 @emulate.touch(ptr %cell, i64 %kind, i1 %global)
  %race = icmp ne i64 %other, 0
  br i1 %race, label %racing, label %cell.end
racing:
  call void @emulate.fault(i64 {RACE}, i64 %first, i64 %size, i64 %place, i64 %other)
  br label %cell.end
cell.end:
  %n.next = add i64 %n, 1
  %n.more = icmp ult i64 %n.next, %cell.count
  br i1 %n.more, label %each, label %done
bad:
  call void @emulate.fault(i64 {OUTSIDE}, i64 %first, i64 %size, i64 %place, i64 0)
  ret ptr @emulate.nowhere
done:
  ret ptr %at
}}
define internal i64 @emulate.touch(ptr %cell, i64 %kind, i1 %global) {{
  %now = load i64, ptr @emulate.stamp
  %reads = getelementptr i64, ptr %cell, i64 1
  %atomics = getelementptr i64, ptr %cell, i64 3
  %writes = icmp eq i64 %kind, {WRITE}
  %not.reads = icmp ne i64 %kind, {READ}
  %not.atomic = icmp ne i64 %kind, {ATOMIC}
  %meets.atomics = and i1 %not.atomic, HAS_ATOMICS
  %written = load i64, ptr %cell
  %after.write = call i64 @emulate.conflict(i64 %written, i64 %now, i1 %global)
  %after.read = call i64 @emulate.clash(ptr %reads, i1 %not.reads, i64 %now, i1 %global)
  %after.atomic = call i64 @emulate.clash(ptr %atomics, i1 %meets.atomics, i64 %now, i1 %global)
  %has.read = icmp ne i64 %after.read, 0
  %other = select i1 %has.read, i64 %after.read, i64 %after.atomic
  %has.write = icmp ne i64 %after.write, 0
  %found = select i1 %has.write, i64 %after.write, i64 %other
  %pair = select i1 %not.reads, ptr %atomics, ptr %reads
  br i1 %writes, label %write, label %note
write:
  store i64 %now, ptr %cell
  ret i64 %found
note:
  %second.at = getelementptr i64, ptr %pair, i64 1
  %first = load i64, ptr %pair
  %second = load i64, ptr %second.at
  %known = call i1 @emulate.same_thread(i64 %first, i64 %now)
  %kept = select i1 %known, i64 %second, i64 %first
  store i64 %now, ptr %pair
  store i64 %kept, ptr %second.at
  ret i64 %found
}}
define internal i64 @emulate.clash(ptr %pair, i1 %counts, i64 %now, i1 %global) {{
entry:
  br i1 %counts, label %look, label %none
look:
  %second.at = getelementptr i64, ptr %pair, i64 1
  %first = load i64, ptr %pair
  %second = load i64, ptr %second.at
  %after.first = call i64 @emulate.conflict(i64 %first, i64 %now, i1 %global)
  %after.second = call i64 @emulate.conflict(i64 %second, i64 %now, i1 %global)
  %has.first = icmp ne i64 %after.first, 0
  %found = select i1 %has.first, i64 %after.first, i64 %after.second
  ret i64 %found
none:
  ret i64 0
}}
define internal i1 @emulate.same_thread(i64 %a, i64 %b) {{
  %differ = xor i64 %a, %b
  %of.threads = lshr i64 %differ, {THREAD_SHIFT}
  %same = icmp eq i64 %of.threads, 0
  ret i1 %same
}}
define internal i64 @emulate.conflict(i64 %then, i64 %now, i1 %global) {{
  %begin = load i64, ptr @emulate.first_interval
  %none = icmp eq i64 %then, 0
  %interval.then = lshr i64 %then, {INTERVAL_SHIFT}
  %interval.now = lshr i64 %now, {INTERVAL_SHIFT}
  %this.interval = icmp eq i64 %interval.then, %interval.now
  %differ = xor i64 %then, %now
  %differ.thread = lshr i64 %differ, {THREAD_SHIFT}
  %thread.bits = and i64 %differ.thread, 1023
  %other.thread = icmp ne i64 %thread.bits, 0
  %warp.bits = and i64 %thread.bits, 992
  %same.warp = icmp eq i64 %warp.bits, 0
  %clock.then = and i64 %then, {(1 << THREAD_SHIFT) - 1}
  %clock.now = and i64 %now, {(1 << THREAD_SHIFT) - 1}
  %came.together = icmp ne i64 %clock.then, %clock.now
  %ordered = and i1 %same.warp, %came.together
  %unordered = xor i1 %ordered, true
  %apart = and i1 %other.thread, %unordered
  %in.block = and i1 %this.interval, %apart
  %earlier.block = icmp ult i64 %interval.then, %begin
  %between.blocks = and i1 %earlier.block, %global
  %either = or i1 %in.block, %between.blocks
  %some = xor i1 %none, true
  %conflict = and i1 %either, %some
  %result = select i1 %conflict, i64 %then, i64 0
  ret i64 %result
}}
define internal void @emulate.fault(
    i64 %fault, i64 %address, i64 %size, i64 %place, i64 %other) {{
entry:
  %watch = load ptr, ptr @emulate.watch
  %earlier = load i64, ptr %watch
  %first = icmp eq i64 %earlier, 0
  br i1 %first, label %note, label %end
note:
  %block = load i32, ptr @emulate.block
  %block.word = zext i32 %block to i64
  %thread = load i64, ptr @emulate.thread
{{NOTES}}
  br label %end
end:
  ret void
}}
define internal void @emulate.step(i64 %place) {{
entry:
  %before = load i64, ptr @emulate.steps
  %steps = add i64 %before, 1
  store i64 %steps, ptr @emulate.steps
  %watch = load ptr, ptr @emulate.watch
  %limit.at = getelementptr i64, ptr %watch, i64 {LIMIT}
  %limit = load i64, ptr %limit.at
  %endless = icmp ugt i64 %steps, %limit
  br i1 %endless, label %stop, label %end
stop:
  call void @emulate.fault(i64 {ENDLESS}, i64 0, i64 0, i64 %place, i64 0)
  call void @emulate.leave()
  br label %end
end:
  ret void
}}"""


def _notes() -> str:
    """Stores into the table of a checked run."""
    values = {
        FAULT: "%fault",
        ADDRESS: "%address",
        SIZE: "%size",
        PLACE_OF_FAULT: "%place",
        BLOCK: "%block.word",
        THREAD: "%thread",
        OTHER: "%other",
    }
    lines = []
    for word, value in values.items():
        lines.append(f"  %at{word} = getelementptr i64, ptr %watch, i64 {word}")
        lines.append(f"  store i64 {value}, ptr %at{word}")
    return "\n".join(lines)


class Shared(NamedTuple):
    """An array of shared memory."""

    name: str
    nbytes: int


def loop(symbol: str) -> str:
    """`void f(ptr table, i32 grid, i32 nx, i32 ny, i64 interval, i32 poisons)`: all threads."""
    return _LOOP.replace("SYMBOL", symbol)


def turns(symbol: str) -> str:
    """A turn for each thread of a block that is ready, until it waits or ends.

    `void f(ptr table, i32 block, i64 nx, i64 count, ptr records, ptr order, ptr contexts,
    i64 interval, i32 begins, i32 poisons)`; with `begins` a new block begins, in that interval.
    """
    return _TURNS.replace("SYMBOL", symbol)


def around(
    arity: int, shared: list[Shared], by_turns: bool, grain: int, atomics: bool
) -> list[str]:
    """What the entry needs beside the body; the table holds the addresses of the arrays and, for a
    checked body, which has a grain, of the table of the run."""
    checked = grain > 0
    texts = [_PLACE, _call(arity, checked), _poison(shared)]
    texts += [_SWITCHING, _LEAVE_TURN] if by_turns else [_LEAVE_LOOP]
    if checked:
        check = _CHECK.replace("SHARED_COUNT", str(len(shared))).replace("GRAIN", str(grain))
        check = check.replace("HAS_ATOMICS", str(atomics).lower()).replace("{NOTES}", _notes())
        texts += [check, _shared_ranges(shared, grain)]
    return texts


def _call(arity: int, checked: bool) -> str:
    lines = ["define internal void @emulate.body(ptr %table, i32 %block, i32 %x, i32 %y) {"]
    for k in range(arity + checked):
        lines.append(f"  %at{k} = getelementptr ptr, ptr %table, i64 {k}")
        lines.append(f"  %p{k} = load ptr, ptr %at{k}")
    if checked:
        lines.append(f"  store ptr %p{arity}, ptr @emulate.watch")
    pointers = "".join(f", ptr %p{k}" for k in range(arity))
    lines.append(f"  call void @fgrad_body(i32 %block, i32 %x, i32 %y{pointers})")
    return "\n".join([*lines, "  ret void", "}"])


def _poison(shared: list[Shared]) -> str:
    """Set all bits of shared memory."""
    fills = [
        f"  call void @llvm.memset.p0.i64(ptr @{array.name}, i8 -1, i64 {array.nbytes}, i1 0)"
        for array in shared
    ]
    return "\n".join(
        [
            "define internal void @emulate.poison(i32 %poisons) {",
            "entry:",
            "  %wanted = icmp ne i32 %poisons, 0",
            "  br i1 %wanted, label %fill, label %end",
            "fill:",
            *fills,
            "  br label %end",
            "end:",
            "  ret void",
            "}",
        ]
    )


def _shared_ranges(shared: list[Shared], grain: int) -> str:
    """The ranges of shared memory, with shadows."""
    lines, words = [], []
    for array in shared:
        shadow = f"emulate.shadow.{array.name}"
        cells = array.nbytes // grain * SHADOW_WORDS
        lines.append(f"@{shadow} = internal global [{cells} x i64] zeroinitializer")
        end = f"getelementptr (i8, ptr @{array.name}, i64 {array.nbytes})"
        words += [
            f"i64 ptrtoint (ptr {place} to i64)" for place in (f"@{array.name}", end, f"@{shadow}")
        ]
    values = f"[{', '.join(words)}]" if words else "zeroinitializer"
    lines.append(f"@emulate.shared = internal global [{len(words)} x i64] {values}")
    return "\n".join(lines)
