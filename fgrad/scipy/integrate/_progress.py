"""L7. `progress=` of differential equations: how far the time is."""

from __future__ import annotations

from collections.abc import Callable

from fgrad.base.progress import Progress, Told
from fgrad.trace import Value
from fgrad.tracing.capturing import user_form
from fgrad.transforms.custom.callback import debug_callback
from fgrad.typing import PyTree


def telling(
    field: Callable[..., PyTree], progress: bool | Progress, what: str, ts: PyTree, place: int
) -> Callable[..., PyTree]:
    """A field that tells how far its time is, which is the argument at `place`."""
    if not progress:
        return field
    told = Told(progress, what)

    def tell(t: Value, first: Value, last: Value) -> None:
        whole = float(abs(last - first))
        told(min(float(abs(t - first)), whole), whole)

    def with_time(*args: PyTree) -> PyTree:
        debug_callback(tell, args[place], ts[0], ts[-1])
        return user_form(field)(*args)

    return with_time
