"""The requests of waiting threads -> answers: barriers, shuffles and votes of a block.

All threads of a block have had a turn when this is called.  Warps are answered one by one as soon
as all lanes that an instruction names have come to it; a barrier when all threads have.
"""

from __future__ import annotations

import numpy as np

from emulator.entry import (
    AND,
    ANSWER,
    CLAMP,
    ENDED,
    INTERVAL_SHIFT,
    KIND,
    LANE,
    MODE,
    NEW,
    OR,
    PLACE,
    POPC,
    READY,
    RECORD_WORDS,
    SHUFFLE,
    STAMP,
    STATE,
    THREAD_SHIFT,
    VALUE,
    VOTE,
    WAITING,
    WARP,
)
from fgrad.errors import CheckError

WARP_SIZE = 32
_POISON = 0xFFFFFFFF  # what a lane that is not there gives
_LANES = np.arange(WARP_SIZE)
_ALL = 0xFFFFFFFF  # lanes of a warp
_TOGETHER = np.ones((), bool)  # all lanes are in one group


class Threads:
    """The threads of a block: their records, in whole warps; the lanes that are not there have
    ended."""

    def __init__(self, count: int, places: list[str]) -> None:
        self.count = count
        self.places = places
        self.warps = np.zeros((-(-count // WARP_SIZE), WARP_SIZE, RECORD_WORDS), np.int64)
        self.records = self.warps.reshape(-1, RECORD_WORDS)
        self.records[:count, STATE] = NEW
        self.records[count:, STATE] = ENDED
        self.block = 0

    def begin(self, block: int, interval: int) -> None:
        """All threads begin anew."""
        self.block = block
        states = self.records[: self.count, STATE]
        states[states == ENDED] = READY
        self._stamp(interval)

    def _stamp(self, interval: int) -> None:
        """What the threads touch from now on is after a barrier."""
        numbers = np.arange(len(self.records))
        self.records[:, STAMP] = interval << INTERVAL_SHIFT | numbers << THREAD_SHIFT

    def answer(self, interval: int) -> bool:
        """Answer the requests that can be; False if all threads have ended.

        Arguments:
            interval: the number of the time after the next barrier.
        """
        waiting = self.warps[..., STATE] == WAITING
        if not waiting.any():
            return False
        of_warps = waiting & (self.warps[..., KIND] >= WARP)
        if not self._answer_warps(of_warps):
            self._answer_block(interval)
        return True

    def endless(self, turns: int) -> CheckError:
        """The card for threads that wait again and again."""
        going = (self.records[:, STATE] == READY).reshape(-1, WARP_SIZE)
        return self._error(f"Threads of a block have waited {turns} times and go on.", going)

    # Warps.

    def _answer_warps(self, waiting: np.ndarray) -> bool:
        """Answer the lanes that have come together; False if there are none."""
        if not waiting.any():
            return False
        w = self.warps
        keys = w[..., KIND] << 40 | w[..., MODE] << 32 | w[..., PLACE]
        if waiting.all() and (keys == keys[0, 0]).all() and keys[0, 0] & _ALL == _ALL:
            complete = group = _TOGETHER
        else:
            complete, group = self._groups(waiting, keys)
            if not complete.any():
                return False
        self._shuffle(complete & (w[..., KIND] == SHUFFLE), group)
        self._vote(complete & (w[..., KIND] == VOTE), group)
        w[complete & (w[..., KIND] == WARP), STAMP] += 1
        w[..., STATE] = np.where(complete, READY, w[..., STATE])
        return True

    def _groups(self, waiting: np.ndarray, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which lanes can go on, and whether lane i waits for the same as lane j does."""
        w = self.warps
        group = waiting[:, :, None] & waiting[:, None, :] & (keys[:, :, None] == keys[:, None, :])
        named = (w[:, :, PLACE, None] >> _LANES & 1).astype(bool)
        strangers = waiting & ~named[:, _LANES, _LANES]
        if strangers.any():
            raise self._error("A thread waits for lanes of its warp without being one.", strangers)
        expected = named & (w[:, None, :, STATE] != ENDED)
        return waiting & (group == expected).all(axis=2), group

    def _shuffle(self, lanes: np.ndarray, group: np.ndarray) -> None:
        """shfl.sync of PTX: the word of another lane, and whether there is one"""
        if not lanes.any():
            return
        w = self.warps
        other, clamp, mode = w[..., LANE] & 31, w[..., CLAMP] & 31, w[..., MODE]
        segment = w[..., CLAMP] >> 8 & 31
        first = _LANES & segment
        last = first | (clamp & ~segment)
        source = np.choose(
            mode & 3,
            [first | (other & ~segment), _LANES - other, _LANES + other, _LANES ^ other],
        )
        inside = np.where(mode == 1, source >= last, source <= last)
        source = np.where(inside, source, _LANES)
        warp = np.arange(len(w))[:, None]
        words = w[warp, source, VALUE]
        if group is not _TOGETHER:
            words = np.where(group[warp, _LANES, source], words, _POISON)
        w[..., ANSWER] = np.where(lanes, words | inside.astype(np.int64) << 32, w[..., ANSWER])

    def _vote(self, lanes: np.ndarray, group: np.ndarray) -> None:
        """vote.sync: all, any, equal, ballot"""
        if not lanes.any():
            return
        w = self.warps
        given = w[:, None, :, VALUE] != 0
        every, some = (given | ~group).all(axis=2), (given & group).any(axis=2)
        ballot = ((given & group) << _LANES).sum(axis=2)
        bit = 1 << 32
        answers = [every * bit, some * bit, (every | ~some) * bit, ballot]
        w[lanes, ANSWER] = np.choose(w[..., MODE] & 3, answers)[lanes]

    # The block.

    def _answer_block(self, interval: int) -> None:
        """Let all threads pass a barrier that all have reached."""
        records = self.records[: self.count]
        waiting = records[:, STATE] == WAITING
        shown = (self.records[:, STATE] == WAITING).reshape(-1, WARP_SIZE)
        if (records[waiting, KIND] >= WARP).any():
            raise self._error("Threads wait for lanes of their warp that do not come.", shown)
        if not waiting.all():
            raise self._error("Threads wait at a barrier, others of the block have ended.", shown)
        places = records[:, PLACE]
        if (places != places[0]).any():
            where = "; ".join([self.places[place] for place in np.unique(places)])
            raise self._error(f"Threads of a block wait at different barriers: {where}.", shown)
        given = records[:, MODE] != 0
        totals = {POPC: given.sum(), AND: given.all(), OR: given.any()}
        records[:, ANSWER] = totals.get(int(records[0, KIND]), 0)
        records[:, STATE] = READY
        self._stamp(interval)

    def _error(self, headline: str, lanes: np.ndarray) -> CheckError:
        threads = np.flatnonzero(lanes.ravel())
        return CheckError(
            headline,
            [
                (
                    "where",
                    f"block {self.block}, thread {threads[0]}, in all {len(threads)} threads",
                ),
                ("why", "on a device the kernel would not end, or its result be undefined"),
            ],
        )
