"""L4. Linear functions: their transposes, and whether recorded equations are linear.

linear_transpose : (a -o b) -> (CT b -o CT a)
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from fgrad import tree
from fgrad.base.keywords import also_takes
from fgrad.base.kinds import is_any
from fgrad.base.pickling import Recipe, with_recipe
from fgrad.base.source import resolve
from fgrad.errors import ArgumentError, MissingRuleError
from fgrad.ir.aval import Aval, aval_of
from fgrad.ir.primitive import Primitive
from fgrad.ir.program import Atom, Lit, Program
from fgrad.ir.traits import Holds
from fgrad.ops.families import zeros_like
from fgrad.trace import Builder, Tracer, Value
from fgrad.tracing.capturing import user_form
from fgrad.tracing.device_tracing import lower
from fgrad.tracing.record import maker_of
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


class Part(enum.Enum):
    """What a value is to a function that should be linear."""

    ZERO = "zero"
    CONSTANT = "constant"  # independent of the arguments, and not known to be 0
    LINEAR = "linear"


ZERO, CONSTANT, LINEAR = Part
_DEEPEST = 16  # how many equations of an enclosing trace are followed back to show a zero


def check_linear(tape: Tape) -> str | None:
    """Why a tape is not linear: a sentence with the user's line, or None.

    A sum of a linear part and a constant is refused as well: the transpose would lose the constant.
    """
    return _parts_of(tape)[1]


def _parts_of(tape: Tape) -> tuple[dict[int, Part], str | None]:
    """What the values of a tape are, and why it is not linear, as `check_linear` says."""
    parts = dict.fromkeys(tape.inputs, LINEAR)
    for record in tape.records:
        given = [_part_of(x, v, parts) for x, v in zip(record.operands, record.values, strict=True)]
        prim = record.prim
        lost = [prim.discrete and (x is None or x.dtype.kind in "fc") for x in record.results]
        found = _part_of_results(prim, record.params, given, any(lost), len(record.outs))
        if found is None:
            loc = resolve(record.loc)
            homogeneous = [ZERO if part is CONSTANT else part for part in given]
            sums = _part_of_results(prim, record.params, homogeneous, any(lost), len(record.outs))
            affine = sums is not None
            which = f"{prim.name} with a constant that is not 0" if affine else prim.name
            return parts, f"{which} at {loc}:  {loc.text()}"
        parts.update(zip(record.outs, found, strict=True))
    for k, x in enumerate(tape.outputs):
        if x is not None and parts.get(x, CONSTANT) is CONSTANT:
            return parts, f"result {k} is a constant that is not known to be 0"
    return parts, None


def _lacks_constants(tape: Tape, parts: Mapping[int, Part]) -> bool:
    """Whether an equation takes a constant that another one makes beside linear results, such as
    the places where a loop leaves a tangent: it has no value where the inputs have none."""
    for record in tape.records:
        for operand, value in zip(record.operands, record.values, strict=True):
            if type(value) is Aval and parts.get(operand, CONSTANT) is CONSTANT:  # type: ignore[arg-type]
                return True
    return False


def _part_of(operand: object, value: object, parts: dict[int, Part]) -> Part:
    """What an operand of a record is; `value` is its value, as far as it is known."""
    if type(operand) is not int:
        return _of_constant(operand)
    found = parts.get(operand, CONSTANT)
    return _of_constant(value) if found is CONSTANT else found


def _of_constant(x: PyTree, depth: int = 0) -> Part:
    """ZERO if a value of an enclosing trace is 0 by its value or equation; else CONSTANT."""
    while type(x) is Tracer and x.value is not None:
        x = x.value
    if type(x) is Tracer:
        return _of_index(x.builder, x.index, depth)
    known = is_any(x, (np.ndarray, np.generic, bool, int, float, complex))
    return ZERO if known and not np.any(x) else CONSTANT


def _of_index(builder: Builder, index: int, depth: int) -> Part:
    """ZERO if a value of a trace is 0 by the equations that made it; else CONSTANT."""
    for _, value, inner, _ in builder.captures.values():
        if inner.index == index:
            return _of_constant(value, depth)
    made = maker_of(builder.records, index)
    if made is None or depth == _DEEPEST or made.prim.holds is not None:
        return CONSTANT
    given = [
        _of_index(builder, x, depth + 1) if type(x) is int else _of_constant(x, depth + 1)
        for x in made.operands
    ]
    found = _part_of_results(made.prim, made.params, given, False, 1)
    return CONSTANT if found is None else found[0]


def _part_of_results(
    prim: Primitive, params: EqnParams, given: Sequence[Part], lost: bool, count: int
) -> list[Part] | None:
    """What the results of an equation are, for operands that are `given`; None if a result depends
    on linear operands, but not linearly.

    Arguments:
        lost: whether a float result is discrete, so that a dependence is lost.  Integers and bools
            do not count: a function may be piecewise linear.
        count: the number of results.
    """
    if prim.discrete:
        return None if lost and LINEAR in given else [CONSTANT] * count
    if prim.linear_in is None and prim.holds is not None:
        return _of_programs(prim, params, given, count)
    which = prim.linear_in(params) if callable(prim.linear_in) else prim.linear_in
    places: Sequence[int] = () if which is None or isinstance(which, str) else which
    if which in ("all", "each"):
        places = range(len(given))
    if any([part is LINEAR and k not in places for k, part in enumerate(given)]):
        return None
    summed = [given[k] for k in places]
    if prim.movement is not None and prim.movement.fills:
        summed.append(_of_constant(params.get("value", 0)))
    if which != "each":
        found = _joined(summed) if summed else CONSTANT
    elif summed.count(LINEAR) > 1:
        found = None
    else:
        found = ZERO if ZERO in summed else LINEAR if LINEAR in summed else CONSTANT
    return None if found is None else [found] * count


def _joined(parts: Sequence[Part]) -> Part | None:
    """A sum of parts, or a choice among them; None if it is affine: linear plus a constant."""
    if LINEAR in parts:
        return None if CONSTANT in parts else LINEAR
    return CONSTANT if CONSTANT in parts else ZERO


def _of_programs(
    prim: Primitive, params: EqnParams, given: Sequence[Part], count: int
) -> list[Part] | None:
    """What the results of a call, a choice or a loop are; None if one is not linear."""
    if LINEAR not in given:
        return [CONSTANT] * count
    if prim.holds is Holds.CALL:
        return _of_program(params["program"], given)
    if prim.holds is Holds.BRANCHES:
        return _of_branches(params["branches"], given)
    body: Program = params["body"]
    first = params.get("n_cond", 0)
    n_consts = params["n_consts"] if "n_consts" in params else params["n_body"]
    # The parts of the carry grow until an iteration leaves them as they are.
    now = list(given[first:])
    end = n_consts + params.get("n_carry", len(body.outputs))
    while True:
        outs = _of_program(body, now)
        if outs is None:
            return None
        carry = [_joined(pair) for pair in zip(now[n_consts:end], outs, strict=False)]
        if None in carry:
            return None
        if carry == now[n_consts:end]:
            return [*now[n_consts:end], *outs[end - n_consts :]]
        now[n_consts:end] = [part for part in carry if part is not None]


def _of_branches(branches: Sequence[Program], given: Sequence[Part]) -> list[Part] | None:
    results: list[list[Part]] = []
    for branch in branches:
        found = _of_program(branch, given[1:])
        if found is None:
            return None
        results.append(found)
    joined = [_joined(each) for each in zip(*results, strict=True)]
    return None if None in joined else [part for part in joined if part is not None]


def _of_program(program: Program, given: Sequence[Part]) -> list[Part] | None:
    """What the results of a program are, for inputs that are `given`; None if one is not linear."""
    parts: dict[Atom, Part] = dict(zip(program.inputs, given, strict=True))

    def part(x: Atom) -> Part:
        return _of_constant(x.value) if isinstance(x, Lit) else parts.get(x, CONSTANT)

    for eqn in program.eqns:
        lost = eqn.prim.discrete and any([v.aval.dtype.kind in "fc" for v in eqn.outputs])
        operands = [part(x) for x in eqn.inputs]
        found = _part_of_results(eqn.prim, eqn.params, operands, lost, len(eqn.outputs))
        if found is None:
            return None
        parts.update(zip(eqn.outputs, found, strict=True))
    return [part(x) for x in program.outputs]


@also_takes(reduce_axes=())
def linear_transpose(fun: Callable[..., PyTree], *primals: PyTree) -> Callable[[PyTree], PyTree]:
    """The transpose of a linear function: `<ct, fun(x)> == <fun_t(ct), x>`.

    Arguments:
        fun: a linear function of pytrees of arrays.
        primals: its arguments, or anything with their `shape` and `dtype`; values do not matter.

    Returns:
        A function of a cotangent of the result; it returns a tuple with one for each argument.

    Raises:
        MissingRuleError: if `fun` is not linear, or affine; the card names the line.
        ArgumentError: if a cotangent has another structure or shape than the result.

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

    def recorded(values: Sequence[Value | None]) -> tuple[Tape, list[Value], tree.TreeDef]:
        builder = Builder("transpose", name, eager=True)
        with builder.running, builder:
            inputs = [
                builder.input(v, None if v is not None else a, is_weak(x))
                for v, a, x in zip(values, avals, leaves, strict=True)
            ]
            out_leaves, out_tree = flatten(user_form(fun)(*tree.unflatten(in_tree, inputs)))
            outs = [builder.lift(as_value(x, f"a result of {name}")) for x in out_leaves]
            tape = Tape(builder, outs, exact=True)  # arrays made inside have no cotangents
        builder.release()
        return tape, outs, out_tree

    def transposed(cotangent: PyTree) -> PyTree:
        tape, outs, out_tree = recorded([None] * len(avals))
        parts, problem = _parts_of(tape)
        if problem is None and _lacks_constants(tape, parts):  # they are the same at 0
            tape, outs, out_tree = recorded([zeros_like(a) for a in avals])
        if any([type(x) is not Tracer and _of_constant(x) is CONSTANT for x in outs]):
            problem = "a result is a constant that is not 0"
        if problem is not None:
            raise MissingRuleError(f"{name} is not linear, so it has no transpose: {problem}.")
        cts, ct_tree = flatten(cotangent)
        if ct_tree != out_tree:
            raise ArgumentError(
                f"linear_transpose: the cotangent has structure {ct_tree}, the result {out_tree}."
            )
        pulled = pull(tape, [_cotangent(ct, aval_of(y)) for ct, y in zip(cts, outs, strict=True)])
        found = [zeros_like(a) if ct is None else ct for ct, a in zip(pulled, avals, strict=True)]
        return tree.unflatten(in_tree, map(lower, found))

    made = named_like(transposed, fun, "linear_transpose")
    examples = [a.like(a.shape, is_weak(x)) for a, x in zip(avals, leaves, strict=True)]
    return with_recipe(
        made, Recipe(linear_transpose, (fun, *tree.unflatten(in_tree, examples)), {})
    )


def _aval(x: PyTree) -> Aval:
    if isinstance(x, (Aval, Tracer)):
        return aval_of(x).strong()
    if hasattr(x, "shape") and hasattr(x, "dtype"):
        return Aval(tuple(x.shape), x.dtype)
    return aval_of(as_value(x)).strong()


def _cotangent(ct: object, aval: Aval) -> Value:
    """The user's cotangent of a result, as an array of its shape."""
    value = as_value(ct, "a cotangent")
    if tuple(value.shape) != aval.shape:
        raise ArgumentError(
            f"linear_transpose: the cotangent has shape {value.shape}, the result {aval.shape}."
        )
    return value
