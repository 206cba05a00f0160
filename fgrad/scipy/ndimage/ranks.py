"""L7. `scipy.ndimage`: filters by the order of values in a window, and grey morphology.

    rank        the k-th smallest value of the window
    erosion     min (x - s)        dilation    max (x + s)        of a structure s
    opening     an erosion, then a dilation        closing    the other way round

Keywords are those of `fgrad.scipy.ndimage.sums`; sizes and footprints are plain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fgrad.numpy.promote import as_operand, convert, normalize_axis
from fgrad.scipy.ndimage.common import (
    axes_of,
    each,
    flat_windows,
    footprint_of,
    known,
    misfit,
    of_functions,
    of_images,
    origins_of,
    pixels,
    wide,
    windows,
)
from fgrad.trace import Value
from fgrad.tracing.capturing import user_form
from fgrad.transforms.vmap import vmap
from fgrad.typing import ArrayLike, DTypeLike, PyTree

Place = int | Callable[[int], int]


def _real(name: str, input: ArrayLike, output: DTypeLike | None) -> tuple[Value, np.dtype]:
    x, kind = pixels(name, input, output)
    if x.dtype.kind == "c":
        raise misfit(name, "complex pixels have no order", f"{name}(image.real)")
    return x, kind


def _gathered(
    name: str, x: Value, size: PyTree, footprint: ArrayLike | None, mode: PyTree, cval: ArrayLike,
    origin: PyTree, axes: PyTree,
) -> Value:  # fmt: skip
    """The values in the window of each pixel, in a last axis."""
    rank = len(x.shape)
    places = axes_of(name, axes, rank)
    sizes, marks = footprint_of(name, size, footprint, places, rank)
    origins = origins_of(name, origin, places, rank)
    found = windows(name, x, sizes, origins, _modes(name, mode, places, rank), cval)
    return flat_windows(found, rank, marks)


def _modes(name: str, mode: PyTree, places: tuple[int, ...], rank: int) -> PyTree:
    if isinstance(mode, str):
        return mode
    found = ["reflect"] * rank
    for axis, m in zip(places, each(name, "mode", mode, len(places)), strict=True):
        found[axis] = m
    return found


def _ranked(
    name: str, input: ArrayLike, rank: Place, size: PyTree, footprint: ArrayLike | None,
    output: DTypeLike | None, mode: PyTree, cval: ArrayLike, origin: PyTree, axes: PyTree,
) -> Value:  # fmt: skip
    x, kind = _real(name, input, output)
    found = _gathered(name, x, size, footprint, mode, cval, origin, axes)
    count = found.shape[-1]
    place = rank if isinstance(rank, int) else rank(count)
    place = place + count if place < 0 else place
    if not 0 <= place < count:
        raise misfit(name, f"rank {place} of {count} values", f"a rank from 0 to {count - 1}")
    if place in (0, count - 1):
        return convert((np.max if place else np.min)(found, axis=-1), kind)
    return convert(np.sort(found, axis=-1)[..., place], kind)


@of_images
def rank_filter(
    input: ArrayLike,
    rank: int,
    size: int | Sequence[int] | None = None,
    footprint: ArrayLike | None = None,
    output: DTypeLike | None = None,
    mode: str = "reflect",
    cval: ArrayLike = 0.0,
    origin: int | Sequence[int] = 0,
    *,
    axes: int | Sequence[int] | None = None,
) -> Value:
    """The value of a rank in each window; negative ones count from the greatest.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.rank_filter(np.array([3.0, 1.0, 2.0]), 1, 3)
        array([3., 2., 2.])
    """
    rank = int(rank)
    return _ranked("rank_filter", input, rank, size, footprint, output, mode, cval, origin, axes)


@of_images
def median_filter(
    input: ArrayLike,
    size: int | Sequence[int] | None = None,
    footprint: ArrayLike | None = None,
    output: DTypeLike | None = None,
    mode: str = "reflect",
    cval: ArrayLike = 0.0,
    origin: int | Sequence[int] = 0,
    *,
    axes: int | Sequence[int] | None = None,
) -> Value:
    """The median of each window.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.median_filter(np.array([3.0, 1.0, 2.0]), 3)
        array([3., 2., 2.])
    """
    settings = size, footprint, output, mode, cval, origin, axes
    return _ranked("median_filter", input, lambda n: n // 2, *settings)


@of_images
def percentile_filter(
    input: ArrayLike,
    percentile: float,
    size: int | Sequence[int] | None = None,
    footprint: ArrayLike | None = None,
    output: DTypeLike | None = None,
    mode: str = "reflect",
    cval: ArrayLike = 0.0,
    origin: int | Sequence[int] = 0,
    *,
    axes: int | Sequence[int] | None = None,
) -> Value:
    """The value of each window that a percentage of its values is below.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.percentile_filter(np.array([3.0, 1.0, 2.0]), 50, 3)
        array([3., 2., 2.])
    """
    why = "it decides which value is taken."
    share = float(known("percentile_filter", "percentile", percentile, why, "a plain number"))
    share = share + 100 if share < 0 else share
    if not 0 <= share <= 100:
        raise misfit("percentile_filter", f"percentile={percentile}", "percentile=50")
    settings = size, footprint, output, mode, cval, origin, axes

    def place(n: int) -> int:
        return n - 1 if share == 100 else int(n * share / 100.0)

    return _ranked("percentile_filter", input, place, *settings)


def _extreme(
    name: str, input: ArrayLike, size: PyTree, footprint: ArrayLike | None,
    output: DTypeLike | None, mode: PyTree, cval: ArrayLike, origin: PyTree, axes: PyTree,
) -> Value:  # fmt: skip
    place: Place = (lambda n: n - 1) if name.startswith("max") else 0
    return _ranked(name, input, place, size, footprint, output, mode, cval, origin, axes)


@of_images
def maximum_filter(
    input: ArrayLike,
    size: int | Sequence[int] | None = None,
    footprint: ArrayLike | None = None,
    output: DTypeLike | None = None,
    mode: str | Sequence[str] = "reflect",
    cval: ArrayLike = 0.0,
    origin: int | Sequence[int] = 0,
    *,
    axes: int | Sequence[int] | None = None,
) -> Value:
    """The greatest value of each window.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.maximum_filter(np.array([3.0, 1.0, 2.0]), 3)
        array([3., 3., 2.])
    """
    return _extreme("maximum_filter", input, size, footprint, output, mode, cval, origin, axes)


@of_images
def minimum_filter(
    input: ArrayLike,
    size: int | Sequence[int] | None = None,
    footprint: ArrayLike | None = None,
    output: DTypeLike | None = None,
    mode: str | Sequence[str] = "reflect",
    cval: ArrayLike = 0.0,
    origin: int | Sequence[int] = 0,
    *,
    axes: int | Sequence[int] | None = None,
) -> Value:
    """The least value of each window.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.minimum_filter(np.array([3.0, 1.0, 2.0]), 3)
        array([1., 1., 1.])
    """
    return _extreme("minimum_filter", input, size, footprint, output, mode, cval, origin, axes)


@of_images
def maximum_filter1d(
    input: ArrayLike,
    size: int,
    axis: int = -1,
    output: DTypeLike | None = None,
    mode: str = "reflect",
    cval: ArrayLike = 0.0,
    origin: int = 0,
) -> Value:
    """The greatest value of each window of one axis.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.maximum_filter1d(np.array([3.0, 1.0, 2.0]), 3)
        array([3., 3., 2.])
    """
    axis = normalize_axis(axis, len(as_operand(input).shape))
    return _extreme("maximum_filter1d", input, size, None, output, mode, cval, origin, axis)


@of_images
def minimum_filter1d(
    input: ArrayLike,
    size: int,
    axis: int = -1,
    output: DTypeLike | None = None,
    mode: str = "reflect",
    cval: ArrayLike = 0.0,
    origin: int = 0,
) -> Value:
    """The least value of each window of one axis.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.minimum_filter1d(np.array([3.0, 1.0, 2.0]), 3)
        array([1., 1., 1.])
    """
    axis = normalize_axis(axis, len(as_operand(input).shape))
    return _extreme("minimum_filter1d", input, size, None, output, mode, cval, origin, axis)


# --- functions of windows -----------------------------------------------------------------------


@of_functions
def generic_filter(
    input: ArrayLike,
    function: Callable[..., Value],
    size: int | Sequence[int] | None = None,
    footprint: ArrayLike | None = None,
    output: DTypeLike | None = None,
    mode: str = "reflect",
    cval: ArrayLike = 0.0,
    origin: int | Sequence[int] = 0,
    extra_arguments: Sequence[PyTree] = (),
    extra_keywords: PyTree = None,
    *,
    axes: int | Sequence[int] | None = None,
) -> Value:
    """A function of the values in each window, vectorised.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.generic_filter(np.array([3.0, 1.0, 2.0]), np.ptp, 3)
        array([2., 2., 1.])
    """
    x, kind = _real("generic_filter", input, output)
    found = _gathered("generic_filter", wide(x), size, footprint, mode, cval, origin, axes)
    flat = np.reshape(found, (-1, found.shape[-1]))
    form, settings = user_form(function), extra_keywords or {}
    out = vmap(lambda v: form(v, *extra_arguments, **settings))(flat)
    return convert(np.reshape(out, x.shape), kind)


# --- grey morphology ----------------------------------------------------------------------------


def _structured(
    name: str, grows: bool, input: ArrayLike, size: PyTree, footprint: ArrayLike | None,
    structure: ArrayLike | None, output: DTypeLike | None, mode: PyTree, cval: ArrayLike,
    origin: PyTree, axes: PyTree,
) -> Value:  # fmt: skip
    """An erosion, or a dilation, whose window is turned around the pixel."""
    x, kind = _real(name, input, output)
    rank = len(x.shape)
    places = axes_of(name, axes, rank)
    if size is None and footprint is None and structure is None:
        raise misfit(name, "no size, footprint nor structure", "size=3")
    height = None if structure is None else as_operand(structure)
    if height is not None and footprint is None:
        footprint = np.ones(height.shape, bool)
    marks = None if footprint is None else np.asarray(
        known(name, "footprint", footprint, "it decides places.", "a constant")
    ).astype(bool)  # fmt: skip
    origins = [int(o) for o in each(name, "origin", origin, len(places))]
    if grows:
        lengths = each(name, "size", size, len(places)) if marks is None else marks.shape
        origins = [-o - (1 - int(n) % 2) for o, n in zip(origins, lengths, strict=True)]
        marks = None if marks is None else np.flip(marks)
        height = None if height is None else np.flip(height)
    found = _gathered(name, x, size, marks, mode, cval, origins, axes)
    if height is not None:
        heights = np.reshape(height, -1)
        if marks is not None and not marks.all():
            heights = heights[np.flatnonzero(marks)]
        found = found + heights if grows else found - heights
    return convert((np.max if grows else np.min)(found, axis=-1), kind)


@of_images
def grey_erosion(
    input: ArrayLike,
    size: int | Sequence[int] | None = None,
    footprint: ArrayLike | None = None,
    structure: ArrayLike | None = None,
    output: DTypeLike | None = None,
    mode: str = "reflect",
    cval: ArrayLike = 0.0,
    origin: int | Sequence[int] = 0,
    *,
    axes: int | Sequence[int] | None = None,
) -> Value:
    """The least value of each window, less the structure, which may be traced.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.grey_erosion(np.array([3.0, 1.0, 2.0]), 3)
        array([1., 1., 1.])
    """
    given = size, footprint, structure, output, mode, cval, origin, axes
    return _structured("grey_erosion", False, input, *given)


@of_images
def grey_dilation(
    input: ArrayLike,
    size: int | Sequence[int] | None = None,
    footprint: ArrayLike | None = None,
    structure: ArrayLike | None = None,
    output: DTypeLike | None = None,
    mode: str = "reflect",
    cval: ArrayLike = 0.0,
    origin: int | Sequence[int] = 0,
    *,
    axes: int | Sequence[int] | None = None,
) -> Value:
    """The greatest value of each window plus the structure, which may be traced.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.grey_dilation(np.array([3.0, 1.0, 2.0]), 3)
        array([3., 3., 2.])
    """
    given = size, footprint, structure, output, mode, cval, origin, axes
    return _structured("grey_dilation", True, input, *given)


def _morphology(name: str, doc: str, combine: Callable[..., Value]) -> Callable[..., Value]:
    """A function of an image, and of its erosion and its dilation by the same settings."""

    def function(
        input: ArrayLike,
        size: int | Sequence[int] | None = None,
        footprint: ArrayLike | None = None,
        structure: ArrayLike | None = None,
        output: DTypeLike | None = None,
        mode: str = "reflect",
        cval: ArrayLike = 0.0,
        origin: int | Sequence[int] = 0,
        *,
        axes: int | Sequence[int] | None = None,
    ) -> Value:
        x, kind = _real(name, input, output)
        kind = x.dtype if name.startswith("morphological") else kind  # as in SciPy
        given = size, footprint, structure

        def eroded(y: Value) -> Value:
            return grey_erosion(y, *given, kind, mode, cval, origin, axes=axes)

        def dilated(y: Value) -> Value:
            return grey_dilation(y, *given, kind, mode, cval, origin, axes=axes)

        return convert(combine(x, eroded, dilated), kind)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return of_images(function)


grey_opening = _morphology(
    "grey_opening", "An erosion, then a dilation.", lambda x, low, high: high(low(x))
)
grey_closing = _morphology(
    "grey_closing", "A dilation, then an erosion.", lambda x, low, high: low(high(x))
)
white_tophat = _morphology(
    "white_tophat", "What an opening takes away.", lambda x, low, high: x - high(low(x))
)
black_tophat = _morphology(
    "black_tophat", "What a closing adds.", lambda x, low, high: low(high(x)) - x
)
morphological_gradient = _morphology(
    "morphological_gradient", "The dilation less the erosion.",
    lambda x, low, high: high(x) - low(x),
)  # fmt: skip
morphological_laplace = _morphology(
    "morphological_laplace", "The dilation and the erosion, less twice the image.",
    lambda x, low, high: high(x) + low(x) - 2 * x,
)  # fmt: skip
