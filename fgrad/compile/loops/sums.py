"""L5. Sums of a number of terms that is known when they run: in vectors.

    while k < n: s = s + f(k)         acc s = add s0;  k = 0
                                      while: break if not (k + 31 < n and all of f's places are
                                                            inside of their arrays)
                                        reduce j in 32:  update s f(k + j)          k = k + 32
                                      the same, 8 at a time
                                      while k < n: s = s + f(k)                      the rest

Only loops that say that the order does not matter (`any_order`): those of `np.sum(x[a:b])`, not
those that users write.  Indices that are not known to be inside are assumed to be, and a block of
which that is not true is left to the loop of single steps, which clips, wraps and reports them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.kernel.affine import AffineIndex, shifted, total, value
from fgrad.compile.kernel.ir import Break, Ref
from fgrad.compile.kernel.machine import VECTOR_BYTES
from fgrad.compile.loops.values import Value
from fgrad.compile.loops.writer import KINDS, MOST_CODE, Block, LoopWriter
from fgrad.compile.passes.dce import dce
from fgrad.ir.aval import BOOL, INT64
from fgrad.ir.program import Lit, Program, Var
from fgrad.ir.traits import CONTROL
from fgrad.ir.walk import cost_of, definitions, use_counts
from fgrad.ops import primitives as prims
from fgrad.ops.counters import conjuncts, counter_step

BLOCKS = (4, 1)  # vectors at a time, which hide the latency of an addition
LONG_TERM = 32  # the cost of a term that takes longer than that
MOST_CODE_BEFORE = MOST_CODE // 2  # instructions of a kernel in which sums have blocks
OPERATIONS = ("add", "mul", "max", "min")  # of accumulators, which any order will do for


class Summing(NamedTuple):
    """The programs of a loop that adds up, and what each of its carries is.

    Arguments:
        goes: the condition.
        terms: the body, of which the results are what is added to each sum.
        counters: what each counter grows by.
        sums: the operation of each sum.
        lanes: of its vectors.
    """

    goes: Program
    terms: Program
    counters: Mapping[int, int]
    sums: Mapping[int, str]
    lanes: int


def summing(cond: Program, body: Program, n_cond: int, n_body: int) -> Summing | None:
    """What a loop adds up; None if it does anything else."""
    if not all([_is_scalar_work(p) for p in (cond, body)]):
        return None
    made, uses = definitions(body.eqns), use_counts(body)
    counters: dict[int, int] = {}
    sums: dict[int, str] = {}
    terms = list(body.outputs)
    for k, (var, out) in enumerate(zip(body.inputs[n_body:], body.outputs, strict=True)):
        if out is var:
            continue
        step = counter_step(body, var, out)
        if step is not None and step > 0:
            counters[k] = step
            continue
        eqn = made.get(out) if isinstance(out, Var) and uses[out] == 1 else None
        operation = None if eqn is None else eqn.prim.scalar
        if eqn is None or operation is None or operation not in OPERATIONS:
            return None
        if uses.get(var) != 1 or var not in eqn.inputs:
            return None
        if var.aval.shape or var.aval.dtype.kind not in "iuf":
            return None
        sums[k] = operation
        terms[k] = eqn.inputs[1] if eqn.inputs[0] is var else eqn.inputs[0]
    if not sums or not _ends_by(cond, n_cond, counters):
        return None
    of_sums = dce(body.replace(outputs=tuple([terms[k] for k in sums])))
    wide = max([body.inputs[n_body + k].aval.dtype.itemsize for k in sums])
    return Summing(cond, of_sums, counters, sums, VECTOR_BYTES // wide)


def _is_scalar_work(program: Program) -> bool:
    """Whether a program computes single numbers, without loops or branches."""
    return not any([
        eqn.prim.holds in CONTROL
        or any([v.aval.shape or v.aval.dtype.kind not in KINDS for v in eqn.outputs])
        for eqn in program.eqns
    ])  # fmt: skip


def _ends_by(cond: Program, first: int, counters: Mapping[int, int]) -> bool:
    """Whether a condition says that counters are below what stays, and nothing else."""
    made = definitions(cond.eqns)
    growing = [cond.inputs[first + k] for k in counters]
    for part in conjuncts(cond.outputs[0], made):
        eqn = made.get(part) if isinstance(part, Var) else None
        if eqn is None or eqn.prim is not prims.lt or eqn.inputs[0] not in growing:
            return False
        if not isinstance(eqn.inputs[1], Lit) and eqn.inputs[1] not in cond.inputs[:first]:
            return False
    return True


def sums_by_blocks(
    w: LoopWriter, s: Summing, cond_consts: Sequence[Value], body_consts: Sequence[Value],
    carry: Sequence[Value],
) -> list[Value]:  # fmt: skip
    """The carries of a loop after as many steps as there are in whole blocks."""
    cost = sum([max(cost_of(eqn), 1) for eqn in s.terms.eqns])
    for vectors in BLOCKS if cost <= LONG_TERM else BLOCKS[1:]:
        if w.b.size + cost > MOST_CODE_BEFORE:
            break
        carry = _blocks(w, s, cond_consts, body_consts, carry, vectors)
    return list(carry)


def _blocks(
    w: LoopWriter, s: Summing, cond_consts: Sequence[Value], body_consts: Sequence[Value],
    carry: Sequence[Value], vectors: int,
) -> Sequence[Value]:  # fmt: skip
    starts = {k: int(w.cells(carry[k]).flat[0]) for k in (*s.counters, *s.sums)}
    counters = {k: w.b.accumulator("carry", INT64, Ref(starts[k])) for k in s.counters}
    sums = {}
    for k, operation in s.sums.items():
        start = starts[k]
        sums[k] = w.b.accumulator(operation, w.b.dtype_of(start), Ref(start))
    length, around = s.lanes * vectors, w.block
    w.b.open(1, "while")
    begin = {k: value(w.b.read(acc)) for k, acc in counters.items()}
    last = [shifted(begin[k], 1, (length - 1) * s.counters[k]) if k in begin else None
            for k in range(len(carry))]  # fmt: skip
    (go,) = w.program(s.goes, [*cond_consts, *_given(w, carry, last)])
    step = w.b.open(length, "reduce")
    w.b.lanes(s.lanes, vectors)
    w.block = Block(w.b.depth - 1, step.terms[0][0], length, [int(w.cells(go).flat[0])])
    here = [total((begin[k], step), (1, s.counters[k])) if k in begin else None
            for k in range(len(carry))]  # fmt: skip
    terms = w.program(s.terms, [*body_consts, *_given(w, carry, here)])
    for acc, term in zip(sums.values(), terms, strict=True):
        w.b.update(acc, int(w.cells(term).flat[0]))
    goes: int | None = None
    for needed in w.block.needs:
        goes = w.b.both(goes, needed)
    assert goes is not None
    w.b.frames[-2].body.append(Break(w.b.op("not", BOOL, goes)))
    w.block = around
    w.b.close()
    for k, acc in counters.items():
        w.b.update(acc, w.b.index(shifted(begin[k], 1, length * s.counters[k])))
    w.b.close()
    after = {k: w.b.read(acc) for k, acc in (*counters.items(), *sums.items())}
    return [np.array(after[k], np.int64) if k in after else x for k, x in enumerate(carry)]


def _given(
    w: LoopWriter, carry: Sequence[Value], places: Sequence[AffineIndex | None]
) -> list[Value]:
    """The carries, with counters at some places."""
    return [
        x if place is None else np.array(w.index(place), np.int64)
        for x, place in zip(carry, places, strict=True)
    ]
