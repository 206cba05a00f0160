"""L8. `python -m fgrad profile script.py`: where the time of a script goes, by its own lines.

    line                          calls traces   trace compile     run  prompt   total
    train.py:21  p = step(p, b)    1000      1   12 ms  140 ms  310 ms            462 ms

A row is a line of the script that calls what a transform made.  `trace` runs its Python code,
`compile` is the compiler or its cache, `run` compiled code, `prompt` gradients and maps that are
evaluated operation by operation because no `jit` is around them.  Below, the steps of the compiled
function that ran longest, each with the lines that it came from.
"""

from __future__ import annotations

import argparse
import functools
import os
import runpy
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from fgrad.base.named_tuple import NamedTuple
from fgrad.base.pickling import Transformed, label_of
from fgrad.base.source import Loc, resolve, user_frame
from fgrad.command.texts import CommandError
from fgrad.compile.entry.native import native_class
from fgrad.compile.jit import call as calls
from fgrad.compile.jit.jitted import Jitted
from fgrad.compile.jit.profile import profile
from fgrad.compile.jit.texts import explain_retrace
from fgrad.config import config
from fgrad.typing import PyTree

# What is timed: where it stands, and as what its own time counts.
TIMED: tuple[tuple[object, str, str], ...] = (
    (Jitted, "__call__", "run"),
    (Transformed, "__call__", "prompt"),
    (Jitted, "_trace", "trace"),
    (calls, "_compiled", "compile"),
)
COLUMNS = ("trace", "compile", "run", "prompt")
_STEPS_REPEAT = 5
_MANY_TRACES = 8
_SHARE = 0.1  # of the time, from which advice is worth a line


class Row:
    """What the calls of one line took, in seconds, by what it was spent on."""

    def __init__(self) -> None:
        self.calls = self.traces = 0
        self.seconds: dict[str, float] = dict.fromkeys(COLUMNS, 0.0)

    @property
    def total(self) -> float:
        """All of it."""
        return sum(self.seconds.values())


class Last(NamedTuple):
    """The last call of a jitted function."""

    args: tuple[PyTree, ...]
    kwargs: dict[str, PyTree]


class Open:
    """A call that has not returned: its kind, its line, and the seconds of what is within it."""

    def __init__(self, kind: str, line: Loc) -> None:
        self.kind, self.line, self.within = kind, line, 0.0


class Clock:
    """The time of each line, and of each jitted function.

    A call made within another one counts for the outermost line; its time is taken from that of
    the one around it, so that nothing counts twice.  What is called while a function is traced is
    part of tracing.
    """

    def __init__(self) -> None:
        self.rows: dict[Loc, Row] = {}
        self.running: dict[int, float] = {}  # seconds of compiled code, by jitted function
        self.last: dict[int, tuple[Jitted, Last]] = {}
        self._lock = threading.Lock()
        self._local = threading.local()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Time all calls within the block; they go through Python meanwhile."""
        before = [(owner, name, getattr(owner, name)) for owner, name, _ in TIMED]
        with config.override(native_calls=False), ExitStack() as stack:
            stack.callback(native_class, Jitted)  # which a new `__call__` undoes
            for (owner, name, old), (_, _, kind) in zip(before, TIMED, strict=True):
                stack.callback(setattr, owner, name, old)
                setattr(owner, name, self._timed(old, kind))
            yield

    def _timed(self, function: Callable[..., PyTree], kind: str) -> Callable[..., PyTree]:
        @functools.wraps(function)
        def timed(*args: PyTree, **kwargs: PyTree) -> PyTree:
            stack: list[Open] | None = getattr(self._local, "stack", None)
            if stack is None:
                stack = self._local.stack = []
            in_trace = bool(stack) and stack[-1].kind == "trace" and kind != "compile"
            if in_trace or (kind in ("trace", "compile") and not stack):  # that `inspect` asked for
                return function(*args, **kwargs)
            call = Open(kind, stack[0].line if stack else _line())
            stack.append(call)
            start = time.perf_counter()
            try:
                result = function(*args, **kwargs)
                if kind == "run":
                    self.last[id(args[0])] = args[0], Last(args[1:], kwargs)  # type: ignore[assignment]
                return result
            finally:
                seconds = time.perf_counter() - start
                stack.pop()
                if stack:
                    stack[-1].within += seconds
                self._add(call, seconds - call.within, len(stack), args)

        return timed

    def _add(self, call: Open, seconds: float, depth: int, args: tuple[PyTree, ...]) -> None:
        with self._lock:
            row = self.rows.setdefault(call.line, Row())
            row.seconds[call.kind] += seconds
            row.calls += depth == 0
            row.traces += call.kind == "trace"
            if call.kind == "run":
                self.running[id(args[0])] = self.running.get(id(args[0]), 0.0) + seconds


def _line() -> Loc:
    frame = user_frame()
    return Loc("", 0, "") if frame is None else resolve((frame.f_code, frame.f_lasti))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    steps = "show the steps of the N functions that ran longest (default 1)"
    parser.add_argument("--steps", default=1, help=steps, type=int, metavar="N")
    lines = "show the N lines that took longest (default 12)"
    parser.add_argument("--lines", default=12, help=lines, type=int, metavar="N")
    parser.add_argument("script", help="a Python script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its own arguments")


def run(options: argparse.Namespace) -> int:
    """Run the script and print the report on standard error; the script's own status."""
    if not os.path.isfile(options.script):
        raise CommandError(f"there is no file {options.script!r}")
    clock = Clock()
    start = time.perf_counter()
    status = _run_script(options.script, options.arguments, clock)
    seconds = time.perf_counter() - start
    sys.stdout.flush()
    print(report(clock, os.path.basename(options.script), seconds, options), file=sys.stderr)
    return status


def _run_script(script: str, arguments: list[str], clock: Clock) -> int:
    """Run a script as Python does; its exit status."""
    sys.argv = [script, *arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    try:
        with clock.watching():
            runpy.run_path(script, run_name="__main__")
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        print(error.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def report(clock: Clock, name: str, seconds: float, options: argparse.Namespace) -> str:
    """The table of lines, advice, and the steps of what ran longest."""
    inside = sum([row.total for row in clock.rows.values()])
    threads = ", over all threads" if inside > seconds else ""
    parts = [f"\n{name}: {seconds:.2f} s; in functions that fgrad made {inside:.2f} s{threads}"]
    if clock.rows:
        parts.append(lines_of(clock.rows, options.lines))
    parts += _advice(clock, seconds)
    busiest = sorted(clock.last, key=lambda key: -clock.running[key])
    parts += [text for key in busiest[: options.steps] for text in _steps(*clock.last[key])]
    return "\n\n".join(parts)


def lines_of(rows: dict[Loc, Row], most: int) -> str:
    """The table of lines, the longest first."""
    ordered = sorted(rows.items(), key=lambda item: -item[1].total)
    places = [f"{line}:  {line.text()}" for line, _ in ordered[:most]]
    head = "".join([f"{column:>10}" for column in ("calls", "traces", *COLUMNS, "total")])
    lines = [f"{head}  line"]
    for (_, row), place in zip(ordered, places, strict=False):
        times = [row.seconds[c] for c in COLUMNS] + [row.total]
        cells = [f"{row.calls:>10,}{row.traces:>10,}", *[f"{_time(t):>10}" for t in times]]
        lines.append(f"{''.join(cells)}  {place}")
    if len(ordered) > most:
        rest = sum([row.total for _, row in ordered[most:]])
        lines.append(f"{'':70}{_time(rest):>10}  {len(ordered) - most} more lines")
    return "\n".join(lines)


def _time(seconds: float) -> str:
    if not seconds:
        return ""
    return f"{1e3 * seconds:,.1f} ms" if seconds >= 1e-4 else f"{1e6 * seconds:.1f} us"


def _advice(clock: Clock, seconds: float) -> list[str]:
    """What the times say should be changed."""
    found: list[str] = []
    for line, row in clock.rows.items():
        if row.seconds["prompt"] > _SHARE * seconds and row.calls > 1:
            found.append(f"{line} is evaluated operation by operation: put fgrad.jit around it.")
    for function, _ in clock.last.values():
        if function.traces >= _MANY_TRACES:
            found.append(explain_retrace(function))
    compiling = sum([row.seconds["compile"] for row in clock.rows.values()])
    if compiling > _SHARE * seconds and not config.cache:
        found.append("Compiled code is not kept, FGRAD_CACHE=0: each run compiles anew.")
    return found


def _steps(function: Jitted, last: Last) -> list[str]:
    """The steps of a jitted function for its last arguments."""
    if function.donate_argnums:
        return [f"{label_of(function)}: its steps are not timed, as its arguments are donated."]
    try:
        return [str(profile(function, _STEPS_REPEAT)(*last.args, **last.kwargs))]
    except Exception as error:
        return [f"{label_of(function)}: its steps cannot be timed: {error}"]
