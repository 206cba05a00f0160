"""L7. `scipy.interpolate.Rbf`, the older interpolator by functions of the distance.

s(x) = sum_j a_j phi(|x - x_j|)        with (phi(|x_i - x_j|) - smooth) a = d
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from fgrad.numpy.promote import as_operand
from fgrad.scipy.interpolate.common import (
    Interpolant,
    doubles,
    plain,
    real_places,
    unfit,
    untraceable,
)
from fgrad.trace import Value
from fgrad.typing import ArrayLike, PyTree


def _root(square: Value) -> Value:
    zero = square == 0
    return np.where(zero, 0.0, np.sqrt(np.where(zero, 1.0, square)))


def _thin_plate(square: Value) -> Value:
    zero = square == 0
    return np.where(zero, 0.0, 0.5 * square * np.log(np.where(zero, 1.0, square)))


# Functions of the squared distance and of epsilon.
_FUNCTIONS: dict[str, Callable[[Value, Value], Value]] = {
    "multiquadric": lambda q, e: np.sqrt(q / (e * e) + 1),
    "inverse_multiquadric": lambda q, e: 1 / np.sqrt(q / (e * e) + 1),
    "inverse": lambda q, e: 1 / np.sqrt(q / (e * e) + 1),
    "inverse multiquadric": lambda q, e: 1 / np.sqrt(q / (e * e) + 1),
    "gaussian": lambda q, e: np.exp(-q / (e * e)),
    "linear": lambda q, e: _root(q),
    "cubic": lambda q, e: q * _root(q),
    "quintic": lambda q, e: q * q * _root(q),
    "thin_plate": lambda q, e: _thin_plate(q),
    "thin-plate": lambda q, e: _thin_plate(q),
}
_KNOWN = ("function", "epsilon", "smooth", "norm", "mode")


class Rbf(Interpolant):
    """A sum of functions of the distance from places, through values.

    Arguments:
        args: the coordinates of the places, and the values.
        kwargs: function, epsilon, smooth, norm="euclidean" and mode, as in SciPy.

    Example:
        >>> Rbf([0.0, 1.0, 2.0], [0.0, 1.0, 2.0], function="linear")([0.5]).round(9)
        array([0.5])
    """

    def __init__(self, *args: ArrayLike, **kwargs: PyTree) -> None:
        self._made(plain.Rbf, *args, **kwargs)
        self._prepared(functools.partial(self._set, args, kwargs))

    def _set(self, args: tuple[ArrayLike, ...], given: dict[str, PyTree]) -> None:
        for option in given:
            if option not in _KNOWN:
                untraceable("Rbf", option, "it has no traced form.", "Rbf(x, y, d)")
        name, norm = given.get("function", "multiquadric"), given.get("norm", "euclidean")
        if norm != "euclidean" or not isinstance(name, str):
            why = "only Euclid's distance and functions by their names have a traced form."
            untraceable("Rbf", "such a norm or function", why, 'function="gaussian"')
        if name.lower() not in _FUNCTIONS:
            raise unfit("Rbf", f"function={name!r}", 'function="multiquadric"')
        coordinates, values = [real_places(a) for a in args[:-1]], doubles(args[-1])
        several = given.get("mode", "1-D") == "N-D"
        self._nodes = np.stack([np.ravel(x) for x in coordinates])
        d = values if several else np.ravel(values)
        n = self._nodes.shape[1]
        if d.shape[:1] != (n,):
            raise unfit("Rbf", f"{n} places, values of shape {d.shape}", "as many values")
        sizes = np.max(self._nodes, axis=1) - np.min(self._nodes, axis=1)
        default = _spread(sizes, n) if given.get("epsilon") is None else given["epsilon"]
        self._epsilon = as_operand(default)
        self._function = _FUNCTIONS[name.lower()]
        self._mode = several
        matrix = self._function(self._squares(self._nodes), self._epsilon)
        matrix = matrix - np.eye(n) * given.get("smooth", 0.0)
        self._weights = np.linalg.solve(matrix, d)

    def _squares(self, places: Value) -> Value:
        away = places[:, :, None] - self._nodes[:, None, :]
        return np.sum(away * away, axis=0)

    def __call__(self, *args: ArrayLike) -> Value:
        """The values at places of given coordinates, which broadcast."""
        if self._is_plain(*args):
            return self._plain(*args)
        self._ready()
        if len(args) != self._nodes.shape[0]:
            raise unfit("Rbf", f"{len(args)} coordinates", f"{self._nodes.shape[0]} of them")
        coordinates = np.broadcast_arrays(*[real_places(a) for a in args])
        shape = coordinates[0].shape
        flat = np.stack([np.ravel(x) for x in coordinates])
        found = self._function(self._squares(flat), self._epsilon) @ self._weights
        return np.reshape(found, (*shape, self._weights.shape[-1]) if self._mode else shape)


def _spread(sizes: Value, n: int) -> Value:
    """About the distance of neighbours, of as many places in a box of given sizes."""
    flat = sizes == 0
    count = np.sum(~flat)
    return (np.prod(np.where(flat, 1.0, sizes)) / n) ** (1.0 / count)
