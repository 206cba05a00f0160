"""L5. The native function that walks the table of a host program.

header   slots, given slots, counters, longest buffer list
step     an opcode and its operands; jumps are absolute positions in the table
"""

from __future__ import annotations

from fgrad.compile.llvm.interrupts import DECLARATIONS, POLL
from fgrad.compile.llvm.runtime import Source, build
from fgrad.compile.llvm.signals import CELLS

(END, CALL, SHARE, PLACE, ADVANCE, SWAP, COPY) = range(7)
(FILL, SET, COUNT, JUMP, UNLESS, SWITCH) = range(7, 13)
TURNS = 8  # of loops between two looks for signals: 1 takes 30 ns
HEADER = 4  # slots, given slots, counters, longest buffer list


def interpreter_address() -> int:
    """The address of `void run(ptr table, ptr given)`, built once."""
    return build([Source(_INTERPRETER, emit_interpreter)])[0]


def emit_interpreter(symbol: str) -> tuple[str, set[str]]:
    """The text of the function under a symbol, and what it declares."""
    declarations = {
        "declare ptr @memmove(ptr, ptr, i64)",
        "declare ptr @memset(ptr, i32, i64)",
        *DECLARATIONS,
    }
    return _INTERPRETER.replace("@run", f"@{symbol}"), declarations


def _word(name: str, position: int) -> str:
    """The text that loads the word `position` places after the opcode."""
    return (
        f"  %{name}_at = getelementptr i64, ptr %op, i64 {position}\n"
        f"  %{name} = load i64, ptr %{name}_at, align 8\n"
    )


def _slot(name: str, index: str) -> str:
    """The text that addresses slot `index` and loads it."""
    return (
        f"  %{name}_slot = getelementptr ptr, ptr %slots, i64 {index}\n"
        f"  %{name} = load ptr, ptr %{name}_slot, align 8\n"
    )


def _next(label: str, size: int | str) -> str:
    """The text that goes on with the step `size` words further."""
    return (
        f"  %{label}_next = getelementptr i64, ptr %op, i64 {size}\n"
        f"  store ptr %{label}_next, ptr %pc, align 8\n  br label %step\n"
    )


_INTERPRETER = (
    """define void @run(ptr %table, ptr %given) #0 {
entry:
  %slot_count = load i64, ptr %table, align 8
  %given_count_at = getelementptr i64, ptr %table, i64 1
  %given_count = load i64, ptr %given_count_at, align 8
  %counters_at = getelementptr i64, ptr %table, i64 2
  %counter_count = load i64, ptr %counters_at, align 8
  %bufs_at = getelementptr i64, ptr %table, i64 3
  %buf_count = load i64, ptr %bufs_at, align 8
  %slots = alloca ptr, i64 %slot_count, align 16
  %counters = alloca i64, i64 %counter_count, align 16
  %bufs = alloca ptr, i64 %buf_count, align 16
  %pc = alloca ptr, align 8
  %turns = alloca i64, align 8
  store i64 0, ptr %turns, align 8
  %given_bytes = mul i64 %given_count, 8
  %copied = call ptr @memmove(ptr %slots, ptr %given, i64 %given_bytes)
"""
    + f"  %first = getelementptr i64, ptr %table, i64 {HEADER}\n"
    + """  store ptr %first, ptr %pc, align 8
  br label %step
step:
  %op = load ptr, ptr %pc, align 8
  %opcode = load i64, ptr %op, align 8
  switch i64 %opcode, label %end [
"""
    + f"    i64 {CALL}, label %call\n    i64 {PLACE}, label %place\n"
    + f"    i64 {ADVANCE}, label %advance\n    i64 {SWAP}, label %swap\n"
    + f"    i64 {COPY}, label %copy\n    i64 {FILL}, label %fill\n"
    + f"    i64 {SET}, label %set\n    i64 {COUNT}, label %count\n"
    + f"    i64 {JUMP}, label %jump\n    i64 {UNLESS}, label %unless\n"
    + f"    i64 {SWITCH}, label %switch\n"
    + f"    i64 {SHARE}, label %call\n  ]\nend:\n  ret void\ncall:\n"
    + _word("c_function", 1)
    + _word("c_lo", 2)
    + _word("c_hi", 3)
    + _word("c_count", 4)
    + """  %c_address = inttoptr i64 %c_function to ptr
"""
    + f"  %c_shared = icmp eq i64 %opcode, {SHARE}\n"
    + """  %c_head = select i1 %c_shared, i64 8, i64 5
  %c_numbers = getelementptr i64, ptr %op, i64 %c_head
  br label %fetch
fetch:
  %k = phi i64 [ 0, %call ], [ %k_next, %fetch_one ]
  %c_more = icmp slt i64 %k, %c_count
  br i1 %c_more, label %fetch_one, label %fetched
fetch_one:
  %c_number_at = getelementptr i64, ptr %c_numbers, i64 %k
  %c_number = load i64, ptr %c_number_at, align 8
"""
    + _slot("c_buffer", "%c_number")
    + """  %c_target = getelementptr ptr, ptr %bufs, i64 %k
  store ptr %c_buffer, ptr %c_target, align 8
  %k_next = add i64 %k, 1
  br label %fetch
fetched:
  %c_size = add i64 %c_count, %c_head
  br i1 %c_shared, label %share, label %direct
direct:
  call void %c_address(ptr %bufs, i64 %c_lo, i64 %c_hi)
  br label %called
share:
"""
    + _word("h_pool", 5)
    + _word("h_function", 6)
    + _word("h_chunk", 7)
    + f"""  %h_address = inttoptr i64 %h_function to ptr
  %h_where = inttoptr i64 %h_pool to ptr
  call void %h_address(ptr %h_where, ptr %c_address, ptr %bufs, i64 %c_lo, i64 %c_hi, i64 %h_chunk)
  br label %called
called:
  %c_stop = load volatile i64, ptr @{CELLS}, align 8
  %c_none = icmp eq i64 %c_stop, 0
  br i1 %c_none, label %returned, label %asked
asked:
  %c_told = call i64 @{POLL}()
  %c_on = icmp eq i64 %c_told, 0
  br i1 %c_on, label %returned, label %end
returned:
"""
    + _next("call", "%c_size")
    + "place:\n"
    + _word("p_to", 1)
    + _word("p_base", 2)
    + _word("p_offset", 3)
    + _slot("p_from", "%p_base")
    + """  %p_target = getelementptr ptr, ptr %slots, i64 %p_to
  %p_value = getelementptr i8, ptr %p_from, i64 %p_offset
  store ptr %p_value, ptr %p_target, align 8
"""
    + _next("place", 4)
    + "advance:\n"
    + _word("a_number", 1)
    + _word("a_size", 2)
    + _slot("a_old", "%a_number")
    + """  %a_new = getelementptr i8, ptr %a_old, i64 %a_size
  store ptr %a_new, ptr %a_old_slot, align 8
"""
    + _next("advance", 3)
    + "swap:\n"
    + _word("s_first", 1)
    + _word("s_second", 2)
    + _slot("s_a", "%s_first")
    + _slot("s_b", "%s_second")
    + "  store ptr %s_b, ptr %s_a_slot, align 8\n  store ptr %s_a, ptr %s_b_slot, align 8\n"
    + _next("swap", 3)
    + "copy:\n"
    + _word("m_to", 1)
    + _word("m_from", 2)
    + _word("m_size", 3)
    + _slot("m_target", "%m_to")
    + _slot("m_source", "%m_from")
    + "  %m_done = call ptr @memmove(ptr %m_target, ptr %m_source, i64 %m_size)\n"
    + _next("copy", 4)
    + "fill:\n"
    + _word("f_to", 1)
    + _word("f_size", 2)
    + _word("f_byte", 3)
    + _slot("f_target", "%f_to")
    + """  %f_value = trunc i64 %f_byte to i32
  %f_done = call ptr @memset(ptr %f_target, i32 %f_value, i64 %f_size)
"""
    + _next("fill", 4)
    + "set:\n"
    + _word("t_counter", 1)
    + _word("t_count", 2)
    + """  %t_at = getelementptr i64, ptr %counters, i64 %t_counter
  store i64 %t_count, ptr %t_at, align 8
"""
    + _next("set", 3)
    + "count:\n"
    + _word("n_counter", 1)
    + _word("n_back", 2)
    + """  %n_at = getelementptr i64, ptr %counters, i64 %n_counter
  %n_old = load i64, ptr %n_at, align 8
  %n_new = sub i64 %n_old, 1
  store i64 %n_new, ptr %n_at, align 8
  %n_again = icmp sgt i64 %n_new, 0
  %n_start = getelementptr i64, ptr %table, i64 %n_back
  %n_after = getelementptr i64, ptr %op, i64 3
  %n_next = select i1 %n_again, ptr %n_start, ptr %n_after
  store ptr %n_next, ptr %pc, align 8
  br label %turned
jump:
"""
    + _word("j_to", 1)
    + f"""  %j_next = getelementptr i64, ptr %table, i64 %j_to
  store ptr %j_next, ptr %pc, align 8
  br label %turned
turned:
  %t_old = load i64, ptr %turns, align 8
  %t_new = add i64 %t_old, 1
  store i64 %t_new, ptr %turns, align 8
  %t_rest = and i64 %t_new, {TURNS - 1}
  %t_due = icmp eq i64 %t_rest, 0
  br i1 %t_due, label %look, label %step
look:
  %t_told = call i64 @{POLL}()
  %t_on = icmp eq i64 %t_told, 0
  br i1 %t_on, label %step, label %end
unless:
"""
    + _word("u_flag", 1)
    + _word("u_to", 2)
    + _slot("u_byte_at", "%u_flag")
    + """  %u_byte = load i8, ptr %u_byte_at, align 1
  %u_false = icmp eq i8 %u_byte, 0
  %u_jump = getelementptr i64, ptr %table, i64 %u_to
  %u_after = getelementptr i64, ptr %op, i64 3
  %u_next = select i1 %u_false, ptr %u_jump, ptr %u_after
  store ptr %u_next, ptr %pc, align 8
  br label %step
switch:
"""
    + _word("w_index", 1)
    + _word("w_count", 2)
    + _slot("w_value_at", "%w_index")
    + """  %w_value = load i64, ptr %w_value_at, align 8
  %w_last = sub i64 %w_count, 1
  %w_low = call i64 @llvm.smax.i64(i64 %w_value, i64 0)
  %w_taken = call i64 @llvm.smin.i64(i64 %w_low, i64 %w_last)
  %w_targets = getelementptr i64, ptr %op, i64 3
  %w_at = getelementptr i64, ptr %w_targets, i64 %w_taken
  %w_to = load i64, ptr %w_at, align 8
  %w_next = getelementptr i64, ptr %table, i64 %w_to
  store ptr %w_next, ptr %pc, align 8
  br label %step
}"""
)
