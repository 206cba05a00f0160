"""L5. Strided views: a layout -> its layout after permute, broadcast, slice, index or reshape.

    permute(w)      other strides          broadcast(w)      strides of 0
    index(w)        an offset              slice(w)          an offset, and larger strides

So transposed, sliced and repeated operands cost nothing where a routine takes strides.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.kernel.affine import axis_runs, row_major
from fgrad.ir.primitive import Primitive
from fgrad.ir.program import Atom, Eqn, Params, Var
from fgrad.ops import primitives as prims


class Layout(NamedTuple):
    """Where the elements of a view are: `offset + sum(stride * index)`."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


# A moving primitive, its parameters, and the shape of its result.
_Move: TypeAlias = "tuple[Primitive, Params, tuple[int, ...]]"


class View(NamedTuple):
    """A buffer and the layout of a view of it."""

    source: Var
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def view_of(atom: Atom, virtual: Mapping[Var, Eqn]) -> View | None:
    """The view of a buffer that an atom is, or None if its elements must be moved or computed."""
    moves: list[_Move] = []
    while True:
        if type(atom) is not Var:
            return None
        eqn = virtual.get(atom)
        if eqn is None:
            break
        if eqn.prim not in VIEWS:
            return None
        moves.append((eqn.prim, eqn.params, eqn.outputs[0].aval.shape))
        atom = eqn.inputs[0]
    layout = _layout(atom.aval.shape, tuple(moves))
    return None if layout is None else View(atom, *layout)


@lru_cache(maxsize=4096)
def _layout(shape: tuple[int, ...], moves: tuple[_Move, ...]) -> Layout | None:
    """The layout of a C-ordered array after some moves, of which the last one comes first."""
    layout = Layout(0, shape, row_major(shape))
    for prim, params, out_shape in reversed(moves):
        moved = VIEWS[prim](layout, params, out_shape)
        if moved is None:
            return None
        layout = moved
    return layout


def _permuted(view: Layout, params: Params, shape: tuple[int, ...]) -> Layout:
    return Layout(view.offset, shape, tuple([view.strides[a] for a in params["axes"]]))


def _broadcast(view: Layout, params: Params, shape: tuple[int, ...]) -> Layout:
    strides = [0] * len(shape)
    for stride, d in zip(view.strides, params["dims"], strict=True):
        strides[d] = stride
    return Layout(view.offset, shape, tuple(strides))


def _sliced(view: Layout, params: Params, shape: tuple[int, ...]) -> Layout:
    start = sum(s * a for s, a in zip(view.strides, params["start"], strict=True))
    strides = [s * k for s, k in zip(view.strides, params["step"], strict=True)]
    return Layout(view.offset + start, shape, tuple(strides))


def _indexed(view: Layout, params: Params, shape: tuple[int, ...]) -> Layout:
    ints = params["ints"]
    start = sum(s * i for s, i in zip(view.strides, ints, strict=False))
    return Layout(view.offset + start, shape, view.strides[len(ints) :])


def _reshaped(view: Layout, params: Params, shape: tuple[int, ...]) -> Layout | None:
    """None unless each run of merged axes has a common stride."""
    strides: list[int] = []
    if math.prod(shape) == 0:
        return None
    for (a, b), (c, d) in axis_runs(view.shape, shape):
        step = collapsed(view, range(a, b))
        if step is None:
            return None
        strides += [step * s for s in row_major(shape[c:d])]
    return Layout(view.offset, shape, tuple(strides))


VIEWS: dict[Primitive, Callable[[Layout, Params, tuple[int, ...]], Layout | None]] = {
    prims.permute: _permuted,
    prims.broadcast: _broadcast,
    prims.slice: _sliced,
    prims.index: _indexed,
    prims.reshape: _reshaped,
}


def collapsed(view: View | Layout, axes: Sequence[int]) -> int | None:
    """The stride of several axes merged into one; None if no single stride reaches them all."""
    axes = [a for a in axes if view.shape[a] != 1]
    for a, b in itertools.pairwise(axes):
        if view.strides[a] != view.strides[b] * view.shape[b]:
            return None
    return view.strides[axes[-1]] if axes else 0
