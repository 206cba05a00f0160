"""Compiling takes time in proportion to the program: calls of functions are counted, of programs
of 100 and of 400 steps."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad import lax

X = np.linspace(0.1, 0.9, 100)
INDEX = np.arange(100)[::-1].copy()
Function = Callable[[Any], Any]
STEPS: dict[str, Callable[[Any, int], Any]] = {
    "chain": lambda x, k: np.tanh(x) * (1.0 + 1e-6 * k),
    "moves": lambda x, k: np.flip(x) * (1.0 + 1e-6 * k) if k % 3 else np.roll(x, 1),
    "transposes": lambda x, k: (x.reshape(10, 10).T * (1.0 + 1e-6 * k)).reshape(100),
    "totals": lambda x, k: x + np.sum(x * (k + 1.0)) / 100,
    "maxima": lambda x, k: x - np.max(x.reshape(10, 10), axis=k % 2)[k % 10] / (k + 2.0),
    "products": lambda x, k: (x.reshape(10, 10) @ x.reshape(10, 10)).reshape(100) * 0.1,
    "choices": lambda x, k: np.where(x > k * 1e-3, x * 0.9, x + 0.1),
    "branches": lambda x, k: lax.cond(x[0] > k * 1e-3, lambda v: v * 0.9, lambda v: v + 0.1, x),
    "ragged": lambda x, k: x + np.concatenate([np.zeros(k % 50), x[k % 50 :] * 2.0]),
    "sorts": lambda x, k: np.sort(x) + x * 1e-3,
    "gathers": lambda x, k: x[INDEX] * 0.9 + x,
    "sums so far": lambda x, k: np.cumsum(x) * 0.01,
    "written": lambda x, k: lax.dynamic_update_slice(x, x[:1] * k, (k % 100,)),
    "written in turn": lambda x, k: lax.dynamic_update_slice(x, x[k % 99 + 1 :][:1], (k % 98,)),
    "parts": lambda x, k: x + np.pad(x[k % 90 : k % 90 + 10] * 2.0, (0, 90)),
}
WHOLE: dict[str, Callable[[int], Function]] = {
    "results": lambda n: lambda x: [np.sin(x * (k + 1.0)) for k in range(n)],
    "numbers": lambda n: lambda x: [np.sin(x[0] * (k + 1.0)) for k in range(n)],
    "a wide sum": lambda n: lambda x: sum([np.sin(x * (k + 1.0)) for k in range(n)]),
    "pieces": lambda n: lambda x: np.concatenate([x * (k + 1.0) for k in range(n)]),
    "pieces read again": lambda n: (
        lambda x: np.concatenate([x[k % 90 : k % 90 + 10] for k in range(n)])
    ),
    "stacked": lambda n: lambda x: np.stack([x.sum() * (k + 1.0) for k in range(n)]),
    "stacked elements": lambda n: lambda x: np.stack([x[k % 100] * x[-1] for k in range(n)]),
}


def _repeated(step: Callable[[Any, int], Any]) -> Callable[[int], Function]:
    def program(n: int) -> Function:
        def f(x: Any) -> Any:
            for k in range(n):
                x = step(x, k)
            return x

        return f

    return program


def _gradient(f: Function) -> Function:
    def total(x: Any) -> Any:
        found = f(x)
        return sum([np.sum(y) for y in (found if isinstance(found, list) else [found])])

    return fgrad.grad(total)


def _calls(f: Function) -> int:
    """How many functions are called to compile `f`."""
    count = 0

    def profile(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal count
        count += event.endswith("call")

    compiled = fgrad.jit(f, capture=False)
    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        compiled(X)
    finally:
        sys.setprofile(before)
    return count


PROGRAMS = {name: _repeated(step) for name, step in STEPS.items()} | WHOLE


@pytest.mark.parametrize("mode", ["values", "gradient"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_four_times_as_long_takes_about_four_times_the_calls(
    name: str, mode: str
) -> None:
    """The power stays below 1.23: quadratic parts would soon be all that counts."""
    short, long = [
        _calls(PROGRAMS[name](n) if mode == "values" else _gradient(PROGRAMS[name](n)))
        for n in (100, 400)
    ]
    assert long / short < 5.5
