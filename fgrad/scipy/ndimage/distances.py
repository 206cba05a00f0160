"""L7. `scipy.ndimage`: distances to the nearest pixel that is zero, and filters of lines by a
user's function.

Which pixel is nearest is SciPy's and has no derivative; the distance to it has one by `sampling`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

import fgrad.numpy as fnp
from fgrad.ir.aval import Aval
from fgrad.numpy.arrange import moveaxis
from fgrad.numpy.promote import as_operand, convert, normalize_axis
from fgrad.ops.elementwise import stop_gradient
from fgrad.scipy._either import refusal
from fgrad.scipy.ndimage.common import (
    each,
    misfit,
    of_functions,
    of_images,
    padded,
    pixels,
    plain,
    wide,
)
from fgrad.trace import Value
from fgrad.tracing.capturing import user_form
from fgrad.transforms.custom.callback import pure_callback
from fgrad.transforms.vmap import vmap
from fgrad.typing import ArrayLike, DTypeLike, PyTree


def _nearest(
    name: str, input: ArrayLike, sampling: PyTree, returned: tuple[bool, bool], out: PyTree,
    metric: str,
) -> PyTree:  # fmt: skip
    """Distances and places of the nearest zeros; those of them that are wanted."""
    if any([x is not None for x in out]):
        what = f"scipy.ndimage.{name} with distances or indices to write into"
        why = "a traced value cannot be written into plain memory."
        raise refusal(what, why, f"{name}(image, return_indices=True)")
    if not any(returned):
        raise RuntimeError("at least one of return_distances/return_indices must be True")
    x = np.atleast_1d(stop_gradient(as_operand(input)))
    rank = len(x.shape)
    euclidean = metric == "euclidean"
    steps = None if sampling is None else as_operand(sampling)
    if steps is not None:
        each(name, "sampling", np.zeros(np.shape(steps)) if np.shape(steps) else 0.0, rank)
        steps = np.broadcast_to(convert(steps, np.dtype(np.float64)), (rank,))
    options = {"metric": metric} if name.endswith("bf") else {}
    kind = np.dtype(np.float64 if euclidean else np.uint32)
    like = Aval(x.shape, kind), Aval((rank, *x.shape), np.dtype(np.int32))

    def call(image: np.ndarray, *by: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = getattr(plain, name)(image, **options, sampling=by[0] if by else None,
                                     return_indices=True)  # fmt: skip
        return np.asarray(found[0], kind), np.asarray(found[1], np.int32)

    given = [] if steps is None else [stop_gradient(steps)]
    far, places = pure_callback(call, like, x, *given)
    if euclidean and steps is not None:
        away = places - np.indices(x.shape)
        square = np.sum((away * np.reshape(steps, (-1, *[1] * rank))) ** 2, axis=0)
        flat = (square == 0) | ~np.any(x == 0)  # without zeros SciPy's distances mean nothing
        far = np.where(flat, far, np.sqrt(np.where(flat, 1.0, square)))
    found = [v for v, wanted in zip((far, places), returned, strict=True) if wanted]
    return tuple(found) if len(found) > 1 else found[0]


@of_images
def distance_transform_edt(
    input: ArrayLike,
    sampling: ArrayLike | None = None,
    return_distances: bool = True,
    return_indices: bool = False,
    distances: None = None,
    indices: None = None,
) -> PyTree:
    """The distance of each pixel to the nearest one that is zero, and the place of that one.

    Arguments:
        input: the image.
        sampling: the distances of pixels along the axes; may be traced.
        return_distances, return_indices: what is returned.
        distances, indices: None.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.distance_transform_edt(np.array([0, 1, 1]), 2.0)
        array([0., 2., 4.])
    """
    wanted = return_distances, return_indices
    name = "distance_transform_edt"
    return _nearest(name, input, sampling, wanted, (distances, indices), "euclidean")


@of_images
def distance_transform_bf(
    input: ArrayLike,
    metric: str = "euclidean",
    sampling: ArrayLike | None = None,
    return_distances: bool = True,
    return_indices: bool = False,
    distances: None = None,
    indices: None = None,
) -> PyTree:
    """`distance_transform_edt` for a metric: "euclidean", "taxicab" or "chessboard".

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.distance_transform_bf(np.array([0, 1, 1]), "taxicab")
        array([0, 1, 2], dtype=uint32)
    """
    names = {"cityblock": "taxicab", "manhattan": "taxicab"}
    known = names.get(metric.lower(), metric.lower())
    if known not in ("euclidean", "taxicab", "chessboard"):
        raise RuntimeError("distance metric not supported")
    wanted = return_distances, return_indices
    name = "distance_transform_bf"
    return _nearest(name, input, sampling, wanted, (distances, indices), known)


@of_functions
def generic_filter1d(
    input: ArrayLike,
    function: Callable[..., object],
    filter_size: int,
    axis: int = -1,
    output: DTypeLike | None = None,
    mode: str = "reflect",
    cval: ArrayLike = 0.0,
    origin: int = 0,
    extra_arguments: Sequence[PyTree] = (),
    extra_keywords: PyTree = None,
) -> Value:
    """What a function writes into the second of its arguments for each line of an image, which is
    the first, continued by the size of the filter.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> def sums(line, out):
        ...     out[...] = line[:-2] + line[1:-1] + line[2:]
        >>> nd.generic_filter1d(np.array([1.0, 2.0, 3.0]), sums, 3)
        array([4., 6., 8.])
    """
    x, kind = pixels("generic_filter1d", input, output)
    if x.dtype.kind == "c":
        raise TypeError("scipy.ndimage.generic_filter1d: complex pixels")
    before = filter_size // 2 + int(origin)
    if filter_size < 1 or not 0 <= before < filter_size:
        raise misfit("generic_filter1d", f"a filter of {filter_size}, origin={origin}", "origin=0")
    rank = len(x.shape)
    place = normalize_axis(axis, rank)
    n, lines = x.shape[place], moveaxis(wide(x), place, -1)
    if not x.size:
        return convert(x, kind)
    widths = [*[(0, 0)] * (rank - 1), (before, filter_size - 1 - before)]
    whole = padded("generic_filter1d", lines, widths, ["nearest"] * (rank - 1) + [mode], cval)
    form, settings = user_form(function), extra_keywords or {}

    def filtered(line: Value) -> Value:
        out = fnp.zeros(n)
        form(line, out, *extra_arguments, **settings)
        return out

    found = vmap(filtered)(np.reshape(whole, (-1, whole.shape[-1])))
    return convert(moveaxis(np.reshape(found, lines.shape), -1, place), kind)
