"""cuDNN without a device: the convolutions of the older interface, on host memory.

Descriptors are kept as they were set, and what the real library would refuse is refused: shapes
that do not fit, fewer than two axes of places, algorithms with atomic additions or none at all.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from emulator.cublaslt import enqueue
from fgrad.lower_cuda.library import cudnn
from fgrad.lower_cuda.library.functions import C_TYPES, SIGNATURES

NUMBERS = {v: np.dtype(k) for k, v in cudnn.DATA_TYPES.items()}
BAD_PARAM, REFUSED, FAILED = 2000, cudnn.NOT_SUPPORTED, 5000
WORK = 512  # bytes that an algorithm other than IMPLICIT_GEMM asks for


class Called(NamedTuple):
    """A convolution that was computed."""

    name: str
    algorithm: int
    math_type: int
    groups: int


def _array(address: int, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Packed numbers in memory."""
    memory: Any = (ctypes.c_char * (dtype.itemsize * math.prod(shape))).from_address(address)
    return np.frombuffer(memory, dtype).reshape(shape)


def _ints(address: int, count: int) -> tuple[int, ...]:
    return tuple((ctypes.c_int32 * count).from_address(address))


class CudnnStub:
    """The C functions, without the `cudnn` of their names; each gives a status, or None for 0.

    Attributes:
        log: the convolutions that were computed.
        errors: what went wrong in a function that failed.
        refused: of "Forward", "BackwardData" and "BackwardFilter", those that are refused.
        alive: descriptors that were made and not destroyed.
    """

    def __init__(self) -> None:
        self.log: list[Called] = []
        self.errors: list[Exception] = []
        self.refused: set[str] = set()
        self.alive = 0
        self._objects: list[dict[str, Any]] = [{}]
        self._callbacks: dict[str, Any] = {}

    def address(self, name: str) -> int:
        """Where a function is."""
        if name not in self._callbacks:
            types = [C_TYPES[letter] for letter in SIGNATURES[name]]
            run = getattr(self, name.removeprefix("cudnn"))
            self._callbacks[name] = ctypes.CFUNCTYPE(ctypes.c_int32, *types)(self._guarded(run))
        return ctypes.cast(self._callbacks[name], ctypes.c_void_p).value or 0

    def _guarded(self, run: Callable[..., int | None]) -> Callable[..., int]:
        def call(*arguments: Any) -> int:
            try:
                return run(*[0 if x is None else x for x in arguments]) or 0
            except Exception as error:
                self.errors.append(error)
                return FAILED

        return call

    def _new(self, out: int) -> None:
        self._objects.append({})
        ctypes.c_uint64.from_address(out).value = len(self._objects) - 1

    def Create(self, out: int) -> None:
        self._new(out)

    def SetStream(self, handle: int, stream: int) -> None:
        self._objects[handle]["stream"] = stream

    # Descriptors.

    def CreateTensorDescriptor(self, out: int) -> None:
        self.alive += 1
        self._new(out)

    CreateFilterDescriptor = CreateConvolutionDescriptor = CreateTensorDescriptor

    def DestroyTensorDescriptor(self, handle: int) -> None:
        self.alive -= 1
        self._objects[handle] = {}

    DestroyFilterDescriptor = DestroyConvolutionDescriptor = DestroyTensorDescriptor

    def SetTensorNdDescriptor(
        self, handle: int, kind: int, rank: int, sizes: int, strides: int
    ) -> int | None:
        shape = _ints(sizes, rank)
        packed = np.empty(shape, np.int8).strides
        if rank < 4 or min(shape) < 1 or packed != _ints(strides, rank):
            return BAD_PARAM
        self._objects[handle] |= {"dtype": NUMBERS[kind], "shape": shape}
        return None

    def SetFilterNdDescriptor(
        self, handle: int, kind: int, layout: int, rank: int, sizes: int
    ) -> int | None:
        shape = _ints(sizes, rank)
        if rank < 4 or min(shape) < 1 or layout != cudnn.NCHW:
            return BAD_PARAM
        self._objects[handle] |= {"dtype": NUMBERS[kind], "shape": shape}
        return None

    def SetConvolutionNdDescriptor(self, handle: int, rank: int, *given: int) -> int | None:
        *axes, mode, kind = given
        padding, strides, dilation = [_ints(at, rank) for at in axes]
        if min(padding) < 0 or min(strides + dilation) < 1 or mode != cudnn.CROSS_CORRELATION:
            return BAD_PARAM
        places = {"padding": padding, "strides": strides, "dilation": dilation}
        self._objects[handle] |= {**places, "compute": NUMBERS[kind]}
        return None

    def SetConvolutionGroupCount(self, handle: int, groups: int) -> None:
        self._objects[handle]["groups"] = groups

    def SetConvolutionMathType(self, handle: int, kind: int) -> None:
        self._objects[handle]["math"] = kind

    # Convolutions.

    def _size(self, name: str, *arguments: int) -> int | None:
        """Answer how much work memory an algorithm needs."""
        _, a, b, conv, result, algorithm, out = arguments
        roles = dict(zip(_ROLES[name], (a, b, result), strict=True))
        if not self._fit(conv, **roles):
            return BAD_PARAM
        known = (0, 1) if name == "Forward" else (1,)
        if name in self.refused or algorithm not in known:
            return REFUSED
        ctypes.c_uint64.from_address(out).value = WORK if algorithm else 0
        return None

    def _fit(self, conv: int, x: int, w: int, y: int) -> bool:
        """Whether arrays are those of a convolution."""
        spec, given = self._objects[conv], [self._objects[k] for k in (x, w, y)]
        if len({found["dtype"] for found in given}) > 1:
            return False
        (n, c, *lengths), (o, per, *window), result = [found["shape"] for found in given]
        axes = zip(lengths, window, spec["padding"], spec["strides"], spec["dilation"], strict=True)
        places = [(m + 2 * p - (k - 1) * d - 1) // s + 1 for m, k, p, s, d in axes]
        fits = c == per * spec["groups"] and o % spec["groups"] == 0
        return fits and result == (n, o, *places)

    def _run(self, name: str, *arguments: int) -> int | None:
        handle, one, a, pa, b, pb, conv, algorithm, work, size, zero, result, out = arguments
        handles = dict(zip(_ROLES[name], (a, b, result), strict=True))
        places = dict(zip(_ROLES[name], (pa, pb, out), strict=True))
        if not self._fit(conv, **handles) or algorithm != int(size == WORK):
            return BAD_PARAM
        spec = self._objects[conv]
        scale = ctypes.c_double if spec["compute"].char == "d" else ctypes.c_float
        assert scale.from_address(one).value == 1 and scale.from_address(zero).value == 0
        arrays = {}
        for role, descriptor in handles.items():
            found = self._objects[descriptor]
            arrays[role] = _array(places[role], found["dtype"], found["shape"])

        def compute() -> None:
            if size:
                ctypes.memset(work, 0xFF, size)
            _convolve(_ROLES[name][-1], spec, **arrays)
            self.log.append(Called(name, algorithm, spec["math"], spec["groups"]))

        enqueue(compute, self._objects[handle]["stream"])
        return None

    def GetConvolutionForwardWorkspaceSize(self, *arguments: int) -> int | None:
        return self._size("Forward", *arguments)

    def GetConvolutionBackwardDataWorkspaceSize(self, *arguments: int) -> int | None:
        return self._size("BackwardData", *arguments)

    def GetConvolutionBackwardFilterWorkspaceSize(self, *arguments: int) -> int | None:
        return self._size("BackwardFilter", *arguments)

    def ConvolutionForward(self, *arguments: int) -> int | None:
        return self._run("Forward", *arguments)

    def ConvolutionBackwardData(self, *arguments: int) -> int | None:
        return self._run("BackwardData", *arguments)

    def ConvolutionBackwardFilter(self, *arguments: int) -> int | None:
        return self._run("BackwardFilter", *arguments)


_ROLES = {"Forward": "xwy", "BackwardData": "wyx", "BackwardFilter": "xyw"}


def _convolve(result: str, spec: dict[str, Any], **arrays: np.ndarray) -> None:
    """Write x, w or y: for each element k of the window, sums over all places p of
    y[n, g o, p] = x[n, g c, p stride + k dilation - padding] w[g o, c, k]."""
    wide, groups = spec["compute"], spec["groups"]
    found: dict[str, Any] = {
        role: np.zeros(a.shape, wide) if role == result else a.astype(wide)
        for role, a in arrays.items()
    }
    rank = len(spec["strides"])
    x = np.pad(found["x"], [(0, 0), (0, 0), *[(p, p) for p in spec["padding"]]])
    x, y = [a.reshape(a.shape[0], groups, -1, *a.shape[2:]) for a in (x, found["y"])]
    w = found["w"].reshape(groups, -1, *found["w"].shape[1:])
    for k in np.ndindex(w.shape[3:]):
        axes = zip(k, spec["dilation"], spec["strides"], y.shape[3:], strict=True)
        at = (..., *[slice(i * d, i * d + (n - 1) * s + 1, s) for i, d, s, n in axes])
        tap = (..., *k)
        if result == "y":
            y += np.einsum("ngc...,goc->ngo...", x[at], w[tap])
        elif result == "x":
            x[at] += np.einsum("ngo...,goc->ngc...", y, w[tap])
        else:
            w[tap] = np.einsum("ngcp,ngop->goc", *[_places(a, rank) for a in (x[at], y)])
    inner = tuple([slice(p, n - p) for p, n in zip(spec["padding"], x.shape[3:], strict=True)])
    sums = {"x": x[(..., *inner)], "w": w, "y": y}[result]
    arrays[result][...] = sums.reshape(arrays[result].shape)


def _places(a: np.ndarray, rank: int) -> np.ndarray:
    """The last axes as one."""
    return a.reshape(*a.shape[: a.ndim - rank], -1)
