"""L4. `x[mask]` for a mask with unknown values: as many elements as there are when it runs.

    x[x > 1] *= 2              under jit: reads x[mask], multiplies, assigns to x[mask]
    np.mean(x[x > 1])          np.mean(x, where=x > 1)
    x[mask].size               np.sum(mask)

How many elements there are is not known, so this is the whole of `x` together with the mask.
Elementwise functions act on the whole, reductions leave out what is not selected, and an assignment
to the same places selects.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeGuard

import numpy as np

from fgrad.errors import BoundsError, TracedIndexError
from fgrad.numpy.promote import (
    broadcast_to,
    convert,
    normalize_axes,
    reshape,
    stored,
    user_line,
    weakened,
)
from fgrad.numpy.reductions import is_set
from fgrad.ops import elementwise as ew
from fgrad.ops.checked import checked, empty_extremum, located
from fgrad.trace import Tracer, Value, concrete
from fgrad.tracing.on_device import leaders
from fgrad.typing import ArrayLike, DTypeLike

ADVICE = (  # where a mask has no known values
    ("write", "np.where(mask, x, 0)       then the reduction that follows"),
    ("write", "np.sum(x, where=mask)      np.mean and others take where= too"),
    ("write", "lambda x: x[mask]          a mask of plain numbers from outside of the function"),
)

Function = Callable[..., Any]

ELEMENTWISE = frozenset({
    np.where, np.clip, np.round, np.real, np.imag, np.angle, np.isclose, np.nan_to_num,
    np.zeros_like, np.ones_like, np.empty_like, np.full_like, np.real_if_close,
})  # fmt: skip
REDUCTIONS: Mapping[object, Function] = {
    np.add: np.sum, np.multiply: np.prod, np.maximum: np.max, np.minimum: np.min,
    np.logical_and: np.all, np.logical_or: np.any,
}  # fmt: skip
METHODS = {
    "sum": np.sum, "prod": np.prod, "mean": np.mean, "var": np.var, "std": np.std, "min": np.min,
    "max": np.max, "any": np.any, "all": np.all, "ptp": np.ptp, "dot": np.dot, "round": np.round,
    "clip": np.clip,
}  # fmt: skip
_EXTREMA = {np.max: -1, np.amax: -1, np.min: 1, np.amin: 1}  # the sign of what loses to all
_WHERE = frozenset({np.sum, np.prod, np.mean, np.var, np.std, np.any, np.all})
_ALL = slice(None)


def is_unknown_mask(index: object) -> TypeGuard[Tracer]:
    """Whether an index is a traced boolean array without values."""
    return isinstance(index, Tracer) and index.dtype.kind == "b" and concrete(index) is None


class UnknownSize(np.lib.mixins.NDArrayOperatorsMixin):
    """Elements of which it is not known how many there are, so most that arrays do is refused."""

    __slots__ = ()
    __array_priority__ = 2000.0

    def __getattr__(self, name: str) -> Any:
        if name in METHODS:
            return lambda *args, **kwargs: METHODS[name](self, *args, **kwargs)  # type: ignore[operator]
        if name.startswith("__") or not hasattr(np.ndarray, name):
            raise AttributeError(name)
        raise unknown_size()

    def _refuse(self, *_args: object, **_kwargs: object) -> Any:
        raise unknown_size()

    __array__ = __iter__ = __len__ = __str__ = _refuse


class Masked(UnknownSize):
    """The elements of `whole` where `mask` holds, as many as they may be.

    `mask` is about the first axes of `whole`, which are one axis of what is selected.  A write goes
    into `whole`, which nobody else has.
    """

    __slots__ = ("mask", "whole")

    def __init__(self, whole: Tracer, mask: Tracer) -> None:
        leaders.add(Masked)  # now, so that it costs nothing where there are none
        self.whole = whole
        self.mask = mask

    # --- what it is like

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the elements."""
        return self.whole.dtype

    @property
    def rest(self) -> tuple[int, ...]:
        """The shape without the first axis, whose length is not known."""
        return self.whole.shape[self.mask.ndim :]

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return 1 + len(self.rest)

    @property
    def shape(self) -> tuple[Any, ...]:
        """The number of elements that are selected, which is traced, and the other lengths."""
        return (count(self.mask), *self.rest)

    @property
    def size(self) -> Any:
        """The number of elements."""
        return math.prod(self.rest) * count(self.mask)

    # --- elementwise functions

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **kwargs: Any
    ) -> Any:
        if method == "reduce" and ufunc in REDUCTIONS and out is None:
            return reduced(REDUCTIONS[ufunc], *inputs, **{"axis": 0, **kwargs})
        if method != "__call__" or kwargs.get("where", True) is not True:
            raise unknown_size()
        if ufunc is np.matmul and out is None:
            return product(*inputs)
        if ufunc.signature is not None:
            raise unknown_size()
        if out is None:
            return together(ufunc, inputs, kwargs)
        if len(out) != 1 or not isinstance(out[0], Masked):
            raise unknown_size()
        ufunc(*[_operand(x, out[0]) for x in inputs], out=out[0].whole, **kwargs)
        return out[0]

    def __array_function__(
        self, func: Function, types: Collection[type], args: Any, kwargs: dict[str, Any]
    ) -> Any:
        if kwargs.get("out") is not None:
            raise unknown_size()
        if func in ELEMENTWISE:
            return together(func, args, kwargs)
        handler = FUNCTIONS.get(func)
        return reduced(func, *args, **kwargs) if handler is None else handler(*args, **kwargs)

    def astype(self, dtype: DTypeLike | None) -> Masked:
        """The elements with another dtype."""
        new: Any = convert(self.whole, np.dtype(dtype))
        return Masked(new.twin(), self.mask)

    def copy(self) -> Masked:
        """The same elements, which later writes do not change."""
        return Masked(self.whole.twin(), self.mask)

    # --- some of the elements

    def __getitem__(self, index: Any) -> Masked:
        if index is Ellipsis or (isinstance(index, slice) and index == _ALL):
            return self
        if isinstance(index, Masked) and index.dtype.kind == "b":
            return Masked(self.whole.twin(), self._both(index))
        if isinstance(index, tuple) and index and index[0] == _ALL:
            first = (_ALL,) * self.mask.ndim
            return Masked(self.whole[(*first, *index[1:])], self.mask)
        raise unknown_size()

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(index, Masked) and index.dtype.kind == "b":
            both = self._both(index)
            self.whole[...] = write_masked(self.whole, both, value)
            return
        target = self[index]
        new = _operand(value, target)
        target.whole[...] = new

    def _both(self, chosen: Masked) -> Tracer:
        """The mask of the elements among these that a mask of their number selects."""
        if chosen.rest or not same_value(chosen.mask, self.mask):
            raise unknown_size()
        return np.logical_and(self.mask, chosen.whole)  # type: ignore[return-value]


def unknown_size() -> TracedIndexError:
    """The card for elements of which it is not known how many there are."""
    return TracedIndexError(
        "A boolean mask has no known values, so the shape of the result is not known.",
        (*user_line(), *ADVICE),
    )


def same_value(a: Tracer, b: Tracer) -> bool:
    """Whether two masks are known to be equal: one value, or one equation made twice."""
    if a.builder is not b.builder:
        return False
    return a.index == b.index or _equation(a) == _equation(b)


def _equation(x: Tracer) -> object:
    for record in reversed(x.builder.records):
        if x.index in record.outs:
            constants = [k if type(k) is int else (str(k), id(type(k))) for k in record.operands]
            return record.prim.name, constants, record.params
    return x.index


def count(mask: Tracer) -> Any:
    """How many elements a mask selects: a number like one of Python's."""
    return weakened(np.sum(mask))


def _operand(x: Any, like: Masked) -> Any:
    """What an elementwise function takes for an operand that meets these elements."""
    if isinstance(x, Masked):
        if not same_value(x.mask, like.mask) or x.ndim != like.ndim:
            raise unknown_size()
        return x.whole
    if np.ndim(x) > len(like.rest):
        raise unknown_size()
    return x


def together(function: Function, args: Any, kwargs: Mapping[str, Any]) -> Any:
    """An elementwise function of some elements."""
    like = next((x for x in (*args, *kwargs.values()) if isinstance(x, Masked)), None)
    if like is None:  # the results alone go there
        raise unknown_size()
    named = {name: _operand(x, like) if isinstance(x, Masked) else x for name, x in kwargs.items()}
    found = function(*[_operand(x, like) for x in args], **named)
    outs = found if isinstance(found, tuple) else (found,)
    if any([out.shape[: like.mask.ndim] != like.mask.shape for out in outs]):
        raise unknown_size()
    made = tuple([Masked(out, like.mask) for out in outs])
    return made if isinstance(found, tuple) else made[0]


# --- reductions -----------------------------------------------------------------------------------


def reduced(
    function: Function, x: Any, axis: Any = None, *args: Any, keepdims: Any = False, **kwargs: Any
) -> Any:
    """A reduction that leaves out what is not selected."""
    known = function in _WHERE or function in _EXTREMA
    if not known or args or "where" in kwargs or not isinstance(x, Masked):
        raise unknown_size()
    axes = normalize_axes(axis, x.ndim)
    extra = x.mask.ndim - 1
    own = [*range(extra + 1)] if 0 in axes else []
    inside = (*own, *[k + extra for k in axes if k])
    if 0 not in axes:
        return Masked(function(x.whole, axis=inside, keepdims=keepdims, **kwargs), x.mask)
    mask = reshape(x.mask, (*x.mask.shape, *(1,) * len(x.rest)))
    if function in _EXTREMA and "initial" not in kwargs:
        found = _extremum(function, x, mask, inside)
    else:
        found = function(x.whole, axis=inside, where=mask, **kwargs)
    kept = [1 if k in axes else n for k, n in enumerate((1, *x.rest))]
    return reshape(found, tuple(kept)) if is_set(keepdims) else found


def _extremum(function: Function, x: Masked, mask: Value, axes: tuple[int, ...]) -> Value:
    """The largest or smallest element; NumPy's error where there is none."""
    dtype, sign = x.dtype, _EXTREMA[function]
    if dtype.kind == "b":
        worst: Any = sign > 0
    elif dtype.kind in "iu":
        worst = np.iinfo(dtype).max if sign > 0 else np.iinfo(dtype).min
    else:
        worst = sign * np.inf
    name = "minimum" if sign > 0 else "maximum"
    found = function(np.where(mask, x.whole, dtype.type(worst)), axis=axes)
    return checked(found, np.any(x.mask), located(empty_extremum(name)))


def _zeroed(x: Any) -> Any:
    """The whole, 0 where it is not selected."""
    mask = reshape(x.mask, (*x.mask.shape, *(1,) * len(x.rest)))
    return np.where(mask, x.whole, x.dtype.type(0))


def product(a: Any, b: Any) -> Any:
    """`a @ b`."""
    if isinstance(a, Masked) and isinstance(b, Masked):
        if a.ndim > 1 or a.mask.ndim > 1 or not same_value(a.mask, b.mask):
            raise unknown_size()
        return _zeroed(a) @ _zeroed(b)
    if isinstance(a, Masked) and a.rest and np.ndim(b) <= 2:
        return Masked(a.whole @ b, a.mask)
    raise unknown_size()


def _average(x: Any, axis: Any = None, weights: Any = None) -> Any:
    if weights is None:
        return np.mean(x, axis)
    if axis not in (None, 0) or not isinstance(x, Masked) or x.rest:
        raise unknown_size()
    return np.sum(x * weights) / np.sum(together(np.add, (weights, x * 0), {}))


def _norm(x: Any, order: Any = None) -> Any:
    if x.rest or order not in (None, 1, 2):
        raise unknown_size()
    return np.linalg.norm(reshape(_zeroed(x), (x.mask.size,)), order)


FUNCTIONS: dict[object, Function] = {
    np.shape: lambda a: a.shape,
    np.ndim: lambda a: a.ndim,
    np.size: lambda a, axis=None: a.size if axis is None else a.shape[axis],
    np.copy: lambda a: a.copy(),
    np.dot: product,
    np.inner: product,
    np.ptp: lambda a, axis=None: np.max(a, axis) - np.min(a, axis),
    np.count_nonzero: lambda a, axis=None: np.sum(a != 0, axis),
    np.average: _average,
    np.linalg.norm: _norm,
    np.nansum: lambda a, axis=None: np.sum(np.where(np.isnan(a), a.dtype.type(0), a), axis),
}


# --- writing --------------------------------------------------------------------------------------


def write_masked(x: Value, mask: Tracer, value: ArrayLike | Masked) -> Value:
    """x[mask] = value, without knowing how many elements that are."""
    if x.shape[: mask.ndim] != mask.shape:
        raise BoundsError(
            f"boolean index of shape {mask.shape} does not match an array of shape {x.shape}",
        )
    if isinstance(value, Masked):
        if not same_value(value.mask, mask):
            raise unknown_size()
        new = value.whole
    else:
        new = stored(value, x.dtype)
        if len(np.shape(new)) > x.ndim - mask.ndim:
            raise unknown_size()
    new = broadcast_to(convert(new, x.dtype), x.shape, x if isinstance(x, Tracer) else None)
    rest = (1,) * (x.ndim - mask.ndim)
    return ew.select(broadcast_to(reshape(mask, mask.shape + rest), x.shape), new, x)
