"""L7. Conjugate gradients that stop early: at an edge, or where the curvature is not positive.

Minimises g.z + z.H z / 2 over |z| <= radius from products with H (Steihaug 1983; Nocedal and
Wright 2006, algorithms 7.1 and 7.2):

    alpha = r.r / d.H d     z' = z + alpha d     r' = r + alpha H d     d' = -r' + (r'.r' / r.r) d
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fgrad import lax
from fgrad.base.named_tuple import NamedTuple
from fgrad.optim.base import first_count
from fgrad.trace import Value
from fgrad.typing import PyTree


class _State(NamedTuple):
    count: Value
    z: Value
    residual: Value
    direction: Value
    done: Value
    positive: Value


def yes() -> PyTree:
    """A flag that a loop carries, before its first step."""
    return np.bool_(True)


def conjugate_gradients(
    product: Callable[[Value], Value], g: Value, radius: Value | float, tol: Value, most: int
) -> tuple[Value, Value]:
    """The z, and whether the residual became at most `tol` inside of the radius.

    Arguments:
        product: the product of the Hessian and a vector.
        radius: infinite for none; then z is what was found before a direction of negative
            curvature, or the direction if it was the first.
        most: how many products may be taken.
    """
    bounded = np.isfinite(radius)

    def going(s: _State) -> Value:
        return np.logical_and(s.count < most, np.logical_not(s.done))

    def step(s: _State) -> _State:
        pushed = product(s.direction)
        curvature, size = s.direction @ pushed, s.residual @ s.residual
        curved = curvature > 0
        alpha = size / np.where(curved, curvature, 1)
        inner = s.z + alpha * s.direction
        leaves = np.logical_or(np.logical_not(curved), inner @ inner >= radius**2)
        last = np.where(s.count == 0, s.direction, s.z)
        outer = np.where(bounded, _at_edge(s.z, s.direction, radius), last)
        outer = outer.astype(g.dtype)
        residual = s.residual + alpha * pushed
        beta = residual @ residual / np.where(size > 0, size, 1)
        z = np.where(leaves, outer, inner)
        done = np.logical_or(leaves, np.sqrt(residual @ residual) <= tol)
        return _State(
            s.count + 1, z, residual, beta * s.direction - residual, done, np.logical_not(leaves)
        )

    ended = np.sqrt(g @ g) <= tol
    start = _State(first_count(), np.zeros_like(g), g, -g, ended, yes())
    found: PyTree = lax.while_loop(going, step, start)
    return found.z, np.logical_and(found.done, found.positive)


def _at_edge(z: Value, d: Value, radius: Value | float) -> Value:
    """The z + tau d of length `radius` with tau >= 0; z itself if the radius is infinite."""
    radius = np.where(np.isfinite(radius), radius, 0)
    a, b, c = d @ d, z @ d, z @ z - radius**2
    root = np.sqrt(np.maximum(b * b - a * c, 0))
    return z + (root - b) / np.where(a > 0, a, 1) * d
