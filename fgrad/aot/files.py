"""L7. The format of exported files: a head in JSON, then raw bytes.

    bytes    0  "\\x93FGRAD\\r\\n"
             8  the format's version, the length of the head, the CRC-32 of all that stands before
                and behind it: three u32, the lowest byte first
            20  the head: UTF-8 text in JSON, and spaces up to a multiple of 64
                sections: at offsets from the end of the head, multiples of 64

Everything that is read is checked before it is used: no size in a file is believed, nothing in it
names a file, a module or a class, and there is nothing to be executed but the section of machine
code, which only `load(path, trust=True)` looks at.

The package `json` takes 1.2 ms to import, a quarter of the time in which a trusted file is loaded:
its scanner, which is compiled, is taken from the module that holds it alone.  The sum finds damage,
as that of an archive does, by a module that NumPy has loaded; who wants to deceive makes a new one.
"""

from __future__ import annotations

import struct
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.base.named_tuple import NamedTuple
from fgrad.ir.aval import DTYPES, Aval

if TYPE_CHECKING:
    from fgrad import errors
    from fgrad.typing import PyTree
else:  # a tenth of the time in which a trusted file is loaded
    errors = lazy_module("fgrad.errors")

try:
    from _json import make_scanner  # type: ignore[import-not-found]
except ImportError:  # an interpreter without it
    from json.scanner import make_scanner  # type: ignore[attr-defined,no-redef]

MAGIC = b"\x93FGRAD\r\n"
FORMAT = 2
ALIGNMENT = 64  # of sections, and of the memory that machine code is given
HEAD = struct.Struct("<8sIII")
_BY_STR = {dtype.str: dtype for dtype in DTYPES.values()}


class _Context:
    """What the scanner is told."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    memo: dict[str, str] = {}  # noqa: RUF012  (of the scanner that is written in Python)

    @staticmethod
    def parse_constant(name: str) -> object:
        """NaN and infinities stand in no head."""
        raise ValueError(name)


def parsed(text: str) -> PyTree:
    """The value that a text spells, with spaces behind it.

    Raises:
        ValueError: it is no JSON.
    """
    scan: Any = make_scanner
    try:
        value, end = scan(_Context)(text, 0)
    except (StopIteration, SystemError):  # the latter for the error that `json` would define
        raise ValueError("no JSON") from None
    if text[end:].strip(" "):
        raise ValueError("more than one value")
    return value


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


def crc_of(head_bytes: int, rest: bytes | memoryview) -> int:
    """The sum of a file whose head is so long."""
    return zlib.crc32(rest, zlib.crc32(HEAD.pack(MAGIC, FORMAT, head_bytes, 0)))


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
    if size > len(rest) or crc_of(size, rest) != known:
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


# --- the structure of arguments and results -------------------------------------------------------

# (x, {"w": w}, None)    {"tuple": [0, {"dict": [["w", 1]]}, null]}       leaves by number

MOST_DEPTH = 64


class NotPlain(Exception):
    """A container of another class; never leaves this package."""


def spec_of(tree: PyTree) -> PyTree:
    """The structure of a tree whose leaves are their numbers.

    Raises:
        NotPlain: with the class of a container that a file cannot hold.
    """
    kind = type(tree)
    if tree is None or kind is int:
        return tree
    if kind in (tuple, list):
        return {kind.__name__: [spec_of(child) for child in tree]}
    if kind is dict and all([type(key) in (str, int) for key in tree]):
        return {"dict": [[key, spec_of(tree[key])] for key in tree]}
    raise NotPlain(f"{kind.__module__}.{kind.__qualname__}")


def check_spec(spec: PyTree, count: int) -> bool:
    """Whether JSON is the structure of `count` leaves."""
    found: list[int] = []
    return _is_spec(spec, found, MOST_DEPTH) and sorted(found) == list(range(count))


def _is_spec(spec: PyTree, found: list[int], depth: int) -> bool:
    if spec is None:
        return True
    if type(spec) is int:
        found.append(spec)
        return True
    if type(spec) is not dict or len(spec) != 1 or not depth:
        return False
    ((kind, children),) = spec.items()
    if type(children) is not list:
        return False
    if kind in ("tuple", "list"):
        return all([_is_spec(child, found, depth - 1) for child in children])
    if kind != "dict":
        return False
    pairs = all([type(c) is list and len(c) == 2 and type(c[0]) in (str, int) for c in children])
    if not pairs or len({key for key, _ in children}) < len(children):
        return False
    return all([_is_spec(child, found, depth - 1) for _, child in children])


def made(spec: PyTree, leaves: Sequence[object]) -> PyTree:
    """The tree of a structure with the given leaves."""
    if spec is None:
        return None
    if type(spec) is int:
        return leaves[spec]
    ((kind, children),) = spec.items()
    if kind == "dict":
        return {key: made(child, leaves) for key, child in children}
    items = [made(child, leaves) for child in children]
    return tuple(items) if kind == "tuple" else items


def leaves_of(spec: PyTree, tree: PyTree, fail: Callable[[str, str], None], at: str = "") -> PyTree:
    """The pairs of number and leaf of a tree; `fail(place, expected)` where it is another one."""
    if type(spec) is int:
        yield spec, tree, at
        return
    yield from _inner(spec, tree, fail, at)


def _inner(
    spec: PyTree, tree: PyTree, fail: Callable[[str, str], None], at: str
) -> Iterator[tuple[int, object, str]]:
    if spec is None:
        if tree is not None:
            fail(at, "None")
        return
    ((kind, children),) = spec.items()
    if kind == "dict":
        keys = [key for key, _ in children]
        if type(tree) is not dict or set(tree) != set(keys):
            fail(at, f"a dict with the keys {', '.join(map(repr, keys))}")
        for key, child in children:
            yield from leaves_of(child, tree[key], fail, f"{at}[{key!r}]")
        return
    if type(tree).__name__ != kind or len(tree) != len(children):
        fail(at, f"a {kind} of {len(children)}")
    for k, child in enumerate(children):
        yield from leaves_of(child, tree[k], fail, f"{at}[{k}]")


def paths_of(spec: PyTree, at: str) -> dict[int, str]:
    """Where each leaf of a structure stands, as text: `argument [0]["w"]`."""
    if spec is None:
        return {}
    if type(spec) is int:
        return {spec: at.strip()}
    ((kind, children),) = spec.items()
    pairs = children if kind == "dict" else enumerate(children)
    found: dict[int, str] = {}
    for key, child in pairs:
        name = repr(key).replace("*/", "* /")
        found |= paths_of(child, f"{at}[{name if name.isascii() else ascii(key)}]")
    return found
