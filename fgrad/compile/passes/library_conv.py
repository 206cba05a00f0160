"""L5. Pass `library_conv`: convolutions -> calls of the device's library, if it supports them.

    conv(x, w)                                 library_conv[forward] x w
    conv(spread(y), reverse(swapped(w)))       library_conv[data] y w      the transpose in x
    conv(swapped(x), swapped(y))               library_conv[filter] x y    the transpose in w

`swapped` exchanges samples, or output channels, with channels.  Libraries pad both sides alike:
where a convolution does not, x is padded before the call, and a transpose in x is cropped after it.

Requires nothing.  Ensures that no convolution is left that the library takes; the others are as
they were, for `canonical_conv`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.passes.rewriter import Law, Rewriter
from fgrad.compile.passes.simplify import EXACT
from fgrad.errors import ShapeError
from fgrad.ir import traits
from fgrad.ir.aval import Aval
from fgrad.ir.primitive import REGISTRY, Primitive
from fgrad.ir.program import Atom, Eqn, Program
from fgrad.ops import primitives as prims
from fgrad.ops.window import Ints, conv_p, spread_length, window_count

library_conv_p = Primitive(
    "library_conv",
    traits.whole(algorithm=traits.Algorithm.CONVOLUTION),
    params=("kind", "shape", "strides", "padding", "dilation", "groups"),
)


class Convolution(NamedTuple):
    """y = conv(x, w), with `padding` on both sides of each axis, of which `kind` says what is
    computed: y ("forward"), from y and w its transpose in x ("data"), from x and y that in w
    ("filter")."""

    kind: str
    dtype: np.dtype
    x: Ints
    w: Ints
    y: Ints
    strides: Ints
    padding: Ints
    dilation: Ints
    groups: int

    @property
    def work(self) -> int:
        """How many products are summed."""
        return math.prod(self.y) * math.prod(self.w[1:])

    @property
    def result(self) -> Ints:
        """The shape of what is computed."""
        return {"forward": self.y, "data": self.x, "filter": self.w}[self.kind]

    def made(self, r: Rewriter, a: Atom, b: Atom) -> Atom:
        """The result of the equation for it."""
        axes = {"strides": self.strides, "padding": self.padding, "dilation": self.dilation}
        params = {"kind": self.kind, "shape": self.result, **axes, "groups": self.groups}
        return r.make(library_conv_p, a, b, **params)


def convolution_of(a: Aval, b: Aval, **params: Any) -> Convolution:
    """The convolution that an equation means, by its operands and parameters."""
    kind, shape = params["kind"], params["shape"]
    x, w, y = {
        "forward": (a.shape, b.shape, shape),
        "data": (shape, b.shape, a.shape),
        "filter": (a.shape, shape, b.shape),
    }[kind]
    strides, padding, dilation = [params[name] for name in ("strides", "padding", "dilation")]
    return Convolution(kind, a.dtype, x, w, y, strides, padding, dilation, params["groups"])


Takes = Callable[[Convolution], bool]


def library_conv(program: Program, takes: Takes) -> Program:
    """The program with the convolutions that `takes` accepts as calls."""
    if not any([eqn.prim is conv_p for eqn in program.eqns]):
        return program
    moves = [prim for prim in REGISTRY.values() if prim.movement is not None]
    laws = {prim: [law for law in EXACT if law.rewrites(prim)] for prim in moves}

    def call_library(r: Rewriter, e: Eqn) -> Atom | None:
        """conv(x, w) -> library_conv(x, w)"""
        return _call(r, e, takes)

    laws[conv_p] = [Law(call_library, (conv_p,))]
    return Rewriter(laws).run(program).replace(made_by="library_conv")


def _call(r: Rewriter, e: Eqn, takes: Takes) -> Atom | None:
    """The result of a convolution as that of a call; None if it stays."""
    (x, w), p, out = e.inputs, e.params, e.outputs[0].aval
    rank, groups = out.ndim - 2, p["feature_groups"]
    if p["batch_groups"] > 1 or not 1 <= rank <= 3 or 0 in (*x.aval.shape, *out.shape):
        return None
    if math.prod(w.aval.shape[2:]) > math.prod(out.shape[2:]):
        if _is_swapped(r, w) and (groups == 1 or w.aval.shape[1] > 1):
            return _filter(r, e, takes)
        if groups > 1:  # gradients for single samples: products do them better
            return None
    turned = r.source(w, prims.reverse)
    is_turned = turned is not None and set(turned.params["axes"]) == set(range(2, rank + 2))
    if set(p["strides"]) == {1} and (is_turned or set(p["x_dilation"]) != {1}):
        return _data(r, e, takes)
    return _forward(r, e, takes)


def _is_swapped(r: Rewriter, w: Atom) -> bool:
    """Whether the channels of a window are samples of what it was made of."""
    source = r.source(w, prims.permute)
    return w.aval.shape[1] == 1 or (source is not None and source.params["axes"][1] == 0)


def _forward(r: Rewriter, e: Eqn, takes: Takes) -> Atom | None:
    (x, w), p, y = e.inputs, e.params, e.outputs[0].aval
    axes = (w.aval.shape[2:], p["strides"], p["w_dilation"], y.shape[2:])
    lows, spread = [low for low, _ in p["padding"]], p["x_dilation"]
    fit = _fitted(lows, _spread(x, spread), *axes, set(spread) == {1})
    shape = (*x.aval.shape[:2], *fit.lengths)
    c = Convolution(
        "forward", y.dtype, shape, w.aval.shape, y.shape, p["strides"], fit.padding,
        p["w_dilation"], p["feature_groups"],
    )  # fmt: skip
    return c.made(r, _pad(r, x, fit.low, fit.high, spread), w) if takes(c) else None


def _data(r: Rewriter, e: Eqn, takes: Takes) -> Atom | None:
    """out[n, g c, i] = sum over o, k of y[n, g o, p] w[g o, c, k], p stride + k dilation = i + low.

    The equation's window is w with c and o swapped, and k counted from its end.
    """
    (y, turned), p, out = e.inputs, e.params, e.outputs[0].aval
    strides, dilation, groups = p["x_dilation"], p["w_dilation"], p["feature_groups"]
    window, c = turned.aval.shape[2:], turned.aval.shape[1]
    channels = turned.aval.shape[0] // groups
    lows = [
        spread_length(k, d) - 1 - low
        for k, d, (low, _) in zip(window, dilation, p["padding"], strict=True)
    ]
    fit = _fitted(lows, out.shape[2:], window, strides, dilation, y.aval.shape[2:])
    call = Convolution(
        "data", out.dtype, (*out.shape[:2], *fit.lengths), (groups * c, channels, *window),
        y.aval.shape, strides, fit.padding, dilation, groups,
    )  # fmt: skip
    if not takes(call):
        return None
    w = r.make(prims.reverse, turned, axes=tuple(range(2, out.ndim)))
    w = _moved(r, w, (groups, channels, c), (0, 2, 1), call.w[:2])
    low, high = [[-n for n in side] for side in (fit.low, fit.high)]
    return _pad(r, call.made(r, y, w), low, high, (1,) * len(low))


def _filter(r: Rewriter, e: Eqn, takes: Takes) -> Atom | None:
    """out[c, g o, k] = sum over n, p of x[n, g c, p stride + k dilation - low] y[n, g o, p].

    The equation's operands are x and y with samples and channels swapped.
    """
    (x, y), p, out = e.inputs, e.params, e.outputs[0].aval
    strides, dilation, groups = p["w_dilation"], p["strides"], p["feature_groups"]
    window, places, c = out.shape[2:], y.aval.shape[2:], x.aval.shape[0]
    outs, samples = y.aval.shape[:2]
    lows, spread = [low for low, _ in p["padding"]], p["x_dilation"]
    axes = (window, strides, dilation, places)
    fit = _fitted(lows, _spread(x, spread), *axes, set(spread) == {1})
    call = Convolution(
        "filter", out.dtype, (samples, groups * c, *fit.lengths), (outs, c, *window),
        (samples, outs, *places), strides, fit.padding, dilation, groups,
    )  # fmt: skip
    if not takes(call):
        return None
    x = _moved(r, x, (c, 1, groups, samples), (1, 3, 2, 0), call.x[:2])
    x = _pad(r, x, fit.low, fit.high, spread)
    return _swapped(r, call.made(r, x, _swapped(r, y)))


class _Fit(NamedTuple):
    """An x that begins and ends where a call wants it: its lengths after `low` and `high` zeros
    were put around it (less than none: elements taken away), and the padding by the call."""

    lengths: Ints
    padding: Ints
    low: Ints
    high: Ints


def _fitted(
    lows: Sequence[int], lengths: Ints, window: Ints, strides: Ints, dilation: Ints, places: Ints,
    plain: bool = True,
) -> _Fit:  # fmt: skip
    """As it is, if so many windows fit with `lows` on both sides; else just long enough for them.

    A `plain` x is in memory with these lengths.
    """
    none = (0,) * len(lengths)
    axes = list(zip(lows, lengths, window, strides, dilation, places, strict=True))
    fits = [a >= 0 and window_count(n + 2 * a, k, s, d) == p for a, n, k, s, d, p in axes]
    if plain and all(fits):
        return _Fit(lengths, tuple(lows), none, none)
    whole = [spread_length(p, s) + spread_length(k, d) - 1 for _, _, k, s, d, p in axes]
    high = [n - axis[1] - axis[0] for n, axis in zip(whole, axes, strict=True)]
    return _Fit(tuple(whole), none, tuple(lows), tuple(high))


def _swapped(r: Rewriter, x: Atom) -> Atom:
    """The first two axes exchanged."""
    return r.make(prims.permute, x, axes=(1, 0, *range(2, x.aval.ndim)))


def _moved(r: Rewriter, x: Atom, given: Ints, axes: Ints, wanted: Ints) -> Atom:
    """The first two axes as several ones, which are reordered and become two again.

    These are the steps of the transposes of `conv`, backwards, so that they cancel.
    """
    places = x.aval.shape[2:]
    x = r.make(prims.reshape, x, shape=(*given, *places))
    x = r.make(prims.permute, x, axes=(*axes, *range(len(axes), x.aval.ndim)))
    return r.make(prims.reshape, x, shape=(*wanted, *places))


def _spread(x: Atom, dilation: Ints) -> Ints:
    """The lengths of the spatial axes when they are spread."""
    return tuple([spread_length(n, d) for n, d in zip(x.aval.shape[2:], dilation, strict=True)])


def _pad(r: Rewriter, x: Atom, low: Sequence[int], high: Sequence[int], spread: Ints) -> Atom:
    """The spatial axes spread and padded with zeros; cropped where a number is negative."""
    interior = (0, 0, *[d - 1 for d in spread])
    return r.make(prims.pad, x, low=(0, 0, *low), high=(0, 0, *high), interior=interior, value=0)


# --- the primitive --------------------------------------------------------------------------------


def _conv_params(c: Convolution) -> dict[str, object]:
    """The parameters of `conv` that mean y = conv(x, w)."""
    return {
        "strides": c.strides,
        "padding": tuple([(a, a) for a in c.padding]),
        "x_dilation": (1,) * len(c.strides),
        "w_dilation": c.dilation,
        "feature_groups": c.groups,
        "batch_groups": 1,
    }


@library_conv_p.type_rule
def _(a: Aval, b: Aval, **params: object) -> Aval:
    c = convolution_of(a, b, **params)
    x, w, y = [Aval(shape, c.dtype) for shape in (c.x, c.w, c.y)]
    if conv_p.type_of(x, w, **_conv_params(c)) != y or b.dtype != c.dtype:
        raise ShapeError(f"library_conv: {c.kind} of {a.shape} and {b.shape} is not {c.result}.")
    return Aval(c.result, c.dtype)


@library_conv_p.evaluate
def _(a: Any, b: Any, **params: Any) -> np.ndarray:
    c = convolution_of(a, b, **params)
    conv = _conv_params(c)
    if c.kind == "forward":
        return conv_p.evaluate_rule(a, b, **conv)
    transpose: Any = conv_p.rules["transpose"]
    wanted = Aval(c.result, c.dtype)
    if c.kind == "data":
        return transpose(a, (True, False), wanted, b, **conv)[0]
    return transpose(b, (False, True), a, wanted, **conv)[1]


for _slot in ("jvp", "batch"):
    library_conv_p.refuse(_slot, "is made by the compiler, after all transforms")
