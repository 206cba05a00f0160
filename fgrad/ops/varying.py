"""L3. Which values vary over named axes: found where equations are recorded.

    mul x{data} w       becomes       v = pvary[axis=data] w;  mul x{data} v{data}

Operands of an equation vary over the same axes: those that do not are made to by `pvary`, whose
transpose is `psum`, so the gradient by w is summed along the axis without anybody's doing.
Programs that an equation holds are typed by its operands; what varies in a carry of a loop is a
fixed point.  Where the choice of a branch or the end of a loop varies, so do all of its operands,
and no collective over that axis may stand in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fgrad.errors import VaryingError
from fgrad.ir.aval import NO_AXES, Aval, Axes, varying
from fgrad.ir.primitive import Primitive
from fgrad.ir.program import Program
from fgrad.ir.traits import Across
from fgrad.ops.collectives import pvary, pvary_p
from fgrad.ops.control import scan_p, switch_p, while_p
from fgrad.ops.families import FLOATS
from fgrad.trace import Builder, Tracer, Value, innermost, run, trace
from fgrad.tracing.axes import (
    aligned as aligned_hook,
)
from fgrad.tracing.axes import (
    bind_over_axes as bind_hook,
)
from fgrad.tracing.axes import (
    home,
    joined_over,
    used_axes,
    varies,
)
from fgrad.tracing.axes import (
    typed as typed_hook,
)
from fgrad.tracing.thread_state import THREAD
from fgrad.typing import PyTree

Operands = Sequence[Any]
Params = dict[str, Any]


def spread(x: Value, axes: Axes) -> Value:
    """A value as one that varies over some axes too."""
    for name in sorted(axes - varies(x)):
        x = pvary(x, name) if type(x) is not Tracer else _spread_once(x, name)
    return x


def _spread_once(x: Tracer, name: str) -> Value:
    """`pvary` of a value, one equation for all of its uses in a trace."""
    builder, key = x.builder, (x.index, name)
    known = builder.varied.get(key)
    if known is None:
        found = pvary(x, name)
        if type(found) is not Tracer or found.builder is not builder:
            return found
        builder.varied[key] = known = found
    return known.handle()  # who gets it may write into it


# --- equations


def bind_over_axes(prim: Primitive, operands: Operands, params: Params) -> PyTree:
    """`bind` of a primitive that may be over a named axis, or hold a program that is."""
    if prim is pvary_p and params["axis"] in varies(operands[0]):
        return operands[0]
    owners = [x.builder for x in operands if type(x) is Tracer]
    builder = max(owners, key=lambda b: b.level) if owners else None
    builder = home(builder, innermost(), used_axes(prim, params))
    if builder is None:
        builder = None if operands else innermost()
        if builder is None or builder.eager:
            return prim.evaluate_rule(*operands, **params)
    return builder.record(prim, operands, params)


bind_hook.provide(bind_over_axes)


def aligned(
    builder: Builder, prim: Primitive, operands: Operands, params: Params
) -> tuple[Operands, Params, bool]:
    """The operands and parameters of an equation, all typed alike, and whether it is evaluated if
    its operands are known: what depends on the trace's own axis is not."""
    known = builder.eager
    if known and prim.meets_axes:
        own = [axis.name for axis in builder.axes if axis.builder is builder]
        known = used_axes(prim, params).isdisjoint(own)
    if prim.holds is not None:
        operands, params = _aligned_holder(prim, operands, params)
    elif prim.across is not None:
        if prim is not pvary_p:
            operands = [spread(x, frozenset([params["axis"]])) for x in operands]
    elif not _passes(prim):
        operands = _alike(operands)
    return operands, params, known


aligned_hook.provide(aligned)


def _passes(prim: Primitive) -> bool:
    """Whether each result is an operand, whatever the others are."""
    return prim.multiple and prim.movement is not None


def _alike(operands: Operands) -> Operands:
    sets = [varies(x) for x in operands]
    union = NO_AXES.union(*sets)
    if all([s == union for s in sets]):
        return operands
    return [
        spread(x, union) if s != union and type(x) is Tracer and x.dtype.kind in FLOATS else x
        for x, s in zip(operands, sets, strict=True)
    ]


def typed(prim: Primitive, avals: Sequence[Aval], params: Params) -> PyTree:
    """The avals of unknown results, with the axes over which they vary."""
    result = prim.type_of(*avals, **params)
    if prim.holds is not None:
        return result  # its programs are typed
    sets = [aval.varies for aval in avals]
    axes = NO_AXES.union(*sets)
    if prim.across is not None:
        name = params["axis"]
        axes = axes - {name} if prim.across is Across.SAME else axes | {name}
    if _passes(prim):
        return tuple([varying(aval, own) for aval, own in zip(result, sets, strict=True)])
    if prim.multiple:
        return tuple([varying(aval, axes) for aval in result])
    return varying(result, axes)


typed_hook.provide(typed)


# --- programs


def types_of(program: Program) -> tuple[Axes, ...]:
    """Over which axes the inputs of a program vary."""
    return tuple([x.aval.varies for x in program.inputs])


def results_of(program: Program) -> tuple[Axes, ...]:
    """Over which axes its results vary."""
    return tuple([x.aval.varies for x in program.outputs])


def retyped(program: Program, ins: Sequence[Axes], outs: Sequence[Axes] | None = None) -> Program:
    """The program for inputs that vary over more axes, whose first results vary over `outs`."""
    outs = () if outs is None else tuple(outs)
    same = tuple(ins) == types_of(program)
    if same and results_of(program)[: len(outs)] == outs:
        return program

    def again(*values: Value) -> list[Value]:
        results = run(program, values)
        wide = [spread(y, axes) for y, axes in zip(results, outs, strict=False)]
        return [*wide, *results[len(wide) :]]

    avals = [varying(x.aval.strong(), axes) for x, axes in zip(program.inputs, ins, strict=True)]
    made = program.made_by
    key = ("varying", tuple(ins), outs)
    return program.derived(key, lambda: trace(again, avals, program.name, made).program)


def _joined(operands: Operands, program: Program) -> list[Axes]:
    """Over which axes operands vary, or the program takes them to."""
    return [varies(x) | axes for x, axes in zip(operands, types_of(program), strict=True)]


def _all_spread(operands: Operands, axes: Sequence[Axes]) -> list[Any]:
    return [spread(x, a) if type(x) is Tracer else x for x, a in zip(operands, axes, strict=True)]


def _aligned_holder(prim: Primitive, operands: Operands, params: Params) -> tuple[Operands, Params]:
    rule = _RULES.get(prim)
    if rule is not None:
        return rule(operands, params)
    program = params.get("program")
    if not isinstance(program, Program):
        return operands, params
    ins = _joined(operands, program)
    return _all_spread(operands, ins), {**params, "program": retyped(program, ins)}


def _aligned_scan(operands: Operands, params: Params) -> tuple[Operands, Params]:
    body, first = params["body"], params["n_consts"]
    stop = first + params["n_carry"]
    ins = _joined(operands, body)
    while True:
        carry = ins[first:stop]
        outs = results_of(retyped(body, ins))
        wide = [a | b for a, b in zip(carry, outs, strict=False)]
        if wide == carry:
            break
        ins[first:stop] = wide
    return _all_spread(operands, ins), {**params, "body": retyped(body, ins, carry)}


def _aligned_while(operands: Operands, params: Params) -> tuple[Operands, Params]:
    cond, body, n = params["cond"], params["body"], params["n_cond"]
    first = n + params["n_body"]
    tests = _joined([*operands[:n], *operands[first:]], cond)
    ins = _joined(operands[n:], body)
    n_body = first - n
    while True:
        carry = [a | b for a, b in zip(ins[n_body:], tests[n:], strict=True)]
        tests[n:], ins[n_body:] = carry, carry
        (ends,) = results_of(retyped(cond, tests))
        tests, ins = [a | ends for a in tests], [a | ends for a in ins]
        outs = results_of(retyped(body, ins))
        wide = [a | b for a, b in zip(ins[n_body:], outs, strict=True)]
        if wide == carry:
            break
        ins[n_body:] = wide
    _refuse_collectives("the condition of a while loop", (cond, body), ends)
    typed_body = retyped(body, ins, carry)
    operands = _all_spread(operands, [*tests[:n], *ins])
    return operands, {**params, "cond": retyped(cond, tests), "body": typed_body}


def _aligned_switch(operands: Operands, params: Params) -> tuple[Operands, Params]:
    branches: tuple[Program, ...] = params["branches"]
    index, *rest = operands
    choice = varies(index)
    types = [_joined(rest, branch) for branch in branches]
    ins = [choice.union(*column) for column in zip(*types, strict=True)]
    found = [results_of(retyped(branch, ins)) for branch in branches]
    outs = [choice.union(*column) for column in zip(*found, strict=True)]
    _refuse_collectives("the choice of a branch", branches, choice)
    made = tuple([retyped(branch, ins, outs) for branch in branches])
    return [index, *_all_spread(rest, ins)], {**params, "branches": made}


Rule = Callable[[Operands, Params], tuple[Operands, Params]]
_RULES: dict[Primitive, Rule] = {
    scan_p: _aligned_scan,
    while_p: _aligned_while,
    switch_p: _aligned_switch,
}


def _refuse_collectives(what: str, programs: Sequence[Program], axes: Axes) -> None:
    """Refuse collectives where some places along the axis would not come to them."""
    for program in programs:
        name = joined_over(program, axes) if axes else None
        if name is not None:
            raise VaryingError(
                f"{what[0].upper()}{what[1:]} varies over an axis that a {name} in it is over.",
                (
                    ("axes", ", ".join(map(repr, sorted(axes)))),
                    ("why", "not all places along the axis would take part in it: ranks would"),
                    ("why", "wait for each other for ever."),
                    ("write", f"the {name} before or after, where all come to it"),
                    ("write", "lax.pmax(condition, axis)    one decision for all of them"),
                ),
            )


# --- results that are refused


def refuse_ambiguous(result: Value, by: Sequence[Value], names: Callable[[], Sequence[str]],
                     what: str) -> None:  # fmt: skip
    """Refuse the gradient of a value that varies by one that does not.

    Raises:
        VaryingError: it could mean the sum along the axis, or the gradient at each place.
    """
    axes = varies(result)
    if not axes:
        return
    for k, x in enumerate(by):
        missing = sorted(axes - varies(x))
        if not missing:
            continue
        name, leaf = missing[0], names()[k]
        _raise_or_note(
            VaryingError(
                f"{what} of a value that varies over {name!r}, by {leaf}, which does not.",
                (
                    (
                        "why",
                        f"each place along {name!r} has a value of its own, but {leaf} is one.",
                    ),
                    (
                        "write",
                        f"return lax.pmean(loss, {name!r})    the gradient of the mean",
                    ),
                    (
                        "write",
                        f"return lax.psum(loss, {name!r})     the gradient of the sum",
                    ),
                    (
                        "write",
                        f"{leaf} = lax.pvary({leaf}, {name!r})      before: a gradient at each",
                    ),
                ),
            )
        )


def require_varying(x: Value, name: str, what: str) -> None:
    """Refuse a collective that multiplies a value that is the same along its axis.

    Raises:
        VaryingError: `x` does not vary over the axis.
    """
    if type(x) is not Tracer or name in varies(x):
        return
    _raise_or_note(
        VaryingError(
            f"lax.{what} over {name!r} of a value that is the same everywhere along it.",
            (
                ("why", f"it does not depend on what is mapped over {name!r}, so the sum would be"),
                (
                    "why",
                    "axis_size times the value.  A gradient by what does not vary is summed over",
                ),
                ("why", "the axis already."),
                ("write", "x                               where the value itself is meant"),
                ("write", f"x * lax.axis_size({name!r})       where the multiple is meant"),
            ),
        )
    )


def _raise_or_note(error: VaryingError) -> None:
    """Raise; in a loop whose carries have not found their types yet, note it."""
    unsettled = THREAD.state.unsettled
    if unsettled is None:
        raise error
    unsettled.append(error)
