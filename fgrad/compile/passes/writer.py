"""L5. The equations that a pass puts in the place of one: a primitive at operands -> its result."""

from __future__ import annotations

from fgrad.ir.primitive import Primitive
from fgrad.ir.program import Atom, Eqn, Params, Var
from fgrad.ops import primitives as prims


class Writer:
    """The equations of a program so far; new ones stand where `like` stood."""

    def __init__(self) -> None:
        self.eqns: list[Eqn] = []
        self.like: Eqn | None = None

    def apply(self, prim: Primitive, *inputs: Atom, **params: object) -> Var:
        """The result of a new equation."""
        like = self.like
        assert like is not None
        out = Var(prim.type_of(*[x.aval for x in inputs], **params))
        self.eqns.append(Eqn(prim, inputs, Params(params), (out,), like.loc, like.via))
        return out

    def result(self, eqn: Eqn, x: Atom) -> None:
        """What has the elements of the result in order becomes the result."""
        (out,) = eqn.outputs
        params = Params({"shape": out.aval.shape})
        self.eqns.append(Eqn(prims.reshape, (x,), params, (out,), eqn.loc, eqn.via))
