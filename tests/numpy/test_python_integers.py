"""Python integers meet small dtypes: they fit, or NumPy's OverflowError, also under `jit`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad

X = np.array([1, 2, 200], np.uint8)


def _written(write: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def function(x: Any, n: Any) -> Any:
        y = x.copy()
        write(y, n)
        return y

    return function


def _assigned(place: Any) -> Callable[[Any, Any], Any]:
    return _written(lambda y, n: y.__setitem__(place, n))


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
    "shift": lambda x, n: n << (x & 1),
    "power": lambda x, n: x**n if isinstance(n, int) and n < 0 else n**x,
    "element": _assigned(0),
    "slice": _assigned(slice(None)),
    "places": _assigned([0, 2]),
    "list": _written(lambda y, n: y.__setitem__(slice(0, 2), [n, 1])),
    "mask": _written(lambda y, n: y.__setitem__(y > 1, n)),
    "flat": _written(lambda y, n: y.flat.__setitem__(slice(0, 2), n)),
    "fill": _written(lambda y, n: y.fill(n)),
    "+=": _written(lambda y, n: y.__iadd__(n)),
    "copyto": _written(np.copyto),
    "put": _written(lambda y, n: np.put(y, [1], n)),
    "putmask": _written(lambda y, n: np.putmask(y, y > 1, n)),
    "place": _written(lambda y, n: np.place(y, y > 1, n)),
    "fill_diagonal": lambda x, n: _written(np.fill_diagonal)(np.diag(x), n),
    "full_like": np.full_like,
    "full": lambda x, n: fgrad.numpy.full(3, n, dtype=x.dtype) + x,
    "array": lambda x, n: fgrad.numpy.array([n, 1, 2], dtype=x.dtype) + x,
    "insert": lambda x, n: np.insert(x, 0, n),
    "concatenate": lambda x, n: np.append(x, n),
    "initial": lambda x, n: np.max(x, initial=n),
    "piecewise": lambda x, n: np.piecewise(x, [x > 1], [n, 0]),
    "select": lambda x, n: np.select([x > 1], [x], n),
    "digitize": lambda x, n: np.digitize(x, [0, n]),
    "in jit": lambda x, n: fgrad.jit(lambda a, k: a * k)(x, n) if hasattr(x, "aval") else x * n,
    "in a loop": lambda x, n: (
        fgrad.lax.fori_loop(0, 2, lambda i, c: (c[0] + c[1], c[1]), (x, n))[0]
        if hasattr(x, "aval")
        else x + n + n
    ),
}


def _outcome(fun: Callable[..., Any], *args: Any) -> Any:
    try:
        return fun(*args)
    except (OverflowError, ValueError) as error:
        return type(error)


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
    found += [_outcome(jitted, X, n), _outcome(jitted, X, n)]
    computed = fgrad.jit(lambda x, m: fun(x, m + 1))
    found.append(_outcome(computed, X, n - 1))
    for result in found:
        if isinstance(expected, type):
            assert result is expected
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
