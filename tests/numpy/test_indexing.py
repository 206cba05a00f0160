"""Indexing of traced arrays against NumPy: random indices of all kinds, updates, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fgrad.numpy
from fgrad.errors import BoundsError, TracedIndexError
from fgrad.ir.aval import aval_of
from fgrad.trace import Builder, concrete, run, trace

SHAPE = (3, 4, 2)
X = np.arange(24.0).reshape(SHAPE)


def _traced(fun: Any, *args: Any) -> Any:
    program = trace(lambda *xs: [fun(*xs)], [aval_of(x) for x in args]).program
    return run(program, args)[0]


@st.composite
def _indices(draw: Any) -> tuple[Any, ...]:
    """A valid NumPy index into an array of SHAPE."""
    inner = draw(st.sampled_from([(), (2,), (1, 2)]))
    parts: list[Any] = []
    axis = 0
    last = draw(st.integers(0, len(SHAPE)))
    while axis < last:
        n = SHAPE[axis]
        kind = draw(st.sampled_from(["int", "slice", "array", "mask", "list"]))
        if kind == "int":
            parts.append(draw(st.integers(-n, n - 1)))
        elif kind == "slice":
            bound = st.none() | st.integers(-n - 1, n + 1)
            step = st.none() | st.integers(-3, 3).filter(bool)
            parts.append(slice(draw(bound), draw(bound), draw(step)))
        elif kind == "mask":
            mask = np.zeros(n, bool)
            mask[: 1 if 2 not in inner else 2] = True
            parts.append(mask)
        else:
            size = int(np.prod(inner, dtype=int))
            values = draw(st.lists(st.integers(-n, n - 1), min_size=size, max_size=size))
            array = np.array(values, int).reshape(inner)
            parts.append(array.tolist() if kind == "list" and inner else array)
        axis += 1
    for extra in draw(st.lists(st.sampled_from([None, Ellipsis]), max_size=2)):
        if extra is None or not any(p is Ellipsis for p in parts):
            parts.insert(draw(st.integers(0, len(parts))), extra)
    return tuple(parts)


# Where the result is empty, NumPy below 2.4 only warns, which the tests make an error.
REFUSALS = (IndexError, DeprecationWarning)


@settings(max_examples=400, deadline=None)
@given(_indices())
def test_reading(index: tuple[Any, ...]) -> None:
    try:
        expected = X[index]
    except REFUSALS:
        return
    got = _traced(lambda x: x[index], X)
    assert np.shape(got) == np.shape(expected)
    np.testing.assert_array_equal(got, expected)


@settings(max_examples=300, deadline=None)
@given(_indices(), st.sampled_from(["set", "add", "multiply", "min", "max"]))
def test_writing(index: tuple[Any, ...], how: str) -> None:
    try:
        place = X[index]
    except REFUSALS:
        return
    values = 5 + np.arange(float(place.size)).reshape(place.shape)
    expected = X.copy()
    if how == "set":
        if len(np.unique(place)) != place.size:
            return
        expected[index] = values
    else:
        ufuncs = {"add": np.add, "multiply": np.multiply, "min": np.minimum, "max": np.maximum}
        ufuncs[how].at(expected, index, values)
    got = _traced(lambda x, v: getattr(x.at[index], how)(v), X, values)
    np.testing.assert_array_equal(got, expected)


def test_scalars_broadcast_into_places() -> None:
    got = _traced(lambda x: x.at[1:, 0].set(7.0), X)
    expected = X.copy()
    expected[1:, 0] = 7.0
    np.testing.assert_array_equal(got, expected)


def test_traced_integers_count_from_the_end() -> None:
    assert _traced(lambda x, i: x[i, 1, i], X, np.int64(-1)) == X[-1, 1, -1]
    i = np.array([0, -2])
    np.testing.assert_array_equal(_traced(lambda x, i: x[:, i], X, i), X[:, i])
    np.testing.assert_array_equal(_traced(lambda x, i: x.at[i].set(0.0), X, i)[1], 0)


def test_known_values_are_indices_under_eager_transforms() -> None:
    with Builder("grad", "f", eager=True) as builder:
        x = builder.input(X)
        np.testing.assert_array_equal(concrete(x[x > 5]), X[X > 5])
        i = np.argmax(x[0, :, 0])
        assert concrete(x[0, i, 0]) == X[0, 3, 0]
        assert concrete(x[i - 1, 0, 0]) == X[2, 0, 0]


@pytest.mark.parametrize("index", [3, (0, 4), [0, -4], (slice(None), [1, 9]), (0, 0, 2)])
def test_known_indices_are_checked(index: Any) -> None:
    with pytest.raises(BoundsError, match=r"out of bounds for axis .* with size") as error:
        _traced(lambda x: x[index], X)
    assert "test_indexing.py" in str(error.value)
    assert isinstance(error.value, IndexError)


@pytest.mark.parametrize("index", [(0, 0, 0, 0), 1.5, (..., ...), np.array([True, False])])
def test_bad_indices_are_index_errors(index: Any) -> None:
    with pytest.raises(IndexError):
        _traced(lambda x: x[index], X)


def test_masks_need_values() -> None:
    with pytest.raises(TracedIndexError, match=r"np\.where"):
        _traced(lambda x: x[x > 0], X)
    with pytest.raises(TracedIndexError, match=r"np\.nonzero"):
        _traced(lambda x: np.nonzero(x)[0], X)


def _column(a: Any, i: Any) -> Any:
    for _ in range(1):  # so that it is checked, and writes a block
        a[1:-1, i] = a[1:-1, i - 1] * 2 + a[i, 1:-1]
        a[i, 2:] += a[0, 2:]
    return a


def test_parts_of_axes_at_traced_places_of_others_are_blocks() -> None:
    x = np.random.default_rng(0).standard_normal((5, 5))
    for i in (-2, 1, 2):
        np.testing.assert_array_equal(fgrad.jit(_column)(x.copy(), i), _column(x.copy(), i))
    with pytest.raises(IndexError):
        fgrad.jit(_column)(x.copy(), 5)
    gradient = fgrad.grad(lambda a, i: np.sum(np.sin(_column(a * 1, i))))
    np.testing.assert_allclose(fgrad.jit(gradient)(x, 2), gradient(x, 2))
    program = str(fgrad.make_program(fgrad.jit(_column))(x, np.int64(2)))
    assert "dynamic_update" in program and "scatter" not in program


def test_a_block_outside_is_dropped_where_nothing_is_checked() -> None:
    def write(a: Any, i: Any) -> Any:
        a = a * 1
        a[1:-1, i] = 7.0
        return a

    x = np.zeros((4, 4))
    np.testing.assert_array_equal(fgrad.jit(write, capture=False)(x, 9), x)
