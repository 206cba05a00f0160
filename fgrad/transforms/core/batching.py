"""L4. Recorded equations of one example -> the same equations on a batch, by batching rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

import numpy as np

from fgrad.ir.aval import Aval, aval_of, varying
from fgrad.ir.primitive import Primitive, Refusal
from fgrad.trace import Builder, Tracer, Value, bind, passed_by
from fgrad.tracing.assign import laid_out
from fgrad.tracing.axes import used_axes, without
from fgrad.tracing.layouts import examples_in_c_order, mark
from fgrad.tracing.record import Record
from fgrad.tracing.thread_state import THREAD
from fgrad.transforms.core.tape import missing_rule, replayed_by
from fgrad.typing import PyTree

Batched = tuple[Value, "int | None"]

_DERIVED = frozenset({"jvp", "vjp"})


def example_aval(aval: Aval, axis: int | None, name: str | None = None) -> Aval:
    """The aval of one example of a batch, which varies over the batched axis if that has a name."""
    one = aval if axis is None else aval.like((*aval.shape[:axis], *aval.shape[axis + 1 :]))
    return one if name is None else varying(one, one.varies | {name})


def batch_aval(aval: Aval, axis: int | None, size: int, name: str | None = None) -> Aval:
    """The aval of a batch of examples; of what all share if `axis` is None."""
    shape = aval.shape if axis is None else (*aval.shape[:axis], size, *aval.shape[axis:])
    return varying(aval.like(shape), without(aval, name))


def example_input(
    builder: Builder, value: Value, axis: int | None, name: str | None = None
) -> Tracer:
    """A tracer for one example of a batched value, with the example's memory layout; for a value
    that is the same for all, but counts as one that differs, if `axis` is None."""
    aval = example_aval(aval_of(value), axis, name)
    x = builder.input(None, aval.strong())
    if len(aval.shape) > 1 and axis is not None:
        mark(x, examples_in_c_order(value, axis))
    return x


def run_batched(
    records: Sequence[Record],
    env: dict[int, Batched],
    results: Sequence[Value],
    orders: Sequence[bool],
    size: int,
    name: str | None = None,
) -> list[Batched]:
    """Apply recorded equations to batches; `env` holds the mapped inputs by number.

    Results whose C order is unknown for one example (`orders`) have unknown order for the batch.
    Derivatives do not warn, batched or not: branches that are not selected may be infinite.
    What depends on the `name` of the axis is computed also where nothing batched enters it.
    """
    state = THREAD.state
    saved, loud = (state.loc, state.via, state.mapped), True
    state.mapped = name
    try:
        outer = state.via = replayed_by("vmap", state.via)
        with ExitStack() as quiet:
            for record in records:
                prim, operands, values, params, outs, _, loc, via = record
                if loud and via and not _DERIVED.isdisjoint(via):
                    quiet.enter_context(np.errstate(all="ignore"))
                    loud = False
                over = name is not None and prim.meets_axes and name in used_axes(prim, params)
                if not over and not any([type(k) is int and k in env for k in operands]):
                    continue  # unbatched: its value is known
                pairs = [_pair(env, k, x) for k, x in zip(operands, values, strict=True)]
                xs, dims = [x for x, _ in pairs], [d for _, d in pairs]
                rule: Callable[..., tuple[PyTree, PyTree]] | Refusal | None = prim.rules.get(
                    "batch"
                )
                if rule is None or isinstance(rule, Refusal):
                    raise missing_rule(prim, "batching rule", rule, record)
                if not over and not any([d is not None for d in dims]):
                    rule = _once  # of results that turned out to be unbatched
                    params = {**params, "prim": prim}
                state.loc, state.via = loc, passed_by(via, outer)
                out, dim = rule(size, xs, dims, **params)
                if prim.multiple:
                    env.update(zip(outs, zip(out, dim, strict=True), strict=True))
                else:
                    env[outs[0]] = (out, dim)
    finally:
        state.loc, state.via, state.mapped = saved
    pairs = [_pair(env, x.index, x.value) if type(x) is Tracer else (x, None) for x in results]
    return [
        (laid_out(y, False) if type(y) is Tracer and not in_order else y, d)
        for (y, d), in_order in zip(pairs, orders, strict=True)
    ]


def _once(
    _size: int, operands: Sequence[Value], _dims: object, *, prim: Primitive, **params: object
) -> tuple[PyTree, PyTree]:
    """Apply an equation to unbatched values."""
    out = bind(prim, *operands, **{k: v for k, v in params.items() if k != "saved"})
    return out, (None,) * len(out) if prim.multiple else None


def _pair(env: dict[int, Batched], k: object, value: PyTree) -> Batched:
    return env.get(k, (value, None)) if type(k) is int else (value, None)
