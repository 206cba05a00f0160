"""L5. Pass `im2col`: store the windows of an array for large products.

    dot(windows(x), w)      ->      dot(barrier(permute(windows(x))), w)

The CPU's kernels read windows in place, in tiles of registers.  A GPU has a function for
products that is much faster than any kernel of ours, from sizes on where copies are worth it.
"""

from __future__ import annotations

from collections.abc import Mapping

from fgrad.compile.products.matrices import product_of, reads_windows
from fgrad.ir.aval import Aval
from fgrad.ir.program import Atom, Eqn, Params, Program, Var
from fgrad.ir.walk import definitions
from fgrad.ops import primitives as prims
from fgrad.transforms.checkpoint.checkpoint import barrier_p

LEAST_SUM = 64  # terms of a sum
LEAST_SIDE = 32  # rows and columns
MOST_BYTES = 1 << 30  # of windows


def im2col(program: Program) -> Program:
    """The program with the windows of large products in memory."""
    defined = definitions(program.eqns)
    if not any([_is_worth(eqn, defined) for eqn in program.eqns]):
        return program
    eqns: list[Eqn] = []
    for eqn in program.eqns:
        eqns += _rewritten(eqn, defined) if _is_worth(eqn, defined) else [eqn]
    return program.replace(eqns=tuple(eqns), made_by="windows")


def _is_worth(eqn: Eqn, defined: Mapping[Var, Eqn]) -> bool:
    if not reads_windows(eqn, defined):
        return False
    p = product_of(eqn)
    size = max([x.aval.size * x.aval.dtype.itemsize for x in eqn.inputs])
    return p.k >= LEAST_SUM and min(p.m, p.n) >= LEAST_SIDE and size <= MOST_BYTES


def _rewritten(eqn: Eqn, defined: Mapping[Var, Eqn]) -> list[Eqn]:
    """The product, and before it the windows as matrices: batch axes, free ones, summed ones."""
    p = product_of(eqn)
    eqns: list[Eqn] = []
    inputs: list[Atom] = []
    batch, contract = list(eqn.params["batch"]), list(eqn.params["contract"])
    for k, (x, free) in enumerate(zip(eqn.inputs, (p.a_free, p.b_free), strict=True)):
        source = defined.get(x) if isinstance(x, Var) else None
        if source is not None and source.prim is prims.windows:
            axes = (*batch[k], *free, *contract[k])
            x = _kept(eqn, x, axes, eqns)
            first = len(batch[k]) + len(free)
            contract[k] = tuple(range(first, first + len(contract[k])))
            batch[k] = tuple(range(len(batch[k])))
        inputs.append(x)
    params = Params(contract=tuple(contract), batch=tuple(batch))
    return [*eqns, eqn._replace(inputs=tuple(inputs), params=params)]


def _kept(like: Eqn, x: Atom, axes: tuple[int, ...], eqns: list[Eqn]) -> Var:
    """An array with its axes in this order, in memory."""
    aval = Aval(tuple([x.aval.shape[a] for a in axes]), x.aval.dtype)
    moved, kept = Var(aval), Var(aval)
    permute = prims.permute
    eqns.append(Eqn(permute, (x,), Params(axes=axes), (moved,), like.loc, like.via))
    eqns.append(Eqn(barrier_p, (moved,), Params(), (kept,), like.loc, like.via))
    return kept
