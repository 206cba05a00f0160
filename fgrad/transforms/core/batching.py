"""L4. Recorded equations of one example -> the same equations on a batch, by batching rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

import numpy as np

from fgrad.ir.aval import Aval, aval_of
from fgrad.ir.primitive import Primitive, Refusal
from fgrad.trace import Builder, Tracer, Value, bind, passed_by
from fgrad.tracing.assign import laid_out
from fgrad.tracing.layouts import examples_in_c_order, mark
from fgrad.tracing.record import Record
from fgrad.tracing.thread_state import THREAD
from fgrad.transforms.core.tape import missing_rule, replayed_by
from fgrad.typing import PyTree

Batched = tuple[Value, "int | None"]

_DERIVED = frozenset({"jvp", "vjp"})


def example_input(builder: Builder, value: Value, axis: int) -> Tracer:
    """A tracer for one example of a batched value, with the example's memory layout."""
    aval = aval_of(value)
    shape = tuple(n for i, n in enumerate(aval.shape) if i != axis)
    x = builder.input(None, Aval(shape, aval.dtype))
    if len(shape) > 1:
        mark(x, examples_in_c_order(value, axis))
    return x


def run_batched(
    records: Sequence[Record],
    env: dict[int, Batched],
    results: Sequence[Value],
    orders: Sequence[bool],
    size: int,
) -> list[Batched]:
    """Apply recorded equations to batches; `env` holds the mapped inputs by number.

    Results whose C order is unknown for one example (`orders`) have unknown order for the batch.
    Derivatives do not warn, batched or not: branches that are not selected may be infinite.
    """
    state = THREAD.state
    saved, loud = (state.loc, state.via), True
    try:
        outer = state.via = replayed_by("vmap", state.via)
        with ExitStack() as quiet:
            for record in records:
                prim, operands, values, params, outs, _, loc, via = record
                if loud and via and not _DERIVED.isdisjoint(via):
                    quiet.enter_context(np.errstate(all="ignore"))
                    loud = False
                if not any([type(k) is int and k in env for k in operands]):
                    continue  # unbatched: its value is known
                pairs = [_pair(env, k, x) for k, x in zip(operands, values, strict=True)]
                xs, dims = [x for x, _ in pairs], [d for _, d in pairs]
                rule: Callable[..., tuple[PyTree, PyTree]] | Refusal | None = prim.rules.get(
                    "batch"
                )
                if rule is None or isinstance(rule, Refusal):
                    raise missing_rule(prim, "batching rule", rule, record)
                if not any([d is not None for d in dims]):
                    rule = _once  # of results that turned out to be unbatched
                    params = {**params, "prim": prim}
                state.loc, state.via = loc, passed_by(via, outer)
                out, dim = rule(size, xs, dims, **params)
                if prim.multiple:
                    env.update(zip(outs, zip(out, dim, strict=True), strict=True))
                else:
                    env[outs[0]] = (out, dim)
    finally:
        state.loc, state.via = saved
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
