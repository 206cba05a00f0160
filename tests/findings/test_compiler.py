"""Programs that the compiler or its loops once refused, crashed on or computed wrongly.

The numbers are those of the entries of the list of what was found.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp
from fgrad import errors, jit, lax


def test_2_3_a_transposed_constant_stays_in_a_loop_that_is_hoisted_from() -> None:
    """What is moved out of a loop may read a transpose that the loop reads as well."""
    e = jit(lambda m, v, q: (v + m * v, q + (m * m.T) * q))
    f = jit(lambda m, v, q: lax.fori_loop(0, 5, lambda i, c: e(m, *c), (v, q)))
    v, q = f(np.ones((4, 1)), np.ones((4, 3)), np.ones((4, 4)))
    np.testing.assert_array_equal(v, np.full((4, 3), 32.0))
    np.testing.assert_array_equal(q, np.full((4, 4), 32.0))


def test_6a_a_condition_applies_functions_to_many_elements() -> None:
    f = jit(lambda x: lax.while_loop(lambda x: np.sum(np.exp(x)) < 90.0, lambda x: x * 1.5, x))
    np.testing.assert_array_equal(f(np.ones(10)), np.full(10, 2.25))


def test_6b_a_scan_that_computes_nothing() -> None:
    carry, ys = lax.scan(lambda c, v: (c, None), np.ones(3), None, length=100)
    np.testing.assert_array_equal(carry, np.ones(3))
    assert ys is None


def test_6d_python_numbers_take_the_dtype_of_the_body() -> None:
    x = np.ones(5, np.float32)
    assert lax.scan(lambda c, v: (v, None), 0.0, x)[0].dtype == np.float32
    assert lax.scan(lambda c, v: (c + v, None), 0.0, x)[0].dtype == np.float32
    with pytest.raises(errors.DtypeError):
        lax.scan(lambda c, v: (c + v, None), True, x)


def test_6_weights_along_axes_in_another_order() -> None:
    rng = np.random.default_rng(0)
    a, w = rng.random((2, 3, 4)), rng.random((4, 2))
    f = jit(lambda a, w: np.average(a, axis=(2, 0), weights=w))
    np.testing.assert_allclose(f(a, w), np.average(a, axis=(2, 0), weights=w))


def test_6_values_are_inserted_at_their_own_places() -> None:
    x = np.arange(3.0)
    f = jit(lambda x: np.insert(x, [2, 0], [7.0, 8.0]))
    np.testing.assert_array_equal(f(x), np.insert(x, [2, 0], [7.0, 8.0]))


def test_6g_functions_that_failed_when_compiled() -> None:
    y, x = np.ones((2, 3, 4)), np.arange(12.0).reshape(3, 4)
    f = jit(lambda y, x: np.trapezoid(y, x, axis=-1))
    np.testing.assert_allclose(f(y, x), np.trapezoid(y, x, axis=-1))
    ends = np.array([1.0, 2.0]), np.array([4.0, 8.0])
    g = jit(lambda a, b: np.geomspace(a, b, 5, axis=1))
    np.testing.assert_allclose(g(*ends), np.geomspace(*ends, 5, axis=1))
    numbers = np.array([1.5, 2.7])
    mean = jit(lambda a: np.mean(a, dtype=int))(numbers)
    assert (mean, mean.dtype) == (np.mean(numbers, dtype=int), np.dtype(int))


def test_6j_numbers_of_diagonals_and_shifts_may_be_traced() -> None:
    m, v = np.arange(9.0).reshape(3, 3), np.arange(5.0)
    for k in (-4, -1, 0, 1, 2, 7):
        np.testing.assert_array_equal(jit(lambda x, k: np.roll(x, k))(v, k), np.roll(v, k))
        np.testing.assert_array_equal(jit(np.triu)(m, k), np.triu(m, k))
        np.testing.assert_array_equal(jit(np.tril)(m, k), np.tril(m, k))
        np.testing.assert_array_equal(jit(lambda k: fnp.eye(3, 4, k))(k), np.eye(3, 4, k))
        np.testing.assert_array_equal(jit(lambda k: fnp.tri(3, 4, k))(k), np.tri(3, 4, k))


def test_1_12_a_list_repeated_by_a_traced_number_is_refused() -> None:
    with fgrad.config.override(capture=False), pytest.raises(errors.TracedIndexError):
        jit(lambda n: [0.0] * n)(3)
    assert jit(lambda n: [0.0] * n)(3) == [0.0] * 3  # captured, n is traced again as a constant
    assert fgrad.jvp(lambda x: x * len([0.0] * np.int64(3)), (1.0,), (1.0,))[1] == 3.0
    np.testing.assert_array_equal(jit(lambda x: [1.0, 2.0] * x)(np.float64(3.0)), [3.0, 6.0])


def test_2_9_real_if_close_looks_at_known_numbers() -> None:
    f = fgrad.grad(lambda x: np.sum(np.real_if_close(x * (1 + 0j)) ** 2))
    np.testing.assert_array_equal(f(np.array([1.0, 2.0])), [2.0, 4.0])
    with pytest.raises(errors.UnsupportedNumpyError):
        jit(np.real_if_close)(np.array([1 + 0j]))


class Scaled(NamedTuple):
    """A named tuple of which one field is no child."""

    x: Any
    scale: Any


def test_6c_a_named_tuple_may_be_registered_as_a_node() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # optree knows named tuples already
        fgrad.tree.register_node(Scaled, lambda p: ((p.x,), p.scale), lambda s, xs: Scaled(*xs, s))
    f = jit(lambda p: Scaled(p.x * p.scale, p.scale))
    for x, scale in ((1.0, 2), (3.0, 2), (3.0, 2), (3.0, 5), (3.0, 5.0), (4.0, True), (4.0, 1)):
        out = f(Scaled(x, scale))
        assert (out.x, out.scale, type(out.scale)) == (x * scale, scale, type(scale))


def test_1_12_a_negative_exponent_of_an_integer_is_refused() -> None:
    """Python's exponents are looked at when a compiled function is called, not those in arrays."""
    f, g = jit(lambda m: 2**m), jit(lambda x, m: x**m)
    assert (f(3), f(0)) == (8, 1)
    with pytest.raises(ValueError, match="negative integer powers"):
        g(np.arange(3), -2)
    for call in (lambda: f(-1), lambda: g(2, -3)):
        with pytest.raises(errors.PythonNumberError, match="a float in Python"):
            call()
    np.testing.assert_array_equal(g(np.array([1.0, 2.0]), -2), [1.0, 0.25])
    assert jit(lambda k: (-1) ** k)(3) == -1


def _summed_powers(m: Any) -> Any:
    return fgrad.lax.fori_loop(0, 3, lambda i, c: c + 2 ** (m + i), np.zeros(m.shape, np.int64))


POWERS: dict[str, Callable[[Any], Any]] = {
    "a number": lambda m: 2**m,
    "np.power": lambda m: np.power(3, m),
    "arrays": lambda m: m**m,
    "an intermediate": lambda m: np.sum(2 ** (m * 2 - 1 + 1)),
    "not read elementwise": lambda m: np.cumsum(2**m)[..., -1],
    "a loop": _summed_powers,
    "a scan": lambda m: fgrad.lax.scan(lambda c, k: (c + 2**k, 2**k), 0, np.ravel(m)),
}


@pytest.mark.parametrize("name", POWERS)
def test_1_12_negative_integer_powers(name: str) -> None:
    """Compiled code raises what NumPy raises, and gives NumPy's numbers for other exponents."""
    f = POWERS[name]
    for dtype in (np.int8, np.int64):
        for m in (np.array([2, 0, 1], dtype), np.array([[3]], dtype)):
            for g in (fgrad.jit(f), fgrad.jit(fgrad.vmap(f))):
                with pytest.raises(ValueError, match="negative integer powers"):
                    g(m - dtype(4))
                assert fgrad.tree.leaves(g(m))
            for x, y in zip(
                fgrad.tree.leaves(fgrad.jit(f)(m)), fgrad.tree.leaves(f(m)), strict=True
            ):
                np.testing.assert_array_equal(x, y)


def test_1_12_branches_that_are_not_taken_raise_nothing() -> None:
    def f(m: Any) -> Any:
        return fgrad.lax.cond(m >= 0, lambda m: 2**m, lambda m: m * 0, m)

    assert [int(fgrad.jit(f)(np.int64(m))) for m in (-1, 3)] == [0, 8]
    with pytest.raises(errors.ArgumentError, match="negative integer powers"):
        fgrad.jit(lambda x: x ** np.array([2, -3]))(np.arange(2))
