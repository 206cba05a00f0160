"""L4. `x.at[index]`: elements to be read, or replaced in a new array."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.errors import ArgumentError
from fgrad.numpy.dispatch import has_tracer
from fgrad.numpy.indexing import COMBINE, parse, read, update, with_truth_axes
from fgrad.numpy.masked import Masked, is_unknown_mask, write_masked
from fgrad.numpy.promote import (
    as_array,
    as_operand,
    broadcast,
    broadcast_to,
    convert,
    fresh,
    stored,
)
from fgrad.ops import elementwise as ew
from fgrad.trace import Tracer, Value
from fgrad.tracing.on_device import OnDevice
from fgrad.typing import ArrayLike, PyTree


def at(x: ArrayLike) -> At:
    """Some elements of an array, to be read or replaced in a new array: `at(x)[i].set(v)`.

    Arguments:
        x: an array, plain or traced.  A traced one has `x.at` too.

    Returns:
        What `[index]` gives elements of, which have `get`, `set`, `add`, `multiply`, `min`, ...

    Example:
        >>> import numpy as np, fgrad
        >>> fgrad.at(np.zeros(3))[[0, 2, 2]].add(1.0)
        array([1., 0., 2.])
    """
    return x.at if isinstance(x, OnDevice) else At(as_array(x))  # type: ignore[attr-defined]


class At:
    """`x.at[index]`: updates that return a new array."""

    __slots__ = ("x",)

    def __init__(self, x: Value) -> None:
        self.x = x

    def __getitem__(self, index: object) -> IndexedElements:
        return IndexedElements(self.x, index)


_BOUNDS = {None: "raise", "promise_in_bounds": "raise", "clip": "clip", "drop": "drop",
           "fill": "drop"}  # fmt: skip


def _bounds_of(mode: str | None) -> str:
    if mode not in _BOUNDS:
        raise ArgumentError(
            f"mode={mode!r} is none of None, 'clip', 'drop', 'fill', 'promise_in_bounds'.",
        )
    return _BOUNDS[mode]


def fill_of(dtype: np.dtype) -> float | int:
    """What stands for an element that is not there: NaN, or the integer furthest from zero."""
    if dtype.kind in "fcV":
        return math.nan
    if dtype.kind == "b":
        return True
    limits = np.iinfo(dtype)
    return limits.min if dtype.kind == "i" else limits.max


def _check_wraps(wrap_negative_indices: bool) -> None:
    if not wrap_negative_indices:
        raise ArgumentError(
            "at[...]: wrap_negative_indices=False.",
            (
                ("why", "negative indices count from the end, as in NumPy."),
                ("write", 'np.where(i < 0, x.shape[0], i)    an index out of bounds, mode="drop"'),
            ),
        )


_Combined = Callable[["IndexedElements", PyTree, str | None], Value]
_UPDATES: dict[str, _Combined] = {
    "set": lambda e, values, mode: e.combined(values, "set", mode),
    "add": lambda e, values, mode: e.combined(values, "add", mode),
    "subtract": lambda e, values, mode: e.combined(ew.neg(e.stored(values)), "add", mode),
    "multiply": lambda e, values, mode: e.combined(values, "mul", mode),
    "divide": lambda e, values, mode: e.combined(ew.reciprocal(e.stored(values)), "mul", mode),
    "power": lambda e, values, mode: e.combined(
        ew.pow_(*broadcast((e.get(mode), e.stored(values)))), "set", mode
    ),
    "apply": lambda e, function, mode: e.combined(function(e.get(mode)), "set", mode),
    "min": lambda e, values, mode: e.combined(values, "min", mode),
    "max": lambda e, values, mode: e.combined(values, "max", mode),
}


def _updating(name: str, text: str) -> Callable[..., Value]:
    """A method that gives the array with some elements replaced."""
    update_by = _UPDATES[name]

    def method(
        self: IndexedElements,
        values: PyTree,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | None = None,
        wrap_negative_indices: bool = True,
    ) -> Value:
        _check_wraps(wrap_negative_indices)
        return update_by(self, values, mode)

    method.__name__, method.__qualname__, method.__doc__ = name, f"IndexedElements.{name}", text
    return method


class IndexedElements:
    """Some elements of an array, to be read or replaced.

    `mode` says what becomes of indices out of bounds: an error where they are known, or checked in
    captured code (None), the nearest element ("clip"), or none at all ("drop", "fill").  Updates
    give a new array.  `indices_are_sorted` and `unique_indices` are hints of JAX's, which change no
    result; negative indices count from the end, and `wrap_negative_indices=False` is refused.
    """

    __slots__ = ("index", "x")

    def __init__(self, x: Value, index: object) -> None:
        self.x = x
        self.index = index

    def combined(self, values: ArrayLike, how: str, mode: str | None = None) -> Value:
        """`x` with values combined as `how` says: set, add, mul, min, max."""
        if is_unknown_mask(self.index):
            return self._update_masked(self.index, values, how)
        out = update(self.x, self.index, values, how, _bounds_of(mode))
        return fresh(out) if out is self.x else out

    def stored(self, values: ArrayLike) -> Value:
        """Values in the dtype of the array."""
        return stored(values, self.x.dtype)

    def _update_masked(self, mask: Tracer, values: ArrayLike, how: str) -> Value:
        if how == "set":
            return write_masked(self.x, mask, values)
        combined: Any = COMBINE[how](*broadcast((self.x, stored(values, self.x.dtype))))
        return write_masked(self.x, mask, Masked(combined, mask))

    def get(
        self,
        mode: str | None = None,
        fill_value: ArrayLike | None = None,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        wrap_negative_indices: bool = True,
    ) -> Value:
        """x[index]; with mode "fill", `fill_value` (NaN by default) where there is no element."""
        _check_wraps(wrap_negative_indices)
        bounds = _bounds_of(mode)
        x = self.x
        own = isinstance(self.x, Tracer) or not has_tracer((self.index,))
        if own and bounds == "raise":
            return x[self.index]
        x, index = with_truth_axes(x, self.index)
        parsed = parse(x.shape, index, bounds)
        found = read(x, parsed)
        if bounds != "drop" or not parsed.has_arrays:
            return found
        there = read(broadcast_to(np.bool_(True), x.shape), parsed, "fill")
        fill = convert(as_operand(fill_of(x.dtype) if fill_value is None else fill_value), x.dtype)
        return ew.select(*broadcast((there, found, fill)))

    set = _updating("set", "`x` with the elements replaced.")
    add = _updating("add", "`x` with values added; repeated indices add up.")
    subtract = _updating("subtract", "`x` with values subtracted; repeated indices add up.")
    multiply = mul = _updating(
        "multiply", "`x` with elements multiplied; repeated indices multiply."
    )
    divide = _updating("divide", "`x` with elements divided.")
    power = _updating("power", "`x` with elements to a power; of repeated indices one counts.")
    apply = _updating(
        "apply", "`x` with a function applied to elements; of repeated indices one counts."
    )
    min = _updating("min", "`x` with the smaller of elements and values.")
    max = _updating("max", "`x` with the larger of elements and values.")
