"""L5. The native entry as LLVM text: which signature of a callee a call fits.

the first one        if it was called twice in turn, or is the only one
those of equal hash  else
all of them          where none of these fits; then the method `__call__`
"""

from __future__ import annotations

from fgrad.compile.entry.chain import bucket_of, hashed
from fgrad.compile.entry.fields import NODE
from fgrad.compile.llvm.abi import WORD, Layout
from fgrad.compile.llvm.blocks import member, word


def find_text(at: Layout) -> str:
    """The entry, and what it calls for each signature that it tries."""
    return _at_node() + "\n" + _entry(at)


def _at_node() -> str:
    """A signature's attempt, which counts while it lasts."""
    return (
        """define internal ptr @fgrad_at(ptr %callee, ptr %node, ptr %args, i64 %nargs, \
ptr %kwnames, i64 %hash) #0 {
entry:
"""
        + word("running", "node", NODE["running"])
        + """  %entered = add i64 %running, 1
  store i64 %entered, ptr %running_at, align 8
  %result = call ptr @fgrad_attempt(ptr %callee, ptr %node, ptr %args, i64 %nargs, \
ptr %kwnames, i64 %hash)
  %inside = load i64, ptr %running_at, align 8
  %left = sub i64 %inside, 1
  store i64 %left, ptr %running_at, align 8
  ret ptr %result
}
"""
    )


def _entry(at: Layout) -> str:
    """The vectorcall function of all jitted functions."""
    return (
        """define internal ptr @fgrad_entry(ptr %callee, ptr %args, i64 %flagged, \
ptr %kwnames) #0 {
entry:
  %nargs = and i64 %flagged, 9223372036854775807
"""
        + member("head", "callee", at.header + WORD)
        + member("table", "callee", at.header + 2 * WORD)
        + """  %is_single = icmp eq ptr %table, null
  %is_empty = icmp eq ptr %head, null
  %is_plain = or i1 %is_single, %is_empty
  br i1 %is_plain, label %walk, label %some
some:
"""
        + _again()
        + _hashed(at)
        + _walk(at)
        + """done:
  %given = phi ptr [ %repeated, %first ], [ %answered, %fits ], \
[ %answered, %told ], [ %result, %one ]
  ret ptr %given
slow:
  %answer = call ptr @fgrad_slow(ptr %callee, ptr %args, i64 %nargs, ptr %kwnames)
  ret ptr %answer
}
"""
    )


_CALL = "ptr %args, i64 %nargs, ptr %kwnames"


def _again() -> str:
    """Blocks that try the first signature, if it was called twice in turn."""
    return (
        word("again", "head", NODE["again"])
        + """  %is_again = icmp ne i64 %again, 0
  br i1 %is_again, label %first, label %several
first:
"""
        + f"  %repeated = call ptr @fgrad_at(ptr %callee, ptr %head, {_CALL}, i64 0)\n"
        + """  %changed = icmp eq ptr %repeated, inttoptr (i64 1 to ptr)
  br i1 %changed, label %other_one, label %done
other_one:
  store i64 0, ptr %again_at, align 8
  br label %several
"""
    )


def _hashed(at: Layout) -> str:
    """Blocks that try the signatures of equal hash."""
    return (
        """several:
  %has_names = icmp ne ptr %kwnames, null
  br i1 %has_names, label %some_names, label %hashing
some_names:
"""
        + member("name_count", "kwnames", at.size, "i64")
        + """  br label %hashing
hashing:
  %keywords = phi i64 [ 0, %several ], [ %name_count, %some_names ]
  %total = add i64 %nargs, %keywords
"""
        + hashed("arguments")
        + bucket_of("arguments")
        + """  br label %candidate
candidate:
  %known = phi ptr [ %bucket, %hashing ], [ %other, %unlike ]
  %no_more = icmp eq ptr %known, null
  br i1 %no_more, label %walk, label %compare
compare:
"""
        + word("known_hash", "known", NODE["hash"])
        + """  %alike = icmp eq i64 %known_hash, %arguments
  br i1 %alike, label %found, label %unlike
found:
"""
        + f"  %answered = call ptr @fgrad_at(ptr %callee, ptr %known, {_CALL}, i64 0)\n"
        + """  %refused = icmp eq ptr %answered, inttoptr (i64 1 to ptr)
  br i1 %refused, label %unlike, label %fits
fits:
  %is_first = icmp eq ptr %known, %head
  br i1 %is_first, label %told, label %done
told:
  store i64 1, ptr %again_at, align 8
  br label %done
unlike:
"""
        + word("other", "known", NODE["same"], "ptr")
        + "  br label %candidate\n"
    )


def _walk(at: Layout) -> str:
    """Blocks that try all signatures; the first one may be another by now."""
    return (
        """walk:
  %hash = phi i64 [ 0, %entry ], [ %arguments, %candidate ]
"""
        + member("front", "callee", at.header + WORD)
        + """  br label %try
try:
  %node = phi ptr [ %front, %walk ], [ %next, %one ]
  %over = icmp eq ptr %node, null
  br i1 %over, label %slow, label %one
one:
"""
        + f"  %result = call ptr @fgrad_at(ptr %callee, ptr %node, {_CALL}, i64 %hash)\n"
        + word("next", "node", NODE["next"], "ptr")
        + """  %missed = icmp eq ptr %result, inttoptr (i64 1 to ptr)
  br i1 %missed, label %try, label %done
"""
    )
