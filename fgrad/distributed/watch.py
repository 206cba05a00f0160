"""L7. Ranks that wait for each other for ever, or that raise, end the program with a card.

A thread of each rank looks whether its rank has been in one collective for longer than the limit.
It asks the others where they are, by a communicator of its own; the first such rank prints it and
ends all of them.  Where all ranks wait for their devices nothing is wrong: these compute.
"""

from __future__ import annotations

import atexit
import math
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

from fgrad.base.named_tuple import NamedTuple
from fgrad.base.source import USERS, Loc, owner_of
from fgrad.distributed.engine import Engine, mpi
from fgrad.tracing.ranks import BEGUN, BYTES, DEVICE, INSIDE, MEETINGS

PERIOD = 0.2  # seconds between two looks
GRACE = 2.0  # seconds in which other ranks must answer
ASK, ANSWER = 1, 2  # tags


class Place(NamedTuple):
    """Where a rank is: whether it has waited for long, whether for its device, and in words."""

    stuck: bool
    on_device: bool
    text: str


class Watch:
    """The thread that watches one rank, if there is a limit (`engine.limit`)."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.comm = engine, engine.watch
        self.main = threading.main_thread().ident or 0
        self.ended = False
        self.seen, self.since = 0, time.monotonic()

    def start(self) -> None:
        """Begin to watch, until the script has ended at all ranks."""
        atexit.register(self._leave)
        threading.Thread(target=self._run, name="fgrad ranks", daemon=True).start()

    def _run(self) -> None:
        while True:
            time.sleep(PERIOD)
            self._answer()
            begun, limit = self.engine.table[BEGUN], self.engine.limit
            if begun != self.seen or not self.engine.table[INSIDE]:
                self.seen, self.since = begun, time.monotonic()
            elif limit is not None and time.monotonic() - self.since > limit:
                self._report(limit)

    def _answer(self) -> None:
        """Tell those who ask where this rank is."""
        status = mpi().Status()
        while self.comm.Iprobe(tag=ASK, status=status):
            self.comm.recv(source=status.source, tag=ASK)
            self.comm.send(self.where(), status.source, tag=ANSWER)

    def _report(self, limit: float) -> None:
        rank, size = self.engine.rank, self.engine.size
        for other in range(size):
            if other != rank:
                self.comm.isend(None, other, tag=ASK)
        answers = {rank: self.where()}
        status, end = mpi().Status(), time.monotonic() + GRACE
        while len(answers) < size and time.monotonic() < end:
            self._answer()
            while self.comm.Iprobe(tag=ANSWER, status=status):
                answers[status.source] = self.comm.recv(source=status.source, tag=ANSWER)
            time.sleep(0.02)
        if len(answers) == size and all([place.on_device for place in answers.values()]):
            self.since = time.monotonic()
            return
        waiting = [r for r, place in answers.items() if place.stuck]
        if waiting and min(waiting) != rank:
            time.sleep(GRACE)  # that rank reports and ends this one
        lost = Place(
            False, False, "does not answer: it died, or is in code that holds Python's lock"
        )
        lines = [f"  rank {r:<5}{answers.get(r, lost).text}" for r in range(size)]
        head = f"RankError: rank {rank} has waited {limit:g} s for others.\n"
        why = "  why       a collective needs all ranks, in one order"
        _write("\n".join(["", head, *lines, why, "  more      docs/distributed.md", ""]))
        mpi().COMM_WORLD.Abort(70)

    def where(self) -> Place:
        """Whether this rank waits, and what it does."""
        if self.ended:
            return Place(False, False, "has ended: its script is done")
        table, frame = self.engine.table, sys._current_frames().get(self.main)
        inside, seconds = table[INSIDE], time.monotonic() - self.since
        stuck = bool(inside) and seconds > (self.engine.limit or math.inf) / 2
        what = "in no collective"
        if inside:
            size = f" of {table[BYTES]} bytes" if table[BYTES] else ""
            what = f"in {MEETINGS[inside]}{size} for {seconds:.1f} s"
        return Place(stuck, MEETINGS[inside] == DEVICE, f"{what}, at {_line(frame)}")

    def _leave(self) -> None:
        """Wait for the others, whose questions are still answered."""
        self.ended = True
        request, pause = self.comm.Ibarrier(), 0.001
        while not request.Test():
            time.sleep(pause)
            pause = min(2 * pause, 0.05)


def _line(frame: FrameType | None) -> str:
    """The innermost line of the user's."""
    while frame is not None and owner_of(frame.f_code.co_filename) != USERS:
        frame = frame.f_back
    if frame is None:
        return "an unknown line"
    loc = Loc(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
    return f"{loc}:  {loc.text()}"


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


Hook = Callable[[type[BaseException], BaseException, TracebackType | None], Any]


def abort_on_error(engine: Engine) -> None:
    """From now on what a rank raises ends all ranks, after its own message; else the others would
    wait for it."""
    before: Hook = sys.excepthook

    def hook(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        time.sleep(min(0.02 * engine.rank, 0.5))  # of an error of all ranks, the first is enough
        sys.stdout.flush()
        _write(f"rank {engine.rank} of {engine.size}:\n")
        before(kind, error, traceback)
        sys.stderr.flush()
        mpi().COMM_WORLD.Abort(1)

    sys.excepthook = hook
