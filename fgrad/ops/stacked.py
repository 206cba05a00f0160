"""L3. Selected cotangents of stacks of matrices: one whose result is not selected counts as zero.

inv, solve, eigh, ... of (..., n, n): each matrix of the stack is a problem of its own
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fgrad.ops.families import BROADCAST
from fgrad.ops.reduce import reduce_any
from fgrad.ops.selected import ADD, ZERO_OR_NAN, Selected, Support, Tangent, fitted
from fgrad.trace import Value, bind
from fgrad.tracing.record import Record


def pull_stacked(
    record: Record, cts: Sequence[Tangent], parts: Sequence[Tangent]
) -> Sequence[Tangent]:
    """The cotangents of the operands, with the supports that follow from those of the results."""
    if not all_selected(cts):
        return parts
    there = [ct for ct in cts if type(ct) is Selected]
    lead = len(record.values[0].shape) - 2
    supports = [ct.support for ct in there]
    shapes = [ct.value.shape for ct in there]

    def spread_to(shape: tuple[int, ...]) -> Callable[..., Value]:
        def make(*bits: Value) -> Value:
            total = None
            for each, own in zip(bits, shapes, strict=True):
                found = reduce_any(fitted(each, own), tuple(range(lead, len(own))))
                total = found if total is None else bind(ADD, total, found)
            return bind(BROADCAST, total, shape=shape, dims=tuple(range(lead)))

        return make

    return [
        part
        if part is None or type(part) is Selected
        else Selected(part, Support(supports, spread_to(part.shape)), ZERO_OR_NAN)
        for part in parts
    ]


def all_selected(cts: Sequence[Tangent]) -> bool:
    """Whether all cotangents that are not None are selected."""
    return all([ct is None or (type(ct) is Selected and not ct.support.loose) for ct in cts])


def pull_outer(
    record: Record, cts: Sequence[Any], parts: Sequence[Value | None]
) -> Sequence[Tangent]:
    """Outer products a_i b_j, without sums: what is selected for no j is zero for i."""
    (_, b), params, (ct,) = record.values, record.params, cts
    if params["contract"][0] or not all_selected(cts):
        return parts
    shape, last = ct.value.shape, len(b.shape) - len(params["batch"][1])
    lead, ndim = len(params["batch"][0]), len(shape)
    if lead:
        return parts
    axes = (tuple(range(ndim - last, ndim)), tuple(range(ndim - last)))

    def support(k: int) -> Support:
        return Support([ct.support], lambda bits: reduce_any(fitted(bits, shape), axes[k]))

    return [
        None if part is None else Selected(part, support(k), ZERO_OR_NAN)
        for k, part in enumerate(parts)
    ]
