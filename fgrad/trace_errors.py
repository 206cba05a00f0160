"""L2. The cards of tracing: a value that is not known, a tracer that outlived its trace."""

from __future__ import annotations

import importlib
import opcode
import threading
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from fgrad.errors import (
    FgradError,
    LeakedTracerError,
    LostDerivativeError,
    Row,
    TracedArrayError,
    TracedBoolError,
    TracedIndexError,
)
from fgrad.source import Loc, here, library_frames, resolve, user_frame

if TYPE_CHECKING:
    from fgrad.trace import Builder, Tracer


class _Asked(threading.local):
    """Who is told of tracers whose numbers were wanted, also if the card for that is caught."""

    note: Callable[[Tracer], None] | None = None


ASKED = _Asked()


class _Need(NamedTuple):
    """What Python or NumPy wanted of a tracer, and what to write instead."""

    error: type[FgradError]
    headline: str
    advice: tuple[Row, ...]


_STATIC = ("write", "fgrad.jit(f, static_argnums=...)    the argument is really a constant")

_WITHOUT_JIT = ("write", "grad(f) without jit                 values are known, Python may look")
_ONLY_JIT = (_STATIC, _WITHOUT_JIT)

_TAKE = (
    ("write", "fgrad.numpy.array(x)[i]             instead of x[i] of a NumPy array x"),
    ("write", "n = fgrad.numpy.array(n)            an array that n[i] += 1 may write into"),
)

NEEDS = {
    "bool": _Need(
        TracedBoolError,
        "Python needed True or False from a traced array.",
        (
            ("write", "np.where(p, a, b)                   for `if`: both sides are computed"),
            ("write", "fgrad.lax.cond(p, f, g, x)          for `if`: f(x) or g(x) is computed"),
            ("write", "fgrad.lax.while_loop(p, step, x)    for `while p(x): x = step(x)`"),
            *_ONLY_JIT,
        ),
    ),
    "number": _Need(
        TracedArrayError,
        "Python needed a number from a traced array.",
        (
            ("write", "x                                   operators and np.* functions take it"),
            ("write", "fgrad.debug.print('{:.3f}', x)      for text: when its value is there"),
            *_ONLY_JIT,
        ),
    ),
    "integer": _Need(
        TracedIndexError,
        "Python needed an integer from a traced array.",
        (
            ("write", "x[i]                                of an array: i may be traced"),
            ("write", "fgrad.lax.fori_loop(0, n, step, x)  instead of range(n)"),
            ("write", "fgrad.lax.dynamic_slice_in_dim(x, i, 3)    instead of x[i:i + 3]"),
            *_ONLY_JIT,
        ),
    ),
    "array": _Need(
        TracedArrayError,
        "NumPy needed a plain array from a traced array.",
        (
            ("write", "np.stack([x, y])                    instead of np.array([x, y])"),
            ("write", "import fgrad.numpy as np            for np.array, np.full, np.zeros"),
            ("write", "m + s * rng.normal(size=n)          instead of rng.normal(m, s, n)"),
            ("write", "fgrad.stop_gradient(x)              if a constant is meant"),
        ),
    ),
}

_STORED = _Need(
    LostDerivativeError,
    "A traced value was stored into a plain NumPy array.",
    (
        ("write", "y = fgrad.numpy.zeros(n)     an array that y[i] = x may write into"),
        ("write", "np.stack([a, b])             build the array from its parts"),
        ("write", "fgrad.at(y)[i].set(x)        a new array with one element replaced"),
    ),
)

_LOST = _Need(
    LostDerivativeError,
    "Python needed a plain number from a value that is differentiated.",
    (
        ("write", "np.sin(x), np.sum(x)            instead of math.sin(x), math.fsum(x)"),
        ("write", "scipy.special.erf(x)            instead of math.erf(x), math.lgamma(x)"),
        ("write", "x                               instead of float(x), x.item() or x.tolist()"),
        ("write", "float(fgrad.stop_gradient(x))   if a plain number is meant"),
    ),
)


def loses_derivative(x: Tracer, by: Builder) -> FgradError:
    """The card for a value whose derivative would get lost in a plain number."""
    error, headline, advice = _STORED if _stored_by_user() else _LOST
    rows = (
        ("value", f"{x.aval} {_origin(x, _argument(x))}"),
        _used(),
        ("why", f"{by.what}({by.name}) differentiates it, and a plain number is a constant."),
    )
    return error(headline, rows + (_in_library() or advice))


def _used() -> Row:
    used = resolve(here())
    return ("used", f"{used}:  {used.text()}")


def _stored_by_user() -> bool:
    """Whether the user's code is executing an assignment `y[i] = x`."""
    frame = user_frame()
    if frame is None or frame.f_lasti < 0 or any(library_frames()):
        return False
    return frame.f_code.co_code[frame.f_lasti] == opcode.opmap["STORE_SUBSCR"]


_LABELLED = ("pandas", "xarray", "polars")  # whose operators want plain numbers


def _in_library() -> tuple[Row, ...]:
    """What to write instead of the function of SciPy or pandas that the user has called."""
    modules = [(f.f_globals.get("__name__", "").partition(".")[0], f) for f in library_frames()]
    labelled = next((name for name, _ in modules if name in _LABELLED), "")
    if labelled:
        return (
            ("write", f"x.to_numpy()                        the plain array of {labelled}'s x"),
        )
    frames = [frame for name, frame in modules if name == "scipy"]
    for frame in reversed(frames):
        traced = _traced_form(frame)
        if traced:
            return (("write", f"{traced}    SciPy's function for traced arrays"),)
    plain = ("write", "np.* functions of the array, or fgrad.pure_callback with a rule")
    return (plain,) if frames else ()


def _traced_form(frame: FrameType) -> str:
    """The name of fgrad's form of the function of SciPy that a frame executes; empty if none."""
    part = frame.f_globals["__name__"].split(".")[1]
    path, name = f"fgrad.scipy.{part}", frame.f_code.co_name
    try:
        owner: Any = importlib.import_module(path)
    except ImportError:
        return ""
    family = type(frame.f_locals.get("self")).__name__.removesuffix("_gen")
    if hasattr(type(vars(owner).get(family)), name):
        return f"{path}.{family}.{name}"
    found = vars(owner).get(name)
    return f"{path}.{name}" if getattr(found, "__module__", "").startswith("fgrad.") else ""


def needs_value(need: str, x: Tracer) -> FgradError:
    """The card for a use of a traced value that needs its numbers."""
    if ASKED.note is not None:
        ASKED.note(x)
    stored = need in ("number", "array") and _stored_by_user()
    error, headline, advice = _STORED if stored else NEEDS[need]
    unknown: Any = x
    while hasattr(unknown.value, "builder"):
        unknown = unknown.value
    argument = _argument(x)
    if unknown.value is None:
        batched = unknown.builder.what == "vmap"
        state = "each lane has another value" if batched else "it has no value yet"
        owner = f"{unknown.builder.what}({unknown.builder.name})"
        why = f"{owner} traces the function once, for all values; {state}."
    else:
        why = "a traced array carries derivatives; a plain array would silently lose them."
    rows = (
        ("value", f"{x.aval} {_origin(x, argument)}"),
        _used(),
        ("why", why),
    )
    if need == "array" and not stored and x.dtype.kind in "biu":
        advice = _TAKE
    if need in ("number", "array"):
        advice = _in_library() or advice
    if unknown.value is not None or unknown.builder.what != "jit":
        advice = tuple([row for row in advice if row not in _ONLY_JIT])
    if argument.isidentifier():
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
