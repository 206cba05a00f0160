"""L4. Why a gradient is zero: the operations at which the dependence on the argument ends.

A direction is pushed through the recorded function.  It ends where an operation has no derivative
(a comparison, `floor`, a conversion to integers, `stop_gradient`) or where the derivative at these
values is zero (a branch that was not taken, a saturated `clip`, a factor 0).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fgrad import tree
from fgrad.base.keywords import also_takes
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.source import resolve
from fgrad.config import without_jit
from fgrad.errors import ArgumentError
from fgrad.ir.primitive import Refusal
from fgrad.ops.elementwise import convert_p, select_p, stop_gradient_p
from fgrad.trace import Builder, Tracer, Value, concrete
from fgrad.tracing.capturing import user_form
from fgrad.tracing.record import Record
from fgrad.transforms.core.wrap import as_value, function_name, is_weak
from fgrad.typing import PyTree


class Stop(NamedTuple):
    """An operation that lets nothing of a direction through: its name, your line, and why."""

    operation: str
    where: str
    why: str


class Explanation(NamedTuple):
    """For each leaf of the argument: whether its derivative is zero, and where it stops."""

    leaves: dict[str, tuple[bool, list[Stop]]]

    def __str__(self) -> str:
        lines: list[str] = []
        for path, (zero, stops) in self.leaves.items():
            lines.append(f"{path or 'argument'}: " + ("zero" if zero else "not zero"))
            if not zero:
                continue
            if not stops:
                lines.append("  the result does not use it")
            for stop in stops:
                lines.append(f"  {stop.operation:<14} {stop.where}")
                lines.append(f"  {'':<14} {stop.why}")
        return "\n".join(lines)


@also_takes()
def explain_zero(fun: Callable[..., PyTree], *args: PyTree) -> Explanation:
    """Why the derivative of `fun` in its first argument is zero, leaf by leaf.

    Arguments:
        fun: a function of pytrees of arrays.
        args: its arguments; their values matter.

    Returns:
        An explanation that prints as text.

    Raises:
        ArgumentError: if there are no arguments.

    Example:
        >>> import numpy as np, fgrad
        >>> print(fgrad.explain_zero(lambda x: np.sum(np.floor(x) * 2.0), np.array([0.5, 1.5])))
        ... # doctest: +ELLIPSIS
        argument: zero
          floor ...
                         it has discrete results, so its derivative is zero
    """
    if not args:
        raise ArgumentError(f"explain_zero: {function_name(fun)} is given no argument.")
    paths = tree.paths(args[0])
    leaves, treedef = tree.flatten(args[0])
    values = [as_value(x, "the argument") for x in leaves]
    builder = Builder("jvp", function_name(fun), eager=True, keeps=True)
    try:
        with without_jit.block(), builder.running, builder:
            inputs = [
                builder.input(v, weak=is_weak(x)) for v, x in zip(values, leaves, strict=True)
            ]
            out = user_form(fun)(tree.unflatten(treedef, inputs), *args[1:])
            reached = {
                x.index for x in tree.leaves(out) if type(x) is Tracer and x.builder is builder
            }
            numbers = [x.index for x in builder.inputs]
        found = {
            path: _follow(builder.records, number, value, reached)
            for path, number, value in zip(paths, numbers, values, strict=True)
        }
    finally:
        builder.release()
    return Explanation(found)


def _follow(
    records: list[Record], start: int, value: Value, outputs: set[int]
) -> tuple[bool, list[Stop]]:
    """Push a direction from one input; where it ends, if none of it arrives."""
    rng, value = np.random.default_rng(0), concrete(value)
    if np.asarray(value).dtype.kind not in "fc":
        return True, [Stop("argument", "", f"it has dtype {np.asarray(value).dtype}")]
    direction = rng.standard_normal((2, *np.shape(value)))
    complex_one = np.asarray(value).dtype.kind == "c"
    first = direction[0] + 1j * direction[1] if complex_one else direction[0]
    known: dict[int, Value] = {start: first.astype(value.dtype)[()]}
    depends = {start}
    stops: dict[int, Stop] = {}
    for record in records:
        outs = record[4]
        ins = [x for x in record[1] if type(x) is int]
        if not depends.intersection(ins):
            continue
        if not any([x in known for x in ins]):
            depends.update(outs)  # depends on what was stopped before
            continue
        tangents = _pushed(record, known)
        some = {k: t for k, t in zip(outs, tangents, strict=True) if t is not None and np.any(t)}
        known.update(some)
        depends.update(outs)
        if not some:
            stops[outs[0]] = _stop(record)
    zero = not any([k in known for k in outputs])
    needed = _needed(records, outputs)
    return zero, [stop for k, stop in stops.items() if k in needed] if zero else []


def _pushed(record: Record, known: dict[int, Value]) -> list[Value | None]:
    prim, operands, values, params, outs, results, _, _ = record
    rule = prim.rules.get("jvp")
    if rule is None or isinstance(rule, Refusal):
        return [None] * len(outs)
    plain = [concrete(v) for v in values]
    tangents = [known.get(x) if type(x) is int else None for x in operands]
    with np.errstate(all="ignore"):
        given = [concrete(r) for r in results]
        params = {k: v for k, v in params.items() if k != "saved"}
        made = rule(plain, tangents, given if prim.multiple else given[0], **params)
    return list(made) if prim.multiple else [made]


def _stop(record: Record) -> Stop:
    prim, loc = record[0], resolve(record[6])
    rule = prim.rules.get("jvp")
    if prim is stop_gradient_p:
        why = "you asked for it"
    elif isinstance(rule, Refusal):
        why = f"it {rule.why}"
    elif prim is convert_p:
        why = f"it makes {record[3]['dtype']} of floats, whose derivative is zero"
    elif prim is select_p:
        why = "the other branch was taken, for every element"
    else:
        why = "its derivative at these values is zero" + _shown(record)
    return Stop(prim.name, f"{loc}:  {loc.text()}", why)


def _shown(record: Record) -> str:
    values = [np.asarray(concrete(v)) for v in record[2]]
    small = [np.array2string(v, threshold=4, precision=4) for v in values if v.size]
    return f", where its operands are {', '.join(small)}" if small else ""


def _needed(records: list[Record], outputs: set[int]) -> set[int]:
    """What the outputs depend on."""
    needed = set(outputs)
    for record in reversed(records):
        if needed.intersection(record[4]):
            needed.update([x for x in record[1] if type(x) is int])
            needed.update(record[4])
    return needed
