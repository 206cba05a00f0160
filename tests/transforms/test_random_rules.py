"""Random programs: patterns hold all derivatives, cuts and checkpoints keep results."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from random_programs import programs

import fgrad
from fgrad.ir.program import Program
from fgrad.ir.text import print_program
from fgrad.trace import run
from fgrad.transforms.checkpoint.memory_budget import Choice, apply
from fgrad.transforms.sparse.pattern import jacobian_pattern

BOUNDED = settings(
    max_examples=120, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)


def floating(program: Program) -> list[bool]:
    """Which inputs have derivatives."""
    return [a.dtype.kind == "f" for a in program.in_avals]


def of_floats(program: Program, args: list[Any]) -> tuple[Any, list[Any]]:
    """The program as a function of its floating-point inputs, with floating-point results."""
    active = floating(program)

    def f(*xs: Any) -> list[Any]:
        given = iter(xs)
        whole = [next(given) if a else x for a, x in zip(active, args, strict=True)]
        outs = run(program, whole)
        return [y for y in outs if y.dtype.kind == "f"]

    return f, [x for a, x in zip(active, args, strict=True) if a]


@BOUNDED
@given(programs())
def test_patterns_hold_all_derivatives(case: tuple[Program, list[Any]]) -> None:
    program, args = case
    note(print_program(program))
    active = floating(program)
    f, xs = of_floats(program, args)
    if not xs or not sum(x.size for x in xs):
        return
    with np.errstate(all="ignore"):
        pattern = jacobian_pattern(program, active).toarray()
        starts = np.cumsum([0, *[a.size for a in program.out_avals]])
        start = 0
        for k, x in enumerate(xs):
            for i in range(x.size):
                t = [np.zeros_like(v) for v in xs]
                unit = np.zeros(x.size, x.dtype)
                unit[i] = 1
                t[k] = unit.reshape(x.shape)[()]
                pushed = iter(fgrad.jvp(f, tuple(xs), tuple(t))[1])
                for n, aval in enumerate(program.out_avals):
                    if aval.dtype.kind != "f":
                        continue
                    column = pattern[starts[n] : starts[n + 1], start + i]
                    assert not np.any(np.ravel(next(pushed)) * (column == 0))
            start += x.size


def gradient(program: Program, args: list[Any], apply_to: Any) -> tuple[Any, list[Any]]:
    """The gradient of the sum of all results, and where to take it."""
    active = floating(program)

    def loss(*xs: Any) -> Any:
        given = iter(xs)
        whole = [next(given) if a else x for a, x in zip(active, args, strict=True)]
        found = [np.sum(y.astype(np.float64)) for y in apply_to(whole) if y.dtype.kind == "f"]
        return sum(found, np.float64(0.0) * xs[0].astype(np.float64).sum())

    xs = [x for a, x in zip(active, args, strict=True) if a]
    return fgrad.grad(loss, argnums=tuple(range(len(xs)))), xs


@BOUNDED
@given(programs(), st.integers(1, 5), st.integers(1, 3), st.data())
def test_cuts_keep_results_and_derivatives(
    case: tuple[Program, list[Any]], parts: int, inner: int, data: Any
) -> None:
    program, args = case
    choice = Choice(
        parts, data.draw(st.integers(0, parts - 1)), inner, False, data.draw(st.booleans())
    )
    note(f"{choice}\n{print_program(program)}")
    with np.errstate(all="ignore"):
        for a, b in zip(run(program, args), apply(program, args, choice), strict=True):
            np.testing.assert_array_equal(a, b)
        plain, xs = gradient(program, args, lambda whole: run(program, whole))
        cut, _ = gradient(program, args, lambda whole: apply(program, whole, choice))
        for a, b in zip(plain(*xs), cut(*xs), strict=True) if xs else ():
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)


@settings(BOUNDED, max_examples=40)
@given(programs(max_equations=8))
def test_compiled_checkpoints(case: tuple[Program, list[Any]]) -> None:
    program, args = case
    note(print_program(program))
    with np.errstate(all="ignore"):
        plain, xs = gradient(program, args, lambda whole: run(program, whole))
        saved = fgrad.checkpoint(lambda whole: run(program, whole))
        cut, _ = gradient(program, args, saved)
        for a, b in zip(plain(*xs), fgrad.jit(cut)(*xs), strict=True) if xs else ():
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)
