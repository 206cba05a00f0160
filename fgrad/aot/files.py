"""L7. The format of exported files: a head in JSON, then raw bytes.

    bytes    0  "\\x93FGRAD\\r\\n"
             8  the format's version, the length of the head: two u32, the lowest byte first
            16  a hash of all that follows, 32 bytes
            48  the head: UTF-8 text in JSON, and spaces up to a multiple of 64
                sections: at offsets from the end of the head, multiples of 64

Everything that is read is checked before it is used: no size in a file is believed, nothing in it
names a file, a module or a class, and there is nothing to be executed but the section of machine
code, which only `load(path, trust=True)` looks at.
"""

from __future__ import annotations

import struct
import sys
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from fgrad.aot.json_text import parsed
from fgrad.base.digest import digest
from fgrad.base.lazy_import import lazy_module
from fgrad.base.named_tuple import NamedTuple
from fgrad.ir.aval import DTYPES, Aval

if TYPE_CHECKING:
    from fgrad import errors
    from fgrad.typing import PyTree
else:  # a tenth of the time in which a trusted file is loaded
    errors = lazy_module("fgrad.errors")

MAGIC = b"\x93FGRAD\r\n"
FORMAT = 1
ALIGNMENT = 64  # of sections, and of the memory that machine code is given
HEAD = struct.Struct("<8sII32s")
_BY_STR = {dtype.str: dtype for dtype in DTYPES.values()}


def version() -> str:
    """The version of fgrad."""
    return str(vars(sys.modules["fgrad"])["__version__"])


class File(NamedTuple):
    """The parts of a file: its head, and the bytes of its sections."""

    path: str
    head: dict[str, PyTree]
    body: memoryview

    def section(self, place: PyTree) -> memoryview:
        """The bytes at a place, `[offset, size]`."""
        good = type(place) is list and len(place) == 2 and all([type(n) is int for n in place])
        if not good or min(place) < 0 or sum(place) > len(self.body):
            self.refuse("a section lies outside of the file")
        return self.body[place[0] : place[0] + place[1]]

    def array(self, words: PyTree) -> np.ndarray:
        """The array that `[dtype, shape, place]` describes, which cannot be written to."""
        good = type(words) is list and len(words) == 3 and is_dtype(words[0])
        if not good or not is_shape(words[1]):
            self.refuse("an array is not described as it should be")
        dtype = _BY_STR[words[0]]
        data = self.section(words[2])
        if len(data) != Aval(tuple(words[1]), dtype).size * dtype.itemsize:
            self.refuse("an array has another size than its shape says")
        return np.frombuffer(data, dtype).reshape(words[1])

    def refuse(self, why: str) -> NoReturn:
        """Raise an error about the file."""
        raise damaged(self.path, why)


def is_dtype(name: PyTree) -> bool:
    """Whether JSON is the name of a dtype that programs have."""
    return type(name) is str and name in _BY_STR


def is_shape(shape: PyTree) -> bool:
    """Whether JSON is the shape of an array that memory can have."""
    if type(shape) is not list or len(shape) > 64:
        return False
    if not all([type(n) is int and 0 <= n < 1 << 48 for n in shape]):
        return False
    return Aval(tuple([max(n, 1) for n in shape]), DTYPES["f64"]).size < 1 << 56


def damaged(path: str, why: str) -> errors.ExportError:
    """The error about a file that is not one of ours, or is not whole."""
    return errors.ExportError(
        f"{path} is not a program that fgrad has exported, or it is damaged.",
        (("why", why), ("write", "fgrad.export(f, *example_args, path=...)    to make it anew")),
    )


def read(path: str) -> File:
    """A file whose frame is sound; what stands in its head is not looked at yet.

    Raises:
        ExportError: it is not one of ours, not whole, or of a later format.
    """
    with open(path, "rb") as file:
        data = memoryview(file.read())
    if len(data) < HEAD.size or data[: len(MAGIC)] != MAGIC:
        raise damaged(path, "it does not begin as such files do")
    _, version, size, known = HEAD.unpack_from(data)
    if version != FORMAT:
        raise errors.ExportError(
            f"{path} has format {version}; this version of fgrad reads format {FORMAT}.",
            (("write", "fgrad.export(f, *example_args, path=...)    with this version"),),
        )
    rest = data[HEAD.size :]
    if size > len(rest) or bytes.fromhex(digest(rest)) != known:
        raise damaged(path, "its contents are not what was written")
    try:
        head = parsed(str(rest[:size], "utf-8"))
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"its head cannot be read: {type(error).__name__}") from None
    if type(head) is not dict:
        raise damaged(path, "its head is not a table")
    return File(path, head, rest[size:])


def avals_of(file: File, name: str) -> list[Aval]:
    """The types under a name in the head: `[dtype, shape, weak]` each."""
    found: list[Aval] = []
    words = file.head.get(name)
    if type(words) is not list:
        file.refuse(f"it has no {name}")
    for each in words:
        good = type(each) is list and len(each) == 3 and is_dtype(each[0]) and is_shape(each[1])
        if not good or type(each[2]) is not bool:
            file.refuse(f"its {name} are not described as they should be")
        found.append(Aval(tuple(each[1]), _BY_STR[each[0]], each[2]))
    return found
