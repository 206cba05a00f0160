"""Worked examples with known numbers, each at the prompt and compiled.

The numbers are those that courses and articles on automatic differentiation print, or ought to
print; they were checked with JAX (64 bits) and PyTorch.  The last test counts what passes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from seed_models import DIGIT_LOSSES, digit_losses, digit_weights, penalty_gradient, scalar_net

import fgrad
from fgrad import grad, hessian, jacrev, nn, stop_gradient, value_and_grad, vjp, vmap


class Example(NamedTuple):
    """A function of arrays, its arguments and its result; `compiled` if jit needs another form."""

    name: str
    fun: Callable[..., Any]
    args: tuple[Any, ...]
    expected: Any
    compiled: Callable[..., Any] | None = None
    tolerance: float = 1e-9


def array(*values: Any) -> np.ndarray:
    return np.array(values, dtype=np.float64)


def weird(x: Any) -> Any:
    """Python's own `if` on a value: at the prompt."""
    if x > 0:
        return x**2
    return 1.0 - 3.0 * x


def weird_where(x: Any) -> Any:
    """The same for compiled code."""
    return np.where(x > 0, x**2, 1.0 - 3.0 * x)


def twice(fun: Callable[..., Any]) -> Callable[..., Any]:
    """The pullback of a function, called twice."""

    def both(x: Any) -> Any:
        _, pull = vjp(fun, x)
        return pull(1.0)[0], pull(1.0)[0]

    return both


def summed(count: int) -> Callable[..., Any]:
    """The gradient of x**2, taken and added `count` times."""
    return lambda x: sum(grad(lambda x: x**2)(x) for _ in range(count))


def two_losses(x: Any) -> Any:
    a, da = value_and_grad(lambda x: 3 * x**2)(x)
    b, db = value_and_grad(lambda x: x**2 + 5)(x)
    return a, da, b, da + db


def straight_through(x: Any) -> Any:
    return x + stop_gradient(np.round(x) - x)


def scaled_in_place(x: Any) -> Any:
    y = 2 * x
    y[0:2] *= 3
    return np.sum(y)


def added_in_place(x: Any) -> Any:
    y = x * 2
    y += 1
    return np.sum(y)


def surrogate(x: Any) -> Any:
    return np.exp(-2 * np.maximum(x, 0))


def log_sin(x: Any) -> Any:
    return np.log(x[0] * x[1]) * np.sin(x[1])


def softmax(x: Any) -> Any:
    e = np.exp(x - np.max(x))
    return e / np.sum(e)


def softmax_differences(x: Any, g: Any) -> Any:
    """The pullback and the Jacobian of softmax, less their formulas."""
    s, pull = vjp(softmax, x)
    return pull(g)[0] - s * (g - s @ g), jacrev(softmax)(x) - (np.diag(s) - np.outer(s, s))


def layer_norm_difference(x: Any, gamma: Any, g: Any) -> Any:
    """The pullback of a layer norm less its formula, with gamma inside the means."""

    def norm(x: Any) -> Any:
        centred = x - np.mean(x)
        return gamma * centred / np.sqrt(np.mean(centred**2))

    sigma = np.std(x)
    unit, h = (x - np.mean(x)) / sigma, gamma * g
    return vjp(norm, x)[1](g)[0] - (h - np.mean(h) - unit * np.mean(h * unit)) / sigma


def microbatch_difference(w: Any, x: Any, y: Any) -> Any:
    """The gradient of a batch of 32, less the mean over four batches of 8."""

    def loss(w: Any, x: Any, y: Any) -> Any:
        return np.mean((np.tanh(x @ w) - y) ** 2)

    parts = [grad(loss)(w, x[k : k + 8], y[k : k + 8]) for k in range(0, 32, 8)]
    return grad(loss)(w, x, y) - sum(parts) / 4


def maml(theta: Any) -> Any:
    """One inner step of size 0.1, then the outer loss."""
    inner = theta - 0.1 * grad(lambda t: (t - 1.0) ** 2)(theta)
    return (inner - 2.0) ** 2


def dqn(w: Any, state: Any, following: Any) -> Any:
    """The squared temporal difference with a frozen target."""
    target = 1.0 + 0.9 * stop_gradient(w @ following)
    return (w @ state - target) ** 2


RNG = np.random.default_rng(40)
W, X, B = RNG.normal(size=(2, 3)), RNG.normal(size=(3, 1)), RNG.normal(size=(2, 1))
ONES = np.ones((2, 1))
ADD = array([1, 3], [5, 7])
HALF = np.float16(1)


def boxed(z: Any) -> Any:
    """A real loss of a function that is not holomorphic."""
    s = z**2 * np.conj(z)
    return np.abs(s) ** 2 + s.real


def scaled_half(scale: float) -> Callable[..., Any]:
    """The gradient of x * 1e-4 * k in float16, by way of a loss that is scaled and unscaled."""

    def gradient(x: Any, k: Any) -> Any:
        slope = grad(lambda x: x * 1e-4 * k * scale)(x)
        return slope.astype(np.float32) / np.float32(scale)

    return gradient


EXAMPLES = (
    Example("A-1", value_and_grad(lambda x: (3 * x + 2) ** 2), (1.0,), (25.0, 30.0)),
    Example("A-1 dy/du", grad(lambda u: u**2), (5.0,), 10.0),
    Example("A-2 at 2", value_and_grad(weird), (2.0,), (4.0, 4.0), value_and_grad(weird_where)),
    Example("A-2 at -1", value_and_grad(weird), (-1.0,), (4.0, -3.0), value_and_grad(weird_where)),
    Example(
        "A-3", value_and_grad(lambda x: np.sum((2 * x + 5) ** 2)), (array(3),), (121.0, array(44))
    ),
    Example("A-4", value_and_grad(lambda x: 3 * x**2 + 1), (2.0,), (13.0, 12.0)),
    Example("A-5", grad(lambda x: (3 * x + 2) ** 2), (2.0,), 48.0),
    Example("A-6", grad(lambda x: np.sin(np.exp(x**2))), (0.5,), 0.3631949148017262),
    Example("A-6 value", lambda x: np.sin(np.exp(x**2)), (0.5,), 0.9591622435, None, 1e-10),
    Example(
        "A-6 float32",
        grad(lambda x: np.sin(np.exp(x**2))),
        (np.float32(0.5),),
        np.float32(0.36319488),
        None,
        1e-6,
    ),
    Example("A-7", value_and_grad(lambda x: (3 * x + 1) ** 2), (2.0,), (49.0, 42.0)),
    Example("A-7 b", grad(lambda b: b**2), (7.0,), 14.0),
    Example("A-7 a", grad(lambda a: (a + 1) ** 2), (6.0,), 14.0),
    Example("A-8", value_and_grad(lambda x: x**2 + 5 * x), (3.0,), (24.0, 11.0)),
    Example(
        "A-9",
        grad(lambda w, x, b: np.sum(w @ x + b), argnums=(0, 1, 2)),
        (W, X, B),
        (ONES @ X.T, W.T @ ONES, ONES),
    ),
    Example("A-10", lambda x: [summed(k)(x) for k in (1, 2, 3)], (3.0,), [6.0, 12.0, 18.0]),
    Example("A-11", grad(lambda x: 3 * x + x**2), (2.0,), 7.0),
    Example("A-12", lambda x: sum(grad(lambda x: 5 * x)(x) for _ in range(3)), (1.0,), 15.0),
    Example("A-13", value_and_grad(lambda x: stop_gradient(x**2) * 2), (3.0,), (18.0, 0.0)),
    Example("A-14", twice(lambda x: x**3), (2.0,), (12.0, 12.0)),
    Example("A-14 second", grad(grad(lambda x: x**3)), (2.0,), 12.0),
    Example("A-15", twice(lambda x: x**2 + 2 * x), (3.0,), (8.0, 8.0)),
    Example("A-16", two_losses, (2.0,), (12.0, 12.0, 9.0, 16.0)),
    Example("A-17", vmap(grad(nn.relu)), (array(-2, -1, 0, 1, 2),), array(0, 0, 0, 1, 1)),
    Example("A-18", value_and_grad(straight_through), (2.7,), (3.0, 1.0)),
    Example(
        "A-19",
        vmap(value_and_grad(lambda x: np.clip(x, 0.0, 1.0))),
        (array(-2, 0.5, 3),),
        (array(0, 0.5, 1), array(0, 1, 0)),
    ),
    Example(
        "A-20",
        value_and_grad(lambda u, v, b: nn.relu(u * 2 + v * 3 + b), argnums=(0, 1, 2)),
        (0.5, -0.3, 0.1),
        (0.2, (2.0, 3.0, 1.0)),
    ),
    Example(
        "A-21",
        value_and_grad(scalar_net),
        ({"w1": 0.4, "w2": 0.3, "b1": 0.1, "w3": 1.2, "b2": -0.5},),
        (1.9044, {"w1": -4.968, "w2": 6.624, "b1": -3.312, "w3": -0.276, "b2": -2.76}),
    ),
    Example("A-22 cube", grad(lambda x: x**3), (2.0,), 12.0),
    Example("A-22 product", grad(lambda x: (x + 1) * (x - 1)), (3.0,), 6.0),
    Example("A-22 relu", vmap(grad(lambda x: nn.relu(x - 2))), (array(1, 5),), array(0, 1)),
    Example("A-23", grad(added_in_place), (array(1, 2),), array(2, 2)),
    Example(
        "A-24", grad(lambda x: np.sum(x[0] * 2)), (array([1, 2], [3, 4]),), array([2, 2], [0, 0])
    ),
    Example("A-24 view", grad(scaled_in_place), (array(1, 2, 3),), array(6, 6, 2)),
    Example(
        "A-25",
        vmap(value_and_grad(surrogate)),
        (array(1, -1, 0.3),),
        (array(0.1353352832, 1, 0.5488116361), array(-0.2706705665, 0, -1.0976232722)),
    ),
    Example("A-26", grad(lambda x: np.sum(x**3)), (array(1, 2, 3),), array(3, 12, 27)),
    Example(
        "A-26 Jacobian",
        jacrev(lambda x: np.stack([x[0] ** 2 + x[1], x[0] * x[1]])),
        (array(2, 3),),
        array([4, 1], [3, 2]),
    ),
    Example(
        "A-27",
        lambda x, v, e: [vjp(lambda x: x**2, x)[1](ct)[0] for ct in (v, e)],
        (array(1, 2, 3), array(1, 1, 1), array(1, 0, 0)),
        [array(2, 4, 6), array(2, 0, 0)],
    ),
    Example(
        "A-28 weights",
        digit_weights,
        (),
        (
            array(-0.0100401685, 0.0190345285, -0.0274667040),
            array(0.0090359156, -0.0676032168, -0.0421353232),
        ),
    ),
    Example("A-28 losses", digit_losses, (), DIGIT_LOSSES),
    Example(
        "A-29",
        value_and_grad(log_sin),
        (array(0.5, 0.75),),
        (-0.6685712358, array(1.3632775200466682, 0.19118983333660755)),
    ),
    Example(
        "A-30",
        jacrev(lambda x: np.stack([np.log(x[0] * x[1]), np.sin(x[1])])),
        (array(0.5, 0.75),),
        array([2, 4 / 3], [0, 0.7316888689]),
    ),
    Example(
        "A-31",
        value_and_grad(lambda x, y: np.mean(x * y + x), argnums=(0, 1)),
        (array(1, 2, 3), array(0.5, -1, 4)),
        (5.5, (array(0.5, 0, 5 / 3), array(1 / 3, 2 / 3, 1))),
    ),
    Example(
        "A-32",
        value_and_grad(lambda a, b: np.mean(a.reshape(2, 2) + b), argnums=(0, 1)),
        (array(1, 3, 5, 7), array(0.5, -1)),
        (3.75, (np.full(4, 0.25), array(0.5, 0.5))),
    ),
    Example(
        "A-33",
        grad(lambda x: np.sum((x + 3) * (x + 4) / 2)),
        (np.ones((5, 5)),),
        np.full((5, 5), 4.5),
    ),
    Example("A-34", grad(lambda z: np.abs(z) ** 2), (3 + 4j,), 6 + 8j),
    Example("A-35", grad(lambda z: 2.5 * z, holomorphic=True), (1 + 2j,), 2.5 + 0j),
    Example("A-35 square", grad(lambda z: z**2, holomorphic=True), (1 + 2j,), 2 + 4j),
    Example("A-35 real part", grad(lambda z: (z**2).real), (1 + 2j,), 2 - 4j),
    Example("A-35 pullback", lambda z: vjp(lambda z: z**2, z)[1](1 + 0j)[0], (1 + 2j,), 2 + 4j),
    Example("A-36", grad(lambda z: np.log(z).real), (1 + 2j,), 0.2 + 0.4j),
    Example("A-37", grad(lambda x: np.abs((1 + 2j) * x) ** 2), (3.0,), 30.0),
    Example("A-38", grad(boxed), (1 + 2j,), 157 + 304j),
    Example(
        "A-39",
        grad(lambda x: np.sum(np.abs(np.fft.fft(x)) ** 2)),
        (array(1, 2, 3, 4),),
        array(8, 16, 24, 32),
    ),
    Example(
        "A-40",
        softmax_differences,
        (RNG.normal(size=5), RNG.normal(size=5)),
        (np.zeros(5), np.zeros((5, 5))),
    ),
    Example(
        "A-41",
        layer_norm_difference,
        (RNG.normal(size=6), RNG.normal(size=6), RNG.normal(size=6)),
        np.zeros(6),
    ),
    Example(
        "A-42",
        microbatch_difference,
        (RNG.normal(size=4), RNG.normal(size=(32, 4)), RNG.normal(size=32)),
        np.zeros(4),
    ),
    Example(
        "G1 WGAN-GP",
        penalty_gradient,
        (array(0.5, -1), array([1, 2], [3, 4]), array([0, 1], [1, 0]), array([0.25], [0.75])),
        (0.28062511440235716, array(-0.263864563941498, -0.4469138907987933)),
    ),
    Example(
        "G2 DQN",
        value_and_grad(dqn),
        (array(1, 2), array(1, 0.5), array(0.5, 1)),
        (1.5625, array(-2.5, -1.25)),
    ),
    Example("G3 MAML", value_and_grad(maml), (0.0,), (3.24, -2.88)),
    Example("G4", scaled_half(1.0), (HALF, 1e-3), np.float32(1.1920929e-07), None, 1e-12),
    Example(
        "G4 scaled", scaled_half(4096.0), (HALF, 1e-3), np.float32(1.0005896911e-07), None, 1e-12
    ),
    Example("G4 lost", scaled_half(1.0), (HALF, 1e-4), np.float32(0), None, 1e-12),
    Example("G4 kept", scaled_half(4096.0), (HALF, 1e-4), np.float32(9.997166e-09), None, 1e-12),
    Example("G5 at 0", grad(lambda n, x: x**n), (2.0, 0.0), 0.0),
    Example("G5 at -1", grad(lambda n, x: x**n), (2.0, -1.0), np.nan),
    Example("tie of maximum", grad(lambda x: np.maximum(x, 0.0)), (0.0,), 0.5),
    Example("tie of max", grad(np.max), (array(1, 1),), array(0.5, 0.5)),
    Example(
        "edges of clip", vmap(grad(lambda x: np.clip(x, 0.0, 1.0))), (array(0, 1),), array(1, 1)
    ),
    Example("abs at 0", grad(np.abs), (0.0,), 0.0),
    Example("sqrt at 0", grad(np.sqrt), (0.0,), np.inf),
    Example("norm at 0", grad(np.linalg.norm), (array(0, 0),), array(0, 0)),
    Example("masked sqrt", grad(lambda x: np.where(x < 1, x, np.sqrt(x))), (0.0,), 1.0),
    Example("power 0 at 0", grad(lambda x: x**0.0), (0.0,), 0.0),
    Example("Hessian", hessian(lambda x: x[0] ** 2 * x[1]), (array(2, 3),), array([6, 4], [4, 0])),
)

WAYS = ("eager", "jit")
PASSED: set[tuple[str, str]] = set()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.name)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, at 0 and at infinity
def test_number(example: Example, way: str) -> None:
    fun = example.fun if way == "eager" else fgrad.jit(example.compiled or example.fun)
    got, wanted = (fgrad.tree.leaves(t) for t in (fun(*example.args), example.expected))
    assert len(got) == len(wanted)
    for x, y in zip(got, wanted, strict=True):
        assert np.shape(x) == np.shape(y)
        assert np.asarray(x).dtype == np.asarray(y).dtype
        np.testing.assert_allclose(x, y, rtol=example.tolerance, atol=1e-12 + example.tolerance)
    PASSED.add((example.name, way))


def test_count(capsys: pytest.CaptureFixture[str]) -> None:
    """Prints how many examples pass each way, when the whole file runs."""
    counts = {way: sum(w == way for _, w in PASSED) for way in WAYS}
    with capsys.disabled():
        stated = ", ".join(f"{way} {n}/{len(EXAMPLES)}" for way, n in counts.items())
        print(f"\nworked examples: {stated}")
