"""L5. Native calls of jitted functions: a repeated call runs no Python code.

`NativeCallable` is the base class of jitted functions.  Its instances hold the address of the
entry, a function in the vectorcall convention that is compiled once per machine, and of a chain of
signatures.  A call that fits one of them is made natively; any other one goes to the method
`__call__`, which may then `learn` it.  Where the interpreter is not as expected, `NativeCallable`
is an ordinary class and all calls go to `__call__`.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.base.system import own_lock
from fgrad.compile.entry.fields import BUCKETS, EXPORTS
from fgrad.compile.llvm.abi import LAYOUT, WORD, Layout, function_address, imports, word_at
from fgrad.compile.llvm.runtime import Source, build, store, symbol
from fgrad.config import config
from fgrad.errors import CheckError

if TYPE_CHECKING:
    from fgrad.compile.entry import pool, table, text
    from fgrad.compile.entry.table import Parameters, Results, Signature, Work
else:
    pool = lazy_module("fgrad.compile.entry.pool")
    table = lazy_module("fgrad.compile.entry.table")
    text = lazy_module("fgrad.compile.entry.text")  # where the entry is not in the cache

C = TypeVar("C", bound=type)
MAX_SIGNATURES = 512  # in one chain
MAX_ATTEMPTS = 8  # to make calls of one compiled program native
COLD_CALLS = 8  # in Python before the entry is compiled, which takes as long as 10,000 of them

_CALL_NAME = sys.intern("__call__")
_HAVE_VECTORCALL, _METHOD_DESCRIPTOR = 1 << 11, 1 << 17
_TYPE_FLAGS = 1 << 18 | 1 << 10 | _HAVE_VECTORCALL  # default, base class


class _Slot(ctypes.Structure):
    _fields_ = (("slot", ctypes.c_int), ("function", ctypes.c_void_p))


class _Spec(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("basicsize", ctypes.c_int),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.c_void_p),
    )


class _Member(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_int),
        ("offset", ctypes.c_ssize_t),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def _make_type(at: Layout) -> tuple[type, object]:
    """A heap type: the object's header, the addresses of the entry, of the first signature, and of
    the table of signatures by their hash."""
    tp_call, tp_members, ssize, read_only = 50, 72, 19, 1
    members = (_Member * 2)(_Member(b"__vectorcalloffset__", ssize, at.header, read_only, None))
    slots = (_Slot * 3)(
        _Slot(tp_call, function_address("PyVectorcall_Call")),
        _Slot(tp_members, ctypes.addressof(members)),
    )
    size = at.header + 3 * WORD
    name = b"fgrad.compile.entry.native.NativeCallable"
    spec = _Spec(name, size, 0, _TYPE_FLAGS, ctypes.addressof(slots))
    kind = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p)
    made = kind(("PyType_FromSpec", ctypes.pythonapi))(ctypes.addressof(spec))
    return made, (members, slots, spec)


class _PythonCallable:
    """The base class where native calls are not possible."""

    __slots__ = ()


if TYPE_CHECKING:

    class NativeCallable:
        """The base class of what native code calls."""

        __slots__ = ()

    _KEPT: object
elif LAYOUT is None:
    NativeCallable, _KEPT = _PythonCallable, None
else:
    NativeCallable, _KEPT = _make_type(LAYOUT)


def native_class(cls: C) -> C:
    """Class decorator: let instances of a subclass of `NativeCallable` be called natively.

    A class with a method `__call__` does not inherit this.  As methods they are bound without
    making a method object, as functions are.
    """
    if LAYOUT is not None:
        place = ctypes.c_uint64.from_address(id(cls) + LAYOUT.type_flags)
        if place.value == cls.__flags__:
            place.value |= _HAVE_VECTORCALL | _METHOD_DESCRIPTOR
            ctypes.pythonapi.PyType_Modified(ctypes.py_object(cls))
    return cls


def _missing(_callee: object, _signature: int) -> None:
    raise CheckError("a signature is linked before the entry is loaded")


class _Entry:
    """The compiled entry, loaded when the first signature is learnt."""

    def __init__(self) -> None:
        self.lock = own_lock(self)
        self.address = 0
        self.is_cold: bool | None = None  # it is not in the cache
        self.link: Callable[[object, int], None] = _missing
        self.unlink: Callable[[object, int], None] = _missing
        self.pool: pool.Pool

    def patience(self, at: Layout) -> int:
        """How many more calls Python makes before the first native one."""
        if self.address:
            return 0
        if self.is_cold is None:
            known = config.cache and store().get(symbol(_content(at))) is not None
            self.is_cold = not known
        return COLD_CALLS if self.is_cold else 0

    def load(self, at: Layout) -> None:
        """Compile the entry or fetch it from the cache."""
        with self.lock:
            if self.address:
                return
            names = imports()
            names.update({name: id(obj) for name, obj in _OBJECTS.items()})
            names["fgrad_epoch"] = ctypes.addressof(config.epoch_cell)
            source = Source(_content(at), lambda name: text.emit_entry(name, at))
            address = build([source], names)[0]
            exported = (ctypes.c_void_p * len(EXPORTS))()
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)(ctypes.addressof(exported))
            entry, link, unlink, *memory = [function or 0 for function in exported]
            kind = ctypes.PYFUNCTYPE(None, ctypes.py_object, ctypes.c_void_p)
            self.link, self.unlink = kind(link), kind(unlink)
            self.pool = pool.Pool(memory)
            self.address = entry


def _content(at: Layout) -> str:
    """What the entry's code depends on."""
    return f"entry {tuple(at)}"


class _Retired:
    """Signatures that were taken out of their chains while calls may have been at them."""

    def __init__(self) -> None:
        self.lock = own_lock(self)
        self.signatures: list[Signature] = []

    def add(self, signatures: Sequence[Signature]) -> None:
        """Keep these as long as calls are at them, and no longer those that were left."""
        with self.lock:
            before = [*self.signatures, *signatures]
            self.signatures = [s for s in before if s.running]
        del before  # frees the others, without the lock


_RETIRED = _Retired()
_OBJECTS = {
    "fgrad_ndarray": np.ndarray,
    "fgrad_int": int,
    "fgrad_bool": bool,
    "fgrad_str": str,
    "fgrad_list": list,
    "fgrad_dict": dict,
    "fgrad_tuple": tuple,
    "fgrad_true": True,
    "fgrad_numpy_true": np.True_,
    "fgrad_numpy_false": np.False_,
    "fgrad_call_name": _CALL_NAME,
}
_ENTRY = _Entry()


class NativeCalls:
    """The signatures of one callee.

    A call that comes to Python for the second time is learnt, so that a function that is called
    once pays nothing; the first one of a machine, which compiles the entry, some calls later.
    """

    def __init__(self) -> None:
        self.lock = own_lock(self)
        self.signatures: dict[Hashable, Signature] = {}
        self.attempts: dict[int, int] = {}  # by compiled program
        self.buckets: ctypes.Array[ctypes.c_int64] | None = None  # of several signatures, by hash

    def wants(self, program: object) -> bool:
        """Whether a call of a compiled program, which has come to Python, should be learnt."""
        if LAYOUT is None or not config.native_calls or len(self.signatures) >= MAX_SIGNATURES:
            return False
        attempt = self.attempts[id(program)] = self.attempts.get(id(program), -1) + 1
        return 1 <= attempt - _ENTRY.patience(LAYOUT) <= MAX_ATTEMPTS

    def learn(
        self, callee: object, parameters: Parameters, results: Results, work: Work
    ) -> Signature | None:
        """Make calls like this one native from now on; None if that is not possible."""
        assert LAYOUT is not None
        _ENTRY.load(LAYOUT)
        try:
            capsule = _ENTRY.pool.capsule
            signature = table.Signature(parameters, results, work, config.epoch, capsule)
        except table.NotNative:
            return None
        with self.lock:
            if signature.key in self.signatures:
                return None
            self.signatures[signature.key] = signature
            _ENTRY.link(callee, signature.address)
            words = (ctypes.c_void_p * 3).from_address(id(callee) + LAYOUT.header)
            if self.buckets is None and len(self.signatures) > 1:
                self.buckets = (ctypes.c_int64 * BUCKETS)()
                words[2] = ctypes.addressof(self.buckets)
            words[0] = _ENTRY.address
        return signature

    def forget(self, callee: object, signatures: Sequence[Signature], program: object) -> None:
        """Route such calls through Python again; free the signature after the last running call."""
        self.attempts.pop(id(program), None)
        for signature in signatures:
            if self.signatures.get(signature.key) is signature:
                _ENTRY.unlink(callee, signature.address)
                del self.signatures[signature.key]
        _RETIRED.add(signatures)


def is_native(callee: object) -> bool:
    """Whether calls of a jitted function go to the native entry first."""
    return LAYOUT is not None and word_at(id(callee) + LAYOUT.header) != 0
