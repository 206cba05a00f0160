"""L7. A function of a tree as one of a vector, what a search finds, and the derivative of it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fgrad import tree
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.progress import Told
from fgrad.errors import ArgumentError
from fgrad.optim.conjugate import conjugate_gradients
from fgrad.scipy import _host
from fgrad.scipy._host import dense_solve, floats, implicit, inside
from fgrad.scipy._told import told_loop
from fgrad.trace import Value
from fgrad.transforms.core.linearize import jvp
from fgrad.transforms.custom.implicit import closure_convert
from fgrad.transforms.grad import grad, value_and_grad
from fgrad.typing import PyTree

_DENSE = 1000  # unknowns up to which the matrix of an implicit derivative is written out


class Found(NamedTuple):
    """Where a search ended; the gradient is None if it took none."""

    x: Value
    value: Value
    gradient: Value | None
    steps: Value
    success: Value


class Problem:
    """A function of one vector, with its derivatives."""

    def __init__(self, function: Callable[[Value], Value], told: Told) -> None:
        self.function, self.told = function, told

    def repeated(
        self, going: Callable[[PyTree], Value], step: Callable[[PyTree], PyTree], start: PyTree
    ) -> PyTree:
        """The last state of a search; states have `count`."""
        return told_loop(going, step, start, lambda s: s.count, self.told)

    def both(self, x: Value) -> tuple[Value, Value]:
        """The value and the gradient."""
        return value_and_grad(self.function)(x)

    def product(self, x: Value) -> Callable[[Value], Value]:
        """Products with the Hessian at `x`."""
        return lambda v: jvp(grad(self.function), (x,), (v,))[1]


def slope_size(gradient: Value) -> Value:
    """The largest number of a gradient."""
    return np.max(np.abs(gradient))


def flat_enough(x: Value, value: Value, gradient: Value, tol: Value) -> Value:
    """Whether |df/dx_i| max(|x_i|, 1) <= tol max(|f|, 1) (Dennis and Schnabel 1983, 7.2.5); the
    units of x and f do not matter where both are large."""
    relative = np.max(np.abs(gradient) * np.maximum(np.abs(x), 1))
    return np.logical_and(np.isfinite(value), relative <= tol * np.maximum(np.abs(value), 1))


def as_vector(name: str, x0: PyTree) -> tuple[Value, Callable[[PyTree], PyTree]]:
    """The start as one vector of floats, and the way back."""
    vector, of = tree.ravel(tree.map(floats, x0))
    if not vector.size:
        raise ArgumentError(f"optim.{name}: x0 has no numbers.")
    if vector.dtype.kind == "c":
        raise ArgumentError(
            f"optim.{name}: x0 is complex.",
            (("write", "x0 = {'re': ..., 'im': ...}    and z = x['re'] + 1j * x['im'] in the "
              "function"),),
        )  # fmt: skip
    return vector, of


def tolerance(name: str, tol: float | None, dtype: np.dtype, power: float) -> Value:
    """The tolerance in the dtype of the unknowns; eps**power if it is None."""
    given = float(np.finfo(dtype).eps) ** power if tol is None else tol
    if not given >= 0:
        raise ArgumentError(f"optim.{name}: tol={tol!r}.", (("write", "tol >= 0, or None"),))
    return dtype.type(given)


def check_count(name: str, what: str, count: int, least: int) -> None:
    """Refuse a number of steps, or of memories, that is too small."""
    if count < least:
        raise ArgumentError(f"optim.{name}: {what}={count!r}.", (("write", f"{what} >= {least}"),))


def frozen(function: Callable[[Value], Value], x0: Value) -> tuple[Callable[[Value], Value], Value]:
    """The function and the start, of which all derivatives are zero: also those by what the
    function closes over."""
    began, (converted, consts) = _host.constant(x0), closure_convert(function, x0)
    held = _host.constant(consts)
    return lambda x: converted(x, *held), began


def differentiable(
    residual: Callable[[Value], Value],
    found: Value,
    success: Value,
    solve: Callable[[Callable[[Value], Value], Value], Value],
) -> Value:
    """The root that was found, with derivatives by the implicit function theorem; a card where
    `success` is false and Newton's step from there is not small."""
    if not inside(found, success):
        return found
    dense = found.size <= _DENSE
    return implicit(residual, found, success, dense_solve if dense else solve, "the method")


def solve_positive(linear: Callable[[Value], Value], y: Value) -> Value:
    """The x with linear(x) = y of a positive matrix; NaN if it is not found."""
    tol = np.finfo(y.dtype).eps ** 0.75 * np.sqrt(y @ y)
    x, done = conjugate_gradients(linear, -y, np.inf, tol.astype(y.dtype), 20 * len(y))
    return np.where(done, x, np.nan)
