"""Sums over slices of which the length is traced: in blocks of vectors, and equal to NumPy's at
every length around the lengths of blocks; loops that users write keep their order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.compile.loops import sums
from fgrad.compile.loops.prepare import prepared
from fgrad.ir.program import Eqn, Program
from fgrad.ir.walk import programs_in

N = 75  # two blocks of 32 float64, one of 8, and three single steps; a block of 64 float32

TERMS: dict[str, Callable[..., Any]] = {
    "product": lambda a, x, i: a[i, :i] @ x[:i],
    "sum": lambda a, x, i: np.sum(x[:i]),
    "formula": lambda a, x, i: np.sum(np.sin(a[i, :i]) * x[:i] + 1),
    "column": lambda a, x, i: a[:i, i] @ x[:i],
    "end": lambda a, x, i: np.sum(x[i:] * a[i:, i]),
    "moved": lambda a, x, i: a[i, 1 : i + 1] @ x[:i],
    "turned": lambda a, x, i: a[i, :i] @ x[:i][::-1],
    "both turned": lambda a, x, i: np.flip(a[i, :i]) @ np.flip(x[:i]),
    "from the end": lambda a, x, i: np.sum(x[-i - 1 :] ** 2),
    "squares": lambda a, x, i: np.dot(x[:i], x[:i]),
    "mean": lambda a, x, i: np.mean(x[: i + 1]),
    "chosen": lambda a, x, i: np.sum(np.where(x[:i] > 0, x[:i], a[i, :i])),
    "long": lambda a, x, i: np.sum(np.exp(np.sin(a[i, :i]) * np.tanh(x[:i])) * np.cos(x[:i])),
    "prod": lambda a, x, i: np.prod(1 + x[:i] / 8),
}
ORDERED: dict[str, Callable[..., Any]] = {
    "max": lambda a, x, i: np.max(x[: i + 1]),
    "min": lambda a, x, i: np.min(a[i, : i + 1] * x[: i + 1]),
    "any": lambda a, x, i: np.any(x[:i] > 2),
    "count": lambda a, x, i: np.count_nonzero(x[:i] > 0),
}


def each(term: Callable[..., Any]) -> Callable[..., Any]:
    """A function that has a term at every length."""

    def f(a: Any, x: Any) -> Any:
        y = np.zeros(N, x.dtype)
        for i in range(N):
            y[i] = term(a, x, i)
        return y

    return f


def numbers(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """A matrix and a vector."""
    rng = np.random.default_rng(4)
    a, x = rng.standard_normal((N, N + 1)), rng.standard_normal(N)
    if dtype.startswith("complex"):
        return (a + 1j * a[::-1]).astype(dtype), (x - 2j * x[::-1]).astype(dtype)
    if dtype[0] in "iu":
        a, x = np.abs(9 * a), np.abs(9 * x)
    return a.astype(dtype), x.astype(dtype)


@pytest.mark.parametrize("name", [*TERMS, *ORDERED])
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "int32", "uint8"])
def test_a_sum_has_numpys_value_at_every_length(name: str, dtype: str) -> None:
    term, (a, x) = (TERMS | ORDERED)[name], numbers(dtype)
    if dtype == "complex128" and name in (*ORDERED, "chosen"):
        pytest.skip("complex numbers have no order")
    if dtype[0] in "iu" and name in (*ORDERED, "chosen", "formula", "long", "prod", "mean"):
        pytest.skip("integers are rounded where they are stored")
    right = each(term)(a, x)
    found = fgrad.jit(each(term))(a, x)
    assert found.dtype == right.dtype
    if dtype[0] in "iu":
        assert np.array_equal(found, right)
        return
    room = 1e-5 if dtype == "float32" else 1e-13
    np.testing.assert_allclose(found, right, rtol=room, atol=room * np.abs(right).max())


@pytest.mark.parametrize("name", TERMS)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_gradients_agree_with_differences(name: str, dtype: str) -> None:
    if dtype == "complex128" and name == "chosen":
        pytest.skip("complex numbers have no order")
    a, x = numbers(dtype)
    rng = np.random.default_rng(5)
    da, dx = rng.standard_normal(a.shape), rng.standard_normal(x.shape)
    weights = rng.standard_normal(N)

    def loss(t: Any) -> Any:
        y = each(TERMS[name])(a + t * da, x + t * dx)
        return np.sum(weights * (y.real + 0.5 * y.imag if dtype == "complex128" else y))

    slope = (loss(1e-6) - loss(-1e-6)) / 2e-6
    np.testing.assert_allclose(fgrad.jit(fgrad.grad(loss))(0.0), slope, rtol=2e-6)
    pushed = fgrad.jit(lambda t: fgrad.jvp(loss, (t,), (1.0,))[1])(0.0)
    np.testing.assert_allclose(pushed, slope, rtol=2e-6)


@pytest.mark.parametrize("at", [0, 5, 31, 32, 40, 74])
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["product", "sum", "max", "min", "turned"])
def test_what_is_no_number_is_in_the_sums_that_it_is_in(name: str, special: float, at: int) -> None:
    a, x = np.ones((N, N + 1)), np.linspace(1.0, 2.0, N)
    x[at] = special
    f = each((TERMS | ORDERED)[name])
    np.testing.assert_allclose(fgrad.jit(f)(a, x), f(a, x), rtol=1e-13)


def test_batches_have_the_values_of_single_ones() -> None:
    rng = np.random.default_rng(6)
    a, x = rng.standard_normal((3, N, N + 1)), rng.standard_normal((3, N))
    f = each(TERMS["product"])
    right = np.stack([f(p, q) for p, q in zip(a, x, strict=True)])
    np.testing.assert_allclose(fgrad.jit(fgrad.vmap(f))(a, x), right, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(
        fgrad.jit(fgrad.vmap(f, (0, None)))(a, x[0])[0], right[0], rtol=1e-12
    )


@pytest.mark.parametrize("bad", [0, 13, 32, 50, 69])
def test_an_index_that_is_outside_is_found_in_a_block(bad: int) -> None:
    def f(column: Any, x: Any, n: Any) -> Any:
        y = np.zeros(2)
        for i in range(2):
            y[i] = np.sum(x[column[: n + i]])
        return y

    column, x = np.arange(N) % 20, np.linspace(0.0, 1.0, 20)
    np.testing.assert_allclose(fgrad.jit(f)(column - 20, x, 69), f(column - 20, x, 69))
    column[bad] = 20
    with pytest.raises(IndexError):
        fgrad.jit(f)(column, x, 69)
    if bad:  # what is before it
        np.testing.assert_allclose(fgrad.jit(f)(column, x, bad - 1), f(column, x, bad - 1))


@pytest.mark.parametrize("places", ["low", "high", "wrapped"])
def test_places_that_are_clipped_or_wrap_are_left_to_single_steps(places: str) -> None:
    def f(x: Any, n: Any) -> Any:
        y = np.zeros(N)
        for i in range(N):
            k = np.arange(N)[: i + n]
            if places == "low":
                y[i] = np.sum(np.take(x, k - 20, mode="clip"))
            elif places == "high":
                y[i] = np.sum(np.take(x, k + 40, mode="clip"))
            else:
                y[i] = np.sum(x[k - 37])
        return y

    x = np.random.default_rng(7).standard_normal(N)
    np.testing.assert_allclose(fgrad.jit(f)(x, 0), f(x, 0), rtol=1e-12, atol=1e-12)


def in_order(a: Any, x: Any) -> Any:
    y = np.zeros(N)
    for i in range(N):
        total = 0.0
        for k in range(i):
            total += x[k]
        y[i] = total
    return y


def loops_of(program: Program) -> list[Eqn]:
    """The `while` loops in a program."""
    found: list[Eqn] = []
    for eqn in program.eqns:
        found += [eqn] if "any_order" in eqn.params else []
        for inner in programs_in(eqn.params):
            found += loops_of(inner)
    return found


def is_summed(eqn: Eqn) -> bool:
    """Whether a loop is written in blocks."""
    p = eqn.params
    cond, body = prepared(p["cond"]), prepared(p["body"])
    return p["any_order"] and sums.summing(cond, body, p["n_cond"], p["n_body"]) is not None


@pytest.mark.parametrize("name", TERMS)
def test_sums_are_blocks_also_where_they_are_differentiated(name: str) -> None:
    f, args = each(TERMS[name]), numbers("float64")
    (own,) = loops_of(fgrad.jit(f).program_of(args, {}))
    assert is_summed(own)
    if name in ("prod", "formula", "long"):  # these keep numbers of each step
        return
    slope = fgrad.jit(fgrad.grad(lambda a, x: np.sum(f(a, x)), (0, 1)))
    found = loops_of(slope.program_of(args, {}))
    assert any(map(is_summed, found))


def test_a_loop_that_is_written_out_keeps_its_order() -> None:
    args = numbers("float64")
    assert not any(map(is_summed, loops_of(fgrad.jit(in_order).program_of(args, {}))))
    assert np.array_equal(fgrad.jit(in_order)(*args), in_order(*args))
