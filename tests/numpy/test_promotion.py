"""dtypes of traced calls are NumPy's, for every pair of dtypes and for Python scalars."""

from __future__ import annotations

import itertools
import operator
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad.numpy
from fgrad.ir.aval import Aval, aval_of
from fgrad.numpy.ufuncs import IMPLEMENTATIONS
from fgrad.trace import run, trace

OLD_NUMPY = np.lib.NumpyVersion(np.__version__) < "2.3.0"
DTYPES = "?bhilBHILefd"
COMPLEX = "FD"
UNORDERED = (  # NumPy orders complex numbers lexicographically
    "less", "less_equal", "greater", "greater_equal", "maximum", "minimum", "fmax", "fmin",
)  # fmt: skip
UFUNCS = sorted(IMPLEMENTATIONS, key=lambda u: u.__name__)
NAMES = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "eq", "ne", "lt", "le", "gt", "ge",
    "and_", "or_", "xor", "lshift", "rshift",
)  # fmt: skip
OPERATORS: dict[str, Callable[..., Any]] = {name: getattr(operator, name) for name in NAMES}


def _sample(char: str) -> Any:
    return np.array([1, 0, 1], char) if char == "?" else np.array([3, 1, 2], char)


def _both(fun: Callable[..., Any], args: list[Any]) -> None:
    """The traced function does what NumPy does: the same values and dtypes, or an error too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            expected = fun(*args)
        except TypeError:
            with pytest.raises(TypeError):
                trace(lambda *xs: _flat(fun(*xs)), [aval_of(x) for x in args])
            return
        traced = trace(lambda *xs: _flat(fun(*xs)), [aval_of(x) for x in args])
        got = run(traced.program, [np.asarray(x)[()] for x in args])
    for a, b in zip(got, _flat(expected), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        tolerance = {"e": 4e-3, "f": 1e-5, "d": 1e-12, "F": 1e-5, "D": 1e-12}.get(b.dtype.char, 0)
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def _flat(out: Any) -> list[Any]:
    return list(out) if isinstance(out, tuple) else [out]


@pytest.mark.parametrize("ufunc", UFUNCS, ids=lambda u: u.__name__)
def test_ufunc_dtypes(ufunc: Any) -> None:
    dtypes = DTYPES if ufunc.__name__ in UNORDERED else DTYPES + COMPLEX
    for chars in itertools.product(dtypes, repeat=ufunc.nin):
        args = [_sample(c) for c in chars]
        if ufunc in (np.arcsin, np.arccos, np.arctanh):
            args = [x * 0 for x in args]
        _both(ufunc, args)


@pytest.mark.parametrize("scalar", [True, 2, 2.5, np.float32(1.5), np.int8(2)], ids=repr)
@pytest.mark.parametrize("name", OPERATORS)
def test_operators_with_scalars(name: str, scalar: Any) -> None:
    fun = OPERATORS[name]
    if OLD_NUMPY and name == "pow" and isinstance(scalar, np.integer):
        pytest.skip("NumPy below 2.3 squares arrays without regard to the dtype of the exponent")
    for char in DTYPES:
        x = _sample(char)
        _both(lambda a: fun(a, scalar), [x])
        if not (name == "pow" and isinstance(scalar, (float, np.floating))):
            _both(lambda a: fun(scalar, a), [x])
        if (name, char) != ("pow", "?"):  # NumPy squares bools as int8, by the value of the scalar
            _both(fun, [x, scalar])


PYTHON = [True, False, 7, 2, 2.5]


@pytest.mark.parametrize("name", OPERATORS)
def test_weak_scalars_follow_python(name: str) -> None:
    fun = OPERATORS[name]
    for x, y in itertools.product(PYTHON, repeat=2):
        try:
            expected = fun(x, y)
        except (TypeError, ZeroDivisionError):
            continue
        program = trace(lambda a, b: [fun(a, b)], [aval_of(x), aval_of(y)]).program
        (out,) = program.outputs
        assert out.aval == aval_of(expected), (x, y)
        (got,) = run(program, [np.asarray(x)[()], np.asarray(y)[()]])
        assert got == pytest.approx(expected, rel=1e-15)


def test_weak_scalars_yield_to_arrays() -> None:
    def result(fun: Callable[..., Any], *avals: Aval) -> Aval:
        return trace(lambda *xs: [fun(*xs)], avals).program.outputs[0].aval

    weak_float, weak_int = aval_of(1.0), aval_of(1)
    f32, i8 = Aval((3,), np.dtype("f4")), Aval((3,), np.dtype("i1"))
    assert result(operator.mul, weak_float, f32).dtype == np.float32
    assert result(operator.add, f32, weak_int).dtype == np.float32
    assert result(operator.add, i8, weak_int).dtype == np.int8
    assert result(operator.add, i8, weak_float).dtype == np.float64
    assert result(lambda x, w: x * (w / 2 + 1), f32, weak_float).dtype == np.float32
    assert result(lambda x, w: x * np.sin(w), f32, weak_float).dtype == np.float64
    assert result(np.where, Aval((3,), np.dtype(bool)), f32, weak_float).dtype == np.float32


def test_integers_beyond_the_dtype() -> None:
    x = np.array([1, 2], np.int8)
    for fun in (operator.lt, operator.ge, operator.eq, operator.ne):
        _both(lambda a, fun=fun: fun(a, 300), [x])
        _both(lambda a, fun=fun: fun(-300, a), [x])
    with pytest.raises(OverflowError):
        trace(lambda a: [a + 300], [aval_of(x)])


def test_signed_and_unsigned_compare_exactly() -> None:
    x = np.array([-1, 5, 2**62], np.int64)
    y = np.array([2**64 - 1, 5, 2**63], np.uint64)
    for fun in (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal):
        _both(fun, [x, y])
        _both(fun, [y, x])


LISTS: dict[str, Callable[[Any], Any]] = {
    "a number and a float": lambda x: np.asarray([x[0], 1.0]),
    "a number and an integer": lambda x: np.array([x[0], 1]),
    "a float first": lambda x: np.array([0.5, x[1], x[0]]),
    "a truth value": lambda x: np.array([x[0], True]),
    "rows": lambda x: np.array([[x[0], 1], [2, x[1]]]),
    "rows and arrays": lambda x: np.array([x[:2], [1, 2]]),
    "a NumPy number": lambda x: np.array([x[0], np.float32(2), np.int8(1)]),
    "an operand": lambda x: np.add(x[:2], [x[0], 1]),
    "a sum": lambda x: np.sum([x[0], 1.0]),
    "a part": lambda x: np.concatenate([x, [x[0], 2]]),
}


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "i4", "i8", "f2", "f4", "f8", "c8"])
@pytest.mark.parametrize("name", LISTS)
def test_numbers_of_python_in_lists_do_not_yield(name: str, dtype: str) -> None:
    """`np.array([np.float32(1), 1.0])` is of float64, where `np.float32(1) + 1.0` is float32."""
    x, fun = np.array([1, 0, 1]).astype(dtype), LISTS[name]
    expected = fun(x)
    for made in (fgrad.jit(fun)(x), fgrad.vmap(fun)(x[None])[0]):
        assert (made.dtype, made.tolist()) == (expected.dtype, expected.tolist())


SUMS: dict[str, Callable[[Any], Any]] = {
    "numbers": lambda x: sum(x),
    "from an integer": lambda x: sum(x, 1),
    "from a float": lambda x: sum(x, 0.5),
    "rows": lambda x: sum(np.stack([x, x])),
    "nothing": lambda x: sum(x[:0]),
}


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "i2", "i4", "i8", "f2", "f4", "f8", "c8"])
@pytest.mark.parametrize("name", SUMS)
def test_sum_of_python_adds_in_the_dtype_of_the_numbers(name: str, dtype: str) -> None:
    """`sum` of uint8 wraps around, where `np.sum` adds in uint64."""
    x, fun = np.array([100, 120, 90]).astype(dtype), SUMS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        expected = fun(x)
    found = fgrad.jit(fun)(x)
    assert np.asarray(found).dtype == np.asarray(expected).dtype
    np.testing.assert_array_equal(found, expected)
