"""L5. Kernels -> machine code, and the steps of the host program that run them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fgrad.base.lazy_import import lazy_module
from fgrad.compile.cpu.emit.kernel import emit_function, outer_range
from fgrad.compile.host.control import Memory
from fgrad.compile.host.program import Call, Copy, Share, Step
from fgrad.compile.host.sharing import shared_call
from fgrad.compile.kernel.cost import kernel_cost
from fgrad.compile.kernel.ir import Kernel
from fgrad.compile.kernel.text import canonical, print_kernel
from fgrad.compile.llvm.runtime import Source, build_counted, module_text, target
from fgrad.compile.llvm.text import Target
from fgrad.compile.llvm.vector.scalar_llvm import scalar_table

if TYPE_CHECKING:
    from fgrad.compile.llvm import generator
else:
    generator = lazy_module("fgrad.compile.llvm.generator")


def kernel_source(kernel: Kernel) -> Source:
    """A scheduled kernel as a source: kernels of equal structure have equal content."""
    renamed, table = canonical(kernel), scalar_table(target().features)
    return Source(print_kernel(renamed), lambda symbol: emit_function(symbol, renamed, table))


def build_kernel(kernel: Kernel) -> int:
    """The address of `void f(ptr bufs, i64 lo, i64 hi)` for a scheduled kernel."""
    return build_counted([kernel_source(kernel)])[0]


def build_kernels(kernels: Sequence[Kernel]) -> Sequence[int]:
    """The addresses of several scheduled kernels; those not yet known are compiled together."""
    return build_counted([kernel_source(kernel) for kernel in kernels])


def kernel_call(kernel: Kernel, address: int, slots: tuple[int, ...]) -> Call | Share:
    """The step that runs all of a scheduled kernel, by several threads if it is long enough."""
    extent, grain = outer_range(kernel)
    return shared_call(address, extent, grain, kernel_cost(kernel), slots)


def _host_kernels(calls: Sequence[tuple[Kernel, tuple[int, ...]]]) -> list[list[Step]]:
    addresses = build_kernels([kernel for kernel, _ in calls])
    return [[kernel_call(k, a, slots)] for (k, slots), a in zip(calls, addresses, strict=True)]


HOST_MEMORY = Memory(Copy, _host_kernels, lambda slot, _size: (slot, []))


@functools.cache
def vector_registers() -> int:
    """How many vectors of 64 bytes the machine holds in registers."""
    present = target().features.split(",")
    if "+avx512f" in present:
        return 32
    return 8 if "+avx" in present or not target().triple.startswith("x86_64") else 4


def llvm_text(kernel: Kernel, of: Target | None = None) -> str:
    """The LLVM text of a scheduled kernel, for this machine or another."""
    table = scalar_table((of or target()).features)
    source = Source("", lambda symbol: emit_function(symbol, kernel, table))
    return module_text({kernel.name: source})


def asm_text(kernel: Kernel, of: Target | None = None) -> str:
    """The assembly of a scheduled kernel, for this machine or another."""
    return generator.assembly(llvm_text(kernel, of), of)
