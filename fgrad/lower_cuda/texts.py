"""L6. Kernels -> source text for FGRAD_SHOW=cuda,llvm,asm and `inspect(f).texts(...)`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fgrad.compile.kernel.ir import Kernel
from fgrad.lower_cuda.device.toolchain import body_ptx
from fgrad.lower_cuda.emit.calls import KernelCall
from fgrad.lower_cuda.emit.source import source_of
from fgrad.lower_cuda.schedule import launches


def texts(topic: str, kernels: Sequence[Kernel]) -> str:
    """The Python source ("cuda"), bodies ("llvm") or PTX ("asm") of scheduled kernels."""
    if topic == "cuda":
        return "\n".join(map(_source, kernels))
    if topic == "llvm":
        return "\n".join([call.body for call in _calls(kernels)])
    if topic == "asm":
        return "\n".join(map(_ptx, _calls(kernels)))
    return ""


def _ptx(call: KernelCall) -> str:
    return body_ptx(call.body, call.arity, call.block[0] * call.block[1])


def _source(kernel: Kernel) -> str:
    try:
        return source_of(kernel)
    except NotImplementedError as missing:
        return f"# {missing}"


def _calls(kernels: Sequence[Kernel]) -> Iterator[KernelCall]:
    for kernel in kernels:
        yield from [c for c in launches(kernel).calls if isinstance(c, KernelCall)]
