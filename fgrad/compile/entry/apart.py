"""L5. The native entry as LLVM text: check that no written argument overlaps another.

Bounds are compared; arrays whose bounds overlap, as u[::2] and u[1::2], go to Python, which looks
at their elements.
"""

from __future__ import annotations

from fgrad.compile.llvm.abi import WRITABLE, Layout
from fgrad.compile.llvm.blocks import each_loop, member, word


def beside_text(at: Layout) -> str:
    """`beside(array, itemsize, start, end)`: whether no element of an array is in a range."""
    axis = (
        word("length", "dims", "%axis_i")
        + word("stride", "strides", "%axis_i")
        + """  %empty = icmp eq i64 %length, 0
  br i1 %empty, label %yes, label %some
some:
  %steps = sub i64 %length, 1
  %reach = mul i64 %steps, %stride
  %back = icmp slt i64 %reach, 0
  %down = select i1 %back, i64 %reach, i64 0
  %up = select i1 %back, i64 0, i64 %reach
  %from = load i64, ptr %low, align 8
  %to = load i64, ptr %high, align 8
  %from_now = add i64 %from, %down
  %to_now = add i64 %to, %up
  store i64 %from_now, ptr %low, align 8
  store i64 %to_now, ptr %high, align 8
"""
    )
    return (
        """define internal i1 @fgrad_beside(ptr %array, i64 %itemsize, i64 %start, i64 %end) #0 {
entry:
  %low = alloca i64, align 8
  %high = alloca i64, align 8
"""
        + member("data", "array", at.data)
        + member("rank", "array", at.ndim, "i32")
        + member("dims", "array", at.dims)
        + member("strides", "array", at.strides)
        + """  %count = zext i32 %rank to i64
  %first = ptrtoint ptr %data to i64
  %behind = add i64 %first, %itemsize
  store i64 %first, ptr %low, align 8
  store i64 %behind, ptr %high, align 8
  br label %axis
"""
        + each_loop("axis", "%count", axis, "compare")
        + """compare:
  %lowest = load i64, ptr %low, align 8
  %highest = load i64, ptr %high, align 8
  %before = icmp ule i64 %highest, %start
  %after = icmp uge i64 %lowest, %end
  %apart = or i1 %before, %after
  ret i1 %apart
yes:
  ret i1 true
}
"""
    )


def match_apart(at: Layout) -> str:
    """[APART, source, bytes, count, (register, itemsize)...]

    An array that is written: it can be, is contiguous, and lies apart from all others.
    """
    body = (
        "  %w_pair = mul i64 %other_i, 2\n  %w_others = getelementptr i64, ptr %pc, i64 4\n"
        "  %w_other = getelementptr i64, ptr %w_others, i64 %w_pair\n"
        + word("w_register", "w_other", 0)
        + word("w_itemsize", "w_other", 1)
        + word("w_array", "regs", "%w_register", "ptr")
        + """  %w_beside = call i1 @fgrad_beside(ptr %w_array, i64 %w_itemsize, i64 %w_start, \
i64 %w_end)
  br i1 %w_beside, label %other_next, label %no
other_never:
"""
    )
    return (
        "apart:\n"
        + member("w_flags", "object", at.flags, "i32")
        + member("w_data", "object", at.data)
        + word("w_count", "pc", 3)
        + f"""  %w_needed = and i32 %w_flags, {WRITABLE}
  %w_can = icmp eq i32 %w_needed, {WRITABLE}
  %w_start = ptrtoint ptr %w_data to i64
  %w_end = add i64 %w_start, %slot
  %w_words = mul i64 %w_count, 2
  %w_size = add i64 %w_words, 4
  br i1 %w_can, label %other, label %no
"""
        + each_loop("other", "%w_count", body, "advance")
    )
