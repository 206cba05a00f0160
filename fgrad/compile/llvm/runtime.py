"""L5. LLVM text -> machine code in memory: the only module that loads llvmlite, and the code cache.

Code is compiled once per machine: its content key, the CPU's features, the version of LLVM and the
text of the emitter itself make a symbol name; that is looked up in memory, then on disk, and else
compiled. All functions that are missing at one time are compiled in one module, which is cheaper
than one module for each (0.75 ms of 2.4); on disk each then refers to the object that holds it.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import llvmlite
import llvmlite.binding as llvm

from fgrad.compile.llvm import half_conversion, interrupts
from fgrad.compile.llvm.store import DiskStore
from fgrad.compile.llvm.text import ATTRIBUTES
from fgrad.config import config

CODEGEN_LEVEL = 1
GLUE_LEVEL = 0  # three times faster to generate
EMITTERS = ("kernel", "tasks", "llvm", "host", "cpu")  # the packages that machine code depends on
LEAST_TEXT = 1 << 13  # characters, about 5 ms, that are worth a thread
_REFERENCE = b"see "

KernelFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class Target(NamedTuple):
    """What code is made for: triple, CPU name and feature string."""

    triple: str
    cpu: str
    features: str


class Source(NamedTuple):
    """A function that may have to be compiled: its content, and how to write it.

    `emit(symbol)` returns the text of a `define` and the module-level lines that it needs.
    """

    content: str
    emit: Callable[[str], tuple[str, set[str]]]


class _Session:
    """The LLVM state of the process."""

    def __init__(self) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        llvm.initialize_native_asmparser()
        self.lock = threading.RLock()
        self.target = host_target()
        self.machine = target_machine(self.target)
        self.jit = llvm.create_lljit_compiler(target_machine(self.target))
        self.loaded: dict[str, llvm.ResourceTracker] = {}  # object name -> keeps its memory
        self.numbers = itertools.count()  # of libraries
        self.addresses: dict[str, int] = {}  # symbol -> address
        self.spent = {"write": 0.0, "generate": 0.0, "load": 0.0}  # seconds, of this process
        self.symbols: dict[int, str] = {}
        self._store = DiskStore(config.cache_dir)
        self.identity = "\n".join([*self.target, llvmlite.__version__, emitter_digest()])

    @property
    def store(self) -> DiskStore:
        """The disk cache in the directory of the present settings."""
        if self._store.directory != config.cache_dir:
            self._store = DiskStore(config.cache_dir)
        return self._store

    def symbol(self, content: str) -> str:
        """The name of the code with this content."""
        digest = hashlib.sha256(f"{self.identity}\n{content}".encode())
        return "k_" + digest.hexdigest()[:40]


def host_target() -> Target:
    """This machine, by its features and not by LLVM's guess of its name alone."""
    features = llvm.get_host_cpu_features().flatten()
    return Target(llvm.get_process_triple(), llvm.get_host_cpu_name(), features)


def target_machine(target: Target, level: int = CODEGEN_LEVEL) -> llvm.TargetMachine:
    """The code generator for a target."""
    if target.triple != llvm.get_process_triple():
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu,
        features=target.features,
        opt=level,
        reloc="default",
        codemodel="jitdefault",
        jit=True,
    )


def emitter_digest() -> str:
    """A hash of the modules that write code, so that a changed emitter finds no old code."""
    digest = hashlib.sha256()
    root = Path(__file__).parent.parent
    for package in EMITTERS:
        for path in sorted((root / package).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


_SESSION = _Session()
# Code may run until the very end of the process, when modules are torn down: never free it.
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_SESSION))
# A fork waits until no other thread is inside of LLVM, whose locks the child could never take.
os.register_at_fork(
    before=_SESSION.lock.acquire,
    after_in_parent=_SESSION.lock.release,
    after_in_child=_SESSION.lock.release,
)


def build(
    sources: Sequence[Source], imports: Mapping[str, int] | None = None, glue: bool = False
) -> list[int]:
    """The addresses of functions: from memory, from disk, or compiled now in one module.

    Arguments:
      sources: the functions.
      imports: addresses of the external symbols that they call, beside those of the process.
      glue: whether they only call others, so that the fastest code generation is good enough.
    """
    session = _SESSION
    symbols = [session.symbol(source.content) for source in sources]
    with session.lock:
        missing = {}
        for symbol, source in zip(symbols, sources, strict=True):
            if symbol not in session.addresses and not _from_disk(symbol, imports or {}):
                missing[symbol] = source
        if missing:
            for names, code in _objects(missing, glue):
                with _timed("load"):
                    _load(code, names[0], names, imports or {})
                if config.cache:
                    _to_disk(code, names)
        return [session.addresses[symbol] for symbol in symbols]


@contextlib.contextmanager
def _timed(what: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    _SESSION.spent[what] += time.perf_counter() - start


def spent() -> dict[str, float]:
    """Seconds that this process has spent writing LLVM text, generating code and loading it."""
    return dict(_SESSION.spent)


def symbol_at(address: int) -> str:
    """The symbol of code that was built."""
    return _SESSION.symbols[address]


def address_of(symbol: str) -> int:
    """The address of a symbol that is loaded."""
    return _SESSION.addresses[symbol]


def load_symbols(symbols: Sequence[str]) -> bool:
    """Load kernels by their symbols from the disk cache; False if one is not there."""
    with _SESSION.lock:
        return all([s in _SESSION.addresses or _from_disk(s, {}) for s in symbols])


def store() -> DiskStore:
    """The disk cache of the process."""
    return _SESSION.store


def identity() -> str:
    """What machine code depends on beside its content: the machine, LLVM and the emitter."""
    return _SESSION.identity


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
        return list(zip(parts, _generate(texts, glue), strict=False))


def _generate(texts: Sequence[str], glue: bool) -> list[bytes]:
    """The objects of one or two modules."""
    if len(texts) == 1:
        return [compile_text(texts[0], glue=glue)]
    with _no_strength_reduction():
        helper = _Helper(texts[1], glue)
        first = _emit(texts[0], _machine(None, glue), llvm.get_global_context())
        return [first, helper.result()]


def module_text(sources: Mapping[str, Source]) -> str:
    """One LLVM module that defines each source under its symbol."""
    return _module([source.emit(symbol) for symbol, source in sources.items()])


def _module(functions: Iterable[tuple[str, set[str]]]) -> str:
    texts, declarations = zip(*functions, strict=True)
    return "\n".join([*sorted(set().union(*declarations)), *texts, ATTRIBUTES, ""])


def compile_text(text: str, target: Target | None = None, glue: bool = False) -> bytes:
    """LLVM text -> a relocatable object, for this machine or another."""
    with _no_strength_reduction():
        return _emit(text, _machine(target, glue), llvm.get_global_context())


def _machine(target: Target | None, glue: bool) -> llvm.TargetMachine:
    if target is None and not glue:
        return _SESSION.machine
    return target_machine(target or _SESSION.target, GLUE_LEVEL if glue else CODEGEN_LEVEL)


def _emit(text: str, machine: llvm.TargetMachine, context: llvm.ContextRef) -> bytes:
    """LLVM text -> a relocatable object."""
    with llvm.parse_assembly(text, context) as module:
        if config.check >= 2:
            module.verify()  # a malformed module would end the process
        if "alloca [" in text:
            promote_scratch(module, machine)
        return _emit_object(machine, module)


def _emit_object(machine: llvm.TargetMachine, module: llvm.ModuleRef) -> bytes:
    """`machine.emit_object(module)` without llvmlite's lock, so that two threads can do it."""
    error = ctypes.c_char_p()
    buffer = _UNLOCKED.LLVMPY_TargetMachineEmitToMemory(machine, module, 1, ctypes.byref(error))
    if not buffer:
        raise RuntimeError((error.value or b"LLVM failed").decode())
    try:
        start = _UNLOCKED.LLVMPY_GetBufferStart(buffer)
        return ctypes.string_at(start, _UNLOCKED.LLVMPY_GetBufferSize(buffer))
    finally:
        _UNLOCKED.LLVMPY_DisposeMemoryBuffer(buffer)


def _unlocked() -> ctypes.CDLL:
    """llvmlite's library as plain functions, with the types that llvmlite gives them."""
    locked = llvm.ffi.lib
    library = ctypes.CDLL(locked._name, handle=locked._handle)
    for name in ("TargetMachineEmitToMemory", "GetBufferStart", "GetBufferSize"):
        theirs, ours = getattr(locked, f"LLVMPY_{name}"), getattr(library, f"LLVMPY_{name}")
        ours.argtypes, ours.restype = theirs.argtypes, theirs.restype
    library.LLVMPY_DisposeMemoryBuffer.argtypes = locked.LLVMPY_DisposeMemoryBuffer.argtypes
    return library


_UNLOCKED = _unlocked()


class _Helper(threading.Thread):
    """A thread that compiles one module, with a context and a code generator of its own."""

    def __init__(self, text: str, glue: bool) -> None:
        super().__init__(name="fgrad-compile")
        self.text = text
        self.level = GLUE_LEVEL if glue else CODEGEN_LEVEL
        self.code = b""
        self.error: RuntimeError | None = None
        self.start()

    def run(self) -> None:
        try:
            machine = target_machine(_SESSION.target, self.level)
            self.code = _emit(self.text, machine, llvm.create_context())
        except RuntimeError as error:
            self.error = error

    def result(self) -> bytes:
        """The object, when it is finished."""
        self.join()
        if self.error is not None:
            raise self.error
        return self.code


@contextlib.contextmanager
def _no_strength_reduction() -> Iterator[None]:
    """Turn off LLVM's loop strength reduction, which takes a third of code generation and gains
    nothing on these loops; other users of LLVM in the process keep it."""
    with _SESSION.lock:
        llvm.set_option("fgrad", "-disable-lsr")
        try:
            yield
        finally:
            llvm.set_option("fgrad", "-disable-lsr=false")


def promote_scratch(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> None:
    """Move scratch buffers into registers where all their indices are constants.

    The only LLVM pass that is run: it halves the time of small loops over a few state variables,
    and costs less than it saves in code generation.
    """
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    builder = llvm.create_pass_builder(machine, options)
    passes = llvm.create_new_function_pass_manager()
    passes.add_sroa_pass()
    for function in module.functions:
        if not function.is_declaration:
            passes.run(function, builder)


def _to_disk(code: bytes, symbols: list[str]) -> None:
    """One file for the object, headed by its symbols, under the first; the others refer to it."""
    first, *others = symbols
    _SESSION.store.put(first, " ".join(symbols).encode() + b"\n" + code)
    for symbol in others:
        _SESSION.store.put(symbol, _REFERENCE + first.encode())


def _from_disk(symbol: str, imports: Mapping[str, int]) -> bool:
    """Load the object with `symbol` from the disk cache, if it is there and sound."""
    if not config.cache:
        return False
    store, name = _SESSION.store, symbol
    payload = store.get(symbol)
    if payload is not None and payload.startswith(_REFERENCE):
        name = payload[len(_REFERENCE) :].decode()
        payload = store.get(name)
    if payload is None or name in _SESSION.loaded:
        return False
    head, _, code = payload.partition(b"\n")
    symbols = head.decode().split()
    if symbol not in symbols:
        return False
    with contextlib.suppress(RuntimeError):
        _load(code, name, symbols, imports)
        return True
    return False


def _load(code: bytes, name: str, symbols: list[str], imports: Mapping[str, int]) -> None:
    """Load an object, which may also call the conversions of float16 that the machine lacks, and
    look for signals."""
    polls = _signal_functions() if interrupts.POLL.encode() in code else {}
    _link(code, name, symbols, {**_conversions(), **polls, **imports})


def raise_kept() -> None:
    """Raise what a signal's handler raised while native code ran in this thread, if anything."""
    if interrupts.is_stopped():
        restore = _signal_functions()[interrupts.RAISE]
        ctypes.PYFUNCTYPE(None)(restore)()  # which raises what is set


@functools.cache
def _signal_functions() -> dict[str, int]:
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
    _link(compile_text(_module(functions)), names[0], names, {})
    return {name: _SESSION.addresses[symbol] for name, symbol in symbols.items()}


def _link(code: bytes, name: str, symbols: list[str], imports: Mapping[str, int]) -> None:
    """Load an object for the life of the process, and note the addresses of its symbols."""
    builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
    for symbol, address in imports.items():
        builder.import_symbol(symbol, address)
    for symbol in symbols:
        builder.export_symbol(symbol)
    # A library that could not be linked keeps its name.
    tracker = builder.link(_SESSION.jit, f"{name}.{next(_SESSION.numbers)}")
    _SESSION.loaded[name] = tracker
    for symbol in symbols:
        address = _SESSION.addresses[symbol] = tracker[symbol]
        _SESSION.symbols[address] = symbol


def disassemble(bitcode: bytes) -> str:
    """The text of a module of LLVM bitcode, which may be of an older version of LLVM."""
    with _SESSION.lock, llvm.parse_bitcode(bitcode) as module:
        return str(module)


def assembly(text: str, target: Target | None = None) -> str:
    """LLVM text -> the assembly of its functions, for this machine or another."""
    with llvm.parse_assembly(text) as module:
        module.verify()
        machine = _SESSION.machine if target is None else target_machine(target)
        promote_scratch(module, machine)
        with _no_strength_reduction():
            return machine.emit_assembly(module)
