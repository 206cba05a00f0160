"""Linear functions of users' that write into the tangents or cotangents they are given.

Each of them computes y = 3 x + (0, x1, x2) by writing into x.  What a tape starts from is what the
function was given, not what it has made of that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad


def _linear(x: Any) -> Any:
    y = x * 3.0
    x[0] = 0.0
    return y + x


def _linear_transpose(ct: Any) -> Any:
    return fgrad.linear_transpose(_linear, np.zeros(3))(ct)[0]


def _custom_jvp(ct: Any) -> Any:
    @fgrad.custom_jvp
    def f(x: Any) -> Any:
        return x * np.array([3.0, 4.0, 4.0])

    @f.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        return f(*primals), _linear(*tangents)

    return fgrad.vjp(f, np.ones(3))[1](ct)[0]


def _custom_vjp_forward(t: Any) -> Any:
    @fgrad.custom_vjp
    def f(x: Any) -> Any:
        return x * np.array([3.0, 4.0, 4.0])

    f.defvjp(lambda x: (f(x), None), lambda _, ct: (_linear(ct),))
    return fgrad.jvp(f, (np.ones(3),), (t,))[1]


def _custom_primitive(ct: Any) -> Any:
    prim = fgrad.primitive(lambda x: x * np.array([3.0, 4.0, 4.0]), out=lambda x: x, name="written")
    prim.def_jvp(lambda primals, tangents, out: _linear(tangents[0]))
    return fgrad.vjp(prim, np.ones(3))[1](ct)[0]


@pytest.mark.parametrize(
    "pulled", [_linear_transpose, _custom_jvp, _custom_vjp_forward, _custom_primitive]
)
def test_what_was_given_is_differentiated(pulled: Callable[[Any], Any]) -> None:
    ct = np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(pulled(ct), [3.0, 8.0, 12.0])
    np.testing.assert_array_equal(ct, [1.0, 2.0, 3.0])
