"""L5. Rough costs of kernels in cycles: to choose between schedules, and for threads."""

from __future__ import annotations

from fgrad.compile.kernel.ir import Kernel, Load, Loop, Op, Statement, Store, Update
from fgrad.compile.kernel.machine import (
    CLOSE_STRIDE,
    DIVISION_CYCLES,
    GATHER_CYCLES,
    LONG_OPERATION,
    WHILE_TURNS,
)
from fgrad.compile.kernel.rewrite import Body, stride_of
from fgrad.compile.kernel.scalar import SCALAR_OPS

_SLOW = {"div", "sqrt", "remainder", "floor_divide", "fmod"}
_CHEAP = _SLOW | {"muladd", "floor", "ceil", "rint", "trunc", "copysign", "nextafter"}
_CYCLES = {name: DIVISION_CYCLES if name in _SLOW else 1.0 for name in SCALAR_OPS} | {
    name: LONG_OPERATION
    for name, row in SCALAR_OPS.items()
    if name == "pow" or (row.kinds == "f" and row.result == "same" and name not in _CHEAP)
}


def weight(s: Statement) -> float:
    """The cycles of one statement, scalar or vector, without the effects of memory."""
    if type(s) is Op:
        return _CYCLES[s.op]
    kind = type(s)
    return 1.0 if kind is Load or kind is Store or kind is Update else 0.0


def vector_cost(body: Body, axis: str, lanes: int) -> float:
    """The cycles of one pass over `body` with `axis` in the lanes."""
    cost = 0.0
    for s in body:
        if isinstance(s, Loop):
            cost += _passes(s) * (vector_cost(s.body, axis, lanes) + 1)
        elif isinstance(s, (Load, Store)):
            indirect = s.gather if isinstance(s, Load) else s.scatter
            stride = abs(stride_of(s.index, axis))
            contiguous = stride <= 1 and not indirect
            apart = GATHER_CYCLES * (stride if stride <= CLOSE_STRIDE and not indirect else lanes)
            cost += (1 if stride else 0.5) if contiguous else apart
        else:
            cost += weight(s)
    return cost


def _passes(loop: Loop) -> int:
    return WHILE_TURNS if loop.kind == "while" else loop.extent


def kernel_cost(kernel: Kernel) -> float:
    """The cycles of one run of a scheduled kernel whose data are near."""
    return body_cost(kernel.body)


def body_cost(body: Body) -> float:
    """The cycles of one run of a scheduled body."""
    cost = 0.0
    for s in body:
        if not isinstance(s, Loop):
            cost += weight(s)
        elif s.lanes > 1:
            cost += -(-s.extent // s.lanes) * (vector_cost(s.body, s.axis, s.lanes) + 1)
        else:
            cost += _passes(s) * (body_cost(s.body) + 1)
    return cost
