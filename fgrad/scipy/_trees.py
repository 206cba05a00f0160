"""L7. Minimisers of functions of trees: the tree as one vector, for SciPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from fgrad import tree
from fgrad.errors import ArgumentError
from fgrad.scipy._constrained import (
    Bounds,
    ConstrainedSolution,
    LinearConstraint,
    NonlinearConstraint,
)
from fgrad.scipy._either import refusal
from fgrad.scipy._host import floats
from fgrad.scipy._solvers import Box, Solution
from fgrad.trace import Value
from fgrad.tracing.capturing import user_form
from fgrad.typing import PyTree

R = TypeVar("R")


def is_tree(x0: PyTree) -> bool:
    """Whether a start is a tree that SciPy would not take: no array, and no list of numbers."""
    if hasattr(x0, "shape") or np.isscalar(x0):
        return False
    plain_list = type(x0) in (list, tuple)
    return not plain_list or any([type(x) in (dict, list, tuple) or np.ndim(x) for x in x0])


class OverTree:
    """A function of trees like `x0` as one of vectors, and back."""

    def __init__(self, x0: PyTree) -> None:
        self.like = tree.map(floats, x0)  # integers would cut off each step of the search
        self.start, self.of = tree.ravel(self.like)

    def function(self, fun: Callable[..., R]) -> Callable[..., R]:
        """The function of a vector."""
        return lambda x, *args: user_form(fun)(self.of(x), *args)

    def residuals(self, fun: Callable[..., PyTree]) -> Callable[..., Value]:
        """A function from trees to trees, or to arrays, as one of vectors."""
        return lambda x, *args: tree.ravel(user_form(fun)(self.of(x), *args))[0]

    def _vector(self, end: PyTree) -> Value:
        if isinstance(end, np.ndarray) and end.size == 1:
            end = end.item()  # SciPy's own Bounds makes arrays of what they are given
        if np.isscalar(end):
            return np.full(self.start.shape, end)
        rows = tree.map(lambda x, e: np.broadcast_to(e, np.shape(x)), self.like, end)
        return tree.ravel(rows)[0]

    def _of_pairs(self, bounds: PyTree, k: int, open_end: float) -> Value:
        """One end of pairs (lowest, highest), of which either may be None, in a tree like `x0`."""

        def end(x: Value, pair: Sequence[PyTree]) -> Value:
            if len(pair) != 2:
                raise ValueError(f"{pair} is no pair")
            return np.broadcast_to(open_end if pair[k] is None else pair[k], np.shape(x))

        return tree.ravel(tree.map(end, self.like, bounds))[0]

    def bounds(self, bounds: PyTree) -> PyTree:
        """Bounds whose parts are trees, or numbers for all; or pairs in a tree."""
        if bounds is None:
            return None
        try:
            if isinstance(bounds, Box):
                return Bounds(self._vector(bounds.lb), self._vector(bounds.ub))
            low, high = [self._of_pairs(bounds, k, e) for k, e in ((0, -np.inf), (1, np.inf))]
        except (TypeError, ValueError) as error:
            raise ArgumentError(
                "The bounds are not like the tree x0.",
                [
                    ("why", str(error).split("\n")[0]),
                    ("write", "Bounds(low, high)         of numbers, or of trees like x0"),
                    ("write", '{"a": (0, 1), "b": ...}   a pair in place of each leaf of x0'),
                ],
            ) from None
        return Bounds(low, high)

    def constraints(self, constraints: PyTree) -> PyTree:
        """Constraints whose functions take trees."""
        if isinstance(constraints, Sequence) and not hasattr(constraints, "lb"):
            return [self.constraints(c) for c in constraints]
        if isinstance(constraints, Mapping):
            return {**constraints, "fun": self.function(constraints["fun"]), "jac": None}
        if isinstance(constraints, LinearConstraint) or hasattr(constraints, "A"):
            what = "scipy.optimize.minimize of a tree with a LinearConstraint"
            raise refusal(
                what, "its matrix belongs to a vector.", "NonlinearConstraint(fun, lb, ub)"
            )
        fun, low, high = [getattr(constraints, k) for k in ("fun", "lb", "ub")]
        return NonlinearConstraint(self.function(fun), low, high)

    def result(self, found: PyTree) -> PyTree:
        """What SciPy found, with trees in it."""
        if isinstance(found, (Solution, ConstrainedSolution)):
            return found._replace(x=self.of(found.x))
        found.x = self.of(found.x)
        if "jac" in found and np.shape(found.jac) == self.start.shape and np.ndim(found.fun) == 0:
            found.jac = self.of(found.jac)
        return found


def least_squares_of_tree(
    of_vector: Callable[..., PyTree],
    fun: Callable[..., PyTree],
    x0: PyTree,
    bounds: PyTree,
    args: tuple[Value, ...],
    keywords: Mapping[str, PyTree],
    options: Mapping[str, PyTree],
) -> PyTree:
    """`least_squares`, which is `of_vector`, whose unknowns are a tree."""
    over = OverTree(x0)

    def residuals(x: PyTree, *args: PyTree) -> PyTree:
        return user_form(fun)(x, *args, **keywords)

    ends = over.bounds(bounds if isinstance(bounds, Box) else Bounds(*bounds))
    vector = over.residuals(residuals)
    return over.result(of_vector(vector, over.start, None, (ends.lb, ends.ub), args, **options))
