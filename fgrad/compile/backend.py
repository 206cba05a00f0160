"""L5. The contract of backends: what is left to do for a program of kernels on each device.

A backend schedules and builds kernels, and may rewrite array programs for the libraries of its
device.  Higher layers name the modules of theirs, which are imported when a program is first
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
    """What a device does with kernels; what `build` makes has a contract of its own, `Runnable`.

    `schedule` orders the loops of one, `build` makes a planned program callable, and `in_kernel`
    says whether a loop should be the one kernel that it can be.  `threads` says that threads share
    a kernel by its outermost loop alone: long reductions are two kernels then, and long kernels of
    several loops are one for each.  `convs` gives convolutions to a library of the device;
    `prepare` rewrites a program before its products get their form and `products` when they have
    it, `join` the groups that were fused, and `texts` gives what FGRAD_SHOW asks for: "llvm",
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
    """The backends by the names of their devices."""

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
