"""Gradients of loops that read several arrays made of one, which may be written meanwhile.

The gradient is a sum of cotangents to which the loop adds.  The compiler makes one carry of several
where their sum alone is wanted; which of them a step leaves as they are differs from case to case.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from case import Case
from outcomes import ALLOWED, gradient_outcome
from texts import function_of_text

import fgrad

MADE = ("np.zeros(6) + x", "x + np.zeros(6)", "x.copy()", "x - 1.0", "2.0 * x")
READ = ("np.sum(h)", "h[2]", "math.sin(h[0]) * 0.5", "h[i % 6]", "np.dot(h, g)", "g[i % 6] * h[1]")
WRITE = ("pass", "x[i % 6] += 0.1", "x[:3] += g[:3]", "x *= 0.9", "g = g + x", "h[i % 6] += 0.5")
LOOP = ("for i in range(k):", "for i in range(8):", "i = 0\n    while i < k:\n        i += 1")
RESULT = ("s", "s, h", "s, x", "s, h, g")
TEXT = """
import math
import numpy as np

def f(x, k):
    h = {h}
    g = {g}
    s = 0.0
    {loop}
        s = s + {read}
        s = s + {other}
        {write}
    return {result}
"""
ALL = list(itertools.product(MADE, MADE, LOOP, READ, READ, WRITE, RESULT))
DRAWN = np.random.default_rng(21).choice(len(ALL), 60, replace=False)


@pytest.mark.parametrize("number", DRAWN)
def test_gradients(number: int, tmp_path: Path) -> None:
    names = ("h", "g", "loop", "read", "other", "write", "result")
    text = TEXT.format(**dict(zip(names, ALL[number], strict=True)))
    function = function_of_text(text, tmp_path)
    case = Case((np.random.default_rng(number).uniform(-1.0, 1.0, 6), 5), True, False, False, False)
    found = gradient_outcome(function, function, case, _compiled_gradient)
    assert found.kind in ALLOWED, (text, found)


def _compiled_gradient(loss: Callable[..., Any], places: Any) -> Callable[..., Any]:
    return fgrad.jit(fgrad.grad(loss, places))
