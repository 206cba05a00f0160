"""Arrays that a branch may have bound anew and that are written later: in loops, branches, helpers.

Under jit `y` is then the array that it was or one of its own, and a write goes to the one that it
is.  Programs are drawn from all combinations of how `y` begins, what the branch binds, where it is
written, how, and which of the two arrays are wanted at the end.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from case import Case
from outcomes import ALLOWED, call_python, difference, gradient_outcome, guarded, value_outcome
from texts import function_of_text

import fgrad

BEGINS = ("y = x.copy()", "y = x", "y = x * 2.0", "y = np.zeros(6) + x")
BINDS = (
    "y = y * 0.5",
    "y = np.sin(u)",
    "n = np.empty(6)\n        for j in range(6):\n            n[j] = u[-1 - j]\n        y = n",
    "y = u[::-1] * 0.5\n    else:\n        s = 0.5",
    "s = 0.5\n    else:\n        y = u + 1.0",
    "y = y * 0.5\n        y[0] = 2.0",
    "if k > 4:\n            y = y * 0.5",
    "y = y * 0.5\n    if k < 7:\n        y = y + 0.1",
    "y = y * 0.5\n    if s > 3 or k < 4:\n        u = y",
)
AROUND = (
    "for i in range(7):",
    "for i, e in enumerate(y):",
    "while s < 3.0 and i < 9:\n        i += 1",
    "for i in range(5):\n        for j in range(5):",
    "for i in range(6):\n        if y[i] > 0.1:",
    "for i in range(6):\n"
    "        if i % 2 == k % 2:\n            y = u if s > 1 else y * 2\n        if 1:",
    "for i in range(7):\n        u = x[::-1]\n        if 1:",
    "if s < k:",
    "for i in range(3):",
)
WRITES = (
    "y[:3] = np.array([y[0] * 0.3, 0.2, y[i % 6]])",
    "y[i % 6] = np.dot(x, y) * 0.1",
    "y *= 0.9",
    "v = y[2:]; v[0] = s * 0.1 + 0.2",
    "u[i % 6] += 0.25",
    "y[1:] = y[:-1]; u[0] = 0.5",
    "scaled(y, 0.7)",
)
RESULTS = ("s", "s, y", "s, u", "s, y, u", "s, x")
TEXT = """
import math
import numpy as np

def scaled(z, w):
    z[1] *= w
    for q in range(2, 5):
        z[q] = z[q - 1] * w

def f(x, k):
    s, i = 0.1, 0
    {begin}
    u = y
    if k > 3:
        {bind}
    {around}
        {pad}s = s + math.sin(np.dot(y, x)) * 0.2
        {pad}{write}
    return {result}
"""
ALL = list(itertools.product(BEGINS, BINDS, AROUND, WRITES, RESULTS))
DRAWN = np.random.default_rng(20).choice(len(ALL), 70, replace=False)


def _function(parts: tuple[str, ...], folder: Path) -> Callable[..., Any]:
    begin, bind, around, write, result = parts
    depth = (len(around.splitlines()[-1]) - len(around.splitlines()[-1].lstrip())) // 4
    depth = 0 if around.endswith("i += 1") else depth
    pad = "    " * max(depth - 1, 0)
    text = TEXT.format(begin=begin, bind=bind, around=around, pad=pad, write=write, result=result)
    return function_of_text(text, folder)


@pytest.mark.parametrize("number", DRAWN)
def test_writes_reach_the_array_that_it_is(number: int, tmp_path: Path) -> None:
    function = _function(ALL[number], tmp_path)
    jitted = fgrad.jit(function)
    x = np.random.default_rng(number).uniform(-1.0, 1.0, 6)
    lanes: list[Any] = []
    for k in (6, 2):
        case = Case((x, k), True, False, False, False)
        right = call_python(function, case)
        lanes.append(fgrad.tree.leaves(right.result))
        found = value_outcome(right, jitted, case)
        assert found.kind in ALLOWED, (ALL[number], found)
        found = gradient_outcome(function, function, case, _compiled_gradient)
        assert found.kind in ALLOWED, (ALL[number], found)
    found = guarded(
        lambda: difference(_mapped(function, x), [np.stack(p) for p in zip(*lanes, strict=True)])
    )
    assert found.kind in ALLOWED, (ALL[number], found)


def _compiled_gradient(loss: Callable[..., Any], places: Any) -> Callable[..., Any]:
    return fgrad.jit(fgrad.grad(loss, places))


def _mapped(function: Callable[..., Any], x: np.ndarray) -> list[Any]:
    return fgrad.tree.leaves(fgrad.vmap(function)(np.stack([x, x]), np.array([6, 2])))
