"""Distributions of vectors and matrices: a table of calls, each against SciPy, with derivatives in
both modes against differences, jit and vmap; draws by keys against their moments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.stats as plain

import fgrad
import fgrad.scipy.stats as traced
from fgrad import grad, jit, jvp, vmap
from fgrad.errors import UnsupportedNumpyError

RNG = np.random.default_rng(5)


def _positive(n: int, *more: int) -> np.ndarray:
    a = RNG.normal(size=(*more, n, n))
    return a @ np.swapaxes(a, -1, -2) + n * np.eye(n)


S, T, R, C = _positive(3), _positive(3), _positive(2), _positive(4)
MANY = np.moveaxis(_positive(3, 5), 0, -1)
M, X = RNG.normal(size=(2, 4)), RNG.normal(size=(3, 2, 4))
V, P = RNG.normal(size=3), RNG.normal(size=(6, 3))
UNIT = V / np.linalg.norm(V)
UNITS = P / np.linalg.norm(P, axis=1, keepdims=True)
COUNTS = np.array([[1, 0, 3], [2, 1, 1], [4, 0, 0], [1, 1, 1]])
ALPHA = np.array([0.7, 1.9, 2.4])
NIG = (np.array([0.3, -1.0, 2.0]), np.array([0.8, 1.7, -0.5]))

# A name, the method, the arguments, and the places of those with derivatives.
CASES: list[tuple[str, str, tuple[Any, ...], tuple[int, ...]]] = [
    ("multivariate_t", "logpdf", (P, V, S, 3.4), (0, 1, 2, 3)),
    ("multivariate_t", "pdf", (P[0], V, S, 3.4), (0, 3)),
    ("multivariate_t", "logpdf", (P, V, np.array([1.0, 2.0, 0.5]), 2.0), (0, 2)),
    ("multivariate_t", "logpdf", (P, V, 1.4, 2.0), (2,)),
    ("multivariate_t", "logpdf", (P, None, S, 2.0), (0,)),
    ("multivariate_t", "logpdf", (P[:, 0], 0.3, 1.4, 2.0), (0, 1, 2)),
    ("multivariate_t", "logpdf", (P, V, S, np.inf), (0, 2)),
    ("multivariate_t", "entropy", (V, S, 3.4), (1, 2)),
    ("wishart", "logpdf", (T, 5.3, S), (0, 1, 2)),
    ("wishart", "logpdf", (MANY, 5.3, S), (0, 1, 2)),
    ("wishart", "pdf", (T, 5, np.array([1.0, 2.0, 0.5])), (0, 2)),
    ("wishart", "logpdf", (np.array([0.5, 2.0]), 2.5, 1.4), (0, 1, 2)),
    ("wishart", "logpdf", (2.0, 5.3, S), (0,)),
    ("wishart", "mean", (5.3, S), (0, 1)),
    ("wishart", "mode", (5.3, S), (0, 1)),
    ("wishart", "var", (5.3, S), (0, 1)),
    ("wishart", "entropy", (5.3, S), (0, 1)),
    ("invwishart", "logpdf", (T, 5.3, S), (0, 1, 2)),
    ("invwishart", "logpdf", (MANY, 5.3, S), (0, 1, 2)),
    ("invwishart", "pdf", (T, 5.3, S), (0,)),
    ("invwishart", "mean", (5.3, S), (0, 1)),
    ("invwishart", "mode", (5.3, S), (0, 1)),
    ("invwishart", "var", (7.3, S), (0, 1)),
    ("invwishart", "entropy", (5.3, S), (0, 1)),
    ("matrix_normal", "logpdf", (X, M, R, C), (0, 1, 2, 3)),
    ("matrix_normal", "pdf", (X[0], M, 1.3, np.array([1.0, 2.0, 0.5, 0.8])), (0, 2, 3)),
    ("matrix_normal", "logpdf", (X, None, R, C), (0,)),
    ("matrix_normal", "entropy", (R, C), (0, 1)),
    ("matrix_t", "logpdf", (X, M, R, C, 3.4), (0, 1, 2, 3, 4)),
    ("matrix_t", "logpdf", (X[0].T, M.T, C, R, 3.4), (0, 1, 2, 3, 4)),
    ("matrix_t", "pdf", (X[0], None, R, C, 1.0), (0,)),
    ("dirichlet_multinomial", "logpmf", (COUNTS, ALPHA, 4), (1,)),
    ("dirichlet_multinomial", "pmf", (COUNTS[0], ALPHA, 4), (1,)),
    ("dirichlet_multinomial", "mean", (ALPHA, 4), (0,)),
    ("dirichlet_multinomial", "var", (ALPHA, np.array([4, 6])), (0,)),
    ("dirichlet_multinomial", "cov", (ALPHA, 4), (0,)),
    ("multivariate_hypergeom", "logpmf", (COUNTS, np.array([5, 4, 4]), 4), ()),
    ("multivariate_hypergeom", "pmf", (COUNTS, np.array([5, 0, 4]), np.array([4, 4, 4, 20])), ()),
    ("vonmises_fisher", "logpdf", (UNITS, UNIT, 2.3), (2,)),
    ("vonmises_fisher", "pdf", (UNITS[0], UNIT, 0.4), (2,)),
    ("vonmises_fisher", "entropy", (UNIT, 2.3), (1,)),
    ("normal_inverse_gamma", "logpdf", (*NIG, 0.2, 1.3, 2.1, 0.7), (0, 2, 3, 4, 5)),
    ("normal_inverse_gamma", "pdf", (0.3, 0.8, 0.2, np.array([1.3, -1.0]), 2.1, 0.7), (1, 4)),
    ("normal_inverse_gamma", "mean", (0.2, 1.3, np.array([2.1, 0.4]), 0.7), (0, 3)),
    ("normal_inverse_gamma", "var", (0.2, 1.3, np.array([2.1, 1.4]), 0.7), (1, 3)),
]  # fmt: skip


def _parts(found: Any) -> list[Any]:
    return list(found) if isinstance(found, tuple) else [found]


def _id(case: Any) -> str:
    return f"{case[0]}.{case[1]}" if isinstance(case, tuple) else ""


@pytest.mark.parametrize("case", CASES, ids=_id)
def test_values_and_derivatives(case: tuple[str, str, tuple[Any, ...], tuple[int, ...]]) -> None:
    name, method, args, free = case
    family = getattr(traced, name)
    wanted = _parts(getattr(getattr(plain, name), method)(*args))
    constant = [k for k, a in enumerate(args) if a is None or (np.ndim(a) == 0 and np.isinf(a))]
    given = [a for k, a in enumerate(args) if k not in constant]

    def call(*values: Any) -> list[Any]:
        rest = iter(values)
        full = [a if k in constant else next(rest) for k, a in enumerate(args)]
        return _parts(getattr(family, method)(*full))

    for found in (jit(call)(*given), vmap(call, in_axes=0)(*[np.stack([a, a]) for a in given])):
        for got, value in zip(found, wanted, strict=True):
            lane = got if np.shape(got) == np.shape(value) else got[0]
            assert np.shape(lane) == np.shape(value)
            np.testing.assert_allclose(lane, value, rtol=1e-10, atol=1e-12)

    def loss(k: int, x: Any) -> Any:
        full = [*args[:k], x, *args[k + 1 :]]
        parts = _parts(getattr(family, method)(*full))
        return sum([np.sum(np.sin(np.where(np.isfinite(v), v, 0.0))) for v in parts])

    for k in free:
        x = np.asarray(args[k], float)
        way = RNG.normal(size=x.shape)
        if name in ("wishart", "invwishart") and x.ndim >= 2:
            way = way + np.swapaxes(way, 0, 1)  # SciPy's factors read one triangle
        h = 1e-6
        difference = (loss(k, x + h * way) - loss(k, x - h * way)) / (2 * h)
        slope = np.sum(grad(lambda v, k=k: loss(k, v))(x) * way)
        assert slope == pytest.approx(difference, rel=2e-6, abs=2e-8), k
        forward = jvp(lambda v, k=k: loss(k, v), (x,), (way,))[1]
        assert forward == pytest.approx(slope, rel=1e-8, abs=1e-10)


def test_float32() -> None:
    for name, method, args, _ in CASES:
        if name == "multivariate_hypergeom":
            continue
        cast = [np.asarray(a) if np.ndim(a) == 0 and a is not None else a for a in args]
        cast = [
            a.astype(np.float32) if getattr(a, "dtype", None) == np.float64 else a for a in cast
        ]
        held = [k for k, a in enumerate(cast) if a is None or np.isinf(a).any()]

        def call(*values: Any, cast: Any = cast, held: Any = held, f: Any = (name, method)) -> Any:
            rest = iter(values)
            full = [a if k in held else next(rest) for k, a in enumerate(cast)]
            return getattr(getattr(traced, f[0]), f[1])(*full)

        found = jit(call)(*[a for k, a in enumerate(cast) if k not in held])
        wanted = getattr(getattr(plain, name), method)(*args)
        for got, value in zip(_parts(found), _parts(wanted), strict=True):
            np.testing.assert_allclose(got, value, rtol=2e-3, atol=2e-3, err_msg=name)


DRAWS: dict[str, tuple[Callable[..., Any], Callable[[], Any]]] = {
    "multivariate_t": (
        lambda k, n: traced.multivariate_t.rvs(V, S, 9.0, size=n, random_state=k), lambda: V
    ),
    "wishart": (
        lambda k, n: traced.wishart.rvs(5.0, S, size=n, random_state=k), lambda: 5.0 * S
    ),
    "invwishart": (
        lambda k, n: traced.invwishart.rvs(9.0, S, size=n, random_state=k), lambda: S / 5.0
    ),
    "matrix_normal": (
        lambda k, n: traced.matrix_normal.rvs(M, R, C, size=n, random_state=k), lambda: M
    ),
    "matrix_t": (
        lambda k, n: traced.matrix_t.rvs(M, R, C, 9.0, size=n, random_state=k), lambda: M
    ),
    "vonmises_fisher": (
        lambda k, n: traced.vonmises_fisher.rvs(UNIT, 2.3, size=n, random_state=k),
        lambda: UNIT * (1 / np.tanh(2.3) - 1 / 2.3),
    ),
    "normal_inverse_gamma": (
        lambda k, n: np.stack(
            traced.normal_inverse_gamma.rvs(0.3, 1.2, 5.0, 2.0, size=n, random_state=k), 1
        ),
        lambda: np.array([0.3, 0.5]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DRAWS)
def test_draws_by_keys_have_the_right_mean(name: str) -> None:
    draw, mean = DRAWS[name]
    x = jit(lambda k: draw(k, 4000))(fgrad.random.key(3))
    error = np.std(x, axis=0) / np.sqrt(len(x))
    assert np.all(np.abs(np.mean(x, axis=0) - mean()) < 4.5 * error + 1e-12)
    np.testing.assert_allclose(x, draw(fgrad.random.key(3), 4000), rtol=1e-9)


def test_spread_of_drawn_matrices() -> None:
    key = fgrad.random.key(7)
    x = traced.matrix_normal.rvs(M, R, C, size=20000, random_state=key) - M
    rows = np.einsum("nij,nkj->ik", x, x) / len(x) / np.trace(C)
    np.testing.assert_allclose(rows, R, rtol=0.06, atol=0.06)
    y = traced.matrix_t.rvs(M, R, C, 12.0, size=20000, random_state=key) - M
    rows = np.einsum("nij,nkj->ik", y, y) / len(y) / np.trace(C) * 10.0
    np.testing.assert_allclose(rows, R, rtol=0.1, atol=0.1)
    z = traced.wishart.rvs(6.0, S, size=20000, random_state=key)
    np.testing.assert_allclose(np.var(z, axis=0), plain.wishart.var(6, S), rtol=0.1)
    w = traced.invwishart.rvs(14.0, S, size=20000, random_state=key)
    np.testing.assert_allclose(np.var(w, axis=0), plain.invwishart.var(14, S), rtol=0.2)


def test_draws_have_derivatives() -> None:
    key = fgrad.random.key(0)
    slope = grad(lambda m: np.sum(traced.matrix_normal.rvs(m, R, C, size=5, random_state=key)))(M)
    np.testing.assert_allclose(slope, 5.0)
    with pytest.raises(UnsupportedNumpyError, match="random_state=fgrad"):
        grad(lambda m: np.sum(traced.matrix_normal.rvs(m, R, C)))(M)
    x = traced.wishart.rvs(5, S, random_state=1)
    np.testing.assert_array_equal(x, plain.wishart.rvs(5, S, random_state=1))


REFUSED: dict[str, Callable[[Any], Any]] = {
    "cdf": lambda x: traced.multivariate_t.cdf(x, V, S, 3.0),
    "shape": lambda x: traced.multivariate_t.logpdf(x, V, R),
    "singular": lambda x: traced.multivariate_t.logpdf(x, V, S, allow_singular=True),
    "wishart shape": lambda x: traced.wishart.logpdf(x, 5.0, S),
    "matrix mean": lambda x: traced.matrix_normal.logpdf(X, x),
    "floats": lambda x: traced.multivariate_hypergeom.logpmf(x, COUNTS, 4),
    "mu": lambda x: traced.vonmises_fisher.logpdf(x),
    "plane": lambda x: traced.vonmises_fisher.rvs(x[0, :2], random_state=fgrad.random.key(0)),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_there_is_refused(name: str) -> None:
    with pytest.raises((ValueError, TypeError)):
        jit(REFUSED[name])(P)


def test_parameters_given_first() -> None:
    """A distribution that is called with its parameters has methods of the points alone."""
    for family, reference, x in (
        (traced.norm(0.3, scale=2.0), plain.norm(0.3, scale=2.0), 1.2),
        (traced.gamma(2.0, scale=1.5), plain.gamma(2.0, scale=1.5), 0.7),
        (traced.binom(5, 0.3), plain.binom(5, 0.3), 2),
        (traced.multivariate_normal(V, S), plain.multivariate_normal(V, S), P),
        (traced.wishart(5, S), plain.wishart(5, S), T),
    ):
        name = "logpmf" if "binom" in repr(family) else "logpdf"
        found = jit(lambda x, f=family, n=name: getattr(f, n)(x))(x)
        np.testing.assert_allclose(found, getattr(reference, name)(x), rtol=1e-12)
    assert traced.norm(0.3, 2.0).mean() == 0.3
    assert plain.kstest(np.linspace(0, 1, 5), traced.uniform(0, 1).cdf).pvalue > 0.5
    slope = grad(lambda s: traced.norm(0.0, s).logpdf(1.0))(2.0)
    np.testing.assert_allclose(slope, -0.5 + 1 / 8)
    key = fgrad.random.key(1)
    drawn = traced.norm(1.0, 2.0).rvs(3, key)
    np.testing.assert_array_equal(drawn, traced.norm.rvs(1.0, 2.0, size=3, random_state=key))
