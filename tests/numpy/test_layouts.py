"""Which results of NumPy and SciPy lie in C order, so that a write through a reshape reaches them.

Each line is computed, reshaped, and the reshape is written: NumPy decides by strides whether `y`
sees it.  fgrad says the same, or raises a card.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import fgrad
import fgrad.scipy.linalg as sla
from fgrad.errors import FgradError

NEW = np.lib.NumpyVersion(np.__version__) >= "2.4.0"  # some are younger than the oldest

EXPRESSIONS = """
np.linalg.solve(s,b)
np.linalg.inv(s)
np.linalg.cholesky(s)
np.linalg.cholesky(s,upper=True)
np.linalg.qr(t)[0]
np.linalg.qr(t)[1]
np.linalg.qr(t,'r')
np.linalg.qr(t,'complete')[0]
np.linalg.svd(t)[0]
np.linalg.svd(t)[2]
np.linalg.svd(t,full_matrices=False)[0]
np.linalg.svd(t,full_matrices=False)[2]
np.linalg.eigh(s)[1]
np.linalg.eig(s)[1]
np.linalg.eig(a)[1]
np.linalg.pinv(t)
np.linalg.matrix_power(s,3)
np.linalg.matrix_power(s,-2)
np.linalg.lstsq(t,np.ones((4,2)),rcond=None)[0]
np.linalg.tensorinv(s,1)
np.linalg.tensorsolve(s,b[:,0])
np.linalg.multi_dot([s,b,b.T])
sl.solve(s,b)
sl.solve(s,b,assume_a='pos')
sl.solve(s,b,assume_a='sym')
sl.solve(s,b,lower=True)
sl.inv(s)
sl.cholesky(s)
sl.cholesky(s,lower=True)
sl.cho_factor(s)[0]
sl.cho_solve(sl.cho_factor(s),b)
sl.cho_solve((np.linalg.cholesky(s),True),b)
sl.lu_factor(s)[0]
sl.lu_solve(sl.lu_factor(s),b)
sl.lu(s)[0]
sl.lu(s)[1]
sl.lu(s)[2]
sl.lu(s,permute_l=True)[0]
sl.solve_triangular(s,b)
sl.solve_triangular(s,b,lower=True)
sl.solve_triangular(s,b,trans=1)
sl.qr(t)[0]
sl.qr(t)[1]
sl.qr(t,mode='economic')[0]
sl.qr(t,mode='economic')[1]
sl.qr(t,mode='r')[0]
sl.svd(t)[0]
sl.svd(t)[2]
sl.svd(t,full_matrices=False)[0]
sl.svd(t,full_matrices=False)[2]
sl.eigh(s)[1]
sl.pinv(t)
sl.lstsq(t,np.ones((4,2)))[0]
sl.expm(s*.1)
sl.logm(s)
sl.sqrtm(s)
sl.toeplitz(s[0],b[:2,0])
sl.hankel(s[0],b[:2,0])
sl.block_diag(s,b)
sl.solve_sylvester(s,s+1,s)
sl.solve_continuous_lyapunov(s,s)
sl.solve_discrete_lyapunov(s*.1,s)
sl.polar(s)[0]
sl.polar(s)[1]
sl.expm_frechet(s*.1,s)[1]
sl.solve_toeplitz(s[0],b)
np.take(t,[0,2],axis=1)
np.take(t,[0,2],1)
np.take(t,[0,2,1],0)
np.take_along_axis(t,np.argsort(t,1),1)
t[:,[0,2]]
t[:,[0,2]]*1
t[[0,2],:]
t[:,np.array([True,False,True])]
np.compress([True,False,True],t,1)
np.delete(t,1,1)
np.insert(t,1,5,1)
np.append(t,t,1)
np.repeat(t,2,1)
np.tile(t,2)
np.roll(t,1,1)
np.cumsum(t,0)
np.sort(t,0)
np.diff(t,axis=0)
np.outer(t,b)
np.kron(s,b)
np.einsum('ij,kj->ki',s,t)
np.einsum('ij->ji',s)*1
np.einsum('ij,j->ji',s,s[0])
np.tensordot(s,t,(0,1))
np.cov(s)
np.corrcoef(s)
np.vander(s[0])
np.tril(s)
np.triu(s)
np.diag(s[0])
np.meshgrid(s[0],b[:,0])[0]
np.meshgrid(s[0],b[:,0],indexing='ij')[0]
np.meshgrid(s[0],b[:,0],copy=True)[1]
np.column_stack([s[0],s[1]])
np.dstack([s,s])
np.stack([s,s],-1)
np.stack([s,s],1)
np.block([[s,s],[s,s]])
np.apply_along_axis(np.sort,0,s)
np.apply_along_axis(lambda r: r[:2]*2,0,t)
np.pad(s,1)
np.where(s>0,s,0)
np.select([s>0],[s])
np.choose([[0,1,0]],[s,2*s])
np.gradient(s)[0]
np.fft.fft(t,axis=0).real*1
np.fft.fft(t,axis=0)
np.fft.fft2(t)
np.fft.fftn(t)
np.fft.rfft(t,axis=0)
np.fft.irfft(t,axis=0)
np.fft.fftshift(t)
np.trapezoid(np.stack([s,s]),axis=0)
np.sum(np.stack([s,t[:3]]),0)
np.sum(np.stack([s,t[:3]],-1),-1)
np.mean(np.stack([s,t[:3]],-1),0)
np.max(np.stack([s,t[:3]],-1),0)
np.median(np.stack([s,t[:3]],-1),0)
np.quantile(np.stack([s,t[:3]],-1),[.1,.5],0)
np.std(np.stack([s,t[:3]],-1),1)
np.argsort(t,0)
np.cross(t,t[::-1])
np.cross(t.T[:3],t.T[:3][::-1],axis=0)
np.interp(t,[0,1],[0,1])
np.unwrap(t)
np.convolve(t[0],t[1])
np.apply_over_axes(np.sum,t,[0])
np.partition(t,1,0)
np.nan_to_num(t)
np.trace(np.stack([s,s]))
np.ones_like(t)*t
np.empty_like(t.T)*0
np.full_like(t.T,2)
np.copy(t.T)
np.lib.stride_tricks.sliding_window_view(t,2,0)*1
np.histogramdd(t)[0]
np.moveaxis(t,0,1)*1
np.rot90(t)*1
np.broadcast_to(t,(2,4,3))*1
np.add.outer(t[0],t[1])
np.add.accumulate(t,0)
np.add.reduceat(t,[0,2],0)
np.multiply.outer(t,t[0])
np.linalg.outer(t[0],t[1])
np.linalg.norm(np.stack([t,t]),axis=0)
np.matmul(s,t.T)
np.vecdot(np.stack([s,s]),s)
np.extract(t>0,t)
np.flip(t,0)*1
np.searchsorted(t[0],t)
np.resize(t,(3,4))
np.atleast_3d(t)*1
np.concatenate([t.T,t.T],1)
np.vstack([t,t])
np.clip(t.T,0,1)
np.round(t.T,2)
np.sinc(t.T)
np.i0(t.T)
np.heaviside(t.T,1)
np.angle(t.T)
np.real(t.T+1j)
np.divmod(t,2)[0]
np.modf(t)[0]
np.frexp(t)[0]
np.ldexp(t,2)
np.piecewise(t,[t>0],[1,2])
np.piecewise(t.T,[t.T>0],[lambda v:v,2])
np.nanmedian(t,0)
np.average(np.stack([s,s]),axis=0)
np.ptp(np.stack([s,s],-1),axis=-1)
np.cumprod(np.stack([s,s],-1),axis=-1)
np.gradient(t,axis=1)
np.ediff1d(t)
np.nancumsum(t,0)
np.diagonal(np.stack([t, t]))*1
np.diagonal(np.stack([t, t]),0,1,2)*1
np.sin(t,order='F')
np.add(t,t,order='C')
np.matmul(t,s,order='F')
np.einsum('ij,jk->ik',t,s,order='F')
np.take(t.T,[0,2],1)
t[:,::-1]*1
np.stack([t,t])[:,[0,1],[1,2]]
np.stack([t,t])[[0,1],:,[1,2]]
np.stack([t,t])[[0,1]]
np.stack([t,t]).sum(1)
np.stack([t,t])[...,None]*1
np.lib.stride_tricks.sliding_window_view(t,(2,2))*1
np.broadcast_to(t[:,None],(4,2,3))*1
np.matmul(np.stack([t,t]),s)
np.matmul(t,np.stack([s,s]))
np.tensordot(np.stack([t,t]),s,1)
np.tensordot(np.stack([t,t]),s,(1,0)) if t.shape[0]==3 else t*2
np.linalg.solve(np.stack([s,s]),b)
np.linalg.inv(np.stack([s,s]))
np.linalg.qr(np.stack([t,t]))[0]
np.histogram2d(t[0],t[1])[0]
np.median(np.reshape(t,(2,2,3)),0)
np.median(np.reshape(t,(2,2,3)),1,keepdims=True)
np.nanmedian(np.reshape(t,(2,2,3)),1)
np.quantile(np.reshape(t,(2,2,3)),0.3,1)
np.quantile(np.reshape(t,(2,2,3)),[0.3,0.5],0)
np.percentile(np.reshape(t,(2,2,3)),[30,50],(1,0))
np.nanquantile(np.reshape(t,(2,2,3)),0.3,1)
np.nanquantile(np.reshape(t,(2,2,3)),[0.3,0.5],1)
np.quantile(t.T,0.3,0,keepdims=True)
np.median(np.stack([t,t]).T,0)
np.insert(t,[1,0],5,1)
np.insert(t.T,1,5,1)
np.insert(t,1,5,0)
np.delete(t,1,0)
np.delete(t,[1],1)
np.delete(t,[0,2],1)
np.delete(t.T,1,1)
np.delete(t,slice(0,1),1)
np.delete(t,np.array([True,False,False]),1)
""".strip().splitlines()
KNOWN = (
    "np.take(", "np.linalg.solve", "np.linalg.inv", "np.sort", "np.stack([s,s])", "np.insert(t,",
    "np.compress([True,False,True],t,1)",
    "np.delete(t,1", "np.delete(t,[1]", "np.delete(t,slice", "np.median(np.reshape",
    "np.nanmedian(np.reshape", "np.quantile(np.reshape", "np.percentile(np.reshape",
    "np.nanquantile(np.reshape(t,(2,2,3)),0.3",
)  # fmt: skip


def arguments() -> list[np.ndarray]:
    """s: positive definite; b, t: any; a: not symmetric."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((3, 3))
    s = a @ a.T + 3 * np.eye(3)
    return [s, rng.standard_normal((3, 2)), rng.standard_normal((4, 3)), a]


def written(line: str) -> Callable[..., Any]:
    """A function that computes a line and writes through a reshape of it."""

    def function(s: Any, b: Any, t: Any, a: Any) -> Any:
        sl = scipy.linalg if isinstance(s, np.ndarray) else sla
        y = eval(line, {"np": np, "sl": sl, "s": s, "b": b, "t": t, "a": a})
        if y.ndim > 1:
            y.reshape(-1)[...] = 0
            y.ravel("K")[:1] = 1
        return y

    return function


WAYS: dict[str, Callable[..., Any]] = {
    "vjp": lambda f, *args: fgrad.vjp(f, *args)[0],
    "functionalize": lambda f, *args: fgrad.functionalize(f)(*args)[0],
}


@pytest.mark.skipif(not NEW, reason="for the newest NumPy")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("line", EXPRESSIONS)
def test_a_write_through_a_reshape_of_a_result(line: str, way: str) -> None:
    f = written(line)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        right = f(*arguments())
        try:
            found = WAYS[way](f, *arguments())
        except FgradError:
            assert not line.startswith(KNOWN)
            return
    np.testing.assert_allclose(found, right, rtol=1e-9, atol=1e-12)


CHAINS = (
    "fnp.ascontiguousarray(np.broadcast_to(x, (2, 3)))", "np.stack([x, x]).T.copy()",
    "fnp.asfortranarray(np.stack([x, x]))", "np.stack([x, x]).T.reshape(2, 3)",
)  # fmt: skip
RESHAPES = ("y.reshape(3, 2, order='F')", "y.reshape(-1)", "y.ravel('F')", "y.T.reshape(2, 3)",
            "y.reshape(6, 1, order='F')")  # fmt: skip


@pytest.mark.parametrize("chain", CHAINS)
def test_copies_of_copies(chain: str) -> None:
    """Where one is found to be a copy, its own views and their copies leave with it."""
    x = np.array([1.0, 2.0, 3.0])
    for first in RESHAPES:
        for second in RESHAPES:
            again = second.replace("y", "v")
            body = f"y = {chain}\n    v = {first}\n    w = {again}\n    v[0], v[-1] = v[-1], v[0]"
            text = f"def f(x):\n    {body}\n    w[0] = 5\n    y[1] = 7\n    return y, v, w"
            exec(text, made := {"np": np, "fnp": fgrad.numpy})
            f: Any = made["f"]
            right = f(x)
            for way in WAYS.values():
                with contextlib.suppress(FgradError):
                    for a, b in zip(way(f, x), right, strict=True):
                        np.testing.assert_allclose(a, b, err_msg=text)


VIEWS = (
    "k.T", "k[::-1].T", "np.swapaxes(d, 0, 2)", "np.moveaxis(d, 0, 1)", "np.rot90(k)", "k[:, 1:]",
    "d[:, 0].T", "d[0].T[None]", "k.T.T", "d.transpose(2, 0, 1)[0]", "k.reshape(2, 6, order='F')",
)  # fmt: skip
WRITES = (
    "v.flat = x", "v[...] = x", "v.fill(x)", "v += x", "v[0] = x", "v[v > 0.3] = x", "v[...] = v",
    "np.copyto(v, x)", "np.sin(v, out=v)", "np.add(v, x, out=v)", "v.T[...] = x", "v.sort()",
    "k[...] = x; d[...] = x", "v[...] = np.ones_like(v) * x", "v[...] = (v.copy('C').T * 2).T",
)  # fmt: skip
RESULTS = ("np.concatenate([v, v])", "v.copy('K')", "v * 2", "np.where(v > 0, v, x)", "np.tanh(v)")


@pytest.mark.parametrize("view", VIEWS)
def test_what_is_made_of_a_view_that_was_written(view: str) -> None:
    """Values that are assigned lie elsewhere than the view that takes them."""
    rng = np.random.default_rng(0)
    x, k, d = 0.7, rng.standard_normal((3, 4)), rng.standard_normal((2, 3, 4))
    for write in WRITES:
        for result in RESULTS:
            body = f"v = {view}\n    {write}\n    y = {result}\n    y.reshape(-1)[:1] = 9"
            exec(f"def f(x, k, d):\n    {body}\n    return y, k, d", made := {"np": np})
            f: Any = made["f"]
            right = f(x, k.copy(), d.copy())
            for way in WAYS.values():
                with contextlib.suppress(FgradError):
                    again = way(f, x, k.copy(), d.copy())
                    for a, b in zip(again, right, strict=True):
                        np.testing.assert_allclose(a, b, rtol=1e-12, err_msg=body)


def columns(x: Any) -> Any:
    """Whose reshape is a copy where x lies in Fortran's order."""
    y = x * 2
    y.reshape(-1)[1] = 5
    return y


@pytest.mark.parametrize(
    "way",
    [
        lambda f, x: fgrad.vjp(f, x)[0],
        lambda f, x: fgrad.linearize(f, x)[0],
        lambda f, x: fgrad.jvp(f, (x,), (x,))[0],
        lambda f, x: fgrad.vmap(f)(np.asfortranarray(np.stack([x, x])))[0],
        lambda f, x: fgrad.vmap(f, in_axes=2)(np.stack([x.T, x.T]).T)[0],
        lambda f, x: fgrad.vjp(fgrad.checkpoint(f), x)[0],
        lambda f, x: fgrad.jit(f)(x),
    ],
)
def test_arguments_in_columns(way: Callable[..., Any]) -> None:
    with pytest.raises(FgradError, match=r"reshape|copy in NumPy"):
        way(columns, np.asfortranarray(np.ones((2, 3))))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_examples_of_arrays_in_c_order_lie_in_c_order(axis: int) -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    found = fgrad.vmap(columns, in_axes=axis)(x)
    right = [columns(np.take(x, k, axis)) for k in range(x.shape[axis])]
    np.testing.assert_array_equal(found, right)


def test_axes_of_matmul_are_refused() -> None:
    with pytest.raises(FgradError, match="does not take 'axes'"):
        fgrad.grad(lambda x: np.matmul(x, x, axes=[(0, 1), (0, 1), (1, 0)]).sum())(np.eye(2))


@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_view_that_is_read_again_lies_as_it_did(order: Any, written: bool, copied: bool) -> None:
    """After its base was written, what is made of a broadcast view still lies as the view does."""

    def f(x: Any) -> Any:
        column = x.reshape((4, 1), order=order)
        rows = np.broadcast_to(column[:, 0], (2, 4))
        if written:
            column -= column
        twice = np.concatenate([rows, rows])
        if copied:
            twice = np.full_like(twice, 1.0)
        np.reshape(twice, (1, -1))[0] = 5.0
        return twice

    x = np.arange(4.0)
    for transformed in (fgrad.jit(f), lambda x: fgrad.vjp(f, x)[0]):
        try:
            found = transformed(x.copy())
        except FgradError:
            continue
        assert np.array_equal(found, f(x.copy()))
