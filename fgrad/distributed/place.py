"""L7. A program at one rank: traced as one of many places, then run with this rank's blocks.

    psum[axis=data] x{data}      becomes an equation of the enclosing trace, or is run at once

The trace knows what varies over the axes, so derivatives in it are complete; outside of it an array
is an array.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from fgrad import tree
from fgrad.base.lazy_import import load
from fgrad.config import config
from fgrad.distributed.agreement import agree, agree_when_run, argument_text
from fgrad.distributed.mesh import Mesh, P
from fgrad.errors import AxisNameError
from fgrad.ir.aval import aval_of, varying
from fgrad.ops.collectives import entered_p, pvary_p
from fgrad.ops.untyped import without_types
from fgrad.trace import Builder, Tracer, Value, bind, passed_by
from fgrad.tracing.assign import laid_out
from fgrad.tracing.axes import Axis, open_axes, used_axes
from fgrad.tracing.capturing import user_form, without_value
from fgrad.tracing.layouts import in_c_order, mark, orders_known
from fgrad.tracing.outside.draws import Draws
from fgrad.tracing.record import Record
from fgrad.tracing.thread_state import THREAD, is_traced
from fgrad.transforms.core import wrap
from fgrad.transforms.core.arguments import Shared
from fgrad.transforms.core.wrap import (
    argument_names,
    as_value,
    flatten,
    function_name,
    ids_of,
    is_weak,
)
from fgrad.transforms.custom.callback import debug_callback
from fgrad.transforms.vmap import ARRAYS
from fgrad.typing import PyTree


def at_this_rank(
    fun: Callable[..., PyTree],
    mesh: Mesh,
    args: tuple[PyTree, ...],
    specs: Sequence[P],
    check: Callable[[PyTree], None],
) -> PyTree:
    """The result at this rank of a function of blocks.

    Arguments:
        specs: for each leaf of `args`, along which axes it is cut.
        check: refuses results that differ between ranks and should not.
    """
    load("fgrad.ops.varying")
    _refuse_open_axes()
    leaves, in_tree = tree.flatten(args)
    name = function_name(fun)
    values = [_outside(x, spec, name) for x, spec in zip(leaves, specs, strict=True)]
    builder = Builder("shard_map", name, eager=True)
    draws = Draws(fun)
    state = THREAD.state
    saved = state.axes
    state.axes = tuple([Axis(axis, size, builder) for axis, size in mesh.axes])
    try:
        with draws, builder.running, builder:
            inputs = [_input(builder, *each) for each in zip(leaves, values, specs, strict=True)]
            call = tree.unflatten(in_tree, inputs)
            shared = _shared(fun, inputs, leaves, specs, call, args)
            out = user_form(fun)(*call)
            check(out)
            out_leaves, out_tree = flatten(out)
            store = shared.after(out_leaves)
            outs = [builder.lift(as_value(x, f"a result of {name}")) for x in out_leaves]
            draws.check(f"shard_map({name})")
            records, mapped = builder.records, builder.inputs
            orders = orders_known(outs)
    except NameError as error:
        raise without_value(error) from None
    finally:
        state.axes = saved
        builder.release()
    if draws.missed():
        return at_this_rank(fun, mesh, args, specs, check)
    cut = [(v, spec) for v, spec in zip(values, specs, strict=True) if v is not PASSED]
    agree(name, [argument_text(v, not spec.names) for v, spec in cut], records)
    _agree_later(name, cut)
    env = {x.index: v for x, (v, spec) in zip(mapped, cut, strict=True) if spec.names}
    results = _run(records, env, outs, orders)
    given = ids_of([*[v for v, _ in cut], *[x for x in outs if not isinstance(x, Tracer)]])
    found = [wrap.own(y, given) for y in results]
    if store is not None:
        store()
    return tree.unflatten(out_tree, found)


def _agree_later(name: str, cut: Sequence[tuple[Value, P]]) -> None:
    """With FGRAD_CHECK=2 a compiled program compares its arguments each time that it runs."""
    if config.check >= 2 and any([is_traced(v) for v, _ in cut]):
        same = tuple([not spec.names for _, spec in cut])
        debug_callback(functools.partial(agree_when_run, name, same), *[v for v, _ in cut])


PASSED: Any = object()  # stands for an argument that is no array


def _refuse_open_axes() -> None:
    """Refuse a program of ranks in one of the examples of a named axis.

    Raises:
        AxisNameError: an axis is open.
    """
    names = [name for name, _ in open_axes()]
    if names:
        raise AxisNameError(
            f"shard_map over ranks, within the axis {names[-1]!r}.",
            (
                ("why", "a rank has one place along each axis of its mesh; to examples of another"),
                ("why", "axis that is named it would be one program for each."),
                ("write", "fgrad.vmap without axis_name around it, or within it"),
            ),
        )


def _outside(x: PyTree, spec: P, name: str) -> Any:
    """An argument as an array; what is none and the same everywhere is passed on as it is."""
    passed = not spec.names and not isinstance(x, ARRAYS) and not hasattr(x, "__array__")
    return PASSED if passed else _entered(as_value(x, f"an argument of {name}"))


def _entered(x: Value) -> Value:
    """A value of the enclosing context, through which no derivative passes."""
    inexact = type(x) is Tracer and x.dtype.kind not in "biu"
    return bind(entered_p, x) if inexact else x


def _input(builder: Builder, leaf: PyTree, value: Any, spec: P) -> PyTree:
    """The argument in the program: of a block its type alone is known."""
    if value is PASSED:
        return leaf
    if not spec.names:
        return builder.input(value, None, is_weak(leaf))
    x = builder.input(None, varying(aval_of(value).strong(), spec.names))
    mark(x, in_c_order(value))
    return x


def _shared(
    fun: Callable[..., PyTree],
    inputs: Sequence[PyTree],
    leaves: Sequence[object],
    specs: Sequence[P],
    inner: Sequence[PyTree],
    given: Sequence[PyTree],
) -> Shared:
    """What becomes of writes into the arguments."""
    arrays = [k for k, x in enumerate(inputs) if type(x) is Tracer]

    def names() -> list[str]:
        found = argument_names(fun, tuple(given), {})
        return [found[k] for k in arrays]

    tracers, plain = [inputs[k] for k in arrays], [leaves[k] for k in arrays]
    copied = [bool(specs[k].names) for k in arrays]
    label = f"shard_map({function_name(fun)})"
    return Shared(label, tracers, plain, copied, (list(inner), list(given)), names)


def _run(
    records: Sequence[Record],
    env: dict[int, Value],
    results: Sequence[Value],
    orders: Sequence[bool],
) -> list[Value]:
    """Bind recorded equations in the enclosing context; `env` holds the blocks by number."""
    state = THREAD.state
    saved, outer = (state.loc, state.via), state.via
    entered: dict[int, Value] = {}  # values of enclosing traces

    def value_of(k: object, value: Any) -> Value:
        if type(k) is int and k in env:
            return env[k]
        if type(value) is not Tracer:
            return value
        found = entered.get(id(value))
        return entered.setdefault(id(value), _entered(value)) if found is None else found

    try:
        for prim, operands, values, params, outs, _, loc, via in records:
            over = prim.meets_axes and used_axes(prim, params)
            if not over and not any([type(k) is int and k in env for k in operands]):
                continue  # its value is known
            xs = [value_of(k, x) for k, x in zip(operands, values, strict=True)]
            if prim is pvary_p:
                env[outs[0]] = xs[0]
                continue
            state.loc, state.via = loc, passed_by(via, outer)
            out = bind(prim, *xs, **(without_types(params) if prim.holds is not None else params))
            env.update(zip(outs, out if prim.multiple else (out,), strict=True))
    finally:
        state.loc, state.via = saved
    found: list[Any] = [env.get(x.index, x.value) if type(x) is Tracer else x for x in results]
    return [
        laid_out(y, False) if type(y) is Tracer and not in_order else y
        for y, in_order in zip(found, orders, strict=True)
    ]
