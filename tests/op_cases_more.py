# ruff: noqa: E501
"""More rows of the table in `op_cases`: what fewer programs need.

`fnp` on plain arrays is NumPy's own function, so that such a row is compared with NumPy too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from op_domains import OpCase, distinct, ints, normal, positive, spread, truth, unit

import fgrad.numpy as fnp

WINDOWS = np.lib.stride_tricks.sliding_window_view


def _discrete(name: str, fun: Callable[..., Any], args: Any, known: bool = False) -> OpCase:
    return OpCase(name, fun, args, False, 0, known)


def _integers() -> list[OpCase]:
    pair = ints((5,), (5,), low=-20, high=60)
    small = ints((2, 3), low=0, high=6)
    return [
        _discrete("gcd", np.gcd, pair),
        _discrete("gcd.scalar", lambda x: np.gcd(x, 12), ints((2, 3), low=-40, high=40)),
        _discrete("lcm", np.lcm, pair),
        _discrete("gcd.reduce", np.gcd.reduce, ints((4, 3), low=1, high=60)),
        _discrete("bitwise_count", lambda x: fnp.bitwise_count(x), ints((6,), low=-500, high=500)),
        _discrete("frexp.exponent", lambda x: np.frexp(x)[1], normal((6,))),
        OpCase("frexp", lambda x: np.frexp(x)[0], normal((6,)), order=1, dtypes="df"),
        OpCase("ldexp.traced", lambda x, n: np.ldexp(x, n), lambda rng: (rng.normal(size=4), rng.integers(-5, 6, 4))),
        _discrete("packbits", lambda x: np.packbits(x, axis=0), truth((11, 2))),
        _discrete("packbits.little", lambda x: np.packbits(x, bitorder="little"), truth((11,))),
        _discrete("unpackbits", lambda x: np.unpackbits(x.astype(np.uint8), axis=1, count=5), small),
        _discrete("unravel_index", lambda i: np.unravel_index(i, (2, 3)), small),
        _discrete("ravel_multi_index", lambda i, j: np.ravel_multi_index((i, j), (6, 7), order="F"), ints((4,), (4,), low=0, high=6)),
        _discrete("reciprocal.int", lambda x: np.reciprocal(x), ints((5,), low=1, high=4)),
        _discrete("spacing.float16", lambda x: np.spacing(x.astype(np.float16)), normal((5,))),
        *[
            _discrete(f"{n}.reduce", getattr(np, n).reduce, ints((4, 3), low=1, high=9))
            for n in ("bitwise_and", "bitwise_or", "logical_xor", "minimum", "floor_divide")
        ],
        _discrete("bitwise_or.axes", lambda x: np.bitwise_or.reduce(x, axis=(0, 1), keepdims=True), ints((3, 2), low=0, high=9)),
    ]  # fmt: skip


def _ufunc_methods() -> list[OpCase]:
    x = normal((5, 3))
    mask = np.array([[True, False, True]] * 5)
    return [
        OpCase("hypot.reduce", np.hypot.reduce, normal((4, 2)), order=1),
        OpCase("fmax.reduce.where", lambda x: np.fmax.reduce(x, axis=1, where=mask, initial=-9.0), distinct((5, 3)), order=1),
        OpCase("divide.reduce", np.divide.reduce, positive((4, 2)), order=1),
        OpCase("add.reduceat", lambda x: np.add.reduceat(x, [0, 3, 1]), x),
        OpCase("multiply.reduceat", lambda x: np.multiply.reduceat(x, [1, 2], axis=1), x, order=1),
        OpCase("maximum.reduceat", lambda x: np.maximum.reduceat(x, np.arange(0, 20, 2)), distinct((21,)), order=1),
        OpCase("logaddexp.accumulate", lambda x: np.logaddexp.accumulate(x, axis=0), normal((4, 2)), order=1),
        OpCase("subtract.accumulate", np.subtract.accumulate, normal((4,))),
        OpCase("power.outer", np.power.outer, positive((2,), (3,)), order=1),
        OpCase("add.out", lambda x, y: _wrote(x, lambda z: np.add(z, y, out=z, where=mask)), normal((5, 3), (3,))),
        OpCase("modf.out", lambda x: _two_outputs(x), spread((4,)), order=1),
        OpCase("add.at", lambda x, v: _wrote(x, lambda z: np.add.at(z, [0, 0, 2], v)), normal((4, 2), (3, 2))),
        OpCase("multiply.at", lambda x, v: _wrote(x, lambda z: np.multiply.at(z, [0, 0, 2], v)), normal((4,), (3,))),
        OpCase("power.at", lambda x: _wrote(x, lambda z: np.power.at(z, [0, 0, 2], 2.0)), positive((4,)), order=1),
        OpCase("negative.at", lambda x: _wrote(x, lambda z: np.negative.at(z, [1])), x),
    ]  # fmt: skip


def _wrote(x: Any, write: Callable[[Any], Any]) -> Any:
    """A copy of an array after something was written into it."""
    z = x.copy()
    write(z)
    return z


def _two_outputs(x: Any) -> Any:
    part, whole = np.zeros_like(x), np.zeros_like(x)
    np.modf(x, out=(part, whole))
    return part * 2 + whole


def _in_place() -> list[OpCase]:
    x, v = normal((3, 4)), normal((3, 4), (3,))
    rows = {
        "copyto": lambda z, w: np.copyto(z, w[:, None], where=z > 0),
        "put": lambda z, w: np.put(z, [1, 5, 20], w, mode="wrap"),
        "put_along_axis": lambda z, w: np.put_along_axis(z, np.array([[1], [0], [3]]), w[:, None], 1),
        "putmask": lambda z, w: np.putmask(z, z > 0.3, w),
        "place": lambda z, w: np.place(z, z > 0.3, w),
        "fill_diagonal": lambda z, w: np.fill_diagonal(z, w),
        "flat": lambda z, w: z.flat.__setitem__(slice(0, 3), w),
        "method.fill": lambda z, w: z[1].fill(w[0]),
        "method.sort": lambda z, w: z.sort(axis=0),
        "method.partition": lambda z, w: z[:, :1].partition(1, axis=0),
        "method.out": lambda z, w: z.sum(axis=0, out=z[1]),
        "reshape.view": lambda z, w: z.reshape(2, 6)[:, ::2].__setitem__(slice(None), w),
        "transposed.copy": lambda z, w: z.T.reshape(-1).__setitem__(0, w[0]),
        "real.view": lambda z, w: z.real.__setitem__(0, w[0]),
    }  # fmt: skip
    found = [
        OpCase(n, lambda a, w, f=f: _wrote(a, lambda z: f(z, w)), v, order=1)
        for n, f in rows.items()
    ]
    found.append(
        OpCase(
            "nan_to_num.in_place",
            lambda a: _wrote(a, lambda z: np.nan_to_num(z * 1.0, copy=False)),
            x,
            order=1,
        )
    )
    return found


def _arrays() -> list[OpCase]:
    x = normal((2, 3))
    metadata: dict[str, Callable[[Any], Any]] = {
        "shape": lambda a: a * np.shape(a)[1],
        "ndim": lambda a: a * np.ndim(a),
        "size": lambda a: a * np.size(a, 1),
        "result_type": lambda a: a.astype(np.result_type(a, np.float32)),
        "can_cast": lambda a: a * np.can_cast(a.dtype, np.float32),
        "iscomplexobj": lambda a: a * np.iscomplexobj(a),
        "isrealobj": lambda a: a * np.isrealobj(a),
        "isscalar": lambda a: a * np.isscalar(a),
        "common_type": lambda a: a.astype(np.common_type(a, np.ones(1, np.float32))),
        "min_scalar_type": lambda a: a.astype(np.min_scalar_type(a)),
        "may_share_memory": lambda a: a * np.may_share_memory(a, a),
        "shares_memory": lambda a: a * np.shares_memory(a, a + 1),
        "einsum_path": lambda a: a * len(np.einsum_path("ij,jk,kl->il", a, a.T, a)[0]),
        "unstack": lambda a: fnp.unstack(a, axis=1)[0] if hasattr(np, "unstack") else a[:, 0],
        "permute_dims": lambda a: fnp.permute_dims(a, (1, 0)) if hasattr(np, "permute_dims") else a.T,
        "matrix_transpose": lambda a: fnp.matrix_transpose(a) if hasattr(np, "matrix_transpose") else a.T,
        "linalg.matrix_transpose": lambda a: fnp.linalg.matrix_transpose(a) if hasattr(np, "unstack") else a.T,
        "array": lambda a: fnp.array([a[0], [1.0, 2.0, 3.0]], ndmin=3),
        "asarray": lambda a: fnp.asarray([a[0, 0], 2.0]),
        "asanyarray": fnp.asanyarray,
        "ascontiguousarray": lambda a: fnp.ascontiguousarray(a[0, 0]),
        "asfortranarray": fnp.asfortranarray,
        "require": lambda a: fnp.require(a, dtype=np.float64),
        "asarray_chkfinite": fnp.asarray_chkfinite,
        "full": lambda a: fnp.full((2, 3), a[0]),
        "tri": lambda a: fnp.tri(3, k=(a[0, 0] > 0) * 1) * a[0],
        "eye": lambda a: fnp.eye(3, k=(a[0, 0] > 0) * 1) * a[0],
        "imag": np.imag,
        "real_if_close": np.real_if_close,
        "ix_": lambda a: a[np.ix_([1, 0], [0, 2])],
        "r_": lambda a: fnp.r_[a[0], 0.5, 1:3],
        "c_": lambda a: fnp.c_[a[0], a[1], np.ones(3)],
        "mgrid": lambda a: fnp.mgrid[0 : a[0, 0] : 3j, 0:2],
        "ogrid": lambda a: fnp.ogrid[0 : a[0, 0] : 3j, 0:2][0],
        "triu_indices_from": lambda a: (a.T @ a)[np.triu_indices_from(a.T @ a)],
        "diag_indices_from": lambda a: (a.T @ a)[np.diag_indices_from(a.T @ a)],
    }  # fmt: skip
    return [
        *[OpCase(name, fun, x) for name, fun in metadata.items()],
        _discrete("iscomplex", np.iscomplex, x),
        _discrete("isreal", np.isreal, x),
        OpCase("arange", lambda n: fnp.arange(n) * 1.0, lambda rng: (np.float64(4.5),), False, 0, known=True),
        OpCase("sort_complex", lambda a: np.sort_complex(a).real, distinct((5,)), order=1),
        _discrete("argpartition", lambda a: np.sort(np.argpartition(a, 2)[:2]), distinct((6,))),
        OpCase("cumulative_prod", lambda a: fnp.cumulative_prod(a, axis=1, include_initial=True) if hasattr(np, "cumulative_prod") else a, x, order=1),
        OpCase("index.true", lambda a: a[True, :, [0, 1]], x),
        OpCase("index.false", lambda a: np.sum(a[False]) + a, x),
        OpCase("at.fill", lambda a: a.at[[0, 5]].get(mode="fill", fill_value=2.0) if hasattr(a, "at") else np.stack([a[0], np.full(3, 2.0)]), x),
        OpCase("at.drop", lambda a: a.at[[0, 5]].add(1.0, mode="drop") if hasattr(a, "at") else a + np.array([[1.0], [0.0]]), x),
        OpCase("pad.odd", lambda a: np.pad(a, 2, "reflect", reflect_type="odd"), x),
        OpCase("resize.empty", lambda a: np.resize(a[:0], (2,)) + a[0, 0], x),
        OpCase("trapezoid.bool", lambda a: np.trapezoid(a, axis=1), x),
        OpCase("vectorize", lambda a, b: fnp.vectorize(lambda s, t: np.sin(s) * t)(a, b), normal((2, 3), (3,))),
        OpCase("vectorize.signature", lambda a, b: fnp.vectorize(np.matmul, signature="(m,n),(n)->(m)")(a, b), normal((2, 2, 3), (3,))),
        OpCase("vecdot", lambda a, b: fnp.vecdot(a, b) if hasattr(np, "vecdot") else np.sum(a * b, -1), normal((2, 3), (3,))),
        OpCase("matvec", lambda a, b: fnp.matvec(a, b) if hasattr(np, "matvec") else a @ b, normal((2, 3), (3,))),
        OpCase("vecmat", lambda a, b: fnp.vecmat(b, a) if hasattr(np, "vecmat") else b @ a, normal((2, 3), (2,))),
    ]  # fmt: skip


def _statistics() -> list[OpCase]:
    x = distinct((3, 5))
    methods = ("weibull", "hazen", "median_unbiased", "normal_unbiased", "interpolated_inverted_cdf",
               "averaged_inverted_cdf", "inverted_cdf", "closest_observation", "lower", "higher",
               "nearest", "midpoint")  # fmt: skip
    weights = lambda rng: (*x(rng), rng.uniform(0.1, 1.0, (3, 5)))  # noqa: E731
    return [
        *[OpCase(f"quantile.{m}", lambda a, m=m: np.quantile(a, [0.21, 0.83], axis=1, method=m), x, order=1) for m in methods],
        OpCase("quantile.weights", lambda a, w: np.quantile(a, 0.37, axis=1, weights=w, method="inverted_cdf"), weights, order=1),
        OpCase("nanquantile.weights", lambda a, w: np.nanquantile(a, [0.1, 0.9], weights=w, method="inverted_cdf"), weights, order=1),
        OpCase("histogram.weights", lambda a, w: np.histogram(a, bins=4, range=(-2, 2), weights=w)[0], normal((30,), (30,)), False, 0),
        _discrete("histogram_bin_edges", lambda a: np.histogram_bin_edges(a, 4), normal((30,))),
        _discrete("histogram2d", lambda a, b: np.histogram2d(a, b, [3, 4], density=True), normal((30,), (30,))),
        _discrete("histogramdd", lambda a: np.histogramdd(a, [3, 2, 2])[0], normal((30, 3))),
        OpCase("histogram2d.weights", lambda w: np.histogram2d(np.arange(6.0), np.arange(6.0) ** 2, 2, weights=w)[0], normal((6,))),
        _discrete("bincount.length", lambda i: fnp.bincount(i, length=6), ints((8,), low=0, high=5)),
        OpCase("average.keepdims", lambda a, w: np.average(a, axis=0, weights=w, keepdims=True), positive((3, 2), (3, 2))),
        OpCase("median.axes", lambda a: np.median(a, axis=(0, 1)), distinct((3, 5))),
    ]  # fmt: skip


def _functions() -> list[OpCase]:
    return [
        OpCase("i0", np.i0, lambda rng: (np.array([-25.0, -3.0, 0.5, 7.0, 19.0, 24.0]) / 4,), dtypes="df"),
        OpCase("i0.far", lambda x: np.log(np.i0(x)), lambda rng: (np.array([21.0, 30.0, -45.0]),)),
        OpCase("kaiser", lambda b: fnp.kaiser(7, b), positive(())),
        OpCase("lib.stride_tricks.sliding_window_view", lambda x: WINDOWS(x, (2, 3)), normal((4, 5))),
        OpCase("sliding_window.axis", lambda x: WINDOWS(x, 2, axis=0).sum(-1), normal((4, 5))),
        OpCase("poly", np.poly, normal((4,))),
        OpCase("poly.matrix", np.poly, lambda rng: (np.diag([1.0, 2.0, -1.5]) + 0.1 * rng.normal(size=(3, 3)),), order=1),
        OpCase("roots", lambda p: np.sort(np.abs(np.roots(p))), lambda rng: (np.array([1.0, -6.1, 11.3, -6.2]),), order=1, known=True),
        OpCase("roots.unstripped", lambda p: np.sort(np.abs(fnp.roots(p, strip_zeros=False))), lambda rng: (np.array([1.0, -6.1, 11.3, -6.2]),), order=1),
        OpCase("polyfit", lambda x, y: np.polyfit(x, y, 2), lambda rng: (np.linspace(-1, 1, 7) + 0.02 * rng.normal(size=7), rng.normal(size=7)), order=1),
        OpCase("polyfit.weights", lambda y, w: np.polyfit(np.linspace(-1, 1, 7), y, 1, w=w), lambda rng: (rng.normal(size=7), rng.uniform(1, 2, 7)), order=1),
        OpCase("polydiv", np.polydiv, lambda rng: (rng.normal(size=5), rng.uniform(1, 2, 3)), order=1, known=True),
        OpCase("polydiv.untrimmed", lambda u, v: fnp.polydiv(u, v, trim_leading_zeros=False)[0], lambda rng: (rng.normal(size=5), rng.uniform(1, 2, 3)), order=1),
        OpCase("cross.flat", lambda x, y: _flat_cross(x, y), normal((2, 3), (3,))),
        OpCase("clip.integers", lambda x: np.clip(x.astype(np.int8), -300, 5), ints((5,), low=-9, high=9), False, 0),
        OpCase("where.integers", lambda x: np.where(x > 0, x.astype(np.uint8), 7), ints((5,), low=-9, high=9), False, 0),
        OpCase("arctanh.unit", lambda x: np.arctanh(x) * np.arcsin(x), unit((3,))),
    ]  # fmt: skip


def _flat_cross(x: Any, y: Any) -> Any:
    return np.cross(x, y)[0] * x


def _sized() -> list[OpCase]:
    x = lambda rng: (np.array([3.0, 1.0, 3.0, 2.0, 1.0, 7.0]),)  # noqa: E731
    pair = lambda rng: (np.array([3.0, 1.0, 3.0, 2.0]), np.array([2.0, 9.0, 3.0]))  # noqa: E731
    rows = [
        OpCase("unique.size", lambda a: fnp.unique(a, size=7), distinct((6,)), order=1),
        OpCase(
            "union1d.size", lambda a, b: fnp.union1d(a, b, size=8), distinct((4,), (3,)), order=1
        ),
        _discrete(
            "unique.size.all", lambda a: fnp.unique(a, True, True, True, size=6, fill_value=-1.0), x
        ),
        _discrete("nonzero.size", lambda a: fnp.nonzero(a > 1.5, size=5, fill_value=9), x),
        _discrete("argwhere.size", lambda a: fnp.argwhere(a.reshape(2, 3) > 1.5, size=3), x),
        _discrete("where.size", lambda a: fnp.where(a > 1.5, size=3), x),
        OpCase("extract.size", lambda a: fnp.extract(a > 1.5, a, size=5), x, order=1),
        OpCase("compress.size", lambda a: fnp.compress(a > 1.5, a, size=3), x, order=1),
        *[
            _discrete(f"{n}.size", lambda a, b, n=n: getattr(fnp, n)(a, b, size=3), pair)
            for n in ("intersect1d", "setdiff1d", "setxor1d")
        ],
    ]
    rows += [
        _discrete(n, getattr(np, n), pair, known=True)
        for n in ("intersect1d", "setdiff1d", "setxor1d")
    ]
    for n in ("unique_all", "unique_counts", "unique_inverse", "unique_values"):
        if hasattr(np, n):
            rows.append(
                _discrete(n, lambda a, n=n: _sorted_values(getattr(np, n)(a)), x, known=True)
            )
    return rows


def _sorted_values(found: Any) -> Any:
    """The values of NumPy's unique functions, of which one gives them in any order."""
    return tuple(found) if isinstance(found, tuple) else np.sort(found)


MORE_CASES: list[OpCase] = [
    *_integers(), *_ufunc_methods(), *_in_place(), *_arrays(), *_statistics(), *_functions(), *_sized(),
]  # fmt: skip
