"""L4. What functions of other libraries are told that are given a traced array.

    torch.sin(x)    torch.from_dlpack(x)      of a traced x: a card

JAX has a hook too, `__jax_array__`, but says "no longer supported" itself before it calls it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

import numpy as np

from fgrad.errors import UnsupportedTypeError
from fgrad.numpy.promote import user_line
from fgrad.trace import Tracer


def _card(called: str, why: str, code: str, what: str) -> UnsupportedTypeError:
    rows = (*user_line(), ("why", why), ("write", f"{code:<35} {what}"))
    return UnsupportedTypeError(f"{called} does not take traced arrays.", rows)


def torch_function(
    _cls: type[Tracer],
    func: Callable[..., object],
    _types: Sequence[type],
    _args: Sequence[object] = (),
    _kwargs: Mapping[str, object] | None = None,
) -> NoReturn:
    """Refuse a function of torch: torch calls this in place of each of its own."""
    name = getattr(func, "__name__", str(func))
    known = f"np.{name}(x)" if hasattr(np, name) else "a function of NumPy or fgrad"
    why = "fgrad traces the functions of NumPy; torch has a trace of its own."
    raise _card(f"torch.{name}", why, known, "docs/coming_from.md has the names")


def dlpack(_x: Tracer, **_kwargs: object) -> NoReturn:
    """Refuse DLPack: a traced array has no memory that another library could share."""
    why = "they have no memory that another library could share."
    raise _card("DLPack", why, "the array that jit(f)(x) returns", "outside of f")


METHODS = {
    "__torch_function__": classmethod(torch_function),
    "__dlpack__": dlpack,
}
