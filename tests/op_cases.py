# ruff: noqa: E501
"""One row for each NumPy function: what all property tests are driven by.

A row has a name, a function of arrays written in plain NumPy, and its arguments, drawn from a domain
without kinks.  `order` is the order up to which derivatives are compared with finite differences (0 for
discrete results).  `known` rows need the values of their arguments: they work under eager transforms,
not under `jit`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from op_cases_more import MORE_CASES
from op_domains import (
    Args,
    OpCase,
    above_one,
    distinct,
    ints,
    matrix,
    normal,
    positive,
    spread,
    truth,
    unit,
)


def _unary() -> list[OpCase]:
    free = [
        "negative",
        "positive",
        "sin",
        "cos",
        "tan",
        "arctan",
        "sinh",
        "cosh",
        "tanh",
        "arcsinh",
        "exp",
        "exp2",
        "expm1",
        "cbrt",
        "square",
        "deg2rad",
        "rad2deg",
        "radians",
        "degrees",
        "sinc",
        "absolute",
        "fabs",
        "conjugate",
        "abs",
    ]
    rows = [OpCase(n, getattr(np, n), spread((2, 3)), dtypes="df") for n in free]
    logs = ["log", "log2", "log10", "log1p", "sqrt", "reciprocal"]
    rows += [OpCase(n, getattr(np, n), positive((2, 3)), dtypes="df") for n in logs]
    rows += [OpCase(n, getattr(np, n), unit((2, 3))) for n in ("arcsin", "arccos", "arctanh")]
    rows.append(OpCase("arccosh", np.arccosh, above_one((2, 3))))
    rounding = "floor ceil trunc rint sign isnan isinf isfinite signbit fix spacing round around"
    rows += [OpCase(n, getattr(np, n), normal((5,)), False, 0) for n in rounding.split()]
    rows += [OpCase(n, getattr(np, n), normal((5,)), False, 0) for n in ("isposinf", "isneginf")]
    rows.append(OpCase("logical_not", np.logical_not, ints((4,), low=0, high=2), False, 0))
    rows.append(OpCase("invert", np.invert, ints((4,)), False, 0))
    rows.append(OpCase("invert.bool", np.invert, truth((4,)), False, 0))
    rows.append(OpCase("round.2", lambda x: np.round(x, 2), normal((5,)), False, 0))
    rows.append(OpCase("round.-1", lambda x: np.round(x * 37, -1), normal((5,)), False, 0))
    return rows


def _binary() -> list[OpCase]:
    pairs = normal((2, 3), (3,))
    rows = [
        OpCase(n, getattr(np, n), pairs, dtypes="df")
        for n in ["add", "subtract", "multiply", "arctan2", "hypot", "logaddexp", "logaddexp2"]
    ]
    rows += [
        OpCase(n, getattr(np, n), distinct((2, 3), (2, 3)))
        for n in ["maximum", "minimum", "fmax", "fmin"]
    ]
    rows += [
        OpCase(n, getattr(np, n), lambda rng: (rng.normal(size=(2, 3)), rng.uniform(1, 2, 3)))
        for n in ("divide", "true_divide")
    ]
    rows += [
        OpCase("power", np.power, positive((2, 3), (3,))),
        OpCase("float_power", np.float_power, positive((3,), (3,))),
        OpCase("remainder", np.remainder, lambda rng: (rng.uniform(2.1, 2.9, 4), np.full(4, 2.0))),
        OpCase("mod", np.mod, lambda rng: (-rng.uniform(2.1, 2.9, 4), np.full(4, 2.0))),
        OpCase("fmod", np.fmod, lambda rng: (-rng.uniform(2.1, 2.9, 4), np.full(4, 2.0))),
        OpCase("copysign", lambda x: np.copysign(x, -1.0), spread((4,))),
        OpCase("heaviside", np.heaviside, normal((4,), (4,)), False, 0),
        OpCase("nextafter", np.nextafter, normal((4,), (4,)), False, 0),
        OpCase("floor_divide", np.floor_divide, positive((4,), (4,)), False, 0),
        OpCase("divmod", np.divmod, positive((4,), (4,)), False, 0),
        OpCase("modf", np.modf, normal((4,)), False, 0),
        OpCase("ldexp", lambda x: np.ldexp(x, np.array([3, -2, 0, 1])), normal((4,))),
        OpCase("isclose", np.isclose, normal((4,), (4,)), False, 0),
    ]
    compare = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]
    rows += [OpCase(n, getattr(np, n), normal((4,), (4,)), False, 0) for n in compare]
    logic = ["logical_and", "logical_or", "logical_xor"]
    rows += [OpCase(n, getattr(np, n), truth((4,), (4,)), False, 0) for n in logic]
    bits = ["bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"]
    rows += [OpCase(n, getattr(np, n), ints((4,), (4,), low=0, high=9), False, 0) for n in bits]
    integer = [
        "add",
        "subtract",
        "multiply",
        "floor_divide",
        "remainder",
        "fmod",
        "power",
        "maximum",
    ]
    rows += [
        OpCase(f"{n}.int", getattr(np, n), ints((4,), (4,), low=1, high=6), False, 0)
        for n in integer
    ]
    return rows


def _operators() -> list[OpCase]:
    return [
        OpCase("op.arithmetic", lambda x, y: (x + 2) * y - 3.0 / (4 + y * y) + (-x), normal((3,), (3,))),
        OpCase("op.reflected", lambda x: 2 - x + 1.5 * x + 3 / (x * x + 1), normal((2, 3))),
        OpCase("op.powers", lambda x: x**2 + x**3 + x**0.5 + x**-1 + x**1 + x**0 + 2**x, positive((3,))),
        OpCase("op.mod", lambda x: x % 2.0 + x // 2.0, lambda rng: (rng.uniform(2.1, 2.9, 4),)),
        OpCase("op.divmod", lambda x: divmod(x, 2.0), positive((4,)), False, 0),
        OpCase("op.matmul", lambda x, y: x @ y, normal((2, 3), (3, 4))),
        OpCase("op.compare", lambda x, y: ((x < y) & (x > 0)) | (x == y), normal((4,), (4,)), False, 0),
        OpCase("op.abs", abs, spread((3,))),
        OpCase("op.constant", lambda x: np.arange(3.0) * x + x / np.ones((2, 1)), normal((3,))),
        OpCase("op.in_place", _in_place, normal((3,), (3,))),
        OpCase("op.scalar", lambda x, y: np.sin(x) * y + x * 2, normal((), (3,))),
        OpCase("op.float32", lambda x: x * 2.0 + 1 - np.float32(3), lambda rng: (rng.normal(size=3).astype("f"),), True, 0),
    ]  # fmt: skip


def _in_place(x: Any, y: Any) -> Any:
    z = x * 1.0
    z += y
    z *= 2
    return z


def _reductions() -> list[OpCase]:
    def over(name: str, args: Args, order: int = 2, **kwargs: Any) -> list[OpCase]:
        f = getattr(np, name)
        smooth = order > 0
        return [
            OpCase(name, f, args, smooth, order, dtypes="df", **kwargs),
            OpCase(f"{name}.axis", lambda x: f(x, axis=1), args, smooth, order, **kwargs),
            OpCase(f"{name}.keepdims", lambda x: f(x, axis=0, keepdims=True), args, smooth, order),
            OpCase(f"{name}.last", lambda x: f(x, axis=-1), args, smooth, order),
        ]

    rows: list[OpCase] = []
    for name in [
        "sum",
        "mean",
        "prod",
        "var",
        "std",
        "nansum",
        "nanmean",
        "nanprod",
        "nanvar",
        "nanstd",
    ]:
        rows += over(name, normal((3, 4)))
    for name in ["max", "min", "ptp", "nanmax", "nanmin", "median", "nanmedian"]:
        rows += over(name, distinct((3, 5)))
    for name in ["argmax", "argmin", "nanargmax", "nanargmin", "count_nonzero", "any", "all"]:
        rows += over(name, distinct((3, 4)), 0)
    rows += [
        OpCase("sum.axes", lambda x: np.sum(x, axis=(0, -1)), normal((2, 3, 4))),
        OpCase("sum.where", lambda x: np.sum(x, where=[[True], [False]]), normal((2, 3))),
        OpCase("sum.initial", lambda x: np.sum(x, axis=0, initial=2.0), normal((2, 3))),
        OpCase("sum.int32", np.sum, lambda rng: (np.arange(4, dtype=np.int32),), False, 0),
        OpCase("mean.int", np.mean, ints((2, 3)), False, 0),
        OpCase("mean.where", lambda x: np.mean(x, axis=1, where=[True, False, True]), normal((2, 3))),
        OpCase("var.ddof", lambda x: np.var(x, axis=0, ddof=1), normal((4, 3))),
        OpCase("std.where", lambda x: np.std(x, where=[True, True, False]), normal((2, 3))),
        OpCase("max.initial", lambda x: np.max(x, axis=0, initial=0.1), normal((2, 3))),
        OpCase("max.where", lambda x: np.max(x, initial=-9.0, where=[True, False, True]), normal((2, 3))),
        OpCase("average", np.average, normal((2, 3))),
        OpCase("average.weights", lambda x, w: np.average(x, axis=1, weights=w), positive((2, 3), (3,))),
        OpCase("cumsum", np.cumsum, normal((2, 3))),
        OpCase("cumsum.axis", lambda x: np.cumsum(x, axis=1), normal((2, 3))),
        OpCase("cumprod", lambda x: np.cumprod(x, axis=0), normal((3, 2))),
        OpCase("nancumsum", np.nancumsum, normal((2, 3))),
        OpCase("nancumprod", np.nancumprod, normal((4,))),
        OpCase("percentile", lambda x: np.percentile(x, [20, 55.0], axis=1), distinct((3, 5))),
        OpCase("quantile", lambda x: np.quantile(x, 0.3), distinct((3, 5))),
        OpCase("quantile.keepdims", lambda x: np.quantile(x, [0.3, 0.9], axis=0, keepdims=True), distinct((3, 5))),
        OpCase("nanquantile", lambda x: np.nanquantile(x, 0.3, axis=1), distinct((3, 5))),
        OpCase("nanpercentile", lambda x: np.nanpercentile(x, [30, 60]), distinct((3, 5))),
        OpCase("norm", np.linalg.norm, normal((3, 4))),
        OpCase("norm.axis", lambda x: np.linalg.norm(x, axis=1, keepdims=True), normal((3, 4))),
        OpCase("norm.1", lambda x: np.linalg.norm(x, 1), spread((4,))),
        OpCase("norm.3", lambda x: np.linalg.norm(x, 3, axis=0), spread((4, 2))),
        OpCase("norm.inf", lambda x: np.linalg.norm(x, np.inf), distinct((4,))),
        OpCase("norm.matrix1", lambda x: np.linalg.norm(x, 1), spread((3, 3))),
        OpCase("norm.fro", lambda x: np.linalg.norm(x, "fro", axis=(0, 1)), normal((3, 4))),
        OpCase("clip", lambda x: np.clip(x, -0.5, 0.6), normal((7,)), True, 1),
        OpCase("clip.one", lambda x: np.clip(x, None, 0.2), normal((7,)), True, 1),
        OpCase("clip.arrays", np.clip, lambda rng: (rng.normal(size=5), np.full(5, -0.4), np.full(5, 0.7)), True, 1),
        OpCase("nan_to_num", np.nan_to_num, lambda rng: (np.array([np.nan, 1.0, np.inf, -np.inf]),), False, 0),
    ]  # fmt: skip
    return rows


def _shapes() -> list[OpCase]:
    x23, x234 = normal((2, 3)), normal((2, 3, 4))
    return [
        OpCase("reshape", lambda x: np.reshape(x, (3, -1)), x23),
        OpCase("reshape.F", lambda x: np.reshape(x, (3, 2), order="F"), x23),
        OpCase("ravel", np.ravel, x23),
        OpCase("ravel.F", lambda x: np.ravel(x, "F"), x23),
        OpCase("transpose", np.transpose, x234),
        OpCase("transpose.axes", lambda x: np.transpose(x, (1, 0, 2)), x234),
        OpCase("swapaxes", lambda x: np.swapaxes(x, 0, -1), x234),
        OpCase("moveaxis", lambda x: np.moveaxis(x, 0, -1), x234),
        OpCase("rollaxis", lambda x: np.rollaxis(x, 2), x234),
        OpCase("squeeze", np.squeeze, normal((1, 3, 1))),
        OpCase("expand_dims", lambda x: np.expand_dims(x, (0, 2)), x23),
        OpCase("flip", np.flip, x23),
        OpCase("fliplr", np.fliplr, x23),
        OpCase("flipud", np.flipud, x23),
        OpCase("rot90", np.rot90, x23),
        OpCase("rot90.3", lambda x: np.rot90(x, 3), x23),
        OpCase("roll", lambda x: np.roll(x, 2), x23),
        OpCase("roll.axes", lambda x: np.roll(x, (1, -2), (0, 1)), x23),
        OpCase("broadcast_to", lambda x: np.broadcast_to(x, (4, 2, 3)), x23),
        OpCase("broadcast_arrays", lambda x, y: np.broadcast_arrays(x, y)[0], normal((3,), (2, 1))),
        OpCase("atleast_1d", np.atleast_1d, normal(())),
        OpCase("atleast_2d", np.atleast_2d, normal((3,))),
        OpCase("atleast_3d", np.atleast_3d, x23),
        OpCase("concatenate", lambda x, y: np.concatenate([x, y], axis=1), normal((2, 3), (2, 1))),
        OpCase("concatenate.none", lambda x, y: np.concatenate([x, y], axis=None), normal((2, 3), (2,))),
        OpCase("stack", lambda x, y: np.stack([x, y], axis=-1), normal((3,), (3,))),
        OpCase("vstack", lambda x, y: np.vstack([x, y]), normal((3,), (2, 3))),
        OpCase("hstack", lambda x, y: np.hstack([x, y]), normal((2, 3), (2, 1))),
        OpCase("dstack", lambda x, y: np.dstack([x, y]), normal((2, 3), (2, 3))),
        OpCase("column_stack", lambda x, y: np.column_stack([x, y]), normal((3,), (3, 2))),
        OpCase("block", lambda x, y: np.block([[x, y], [y, x]]), normal((2, 2), (2, 2))),
        OpCase("append", lambda x, y: np.append(x, y), x23_pair),
        OpCase("split", lambda x: np.split(x, 2, axis=1)[1], normal((2, 4))),
        OpCase("array_split", lambda x: np.array_split(x, 3)[1], normal((7,))),
        OpCase("split.places", lambda x: np.split(x, [1, 3])[2], normal((5, 2))),
        OpCase("hsplit", lambda x: np.hsplit(x, 2)[0], normal((2, 4))),
        OpCase("vsplit", lambda x: np.vsplit(x, 2)[0], normal((4, 2))),
        OpCase("dsplit", lambda x: np.dsplit(x, 2)[0], normal((1, 2, 4))),
        OpCase("tile", lambda x: np.tile(x, (2, 1, 3)), x23),
        OpCase("repeat", lambda x: np.repeat(x, 3, axis=1), x23),
        OpCase("repeat.counts", lambda x: np.repeat(x, [1, 0, 2], axis=1), x23),
        OpCase("resize", lambda x: np.resize(x, (3, 3)), x23),
        OpCase("tril", np.tril, matrix(3)),
        OpCase("triu", lambda x: np.triu(x, 1), normal((2, 3, 4))),
        OpCase("diag", np.diag, normal((3,))),
        OpCase("diag.k", lambda x: np.diag(x, -1), normal((3,))),
        OpCase("diag.matrix", lambda x: np.diag(x, 1), normal((3, 4))),
        OpCase("diagonal", lambda x: np.diagonal(x, 0, 0, 2), x234),
        OpCase("diagflat", np.diagflat, normal((2, 2))),
        OpCase("trace", np.trace, normal((3, 4))),
        OpCase("vander", lambda x: np.vander(x, 4), normal((3,))),
        OpCase("meshgrid", lambda x, y: np.meshgrid(x, y)[1], normal((3,), (2,))),
        OpCase("zeros_like", lambda x: np.zeros_like(x) + x, x23),
        OpCase("ones_like", lambda x: np.ones_like(x) * x, x23),
        OpCase("full_like", lambda x: np.full_like(x, 2.5) * x, x23),
        OpCase("linspace", lambda a, b: np.linspace(a, b, 5), normal((), ())),
        OpCase("linspace.arrays", lambda a, b: np.linspace(a, b, 4, axis=-1), normal((3,), (3,))),
        OpCase("logspace", lambda a, b: np.logspace(a, b, 4), normal((), ())),
        OpCase("geomspace", lambda a, b: np.geomspace(a, b, 4), positive((), ())),
        OpCase("astype", lambda x: x.astype(np.float32), x23, True, 0),
        OpCase("sort", lambda x: np.sort(x, axis=0), distinct((4, 3))),
        OpCase("argsort", np.argsort, distinct((4, 3)), False, 0),
        OpCase("partition", lambda x: np.sort(np.partition(x, 2)), distinct((6,))),
        OpCase("delete", lambda x: np.delete(x, [0, 2]), normal((5,))),
        OpCase("insert", lambda x: np.insert(x, 2, 7.0), normal((5,))),
        OpCase("real", np.real, x23),
        OpCase("copy", np.copy, x23),
        *[
            OpCase(f"pad.{mode}", _pad(mode), normal((3, 4)))
            for mode in ["constant", "edge", "reflect", "symmetric", "wrap", "mean", "linear_ramp"]
        ],
        *[
            OpCase(f"pad.{mode}", _pad(mode), distinct((3, 4)))
            for mode in ["maximum", "minimum", "median"]
        ],
        OpCase("pad.values", lambda x: np.pad(x, ((1, 0), (2, 1)), constant_values=((1, 2), (3, 4))), x23),
    ]  # fmt: skip


def _pad(mode: str) -> Callable[[Any], Any]:
    return lambda x: np.pad(x, ((1, 2), (0, 2)), mode)


def x23_pair(rng: np.random.Generator) -> tuple[Any, ...]:
    """Two arrays."""
    return rng.normal(size=(2, 3)), rng.normal(size=2)


def _indexing() -> list[OpCase]:
    x = normal((4, 5))
    x3 = normal((2, 3, 4))
    picks = np.array([[0, 2], [-1, 1]])
    return [
        OpCase("index.int", lambda x: x[1], x),
        OpCase("index.negative", lambda x: x[-1], x),
        OpCase("index.two", lambda x: x[1, -2], x),
        OpCase("index.slice", lambda x: x[1:3], x),
        OpCase("index.step", lambda x: x[::2, ::-1], x),
        OpCase("index.back", lambda x: x[3:0:-2], x),
        OpCase("index.empty", lambda x: x[3:1], x),
        OpCase("index.newaxis", lambda x: x[:, None, 1:], x),
        OpCase("index.ellipsis", lambda x: x[..., 1], x3),
        OpCase("index.array", lambda x: x[picks], x),
        OpCase("index.column", lambda x: x[:, [0, 2, 2]], x),
        OpCase("index.pair", lambda x: x[[0, 1], [2, 3]], x),
        OpCase("index.apart", lambda x: x[[0, 1], :, [2, 3]], x3),
        OpCase("index.middle", lambda x: x[:, [0, 2], [1, 1]], x3),
        OpCase("index.mixed", lambda x: x[1, :, [0, 3, 3]], x3),
        OpCase("index.adjacent", lambda x: x[:, 1, [0, 3, 3]], x3),
        OpCase("index.mask", lambda x: x[np.array([True, False, True, True])], x),
        OpCase("index.mask2", lambda x: x[np.arange(20).reshape(4, 5) % 3 == 0], x),
        OpCase("index.value_mask", lambda x: x[x > 0], x, known=True),
        OpCase("index.traced", lambda x, i: x[i], lambda rng: (rng.normal(size=(4, 3)), np.int64(-2))),
        OpCase("index.traced2", lambda x, i: x[1:, i, None], lambda rng: (rng.normal(size=(4, 3)), np.array([0, 2, -1]))),
        OpCase("at.set", lambda x, v: x.at[1:3].set(v) if hasattr(x, "at") else _assign(x, np.s_[1:3], v), normal((4, 3), (3,))),
        OpCase("at.step", lambda x, v: x.at[::2, ::-1].set(v) if hasattr(x, "at") else _assign(x, np.s_[::2, ::-1], v), normal((4, 3), (3,))),
        OpCase("at.add", lambda x, v: x.at[[0, 0, 2]].add(v) if hasattr(x, "at") else _added(x, [0, 0, 2], v), normal((4, 3), (3, 3))),
        OpCase("at.int", lambda x, v: x.at[1, 2].set(v) if hasattr(x, "at") else _assign(x, (1, 2), v), normal((4, 3), ())),
        OpCase("at.mixed", lambda x, v: x.at[1:3, [0, 2]].set(v) if hasattr(x, "at") else _assign(x, np.s_[1:3, [0, 2]], v), normal((4, 3), (2, 2))),
        OpCase("take", lambda x: np.take(x, picks, axis=1), x),
        OpCase("take.flat", lambda x: np.take(x, [3, 7]), x),
        OpCase("take.wrap", lambda x: np.take(x, [9, -7], mode="wrap", axis=0), x),
        OpCase("take_along_axis", lambda x: np.take_along_axis(x, np.array([[1, 0], [2, 2], [0, 4], [3, 1]]), 1), x),
        OpCase("where", lambda x, y: np.where(x > y, x, y * 2), normal((2, 3), (3,))),
        OpCase("select", lambda x: np.select([x > 1, x > 0], [x * 2, x * x], -x), spread((7,))),
        OpCase("choose", lambda x: np.choose([0, 1, 0], [x, x * x]), normal((3,))),
        OpCase("piecewise", lambda x: np.piecewise(x, [x < 0, x > 1], [np.sin, 2.0, np.cos]), spread((7,))),
        OpCase("compress", lambda x: np.compress([True, False, True], x, axis=0), x),
        OpCase("extract", lambda x: np.extract(np.eye(4, 5) > 0, x), x),
        OpCase("searchsorted", lambda v: np.searchsorted(np.array([0.0, 1, 1, 2]), v), normal((5,)), False, 0),
        OpCase("searchsorted.right", lambda a, v: np.searchsorted(a, v, "right"), lambda rng: (np.sort(rng.normal(size=9)), rng.normal(size=(2, 3))), False, 0),
        OpCase("digitize", lambda x: np.digitize(x, [-1.0, 0, 1]), normal((5,)), False, 0),
        OpCase("nonzero", lambda x: np.nonzero(x > 0)[0], x, False, 0, known=True),
        OpCase("flatnonzero", np.flatnonzero, x, False, 0, known=True),
        OpCase("argwhere", np.argwhere, x, False, 0, known=True),
        OpCase("bincount", lambda w: np.bincount([0, 2, 2, 1], w), normal((4,))),
    ]  # fmt: skip


def _assign(x: Any, index: Any, value: Any) -> Any:
    out = np.array(x)
    out[index] = value
    return out


def _added(x: Any, index: Any, value: Any) -> Any:
    out = np.array(x)
    np.add.at(out, index, value)
    return out


def _linear() -> list[OpCase]:
    shapes = {
        "vv": ((3,), (3,)), "mv": ((2, 3), (3,)), "vm": ((3,), (3, 4)), "mm": ((2, 3), (3, 4)),
        "bm": ((5, 2, 3), (3, 4)), "mb": ((2, 3), (5, 3, 4)), "bb": ((5, 2, 3), (5, 3, 4)),
        "bv": ((5, 2, 3), (3,)), "vb": ((3,), (5, 3, 4)), "broadcast": ((1, 5, 2, 3), (4, 1, 3, 2)),
    }  # fmt: skip
    rows = [OpCase(f"matmul.{k}", np.matmul, normal(*v), dtypes="df") for k, v in shapes.items()]
    rows += [
        OpCase(f"dot.{k}", np.dot, normal(*shapes[k])) for k in ("vv", "mv", "vm", "mm", "bv", "mb")
    ]
    equations = {
        "ij,jk->ik": ((2, 3), (3, 4)), "bij,bjk->bik": ((2, 2, 3), (2, 3, 2)), "ii->i": ((3, 3),),
        "ii": ((3, 3),), "ij->ji": ((2, 3),), "ij->": ((2, 3),), "i,j->ij": ((2,), (3,)),
        "ij,ij->i": ((2, 3), (2, 3)), "ij,jk,kl->il": ((2, 3), (3, 4), (4, 2)),
        "...ij,...jk->...ik": ((5, 2, 3), (3, 4)), "ii,ij->j": ((3, 3), (3, 2)), "i,i": ((3,), (3,)),
        "ijk,k->ji": ((2, 3, 4), (4,)), "ij,k->i": ((2, 3), (4,)), "ij,ij,ij->": ((2, 3),) * 3,
        "bhqd,bhkd->bhqk": ((2, 2, 3, 2), (2, 2, 3, 2)), "iij->j": ((3, 3, 2),),
    }  # fmt: skip
    rows += [
        OpCase(f"einsum.{eq}", lambda *xs, eq=eq: np.einsum(eq, *xs), normal(*v))
        for eq, v in equations.items()
    ]
    rows += [
        OpCase("vdot", np.vdot, normal((2, 3), (2, 3))),
        OpCase("inner", np.inner, normal((2, 3), (4, 3))),
        OpCase("outer", np.outer, normal((2,), (3,))),
        OpCase("tensordot", lambda x, y: np.tensordot(x, y, 1), normal((2, 3), (3, 4))),
        OpCase("tensordot.axes", lambda x, y: np.tensordot(x, y, ((0, 2), (1, 0))), normal((2, 3, 4), (4, 2, 5))),
        OpCase("kron", np.kron, normal((2, 3), (3, 2))),
        OpCase("cross", np.cross, normal((2, 3), (3,))),
        OpCase("matrix_power", lambda x: np.linalg.matrix_power(x, 3), normal((3, 3))),
        OpCase("multi_dot", lambda x, y, z: np.linalg.multi_dot([x, y, z]), normal((2, 3), (3, 4), (4, 2))),
    ]  # fmt: skip
    return rows


def _calculus() -> list[OpCase]:
    return [
        OpCase("diff", np.diff, normal((5,))),
        OpCase("diff.2", lambda x: np.diff(x, 2, axis=0, prepend=1.0), normal((5, 2))),
        OpCase("ediff1d", lambda x: np.ediff1d(x, to_end=[1.0], to_begin=0.0), normal((5,))),
        OpCase("gradient", np.gradient, normal((6,))),
        OpCase("gradient.2d", lambda x: np.gradient(x)[1], normal((4, 5))),
        OpCase("gradient.spacing", lambda x: np.gradient(x, np.array([0.0, 1, 1.5, 3, 4]), edge_order=2), normal((5,))),
        OpCase("gradient.axis", lambda x: np.gradient(x, 0.5, axis=0, edge_order=2), normal((5, 2))),
        OpCase("interp", lambda x, f: np.interp(x, [0.0, 1, 2.5, 4], f), lambda rng: (np.array([-1.0, 0.5, 1.7, 3, 9]), rng.normal(size=4))),
        OpCase("interp.ends", lambda x: np.imag(np.interp(x, [0.0, 1, 2], [1.0, 2j, 3], left=0.5, right=1 - 2j)), lambda rng: (np.array([-1.0, 0.5, 3.0]),)),
        OpCase("interp.period", lambda x, f: np.interp(x, [0.0, 2, 1], f, period=3.0), lambda rng: (np.array([-1.3, 0.5, 1.7, 3.2]), rng.normal(size=3))),
        OpCase("unwrap", np.unwrap, lambda rng: (np.array([0.0, 1, 5, 8, 9, 15, 14, 2]),)),
        OpCase("convolve", np.convolve, normal((5,), (3,))),
        OpCase("convolve.same", lambda x, y: np.convolve(x, y, "same"), normal((3,), (6,))),
        OpCase("convolve.valid", lambda x, y: np.convolve(x, y, "valid"), normal((6,), (3,))),
        OpCase("correlate", np.correlate, normal((6,), (3,))),
        OpCase("correlate.full", lambda x, y: np.correlate(x, y, "full"), normal((3,), (5,))),
        OpCase("correlate.same", lambda x, y: np.correlate(x, y, "same"), normal((3,), (6,))),
        OpCase("polyval", np.polyval, normal((4,), (3,))),
        OpCase("polyadd", np.polyadd, normal((4,), (2,))),
        OpCase("polysub", np.polysub, normal((1,), (3,))),
        OpCase("polymul", np.polymul, normal((4,), (2,))),
        OpCase("polyder", lambda p: np.polyder(p, 2), normal((5,))),
        OpCase("polyint", lambda p: np.polyint(p, 2, [1.0, 2.0]), normal((3,))),
        OpCase("cov", np.cov, normal((3, 5))),
        OpCase("cov.y", lambda x, y: np.cov(x, y, bias=True), normal((5,), (5,))),
        OpCase("corrcoef", np.corrcoef, normal((3, 5)), True, 1),
        OpCase("trapezoid", lambda y: np.trapezoid(y, dx=0.5, axis=0), normal((5, 2))),
        OpCase("trapezoid.x", lambda y, x: np.trapezoid(y, x), normal((2, 5), (5,))),
        OpCase("add.reduce", np.add.reduce, normal((3, 4))),
        OpCase("logaddexp.reduce", np.logaddexp.reduce, normal((5, 2))),
        OpCase("maximum.reduce", lambda x: np.maximum.reduce(x, axis=None), distinct((3, 4))),
        OpCase("subtract.reduce", np.subtract.reduce, normal((4, 2))),
        OpCase("multiply.accumulate", np.multiply.accumulate, normal((4, 2))),
        OpCase("maximum.accumulate", np.maximum.accumulate, distinct((6,))),
        OpCase("subtract.outer", np.subtract.outer, normal((2,), (3,))),
        OpCase("cumulative_sum", lambda x: np.cumulative_sum(x, include_initial=True), normal((4,))),
        OpCase("apply_over_axes", lambda x: np.apply_over_axes(np.sum, x, [0, 2]), normal((2, 3, 2))),
    ]  # fmt: skip


def _sets() -> list[OpCase]:
    x = normal((4, 5))
    return [
        OpCase(
            "array_equal",
            lambda x, y: np.array_equal(x, y, equal_nan=True),
            normal((3,), (3,)),
            False,
            0,
        ),
        OpCase("array_equiv", np.array_equiv, normal((2, 3), (3,)), False, 0),
        OpCase("allclose", lambda x: np.allclose(x, x + 1e-12), x, False, 0),
        OpCase("isin", lambda a: np.isin(a, [1, 3]), ints((2, 3), low=0, high=4), False, 0),
        OpCase(
            "isin.invert",
            lambda a: np.isin(a, [1, 3], invert=True),
            ints((2, 3), low=0, high=4),
            False,
            0,
        ),
        OpCase("unique", np.unique, distinct((5,)), known=True),
        OpCase(
            "unique.counts",
            lambda x: np.unique(x, return_counts=True)[1],
            lambda rng: (np.array([3.0, 1, 3, 2]),),
            False,
            0,
            known=True,
        ),
        OpCase("union1d", lambda x: np.union1d(x, [0.5]), distinct((4,)), known=True),
        OpCase(
            "trim_zeros",
            np.trim_zeros,
            lambda rng: (np.array([0.0, 1, 0, 2, 0]),),
            known=True,
            differentiable=False,
            order=0,
        ),
        OpCase("histogram", lambda x: np.histogram(x, bins=5), normal((30,)), False, 0),
        OpCase(
            "histogram.range",
            lambda x: np.histogram(x, bins=4, range=(-1, 1)),
            normal((30,)),
            False,
            0,
        ),
        OpCase(
            "histogram.edges",
            lambda x, w: np.histogram(x, [-1.0, 0, 0.5, 2], weights=w)[0],
            normal((30,), (30,)),
            False,
            0,
        ),
        OpCase(
            "histogram.density",
            lambda x: np.histogram(x, 3, density=True)[0],
            normal((30,)),
            False,
            0,
        ),
        OpCase("apply_along_axis", lambda x: np.apply_along_axis(lambda r: r * r.sum(), 0, x), x),
        OpCase("apply_along_axis.scalar", lambda x: np.apply_along_axis(np.sum, 1, x), x),
        OpCase("tril_indices_from", lambda x: x[np.tril_indices_from(x)], matrix(3)),
        OpCase("fftshift", np.fft.fftshift, x),
        OpCase("ifftshift", lambda x: np.fft.ifftshift(x, axes=1), x),
        OpCase("angle", np.angle, normal((5,)), False, 0),
        OpCase(
            "lexsort", lambda x, y: np.lexsort((x, y)), ints((6,), (6,), low=0, high=3), False, 0
        ),
    ]


def _complex() -> list[OpCase]:
    """Functions of two real arrays that are the parts of a complex one."""
    two = normal((3,), (3,))

    def of(name: str, fun: Callable[[Any], Any], smooth: bool = True) -> OpCase:
        return OpCase(
            f"complex.{name}", lambda x, y: fun(x + 1j * y), two, smooth, 2 if smooth else 0
        )

    holomorphic = ("exp", "log", "sqrt", "sin", "cos", "tanh", "square", "reciprocal", "expm1",
                   "arctan", "arcsinh")  # fmt: skip
    return [
        *[of(n, lambda z, n=n: np.abs(getattr(np, n)(z)) ** 2) for n in holomorphic],
        of("real", lambda z: np.real(z * z)),
        of("imag", lambda z: (z * z).imag),
        of("conj", lambda z: (z * np.conj(z)).real),
        of("abs", np.abs),
        of("angle", np.angle),
        of("sign", lambda z: np.sign(z).imag),
        of("power", lambda z: np.abs(z**3)),
        of("mean", lambda z: np.mean(z).imag),
        of("var", np.var),
        of("std", np.std),
        of("norm", np.linalg.norm),
        of("norm.3", lambda z: np.linalg.norm(z, 3)),
        of("prod", lambda z: np.prod(z).real),
        of("vdot", lambda z: np.vdot(z, z * z).imag),
        of("matmul", lambda z: np.real(z @ (z * 2j))),
        of("correlate", lambda z: np.abs(np.correlate(z, z * z, "full"))),
        of("cov", lambda z: np.real(np.cov(z, z * z))),
        of("interp", lambda z: np.imag(np.interp([0.5, 1.2], [0.0, 1, 2], z))),
        of("where", lambda z: np.real(np.where(np.array([True, False, True]), z, z * z))),
        of("isclose", lambda z: np.isclose(z, z + 1e-12), False),
        of("isreal", np.isreal, False),
        of("isfinite", np.isfinite, False),
    ]


COMPLEX_CASES: list[OpCase] = _complex()
OP_CASES: list[OpCase] = [
    *_unary(), *_binary(), *_operators(), *_reductions(), *_shapes(), *_indexing(), *_linear(),
    *_calculus(), *_sets(), *MORE_CASES,
]  # fmt: skip
