"""L5. Functions as LLVM text -> machine code in memory, by way of the code cache.

Code is compiled once per machine: its content key, the CPU's features, the version of LLVM and the
text of the emitter itself make a symbol name; that is looked up in memory, then on disk, and else
compiled. All functions that are missing at one time are compiled in one module, which is cheaper
than one module for each (0.75 ms of 2.4); on disk each then refers to the object that holds it.
LLVM itself is loaded when the first of them is compiled.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar, cast
from weakref import WeakValueDictionary

from fgrad.base.digest import digest
from fgrad.base.lazy_import import lazy_module
from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.llvm import half_conversion, interrupts
from fgrad.compile.llvm.code_memory import LOCK
from fgrad.compile.llvm.loader import Address, Code, load
from fgrad.compile.llvm.signals import is_stopped
from fgrad.compile.llvm.store import DiskStore, contents, python_files
from fgrad.compile.llvm.target import llvm_version, process_target
from fgrad.compile.llvm.text import ATTRIBUTES, Target
from fgrad.config import config
from fgrad.typing import PyTree

if TYPE_CHECKING:
    from fgrad.compile.llvm import generator
else:
    generator = lazy_module("fgrad.compile.llvm.generator")

# The packages that machine code depends on.
EMITTERS = ("kernel", "tasks", "llvm", "entry", "host", "cpu")
LEAST_TEXT = 1 << 13  # characters, about 5 ms, that are worth a thread
RECENT_CODE = 512  # objects that are kept though nothing refers to them
_REFERENCE = b"see "

F = TypeVar("F", bound=Callable[..., PyTree])
KernelFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class Source(NamedTuple):
    """A function that may have to be compiled: its content, and how to write it.

    `emit(symbol)` returns the text of a `define` and the module-level lines that it needs.
    """

    content: str
    emit: Callable[[str], tuple[str, set[str]]]


class Recorded(NamedTuple):
    """A function that was asked for, and the addresses of what it imports."""

    source: Source
    imports: Mapping[str, int]


class _Session:
    """The machine code of the process."""

    def __init__(self) -> None:
        self.loaded: WeakValueDictionary[str, Code] = WeakValueDictionary()  # by symbol
        self.recent: OrderedDict[Code, None] = OrderedDict()
        self.permanent: set[Code] = set()
        self.recordings: list[dict[str, Recorded]] = []
        self.spent = {"write": 0.0, "generate": 0.0, "load": 0.0}  # seconds, of this process
        self._store = DiskStore(config.cache_dir)
        store = self._store if config.cache else None
        self.target = process_target(store)
        self.identity = "\n".join([*self.target, llvm_version(), emitter_digest(store)])

    @property
    def store(self) -> DiskStore:
        """The disk cache in the directory of the present settings."""
        if self._store.directory != config.cache_dir:
            self._store = DiskStore(config.cache_dir)
        return self._store

    def symbol(self, content: str) -> str:
        """The name of the code with this content."""
        return "k_" + digest(f"{self.identity}\n{content}".encode())[:40]

    def use(self, code: Code) -> Code:
        """Keep code for a while."""
        self.recent[code] = None
        self.recent.move_to_end(code)
        if len(self.recent) > RECENT_CODE:
            self.recent.popitem(last=False)
        return code


def emitter_digest(store: DiskStore | None) -> str:
    """A hash of the modules that write code, so that a changed emitter finds no old code."""
    root = os.path.dirname(os.path.dirname(__file__))
    files = [file for name in EMITTERS for file in python_files(os.path.join(root, name))]
    return contents(files, store)


_SESSION = _Session()
# Code may run until the very end of the process, when modules are torn down: never free it then.
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_SESSION))


def build(
    sources: Sequence[Source], imports: Mapping[str, int] | None = None, glue: bool = False
) -> list[Address]:
    """The addresses of functions that stay in memory for the life of the process.

    Arguments: see `build_counted`.
    """
    addresses = build_counted(sources, imports, glue)
    _SESSION.permanent.update([address.code for address in addresses])
    return addresses


def build_counted(
    sources: Sequence[Source], imports: Mapping[str, int] | None = None, glue: bool = False
) -> list[Address]:
    """The addresses of functions: from memory, from disk, or compiled now in one module.

    A function is in memory as long as its `Address` is kept somewhere, as that object.

    Arguments:
      sources: the functions.
      imports: addresses of the external symbols that they call, beside those of the process.
      glue: whether they only call others, so that the fastest code generation is good enough.
    """
    session = _SESSION
    symbols = [session.symbol(source.content) for source in sources]
    for recording in session.recordings:
        for symbol, source in zip(symbols, sources, strict=True):
            recording[symbol] = Recorded(source, imports or {})
    with LOCK:
        found: dict[str, Code] = {}
        missing: dict[str, Source] = {}
        for symbol, source in zip(symbols, sources, strict=True):
            code = _known(symbol, imports or {})
            if code is None:
                missing[symbol] = source
            else:
                found[symbol] = code
        for names, data in _objects(missing, glue) if missing else ():
            with _timed("load"):
                code = _load(data, names, imports or {})
            found.update(dict.fromkeys(names, code))
            if config.cache:
                _to_disk(data, names)
        return [found[symbol].address(symbol) for symbol in symbols]


@contextlib.contextmanager
def recording() -> Iterator[dict[str, Recorded]]:
    """A context in which the functions that are asked for are noted, by symbol; what
    `kept_code` keeps is asked for again."""
    found: dict[str, Recorded] = {}
    _SESSION.recordings.append(found)
    try:
        yield found
    finally:
        _SESSION.recordings = [each for each in _SESSION.recordings if each is not found]


def kept_code(function: F) -> F:
    """Decorator: a function of hashable arguments that builds code is called once for each, but
    anew while a recording is on."""
    kept = functools.lru_cache(function)

    @functools.wraps(function)
    def call(*args: PyTree) -> PyTree:
        return function(*args) if _SESSION.recordings else kept(*args)

    return cast(F, call)


@contextlib.contextmanager
def _timed(what: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    _SESSION.spent[what] += time.perf_counter() - start


def spent() -> dict[str, float]:
    """Seconds that this process has spent writing LLVM text, generating code and loading it."""
    return dict(_SESSION.spent)


def recalled(symbols: Sequence[str]) -> list[Address] | None:
    """The addresses of functions by their symbols, from memory or from disk; None if one is not
    there."""
    with LOCK:
        found = [_known(symbol, {}) for symbol in symbols]
        if None in found:
            return None
        return [code.address(s) for s, code in zip(symbols, found, strict=True) if code is not None]


def store() -> DiskStore:
    """The disk cache of the process."""
    return _SESSION.store


def identity() -> str:
    """What machine code depends on beside its content: the machine, LLVM and the emitter."""
    return _SESSION.identity


def symbol(content: str) -> str:
    """The name of the code with this content."""
    return _SESSION.symbol(content)


def target() -> Target:
    """What this process makes code for."""
    return _SESSION.target


def _objects(sources: Mapping[str, Source], glue: bool) -> list[tuple[list[str], bytes]]:
    """Objects with the functions: one, or two that two threads compile where that is worth it."""
    with _timed("write"):
        emitted = {symbol: source.emit(symbol) for symbol, source in sources.items()}
    parts: tuple[list[str], list[str]] = [], []
    sizes = [0, 0]
    for symbol in sorted(emitted, key=lambda symbol: -len(emitted[symbol][0])):
        less = sizes[1] < sizes[0]
        parts[less].append(symbol)
        sizes[less] += len(emitted[symbol][0])
    if min(sizes) < LEAST_TEXT or config.num_threads < 2:
        parts = list(emitted), []
    texts = [_module([emitted[symbol] for symbol in part]) for part in parts if part]
    with _timed("generate"):
        return list(zip(parts, generator.objects(texts, glue), strict=False))


def module_text(sources: Mapping[str, Source]) -> str:
    """One LLVM module that defines each source under its symbol."""
    return _module([source.emit(symbol) for symbol, source in sources.items()])


def _module(functions: Iterable[tuple[str, set[str]]]) -> str:
    texts, declarations = zip(*functions, strict=True)
    return "\n".join([*sorted(set().union(*declarations)), *texts, ATTRIBUTES, ""])


def _to_disk(code: bytes, symbols: list[str]) -> None:
    """One file for the object, headed by its symbols, under the first; the others refer to it."""
    first, *others = symbols
    _SESSION.store.put(first, " ".join(symbols).encode() + b"\n" + code)
    for symbol in others:
        _SESSION.store.put(symbol, _REFERENCE + first.encode())


def _known(symbol: str, imports: Mapping[str, int]) -> Code | None:
    """The object with a function: in memory, or from the disk cache, if it is there and sound."""
    found = _SESSION.loaded.get(symbol)
    if found is not None:
        return _SESSION.use(found)
    if not config.cache:
        return None
    store = _SESSION.store
    payload = store.get(symbol)
    if payload is not None and payload.startswith(_REFERENCE):
        payload = store.get(payload[len(_REFERENCE) :].decode())
    if payload is None:
        return None
    head, _, data = payload.partition(b"\n")
    symbols = head.decode().split()
    if symbol not in symbols:
        return None
    with contextlib.suppress(RuntimeError):
        return _load(data, symbols, imports)
    return None


def _load(data: bytes, symbols: list[str], imports: Mapping[str, int]) -> Code:
    """Load an object, which may also call the conversions of float16 that the machine lacks, and
    look for signals."""
    polls = signal_functions() if interrupts.POLL.encode() in data else {}
    return _loaded(data, symbols, {**_conversions(), **polls, **imports})


def _loaded(data: bytes, symbols: list[str], imports: Mapping[str, int]) -> Code:
    code = load(data, symbols[0], symbols, imports)
    _SESSION.loaded.update(dict.fromkeys(symbols, code))
    return _SESSION.use(code)


def raise_kept() -> None:
    """Raise what a signal's handler raised while native code ran in this thread, if anything."""
    if is_stopped():
        restore = signal_functions()[interrupts.RAISE]
        ctypes.PYFUNCTYPE(None)(restore)()  # which raises what is set


@functools.cache
def signal_functions() -> dict[str, int]:
    """The addresses of what looks for signals."""
    texts = interrupts.functions()
    sources = [
        Source(text, lambda symbol, text=text, needs=needs: (text.format(symbol=symbol), needs))
        for text, needs in texts.values()
    ]
    names = interrupts.imports()
    found = {**names, **dict(zip(texts, build(sources, names), strict=True))}
    if interrupts.HAS_KEEPING:
        text = interrupts.keeping_text(_SESSION.target.features)
        needs = {f"declare i64 @{interrupts.KEPT_FROM}()"}
        keeping = Source(text, lambda symbol: (text.format(symbol=symbol), needs))
        names = {interrupts.KEPT_FROM: found[interrupts.POLL]}
        (found[interrupts.KEEPING],) = build([keeping], names)
    return found


@functools.cache
def _conversions() -> dict[str, int]:
    """The addresses of conversions of float16, where LLVM calls functions for them."""
    if not half_conversion.calls_library(_SESSION.target.triple, _SESSION.target.features):
        return {}
    texts = half_conversion.TEXTS
    symbols = {name: _SESSION.symbol(text) for name, text in texts.items()}
    functions = [(texts[name].format(symbol=symbol), set()) for name, symbol in symbols.items()]
    names = list(symbols.values())
    code = _loaded(generator.compile_text(_module(functions)), names, {})
    return {name: code.address(symbol) for name, symbol in symbols.items()}
