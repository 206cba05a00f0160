"""Checks that run with a compiled program: indices out of bounds, and what is asserted."""

from __future__ import annotations

import numpy as np
import pytest

import fgrad
from fgrad import lax
from fgrad.errors import BoundsError
from fgrad.ops.checked import checked, text_of
from fgrad.tracing.checks import checking

X = np.arange(1.0, 6.0)


def picked(x, i):
    with checking():
        return x[i] * 1.0


def summed(x, idx):
    def body(k, s):
        with checking():
            return s * 0.5 + x[idx[k]]

    return lax.fori_loop(0, len(idx), body, 0.0)


def hunted(x, i):
    """The loop ends by its values, and its index is what it carries."""

    def body(c):
        with checking():
            return c[0] + 1, c[1] + x[c[0]]

    return lax.while_loop(lambda c: c[1] < 9.0, body, (i, 0.0))[1]


GOOD = {
    "picked": (picked, (3, 4.0), (-5, 1.0), (np.array([0, -1]), [1.0, 5.0])),
    "summed": (summed, (np.array([0, 4, -5, 2]), 4.875)),
    "hunted": (hunted, (2, 12.0)),
}
BAD = {
    "picked": (picked, (5,), (-6,), (np.array([0, 7]),), (np.uint8(5),), (np.int8(-6),)),
    "summed": (summed, (np.array([0, 5, 1]),), (np.array([0, 1, -6]),)),
    "hunted": (hunted, (4,)),
}
MODES = {
    "jit": lambda f: fgrad.jit(f),
    "gradient": lambda f: fgrad.jit(fgrad.grad(lambda x, i: np.sum(f(x, i)))),
    "batch": lambda f: lambda x, i: fgrad.jit(fgrad.vmap(f, (0, None)))(np.stack([x] * 64), i),
    "indices in a batch": lambda f: (
        lambda x, i: fgrad.jit(fgrad.vmap(f, (None, 0)))(
            x, np.stack([np.zeros_like(i)] * 63 + [np.asarray(i)])
        )
    ),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", GOOD)
def test_indices_in_bounds(case, mode):
    f, *calls = GOOD[case]
    for i, value in calls:
        found = MODES[mode](f)(X, i)
        if mode == "jit":
            np.testing.assert_allclose(found, value)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", BAD)
def test_an_index_out_of_bounds_raises_with_the_line(case, mode):
    f, *all_args = BAD[case]
    for (i,) in all_args:
        run = MODES[mode](f)
        for _ in range(3):  # the first call, by Python, and native
            with pytest.raises(BoundsError, match="out of bounds for axis 0") as caught:
                run(X, i)
            assert "test_checked_values.py" in str(caught.value)
        run(X, np.zeros_like(i))  # the failure of one call is not that of the next


def asserted(x, limit):
    def body(_, s):
        s = s * 1.5
        return checked(s, s < limit, text_of(AssertionError("s < limit"), "here"))

    return lax.fori_loop(0, 9, body, x)


@pytest.mark.parametrize("mode", ["jit", "gradient", "batch"])
def test_assertions(mode):
    run = MODES[mode](lambda x, limit: np.sum(asserted(x, limit)))
    run(X, 1e9)
    with pytest.raises(AssertionError, match="s < limit"):
        run(X, -1.0)


@pytest.mark.parametrize("dtype", "?bBhHiIqQefdFD")
def test_values_of_all_dtypes_pass(dtype):
    f = fgrad.jit(lambda x, ok: checked(x, ok, text_of(AssertionError("ok"))))
    for x in (
        np.ones(5, dtype),
        np.ones(10, dtype)[::-2],
        np.ones((), dtype),
        np.ones((0, 3), dtype),
    ):
        found = f(x, np.True_)
        assert found.dtype == x.dtype
        np.testing.assert_array_equal(found, x)
    with pytest.raises(AssertionError, match="ok"):
        f(np.ones(5, dtype), np.False_)
