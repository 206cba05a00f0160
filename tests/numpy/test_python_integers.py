"""Python integers meet small dtypes: they fit, or NumPy's OverflowError, also under `jit`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad

X = np.array([1, 2, 200], np.uint8)
FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, n: x + n,
    "multiply": lambda x, n: n * x,
    "floor_divide": lambda x, n: x // n,
    "maximum": lambda x, n: np.maximum(x, n),
    "less": lambda x, n: x < n,
    "clip": lambda x, n: np.clip(x, n, 100),
    "clip above": lambda x, n: np.clip(x, 3, n),
    "where": lambda x, n: np.where(x > 1, x, n),
    "bits": lambda x, n: x & n,
    "in vmap": lambda x, n: fgrad.vmap(lambda a: a + n)(x) if hasattr(x, "aval") else x + n,
}


def _outcome(fun: Callable[..., Any], *args: Any) -> Any:
    try:
        return fun(*args)
    except OverflowError as error:
        return str(error)


@pytest.mark.parametrize("n", (3, 0, -1, 255, 256, 300, -(2**40)))
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_constants_and_arguments(name: str, n: int) -> None:
    fun = FUNCTIONS[name]
    expected = _outcome(fun, X, n)
    jitted = fgrad.jit(fun)
    found = [
        _outcome(fgrad.jit(lambda x: fun(x, n)), X),
        _outcome(lambda x: fgrad.vjp(lambda y: fun(y, n), x)[0], X),
    ]
    if not name.startswith("clip") or isinstance(expected, np.ndarray):
        found += [_outcome(jitted, X, n), _outcome(jitted, X, n)]
    for result in found:
        if isinstance(expected, str):
            assert result == expected
        else:
            assert result.dtype == expected.dtype
            np.testing.assert_array_equal(result, expected)


def test_one_compiled_function_for_all_that_fit() -> None:
    add = fgrad.jit(lambda x, n: x + n, max_traces=1)
    for n in (1, 2, 50):
        np.testing.assert_array_equal(add(X, n), X + n)
    with pytest.raises(OverflowError, match="Python integer 500 out of bounds for uint8"):
        add(X, 500)


def test_nested_jit_checks_the_outer_argument() -> None:
    inner = fgrad.jit(lambda x, n: x - n)
    outer = fgrad.jit(lambda x, n: inner(x, n) * 2)
    np.testing.assert_array_equal(outer(X, 1), (X - 1) * 2)
    with pytest.raises(OverflowError):
        outer(X, -1)
