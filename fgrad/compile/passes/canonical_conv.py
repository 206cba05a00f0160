"""L5. Pass `canonical_conv`: convolutions in the form that register tiles do best.

    padding                 conv(x, w, padding)   -> conv(pad(x), w), the padded x in memory
    groups, small results,  conv(x, w)            -> dot(windows(x), permute(w)), summed over
    strides                                          channels and window, output channels last

The windows are an index map, never in memory: the product reads x in place.  Output channels as the
last axis of w and of the result are the lanes of vectors; otherwise the last spatial axis is.

Requires nothing.  Ensures that convolutions of floats with enough work have no padding, no spread
of x and no groups.
"""

from __future__ import annotations

import math

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.kernel.machine import COPIES_PER_PRODUCT
from fgrad.compile.passes.writer import Writer
from fgrad.ir.program import Atom, Eqn, Params, Program, Var
from fgrad.ops import primitives as prims
from fgrad.ops.window import conv_p

LEAST_WORK = 1 << 13  # products of one convolution from which copies of operands are worth it
_SPEED = {1: 1.0, 2: 2.0, 4: 4.0, 8: 8.0, 16: 11.0}  # products in a unit of time, by lanes


def canonical_conv(program: Program) -> Program:
    """The program with its larger convolutions rewritten."""
    if not any([eqn.prim is conv_p for eqn in program.eqns]):
        return program
    writer = _ConvWriter()
    for eqn in program.eqns:
        if eqn.prim is conv_p and _is_large(eqn):
            writer.conv(eqn)
        else:
            writer.eqns.append(eqn)
    return program.replace(eqns=tuple(writer.eqns), made_by="canonical_conv")


def _is_large(eqn: Eqn) -> bool:
    w, (out,) = eqn.inputs[1], eqn.outputs
    work = out.aval.size * math.prod(w.aval.shape[1:])
    return out.aval.dtype.name in ("float32", "float64") and work >= LEAST_WORK


class _Sizes(NamedTuple):
    """Letters as in ops/window.py: x[b n, g c, ...], w[b g o, c, window], out[n, b g o, places]."""

    b: int
    g: int
    n: int
    c: int
    o: int
    window: tuple[int, ...]
    places: tuple[int, ...]


def _sizes(eqn: Eqn) -> _Sizes:
    w, (out,), p = eqn.inputs[1], eqn.outputs, eqn.params
    b, g = p["batch_groups"], p["feature_groups"]
    out_channels, c, *window = w.aval.shape
    n, _, *places = out.aval.shape
    return _Sizes(b, g, n, c, out_channels // (b * g), tuple(window), tuple(places))


class _ConvWriter(Writer):
    """Puts other equations in the place of a convolution."""

    def reshape(self, x: Atom, *shape: int) -> Atom:
        """`x` with another shape, unless it has that already."""
        return x if x.aval.shape == shape else self.apply(prims.reshape, x, shape=shape)

    def permute(self, x: Atom, *axes: int) -> Atom:
        """`x` with its axes reordered."""
        return x if axes == tuple(range(len(axes))) else self.apply(prims.permute, x, axes=axes)

    def conv(self, eqn: Eqn) -> None:
        """Rewrite one convolution."""
        self.like = eqn
        sizes = _sizes(eqn)
        x = self.padded(eqn)
        rank = len(sizes.window)
        if channels_last(eqn):
            self.product(eqn, x, sizes)
        elif sizes.b * sizes.g > 1:
            self.product_by_place(eqn, x, sizes)
        else:
            params = eqn.params | {"padding": ((0, 0),) * rank, "x_dilation": (1,) * rank}
            self.eqns.append(eqn._replace(inputs=(x, eqn.inputs[1]), params=Params(params)))

    def padded(self, eqn: Eqn) -> Atom:
        """x with its elements spread and its borders in memory."""
        x, p = eqn.inputs[0], eqn.params
        if not any([any(pair) for pair in p["padding"]]) and set(p["x_dilation"]) <= {1}:
            return x
        low, high = ((0, 0, *[pair[k] for pair in p["padding"]]) for k in (0, 1))
        interior = (0, 0, *[d - 1 for d in p["x_dilation"]])
        return self.apply(prims.pad, x, low=low, high=high, interior=interior, value=0)

    def windows(self, eqn: Eqn, x: Atom, s: _Sizes) -> Var:
        """win[b, n, g, c, places, window]."""
        rank = len(s.window)
        x = self.reshape(x, s.b, s.n, s.g, s.c, *x.aval.shape[2:])
        axes = tuple(range(4, 4 + rank))
        steps = {"strides": eqn.params["strides"], "dilations": eqn.params["w_dilation"]}
        return self.apply(prims.windows, x, axes=axes, sizes=s.window, **steps)

    def product(self, eqn: Eqn, x: Atom, s: _Sizes) -> None:
        """out[b, g, n, places, o] = sum over c, window."""
        rank = len(s.window)
        win = self.windows(eqn, x, s)
        w = self.reshape(eqn.inputs[1], s.b, s.g, s.o, s.c, *s.window)
        w = self.permute(w, 0, 1, *range(3, 4 + rank), 2)
        summed = range(4 + rank, 4 + 2 * rank)
        contract = ((3, *summed), tuple(range(2, 3 + rank)))
        out = self.apply(prims.dot_general, win, w, contract=contract, batch=((0, 2), (0, 1)))
        moved = self.permute(out, 2, 0, 1, 3 + rank, *range(3, 3 + rank))
        self.result(eqn, moved)

    def product_by_place(self, eqn: Eqn, x: Atom, s: _Sizes) -> None:
        """out[b, g, o, n, places] = sum over c, window."""
        rank = len(s.window)
        win = self.windows(eqn, x, s)
        w = self.reshape(eqn.inputs[1], s.b, s.g, s.o, s.c, *s.window)
        contract = (tuple(range(3, 4 + rank)), (3, *range(4 + rank, 4 + 2 * rank)))
        out = self.apply(prims.dot_general, w, win, contract=contract, batch=((0, 1), (0, 2)))
        self.result(eqn, self.permute(out, 3, 0, 1, 2, *range(4, 4 + rank)))


def channels_last(eqn: Eqn) -> bool:
    """Whether output channels fill vectors better than places do, copies included."""
    s, strides = _sizes(eqn), eqn.params["strides"]
    w, (out,) = eqn.inputs[1], eqn.outputs
    if not s.window:
        return True
    widest = 64 // out.aval.dtype.itemsize
    work = out.aval.size * math.prod(w.aval.shape[1:])
    along = 1.0 if strides[-1] != 1 else _speed(s.places[-1], widest)
    copied = w.aval.size + out.aval.size
    return work / _speed(s.o, widest) + copied / COPIES_PER_PRODUCT < work / along


def _speed(extent: int, widest: int) -> float:
    """Products in a unit of time with an axis of this length in the lanes."""
    lanes = widest
    while lanes >= 2 * extent:
        lanes //= 2
    return _SPEED[lanes] * extent / (-(-extent // lanes) * lanes)
