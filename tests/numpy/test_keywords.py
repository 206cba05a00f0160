"""Functions with their keywords, one expression a line: traced with and without values.

`x` is a matrix, of floats and of integers.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fgrad.ir.aval import aval_of
from fgrad.trace import Builder, concrete, run, trace

RNG = np.random.default_rng(17)
ARRAYS = {
    "floats": RNG.normal(size=(3, 4)),
    "integers": RNG.integers(-5, 9, (3, 4)),
    "single": RNG.normal(size=(3, 4)).astype(np.float32),
}
EXPRESSIONS = """
np.sum(x, dtype=np.float32)
np.sum(x, axis=0, dtype=int)
np.mean(x, dtype=np.float32)
np.prod(x, dtype=complex)
np.cumsum(x, dtype=np.float32)
np.cumprod(x, axis=1, dtype=np.float32)
np.var(x, dtype=np.float32)
np.std(x, ddof=1, axis=0, keepdims=True)
np.std(x, correction=1)
np.var(x, axis=0, mean=np.mean(x, axis=0, keepdims=True))
np.var(x, axis=1, where=x > 0)
np.mean(x, where=x > -9)
np.sum(x, where=x > 0, initial=3.0)
np.max(x, initial=0, where=x > 0)
np.min(x, axis=1, initial=9, where=x > 0, keepdims=True)
np.any(x > 0, axis=0, where=x < 1)
np.all(x, axis=(0, 1))
np.argmax(x, axis=1, keepdims=True)
np.argmin(x, keepdims=True)
np.ptp(x, axis=1, keepdims=True)
np.count_nonzero(x, axis=1, keepdims=True)
np.average(x, axis=0, weights=np.arange(3), returned=True)
np.average(x, returned=True)
np.nanmean(x, axis=0, keepdims=True)
np.nansum(x, axis=1, dtype=np.float32)
np.nanvar(x, axis=1, ddof=1)
np.nanmax(x, axis=0, initial=0.0, where=x > -1)
np.nanstd(x)
np.nancumsum(x, axis=0)
np.nanprod(x, axis=0)
np.concatenate([x, x], dtype=np.float32)
np.concatenate([x, x], dtype=int, casting='unsafe')
np.stack([x, x], dtype=np.float32, axis=2)
np.hstack([x, x], dtype=np.float32)
np.vstack([x, x[0]], dtype=np.float32)
np.full_like(x, 2, shape=(2,))
np.zeros_like(x, dtype=int)
np.ones_like(x, shape=3, order='F')
np.trace(x, offset=1, dtype=np.float32)
np.nan_to_num(x, nan=1, posinf=2, neginf=3)
np.isclose(x, x + 1e-09, rtol=0, atol=1e-08)
np.allclose(x, x, equal_nan=True)
np.array_equal(x, x, equal_nan=True)
np.searchsorted(np.sort(x.ravel()), x, side='right')
np.searchsorted(x.ravel(), 0.3, sorter=np.argsort(x.ravel()))
np.digitize(x, [-1, 0, 1], right=True)
np.cov(x, rowvar=False, bias=True)
np.cov(x, ddof=0)
np.cov(x, x)
np.corrcoef(x, rowvar=False)
np.cov(x, fweights=[1, 2, 1, 1], aweights=[1.0, 2, 3, 4])
np.cov(x, dtype=np.float32)
np.median(x, axis=(0, 1), keepdims=True)
np.clip(x, min=-0.5, max=0.5)
np.clip(x, None, 0.3)
np.clip(x, 0.3, None)
np.clip(x, x.mean(), None)
np.round(x, 2)
np.round(x, -1)
np.gradient(x, 0.5)
np.gradient(x, 0.5, 2.0)
np.gradient(x, np.array([0, 1, 3.0]), axis=0)
np.gradient(x, axis=(0, 1), edge_order=2)
np.gradient(x, axis=1, edge_order=2)
np.trapezoid(x, dx=0.1, axis=0)
np.trapezoid(x, x=np.arange(4.0) ** 2)
np.trapezoid(x, x=np.cumsum(np.abs(x), 1))
np.trapezoid(x, x=np.arange(3.0), axis=0)
np.interp(x, [-1, 0, 1.0], [3, 1, 2.0], left=9, right=8)
np.interp(x, [0.0, 90, 180], [1, 2, 3.0], period=360)
np.interp(x, [0.0, 0.5], [1, 2j])
np.unwrap(x * 9, axis=0)
np.unwrap(x * 9, discont=4)
np.unwrap(x, period=0.5)
np.diff(x, prepend=0, append=1)
np.diff(x, axis=0, prepend=x[:1])
np.diff(x, n=2, axis=0)
np.diff(x, n=9)
np.ravel(x, 'F')
np.ravel(x, 'K')
np.ravel(x.T, 'A')
np.reshape(x, (4, 3), 'F')
np.reshape(x, (4, 3), order='A')
x.flatten('F')
np.copy(x, order='F')
np.rot90(x, 2, (1, 0))
np.roll(x, (1, 2), (0, 0))
np.roll(x, 5)
np.split(x, [1], axis=0)
np.array_split(x, 5, axis=1)
np.split(x, [1, 9, 2], axis=1)
np.block([[x, x], [x, x]])
np.block([x, x])
np.block([[x], [np.zeros((1, 4))]])
np.tile(x, (2, 1, 1))
np.repeat(x, [1, 0, 2], axis=0)
np.repeat(x, 2)
np.insert(x, 1, 9.0, axis=0)
np.insert(x, [1, 1], [[8], [9]], axis=0)
np.insert(x, 1, [1, 2, 3], axis=1)
np.insert(x, [0, 2], 5, axis=1)
np.insert(x, -1, 7)
np.delete(x, [0], axis=1)
np.delete(x, slice(None, None, 2), axis=1)
np.delete(x, -1, axis=0)
np.append(x, [[1, 2, 3, 4]], axis=0)
np.resize(x, (5, 5))
np.take(x, [[0, 1], [1, 2]], axis=1)
np.take(x, -1)
np.take_along_axis(x, np.argsort(x, 1), 1)
np.squeeze(x[:1], 0)
np.moveaxis(x, [0, 1], [1, 0])
np.moveaxis(x, 0, 0)
np.swapaxes(x, 0, 0)
np.expand_dims(x, (0, -1))
np.broadcast_to(x, (2, 3, 4))
np.atleast_3d(x)
np.flip(x, (0, 1))
np.flip(x, [0])
np.vander(x[0], 3, increasing=True)
np.diagflat(x, 1)
np.tril(x, -1)
np.kron(x, [1, 2])
np.kron(2.0, x)
np.select([x > 0], [x], default=np.nan)
np.piecewise(x, [x < 0, x >= 0], [lambda a, b: a * b, lambda a, b: a + b], 3)
np.choose((x > 0).astype(int), [x, -x])
np.choose(np.array([0, 5, 1, 2]), [x[0], x[1]], mode='wrap')
np.choose(np.array([0, 5, 1, -2]), [x[0], x[1]], mode='clip')
np.convolve(x[0], [1, 2, 3], 'same')
np.convolve([1.0], x[0])
np.lexsort((x[0], x[1]))
np.histogram(x, bins=3, range=(-1, 1), density=True)
np.meshgrid(x[0], x[1], indexing='ij')
np.meshgrid(x[0], x[1], sparse=True, copy=False)
np.meshgrid(x[0])
np.average(x, axis=1, weights=x ** 2)
np.outer(x, x)
np.inner(x, x)
np.tensordot(x, x, axes=((1,), (1,)))
np.vdot(x, x)
np.cross(x[:, :3], x[:, 1:])
np.linspace(x[0], x[1], 3, axis=1)
np.linspace(0, x[0, 0], 5, endpoint=False)
np.geomspace(1, np.abs(x[0]) + 1, 4)
np.logspace(0, x[0, 0], 3, base=2)
np.fmod(x, 0.3)
np.remainder(x, -0.3)
np.divmod(x, 0.3)
np.ldexp(x, 2)
np.float_power(np.abs(x), 0.5)
np.heaviside(x, 0.5)
np.nextafter(x, 1)
np.copysign(x, -1)
np.logaddexp(x, 0)
np.arctan2(x, 1)
np.rint(x)
np.trunc(x)
np.fix(x)
np.modf(x)
np.isposinf(x)
np.sign(x)
np.signbit(x)
np.absolute(x)
np.cbrt(x)
np.square(x)
x.sum(0)
x.mean(1)
x.std()
x.var(ddof=1)
x.min(0)
x.max()
x.argmax(1)
x.cumsum(1)
x.prod(0)
x.any()
x.all(1)
x.clip(0, 1)
x.round(1)
x.take([0])
x.repeat(2)
x.ravel()
x.squeeze()
x.swapaxes(0, 1)
x.trace()
x.diagonal()
x.dot(x.T)
x.transpose(1, 0)
x.T
x.reshape(2, -1)
x.astype(np.float32)
x.astype(int, casting='unsafe')
x.astype(bool)
x.astype('c16')
x.conj()
x.real
x.imag
x.size * x
x.nbytes + x * 0
x.itemsize + 0 * x
x.ndim * x
x.compress([True, False, True], 0)
x.argsort(0)
x.flatten()
abs(x)
-x
+x
~(x > 0)
x // 0.3
x % 0.3
divmod(x, 0.3)
x ** 2
x ** (-1)
x ** 0.5
x @ x.T
(x > 0) & (x < 1)
(x > 0) ^ True
x == x
x != 0
np.i0(x)
np.sinc(x)
np.angle(x)
np.real_if_close(x)
np.iscomplex(x)
np.nanpercentile(x, [10, 90], axis=1)
np.nanmedian(x, axis=0, keepdims=True)
np.nanargmax(np.where(np.isnan(x), -1, x), axis=1)
np.apply_over_axes(np.sum, x, [0, 1])
np.lib.stride_tricks.sliding_window_view(x, 3, axis=1)
np.einsum('ij->j', x)
np.matrix_transpose(x)
np.vecdot(x, x)
np.matvec(x, x[0])
np.vecmat(x[:, 0], x)
np.unstack(x, axis=1)
np.cumulative_sum(x, axis=0, include_initial=True)
np.cumulative_prod(x, axis=1)
np.permute_dims(x, (1, 0))
np.concat([x, x])
np.astype(x, np.float32)
np.pow(x, 2)
np.ravel(x.T, 'K')
np.ravel(np.transpose(np.ones((2, 1, 1)) * x, (1, 0, 2)), 'K')
x.T.flatten('K')
x.T.flatten('A')
np.reshape(x.T, (2, 6), order='A')
np.ravel(x[::-1].T, 'A')
np.ravel(x[:, None].T, 'K')
np.acos(x / 9)
np.bitwise_invert(x > 0)
""".strip().splitlines()
NEW = np.lib.NumpyVersion(np.__version__) >= "2.4.0"  # some are younger than the oldest


def _leaves(out: Any) -> list[Any]:
    return [y for x in out for y in _leaves(x)] if isinstance(out, (tuple, list)) else [out]


def _evaluated(fun: Callable[[Any], Any], x: np.ndarray) -> list[Any]:
    builder = Builder("grad", "f", eager=True)
    with builder.running, builder:
        return [concrete(y) for y in _leaves(fun(builder.input(x)))]


def _traced(fun: Callable[[Any], Any], x: np.ndarray) -> list[Any]:
    return run(trace(lambda a: _leaves(fun(a)), [aval_of(x)]).program, [x])


@pytest.mark.skipif(not NEW, reason="for the newest NumPy")
@pytest.mark.parametrize("line", EXPRESSIONS)
def test_expression(line: str) -> None:
    fun = eval(f"lambda x: {line}", {"np": np})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for x in ARRAYS.values():
            try:
                expected = [np.asarray(y) for y in _leaves(fun(x))]
            except (TypeError, ValueError, IndexError):
                for way in (_evaluated, _traced):
                    with pytest.raises((TypeError, ValueError, IndexError)):
                        way(fun, x)
                continue
            for found in (_evaluated(fun, x), _traced(fun, x)):
                _agree(found, expected, single=x.dtype == np.float32)


def _agree(found: list[Any], expected: list[np.ndarray], single: bool) -> None:
    for a, b in zip(map(np.asarray, found), expected, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        tolerance = 1e-5 if single or b.dtype.char in "fF" else 1e-11
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
