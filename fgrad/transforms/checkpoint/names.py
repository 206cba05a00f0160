"""L4. Names of values, by which policies of checkpoints choose what is kept."""

from __future__ import annotations

from collections.abc import Sequence

from fgrad import tree
from fgrad.base.keywords import also_takes
from fgrad.ir import traits
from fgrad.ir.aval import Aval
from fgrad.ir.primitive import Primitive
from fgrad.trace import Value, bind
from fgrad.tracing.device_tracing import lower
from fgrad.transforms.core.wrap import as_value
from fgrad.typing import PyTree

NAME = Primitive("checkpoint_name", traits.passing(), params=("name",), linear_in="all")


@also_takes()
def checkpoint_name(x: PyTree, name: str) -> PyTree:
    """`x`, a tree of arrays, under a name that policies know.

    Example:
        >>> import numpy as np, fgrad
        >>> def f(x):
        ...     y = fgrad.checkpoint_name(np.exp(x), "y")
        ...     return np.sin(y)
        >>> keep = fgrad.checkpoint_policies.save_only_these_names("y")
        >>> float(fgrad.grad(fgrad.checkpoint(f, policy=keep))(0.0) / np.cos(1.0))
        1.0
    """

    def one(leaf: object) -> PyTree:
        return lower(bind(NAME, as_value(leaf), name=str(name)))

    return tree.map(one, x)


@NAME.type_rule
def _(x: Aval, name: str) -> Aval:
    return x.strong()


@NAME.evaluate
def _(x: Value, name: str) -> Value:
    return x


@NAME.jvp
def _(_primals: object, tangents: Sequence[Value | None], _out: object, name: str) -> Value | None:
    return None if tangents[0] is None else bind(NAME, tangents[0], name=name)


@NAME.transpose
def _(ct: Value, _wanted: object, _x: object, name: str) -> tuple[Value]:
    return (ct,)


@NAME.batch
def _(
    _size: int, operands: Sequence[Value], dims: Sequence[int | None], name: str
) -> tuple[Value, int | None]:
    return bind(NAME, *operands, name=name), dims[0]
