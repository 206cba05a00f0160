"""Captured functions compute the parts of a statement in Python's order."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fgrad

STATEMENTS = {
    "element": "y[n(1)] = n(2) + x[0]",
    "element of a row": "m[n(1)][n(2)] = n(3) + x[0]",
    "element at two places": "m[n(1), n(2)] = n(3) + x[0]",
    "element of what is chosen": "(y if n(1) else z)[n(2)] = n(3)",
    "slice": "y[n(1) : n(2) + 4] = n(3) * x[0]",
    "several targets": "y[n(1)] = z[n(2)] = n(3)",
    "several values": "y[n(1)], z[n(2)] = n(3), n(4)",
    "nested targets": "(y[n(1)], (z[n(2)], y[n(3)])), t = (n(4), (n(5), n(6))), n(7)",
    "swap": "y[n(1)], y[n(2)] = y[n(3)], y[n(4)]",
    "augmented": "y[n(1)] += n(2)",
    "augmented with itself": "y[n(1)] *= y[n(2)] + n(3)",
    "augmented name": "t += n(1) * t",
    "augmented by what changes it": "c += n(1)",
    "entry": "d[n(1) % 2] = n(2)",
    "augmented entry": "d[n(1) % 2] += n(2)",
    "attribute": "(o if n(1) else q).a = n(2)",
    "augmented attribute": "(o if n(1) else q).a += n(2)",
    "annotated": "y[n(1)]: float = n(2)",
    "call": "t = max(n(1), n(2), n(3))",
    "keywords": "t = np.clip(n(1), a_max=n(2), a_min=n(3))",
    "starred": "t = max(*[n(1), n(2)], n(3))",
    "method": "t = (y if n(1) else z).sum() + n(2)",
    "choice": "t = n(1) if n(2) else n(3)",
    "targets in the first of two": "(y[0], y[1], y[2]), t = (n(1), n(2), n(3)), n(4)",
    "and": "t = (n(1) % 2) and n(2) and n(3)",
    "or": "t = (n(1) % 2) or n(2) or n(3)",
    "chain": "t = n(1) < n(2) < n(3)",
    "list": "t = sum([n(1), n(2) * n(3), -n(4)])",
    "dictionary": "t = {n(1): n(2), n(3): n(4)}[c0]",
    "powers": "t = n(1) ** n(2) + n(3) // n(4)",
    "subscripts": "t = y[n(1)] - z[n(2) : n(3) + 5].sum()",
    "comprehension": "t = sum([n(k) * x[n(1)] for k in range(n(2)) if n(3)])",
    "deletion": "del d[n(1) % 2]; t = n(2)",
}
TEXT = """import numpy as np

class O:
    a = 1

def f(x):
    y, z, m = np.zeros(9), np.ones(9), np.ones((9, 9))
    d, o, q, t, c = {{0: 1, 1: 2}}, O(), O(), 1, {start}
    c0 = (c * 2 + 1) % 7 + 1

    def n(label):
        nonlocal c
        c = (c * 2 + label) % 7
        return c + 1

    {statement}
    return y, z, m, sum(d.values()), o.a, q.a, t, c, x.sum()
"""


def function(path: Path, statement: str, start: int) -> Callable[[Any], Any]:
    where = path / "ordered.py"
    where.write_text(TEXT.format(statement=statement, start=start))
    spec = importlib.util.spec_from_file_location("ordered", where)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.f


@pytest.mark.parametrize("start", [0, 1, 4])
@pytest.mark.parametrize("name", STATEMENTS)
def test_parts_are_computed_in_order(tmp_path: Path, name: str, start: int) -> None:
    f, x = function(tmp_path, STATEMENTS[name], start), np.linspace(0.5, 2.0, 9)
    for got, right in zip(fgrad.jit(f)(x), f(x), strict=True):
        np.testing.assert_array_equal(got, right)
