"""L7. What the ranks are about to do together, compared before it is done the first time.

    psum[data] f64[3]; ppermute[data] f64[8] perm=((0, 1),)      the skeleton of a program

Ranks that communicate in another order, or arrays of other sizes, would wait for ever or compute
garbage: MPI does not check it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

import numpy as np

from fgrad.base.digest import digest
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.source import resolve
from fgrad.config import config
from fgrad.distributed.engine import engine_here
from fgrad.errors import RankError, Row
from fgrad.ir.aval import NO_AXES, Aval, aval_of, varying
from fgrad.ir.primitive import Primitive
from fgrad.ir.program import Program
from fgrad.ir.walk import programs_in
from fgrad.tracing.record import Record
from fgrad.tracing.thread_state import is_traced
from fgrad.typing import EqnParams


class Meeting(NamedTuple):
    """A collective, or where a program that holds some begins or ends."""

    what: str
    where: str


def skeleton(records: Sequence[Record]) -> list[Meeting]:
    """The collectives of a recorded program, in order."""
    found: list[Meeting] = []
    for prim, _, values, params, _, _, loc, _ in records:
        if prim.meets_axes:
            avals = [aval_of(x) for x in values]
            found += _meetings(prim, avals, params, str(resolve(loc)))
    return found


def _of_program(program: Program) -> Iterator[Meeting]:
    for eqn in program.eqns:
        if eqn.prim.meets_axes:
            yield from _meetings(eqn.prim, [a.aval for a in eqn.inputs], eqn.params, str(eqn.loc))


def _meetings(
    prim: Primitive, avals: Sequence[Aval], params: EqnParams, where: str
) -> list[Meeting]:
    across = prim.across
    if across is not None:
        if not across.communicates:
            return []
        types = " ".join([str(varying(aval, NO_AXES)) for aval in avals])
        words = " ".join([f"{k}={v}" for k, v in params.items() if k not in ("axis", "places")])
        return [Meeting(f"{prim}[{params['axis']}] {types} {words}".strip(), where)]
    found: list[Meeting] = []
    for number, program in enumerate(programs_in(params)):
        inner = list(_of_program(program))
        if inner:
            found += [Meeting(f"{prim} {number} (", where), *inner, Meeting(")", where)]
    return found


_AGREED: set[str] = set()


def argument_text(x: object, is_same: bool) -> str:
    """What ranks compare of an argument: its type; with FGRAD_CHECK=2 also what it holds, if it is
    said to be the same everywhere."""
    known = is_same and config.check >= 2 and not is_traced(x)
    return f"{aval_of(x)}{_held(x) if known else ''}"


def _held(x: object) -> str:
    return f" holding {digest(np.ascontiguousarray(x).tobytes())[:12]}"


def agree(name: str, arguments: Sequence[str], records: Sequence[Record]) -> None:
    """Compare what the ranks are about to do, when this rank is about to do it for the first time,
    or always with FGRAD_CHECK=2.

    Arguments:
        name: of the function.
        arguments: what is compared of its arguments, see `argument_text`: blocks are of one shape
            at all ranks.

    Raises:
        RankError: they would not meet.
    """
    meetings = [*_given(arguments), *skeleton(records)]
    key = _key(name, meetings)
    if key not in _AGREED or config.check >= 2:
        _compare(name, meetings)
        _AGREED.add(key)


def agree_when_run(name: str, is_same: Sequence[bool], *values: np.ndarray) -> None:
    """Compare what a compiled program has been given, each time that it runs: with FGRAD_CHECK=2.

    Arguments:
        is_same: of each value, whether it is said to be the same everywhere.
    """
    texts = [
        f"{aval_of(x)}{_held(x) if same else ''}" for x, same in zip(values, is_same, strict=True)
    ]
    _compare(name, _given(texts))


def agree_on(what: str) -> None:
    """Compare what all ranks must be about to do at one time."""
    _compare(what, [])


def _given(arguments: Sequence[str]) -> list[Meeting]:
    return [Meeting(f"argument {k}: {text}", "") for k, text in enumerate(arguments)]


def _key(name: str, meetings: Sequence[Meeting]) -> str:
    return digest("\n".join([name, *[meeting.what for meeting in meetings]]).encode())


def _compare(name: str, meetings: Sequence[Meeting]) -> None:
    engine = engine_here()
    if engine.size == 1:
        return
    with engine.noted("agreement"):
        keys = engine.control.allgather(_key(name, meetings))
        plans = engine.control.allgather((name, meetings)) if len(set(keys)) > 1 else ()
    if plans:
        raise _apart(plans)


def _apart(plans: Sequence[tuple[str, Sequence[Meeting]]]) -> RankError:
    """The card that shows the first place where the ranks differ."""
    first_name, first = plans[0]
    for rank, (name, other) in enumerate(plans):
        if name != first_name:
            rows = [_row(0, "", first_name), _row(rank, "", name)]
            return RankError("The ranks are about to do different things.", (*rows, *_ADVICE))
        for a, b in zip_longest(first, other, fillvalue=Meeting("nothing", "its end")):
            if a.what != b.what:
                rows = [_row(0, a.where, a.what), _row(rank, b.where, b.what)]
                if "holding" in a.what:
                    rows.append(("write", "dist.broadcast(x, mesh=mesh) for what is P(), before"))
                part = "they do not meet" if a.where and b.where else "their arguments differ"
                return RankError(f"{name}, a function of blocks: {part}.", (*rows, *_ADVICE))
    raise AssertionError("plans of one text have one digest")


def _row(rank: int, where: str, what: str) -> Row:
    return f"rank {rank}", f"{where}:  {what}" if where else what


_ADVICE: tuple[Row, ...] = (
    ("why", "a collective needs all ranks, in one order, with arrays of one shape and dtype."),
    ("write", "no branch of Python on the rank around it; np.where(lax.axis_index(...) == 0, ...)"),
    ("write", "blocks of one shape: pad the last one, and mask what was added"),
)
