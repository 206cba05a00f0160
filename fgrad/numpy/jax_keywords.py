"""L4. Keywords that functions of `jax.numpy` have and those of NumPy have not.

fgrad.numpy.dot(x, y, precision="highest")          a hint: sums are in full precision
fgrad.numpy.sum(k, promote_integers=False)          the result has the dtype of `k`
fgrad.numpy.zeros(3, out_sharding=None)             what is done; others are refused
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from fgrad.base.keywords import own_keywords, refused
from fgrad.errors import ArgumentError
from fgrad.numpy.dispatch import TRACED
from fgrad.ops.complex import conj
from fgrad.typing import ArrayLike, DTypeLike, PyTree

Function: TypeAlias = Callable[..., PyTree]


class Keywords:
    """What a function takes beside NumPy's keywords.

    Arguments:
        hints: keywords that change no result.
        only: keywords with the one value that is taken.
        aliases: JAX's names of NumPy's keywords.
        meanings: what keywords mean: a function of the function, the keyword's value, and the
            other arguments of the call.
    """

    __slots__ = ("aliases", "hints", "meanings", "names", "only")

    def __init__(
        self,
        hints: Sequence[str] = (),
        meanings: Mapping[str, Function] | None = None,
        aliases: Mapping[str, str] | None = None,
        **only: object,
    ) -> None:
        self.hints, self.only, self.aliases = tuple(hints), only, aliases or {}
        self.meanings = meanings or {}
        self.names = frozenset({*self.hints, *only, *self.aliases, *self.meanings})

    def call(
        self, function: Function, args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> PyTree:
        """The function of these arguments, as NumPy's keywords say it."""
        name = f"{function.__module__}.{function.__name__}"
        own = own_keywords(name, kwargs, self.hints, self.aliases, self.only)
        keyword = next((k for k in self.meanings if k in own), None)
        if keyword is None:
            return function(*args, **own)
        value = own.pop(keyword)
        return self.meanings[keyword](function, value, *args, **own)


def _cast(x: PyTree, dtype: DTypeLike | None) -> PyTree:
    return x.astype(dtype) if hasattr(x, "astype") else np.asarray(x, dtype)


def _preferring(function: Function, dtype: PyTree, *args: PyTree, **kwargs: PyTree) -> PyTree:
    """`preferred_element_type`: the products are added, and the result is, of that dtype.

    bfloat16 operands that prefer float32 are float32 before they are multiplied.
    """
    if dtype is None:
        return function(*args, **kwargs)
    count = 0 if isinstance(args[0], str) else 2
    spec, arrays, rest = (args[:1], args[1:], ()) if not count else ((), args[:2], args[2:])
    wide = np.result_type(np.dtype(dtype), *[_cast(x, None).dtype if not hasattr(x, "dtype")
                                             else x.dtype for x in arrays])  # fmt: skip
    return _cast(function(*spec, *[_cast(x, wide) for x in arrays], *rest, **kwargs), dtype)


def _promoting(
    function: Function, promote: bool, a: ArrayLike, *args: PyTree, **kwargs: PyTree
) -> PyTree:
    """`promote_integers=False`: integers are added in their own dtype."""
    dtype = getattr(a, "dtype", None)
    if not promote and dtype is not None and dtype.kind in "iu" and not args[1:]:
        kwargs.setdefault("dtype", dtype)
    return function(a, *args, **kwargs)


def _not_in_place(
    function: Function, inplace: bool, a: PyTree, *args: PyTree, **kwargs: PyTree
) -> PyTree:
    """`inplace=False`: the array that would have been written, a new one."""
    if inplace:
        return function(a, *args, **kwargs)
    new = np.copy(a)
    function(new, *args, **kwargs)
    return new


def _symmetrized(
    function: Function, symmetrize: bool, a: PyTree, *args: PyTree, **kwargs: PyTree
) -> PyTree:
    """`symmetrize_input=True`: both triangles are read, their mean counts."""
    if symmetrize:
        a = (a + conj(np.swapaxes(a, -1, -2))) / 2
    return function(a, *args, **kwargs)


def _of_dtype(function: Function, dtype: PyTree, *args: PyTree, **kwargs: PyTree) -> PyTree:
    out = function(*args, **kwargs)
    return out if dtype is None else _cast(out, dtype)


# Where an index that is out of bounds is meant.
_MODES = ("raise", "wrap", "clip")


def _inside(indices: PyTree, length: int) -> tuple[PyTree, PyTree]:
    """Indices that are in bounds, and where they were."""
    k = np.asarray(indices) if not hasattr(indices, "dtype") else indices
    good = np.logical_and(k >= -length, k < length)
    return np.where(good, np.where(k < 0, k + length, k), 0), good


def _filled(found: PyTree, good: PyTree, fill_value: PyTree) -> PyTree:
    """Elements in bounds, and `fill_value`; NaN, or the least integer, in place of the others."""
    kind = found.dtype.kind
    if fill_value is None:
        fill_value = np.nan if kind in "fc" else True
        if kind in "iu":
            info = np.iinfo(found.dtype)
            fill_value = info.min if kind == "i" else info.max
    return np.where(good, found, _cast(fill_value, found.dtype))


def _take(
    function: Function, fill_value: PyTree, a: PyTree, indices: PyTree, axis: int | None = None,
    out: object = None, mode: str | None = None,
) -> PyTree:  # fmt: skip
    """`mode="fill"`: elements out of bounds are `fill_value`, and those modes that NumPy has."""
    known(function, mode)
    if mode in _MODES or (mode in (None, "promise_in_bounds") and fill_value is None):
        return function(a, indices, axis, out, *([mode] if mode in _MODES else []))
    a = np.ravel(a) if axis is None else a
    axis = 0 if axis is None else axis % np.ndim(a)
    k, good = _inside(indices, np.shape(a)[axis])
    found = function(a, k, axis, None, "clip")  # all are in bounds, and none is looked at again
    rest = np.ndim(a) - axis - 1
    return _filled(found, np.reshape(good, (*np.shape(good), *(1,) * rest)), fill_value)


def _take_along_axis(
    function: Function, fill_value: PyTree, arr: PyTree, indices: PyTree, axis: int | None = -1,
    mode: str | None = None,
) -> PyTree:  # fmt: skip
    known(function, mode)
    if axis is None:
        arr, axis = np.ravel(arr), 0
    length = np.shape(arr)[axis]
    if mode == "clip":
        return function(arr, np.clip(indices, 0, length - 1), axis)
    if mode != "fill" and fill_value is None:
        return function(arr, indices, axis)
    k, good = _inside(indices, length)
    return _filled(function(arr, k, axis), good, fill_value)


def known(function: Function, mode: str | None) -> None:
    """Refuse a mode that there is not."""
    if mode not in (None, "fill", "promise_in_bounds", *_MODES):
        raise ArgumentError(
            f"fgrad.numpy.{function.__name__}: mode={mode!r}.",
            (("write", '"fill", "clip", "wrap" or "raise"'),),
        )


def _by_mode(meaning: Function) -> Function:
    """What `mode` means, where `fill_value` is given too or not."""

    def of_mode(function: Function, mode: str | None, *args: PyTree, **kwargs: PyTree) -> PyTree:
        return meaning(function, kwargs.pop("fill_value", None), *args, mode=mode, **kwargs)

    return of_mode


def _repeat(
    function: Function, total: int | None, a: PyTree, repeats: PyTree, axis: int | None = None
) -> PyTree:
    """`total_repeat_length`: as many elements as that, for counts that are not known; the last
    one goes on where there are fewer."""
    if total is None:
        return function(a, repeats, axis)
    a = np.ravel(a) if axis is None else a
    axis = 0 if axis is None else axis
    length = np.shape(a)[axis]
    if length == 0 and total:
        raise refused("fgrad.numpy.repeat", "total_repeat_length", total)
    ends = np.cumsum(np.broadcast_to(repeats, (length,)))
    k = np.searchsorted(ends, np.arange(total), side="right")
    return TRACED["take"][1](a, np.minimum(k, max(length - 1, 0)), axis)


_MEANS = {"preferred_element_type": _preferring}
_PRODUCT = Keywords(("precision",), _MEANS, out_sharding=None)
_WHOLE = Keywords(out_sharding=None)
_SYMMETRIC = Keywords(meanings={"symmetrize_input": _symmetrized})
_SUM = Keywords(meanings={"promote_integers": _promoting}, out_sharding=None)
_PLACED = Keywords(meanings={"inplace": _not_in_place})
_SEARCH = Keywords(("method",), out_sharding=None)

KEYWORDS: dict[str, Keywords] = {
    **dict.fromkeys((
        "arange", "array", "asarray", "bincount", "broadcast_to", "empty", "full", "full_like",
        "ones", "ones_like", "percentile", "ravel", "reshape", "zeros", "zeros_like",
    ), _WHOLE),
    **dict.fromkeys((
        "convolve", "correlate", "dot", "einsum", "inner", "matmul", "tensordot", "vdot",
        "vecdot", "linalg.matmul", "linalg.tensordot", "linalg.vecdot", "linalg.multi_dot",
    ), _PRODUCT),
    **dict.fromkeys(("linalg.cholesky", "linalg.eigh", "linalg.eigvalsh"), _SYMMETRIC),
    **dict.fromkeys(("fill_diagonal", "place", "put", "put_along_axis"), _PLACED),
    **dict.fromkeys(("digitize", "isin", "searchsorted", "linalg.slogdet"), _SEARCH),
    **dict.fromkeys(("argsort", "dstack", "ravel_multi_index"),
                    Keywords(meanings={"dtype": _of_dtype})),
    "array": Keywords(device=None, out_sharding=None),
    "clip": Keywords(aliases={"arr": "a"}),
    "delete": Keywords(("assume_unique_indices",)),
    "linalg.lstsq": Keywords(numpy_resid=True),
    "linalg.matrix_rank": Keywords(aliases={"M": "A"}),
    "linalg.svd": Keywords(subset_by_index=None),
    "polymul": Keywords(trim_leading_zeros=True),
    "polyval": Keywords(("unroll",)),
    "prod": _SUM,
    "put_along_axis": Keywords(meanings={"inplace": _not_in_place}, mode=None),
    "repeat": Keywords(meanings={"total_repeat_length": _repeat}, out_sharding=None),
    "sum": _SUM,
    "take": Keywords(
        ("unique_indices", "indices_are_sorted"),
        {"mode": _by_mode(_take), "fill_value": _take}),
    "take_along_axis": Keywords(
        meanings={"mode": _by_mode(_take_along_axis), "fill_value": _take_along_axis},
        wrap_negative_indices=True),
}  # fmt: skip
