"""Functions of what a loop walks along, computed before it by lanes: the same numbers."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from pass_cases import assert_becomes

import fgrad
from fgrad.compile.loops import ahead
from fgrad.compile.loops.ahead import compute_ahead
from fgrad.compile.loops.invariants import hoist_invariants
from fgrad.ir.check import check_program
from fgrad.ir.program import Program
from fgrad.ir.text import print_program
from fgrad.trace import run

N = 70


def powers(x: Any) -> Any:
    s = 0.0
    for i in range(len(x)):
        s += x[i] ** (i % 5)
    return s


def from_one(x: Any) -> Any:
    y = np.zeros(len(x))
    for i in range(1, len(x)):
        y[i] = 0.5 * y[i - 1] + np.tanh(x[i]) * i
    return y


def backwards(x: Any) -> Any:
    s = 0.0
    for i in range(len(x) - 1, -1, -1):
        s = np.sin(s) + np.exp(-x[i])
    return s


def largest(x: Any) -> Any:
    most, at = -1e9, 0
    for i in range(len(x)):
        v = np.log(x[i] + 2.0)
        if v > most:
            most, at = v, i
    return most * at


def polynomials(x: Any) -> Any:
    s = 0.0
    for i in range(len(x)):
        for k in range(6):
            s += x[i] ** k / (k + 1.0)
    return s


def of_vectors(x: Any) -> Any:
    s = np.zeros(2)
    for v in np.reshape(x, (-1, 2)):
        s = s * 0.5 + np.exp(v)
    return s


def complex_numbers(x: Any) -> Any:
    z = 0.0j
    for i in range(len(x)):
        z = z * 0.5 + np.exp(1j * x[i])
    return np.abs(z)


LOOPS = [powers, from_one, backwards, largest, polynomials, of_vectors, complex_numbers]


@pytest.mark.parametrize("loop", LOOPS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("n", [62, N, 300])
def test_loops_and_their_gradients(loop: Any, n: int, rng: np.random.Generator) -> None:
    x = rng.uniform(0.5, 1.5, n)
    np.testing.assert_allclose(fgrad.jit(loop)(x), loop(x), rtol=1e-12)
    gradient = fgrad.grad(lambda x: np.sum(loop(x)))
    np.testing.assert_allclose(fgrad.jit(gradient)(x), gradient(x), rtol=1e-10, atol=1e-12)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops of any length are cut."""
    monkeypatch.setattr(ahead, "FEWEST_PLACES", 2)


FUNCTIONS = (np.sin, np.exp, np.square, np.negative)
JOINED = (np.add, np.multiply, np.maximum, lambda a, b: np.where(a > b, a, b))


LINES = st.tuples(*[st.integers(0, 3)] * 2, *[st.integers(0, 12)] * 2)


@st.composite
def programs_of_loops(draw: Any) -> tuple[Program, list[Any]]:
    """A scan whose step mixes its carries, items, constants and the number of the step."""
    lines = draw(st.lists(LINES, min_size=1, max_size=8))
    results = draw(st.tuples(*[st.integers(0, 12)] * 4))

    def step(c: Any, carry: Any, item: Any) -> Any:
        pool = [*carry[1:], *item, c, carry[0] * 0.25]
        for f, g, a, b in lines:
            a, b = pool[a % len(pool)], pool[b % len(pool)]
            pool.append(np.tanh(JOINED[g](FUNCTIONS[f](a), b)))
        u, v, *items = [pool[k % len(pool)] for k in results]
        return (carry[0] + 1, np.sum(u), np.sum(v)), tuple(items)

    def run_all(x: Any, y: Any, start: Any) -> Any:
        steps = partial(step, start)
        return fgrad.lax.scan(steps, (0, start, 1.5), (x, y), reverse=reverse)

    reverse, rng = draw(st.booleans()), np.random.default_rng(draw(st.integers(0, 1000)))
    args = [rng.normal(size=6), rng.normal(size=(6, 2)), rng.normal(size=())]
    return fgrad.make_program(run_all)(*args), args


CUT: list[bool] = []


@settings(
    max_examples=100, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(programs_of_loops())
def test_random_loops_keep_results(short: None, case: tuple[Program, list[Any]]) -> None:
    program, args = case
    prepared = hoist_invariants(program)
    rewritten = compute_ahead(prepared)
    CUT.append(rewritten is not prepared)
    note(print_program(prepared))
    note(print_program(rewritten))
    check_program(rewritten)
    for found, right in zip(run(rewritten, args), run(program, args), strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-12, atol=1e-14)


def test_many_of_the_random_loops_were_cut() -> None:
    assert sum(CUT) >= len(CUT) / 3


def test_what_needs_no_carry_is_a_loop_of_its_own() -> None:
    assert_becomes(
        compute_ahead,
        """program f(a: f64[70], b: f64[70]) -> (f64[]):
  c: f64[] = scan[body=@1 length=70 reverse=False n_consts=0 n_carry=1] 0.0 a b
  return c

program @1 g(a: f64[], b: f64[], c: f64[]) -> (f64[]):
  d: f64[] = pow b c
  e: f64[] = add a d
  return e
""",
        """program f(a: f64[70], b: f64[70]) -> (f64[]):
  d: f64[70] = scan[body=@1 length=70 reverse=False n_consts=0 n_carry=0] a b
  c: f64[] = scan[body=@2 length=70 reverse=False n_consts=0 n_carry=1] 0.0 a b d
  return c

program @1 g(a: f64[], b: f64[]) -> (f64[]):
  c: f64[] = pow a b
  return c

program @2 g(a: f64[], b: f64[], c: f64[], d: f64[]) -> (f64[]):
  e: f64[] = add a d
  return e
""",
    )
