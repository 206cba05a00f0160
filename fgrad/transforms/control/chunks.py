"""L4. Chunked `vmap`: apply a batched function to one chunk of the batch after the other.

In code that is compiled the chunks are the steps of a loop.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.errors import ArgumentError
from fgrad.ir.aval import aval_of
from fgrad.ops.control import scan
from fgrad.ops.families import ADD
from fgrad.ops.shape import concatenate, reshape, slice_
from fgrad.trace import Tracer, Value, bind, innermost, trace
from fgrad.transforms.control import jvp, vjp, vmap
from fgrad.transforms.core.batching import example_aval

RULES = jvp, vjp, vmap  # those of loops, which are set when these modules are imported

Many = Callable[[Sequence[Value]], list[Value]]

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS.update({"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40})


def byte_count(size: str | int, what: str) -> int:
    """A size in bytes: 500, "500MB", "1.5 GiB".

    Example:
        >>> byte_count("1.5 GB", "memory")
        1500000000
    """
    if isinstance(size, (int, np.integer)) and not isinstance(size, bool):
        return int(size)
    match = re.fullmatch(r"\s*([\d.]+(?:e\d+)?)\s*([a-z]*)\s*", str(size), re.IGNORECASE)
    if match is None or match[2].upper() not in _UNITS:
        raise ArgumentError(
            f"{what}={size!r} is not a size.", (("write", f'{what}="500MB"   or bytes'),)
        )
    return int(float(match[1]) * _UNITS[match[2].upper()])


class Chunks(NamedTuple):
    """How a batch is cut: whole chunks of a length, and a rest."""

    length: int
    whole: int
    rest: int


def cut(size: int, length: int, what: str) -> Chunks:
    """Cut a batch of `size` into chunks of `length`."""
    if length < 1:
        raise ArgumentError(f"{what}: a chunk of {length} examples; it must be positive.")
    return Chunks(length, size // length, size % length)


def part(x: Value, start: int, stop: int) -> Value:
    """`x[start:stop]`."""
    shape = tuple(x.shape)
    zeros, ones = (0,) * (len(shape) - 1), (1,) * len(shape)
    return slice_(x, (start, *zeros), (stop, *shape[1:]), ones)


def map_chunks(many: Many, values: Sequence[Value], chunks: Chunks) -> list[Value]:
    """`many` of all chunks, its results put together along their first axes."""
    length, count, rest = chunks
    whole = length * count
    if not _is_traced(values):
        starts = range(0, whole + rest, length)
        parts = [many([x[k : k + length] for x in values]) for k in starts]
        return [_joined(column) for column in zip(*parts, strict=True)]
    found: list[list[Value]] = []
    if count:
        stacks = _loop(many, [], _blocks(values, chunks), count)
        found.append([reshape(y, (whole, *y.shape[2:])) for y in stacks])
    if rest or not count:
        found.append(many([part(x, whole, whole + rest) for x in values]))
    return [c[0] if len(c) == 1 else concatenate(list(c), 0) for c in zip(*found, strict=True)]


def sum_chunks(many: Many, values: Sequence[Value], chunks: Chunks) -> list[Value]:
    """The sum of `many` over all chunks."""
    length, count, rest = chunks
    if not _is_traced(values) or count <= 1:
        starts = range(0, length * count + rest, length)
        parts = [many([part(x, k, min(k + length, x.shape[0])) for x in values]) for k in starts]
        totals = parts[0]
        for each in parts[1:]:
            totals = [bind(ADD, a, b) for a, b in zip(totals, each, strict=True)]
        return totals
    first = many([part(x, 0, length) for x in values])
    others = [part(x, length, length * count) for x in values]
    blocks = _blocks(others, chunks._replace(whole=count - 1))
    totals = list(_loop(many, first, blocks, count - 1))
    if rest:
        last = many([part(x, length * count, length * count + rest) for x in values])
        totals = [bind(ADD, a, b) for a, b in zip(totals, last, strict=True)]
    return totals


def _is_traced(values: Sequence[Value]) -> bool:
    return innermost() is not None and any([type(x) is Tracer for x in values])


def _joined(column: Sequence[Value]) -> Value:
    arrays = [x for x in column]
    plain = not any([type(x) is Tracer for x in arrays])
    return np.concatenate(arrays) if plain else concatenate(arrays, 0)


def _blocks(values: Sequence[Value], chunks: Chunks) -> list[Value]:
    length, count, _ = chunks
    return [reshape(part(x, 0, length * count), (count, length, *x.shape[1:])) for x in values]


def _loop(
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

    avals = [aval_of(x).strong() for x in totals]
    avals += [example_aval(aval_of(x), 0) for x in blocks]
    traced = trace(step, avals, "chunk", "vmap", copy_consts=True)
    return scan(traced.program, count, False, traced.captured, totals, blocks)
