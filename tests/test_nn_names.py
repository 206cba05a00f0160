"""What JAX's users find in `fgrad.nn`: activations by JAX's values, weights by their law."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad import nn, random
from fgrad.errors import ArgumentError, ShapeError

KEY = random.key(5)
X = np.array([-3.5, -0.3, 0.0, 0.7, 2.0, 6.0])

# Values and derivatives at X by jax.nn of JAX 0.10.2, in float64.
ACTIVATIONS = {
    "hard_silu": (
        [0.0, -0.135, 0.0, 0.43166666666666664, 1.6666666666666665, 6.0],
        [0.0, 0.4, 0.5, 0.7333333333333334, 1.1666666666666665, 1.0],
    ),
    "sparse_plus": (
        [0.0, 0.12249999999999998, 0.25, 0.7224999999999999, 2.0, 6.0],
        [0.0, 0.35, 0.5, 0.85, 1.0, 1.0],
    ),
    "sparse_sigmoid": ([0.0, 0.35, 0.5, 0.85, 1.0, 1.0], [0.0, 0.5, 0.5, 0.5, 0.0, 0.0]),
    "squareplus": (
        [0.2655644370746373, 0.8611874208078342, 1.0, 1.4094810050208544, 2.414213562373095,
         6.16227766016838],
        [0.06587842893777036, 0.42582977353487766, 0.5, 0.6651752123640531, 0.8535533905932737,
         0.9743416490252569],
    ),
    "identity": (X, np.ones(6)),
}  # fmt: skip


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation(name: str) -> None:
    f = getattr(nn, name)
    value, slope = ACTIVATIONS[name]
    np.testing.assert_allclose(f(X), value, rtol=1e-14)
    np.testing.assert_allclose(fgrad.jit(f)(X), value, rtol=1e-14)
    np.testing.assert_allclose(fgrad.grad(lambda x: np.sum(f(x)))(X), slope, rtol=1e-13)
    ends = f(np.array([-np.inf, np.inf, np.nan]))
    assert np.isnan(ends[2]) and ends[1] > 0.9
    if name != "identity":
        assert ends[0] == 0
    assert f(np.float32(0.5)).dtype == np.float32 and f(2).dtype == np.float64


def test_squareplus_without_cancellation() -> None:
    np.testing.assert_allclose(nn.squareplus(-1e7), 1e-7, rtol=1e-13)
    assert nn.squareplus(0.0, 0.0) == 0.0
    slope = fgrad.grad(lambda b: nn.squareplus(-3.0, b))(4.0)
    np.testing.assert_allclose(slope, 0.25 / np.sqrt(13), rtol=1e-14)


def test_log1mexp() -> None:
    x = np.array([1e-9, 0.1, 0.7, 3.0, 40.0])
    value = [-20.723265837446412, -2.352168461044091, -0.6863410028083852, -0.05106918094270159,
             -4.248354255291589e-18]  # fmt: skip
    np.testing.assert_allclose(nn.log1mexp(x), value, rtol=1e-14)
    slope = fgrad.jit(fgrad.grad(lambda x: np.sum(nn.log1mexp(x))))(x)
    np.testing.assert_allclose(slope, 1 / np.expm1(x), rtol=1e-13)


Y = np.array([[1.0, 2.0, 4.0], [0.0, -1.0, 3.0]])
W = np.array([[True, False, True], [True, True, True]])


def test_standardize_and_logmeanexp() -> None:
    expected = [[0.9999800005999799, 948.6832980505137, 0.9999800005999799],
                [-0.9999800005999799, 0.0, -0.9999800005999799]]  # fmt: skip
    np.testing.assert_allclose(nn.standardize(Y, axis=0, where=W), expected, rtol=1e-12)
    rows = nn.standardize(Y)
    np.testing.assert_allclose(rows[0], [-1.0690415314502968, -0.26726038286257403,
                                         1.3363019143128716], rtol=1e-12)  # fmt: skip
    np.testing.assert_allclose(nn.standardize(Y, mean=1.0, variance=4.0, epsilon=0.0), (Y - 1) / 2)
    found = nn.logmeanexp(Y, axis=1, where=W)
    np.testing.assert_allclose(found, [3.3554401710137967, 1.9672716150893195], rtol=1e-14)
    assert nn.logmeanexp(Y, axis=1, keepdims=True).shape == (2, 1)
    assert np.isnan(nn.logmeanexp(Y, where=False))


# --- initial weights -----------------------------------------------------------------------------

SHAPE = (60, 80)
DEVIATIONS = {
    "glorot_normal": np.sqrt(1 / 70),
    "glorot_uniform": np.sqrt(1 / 70),
    "xavier_normal": np.sqrt(1 / 70),
    "xavier_uniform": np.sqrt(1 / 70),
    "lecun_normal": np.sqrt(1 / 60),
    "lecun_uniform": np.sqrt(1 / 60),
    "he_normal": np.sqrt(2 / 60),
    "he_uniform": np.sqrt(2 / 60),
    "kaiming_normal": np.sqrt(2 / 60),
    "kaiming_uniform": np.sqrt(2 / 60),
}


@pytest.mark.parametrize("name", DEVIATIONS)
def test_variance(name: str) -> None:
    init = getattr(nn.initializers, name)()
    x = init(KEY, SHAPE)
    np.testing.assert_allclose(np.std(x), DEVIATIONS[name], rtol=0.05)
    limit = np.sqrt(3) if "uniform" in name else 2 / 0.8796
    assert np.max(np.abs(x)) <= limit * DEVIATIONS[name]
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(init))(KEY, SHAPE), x)
    assert init(KEY, SHAPE, np.float32).dtype == np.float32


@pytest.mark.parametrize(
    ("mode", "n"), [("fan_in", 60), ("fan_out", 80), ("fan_avg", 70), ("fan_geo_avg", 69.282)]
)
def test_modes(mode: str, n: float) -> None:
    init = nn.initializers.variance_scaling(3.0, mode, "normal")
    np.testing.assert_allclose(np.std(init(KEY, SHAPE)), np.sqrt(3 / n), rtol=0.05)


def test_axes_of_fans() -> None:
    init = nn.initializers.variance_scaling(
        1.0, "fan_in", "uniform", in_axis=(0, 1), out_axis=-1, batch_axis=2
    )
    x = init(KEY, (20, 30, 5, 7))
    np.testing.assert_allclose(np.std(x), np.sqrt(1 / 600), rtol=0.05)


def test_other_weights() -> None:
    make = nn.initializers
    np.testing.assert_array_equal(make.zeros(KEY, (2, 3), np.float32), np.zeros((2, 3)))
    np.testing.assert_array_equal(make.ones(KEY, (2,)), [1, 1])
    np.testing.assert_array_equal(make.constant([1.0, 2.0])(KEY, (2, 2)), [[1, 2], [1, 2]])
    np.testing.assert_allclose(np.std(make.normal(0.5)(KEY, SHAPE)), 0.5, rtol=0.05)
    assert np.max(make.truncated_normal(0.5)(KEY, SHAPE)) <= 1.0
    x = make.uniform(0.5)(KEY, SHAPE)
    assert np.min(x) >= 0 and np.max(x) < 0.5


def test_orthogonal_weights() -> None:
    w: Any = nn.initializers.orthogonal(2.0, column_axis=1)(KEY, (3, 2, 4))
    m = np.moveaxis(w, 1, -1).reshape(12, 2)
    np.testing.assert_allclose(m.T @ m, 4 * np.eye(2), atol=1e-12)
    w = fgrad.jit(lambda k: nn.initializers.delta_orthogonal()(k, (3, 4, 2, 5)))(KEY)
    np.testing.assert_allclose(w[1, 1] @ w[1, 1].T, np.eye(2), atol=1e-12)
    assert np.count_nonzero(w) == 10
    assert nn.initializers.orthogonal()(KEY, (0, 3)).shape == (0, 3)


REFUSED: dict[str, tuple[Any, type[Exception]]] = {
    "mode": (lambda: nn.initializers.variance_scaling(1.0, "fan", "normal"), ArgumentError),
    "law": (lambda: nn.initializers.variance_scaling(1.0, "fan_in", "cauchy"), ArgumentError),
    "fans": (lambda: nn.initializers.he_normal()(KEY, (3,)), ShapeError),
    "orthogonal": (lambda: nn.initializers.orthogonal()(KEY, (3,)), ShapeError),
    "delta": (lambda: nn.initializers.delta_orthogonal()(KEY, (3, 4, 2)), ShapeError),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    call, error = REFUSED[name]
    with pytest.raises(error):
        call()
