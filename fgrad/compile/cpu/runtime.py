"""L5. LLVM text -> machine code in memory: the only module that loads llvmlite, and the kernel cache.

A kernel is compiled once per machine: its canonical text, the CPU's features and the versions of LLVM
and of the emitter make a key; code is looked up in memory, then on disk, and else compiled.
"""

from __future__ import annotations

import ctypes
import hashlib
import threading
from typing import NamedTuple

import llvmlite
import llvmlite.binding as llvm

from fgrad.compile.kernel.ir import Kernel
from fgrad.compile.kernel.text import canonical, print_kernel
from fgrad.compile.cpu.emit_llvm import emit_module
from fgrad.compile.cpu.scalar_llvm import SCALAR_LLVM

CODEGEN_LEVEL = 1


class Target(NamedTuple):
    """What code is made for: triple, CPU name and feature string."""

    triple: str
    cpu: str
    features: str


class _Session:
    """The LLVM state of the process."""

    def __init__(self) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        llvm.set_option("fgrad", "-disable-lsr")
        self.lock = threading.RLock()
        features = llvm.get_host_cpu_features().flatten()
        self.target = Target(llvm.get_process_triple(), llvm.get_host_cpu_name(), features)
        self.machine = target_machine(self.target)
        self.jit = llvm.create_lljit_compiler(target_machine(self.target))
        self.trackers: dict[str, object] = {}
        self.addresses: dict[str, int] = {}
        self.count = 0


def target_machine(target: Target) -> llvm.TargetMachine:
    """The code generator for a target."""
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu,
        features=target.features,
        opt=CODEGEN_LEVEL,
        reloc="default",
        codemodel="jitdefault",
        jit=True,
    )


_SESSION = _Session()


def kernel_text(kernel: Kernel) -> str:
    """The canonical text of a kernel: equal for equal structure."""
    return print_kernel(canonical(kernel))


def kernel_key(text: str) -> str:
    """The content address of the code of a kernel with canonical text `text` on this machine."""
    target = _SESSION.target
    parts = [text, target.triple, target.cpu, target.features, llvmlite.__version__]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def build_kernel(kernel: Kernel) -> int:
    """The address of `void f(ptr bufs, i64 lo, i64 hi)` for a scheduled kernel."""
    renamed = canonical(kernel)
    key = kernel_key(print_kernel(renamed))
    with _SESSION.lock:
        address = _SESSION.addresses.get(key)
        if address is None:
            text = emit_module([("k", renamed)], SCALAR_LLVM)
            address = _SESSION.addresses[key] = load_object(compile_text(text), ["k"])[0]
    return address


def compile_text(text: str) -> bytes:
    """LLVM text -> a relocatable object."""
    module = llvm.parse_assembly(text)
    return _SESSION.machine.emit_object(module)


def load_object(code: bytes, symbols: list[str]) -> list[int]:
    """Load an object into the process for good; returns the addresses of its symbols."""
    builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
    for symbol in symbols:
        builder.export_symbol(symbol)
    with _SESSION.lock:
        _SESSION.count += 1
        tracker = builder.link(_SESSION.jit, f"fgrad{_SESSION.count}")
        _SESSION.trackers[f"fgrad{_SESSION.count}"] = tracker
    return [tracker[symbol] for symbol in symbols]


def llvm_text(kernel: Kernel) -> str:
    """The LLVM text of a scheduled kernel."""
    return emit_module([(kernel.name, kernel)], SCALAR_LLVM)


def asm_text(kernel: Kernel) -> str:
    """The assembly of a scheduled kernel for this machine."""
    module = llvm.parse_assembly(llvm_text(kernel))
    module.verify()
    return _SESSION.machine.emit_assembly(module)


KernelFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
