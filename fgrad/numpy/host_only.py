"""L4. NumPy functions that need concrete values: they print, write files or decide.

They work where values are known (under `grad`, and outside of all transforms), and give a card
where they are not.
"""

from __future__ import annotations

from collections.abc import Callable

from fgrad.numpy.dispatch import implements, lookup
from fgrad.trace import Tracer, concrete
from fgrad.tracing.trace_errors import needs_value

PRINTING = ("array2string", "array_repr", "array_str")
WRITING = ("save", "savetxt", "savez", "savez_compressed")


def _plain(x: object) -> object:
    """The numbers behind a traced array, or a list of them."""
    if isinstance(x, (list, tuple)):
        return type(x)([_plain(y) for y in x])
    if not isinstance(x, Tracer):
        return x
    value = concrete(x)
    if value is None:
        raise needs_value("number", x)
    return value


def values_only(name: str) -> Callable[..., object]:
    """The NumPy function, of the numbers behind traced arrays."""
    target = lookup(name)

    def function(*args: object, **kwargs: object) -> object:
        return target(*[_plain(x) for x in args], **{k: _plain(x) for k, x in kwargs.items()})

    function.__name__ = name
    function.__doc__ = f"`np.{name}` of known values."
    return function


for _name in (*PRINTING, *WRITING):
    implements(_name)(values_only(_name))
