"""L4. Checkpointed scans: the pullback saves few carries and reruns the steps between them.

    scan of T steps   ->   scan of T / n checkpoints, each a scan of n steps

With n = sqrt(T) memory grows with sqrt(T), for one more forward pass; nested, with log(T).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fgrad.errors import ArgumentError
from fgrad.ir.program import Program
from fgrad.ops.control import scan
from fgrad.ops.shape import concatenate, reshape
from fgrad.trace import Value
from fgrad.transforms.checkpoint.checkpoint import Saving, bind_checkpoint
from fgrad.transforms.control.chunks import part
from fgrad.transforms.control.common import split_list
from fgrad.transforms.core.derived_programs import derived_program

Values = Sequence[Value]

BRANCHES = 8  # checkpoints of each level of a nested scan


def lengths_of(how: int | str | bool, length: int) -> tuple[int, ...]:
    """The steps between checkpoints, from the outermost level to the innermost.

    Example:
        >>> lengths_of("sqrt", 1000), lengths_of("log", 1000), lengths_of(50, 1000)
        ((32,), (125, 16), (50,))
    """
    if how is True or how == "sqrt":
        return (math.ceil(math.sqrt(length)),) if length > 3 else ()
    if how == "log":
        found: list[int] = []
        while length > BRANCHES * 2:
            length = math.ceil(length / BRANCHES)
            found.append(length)
        return tuple(found)
    if isinstance(how, (int, np.integer)) and how >= 1:
        return (int(how),) if how < length else ()
    raise ArgumentError(
        f"lax.scan: checkpoint={how!r}.",
        (
            ("write", "checkpoint=True, or 'sqrt'   memory grows with the root of the length"),
            ("write", "checkpoint='log'             with its logarithm, for more time"),
            ("write", "checkpoint=50                a checkpoint every 50 steps"),
        ),
    )


def saving_scan(
    body: Program,
    length: int,
    reverse: bool,
    consts: Values,
    carry: Values,
    xs: Values,
    lengths: Sequence[int],
) -> tuple[Value, ...]:
    """What `scan` gives; derivatives keep the carries between checkpoints alone."""
    if not lengths:
        return scan(body, length, reverse, consts, carry, xs)
    n, counts = lengths[0], (len(consts), len(carry))
    number, rest = divmod(length, n)
    first = rest if reverse else 0
    blocks = [reshape(part(x, first, first + number * n), (number, n, *x.shape[1:])) for x in xs]
    outer = _segment(body, n, reverse, counts, tuple(lengths[1:]))
    outs = scan(outer, number, reverse, consts, carry, blocks)
    carry, stacks = outs[: counts[1]], outs[counts[1] :]
    ys = [reshape(y, (number * n, *y.shape[2:])) for y in stacks]
    if rest:
        start = 0 if reverse else number * n
        items = [part(x, start, start + rest) for x in xs]
        outs = saving_scan(body, rest, reverse, consts, carry, items, lengths[1:])
        carry, last = outs[: counts[1]], outs[counts[1] :]
        pairs = zip(ys, last, strict=True)
        ys = [concatenate([b, a] if reverse else [a, b], 0) for a, b in pairs]
    return (*carry, *ys)


def _segment(
    body: Program, n: int, reverse: bool, counts: tuple[int, int], lengths: tuple[int, ...]
) -> Program:
    """`n` steps as one step of a loop, behind a checkpoint."""
    avals = [a.strong() for a in body.in_avals]
    fixed, items = avals[: sum(counts)], avals[sum(counts) :]
    ins = [*fixed, *[a.like((n, *a.shape)) for a in items]]
    key = ("segment", n, reverse, counts, lengths)

    def steps(*values: Value) -> list[Value]:
        c, k, x = split_list(values, *counts)
        return list(saving_scan(body, n, reverse, c, k, x, [m for m in lengths if m < n]))

    inner = derived_program(body, key, steps, ins, "checkpoint")

    def saved(*values: Value) -> list[Value]:
        return list(bind_checkpoint(inner, values, Saving(None, len(inner.outputs), True)))

    return derived_program(body, ("saved", *key), saved, ins, "checkpoint")
