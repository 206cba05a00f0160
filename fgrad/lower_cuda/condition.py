"""L6. The kernels that tell a conditional node of a graph whether to run, or which of its bodies.

    WHILE    flag, handle            cudaGraphSetConditional(handle, *flag)
    SWITCH   index, handle, last     cudaGraphSetConditional(handle, min(max(*index, 0), last))

Both take numbers in the place of pointers.  The function is the device's: it stays undefined in the
cubin, and the driver puts it there when the module is loaded; no library is linked.
"""

from __future__ import annotations

_DECLARED = "declare void @cudaGraphSetConditional(i64, i32)\n"
_SET = "  call void @cudaGraphSetConditional(i64 %handle, i32 %value)\n  ret void\n}\n"
_HANDLE = "  %handle = ptrtoint i8 addrspace(1)* %p1 to i64\n"

WHILE = (
    _DECLARED
    + "define void @fgrad_body(i32 %block, i32 %x, i32 %y, i8 addrspace(1)* %p0, "
    + "i8 addrspace(1)* %p1) {\nentry:\n"
    + "  %flag = load i8, i8 addrspace(1)* %p0, align 1\n  %value = zext i8 %flag to i32\n"
    + _HANDLE
    + _SET
)
SWITCH = (
    _DECLARED
    + "define void @fgrad_body(i32 %block, i32 %x, i32 %y, i8 addrspace(1)* %p0, "
    + "i8 addrspace(1)* %p1, i8 addrspace(1)* %p2) {\nentry:\n"
    + "  %at = bitcast i8 addrspace(1)* %p0 to i64 addrspace(1)*\n"
    + "  %index = load i64, i64 addrspace(1)* %at, align 8\n"
    + "  %last = ptrtoint i8 addrspace(1)* %p2 to i64\n"
    + "  %negative = icmp slt i64 %index, 0\n  %low = select i1 %negative, i64 0, i64 %index\n"
    + "  %inside = icmp slt i64 %low, %last\n  %taken = select i1 %inside, i64 %low, i64 %last\n"
    + "  %value = trunc i64 %taken to i32\n"
    + _HANDLE
    + _SET
)
