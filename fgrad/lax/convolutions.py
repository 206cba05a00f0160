"""L7. Convolutions by the names of `jax.lax`: any layout, dilated operands, transposed, patches.

A layout is text: "NCHW" for images (batch, channels, spatial axes), "OIHW" for filters.
`precision` is accepted for JAX's sake: products are exact to rounding in the dtype of the operands.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from fgrad.base.keywords import also_takes
from fgrad.base.named_tuple import NamedTuple
from fgrad.errors import ArgumentError, ShapeError
from fgrad.ir.aval import aval_of
from fgrad.lax.arrays import filled
from fgrad.lax.paddings import Padding, window_padding
from fgrad.lax.whole import integers
from fgrad.numpy.promote import as_array, inexact, promote, user_line
from fgrad.ops import window
from fgrad.ops.shape import inverse_permutation, permute
from fgrad.trace import Value
from fgrad.typing import ArrayLike, DTypeLike

Ints = tuple[int, ...]
Layouts: TypeAlias = "tuple[str, str, str] | ConvDimensionNumbers | None"


class ConvDimensionNumbers(NamedTuple):
    """The order of axes of images, filters and results.

    lhs_spec: the axes of batch, channels and space in the images.
    rhs_spec: the axes of outputs, inputs and space in the filters.
    out_spec: the axes of batch, channels and space in the result.
    """

    lhs_spec: Ints
    rhs_spec: Ints
    out_spec: Ints


def conv_dimension_numbers(
    lhs_shape: Sequence[int], rhs_shape: Sequence[int], dimension_numbers: Layouts
) -> ConvDimensionNumbers:
    """The axes that three layouts name.

    Arguments:
        lhs_shape, rhs_shape: the shapes of images and filters.

    Raises:
        ShapeError, ArgumentError: if they do not fit the shapes.

    Example:
        >>> from fgrad import lax
        >>> lax.conv_dimension_numbers((1, 5, 5, 3), (3, 3, 3, 8), ("NHWC", "HWIO", "NHWC"))
        ConvDimensionNumbers(lhs_spec=(0, 3, 1, 2), rhs_spec=(3, 2, 0, 1), out_spec=(0, 3, 1, 2))
    """
    rank = len(lhs_shape)
    if rank != len(rhs_shape) or rank < 2:
        raise ShapeError(
            f"lax.conv: images of shape {tuple(lhs_shape)}, filters of shape {tuple(rhs_shape)}.",
            user_line(),
        )
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    plain = tuple(range(rank))
    if dimension_numbers is None:
        return ConvDimensionNumbers(plain, plain, plain)
    lhs, rhs, out = dimension_numbers
    letters = sorted(c for c in lhs if c not in "NC")
    known = zip((lhs, rhs, out), ("NC", "OI", "NC"), strict=True)
    if any(sorted(text) != sorted([*head, *letters]) or len(text) != rank for text, head in known):
        raise ArgumentError(
            f"lax.conv: dimension_numbers={dimension_numbers!r} for {rank} axes.",
            (*user_line(), ("write", "('NCHW', 'OIHW', 'NCHW') or the letters in other orders")),
        )
    space = [c for c in lhs if c not in "NC"]
    axes = [tuple([t.index(c) for c in (*head, *space)]) for t, head in
            ((lhs, "NC"), (rhs, "OI"), (out, "NC"))]  # fmt: skip
    return ConvDimensionNumbers(*axes)


def _settings(rank: int, **given: Sequence[int] | None) -> list[Ints]:
    found = []
    for name, values in given.items():
        ints = (1,) * rank if values is None else integers(values, "conv")
        if len(ints) != rank or min(ints, default=1) < 1:
            raise ArgumentError(
                f"lax.conv: {name}={values!r} for {rank} spatial axes.", user_line()
            )
        found.append(ints)
    return found


@also_takes(out_sharding=None)
def conv_general_dilated(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Layouts = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
) -> Value:
    """Cross-correlation of images with filters.

    Arguments:
        lhs: images, in the order of axes of the first layout.
        rhs: filters, in that of the second.
        window_strides: the distance of windows, for each spatial axis.
        padding: "VALID", "SAME", "SAME_LOWER", or a (low, high) for each spatial axis.
        lhs_dilation: the distance of the elements of the images: more than 1 for transposes.
        rhs_dilation: the distance of the elements of the filters.
        dimension_numbers: three layouts such as ("NHWC", "HWIO", "NHWC"), or None for
            ("NCHW", "OIHW", "NCHW").
        feature_group_count, batch_group_count: into how many groups channels or examples are
            divided.
        precision: see above.
        preferred_element_type: the dtype of the products and of the result.

    Raises:
        ShapeError, ArgumentError: if these do not fit.

    Example:
        >>> from fgrad import lax
        >>> x, w = np.ones((1, 1, 3)), np.ones((1, 1, 2))
        >>> lax.conv_general_dilated(x, w, (1,), "VALID", lhs_dilation=(2,))
        array([[[1., 1., 1., 1.]]])
    """
    del precision
    x, w = _two(lhs, rhs, preferred_element_type)
    axes = conv_dimension_numbers(x.shape, w.shape, dimension_numbers)
    x, w, rank = permute(x, axes.lhs_spec), permute(w, axes.rhs_spec), len(x.shape) - 2
    strides, x_dilation, w_dilation = _settings(
        rank, window_strides=window_strides, lhs_dilation=lhs_dilation, rhs_dilation=rhs_dilation
    )
    lengths = tuple(map(window.spread_length, x.shape[2:], x_dilation))
    pairs = window_padding("conv", padding, lengths, w.shape[2:], strides, w_dilation)
    groups = (feature_group_count, batch_group_count)
    options = (strides, pairs, x_dilation, w_dilation, *groups)
    params = dict(zip(window.conv_p.params, options, strict=True))
    window.conv_p.type_of(aval_of(x), aval_of(w), **params)
    return permute(window.conv(x, w, *options), inverse_permutation(axes.out_spec))


def _two(lhs: ArrayLike, rhs: ArrayLike, dtype: DTypeLike | None) -> list[Value]:
    x, w = promote([as_array(lhs), as_array(rhs)])
    if dtype is not None:
        return [x.astype(np.dtype(dtype)), w.astype(np.dtype(dtype))]
    return [inexact(x), inexact(w)]


def conv(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
) -> Value:
    """`conv_general_dilated` of images (N, C, ...) with filters (O, I, ...).

    Example:
        >>> from fgrad import lax
        >>> lax.conv(np.ones((1, 1, 3)), np.ones((1, 1, 2)), (1,), "VALID")
        array([[[2., 2.]]])
    """
    return conv_general_dilated(
        lhs, rhs, window_strides, padding, precision=precision,
        preferred_element_type=preferred_element_type,
    )  # fmt: skip


def conv_with_general_padding(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
) -> Value:
    """`conv_general_dilated` in the first layout.

    Example:
        >>> from fgrad import lax
        >>> x, w = np.ones((1, 1, 3)), np.ones((1, 1, 2))
        >>> lax.conv_with_general_padding(x, w, (1,), [(1, 0)], None, None)
        array([[[1., 2., 2.]]])
    """
    return conv_general_dilated(
        lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation, precision=precision,
        preferred_element_type=preferred_element_type,
    )  # fmt: skip


@also_takes(use_consistent_padding=False)
def conv_transpose(
    lhs: ArrayLike,
    rhs: ArrayLike,
    strides: Sequence[int],
    padding: Padding,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Layouts = None,
    transpose_kernel: bool = False,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
) -> Value:
    """The transpose of a convolution with strides: images grow by the strides.

    Arguments:
        lhs, rhs, rhs_dilation, precision, preferred_element_type: as for `conv_general_dilated`.
        strides: by how much each spatial axis grows.
        padding: that of the convolution, or (low, high) for the dilated images.
        dimension_numbers: three layouts; channels are last if None: ("NHWC", "HWIO", "NHWC").
        transpose_kernel: whether filters are those of the convolution: flipped, inputs and outputs
            exchanged.

    Example:
        >>> from fgrad import lax
        >>> lax.conv_transpose(np.ones((1, 2, 1)), np.ones((2, 1, 1)), (2,), "VALID").ravel()
        array([1., 1., 1., 1.])
    """
    x, w = as_array(lhs), as_array(rhs)
    rank = len(x.shape) - 2
    if dimension_numbers is None:
        space = "HWD"[:rank] if rank <= 3 else "abcdefg"[:rank]
        dimension_numbers = (f"N{space}C", f"{space}IO", f"N{space}C")
    axes = conv_dimension_numbers(x.shape, w.shape, dimension_numbers)
    steps, apart = _settings(rank, strides=strides, rhs_dilation=rhs_dilation)
    sizes = [w.shape[a] for a in axes.rhs_spec[2:]]
    if isinstance(padding, str):
        spread = map(window.spread_length, sizes, apart)
        padding = [_transposed(padding, k, s) for k, s in zip(spread, steps, strict=True)]
    if transpose_kernel:
        w = np.flip(w, axes.rhs_spec[2:])
        w = np.swapaxes(w, axes.rhs_spec[0], axes.rhs_spec[1])
    return conv_general_dilated(
        x, w, (1,) * rank, padding, steps, apart, axes, precision=precision,
        preferred_element_type=preferred_element_type,
    )  # fmt: skip


def _transposed(padding: str, k: int, stride: int) -> tuple[int, int]:
    """(low, high) around dilated images, for a window of length k."""
    if padding == "SAME":
        total = k + stride - 2
        low = k - 1 if stride > k - 1 else -(-total // 2)
    elif padding == "VALID":
        total = k + stride - 2 + max(k - stride, 0)
        low = k - 1
    else:
        raise ArgumentError(
            f"lax.conv_transpose: padding={padding!r}.",
            (*user_line(), ("write", "'VALID', 'SAME', or a (low, high) for each spatial axis")),
        )
    return low, total - low


def conv_general_dilated_patches(
    lhs: ArrayLike,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Layouts = None,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
) -> Value:
    """The elements of each window as channels: those of the first channel first.

    Arguments are those of `conv_general_dilated`, with the lengths of the window in the place of
    filters; of the layouts the first and the last one count.

    Arguments:
        filter_shape: the lengths of the window.

    Example:
        >>> from fgrad import lax
        >>> lax.conv_general_dilated_patches(np.arange(3.0).reshape(1, 1, 3), (2,), (1,), "VALID")
        array([[[0., 1.],
                [1., 2.]]])
    """
    del precision
    x = as_array(lhs)
    rank = len(x.shape) - 2
    sizes = integers(filter_shape, "conv_general_dilated_patches")
    axes = conv_dimension_numbers(x.shape, (1, 1, *sizes), dimension_numbers)
    strides, x_dilation, apart = _settings(
        rank, window_strides=window_strides, lhs_dilation=lhs_dilation, rhs_dilation=rhs_dilation
    )
    x = permute(x, axes.lhs_spec)
    x = x if preferred_element_type is None else x.astype(np.dtype(preferred_element_type))
    lengths = tuple(map(window.spread_length, x.shape[2:], x_dilation))
    pairs = window_padding("conv", padding, lengths, sizes, strides, apart)
    low, high = [(0, 0, *[p[k] for p in pairs]) for k in (0, 1)]
    interior = (0, 0, *[d - 1 for d in x_dilation])
    whole = filled(x, low, high, interior, x.dtype.type(0))
    space = tuple(range(2, 2 + rank))
    found: Value = window.windows(whole, space, sizes, strides, apart)
    order = (0, 1, *range(2 + rank, 2 + 2 * rank), *space)
    found = np.transpose(found, order)
    channels = found.shape[1] * math.prod(sizes)
    flat = np.reshape(found, (found.shape[0], channels, *found.shape[2 + rank :]))
    return permute(flat, inverse_permutation(axes.out_spec))
