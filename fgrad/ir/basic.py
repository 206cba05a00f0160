"""L1. The primitives that the IR and its traces write by themselves; `fgrad.ops` fills them in."""

from __future__ import annotations

from fgrad.ir.primitive import Primitive


class Basic:
    """A conversion, where a write keeps the dtype; a number that is repeated; axes in another
    order, where a result does not lie in C order."""

    __slots__ = ("broadcast", "convert", "permute")

    broadcast: Primitive
    convert: Primitive
    permute: Primitive


BASIC = Basic()
