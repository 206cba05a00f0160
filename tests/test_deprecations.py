"""What the installed NumPy and SciPy deprecate, traced code deprecates too, in their words."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.interpolate
import scipy.linalg
import scipy.sparse.linalg

import fgrad
import fgrad.scipy.interpolate
import fgrad.scipy.linalg
import fgrad.scipy.sparse.linalg
from fgrad.errors import FgradError

X = np.random.default_rng(0).normal(size=(4, 4))


def shaped(m: Any, x: Any) -> Any:
    y = x * 1
    y.shape = (2, 8)
    return y


def unfit(x: Any) -> Any:
    y = x.T * 1  # lies as x.T does
    y.shape = (16,)
    return y


CASES: dict[str, Callable[[Any, Any], Any]] = {
    "shape": shaped,
    "fix": lambda m, x: np.fix(x),
    "qr lwork": lambda m, x: m.linalg.qr(x, lwork=64)[1] ** 2,
    "qr None": lambda m, x: m.linalg.qr(x, False, None)[1] ** 2,
    "qr": lambda m, x: m.linalg.qr(x)[1] ** 2,
    "lagrange": lambda m, x: m.interpolate.lagrange(np.arange(4.0), x[0]).coeffs,
    "pade": lambda m, x: m.interpolate.pade(x[0], 1)[0].coeffs,
    "matvec": lambda m, x: m.sparse.linalg.aslinearoperator(x).matvec(np.ones((4, 1))),
    "rmatvec": lambda m, x: m.sparse.linalg.aslinearoperator(x).rmatvec(np.ones((4, 1))),
    "matmat": lambda m, x: m.sparse.linalg.aslinearoperator(x).matmat(np.ones((4, 1))),
    "sort": lambda m, x: np.sort(x),
}


def heard(call: Callable[[], Any]) -> tuple[Any, list[tuple[type[Warning], str]]]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        result = call()
    return result, [(w.category, " ".join(str(w.message).split())) for w in found]


@pytest.mark.parametrize("name", CASES)
def test_as_at_the_prompt(name: str) -> None:
    case = CASES[name]
    wanted, theirs = heard(lambda: case(scipy, X.copy()))
    found, ours = heard(lambda: fgrad.jit(lambda x: case(fgrad.scipy, x))(X.copy()))
    assert ours == theirs
    np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-10)


def test_it_is_told_at_the_users_line() -> None:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        fgrad.jit(lambda x: shaped(None, x))(X)
    assert [w.filename for w in found] == [__file__] * len(found)


@pytest.mark.filterwarnings("ignore:Setting the shape")
def test_a_shape_that_needs_a_copy_is_an_error() -> None:
    for f in (lambda x: unfit(x), fgrad.jit(unfit), fgrad.jit(lambda x: np.sum(unfit(x)))):
        with pytest.raises((AttributeError, FgradError)):
            f(X.copy())
