"""L7. Meshes: the named axes along which a program runs, and how arrays are cut along them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.errors import ArgumentError, AxisNameError, Row, ShapeError
from fgrad.typing import PyTree


class P:
    """How an array is cut along the axes of a mesh: for each axis of the array, from the first one
    on, the name of a mesh axis, several of them, or None for an axis that is not cut.

    `P()` is for what is the same everywhere.

    Example:
        >>> from fgrad.distributed import P
        >>> P("data"), P(None, ("data", "model")), P()
        (P('data'), P(None, ('data', 'model')), P())
    """

    __slots__ = ("parts",)

    parts: tuple[tuple[str, ...], ...]

    def __init__(self, *parts: str | tuple[str, ...] | None) -> None:
        found: list[tuple[str, ...]] = []
        for part in parts:
            names: tuple[Any, ...] = part if isinstance(part, tuple) else (part,)
            found.append(tuple([name for name in names if name is not None]))
        every = [name for names in found for name in names]
        if not all([isinstance(name, str) for name in every]):
            raise ArgumentError(f"P takes names of axes, tuples of names and None, not {parts!r}.")
        if len(set(every)) < len(every):
            raise ArgumentError(f"P{parts!r}: an array is cut along a mesh axis once.")
        self.parts = tuple(found)

    @property
    def names(self) -> frozenset[str]:
        """The mesh axes along which the array is cut."""
        return frozenset([name for names in self.parts for name in names])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, P) and self.parts == other.parts

    def __hash__(self) -> int:
        return hash(self.parts)

    def __repr__(self) -> str:
        shown = [repr(n[0] if len(n) == 1 else n) if n else "None" for n in self.parts]
        return f"P({', '.join(shown)})"


class Mesh:
    """The named axes of a program and how many places each has.

    Example:
        >>> from fgrad import distributed as dist
        >>> dist.simulate(data=2, model=3)
        Mesh(data=2, model=3)
    """

    __slots__ = ("axes", "index")

    def __init__(
        self, axes: tuple[tuple[str, int], ...], index: tuple[int, ...] | None = None
    ) -> None:
        self.axes = axes
        self.index = index  # of this process along each axis; None if all places are in it

    @property
    def shape(self) -> dict[str, int]:
        """How many places each axis has."""
        return dict(self.axes)

    @property
    def size(self) -> int:
        """How many places there are."""
        return math.prod([size for _, size in self.axes])

    @property
    def is_first(self) -> bool:
        """Whether this process is the first rank, which prints; or has all places."""
        return self.index is None or not any(self.index)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mesh) and (self.axes, self.index) == (other.axes, other.index)

    def __hash__(self) -> int:
        return hash((self.axes, self.index))

    def __repr__(self) -> str:
        text = f"Mesh({', '.join([f'{name}={size}' for name, size in self.axes])})"
        if self.index is None:
            return text
        pairs = zip(self.axes, self.index, strict=True)
        return f"{text} at {', '.join([f'{name}={k}' for (name, _), k in pairs])}"

    def check(self, spec: object, what: str) -> P:
        """Refuse what does not say how an array is cut along this mesh.

        Raises:
            ArgumentError: it is no `P`.
            AxisNameError: it names an axis that the mesh has not.
        """
        if not isinstance(spec, P):
            rows: tuple[Row, ...] = (("write", "P()  P('data')  P(None, 'model')"),)
            raise ArgumentError(f"shard_map: {what} must hold P, not {spec!r}.", rows)
        unknown = sorted(spec.names - self.shape.keys())
        if unknown:
            raise AxisNameError(
                f"shard_map: {what} has {spec}, but the mesh has no axis {unknown[0]!r}.",
                (("mesh", repr(self)),),
            )
        return spec

    def order(self, spec: P) -> list[str]:
        """The axes along which a spec cuts, in the order of the mesh."""
        return [name for name, _ in self.axes if name in spec.names]

    def split(self, x: PyTree, spec: P, what: Callable[[], str]) -> PyTree:
        """An array with the mesh axes along which it is cut in front, then its block; `what` gives
        its name.

        Raises:
            ShapeError: it has not so many axes, or one that is no multiple of the places.
        """
        if not spec.names:
            return x
        shape, sizes = np.shape(x), self.shape
        if len(spec.parts) > len(shape):
            raise ShapeError(f"{what()} has shape {tuple(shape)}, too few axes for {spec}.")
        new: list[int] = []
        place: dict[str, int] = {}
        for k, length in enumerate(shape):
            names = spec.parts[k] if k < len(spec.parts) else ()
            count = math.prod([sizes[name] for name in names])
            if length % count:
                raise ShapeError(
                    f"axis {k} of {what()} has length {length}, which {spec} cuts into "
                    f"{count} blocks.",
                    (("write", f"pad it to a multiple of {count}, and mask what was added"),),
                )
            for name in names:
                place[name] = len(new)
                new.append(sizes[name])
            new.append(length // count)
        front = [place[name] for name in self.order(spec)]
        rest = [k for k in range(len(new)) if k not in front]
        return np.transpose(np.reshape(x, new), [*front, *rest])

    def join(self, x: PyTree, spec: P) -> PyTree:
        """The array of which `x` has the blocks: the inverse of `split`."""
        front = self.order(spec)
        if not front:
            return x
        shape = np.shape(x)
        block = list(range(len(front), len(shape)))
        axes: list[int] = []
        whole: list[int] = []
        for k, at in enumerate(block):
            names = spec.parts[k] if k < len(spec.parts) else ()
            found = [front.index(name) for name in names]
            axes += [*found, at]
            whole.append(math.prod([shape[f] for f in found]) * shape[at])
        return np.reshape(np.transpose(x, axes), whole)


def simulate(**axes: int) -> Mesh:
    """A mesh whose places are all in this process: programs run as `vmap` with named axes.

    It is how a program for many processes is written, debugged and tested.

    Arguments:
        axes: how many places each axis has.

    Raises:
        ArgumentError: if an axis has no places.

    Example:
        >>> import numpy as np, fgrad
        >>> from fgrad import distributed as dist
        >>> from fgrad.distributed import P
        >>> mesh = dist.simulate(data=4)
        >>> total = dist.shard_map(
        ...     lambda x: fgrad.lax.psum(np.sum(x), "data"),
        ...     mesh=mesh, in_specs=P("data"), out_specs=P(),
        ... )
        >>> total(np.arange(8.0))
        np.float64(28.0)
    """
    if not axes:
        raise ArgumentError("simulate: a mesh has at least one axis.", (("write", "data=4"),))
    for name, size in axes.items():
        if not isinstance(size, (int, np.integer)) or isinstance(size, bool) or size < 1:
            raise ArgumentError(f"simulate: {name}={size!r}; it must be a positive integer.")
    return Mesh(tuple([(name, int(size)) for name, size in axes.items()]))
