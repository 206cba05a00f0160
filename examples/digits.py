"""Train a network on handwritten digits, then ask every digit for a gradient of its own.

    make demo                                         sets everything up and runs this file
    python examples/digits.py --data mnist.npz        the same with MNIST (Keras' file)

The data are the 1,797 handwritten digits that come with scikit-learn, so nothing is downloaded.
The model is plain NumPy.  Three transforms do the rest, and they compose:

    jit(value_and_grad(loss))                          a compiled training step
    jit(vmap(grad(loss), in_axes=(None, 0, 0)))        one gradient for each example
    jit(private_gradient)                              those gradients, clipped, summed and noised
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from digits_figure import draw
from sklearn.datasets import load_digits

import fgrad

REQUIRED_ACCURACY = 0.96
CLIP = 1.0  # the largest gradient norm that a single example may contribute
NOISE = 0.6  # the noise of the private gradient, in units of CLIP


class Data(NamedTuple):
    """Images as rows of numbers in [0, 1], and the digit each one shows."""

    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


# --- the model: plain NumPy -----------------------------------------------------------------------


def init(sizes: list[int], seed: int) -> list[dict[str, np.ndarray]]:
    """Weights and biases of a fully connected network; He's scaling for relu."""
    rng = np.random.default_rng(seed)
    return [
        {
            "w": rng.normal(0.0, np.sqrt(2.0 / n), (n, m)).astype(np.float32),
            "b": np.zeros(m, np.float32),
        }
        for n, m in itertools.pairwise(sizes)
    ]


def logits(params: Any, x: Any) -> Any:
    """The network's score for each of the ten digits; `x` is one image or a batch of them."""
    *hidden, last = params
    for layer in hidden:
        x = np.maximum(x @ layer["w"] + layer["b"], 0.0)
    return x @ last["w"] + last["b"]


def loss(params: Any, x: Any, y: Any) -> Any:
    """The mean surprise at the right answers, in nats."""
    return np.mean(fgrad.nn.softmax_cross_entropy(logits(params, x), y))


# --- what fgrad makes of it -----------------------------------------------------------------------

loss_and_grad = fgrad.jit(fgrad.value_and_grad(loss))
per_sample_grads = fgrad.jit(fgrad.vmap(fgrad.grad(loss), in_axes=(None, 0, 0)))
one_grad = fgrad.jit(fgrad.grad(loss))
scores = fgrad.jit(logits)
sample_losses = fgrad.jit(fgrad.vmap(loss, in_axes=(None, 0, 0)))

optimizer = fgrad.optim.adam(2e-3)


@fgrad.jit
def train_step(params: Any, state: Any, x: Any, y: Any) -> Any:
    """One step of Adam: gradient, moments and update compiled into one function."""
    value, gradient = fgrad.value_and_grad(loss)(params, x, y)
    updates, state = optimizer.update(gradient, state, params)
    return fgrad.optim.apply_updates(params, updates), state, value


@fgrad.jit
def private_gradient(params: Any, key: Any, x: Any, y: Any) -> Any:
    """The gradient of differentially private SGD.

    Each example's gradient is scaled down to norm CLIP at most, so that no single digit can move
    the parameters far, and the sum is blurred with Gaussian noise.
    """

    def clipped(x: Any, y: Any) -> Any:
        gradient = fgrad.grad(loss)(params, x, y)
        norm = np.sqrt(sum(np.sum(g**2) for g in fgrad.tree.leaves(gradient)))
        factor = np.minimum(1.0, CLIP / (norm + 1e-12))
        return fgrad.tree.map(lambda g: g * factor, gradient)

    gradients, treedef = fgrad.tree.flatten(fgrad.vmap(clipped)(x, y))
    keys = fgrad.random.split(key, len(gradients))
    noisy = [
        (np.sum(g, axis=0) + NOISE * CLIP * fgrad.random.normal(k, g.shape[1:], g.dtype)) / len(x)
        for g, k in zip(gradients, keys, strict=True)
    ]
    return fgrad.tree.unflatten(treedef, noisy)


# --- the story ------------------------------------------------------------------------------------


def load(path: str | None) -> Data:
    """scikit-learn's digits, or an .npz file with x_train, y_train, x_test, y_test."""
    if path is not None:
        with np.load(path) as file:
            x_train, y_train, x_test, y_test = (
                file[k] for k in ("x_train", "y_train", "x_test", "y_test")
            )
        scale = np.float32(255.0)
    else:
        digits = load_digits()
        order = np.random.default_rng(0).permutation(len(digits.data))
        x, y = digits.data[order], digits.target[order]
        x_train, y_train, x_test, y_test = x[:1437], y[:1437], x[1437:], y[1437:]
        scale = np.float32(16.0)
    flat = [x.reshape(len(x), -1).astype(np.float32) / scale for x in (x_train, x_test)]
    return Data(flat[0], y_train.astype(np.int64), flat[1], y_test.astype(np.int64))


def batches(
    data: Data, size: int, epochs: int, seed: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Shuffled batches of the training set, for a number of epochs."""
    rng = np.random.default_rng(seed)
    for _ in range(epochs):
        order = rng.permutation(len(data.x_train))
        for start in range(0, len(order) - size + 1, size):
            chosen = order[start : start + size]
            yield data.x_train[chosen], data.y_train[chosen]


def accuracy(params: Any, x: np.ndarray, y: np.ndarray) -> float:
    """The share of images that are read rightly."""
    return float(np.mean(np.argmax(scores(params, x), axis=1) == y))


def progress(done: int, total: int, note: str) -> None:
    """A bar that redraws itself in a terminal, and one line at the end elsewhere."""
    if not sys.stdout.isatty() and done < total:
        return
    filled = 32 * done // total
    start, end = ("\r", "") if sys.stdout.isatty() and done < total else ("\r", "\n")
    bar = "█" * filled + "·" * (32 - filled)
    print(f"{start if sys.stdout.isatty() else ''}  {bar} {note}", end=end, flush=True)


def train(params: Any, data: Data, epochs: int, size: int) -> tuple[Any, list[float]]:
    """Adam on shuffled batches; returns the parameters and the loss of every step."""
    state = optimizer.init(params)
    history: list[float] = []
    total = epochs * (len(data.x_train) // size)
    for x, y in batches(data, size, epochs, seed=1):
        params, state, value = train_step(params, state, x, y)
        history.append(float(value))
        progress(len(history), total, f"step {len(history)}/{total}  loss {value:.4f}")
    return params, history


def train_privately(params: Any, data: Data, epochs: int, size: int) -> Any:
    """SGD on private gradients: the same loop with another gradient."""
    key = fgrad.random.key(0)
    total = epochs * (len(data.x_train) // size)
    for step, (x, y) in enumerate(batches(data, size, epochs, seed=2), start=1):
        key, noise = fgrad.random.split(key)
        gradient = private_gradient(params, noise, x, y)
        params = fgrad.tree.map(lambda p, g: p - np.float32(0.5) * g, params, gradient)
        progress(step, total, f"step {step}/{total}")
    return params


def timed(run: Callable[[], Any], repeat: int = 5) -> tuple[Any, float]:
    """The result, and the median time in milliseconds after a first call that may compile."""
    result, times = run(), []
    for _ in range(repeat):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return result, 1e3 * float(np.median(times))


def compare_with_loop(params: Any, x: np.ndarray, y: np.ndarray) -> float:
    """Per-sample gradients by vmap and by a Python loop; the largest difference between them."""
    together, fast = timed(lambda: per_sample_grads(params, x, y))
    one_by_one, slow = timed(
        lambda: [one_grad(params, x[i], y[i]) for i in range(len(x))], repeat=3
    )
    stacked = fgrad.tree.map(lambda *g: np.stack(g), *one_by_one)
    differences = fgrad.tree.map(lambda a, b: np.max(np.abs(a - b)), together, stacked)
    worst = float(max(fgrad.tree.leaves(differences)))
    print(f"  vmap(grad(loss))        {fast:9.2f} ms for {len(x)} gradients")
    print(f"  a loop over jit(grad)   {slow:9.2f} ms, {slow / fast:.1f} times as long")
    print(f"  largest difference      {worst:9.1e}")
    return worst


def gradient_norms(params: Any, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The length of every example's gradient, over all parameters together."""
    squares = [
        np.sum(g.reshape(len(x), -1) ** 2, axis=1)
        for g in fgrad.tree.leaves(per_sample_grads(params, x, y))
    ]
    return np.sqrt(sum(squares))


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", help="an .npz with x_train, y_train, x_test, y_test")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out")
    return parser.parse_args()


def main() -> int:
    """Train, explain, draw; returns the exit code."""
    options = parse()
    data = load(options.data)
    sizes = [data.x_train.shape[1], 128, 64, 10]
    print(f"{len(data.x_train)} digits to learn from, {len(data.x_test)} to be tested on\n")

    print("1  Training with jit(value_and_grad(loss)) and Adam")
    start = time.perf_counter()
    params, history = train(init(sizes, seed=0), data, options.epochs, options.batch)
    seconds = time.perf_counter() - start
    reached = accuracy(params, data.x_test, data.y_test)
    print(f"  {len(history)} steps in {seconds:.2f} s, compilation included")
    print(f"  test accuracy {reached:.4f}\n")

    print("2  One gradient for each example: jit(vmap(grad(loss), in_axes=(None, 0, 0)))")
    worst = compare_with_loop(params, data.x_train[:128], data.y_train[:128])
    norms = gradient_norms(params, data.x_test[:1000], data.y_test[:1000])
    print(f"  gradient norms: median {np.median(norms):.1e}, largest {norms.max():.1e}\n")

    print("3  Learning privately: clip each gradient, add noise")
    private = train_privately(init(sizes, seed=0), data, max(1, options.epochs // 2), 256)
    reached_privately = accuracy(private, data.x_test, data.y_test)
    print(f"  test accuracy {reached_privately:.4f} (norm at most {CLIP}, noise {NOISE})\n")

    answers = np.argmax(scores(params, data.x_test), axis=1)
    surprise = sample_losses(params, data.x_test, data.y_test)
    figure = draw(options.out / "digits.png", data, history, norms, surprise, answers, CLIP)
    print(f"figure: {figure}")

    if worst > 1e-5:
        print(f"FAILED: vmap and the loop differ by {worst:.1e}, more than 1e-5")
        return 1
    if reached < REQUIRED_ACCURACY:
        print(f"FAILED: test accuracy {reached:.4f} is below {REQUIRED_ACCURACY}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
