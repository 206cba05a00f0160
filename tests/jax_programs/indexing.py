"""Reads and writes by index, gather and scatter, shapes, sorting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jax_programs.data import CUBE, B, K, M, N, P, X, Y


def histogram(J: Any, x: Any) -> Any:
    bins = J.np.clip(((x + 2) * 2).astype(int), 0, 7)
    return J.at(J.np.zeros(8, int))[bins].add(1)


def one_hot(J: Any, k: Any) -> Any:
    return (k[:, None] == J.np.arange(5)).astype(float)


def moving_mean(J: Any, x: Any) -> Any:
    places = J.np.arange(4)[:, None] + J.np.arange(3)
    return x[places].mean(1)


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "row": lambda J: J.jit(lambda m, i: m[i])(M, 2),
    "negative": lambda J: J.jit(lambda m, i: m[i])(M, -1),
    "column": lambda J: J.jit(lambda m, i: m[:, i])(M, 3),
    "element": lambda J: J.jit(lambda m, i, j: m[i, j])(M, 1, 2),
    "slice": lambda J: J.jit(lambda m: m[1:3, ::2])(M),
    "steps backwards": lambda J: J.jit(lambda m: m[::-1, 4:1:-1])(M),
    "ellipsis": lambda J: J.jit(lambda c: c[..., 1])(CUBE),
    "newaxis": lambda J: J.jit(lambda x: x[:, None] * x[None])(X),
    "integers": lambda J: J.jit(lambda x, k: x[k])(X, K),
    "two of integers": lambda J: J.jit(lambda m, k: m[k, k])(M, K),
    "integers and slice": lambda J: J.jit(lambda c, k: c[k[:2] % 3, :, 1:3])(CUBE, K),
    "outer integers": lambda J: M[J.np.ix_(np.array([0, 2]), np.array([1, 3, 4]))],
    "mask": lambda J: J.np.asarray(X)[B],
    "where one": lambda J: J.np.where(X > 0)[0],
    "where size": lambda J: J.jit(lambda x: J.np.where(x > 0, size=5, fill_value=-1)[0])(X),
    "nonzero size": lambda J: J.jit(lambda x: J.np.nonzero(x > 0, size=4)[0])(X),
    "unique size": lambda J: J.jit(lambda k: J.np.unique(k, size=4, fill_value=9))(K),
    "set": lambda J: J.jit(lambda x: J.at(x)[2].set(9.0))(X),
    "set slice": lambda J: J.jit(lambda m: J.at(m)[1:3, 0].set(7.0))(M),
    "set row": lambda J: J.jit(lambda m, r: J.at(m)[1].set(r))(M, np.arange(5.0)),
    "set mask": lambda J: J.at(X)[X < 0].set(0.0),
    "add repeated": lambda J: J.jit(lambda x, k: J.at(x)[k].add(1.0))(X, K),
    "multiply": lambda J: J.at(X)[K[:2]].multiply(3.0),
    "divide": lambda J: J.at(X)[1:4].divide(2.0),
    "power": lambda J: J.at(P)[1:4].power(2.0),
    "min": lambda J: J.at(X)[K].min(-0.5),
    "max": lambda J: J.at(X)[K].max(0.5),
    "apply": lambda J: J.at(X)[1:3].apply(J.np.sin),
    "get": lambda J: J.at(X)[K].get(),
    "get fill": lambda J: J.at(X)[np.array([0, 9])].get(mode="fill", fill_value=5.0),
    "get clip": lambda J: J.at(X)[np.array([0, 9])].get(mode="clip"),
    "set drop": lambda J: J.at(X)[np.array([0, 9])].set(5.0, mode="drop"),
    "gradient of get": lambda J: J.grad(lambda x: (x[K] ** 2).sum())(X),
    "gradient of set": lambda J: J.grad(lambda x: (J.at(x)[1:3].set(x[0]) ** 2).sum())(X),
    "gradient of values": lambda J: J.grad(lambda v: (J.at(J.np.zeros(6))[K].add(v) ** 2).sum())(
        Y[:4]),
    "take": lambda J: J.jit(lambda m: J.np.take(m, K, axis=0))(M),
    "take_along_axis": lambda J: J.np.take_along_axis(M, J.np.argsort(M, 1), 1),
    "dynamic_slice": lambda J: J.jit(lambda m, i: J.lax.dynamic_slice(m, (i, 1), (2, 3)))(M, 1),
    "dynamic_slice clamped": lambda J: J.lax.dynamic_slice(X, (5,), (3,)),
    "dynamic_update_slice": lambda J: J.lax.dynamic_update_slice(M, np.ones((2, 2)), (1, 2)),
    "dynamic_index_in_dim": lambda J: J.lax.dynamic_index_in_dim(M, 2, 1, keepdims=False),
    "histogram": lambda J: J.jit(lambda x: histogram(J, x))(X),
    "one hot": lambda J: one_hot(J, K),
    "moving mean": lambda J: J.jit(lambda x: moving_mean(J, x))(X),
    "segment_sum": lambda J: J.segment_sum(X, np.array([0, 1, 0, 2, 1, 0]), 4),
    "segment_max": lambda J: J.segment_max(X, np.array([0, 1, 0, 2, 1, 0]), 3),
    "sort": lambda J: J.np.sort(M, axis=0),
    "argsort": lambda J: J.np.argsort(X),
    "top_k": lambda J: J.lax.top_k(M, 2),
    "sort pairs": lambda J: J.lax.sort((K, K * 2 + 1), num_keys=1),
    "searchsorted": lambda J: J.np.searchsorted(np.arange(5.0), P),
    "bincount": lambda J: J.np.bincount(K, length=5),
    "roll": lambda J: J.jit(lambda m, k: J.np.roll(m, k, 1))(M, 2),
    "flip": lambda J: J.np.flip(M, 1),
    "tile": lambda J: J.np.tile(X[:2], (2, 2)),
    "repeat": lambda J: J.np.repeat(X, 2),
    "repeat total": lambda J: J.jit(
        lambda k: J.np.repeat(X[:4], k, total_repeat_length=6))(K),
    "pad": lambda J: J.np.pad(M, ((1, 0), (0, 2)), constant_values=1.0),
    "pad reflect": lambda J: J.np.pad(X, 2, mode="reflect"),
    "concatenate": lambda J: J.np.concatenate([M, M[:1]], 0),
    "stack": lambda J: J.np.stack([X, Y], -1),
    "split": lambda J: J.np.split(X, 3),
    "moveaxis": lambda J: J.np.moveaxis(CUBE, 0, -1),
    "einsum": lambda J: J.np.einsum("ij,jk->ki", M, N),
    "einsum batch": lambda J: J.np.einsum("bij,bkj->bik", CUBE, CUBE),
    "tril": lambda J: J.np.tril(M, 1),
    "diag": lambda J: J.np.diag(X[:3]),
    "meshgrid": lambda J: J.np.meshgrid(X[:2], Y[:3], indexing="ij"),
    "broadcast_to": lambda J: J.np.broadcast_to(X, (2, 6)),
    "vectorize": lambda J: J.np.vectorize(lambda a, b: a @ b, signature="(n),(n)->()")(M, M),
    "apply_along_axis": lambda J: J.np.apply_along_axis(lambda v: v.sum(), 0, M),
    "piecewise": lambda J: J.np.piecewise(X, [X < 0, X >= 0], [lambda v: -v, lambda v: v**2]),
    "select": lambda J: J.np.select([X > 1, X > 0], [X, X**2], -1.0),
    "digitize": lambda J: J.np.digitize(X, np.array([-1.0, 0.0, 1.0])),
    "interp": lambda J: J.np.interp(P, np.arange(3.0), np.array([1.0, 3.0, 2.0])),
}  # fmt: skip
