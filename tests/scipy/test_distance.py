"""scipy.spatial.distance: each metric against SciPy, derivatives against differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.spatial.distance as plain

import fgrad.scipy.spatial.distance as sd
from fgrad import grad, jit, vmap

RNG = np.random.default_rng(11)
A, B = RNG.normal(size=(5, 4)), RNG.normal(size=(6, 4))
W = np.array([0.5, 2.0, 0.0, 1.0])
TRUE_A, TRUE_B = A > 0.2, B > 0.1
SQUARE = RNG.normal(size=(4, 4))
BUILDS = sorted(sd.FORMULAS)


def _options(name: str) -> Iterator[dict[str, Any]]:
    yield {}
    if name == "minkowski":
        yield from ({"p": 3.0, "w": W}, {"p": 1}, {"p": np.inf})
    elif name == "seuclidean":
        yield {"V": np.array([1.0, 2.0, 0.5, 3.0])}
    elif name == "mahalanobis":
        yield {"VI": SQUARE @ SQUARE.T}
    elif name == "jensenshannon":
        yield {"base": 2.0}
    else:
        yield {"w": W}
        if name == "correlation":
            yield {"w": W, "centered": False}


def _operands(name: str) -> tuple[Any, Any]:
    if name in sd.OF_TRUTH or name == "hamming":
        return TRUE_A, TRUE_B
    return (np.abs(A), np.abs(B)) if name == "jensenshannon" else (A, B)


@pytest.mark.parametrize("name", BUILDS)
def test_distances_of_rows(name: str) -> None:
    a, b = _operands(name)
    for given in _options(name):
        for x, y in ((a, b), (a.astype(np.float32), b.astype(np.float32))):
            if name == "jensenshannon" and given:
                continue  # SciPy takes `base` for two distributions alone
            wanted = plain.cdist(x, y, name, **given)
            found = jit(lambda x, y, g=given: sd.cdist(x, y, name, **g))(x, y)
            assert found.dtype == wanted.dtype
            np.testing.assert_allclose(found, wanted, rtol=1e-6 if x.dtype == np.float32 else 1e-10)
            rows = jit(lambda x, g=given: sd.pdist(x, name, **g))(x)
            np.testing.assert_allclose(rows, plain.pdist(x, name, **given), rtol=1e-6)


@pytest.mark.parametrize("name", BUILDS)
def test_distances_of_two_vectors(name: str) -> None:
    a, b = _operands(name)
    for given in _options(name):
        if (name in ("seuclidean", "mahalanobis") and not given) or (
            "w" in given and name == "yule"
        ):
            continue
        wanted = getattr(plain, name)(a[0], b[1], **given)
        found = jit(lambda x, y, g=given: getattr(sd, name)(x, y, **g))(a[0], b[1])
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", [n for n in BUILDS if n not in sd.OF_TRUTH and n != "hamming"])
def test_derivatives(name: str) -> None:
    a, b = _operands(name)
    weights, way, h = RNG.normal(size=(5, 6)), RNG.normal(size=a.shape), 1e-6
    for given in _options(name):
        if name == "jensenshannon" and given:
            continue

        def loss(x: Any, given: dict[str, Any] = given) -> Any:
            return np.sum(weights * sd.cdist(x, b, name, **given))

        expected = (loss(a + h * way) - loss(a - h * way)) / (2 * h)
        assert np.sum(grad(loss)(a) * way) == pytest.approx(expected, rel=1e-5, abs=1e-7)


def test_equal_rows_have_derivative_zero() -> None:
    for name in ("euclidean", "minkowski", "seuclidean", "mahalanobis", "jensenshannon"):
        g = grad(lambda x, name=name: np.sum(sd.cdist(x, x[:2], name)))(np.abs(A))
        assert np.isfinite(g).all()


def test_functions_as_metrics_and_batches() -> None:
    own = lambda u, v: np.sum((u - v) ** 2)  # noqa: E731
    np.testing.assert_allclose(jit(lambda a: sd.cdist(a, B, own))(A), plain.cdist(A, B, own))
    np.testing.assert_allclose(jit(lambda a: sd.pdist(a, own))(A), plain.pdist(A, own))
    many = vmap(lambda a: sd.cdist(a, B))(np.stack([A, 2 * A]))
    np.testing.assert_allclose(many[1], plain.cdist(2 * A, B))
    np.testing.assert_allclose(jit(sd.directed_hausdorff)(A, B), plain.directed_hausdorff(A, B))
    bad = A.copy()
    bad[0, 0] = np.nan
    np.testing.assert_allclose(jit(sd.cdist)(bad, B), plain.cdist(bad, B))


def test_squareform() -> None:
    v = plain.pdist(A)
    np.testing.assert_array_equal(jit(sd.squareform)(v), plain.squareform(v))
    np.testing.assert_array_equal(jit(sd.squareform)(plain.squareform(v)), v)
    np.testing.assert_array_equal(grad(lambda v: sd.squareform(v)[0, 1])(v), np.eye(v.size)[0])


@pytest.mark.parametrize(
    "program",
    [
        lambda a: sd.cdist(a, a[:, :2]),
        lambda a: sd.cdist(a[0], a),
        lambda a: sd.cdist(a, a, "manhatan"),
        lambda a: sd.cdist(a, a, out=A),
        lambda a: sd.cdist(a, a, "cosine", p=3),
        lambda a: sd.pdist(a * 1j),
        lambda a: sd.euclidean(a, a),
        lambda a: sd.euclidean(a[0], a[1], [1.0, -1.0, 1.0, 1.0]),
        lambda a: sd.correlation(a[0], a[1], -W),
        lambda a: sd.minkowski(a[0], a[1], -1),
        lambda a: sd.minkowski(a[0], a[1], 0.0),
        lambda a: sd.cdist(a, a, "minkowski", p=-2.0),
        lambda a: sd.pdist(a, "cityblock", w=-W),
        lambda a: sd.squareform(a),
        lambda a: sd.squareform(a[0, :2]),
        lambda a: sd.squareform(a[0, :3], force="tovector"),
    ],
)
def test_what_is_not_there_is_refused(program: Callable[..., Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        jit(program)(A)


@pytest.mark.parametrize("kind", [np.float64, np.complex128])
def test_squareform_refuses_what_is_no_matrix_of_distances(kind: type[np.generic]) -> None:
    matrix = np.array([[0.0, 1.0], [2.0, 0.0]], kind)
    for wrong in (matrix, matrix + matrix.T + np.eye(2, dtype=kind)):
        with pytest.raises(ValueError, match="Distance matrix"):
            jit(sd.squareform)(wrong)
        jit(lambda x: sd.squareform(x, checks=False))(wrong)
    assert jit(sd.squareform)(matrix + matrix.T) == 3.0
