"""L6. A product step on the device: its dtypes, batches and epilogue.

C[i] = act(A[i] B[i] + bias): by cuBLASLt with an epilogue; else without one, and a kernel for the
rest; else by a kernel of our own and that one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.llvm.text import element_type, literal
from fgrad.compile.tasks.routines import FusedProduct, Gemm
from fgrad.compile.tasks.steps import LibraryStep
from fgrad.lower_cuda.emit.calls import Address
from fgrad.lower_cuda.emit.scalar_cuda import SCALAR_CUDA
from fgrad.lower_cuda.emit.text import BodyText

FLOAT32 = np.dtype(np.float32)
Offsets = tuple[int, int, int]


class Axis(NamedTuple):
    """An axis of a batch, and how many bytes its matrices A, B and C are apart."""

    count: int
    steps: Offsets


class Product(NamedTuple):
    """A product of matrices.

    `gemm` has the sizes, and the batch of one call; `starts` are where A, B and C of each call
    begin, in bytes.  Numbers are named; a bias is a place in the step's buffers.
    """

    gemm: Gemm
    operand: str
    result: str
    starts: tuple[Offsets, ...] = ((0, 0, 0),)
    epilogue: str = ""
    bias: Address | None = None

    @property
    def widths(self) -> Offsets:
        """The bytes of an element of A, of B and of C."""
        return width(self.operand), width(self.operand), width(self.result)

    @property
    def steps(self) -> Offsets:
        """The bytes from matrix to matrix in the batch of a call."""
        g = self.gemm
        a, b, c = (
            w * s for w, s in zip(self.widths, (g.stride_a, g.stride_b, g.stride_c), strict=True)
        )
        return a, b, c

    @property
    def plain(self) -> Product:
        """The same without what follows the sums."""
        return self._replace(epilogue="", bias=None)

    @property
    def is_plain(self) -> bool:
        """Whether nothing follows the sums."""
        return not self.epilogue and self.bias is None


def product_of(step: LibraryStep) -> Product:
    """What a step of a product computes."""
    routine = step.routine
    starts: tuple[Offsets, ...] = step.offsets  # type: ignore[assignment]
    if isinstance(routine, Gemm):
        name = routine.dtype.name
        return Product(routine, name, name, starts)
    assert isinstance(routine, FusedProduct)
    place = Address(len(step.args) - 1, routine.bias[0]) if routine.bias else None
    gemm, operand, result, epilogue, _ = routine
    return Product(gemm, operand, result, starts, epilogue, place)


def width(name: str) -> int:
    """The bytes of a number."""
    return 2 if name == "bfloat16" else np.dtype(name).itemsize


def axes_of(product: Product) -> tuple[Axis, ...] | None:
    """All batches as axes, the innermost last; None if they lie at no even distances."""
    inner = Axis(product.gemm.batch, product.steps)
    outer = _axes(product.starts)
    return None if outer is None else (*outer, inner)


def _axes(starts: Sequence[Offsets]) -> tuple[Axis, ...] | None:
    """Axes that lead from the first start to all, in order."""
    axes: list[Axis] = []
    rest = list(starts)
    while len(rest) > 1:
        steps = _steps(rest)
        count = 1 + len(list(itertools.takewhile(steps[0].__eq__, steps)))
        runs = [rest[k : k + count] for k in range(0, len(rest), count)]
        if any([_steps(run) != _steps(runs[0]) for run in runs]):
            return None
        axes.insert(0, Axis(count, steps[0]))
        rest = [run[0] for run in runs]
    return tuple(axes)


def _steps(starts: Sequence[Offsets]) -> list[Offsets]:
    """From each start to the next one."""
    return [(d - a, e - b, f - c) for (a, b, c), (d, e, f) in itertools.pairwise(starts)]


def moved(body: BodyText, number: str, axes: Sequence[Axis], which: int, start: int) -> str:
    """The bytes to the matrix of a number, an i64, in an operand that begins at `start`."""
    offset: str = str(start)
    for k, axis in reversed(list(enumerate(axes))):
        index = body.op("urem", "i64", number, axis.count) if k else number
        step = body.op("mul", "i64", index, axis.steps[which])
        offset = body.op("add", "i64", step, offset)
        number = body.op("udiv", "i64", number, axis.count)
    return offset


def matrices(product: Product) -> int:
    """How many products of two matrices there are."""
    return len(product.starts) * product.gemm.batch


# --- numbers in registers -------------------------------------------------------------------------


def memory_type(name: str) -> str:
    """The type of a number in memory."""
    return "i16" if name == "bfloat16" else element_type(np.dtype(name))


def register_dtype(name: str) -> np.dtype:
    """The dtype in which a number is computed with."""
    return FLOAT32 if name in ("bfloat16", "float16") else np.dtype(name)


def widened(body: BodyText, value: str, name: str) -> str:
    """A number that was loaded, as it is computed with."""
    if name == "bfloat16":
        bits = body.op("shl", "i32", body.cast("zext", "i16", value, "i32"), 16)
        return body.cast("bitcast", "i32", bits, "float")
    return body.cast("fpext", memory_type(name), value, element_type(register_dtype(name)))


def narrowed(body: BodyText, value: str, name: str, dtype: np.dtype) -> str:
    """A number of a dtype as it is stored: the nearest one, ties to even."""
    if name != "bfloat16":
        return body.cast("fptrunc", element_type(dtype), value, memory_type(name))
    bits = body.cast("bitcast", "float", value, "i32")
    odd = body.op("and", "i32", body.op("lshr", "i32", bits, 16), 1)
    up = body.op("add", "i32", body.op("add", "i32", bits, 0x7FFF), odd)
    nan = body.emit(f"fcmp uno float {value}, {value}")
    quiet = body.op("or", "i32", bits, 0x400000)
    word = body.op("lshr", "i32", body.select(nan, "i32", quiet, up), 16)
    return body.cast("trunc", "i32", word, "i16")


def act(body: BodyText, value: str, epilogue: str, dtype: np.dtype) -> str:
    """An epilogue of a number, with the scalars of all kernels: relu keeps NaN."""

    def scalar(name: str, *operands: str) -> str:
        return SCALAR_CUDA[name](body, operands, dtype, dtype)

    if epilogue == "relu":
        return scalar("max", value, literal(0.0, dtype))
    cube = scalar("mul", scalar("mul", value, value), value)
    cubic = scalar("add", value, scalar("mul", cube, literal(0.044715, dtype)))
    tanh = scalar("tanh", scalar("mul", cubic, literal(math.sqrt(2 / math.pi), dtype)))
    half = scalar("mul", value, literal(0.5, dtype))
    return scalar("mul", half, scalar("add", tanh, literal(1.0, dtype)))
