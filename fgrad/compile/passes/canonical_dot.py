"""L5. Pass `canonical_dot`: products in the form that their function, or a fused loop, does best.

    nothing to sum               dot(a, b)                 -> broadcast(a) * broadcast(b), which
    fuses transposed result            permute(dot(a, b))        -> dot(b, a)
    one operand repeated         dot(a, broadcast(b))      -> dot(a, b), batch axes of a become rows
    no matrix in memory          dot(a, b)                 -> dot(permute(a), b), copied once

Requires permutes composed by `simplify`.  Ensures that both operands of a library product are
matrices of buffers, through views, once what has to be computed or copied has a buffer.
"""

from __future__ import annotations

from fgrad.compile.products.matrices import (
    library_operands,
    product_of,
    reads_windows,
    wants_library,
)
from fgrad.compile.products.views import VIEWS
from fgrad.ir.aval import Aval
from fgrad.ir.program import Atom, Eqn, Params, Program, Var
from fgrad.ir.walk import definitions, use_counts
from fgrad.ops.dot import dot_general_p
from fgrad.ops.elementwise import mul_p
from fgrad.ops.families import BROADCAST, PERMUTE
from fgrad.ops.shape import reshape_p


def canonical_dot(program: Program) -> Program:
    """The program with products rewritten, and permutes of products merged into them."""
    if not any([eqn.prim is dot_general_p for eqn in program.eqns]):
        return program
    return _Rewriter(program).run()


class _Rewriter:
    """One walk that writes the equations anew."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.defined = definitions(program.eqns)
        self.uses = use_counts(program)
        self.eqns: list[Eqn] = []
        self.views: dict[Var, Eqn] = {}

    def run(self) -> Program:
        for eqn in self.program.eqns:
            if eqn.prim is PERMUTE:
                eqn = self.swapped(eqn) or eqn
            if eqn.prim is dot_general_p and not reads_windows(eqn, self.defined):
                self.product(eqn)
            else:
                self.emit(eqn)
        return self.program.replace(eqns=tuple(self.eqns), made_by="canonical_dot")

    def emit(self, eqn: Eqn) -> None:
        self.eqns.append(eqn)
        if eqn.prim in VIEWS:
            self.views[eqn.outputs[0]] = eqn

    def apply(self, like: Eqn, prim: object, x: Atom, aval: Aval, **params: object) -> Var:
        """A new equation where `like` stands."""
        out = Var(aval)
        self.emit(Eqn(prim, (x,), Params(params), (out,), like.loc, like.via))  # type: ignore[arg-type]
        return out

    def swapped(self, eqn: Eqn) -> Eqn | None:
        """permute(dot(a, b)) with the free axes exchanged -> dot(b, a)."""
        source = eqn.inputs[0]
        dot = self.defined.get(source) if isinstance(source, Var) else None
        if dot is None or dot.prim is not dot_general_p or self.uses[source] > 1:  # type: ignore[index]
            return None
        p = product_of(dot)
        (ca, cb), (ba, bb) = dot.params["contract"], dot.params["batch"]
        nb, na = len(ba), len(p.a_free)
        ndim = source.aval.ndim
        if eqn.params["axes"] != (*range(nb), *range(nb + na, ndim), *range(nb, nb + na)):
            return None
        params = Params(contract=(cb, ca), batch=(bb, ba))
        return dot._replace(inputs=dot.inputs[::-1], params=params, outputs=eqn.outputs)

    def product(self, eqn: Eqn) -> None:
        """Rewrite one product."""
        eqn = self.unrepeated(eqn)
        if product_of(eqn).k == 1:
            self.outer(eqn)
            return
        if wants_library(eqn, self.views):
            left, right, _ = library_operands(eqn, self.views)
            if left is None or right is None:
                eqn = self.in_order(eqn, left is None, right is None)
        self.emit(eqn)

    def outer(self, eqn: Eqn) -> None:
        """Nothing to sum: a product of broadcasts."""
        p = product_of(eqn)
        (out,) = eqn.outputs
        batch = len(eqn.params["batch"][0])
        spread = []
        for k, (x, free) in enumerate(zip(eqn.inputs, (p.a_free, p.b_free), strict=True)):
            lead = eqn.params["batch"][k]
            x = self.permuted(eqn, x, (*lead, *free, *eqn.params["contract"][k]))
            kept = tuple([x.aval.shape[i] for i in range(len(lead) + len(free))])
            if kept != x.aval.shape:
                x = self.apply(eqn, reshape_p, x, Aval(kept, x.aval.dtype), shape=kept)
            start = batch + (len(p.a_free) if k else 0)
            dims = (*range(batch), *range(start, start + len(free)))
            shape = out.aval.shape
            if kept != shape and shape:
                x = self.apply(eqn, BROADCAST, x, out.aval.strong(), shape=shape, dims=dims)
            spread.append(x)
        self.emit(eqn._replace(prim=mul_p, inputs=tuple(spread), params=Params()))

    def permuted(self, like: Eqn, x: Atom, axes: tuple[int, ...]) -> Atom:
        if axes == tuple(range(len(axes))):
            return x
        aval = Aval(tuple([x.aval.shape[a] for a in axes]), x.aval.dtype)
        return self.apply(like, PERMUTE, x, aval, axes=axes)

    def unrepeated(self, eqn: Eqn) -> Eqn:
        """A second operand that is one matrix for all of the batch is multiplied once."""
        a, b = eqn.inputs
        (ca, cb), (ba, bb) = eqn.params["contract"], eqn.params["batch"]
        spread = self.views.get(b) if isinstance(b, Var) else None
        if not bb or spread is None or spread.prim is not BROADCAST:
            return eqn
        dims = spread.params["dims"]
        p = product_of(eqn)
        if any(i in dims for i in bb) or any(i not in dims for i in (*cb, *p.b_free)):
            return eqn
        if list(ba + p.a_free) != sorted(ba + p.a_free):
            return eqn
        contract = (ca, tuple([dims.index(i) for i in cb]))
        params = Params(contract=contract, batch=((), ()))
        return eqn._replace(inputs=(a, spread.inputs[0]), params=params)

    def in_order(self, eqn: Eqn, left: bool, right: bool) -> Eqn:
        """Operands with batch axes first and the contracted ones last."""
        p = product_of(eqn)
        (ca, cb), (ba, bb) = eqn.params["contract"], eqn.params["batch"]
        a, b = eqn.inputs
        if left:
            a = self.permuted(eqn, a, (*ba, *p.a_free, *ca))
            ba, ca = _first_last(len(ba), len(p.a_free), len(ca))
        if right:
            b = self.permuted(eqn, b, (*bb, *p.b_free, *cb))
            bb, cb = _first_last(len(bb), len(p.b_free), len(cb))
        params = Params(contract=(ca, cb), batch=(ba, bb))
        return eqn._replace(inputs=(a, b), params=params)


def _first_last(batch: int, free: int, contract: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    start = batch + free
    return tuple(range(batch)), tuple(range(start, start + contract))
