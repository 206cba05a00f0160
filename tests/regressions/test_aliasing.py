"""Results share no memory with arguments, and later writes do not reach what was recorded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.errors import UnsupportedTypeError


@pytest.mark.parametrize("size", (3, 3000))
def test_constants_are_taken_as_they_are(size: int) -> None:
    c = np.ones(size)

    def f(a: Any) -> Any:
        y = a * c
        c[:] = 5
        z = a * c
        c[:] = 1
        return np.sum(y) + np.sum(z)

    x = np.ones(size)
    for run, expected in (
        (fgrad.grad(f), 6.0),
        (fgrad.jit(f), 6.0 * size),
        (lambda a: fgrad.vmap(f)(a[None]), 6.0 * size),
    ):
        if size == 3:
            np.testing.assert_allclose(run(x), expected)
        else:
            with pytest.raises(ValueError, match="read-only"):
                run(x)
        assert c.flags.writeable
        c[:] = 1


def test_a_pullback_keeps_its_constants() -> None:
    c = np.ones(3)
    _, pullback = fgrad.vjp(lambda a: a * c, np.ones(3))
    c[:] = 100
    np.testing.assert_array_equal(pullback(np.ones(3))[0], 1.0)


def test_a_returned_argument_of_jit_is_that_object() -> None:
    x = np.ones(3)
    assert fgrad.jit(lambda a: a)(x) is x


def test_results_are_the_callers_own() -> None:
    x, c = np.ones(3), np.ones(3)
    results = [
        fgrad.vmap(lambda a: a)(x),
        fgrad.vmap(lambda a: c, out_axes=None)(x),
        fgrad.value_and_grad(lambda a: (np.sum(a), a), has_aux=True)(x)[0][1],
        fgrad.jvp(lambda a: a, (c,), (x,))[1],
        fgrad.vjp(lambda a: a, c)[1](x)[0],
        fgrad.grad(lambda a: np.sum(a * c))(x),
    ]
    for y in results:
        assert not np.shares_memory(y, x) and not np.shares_memory(y, c)
        y[:] = 7.0
    np.testing.assert_array_equal(x, 1.0)
    np.testing.assert_array_equal(c, 1.0)


@pytest.mark.parametrize("transform", (fgrad.jit, fgrad.grad, fgrad.vmap))
@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_matrices_are_refused(transform: Any) -> None:
    with pytest.raises(UnsupportedTypeError):
        transform(lambda a: np.sum(a * a))(np.matrix([[1.0, 2.0], [3.0, 4.0]]))


def halves_what_comes(x: Any) -> Any:
    y, s = x * 1.0, 0.0
    for k, v in enumerate(y):
        y[1:] *= 0.5
        s = s + (k + 1) * v
    for row, v in zip(y.reshape(2, 2), y[::-1], strict=False):
        row += v
        s = s + row[1] * v
    return s


def test_elements_are_read_when_their_turn_comes() -> None:
    x, h = np.array([1.0, 2.0, 3.0, 4.0]), 1e-6
    right = halves_what_comes(x)
    assert fgrad.jit(halves_what_comes)(x) == right
    assert fgrad.vmap(halves_what_comes)(x[None])[0] == right
    for k, slope in enumerate(fgrad.grad(halves_what_comes)(x)):
        e = np.eye(4)[k] * h
        assert abs((halves_what_comes(x + e) - halves_what_comes(x - e)) / (2 * h) - slope) < 1e-6
