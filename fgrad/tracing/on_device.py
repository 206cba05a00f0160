"""L2. The interface of device arrays that tracing uses.

Backends make them: the class with its memory, and by `DEVICES` what `put` of an array gives.

    DEVICES["cuda"] = on_device        (array or number, dtype) -> an array there
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from fgrad.base.kinds import is_series, is_tuple
from fgrad.base.provided import Provided
from fgrad.errors import ArgumentError
from fgrad.ir.aval import Aval
from fgrad.ir.primitive import Primitive
from fgrad.typing import DType, EqnParams, Operators, PyTree

if TYPE_CHECKING:
    from fgrad.trace import Tracer

HOST = "cpu"  # the name of the device whose memory NumPy's arrays are in

# By the name of a device, what puts an array or a number there; while it is empty, there are no
# arrays on devices.
Put: TypeAlias = "Callable[[object, DType | None], OnDevice]"
DEVICES: dict[str, Put] = {}
leaders: set[type] = set()  # other classes that know what a function of them and of tracers is
# `bind` of arrays on a device: (primitive, operands, params) -> results
bind_on_device: Provided[Callable[[Primitive, Sequence[object], EqnParams], PyTree]] = Provided(
    "fgrad.tracing.device_tracing.bind_lifted"
)


class OnDevice(Operators if TYPE_CHECKING else object):
    """An immutable array, contiguous in the memory of a device."""

    __slots__ = ("__weakref__", "dtype", "given_away", "lifted", "shape")
    __hash__ = None  # type: ignore[assignment]

    shape: tuple[int, ...]
    dtype: DType
    nbytes: int
    given_away: bool  # whether its memory is that of a result now
    lifted: weakref.ref[Tracer] | None  # the tracer that stands for it

    @property
    def device(self) -> str:
        """The name of the device."""
        raise NotImplementedError

    def numpy(self) -> np.ndarray:
        """A copy in the memory of the host."""
        raise NotImplementedError

    def require(self) -> None:
        """Raise if the memory was donated."""
        raise NotImplementedError

    def reshaped(self, shape: tuple[int, ...]) -> OnDevice:
        """The same memory with another shape."""
        raise NotImplementedError

    def rows(self, start: int, stop: int) -> OnDevice:
        """`x[start:stop]`, 0 <= start <= stop."""
        raise NotImplementedError

    @property
    def aval(self) -> Aval:
        """The shape and dtype."""
        return Aval(self.shape, self.dtype)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.aval.size

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize


def leads(kinds: Iterable[type]) -> bool:
    """Whether a class among some knows what a function of it and of tracers is."""
    return any([kind in leaders or issubclass(kind, OnDevice) for kind in kinds])


def put(x: object, device: str, dtype: DType | None = None) -> OnDevice:
    """An array or number in the memory of a device."""
    return DEVICES[device](x, dtype)


def device_among(values: Iterable[object]) -> str | None:
    """The device of the arrays among some values, or in lists and tuples in them; None if there
    are none.

    Raises:
        ArgumentError: they are on several devices.
    """
    found = None
    for x in values if DEVICES else ():
        device = None
        if isinstance(x, OnDevice):
            device = x.device
        elif is_tuple(x) or is_series(x):
            device = device_among(x)
        if device is not None and found is not None and device != found:
            raise ArgumentError(
                f"Arrays on {found!r} and on {device!r} meet in one operation.",
                (("write", "device_put(device_get(x), device=...)    a copy on the other"),),
            )
        found = found or device
    return found
