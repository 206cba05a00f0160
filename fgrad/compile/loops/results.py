"""L5. Remove unread results of loops, and move sums of products out of them.

carry g + a.T @ b, never read by the body     becomes     a, b stacked, and one product
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fgrad.compile.loops.kernel import prepared
from fgrad.compile.loops.writer import MOST_CELLS
from fgrad.compile.passes.dce import dce
from fgrad.ir.aval import Aval
from fgrad.ir.program import Atom, Eqn, Params, Program, Var
from fgrad.ir.traits import Holds
from fgrad.ir.walk import definitions, has_effect, use_counts
from fgrad.ops import primitives as prims

MOST_BYTES = 1 << 28  # of what is stacked for one product


def without_unread(program: Program) -> Program:
    """The program with unread carries and results of loops removed."""
    live = {a for a in program.outputs if isinstance(a, Var)}
    kept: list[Eqn] = []
    for eqn in reversed(program.eqns):
        acts = has_effect(eqn)
        if live.isdisjoint(eqn.outputs) and not acts:
            continue
        if eqn.prim.holds is Holds.LOOP and not acts:
            eqn = _pruned(eqn, live)
        live.update([a for a in eqn.inputs if isinstance(a, Var)])
        kept.append(eqn)
    return program.replace(eqns=tuple(reversed(kept)))


def _pruned(eqn: Eqn, live: Collection[Var]) -> Eqn:
    """A loop with the carries and results that are needed."""
    scan, p = eqn.prim is prims.scan, eqn.params
    body = prepared(p["body"])
    cond = None if scan else prepared(p["cond"])
    first = p["n_consts"] if scan else p["n_body"]
    count = p["n_carry"] if scan else len(body.outputs)
    carried = body.inputs[first : first + count]
    tested = _read(cond.eqns, cond.outputs) if cond is not None else set()
    needed = {k for k, v in enumerate(eqn.outputs) if v in live}
    if cond is not None:
        needed |= {k for k, v in enumerate(cond.inputs[p["n_cond"] :]) if v in tested}
    while True:
        used = _read(body.eqns, [body.outputs[k] for k in sorted(needed)])
        more = {k for k, v in enumerate(carried) if v in used} - needed
        if not more:
            break
        needed |= more
    if len(needed) == len(eqn.outputs):
        return eqn
    carries = [k for k in range(count) if k in needed]
    consts = [k for k in range(first) if body.inputs[k] in used]
    items = [k for k in range(first + count, len(body.inputs)) if body.inputs[k] in used]
    kept = [*consts, *[first + k for k in carries], *items]
    small = body.replace(
        inputs=tuple([body.inputs[k] for k in kept]),
        outputs=tuple([body.outputs[k] for k in sorted(needed)]),
    )
    changes = {"body": prepared(dce(small))}
    operands = [eqn.inputs[k + (0 if scan else p["n_cond"])] for k in kept]
    if cond is not None:
        inputs = (*cond.inputs[: p["n_cond"]], *[cond.inputs[p["n_cond"] + k] for k in carries])
        changes |= {"cond": prepared(cond.replace(inputs=inputs)), "n_body": len(consts)}
        operands = [*eqn.inputs[: p["n_cond"]], *operands]
    else:
        changes |= {"n_consts": len(consts), "n_carry": len(carries)}
    outputs = tuple([eqn.outputs[k] for k in sorted(needed)])
    return eqn._replace(inputs=tuple(operands), params=Params({**p, **changes}), outputs=outputs)


def _read(eqns: Sequence[Eqn], outputs: Sequence[Atom]) -> set[Atom]:
    """Everything that some outputs depend on."""
    live: set[Atom] = set(outputs)
    for eqn in reversed(eqns):
        if not live.isdisjoint(eqn.outputs):
            live.update(eqn.inputs)
    return live


# --- sums of products


def products_after(eqn: Eqn) -> list[Eqn]:
    """A scan whose carry sums products, as a scan that stacks their factors, and the products."""
    body: Program = eqn.params["body"]
    sums = {k: e for k, e in enumerate(_sums(eqn, body)) if e is not None}
    if not sums:
        return [eqn]
    p, outputs = eqn.params, list(eqn.outputs)
    first, stop = p["n_consts"], p["n_consts"] + p["n_carry"]
    whole: dict[Atom, Var] = {  # the arrays of items
        v: a
        for v, a in zip(body.inputs[stop:], eqn.inputs[stop:], strict=True)
        if isinstance(a, Var)
    }
    stacked = list(body.outputs)
    after: list[Eqn] = []
    for k, product in sums.items():
        for factor in product.inputs:
            if factor not in whole:
                stacked.append(factor)
                whole[factor] = Var(Aval((p["length"], *factor.aval.shape), factor.aval.dtype))
                outputs.append(whole[factor])
        after += _product(product, whole, eqn.inputs[first + k], eqn.outputs[k], eqn)
    kept = [k for k in range(p["n_carry"]) if k not in sums]
    chosen = [*kept, *range(p["n_carry"], len(stacked))]
    places = [*range(first), *[first + k for k in kept], *range(stop, len(eqn.inputs))]
    small = body.replace(
        inputs=tuple([body.inputs[k] for k in places]),
        outputs=tuple([stacked[k] for k in chosen]),
    )
    params = Params({**p, "body": prepared(dce(small)), "n_carry": len(kept)})
    loop = eqn._replace(
        inputs=tuple([eqn.inputs[k] for k in places]),
        params=params,
        outputs=tuple([outputs[k] for k in chosen]),
    )
    return [loop, *after]


def _sums(eqn: Eqn, body: Program) -> list[Eqn | None]:
    """For each carry the product that every step adds to it, if that is all."""
    defined, uses = definitions(body.eqns), use_counts(body)
    first = eqn.params["n_consts"]
    found: list[Eqn | None] = []
    for k in range(eqn.params["n_carry"]):
        given, result = body.inputs[first + k], body.outputs[k]
        made = defined.get(result) if isinstance(result, Var) else None
        product = None
        if made is not None and made.prim is prims.add and given in made.inputs:
            term = made.inputs[0] if made.inputs[1] is given else made.inputs[1]
            alone = uses.get(given) == 1 and uses.get(result) == 1 and uses.get(term) == 1  # type: ignore[call-overload, arg-type]
            product = defined.get(term) if alone else None  # type: ignore[call-overload]
        good = product is not None and _is_large(product, eqn.params["length"])
        found.append(product if good else None)
    return found


def _is_large(product: Eqn, length: int) -> bool:
    """Whether a product of columns by rows has more elements than its factors."""
    if product.prim is not prims.dot_general or product.params["contract"] != ((0,), (0,)):
        return False
    a, b = [x.aval for x in product.inputs]
    both = a.size + b.size
    size = product.outputs[0].aval.size
    bytes_ = length * both * a.dtype.itemsize
    return a.ndim == b.ndim == 2 and MOST_CELLS < size > both and bytes_ <= MOST_BYTES


def _product(product: Eqn, whole: dict[Atom, Var], start: Atom, out: Var, eqn: Eqn) -> list[Eqn]:
    """out = start + the sum of the products of all steps."""
    flat: list[Var] = []
    eqns: list[Eqn] = []
    for factor in product.inputs:
        stack = whole[factor]
        n, m, columns = stack.aval.shape
        flat.append(Var(Aval((n * m, columns), stack.aval.dtype)))
        params = Params({"shape": (n * m, columns)})
        eqns.append(Eqn(prims.reshape, (stack,), params, (flat[-1],), eqn.loc, eqn.via))
    total = Var(out.aval.strong())
    eqns.append(product._replace(inputs=tuple(flat), outputs=(total,)))
    eqns.append(Eqn(prims.add, (start, total), Params({}), (out,), eqn.loc, eqn.via))
    return eqns
