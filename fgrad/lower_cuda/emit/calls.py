"""L6. A library step as the calls that a host program makes, in order.

    gemm     -> FunctionCall cublasLtMatmul(handle, plan, 1.0, place 0, ..., stream)
    walk     -> KernelCall(a body text, its grid and block, places 0 and 1)
    cholesky -> KernelCall, FunctionCall cusolverDnSpotrf, Check("Matrix is not ...", place 3)

All that a call needs but addresses of arrays is known when it is planned.  Those are places: the
buffers of the step in order, and after them its scratch areas, which live while it runs.
"""

from __future__ import annotations

from typing import TypeAlias

from fgrad.base.named_tuple import NamedTuple
from fgrad.ir.program import Eqn


class Address(NamedTuple):
    """An address on the device: `offset` bytes into buffer `number` of the step or, from the number
    of its buffers on, into a scratch area; `step` bytes further in each repetition of a call."""

    number: int
    offset: int = 0
    step: int = 0


class Number(NamedTuple):
    """A number that never changes: `kind` is the LLVM type i32, i64, float or double.

    An address on the host is an i64: of a descriptor, or of a number that is passed by reference.
    """

    kind: str
    value: int | float


class Stream(NamedTuple):
    """The stream on which the host program works, as an i64."""


Argument: TypeAlias = "Address | Number | Stream"


class KernelCall(NamedTuple):
    """A launch of a kernel of our own: a body text, as `toolchain.compile_body` takes it, whose
    pointers are the places in order."""

    body: str
    grid: int
    block: tuple[int, int]
    places: tuple[Address, ...]

    @property
    def arity(self) -> int:
        """The pointers that the body takes."""
        return len(self.places)


class FunctionCall(NamedTuple):
    """A call of a C function of a library, which gives an int that is 0 unless it failed.

    It is made `count` times, the places stepping on.  `kept` lives as long as the program: what
    the numbers point to.  `setter` is the function that gives the handle, which is the first
    argument, its stream; 0 where the stream is an argument.  Such a handle serves one thread at a
    time.
    """

    name: str
    address: int
    arguments: tuple[Argument, ...]
    count: int = 1
    kept: tuple[object, ...] = ()
    setter: int = 0


class CopyCall(NamedTuple):
    """A copy of bytes between places on the device."""

    target: Address
    source: Address
    nbytes: int


class FillCall(NamedTuple):
    """Bytes that are set to one value."""

    target: Address
    value: int
    nbytes: int


class Check(NamedTuple):
    """An int32 on the device for each of `count` matrices: where one is not 0, the program's caller
    gets a LinAlgError with this message."""

    message: str
    flags: Address
    count: int


class HostCall(NamedTuple):
    """An equation that Python evaluates: the stream comes to rest, the operands are copied to the
    host, the results are copied back.  Places are operands that are no literals, then results."""

    eqn: Eqn
    places: tuple[Address, ...]


Call: TypeAlias = "KernelCall | FunctionCall | CopyCall | FillCall | Check | HostCall"


class Calls(NamedTuple):
    """A library step on the device; `scratch` is the size in bytes of each scratch area."""

    calls: tuple[Call, ...]
    scratch: tuple[int, ...] = ()
