"""L4. Linear functions: their transposes, and whether recorded equations are linear.

linear_transpose : (a -o b) -> (CT b -o CT a)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fgrad import tree
from fgrad.base.pickling import Recipe, with_recipe
from fgrad.base.source import resolve
from fgrad.errors import ArgumentError, MissingRuleError
from fgrad.ir.aval import Aval, aval_of
from fgrad.ir.primitive import Primitive
from fgrad.ir.program import Atom, Program
from fgrad.ir.traits import Holds
from fgrad.ops.families import zeros_like
from fgrad.trace import Builder, Value
from fgrad.tracing.device_tracing import lower
from fgrad.transforms.core.tape import Tape, pull
from fgrad.transforms.core.wrap import (
    as_value,
    check_callable,
    flatten,
    function_name,
    is_weak,
    named_like,
)
from fgrad.typing import EqnParams, PyTree


def check_linear(tape: Tape) -> str | None:
    """What is not linear on a tape: a sentence with the user's line, or None."""
    for record in tape.records:
        active = [type(x) is int and bool(tape.active[x]) for x in record.operands]
        if not any(active):
            continue  # nor are its results kept
        prim = record.prim
        lost = [prim.discrete and x.dtype.kind in "fc" for x in record.results]
        if _linear_results(prim, record.params, active, lost) is None:
            loc = resolve(record.loc)
            return f"{prim.name} at {loc}:  {loc.text()}"
    return None


Active = Sequence[bool]


def _linear_results(
    prim: Primitive, params: EqnParams, active: Active, lost: Sequence[bool]
) -> list[bool] | None:
    """Which results depend on the active operands; None if one does but not linearly.

    Arguments:
        lost: which results are discrete and floats.  Integers and truth values do not count: a
            function may be linear in pieces.
    """
    if prim.discrete:
        return None if any(lost) else [False] * len(lost)
    if prim.linear_in is None and prim.holds is not None:
        return _of_programs(prim, params, active)
    which = prim.linear_in(params) if callable(prim.linear_in) else prim.linear_in
    places = {k for k, a in enumerate(active) if a}
    if isinstance(which, tuple):
        linear = places <= set(which)
    else:
        linear = which == "all" or (which == "each" and len(places) == 1)
    return [True] * len(lost) if linear else None


def _of_programs(prim: Primitive, params: EqnParams, active: Active) -> list[bool] | None:
    """The results of what runs programs, of which all must be linear."""
    if prim.holds is Holds.CALL:
        return _of_program(params["program"], active)
    if prim.holds is Holds.BRANCHES:
        found = [_of_program(branch, active[1:]) for branch in params["branches"]]
        if any([outs is None for outs in found]):
            return None
        return [any(each) for each in zip(*found, strict=True)]  # type: ignore[arg-type]
    body: Program = params["body"]
    first = params.get("n_cond", 0)
    n_consts = params["n_consts"] if "n_consts" in params else params["n_body"]
    given = list(active[first:])
    n_carry = params.get("n_carry", len(body.outputs))
    while True:
        outs = _of_program(body, given)
        if outs is None:
            return None
        carry = [a or b for a, b in zip(given[n_consts:], outs[:n_carry], strict=False)]
        if carry == given[n_consts : n_consts + n_carry]:
            return carry + outs[n_carry:]
        given[n_consts : n_consts + n_carry] = carry


def _of_program(program: Program, active: Active) -> list[bool] | None:
    """Which results of a program depend on active inputs; None if one does but not linearly."""
    moving: set[Atom] = {v for v, a in zip(program.inputs, active, strict=True) if a}
    for eqn in program.eqns:
        given = [a in moving for a in eqn.inputs]
        if any(given):
            lost = [eqn.prim.discrete and v.aval.dtype.kind in "fc" for v in eqn.outputs]
            outs = _linear_results(eqn.prim, eqn.params, given, lost)
            if outs is None:
                return None
            moving.update([v for v, a in zip(eqn.outputs, outs, strict=True) if a])
    return [a in moving for a in program.outputs]


def linear_transpose(fun: Callable[..., PyTree], *primals: PyTree) -> Callable[[PyTree], PyTree]:
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

    def transposed(cotangent: PyTree) -> PyTree:
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

    made = named_like(transposed, fun, "linear_transpose")
    likenesses = [Aval(a.shape, a.dtype, is_weak(x)) for a, x in zip(avals, leaves, strict=True)]
    return with_recipe(
        made, Recipe(linear_transpose, (fun, *tree.unflatten(in_tree, likenesses)), {})
    )


def _aval(x: PyTree) -> Aval:
    if hasattr(x, "shape") and hasattr(x, "dtype"):
        return Aval(tuple(x.shape), x.dtype)
    return aval_of(as_value(x)).strong()


def _like(ct: object, aval: Aval) -> Value:
    value = as_value(ct, "a cotangent")
    if tuple(value.shape) != aval.shape:
        raise ArgumentError(
            f"linear_transpose: the cotangent has shape {value.shape}, the result {aval.shape}."
        )
    return value
