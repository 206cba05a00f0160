"""Plain Python programs under `jit` give what Python gives, and their derivatives are right."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from captured_programs import (
    PROGRAMS,
    A,
    X,
    and_one_of_them_is_written,
    cholesky,
    names_of_one_array_after_a_turn,
    newton,
    product,
    roots,
    rows_are_written,
    smooth,
    swapped_buffers,
    the_same_while_a_condition_holds,
)

import fgrad
from fgrad import tree
from fgrad.errors import CaptureError, FgradError, TracedBoolError

NAMES_OF_ONE_ARRAY = [
    names_of_one_array_after_a_turn,
    the_same_while_a_condition_holds,
    and_one_of_them_is_written,
]
CASES = pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)


def fresh(program: Callable[..., Any]) -> list[Any]:
    return [np.copy(x) if isinstance(x, np.ndarray) else x for x in PROGRAMS[program]]


def loss_of(program: Callable[..., Any]) -> Callable[..., Any]:
    def loss(*args: Any) -> Any:
        own = [x.copy() if np.ndim(x) else x for x in args]
        return sum([np.sum(np.sin(x)) for x in tree.leaves(program(*own))])

    return loss


@CASES
def test_values_are_those_of_python(program: Callable[..., Any]) -> None:
    want, got = program(*fresh(program)), fgrad.jit(program)(*fresh(program))
    for x, y in zip(tree.leaves(want), tree.leaves(got), strict=True):
        assert np.shape(x) == np.shape(y)
        np.testing.assert_allclose(y, x, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("turns", [0, 1, 2, 7])
@pytest.mark.parametrize("program", NAMES_OF_ONE_ARRAY, ids=lambda f: f.__name__)
def test_names_of_one_array_after_any_number_of_turns(
    program: Callable[..., Any], turns: int
) -> None:
    want, got = program(2.0, turns), fgrad.jit(program)(2.0, turns)
    for x, y in zip(want, got, strict=True):
        np.testing.assert_allclose(y, x)


@CASES
@pytest.mark.parametrize("order", ["jit(grad)", "grad(jit)"])
def test_gradients_are_those_of_differences(program: Callable[..., Any], order: str) -> None:
    loss = loss_of(program)
    gradient = fgrad.jit(fgrad.grad(loss)) if order == "jit(grad)" else fgrad.grad(fgrad.jit(loss))
    found = gradient(*fresh(program))
    x, *rest = PROGRAMS[program]
    v = np.random.default_rng(1).standard_normal(np.shape(x))
    h = 1e-6
    ahead, behind = [loss(np.copy(x + s * h * v)[()], *rest) for s in (1, -1)]
    np.testing.assert_allclose(np.sum(found * v), (ahead - behind) / (2 * h), rtol=1e-5, atol=1e-6)


@CASES
def test_arguments_are_left_as_python_leaves_them(program: Callable[..., Any]) -> None:
    plain, compiled = fresh(program), fresh(program)
    program(*plain)
    fgrad.jit(program)(*compiled)
    for x, y in zip(plain, compiled, strict=True):
        np.testing.assert_allclose(y, x, rtol=1e-12)


def test_an_index_out_of_bounds_raises() -> None:
    def beyond(x: Any) -> Any:
        s = 0.0
        for i in range(len(x)):
            s += x[i + 1]
        return s

    long = np.tile(X, 20)
    for x in (X, long):  # written out, and one loop
        with pytest.raises(IndexError, match="out of bounds"):
            fgrad.jit(beyond)(x)
    with fgrad.config.override(checks=False):
        assert np.isfinite(fgrad.jit(beyond)(long))


def test_an_element_of_a_list_of_arrays_is_not_written_in_silence() -> None:
    def f(x: Any, y: Any) -> Any:
        items = [x, y, x, y, x, y]
        for i in range(6):
            items[i][0] += i + 1
        return x, y

    x, y = X[:3].copy(), X[3:6].copy()
    want = f(X[:3].copy(), X[3:6].copy())
    for a, b in zip(want, fgrad.jit(f)(x, y), strict=True):
        np.testing.assert_allclose(b, a)


PROMPT = {
    "buffer": lambda x: np.sum(_filled(np.zeros(3), x) ** 2),
    "array": lambda x: np.sum(np.array([x[0], x[1] * 2]) ** 2),
    "full": lambda x: np.sum(np.full(3, x[0]) * x[:3]),
    "math": lambda x: math.sin(x[0]) * float(x[1]) + max(x[2], x[3]),
}


def _filled(y: Any, x: Any) -> Any:
    for i in range(3):
        y[i] = math.exp(x[i]) * i
    return y


@pytest.mark.parametrize("name", PROMPT)
def test_calls_at_the_prompt_differentiate(name: str) -> None:
    f, x = PROMPT[name], X[:5]
    v = np.random.default_rng(2).standard_normal(5)
    slope = (f(x + 1e-6 * v) - f(x - 1e-6 * v)) / 2e-6
    _, pull = fgrad.vjp(f, x)
    for found in (fgrad.grad(f)(x), pull(1.0)[0], fgrad.jacfwd(f)(x), fgrad.jacrev(f)(x)):
        np.testing.assert_allclose(np.sum(found * v), slope, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(fgrad.jvp(f, (x,), (v,))[1], slope, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(fgrad.hessian(f)(x), fgrad.jacfwd(fgrad.grad(f))(x), atol=1e-12)
    np.testing.assert_allclose(fgrad.vmap(f)(np.stack([x, 2 * x])), [f(x), f(2 * x)])


def test_it_can_be_turned_off() -> None:
    def positive(x: Any) -> Any:
        return x if x > 0 else -x

    assert fgrad.jit(positive)(-2.0) == 2.0
    with pytest.raises(TracedBoolError):
        fgrad.jit(positive, capture=False)(-2.0)
    with fgrad.config.override(capture=False), pytest.raises(TracedBoolError):
        fgrad.jit(positive)(-2.0)


def test_vmap_of_loops_and_branches() -> None:
    def root(c: Any) -> Any:
        z = 1.0
        while abs(z * z - c) > 1e-12:
            z = 0.5 * (z + c / z)
        return -z if c > 3 else z

    c = np.linspace(1.5, 6.0, 5)
    want = np.array([root(v) for v in c])
    np.testing.assert_allclose(fgrad.vmap(root)(c), want)
    np.testing.assert_allclose(fgrad.jit(fgrad.vmap(fgrad.grad(root)))(c), 0.5 / want)


def test_a_variable_that_may_have_no_value_is_refused() -> None:
    def last_above(x: Any) -> Any:
        for i in range(len(x)):
            if x[i] > 0.5:
                hit = i
        return hit

    with pytest.raises(TracedBoolError, match="hit"):
        fgrad.jit(last_above)(X)


def test_a_variable_that_lanes_may_leave_without_a_value_is_refused() -> None:
    def first_above(x: Any) -> Any:
        for v in x:
            if v > 0.5:
                found = v
                break
        else:
            found = -1.0
        return found

    with pytest.raises(CaptureError, match=r"return found[^~]*'found'"):
        fgrad.vmap(first_above)(A)


def test_a_name_that_is_nowhere_is_a_name_error() -> None:
    def lost(x: Any) -> Any:
        for v in x:
            nowhere(v)  # type: ignore[name-defined]  # noqa: F821
        return x

    with pytest.raises(NameError, match="nowhere"):
        fgrad.vmap(lost)(A)


@pytest.mark.parametrize("steps", [2, 6])
@pytest.mark.parametrize(
    "transform", [fgrad.jit, lambda f: fgrad.jit(fgrad.grad(f)), lambda f: fgrad.grad(fgrad.jit(f))]
)
def test_a_store_into_an_array_from_outside_has_a_card(transform: Any, steps: int) -> None:
    arrays = [np.ones(6)]

    def stores(x: Any) -> Any:
        u = arrays[0]
        for i in range(steps):
            u[i] = x[i] + u[0]
        return np.sum(np.sin(u))

    with pytest.raises(ValueError, match="setting an array element") as raised:
        transform(stores)(X[:6])
    assert isinstance(raised.value.__cause__, FgradError)


def test_results_of_another_shape_in_each_branch_are_refused() -> None:
    def either(x: Any) -> Any:
        return x if np.sum(x) > 0 else x[:2]

    with pytest.raises(CaptureError, match="shape"):
        fgrad.vmap(either)(np.ones((2, 3)))


def test_unrolled_by_hand() -> None:
    def halves(x: Any) -> Any:
        for k in fgrad.unroll(range(6)):
            x = x + np.sum(x[: 2**k])
        return x

    np.testing.assert_allclose(fgrad.jit(halves)(X), halves(X))


@pytest.mark.parametrize(
    "program", [smooth, newton, product, swapped_buffers, roots, cholesky, rows_are_written]
)
def test_loops_are_not_written_out(program: Callable[..., Any]) -> None:
    text = fgrad.explain_capture(program)(*fresh(program))
    assert "rolled:" in text and "unrolled" not in text


@pytest.mark.parametrize(("n", "word"), [(10, "unrolled"), (60, "rolled")])
def test_few_steps_on_numbers_are_written_out(n: int, word: str) -> None:
    def rosenbrock(x: Any) -> Any:
        s = 0.0
        for i in range(len(x) - 1):
            s += 100.0 * (x[i + 1] - x[i] ** 2) ** 2 + (1.0 - x[i]) ** 2
        return s

    x = np.linspace(0.1, 0.9, n)
    assert f"  {word}: " in fgrad.explain_capture(rosenbrock)(x)
    np.testing.assert_allclose(fgrad.jit(rosenbrock)(x), rosenbrock(x))
    given, right = fgrad.jit(fgrad.grad(rosenbrock))(x), fgrad.grad(rosenbrock)(x)
    np.testing.assert_allclose(given, right)


def test_explained() -> None:
    text = fgrad.explain_capture(next(iter(PROGRAMS)))(X)
    assert "for i in range(1, len(x) - 1):" in text and "rolled" in text and "branch" in text
