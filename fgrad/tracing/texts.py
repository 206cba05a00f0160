"""L2. The texts of traced values, `str(x)` or `f"{x}"`, in loops and branches.

Outside of these, the text of a value that is not known says what it stands for.  In a body that is
traced once for all steps, `f"k{i}"` would put that text in the place of `"k0"`, `"k1"`, ...: it is
refused, and the loop is run step by step if it can be.  What is only shown has a text.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from fgrad.base.source import caller, is_own_file
from fgrad.errors import TracedTextError
from fgrad.tracing.thread_state import THREAD
from fgrad.tracing.trace_errors import ASKED

if TYPE_CHECKING:
    from fgrad.trace import Tracer

SHOWING = frozenset({
    "IPython", "_pytest", "bdb", "cmd", "code", "debugpy", "doctest", "logging", "pdb", "pydevd",
    "pytest", "reprlib", "rich", "traceback", "unittest", "warnings",
})  # fmt: skip
_INNER = (
    "__repr__", "__str__", "__format__", "<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>",
)  # fmt: skip


def text_asked(x: Tracer, value: object) -> None:
    """To be called where the text of a traced value is made; None for a value that is not known.

    Raises:
        TracedTextError: in a loop or a branch, unless it is only shown.
    """
    if value is not None:
        return
    if ASKED.note is not None:
        ASKED.note(x)
    state = THREAD.state
    if not (state.bodies or state.textless) or _is_shown(caller()):
        return
    raise TracedTextError(
        "The text of a traced value would become part of the program.",
        (
            ("value", f"{x.aval} in a loop or a branch"),
            ("why", "the text of a traced value is made once, for all of its values."),
            ("write", "print(x), fgrad.debug.print(...)    the text is only shown"),
            ("write", "for i in fgrad.unroll(range(n))     i is the number of the step"),
        ),
    )


def _is_shown(frame: FrameType | None) -> bool:
    """Whether fgrad itself, a debugger, a log, or what is printed asks for a text."""
    while frame is not None and frame.f_code.co_name in _INNER:
        frame = frame.f_back
    if frame is None or frame.f_code is THREAD.state.shown:
        return True
    root = frame.f_globals.get("__name__", "").partition(".")[0]
    return root in SHOWING or is_own_file(frame.f_code.co_filename)


@contextmanager
def textless() -> Generator[None]:
    """Refuse texts of traced values in a block, as in the body of a loop."""
    state = THREAD.state
    saved, state.textless = state.textless, True
    try:
        yield
    finally:
        state.textless = saved


def shown(value: Callable[[], object]) -> object:
    """What is printed, logged or raised: traced values have texts in the function itself, not in
    those that it calls."""
    state = THREAD.state
    saved, state.shown = state.shown, getattr(value, "__code__", None)
    try:
        return value()
    finally:
        state.shown = saved
