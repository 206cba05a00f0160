"""L2. Which form of a user's function a transform calls: as it is, or rewritten (`fgrad/capture/`).

Rewritten are functions with loops, branches or calls that make plain numbers, where a trace would
fail or write a loop out step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from types import CellType, CodeType, FunctionType
from typing import Any, TypeVar

import numpy as np

from fgrad.base.frames import entries_of
from fgrad.base.provided import Provided
from fgrad.base.source import Loc
from fgrad.config import config
from fgrad.errors import (
    CaptureError,
    CheckError,
    CustomRuleError,
    FgradError,
    MissingRuleError,
    ShapeError,
    TracedArrayError,
    TracedBoolError,
    TracedIndexError,
)  # fmt: skip
from fgrad.trace import Builder, innermost
from fgrad.tracing.budget import is_too_large_for_python
from fgrad.tracing.thread_state import THREAD
from fgrad.typing import PyTree

# The code, by its identity, of functions that stay as they are in an outermost trace with values,
# unless they have defaults or close over other things than numbers.
left_alone: dict[int, CodeType] = {}
captured: Provided[Callable[[Any], Any]] = Provided("fgrad.capture.entry.captured")


def not_recorded(why: str) -> CaptureError:
    """The card for a loop or branch; `why` is what stands in the way."""
    return CaptureError(
        "A loop or branch on traced values cannot be recorded.",
        (
            ("why", f"{why}."),
            ("write", "np.where(p, a, b), fgrad.lax.cond, fgrad.lax.fori_loop"),
            ("write", "fgrad.explain_capture(f)(*args)      what became of each loop and branch"),
        ),
    )


def without_value(error: NameError) -> Exception:
    """The error for a variable without a value: a card where a traced value may be the reason."""
    is_local = isinstance(error, UnboundLocalError) or "free variable" in str(error)
    if not is_local or not THREAD.state.rewritten:
        return error
    card = not_recorded(f"a variable may have no value: {error}")
    last = list(entries_of(error.__traceback__))[-1]
    code = last.tb_frame.f_code
    used = Loc(code.co_filename, last.tb_lineno, code.co_name)
    rows = [row for row in card.rows if row[0] != "used"]
    return CaptureError(card.headline, (("used", f"{used}:  {used.text()}"), *rows))


def rolls() -> bool:
    """Whether a trace without values is open, for which loops are rolled."""
    builder = innermost()
    while builder is not None:
        if not builder.eager or builder.what == "vmap":
            return True
        builder = builder.outer
    return False


def user_form(fun: Callable[..., PyTree]) -> Callable[..., Any]:
    """What is called in place of a user's function in the trace that is open."""
    if not config.capture or THREAD.state.captures is False or not captured.provided:
        return fun
    return captured.call(fun)


_NUMBERS = frozenset({np.ndarray, np.float64, float, int})


def _holds_numbers(cells: Iterable[CellType]) -> bool:
    """Whether a function closes over arrays, numbers and NumPy alone."""
    try:
        held = [cell.cell_contents for cell in cells]
    except ValueError:  # a variable has no value yet
        return False
    return all([type(x) in _NUMBERS or x is np for x in held])


class UserForm:
    """`user_form` of one function, kept while a trace with values asks for it alone: the code and
    the defaults of a function may be exchanged, all else that it sees is shared with the form."""

    __slots__ = ("fun", "kept")

    def __init__(self, fun: Callable[..., PyTree]) -> None:
        self.fun = fun
        self.kept: tuple[Callable[..., Any], CodeType, object, object] | None = None

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> Any:
        return self.fun(*args, **kwargs)

    def with_function(self, fun: Callable[..., PyTree]) -> UserForm:
        """The same of a twin of the function, which finds tracers outside of it."""
        return UserForm(fun)

    def within(self, builder: Builder) -> Callable[..., Any]:
        """What is called in the trace of `builder`."""
        fun, kept = self.fun, self.kept
        if type(fun) is not FunctionType or builder.level > 1 or not config.capture:
            return user_form(fun)
        if builder.state.captures is False:
            return fun
        code, few, named = fun.__code__, fun.__defaults__, fun.__kwdefaults__
        bare = few is None and named is None and left_alone.get(id(code)) is code
        light = builder.eager and builder.what != "vmap"
        if bare and light and _holds_numbers(fun.__closure__ or ()):
            return fun
        if kept is None or kept[1] is not code or kept[2] is not few or kept[3] is not named:
            kept = self.kept = user_form(fun), code, few, named
        return kept[0]


@contextmanager
def capturing(on: bool) -> Generator[None]:
    """Whether functions are rewritten, within a block."""
    state = THREAD.state
    saved, state.captures = state.captures, on
    try:
        yield
    finally:
        state.captures = saved


Result = TypeVar("Result")


def captured_or_plain(trace: Callable[[], Result], wanted: bool | None) -> Result:
    """A trace of rewritten functions; one of plain Python where that fails.

    Arguments:
        wanted: whether functions are rewritten; None for the setting, or the trace around.
    """
    state = THREAD.state
    on = wanted is not False and config.capture and not (wanted is None and state.captures is False)
    if not on:
        with capturing(False):
            return trace()
    saved, state.rewritten = state.rewritten, False
    try:
        with capturing(True):
            return trace()
    except FgradError as error:
        final = isinstance(error, CheckError) or getattr(error, "final", False)
        if not state.rewritten or final or is_too_large_for_python():
            raise
        refused = error
    except NameError as error:
        found = without_value(error)
        if not isinstance(found, FgradError) or is_too_large_for_python():
            raise found from None
        refused = found
    finally:
        state.rewritten |= saved
    try:
        with capturing(False):
            return trace()
    except NameError:
        raise
    except Exception as plain:
        shown = _shown(refused, plain)
        raise shown from shown.__cause__  # NumPy's error may come of a card


def reason_of(refused: FgradError) -> str:
    """Why a function cannot be captured, in one line."""
    why = [text for label, text in refused.rows if label == "why"]
    return why[0] if isinstance(refused, CaptureError) else refused.headline


_VALUE_WANTED = (TracedArrayError, TracedBoolError, TracedIndexError)
_OF_THE_LINE = (CustomRuleError, MissingRuleError, ShapeError)


def _shown(refused: FgradError, plain: Exception) -> Exception:
    """The error to be raised where neither form of a function can be traced: the user's own, or the
    card of plain tracing, with the reason why the function was not captured."""
    if not isinstance(plain, FgradError):
        return refused
    if isinstance(refused, _OF_THE_LINE) and isinstance(plain, _VALUE_WANTED):
        return refused  # of the user's own line, which plain tracing did not reach
    if not plain.rows or str(refused) == str(plain):
        return plain
    k = max([k for k, (label, _) in enumerate(plain.rows) if label != "write"], default=-1) + 1
    row = ("capture", reason_of(refused))
    advice = [r for r in refused.rows if r[0] == "write" and r not in plain.rows]
    rows = (*plain.rows[:k], row, *advice, *plain.rows[k:])
    return type(plain)(plain.headline, rows).with_traceback(plain.__traceback__)
