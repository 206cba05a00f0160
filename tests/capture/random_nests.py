"""Random nests of loops that write arrays in place, with bounds that count with outer loops.

`python tests/capture/random_nests.py 0 200` compares the gradients of programs 0 to 199, compiled
and interpreted.
"""

from __future__ import annotations

import runpy
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import fgrad

N = 5  # rows: an array of 25 elements is not held in registers
HEAD = """import numpy as np

def f(A):
    n = A.shape[0]
    B, C = {start}
    v, s = (0.0 * A).reshape(n * n).copy(), 0.5
    count = np.zeros(20, dtype=int)
"""
END = "    return np.sum(B * A) + s + np.sum(v * np.arange(25.0)) + np.sum(np.sin(C)) + count[3]\n"
STARTS = ("A.copy(), 0.0 * A", "0.0 * A, A * A", "1.0 + 0.0 * A, A.T.copy()")


class Nests:
    """Draws a program."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.loops: list[str] = []

    def pick(self, *options: str) -> str:
        """One of some texts."""
        return options[int(self.rng.integers(len(options)))]

    def program(self) -> str:
        """The text of a program."""
        lines = [line for _ in range(int(self.rng.integers(1, 3))) for line in self.loop(1)]
        return HEAD.format(start=self.pick(*STARTS)) + "".join([f"    {x}\n" for x in lines]) + END

    def loop(self, depth: int) -> list[str]:
        """A loop and what is in it."""
        i = "ijk"[len(self.loops)]
        bounds = ["n", "n", "1, n", "n - 1, -1, -1", "0, n, 2"]
        for outer in self.loops:
            bounds += [outer, f"{outer} + 1", f"{outer}, n", f"{outer} + 1, n", f"{outer}, -1, -1"]
        head = f"for {i} in range({self.pick(*bounds)}):"
        self.loops.append(i)
        body = [line for _ in range(int(self.rng.integers(1, 4))) for line in self.line(depth)]
        self.loops.pop()
        return [head, *[f"    {line}" for line in body]]

    def line(self, depth: int) -> list[str]:
        """A statement."""
        draw = self.rng.random()
        if draw < 0.3 and depth < 3:
            return self.loop(depth + 1)
        if draw < 0.45:
            blocks = [f"if {self.condition()}:", *[f"    {x}" for x in self.simple()]]
            if self.rng.random() < 0.5:
                blocks += ["else:", *[f"    {x}" for x in self.simple()]]
            return blocks
        return self.simple()

    def simple(self) -> list[str]:
        """One or two assignments."""
        i, array = self.index(), self.pick("B", "B", "C")
        a, b = self.place(), self.place()
        return [
            [f"{array}[{a}] = {self.number()}"],
            [f"{array}[{a}] += 0.3 * {self.number()}"],
            [f"v[{i} * n + {self.index()}] = {self.number()}"],
            [f"s = 0.5 * s + {self.number()}"],
            [f"{array}[{a}], {array}[{b}] = {array}[{b}], {array}[{a}]"],
            [f"{array}[{i}] = 0.5 * {array}[{self.index()}] + np.sin(A[{i}])"],
            [f"{array}[:, {i}] *= {self.number()}"],
            [f"count[{i}] += 1", f"s += 0.1 * count[{self.index()}]"],
            [f"t = {self.number()}", f"{array}[{a}] = t * t", f"v[{i}] += {array}[{b}]"],
        ][int(self.rng.integers(9))]

    def index(self) -> str:
        """A place along an axis."""
        i = self.pick(*self.loops)
        return self.pick(i, i, i, f"{i} - 1", f"(2 * {i} + 1) % n", "2", f"({i} + count[1]) % n")

    def place(self) -> str:
        """A place of a matrix."""
        return f"{self.index()}, {self.index()}"

    def condition(self) -> str:
        """A truth value."""
        i = self.pick(*self.loops)
        number = self.number()
        return self.pick(f"{i} == 2", f"{i} > {self.pick(*self.loops)}", f"{number} > 0.4")

    def number(self, depth: int = 2) -> str:
        """A float."""
        if depth == 0 or self.rng.random() < 0.2:
            return self.pick(
                f"A[{self.place()}]", f"B[{self.place()}]", f"C[{self.place()}]", "s",
                f"v[{self.index()} * n + {self.index()}]", f"0.2 * {self.pick(*self.loops)}",
            )  # fmt: skip
        a, b = self.number(depth - 1), self.number(depth - 1)
        return self.pick(f"np.sin({a})", f"({a}) * np.cos({b})", f"(0.6 * {a} - 0.4 * ({b}))")


def function_of(text: str, name: str) -> Callable[[Any], Any]:
    """The function `f` of a program, whose lines can be read."""
    path = Path(tempfile.mkdtemp()) / f"{name}.py"
    path.write_text(text)
    made = runpy.run_path(str(path))
    return made["f"]


def difference(seed: int) -> float:
    """How far the compiled gradient of a program is from the interpreted one."""
    fun: Callable[[Any], Any] = function_of(Nests(seed).program(), f"nest_{seed}")
    A = np.random.default_rng(seed).random((N, N))
    with fgrad.config.override(disable_jit=True):
        right = fgrad.grad(fun)(A)
    given = fgrad.jit(fgrad.grad(fun))(A)
    return float(np.max(np.abs(given - right)) / max(float(np.max(np.abs(right))), 1.0))


if __name__ == "__main__":
    for k in range(int(sys.argv[1]), int(sys.argv[2])):
        try:
            found = difference(k)
        except Exception as error:
            print(k, type(error).__name__, str(error).split("\n")[0], flush=True)
            continue
        if not found < 1e-9:
            print(k, found, flush=True)
