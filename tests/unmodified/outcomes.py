"""What a transform makes of an unmodified program: what Python makes of it, a card, or neither."""

from __future__ import annotations

import contextlib
import copy
import functools
import io
import math
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
from case import Case

import fgrad
from fgrad.errors import FgradError

EQUAL, CARD, WRONG, ERROR, SLOW = "equal", "card", "wrong", "error", "slow"
ALLOWED = (EQUAL, CARD)
STEPS = (1e-6, 1e-7, 1e-5, 1e-4)
WIDENED = (bool, int, float, complex, np.int64, np.float64, np.complex128)
WIDER = (*WIDENED, np.float16, np.float32, np.complex64)
SECONDS = 60  # for a program, compiling included


class Outcome(NamedTuple):
    """What one mode made of one call."""

    kind: str
    says: str = ""


# --- equality -------------------------------------------------------------------------------------


def difference(found: Any, right: Any, rtol: float = 1e-7) -> str:
    """What is different between two results; nothing if nothing is.

    NumPy's numbers and Python's are the same if they are of one kind.
    """
    if isinstance(right, (list, tuple)):
        if not isinstance(found, (list, tuple)) or len(found) != len(right):
            return f"{found!r}, right {right!r}"
        found_in = [difference(a, b, rtol) for a, b in zip(found, right, strict=True)]
        return "; ".join([text for text in found_in if text])
    if isinstance(right, dict):
        if not isinstance(found, dict) or list(found) != list(right):
            return f"{found!r}, right {right!r}"
        return "; ".join([d for k in right if (d := difference(found[k], right[k], rtol))])
    if not isinstance(right, (int, float, complex, np.generic, np.ndarray)):
        return (
            "" if type(found) is type(right) and found == right else f"{found!r}, right {right!r}"
        )
    return _numbers_differ(found, right, rtol)


def _numbers_differ(found: Any, right: Any, rtol: float) -> str:
    try:
        a, b = np.asarray(found), np.asarray(right)
    except (TypeError, ValueError):
        return f"{found!r}, right {right!r}"
    if (
        isinstance(right, (int, np.integer))
        and a.dtype.kind == "f"
        and a.shape == ()
        and a == right == 0
    ):
        return ""  # a sum of nothing: which type it has would be known when it runs
    exact = isinstance(right, (np.generic, np.ndarray))
    if a.shape != b.shape or (a.dtype != b.dtype if exact else a.dtype.kind != b.dtype.kind):
        return f"{a.dtype}{a.shape} {a.tolist()}, right {b.dtype}{b.shape} {b.tolist()}"
    if a.dtype.kind not in "fc":
        return "" if np.array_equal(a, b) else f"{a.tolist()}, right {b.tolist()}"
    rtol = max(rtol, 100 * float(np.finfo(b.dtype).eps))
    finite = np.abs(b[np.isfinite(b)])
    room = rtol * max(1e-3, float(finite.max(initial=0.0)))
    if np.allclose(a, b, rtol, room, equal_nan=True):
        return ""
    return f"{a.tolist()}, right {b.tolist()}"


def narrowed(found: Any, right: Any) -> Any:
    """What is found with numbers in the type of those that are right, if it is a wider one: a
    variable that is an integer in one branch and a float in another is a float."""
    if isinstance(right, (list, tuple)) and isinstance(found, (list, tuple)):
        return [narrowed(a, b) for a, b in zip(found, right, strict=False)]
    if type(right) not in WIDENED or type(found) not in WIDER:
        return found
    wider = "biufc".index(np.asarray(found).dtype.kind) > "biufc".index(
        np.asarray(right).dtype.kind
    )
    return type(right)(right) if wider and found == right else found


# --- what is right --------------------------------------------------------------------------------


class Reference(NamedTuple):
    """What Python makes of a call."""

    result: Any
    args: tuple[Any, ...]  # afterwards
    printed: str
    raised: BaseException | None


def call_python(function: Callable[..., Any], case: Case) -> Reference:
    """The call as Python runs it."""
    args = copy.deepcopy(case.args)
    with quiet() as printed:
        try:
            result, raised = function(*args), None
        except Exception as error:
            result, raised = None, error
    return Reference(result, args, printed.getvalue() if case.prints else "", raised)


@contextlib.contextmanager
def quiet() -> Iterator[io.StringIO]:
    """No warnings, and what is printed."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            yield printed


def is_float(x: Any) -> bool:
    """Whether a leaf can be differentiated."""
    return isinstance(x, (float, np.floating, np.ndarray)) and np.asarray(x).dtype.kind == "f"


def float_places(args: tuple[Any, ...]) -> tuple[int, ...]:
    """The arguments that consist of floats."""
    leaves = [fgrad.tree.leaves(a) for a in args]
    return tuple([k for k, found in enumerate(leaves) if found and all(map(is_float, found))])


def loss_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """A number made of all floats in the result."""

    def loss(*args: Any) -> Any:
        total = 0.0
        for k, leaf in enumerate(fgrad.tree.leaves(function(*args))):
            if isinstance(leaf, float) or getattr(getattr(leaf, "dtype", None), "kind", "") == "f":
                total = total + (0.7 + 0.1 * k) * np.sum(np.sin(leaf))
        return total

    return loss


def direction_of(args: tuple[Any, ...], places: tuple[int, ...]) -> list[list[Any]]:
    """A direction for the arguments that are differentiated."""
    rng = np.random.default_rng(7)
    return [[rng.standard_normal(np.shape(a)) for a in fgrad.tree.leaves(args[k])] for k in places]


def moved(args: tuple[Any, ...], places: tuple[int, ...], way: Any, t: float) -> tuple[Any, ...]:
    """The arguments, by t along a direction."""
    changed = list(copy.deepcopy(args))
    for k, parts in zip(places, way, strict=True):
        it = iter(parts)
        changed[k] = fgrad.tree.map(functools.partial(_step, it, t), changed[k])
    return tuple(changed)


def _step(it: Iterator[Any], t: float, x: Any) -> Any:
    y = x + t * next(it)
    return y.astype(x.dtype) if isinstance(x, np.ndarray) else type(x)(y)


def slope_differs(found: float, at: Callable[[float], float], slack: float = 2e-5) -> str:
    """What a slope is compared with central differences of some step; nothing if it agrees."""
    slopes = []
    for h in STEPS:
        slope = (at(h) - at(-h)) / (2 * h)
        if abs(slope - found) <= slack * max(1.0, abs(slope), abs(found)):
            return ""
        slopes.append(slope)
    if math.isnan(found) and all(map(math.isnan, slopes)):
        return ""
    return f"slope {found}, differences {slopes[0]}"


# --- modes ----------------------------------------------------------------------------------------


def differentiable(function: Callable[..., Any], case: Case) -> bool:
    """Whether there is something to differentiate, by something, and Python does not raise."""
    if not case.smooth or not float_places(case.args):
        return False
    reference = call_python(function, case)
    if reference.raised is not None:
        return False
    try:
        return any(map(is_float, fgrad.tree.leaves(reference.result)))
    except Exception:
        return False


def gradient_outcome(
    plain: Callable[..., Any], function: Callable[..., Any], case: Case, transform: Any
) -> Outcome:
    """The directional derivative by `transform(loss, places)` against differences of `plain`."""
    places = float_places(case.args)
    way = direction_of(case.args, places)
    python = loss_of(plain)

    def at(t: float) -> float:
        with quiet():
            return float(python(*moved(case.args, places, way, t)))

    def slope(times: float = 1.0) -> float:
        own = loss_of(function)
        gradient = transform(lambda *args: times * own(*args), places)(*copy.deepcopy(case.args))
        total = 0.0
        for parts, g in zip(way, gradient, strict=True):
            for w, leaf in zip(parts, fgrad.tree.leaves(g), strict=True):
                assert np.shape(leaf) == np.shape(w), (np.shape(leaf), np.shape(w))
                total += float(np.sum(w * leaf))
        return total

    def run() -> str:
        text = slope_differs(slope(), at)
        return "" if text and is_rounding(slope) else text

    return guarded(run)


def is_rounding(slope: Callable[[float], float]) -> bool:
    """Whether rounding decides what a slope is: that of a third of a loss is not a third of it.

    Reverse mode carries cotangents through what takes differences of equal numbers, where they may
    double in each turn, and what cancels at the end leaves their rounding.  Twice the same call
    gives the same bits, else it is no rounding.
    """
    whole, third = slope(1.0), slope(1.0 / 3.0)
    return whole == slope(1.0) and abs(3.0 * third - whole) > 1e-8 * max(1.0, abs(whole))


def guarded(run: Callable[[], str]) -> Outcome:
    """The outcome of a comparison: cards are allowed, other errors are not."""
    try:
        with quiet(), time_limit(SECONDS):
            text = run()
    except Overtime as late:
        return Outcome(SLOW, f"more than {SECONDS} s, in\n{late}")
    except Exception as error:
        return raised_outcome(error)
    return Outcome(WRONG, text) if text else Outcome(EQUAL)


def raised_outcome(error: BaseException) -> Outcome:
    """A card, or an error that is none."""
    shown = error if isinstance(error, FgradError) else error.__cause__
    if isinstance(shown, FgradError) and type(shown).__name__ != "CheckError":
        why = next((text for label, text in shown.rows if label == "capture"), "")
        first = f"{type(shown).__name__}: {str(shown).splitlines()[0]}"
        return Outcome(CARD, f"{first} {why.splitlines()[0]}" if why else first)
    first = (str(error).splitlines() or [""])[0]
    return Outcome(ERROR, f"{type(error).__name__}: {first}")


def value_outcome(
    reference: Reference, function: Callable[..., Any], case: Case, rtol: float = 1e-7
) -> Outcome:
    """What the function returns, raises, prints and writes against Python's."""
    args = copy.deepcopy(case.args)

    def run() -> str:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            try:
                result = function(*args)
            except Exception as error:
                if reference.raised is not None and isinstance(error, type(reference.raised)):
                    return ""
                raise
        if reference.raised is not None:
            return f"Python raises {type(reference.raised).__name__}, found {result!r}"
        right = reference.result
        text = difference(narrowed(result, right) if case.loose else result, right, rtol)
        if not text and (text := difference(args, reference.args, rtol)):
            text = f"its arguments become {text}"
        if not text and case.prints and printed.getvalue() != reference.printed:
            text = f"prints {printed.getvalue()!r}, right {reference.printed!r}"
        return text

    return guarded(run)


class Overtime(BaseException):
    """A program takes too long."""


@contextlib.contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raises Overtime; not off the main thread, nor where there are no alarms."""
    if not hasattr(signal, "SIGALRM"):
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise Overtime("".join(traceback.format_stack(frame, 9)))

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
