"""L6. DLPack: arrays of other libraries without a copy, as capsules around a C structure.

https://dmlc.github.io/dlpack; capsules are those of version 0, which all libraries take and give.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.base.named_tuple import NamedTuple
from fgrad.errors import UnsupportedTypeError
from fgrad.ir.aval import DTYPE_NAMES, is_bfloat16
from fgrad.typing import PyTree

ml_dtypes = lazy_module("ml_dtypes")

CUDA = 2
_NAME, _USED = b"dltensor", b"used_dltensor"
_CODES = {"i": 0, "u": 1, "f": 2, "V": 4, "c": 5, "b": 6}
_KINDS = {code: kind for kind, code in _CODES.items()}


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int),
        ("device", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    _fields_ = (
        ("tensor", _Tensor),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_api = ctypes.pythonapi
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", _api)
)
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", _api)
)
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _api)
)
_dying_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _api)
)
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_SetName", _api)
)

_EXPORTED: dict[int, PyTree] = {}  # structure -> what must live as long


@_Deleter
def _forget(managed: int) -> None:
    """Called by the consumer when it is done with the memory."""
    _EXPORTED.pop(managed, None)


@_Deleter
def _destroy(capsule: int) -> None:
    """Called when a capsule goes, by its address: nobody may hold it any more."""
    if _is_valid(capsule, _NAME):
        _forget(_dying_pointer(capsule, _NAME))


def capsule(
    owner: object, pointer: int, shape: tuple[int, ...], dtype: np.dtype, device: int
) -> Any:
    """A capsule for memory that `owner` keeps alive."""
    count = len(shape)
    lengths = (ctypes.c_int64 * max(count, 1))(*shape)
    tensor = _Tensor(
        data=pointer,
        device_type=CUDA,
        device=device,
        ndim=count,
        code=_CODES[dtype.kind],
        bits=8 * dtype.itemsize,
        lanes=1,
        shape=lengths,
    )
    managed = _Managed(tensor, None, ctypes.cast(_forget, ctypes.c_void_p))
    address = ctypes.addressof(managed)
    _EXPORTED[address] = managed, lengths, owner
    return _new(address, _NAME, ctypes.cast(_destroy, ctypes.c_void_p))


class Imported(NamedTuple):
    """Memory of another library; `owner` keeps it alive, `strides` count elements."""

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    dtype: np.dtype
    device: int
    owner: object


class _Owner:
    """Tells the producer when nobody needs its memory any more."""

    def __init__(self, managed: int) -> None:
        self.managed = managed

    def __del__(self) -> None:
        deleter = _Managed.from_address(self.managed).deleter
        if deleter:
            _Deleter(deleter)(self.managed)


def imported(given: object) -> Imported:
    """What a capsule holds, which is used up."""
    managed = _pointer_of(given, _NAME)
    _rename(given, _USED)
    owner = _Owner(managed)
    tensor = _Managed.from_address(managed).tensor
    count = tensor.ndim
    strides = tuple(tensor.strides[:count]) if tensor.strides else None
    return Imported(
        (tensor.data or 0) + tensor.byte_offset,
        tuple(tensor.shape[:count]),
        strides,
        _dtype(tensor),
        tensor.device,
        owner,
    )


def _dtype(tensor: _Tensor) -> np.dtype:
    kind, nbytes = _KINDS.get(tensor.code, "?"), tensor.bits // 8
    if kind == "V" and nbytes == 2:
        return np.dtype(ml_dtypes.bfloat16)
    try:
        found = np.dtype(f"{kind}{nbytes}")
    except TypeError:
        found = np.dtype(object)
    if tensor.lanes != 1 or found.name not in DTYPE_NAMES or is_bfloat16(found):
        raise UnsupportedTypeError(
            "The elements of an array of another library are of no type that fgrad knows.",
            (("value", f"DLPack code {tensor.code}, {tensor.bits} bits, {tensor.lanes} lanes"),),
        )
    return found
