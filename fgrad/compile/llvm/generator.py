"""L5. LLVM text -> objects and assembly: the only module that loads llvmlite.

It is loaded when something must be compiled, or when an object is not one for the loader of
`loader.py`.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import threading
from collections.abc import Iterator, Mapping, Sequence

import llvmlite
import llvmlite.binding as llvm

from fgrad.base.system import POSIX
from fgrad.compile.llvm.code_memory import LOCK
from fgrad.compile.llvm.levels import selected
from fgrad.compile.llvm.text import Target
from fgrad.config import config

CODEGEN_LEVEL = 1
GLUE_LEVEL = 0  # three times faster to generate


class _Generator:
    """The LLVM state of the process."""

    def __init__(self) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        llvm.initialize_native_asmparser()
        self.target = selected(host_target())
        self.machine = target_machine(self.target)
        self.loader: llvm.LLJIT | None = None
        self.loaded: list[llvm.ResourceTracker] = []  # keep their memory
        self.numbers = itertools.count()  # of libraries


def version() -> str:
    """The version of LLVM."""
    return llvmlite.__version__


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


_GENERATOR = _Generator()
# Code may run until the very end of the process, when modules are torn down: never free it.
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_GENERATOR))


def objects(texts: Sequence[str], glue: bool) -> list[bytes]:
    """The objects of one or two modules."""
    if len(texts) == 1:
        return [compile_text(texts[0], glue=glue)]
    with _no_strength_reduction():
        helper = _Helper(texts[1], glue)
        first = _emit(texts[0], _machine(None, glue), llvm.get_global_context())
        return [first, helper.result()]


def compile_text(text: str, target: Target | None = None, glue: bool = False) -> bytes:
    """LLVM text -> a relocatable object, for this machine or another."""
    with _no_strength_reduction():
        return _emit(text, _machine(target, glue), llvm.get_global_context())


def linkable_object(text: str) -> bytes:
    """LLVM text -> a relocatable object for this machine, which a linker takes into a program or a
    shared library."""
    target = _GENERATOR.target
    machine = llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu,
        features=target.features,
        opt=CODEGEN_LEVEL,
        reloc="pic",
        codemodel="small",
    )
    with _no_strength_reduction():
        return _emit(text, machine, llvm.get_global_context())


def _machine(target: Target | None, glue: bool) -> llvm.TargetMachine:
    if target is None and not glue:
        return _GENERATOR.machine
    return target_machine(target or _GENERATOR.target, GLUE_LEVEL if glue else CODEGEN_LEVEL)


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
            machine = target_machine(_GENERATOR.target, self.level)
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
    with LOCK:
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


# COFF objects that compute with floats refer to a symbol of C's start-up code.
_FLOATS_USED = ctypes.c_int32()
_OF_FORMATS = {} if POSIX else {"_fltused": ctypes.addressof(_FLOATS_USED)}


def load(
    code: bytes, name: str, symbols: Sequence[str], imports: Mapping[str, int]
) -> dict[str, int]:
    """Load an object for the life of the process; gives the addresses of its symbols.

    Raises:
        RuntimeError: it cannot be linked.
    """
    state = _GENERATOR
    if state.loader is None:
        state.loader = llvm.create_lljit_compiler(target_machine(state.target))
    builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
    for symbol, address in (_OF_FORMATS | dict(imports)).items():
        builder.import_symbol(symbol, address)
    for symbol in symbols:
        builder.export_symbol(symbol)
    # A library that could not be linked keeps its name.
    tracker = builder.link(state.loader, f"{name}.{next(state.numbers)}")
    state.loaded.append(tracker)
    return {symbol: tracker[symbol] for symbol in symbols}


def disassemble(bitcode: bytes) -> str:
    """The text of a module of LLVM bitcode, which may be of an older version of LLVM."""
    with LOCK, llvm.parse_bitcode(bitcode) as module:
        return str(module)


def assembly(text: str, target: Target | None = None) -> str:
    """LLVM text -> the assembly of its functions, for this machine or another."""
    with llvm.parse_assembly(text) as module:
        module.verify()
        machine = _GENERATOR.machine if target is None else target_machine(target)
        promote_scratch(module, machine)
        with _no_strength_reduction():
            return machine.emit_assembly(module)
