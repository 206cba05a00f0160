"""L0. `progress=` of what takes long: a line on stderr, or calls of the user's function.

fgrad scan: 400/1000 in 2.0 s, 3.0 s left     written over on a terminal and in a notebook;
fgrad minimize: 41 evaluations in 3.1 s       elsewhere the last line alone
"""

from __future__ import annotations

import functools
import math
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeAlias

from fgrad.base.waiting import is_watched

# A function of (done, count); count is None where nobody knows how many there will be.
Progress: TypeAlias = Callable[..., object]

PERIOD = 0.1  # seconds between two lines


class Told:
    """Tells of work that lasts.

    Arguments:
        progress: False for nothing, True for a line, or a function of (done, count).
        what: the name of the work.
        unit: what is counted where nobody knows how many there will be.
    """

    def __init__(self, progress: bool | Progress, what: str, unit: str = "evaluations") -> None:
        self.progress, self.what, self.unit = progress, what, unit
        self.last: tuple[float, float | None] = (0, 0)
        self.start = self.written = time.monotonic()

    def __call__(self, done: float, count: float | None = None) -> None:
        """So much is done; the examples of a batch that are as far count once."""
        if not self.progress or (done, count) == self.last:
            return
        if done < self.last[0]:
            self.start = time.monotonic()
        self.last = (done, count)
        if callable(self.progress):
            self.progress(done, count)
            return
        ended = count is not None and done >= count
        if ended or time.monotonic() - self.written >= PERIOD:
            self._write(ended)

    def __enter__(self) -> Told:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.ended()

    def ended(self) -> None:
        """The last line of work whose count was not known, or that ended before its end."""
        done, count = self.last
        if self.progress is True and (count is None or done < count):
            self._write(ended=True)
        self.last = (math.inf, 0)  # what is done after this begins anew

    def counted(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        """A function whose calls are what is counted."""
        if not self.progress:
            return fun
        calls = 0

        @functools.wraps(fun)
        def function(*args: object, **kwargs: object) -> object:
            nonlocal calls
            calls += 1
            found = fun(*args, **kwargs)
            self(calls)
            return found

        return function

    def _write(self, ended: bool) -> None:
        stream = sys.stderr
        live = is_watched(stream)
        self.written = time.monotonic()
        if stream is None or not (live or ended):
            return
        text = f"fgrad {self.what}: {self._text()}"
        print(f"\r{text:<60}" if live else text, end="\n" if ended else "", file=stream, flush=True)

    def _text(self) -> str:
        (done, count), spent = self.last, self.written - self.start
        if count is None:
            return f"{done:.6g} {self.unit} in {spent:.1f} s"
        left = spent * (count - done) / done if done else 0.0
        return f"{done:.6g}/{count:.6g} in {spent:.1f} s" + f", {left:.1f} s left" * (done < count)
