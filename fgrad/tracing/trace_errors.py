"""L2. Error cards of tracing: unknown values, tracers used after their trace, lost derivatives."""

from __future__ import annotations

import importlib
import opcode
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

from fgrad.base.frames import FOR_USERS, add_note, chain_of, entries_of
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.provided import Provided
from fgrad.base.source import (
    USERS,
    Loc,
    here,
    is_own_file,
    library_frames,
    owner_of,
    resolve,
    user_frame,
)
from fgrad.errors import (
    CheckError,
    CustomRuleError,
    FgradError,
    LeakedTracerError,
    LostDerivativeError,
    Row,
    TracedArrayError,
    TracedBoolError,
    TracedIndexError,
)
from fgrad.tracing.thread_state import THREAD, is_traced

if TYPE_CHECKING:
    from fgrad.trace import Builder, Tracer

# Why the innermost function of some frames was traced as plain Python, as rows of a card.
not_captured: Provided[Callable[[list[FrameType]], list[Row]]] = Provided(
    "fgrad.capture.convert.not_captured"
)


class _Asked(threading.local):
    """Callbacks for tracers whose numbers were needed, called even if the card is caught."""

    note: Callable[[Tracer], None] | None = None


ASKED = _Asked()


class _Need(NamedTuple):
    """What Python or NumPy needed from a tracer, and what to write instead."""

    error: type[FgradError]
    headline: str
    advice: tuple[Row, ...]


_STATIC = ("write", "fgrad.jit(f, static_argnums=...)    the argument is really a constant")

_WITHOUT_JIT = ("write", "grad(f) without jit                 values are known, Python may look")
_ONLY_JIT = (_STATIC, _WITHOUT_JIT)

_TAKE = (
    ("write", "fgrad.numpy.array(x)[i]             instead of x[i] of a NumPy array x"),
    ("write", "n = fgrad.numpy.array(n)            an array that n[i] += 1 may write into"),
    ("write", "i.astype(np.int64)                  instead of np.int64(i)"),
)

_MASK = (
    ("write", "np.where(m, x, 0)                   instead of x[m]: zeros elsewhere"),
    ("write", "fgrad.numpy.compress(m, x, size=n)  n elements of x[m], the rest filled up"),
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
            ("write", "fgrad.pure_callback(f, x, x)        f in C, or of a library, is given it"),
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
    "key": _Need(
        TracedArrayError,
        "A traced value is no key of a dictionary, and no member of a set.",
        (
            ("write", "counts[k] += 1                      counts = np.zeros(n), an array"),
            ("write", "np.bincount(x, minlength=n)         instead of counting in a dictionary"),
            ("write", "np.any(x == items)                  instead of `x in set_of_items`"),
            *_ONLY_JIT,
        ),
    ),
    "array": _Need(
        TracedArrayError,
        "NumPy needed a plain array from a traced array.",
        (
            ("write", "x                                   instead of np.asarray(x)"),
            ("write", "x.astype(np.int64)                  instead of np.int64(x)"),
            ("write", "np.stack([x, y])                    instead of np.array([x, y])"),
            ("write", "import fgrad.numpy as np            for np.array, np.full, np.zeros"),
            ("write", "m + s * rng.normal(size=n)          instead of rng.normal(m, s, n)"),
            ("write", "fgrad.pure_callback(f, x, x)        f in C, or of a library, is given it"),
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
    return _noted(x, error(headline, rows + (_in_library() or advice)))


def _noted(x: Tracer, card: FgradError) -> FgradError:
    """A card; the trace keeps it in case a library replaces it by its own error."""
    if library_frames():
        x.builder.card = card
    return card


def show_card(error: BaseException, builder: Builder) -> None:
    """At the end of a trace, raise the card that a library replaced by its own error; the
    user's errors and other cards are unchanged."""
    card, builder.card = builder.card, None
    if not isinstance(error, Exception):
        return
    frames = [entry.tb_frame for entry in entries_of(error.__traceback__)]
    if not_captured.provided:
        _say_what_was_not_captured(error, frames)
    if isinstance(error, FgradError):
        return
    users = owner_of(frames[-1].f_code.co_filename) == USERS
    if card is None:
        _note_traced(error, frames)
        return
    if users and not isinstance(error, SystemError):
        return
    shown = type(card)(card.headline, card.rows).with_traceback(error.__traceback__)
    raise shown from (None if card in chain_of(error) else error)


def _say_what_was_not_captured(error: Exception, frames: list[FrameType]) -> None:
    """Add to a card, or to an error that a card has caused, why control flow was not captured."""
    refused = error if isinstance(error, FgradError) else error.__cause__
    if not isinstance(refused, FgradError) or isinstance(refused, CheckError):
        return
    if not refused.rows or any([label == "capture" for label, _ in refused.rows]):
        return
    rows = not_captured.call(frames)
    if rows:
        refused.add_rows(rows)
        if refused is not error:
            add_note(error, _lines(tuple(rows)))


def _note_traced(error: Exception, frames: list[FrameType]) -> None:
    """Add a note to a library's TypeError if the library was given a traced array."""
    files = [frame.f_code.co_filename for frame in frames]
    users = [k for k, file in enumerate(files) if owner_of(file) == USERS]
    inner = frames[users[-1] + 1 :] if users else []
    if not isinstance(error, TypeError) or is_own_file(files[-1]):
        return
    if not inner and "Tracer" in str(error):
        add_note(error, f"It was given a traced array.\n{_lines(_CALLBACK)}")
    elif inner and any([hasattr(x, "builder") for x in inner[0].f_locals.values()]):
        in_scipy = inner[0].f_globals["__name__"].startswith("scipy.")
        advice = _in_scipy(inner[::-1]) if in_scipy else _CALLBACK
        name = f"{_public_module(inner[0])}.{inner[0].f_code.co_name}"
        add_note(error, f"{name} was given a traced array.\n{_lines(advice)}")


def _lines(rows: tuple[Row, ...]) -> str:
    return "\n".join([f"  {label:8}{text}" for label, text in rows])


def _used() -> Row:
    used = resolve(here())
    return ("used", f"{used}:  {used.text()}")


_STORE = opcode.opmap["STORE_SUBSCR"]


def _stored_by_user() -> bool:
    """Whether the user's code is executing an assignment `y[i] = x`, or what stands for it."""
    last = user_frame()
    if last is None or any(library_frames()):
        return False
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        acts = frame is last or frame.f_globals.get(FOR_USERS)
        if acts and frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] == _STORE:
            return True
        frame = None if frame is last else frame.f_back
    return False


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
    if frames:
        return _in_scipy(frames)
    return _in_numpy(modules[-1][1]) if modules and modules[-1][0] == "numpy" else ()


_CALLBACK = (
    ("write", "np.* functions of the array"),
    ("write", "fgrad.pure_callback(f, fgrad.ShapeDtype((), float), x)    runs f on plain arrays"),
    ("write", "fgrad.custom_jvp(g)     gives g, which makes that call, its derivative"),
    ("write", "fgrad.stop_gradient(x)  if a constant is meant, where values are known"),
)


def _in_scipy(frames: list[FrameType]) -> tuple[Row, ...]:
    """What to write instead of the function of SciPy that the user has called."""
    called = ""
    for frame in reversed(frames):
        traced = _traced_form(frame)
        if traced and not called:
            return (("write", f"{traced}    SciPy's function for traced arrays"),)
        if traced:
            return (("write", f"{traced}    for traced arrays: {called} calls SciPy's"),)
        public = sys.modules.get(_public_module(frame))
        name = frame.f_code.co_name
        if hasattr(public, name) or "self" in frame.f_locals:
            called = called or name
    return _CALLBACK


def _public_module(frame: FrameType) -> str:
    """The module whose function a frame executes, as its users import it: `scipy.optimize`."""
    parts = frame.f_globals["__name__"].split(".")
    private = [k for k, part in enumerate(parts) if part.startswith("_")]
    return ".".join(parts[: min([*private, len(parts)])])


_TAKE_NUMBERS = ("eye", "tri", "tril", "triu", "roll", "take")  # traced ones, in fgrad's form


def _in_numpy(frame: FrameType) -> tuple[Row, ...]:
    """What to write instead of a function of NumPy that was given a traced argument, and does not
    dispatch on it."""
    name, given = frame.f_code.co_name, frame.f_locals.values()
    if type(frame.f_locals.get("self")).__name__ == "vectorize":
        return (("write", "fgrad.numpy.vectorize(f)(x)    instead of np.vectorize(f)(x)"),)
    if name not in _TAKE_NUMBERS or not any([hasattr(x, "builder") for x in given]):
        return ()
    return (("write", f"fgrad.numpy.{name}    NumPy's function for traced arguments"),)


def _traced_form(frame: FrameType) -> str:
    """The name of fgrad's form of the function of SciPy that a frame executes; empty if none."""
    path, name = f"fgrad.{_public_module(frame)}", frame.f_code.co_name
    try:
        owner = importlib.import_module(path)
    except ImportError:
        return ""
    family = type(frame.f_locals.get("self")).__name__.removesuffix("_gen")
    group: object = vars(owner).get(family)
    if _is_own(type(group)) and hasattr(type(group), name) and name != "__init__":
        return f"{path}.{family}.{name}"
    if name == "__init__" and _is_own(group):
        return f"{path}.{family}"
    return f"{path}.{name}" if _is_own(vars(owner).get(name)) else ""


def _is_own(x: object) -> bool:
    """Whether a class or function is one of fgrad's."""
    return (getattr(x, "__module__", "") or "").startswith("fgrad.")


def needs_value(need: str, x: Tracer) -> FgradError:
    """The card for a use of a traced value that needs its numbers."""
    if ASKED.note is not None:
        ASKED.note(x)
    stored = need in ("number", "array") and _stored_by_user()
    error, headline, advice = _STORED if stored else NEEDS[need]
    unknown = x
    while is_traced(unknown.value):
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
        advice = _MASK if x.dtype.kind == "b" and x.shape else _TAKE
    advice = _in_library() or advice
    if unknown.value is not None or unknown.builder.what != "jit":
        advice = tuple([row for row in advice if row not in _ONLY_JIT])
    if argument.isidentifier():
        static = ("write", f"fgrad.jit(f, static_argnames={argument!r})    it is really a constant")
        advice = tuple([static if row is _STATIC else row for row in advice])
    return _noted(x, error(headline, rows + advice))


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


def _ended(x: Tracer) -> CustomRuleError:
    """The card for a rule that reads a value which was not found when the call was recorded."""
    used = resolve(here())
    return CustomRuleError(
        "A custom rule reads a traced value after its trace has ended.",
        (
            ("value", f"{x.aval} made while {x.builder.what}({x.builder.name}) was tracing"),
            ("used", f"{used}:  {used.text()}"),
            ("why", "the rule runs after the function has ended.  It may read its arguments, and"),
            ("why", "values that it reads when it is traced at the call."),
            ("write", "pass the value as an argument, or return it from fwd as a residual"),
        ),
    )


def outlived(x: Tracer) -> FgradError:
    """The card for a tracer of an ended trace whose value is not known."""
    return _ended(x) if THREAD.state.rule else leaked(x)
