"""L5. The interface of backends: how each device schedules and builds a program of kernels.

A backend schedules and builds kernels, and may rewrite array programs for the libraries of its
device.  Higher layers register their modules here, imported when a program is first
compiled for the device:

    PROVIDERS["cpu"] = "fgrad.compile.cpu.backend"      which defines BACKEND
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from fgrad.base.lazy_import import PROVIDERS, load

if TYPE_CHECKING:  # a program that is found in the cache needs none of these
    from fgrad.compile.fuse.partition import Fusion
    from fgrad.compile.kernel.ir import Kernel
    from fgrad.compile.tasks.plan import Plan
    from fgrad.compile.tasks.runnable import Runnable
    from fgrad.ir.program import Program


class Backend(NamedTuple):
    """How a device schedules and builds kernels; `build` returns a `Runnable`.

    `schedule` orders the loops of one, `build` makes a planned program callable, and `in_kernel`
    says whether a loop that can be one kernel should be.  `threads` says that threads share
    a kernel by its outermost loop alone: long reductions are two kernels then, and long kernels of
    several loops are split by loop.  `convs` gives convolutions to a library of the device;
    `prepare` rewrites a program before its products are canonical and `products` after; `join`
    rewrites fused groups, and `texts` returns what FGRAD_SHOW prints: "llvm",
    "asm" or "cuda" of kernels.
    """

    schedule: Callable[[Kernel], Kernel]
    build: Callable[[Program, Plan], Runnable]
    in_kernel: Callable[[Kernel], bool]
    threads: bool
    convs: Callable[[Program], Program]
    prepare: Callable[[Program], Program]
    products: Callable[[Program], Program]
    join: Callable[[Fusion, Program], Fusion]
    texts: Callable[[str, Sequence[Kernel]], str]


class _Backends(Mapping[str, Backend]):
    """Backends by device name, imported on first use."""

    def __init__(self) -> None:
        self._loaded: dict[str, Backend] = {}

    def __getitem__(self, device: str) -> Backend:
        found = self._loaded.get(device)
        if found is None:
            found = self._loaded[device] = load(PROVIDERS[device]).BACKEND
        return found

    def __contains__(self, device: object) -> bool:
        return device in self._loaded or device in PROVIDERS

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*PROVIDERS, *self._loaded)))

    def __len__(self) -> int:
        return len(list(iter(self)))


BACKENDS: Mapping[str, Backend] = _Backends()
