"""Keyword arguments, dtypes and edge cases of single functions, against NumPy."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad.numpy  # noqa: F401  (installs the NumPy surface)
from fgrad.ir.aval import aval_of
from fgrad.trace import Builder, concrete, run, trace

A = np.random.default_rng(1).normal(size=(3, 4))
B = np.random.default_rng(2).normal(size=(3, 4))
MASK = A > 0
NAN = np.where(A > 1, np.nan, A)
INF = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0])
V = np.array([3.0, 1.0, 2.0, 1.0])


def _flat(out: Any) -> list[Any]:
    return [y for x in out for y in _flat(x)] if isinstance(out, (tuple, list)) else [out]


def _check(fun: Callable[..., Any], *args: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        expected = _flat(fun(*args))
        program = trace(lambda *xs: _flat(fun(*xs)), [aval_of(x) for x in args]).program
        got = run(program, args)
        with Builder("test", "f", eager=True) as builder:
            eager = _flat(fun(*[builder.input(x) for x in args]))
    for e, results in zip(expected, zip(got, eager, strict=True), strict=True):
        for r in results:
            r, e = np.asarray(concrete(r)), np.asarray(e)
            assert (r.dtype, r.shape) == (e.dtype, e.shape)
            tolerance = {"e": 2e-3, "f": 1e-5, "d": 1e-12}.get(e.dtype.char, 0)
            np.testing.assert_allclose(r, e, rtol=tolerance, atol=tolerance)


CALLS: dict[str, tuple[Any, ...]] = {
    "ufunc.where": (lambda x, y: np.where(MASK, np.add(x, y, out=None, where=MASK), 0.0), A, B),
    "ufunc.dtype": (lambda x, y: np.add(x, y, dtype=np.float32), A, B),
    "ufunc.dtype1": (lambda x: np.sin(x, dtype=np.float32), A),
    "ufunc.casting": (lambda x: np.multiply(x, 2, casting="same_kind"), A),
    "sum.dtype": (lambda x: np.sum(x, dtype=np.float32), A),
    "sum.none": (lambda x: np.sum(x, axis=()), A),
    "sum.method": (lambda x: x.sum(0, keepdims=True), A),
    "sum.scalar": (lambda x: np.sum(x[0, 0]), A),
    "sum.empty": (lambda x: np.sum(x[:0], axis=0), A),
    "prod.where": (lambda x: np.prod(x, axis=1, where=MASK, initial=2.0), A),
    "mean.dtype": (lambda x: np.mean(x, axis=1, dtype=np.float32), A),
    "mean.method": (lambda x: x.mean((0, 1)), A),
    "mean.empty": (lambda x: np.mean(x[:, :0], axis=1), A),
    "var.mean": (lambda x: np.var(x, axis=1, mean=np.mean(x, axis=1, keepdims=True)), A),
    "var.correction": (lambda x: np.var(x, axis=0, correction=1), A),
    "var.where": (lambda x: np.var(x, axis=1, where=MASK, ddof=1), A),
    "std.constant": (lambda x: np.std(x * 0), A),
    "nan.sum": (lambda x: np.nansum(x, axis=0), NAN),
    "nan.mean": (lambda x: np.nanmean(x, axis=1, keepdims=True), NAN),
    "nan.var": (lambda x: np.nanvar(x, axis=1, ddof=1), NAN),
    "nan.std": (lambda x: np.nanstd(x), NAN),
    "nan.max": (lambda x: np.nanmax(x, axis=0), NAN),
    "nan.min": (lambda x: np.nanmin(x), NAN),
    "nan.argmax": (lambda x: np.nanargmax(x, axis=1), NAN),
    "nan.median": (lambda x: np.nanmedian(x, axis=0), NAN),
    "nan.quantile": (lambda x: np.nanquantile(x, [0.1, 0.5, 0.9], axis=1, keepdims=True), NAN),
    "nan.cumsum": (lambda x: np.nancumsum(x, axis=1), NAN),
    "nan.all": (lambda x: np.nanmax(x * np.nan), NAN),
    "max.nan": (lambda x: np.max(x, axis=0), NAN),
    "argmax.nan": (lambda x: np.argmax(x, axis=1), NAN),
    "argmax.keepdims": (lambda x: np.argmax(x, keepdims=True), A),
    "median.nan": (lambda x: np.median(x, axis=1, keepdims=True), NAN),
    "median.even": (lambda x: np.median(x, axis=(0, 1)), A),
    "quantile.nan": (lambda x: np.quantile(x, 0.3, axis=0), NAN),
    "count_nonzero": (lambda x: np.count_nonzero(x > 0, axis=1, keepdims=True), A),
    "average.returned": (lambda x: np.average(x, axis=0, weights=np.arange(3.0), returned=True), A),
    "average.keepdims": (lambda x: np.average(x, axis=0, keepdims=True), A),
    "logaddexp.inf": (lambda x: np.logaddexp(x, -np.inf), INF),
    "logaddexp.pairs": (lambda x: np.logaddexp(x[:, None], x), INF),
    "logaddexp2.pairs": (lambda x: np.logaddexp2(x[:, None], x), INF),
    "hypot.pairs": (lambda x: np.hypot(x[:, None], x), INF),
    "hypot.large": (lambda x: np.hypot(x * 1e300, 1e300), A),
    "hypot.small": (lambda x: np.hypot(x * 1e-300, 1e-300), A),
    "fmax.nan": (lambda x: np.fmax(x[:, None], x), INF),
    "maximum.nan": (lambda x: np.maximum(x[:, None], x), INF),
    "heaviside": (lambda x: np.heaviside(x, 0.5), INF),
    "sinc": (lambda x: np.sinc(x), np.array([0.0, 1e-9, 1e-3, 0.031, 0.032, 0.5, 3.0])),
    "modf": (lambda x: np.modf(x * 2.5), INF),
    "sign": (lambda x: np.sign(x), INF),
    "copysign": (lambda x: np.copysign(2.0, x), INF[INF == INF]),
    "nan_to_num": (lambda x: np.nan_to_num(x, nan=1.0, posinf=2.0), INF),
    "clip.order": (lambda x: np.clip(x, 1.0, -1.0), A),
    "clip.keywords": (lambda x: np.clip(x, min=-0.5, max=None), A),
    "clip.method": (lambda x: x.clip(0), A),
    "clip.int": (lambda x: np.clip(x.astype(int), -0.5, 1), A * 3),
    "round.method": (lambda x: x.round(1), A),
    "round.int": (lambda x: np.round(x.astype(int), -1), A * 37),
    "astype.bool": (lambda x: x.astype(bool), A),
    "astype.int": (lambda x: x.astype("i4"), A * 5),
    "T": (lambda x: (x.T, x.mT, x.real, x.imag), A),
    "reshape.tuple": (lambda x: (x.reshape((4, 3)), x.reshape(2, -1), x.flatten("F")), A),
    "transpose.method": (lambda x: (x.transpose(), x.transpose(1, 0), x.transpose((1, 0))), A),
    "squeeze.axis": (lambda x: x[None, :, None].squeeze((0, 2)), A),
    "take.clip": (lambda x: x.take([9, -9, 1], mode="clip"), A),
    "take.scalar": (lambda x: np.take(x, 2, axis=1), A),
    "repeat.method": (lambda x: x.repeat(2), A),
    "insert.many": (lambda x: np.insert(x, [1, 3], 5.0, axis=1), A),
    "insert.array": (lambda x, y: np.insert(x, 2, y, axis=1), A, B[:, 0]),
    "delete.slice": (lambda x: np.delete(x, slice(0, 4, 2), axis=1), A),
    "where.scalars": (lambda x: np.where(x > 0, 1, 0.5), A),
    "where.ints": (lambda x: np.where(x > 0, 1, 0), A),
    "choose.clip": (lambda x: np.choose([5, 0, -1, 1], [x, x * 2], mode="clip"), A),
    "select.default": (lambda x: np.select([x > 1], [x], 7), A),
    "sort.none": (lambda x: np.sort(x, axis=None), A),
    "argsort.ties": (lambda x: np.argsort(x, kind="stable"), V),
    "searchsorted.nan": (lambda x: np.searchsorted(np.sort(x), x), INF),
    "searchsorted.right": (lambda x: np.searchsorted(np.sort(x), x, side="right"), INF),
    "searchsorted.sorter": (lambda x: np.searchsorted(x, 1.5, sorter=np.argsort(x)), V),
    "digitize.down": (lambda x: np.digitize(x, np.array([2.0, 1.0, 0.0]), right=True), V),
    "interp.ends": (lambda x: np.interp(x, [0.0, 1.0], [5.0, 6.0], left=-1.0, right=9.0), A),
    "interp.int": (lambda x: np.interp(x, [0, 1, 3], [5, 6, 2]), V),
    "interp.one": (lambda x: np.interp(x, [1.0], [6.0]), V),
    "diff.bool": (lambda x: np.diff(x > 1.5), V),
    "diff.none": (lambda x: np.diff(x, 0), V),
    "gradient.int": (lambda x: np.gradient(x.astype(int)), V * 3),
    "trapezoid.2d": (lambda y, x: np.trapezoid(y, x, axis=0), A, np.sort(B, axis=0)),
    "unwrap.period": (lambda x: np.unwrap(x * 100, period=360, axis=0), A),
    "convolve.int": (lambda x: np.convolve(x.astype(int), [1, 2]), V),
    "convolve.nan": (lambda x, y: np.convolve(x, y), V, np.array([1.0, np.nan, np.inf])),
    "correlate.nan": (lambda x, y: np.correlate(x, y, "same"), V, np.array([np.nan, 1.0, 2.0])),
    "polyval.scalar": (lambda p: np.polyval(p, 2.0), V),
    "polyval.int": (lambda x: np.polyval([1, 2, 3], x), V),
    "cov.ddof": (lambda x: np.cov(x, rowvar=False, ddof=0), A),
    "cov.weights": (lambda x, w: np.cov(x, aweights=w), A, np.arange(1.0, 5.0)),
    "cov.counts": (lambda x: np.cov(x, fweights=[1, 2, 1, 3]), A),
    "cov.both": (lambda x, w: np.cov(x, fweights=[1, 2, 1, 3], aweights=w), A, np.arange(1.0, 5)),
    "cov.vector": (lambda x: np.cov(x), V),
    "corrcoef.vector": (lambda x: np.corrcoef(x, x[::-1]), V),
    "linspace.int": (lambda x: np.linspace(x, 9, 4, dtype=int), V),
    "linspace.step": (lambda x: np.linspace(x, 9, 4, endpoint=False, retstep=True), V),
    "linspace.one": (lambda x: np.linspace(x, 9, 1), V),
    "meshgrid.ij": (lambda x: np.meshgrid(x, [1.0, 2], indexing="ij", sparse=True), V),
    "zeros_like.args": (lambda x: np.zeros_like(x, dtype=int, shape=(2,)), V),
    "full_like.scalar": (lambda x: np.full_like(x, x[0]), V),
    "ones.method": (lambda x: np.ones_like(x[0]), V),
    "pad.pairs": (lambda x: np.pad(x, [(1, 2), (0, 1)], constant_values=3.5), A),
    "pad.odd": (lambda x: np.pad(x, 2, "reflect", reflect_type="odd"), A),
    "pad.stat": (lambda x: np.pad(x, ((2, 1), (0, 0)), "mean", stat_length=2), A),
    "pad.ramp": (lambda x: np.pad(x, 2, "linear_ramp", end_values=(5, -4)), A),
    "pad.int": (lambda x: np.pad(x.astype(int), 1, "mean"), A * 5),
    "tile.more": (lambda x: np.tile(x, (2, 1, 2)), V),
    "einsum.lists": (lambda x, y: np.einsum(x, [0, 1], y, [0, 1], [1]), A, B),
    "einsum.implicit": (lambda x, y: np.einsum("ba,bc", x, y), A, B),
    "einsum.ellipsis": (lambda x, y: np.einsum("...a,...a", x, y), A, B),
    "einsum.optimize": (lambda x, y: np.einsum("ij,kj,kl->il", x, y, y, optimize=True), A, B),
    "einsum.ones": (lambda x, y: np.einsum("ij,ij->ij", x[:1], y), A, B),
    "tensordot.0": (lambda x, y: np.tensordot(x[0], y[0], 0), A, B),
    "cross.axis": (lambda x, y: np.cross(x, y, axis=0), A, B),
    "kron.1d": (lambda x, y: np.kron(x[0], y), A, B),
    "trace.offset": (lambda x: np.trace(x, 1), A),
    "diagonal.axes": (lambda x: np.diagonal(x[None], -1, 2, 1), A),
    "norm.orders": (
        lambda x: [np.linalg.norm(x, p) for p in (None, "fro", 1, -1, np.inf, -np.inf)],
        A,
    ),
    "norm.vector": (lambda x: [np.linalg.norm(x, p) for p in (None, 0, 1, 2, 3.5, -2, np.inf)], V),
    "norm.zero": (lambda x: np.linalg.norm(x * 0, axis=1), A),
    "norm.axes": (lambda x: np.linalg.norm(x, 1, axis=(1, 0), keepdims=True), A),
    "vector_norm": (lambda x: np.linalg.vector_norm(x, axis=0, ord=3), A),
    "matrix_norm": (lambda x: np.linalg.matrix_norm(x, keepdims=True), A),
    "reduce": (lambda x: np.add.reduce(x, axis=(0, 1), keepdims=True), A),
    "reduce.where": (lambda x: np.maximum.reduce(x, axis=1, where=MASK, initial=-5.0), A),
    "reduce.logical": (lambda x: np.logical_or.reduce(x > 1, axis=1), A),
    "reduce.bits": (lambda x: np.bitwise_xor.reduce(x.astype(int), axis=0), A * 9),
    "accumulate": (lambda x: np.add.accumulate(x, axis=1, dtype=np.float32), A),
    "accumulate.min": (lambda x: np.minimum.accumulate(x, axis=0), A),
    "outer": (lambda x, y: np.multiply.outer(x, y), A, B[0]),
    "divmod": (lambda x: divmod(x, 0.7), A),
    "math": (lambda x: [round(x[0, 0], 1), abs(x[0, 0]), -x[0], +x[0]], A),
    "isin.tracer": (lambda x, y: np.isin(x, y), V, V[:2]),
    "bincount": (lambda w: np.bincount([0, 3, 3, 1], w, minlength=6), V),
    "ix_": (lambda x, i: x[np.ix_(i, [1, 3])], A, np.array([2, 0])),
    "broadcast_arrays": (lambda x, y: np.broadcast_arrays(x, y[:1]), A, B),
}
if np.lib.NumpyVersion(np.__version__) >= "2.3.0":
    CALLS["pad.dict"] = (lambda x: np.pad(x, {-1: (1, 2)}), A)


@pytest.mark.parametrize("name", CALLS)
def test_call(name: str) -> None:
    _check(*CALLS[name])


REDUCTIONS = (
    "sum", "prod", "mean", "var", "std", "max", "min", "ptp", "argmax", "any", "all", "cumsum",
    "cumprod", "median", "nansum", "nanmean", "nanmax", "nanstd", "count_nonzero", "average",
)  # fmt: skip


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_of_every_dtype(name: str) -> None:
    for char, axis in itertools.product("?bBhHiIlLefd", (None, 0)):
        if (name, char) in (("ptp", "?"), ("median", "?")):
            continue
        x = np.array([[3, 1, 2], [0, 1, 5]]).astype(char)
        _check(lambda a, axis=axis: getattr(np, name)(a, axis=axis), x)


FUNCTIONS = (
    "sinc", "nan_to_num", "round", "diff", "gradient", "ediff1d", "sort", "argsort", "trapezoid",
    "cov", "tril", "vander", "angle", "fix", "isposinf", "unwrap", "real", "iscomplex", "square",
)  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_every_dtype(name: str) -> None:
    for char in "bBhHiIlLefd":
        _check(getattr(np, name), np.array([3, 1, 2, 9]).astype(char))


BINARY = (
    "dot", "matmul", "inner", "outer", "vdot", "convolve", "correlate", "kron", "isclose",
    "concatenate", "where", "interp", "polyval", "tensordot", "searchsorted", "append", "average",
)  # fmt: skip


@pytest.mark.parametrize("name", BINARY)
def test_products_of_every_pair_of_dtypes(name: str) -> None:
    def fun(x: Any, y: Any) -> Any:
        if name == "concatenate":
            return np.concatenate([x, y])
        if name == "where":
            return np.where(np.array([True, False, True]), x, y)
        if name == "interp":
            return np.interp(x, np.arange(3.0), y)
        if name == "tensordot":
            return np.tensordot(x, y, 1)
        if name == "average":
            return np.average(x, weights=y)
        return getattr(np, name)(x, y)

    for one, two in itertools.product("?bBilLefd", repeat=2):
        _check(fun, np.array([3, 1, 2]).astype(one), np.array([1, 2, 4]).astype(two))
