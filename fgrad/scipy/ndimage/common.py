"""L7. What the functions of `scipy.ndimage` share: dispatch, dtypes, axes, edges, windows."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np

import fgrad.numpy as fnp
from fgrad.base.lazy_import import lazy_module
from fgrad.errors import ArgumentError, DtypeError, ShapeError
from fgrad.numpy.promote import as_operand, convert, normalize_axis, user_line
from fgrad.scipy._either import Either, refusal
from fgrad.trace import Value, concrete, innermost
from fgrad.typing import ArrayLike, DTypeLike, P, PyTree, R

plain = lazy_module("scipy.ndimage")

of_images = Either(plain)


def of_functions(traced: Callable[P, R]) -> Callable[P, R]:
    """`of_images` for functions of functions, which may close over what is traced."""
    called = of_images(traced)

    @functools.wraps(called)
    def function(*args: P.args, **kwargs: P.kwargs) -> R:
        return (traced if innermost() is not None else called)(*args, **kwargs)

    return function


# What SciPy calls a mode, and what `np.pad` calls it.
EDGES = {
    "reflect": "symmetric", "grid-mirror": "symmetric", "mirror": "reflect", "nearest": "edge",
    "wrap": "wrap", "grid-wrap": "wrap", "constant": "constant", "grid-constant": "constant",
}  # fmt: skip


def misfit(name: str, what: str, write: str) -> ArgumentError:
    """The error for an argument that SciPy refuses too."""
    return ArgumentError(f"scipy.ndimage.{name}: {what}.", (*user_line(), ("write", write)))


def pixels(name: str, image: ArrayLike, output: DTypeLike | None) -> tuple[Value, np.dtype]:
    """An image, and the dtype of what is made of it."""
    if output is not None and not isinstance(output, (type, str, np.dtype)):
        raise refusal(
            f"scipy.ndimage.{name} with an array as output",
            "a traced value cannot be written into plain memory.",
            f"{name}(image, output=np.float64)    a dtype",
        )
    x = as_operand(image)
    kind = x.dtype if output is None else np.dtype(output)
    if x.dtype.kind not in "iufc" or x.dtype == np.float16 or kind.kind not in "iufc":
        raise DtypeError(
            f"scipy.ndimage.{name}: {x.dtype} pixels, and {kind} results.",
            (*user_line(), ("write", "image.astype(np.float32)")),
        )
    if x.dtype.kind == "c" and kind.kind != "c":
        kind = np.result_type(kind, np.complex64)
    return x, kind


def wide(x: Value) -> Value:
    """In double precision, in which SciPy computes."""
    return convert(x, np.dtype(np.complex128 if x.dtype.kind == "c" else np.float64))


def axes_of(name: str, axes: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """The axes of a filter, all of them if None."""
    given = range(rank) if axes is None else [axes] if isinstance(axes, (int, np.integer)) else axes
    places = tuple([normalize_axis(a, rank) for a in given])
    if len({*places}) != len(places):
        raise misfit(name, f"axes={axes}", "axes that are not equal")
    return places


def ascending(name: str, what: str, places: Sequence[int]) -> None:
    """Raise for axes in another order: SciPy takes windows as if they were in ascending order."""
    if list(places) != sorted(places):
        raise misfit(name, f"{what} for axes={tuple(places)}", f"axes={tuple(sorted(places))}")


def each(name: str, what: str, given: PyTree, count: int) -> list[PyTree]:
    """A setting for each axis, or one for all of them."""
    several = isinstance(given, (list, tuple, np.ndarray)) and np.ndim(given) == 1
    found = list(given) if several else [given] * count
    if len(found) != count:
        raise misfit(
            name, f"{len(found)} values of {what} for {count} axes", f"{what} for each axis"
        )
    return found


def known(name: str, what: str, given: PyTree, why: str, write: str) -> PyTree:
    """A plain value of a setting; a card if it is traced."""
    found = concrete(given) if not isinstance(given, (list, tuple)) else given
    if found is None:
        raise refusal(f"scipy.ndimage.{name} with a traced {what}", why, write)
    return found


def padded(
    name: str, x: Value, widths: Sequence[tuple[int, int]], mode: PyTree, cval: ArrayLike
) -> Value:
    """An image continued at its edges; the mode may differ from axis to axis."""
    for axis, (width, kind) in enumerate(
        zip(widths, each(name, "mode", mode, len(widths)), strict=True)
    ):
        if kind not in EDGES:
            raise misfit(name, f"mode={kind!r}", " or ".join([f"mode={m!r}" for m in EDGES]))
        if not any(width):
            continue
        settings: PyTree = {"mode": EDGES[kind]}
        if EDGES[kind] == "constant":
            settings["constant_values"] = cval
        x = fnp.pad(x, [width if a == axis else (0, 0) for a in range(len(widths))], **settings)
    return x


def windows(
    name: str,
    x: Value,
    sizes: Sequence[int],
    origins: Sequence[int],
    mode: PyTree,
    cval: ArrayLike,
) -> Value:
    """The window around each pixel, in further axes: (n, ...) -> (n, ..., m, ...)."""
    widths = []
    for size, origin in zip(sizes, origins, strict=True):
        before = size // 2 + origin
        if size < 1 or not 0 <= before < size:
            raise misfit(name, f"a window of {size} with origin={origin}", "origin=0")
        widths.append((before, size - 1 - before))
    if 0 in x.shape:
        return fnp.zeros((*x.shape, *sizes), x.dtype)
    whole = padded(name, x, widths, mode, cval)
    return np.lib.stride_tricks.sliding_window_view(whole, tuple(sizes))


def flat_windows(found: Value, rank: int, footprint: np.ndarray | None) -> Value:
    """Windows as one last axis, of the places that a footprint marks."""
    flat = np.reshape(found, (*found.shape[:rank], math.prod(found.shape[rank:])))
    return flat if footprint is None else flat[..., np.flatnonzero(footprint)]


def footprint_of(
    name: str, size: PyTree, footprint: ArrayLike | None, axes: tuple[int, ...], rank: int
) -> tuple[list[int], np.ndarray | None]:
    """The lengths of a window over all axes, and which places in it count; None for all."""
    if footprint is None:
        if size is None:
            raise misfit(name, "neither size nor footprint", "size=3")
        lengths = [int(n) for n in each(name, "size", size, len(axes))]
        if len({*lengths}) > 1:
            ascending(name, "size", axes)
        marks = None
    else:
        marks = np.asarray(known(name, "footprint", footprint, "it decides places.", "a constant"))
        marks = marks.astype(bool)
        if marks.ndim != len(axes) or not marks.any():
            raise ShapeError(
                f"scipy.ndimage.{name}: a footprint of shape {marks.shape} for {len(axes)} axes.",
                user_line(),
            )
        ascending(name, "a footprint", axes)
        lengths = list(marks.shape)
    sizes = [1] * rank
    for axis, n in zip(axes, lengths, strict=True):
        sizes[axis] = n
    if marks is None:
        return sizes, None
    return sizes, None if marks.all() else marks.reshape(sizes)


def origins_of(name: str, origin: PyTree, axes: tuple[int, ...], rank: int) -> list[int]:
    """The origin of a window in each axis."""
    found = [0] * rank
    for axis, o in zip(axes, each(name, "origin", origin, len(axes)), strict=True):
        found[axis] = int(o)
    return found


def modes_of(name: str, mode: PyTree, axes: tuple[int, ...], rank: int) -> list[PyTree]:
    """The mode of each axis."""
    found: list[PyTree] = ["reflect"] * rank
    for axis, m in zip(axes, each(name, "mode", mode, len(axes)), strict=True):
        found[axis] = m
    return found
