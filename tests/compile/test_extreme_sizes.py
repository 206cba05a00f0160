"""No elements, one, and more than an int32 counts, before and after other sizes of one function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad import jit, lax

ANY_SIZE: dict[str, Callable[[Any], Any]] = {
    "chain": lambda x: np.tanh(np.sin(x) * 2 + x) * x,
    "sums": lambda x: (np.sum(x), np.prod(x), np.sum(x > 0.5), np.any(x > 9), np.all(x < 9)),
    "running": lambda x: (np.cumsum(x), np.cumprod(x)),
    "sorted": lambda x: (np.sort(x), np.argsort(x, kind="stable")),
    "outer": lambda x: np.outer(x, x) + x,
    "product": lambda x: (np.outer(x, x) @ x, x @ x, np.outer(x, x) @ np.outer(x, x)),
    "rows": lambda x: np.sum(np.outer(x, np.arange(5.0)), axis=0),
    "columns": lambda x: np.sum(np.outer(np.arange(5.0), x), axis=1),
    "joined": lambda x: np.concatenate([x, x[::-1], np.ones(2)]),
    "padded": lambda x: np.pad(x, (1, 2)),
    "taken": lambda x: (x[::2], x[1:], x[np.arange(len(x)) // 2]),
    "selected": lambda x: np.where(x > 0.5, x, np.sqrt(np.abs(x))),
    "transposed": lambda x: np.outer(x, np.arange(3.0)).T.reshape(-1),
    "scan": lambda x: lax.scan(lambda h, v: (0.5 * h + v, h * v), 1.0, x),
    "gradient": fgrad.grad(lambda x: np.sum(np.sin(x) * x) + np.prod(x)),
    "mapped": fgrad.vmap(lambda v: np.exp(v) * 2),
}
HISTORIES = [
    (0, 1, 7, 0, 40, 1, 33),
    (7, 9, 33, 0, 1, 2, 0),
    (1, 0, 1, 2, 3, 64, 0),
]


@pytest.mark.parametrize("history", HISTORIES, ids=str)
@pytest.mark.parametrize("name", ANY_SIZE)
def test_few_elements(name: str, history: tuple[int, ...], rng: np.random.Generator) -> None:
    fun = ANY_SIZE[name]
    ours = jit(fun)
    for n in history:
        x = rng.normal(size=n)
        for _ in range(3):  # from Python, learnt, native
            found, wanted = fgrad.tree.leaves(ours(x)), fgrad.tree.leaves(fun(x))
            for a, b in zip(found, wanted, strict=True):
                assert (np.shape(a), np.asarray(a).dtype) == (np.shape(b), np.asarray(b).dtype)
                np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


FAR: dict[str, tuple[Callable[[Any], Any], Callable[[int], Any]]] = {
    "sum": (lambda x: np.sum(x, dtype=np.int64), lambda n: 6),
    "largest": (lambda x: (np.max(x), np.argmax(x)), lambda n: (3, n - 4)),
    "any": (lambda x: np.any(x == 3), lambda n: True),
    "end": (lambda x: x[-5:] * 2, lambda n: [0, 6, 0, 0, 0]),
    "reversed": (lambda x: x[::-1][:7], lambda n: [0, 0, 0, 3, 0, 0, 0]),
    "strided": (lambda x: x[n_last(x) :: -(1 << 20)][:3] + 1, lambda n: [4, 1, 1]),
    "element": (lambda x: x[np.argmax(x) - 0], lambda n: 3),
    "rows": (
        lambda x: np.sum(x[: x.size // 8 * 8].reshape(-1, 8), axis=0, dtype=np.int64).sum(),
        lambda n: 6 - (3 if n % 8 >= 4 else 0),
    ),
}


def n_last(x: Any) -> int:
    return x.size - 4


@pytest.mark.parametrize("name", FAR)
def test_more_elements_than_an_int32_counts(name: str) -> None:
    """The pages that nobody wrote are one page of zeros: the array takes no memory."""
    fun, expected = FAR[name]
    ours = jit(fun)
    for n in (2**22 + 9, 2**22 + 13, 2**31 + 9, 2**31 + 12):
        x = np.zeros(n, np.int8)
        x[5], x[n // 2], x[-4] = 1, 2, 3
        found, wanted = ours(x), expected(n)
        pairs = zip(found, wanted, strict=True) if type(found) is tuple else [(found, wanted)]
        assert all([np.array_equal(a, b) for a, b in pairs]), n
