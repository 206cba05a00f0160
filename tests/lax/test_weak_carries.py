"""Python's numbers as carries of loops and operands of branches: the dtypes of a Python loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad import errors, lax

DTYPES = ("bool", "int8", "int32", "uint16", "int64", "float16", "float32", "float64", "complex64")
STARTS: dict[str, Any] = {"int": 2, "float": 0.5, "complex": 0.5 + 1j}
STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda c, v: c + v,
    "taken": lambda c, v: v,
    "own": lambda c, v: c * 2,
    "halves": lambda c, v: c * 0.5,
    "mixed": lambda c, v: c * 2 + v,
}
N = 3


def python_loop(step: Callable[[Any, Any], Any], c: Any, xs: Any) -> tuple[Any, Any]:
    """The carry of a Python loop, in the dtype that all steps agree on, and products with it."""
    ys = []
    for x in xs:
        ys.append(np.asarray(c * x))
        c = step(c, x)
    return np.asarray(c), np.stack(ys)


def settles(start: Any, step: Callable[[Any, Any], Any], x: Any) -> bool:
    """Whether a loop can have one dtype: a Python loop's second step changes it no more, and what
    it gives holds the kind of number that it begins with."""
    first = step(start, x)
    second = step(first, x)
    kinds = "biufc"
    keeps = kinds.index(np.asarray(first).dtype.kind) >= kinds.index(np.asarray(start).dtype.kind)
    return keeps and np.asarray(first).dtype == np.asarray(second).dtype


def forms(step: Any, start: Any, xs: Any) -> dict[str, Callable[[], Any]]:
    def scanned(xs: Any) -> Any:
        return lax.scan(lambda c, x: (step(c, x), c * x), start, xs)

    def counted(xs: Any) -> Any:
        return lax.fori_loop(0, N, lambda i, c: step(c, fgrad.numpy.take(xs, i)), start)

    def tested(xs: Any) -> Any:
        return lax.while_loop(
            lambda s: s[0] < N,
            lambda s: (s[0] + 1, step(s[1], fgrad.numpy.take(xs, s[0]))),
            (0, start),
        )[1]

    return {
        "scan": lambda: scanned(xs),
        "jit scan": lambda: fgrad.jit(scanned)(xs),
        "vmap scan": lambda: fgrad.tree.map(
            lambda y: y[1], fgrad.vmap(scanned)(np.stack([xs, xs]))
        ),
        "fori": lambda: (counted(xs), None),
        "jit fori": lambda: (fgrad.jit(counted)(xs), None),
        "while": lambda: (tested(xs), None),
        "jit while": lambda: (fgrad.jit(tested)(xs), None),
    }


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", STEPS)
def test_loops_have_the_dtypes_of_python(name: str, dtype: str) -> None:
    step, xs = STEPS[name], np.ones(N, dtype)
    for kind, start in STARTS.items():
        if not settles(start, step, xs[0]):
            continue
        carry, ys = python_loop(step, start, xs)
        for form, loop in forms(step, start, xs).items():
            last, stacked = loop()
            told = f"{kind} {form}"
            assert np.asarray(last).dtype == carry.dtype, told
            np.testing.assert_allclose(last, carry, rtol=1e-3, err_msg=told)
            if stacked is not None and np.asarray(start * xs[0]).dtype == ys.dtype:
                np.testing.assert_allclose(stacked, ys, rtol=1e-3, err_msg=told)


def test_truth_values_do_not_yield() -> None:
    """A loop that makes a truth value a number has no one dtype."""
    for dtype in ("int8", "float32", "complex64"):
        with pytest.raises(errors.DtypeError):
            lax.scan(lambda c, x: (c + x, None), True, np.ones(3, dtype))
    with pytest.raises(errors.DtypeError):
        lax.fori_loop(0, 3, lambda i, c: c + 1, True)
    assert lax.fori_loop(0, 3, lambda i, c: c + c, True).dtype == bool
    assert lax.fori_loop(0, 3, lambda i, c: c & (i < 2), True).dtype == bool
    for loop in (lax.fori_loop, fgrad.jit(lax.fori_loop, static_argnums=(0, 1, 2))):
        last = loop(0, 3, lambda i, c: ~c, True)
        assert last.dtype == bool and not last  # where ~True is -2 in Python


def test_an_integer_that_does_not_fit_is_refused() -> None:
    with pytest.raises(OverflowError):
        lax.scan(lambda c, x: (c + x, None), 300, np.ones(3, np.int8))


def test_a_counter_does_not_wrap_around() -> None:
    """A counter that meets small integers inside of the loop must fit, as in a loop of Python's."""
    step = lambda c, x: (c + 100, c * x)  # noqa: E731
    _, ys = lax.scan(step, 0, np.ones(2, np.int8))
    assert (list(ys), ys.dtype) == ([0, 100], np.int8)
    with pytest.raises(OverflowError, match="out of bounds for int8"):
        lax.scan(step, 0, np.ones(5, np.int8))


def test_a_counter_does_not_widen_what_it_meets() -> None:
    xs = np.ones(3, np.float32)
    count, scaled = lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * s[0]), (1, xs))
    assert (count.dtype, scaled.dtype) == (np.int64, np.float32)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value", [2, 0.5, 1j, True])
def test_branches_see_python_numbers(value: Any, dtype: str) -> None:
    x = np.ones(2, dtype)
    if dtype == "bool" and value is True:
        return
    expected = value * x
    for f in (lax.cond, fgrad.jit(lax.cond, static_argnums=(1, 2))):
        got = f(True, lambda v, x: v * x, lambda v, x: x * v, value, x)
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)


def test_gradients_through_weak_carries() -> None:
    xs = np.linspace(0.5, 1.0, 4, dtype=np.float32)

    def f(xs: Any) -> Any:
        last, ys = lax.scan(lambda c, x: (c * 0.5 + x, c * x), 1.0, xs)
        return last + np.sum(ys)

    expected = fgrad.grad(lambda xs: f(xs.astype(np.float64)))(xs)
    for g in (fgrad.grad(f), fgrad.jit(fgrad.grad(f)), fgrad.grad(fgrad.jit(f))):
        got = g(xs)
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, expected, rtol=1e-5)


Loop = tuple[Callable[[Any, Any], Any], Any]
INDEXED: dict[str, Loop] = {  # a body, and the first carry, whose dtype stays
    "float32": (lambda i, c: c + i, np.float32(0)),
    "float16": (lambda i, c: c * i + 1, np.ones(3, np.float16)),
    "int32": (lambda i, c: c + i, np.int32(0)),
    "uint8": (lambda i, c: c + i, np.zeros(2, np.uint8)),
    "complex64": (lambda i, c: c * 1j + i, np.complex64(1)),
    "times a number": (lambda i, c: c + i * 0.5, np.float32(0)),
    "divided": (lambda i, c: c + i / 2, np.float32(0)),
    "a place": (lambda i, c: fgrad.at(c)[i].set(i), np.zeros(5, np.float32)),
    "a function of it": (lambda i, c: c + np.float32(1) * np.sin(i * c), np.float32(1)),
}


@pytest.mark.parametrize("name", INDEXED)
@pytest.mark.parametrize("start", [0, np.int32(0), 2])
def test_an_index_is_one_of_pythons_integers(name: str, start: Any) -> None:
    """As in `for i in range(n)`: it widens nothing, whether the end is known or not."""
    body, first = INDEXED[name]
    expected: Any = first
    for i in range(int(start), 5):
        expected = body(i, expected)
    known = fgrad.lax.fori_loop(start, 5, body, first)
    unknown = fgrad.jit(lambda n, c: fgrad.lax.fori_loop(start, n, body, c))(5, first)
    both = fgrad.jit(lambda m, n, c: fgrad.lax.fori_loop(m, n, body, c))(start, 5, first)
    for found in (known, unknown, both):
        assert found.dtype == first.dtype
        np.testing.assert_allclose(found, expected, rtol=2e-3 if name == "float16" else 1e-6)


def test_derivatives_by_an_index() -> None:
    x = np.float32(1.5)

    def f(x: Any) -> Any:
        return fgrad.lax.fori_loop(1, 5, lambda i, c: c * x + i, x)

    slope = fgrad.grad(f)(x)
    assert slope.dtype == np.float32
    assert slope == pytest.approx((float(f(x + 1e-2)) - float(f(x - 1e-2))) / 2e-2, rel=1e-3)
    assert fgrad.jvp(f, (x,), (np.float32(1),))[1] == pytest.approx(slope, rel=1e-5)
    assert fgrad.vmap(f)(np.array([x, 2 * x]))[0] == f(x)
