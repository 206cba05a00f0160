"""L7. Distributions with their parameters given, and the ways of methods to SciPy's own.

norm(mu, sigma).logpdf(x) = norm.logpdf(x, mu, sigma)
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Concatenate, Protocol, TypeVar

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.scipy._either import any_traced, refusal
from fgrad.typing import P, PyTree, R

plain = lazy_module("scipy.stats")


class Named(Protocol):
    """A distribution that has SciPy's name."""

    @property
    def name(self) -> str: ...


D = TypeVar("D", bound=Named)


def is_key(x: object) -> bool:
    """Whether a random state is a key of `fgrad.random`."""
    return getattr(x, "dtype", None) == np.uint32 and getattr(x, "shape", None) == (2,)


def method(rule: Callable[Concatenate[D, P], R]) -> Callable[Concatenate[D, P], R]:
    """Decorator: a method that is SciPy's own unless a tracer is among the arguments."""
    name = rule.__name__

    def function(self: D, *args: P.args, **kwargs: P.kwargs) -> R:
        if any_traced(args, kwargs):
            with np.errstate(all="ignore"):
                return rule(self, *args, **kwargs)
        return getattr(getattr(plain, self.name), name)(*args, **kwargs)

    functools.update_wrapper(function, rule)
    function.__doc__ = inspect.getdoc(rule)
    return function


def draws(rule: Callable[Concatenate[D, P], R]) -> Callable[Concatenate[D, P], R]:
    """Decorator: random numbers by a key as `random_state`; SciPy's own by other states."""

    def function(self: D, *args: P.args, **kwargs: P.kwargs) -> R:
        if is_key(kwargs.get("random_state")):
            with np.errstate(all="ignore"):
                return rule(self, *args, **kwargs)
        if any_traced(args, kwargs):
            why = "its numbers come from a generator with a state."
            write = f"{self.name}.rvs(..., random_state=fgrad.random.key(0))"
            raise refusal(f"scipy.stats.{self.name}.rvs", why, write)
        return getattr(plain, self.name).rvs(*args, **kwargs)

    functools.update_wrapper(function, rule)
    function.__doc__ = inspect.getdoc(rule)
    return function


class Frozen:
    """A distribution with its parameters."""

    def __init__(self, family: Named, args: tuple[PyTree, ...], kwargs: Mapping[str, PyTree]):
        self.family, self.args, self.kwds = family, args, dict(kwargs)

    def __repr__(self) -> str:
        return f"<{self.family.name} with parameters>"

    def __getattr__(self, name: str) -> PyTree:
        """A method of the distribution, of these parameters."""
        if name.startswith("_"):
            raise AttributeError(name)
        call = getattr(self.family, name, None)
        if not callable(call):
            return getattr(getattr(plain, self.family.name)(*self.args, **self.kwds), name)

        def function(*points: PyTree, **options: PyTree) -> PyTree:
            if name != "rvs":
                return call(*points, *self.args, **self.kwds, **options)
            given = dict(zip(("size", "random_state"), points, strict=False)) | options
            return call(*self.args, **self.kwds, **given)

        return function
