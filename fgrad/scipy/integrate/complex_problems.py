"""L7. Initial value problems of complex values -> problems of their real and imaginary parts.

    dz/dt = f(t, z)   ->   d(x, y)/dt = (Re f(t, x + iy), Im f(t, x + iy))

Slopes need not be holomorphic, such as those with conj(z) or |z|: derivatives of the parts exist.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fgrad.trace import Value
from fgrad.tracing.capturing import user_form
from fgrad.typing import PyTree

_ATTRIBUTES = ("terminal", "direction")  # of events


def split(z: Value) -> Value:
    """A vector of n complex numbers as one of 2 n real ones."""
    return np.concatenate([np.real(z), np.imag(z)])


def joined(v: Value) -> Value:
    """The inverse of `split`, along the first axis."""
    n = v.shape[0] // 2
    return v[:n] + 1j * v[n:]


def of_parts(fun: Callable[..., PyTree]) -> Callable[..., Value]:
    """Slopes of a complex vector as those of its parts."""

    def slopes(t: Value, v: Value, *args: PyTree) -> Value:
        return split(np.reshape(np.stack(list(user_form(fun)(t, joined(v), *args))), -1))

    return slopes


def event_of_parts(event: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """An event of a complex vector as one of its parts, with SciPy's attributes."""

    def of_vector(t: Value, v: Value, *args: PyTree) -> PyTree:
        return user_form(event)(t, joined(v), *args)

    for name in _ATTRIBUTES:
        if hasattr(event, name):
            setattr(of_vector, name, getattr(event, name))
    return of_vector


def kind(x: PyTree) -> str:
    """The kind of numbers that an array or one of Python's numbers has."""
    return np.dtype(getattr(x, "dtype", type(x))).kind


def as_real(x: Value) -> Value:
    """A complex parameter as its parts, stacked; a real one as it is."""
    return np.stack([np.real(x), np.imag(x)]) if kind(x) == "c" else x


def as_given(x: Value, like: Value) -> Value:
    """The inverse of `as_real`."""
    return x[0] + 1j * x[1] if kind(like) == "c" else x
