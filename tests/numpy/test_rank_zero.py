"""Which results of rank 0 are arrays, which `y += 1` writes, and which are numbers, as in NumPy.

y = np.where(s > 0, s, 0)    an array: after z = y; y += 1, z has changed too
y = np.sum(x)                a number: z has not
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp

NEW = np.lib.NumpyVersion(np.__version__) >= "2.4.0"  # some are younger than the oldest

# s: an array of rank 0; u: a number; v: shape (1,); x: (3,); m, d: (2, 2); z: complex, of rank 0
EXPRESSIONS = """
np.where(s>0,s,0.5)
np.where(True,s,s)
np.where(true,s,s)
np.where(u>0,u,u)
np.select([s>0],[s])
np.select([u>0],[u])
np.choose(0,[s,s])
np.choose(0,[u,u])
np.piecewise(s,[s>0],[1,2])
np.full_like(s,2.)
np.full_like(u,2.)
np.zeros_like(s)
np.ones_like(u)
np.clip(s,0,1)
np.copy(s)
np.copy(u)
fnp.array(s)
fnp.array(u)
fnp.asarray(u)
u.copy()
s.copy()
s.conj()
np.conj(s)
np.real(s)
np.real(u)
s.real
u.real
np.round(s)
s.round()
s.astype(np.float32)
u.astype(np.float32)
u.astype(np.float64)
s.astype(np.float64,copy=False)
u.astype(np.float64,copy=False)
np.squeeze(v)
v.squeeze()
v.reshape(())
np.reshape(s,())
s.reshape(())
u.reshape(())
np.transpose(s)
s.T
u.T
u.transpose()
np.ravel(s)[0]
s.flatten()[0]
np.einsum('i,i',x,x)
np.einsum('i->',x)
np.einsum('ii',m)
np.einsum('ii->',m)
np.einsum(',',s,s)
np.einsum('',s)
np.einsum('->',s)
np.einsum(',->',s,u)
np.einsum('ij,ij->',m,m)
np.tensordot(x,x,1)
np.tensordot(m,m,2)
np.tensordot(s,s,0)
np.inner(x,x)
np.dot(x,x)
np.dot(s,s)
np.vdot(x,x)
np.vecdot(x,x)
np.matmul(x,x)
x@x
np.trace(m)
m.trace()
np.sum(x)
np.sum(s)
s.sum()
np.add.reduce(x)
np.cumsum(s)[0]
np.diagonal(m)[0]
np.take(x,0)
np.take(s,0)
x.take(0)
np.take(x,zero)
x[zero]
x[0]
x[...,0]
s[...]
u[...]
s[()]
u[()]
s[None][0]
np.take_along_axis(x,np.array([0]),0)[0]
np.max(x)
np.median(x)
np.quantile(x,.5)
np.percentile(x,50)
np.quantile(x,s*0.1)
np.quantile(x,u*0.1)
np.quantile(s,.5)
np.median(s)
np.mean(s)
np.std(s)
np.ptp(x)
np.average(x)
np.average(s)
np.interp(s,x,x)
np.interp(u,x,x)
np.interp(.3,x,x)
np.polyval(x,s)
np.polyval(x,u)
np.searchsorted(x,s)
np.searchsorted(x,.3)
np.searchsorted(x,u)
np.digitize(s,np.arange(3.))
np.digitize(u,np.arange(3.))
np.isin(s,x)
np.isin(u,x)
np.nan_to_num(s)
np.nan_to_num(u)
np.angle(s)
np.i0(s)
np.i0(u)
np.sinc(s)
np.sinc(u)
np.heaviside(s,1)
np.unwrap(x)[0]
np.roll(s,1)
np.roll(u,1)
np.flip(s)
np.flip(u)
np.rot90(m)[0,0]
np.expand_dims(s,())
np.broadcast_arrays(s,x[0])[0]
np.moveaxis(s,(),())
np.linalg.norm(x)
np.linalg.norm(s)
np.linalg.det(d)
np.linalg.slogdet(d)[1]
np.linalg.trace(m)
np.linalg.vecdot(x,x)
np.linalg.solve(d,d[0])[0]
np.trapezoid(x)
np.count_nonzero(x)
np.argmax(x)
np.argmin(s)
np.nansum(x)
np.nanmedian(x)
np.nanmax(s)
np.prod(s)
np.any(x>0)
np.all(s>0)
np.isclose(s,s)
np.isclose(u,u)
np.unique(x)[0]
np.logical_not(s)
np.sqrt(s)
-s
+s
abs(s)
s+1
s*u
np.divmod(s,2)[0]
np.modf(s)[0]
np.frexp(s)[0]
np.ldexp(s,2)
np.positive(s)
np.fix(s)
np.fix(u)
np.sort_complex(x)[0].real
np.diff(x)[0]
np.insert(x,0,s)[0]
np.delete(x,0)[0]
np.atleast_1d(s)[0]
np.unstack(x)[0]
np.split(x,3)[0][0]
next(iter(x))
fnp.ascontiguousarray(s)[0]
fnp.asfortranarray(s)
fnp.asanyarray(u)
np.permute_dims(s)
np.matrix_transpose(m)[0,0]
np.extract(x>0.1,x)[0]
np.compress([True],x)[0]
np.repeat(s,2)[0]
np.tile(s,1)[0]
np.resize(s,())
np.resize(x,())
np.array_split(x,3)[0][0]
np.concatenate([x,x])[0]
np.block(s)
np.block([[s]])[0,0]
np.cov(x)
np.corrcoef(x)
np.convolve(x,x)[0]
np.correlate(x,x)
np.vander(x)[0,0]
np.nancumsum(s)[0]
np.cumulative_sum(x)[0]
np.apply_along_axis(np.sum,0,x)
np.apply_over_axes(np.sum,x,0)
np.add.outer(s,s)
np.multiply.accumulate(x)[0]
np.maximum(s,u)
np.gradient(x)[0]
np.ediff1d(x)[0]
np.linspace(0,s,3)[0]
np.linspace(0,s,3,retstep=True)[1]
np.geomspace(1,s+1,3)[0]
np.bincount(np.array([0,1]),weights=x[:2])[0]
np.histogram(x,bins=2)[0][0]
np.meshgrid(s)[0][0]
np.meshgrid(s,s)[0][0,0]
np.isreal(s)
np.isreal(u)
np.iscomplex(s)
np.isposinf(s)
np.isneginf(u)
np.real_if_close(s)
np.copysign(s,-1)
s.clip(0,1)
u.clip(0,1)
s.take(0)
u.repeat(1)[0]
u.max()
u.cumsum()[0]
np.astype(s,np.float32)
np.astype(u,np.float32)
np.astype(u,np.float64)
u.flat[0]
x.flat[0]
np.choose(np.array(0),[s,2.])
u.view()
s.view()
np.nanmean(x)
np.nanpercentile(x,50)
np.round(u)
u.round()
np.around(u,1)
np.conjugate(u)
u.conj()
u.conjugate()
s.conjugate()
z.real
z.imag
np.imag(z)
z.conj()
np.abs(z)
np.mean(u)
np.tril(m)[0,0]
np.diag(m)[0]
np.logspace(0,s,2)[0]
np.average(u)
np.cumprod(u)[0]
np.squeeze(u)
u.squeeze()
np.isnan(s)
np.matvec(d,d[0])[0]
np.linalg.matrix_norm(m)
np.linalg.vector_norm(x)
np.linalg.vector_norm(s)
np.linalg.cond(d)
np.linalg.matrix_rank(d)
""".strip().splitlines()

CODE = """
def f(s, u, v, x, m, d, z):
    s, z = fnp.array(s), fnp.array(z)
    y = {}
    before = y
    y += True
    return before, y, x, m, v, s
"""

WAYS: dict[str, Callable[..., Any]] = {
    "vjp": lambda f, *args: fgrad.vjp(f, *args)[0],
    "functionalize": lambda f, *args: fgrad.functionalize(f)(*args)[0],
}


def arguments() -> list[Any]:
    """s, u, v, x, m, d, z."""
    x, m = np.array([0.1, 0.2, 0.3]), np.array([[0.1, 0.5], [0.7, 0.9]])
    return [np.array(0.5), np.float64(0.25), np.ones(1), x, m, 2 * np.eye(2), np.array(1 + 2j)]


@pytest.mark.skipif(not NEW, reason="for the newest NumPy")
@pytest.mark.parametrize("line", EXPRESSIONS)
def test_results_of_rank_zero(line: str) -> None:
    names: dict[str, Any] = {"np": np, "fnp": fnp, "true": np.array(True), "zero": np.array(0)}
    exec(CODE.format(line), names)
    f: Any = names["f"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        right = f(*arguments())
        for name, way in WAYS.items():
            found = way(f, *arguments())
            for a, b in zip(found, right, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-12, err_msg=f"{name}: {line}")
