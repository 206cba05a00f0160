"""L0. What takes long says so: on a terminal, in a notebook, to `logging`; silent otherwise.

fgrad compiles grad(loss), 3.5 s: build                        written over while it lasts
fgrad compiled grad(loss) in 5.2 s: build 71%, fuse 12%, lower 6%
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable, Sequence
from typing import TextIO

SECONDS = 2.0  # what takes less is not told
PERIOD = 0.5  # between two lines


def is_watched(stream: TextIO | None) -> bool:
    """Whether somebody reads a stream while it is written: a terminal, or a notebook's cell."""
    if stream is None or stream.closed:
        return False
    return stream.isatty() or type(stream).__module__.startswith("ipykernel")


def log(topic: str, text: str, *, info: bool) -> None:
    """Hand a message to `logging`, if the program has it: nobody listens before it is imported."""
    logging = sys.modules.get("logging")
    if logging is not None:
        level = logging.INFO if info else logging.DEBUG
        logging.getLogger(f"fgrad.{topic}").log(level, "%s", text)


class Waiting:
    """Tells of a compilation that lasts; `stage` is what it does at the moment."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.stage = "trace"
        self.stream = sys.stderr if is_watched(sys.stderr) else None
        self.start = time.perf_counter()
        self._ended = threading.Event()
        self._writing = threading.Lock()
        self._width = 0

    def __enter__(self) -> Waiting:
        if self.stream is not None:
            threading.Thread(target=self._watch, name="fgrad-waiting", daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ended.set()
        with self._writing:
            if self._width and self.stream is not None:
                print("\r" + " " * self._width + "\r", end="", file=self.stream, flush=True)
            self._width = 0

    def done(self, stages: Iterable[tuple[str, float]]) -> None:
        """It is compiled; tell of it if that took long.

        Arguments:
            stages: names and times; those of a name are added up.
        """
        self.__exit__()
        spent = time.perf_counter() - self.start
        text = f"compiled {self.name} in {spent:.{1 if spent >= SECONDS else 3}f} s: "
        text += ", ".join(f"{stage} {share:.0%}" for stage, share in largest(stages))
        if spent >= SECONDS and self.stream is not None:
            print(f"fgrad {text}", file=self.stream, flush=True)
        log("compile", text, info=spent >= SECONDS)

    def tell(self) -> None:
        """Write what is done now over what was written before."""
        spent = time.perf_counter() - self.start
        text = f"fgrad compiles {self.name}, {spent:.1f} s: {self.stage}"
        with self._writing:
            if not self._ended.is_set():
                print(f"\r{text:<{self._width}}", end="", file=self.stream, flush=True)
                self._width = max(self._width, len(text))

    def _watch(self) -> None:
        pause = SECONDS
        while not self._ended.wait(pause):
            self.tell()
            pause = PERIOD


def largest(stages: Iterable[tuple[str, float]], count: int = 3) -> Sequence[tuple[str, float]]:
    """The stages that took most of the time, with their shares."""
    spent: dict[str, float] = {}
    for name, seconds in stages:
        spent[name] = spent.get(name, 0.0) + seconds
    whole = sum(spent.values()) or 1.0
    return sorted([(n, s / whole) for n, s in spent.items()], key=lambda pair: -pair[1])[:count]
