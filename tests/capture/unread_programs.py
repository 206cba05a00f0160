"""Programs that compute what nobody reads: kinds of statements in places of a function.

    f(x, k, n, w)    x an array, k its places in another order, n = 9 a number out of bounds, w > 0

Each statement raises where n is 9 and runs where n is 3; each place takes it or does not.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

GOOD, BAD = 3, 9

KINDS = {
    "read": "t = x[n]",
    "read from the end": "t = x[-n]",
    "read of a matrix": "t = np.outer(x, x)[2, n]",
    "row": "t = np.outer(x, x)[n]",
    "place of a place": "t = x[k[n]] * 2.0",
    "read at many": "t = x[n - 3 + k]",
    "write": "y[n] = w",
    "increment": "y[n] += w",
    "division": "t = 7 // (n - 9)",
    "remainder": "t = 7 % (n - 9)",
    "quotient": "t = 1.5 / (n - 9)",
    "int of nan": "t = int(np.where(n > 8, np.nan, 1.0))",
    "sqrt": "t = math.sqrt(8.0 - n)",
    "shift": "t = 99 >> (8 - n)",
    "assert": "assert n < 9",
    "raise": "if n > 8: raise ValueError('large')",
    "then read": "t = x[x.argmax() + n - 3] * x[k[n]]",
}

TAKEN = {
    "line": "{}",
    "loop": "for i in range(12):\n    {}",
    "loop over elements": "for v in x:\n    {}",
    "nest": "for i in range(12):\n    for j in range(7):\n        {}",
    "loop of unread sums": "s = 0.0\nfor i in range(12):\n    {}\n    s += x[i % 6]",
    "while": "i = 0.0\nwhile i < w:\n    {}\n    i += 0.01",
    "branch": "if w > 0.0:\n    {}",
    "branch of both": "if w > 0.0:\n    {}\n    u = w\nelse:\n    u = 2.0 * w",
    "branch in a loop": "for i in range(12):\n    if w * i > 0.0:\n        {}",
    "loop in a branch": "if w > 0.0:\n    for i in range(12):\n        {}",
    "end of a loop": "for i in range(12):\n    if w * i > 0.0:\n        {}\n        break",
    "function": "def g():\n    {}\n    return w\nu = g()",
}

LEFT = {
    "branch that is not taken": "if w < 0.0:\n    {}",
    "branch in a loop that is not taken": "for i in range(12):\n    if w < -i:\n        {}",
    "while without steps": "i = 0.0\nwhile i > w:\n    {}\n    i += 0.01",
    "loop without steps": "for i in range(n - n):\n    {}",
    "loop in a branch that is not taken": "if w < 0.0:\n    for i in range(12):\n        {}",
    "branch in nests": "for i in range(12):\n    for j in range(7):\n"
    "        if w < -i * j:\n            {}",
    "after the end of a loop": "for i in range(12):\n    if w > 0.0:\n        break\n    {}",
}


def _function(name: str, place: str, statement: str, folder: Path) -> Callable[..., Any]:
    lines: list[str] = []
    for line in place.split("\n"):
        lines.append("    " + line.replace("{}", statement))
    text = "\n".join([
        "import math", "import numpy as np", "def f(x, k, n, w):", "    y = np.zeros(6)", *lines,
        "    return np.sum(x * x) * w", "",
    ])  # fmt: skip
    path = folder / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    exec(compile(text, str(path), "exec"), scope := {"__name__": name})
    return scope["f"]


def unread_program(kind: str, place: str, folder: Path) -> Callable[..., Any]:
    """The function with a kind of statement at a place."""
    name = f"unread_{kind}_{place}".replace(" ", "_")
    return _function(name, {**TAKEN, **LEFT}[place], KINDS[kind], folder)


def arguments(n: int) -> tuple[Any, ...]:
    """The arguments of such a function."""
    rng = np.random.default_rng(7)
    return rng.uniform(0.5, 1.0, 6), rng.permutation(6), n, 0.05
