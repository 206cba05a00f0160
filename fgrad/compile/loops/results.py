"""L5. Move sums of products out of loops.

carry g + a.T @ b, never read by the body     becomes     a, b stacked, and one product
"""

from __future__ import annotations

from fgrad.compile.loops.prepare import prepared
from fgrad.compile.loops.writer import MOST_CELLS
from fgrad.compile.passes.dce import dce
from fgrad.ir.aval import Aval
from fgrad.ir.program import Atom, Eqn, Params, Program, Var
from fgrad.ir.walk import definitions, use_counts
from fgrad.ops import primitives as prims

MOST_BYTES = 1 << 28  # of what is stacked for one product


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
