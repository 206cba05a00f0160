"""Products whose right operand is read across its rows, of sizes where loops become calls."""

from __future__ import annotations

import numpy as np
import pytest

import fgrad


def turned(x):
    return np.swapaxes(x, -1, -2)


FORMS = {
    "a b^T": lambda a, b: a @ turned(b),
    "a sin(b)^T": lambda a, b: a @ turned(np.sin(b)),
    "lower part": lambda a, b: np.tril(a @ turned(b)),
    "einsum": lambda a, b: np.einsum("...ik,...jk->...ij", a, b),
    "(a b^T)^T": lambda a, b: turned(a @ turned(b)),
    "a^T b": lambda a, b: turned(turned(a)) @ turned(b),
}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("stack", [(), (1,), (5,), (3, 8)])
@pytest.mark.parametrize(
    "m, n, k", [(4, 4, 4), (8, 9, 10), (12, 11, 13), (16, 16, 16), (20, 5, 30)]
)
def test_values(m, n, k, stack, dtype, name, rng):
    a, b = (rng.standard_normal((*stack, x, k)).astype(dtype) for x in (m, n))
    near = 1e-4 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(
        fgrad.jit(FORMS[name])(a, b), FORMS[name](a, b), rtol=near, atol=near
    )


def test_gradient(rng):
    a, b = rng.standard_normal((2, 7, 16, 16))
    loss = lambda a, b: np.sum(np.sin(a @ turned(b)))  # noqa: E731
    found = fgrad.jit(fgrad.grad(loss, (0, 1)))(a, b)
    for x, y in zip(found, fgrad.grad(loss, (0, 1))(a, b), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-12)
