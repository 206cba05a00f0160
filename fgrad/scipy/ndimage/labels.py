"""L7. `scipy.ndimage`: measures of the pixels that have a label.

    labels is None     all pixels are one object
    index is None      all pixels whose label is positive are one
    index              a label, or several: a measure for each

Labels are plain or traced, `index` is plain; an object without pixels has SciPy's value for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

import fgrad.numpy as fnp
from fgrad.errors import DtypeError
from fgrad.numpy.at_indexing import at
from fgrad.numpy.promote import as_operand, broadcast_to, convert, inexact, user_line
from fgrad.scipy._either import refusal
from fgrad.scipy.ndimage.common import known, of_functions, of_images, wide
from fgrad.trace import Value, concrete
from fgrad.tracing.capturing import user_form
from fgrad.typing import ArrayLike, DTypeLike, PyTree


class Objects:
    """Which object each pixel belongs to: the number of one, or `count` for none."""

    def __init__(self, name: str, input: ArrayLike, labels: PyTree, index: PyTree) -> None:
        x = as_operand(input)
        if x.dtype.kind not in "biufc":
            raise DtypeError(f"scipy.ndimage.{name}: {x.dtype} pixels.", user_line())
        self.shape: tuple[int, ...] = ()
        self.order = np.zeros(1, np.int64)
        if labels is None:
            if index is not None:
                raise refusal(
                    f"scipy.ndimage.{name} with index, without labels",
                    "there are no labels to compare it with.",
                    f"{name}(image, labels, index)",
                )
            self.pixels, self.count = np.ravel(x), 1
            self.place: Value = np.zeros(self.pixels.shape, np.int64)
            return
        marks = as_operand(labels)
        self.pixels = np.ravel(broadcast_to(x, np.broadcast_shapes(x.shape, marks.shape)))
        marks = np.ravel(broadcast_to(marks, np.broadcast_shapes(x.shape, marks.shape)))
        if index is None:
            self.count = 1
            self.place = np.where(marks > 0, 0, 1)
            return
        plain = np.asarray(known(name, "index", index, "it decides the objects.", "a constant"))
        self.shape = plain.shape
        ordered, self.order = np.unique(plain, return_inverse=True)
        self.order, self.count = np.ravel(self.order), ordered.size
        near = np.clip(np.searchsorted(ordered, marks), 0, max(ordered.size - 1, 0))
        same = at(ordered)[near].get() == marks if ordered.size else np.zeros(near.shape, bool)
        self.place = np.where(same, near, self.count)

    def summed(self, values: Value) -> Value:
        """The sum of values of each object."""
        zeros = fnp.zeros(self.count + 1, values.dtype)
        return at(zeros)[self.place].add(values)[:-1]

    def counts(self) -> Value:
        """How many pixels each object has."""
        return self.summed(np.ones(self.pixels.shape))

    def extreme(self, least: bool) -> Value:
        """The least or the greatest value of each object; 0 of none."""
        x = self.pixels
        if x.dtype.kind == "b":
            x = convert(x, np.dtype(np.int64))
        if x.dtype.kind == "f":
            end = math.inf
        else:
            limits = np.iinfo(x.dtype)
            end = limits.max if least else limits.min
        start = np.full(self.count + 1, end if least or x.dtype.kind != "f" else -end, x.dtype)
        found = at(fnp.asarray(start))[self.place]
        found = (found.min(x) if least else found.max(x))[:-1]
        return np.where(self.counts() > 0, found, found.dtype.type(0))

    def shaped(self, values: Value) -> Value:
        """A measure of each object in the order and shape of `index`."""
        return np.reshape(values[self.order], (*self.shape, *values.shape[1:]))[()]


def _mean(objects: Objects, values: Value) -> Value:
    return objects.summed(values) / objects.counts()


def _variance(objects: Objects) -> Value:
    x = wide(objects.pixels)
    means = np.concatenate([_mean(objects, x), fnp.zeros(1, x.dtype)])
    away = x - at(means)[objects.place].get()
    return _mean(objects, np.real(away * np.conj(away)))


@of_images
def sum_labels(input: ArrayLike, labels: PyTree = None, index: PyTree = None) -> Value:
    """The sum of the pixels of each object.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.sum_labels(np.array([1.0, 2.0, 4.0]), [1, 1, 2], [1, 2])
        array([3., 4.])
    """
    objects = Objects("sum_labels", input, labels, index)
    return objects.shaped(objects.summed(_summable(objects)))


def _summable(objects: Objects) -> Value:
    """Pixels as SciPy sums them: as np.sum does if all are one object."""
    x = objects.pixels
    if objects.shape:
        return wide(x)
    whole = {"b": np.int64, "i": np.int64, "u": np.uint64}.get(x.dtype.kind, x.dtype)
    return convert(x, np.dtype(whole))


sum = sum_labels


@of_images
def mean(input: ArrayLike, labels: PyTree = None, index: PyTree = None) -> Value:
    """The mean of the pixels of each object.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.mean(np.array([1.0, 2.0, 4.0]), [1, 1, 2], [1, 2])
        array([1.5, 4. ])
    """
    objects = Objects("mean", input, labels, index)
    return objects.shaped(_mean(objects, wide(objects.pixels)))


@of_images
def variance(input: ArrayLike, labels: PyTree = None, index: PyTree = None) -> Value:
    """The variance of the pixels of each object.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.variance(np.array([1.0, 3.0, 4.0]), np.array([0, 0, 1]), [0, 1])
        array([1., 0.])
    """
    objects = Objects("variance", input, labels, index)
    return objects.shaped(_variance(objects))


@of_images
def standard_deviation(input: ArrayLike, labels: PyTree = None, index: PyTree = None) -> Value:
    """The standard deviation of the pixels of each object.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.standard_deviation(np.array([1.0, 3.0, 4.0]), np.array([0, 0, 1]), [0, 1])
        array([1., 0.])
    """
    objects = Objects("standard_deviation", input, labels, index)
    return objects.shaped(np.sqrt(_variance(objects)))


@of_images
def minimum(input: ArrayLike, labels: PyTree = None, index: PyTree = None) -> Value:
    """The least pixel of each object.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.minimum(np.array([1.0, 3.0, 4.0]), [1, 1, 2], [1, 2])
        array([1., 4.])
    """
    objects = Objects("minimum", input, labels, index)
    return objects.shaped(objects.extreme(True))


@of_images
def maximum(input: ArrayLike, labels: PyTree = None, index: PyTree = None) -> Value:
    """The greatest pixel of each object.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.maximum(np.array([1.0, 3.0, 4.0]), [1, 1, 2], [1, 2])
        array([3., 4.])
    """
    objects = Objects("maximum", input, labels, index)
    return objects.shaped(objects.extreme(False))


@of_images
def center_of_mass(input: ArrayLike, labels: PyTree = None, index: PyTree = None) -> PyTree:
    """The centre of each object: a tuple of coordinates, or a list of them.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.center_of_mass(np.array([0.0, 1.0, 1.0]))
        (np.float64(1.5),)
    """
    x = as_operand(input)
    objects = Objects("center_of_mass", input, labels, index)
    weights = wide(objects.pixels)
    total = objects.summed(weights)
    lines = [np.ravel(line) for line in np.indices(x.shape, np.float64)]
    centres = [objects.shaped(objects.summed(weights * line) / total) for line in lines]
    if not objects.shape:
        return tuple(centres)
    return list(zip(*[list(np.ravel(c)) for c in centres], strict=True))


@of_functions
def labeled_comprehension(
    input: ArrayLike, labels: PyTree, index: PyTree, func: Callable[..., Value],
    out_dtype: DTypeLike, default: ArrayLike, pass_positions: bool = False,
) -> Value:  # fmt: skip
    """A function of the pixels of each object, whose labels are plain; `default` where it has none.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.labeled_comprehension(np.array([1.0, 3.0, 4.0]), [1, 1, 2], [1, 2], np.ptp, float, 0)
        array([2., 0.])
    """
    x = as_operand(input)
    why, write = "it decides which pixels are taken.", "plain labels"
    marks = np.asarray(
        np.ones(x.shape, bool)
        if labels is None
        else known("labeled_comprehension", "labels", labels, why, write)
    )
    marks = np.broadcast_to(marks, x.shape)
    wanted = None if index is None else known("labeled_comprehension", "index", index, why, write)
    form, kind = user_form(func), np.dtype(out_dtype)
    flat, places = np.ravel(x), np.arange(marks.size)

    def of(chosen: np.ndarray) -> Value:
        at_places = places[np.ravel(chosen)]
        if not at_places.size:
            return convert(as_operand(default), kind)
        given = (flat[at_places], at_places) if pass_positions else (flat[at_places],)
        return convert(as_operand(form(*given)), kind)

    if wanted is None:
        return of(marks > 0)
    found = [of(marks == i) for i in np.ravel(wanted)]
    return np.reshape(np.stack(found), np.shape(wanted))[()]


@of_images
def median(input: ArrayLike, labels: PyTree = None, index: PyTree = None) -> Value:
    """The median of the pixels of each object, whose labels are plain.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.median(np.array([1.0, 3.0, 4.0]), [1, 1, 2], [1, 2])
        array([2., 4.])
    """
    kind, index = inexact(as_operand(input)).dtype, None if labels is None else index
    return labeled_comprehension(input, labels, index, np.median, kind, math.nan)


@of_images
def extrema(input: ArrayLike, labels: PyTree = None, index: PyTree = None) -> tuple[PyTree, ...]:
    """The least and the greatest pixel of each object, and where they are, of known values.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> [float(v) for v in nd.extrema(np.array([1.0, 3.0, 4.0]))[:2]]
        [1.0, 4.0]
    """
    values = concrete(input)
    if values is None:
        raise refusal(
            "scipy.ndimage.extrema of unknown values",
            "the places of extremes depend on them.",
            "fgrad.scipy.ndimage.minimum and maximum    and np.argmin, np.argmax",
        )
    from_plain = of_images.plain.extrema(values, concrete(labels), index)
    low, high = minimum(input, labels, index), maximum(input, labels, index)
    return low, high, *from_plain[2:]
