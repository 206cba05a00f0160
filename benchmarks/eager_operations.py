"""The operations that `eager_table.py` differentiates, and their arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Operation(NamedTuple):
    """A function of NumPy's module and an array, and numbers that it takes."""

    name: str
    apply: Callable[[Any, Any], Any]
    kind: str = "plain"


def _plain(n: int, rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=n)


def _matrix(n: int, rng: np.random.Generator) -> np.ndarray:
    side = round(n**0.5)
    return rng.normal(size=(side, side))


def _definite(n: int, rng: np.random.Generator) -> np.ndarray:
    a = _matrix(n, rng)
    return a @ a.T / len(a) + np.eye(len(a))


def _batch(n: int, rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(n // 25, 5, 5))


def _softmax(xp: Any, x: Any) -> Any:
    e = xp.exp(x - xp.max(x, axis=1, keepdims=True))
    return (e / xp.sum(e, axis=1, keepdims=True)) ** 2


def _logsumexp(xp: Any, x: Any) -> Any:
    top = xp.max(x, axis=1, keepdims=True)
    return top[:, 0] + xp.log(xp.sum(xp.exp(x - top), axis=1))


def _pairs(xp: Any, x: Any) -> Any:
    return x[np.arange(x.shape[0]), np.arange(x.shape[0])[::-1]]


def _reads(xp: Any, x: Any) -> Any:
    return sum([xp.sum(x[np.array([i, i + 3, i + 7])] ** 2) for i in range(10)])


ARGUMENTS: dict[str, Callable[[int, np.random.Generator], np.ndarray]] = {
    "plain": _plain,
    "positive": lambda n, rng: rng.uniform(0.5, 1.5, n),
    "unit": lambda n, rng: rng.uniform(-0.9, 0.9, n),
    "factors": lambda n, rng: rng.uniform(-1, 1, n) * 1e-3 / n + 1.0,
    "matrix": _matrix,
    "definite": _definite,
    "batch": _batch,
}

OPERATIONS = (
    Operation("x + 1", lambda xp, x: x + 1.0),
    Operation("x * 2", lambda xp, x: x * 2.0),
    Operation("x * x", lambda xp, x: x * x),
    Operation("x - x * 3", lambda xp, x: x - x * 3.0),
    Operation("-x", lambda xp, x: -x),
    Operation("1 / x", lambda xp, x: 1.0 / x, "positive"),
    Operation("x / (x + 3)", lambda xp, x: x / (x + 3.0), "positive"),
    Operation("x ** 2", lambda xp, x: x**2),
    Operation("x ** 3.5", lambda xp, x: x**3.5, "positive"),
    Operation("x ** x", lambda xp, x: x**x, "positive"),
    Operation("abs", lambda xp, x: xp.abs(x)),
    Operation("exp", lambda xp, x: xp.exp(x)),
    Operation("expm1", lambda xp, x: xp.expm1(x)),
    Operation("log", lambda xp, x: xp.log(x), "positive"),
    Operation("log1p", lambda xp, x: xp.log1p(x), "positive"),
    Operation("sqrt", lambda xp, x: xp.sqrt(x), "positive"),
    Operation("square", lambda xp, x: xp.square(x)),
    Operation("reciprocal", lambda xp, x: xp.reciprocal(x), "positive"),
    Operation("sin", lambda xp, x: xp.sin(x)),
    Operation("cos", lambda xp, x: xp.cos(x)),
    Operation("tan", lambda xp, x: xp.tan(x), "unit"),
    Operation("arcsin", lambda xp, x: xp.arcsin(x), "unit"),
    Operation("arctan", lambda xp, x: xp.arctan(x)),
    Operation("arctan2", lambda xp, x: xp.arctan2(x, x + 2.0), "positive"),
    Operation("sinh", lambda xp, x: xp.sinh(x)),
    Operation("tanh", lambda xp, x: xp.tanh(x)),
    Operation("logaddexp", lambda xp, x: xp.logaddexp(x, x * 2.0)),
    Operation("logaddexp of a constant", lambda xp, x: xp.logaddexp(x, 0.5)),
    Operation("maximum of a constant", lambda xp, x: xp.maximum(x, 0.0)),
    Operation("minimum of two", lambda xp, x: xp.minimum(x, x * x)),
    Operation("clip", lambda xp, x: xp.clip(x, -0.5, 0.5)),
    Operation("where", lambda xp, x: xp.where(x > 0, x, 0.1 * x)),
    Operation("sum", lambda xp, x: x),
    Operation("mean", lambda xp, x: xp.mean(x)),
    Operation("var", lambda xp, x: xp.var(x)),
    Operation("std", lambda xp, x: xp.std(x)),
    Operation("prod", lambda xp, x: xp.prod(x), "factors"),
    Operation("max", lambda xp, x: xp.max(x)),
    Operation("min", lambda xp, x: xp.min(x)),
    Operation("cumsum", lambda xp, x: xp.cumsum(x)),
    Operation("sort", lambda xp, x: xp.sort(x)),
    Operation("norm", lambda xp, x: xp.linalg.norm(x)),
    Operation("x[3]", lambda xp, x: x[3]),
    Operation("x[2:-2]", lambda xp, x: x[2:-2]),
    Operation("x[::-1]", lambda xp, x: x[::-1]),
    Operation("x[indices]", lambda xp, x: x[np.arange(0, x.shape[0], 2)]),
    Operation("reshape", lambda xp, x: xp.reshape(x, (10, -1))),
    Operation("concatenate", lambda xp, x: xp.concatenate([x, x])),
    Operation("stack", lambda xp, x: xp.stack([x, x])),
    Operation("roll", lambda xp, x: xp.roll(x, 1)),
    Operation("repeat", lambda xp, x: xp.repeat(x, 2)),
    Operation("tile", lambda xp, x: xp.tile(x, 2)),
    Operation("outer with a short one", lambda xp, x: xp.outer(x, np.ones(4))),
    Operation("dot of vectors", lambda xp, x: xp.dot(x, x)),
    Operation("fft", lambda xp, x: xp.abs(xp.fft.fft(x))),
    Operation("transpose", lambda xp, x: x.T, "matrix"),
    Operation("sum of rows", lambda xp, x: xp.sum(x, axis=1) ** 2, "matrix"),
    Operation("row plus matrix", lambda xp, x: x + x[0], "matrix"),
    Operation("max of rows", lambda xp, x: xp.max(x, axis=1), "matrix"),
    Operation("matrix @ vector", lambda xp, x: x @ np.ones(x.shape[0]), "matrix"),
    Operation("matrix @ matrix", lambda xp, x: x @ x, "matrix"),
    Operation("trace", lambda xp, x: xp.trace(x), "matrix"),
    Operation("einsum ij,ij->", lambda xp, x: xp.einsum("ij,ij->", x, x), "matrix"),
    Operation("einsum ij,kj->ik", lambda xp, x: xp.einsum("ij,kj->ik", x, x), "matrix"),
    Operation("tensordot", lambda xp, x: xp.tensordot(x, x, 1), "matrix"),
    Operation("inv", lambda xp, x: xp.linalg.inv(x), "definite"),
    Operation("solve", lambda xp, x: xp.linalg.solve(x, np.ones(x.shape[0])), "definite"),
    Operation("slogdet", lambda xp, x: xp.linalg.slogdet(x)[1], "definite"),
    Operation("cholesky", lambda xp, x: xp.linalg.cholesky(x), "definite"),
    Operation("einsum ij->i", lambda xp, x: xp.einsum("ij->i", x) ** 2, "matrix"),
    Operation("einsum ij,j->i", lambda xp, x: xp.einsum("ij,j->i", x, x[0]), "matrix"),
    Operation("einsum bij,bjk->bik", lambda xp, x: xp.einsum("bij,bjk->bik", x, x), "batch"),
    Operation("matmul of batches", lambda xp, x: xp.matmul(x, x), "batch"),
    Operation("vector @ matrix", lambda xp, x: x[0] @ x, "matrix"),
    Operation("inner", lambda xp, x: xp.inner(x, x), "matrix"),
    Operation("outer of two", lambda xp, x: xp.outer(x[:10], x[-10:])),
    Operation("kron", lambda xp, x: xp.kron(x, np.eye(2)), "matrix"),
    Operation("tensordot over two", lambda xp, x: xp.tensordot(x, x, 2), "matrix"),
    Operation("vstack", lambda xp, x: xp.vstack([x, x + 1.0])),
    Operation("hstack", lambda xp, x: xp.hstack([x, x * x])),
    Operation("concatenate of columns", lambda xp, x: xp.concatenate([x, x], axis=1), "matrix"),
    Operation("stack of numbers", lambda xp, x: xp.stack([x[0], x[1] * 2.0, x[2]])),
    Operation("split", lambda xp, x: xp.split(x, 2)[0]),
    Operation("array_split", lambda xp, x: xp.array_split(x, 3)[1]),
    Operation("pad", lambda xp, x: xp.pad(x, 2, "constant")),
    Operation("pad of a matrix", lambda xp, x: xp.pad(x, ((1, 1), (2, 2)), "constant"), "matrix"),
    Operation("tile of rows", lambda xp, x: xp.tile(x, (2, 1)), "matrix"),
    Operation("repeat of rows", lambda xp, x: xp.repeat(x, 2, axis=0), "matrix"),
    Operation("roll of columns", lambda xp, x: xp.roll(x, 1, axis=1), "matrix"),
    Operation("where of two", lambda xp, x: xp.where(x > 0, xp.sin(x), x * x)),
    Operation("where by rows", lambda xp, x: xp.where(x[0] > 0, x, 0.0), "matrix"),
    Operation("maximum of rows", lambda xp, x: xp.maximum(x, x[0]), "matrix"),
    Operation("mean of columns", lambda xp, x: xp.mean(x, axis=0), "matrix"),
    Operation("mean kept", lambda xp, x: x - xp.mean(x, axis=1, keepdims=True), "matrix"),
    Operation("var of rows", lambda xp, x: xp.var(x, axis=1), "matrix"),
    Operation("std of columns", lambda xp, x: xp.std(x, axis=0), "matrix"),
    Operation("prod of rows", lambda xp, x: xp.prod(x, axis=1), "matrix"),
    Operation("sum of columns kept", lambda xp, x: x * xp.sum(x, axis=0, keepdims=True), "matrix"),
    Operation("norm of rows", lambda xp, x: xp.linalg.norm(x, axis=1), "matrix"),
    Operation("Frobenius norm", lambda xp, x: xp.linalg.norm(x), "matrix"),
    Operation("cumsum of rows", lambda xp, x: xp.cumsum(x, axis=1), "matrix"),
    Operation("diff", lambda xp, x: xp.diff(x)),
    Operation("gradient", lambda xp, x: xp.gradient(x)),
    Operation("softmax", _softmax, "matrix"),
    Operation("logsumexp", _logsumexp, "matrix"),
    Operation("sigmoid", lambda xp, x: 1.0 / (1.0 + xp.exp(-x))),
    Operation("polynomial", lambda xp, x: 1.0 + x * (2.0 + x * (3.0 + x * 4.0))),
    Operation("matrix plus row", lambda xp, x: x + np.ones(x.shape[1]), "matrix"),
    Operation("row plus column", lambda xp, x: x[0] + x[:, :1], "matrix"),
    Operation("x[:, None] * x", lambda xp, x: x[:10, None] * x[:10]),
    Operation("x[mask]", lambda xp, x: x[np.arange(x.shape[0]) % 3 == 0]),
    Operation("x[x > 0]", lambda xp, x: x[x > 0]),
    Operation("x[rows, columns]", _pairs, "matrix"),
    Operation("x[rows]", lambda xp, x: x[np.arange(x.shape[0]) // 2], "matrix"),
    Operation("x[:, columns]", lambda xp, x: x[:, np.arange(x.shape[0]) // 2], "matrix"),
    Operation("x[::2]", lambda xp, x: x[::2]),
    Operation("x[1:] - x[:-1]", lambda xp, x: x[1:] - x[:-1]),
    Operation("x[:, 1]", lambda xp, x: x[:, 1], "matrix"),
    Operation("x[1:-1, 1:-1]", lambda xp, x: x[1:-1, 1:-1], "matrix"),
    Operation("x[3, 4]", lambda xp, x: x[3, 4], "matrix"),
    Operation("transpose of batches", lambda xp, x: xp.transpose(x, (0, 2, 1)), "batch"),
    Operation("swapaxes", lambda xp, x: xp.swapaxes(x, 0, 2), "batch"),
    Operation("moveaxis", lambda xp, x: xp.moveaxis(x, 0, 2), "batch"),
    Operation("expand_dims", lambda xp, x: xp.expand_dims(x, 0)),
    Operation("squeeze", lambda xp, x: xp.squeeze(x[:, None])),
    Operation("ravel", lambda xp, x: xp.ravel(x), "matrix"),
    Operation("x.reshape(-1)", lambda xp, x: x.reshape(-1), "matrix"),
    Operation("diag of a vector", lambda xp, x: xp.diag(x[:10])),
    Operation("diag of a matrix", lambda xp, x: xp.diag(x), "matrix"),
    Operation("tril", lambda xp, x: xp.tril(x), "matrix"),
    Operation("triu", lambda xp, x: xp.triu(x, 1), "matrix"),
    Operation("det", lambda xp, x: xp.linalg.det(x), "definite"),
    Operation("solve of matrices", lambda xp, x: xp.linalg.solve(x, x + 1.0), "definite"),
    Operation("eigh", lambda xp, x: xp.linalg.eigh(x)[0], "definite"),
    Operation("svd", lambda xp, x: xp.linalg.svd(x, full_matrices=False)[1], "definite"),
    Operation("pinv", lambda xp, x: xp.linalg.pinv(x), "definite"),
    Operation("rfft", lambda xp, x: xp.abs(xp.fft.rfft(x))),
    Operation("fft and back", lambda xp, x: xp.real(xp.fft.ifft(xp.fft.fft(x)))),
    Operation("fft2", lambda xp, x: xp.real(xp.fft.fft2(x)), "matrix"),
    Operation("sinc", lambda xp, x: xp.sinc(x)),
    Operation("arccos", lambda xp, x: xp.arccos(x), "unit"),
    Operation("cosh", lambda xp, x: xp.cosh(x)),
    Operation("arcsinh", lambda xp, x: xp.arcsinh(x)),
    Operation("arctanh", lambda xp, x: xp.arctanh(x), "unit"),
    Operation("log2", lambda xp, x: xp.log2(x), "positive"),
    Operation("exp2", lambda xp, x: xp.exp2(x)),
    Operation("mod", lambda xp, x: xp.mod(x, 0.7)),
    Operation("sign times x", lambda xp, x: xp.sign(x) * x),
    Operation("2 ** x", lambda xp, x: 2.0**x),
    Operation("x / sum", lambda xp, x: x / xp.sum(x), "positive"),
    Operation("real of complex", lambda xp, x: xp.real(xp.exp(1j * x))),
    Operation("abs of complex", lambda xp, x: xp.abs(x + 1j * x * x)),
    Operation("cross", lambda xp, x: xp.cross(x[:, :3], x[:, 1:4]), "matrix"),
    Operation("20 reads x[i]", lambda xp, x: sum([x[i] ** 2 for i in range(20)])),
    Operation(
        "10 reads x[:, i]", lambda xp, x: sum([xp.sum(x[:, i]) for i in range(10)]), "matrix"
    ),
    Operation("10 reads x[indices]", _reads),
)
