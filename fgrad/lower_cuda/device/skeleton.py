"""L6. The kernel around a body: indices and pointers -> a call of `fgrad_body`, as NVVM text.

    def kernel(pointers): body(blockIdx.x, threadIdx.x, threadIdx.y, *pointers)

is a Numba CUDA kernel; `body` is one intrinsic that calls an external function.  Its text depends
on the number of pointers alone, which is padded to a few sizes, and is kept on disk: Numba, which
takes three seconds to import and warm up, is needed once on a machine.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from fgrad.base.digest import digest
from fgrad.base.lazy_import import lazy_module
from fgrad.compile.llvm import runtime
from fgrad.config import config
from fgrad.errors import CheckError
from fgrad.lower_cuda.device.missing import missing, needs

ENTRY = "fgrad_kernel"
BODY = "fgrad_body"
SIZES = (4, 8, 16, 32, 64, 128, 256)
_ARCH = (9, 0)  # the text is the same for all
_FORM = 1  # to be counted up when the kernel below changes

numba = lazy_module("numba")
compiler = lazy_module("numba.cuda.compiler")
cgutils = lazy_module("numba.cuda.cgutils")
extending = lazy_module("numba.cuda.extending")
ir = lazy_module("llvmlite.ir")


def padded(arity: int) -> int:
    """How many pointers the kernel around a body with `arity` pointers takes."""
    for size in SIZES:
        if arity <= size:
            return size
    raise CheckError(f"A kernel takes {SIZES[-1]} pointers at most, not {arity}.")


@lru_cache
def identity() -> str:
    """What the text of a skeleton depends on beside the number of pointers."""
    return f"skeleton {_FORM} numba-cuda {version_of('numba-cuda')}"


def version_of(package: str) -> str:
    """The version of an installed package, without importing it."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"


@lru_cache
def skeleton(size: int) -> str:
    """The NVVM text of the kernel that takes `size` pointers; its name is `ENTRY`."""
    known = runtime.store().get(_key(size)) if config.cache else None
    if known is not None:
        return known.decode()
    with needs("numba-cuda"):
        _check_numba()
        texts = _texts()
    if config.cache:
        for other, text in texts.items():
            runtime.store().put(_key(other), text.encode())
    return texts[size]


def _key(size: int) -> str:
    return "s_" + digest(f"{identity()} {size}".encode())[:40]


def _check_numba() -> None:
    """Numba alone has a `numba.cuda` too, and its simulator compiles nothing."""
    if version_of("numba-cuda") == "absent":
        raise missing("numba-cuda", f"numba {version_of('numba')}, numba-cuda absent")
    if numba.config.ENABLE_CUDASIM:
        write = "unset NUMBA_ENABLE_CUDASIM      before the program starts"
        raise missing("numba-cuda", "its simulator, which compiles nothing", write)


@lru_cache
def _texts() -> dict[int, str]:
    """All skeletons: once Numba is warm, each takes a hundredth of what that took."""
    with _numpy_of_numba():
        return {size: _text(size) for size in SIZES}


@contextmanager
def _numpy_of_numba() -> Iterator[None]:
    """NumPy as Numba CUDA 0.30, which nobody develops further, knows it: 2.4, with `row_stack`."""
    names: Mapping[str, object] = np.__dict__
    added = {} if "row_stack" in names else {"row_stack": np.vstack}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names.update(added)
        try:
            yield
        finally:
            for name in added:
                del names[name]


def _text(size: int) -> str:
    """What Numba CUDA makes of the kernel."""
    body = extending.intrinsic(_call_body)
    cuda = importlib.import_module("numba.cuda")  # Numba must know it for what it is

    def kernel(pointers: object) -> None:
        body(cuda.blockIdx.x, cuda.threadIdx.x, cuda.threadIdx.y, pointers)

    pointers = numba.types.UniTuple(numba.types.CPointer(numba.types.uint8), size)
    library, _ = compiler._compile_pyfunc_with_fixup(
        kernel, (pointers,), device=False, abi="numba", cc=_ARCH
    )
    lines = "\n".join(library.llvm_strs).splitlines()
    text = "\n".join([line for line in lines if "NumbaEnv" not in line])
    return text.replace(f'"{library._entry_name}"', ENTRY)


def _call_body(typing: Any, block: Any, x: Any, y: Any, pointers: Any) -> tuple[Any, Any]:
    """The typing and the code of `body`, as Numba's `intrinsic` wants them."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        word, address = ir.IntType(32), ir.IntType(8).as_pointer(1)
        count = len(signature.args[3])
        type_ = ir.FunctionType(ir.VoidType(), [word] * 3 + [address] * count)
        function = cgutils.get_or_insert_function(builder.module, type_, BODY)
        generic = cgutils.unpack_tuple(builder, values[3], count)
        places = [builder.addrspacecast(pointer, address) for pointer in generic]
        builder.call(function, [*values[:3], *places])
        return context.get_dummy_value()

    return numba.types.void(block, x, y, pointers), generate
