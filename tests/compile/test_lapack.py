"""Native linear algebra against the primitives' evaluation: sizes, batches, failures, threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
import fgrad.numpy
from fgrad.ops import decompositions as dc
from fgrad.ops import determinants as dt
from fgrad.ops import linalg as la

TOLERANCE = {"d": 1e-10, "f": 2e-4, "D": 1e-10, "F": 2e-4}
RNG = np.random.default_rng(11)


def _agree(f: Callable[..., Any], *args: np.ndarray) -> None:
    got, expected = fgrad.jit(f)(*args), f(*args)
    many = isinstance(expected, tuple)
    tolerance = TOLERANCE[args[0].dtype.char]
    for x, y in zip(got if many else (got,), expected if many else (expected,), strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape
        scale = 1 + np.abs(y).max(initial=0)
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance * scale)


def _normal(dtype: str, *shape: int) -> np.ndarray:
    """Random numbers, complex ones in both parts."""
    x = RNG.standard_normal(shape)
    return (x + 1j * RNG.standard_normal(shape) if dtype in "DF" else x).astype(dtype)


def _matrices(dtype: str, *shape: int) -> np.ndarray:
    """Well-conditioned matrices."""
    n = shape[-1]
    return (_normal(dtype, *shape) / n**0.5 + 2 * np.eye(n)).astype(dtype)


@pytest.mark.parametrize("dtype", ["d", "f", "D", "F"])
@pytest.mark.parametrize("lead", [(), (3,)])
@pytest.mark.parametrize("n", [1, 2, 5, 19])
def test_systems(n: int, lead: tuple[int, ...], dtype: str) -> None:
    a = _matrices(dtype, *lead, n, n)
    _agree(la.cholesky, (a @ np.conj(np.swapaxes(a, -1, -2))).astype(dtype))
    _agree(la.factor, a)
    for k in (1, 3):
        b = _normal(dtype, *lead, n, k)
        for trans in (False, True):
            _agree(lambda a, b, t=trans: la.lu_solve(a, *la.factor(a), b, t), a, b)
            for options in ((True, False), (False, False), (True, True), (False, True)):
                low, unit = options
                _agree(
                    lambda a, b, low=low, t=trans, unit=unit: la.triangular_solve(
                        a, b, low, t, unit
                    ),
                    a,
                    b,
                )


@pytest.mark.parametrize("dtype", ["d", "f", "D", "F"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (5, 2), (2, 5), (3, 4, 4), (30, 30), (2, 7, 1)])
def test_decompositions(shape: tuple[int, ...], dtype: str) -> None:
    a = _normal(dtype, *shape)
    for full in (False, True):
        _agree(lambda a, full=full: dc.qr(a, full), a)
        _agree(lambda a, full=full: dc.svd(a, full), a)
    _agree(dc.svdvals, a)
    _agree(la.lu, a)
    if shape[-1] == shape[-2]:
        _agree(lambda a: la.pivots_order(la.lu(a)[1]), a)
        for low in (False, True):
            _agree(lambda a, low=low: dc.eigh(a, low), a)
            _agree(lambda a, low=low: dc.eigvalsh(a, low), a)


@pytest.mark.parametrize("dtype", ["d", "D"])
@pytest.mark.parametrize("shape", [(2, 3, 3), (5, 5)])
def test_determinants(shape: tuple[int, ...], dtype: str) -> None:
    a = _normal(dtype, *shape)
    _agree(dt.slogdet, a)
    _agree(dt.det, a)
    _agree(la.inv, a)


def test_nothing_to_do() -> None:
    for shape in ((0, 3, 3), (2, 0, 0)):
        a = np.zeros(shape)
        for f in (la.inv, dt.det, la.cholesky, dt.slogdet, dc.eigh, dc.qr):
            _agree(f, a)
    _agree(dc.svdvals, np.zeros((0, 3, 2)))
    _agree(lambda a: dc.pinv(a, 1e-15), np.zeros((0, 3, 2)))


FAILING: list[tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = [
    (la.cholesky, (-np.eye(3),)),
    (la.solve, (np.ones((3, 3)), np.ones((3, 2)))),
    (la.inv, (np.stack([np.eye(3), np.zeros((3, 3))]),)),
    (la.triangular_solve, (np.diag([1.0, 0, 1]), np.ones((3, 1)))),
    (dc.eigvals, (np.full((3, 3), np.nan),)),
]


@pytest.mark.parametrize("case", FAILING, ids=lambda c: c[0].__name__)
def test_failures_reach_the_caller_once(case: Any) -> None:
    f, args = case
    compiled = fgrad.jit(lambda *xs: f(*xs) * 2.0)
    fine = tuple([np.broadcast_to(np.eye(3), x.shape) if k == 0 else x for k, x in enumerate(args)])
    fine = tuple([np.array(x) for x in fine])
    for _ in range(2):
        with pytest.raises(np.linalg.LinAlgError):
            compiled(*args)
        np.testing.assert_allclose(compiled(*fine), f(*fine) * 2.0)


def test_failures_stay_in_their_thread() -> None:
    compiled = fgrad.jit(la.inv)
    compiled(np.eye(2))
    failed: list[int] = []
    wrong: list[int] = []

    def work(k: int) -> None:
        a = np.eye(2) * (k % 2)
        for _ in range(50):
            try:
                compiled(a)
                wrong.extend([k] * (k % 2 == 0))
            except np.linalg.LinAlgError:
                failed.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and set(failed) == {0, 2} and len(failed) == 100


def test_complex_arrays_are_compiled() -> None:
    """Transforms by NumPy between kernels on the parts of complex numbers."""

    def f(x: Any) -> Any:
        z = np.fft.fft(x) * 2.0 + 1j
        return np.abs(z) ** 2 + np.real(z[::-1]) @ np.imag(z)

    x = RNG.standard_normal(6)
    np.testing.assert_allclose(fgrad.jit(f)(x), f(x))
    slope = fgrad.grad(lambda x: np.sum(f(x)))
    np.testing.assert_allclose(fgrad.jit(slope)(x), slope(x))


WITH_NAN: dict[str, Callable[[Any], Any]] = {
    "svd": np.linalg.svd,
    "singular values": lambda m: np.linalg.svd(m, compute_uv=False),
    "pinv": np.linalg.pinv,
    "rank": np.linalg.matrix_rank,
    "norm": lambda m: np.linalg.norm(m, 2, axis=(-2, -1)),
    "eigh": np.linalg.eigh,
    "eig": np.linalg.eig,
    "inv": np.linalg.inv,
    "cholesky": np.linalg.cholesky,
    "qr": np.linalg.qr,
    "lstsq": lambda m: np.linalg.lstsq(m.reshape(-1, 4), np.ones(m.size // 4), rcond=None)[0],
}


@pytest.mark.parametrize("name", WITH_NAN)
@pytest.mark.parametrize("count", [0, 3])
def test_nan_raises_where_numpy_raises(name: str, count: int) -> None:
    """Or gives NaN: the pseudoinverse was finite."""
    matrix = np.eye(4) + 0.1
    matrix[1, 2] = matrix[2, 1] = np.nan
    given = np.stack([np.eye(4), matrix, matrix][:count]) if count else matrix
    try:
        right = WITH_NAN[name](given)
    except np.linalg.LinAlgError:
        with pytest.raises(np.linalg.LinAlgError):
            fgrad.jit(WITH_NAN[name])(given)
        return
    found = fgrad.jit(WITH_NAN[name])(given)
    pairs = [(found, right)] if isinstance(right, np.ndarray) else zip(found, right, strict=True)
    for a, b in pairs:
        assert np.isnan(a).any() == np.isnan(b).any()
