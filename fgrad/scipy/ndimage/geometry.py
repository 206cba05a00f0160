"""L7. `scipy.ndimage`: images moved, stretched, turned and mapped; coefficients of splines.

Each is `map_coordinates` at places that follow from its arguments, which may be traced; shifts and
zooms interpolate one axis after the other.  `order`, `mode`, `cval` and `prefilter` are
those of `map_coordinates`; `output` is a dtype.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from fgrad.errors import ShapeError
from fgrad.numpy.promote import as_operand, convert, inexact, normalize_axis, user_line
from fgrad.scipy.ndimage.common import each, known, misfit, of_functions, of_images, pixels, wide
from fgrad.scipy.ndimage.splines import coefficients, map_coordinates
from fgrad.scipy.special import cosdg, sindg
from fgrad.trace import Value
from fgrad.tracing.capturing import user_form
from fgrad.transforms.checkpoint.checkpoint import optimization_barrier
from fgrad.transforms.vmap import vmap
from fgrad.typing import ArrayLike, DTypeLike, PyTree


def _grid(shape: Sequence[int]) -> np.ndarray:
    return np.indices(tuple(shape), np.float64)


def _mapped(
    image: Value, places: Value, kind: np.dtype, order: int, mode: str, cval: ArrayLike,
    prefilter: bool,
) -> Value:  # fmt: skip
    return map_coordinates(image, places, kind, order, mode, cval, prefilter)


def _affine(matrix: Value, start: Value, shape: Sequence[int]) -> Value:
    """matrix @ o + start for each pixel o, rounded as SciPy rounds: it decides which places on the
    edge of an image are outside.  Products are rounded before they are added (hence the barrier),
    and a diagonal d makes (o + start / d) d.
    """
    grid = _grid(shape)
    rank = len(grid)
    column = (rank, *[1] * rank)
    start = np.reshape(start, column)
    if len(matrix.shape) == 1:
        scale = np.reshape(matrix, column)
        safe = np.where(scale == 0, 1.0, scale)
        return np.where(scale == 0, start, (grid + start / safe) * scale)
    columns = [np.reshape(matrix[:, j], column) * grid[j] for j in range(rank)]
    return _sum_in_order([start, *optimization_barrier(columns)])


def _sum_in_order(terms: Sequence[Value]) -> Value:
    """The first and the second, plus the third, and so on."""
    return functools.reduce(lambda a, b: a + b, terms)


@of_images
def affine_transform(
    input: ArrayLike,
    matrix: ArrayLike,
    offset: ArrayLike = 0.0,
    output_shape: Sequence[int] | None = None,
    output: DTypeLike | None = None,
    order: int = 3,
    mode: str = "constant",
    cval: ArrayLike = 0.0,
    prefilter: bool = True,
) -> Value:
    """The image at matrix @ o + offset, for each pixel o of the result.

    Arguments:
        input: an image of n axes.
        matrix: (n, n), a diagonal (n,), or homogeneous, (n, n + 1) or (n + 1, n + 1).
        offset: a number, or n of them.
        output_shape: the shape of the result; that of the image if None.
        others: as in `map_coordinates`.

    Raises:
        ShapeError: if the matrix has another shape.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.affine_transform(np.arange(4.0), [[1.0]], 1.0, order=1)
        array([1., 2., 3., 0.])
    """
    image, kind = pixels("affine_transform", input, output)
    rank = len(image.shape)
    shape = image.shape if output_shape is None else tuple(output_shape)
    m, start = inexact(as_operand(matrix)), inexact(as_operand(offset))
    if len(m.shape) == 2 and m.shape[1] == rank + 1 and m.shape[0] in (rank, rank + 1):
        m, start = m[:rank, :rank], m[:rank, rank]
    if m.shape not in ((rank,), (rank, rank)) or len(shape) != rank:
        raise ShapeError(
            f"scipy.ndimage.affine_transform: a matrix of shape {m.shape} for {rank} axes.",
            (*user_line(), ("write", f"a matrix of shape {(rank, rank)}")),
        )
    start = np.broadcast_to(start, (rank,))
    return _mapped(image, _affine(m, start, shape), kind, order, mode, cval, prefilter)


@of_images
def shift(
    input: ArrayLike,
    shift: ArrayLike,
    output: DTypeLike | None = None,
    order: int = 3,
    mode: str = "constant",
    cval: ArrayLike = 0.0,
    prefilter: bool = True,
) -> Value:
    """The image moved by a number of pixels, for each axis or for all.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.shift(np.arange(4.0), 1.0, order=1)
        array([0., 0., 1., 2.])
    """
    image, kind = pixels("shift", input, output)
    rank = len(image.shape)
    by = np.reshape(np.broadcast_to(inexact(as_operand(shift)), (rank,)), (rank, *[1] * rank))
    return _mapped(image, _grid(image.shape) - by, kind, order, mode, cval, prefilter)


@of_images
def zoom(
    input: ArrayLike,
    zoom: PyTree,
    output: DTypeLike | None = None,
    order: int = 3,
    mode: str = "constant",
    cval: ArrayLike = 0.0,
    prefilter: bool = True,
    *,
    grid_mode: bool = False,
) -> Value:
    """The image with more or fewer pixels: a plain factor for each axis or for all.

    Arguments:
        grid_mode: whether pixels are squares, and not the points in their centres.
        others: as in `map_coordinates`.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.zoom(np.array([0.0, 2.0]), 1.5, order=1)
        array([0., 1., 2.])
    """
    image, kind = pixels("zoom", input, output)
    why, write = "it decides the shape of the result.", "affine_transform(image, 1 / factor)"
    factors = known("zoom", "zoom", zoom, why, write)
    shape = [
        round(n * float(known("zoom", "zoom", f, why, write)))
        for n, f in zip(image.shape, each("zoom", "zoom", factors, len(image.shape)), strict=True)
    ]
    if any([m < 0 for m in shape]):
        raise misfit("zoom", f"zoom={factors}", "factors that are not negative")
    lines = []
    for n, m in zip(image.shape, shape, strict=True):
        if grid_mode:
            lines.append((np.arange(m) + 0.5) * (n / max(m, 1)) - 0.5)
        else:
            lines.append(np.arange(m) * ((n - 1) / (m - 1) if m > 1 else 1.0))
    places = np.stack(np.meshgrid(*lines, indexing="ij")) if lines else np.zeros((0,))
    return _mapped(image, places, kind, order, mode, cval, prefilter)


@of_images
def rotate(
    input: ArrayLike,
    angle: ArrayLike,
    axes: tuple[int, int] = (1, 0),
    reshape: bool = True,
    output: DTypeLike | None = None,
    order: int = 3,
    mode: str = "constant",
    cval: ArrayLike = 0.0,
    prefilter: bool = True,
) -> Value:
    """The image turned by an angle in degrees, in the plane of two axes.

    Arguments:
        angle: the angle, which may be traced if `reshape` is False.
        axes: the plane.
        reshape: whether the result is as large as the turned image.
        others: as in `map_coordinates`.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.rotate(np.array([[0.0, 1.0], [2.0, 3.0]]), 90, order=1)
        array([[1., 3.],
               [0., 2.]])
    """
    image, kind = pixels("rotate", input, output)
    rank = len(image.shape)
    if rank < 2 or len(axes) != 2:
        raise misfit("rotate", f"axes={axes} of {rank}", "two axes")
    plane = sorted([normalize_axis(a, rank) for a in axes])
    if plane[0] == plane[1]:
        raise misfit("rotate", f"axes={axes}", "two different axes")
    c, s = cosdg(angle), sindg(angle)
    inside = np.array([image.shape[a] for a in plane])
    shape = list(image.shape)
    if reshape:
        why, write = "it decides the shape of the result.", "rotate(image, angle, reshape=False)"
        known_angle = float(known("rotate", "angle", angle, why, write))
        known_c, known_s = cosdg(known_angle), sindg(known_angle)
        corners = np.array([[0, 0, inside[0], inside[0]], [0, inside[1], 0, inside[1]]])
        bounds = np.array([[known_c, known_s], [-known_s, known_c]]) @ corners
        for a, n in zip(plane, (np.ptp(bounds, axis=1) + 0.5).astype(int), strict=True):
            shape[a] = int(n)
    turn = np.stack([np.stack([c, s]), np.stack([-s, c])])
    outside = np.array([shape[a] for a in plane])
    turned_centre = [turn[:, j] * ((outside[j] - 1) / 2) for j in range(2)]
    start = (inside - 1) / 2 - _sum_in_order(optimization_barrier(turned_centre))
    flat = [n if a in plane else 1 for a, n in enumerate(shape)]
    lines = list(_grid(shape))
    for a, line in zip(plane, _affine(turn, start, [shape[a] for a in plane]), strict=True):
        lines[a] = np.broadcast_to(np.reshape(line, flat), shape)
    return _mapped(image, np.stack(lines), kind, order, mode, cval, prefilter)


@of_functions
def geometric_transform(
    input: ArrayLike,
    mapping: Callable[..., Sequence[ArrayLike]],
    output_shape: Sequence[int] | None = None,
    output: DTypeLike | None = None,
    order: int = 3,
    mode: str = "constant",
    cval: ArrayLike = 0.0,
    prefilter: bool = True,
    extra_arguments: Sequence[PyTree] = (),
    extra_keywords: PyTree = None,
) -> Value:
    """The image at mapping(place), a function of the coordinates of each pixel of the result.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.geometric_transform(np.arange(4.0), lambda p: (p[0] + 0.5,), order=1)
        array([0.5, 1.5, 2.5, 0. ])
    """
    image, kind = pixels("geometric_transform", input, output)
    shape = image.shape if output_shape is None else tuple(output_shape)
    form, settings = user_form(mapping), extra_keywords or {}
    flat = np.reshape(_grid(shape), (len(shape), -1))

    def of(place: Value) -> Value:
        found = form(tuple([place[k] for k in range(len(shape))]), *extra_arguments, **settings)
        return np.stack([wide(inexact(as_operand(v))) for v in found])

    places = np.reshape(vmap(of)(flat.T).T, (len(image.shape), *shape))
    return _mapped(image, places, kind, order, mode, cval, prefilter)


# --- coefficients -------------------------------------------------------------------------------


def _spline(
    name: str, input: ArrayLike, order: int, axes: Sequence[int] | None, output: PyTree, mode: str
) -> Value:
    image, kind = pixels(name, input, output)
    if order not in range(6):
        raise misfit(name, f"order={order}", "an order from 0 to 5")
    if kind.kind in "iu":  # SciPy rounds after each axis
        raise misfit(name, f"output={kind}", "output=np.float64")
    places = range(len(image.shape)) if axes is None else axes
    return convert(coefficients(wide(image), order, mode, places), kind)


@of_images
def spline_filter1d(
    input: ArrayLike,
    order: int = 3,
    axis: int = -1,
    output: DTypeLike = np.float64,
    mode: str = "mirror",
) -> Value:
    """The coefficients of the spline through the values along one axis.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.spline_filter1d(np.ones(3)).round(9)
        array([1., 1., 1.])
    """
    rank = len(as_operand(input).shape)
    axes = [normalize_axis(axis, rank)] if order > 1 else []
    return _spline("spline_filter1d", input, order, axes, output, mode)


@of_images
def spline_filter(
    input: ArrayLike, order: int = 3, output: DTypeLike = np.float64, mode: str = "mirror"
) -> Value:
    """The coefficients of the spline through the pixels.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.spline_filter(np.ones(3)).round(9)
        array([1., 1., 1.])
    """
    if order < 2:
        raise misfit("spline_filter", f"order={order}", "an order from 2 to 5")
    return _spline("spline_filter", input, order, None, output, mode)
