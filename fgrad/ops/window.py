"""L3. Windows: convolution, sliding windows, and the sum of windows.

    conv(x, w)[n, bgo, p] = sum over c, k of  x[bn, gc, p stride - low + k w_dilation] w[bgo, c, k]

for x: (N, C, *spatial), w: (O, C / feature_groups, *window), where x counts as spread by x_dilation
and as zero outside.  Letters written together are one axis in row-major order: b runs over
batch_groups, g over feature_groups.  The transposes and the batched forms of conv are convs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.errors import DtypeError, ShapeError
from fgrad.ir import traits
from fgrad.ir.aval import Aval
from fgrad.ir.primitive import Primitive
from fgrad.ops.families import NUMBERS, batch_first, bilinear_jvp, linear, same_dtype
from fgrad.ops.shape import move_axis, permute, reshape, reverse
from fgrad.trace import Value, bind
from fgrad.tracing.fastpath import bind_one
from fgrad.typing import EqnParams, Shaped

Ints = tuple[int, ...]
Padding = tuple[tuple[int, int], ...]

conv_p = Primitive(
    "conv",
    traits.contracting(),
    params=("strides", "padding", "x_dilation", "w_dilation", "feature_groups", "batch_groups"),
    linear_in="each",
)
windows_p = Primitive(
    "windows",
    traits.moving(repeats=True, drops=True),
    params=("axes", "sizes", "strides", "dilations"),
    linear_in="all",
)
fold_p = Primitive(
    "fold",
    traits.collecting(),
    params=("shape", "axes", "sizes", "strides", "dilations"),
    linear_in="all",
)


def conv(
    x: Value,
    w: Value,
    strides: Ints,
    padding: Padding,
    x_dilation: Ints,
    w_dilation: Ints,
    feature_groups: int = 1,
    batch_groups: int = 1,
) -> Value:
    """Cross-correlate x: (N, C, *spatial) with w: (O, C / feature_groups, *window).

    The result is (N / batch_groups, O, *spatial).  `padding` holds a (low, high) for each spatial
    axis of the dilated x; negative ones crop.
    """
    return bind(
        conv_p,
        x,
        w,
        strides=strides,
        padding=padding,
        x_dilation=x_dilation,
        w_dilation=w_dilation,
        feature_groups=feature_groups,
        batch_groups=batch_groups,
    )


def windows(x: Value, axes: Ints, sizes: Ints, strides: Ints, dilations: Ints) -> Value:
    """All windows of `x`: each of `axes` counts windows, whose own axes are appended last."""
    return bind_one(
        windows_p, x, {"axes": axes, "sizes": sizes, "strides": strides, "dilations": dilations}
    )


def fold(y: Value, shape: Ints, axes: Ints, sizes: Ints, strides: Ints, dilations: Ints) -> Value:
    """The sum of all windows at their places in an array of `shape`: the transpose of `windows`."""
    return bind(
        fold_p, y, shape=shape, axes=axes, sizes=sizes, strides=strides, dilations=dilations
    )


# --- lengths -------------------------------------------------------------------------------------


def spread_length(n: int, dilation: int) -> int:
    """The length of n elements, `dilation` apart."""
    return (n - 1) * dilation + 1 if n else 0


def window_count(length: int, size: int, stride: int, dilation: int) -> int:
    """How many windows of `size` elements, `dilation` apart, begin every `stride` elements."""
    return max(0, (length - spread_length(size, dilation)) // stride + 1)


def _spatial_shape(x: Shaped, w: Shaped, params: EqnParams) -> Ints:
    """The lengths of the spatial axes of the result."""
    return tuple(
        [
            window_count(spread_length(n, xd) + low + high, k, s, wd)
            for n, k, s, (low, high), xd, wd in zip(
                x.shape[2:],
                w.shape[2:],
                params["strides"],
                params["padding"],
                params["x_dilation"],
                params["w_dilation"],
                strict=True,
            )
        ]
    )


# --- conv: type and evaluation -------------------------------------------------------------------


@conv_p.type_rule
def _(x: Aval, w: Aval, **params: Any) -> Aval:
    dtype = same_dtype(conv_p, (x, w), NUMBERS)
    if x.ndim < 2 or x.ndim != w.ndim:
        raise ShapeError(f"conv: x has shape {x.shape} and w has shape {w.shape}.")
    for name in ("strides", "padding", "x_dilation", "w_dilation"):
        if len(params[name]) != x.ndim - 2:
            raise ShapeError(f"conv: {name} {params[name]} for {x.ndim - 2} spatial axes.")
        if name != "padding" and any(v < 1 for v in params[name]):
            raise ShapeError(f"conv: {name} {params[name]} must be positive.")
    if any(k < 1 for k in w.shape[2:]):
        raise ShapeError(f"conv: the window of w, with shape {w.shape}, is empty.")
    groups, batches = params["feature_groups"], params["batch_groups"]
    if groups < 1 or x.shape[1] != w.shape[1] * groups:
        raise ShapeError(
            f"conv: x has {x.shape[1]} channels; w has {w.shape[1]} in {groups} feature groups."
        )
    if batches < 1 or x.shape[0] % batches or w.shape[0] % (groups * batches):
        raise ShapeError(
            f"conv: {groups} feature groups and {batches} batch groups do not divide"
            f" x: {x.shape}, w: {w.shape}."
        )
    return Aval((x.shape[0] // batches, w.shape[0], *_spatial_shape(x, w, params)), dtype)


def _padded(x: np.ndarray, padding: Padding, dilation: Ints) -> np.ndarray:
    """The spatial axes spread and padded; a crop can remove all there is."""
    lengths = [spread_length(n, d) for n, d in zip(x.shape[2:], dilation, strict=True)]
    shape = [max(0, n + lo + hi) for n, (lo, hi) in zip(lengths, padding, strict=True)]
    out = np.zeros((*x.shape[:2], *shape), x.dtype)
    target: list[slice] = [slice(None), slice(None)]
    source = target.copy()
    for n, m, d, (low, _) in zip(x.shape[2:], shape, dilation, padding, strict=True):
        first = max(0, -(low // d))  # the first element with low + i d >= 0
        stop = max(first, min(n, -((low - m) // d)))  # the first one with low + i d >= m
        source.append(slice(first, stop))
        target.append(slice(low + first * d, low + stop * d, d) if stop > first else slice(0))
    out[tuple(target)] = x[tuple(source)]
    return out


def _strided_windows(
    x: np.ndarray, axes: Ints, sizes: Ints, strides: Ints, dilations: Ints
) -> np.ndarray:
    """A read-only view of all windows."""
    shape, steps = list(x.shape), list(x.strides)
    for a, k, s, d in zip(axes, sizes, strides, dilations, strict=True):
        shape[a] = window_count(x.shape[a], k, s, d)
        steps[a] = x.strides[a] * s
        shape.append(k)
        steps.append(x.strides[a] * d)
    return np.lib.stride_tricks.as_strided(x, shape, steps, writeable=False)


# With fewer places than this in one sample, all samples share one matrix product.
_MERGE_BELOW = 64


@conv_p.evaluate
def _(x: np.ndarray, w: np.ndarray, **params: Any) -> np.ndarray:
    """A matrix product for each group, over copied windows."""
    batches, rank = params["batch_groups"], x.ndim - 2
    groups = params["feature_groups"] * batches
    x = _padded(x, params["padding"], params["x_dilation"])
    spatial = tuple(range(2, rank + 2))
    view = _strided_windows(x, spatial, w.shape[2:], params["strides"], params["w_dilation"])
    places, window = view.shape[2 : 2 + rank], w.shape[2:]
    n, c, count = x.shape[0] // batches, w.shape[1], math.prod(places)
    depth = c * math.prod(window)
    filters = w.reshape(groups, w.shape[0] // groups, depth)
    view = view.reshape(batches, n, groups // batches, c, *places, *window)
    at, to = tuple(range(4, 4 + rank)), tuple(range(4 + rank, 4 + 2 * rank))
    if count < _MERGE_BELOW:  # (b, g, c, window, n, places)
        columns = view.transpose(0, 2, 3, *to, 1, *at).reshape(groups, depth, n * count)
        out = np.matmul(filters, columns).reshape(*filters.shape[:2], n, count)
        out = out.transpose(2, 0, 1, 3)
    else:  # (n, b, g, c, window, places)
        columns = view.transpose(1, 0, 2, 3, *to, *at).reshape(n, groups, depth, count)
        out = np.matmul(filters, columns)
    return out.reshape(n, w.shape[0], *places)


# --- conv: derivatives ---------------------------------------------------------------------------

conv_p.jvp(bilinear_jvp(conv_p))


class _Axis(NamedTuple):
    """One spatial axis of a convolution: lengths and spread lengths of x, w and the result."""

    low: int
    x: int
    w: int
    out: int


def _axes(x: Value, w: Value, ct: Value, params: EqnParams) -> list[_Axis]:
    return [
        _Axis(low, spread_length(n, xd), spread_length(k, wd), spread_length(p, s))
        for n, k, p, (low, _), xd, wd, s in zip(
            x.shape[2:],
            w.shape[2:],
            ct.shape[2:],
            params["padding"],
            params["x_dilation"],
            params["w_dilation"],
            params["strides"],
            strict=True,
        )
    ]


@conv_p.transpose
def _(
    ct: Value, wanted: Sequence[bool], x: Value, w: Value, **params: object
) -> tuple[Value | None, Value | None]:
    if 0 in ct.shape or 0 in x.shape or 0 in w.shape:
        return None, None
    return (
        _conv_ct_x(ct, x, w, params) if wanted[0] else None,
        _conv_ct_w(ct, x, w, params) if wanted[1] else None,
    )


def _split(x: Value, axis: int, sizes: Sequence[int]) -> Value:
    """One axis as several, row-major."""
    return reshape(x, (*x.shape[:axis], *sizes, *x.shape[axis + 1 :]))


def _merge(x: Value, axis: int, count: int) -> Value:
    """`count` axes as one, row-major."""
    joint = math.prod(x.shape[axis : axis + count])
    return reshape(x, (*x.shape[:axis], joint, *x.shape[axis + count :]))


def _permute_front(x: Value, axes: Sequence[int]) -> Value:
    """Reorder the first axes; the others stay."""
    return permute(x, (*axes, *range(len(axes), len(x.shape))))


def _conv_ct_x(ct: Value, x: Value, w: Value, params: EqnParams) -> Value:
    """ct_x[bn, gc, s] = sum over o, k of ct[n, bgo, p] w[bgo, c, k].

    Here p stride + k w_dil = s x_dil + low.  With k -> -k this is a conv of ct, spread by the
    stride; b and g are its feature groups.
    """
    groups, batches = params["feature_groups"], params["batch_groups"]
    both = groups * batches
    w = _split(w, 0, (both, w.shape[0] // both))
    w = _merge(_permute_front(w, (0, 2, 1)), 0, 2)
    flipped = reverse(w, tuple(range(2, len(w.shape))))
    # The result has the spread length of x: (ct + low' + high') - w + 1 = x.
    padding = tuple([(a.w - 1 - a.low, a.x - a.out + a.low) for a in _axes(x, w, ct, params)])
    out = conv(
        ct,
        flipped,
        params["x_dilation"],
        padding,
        params["strides"],
        params["w_dilation"],
        both,
    )
    out = _split(out, 1, (batches, x.shape[1]))
    return _merge(_permute_front(out, (1, 0, 2)), 0, 2)


def _conv_ct_w(ct: Value, x: Value, w: Value, params: EqnParams) -> Value:
    """ct_w[bgo, c, k] = sum over n, p of x[bn, gc, k w_dil - low + p stride] ct[n, bgo, p].

    A conv with window ct and channels n, in which strides and window dilations change places.
    """
    groups, batches = params["feature_groups"], params["batch_groups"]
    both = groups * batches
    x_split = _split(_split(x, 1, (groups, w.shape[1])), 0, (batches, ct.shape[0]))
    lhs = _merge(_permute_front(x_split, (3, 0, 2, 1)), 1, 3)
    # The result has the spread length of w: (x + low + high') - ct + 1 = w.
    padding = tuple([(a.low, a.w - 1 + a.out - a.x - a.low) for a in _axes(x, w, ct, params)])
    out = conv(
        lhs,
        _permute_front(ct, (1, 0)),
        params["w_dilation"],
        padding,
        params["x_dilation"],
        params["strides"],
        both,
    )
    return _permute_front(out, (1, 0))


# --- conv: batching ------------------------------------------------------------------------------


@conv_p.batch
def _(
    size: int, operands: Sequence[Value], dims: Sequence[int], **params: Any
) -> tuple[Value, int]:
    """The batch m is folded into the samples, the filters, or the groups."""
    (x, w), (x_dim, w_dim) = operands, dims
    groups, batches = params["feature_groups"], params["batch_groups"]
    if w_dim is None:  # x[b m n] -> out[m n]
        x = move_axis(x, x_dim, 0)
        x = _split(x, 1, (batches, x.shape[1] // batches))
        x = _merge(_permute_front(x, (1, 0, 2)), 0, 3)
        out = bind(conv_p, x, w, **params)
        return _split(out, 0, (size, out.shape[0] // size)), 0
    if x_dim is None:  # w[b g m o] -> out[b g m o]
        both = groups * batches
        w = move_axis(w, w_dim, 0)
        o = w.shape[1] // both
        w = _split(w, 1, (both, o))
        out = bind(conv_p, x, _merge(_permute_front(w, (1, 0, 2)), 0, 3), **params)
        out = _split(out, 1, (both, size, o))
        return _merge(_permute_front(out, (2, 0, 1, 3)), 2, 2), 0
    w = _merge(move_axis(w, w_dim, 0), 0, 2)
    if batches > 1:  # x[m b n], w[m b g o] -> out[n, m b g o]
        x = _merge(move_axis(x, x_dim, 0), 0, 2)
        params = {**params, "batch_groups": size * batches}
    else:  # x[n, m g c], w[m g o] -> out[n, m g o]
        x = _merge(move_axis(x, x_dim, 1), 1, 2)
        params = {**params, "feature_groups": size * groups}
    out = bind(conv_p, x, w, **params)
    return _split(out, 1, (size, out.shape[1] // size)), 1


# --- windows and fold ----------------------------------------------------------------------------


def _window_shapes(
    name: str, shape: Ints, axes: Ints, sizes: Ints, strides: Ints, dilations: Ints
) -> Ints:
    """The shape of all windows of an array of `shape`."""
    if not len(axes) == len(sizes) == len(strides) == len(dilations) == len(set(axes)):
        raise ShapeError(f"{name}: axes {axes}, sizes {sizes}, {strides}, {dilations} differ.")
    if any(not 0 <= a < len(shape) for a in axes):
        raise ShapeError(f"{name}: axes {axes} are not those of shape {shape}.")
    if any(v < 1 for v in (*sizes, *strides, *dilations)):
        raise ShapeError(f"{name}: sizes, strides and dilations must be positive.")
    out = list(shape)
    for a, k, s, d in zip(axes, sizes, strides, dilations, strict=True):
        out[a] = window_count(shape[a], k, s, d)
    return (*out, *sizes)


@windows_p.type_rule
def _(x: Aval, **params: Any) -> Aval:
    return Aval(_window_shapes("windows", x.shape, **params), x.dtype)


windows_p.evaluate(_strided_windows)
linear(windows_p)


@windows_p.transpose
def _(ct: Value, wanted: Sequence[bool], x: Value, **params: object) -> tuple[Value]:
    return (bind(fold_p, ct, shape=tuple(x.shape), **params),)


@windows_p.batch
def _(
    size: int, operands: Sequence[Value], dims: Sequence[int], *, axes: Ints, **params: object
) -> tuple[Value, int]:
    (x,), (d,) = operands, dims
    return bind(windows_p, x, axes=tuple([a + (a >= d) for a in axes]), **params), d


@fold_p.type_rule
def _(y: Aval, *, shape: Ints, **params: Any) -> Aval:
    expected = _window_shapes("fold", shape, **params)
    if y.shape != expected:
        raise ShapeError(f"fold: windows of {shape} have shape {expected}, not {y.shape}.")
    if y.dtype.kind not in NUMBERS:
        raise DtypeError(f"fold does not take {y.dtype} operands.")
    return Aval(shape, y.dtype)


@fold_p.evaluate
def _(
    y: np.ndarray, *, shape: Ints, axes: Ints, sizes: Ints, strides: Ints, dilations: Ints
) -> np.ndarray:
    out = np.zeros(shape, y.dtype)
    for offsets in itertools.product(*map(range, sizes)):
        place = [slice(None)] * len(shape)
        for a, k, s, d in zip(axes, offsets, strides, dilations, strict=True):
            place[a] = slice(k * d, k * d + spread_length(y.shape[a], s), s)
        out[tuple(place)] += y[(..., *offsets)]
    return out


linear(fold_p)


@fold_p.transpose
def _(
    ct: Value, wanted: Sequence[bool], y: Value, *, shape: Ints, **params: object
) -> tuple[Value]:
    return (bind(windows_p, ct, **params),)


@fold_p.batch
def _(
    size: int,
    operands: Sequence[Value],
    dims: Sequence[int],
    *,
    shape: Ints,
    axes: Ints,
    **params: object,
) -> tuple[Value, int]:
    y, d = operands[0], dims[0]
    if d > len(shape):
        y, d = batch_first(size, y, d), 0
    shape = (*shape[:d], size, *shape[d:])
    return bind(fold_p, y, shape=shape, axes=tuple([a + (a >= d) for a in axes]), **params), d
