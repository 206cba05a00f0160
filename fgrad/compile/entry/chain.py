"""L5. The native entry as LLVM text: the chain of the signatures of one callee."""

from __future__ import annotations

from fgrad.compile.llvm.abi import WORD, Layout
from fgrad.compile.llvm.blocks import member


def link_text(at: Layout) -> str:
    """`void link(ptr callee, ptr node)`: put a signature in front of the chain."""
    return (
        "define internal void @fgrad_link(ptr %callee, ptr %node) #0 {\nentry:\n"
        + member("head", "callee", at.header + WORD)
        + "  store ptr %head, ptr %node, align 8\n"
        + "  store ptr %node, ptr %head_at, align 8\n  ret void\n}\n"
    )


def unlink_text(at: Layout) -> str:
    """`void unlink(ptr callee, ptr node)`: take a signature out of the chain.

    It refers to no other one then, so that a call that is at it comes to the chain's end.
    """
    return (
        "define internal void @fgrad_unlink(ptr %callee, ptr %node) #0 {\nentry:\n"
        + f"  %head_at = getelementptr i8, ptr %callee, i64 {at.header + WORD}\n"
        + """  br label %look
look:
  %place = phi ptr [ %head_at, %entry ], [ %here, %other ]
  %here = load ptr, ptr %place, align 8
  %over = icmp eq ptr %here, null
  br i1 %over, label %done, label %some
some:
  %found = icmp eq ptr %here, %node
  br i1 %found, label %take, label %other
other:
  br label %look
take:
  %after = load ptr, ptr %node, align 8
  store ptr %after, ptr %place, align 8
  store ptr null, ptr %node, align 8
  br label %done
done:
  ret void
}
"""
    )
