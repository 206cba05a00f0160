"""L7. `progress=` of loops that end when something is small: the number of steps so far.

told(k, None) after step k     a line on stderr, or a call of the user's function
"""

from __future__ import annotations

from collections.abc import Callable

from fgrad import lax
from fgrad.base.progress import Progress, Told
from fgrad.trace import Value
from fgrad.transforms.custom.callback import debug_callback
from fgrad.typing import PyTree


def steps_of(progress: bool | Progress, what: str) -> Told:
    """What tells of steps."""
    return Told(progress, what, "steps")


def told_loop(
    going: Callable[[PyTree], Value],
    step: Callable[[PyTree], PyTree],
    start: PyTree,
    count: Callable[[PyTree], Value],
    told: Told,
) -> PyTree:
    """`while_loop` whose states know how many steps were made: `count(state)`."""
    if not told.progress:
        return lax.while_loop(going, step, start)

    def telling(state: PyTree) -> PyTree:
        after = step(state)
        debug_callback(lambda k: told(int(k)), count(after))
        return after

    last = lax.while_loop(going, telling, start)
    debug_callback(lambda _: told.ended(), count(last))
    return last


def counting(
    told: Told, callback: Callable[[PyTree], object] | None
) -> Callable[[PyTree], object] | None:
    """The callback of one of SciPy's iterations, which is called once a step."""
    if not told.progress:
        return callback
    step = told.counted(lambda: None)

    def called(x: PyTree) -> object:
        step()
        return None if callback is None else callback(x)

    return called
