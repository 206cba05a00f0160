"""L2. The interface of device arrays that tracing uses.

Higher layers make them: the class with its memory, and what `put` of an array gives.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fgrad.base.provided import Provided
from fgrad.ir.aval import Aval
from fgrad.ir.primitive import Primitive
from fgrad.typing import Operators

# (array or number, dtype) -> array on the device; while it is not provided, there is no such array
to_device: Provided[Callable[[Any, np.dtype | None], OnDevice]] = Provided(
    "fgrad.lower_cuda.device.array.on_device"
)
# `bind` of arrays on a device: (primitive, operands, params) -> results
bind_on_device: Provided[Callable[[Primitive, Sequence[Any], dict[str, Any]], Any]] = Provided(
    "fgrad.tracing.device_tracing.bind_lifted"
)


class OnDevice(Operators if TYPE_CHECKING else object):
    """An immutable array, contiguous in the memory of a device."""

    __slots__ = ("__weakref__", "dtype", "given_away", "lifted", "shape")
    __hash__ = None  # type: ignore[assignment]

    shape: tuple[int, ...]
    dtype: np.dtype
    nbytes: int
    given_away: bool  # whether its memory is that of a result now
    lifted: weakref.ref[Any] | None  # the tracer that stands for it

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


def put(x: object, dtype: np.dtype | None = None) -> OnDevice:
    """An array or number in the memory of the device."""
    return to_device.call(x, dtype)
