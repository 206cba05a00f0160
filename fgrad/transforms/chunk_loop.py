"""L4. The loop over the chunks of a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fgrad.ir.aval import Aval
from fgrad.ops.control import scan
from fgrad.ops.families import ADD
from fgrad.trace import Value, bind, trace
from fgrad.transforms import control, control_reverse, control_vmap  # noqa: F401 - the rules


def run(
    many: Callable[[Sequence[Value]], list[Value]],
    totals: Sequence[Value],
    blocks: Sequence[Value],
    count: int,
) -> tuple[Value, ...]:
    """A scan over chunks: stacks of results, or their sums if there are `totals`."""
    number = len(totals)

    def step(*inputs: Value) -> list[Value]:
        found = many(inputs[number:])
        if not number:
            return found
        return [bind(ADD, a, b) for a, b in zip(inputs, found, strict=False)]

    avals = [Aval(tuple(x.shape), x.dtype) for x in totals]
    avals += [Aval(tuple(x.shape[1:]), x.dtype) for x in blocks]
    traced = trace(step, avals, "chunk", "vmap", copy_consts=True)
    return scan(traced.program, count, False, traced.captured, totals, blocks)
