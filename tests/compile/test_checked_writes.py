"""Native calls of functions that write their arguments and can fail: nothing is written before it
is known that nothing went wrong."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from native_calls import NEEDS_NATIVE

import fgrad
from fgrad.compile.entry.native import is_native

pytestmark = NEEDS_NATIVE

WARM = 20  # calls in Python, until one is native
CALLS = 50


def _counts(x, index):
    for k in range(len(index)):
        x[index[k]] += 1.0
    return x


def _counts_alone(x, index):
    for k in range(len(index)):
        x[index[k]] += 1.0


def _two_arrays(x, index, y):
    for k in range(len(index)):
        y[k] = x[index[k]] * 0.5
        x[index[k]] = y[k] + 1.0
    return np.sum(y)


def _factors(a):
    a[:] = np.linalg.cholesky(a) * 2 + 2 * np.eye(len(a))


def _new_result(x, index):
    x[index[0]] = 3.0
    return x * 2, x[index[1]]


def _matrix():
    return np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]])


INDEX, WRONG = np.array([0, 5, 2, 5]), np.array([0, 5, 2, 11])
Arguments = Sequence[np.ndarray]
# A function, arguments that are right, and arguments of which it fails with an error.
CASES: dict[str, tuple[Callable[..., object], Arguments, Arguments, type[Exception]]] = {
    "counts": (_counts, (np.zeros(9), INDEX), (np.zeros(9), WRONG), IndexError),
    "counts alone": (_counts_alone, (np.zeros(9), INDEX), (np.zeros(9), WRONG), IndexError),
    "long": (
        _counts,
        (np.zeros(40_000), np.arange(40_000)),
        (np.zeros(40_000), np.arange(1, 40_001)),
        IndexError,
    ),
    "two arrays": (
        _two_arrays,
        (np.ones(9), INDEX, np.ones(4)),
        (np.ones(9), WRONG, np.ones(4)),
        IndexError,
    ),
    "factors": (_factors, (_matrix(),), (-_matrix(),), np.linalg.LinAlgError),
    "a new result": (_new_result, (np.ones(9), INDEX), (np.ones(9), np.array([3, 9])), IndexError),
}


def copies(args):
    return [a.copy() for a in args]


def warm(name):
    """A function whose calls are native, and what a plain call returns and leaves."""
    f, right, wrong, error = CASES[name]
    jitted = fgrad.jit(f)
    for _ in range(WARM):
        jitted(*copies(right))
    assert is_native(jitted)
    return f, jitted, right, wrong, error


@pytest.mark.parametrize("name", CASES)
def test_arguments_end_as_numpy_leaves_them(name):
    f, jitted, args, _, _ = warm(name)
    mine, numpys = copies(args), copies(args)
    for _ in range(3):
        found, right = jitted(*mine), f(*numpys)
        for a, b in zip(mine, numpys, strict=True):
            np.testing.assert_allclose(a, b)
        for a, b in zip(fgrad.tree.leaves(found), fgrad.tree.leaves(right), strict=True):
            np.testing.assert_allclose(a, b)


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_written_where_it_fails(name):
    _, jitted, right, wrong, error = warm(name)
    for args in (wrong, right, wrong):
        mine = copies(args)
        if args is right:
            jitted(*mine)
            continue
        with pytest.raises(error):
            jitted(*mine)
        for a, b in zip(mine, args, strict=True):
            np.testing.assert_array_equal(a, b)
    assert is_native(jitted)


@pytest.mark.parametrize("name", CASES)
def test_no_references_are_left(name):
    _, jitted, right, wrong, error = warm(name)
    mine, bad = copies(right), copies(wrong)

    def counts():
        return [sys.getrefcount(a) for a in (*mine, *bad)]

    before = counts()
    for _ in range(CALLS):
        if name == "factors":
            mine[0][:] = _matrix()
        jitted(*mine)
        with pytest.raises(error):
            jitted(*bad)
    assert counts() == before
