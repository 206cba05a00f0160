"""L5. Static cost of a function: operations, bytes, kernels, residuals."""

from __future__ import annotations

import math
from collections.abc import Callable

from fgrad.base.keywords import also_takes
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.pickling import pickles_as_call
from fgrad.compile.jit.inspect import inspect, make_program
from fgrad.compile.tasks.steps import KernelStep
from fgrad.errors import MissingRuleError
from fgrad.ir import traits
from fgrad.ir.memory import bytes_of
from fgrad.ir.program import Eqn, Program, Var
from fgrad.ir.traits import Along
from fgrad.ops import primitives as prims
from fgrad.transforms.core.derived_programs import vjp_programs
from fgrad.transforms.core.wrap import named_like


class Cost(NamedTuple):
    """The cost of one call.

    flops: additions, products and comparisons of numbers; a fused multiply-add is two.
    transcendentals: calls of exp, log, sin, ... for one element each.
    bytes: what the steps read and write, each buffer once a step.
    kernels, library_calls: steps of the compiled program.
    residual_bytes: residuals between forward and backward pass, if it has a gradient.
    temporaries: bytes of the block that holds intermediate arrays.
    bounded: whether all loops have a known number of steps; others count as one step.
    """

    flops: int
    transcendentals: int
    bytes: int
    kernels: int
    library_calls: int
    residual_bytes: int | None
    temporaries: int
    bounded: bool

    def __str__(self) -> str:
        rows = [f"{name:<16}{_shown(value)}" for name, value in self._asdict().items()]
        return "\n".join(rows)


def _shown(value: object) -> str:
    return f"{value:,}" if type(value) is int else str(value)


@pickles_as_call
@also_takes()
def cost_analysis(fun: Callable[..., object]) -> Callable[..., Cost]:
    """A function that counts what a call of `fun` with its arguments costs, without running it.

    Arguments:
        fun: a function of arrays, or what `jit` returned for one; `grad(f)` for a gradient.

    Example:
        >>> import numpy as np, fgrad
        >>> a, b = np.ones((8, 4)), np.ones((4, 2))
        >>> cost = fgrad.cost_analysis(lambda a, b: np.tanh(a @ b))(a, b)
        >>> cost.flops, cost.transcendentals
        (128, 16)
    """

    def analysed(*args: object, **kwargs: object) -> Cost:
        stages = inspect(fun)(*args, **kwargs)
        program = make_program(fun)(*args, **kwargs)
        counted = _Counter()
        counted.program(stages.passes["dce again"], 1)
        steps = stages.passes["plan"].steps
        kernels = sum([isinstance(s, KernelStep) for s in steps])
        moved = sum([bytes_of(v.aval) for s in steps for v in dict.fromkeys(s.args)])
        return Cost(
            counted.flops,
            counted.transcendentals,
            moved,
            kernels,
            len(steps) - kernels,
            _residual_bytes(program),
            stages.memory.temporaries,
            counted.bounded,
        )

    return named_like(analysed, fun, "cost_analysis")


def _residual_bytes(program: Program) -> int | None:
    """The bytes of the residuals, without inputs."""
    wanted = tuple([a.dtype.kind in "fc" for a in program.in_avals])
    if not any(wanted) or not any([a.dtype.kind in "fc" for a in program.out_avals]):
        return None
    try:
        pair = vjp_programs(program, wanted)
    except MissingRuleError:
        return None
    given = set(pair.forward.inputs)
    kept = {a for a in pair.forward.outputs[pair.results :] if isinstance(a, Var)} - given
    return sum([bytes_of(v.aval) for v in kept])


class _Counter:
    """Accumulates costs over equations."""

    def __init__(self) -> None:
        self.flops = self.transcendentals = 0
        self.bounded = True

    def program(self, program: Program, times: int) -> None:
        for eqn in program.eqns:
            self.equation(eqn, times)

    def equation(self, eqn: Eqn, times: int) -> None:
        """Count one equation, and the bodies of loops and branches."""
        prim, params = eqn.prim, eqn.params
        if prim is prims.scan:
            self.program(params["body"], times * params["length"])
        elif prim is prims.while_:
            self.bounded = False
            self.program(params["cond"], times)
            self.program(params["body"], times)
        elif prim is prims.switch:
            for branch in params["branches"]:
                self.program(branch, times)
        elif prim.elementwise and prim.cost is traits.Cost.FUNCTION:
            self.transcendentals += times * eqn.outputs[0].aval.size
        else:
            self.flops += times * flops_of(eqn)


def flops_of(eqn: Eqn) -> int:
    """The operations of one equation without a body."""
    prim, params = eqn.prim, eqn.params
    size = sum([v.aval.size for v in eqn.outputs])
    first = eqn.inputs[0].aval if eqn.inputs else None
    if prim is prims.dot_general:
        assert first is not None
        return 2 * size * math.prod([first.shape[a] for a in params["contract"][0]])
    if prim is prims.conv:
        return 2 * size * math.prod(eqn.inputs[1].aval.shape[1:])
    if prim.fold is not None and prim.fold.along is not Along.PLACE:
        return first.size if first is not None else 0
    if prim is prims.fft:
        return int(5 * size * math.log2(max(size, 2)))
    if first is not None and first.ndim >= 2 and prim.flops_over_n3 is not None:
        return int(prim.flops_over_n3 * first.size * min(first.shape[-2:]))
    if prim in (prims.solve, prims.lu_solve, prims.triangular_solve):
        return 2 * size * (first.shape[-1] if first is not None else 1)
    computes = prim.elementwise and prim not in (prims.convert, prims.bitcast)
    return size if computes and prim.cost else 0
