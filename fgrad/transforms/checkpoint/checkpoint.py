"""L4. Checkpoints: residuals are dropped, and computed again when reverse derivatives need them.

    checkpoint : (a -> b) -> a -> b

    y = checkpoint[program=P] x        P's results, and values that a policy saves
    pullback      x', ct' = barrier x, ct;  P is run again at x', and pulled back along ct'

The barrier keeps the compiler from finding that P runs twice.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import overload

from fgrad import tree
from fgrad.base.keywords import also_takes
from fgrad.base.pickling import pickles_as_call
from fgrad.base.source import here
from fgrad.errors import ArgumentError
from fgrad.ir import traits
from fgrad.ir.aval import Aval, aval_of
from fgrad.ir.primitive import Primitive
from fgrad.ir.program import Atom, Eqn, Lit, Program
from fgrad.ir.traits import Holds
from fgrad.ops.selected import Selected, Tangent, alike, plain
from fgrad.trace import Builder, Tracer, Value, bind, innermost, run
from fgrad.tracing.capturing import user_form
from fgrad.tracing.device_tracing import lower, lowered
from fgrad.tracing.record import Record
from fgrad.tracing.thread_state import THREAD
from fgrad.transforms.checkpoint.body import Body, Ran, append, run_body, takes_body
from fgrad.transforms.control.common import known_values, some
from fgrad.transforms.core.arguments import refuse_edits, watched
from fgrad.transforms.core.derived_programs import batched_program, push_program, zeros_of
from fgrad.transforms.core.outer_context import Call, trace_beneath
from fgrad.transforms.core.tape import Tape, pull_selected
from fgrad.transforms.core.wrap import (
    as_value,
    check_callable,
    function_name,
    is_weak,
    named_like,
)
from fgrad.typing import EqnParams, P, PyTree, R

Values = Sequence[Value]
Policy = Callable[..., bool]

checkpoint_p = Primitive(
    "checkpoint", traits.holding(Holds.CALL), params=("program", "policy"), multiple=True
)
barrier_p = Primitive("barrier", traits.passing(), multiple=True)


class Saving(Call):
    """A policy, and the number of results before the values that it saves."""

    def __init__(self, policy: Policy | None, count: int, prevent_cse: bool) -> None:
        self.policy, self.count, self.prevent_cse = policy, count, prevent_cse


@overload
def checkpoint(
    fun: Callable[P, R],
    *,
    policy: Policy | None = ...,
    prevent_cse: bool = ...,
    static_argnums: int | Sequence[int] = ...,
) -> Callable[P, R]: ...
@overload
def checkpoint(
    fun: None = None,
    *,
    policy: Policy | None = ...,
    prevent_cse: bool = ...,
    static_argnums: int | Sequence[int] = ...,
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
@pickles_as_call
@also_takes(static_argnames=(), concrete=None)
def checkpoint(
    fun: Callable[..., PyTree] | None = None,
    *,
    policy: Policy | None = None,
    prevent_cse: bool = True,
    static_argnums: int | Sequence[int] = (),
) -> PyTree:
    """A function whose intermediate values are not kept for derivatives in reverse, but computed
    again: less memory for more time.

    Arguments:
        fun: a function of pytrees of arrays.
        policy: which values are kept all the same, see `fgrad.checkpoint_policies`; None keeps
            the arguments alone.
        prevent_cse: whether compiled code must compute again; without it, the compiler may find
            that it has the values already.
        static_argnums: positions of arguments that are settings.

    Returns:
        A function with the same results and derivatives.

    Raises:
        ArgumentError: if `policy` is no function.

    Example:
        >>> import numpy as np, fgrad
        >>> f = fgrad.checkpoint(lambda x: np.sin(np.sin(x)))
        >>> fgrad.grad(f)(0.0)
        np.float64(1.0)
    """
    if fun is None:
        return functools.partial(
            checkpoint, policy=policy, prevent_cse=prevent_cse, static_argnums=static_argnums
        )
    check_callable(fun, "checkpoint")
    if policy is not None and not callable(policy):
        raise ArgumentError(f"checkpoint: a policy is a function, not {type(policy).__name__}.")
    nums = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
    name = function_name(fun)

    def checkpointed(*args: PyTree, **kwargs: PyTree) -> PyTree:
        statics = {k % len(args): args[k] for k in nums if -len(args) <= k < len(args)}
        rest = tuple([None if k in statics else x for k, x in enumerate(args)])
        leaves, in_tree = tree.flatten((rest, kwargs))
        values = [as_value(x, f"an argument of {name}") for x in leaves]

        def flat(*inputs: Value) -> PyTree:
            given, keywords = tree.unflatten(in_tree, inputs)
            watch = watched([*given, keywords])
            inner = user_form(fun)
            out = inner(*[statics.get(k, x) for k, x in enumerate(given)], **keywords)
            refuse_edits(f"checkpoint({name})", watch, out)
            return out

        builder = innermost()
        if builder is None:
            return fun(*args, **kwargs)
        if policy is None and takes_body(builder, values):
            ran = run_body(flat, leaves, name, builder)
            return tree.unflatten(ran.treedef, map(lower, _of_body(ran, prevent_cse)))
        weak = [is_weak(x) for x in leaves]
        outs, out_tree = checkpoint_values(flat, values, weak, name, policy, prevent_cse)
        return tree.unflatten(out_tree, map(lower, outs))

    return named_like(checkpointed, fun, "checkpoint")


def checkpoint_values(
    flat: Callable[..., PyTree],
    values: Values,
    weak: Sequence[bool],
    name: str,
    policy: Policy | None,
    prevent_cse: bool,
) -> tuple[list[Value], tree.TreeDef]:
    """The results of a function of flat values, as one equation of the present trace."""

    def saved(builder: Builder) -> list[Tracer]:
        return [] if policy is None else _chosen(builder, policy)

    traced = trace_beneath(flat, values, name, "checkpoint", weak, extra=saved)
    program, count = traced.program, traced.treedef.num_leaves
    operands = [*traced.captured, *values]
    saving = Saving(policy, count, prevent_cse)
    outs = saving.bound(traced.results, checkpoint_p, operands, program=program, policy=saving)
    return outs[:count], traced.treedef


def _of_body(ran: Ran, prevent_cse: bool) -> list[Value]:
    """The results of a body, as one equation of each trace that it belongs to."""
    saving = Saving(None, sum(ran.traced), prevent_cse)
    if not saving.count:
        return ran.results
    if ran.builder is not None:
        return append(checkpoint_p, ran.builder, ran, saving)
    known = some(ran.results, ran.traced)
    results = None if any([x is None for x in known]) else known
    params = {"program": ran.body.closed(), "policy": saving}
    outs = iter(saving.bound(results, checkpoint_p, ran.operands, **params))
    return [next(outs) if t else y for y, t in zip(ran.results, ran.traced, strict=True)]


def bind_checkpoint(program: Program, operands: Values, policy: Saving) -> tuple[Value, ...]:
    """Apply a program whose residuals are computed again."""
    return bind(checkpoint_p, *operands, program=program, policy=policy)


def _chosen(builder: Builder, policy: Policy) -> list[Tracer]:
    """The results of recorded equations that a policy saves."""
    found: list[Tracer] = []
    for prim, _, values, params, outs, results, _, _ in builder.records:
        kept = {k: v for k, v in params.items() if k != "saved"}
        if prim.save is None and policy(prim, *[aval_of(x) for x in values], **kept):
            found += [
                Tracer(builder, k, *((None, x) if isinstance(x, Aval) else (x, None)))
                for k, x in zip(outs, results, strict=True)
            ]
    return found


@checkpoint_p.type_rule
def _(*_avals: Aval, program: Program, policy: Saving) -> tuple[Aval, ...]:
    return tuple([aval.strong() for aval in program.out_avals])


@checkpoint_p.evaluate
def _(*operands: Value, program: Program | Body, policy: Saving) -> tuple[Value, ...]:
    if isinstance(program, Body):
        return tuple(program.run(operands))
    return policy.evaluated(program, operands)


@checkpoint_p.jvp
def _(
    primals: Values, tangents: Sequence[Tangent], _outs: object, *,
    program: Program | Body, policy: Saving,
) -> tuple[Tangent, ...]:  # fmt: skip
    closed = program.closed() if isinstance(program, Body) else program

    def apply(pushing: Program, operands: list[Value]) -> Sequence[Value]:
        saving = Saving(None, len(pushing.outputs), policy.prevent_cse)
        return bind_checkpoint(pushing, operands, saving)

    return push_program(closed, primals, tangents, apply)


def _pullback(
    cts: Sequence[Tangent],
    wanted: Sequence[bool],
    values: Values,
    outs: Values,
    params: EqnParams,
) -> list[Tangent]:
    """Run the program again, with what was saved, and pull back."""
    program, policy = params["program"], params["policy"]
    if isinstance(program, Body):
        if not any([_is_staged(ct) for ct in cts]):
            pulled = iter(pull_selected(program.tape(values, wanted), cts, release=True))
            return [next(pulled) if want else None for want in wanted]
        program = program.closed()
    inputs = known_values(values, program.in_avals)
    given = [plain(ct) for ct in cts if ct is not None]
    saved = [zeros_of(y) if isinstance(y, Aval) else y for y in list(outs)[policy.count :]]
    if policy.prevent_cse:
        found = barrier([*inputs, *saved, *given])
        inputs, saved = found[: len(inputs)], found[len(inputs) : len(inputs) + len(saved)]
        given = found[len(inputs) + len(saved) :]
    builder = Builder("vjp", program.name, eager=True, saves=True)
    with builder.running, builder:
        tracers = [builder.input(x) if w else x for x, w in zip(inputs, wanted, strict=True)]
        known = dict(zip(program.outputs[policy.count :], saved, strict=True))
        results = [builder.lift(y) for y in _run_again(program, tracers, known, builder)]
        tape = Tape(builder, results)
    builder.release()
    each = iter(given)
    again = [None if ct is None else alike(ct, next(each)) for ct in cts]
    pulled = iter(pull_selected(tape, again, release=True))
    return [next(pulled) if want else None for want in wanted]


def _is_staged(ct: object) -> bool:
    """Whether a cotangent is a value of compiled code, which computes the values again itself."""
    ct = ct.value if type(ct) is Selected else ct
    while type(ct) is Tracer:
        if not ct.builder.eager:
            return True
        ct = ct.value
    return False


def _run_again(
    program: Program, inputs: Values, known: dict[Atom, Value], builder: Builder
) -> list[Value]:
    """Bind the equations of a program; the results of some are known."""
    if not known:
        return run(program, inputs)
    env: dict[Atom, Value] = dict(zip(program.inputs, inputs, strict=True))
    env.update(program.consts)
    state = THREAD.state
    saved = state.loc
    for eqn in program.eqns:
        state.loc = eqn.loc
        ins = [x.value if type(x) is Lit else env[x] for x in eqn.inputs]  # type: ignore[index]
        if all([v in known for v in eqn.outputs]):
            outs = _known(builder, eqn, ins, [known[v] for v in eqn.outputs])
        else:
            out = bind(eqn.prim, *ins, **eqn.params)
            outs = out if eqn.prim.multiple else (out,)
        env.update(zip(eqn.outputs, outs, strict=True))
    state.loc = saved
    return [x.value if type(x) is Lit else env[x] for x in program.outputs]  # type: ignore[index]


def _known(builder: Builder, eqn: Eqn, operands: Values, results: Values) -> list[Tracer]:
    """An equation whose results were saved: recorded, not computed."""
    operands = [builder.lift(x) for x in operands]
    numbers = [x.index if type(x) is Tracer else x for x in operands]
    values = [x.value if type(x) is Tracer else x for x in operands]
    tracers = [builder.new(y, None) for y in results]
    outs = tuple([t.index for t in tracers])
    loc, via = eqn.loc or here(), THREAD.state.via
    record = Record(eqn.prim, numbers, values, eqn.params, outs, tuple(results), loc, via)
    builder.records.append(record)
    return tracers


checkpoint_p.pullback = _pullback
checkpoint_p.selects = True
checkpoint_p.refuse("transpose", "is transposed by running it again")


@checkpoint_p.batch
def _(
    size: int, operands: Values, dims: Sequence[int | None], *, program: Program, policy: Saving
) -> tuple[tuple[Value, ...], tuple[int | None, ...]]:
    derived = batched_program(program, size, tuple(dims))
    return bind_checkpoint(derived.program, operands, policy), derived.dims


# --- the barrier


def barrier(values: Values) -> list[Value]:
    """The same values, of which the compiler knows only that all are needed for each."""
    if not any([isinstance(x, Tracer) for x in values]):
        return list(values)
    return list(bind(barrier_p, *values))


@lowered
def optimization_barrier(operand: PyTree) -> PyTree:
    """`operand`, a tree of arrays: what compiled code makes of them begins when all are there, and
    nothing is moved across or found to be computed already.

    Example:
        >>> import numpy as np, fgrad
        >>> fgrad.jit(lambda x: sum(fgrad.lax.optimization_barrier((x, np.sin(x)))))(0.0)
        np.float64(0.0)
    """
    leaves, treedef = tree.flatten(operand)
    return tree.unflatten(treedef, barrier([as_value(x) for x in leaves]))


@barrier_p.type_rule
def _(*avals: Aval) -> tuple[Aval, ...]:
    return tuple([aval.strong() for aval in avals])


@barrier_p.evaluate
def _(*operands: Value) -> tuple[Value, ...]:
    return operands


@barrier_p.jvp
def _(_primals: Values, tangents: Sequence[Tangent], _outs: object) -> tuple[Tangent, ...]:
    return tuple(tangents)


def _through(
    cts: Sequence[Tangent], _wanted: object, _values: object, _outs: object, _params: object
) -> list[Tangent]:
    return list(cts)


barrier_p.pullback = _through
barrier_p.selects = True
barrier_p.refuse("transpose", "passes cotangents through")


@barrier_p.batch
def _(
    _size: int, operands: Values, dims: Sequence[int | None]
) -> tuple[tuple[Value, ...], Sequence[int | None]]:
    return tuple(bind(barrier_p, *operands)), dims


remat = checkpoint
