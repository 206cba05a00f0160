"""L6. Fourier transforms along one axis by cuFFT: complex, and of real numbers to and from half a
spectrum.

    (outer, n, inner) -> (outer, m, inner)     one plan for the vectors of a block, which are
                                               neighbours; the host program calls it `outer` times

cuFFT does not divide by n, and may overwrite the half spectrum that it reads.
"""

from __future__ import annotations

import ctypes
import math

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.llvm.text import element_type, literal
from fgrad.lower_cuda.emit.calls import Address, Calls
from fgrad.lower_cuda.emit.text import BodyText
from fgrad.lower_cuda.library.cublaslt import DATA_TYPES
from fgrad.lower_cuda.library.functions import functions
from fgrad.lower_cuda.library.matrices import number_kind
from fgrad.lower_cuda.library.plan import Planner, real_dtype

FORWARD, INVERSE = -1, 1  # directions


class Transform(NamedTuple):
    """A transform of `points` numbers: `n` numbers are read from each vector and `m` written."""

    source: np.dtype
    target: np.dtype
    outer: int
    inner: int
    n: int
    m: int
    points: int
    inverse: bool

    @property
    def to_real(self) -> bool:
        """Whether the operand is half a spectrum."""
        return self.target.kind != "c"


def fourier_calls(t: Transform, buffers: int) -> Calls:
    """The calls of a transform.  Buffers: operand, result."""
    plan = Planner(buffers)
    source, real = Address(0), real_dtype(t.target)
    if t.to_real:
        source = plan.scratch(t.outer * t.n * t.inner * t.source.itemsize)
        _half_spectrum(plan, t, source)
    together = t.inner == 1
    count = t.outer if together else t.inner
    handle = _plan(plan, t, count)
    steps = [0, 0] if together else [k * t.inner for k in (t.n, t.m)]
    source = source._replace(step=steps[0] * t.source.itemsize)
    target = Address(1, 0, steps[1] * t.target.itemsize)
    direction = INVERSE if t.inverse else FORWARD
    plan.call("cufftXtExec", handle, source, target, direction, count=1 if together else t.outer)
    if t.inverse:
        parts = (2 if t.target.kind == "c" else 1) * t.outer * t.m * t.inner
        _scale(plan, Address(1), real, parts, 1 / t.points)
    return plan.finish()


def _plan(plan: Planner, t: Transform, count: int) -> int:
    """A plan for `count` vectors: one after the other, or each beginning beside the last."""
    f = functions()
    cell = plan.cells.address(ctypes.c_int32, 0)
    f.call("cufftCreate", cell)
    handle = plan.cells.own(f, "cufftDestroy", ctypes.c_int32.from_address(cell).value)
    layouts = [(t.inner, 1) if t.inner > 1 else (1, length) for length in (t.n, t.m)]
    kinds = [DATA_TYPES[dtype.name] for dtype in (t.source, t.target)]
    points, embed_in, embed_out, size = (
        plan.cells.address(ctypes.c_int64, x) for x in (t.points, t.n, t.m, 0)
    )
    compute = DATA_TYPES[np.result_type(t.target, np.complex64).name]
    f.call(
        "cufftXtMakePlanMany", handle, 1, points, embed_in, *layouts[0], kinds[0], embed_out,
        *layouts[1], kinds[1], count, size, compute,
    )  # fmt: skip
    return handle


def _half_spectrum(plan: Planner, t: Transform, target: Address) -> None:
    """A copy of half a spectrum, without the imaginary parts that numbers without a conjugate
    partner have."""
    total = t.outer * t.n * t.inner

    def write(body: BodyText, e: str) -> None:
        kind, part = number_kind(t.source), element_type(real_dtype(t.source))
        number = body.op("urem", "i64", body.op("udiv", "i64", e, t.inner), t.n)
        alone = body.compare("eq", "i64", number, 0)
        if t.points % 2 == 0:
            last = body.compare("eq", "i64", number, t.n - 1)
            alone = body.op("or", "i1", alone, last)
        value = body.load(body.pointer(1, kind), e)
        imag = body.emit(f"extractelement {kind} {value}, i32 1")
        imag = body.select(alone, part, "0.0", imag)
        value = body.emit(f"insertelement {kind} {value}, {part} {imag}, i32 1")
        body.store(value, body.pointer(0, kind), e)

    plan.each(total, write, target, Address(0))


def _scale(plan: Planner, place: Address, dtype: np.dtype, count: int, factor: float) -> None:
    """All numbers times a factor."""
    if math.isclose(factor, 1.0):
        return

    def write(body: BodyText, e: str) -> None:
        base = body.pointer(0, element_type(dtype))
        value = body.op("fmul", base.kind, body.load(base, e), literal(factor, dtype))
        body.store(value, base, e)

    plan.each(count, write, place)
