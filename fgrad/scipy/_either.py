"""L7. Dispatch of SciPy's functions: SciPy for plain arrays, a rule or an error card for traced."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType

from fgrad.base.source import warn_user
from fgrad.errors import ArgumentError, UnsupportedNumpyError
from fgrad.numpy.dispatch import has_tracer
from fgrad.numpy.promote import user_line
from fgrad.tracing.device_tracing import through
from fgrad.tracing.on_device import device_among
from fgrad.typing import P, PyTree, R


def any_traced(args: tuple[object, ...], kwargs: Mapping[str, object]) -> bool:
    """Whether a tracer is among the arguments of a call."""
    return has_tracer(args) or has_tracer(kwargs.values())


def either(plain: ModuleType, traced: Callable[P, R], name: str = "") -> Callable[P, R]:
    """The function of this name in the SciPy module `plain`, unless a tracer, or an array on a GPU,
    is among the arguments; the name is that of `traced`, or given."""
    name = name or traced.__name__

    def function(*args: P.args, **kwargs: P.kwargs) -> R:
        if any_traced(args, kwargs):
            return traced(*args, **kwargs)
        device = device_among((*args, *kwargs.values()))
        if device is not None:
            return through(device, traced, args, kwargs)
        return getattr(plain, name)(*args, **kwargs)

    functools.update_wrapper(function, traced)
    function.__name__ = function.__qualname__ = name
    return function


class Either:
    """Decorator of a module: the function of the same name in the SciPy module `plain`, unless a
    tracer, or an array on a GPU, is among the arguments."""

    def __init__(self, plain: ModuleType) -> None:
        self.plain = plain

    def __call__(self, traced: Callable[P, R]) -> Callable[P, R]:
        return either(self.plain, traced)


def refusal(what: str, why: str, write: str) -> UnsupportedNumpyError:
    """The card for a function, or a way to call it, that has no traced form."""
    rows = (*user_line(), ("why", why), ("write", write))
    return UnsupportedNumpyError(f"{what} does not take traced arrays.", rows)


# Arguments of SciPy's functions that change no result.
HINTS = ("overwrite_a", "overwrite_b", "check_finite", "lapack_driver", "driver", "lwork")

_LWORK = (  # SciPy's words
    "scipy.linalg: the `lwork` keyword is deprecated and no longer in use as of SciPy 1.18.0 and "
    "will be removed in SciPy 1.20.0"
)


def taken(
    function: Callable[..., object],
    traced: Callable[..., object],
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
) -> dict[str, object] | None:
    """The arguments of SciPy's function that its traced form has, by name; None where SciPy's has
    no list of arguments.

    Raises:
        TypeError: SciPy's function does not take them.
        UnsupportedNumpyError: an argument means something that the traced form does not have.
    """
    theirs, mine = inspect.signature(function), inspect.signature(traced).parameters
    kinds = {p.kind for p in (*theirs.parameters.values(), *mine.values())}
    if kinds & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
        return None
    named = theirs.bind(*args, **kwargs).arguments
    for name, value in named.items():
        usual = theirs.parameters[name].default
        same = value is usual or (isinstance(value, (bool, int, str)) and value == usual)
        if name not in mine and name not in HINTS and not same:
            where = ".".join(function.__module__.split(".")[:2])
            what = f"{where}.{traced.__name__} with {name}"
            raise refusal(what, "it has no traced form.", f"{traced.__name__} without {name}=")
        if name == "lwork" and usual is not None:  # since SciPy 1.18, where it is deprecated
            warn_user(_LWORK, DeprecationWarning)
    return {name: value for name, value in named.items() if name in mine}


def check_choice(function: str, name: str, value: object, known: Sequence[object]) -> None:
    """Refuse a value that is none of those that an argument has."""
    if value not in known:
        raise ArgumentError(
            f"{function}: {name}={value!r}.", (("write", " or ".join(map(repr, known))),)
        )


def plain_only(
    target: object, what: str, write: str, why: str = "it has no traced form."
) -> object:
    """A name of SciPy's that has no traced form; a function refuses traced arrays with a card.

    Arguments:
        target: what it is in SciPy.
        what: its full name, for the card.
        write, why: rows of the card.
    """
    if not callable(target) or isinstance(target, type):
        return target

    def function(*args: object, **kwargs: object) -> object:
        if any_traced(args, kwargs):
            raise refusal(what, why, write)
        return target(*args, **kwargs)

    functools.update_wrapper(function, target)
    root, words = __name__.partition(".")[0], what.split(".")
    function.__module__ = ".".join([root, *words[:2]])  # where pickle finds it
    function.__qualname__ = ".".join(words[2:])
    return function


def passed_on(module: str, plain: ModuleType) -> Callable[[str], PyTree]:
    """The `__getattr__` of a module whose other names are SciPy's own, as they are."""

    def get(name: str) -> PyTree:
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return getattr(plain, name)

    return get


def others(
    module: str, plain: ModuleType, advice: Mapping[str, tuple[str, str]] | None = None
) -> Callable[[str], PyTree]:
    """The `__getattr__` of a module: SciPy's names that have no traced form.

    Arguments:
        module: its name, of which `fgrad.` is left out for SciPy's.
        plain: SciPy's module.
        advice: why a function has no traced form and what to write instead, by its name.
    """
    where = module.removeprefix("fgrad.")
    known, scipys = advice or {}, passed_on(module, plain)

    def get(name: str) -> PyTree:
        value = scipys(name)
        usual = "it has no traced form.", f"{name} of plain arrays, outside of the function"
        why, write = known.get(name, usual)
        found = plain_only(value, f"{where}.{name}", write, why)
        setattr(sys.modules[module], name, found)
        return found

    return get
