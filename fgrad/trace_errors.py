"""L2. The cards of tracing: a value that is not known, a tracer that outlived its trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from fgrad.detached import called_by_user, module_of
from fgrad.errors import (
    FgradError,
    LeakedTracerError,
    Row,
    TracedArrayError,
    TracedBoolError,
    TracedIndexError,
)
from fgrad.source import Loc, here, resolve

if TYPE_CHECKING:
    from fgrad.trace import Tracer


class _Need(NamedTuple):
    """What Python or NumPy wanted of a tracer, and what to write instead."""

    error: type[FgradError]
    headline: str
    advice: tuple[Row, ...]


_STATIC = ("write", "fgrad.jit(f, static_argnums=...)    the argument is really a constant")

_TAKE = (
    ("write", "fgrad.at(x)[i].get()                instead of x[i] of a NumPy array x"),
    ("write", "x as an argument of the function    where x[i] is traced, and works"),
)

NEEDS = {
    "bool": _Need(
        TracedBoolError,
        "Python needed True or False from a traced array.",
        (
            ("write", "np.where(condition, a, b)           both sides are cheap arrays"),
            _STATIC,
            ("write", "grad(f) without jit                 values are then known, and `if` works"),
        ),
    ),
    "number": _Need(
        TracedArrayError,
        "Python needed a number from a traced array.",
        (("write", "keep the array: operators and np.* functions work on it"), _STATIC),
    ),
    "integer": _Need(
        TracedIndexError,
        "Python needed an integer from a traced array.",
        (
            (
                "write",
                "x[i] with a traced integer is fine; sizes and range() need known ones",
            ),
            ("write", "fgrad.lax.dynamic_slice_in_dim(x, i, n)    instead of x[i:i + n]"),
            _STATIC,
        ),
    ),
    "array": _Need(
        TracedArrayError,
        "NumPy needed a plain array from a traced array.",
        (
            ("write", "np.stack([x, y])                    instead of np.array([x, y])"),
            ("write", "import fgrad.numpy as np            whose array() takes traced values"),
            ("write", "fgrad.stop_gradient(x)              if a constant is meant, then x.item()"),
        ),
    ),
}


_DRAW = (
    ("write", "mean + scale * rng.normal(size=n)   plain numbers, shifted and scaled"),
    ("write", "fgrad.random.normal(key, shape)     and others, whose numbers depend on keys"),
)

_MAKERS = ("arange", "array", "asanyarray", "asarray", "full", "ndenumerate")  # ask no argument

_SCIPY = ("integrate", "linalg", "optimize", "special", "stats")  # parts with traced functions


def needs_value(need: str, x: Tracer) -> FgradError:
    """The card for a use of a traced value that needs its numbers."""
    error, headline, advice = NEEDS[need]
    unknown: Any = x
    while hasattr(unknown.value, "builder"):
        unknown = unknown.value
    used, argument = resolve(here()), _argument(x)
    if unknown.value is None:
        batched = unknown.builder.what == "vmap"
        state = "each lane has another value" if batched else "it has no value yet"
        owner = f"{unknown.builder.what}({unknown.builder.name})"
        why = f"{owner} traces the function once, for all values; {state}."
    else:
        why = "a traced array carries derivatives; a plain array would silently lose them."
    rows = (
        ("value", f"{x.aval} {_origin(x, argument)}"),
        ("used", f"{used}:  {used.text()}"),
        ("why", why),
    )
    if need == "array":
        advice = _in_place_of(x) or advice
    elif argument.isidentifier():
        static = ("write", f"fgrad.jit(f, static_argnames={argument!r})    it is really a constant")
        advice = tuple([static if row is _STATIC else row for row in advice])
    return error(headline, rows + advice)


def _origin(x: Tracer, argument: str) -> str:
    """Where a value comes from: the user's line, or an argument."""
    made = made_at(x)
    if made is not None:
        return f"made at {made}:  {made.text()}"
    return f"{'the argument ' + argument if argument else 'an argument'} of {x.builder.name}"


def _argument(x: Tracer) -> str:
    """The name of an argument of the traced function; empty if it is none, or not known."""
    places = [given.index for given in x.builder.inputs]
    if x.builder.names is None or x.index not in places:
        return ""
    return x.builder.names()[places.index(x.index)]


def _in_place_of(x: Tracer) -> tuple[Row, ...]:
    """What to write instead of the call, or of the index, that wants a plain array of `x`."""
    callee = called_by_user()
    if callee is None:
        return _TAKE if x.dtype.kind in "biu" else ()
    package, part, *_ = [*module_of(callee).split("."), ""]
    name = getattr(callee, "__name__", "")
    if (package, part) == ("numpy", "random"):
        return _DRAW
    if package == "numpy" and name in _MAKERS:
        stack = NEEDS["array"].advice[:1] if name == "array" else ()
        return (*stack, ("write", f"{f'fgrad.numpy.{name}(...)':<35} takes traced values"))
    if package != "scipy":
        return ()
    if part not in _SCIPY:
        return (("write", "np.* functions of the array, or fgrad.pure_callback with a rule"),)
    path = f"fgrad.scipy.{part}"
    family = type(getattr(callee, "__self__", None)).__name__
    if part == "stats":
        path += f".{family.removesuffix('_gen')}" if family.endswith("_gen") else ".<distribution>"
    return (("write", f"{path}.{name}    SciPy's function for traced arrays"),)


def made_at(x: Tracer) -> Loc | None:
    """Where a tracer was made, or None for an argument."""
    for record in reversed(x.builder.records):
        if x.index in record.outs:
            return resolve(record.loc)
    return None


def leaked(x: Tracer) -> LeakedTracerError:
    """The card for a tracer that outlived its trace, or that came from another thread."""
    used = resolve(here())
    return LeakedTracerError(
        "A traced value was used outside of the trace that made it.",
        (
            ("value", f"{x.aval} made while {x.builder.what}({x.builder.name}) was tracing"),
            ("used", f"{used}:  {used.text()}"),
            (
                "why",
                "its trace has ended, or runs in another thread.",
            ),
            ("write", "return the value from the function, instead of storing it in a global,"),
            ("write", "a list or an object; has_aux=True returns extra results."),
        ),
    )
