"""A hundred functions as people write them, of arrays with one length that changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special

import fgrad
from fgrad import at, grad, jvp, lax, nn, vmap

RNG = np.random.default_rng(0)
Data = Callable[[int], list[Any]]


def vector(n: int) -> list[Any]:
    return [RNG.normal(size=n)]


def rows(n: int) -> list[Any]:
    return [RNG.normal(size=(n, 12))]


def square(n: int) -> list[Any]:
    return [RNG.normal(size=(n, n)) + n * np.eye(n)]


def pair(n: int) -> list[Any]:
    return [RNG.normal(size=n), RNG.normal(size=n)]


def _moving(x: Any) -> Any:
    y = x.copy()
    y[1:] += x[:-1]
    y[0] = 0.0
    return y


def _newton(x: Any) -> Any:
    y = x
    for _ in range(4):
        y = 0.5 * (y + x / (y + 1.0))
    return y


def _total(x: Any) -> Any:
    total = 0.0
    for v in x:
        total = 0.9 * total + v
    return total


def _logistic(w: Any, x: Any) -> Any:
    return np.mean(np.log1p(np.exp(-(x @ w))))


EVERYDAY: dict[str, tuple[Callable[..., Any], Data]] = {
    "sum": (lambda x: np.sum(x), vector),
    "mean": (lambda x: np.mean(x), vector),
    "mean of rows": (lambda x: np.mean(x, axis=1), rows),
    "mean of columns": (lambda x: np.mean(x, axis=0), rows),
    "variance": (lambda x: np.var(x), vector),
    "deviation": (lambda x: np.std(x, axis=0), rows),
    "sum by length": (lambda x: np.sum(x) / len(x), vector),
    "sum by size": (lambda x: np.sum(x) / x.size, vector),
    "root of the length": (lambda x: x / np.sqrt(x.shape[0]), vector),
    "power of the length": (lambda x: x / x.shape[0] ** 0.5, vector),
    "zeros by length": (lambda x: x + np.zeros(len(x)), vector),
    "zeros like": (lambda x: x + np.zeros_like(x), vector),
    "zeros": (lambda x: fgrad.numpy.zeros(x.shape) + x, vector),
    "counting by length": (lambda x: x * np.arange(len(x)), vector),
    "counting": (lambda x: x * fgrad.numpy.arange(x.shape[0]), vector),
    "ones": (lambda x: x @ np.ones(x.shape[1]), rows),
    "identity": (lambda x: x + np.eye(x.shape[0]), square),
    "flat": (lambda x: x.reshape(-1) * 2, rows),
    "three axes": (lambda x: x.reshape(x.shape[0], 3, 4).sum(1), rows),
    "groups of four": (lambda x: x.reshape(-1, 4).sum(0), rows),
    "ravel": (lambda x: np.ravel(x) + 1, rows),
    "differences by slices": (lambda x: x[1:] - x[:-1], vector),
    "every second": (lambda x: x[::2] * 2, vector),
    "backwards": (lambda x: x[::-1] * 2, vector),
    "last": (lambda x: x[-1] * x, vector),
    "first": (lambda x: x[0] + x, vector),
    "first five": (lambda x: x[:5] * 2, vector),
    "half": (lambda x: x[: x.shape[0] // 2] * 2, vector),
    "new axis": (lambda x: x[None, :] - x[:, None], vector),
    "column": (lambda x: x[:, 2] * x[:, 3], rows),
    "concatenate": (lambda x, y: np.concatenate([x, y]), pair),
    "stack": (lambda x, y: np.stack([x, y]), pair),
    "pad": (lambda x: np.pad(x, 2), vector),
    "diff": (lambda x: np.diff(x), vector),
    "roll": (lambda x: np.roll(x, 1), vector),
    "flip": (lambda x: np.flip(x), vector),
    "tile": (lambda x: np.tile(x, 3), vector),
    "repeat": (lambda x: np.repeat(x, 2), vector),
    "broadcast_to": (lambda x: np.broadcast_to(x, (3, *x.shape)) * 2, vector),
    "split": (lambda x: np.split(x, 3, axis=1)[1] * 2, rows),
    "gram matrix": (lambda x: x.T @ x, rows),
    "kernel matrix": (lambda x: x @ x.T, rows),
    "matrix and vector": (lambda x: x @ np.ones(12), rows),
    "dot": (lambda x, y: np.dot(x, y), pair),
    "outer": (lambda x: np.outer(x, x), vector),
    "einsum": (lambda x: np.einsum("ij,kj->ik", x, x), rows),
    "trace": (lambda x: np.trace(x), square),
    "transpose": (lambda x: x.T * 2, rows),
    "norm": (lambda x: np.linalg.norm(x, axis=1), rows),
    "normalised": (lambda x: x / np.linalg.norm(x), vector),
    "where": (lambda x: np.where(x > 0, x, 0.0), vector),
    "clip": (lambda x: np.clip(x, 0, 1), vector),
    "maximum": (lambda x: np.max(x, axis=0), rows),
    "range": (lambda x: np.max(x) - np.min(x), vector),
    "argmax": (lambda x: np.argmax(x, axis=1), rows),
    "any": (lambda x: np.any(x > 2), vector),
    "sort": (lambda x: np.sort(x), vector),
    "argsort": (lambda x: np.argsort(x), vector),
    "cumsum": (lambda x: np.cumsum(x), vector),
    "cumprod": (lambda x: np.cumprod(x * 0.1), vector),
    "median": (lambda x: np.median(x), vector),
    "quantile": (lambda x: np.quantile(x, 0.3), vector),
    "searchsorted": (lambda x: np.searchsorted(np.arange(10.0), x), vector),
    "rows by number": (lambda x: x[np.array([0, 2, 4])], rows),
    "gather": (lambda x: x[(np.abs(x) * 3).astype(int) % 5], vector),
    "set": (lambda x: at(x)[2].set(0.0), vector),
    "written": (_moving, vector),
    "add to a slice": (lambda x: at(x)[1:].add(x[:-1]), vector),
    "softmax": (lambda x: nn.softmax(x), rows),
    "stable softmax": (lambda x: np.exp(x - x.max(1, keepdims=True)), rows),
    "logsumexp": (lambda x: nn.logsumexp(x, axis=1), rows),
    "gammaln": (lambda x: scipy.special.gammaln(np.abs(x) + 1), vector),
    "gelu": (lambda x: 0.5 * x * (1 + scipy.special.erf(x / np.sqrt(2))), vector),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), vector),
    "layer norm": (
        lambda x: (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5), rows
    ),
    "centred": (lambda x: x - x.mean(0), rows),
    "covariance": (lambda x: (x - x.mean(0)).T @ (x - x.mean(0)) / (x.shape[0] - 1), rows),
    "cov": (lambda x: np.cov(x.T), rows),
    "mean square": (lambda x, y: np.mean((x - y) ** 2), pair),
    "distances": (lambda x: np.sum((x[:, None] - x[None]) ** 2, -1), rows),
    "grad of a mean": (grad(lambda x: np.mean(x**2)), vector),
    "grad of pairs": (grad(lambda x: np.sum(np.exp(-((x[:, None] - x[None]) ** 2)))), vector),
    "grad of logistic loss": (grad(_logistic), lambda n: [np.ones(12), *rows(n)]),
    "vmap": (vmap(lambda v: np.sum(np.sin(v) * v)), rows),
    "vmap of grad": (vmap(grad(lambda v: np.sum(np.sin(v) * v))), rows),
    "jvp": (lambda x: jvp(np.sin, (x,), (x,))[1], vector),
    "hessian and vector": (
        lambda x: grad(lambda y: np.sum(grad(lambda z: np.sum(np.tanh(z) ** 3))(y) * x))(x), vector
    ),
    "scan": (lambda x: lax.scan(lambda c, v: (c * 0.9 + v, c), 0.0, x)[1], vector),
    "grad of scan": (
        grad(lambda x: np.sum(lax.scan(lambda c, v: (np.tanh(c + v), c), 0.0, x)[1])), vector
    ),
    "fori_loop": (lambda x: lax.fori_loop(0, x.shape[0], lambda i, c: c + x[i], 0.0), vector),
    "for in range of 3": (lambda x: sum([x * i for i in range(3)]), vector),
    "for over elements": (_total, vector),
    "iterations": (_newton, vector),
    "branch on the length": (lambda x: x * 2 if x.shape[0] > 50 else x * 3, vector),
    "even or odd": (lambda x: x[::2] if x.shape[0] % 2 == 0 else x, vector),
    "solve": (lambda x: np.linalg.solve(x, np.ones(x.shape[0])), square),
    "cholesky": (lambda x: np.linalg.cholesky(x @ x.T), square),
    "rfft": (lambda x: np.fft.rfft(x), vector),
    "convolve": (lambda x: np.convolve(x, np.ones(5) / 5, "same"), vector),
    "interp": (lambda x: np.interp(x, np.arange(5.0), np.arange(5.0)), vector),
    "linspace": (lambda x: x * np.linspace(0, 1, len(x)), vector),
    "meshgrid": (lambda x: np.add(*np.meshgrid(x, x)), vector),
    "lower triangle": (lambda x: np.tril(x), square),
}  # fmt: skip
