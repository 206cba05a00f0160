"""L5. The interface of backends: how each device schedules and builds a program of kernels.

A backend schedules and builds kernels, and may rewrite array programs for the libraries of its
device.  Higher layers register their modules by the name of the device, imported when something is
first compiled for it:

    PROVIDERS["cpu"] = "fgrad.compile.cpu.backend"      which defines BACKEND
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn, Protocol

import numpy as np

from fgrad.base.lazy_import import PROVIDERS, load
from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.tasks.runnable import Runnable
from fgrad.ir.program import Program
from fgrad.tracing.on_device import HOST

if TYPE_CHECKING:  # a program that is found in the cache needs none of these
    from fgrad.base.sizes import Sizes
    from fgrad.compile.entry.table import Work
    from fgrad.compile.fuse.partition import Fusion
    from fgrad.compile.kernel.ir import Kernel
    from fgrad.compile.tasks.plan import Donation, Plan
    from fgrad.compile.tasks.steps import Step


class Backend(NamedTuple):
    """How a device schedules and builds kernels; `build` returns a `Runnable`.

    `schedule` orders the loops of one, `build` makes a planned program callable, and `in_kernel`
    says whether a loop that can be one kernel should be.  `threads` says that threads share
    a kernel by its outermost loop alone: long reductions are two kernels then, and long kernels of
    several loops are split by loop.  `convs` gives convolutions to a library of the device;
    `prepare` rewrites a program before its products are canonical and `products` after; `join`
    rewrites fused groups, and `routines` steps before memory is planned.  `texts` returns what
    FGRAD_SHOW prints of kernels for one of `topics`.
    `on_host` says that its programs are `RunnableOnHost`, on NumPy's arrays; else
    `RunnableOnDevice`.
    `stored` takes a program from disk or calls what compiles it, and `steps` makes each step of a
    plan callable by itself, to be timed; None: those of the host are timed.  `template` makes
    executables for other sizes of a program that was compiled with sizes as symbols.
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
    topics: tuple[str, ...]
    on_host: bool
    stored: Callable[[Program, Sequence[Donation], Callable[[], Runnable]], Runnable]
    steps: Callable[[Program, Plan], TimedSteps] | None
    template: Callable[[Program, Runnable, Sizes], Template | None] = lambda *_: None
    routines: Callable[[Program, list[Step]], list[Step]] = lambda _program, steps: steps


class Template(Protocol):
    """A program that was compiled with sizes as symbols."""

    def instance(self, sizes: Sequence[int], made_by: str, /) -> tuple[Program, Runnable] | None:
        """The program for some sizes, without its equations, and its compiled form; None where it
        would be another program."""
        ...


class TimedSteps(Protocol):
    """The steps of a plan, each of which can be run by itself."""

    @property
    def programs(self) -> Sequence[object]:
        """What runs each step."""
        ...

    def bound(self, args: Sequence[np.ndarray], /) -> Callable[[int], None]:
        """A function that runs step k on these arguments; steps must run in order."""
        ...

    def overhead(self) -> float:
        """The seconds that a program without steps takes."""
        ...


class RunnableOnHost(Runnable, Protocol):
    """A program on NumPy's arrays: calls are made by the native entry."""

    def work(self, program: Program, /) -> Work:
        """What native code does for a call; `program` is what was compiled."""
        ...

    def runs_natively(self) -> None:
        """Calls are made by native code from now on."""
        ...


class RunnableOnDevice(Runnable, Protocol):
    """A program on arrays of a device (`OnDevice`): calls may need no Python."""

    def native_call(self) -> NativeCall | None:
        """What calls without Python; None if there is no such way."""
        ...

    def failed(self, code: int, /) -> NoReturn:
        """Raise the error of a failed native call."""
        ...

    def describe(self) -> str:
        """The calls of the program, for those who look inside."""
        ...


class NativeCall(Protocol):
    """Calls a program on a device without Python."""

    @property
    def call(self) -> Callable[[tuple[object, ...]], list[object] | int | None]:
        """Leaves -> results, a code for `failed`, or None if the call is of another kind."""
        ...


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


def on_host(device: str | None) -> bool:
    """Whether programs for a device take NumPy's arrays; None: for none in particular."""
    return device is None or device == HOST or BACKENDS[device].on_host
