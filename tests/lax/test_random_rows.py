"""Random plain loops over rows: compiled against NumPy, gradients against its differences.

    for i in range(1, 7):
        b[i, 1:] = 0.4 * (b[i, :-1] + np.roll(h, 2)[1:])      places that are read and written
        h = 0.4 * np.where(h > 0.1, b[k % 7][::-1], g)

`FGRAD_ROW_PROGRAMS=600` tries that many, from `FGRAD_ROW_SEED` on.
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad import lax
from fgrad.errors import TracedBoolError, TracedIndexError

COUNT = int(os.environ.get("FGRAD_ROW_PROGRAMS", "24"))
FIRST = int(os.environ.get("FGRAD_ROW_SEED", "0"))
SIZES = (1, 2, 7, 36, 37, 41, 64, 100, 300, 513, 600)
DTYPES = ("float64", "float64", "float64", "float32", "int64", "int32", "complex128")
TOLERANCES = {"float32": 2e-3, "complex128": 1e-8, "float64": 1e-8}


class Text:
    """Draws the text of a function of a matrix of rows `b`, two rows `h` and `g`, a number `s`."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng([seed, 5])
        self.dtype = str(self.pick(*DTYPES))
        self.m, self.n = int(self.rng.integers(3, 12)), int(self.pick(*SIZES))
        if self.rng.random() < 0.1 and self.n <= 64:
            self.m = self.n
        self.lines: list[str] = []
        self.kind = np.dtype(self.dtype).kind

    def pick(self, *choices: Any) -> Any:
        return choices[self.rng.integers(len(choices))]

    def row(self, depth: int = 2) -> str:
        """An expression of n numbers."""
        m, n, c = self.m, self.n, int(self.rng.integers(0, 5))
        at = min(c, n)
        if not depth or self.rng.random() < 0.2:
            place = self.pick("i", "i - 1", "k % " + str(m), "0", "-1")
            return self.pick("h", "g", f"b[{place}]", f"b[{place}]", f"b[{m - 1} - i]")
        x = self.row(depth - 1)
        found = [
            f"({x} + {self.row(depth - 1)})", f"({x} - {self.row(depth - 1)})", f"({x} * s)",
            f"{x}[::-1]", f"np.roll({x}, {c - 2})", f"np.concatenate([{x}[{at}:], {x}[:{at}]])",
            f"{x}[places]", f"np.where(mask, {x}, {self.row(depth - 1)})",
            f"np.pad({x}[{at}:], (0, {at}))",
        ]  # fmt: skip
        if self.kind == "f":
            found += [
                f"np.sin({x})", f"np.tanh({x} * {self.row(depth - 1)})", f"({x} - np.mean({x}))",
                f"np.maximum({x}, {self.row(depth - 1)})", f"np.where({x} > 0.1, {x}, -0.3 * g)",
                f"(np.cumsum({x}) / {n})", f"(np.cumsum({x}[::-1])[::-1] / {n})",
                f"((b @ {x}) @ b / {n})", "np.mean(b, axis=0)", f"np.max(b * {x}, axis=0)",
                f"(np.sum(b[:, ::-1] * {x}, axis=0) / {m})",
            ]  # fmt: skip
        elif self.kind == "i":
            found += [
                f"({x} // 3)", f"({x} % 7)", f"np.maximum({x}, {self.row(depth - 1)})",
                f"np.abs({x})", f"np.where({x} > 1, {x}, 2)", f"(np.cumsum({x}) % 11)",
                "np.max(b, axis=0)", f"np.where(({x} > 0) ^ mask, {x}, -{x})",
            ]  # fmt: skip
        else:
            found += [f"np.conj({x})", f"({x} * 1j)", f"(np.abs({x}) + 0j)", f"({x}.real + 0j)"]
        return str(self.pick(*found))

    def number(self) -> str:
        """An expression of one number."""
        x, y = self.row(), self.row(1)
        if self.kind == "i":
            return str(self.pick(f"np.max({x}) % 5", f"np.sum({x}) % 7", f"({x} @ {y}) % 5"))
        if self.kind == "c":
            return str(self.pick(f"np.mean({x})", f"({x} @ {y}) / {self.n}"))
        return str(self.pick(
            f"np.mean({x})", f"np.max({x})", f"np.min({x})", f"({x} @ {y}) / {self.n}",
            f"np.tanh(np.sum({x} ** 2))",
        ))  # fmt: skip

    def scaled(self, x: str) -> str:
        return f"({x}) % 97" if self.kind == "i" else f"0.4 * ({x})"

    def statement(self, depth: int, indent: str) -> None:
        n, c = self.n, int(self.rng.integers(1, 4))
        at, x = min(c, n), self.scaled(self.row())
        y = self.scaled(self.row())
        place = self.pick("i", "i", "i - 1", f"k % {self.m}", "-1")
        plain = [
            f"h = {x}", f"g = {x}", f"h, g = {x}, {y}", f"b[{place}] = {x}",
            f"b[{place}] = {x}", f"b[{place}] += {x}", f"b[{place}, {at}:] = ({x})[:{n - at}]",
            f"b[{place}, {at}:] = {self.scaled(f'b[{place}, :{n - at}]')}",
            f"b[{place}, :{n - at}] += {self.scaled(f'b[{place}, {at}:]')}",
            f"b[{place}, ::{c}] = ({x})[::{c}]", f"b[{place}, ::-1] = {x}",
            f"b[:, {at - 1}] = b[:, -1]", f"h[{at}:] = {self.scaled(f'h[:{n - at}]')}",
            f"h[k % {n}] = s", f"s = {self.number()}", f"s = {self.number()}",
            f"k = (k * 3 + i) % {self.m}", f"b[np.array([i, i - 1])] = np.stack([{x}, {y}])",
            f"b = np.roll(b, 1, axis=0) + {x}", f"b = {self.scaled('b[::-1, ::-1]')}",
        ]  # fmt: skip
        if self.m == self.n:
            plain += ["b = b.T * 1", "b = b.T + h"] * 3
        kind = self.rng.random()
        if depth and kind < 0.15:
            self.lines.append(f"{indent}for j in range({self.pick('i', '3', '0', '1')}):")
            self.block(depth - 1, indent + "    ")
        elif depth and kind < 0.3:
            self.lines.append(
                f"{indent}if {self.pick('i % 2 == 0', 'k > 1', 'np.real(np.sum(h)) > 0')}:"
            )
            self.block(depth - 1, indent + "    ")
            if self.rng.random() < 0.6:
                self.lines.append(f"{indent}else:")
                self.block(depth - 1, indent + "    ")
        else:
            self.lines.append(indent + str(self.pick(*plain)))

    def block(self, depth: int, indent: str) -> None:
        for _ in range(int(self.rng.integers(1, 4))):
            self.statement(depth, indent)

    def source(self) -> str:
        until = self.pick(str(self.m), str(self.m), "count", "2", "1")
        self.lines = [
            "def f(b, h, count):",
            "    b, h, g, s, k = b * 1, h * 1, h[::-1] * 1, h[0] * 1, 2",
            f"    for i in range(1, {until}):",
        ]
        self.block(2, "        ")
        self.statement(0, "        ")
        if self.rng.random() < 0.3:
            self.lines += ["    i = 1"]
            self.statement(0, "    ")
        return "\n".join([*self.lines, "    return b, h, g, s", ""])


def drawn(seed: int) -> tuple[Text, Callable[..., Any]]:
    """The function of a seed, from a text that others find by its file name."""
    text = Text(seed)
    name, source = f"<rows {seed}>", text.source()
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    rng = np.random.default_rng([seed, 6])
    known: dict[str, Any] = {
        "np": np, "places": rng.integers(-text.n, text.n, text.n), "mask": rng.random(text.n) > 0.4
    }  # fmt: skip
    exec(compile(source, name, "exec"), known)
    return text, known["f"]


def arguments(text: Text, seed: int, part: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([seed, 7, part])
    b, h = 2 * rng.normal(size=(text.m, text.n)), 2 * rng.normal(size=text.n)
    if text.kind == "c":
        b, h = b + 1j * rng.normal(size=b.shape), h + 1j * rng.normal(size=h.shape)
    if text.kind == "i":
        b, h = 5 * b, 5 * h
    return b.astype(text.dtype), h.astype(text.dtype)


def near(found: Any, expected: Any, text: Text, what: str, rtol: float | None = None) -> None:
    rtol = rtol or TOLERANCES.get(text.dtype, 0.0)
    for p, q in zip(found, expected, strict=True):
        assert np.shape(p) == np.shape(q), what
        np.testing.assert_allclose(p, q, rtol=rtol, atol=rtol, err_msg=what)


def check_gradient(f: Callable[..., Any], text: Text, seed: int, what: str) -> None:
    """Against NumPy's differences along a direction, where those of two steps agree."""
    x, way, weights = [arguments(text, seed, part) for part in range(3)]

    def loss(b: Any, h: Any) -> Any:
        b, h, g, s = f(b, h, text.m)
        return np.sum(b * weights[0]) + np.sum(h * weights[1]) + np.sum(g * weights[1]) + s

    def difference(d: float) -> float:
        ends = [loss(*[p + t * w for p, w in zip(x, way, strict=True)]) for t in (d, -d)]
        return float(ends[0] - ends[1]) / (2 * d)

    pulled = fgrad.jit(fgrad.grad(loss, argnums=(0, 1)))(*x)
    wide, narrow = difference(1e-5), difference(1e-6)
    if abs(wide - narrow) < 1e-5 * (1 + abs(narrow)):
        along = sum([float(np.vdot(p, w)) for p, w in zip(pulled, way, strict=True)])
        np.testing.assert_allclose(along, narrow, rtol=1e-4, atol=1e-4, err_msg=what)
        CHECKED.append(seed)


CHECKED: list[int] = []  # the programs whose gradients were compared with differences


REFUSED: list[int] = []


def check(seed: int) -> None:
    text, f = drawn(seed)
    what = f"seed {seed}, {text.m} x {text.n}, {text.dtype}\n" + "\n".join(text.lines)
    b, h = arguments(text, seed)
    compiled = fgrad.jit(f)
    try:
        compiled(b, h, text.m)
    except (TracedBoolError, TracedIndexError):
        REFUSED.append(seed)  # a loop that capture does not know
        return
    for count in (text.m, 1) if "count" in text.lines[2] else (text.m,):
        near(compiled(b, h, count), f(b, h, count), text, what)
    if text.kind == "f" and seed % 2:  # what is not a number stays in its places
        b[0, 0] = h[-1] = np.nan
        near(compiled(b, h, text.m), f(b, h, text.m), text, what + "\nwith nan")
    if text.dtype == "float64" and seed % 3:
        check_gradient(f, text, seed, what)
    if seed % 3 == 0:
        many = [arguments(text, seed, part) for part in range(3)]
        expected = [f(*x, text.m) for x in many]
        found = fgrad.jit(fgrad.vmap(lambda b, h: f(b, h, text.m)))(
            *[np.stack(column) for column in zip(*many, strict=True)]
        )
        near(found, [np.stack(c) for c in zip(*expected, strict=True)], text, what + "\nin lanes")


@pytest.mark.parametrize("part", range(4))
def test_programs(part: int) -> None:
    share = -(-COUNT // 4)
    for seed in range(FIRST + part * share, FIRST + (part + 1) * share):
        with np.errstate(all="ignore"):  # whole numbers wrap around
            check(seed)


@pytest.mark.parametrize("n", (3, 7, 12, 30))
def test_a_carry_that_is_transposed_stands_elsewhere(n: int, rng: np.random.Generator) -> None:
    """The transpose of a matrix begins where the matrix does, but is not it."""

    def f(x: Any) -> Any:
        return lax.fori_loop(0, 5, lambda i, b: b.at[i % n].add(1.0).T, x)

    x = rng.normal(size=(n, n))
    expected = x.copy()
    for i in range(5):
        expected[i % n] += 1.0
        expected = expected.T.copy()
    np.testing.assert_array_equal(fgrad.jit(f)(x), expected)
    np.testing.assert_array_equal(
        fgrad.jit(lambda x: lax.fori_loop(0, 7, lambda i, b: b.T, x))(x), x.T
    )


def test_few_programs_are_refused() -> None:
    assert len(REFUSED) < COUNT // 8 + 1
