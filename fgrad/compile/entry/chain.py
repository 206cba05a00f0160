"""L5. The native entry as LLVM text: the signatures of one callee.

    chain    all of them, the one that was called last in front
    buckets  where a callee has several: those of equal hash; what has matched once is found there

The hash reads the types of the arguments, and the shapes of arrays among them and in their lists,
tuples and dictionaries.  It is a guess: what matches is for the signature's program to say, and
what is not among those of its hash is looked for in the chain.  Words that refer to a signature's
predecessor are addresses of the word that refers to the signature, null where it is not linked.
"""

from __future__ import annotations

from fgrad.compile.entry.fields import BUCKETS, NODE
from fgrad.compile.llvm.abi import WORD, Layout
from fgrad.compile.llvm.blocks import each_loop, member, word

_FACTOR = -7046029254386353131  # 2^64 by the golden ratio
_MOST = 16  # arguments that the hash reads
_MOST_INSIDE = 4  # items of a container


def chain_text(at: Layout) -> str:
    """All functions of chains and buckets."""
    return "\n".join(
        [_hash_text(at), _insert_text(at), _front_text(at), link_text(at), unlink_text()]
    )


def link_text(at: Layout) -> str:
    """`void link(ptr callee, ptr node)`: put a signature in front of the chain."""
    return (
        "define internal void @fgrad_link(ptr %callee, ptr %node) #0 {\nentry:\n"
        + member("head", "callee", at.header + WORD)
        + _pushed("head", "next", "from")
    )


def unlink_text() -> str:
    """`void unlink(ptr callee, ptr node)`: take a signature out of the chain and its bucket.

    It refers to no other one then, so that a call that is at it comes to the chain's end.
    """
    return (
        "define internal void @fgrad_unlink(ptr %callee, ptr %node) #0 {\nentry:\n"
        + _taken("next", "from", "bucket")
        + "bucket:\n"
        + _taken("same", "same_from", "done")
        + "done:\n"
        + _address("hash", "node", "hash")
        + "  store i64 0, ptr %hash_at, align 8\n  ret void\n}\n"
    )


def _front_text(at: Layout) -> str:
    """`void front(ptr callee, ptr node)`: a signature comes to the front of its chain.

    It is known to be called again when it is found there.
    """
    return (
        "define internal void @fgrad_front(ptr %callee, ptr %node) #0 {\nentry:\n"
        + member("head", "callee", at.header + WORD)
        + "  %is_first = icmp eq ptr %head, %node\n"
        + "  br i1 %is_first, label %done, label %look\nlook:\n"
        + word("linked", "node", NODE["from"], "ptr")
        + "  %is_unlinked = icmp eq ptr %linked, null\n"
        + "  br i1 %is_unlinked, label %done, label %take\ntake:\n"
        + _taken("next", "from", "link")
        + "link:\n"
        + _address("again", "node", "again")
        + "  store i64 0, ptr %again_at, align 8\n"
        + "  call void @fgrad_link(ptr %callee, ptr %node)\n"
        + "  br label %done\ndone:\n  ret void\n}\n"
    )


def _taken(following: str, before: str, then: str) -> str:
    """Blocks that take a signature out of a list, if it is in one, and go on at `then`."""
    return (
        word(before, "node", NODE[before], "ptr")
        + f"  %{before}_none = icmp eq ptr %{before}, null\n"
        + f"  br i1 %{before}_none, label %{then}, label %{before}_out\n{before}_out:\n"
        + word(following, "node", NODE[following], "ptr")
        + f"""  store ptr %{following}, ptr %{before}, align 8
  store ptr null, ptr %{following}_at, align 8
  store ptr null, ptr %{before}_at, align 8
  %{following}_none = icmp eq ptr %{following}, null
  br i1 %{following}_none, label %{then}, label %{following}_some
{following}_some:
"""
        + _address(f"{following}_back", following, before)
        + f"  store ptr %{before}, ptr %{following}_back_at, align 8\n  br label %{then}\n"
    )


def _pushed(first: str, following: str, before: str) -> str:
    """The end of a function that puts a signature in front of a list, whose first one is known."""
    return (
        _address("following", "node", following)
        + _address("before", "node", before)
        + f"""  store ptr %{first}, ptr %following_at, align 8
  store ptr %{first}_at, ptr %before_at, align 8
  store ptr %node, ptr %{first}_at, align 8
  %alone = icmp eq ptr %{first}, null
  br i1 %alone, label %done, label %some
some:
"""
        + _address("back", first, before)
        + "  store ptr %following_at, ptr %back_at, align 8\n"
        + "  br label %done\ndone:\n  ret void\n}\n"
    )


def _insert_text(at: Layout) -> str:
    """`void insert(ptr callee, ptr node, i64 hash)`: what has matched is found by its hash."""
    return (
        "define internal void @fgrad_insert(ptr %callee, ptr %node, i64 %hash) #0 {\nentry:\n"
        + word("known", "node", NODE["hash"])
        + word("linked", "node", NODE["from"], "ptr")
        + """  %is_new = icmp eq i64 %known, 0
  %is_linked = icmp ne ptr %linked, null
  %is_hashed = icmp ne i64 %hash, 0
  %is_due = and i1 %is_new, %is_linked
  %is_wanted = and i1 %is_due, %is_hashed
  br i1 %is_wanted, label %put, label %done
put:
"""
        + member("table", "callee", at.header + 2 * WORD)
        + bucket_of("hash")
        + "  store i64 %hash, ptr %known_at, align 8\n"
        + _pushed("bucket", "same", "same_from")
    )


def bucket_of(name: str) -> str:
    """The text that loads the first signature of a hash, `%bucket`, from `%table`."""
    return (
        f"  %number = lshr i64 %{name}, {64 - BUCKETS.bit_length() + 1}\n"
        "  %bucket_at = getelementptr ptr, ptr %table, i64 %number\n"
        "  %bucket = load ptr, ptr %bucket_at, align 8\n"
    )


def _address(name: str, base: str, field: str) -> str:
    return f"  %{name}_at = getelementptr i64, ptr %{base}, i64 {NODE[field]}\n"


# --- hashing


def _hash_text(at: Layout) -> str:
    """`i64 hash(ptr items, i64 count, i64 most, i64 depth)`: never 0; no Python code runs."""
    dim = word("length", "dims", "%dim_i") + _mixed("length", "%length")
    item = (
        word("element", "items", "%item_i", "ptr")
        + member("type", "element", at.type)
        + "  %type_word = ptrtoint ptr %type to i64\n"
        + _mixed("type", "%type_word")
        + "  %is_array = icmp eq ptr %type, @fgrad_ndarray\n"
        + "  br i1 %is_array, label %array, label %other\narray:\n"
        + member("dims", "element", at.dims)
        + member("ndim", "element", at.ndim, "i32")
        + "  %rank = zext i32 %ndim to i64\n  br label %dim\n"
        + each_loop("dim", "%rank", dim, "item_next")
        + "other:\n  %is_outer = icmp sgt i64 %depth, 0\n"
        + "  br i1 %is_outer, label %container, label %item_next\n"
        + _containers(at)
        + "item_never:\n"
    )
    return (
        """define internal i64 @fgrad_hash(ptr %items, i64 %count, i64 %most, i64 %depth) #0 {
entry:
  %mixed_at = alloca i64, align 8
  %position = alloca i64, align 8
  %key_cell = alloca ptr, align 8
  %values = alloca ptr, i64 """
        + f"{_MOST_INSIDE}, align 8\n"
        + """  store i64 %count, ptr %mixed_at, align 8
  %few = icmp slt i64 %count, %most
  %read = select i1 %few, i64 %count, i64 %most
  br label %item
"""
        + each_loop("item", "%read", item, "end")
        + """end:
  %mixed = load i64, ptr %mixed_at, align 8
  %is_none = icmp eq i64 %mixed, 0
  %found = select i1 %is_none, i64 1, i64 %mixed
  ret i64 %found
}
"""
    )


def _containers(at: Layout) -> str:
    """Blocks that read the first items of lists, tuples and dictionaries."""
    got = (
        "  %value_cell = getelementptr ptr, ptr %values, i64 %value_i\n"
        "  %got = call i32 @PyDict_Next(ptr %element, ptr %position, ptr %key_cell, "
        "ptr %value_cell)\n"
    )
    return (
        "container:\n  %is_list = icmp eq ptr %type, @fgrad_list\n"
        "  br i1 %is_list, label %list, label %no_list\nlist:\n"
        + member("list_count", "element", at.size, "i64")
        + member("list_items", "element", at.list_items)
        + "  br label %inside\nno_list:\n  %is_tuple = icmp eq ptr %type, @fgrad_tuple\n"
        + "  br i1 %is_tuple, label %tuple, label %no_tuple\ntuple:\n"
        + member("tuple_count", "element", at.size, "i64")
        + f"  %tuple_items = getelementptr i8, ptr %element, i64 {at.tuple_items}\n"
        + "  br label %inside\nno_tuple:\n  %is_dict = icmp eq ptr %type, @fgrad_dict\n"
        + "  br i1 %is_dict, label %dict, label %item_next\ndict:\n"
        + f"""  store i64 0, ptr %position, align 8
  %dict_count = call i64 @PyDict_Size(ptr %element)
  %dict_few = icmp slt i64 %dict_count, {_MOST_INSIDE}
  %dict_read = select i1 %dict_few, i64 %dict_count, i64 {_MOST_INSIDE}
  br label %value
"""
        + each_loop("value", "%dict_read", got, "dict_read_all")
        + "dict_read_all:\n  br label %inside\ninside:\n"
        + "  %inner = phi ptr [ %list_items, %list ], [ %tuple_items, %tuple ], "
        + "[ %values, %dict_read_all ]\n"
        + "  %inner_count = phi i64 [ %list_count, %list ], [ %tuple_count, %tuple ], "
        + "[ %dict_read, %dict_read_all ]\n"
        + "  %part = call i64 @fgrad_hash(ptr %inner, i64 %inner_count, "
        + f"i64 {_MOST_INSIDE}, i64 0)\n"
        + _mixed("part", "%part")
        + "  br label %item_next\n"
    )


def _mixed(name: str, value: str) -> str:
    """The text that mixes a number into the hash."""
    return f"""  %{name}_before = load i64, ptr %mixed_at, align 8
  %{name}_both = xor i64 %{name}_before, {value}
  %{name}_mixed = mul i64 %{name}_both, {_FACTOR}
  store i64 %{name}_mixed, ptr %mixed_at, align 8
"""


def hashed(of: str) -> str:
    """The text that hashes the arguments of a call, `%args`, as `%{of}`."""
    return f"  %{of} = call i64 @fgrad_hash(ptr %args, i64 %total, i64 {_MOST}, i64 1)\n"
