"""L6. Arrays in the memory of a GPU, and their exchange with the host and with other libraries.

    device_put(np.ones(3))       DeviceArray([1., 1., 1.])
    device_put(cupy_array)       the same memory, through __cuda_array_interface__ or DLPack
    np.asarray(x), x.numpy()     a copy in the memory of the host, after all work before it

What NumPy's functions and Python's operators do with them is `fgrad.compile.jit.eager_device`'s.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

import numpy as np

from fgrad import tree
from fgrad.base.keywords import also_takes
from fgrad.compile.jit import eager_device  # noqa: F401 - the operators
from fgrad.errors import ArgumentError, UnsupportedTypeError
from fgrad.ir.aval import PYTHON_SCALARS, Aval, is_numeric, is_stored
from fgrad.lower_cuda.device import dlpack
from fgrad.lower_cuda.device.driver import Driver, driver
from fgrad.tracing.on_device import DEVICES, HOST, OnDevice
from fgrad.typing import DTypeLike, PyTree, R

NAME = "cuda"  # of the device
ALIGNMENT = 16  # bytes: what kernels read at once
KEPT_SCALARS = 256


class DeviceArray(OnDevice):
    """An array on the GPU, contiguous in C's order; nobody writes into it.

    Arguments:
        shape: the lengths of its axes.
        dtype: of its elements.
        pointer: where it begins, at a multiple of 16 bytes; 0 if it is empty.
        nbytes: of all elements.
        device: whose memory it is.
        owner: what keeps the memory alive; None if the array has it from `device.allocate(nbytes)`,
            to which it goes back with the array.

    Example:
        >>> import numpy as np, fgrad
        >>> from fgrad.lower_cuda.device.driver import use
        >>> from emulator.driver import StubDriver    # in tests: where there is no GPU
        >>> before = use(StubDriver())
        >>> x = fgrad.device_put(np.arange(3.0))
        >>> fgrad.grad(lambda x: np.sum(x**2))(x)
        DeviceArray([0., 2., 4.])
        >>> _ = use(before)
    """

    __slots__ = ("device_of", "nbytes", "owner", "pointer")

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: np.dtype,
        pointer: int,
        nbytes: int,
        device: Driver,
        owner: object = None,
    ) -> None:
        self.shape = shape
        self.dtype = dtype
        self.pointer = pointer
        self.nbytes = nbytes
        self.device_of = device
        self.owner = owner
        self.lifted = None
        self.given_away = False

    def __del__(self) -> None:
        if self.owner is None and self.pointer:
            self.device_of.give_back(self.pointer, self.nbytes)

    @classmethod
    def empty(cls, aval: Aval, device: Driver) -> DeviceArray:
        """An array of fresh memory, with anything in it."""
        nbytes = aval.size * aval.dtype.itemsize
        return cls(aval.shape, aval.dtype, device.allocate(nbytes), nbytes, device)

    def donate(self, aval: Aval) -> DeviceArray | None:
        """A result of as many bytes that takes the memory of this array, which is then gone; None
        if others share it."""
        if self.owner is not None or self.given_away:
            return None
        result = DeviceArray(aval.shape, aval.dtype, self.pointer, self.nbytes, self.device_of)
        self.pointer, self.given_away = 0, True
        return result

    def require(self) -> None:
        """Raise if the memory of this array was given to a result."""
        if self.given_away:
            raise ArgumentError(
                "An array is read whose memory was given away.",
                (
                    ("value", f"{self.aval}"),
                    ("why", "it was an argument that jit(..., donate_argnums=...) may reuse."),
                    ("write", "x = step(x)      the result takes the name of the argument"),
                ),
            )

    # To the host.

    def numpy(self) -> np.ndarray:
        """A copy in the memory of the host, after all work before it."""
        self.require()
        out = np.empty(self.shape, self.dtype)
        self.device_of.to_host(out, self.pointer)
        return out

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        """A copy in the memory of the host.

        It is made without being asked for by name, as JAX does and CuPy does not: NumPy's functions
        come to `fgrad` before they would ask for an array, so what asks is a library that can do
        nothing else with it (a plot, a table, a file).
        """
        if copy is False:
            raise ValueError("an array on a GPU cannot be seen by NumPy without a copy.")
        return self.numpy() if dtype is None else self.numpy().astype(dtype, copy=False)

    def block_until_ready(self) -> DeviceArray:
        """Wait until it is computed; what failed on the way is raised."""
        self.device_of.synchronize()
        return self

    def __repr__(self) -> str:
        if self.given_away:
            return f"DeviceArray({self.aval}, given away)"
        text = repr(self.numpy()).removeprefix("array")
        return "DeviceArray" + text.replace("\n", "\n" + " " * len("Device"))

    def __reduce__(self) -> object:
        return on_device, (self.numpy(),)

    def __copy__(self) -> DeviceArray:
        return self

    def __deepcopy__(self, _memo: object) -> DeviceArray:
        return self

    # Parts of the memory.

    def shared(self) -> object:
        """What keeps the memory alive, for others who need it; it is not donated from now on."""
        self.require()
        if self.owner is None:
            self.owner = _Memory(self.pointer, self.nbytes, self.device_of)
        return self.owner

    def reshaped(self, shape: tuple[int, ...]) -> DeviceArray:
        """The same memory with another shape."""
        owner = self.shared()
        return DeviceArray(shape, self.dtype, self.pointer, self.nbytes, self.device_of, owner)

    def rows(self, start: int, stop: int) -> DeviceArray:
        """`x[start:stop]`, 0 <= start <= stop: the same memory if that is aligned, else a copy."""
        owner = self.shared()
        each = self.nbytes // max(self.shape[0], 1)
        first, nbytes = self.pointer + start * each, (stop - start) * each
        shape = (stop - start, *self.shape[1:])
        if first % ALIGNMENT == 0:
            pointer = first if nbytes else 0
            return DeviceArray(shape, self.dtype, pointer, nbytes, self.device_of, owner)
        out = DeviceArray.empty(Aval(shape, self.dtype), self.device_of)
        self.device_of.copy(out.pointer, first, nbytes)
        return out

    # Other libraries.

    @property
    def device(self) -> str:
        """Where it is: "cuda"."""
        return NAME

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next along each axis."""
        steps = [self.dtype.itemsize * math.prod(self.shape[k + 1 :]) for k in range(self.ndim)]
        return tuple(steps)

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        """Version 3, with the stream behind whose work the numbers are there."""
        self.shared()
        if self.dtype.kind == "V":
            raise AttributeError(f"__cuda_array_interface__ has no {self.dtype}; DLPack has")
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.pointer, False),
            "strides": None,
            "version": 3,
            "stream": self.device_of.stream,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CUDA, self.device_of.device

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule for other libraries; the work on `stream` waits for the numbers."""
        self.shared()
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError("fgrad gives arrays to the device that they are on; device_get(x).")
        given = self
        if copy:
            given = DeviceArray.empty(self.aval, self.device_of)
            self.device_of.copy(given.pointer, self.pointer, self.nbytes)
        if stream != NO_ORDER:
            self.device_of.wait(self.device_of.event(), LEGACY_STREAM if stream is None else stream)
        return dlpack.capsule(given, given.pointer, given.shape, given.dtype, self.device_of.device)


NO_ORDER = -1  # a stream of DLPack: the consumer needs no waiting
LEGACY_STREAM = 1


# From the host and from other libraries.


def on_device(x: Any, dtype: np.dtype | None = None) -> DeviceArray:
    """An array, a number, or another library's array on the GPU.

    Arguments:
        x: what NumPy makes an array of, or what has `__cuda_array_interface__` or `__dlpack__`.
        dtype: what it becomes; None for its own.
    """
    if isinstance(x, DeviceArray):
        x.require()
        return x
    if type(x) in PYTHON_SCALARS or isinstance(x, np.generic):
        return _SCALARS.put(np.asarray(x, dtype or PYTHON_SCALARS.get(type(x))))
    if not isinstance(x, np.ndarray):
        if hasattr(x, "__cuda_array_interface__"):
            return from_cuda_array_interface(x)
        if hasattr(x, "__dlpack_device__") and x.__dlpack_device__()[0] == dlpack.CUDA:
            return from_dlpack(x)
    array = np.asarray(x, dtype)
    if not is_numeric(array.dtype) or is_stored(array.dtype):
        raise UnsupportedTypeError(
            f"A GPU holds arrays of numbers, not of {array.dtype}.",
            (("value", f"a {type(x).__name__}"),),
        )
    return _copied(array)


def _copied(array: np.ndarray) -> DeviceArray:
    native = array.dtype if array.dtype.isnative else array.dtype.newbyteorder("=")
    array = np.asarray(array, native, order="C")
    device = driver()
    out = DeviceArray.empty(Aval(array.shape, array.dtype), device)
    device.to_device(out.pointer, array)
    return out


class _Memory:
    """Memory that several arrays share."""

    __slots__ = ("device_of", "nbytes", "pointer")

    def __init__(self, pointer: int, nbytes: int, device: Driver) -> None:
        self.pointer, self.nbytes, self.device_of = pointer, nbytes, device

    def __del__(self) -> None:
        self.device_of.release(self.pointer, self.nbytes)


def from_cuda_array_interface(x: Any) -> DeviceArray:
    """Another library's array, without a copy where it is contiguous and aligned."""
    given = x.__cuda_array_interface__
    if given.get("mask") is not None:
        raise _foreign(x, "it has a mask")
    dtype = np.dtype(given["typestr"])
    if not is_numeric(dtype) or not dtype.isnative:
        raise _foreign(x, f"it is of dtype {dtype}")
    stream = given.get("stream")
    device = driver()
    if stream is not None:
        device.wait(device.event(stream))
    strides = given.get("strides")
    if strides is not None:
        strides = tuple([n // dtype.itemsize for n in strides])
    pointer, _ = given["data"]
    return _adopted(x, dlpack.Imported(pointer, tuple(given["shape"]), strides, dtype, 0, x))


def from_dlpack(x: Any) -> DeviceArray:
    """Another library's array, without a copy where it is contiguous and aligned."""
    kind, number = x.__dlpack_device__()
    device = driver()
    if (kind, number) != (dlpack.CUDA, device.device):
        raise _foreign(x, f"it is on the device {(kind, number)} of DLPack")
    return _adopted(x, dlpack.imported(x.__dlpack__(stream=device.stream)))


def _adopted(x: object, given: dlpack.Imported) -> DeviceArray:
    """An array in the memory of another library, or a copy if kernels could not read it there."""
    pointer, shape, strides, dtype, _, owner = given
    aval, device = Aval(shape, dtype), driver()
    nbytes = aval.size * dtype.itemsize
    if not nbytes:
        return DeviceArray.empty(aval, device)
    if not _is_contiguous(shape, strides):
        raise _foreign(x, f"it is not contiguous: shape {shape}, steps {strides}")
    if pointer % ALIGNMENT == 0:
        return DeviceArray(shape, dtype, pointer, nbytes, device, owner)
    out = DeviceArray.empty(aval, device)
    device.copy(out.pointer, pointer, nbytes)
    device.synchronize()  # the memory may be the library's again
    return out


def _is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...] | None) -> bool:
    if strides is None:
        return True
    expected = 1
    for n, step in zip(reversed(shape), reversed(strides), strict=True):
        if n != 1 and step != expected:
            return False
        expected *= n
    return True


def _foreign(x: object, why: str) -> UnsupportedTypeError:
    kind = f"{type(x).__module__}.{type(x).__qualname__}"
    return UnsupportedTypeError(
        f"fgrad cannot use the memory of a {kind}.",
        (
            ("why", f"{why}."),
            ("write", "cupy.ascontiguousarray(x), x.contiguous()    rows one after the other"),
            ("write", "x.astype(np.float32)                          numbers of a known type"),
        ),
    )


# Trees.


@also_takes("may_alias", src=None, donate=False)
def device_put(x: object, device: str = NAME) -> PyTree:
    """The arrays of a tree in the memory of a device.

    Arguments:
        x: a tree of arrays and numbers, or of arrays of other libraries on the GPU: those that have
            `__cuda_array_interface__` or `__dlpack__` are taken without a copy.
        device: "cuda" for a GPU, "cpu" for the host.

    Returns:
        The tree with `DeviceArray`s, or with NumPy's arrays.  What is there already is not copied.

    Raises:
        ArgumentError: if there is no such device.

    Example:
        >>> import numpy as np, fgrad
        >>> fgrad.device_put({"w": np.ones(2)}, device="cpu")
        {'w': array([1., 1.])}
    """
    if device == HOST:
        return device_get(x)
    if device != NAME:
        raise ArgumentError(
            f"device_put: there is no device {device!r}.", (("write", "device='cpu' or 'cuda'"),)
        )
    return tree.map(on_device, x)


def device_get(x: PyTree) -> PyTree:
    """The tree with copies, in the memory of the host, of all arrays on a GPU.

    Arguments:
        x: a tree of arrays.

    Example:
        >>> import numpy as np, fgrad
        >>> fgrad.device_get((1.0, np.ones(2)))
        (1.0, array([1., 1.]))
    """
    return tree.map(lambda leaf: leaf.numpy()[()] if isinstance(leaf, OnDevice) else leaf, x)


def block_until_ready(x: R) -> R:
    """Wait until all arrays of a tree are computed; the tree itself.

    Functions on a GPU return before their results are there.  What failed on the way is raised.

    Arguments:
        x: a tree of arrays.

    Returns:
        The tree itself.

    Example:
        >>> import numpy as np, fgrad
        >>> fgrad.block_until_ready(np.ones(2))
        array([1., 1.])
    """
    for device in {leaf.device_of for leaf in tree.leaves(x) if isinstance(leaf, DeviceArray)}:
        device.synchronize()
    return x


class _Scalars:
    """Numbers that were put on the device last: most are used again."""

    def __init__(self) -> None:
        self.kept: OrderedDict[Hashable, DeviceArray] = OrderedDict()

    def put(self, x: np.ndarray) -> DeviceArray:
        """An array of rank 0."""
        device = driver()
        key = id(device), x.dtype.num, x.tobytes()
        found = self.kept.get(key)
        if found is None or found.device_of is not device:
            found = _copied(x)
            found.owner = self  # kept here, and never donated
            self.kept[key] = found
            if len(self.kept) > KEPT_SCALARS:
                self._drop()
        return found

    def _drop(self) -> None:
        _, oldest = self.kept.popitem(last=False)
        oldest.owner = None


_SCALARS = _Scalars()
DEVICES[NAME] = on_device
