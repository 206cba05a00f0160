"""L6. Convolutions by cuDNN, where it is installed: descriptors and an algorithm, chosen when they
are planned.

    forward x w    cudnnConvolutionForward(..., x, ..., w, ..., y)
    data y w       cudnnConvolutionBackwardData(..., w, ..., y, ..., x)
    filter x y     cudnnConvolutionBackwardFilter(..., x, ..., y, ..., w)

Arrays lie as they are: samples, channels, then places; what has one axis of places is a plane of
height 1.  The algorithms sum products in an order that the shapes decide.  Others are not asked
for: atomic additions round differently in every run, and transforms (FFT, Winograd) round more.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.kernel.affine import row_major
from fgrad.compile.passes.library_conv import Convolution, convolution_of
from fgrad.config import config
from fgrad.errors import DeviceError
from fgrad.ir.program import Eqn
from fgrad.lower_cuda.emit.calls import Address, Calls, FunctionCall, Number
from fgrad.lower_cuda.library.functions import Cells, Functions, functions, status_text

LEAST_WORK = 1 << 22  # products from which a call is made; a guess, for no device was at hand
MOST_ELEMENTS = 1 << 31  # of an array: cuDNN counts them in 32 bits
WORKSPACE = 256 << 20  # bytes that an algorithm may use

DATA_TYPES = {"f": 0, "d": 1, "e": 2}  # cudnnDataType
NCHW = 0  # cudnnTensorFormat
CROSS_CORRELATION = 1  # cudnnConvolutionMode
DEFAULT_MATH, TENSOR_OP_MATH, FMA_MATH = 0, 1, 3  # cudnnMathType
IMPLICIT_GEMM, IMPLICIT_PRECOMP_GEMM = 0, 1  # cudnnConvolutionFwdAlgo
ALGO_1 = 1  # cudnnConvolutionBwdDataAlgo and cudnnConvolutionBwdFilterAlgo
NOT_SUPPORTED = 3000  # cudnnStatus, from here on


class _Form(NamedTuple):
    """The function of a kind: the roles of its operands and of its result, and which operand of
    the equation is which; the algorithms for it, the best one first."""

    name: str
    roles: str
    operands: tuple[int, int]
    algorithms: tuple[int, ...]


_FORMS = {
    "forward": _Form("Forward", "xwy", (0, 1), (IMPLICIT_PRECOMP_GEMM, IMPLICIT_GEMM)),
    "data": _Form("BackwardData", "wyx", (1, 0), (ALGO_1,)),
    "filter": _Form("BackwardFilter", "xyw", (0, 1), (ALGO_1,)),
}


def takes(c: Convolution) -> bool:
    """Whether a convolution should be a call: it is large, and cuDNN is there and can do it."""
    if not config.cudnn or c.work < LEAST_WORK or c.dtype.char not in DATA_TYPES:
        return False
    if max([math.prod(shape) for shape in (c.x, c.w, c.y)]) >= MOST_ELEMENTS:
        return False
    f = functions()
    return f.has("cudnn") and _algorithm(f, Descriptors(f, c)) is not None


def conv_calls(eqn: Eqn, buffers: int) -> Calls | None:
    """The call of a convolution that `takes` has accepted."""
    f, c = functions(), convolution_of(*[a.aval for a in eqn.inputs], **eqn.params)
    made = Descriptors(f, c)
    found = _algorithm(f, made)
    if found is None:
        return None
    algorithm, size = found
    first, second, result = [Number("i64", n) for n in made.in_order]
    a, b = [Address(k) for k in made.form.operands]
    number = ctypes.c_double if c.dtype.char == "d" else ctypes.c_float
    one, zero = [made.cells.number(number, x) for x in (1.0, 0.0)]
    work = Address(buffers) if size else Number("i64", 0)
    arguments = (
        f.handle("cudnn"), one, first, a, second, b, Number("i64", made.convolution),
        Number("i32", algorithm), work, Number("i64", size), zero, result, Address(2),
    )  # fmt: skip
    name = f"cudnnConvolution{made.form.name}"
    call = FunctionCall(name, f.address(name), arguments, 1, (made.cells,), f.setter(name))
    return Calls((call,), (size,) if size else ())


def _algorithm(f: Functions, made: Descriptors) -> tuple[int, int] | None:
    """The first algorithm that can do it, and the bytes of its workspace; None if there is none."""
    name = f"cudnnGetConvolution{made.form.name}WorkspaceSize"
    first, second, result = made.in_order
    handle, cell = f.handle("cudnn").value, ctypes.c_uint64(0)
    for algorithm in made.form.algorithms:
        given = (handle, first, second, made.convolution, result, algorithm)
        status = f.status(name, *given, ctypes.addressof(cell))
        if status == 0 and cell.value <= WORKSPACE:
            return algorithm, cell.value
        if status and status // 1000 * 1000 != NOT_SUPPORTED:
            raise DeviceError(status_text(name, status))
    return None


class Descriptors:
    """What a convolution is to cuDNN; no device is needed for it."""

    def __init__(self, f: Functions, c: Convolution) -> None:
        self.f, self.form = f, _FORMS[c.kind]
        self.cells = Cells()
        self.kind = DATA_TYPES[c.dtype.char]
        self.arrays = {"x": self._tensor(c.x), "w": self._filter(c.w), "y": self._tensor(c.y)}
        self.convolution = self._convolution(c)

    @property
    def in_order(self) -> list[int]:
        """The descriptors of the operands and of the result, as functions take them."""
        return [self.arrays[role] for role in self.form.roles]

    def _new(self, what: str) -> int:
        """A descriptor."""
        made = self.f.created(f"cudnnCreate{what}Descriptor")
        return self.cells.own(self.f, f"cudnnDestroy{what}Descriptor", made)

    def _ints(self, values: Sequence[int]) -> int:
        """The address of some ints."""
        return self.cells.address(ctypes.c_int32, *values)

    def _tensor(self, shape: tuple[int, ...]) -> int:
        """A packed array."""
        made, shape = self._new("Tensor"), _plane(shape)
        sizes, strides = self._ints(shape), self._ints(row_major(shape))
        self.f.call("cudnnSetTensorNdDescriptor", made, self.kind, len(shape), sizes, strides)
        return made

    def _filter(self, shape: tuple[int, ...]) -> int:
        made, shape = self._new("Filter"), _plane(shape)
        sizes = self._ints(shape)
        self.f.call("cudnnSetFilterNdDescriptor", made, self.kind, NCHW, len(shape), sizes)
        return made

    def _convolution(self, c: Convolution) -> int:
        made, compute = self._new("Convolution"), DATA_TYPES["d" if c.dtype.char == "d" else "f"]
        line = len(c.strides) == 1
        axes = [(0, *c.padding), (1, *c.strides), (1, *c.dilation)]
        padding, strides, dilation = [self._ints(axis[not line :]) for axis in axes]
        self.f.call(
            "cudnnSetConvolutionNdDescriptor", made, len(c.strides) + line, padding, strides,
            dilation, CROSS_CORRELATION, compute,
        )  # fmt: skip
        self.f.call("cudnnSetConvolutionGroupCount", made, c.groups)
        self.f.call("cudnnSetConvolutionMathType", made, _math_type(c.dtype.char))
        return made


def _plane(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape with two axes of places at least."""
    return (*shape[:2], 1, *shape[2:]) if len(shape) == 3 else shape


def _math_type(char: str) -> int:
    """float32 as it is unless TF32 is asked for; float16 by the units for matrices."""
    if char == "f":
        return DEFAULT_MATH if config.tf32 else FMA_MATH
    return TENSOR_OP_MATH if char == "e" else DEFAULT_MATH
