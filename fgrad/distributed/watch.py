"""L7. Ranks that wait for each other for ever, or that raise, end the program with a card.

A thread of each rank looks whether its rank has been in one collective for long.  It asks the
others where they are, by a communicator of its own.  If one that is waited for has ended or is in
another collective, or after the limit, the first such rank prints it and ends all of them.  Where
all ranks wait for their devices nothing is wrong: these compute.
"""

from __future__ import annotations

import atexit
import contextlib
import io
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
from fgrad.tracing.ranks import BEGUN, BYTES, DEVICE, INSIDE, MEETINGS, WAITS

PERIOD = 0.2  # seconds between two looks
GRACE = 2.0  # seconds in which other ranks must answer
DRAIN = 0.2  # seconds between a message and the end
PATIENCE = 1.0  # seconds in one collective after which a rank asks the others
ASK, ANSWER = 1, 2  # tags


class Place(NamedTuple):
    """Where a rank is.

    meetings: how many it has begun.
    inside: where it waits, of `MEETINGS`; 0 if it does not.
    ended: whether its script is done.
    stuck: whether it has waited for long.
    text: all of that in words.
    """

    meetings: int
    inside: int
    ended: bool
    stuck: bool
    text: str

    @property
    def on_device(self) -> bool:
        """Whether it waits for its device."""
        return MEETINGS[self.inside] == DEVICE


class Watch:
    """The thread that watches one rank: for what cannot end well, and for the limit of seconds
    in one collective (`engine.limit`)."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.comm = engine, engine.watch
        self.main = threading.main_thread().ident or 0
        self.ended = False
        self.seen, self.since, self.asked = (0, 0), time.monotonic(), 0
        self.looked = self.since

    def start(self) -> None:
        """Begin to watch, until the script has ended at all ranks."""
        atexit.register(self._leave)
        threading.Thread(target=self._run, name="fgrad ranks", daemon=True).start()

    def _run(self) -> None:
        table = self.engine.table
        while True:
            time.sleep(PERIOD)
            self._answer()
            seen, now = (table[BEGUN], table[WAITS]), time.monotonic()
            if seen != self.seen or not table[INSIDE]:
                self.seen, self.since, self.looked = seen, now, now
            elif self.engine.limit is not None and now - self.since > self.engine.limit:
                self._report(self._places(), f"has waited {self.engine.limit:g} s for others")
            elif now - self.looked > PATIENCE:
                self._look()
                self.looked = time.monotonic()

    def _answer(self) -> None:
        """Tell those who ask where this rank is."""
        status = mpi().Status()
        while self.comm.Iprobe(tag=ASK, status=status):
            number = self.comm.recv(source=status.source, tag=ASK)
            self.comm.send((number, self.where()), status.source, tag=ANSWER)

    def _places(self) -> dict[int, Place]:
        """Where the ranks are now, those that answer."""
        rank, size = self.engine.rank, self.engine.size
        self.asked += 1
        for other in range(size):
            if other != rank:
                self.comm.isend(self.asked, other, tag=ASK)
        found = {rank: self.where()}
        status, end = mpi().Status(), time.monotonic() + GRACE
        while len(found) < size and time.monotonic() < end:
            self._answer()
            while self.comm.Iprobe(tag=ANSWER, status=status):
                number, place = self.comm.recv(source=status.source, tag=ANSWER)
                if number == self.asked:
                    found[status.source] = place
            time.sleep(0.02)
        return found

    def _look(self) -> None:
        """End the program now if this rank waits for what cannot come.

        Along one axis all ranks take part in each meeting, so they must all be of one kind: the
        third of one rank is the third of all.
        """
        if len([axis for axis in self.engine.axes if axis.size > 1]) > 1:
            return
        places = self._places()
        own = places[self.engine.rank]
        if self.where().meetings != own.meetings or not own.inside or own.on_device:
            return
        for rank, place in places.items():
            if place.ended and place.meetings < own.meetings:
                self._report(places, f"waits for rank {rank}, which has ended")
            same = place.meetings == own.meetings and place.inside and not place.on_device
            if same and place.inside != own.inside:
                self._report(places, f"and rank {rank} are in different collectives")

    def _report(self, places: dict[int, Place], what: str) -> None:
        """Print where all are and end them, unless another rank does."""
        rank, size = self.engine.rank, self.engine.size
        if len(places) == size and all([place.on_device for place in places.values()]):
            self.since = time.monotonic()
            return
        waiting = [r for r, place in places.items() if place.stuck]
        if waiting and min(waiting) != rank:
            time.sleep(GRACE)  # that rank reports and ends this one
        lost = Place(
            0, 0, False, False, "does not answer: it died, or is in code that holds Python's lock"
        )
        lines = [f"  rank {r:<5}{places.get(r, lost).text}" for r in range(size)]
        head = f"RankError: rank {rank} {what}.\n"
        why = "  why       a collective needs all ranks, in one order"
        _write("\n".join(["", head, *lines, why, "  more      docs/distributed.md", ""]))
        mpi().COMM_WORLD.Abort(70)

    def where(self) -> Place:
        """Whether this rank waits, and what it does."""
        meetings, inside = self._now()
        if self.ended:
            return Place(meetings, 0, True, False, "has ended: its script is done")
        frame = sys._current_frames().get(self.main)
        seconds = time.monotonic() - self.since
        stuck = bool(inside) and seconds > min(self.engine.limit or math.inf, PATIENCE) / 2
        what = "in no collective"
        if inside:
            nbytes = self.engine.table[BYTES]
            size = f" of {nbytes} bytes" if nbytes else ""
            what = f"in {MEETINGS[inside]}{size} for {seconds:.1f} s"
        return Place(meetings, inside, False, stuck, f"{what}, at {_line(frame)}")

    def _now(self) -> tuple[int, int]:
        """The meetings that were begun, and where this rank is: both of one moment."""
        table = self.engine.table
        while True:
            meetings, inside = table[BEGUN], table[INSIDE]
            if table[BEGUN] == meetings and table[INSIDE] == inside:
                return meetings, inside

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
    """Print at once, and let mpiexec read it, which drops what is on the way when ranks end."""
    sys.stderr.write(text)
    sys.stderr.flush()
    time.sleep(DRAIN)


Hook = Callable[[type[BaseException], BaseException, TracebackType | None], Any]


def abort_on_error(engine: Engine) -> None:
    """From now on what a rank raises ends all ranks, after its own message; else the others would
    wait for it."""
    before: Hook = sys.excepthook

    def hook(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        time.sleep(min(0.1 * engine.rank, 0.5))  # of an error of all ranks, the first is enough
        sys.stdout.flush()
        with contextlib.redirect_stderr(io.StringIO()) as text:
            before(kind, error, traceback)
        _write(f"rank {engine.rank} of {engine.size}:\n{text.getvalue()}")
        mpi().COMM_WORLD.Abort(1)

    sys.excepthook = hook
