"""L5. A function over a range -> the step that calls it, in one piece or in several for threads."""

from __future__ import annotations

from fgrad.base.size_functions import chosen, least, most, truncated
from fgrad.base.sizes import is_symbolic
from fgrad.compile.host.program import Call, Share
from fgrad.compile.kernel.machine import CHUNK_CYCLES, SHARED_CYCLES
from fgrad.config import config


def shared_call(
    address: int, extent: int, grain: int, cost: float, slots: tuple[int, ...], each: int = 4
) -> Call | Share:
    """A function's whole range as one step, by several threads if it costs enough cycles.

    `each` is the number of pieces for each thread: few where a piece repeats some work.
    """
    pieces = least(each * config.num_threads, truncated(cost / CHUNK_CYCLES), extent // grain)
    if config.num_threads > 1 and is_symbolic((pieces, extent)):
        pieces = chosen(cost, SHARED_CYCLES, 1, most(pieces, 1))  # one piece is a call
    elif config.num_threads < 2 or pieces < 2 or cost < SHARED_CYCLES:
        return Call(address, 0, extent, slots)
    chunk = -(-extent // (pieces * grain)) * grain
    return Share(address, 0, extent, chunk, slots, cost)
