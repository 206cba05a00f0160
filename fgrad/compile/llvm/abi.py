"""L5. Where CPython and NumPy keep what the native entry reads, verified on probe objects.

Nothing here is assumed: each offset is compared with what Python says of a few arrays, scalars and
containers, and `LAYOUT` is None (calls then go through Python) if one of them is not as expected,
if the interpreter has no GIL, or if it is not CPython on a 64-bit little-endian machine.
"""

from __future__ import annotations

import ctypes
import functools
import platform
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fgrad.base.named_tuple import NamedTuple

WORD = 8
DESCR_MASK = 0xFFFFFFFF00FFFFFF  # kind, type, byte order, (flags), type number
USABLE = 0x101  # C-contiguous and aligned
WRITABLE = 0x501  # and writeable
LENDABLE = 0x505  # and the owner of its memory

_FUNCTIONS = (
    "PyErr_Clear",
    "PyErr_NoMemory",
    "PyDict_GetItemWithError",
    "PyDict_New",
    "PyDict_Next",
    "PyDict_SetItem",
    "PyDict_Size",
    "PyEval_RestoreThread",
    "PyEval_SaveThread",
    "PyList_New",
    "PyList_SetItem",
    "PyLong_AsLongLongAndOverflow",
    "PyObject_CallFunctionObjArgs",
    "PyObject_GetAttr",
    "PyObject_RichCompareBool",
    "PyObject_VectorcallMethod",
    "PyTuple_New",
    "PyTuple_SetItem",
    "Py_DecRef",
    "Py_IncRef",
)
_NUMPY_FUNCTIONS = {
    "PyArray_NewFromDescr": 94,
    "PyArray_NewCopy": 85,
    "PyDataMem_SetHandler": 304,
}
_SCALARS = "bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64"
SCALAR_TYPES = tuple([getattr(np, name) for name in [*_SCALARS.split(), "complex64", "complex128"]])


class Layout(NamedTuple):
    """Offsets in bytes from the start of an object."""

    header: int
    type: int
    data: int
    ndim: int
    dims: int
    strides: int
    base: int
    descr: int
    flags: int
    weakrefs: int
    descr_word: int
    list_items: int  # of the pointer to the items
    tuple_items: int  # of the items themselves
    size: int  # of lists and tuples
    type_flags: int


def _expected() -> Layout:
    header = object.__basicsize__
    return Layout(
        header=header,
        type=header - 8,
        data=header,
        ndim=header + 8,
        dims=header + 16,
        strides=header + 24,
        base=header + 32,
        descr=header + 40,
        flags=header + 48,
        weakrefs=np.ndarray.__weakrefoffset__,
        descr_word=header + 8,
        list_items=header + 8,
        tuple_items=tuple.__basicsize__,
        size=header,
        type_flags=header + 152,
    )


def word_at(address: int) -> int:
    """The 8 bytes at an address."""
    return ctypes.c_uint64.from_address(address).value


def _int_at(address: int) -> int:
    return ctypes.c_int32.from_address(address).value


def descr_word(dtype: np.dtype) -> int:
    """What identifies a dtype, whichever object stands for it."""
    return word_at(id(dtype) + object.__basicsize__ + 8) & DESCR_MASK


def _array_checks(at: Layout) -> Iterator[bool]:
    for name in ("bool", "int32", "float32", "float64", "complex128"):
        a = np.zeros((3, 5, 7), name)[:, ::2]
        p = id(a)
        yield word_at(p + at.type) == id(np.ndarray)
        yield word_at(p + at.data) == a.__array_interface__["data"][0]
        yield _int_at(p + at.ndim) == 3
        dims = word_at(p + at.dims)
        yield [word_at(dims + WORD * k) for k in range(3)] == list(a.shape)
        strides = word_at(p + at.strides)
        yield [word_at(strides + WORD * k) for k in range(3)] == list(a.strides)
        yield word_at(p + at.base) == id(a.base)
        yield word_at(p + at.descr) == id(a.dtype)
        yield _int_at(p + at.flags) == a.flags.num
        whole = np.ones((2, 3), name)
        yield _int_at(id(whole) + at.flags) & USABLE == USABLE
        d = id(a.dtype)
        text = ctypes.string_at(d + at.descr_word, 3).decode("latin1")
        yield text == a.dtype.kind + a.dtype.char + a.dtype.byteorder
        yield _int_at(d + at.descr_word + 4) == a.dtype.num


def _scalar_checks(at: Layout) -> Iterator[bool]:
    for kind in SCALAR_TYPES:
        value = kind(1)
        size = value.dtype.itemsize
        yield ctypes.string_at(id(value) + at.header, size) == value.tobytes()
        yield kind.__basicsize__ >= at.header + size
    real, pair = 1.2345, 1.5 - 2.5j
    yield ctypes.c_double.from_address(id(real) + at.header).value == real
    parts = (ctypes.c_double * 2).from_address(id(pair) + at.header)
    yield complex(*parts) == pair


def _container_checks(at: Layout) -> Iterator[bool]:
    items = [object(), object(), object()]
    many = tuple(items)
    yield word_at(id(items) + at.size) == word_at(id(many) + at.size) == 3
    first = word_at(id(items) + at.list_items)
    yield [word_at(first + WORD * k) for k in range(3)] == [id(x) for x in items]
    stored = [word_at(id(many) + at.tuple_items + WORD * k) for k in range(3)]
    yield stored == [id(x) for x in items]
    for kind in (object, dict, np.ndarray, Layout):
        yield word_at(id(kind) + at.type_flags) == kind.__flags__


def _weakref_checks(at: Layout) -> Iterator[bool]:
    a = np.zeros(2)
    yield at.weakrefs > at.flags
    yield word_at(id(a) + at.weakrefs) == 0
    seen = weakref.ref(a)
    yield word_at(id(a) + at.weakrefs) == id(seen)


def _reference_checks() -> Iterator[bool]:
    x = [object()]
    yield _int_at(id(x)) == 1


def _supported_interpreter() -> bool:
    return (
        platform.python_implementation() == "CPython"
        and sys.byteorder == "little"
        and ctypes.sizeof(ctypes.c_void_p) == WORD
        and object.__basicsize__ == 2 * WORD  # a build without the GIL keeps more
        and not hasattr(sys, "getobjects")  # a build that traces references
    )


def _verified() -> Layout | None:
    if not _supported_interpreter():
        return None
    at = _expected()
    groups = (_array_checks, _scalar_checks, _container_checks, _weakref_checks)
    sound = all([ok for check in groups for ok in check(at)]) and all(_reference_checks())
    return at if sound else None


def numpy_function(number: int) -> int:
    """The address of a function of NumPy's C API."""
    core: Any = getattr(np, "_core", None)
    kind = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    get = kind(("PyCapsule_GetPointer", ctypes.pythonapi))
    table = get(core._multiarray_umath._ARRAY_API, None)
    return word_at(table + WORD * number)


def function_address(name: str) -> int:
    """The address of a function of the Python C API."""
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


def imports() -> dict[str, int]:
    """The addresses behind the external names of the entry's text."""
    table = {name: function_address(name) for name in _FUNCTIONS}
    table.update({name: numpy_function(k) for name, k in _NUMPY_FUNCTIONS.items()})
    return table


_VERSION, _VALUES = 24, 40  # in a dictionary: counts its changes; where an object has its values


class _Holder:
    def __init__(self) -> None:
        self.x = 0


def _version_shows_changes(holder: dict[str, int], change: Callable[[int], None]) -> bool:
    """Whether a dictionary's version is another one after each of many changes."""
    seen = {word_at(id(holder) + _VERSION)}
    for k in range(1, 64):  # often enough for the interpreter to make short ways of its own
        change(k)
        seen.add(word_at(id(holder) + _VERSION))
        if holder["x"] != k or len(seen) != k + 1:
            return False
    return True


@functools.cache
def _versions() -> tuple[bool, bool]:
    """Whether dictionaries have versions, and those of objects too (not in Python 3.13)."""
    if LAYOUT is None:
        return False, False
    held, holder = {"x": 0}, _Holder()

    def change_item(k: int) -> None:
        held["x"] = k

    def change_attribute(k: int) -> None:
        holder.x = k

    objects = _version_shows_changes(vars(holder), change_attribute)
    return _version_shows_changes(held, change_item), objects


def version_address(holder: dict[object, object]) -> int | None:
    """The address of a number that changes whenever a dictionary does; None if there is none."""
    any_dict, of_objects = _versions()
    whole = word_at(id(holder) + _VALUES) == 0
    return id(holder) + _VERSION if any_dict and (of_objects or whole) else None


def type_slot(kind: type, slot: int) -> int:
    """A function of a type, such as its allocator."""
    signature = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_int)
    return signature(("PyType_GetSlot", ctypes.pythonapi))(kind, slot) or 0


LAYOUT: Layout | None = _verified()
