"""L5. A call's reads of globals and closures -> instructions of its signature's program.

    [WORD_IS, address, word]                  a cell, a class, a slot, a function's code
    [LOOKUP, dict, key, object or 0]          a name
    [KEYS, dict, n, keys...]                  all keys of a dictionary, in order
    [ITEMS, list, n, objects...]
    [BYTES, address, n, address of a copy]    an array that can be written into
    [SINCE, address, version, words]          skip what follows if the dictionary is unchanged
    [SEEN, address, words]                    and record that the check passed
    [FETCH, dict, key]                        load the object found there
    [FETCH_WORD, address, 0]                  likewise
    [NUMBER, type, slot, cell, words]         check the number's type; copy it for this call

The signature owns all objects.  Keys are strings and integers, so comparing runs no Python code.
"""

from __future__ import annotations

import functools
from types import CellType, MemberDescriptorType

import numpy as np

from fgrad.compile.entry.fields import (
    BYTES,
    END,
    FETCH,
    FETCH_WORD,
    ITEMS,
    KEYS,
    LOOKUP,
    NUMBER,
    SEEN,
    SINCE,
    WORD_IS,
)
from fgrad.compile.llvm.abi import LAYOUT, WORD, Layout, version_address, word_at
from fgrad.compile.llvm.blocks import each_loop, member, put, word
from fgrad.tracing.outside.watches import MISSING, Attribute, Item, Items, Number, Watches


class NotWatched(Exception):
    """A read that native code cannot check."""


def outside_words(watches: Watches, references: list[object]) -> list[int]:
    """Instructions that compare watched values with their current state; `references` own them."""
    references.append(watches)
    words: list[int] = []
    for place in watches.places():
        words += _place(place)
    for items in watches.sequences():
        words += _all_of(ITEMS, items, list)
    for holder, keys, named in watches.dictionaries():
        inside = [] if keys is None else _all_of(KEYS, keys, dict)
        for key, value in named:
            if type(key) is not str and type(key) is not int:
                raise NotWatched
            inside += [LOOKUP, id(holder), id(key), _address(value)]
        words += _unless_unchanged(holder, inside)
    for array, copy, _ in watches.contents():
        words += [*_layout(array), BYTES, address(array), array.nbytes, address(copy)]
    for given in watches.inputs():
        words += _layout(given.array)
    return words


def number_words(number: Number, slot: int, cell: int) -> list[int]:
    """Instructions that copy a number into one or two cells."""
    place, kind = number.place, number.kind
    if isinstance(place, Item):
        if type(place.key) is not str and type(place.key) is not int:
            raise NotWatched
        words = [FETCH, id(place.holder), id(place.key)]
    else:
        words = [FETCH_WORD, id(place.holder) + _offset(place), 0]
    size = 1 if kind is int else -(-np.dtype(kind).itemsize // WORD)
    return [*words, NUMBER, id(kind), slot, cell, size]


def address(x: np.ndarray) -> int:
    """The data pointer of an array."""
    return x.__array_interface__["data"][0]


def _all_of(instruction: int, items: Items, kind: type) -> list[int]:
    if type(items.holder) is not kind:
        raise NotWatched
    return [instruction, id(items.holder), len(items.values), *map(id, items.values)]


def _address(x: object) -> int:
    """A reference as a table word."""
    return 0 if x is MISSING else id(x)


def _unless_unchanged(holder: dict[object, object], inside: list[int]) -> list[int]:
    """The instructions, skipped while the dictionary's version is unchanged."""
    at = version_address(holder)
    if at is None:
        return inside
    return [SINCE, at, 0, 4 + len(inside) + 3, *inside, SEEN, at, len(inside) + 2]


def _place(place: Attribute) -> list[int]:
    """The address at which an object stores a reference."""
    at = id(place.holder) + _offset(place)
    if word_at(at) != _address(place.value):
        raise NotWatched
    return [WORD_IS, at, _address(place.value)]


def _offset(place: Attribute) -> int:
    holder, key = place.holder, place.key
    if key == "__class__":
        return object.__basicsize__ - WORD
    if key == "__dict__":  # before the object or in it, depending on the interpreter
        wanted, words = id(place.value), (-4, -3, -2, -1, type(holder).__dictoffset__ // WORD)
        found = [WORD * k for k in words if k and word_at(id(holder) + WORD * k) == wanted]
    elif isinstance(key, MemberDescriptorType):
        definition = word_at(id(key) + _DEFINITION)  # name, type, offset
        found = [word_at(definition + 2 * WORD)]
    else:
        found = [_fields()[key]]
    if not found:
        raise NotWatched
    return found[0]


_DEFINITION = 40  # in a member descriptor, behind type, name and qualified name


@functools.cache
def _fields() -> dict[str, int]:
    """The offsets of the references stored in cells and functions."""

    def probe(x: int = 12345, *, y: int = 54321) -> int:
        return x + y

    cell = CellType(object())
    fields = {"cell_contents": _word_of(cell, cell.cell_contents)}
    for name in ("__code__", "__defaults__", "__kwdefaults__"):
        fields[name] = _word_of(probe, getattr(probe, name))
    return fields


def _word_of(x: object, value: object) -> int:
    (found,) = [
        WORD * k
        for k in range(2, type(x).__basicsize__ // WORD)
        if word_at(id(x) + WORD * k) == id(value)
    ]
    return found


def _layout(x: np.ndarray) -> list[int]:
    """Check that an array's data pointer, shape, strides and dtype are unchanged."""
    at = LAYOUT
    usable = x.flags.c_contiguous and x.flags.aligned and x.dtype.isnative
    if at is None or type(x) is not np.ndarray or not usable:
        raise NotWatched
    base, dims = id(x), word_at(id(x) + at.dims)
    watched = [base + at.data, base + at.descr, base + at.dims]
    watched += [dims + WORD * k for k in range(2 * x.ndim)]
    return [word for place in watched for word in (WORD_IS, place, word_at(place))]


def outside_text(at: Layout) -> str:
    """Blocks of the function that matches: from `outside`, to `outside_done` or `no`."""
    return (
        "outside:\n  switch i64 %op, label %no [\n"
        + f"    i64 {END}, label %yes\n    i64 {SINCE}, label %since\n"
        + f"    i64 {WORD_IS}, label %word_is\n    i64 {LOOKUP}, label %lookup\n"
        + f"    i64 {SEEN}, label %seen\n    i64 {BYTES}, label %bytes\n"
        + f"    i64 {KEYS}, label %keys\n    i64 {ITEMS}, label %items\n"
        + f"    i64 {FETCH}, label %fetch\n    i64 {FETCH_WORD}, label %fetch_word\n"
        + f"    i64 {NUMBER}, label %number\n  ]\n"
        + "since:\n  %version_place = inttoptr i64 %source to ptr\n"
        + "  %version_now = load i64, ptr %version_place, align 8\n"
        + word("skipped", "pc", 3)
        + """  %unchanged = icmp eq i64 %version_now, %slot
  %since_size = select i1 %unchanged, i64 %skipped, i64 4
  br label %outside_done
seen:
  %seen_place = inttoptr i64 %source to ptr
  %seen_now = load i64, ptr %seen_place, align 8
  %seen_back = sub i64 0, %slot
  %seen_to = getelementptr i64, ptr %pc, i64 %seen_back
  store i64 %seen_now, ptr %seen_to, align 8
  br label %outside_done
word_is:
  %word_place = inttoptr i64 %source to ptr
  %word_now = load i64, ptr %word_place, align 8
  %word_same = icmp eq i64 %word_now, %slot
  br i1 %word_same, label %outside_done, label %no
lookup:
  %l_dict = inttoptr i64 %source to ptr
  %l_key = inttoptr i64 %slot to ptr
"""
        + word("l_wanted", "pc", 3, "ptr")
        + """  %l_found = call ptr @PyDict_GetItemWithError(ptr %l_dict, ptr %l_key)
  %l_same = icmp eq ptr %l_found, %l_wanted
  br i1 %l_same, label %outside_done, label %no
keys:
  %dk_dict = inttoptr i64 %source to ptr
  %dk_count = call i64 @PyDict_Size(ptr %dk_dict)
  %dk_fits = icmp eq i64 %dk_count, %slot
  %dk_wanted = getelementptr i64, ptr %pc, i64 3
  %all_size = add i64 %slot, 3
  store i64 0, ptr %position, align 8
  br i1 %dk_fits, label %each_key, label %no
"""
        + each_loop("each_key", "%slot", _same_key(), "outside_done")
        + """items:
  %li_list = inttoptr i64 %source to ptr
"""
        + member("li_count", "li_list", at.size, "i64")
        + member("li_items", "li_list", at.list_items)
        + """  %li_fits = icmp eq i64 %li_count, %slot
  %li_wanted = getelementptr i64, ptr %pc, i64 3
  %items_size = add i64 %slot, 3
  br i1 %li_fits, label %each_item, label %no
"""
        + each_loop("each_item", "%slot", _same_item(), "outside_done")
        + "bytes:\n"
        + word("b_copy", "pc", 3, "ptr")
        + """  %b_data = inttoptr i64 %source to ptr
  %b_order = call i32 @memcmp(ptr %b_data, ptr %b_copy, i64 %slot)
  %b_same = icmp eq i32 %b_order, 0
  br i1 %b_same, label %outside_done, label %no
"""
        + _number_text(at)
        + """outside_done:
  %o_size = phi i64 [ %since_size, %since ], [ 3, %seen ], [ 3, %word_is ], [ 4, %lookup ], \
[ %all_size, %each_key_test ], [ %items_size, %each_item_test ], [ 4, %bytes ], \
[ 3, %fetched ], [ 5, %number_done ]
  br label %advance
"""
    )


def _number_text(at: Layout) -> str:
    return (
        """fetch:
  %f_dict = inttoptr i64 %source to ptr
  %f_key = inttoptr i64 %slot to ptr
  %f_found = call ptr @PyDict_GetItemWithError(ptr %f_dict, ptr %f_key)
  br label %fetched
fetch_word:
  %fw_place = inttoptr i64 %source to ptr
  %fw_found = load ptr, ptr %fw_place, align 8
  br label %fetched
fetched:
  %fetched_now = phi ptr [ %f_found, %fetch ], [ %fw_found, %fetch_word ]
  store ptr %fetched_now, ptr %value_cell, align 8
  %f_there = icmp ne ptr %fetched_now, null
  br i1 %f_there, label %outside_done, label %no
number:
  %n_object = load ptr, ptr %value_cell, align 8
"""
        + member("n_type", "n_object", at.type)
        + """  %n_wanted = inttoptr i64 %source to ptr
  %n_is = icmp eq ptr %n_type, %n_wanted
  br i1 %n_is, label %number_cell, label %no
number_cell:
"""
        + word("n_cell", "pc", 3)
        + """  %n_place = getelementptr i64, ptr %cells, i64 %n_cell
"""
        + put("n_value", "slots", "%slot", "%n_place")
        + """  %n_int = icmp eq ptr %n_type, @fgrad_int
  br i1 %n_int, label %number_int, label %number_words
number_int:
  %n_integer = call i64 @PyLong_AsLongLongAndOverflow(ptr %n_object, ptr %overflow)
  store i64 %n_integer, ptr %n_place, align 8
  %n_over = load i32, ptr %overflow, align 4
  %n_fits = icmp eq i32 %n_over, 0
  br i1 %n_fits, label %number_done, label %no
number_words:
"""
        + member("n_first", "n_object", at.header, "i64")
        + """  store i64 %n_first, ptr %n_place, align 8
"""
        + word("n_size", "pc", 4)
        + """  %n_wide = icmp eq i64 %n_size, 2
  br i1 %n_wide, label %number_wide, label %number_done
number_wide:
"""
        + member("n_second", "n_object", at.header + WORD, "i64")
        + """  %n_next = getelementptr i64, ptr %n_place, i64 1
  store i64 %n_second, ptr %n_next, align 8
  br label %number_done
number_done:
  br label %outside_done
"""
    )


def _same_key() -> str:
    return (
        """  %dk_got = call i32 @PyDict_Next(ptr %dk_dict, ptr %position, ptr %key_cell, \
ptr %value_cell)
  %dk_ended = icmp eq i32 %dk_got, 0
  br i1 %dk_ended, label %no, label %key_compare
key_compare:
  %dk_now = load ptr, ptr %key_cell, align 8
"""
        + word("dk_key", "dk_wanted", "%each_key_i", "ptr")
        + """  %dk_same = icmp eq ptr %dk_now, %dk_key
  br i1 %dk_same, label %each_key_next, label %no
key_never:
"""
    )


def _same_item() -> str:
    return (
        word("li_now", "li_items", "%each_item_i", "ptr")
        + word("li_item", "li_wanted", "%each_item_i", "ptr")
        + """  %li_same = icmp eq ptr %li_now, %li_item
  br i1 %li_same, label %each_item_next, label %no
item_never:
"""
    )
