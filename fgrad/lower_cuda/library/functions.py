"""L6. The C functions of CUDA's libraries and of NCCL: by addresses, with handles.

    functions().call("cublasLtMatrixLayoutCreate", ...)    while a call is planned
    functions().address("cublasLtMatmul")                  for the host program

A library is loaded when the first of its functions is wanted.  `use` puts others in the place of
the machine's: a stub, which does the work on the host.
"""

from __future__ import annotations

import contextlib
import ctypes
import weakref
from typing import Any, Protocol

from fgrad.base.lazy_import import lazy_module
from fgrad.base.system import own_lock
from fgrad.errors import DeviceError, MissingCudaError
from fgrad.lower_cuda.device.driver import driver
from fgrad.lower_cuda.device.missing import INSTALL
from fgrad.lower_cuda.emit.calls import Number
from fgrad.typing import PyTree

pathfinder = lazy_module("cuda.pathfinder")

LIBRARIES = ("cublasLt", "cublas", "cusolver", "cufft", "cudnn", "nccl")

# p an address, or a handle; i int; q a 64-bit integer; u a UniqueId.  All of them return an int,
# 0 for success.
SIGNATURES = {
    "cublasLtCreate": "p",
    "cublasLtMatmulDescInit_internal": "pqii",
    "cublasLtMatmulDescSetAttribute": "pipq",
    "cublasLtMatrixLayoutCreate": "piqqq",
    "cublasLtMatrixLayoutSetAttribute": "pipq",
    "cublasLtMatmulPreferenceCreate": "p",
    "cublasLtMatrixLayoutDestroy": "p",
    "cublasLtMatmulPreferenceDestroy": "p",
    "cublasLtMatmulPreferenceSetAttribute": "pipq",
    "cublasLtMatmulAlgoGetHeuristic": "pppppppipp",
    "cublasLtMatmul": "ppppppppppppppqp",
    "cublasCreate_v2": "p",
    "cublasSetStream_v2": "pp",
    "cusolverDnCreate": "p",
    "cusolverDnSetStream": "pp",
    "cusolverDnCreateParams": "p",
    "cusolverDnDestroyParams": "p",
    "cusolverDnXsyevBatched_bufferSize": "ppiiqipqipippq",
    "cusolverDnXsyevBatched": "ppiiqipqipipqpqpq",
    "cusolverDnXgeev_bufferSize": "ppiiqipqipipqipqipp",
    "cusolverDnXgeev": "ppiiqipqipipqipqipqpqp",
    "cufftCreate": "p",
    "cufftDestroy": "i",
    "cufftSetStream": "ip",
    "cufftXtMakePlanMany": "iippqqipqqiqpi",
    "cufftXtExec": "ippi",
    "cudnnCreate": "p",
    "cudnnSetStream": "pp",
    "cudnnSetTensorNdDescriptor": "piipp",
    "cudnnSetFilterNdDescriptor": "piiip",
    "cudnnSetConvolutionNdDescriptor": "pipppii",
    "cudnnSetConvolutionGroupCount": "pi",
    "cudnnSetConvolutionMathType": "pi",
    "ncclGetUniqueId": "p",
    "ncclCommInitRank": "piui",
    "ncclAllReduce": "ppqiipp",
    "ncclAllGather": "ppqipp",
    "ncclReduceScatter": "ppqiipp",
    "ncclSend": "pqiipp",
    "ncclRecv": "pqiipp",
    "ncclGroupStart": "",
    "ncclGroupEnd": "",
}
for _what in ("Tensor", "Filter", "Convolution"):
    SIGNATURES[f"cudnnCreate{_what}Descriptor"] = "p"
    SIGNATURES[f"cudnnDestroy{_what}Descriptor"] = "p"
for _what in ("Forward", "BackwardData", "BackwardFilter"):
    SIGNATURES[f"cudnnGetConvolution{_what}WorkspaceSize"] = "pppppip"
    SIGNATURES[f"cudnnConvolution{_what}"] = "pppppppipqppp"
_TYPED = {  # for each of the four types of numbers
    "cublas{}trsm_v2": "piiiiiippipi",
    "cublas{}trsmBatched": "piiiiiippipii",
    "cublas{}getrfBatched": "pipippi",
    "cusolverDn{}potrfBatched": "piipipi",
    "cusolverDn{}potrf_bufferSize": "piipip",
    "cusolverDn{}potrf": "piipipip",
    "cusolverDn{}getrf_bufferSize": "piipip",
    "cusolverDn{}getrf": "piipippp",
    "cusolverDn{}geqrf_bufferSize": "piipip",
    "cusolverDn{}geqrf": "piipippip",
    "cusolverDn{}gesvd_bufferSize": "piip",
    "cusolverDn{}gesvd": "piiiipippipipipp",
}
_OF_KIND = {  # other names for real and for complex numbers
    ("orgqr", "ungqr"): {"_bufferSize": "piiipipp", "": "piiipippip"},
    ("syevd", "heevd"): {"_bufferSize": "piiipipp", "": "piiipippip"},
}
for _name, _types in _TYPED.items():
    SIGNATURES.update({_name.format(letter): _types for letter in "SDCZ"})
for (_real, _complex), _forms in _OF_KIND.items():
    for _suffix, _types in _forms.items():
        SIGNATURES.update({f"cusolverDn{c}{_real}{_suffix}": _types for c in "SD"})
        SIGNATURES.update({f"cusolverDn{c}{_complex}{_suffix}": _types for c in "CZ"})


class UniqueId(ctypes.Structure):
    """ncclUniqueId: what the ranks of a communicator are told by the first of them."""

    _fields_ = (("words", ctypes.c_uint64 * 16),)


C_TYPES = {"p": ctypes.c_void_p, "i": ctypes.c_int32, "q": ctypes.c_int64, "u": UniqueId}


def library_of(name: str) -> str:
    """The library that exports a function."""
    return next(library for library in LIBRARIES if name.startswith(library))


class Library(Protocol):
    """What exports C functions."""

    def has(self, library: str) -> bool:
        """Whether a library is there."""
        ...

    def address(self, name: str) -> int:
        """Where a function is; 0 if there is none."""
        ...


class Installed:
    """The libraries of this machine, as wheels or as a toolkit."""

    def __init__(self) -> None:
        self._loaded: dict[str, object] = {}

    def has(self, library: str) -> bool:
        """Whether a library can be loaded."""
        return self._library(library) is not None

    def address(self, name: str) -> int:
        """Where a function is; 0 if there is none."""
        found = getattr(self._library(library_of(name)), name, None)
        return 0 if found is None else ctypes.cast(found, ctypes.c_void_p).value or 0

    def _library(self, name: str) -> object:
        if name not in self._loaded:
            try:
                path = pathfinder.load_nvidia_dynamic_lib(name).abs_path
                self._loaded[name] = ctypes.CDLL(path)
            except (ImportError, OSError, RuntimeError):
                self._loaded[name] = None
        return self._loaded[name]


class Functions:
    """The functions of some libraries, and one handle for each library.

    Attributes:
        communicators: of NCCL, by the names of axes; 0 for one whose ranks meet on the host.
    """

    def __init__(self, library: Library) -> None:
        self.library = library
        self.lock = own_lock(self)
        self._addresses: dict[str, int] = {}
        self._handles: dict[str, int] = {}
        self.communicators: dict[str, int] = {}

    def has(self, library: str) -> bool:
        """Whether a library is there."""
        return self.library.has(library)

    def address(self, name: str) -> int:
        """Where a function is.

        Raises:
            MissingCudaError: its library is not installed, or too old.
        """
        found = self._addresses.get(name)
        if found is None:
            found = self._addresses[name] = self.library.address(name)
        if not found:
            raise _missing(name)
        return found

    def status(self, name: str, *arguments: PyTree) -> int:
        """The status type of a function: 0 for success."""
        types = [C_TYPES[letter] for letter in SIGNATURES[name]]
        return ctypes.CFUNCTYPE(ctypes.c_int32, *types)(self.address(name))(*arguments)

    def call(self, name: str, *arguments: object) -> None:
        """Call a function, and raise a card if it fails."""
        status = self.status(name, *arguments)
        if status:
            raise DeviceError(status_text(name, status))

    def created(self, name: str, *arguments: PyTree) -> int:
        """Call a function that writes a handle to its first argument."""
        handle = ctypes.c_void_p()
        self.call(name, ctypes.addressof(handle), *arguments)
        return handle.value or 0

    def end(self, name: str, handle: int) -> None:
        """Destroy something, in whichever thread this happens to be."""
        with contextlib.suppress(DeviceError):
            driver().attach()
            self.call(name, handle)

    def handle(self, library: str) -> Number:
        """The handle of a library."""
        with self.lock:
            found = self._handles.get(library)
            if found is None:
                found = self._handles[library] = self._new_handle(library)
        return Number("i64", found)

    def setter(self, name: str) -> int:
        """Where the function is that gives the handle of a function its stream; 0 for NCCL, whose
        functions take it."""
        found = _SETTERS.get(library_of(name))
        return 0 if found is None else self.address(found)

    def _new_handle(self, library: str) -> int:
        driver().attach()
        return self.created(_CREATORS[library])


_CREATORS = {
    "cublasLt": "cublasLtCreate",
    "cublas": "cublasCreate_v2",
    "cusolver": "cusolverDnCreate",
    "cudnn": "cudnnCreate",
}
_SETTERS = {
    "cublas": "cublasSetStream_v2",
    "cusolver": "cusolverDnSetStream",
    "cudnn": "cudnnSetStream",
    "cufft": "cufftSetStream",
}


def _missing(name: str) -> MissingCudaError:
    library = library_of(name)
    return MissingCudaError(
        f"{library} is needed, a library of CUDA.",
        [
            ("found", f"no {name} in any {library} of this machine"),
            ("write", f"{INSTALL:<31} in a terminal"),
        ],
    )


def status_text(name: str, status: int) -> str:
    """The message for the status of a failed call."""
    known, unknown = _STATUS[library_of(name)], "an unknown reason"
    words = known.get(status) or known.get(status // 1000 * 1000, unknown)
    return f"{name} failed with status {status}: {words}."


_BLAS_STATUS = {
    1: "not initialised", 3: "allocation failed", 7: "invalid value", 8: "architecture mismatch",
    11: "mapping error", 13: "execution failed", 14: "internal error", 15: "not supported",
}  # fmt: skip
_STATUS = {
    "cublasLt": _BLAS_STATUS,
    "cublas": _BLAS_STATUS,
    "cusolver": {
        1: "not initialised", 2: "allocation failed", 3: "invalid value",
        4: "architecture mismatch", 5: "mapping error", 6: "execution failed",
        7: "internal error", 8: "matrix type not supported",
    },
    "cufft": {
        1: "invalid plan", 2: "allocation failed", 3: "invalid type", 4: "invalid value",
        5: "internal error", 6: "execution failed", 7: "setup failed", 8: "invalid size",
    },
    "cudnn": {  # and thousands of all that are near
        1001: "not initialised", 1000: "not ready", 2000: "invalid value", 3000: "not supported",
        4000: "internal error", 5000: "execution failed",
    },
    "nccl": {
        1: "a CUDA call failed", 2: "a system call failed", 3: "internal error",
        4: "invalid argument", 5: "invalid usage", 6: "another rank failed or has ended",
    },
}  # fmt: skip


class _Chosen:
    """The functions in use."""

    functions: Functions | None = None


def functions() -> Functions:
    """The functions of this machine, or those that `use` has chosen."""
    found = _Chosen.functions
    if found is None:
        found = _Chosen.functions = Functions(Installed())
    return found


def use(library: Library | None) -> None:
    """Use other libraries from now on, such as a stub; None: the machine's own."""
    _Chosen.functions = None if library is None else Functions(library)


# What a planned call holds on the host.


class Cells:
    """Numbers in host memory at fixed addresses, which functions read by reference; and descriptors
    and plans, which end with it."""

    def __init__(self) -> None:
        self.kept: list[object] = []

    def address(self, kind: Any, *values: Any) -> int:
        """The address of some numbers of a ctypes type."""
        cell = (kind * len(values))(*values)
        self.kept.append(cell)
        return ctypes.addressof(cell)

    def own(self, f: Functions, destroy: str, handle: int) -> int:
        """A descriptor or a plan that is destroyed with this."""
        weakref.finalize(self, f.end, destroy, handle).atexit = False
        return handle

    def number(self, kind: object, *values: object) -> Number:
        """The same, as an argument of a call."""
        return Number("i64", self.address(kind, *values))
