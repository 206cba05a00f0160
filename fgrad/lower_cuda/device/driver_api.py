"""L6. The C functions of the CUDA driver that fgrad calls: exported names and types.

A type is a letter: p address of host memory, d address of device memory, h handle, i int,
u unsigned int, n size_t, q unsigned 64-bit, b byte, s text, o address that is written to.
All of them return a CUresult, an int.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from fgrad.typing import PyTree

FUNCTIONS = {
    "cuInit": "u",
    "cuDriverGetVersion": "o",
    "cuGetErrorName": "io",
    "cuGetErrorString": "io",
    "cuDeviceGetCount": "o",
    "cuDeviceGet": "oi",
    "cuDeviceGetName": "oii",
    "cuDeviceGetUuid_v2": "oi",
    "cuDeviceTotalMem_v2": "oi",
    "cuDeviceGetAttribute": "oii",
    "cuDevicePrimaryCtxRetain": "oi",
    "cuCtxSetCurrent": "h",
    "cuStreamCreate": "ou",
    "cuStreamDestroy_v2": "h",
    "cuStreamSynchronize": "h",
    "cuStreamWaitEvent": "hhu",
    "cuEventCreate": "ou",
    "cuEventRecord": "hh",
    "cuEventSynchronize": "h",
    "cuEventElapsedTime": "ohh",
    "cuEventDestroy_v2": "h",
    "cuMemPoolCreate": "op",
    "cuMemPoolSetAttribute": "hip",
    "cuMemPoolTrimTo": "hn",
    "cuMemAllocFromPoolAsync": "onhh",
    "cuMemFreeAsync": "dh",
    "cuMemGetInfo_v2": "oo",
    "cuMemHostAlloc": "onu",
    "cuMemFreeHost": "p",
    "cuMemcpyHtoDAsync_v2": "dpnh",
    "cuMemcpyDtoHAsync_v2": "pdnh",
    "cuMemcpyDtoDAsync_v2": "ddnh",
    "cuMemsetD8Async": "dbnh",
    "cuMemsetD32Async": "dunh",
    "cuModuleLoadData": "op",
    "cuModuleGetFunction": "ohs",
    "cuFuncSetAttribute": "hii",
    "cuLaunchKernel": "huuuuuuuhpp",
    "cuStreamBeginCapture_v2": "hi",
    "cuStreamEndCapture": "ho",
    "cuGraphCreate": "ou",
    "cuGraphAddKernelNode_v2": "ohpnp",
    "cuGraphAddChildGraphNode": "ohpnh",
    "cuGraphConditionalHandleCreate": "ohhuu",
    "cuGraphAddNode_v2": "ohppnp",
    "cuGraphInstantiateWithFlags": "ohq",
    "cuGraphLaunch": "hh",
    "cuGraphGetNodes": "hpo",
    "cuGraphNodeGetType": "ho",
    "cuGraphKernelNodeGetParams_v2": "hp",
    "cuGraphExecKernelNodeSetParams_v2": "hhp",
    "cuGraphExecChildGraphNodeSetParams": "hhh",
    "cuGraphDestroy": "h",
    "cuGraphExecDestroy": "h",
}

_TYPES: dict[str, Any] = {
    "p": ctypes.c_void_p,
    "d": ctypes.c_uint64,
    "h": ctypes.c_void_p,
    "i": ctypes.c_int,
    "u": ctypes.c_uint,
    "n": ctypes.c_size_t,
    "q": ctypes.c_uint64,
    "b": ctypes.c_ubyte,
    "s": ctypes.c_char_p,
    "o": ctypes.c_void_p,
}

# CUresult
SUCCESS = 0
OUT_OF_MEMORY = 2
NO_DEVICE = 100
FAILED_EARLIER = frozenset({700, 702, 710, 714, 715, 716, 717, 718, 719})  # by a launch before

# CUdevice_attribute
MULTIPROCESSORS = 16
CAPABILITY_MAJOR = 75
CAPABILITY_MINOR = 76
SHARED_BYTES_OPTIN = 97

STREAM_NON_BLOCKING = 1
EVENT_DISABLE_TIMING = 2
POOL_RELEASE_THRESHOLD = 4
FUNCTION_DYNAMIC_SHARED_BYTES = 8
CAPTURE_THREAD_LOCAL = 1
CONDITIONAL_VERSION = 12080  # the first driver with switches and with bodies that may be empty

# CUgraphNodeType, CUgraphConditionalNodeType
CONDITIONAL_NODE = 13
IF_NODE, WHILE_NODE, SWITCH_NODE = range(3)


def prototype(name: str) -> Callable[..., PyTree]:
    """The ctypes function type of a driver function."""
    return ctypes.CFUNCTYPE(ctypes.c_int, *[_TYPES[letter] for letter in FUNCTIONS[name]])


class PoolProperties(ctypes.Structure):
    """CUmemPoolProps: a pool of pinned memory on one device."""

    _fields_ = (
        ("allocation", ctypes.c_int),
        ("handles", ctypes.c_int),
        ("location", ctypes.c_int),
        ("device", ctypes.c_int),
        ("security", ctypes.c_void_p),
        ("most_bytes", ctypes.c_size_t),
        ("usage", ctypes.c_ushort),
        ("reserved", ctypes.c_ubyte * 54),
    )


class KernelNode(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2: a launch as a node of a graph."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("parameters", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    )


class ConditionalNode(ctypes.Structure):
    """CUgraphNodeParams of a conditional node; the driver writes where the graphs of its bodies are
    listed."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("reserved", ctypes.c_int * 3),
        ("handle", ctypes.c_uint64),
        ("kind", ctypes.c_int),
        ("size", ctypes.c_uint),
        ("bodies", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
        ("padding", ctypes.c_longlong * 26),
    )
