"""Programs that the compiler or its loops once refused, crashed on or computed wrongly.

The numbers are those of the entries of the list of what was found.
"""

from __future__ import annotations

import numpy as np
import pytest

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
