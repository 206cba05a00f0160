"""L6. The text of a kernel's body -> machine code for a GPU; neither GPU nor driver is needed.

    skeleton + body + libdevice --libNVVM--> PTX --nvJitLink--> cubin

The libraries are called through cuda.bindings.  Arithmetic is precise: no flush to zero, division
and square root correctly rounded.  a * b + c is rounded twice unless the body says `llvm.fma`: an
element that two kernels compute must have the same bits in both, or the gradient of max is wrong.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from fgrad.base.lazy_import import lazy_module
from fgrad.errors import CheckError
from fgrad.lower_cuda.device import store
from fgrad.lower_cuda.device.cubin import Cubin, resources
from fgrad.lower_cuda.device.missing import needs
from fgrad.lower_cuda.device.skeleton import BODY, ENTRY, identity, padded, skeleton, version_of

KEPT = 4096  # kernels that stay in memory

_TARGET = (  # on one line with the first of the body, whose lines keep their numbers
    'target triple = "nvptx64-nvidia-cuda" target datalayout = "e-p:64:64:64-i1:8:8-i8:8:8-'
    "i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-v16:16:16-v32:32:32-"
    'v64:64:64-v128:128:128-n16:32:64" '
)
_PRECISE = ("-opt=3", "-ftz=0", "-prec-div=1", "-prec-sqrt=1", "-fma=0")
_LINK = ("-O3", "-verbose")
_DEFINE = re.compile(rf"define void @{BODY}\(((?:[^()]|\([^()]*\))*)\)")
_PACKAGES = ("cuda-bindings", "nvidia-nvvm", "nvidia-nvjitlink")
_FORM = 2  # to be counted up when what is made of a body changes

nvvm = lazy_module("cuda.bindings.nvvm")
nvjitlink = lazy_module("cuda.bindings.nvjitlink")
pathfinder = lazy_module("cuda.pathfinder")


@lru_cache(KEPT)
def compile_body(body: str, arity: int, threads: int, arch: str = "sm_90") -> Cubin:
    """The compiled kernel around a body, from memory or disk where it was compiled before.

    Arguments:
        body: NVVM IR (LLVM 7) that defines `fgrad_body(block, x, y, p0, ..., p{arity - 1})`.
        arity: how many pointers the body takes; the kernel takes `skeleton.padded(arity)`.
        threads: the most threads that a block will have.
        arch: what it is compiled for.

    Raises:
        MissingCudaError: a part of the toolchain is not installed.
        CheckError: the body is not what libNVVM or the linker accepts.
    """
    key = store.key_of(body, (arity, threads, arch, versions()))
    known = store.recall(key)
    if known is not None:
        return known
    entry = f"fgrad_{key[2:14]}"
    image, log = _link(body_ptx(body, arity, threads, arch, entry), arch)
    cubin = Cubin(image, entry, resources(image, log))
    store.keep(key, cubin)
    return cubin


def body_ptx(
    body: str, arity: int, threads: int, arch: str = "sm_90", entry: str = "fgrad_kernel"
) -> str:
    """The PTX of the kernel around a body."""
    options = (f"-arch={arch.replace('sm', 'compute')}", *_PRECISE)
    with needs("libNVVM (nvidia-nvvm)"):
        nvvm.version()
    modules = [
        ("kernel", _bounded(skeleton(padded(arity)), threads).replace(ENTRY, entry)),
        ("body", _TARGET + inlined(body, arity) + _language(body)),
    ]
    program = nvvm.create_program()
    try:
        for name, text in modules:
            data = text.encode()
            nvvm.add_module_to_program(program, data, len(data), name)
        if "@__nv_" in body:
            nvvm.lazy_add_module_to_program(program, libdevice(), len(libdevice()), "libdevice")
        nvvm.compile_program(program, len(options), options)
        ptx = bytearray(nvvm.get_compiled_result_size(program))
        nvvm.get_compiled_result(program, ptx)
    except nvvm.nvvmError as error:
        log = bytearray(nvvm.get_program_log_size(program))
        nvvm.get_program_log(program, log)
        raise _rejected("libNVVM", f"{error}\n{_text(log)}", arch, body) from None
    finally:
        nvvm.destroy_program(program)
    return _text(ptx)


@lru_cache
def versions() -> str:
    """What a cubin depends on beside its body."""
    return repr((_FORM, identity(), [f"{name} {version_of(name)}" for name in _PACKAGES]))


def inlined(body: str, arity: int) -> str:
    """The body with the parameters of its skeleton, as a function that is inlined and not kept."""
    found = _DEFINE.search(body)
    if found is None:
        raise CheckError(f"The text of a kernel's body has no `define void @{BODY}(...)`.")
    parameters = found[1]
    count = re.sub(r"\([^()]*\)", "", parameters).count(",") + 1 - 3
    if count != arity:
        raise CheckError(f"The body of a kernel takes {count} pointers, and not {arity}.")
    padding = "".join([f", i8 addrspace(1)* %pad{k}" for k in range(padded(arity) - arity)])
    define = f"define linkonce_odr void @{BODY}({parameters}{padding}) alwaysinline"
    return body[: found.start()] + define + body[found.end() :]


def _language(body: str) -> str:
    """The metadata that says in which version of NVVM IR the body is written."""
    numbers = [int(number) for number in re.findall(r"^!(\d+) =", body, re.MULTILINE)]
    free = 1 + max(numbers, default=-1)
    version = ", ".join([f"i32 {number}" for number in nvvm.ir_version()])
    return f"\n!nvvmir.version = !{{!{free}}}\n!{free} = !{{{version}}}\n"


def _bounded(text: str, threads: int) -> str:
    """The skeleton for blocks of at most `threads` threads."""
    kernel = '!"kernel", i32 1'
    return text.replace(kernel, f'{kernel}, !"maxntidx", i32 {threads}')


def _link(ptx: str, arch: str) -> tuple[bytes, str]:
    """The cubin of PTX, and what the linker says of it."""
    options = [f"-arch={arch}", *_LINK]
    with needs("nvJitLink (nvidia-nvjitlink)"):
        linker = nvjitlink.create(len(options), options)
    try:
        data = ptx.encode()
        nvjitlink.add_data(linker, nvjitlink.InputType.PTX, data, len(data), "kernel")
        nvjitlink.complete(linker)
        image = bytearray(nvjitlink.get_linked_cubin_size(linker))
        nvjitlink.get_linked_cubin(linker, image)
        log = bytearray(nvjitlink.get_info_log_size(linker))
        nvjitlink.get_info_log(linker, log)
    except nvjitlink.nvJitLinkError as error:
        log = bytearray(nvjitlink.get_error_log_size(linker))
        nvjitlink.get_error_log(linker, log)
        raise _rejected("nvJitLink", f"{error}\n{_text(log)}", arch, ptx) from None
    finally:
        nvjitlink.destroy(linker)
    return bytes(image), _text(log)


@lru_cache
def libdevice() -> bytes:
    """NVIDIA's library of mathematical functions, as LLVM bitcode."""
    with needs("libdevice (nvidia-nvvm)"):
        return _libdevice_file().read_bytes()


def _libdevice_file() -> Path:
    """Beside libNVVM, as in all packages of it, or where cuda.pathfinder finds it."""
    library = Path(pathfinder.load_nvidia_dynamic_lib("nvvm").abs_path).resolve()
    for folder in library.parents:
        for place in ("libdevice", "nvvm/libdevice"):
            file = folder / place / "libdevice.10.bc"
            if file.exists():
                return file
    return Path(pathfinder.find_bitcode_lib("device"))


def _rejected(tool: str, log: str, arch: str, text: str) -> CheckError:
    """The card for a kernel that does not compile: the log, and the lines around what it names."""
    log = log.strip()
    place = re.search(r"\((\d+), \d+\)|line (\d+)", log)
    lines = text.splitlines()
    at = int(place[1] or place[2]) if place else 1
    shown = range(max(at - 6, 0), min(at + 5 if place else 40, len(lines)))
    numbered = "\n".join([f"{'>' if k + 1 == at else ' '}{k + 1:5} {lines[k]}" for k in shown])
    return CheckError(
        f"{tool} does not accept the text of a kernel for {arch}.",
        [("log", log), ("text", numbered)],
    )


def _text(buffer: bytearray) -> str:
    return bytes(buffer).decode(errors="replace").rstrip("\0").strip()
