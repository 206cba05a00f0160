"""L4. Linear functions: their transposes, and whether recorded equations are linear.

linear_transpose : (a -o b) -> (CT b -o CT a)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fgrad import tree
from fgrad.errors import ArgumentError, MissingRuleError
from fgrad.ir.aval import Aval, aval_of
from fgrad.lifted import lower
from fgrad.ops.families import zeros_like
from fgrad.record import Record
from fgrad.source import resolve
from fgrad.trace import Builder, Value
from fgrad.transforms.tape import Tape, pull
from fgrad.transforms.wrap import (
    as_value,
    check_callable,
    flatten,
    function_name,
    is_weak,
    named_like,
)


def check_linear(tape: Tape) -> str | None:
    """What is not linear on a tape: a sentence with the user's line, or None."""
    for record in tape.records:
        active = [k for k, x in enumerate(record.operands) if type(x) is int and tape.active[x]]
        if not active:
            continue
        lost = record.prim.discrete and any([x.dtype.kind in "fc" for x in record.results])
        if lost or not (record.prim.discrete or _is_linear(record, active)):
            loc = resolve(record.loc)
            return f"{record.prim.name} at {loc}:  {loc.text()}"
    return None


def _is_linear(record: Record, active: list[int]) -> bool:
    which = record.prim.linear_in
    if which is None:
        return record.prim.holds is not None
    if callable(which):
        which = which(record.params)
    if isinstance(which, tuple):
        return set(active) <= set(which)
    return which == "all" or (which == "each" and len(active) == 1)


def linear_transpose(fun: Callable[..., Any], *primals: Any) -> Callable[[Any], Any]:
    """The transpose of a linear function: `<ct, fun(x)> == <fun_t(ct), x>`.

    Arguments:
        fun: a linear function of pytrees of arrays.
        primals: its arguments, or anything with their `shape` and `dtype`; values do not matter.

    Returns:
        A function of a cotangent of the result; it returns a tuple with one for each argument.

    Raises:
        MissingRuleError: if `fun` is not linear; the card names the line.

    Example:
        >>> import numpy as np, fgrad
        >>> a = np.array([[1.0, 2.0], [3.0, 4.0]])
        >>> fgrad.linear_transpose(lambda x: a @ x, np.zeros(2))(np.array([1.0, 0.0]))
        (array([1., 2.]),)
    """
    check_callable(fun, "linear_transpose")
    leaves, in_tree = tree.flatten(tuple(primals))
    avals = [_aval(x) for x in leaves]
    name = function_name(fun)

    def transposed(cotangent: Any) -> Any:
        builder = Builder("transpose", name, eager=True)
        with builder.running, builder:
            inputs = [
                builder.input(None, a, is_weak(x)) for a, x in zip(avals, leaves, strict=True)
            ]
            out_leaves, out_tree = flatten(fun(*tree.unflatten(in_tree, inputs)))
            outs = [builder.lift(as_value(x, f"a result of {name}")) for x in out_leaves]
            tape = Tape(builder, outs)
        builder.release()
        problem = check_linear(tape)
        if problem is not None:
            raise MissingRuleError(f"{name} is not linear, so it has no transpose: {problem}.")
        cts, ct_tree = flatten(cotangent)
        if ct_tree != out_tree:
            raise ArgumentError(
                f"linear_transpose: the cotangent has structure {ct_tree}, the result {out_tree}."
            )
        pulled = pull(tape, [_like(ct, aval_of(y)) for ct, y in zip(cts, outs, strict=True)])
        found = [zeros_like(a) if ct is None else ct for ct, a in zip(pulled, avals, strict=True)]
        return tree.unflatten(in_tree, map(lower, found))

    return named_like(transposed, fun, "linear_transpose")


def _aval(x: Any) -> Aval:
    if hasattr(x, "shape") and hasattr(x, "dtype"):
        return Aval(tuple(x.shape), x.dtype)
    return aval_of(as_value(x)).strong()


def _like(ct: Any, aval: Aval) -> Value:
    value = as_value(ct, "a cotangent")
    if tuple(value.shape) != aval.shape:
        raise ArgumentError(
            f"linear_transpose: the cotangent has shape {value.shape}, the result {aval.shape}."
        )
    return value
