"""L7. How functions of `scipy.special` take traced arrays: operands, dtypes, publication."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from fgrad.base.keywords import also_takes
from fgrad.base.lazy_import import lazy_module
from fgrad.errors import ArgumentError, DtypeError
from fgrad.numpy.promote import (
    as_array,
    as_operand,
    broadcast,
    convert,
    inexact,
    key_of,
    promote,
    resolve_ufunc,
    result_type,
    user_line,
)
from fgrad.ops.complex import is_complex
from fgrad.scipy._either import either, refusal
from fgrad.trace import Tracer, Value
from fgrad.typing import ArrayLike, PyTree

plain = lazy_module("scipy.special")

F = TypeVar("F", bound=Callable[..., PyTree])

TRACED: dict[str, Callable[..., PyTree]] = {}  # names of scipy.special -> what they do to tracers
COMPLEX_RESULTS = ("kelvin", "modfresnelm", "modfresnelp")  # of real operands
PUBLISHED: dict[str, Callable[..., PyTree]] = {}  # the functions of these names, for any array


def operands(*xs: ArrayLike) -> list[Value]:
    """Floating point operands of one dtype and shape."""
    return broadcast([inexact(x) for x in promote([as_operand(x) for x in xs])])


def converted(name: str, *xs: ArrayLike) -> list[Value]:
    """Operands in the dtype in which SciPy's ufunc of this name gives its result; float16, and
    those that it does not take, are as they were."""
    values = [as_operand(x) for x in xs]
    if result_type(*values).char == "e":
        return values
    try:
        dtype = resolve_ufunc(getattr(plain, name), tuple([key_of(x) for x in values]))[-1]
    except TypeError:
        return values
    return [convert(as_array(x), dtype) for x in values]


def double(x: ArrayLike) -> Value:
    """An operand in double precision."""
    (x,) = operands(x)
    return x if is_complex(x) else convert(x, np.dtype(np.float64))


# Keywords that a function of `jax.scipy.special` has beside SciPy's.
_KEYWORDS = {
    "log_ndtr": also_takes("series_order"),
    "logsumexp": also_takes(where=None),
    "sph_harm_y": also_takes("n_max"),
}


def publish(name: str, traced: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """SciPy's function of this name, unless a tracer is among the arguments."""
    TRACED[name] = _in_dtypes_of_ufunc(name, traced)
    function = either(plain, TRACED[name], name)
    function = _KEYWORDS[name](function) if name in _KEYWORDS else function
    function.__module__ = __package__ or __name__  # where pickle finds it
    PUBLISHED[name] = function
    return function


_USUAL = {
    "casting": "same_kind", "dtype": None, "order": "K", "out": None, "sig": None,
    "signature": None, "subok": True, "where": True,
}  # fmt: skip


def _without_keywords(name: str, settings: dict[str, object]) -> dict[str, object]:
    """The settings without those of every ufunc, of which traced calls have the usual values."""
    for keyword in settings.keys() & _USUAL.keys():
        value = settings[keyword]
        if isinstance(value, (Tracer, np.ndarray)) or value != _USUAL[keyword]:
            what = f"scipy.special.{name} with {keyword}"
            raise refusal(what, "it has no traced form.", f"{name} without {keyword}=")
    return {k: v for k, v in settings.items() if k not in _USUAL}


def _check_complex(name: str, xs: tuple[ArrayLike, ...]) -> None:
    """Refuse complex operands where SciPy's ufunc does, as degrees and orders."""
    values = [as_operand(x) for x in xs]
    if not any([isinstance(x, complex) or as_array(x).dtype.kind == "c" for x in values]):
        return
    try:
        resolve_ufunc(getattr(plain, name), tuple([key_of(x) for x in values]))
    except TypeError:
        raise DtypeError(
            f"scipy.special.{name} does not take complex numbers there.",
            (*user_line(), ("why", "their imaginary parts would be lost."), ("write", "x.real")),
        ) from None


def _in_dtypes_of_ufunc(name: str, traced: F) -> F:
    """A function that takes its operands in the dtypes of SciPy's ufunc, if there is one: of
    small integers some make float32, others float64."""
    if not isinstance(getattr(plain, name, None), np.ufunc):
        return traced

    @functools.wraps(traced)
    def function(*xs: ArrayLike, **settings: object) -> Value:
        settings = _without_keywords(name, settings)
        _check_complex(name, xs)
        given = xs if name in COMPLEX_RESULTS else converted(name, *xs)
        return traced(*given, **settings)

    return function  # type: ignore[return-value]


def either_form(traced: F) -> F:
    """Decorator: SciPy's function of the same name, unless a tracer is among the arguments."""
    return publish(traced.__name__, traced)  # type: ignore[return-value]


def elementwise(name: str, apply: Callable[..., Value]) -> Callable[..., PyTree]:
    """A function of floats that is one primitive."""

    def traced(*xs: ArrayLike) -> Value:
        return apply(*operands(*xs))

    names = _argument_names(name)
    traced.__doc__ = f"""`scipy.special.{name}`, with derivatives.

    Arguments:
        {", ".join(names) or "xs"}: arrays of floats, which broadcast; integers become floats.

    Returns:
        An array of the common shape and dtype.
    """
    if names:
        kind = inspect.Parameter.POSITIONAL_ONLY
        parameters = [inspect.Parameter(n, kind, annotation="ArrayLike") for n in names]
        traced.__dict__["__signature__"] = inspect.Signature(parameters, return_annotation="Value")
    return publish(name, traced)


def _argument_names(name: str) -> list[str]:
    """The names of the arguments of SciPy's ufunc, from `gammainc(a, x, out=None)` in its text."""
    ufunc = getattr(plain, name, None)
    if not isinstance(ufunc, np.ufunc):
        return []
    names = re.findall(r"\w+", (ufunc.__doc__ or "").partition("(")[2].partition(")")[0])
    return names[: ufunc.nin] if len(names) >= ufunc.nin else []


def known_integers(function: str, argument: str, n: ArrayLike) -> np.ndarray:
    if isinstance(n, Tracer) or np.asarray(n).dtype.kind not in "iu":
        raise ArgumentError(
            f"{function}: {argument} must be a known integer.",
            (*user_line(), ("why", "the function has no derivative in it.")),
        )
    return np.asarray(n)


def count(function: str, argument: str, n: object) -> int:
    """A known integer that is not negative.

    Raises:
        ArgumentError: it is traced, or no integer.
        ValueError: it is negative, as in SciPy.
    """
    known = known_integers(function, argument, n)  # type: ignore[arg-type]
    if known.ndim or known < 0:
        raise ValueError(f"{argument} must be a non-negative integer.")
    return int(known)


def real_operand(function: str, x: ArrayLike) -> Value:
    """An operand as real floats.

    Raises:
        TypeError: it is complex, as in SciPy.
    """
    (value,) = operands(*converted("ber", x))
    if is_complex(value):
        raise TypeError(f"{function} does not take complex numbers.")
    return value


def with_counts(x: ArrayLike, *counts: ArrayLike) -> list[Value]:
    """Integers, as floats like x, and x in double precision; they have a common shape.

    Raises:
        TypeError: a count is complex.
    """
    place = double(x)
    known = [as_array(as_operand(n)) for n in counts]
    if any([is_complex(n) for n in known]):
        raise TypeError("an order must be an integer.")
    orders = [convert(n, place.dtype) for n in known]
    return broadcast([*orders, place])


def known_number(function: str, argument: str, v: ArrayLike) -> float:
    """A number that is known.

    Raises:
        ArgumentError: it is traced.
    """
    if isinstance(v, Tracer):
        raise ArgumentError(
            f"{function}: {argument} must be a known number.",
            (*user_line(), ("why", "it says how many results there are.")),
        )
    return float(v)  # type: ignore[arg-type]
