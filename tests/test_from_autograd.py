"""What autograd's users write, with their imports changed as docs/coming_from.md says."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import scipy.signal
from scipy.optimize import minimize
from sources import ROOT

import fgrad
from fgrad.errors import NonScalarGradError
from fgrad.scipy.integrate import odeint
from fgrad.scipy.special import logsumexp
from fgrad.scipy.stats import multivariate_normal, norm
from fgrad.testing import check_grads

Tree = Any


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


helpers = _load(ROOT / "examples/from_autograd.py")
examples = _load(ROOT / "tests/unmodified/autograd_examples.py")

X = np.linspace(-1.0, 1.0, 7)


def test_demonstration(capsys: pytest.CaptureFixture[str]) -> None:
    assert helpers.main() == 0
    assert "after Newton-CG 0.0000" in capsys.readouterr().out


# ------------------------------------------------------------------------ the helpers


def test_elementwise_derivatives_of_several_orders() -> None:
    f = np.tanh
    t = np.tanh(X)
    orders = [1 - t**2, -2 * t * (1 - t**2), (6 * t**2 - 2) * (1 - t**2)]
    for expected in orders:
        f = helpers.elementwise_grad(f)
        np.testing.assert_allclose(f(X), expected, atol=1e-12)
    table = X.reshape(7, 1) * np.ones(2)
    np.testing.assert_allclose(helpers.elementwise_grad(np.exp)(table), np.exp(table))


def test_hessian_vector_product_and_pullback() -> None:
    product = helpers.hessian_vector_product(lambda x: np.sum(x**3))
    np.testing.assert_allclose(product(X, np.ones(7)), 6 * X)
    pullback, value = helpers.make_vjp(lambda p: {"y": p["x"] ** 2})({"x": X})
    np.testing.assert_allclose(value["y"], X**2)
    np.testing.assert_allclose(pullback({"y": np.ones(7)})["x"], 2 * X)


@pytest.mark.parametrize("name", ["adam", "sgd"])
def test_optimizers_take_autograds_steps(name: str) -> None:
    """Against the formulas that autograd's documentation gives."""
    start = {"w": X, "b": (np.float64(0.3),)}

    def slope(params: Tree, i: int) -> Tree:
        return fgrad.grad(lambda p: np.sum((p["w"] - i) ** 2) + p["b"][0] ** 4)(params)

    seen: list[int] = []
    found = getattr(helpers, name)(
        slope, start, lambda params, i, g: seen.append(i), num_iters=5, step_size=0.1
    )
    assert seen == [0, 1, 2, 3, 4]
    x, back = helpers.flatten(start)
    first, second = np.zeros(8), np.zeros(8)
    for i in range(5):
        g, _ = helpers.flatten(slope(back(x), i))
        if name == "sgd":
            first = 0.9 * first - 0.1 * g
            x = x + 0.1 * first
            continue
        first, second = 0.1 * g + 0.9 * first, 0.001 * g**2 + 0.999 * second
        size = np.sqrt(second / (1 - 0.999 ** (i + 1))) + 1e-8
        x = x - 0.1 * first / (1 - 0.9 ** (i + 1)) / size
    np.testing.assert_allclose(helpers.flatten(found)[0], x, rtol=1e-12)


def test_fixed_point() -> None:
    def root(a: Any) -> Any:
        def step(a: Any) -> Any:
            return lambda x: 0.5 * (x + a / x)

        return helpers.fixed_point(step, a, np.ones(2), lambda x, y: np.max(np.abs(x - y)), 1e-12)

    a = np.array([2.0, 5.0])
    np.testing.assert_allclose(root(a), np.sqrt(a))
    np.testing.assert_allclose(fgrad.grad(lambda a: np.sum(root(a)))(a), 0.5 / np.sqrt(a))


def test_rules_of_ones_own() -> None:
    calls: list[str] = []

    @helpers.primitive
    def total(x: Any, scale: Any) -> Any:
        calls.append("run")
        return scale * np.sum(x)

    helpers.defvjp(total, lambda ans, x, scale: lambda g: np.full(x.shape, 10 * scale * g), None)
    np.testing.assert_allclose(fgrad.grad(total)(X, 2.0), 20 * np.ones(7))
    assert calls


def test_convolution() -> None:
    rng = np.random.default_rng(0)
    images, kernels = rng.normal(size=(2, 3, 6, 5)), rng.normal(size=(3, 4, 3, 2))
    expected = np.zeros((2, 4, 4, 4))
    for n, c, out in np.ndindex(2, 3, 4):
        expected[n, out] += scipy.signal.convolve(images[n, c], kernels[c, out], mode="valid")
    np.testing.assert_allclose(
        helpers.convolve(images, kernels, ([2, 3], [2, 3]), ([1], [0]), mode="valid"), expected
    )
    a, b = rng.normal(size=(4, 3)), rng.normal(size=(2, 5))
    np.testing.assert_allclose(helpers.convolve(a, b), scipy.signal.convolve(a, b))
    np.testing.assert_allclose(
        helpers.convolve(a, b, axes=([1], [1])), [[np.convolve(x, y) for y in b] for x in a]
    )


# ------------------------------------------------------------------- programs of their kind


def test_mixture_by_second_order_steps() -> None:
    rng = np.random.default_rng(0)
    data = np.concatenate([rng.normal(-2, 0.3, (30, 2)), rng.normal(2, 0.3, (30, 2))])
    params = {"logs": np.zeros(2), "means": np.array([[-1.0, 0.0], [1.0, 0.0]])}

    def loss(p: Tree) -> Any:
        logs = p["logs"] - logsumexp(p["logs"])
        rows = [
            w + multivariate_normal.logpdf(data, mean, np.eye(2))
            for w, mean in zip(logs, p["means"], strict=True)
        ]
        return -np.sum(logsumexp(np.vstack(rows), axis=0))

    flat, back, start = helpers.flatten_func(loss, params)
    product = helpers.hessian_vector_product(flat)
    found = minimize(flat, start, jac=fgrad.grad(flat), hessp=product, method="Newton-CG")
    means = back(found.x)["means"]
    np.testing.assert_allclose(means[:, 0], [-2, 2], atol=0.2)


def test_expected_counts_are_gradients() -> None:
    """The E step of a hidden Markov model is the gradient of its log-likelihood."""
    rng = np.random.default_rng(1)
    words = rng.integers(0, 3, 12)
    params = [np.log(np.ones(2) / 2), np.log(np.full((2, 2), 0.5)), np.log(np.full((2, 3), 1 / 3))]

    def likelihood(natural: Tree, words: Any) -> Any:
        first, moves, out = natural
        alpha = first
        for y in words:
            alpha = logsumexp(alpha[:, None] + moves, axis=0) + out[:, y]
        return logsumexp(alpha)

    value, counts = fgrad.value_and_grad(likelihood)(params, words)
    np.testing.assert_allclose(value, 12 * np.log(1 / 3))
    np.testing.assert_allclose([np.sum(c) for c in counts], [1, 12, 12])
    seen = np.bincount(words, minlength=3)
    np.testing.assert_allclose(counts[2].sum(0), seen)


def test_random_objective() -> None:
    """Draws of a `RandomState` in the loss: each call draws once, as in Python."""
    rs = np.random.RandomState(0)

    def bound(p: Tree, i: int) -> Any:
        mean, log_std = p
        samples = rs.randn(20, 2) * np.exp(log_std) + mean
        return -np.mean(np.sum(norm.logpdf(samples, 1.0, 0.5), axis=-1)) - np.sum(log_std)

    start = (np.zeros(2), np.zeros(2))
    mean, log_std = helpers.adam(fgrad.grad(bound), start, num_iters=300, step_size=0.05)
    np.testing.assert_allclose(mean, 1.0, atol=0.1)
    np.testing.assert_allclose(np.exp(log_std), 0.5, atol=0.1)
    assert rs.randn() == np.random.RandomState(0).randn(300 * 40 + 1)[-1]


def test_parameters_of_a_differential_equation() -> None:
    times = np.linspace(0, 1, 5)

    def last(a: Any) -> Any:
        return odeint(lambda y, t, a: a * y, np.array([1.0]), times, (a,), rtol=1e-9)[-1, 0]

    assert fgrad.grad(last)(0.5) == pytest.approx(np.exp(0.5), rel=1e-5)


def test_rule_and_its_check() -> None:
    @helpers.primitive
    def total(x: Any) -> Any:
        top = np.max(x)
        return top + np.log(np.sum(np.exp(x - top)))

    helpers.defvjp(total, lambda ans, x: lambda g: np.full(x.shape, g) * np.exp(x - ans))
    check_grads(lambda y: np.sum(total(y**2)), (X,), modes=["rev"])


def test_result_of_shape_one_is_refused_with_what_to_write() -> None:
    for f, item in ((lambda x: x[:1] ** 2, "f(x)[0] "), (lambda x: x[:1, None], "f(x)[0, 0] ")):
        with pytest.raises(NonScalarGradError) as found:
            fgrad.grad(f)(X)
        assert item in str(found.value)
    assert fgrad.grad(lambda x: (x[:1] ** 2)[0])(X)[0] == 2 * X[0]
    with pytest.raises(NonScalarGradError) as found:
        fgrad.grad(lambda x: x)(X)
    assert "f(x)[0]" not in str(found.value)


# ---------------------------------------------------------- the script over autograd's examples

IMPORTS = {
    "import autograd.numpy as np": "import numpy as np",
    "import autograd.numpy as np  # wrapped": "import numpy as np",
    "from autograd.numpy.linalg import solve": "from numpy.linalg import solve",
    "import autograd.numpy.random as npr": "import numpy.random as npr",
    "from autograd import grad": "from fgrad import grad",
    "from autograd import value_and_grad as vgrad": "from fgrad import value_and_grad as vgrad",
    "from autograd import grad, elementwise_grad as egrad": (
        "from fgrad import grad; from from_autograd import elementwise_grad as egrad"
    ),
    "from autograd.scipy.stats import norm": "from fgrad.scipy.stats import norm",
    "import autograd.scipy.stats.t as t": "from fgrad.scipy.stats import t as t",
    "from autograd.misc.optimizers import adam": "from from_autograd import adam",
    "from autograd.misc import flatten": "from from_autograd import flatten",
    "from autograd.extend import primitive": "from from_autograd import primitive",
    "from autograd.test_util import check_grads": "from from_autograd import check_grads",
    "    from autograd.builtins import tuple": "    pass",
    "    # by autograd": "    # by autograd",
}


@pytest.mark.parametrize("line", IMPORTS)
def test_imports_are_changed(line: str) -> None:
    new = IMPORTS[line]
    assert examples.changed("name", f"x = 1\n{line}\n") == (f"x = 1\n{new}\n", line != new, 0)


def test_comparison_sees_what_differs() -> None:
    def run(x: Any, text: str = "loss 0.5") -> Any:
        return examples.Run([[np.array(x)]], text, "")

    assert examples.difference(run([1.0, np.nan]), run([1.0, np.nan])) == 0.0
    assert examples.difference(run([1.0, 2.0]), run([1.0, 2.1])) == pytest.approx(0.05)
    assert examples.difference(run([1.0]), run([1.0], "loss 0.6")) == pytest.approx(0.2)
    assert examples.difference(run([1.0]), run([1.0, 2.0])) == np.inf
    assert examples.difference(run([1.0]), run([np.nan])) == np.inf
    assert examples.difference(run([1.0]), examples.Run([], "loss 0.5", "")) == np.inf
