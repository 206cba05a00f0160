"""L2. What each thread is tracing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import CodeType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeGuard

from fgrad.base.source import Loc, RawLoc

if TYPE_CHECKING:
    from fgrad.errors import FgradError
    from fgrad.trace import Builder, Tracer
    from fgrad.tracing.axes import Axis
    from fgrad.tracing.carried import Body

Handlers: TypeAlias = Callable[[], Any]  # gives the classes that the handlers of a `try` catch


class State:
    """What a thread is tracing: the innermost builder, and a location that rules replay; the
    innermost closed trace (`closed.py`), and whether it is that of a custom rule; the bodies of
    loops and branches that are being traced (`carried.py`); named axes (`axes.py`); whether values
    are checked when the program runs (`checks.py`), and in which `try` blocks."""

    __slots__ = (
        "axes", "bodies", "builder", "captures", "checks", "closed", "handlers", "loc", "mapped",
        "opened", "recorded", "rewritten", "rule", "shown", "textless", "unsettled", "via",
        "within",
    )  # fmt: skip

    def __init__(self) -> None:
        self.axes: tuple[Axis, ...] = ()  # that are open, the innermost last
        self.mapped: str | None = None  # the axis whose batching rules run
        self.unsettled: list[FgradError] | None = None  # cards, while carries find their types
        self.builder: Builder | None = None  # read it by `trace.innermost()`
        self.bodies: tuple[Body, ...] = ()
        self.captures: bool | None = None  # whether functions are rewritten (`capturing.py`)
        self.checks: bool | None = None  # None: as the code that is traced says
        self.handlers: tuple[Handlers, ...] = ()  # of the `try` blocks that are being traced
        self.rewritten = False  # whether any was, since this was set to False
        self.opened = 0  # how many traces were begun
        self.recorded = 0  # how many equations were recorded in those that have ended
        self.loc: RawLoc | Loc | None = None
        self.closed: Builder | None = None
        self.rule = False
        self.shown: CodeType | None = None  # where traced values have texts (`texts.py`)
        self.textless = False  # whether they have none elsewhere
        self.via: tuple[str, ...] = ()
        # While a trace has an equation evaluated in its enclosing context: the innermost trace
        # that is open, and the innermost one of that context.
        self.within: tuple[Builder | None, Builder | None] | None = None


class Hides(Protocol):
    """What looks at the builder of a trace while it runs, see tracing/outside/hidden.py."""

    builder: Builder | None


class _Thread(threading.local):
    """The state of each thread.  Who needs more of it reads it once: it takes as long as ten
    attributes of other objects."""

    def __init__(self) -> None:
        self.state = State()


THREAD = _Thread()


def is_traced(x: object) -> TypeGuard[Tracer]:
    """Whether a value is a tracer, for modules that `trace.py` imports."""
    return hasattr(x, "builder")
