"""Values and slopes of special functions against mpmath's, in every operand that has a slope."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
from special_by_mpmath import ROWS, Row

import fgrad
import fgrad.scipy.special as traced

TOLERANCE = 2e-11
# Where SciPy's values, of which the slopes are made, have fewer digits.
ROUGH = {"ncfdtr": 2e-10, "bei": 1e-10, "ker": 1e-10}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_slopes(row: Row) -> None:
    name, exact, points, places = row
    function, _, part = name.partition(" ")

    def f(*xs: Any) -> Any:
        if function == "multigammaln":
            return traced.multigammaln(xs[0], 3)
        found = getattr(traced, function)(*xs)
        return np.real(found[int(part)] if part else found)

    tolerance = ROUGH.get(name, TOLERANCE)
    for given in points:
        for k in places or range(len(given)):
            with mpmath.workdps(32):
                at = [mpmath.mpf(x) for x in given]
                way = tuple([int(j == k) for j in range(len(given))])
                slope = float(mpmath.re(mpmath.diff(exact, tuple(at), way)))
            where = f"{given}, operand {k}"
            found = fgrad.grad(f, argnums=k)(*given)
            np.testing.assert_allclose(found, slope, rtol=tolerance, err_msg=where)
            one = lambda x, g=given, k=k: f(*g[:k], x, *g[k + 1 :])  # noqa: E731
            forward = fgrad.jvp(one, (given[k],), (1.0,))[1]
            np.testing.assert_allclose(forward, found, rtol=1e-12, err_msg=where)
