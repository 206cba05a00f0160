"""The grammar of random loop programs; see loop_programs.py.

A program has vectors x, y, u of 6, v of 5, a matrix m of (3, 6), numbers s, t, integers c, k
and p, a vector of integers.  u and v are other names, views and rows of these, and change.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from loop_forms import COMPLEX, HELPERS, INTEGERS, NUMBERS, SINGLES, STATEMENTS

HEAD = """import math

import numpy as np
from name_parts import *


def f(x, m, p, a, k):
"""
START = ("s, t, c = 0.0, a, 0", "y = {y}", "u = {u}", "v = {v}", "items = []")
END = "return s, t, c, x, y, m, u, v, items"
EXTRAS = {"q": INTEGERS, "w": SINGLES, "z": COMPLEX}
PLACES = re.compile(r"\{([ecvhl653iABn])\}")


class Statement(NamedTuple):
    """Lines that end with a colon have a block each; a simple statement is one line."""

    heads: tuple[str, ...]
    blocks: tuple[tuple[Statement, ...], ...] = ()

    def lines(self, indent: str) -> list[str]:
        """The text."""
        if not self.blocks:
            return [indent + line for line in self.heads]
        found = []
        for head, block in zip(self.heads, self.blocks, strict=True):
            found.append(indent + head)
            found += lines_of(block, indent + "    ") or [indent + "    pass"]
        return found


Block = tuple[Statement, ...]


def lines_of(block: Block, indent: str) -> list[str]:
    """The text of statements."""
    return [line for statement in block for line in statement.lines(indent)]


def text_of(block: Block) -> str:
    """A program."""
    return HEAD + "\n".join(lines_of(block, "    ")) + "\n"


class Grammar:
    """Draws statements."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.loops: list[str] = []  # the indices of the loops around
        self.each: list[str] = []  # numbers that a loop gives
        self.names = 0
        self.helpers: list[str] = []
        self.extras = [name for name in EXTRAS if self.chance(0.12)]
        self.end = ", ".join([END, *self.extras])

    def pick(self, *options: str) -> str:
        """One of some texts."""
        return options[int(self.rng.integers(len(options)))]

    def chance(self, p: float) -> bool:
        """True, in a share p of all cases."""
        return bool(self.rng.random() < p)

    def name(self, stem: str) -> str:
        """A new name."""
        self.names += 1
        return f"{stem}{self.names}"

    # --- expressions ------------------------------------------------------------------------------

    def index(self, size: int) -> str:
        """A place in an axis of some size."""
        if not self.loops or self.chance(0.2):
            return self.pick("0", "1", "-1", "2", f"c % {size}", f"k % {size}", "p[2] % 3")
        i = self.pick(*self.loops)
        return self.pick(
            f"{i} % {size}", f"({i} + 1) % {size}", f"-1 - {i} % {size}", f"({i} + c) % {size}",
            f"{i} % {size} - 1", f"p[{i} % 6] % {size}", f"({i} * 2) % {size}",
            f"min({i}, {size - 1})", i, f"{i} % {size}",
        )  # fmt: skip

    def element(self) -> str:
        """An element of an array."""
        array = self.pick("x", "y", "y", "u", "v", "m")
        if array == "m":
            return f"m[{self.index(3)}, {self.index(6)}]"
        return f"{array}[{self.index(5 if array == 'v' else 6)}]"

    def number(self, depth: int = 2) -> str:
        """A float."""
        if depth == 0 or self.chance(0.25):
            leaves = ["s", "t", "a", "0.5", "1.5", "c * 0.1", self.element(), self.element()]
            leaves += [f"{i} * 0.1" for i in self.loops] + self.each * 2
            return self.pick(*leaves)
        form = self.pick(
            "{e} + {e}", "{e} - {e}", "0.5 * ({e})", "np.sin({e})", "math.sin({e})",
            "np.tanh({e}) * ({e})", "math.cos({e})", "abs({e})", "-({e})", "({e}) * np.cos({e})",
            "min({e}, {e})", "max({e}, {e})", "({e}) / (1.5 + abs({e}))", "({e} if {c} else {e})",
            "np.sum({v}) * 0.2", "np.dot({v}, {v}) * 0.1", "float({e})", "{h}", "{l}",
        )  # fmt: skip
        if self.chance(0.25):
            form = self.pick(*NUMBERS)
        elif self.extras and self.chance(0.25):
            form = self.pick(*EXTRAS[self.pick(*self.extras)][1])
        return self.filled(form, depth - 1)

    def filled(self, form: str, depth: int) -> str:
        """A form with expressions of less depth at its places."""
        name = self.name("n") if "{n}" in form else ""
        made: dict[str, Callable[[], str]] = {
            "e": lambda: self.number(depth),
            "c": lambda: self.condition(depth),
            "v": lambda: self.vector(depth),
            "h": self.help,
            "l": self.partial_sum,
            "6": lambda: self.index(6),
            "5": lambda: self.index(5),
            "3": lambda: self.index(3),
            "i": lambda: self.pick("c", "k", *self.loops * 2),
            "A": lambda: self.pick("x", "y", "u"),
            "B": lambda: self.pick("x", "y", "u"),
            "n": lambda: name,
        }
        filled = PLACES.sub(lambda place: made[place[1]](), form)
        return filled.replace("{{", "{").replace("}}", "}")

    def help(self) -> str:
        """What a function of the program makes of a number and an array."""
        if not self.helpers:
            return "t"
        return f"{self.pick(*self.helpers)}({self.number(0)}, {self.pick('x', 'y', 'u')})"

    def partial_sum(self) -> str:
        """The sum of a part whose ends the loop moves."""
        if not self.loops:
            return "y[1:].sum() * 0.1"
        i = self.pick(*self.loops)
        return self.pick(f"y[:{i}].sum() * 0.1", f"x[{i} % 4:{i} % 4 + 2].sum()")

    def vector(self, depth: int = 1) -> str:
        """An array of 6 floats."""
        if depth == 0:
            return self.pick("x", "y", "u", f"m[{self.index(3)}]")
        e = self.vector(depth - 1)
        return self.pick(
            e, f"0.5 * {e}", f"({e} + {self.vector(0)})", f"{e} * np.tanh({self.number(0)})",
            f"np.sin({e})", f"{e}[::-1]", f"np.roll({e}, 1)", f"{e}[p]",
        )  # fmt: skip

    def condition(self, depth: int = 2) -> str:
        """A truth value."""
        if depth == 0 or self.chance(0.6):
            whole = [f"{i} % 2 == 0" for i in self.loops] + [f"{i} > 2" for i in self.loops]
            return self.pick(
                f"{self.number(min(depth, 1))} > {self.number(0)}", f"{self.number(0)} < 0.3",
                f"-0.5 < {self.number(0)} < 0.7", "c > 2", "k > 3", "c % 3 == 1", *whole * 2,
            )  # fmt: skip
        return self.filled(self.pick("{c} and {c}", "{c} or {c}", "not ({c})"), depth - 1)

    # --- statements -------------------------------------------------------------------------------

    def simple(self) -> Statement:
        """One line, or a few that belong together."""
        if self.chance(0.3):
            return Statement(self.form(*STATEMENTS))
        if self.extras and self.chance(0.3):
            return Statement(self.form(*EXTRAS[self.pick(*self.extras)][2]))
        kinds = (
            self.assign_number, self.assign_number, self.augment_number, self.write_element,
            self.write_element, self.write_element, self.write_slice, self.write_slice,
            self.rebind, self.rename, self.swap, self.count, self.whole, self.keep,
        )  # fmt: skip
        return Statement((kinds[int(self.rng.integers(len(kinds)))](),))

    def form(self, *options: tuple[str, ...]) -> tuple[str, ...]:
        """One of some forms, filled."""
        chosen = options[int(self.rng.integers(len(options)))]
        return tuple(self.filled("\n".join(chosen), 1).split("\n"))

    def assign_number(self) -> str:
        """A number is bound."""
        return f"{self.pick('s', 't')} = {self.number()}"

    def augment_number(self) -> str:
        """A number changes."""
        return f"{self.pick('s', 't')} {self.pick('+=', '-=')} {self.number()}"

    def write_element(self) -> str:
        """An element is written."""
        return f"{self.element()} {self.pick('=', '=', '+=', '-=')} {self.number()}"

    def write_slice(self) -> str:
        """A part is written."""
        array = self.pick("x", "y", "u")
        i = self.pick(*self.loops) if self.loops else "c"
        value = self.number(1)
        return self.pick(
            f"{array}[1:] = 0.5 * {array}[:-1] + {value}", f"{array}[:-1] += 0.5 * {array}[1:]",
            f"{array}[::2] *= 0.5", f"{array}[:] = {self.vector()}", f"v *= np.cos({value})",
            f"v[1:] = {array}[:4]", f"{array}[{i} % 4:{i} % 4 + 2] = {value}",
            f"{array}[:{i}] *= 0.9", f"{array}[{i} % 6:] -= {value}",
            f"m[{self.index(3)}] = {self.vector()}", f"m[:, {self.index(6)}] *= 0.5",
            f"m[{self.index(3)}, 1:] += {array}[:-1]", f"{array}[{array} > 0.4] *= 0.5",
        )  # fmt: skip

    def rebind(self) -> str:
        """A name means a new array."""
        form = self.pick("0.5 * ", "np.sin", "")
        return f"{self.pick('x', 'y', 'u', 'y')} = {form}({self.vector()})"

    def rename(self) -> str:
        """A name means another's array, or a view of it."""
        return self.pick(
            "u = y", "u = x", "u = y.copy()", f"u = m[{self.index(3)}]", "v = y[1:]", "v = x[:-1]",
            "v = u[1:]", "y = u", "u, y = y, u", f"v = m[{self.index(3)}, 1:]", "u = x[::-1]",
        )  # fmt: skip

    def swap(self) -> str:
        """Two things change places."""
        array = self.pick("x", "y", "u")
        i, j = self.index(6), self.index(6)
        return self.pick(
            f"{array}[{i}], {array}[{j}] = {array}[{j}], {array}[{i}]", "s, t = t, s",
            f"s, {array}[{i}] = {array}[{i}], s", "t, s = s + t, t * 0.5",
        )  # fmt: skip

    def count(self) -> str:
        """An integer changes."""
        if not self.loops:
            return self.pick("c += 1", "c = c * 2 + 1")
        i = self.pick(*self.loops)
        return self.pick("c += 1", f"c = c + {i}", f"c = (c * 3 + {i}) % 7", f"c = {i}")

    def whole(self) -> str:
        """A whole array changes in place."""
        array = self.pick("x", "y", "u")
        return f"{array} {self.pick('+=', '-=')} {self.pick('', '0.5 * ')}{self.vector()}"

    def keep(self) -> str:
        """A number is kept in a list, seldom; else a small array is made."""
        if self.chance(0.2):
            return f"items.append({self.number(1)})"
        return f"y[:3] = np.array([{self.number(1)}, {self.number(0)}, {self.number(0)}])"

    def branch(self, depth: int) -> Statement:
        """`if`, with or without `else`; in a loop it may leave the loop."""
        body = self.block(depth - 1, 2)
        if self.loops and self.chance(0.25):
            body = (*body[:1], Statement((self.pick("break", "continue", "continue"),)))
        elif self.chance(0.05):
            body = (*body[:1], Statement((self.end,)))
        heads, blocks = [f"if {self.condition()}:"], [body]
        if self.chance(0.2):
            heads.append(f"elif {self.condition(1)}:")
            blocks.append(self.block(depth - 1, 2))
        if self.chance(0.45):
            heads.append("else:")
            blocks.append(self.block(depth - 1, 2))
        return Statement(tuple(heads), tuple(blocks))

    def loop(self, depth: int) -> Statement:
        """`for` or `while`, seldom with `else`."""
        form = self.pick("range", "range", "range", "each", "while")
        i = self.name("i")
        first: Block = ()
        added: list[list[str]] = [[], []]
        if form == "range":
            around = self.loops or ["k"]
            bounds = self.pick(
                "6", "6", "7", "1, 6", "5, -1, -1", "0, 8, 2", "k", "3", "k, 6", "k + 2",
                self.pick(*around), f"{self.pick(*around)}, 6", "0", "5",
            )  # fmt: skip
            head = f"for {i} in range({bounds}):"
            added[0].append(i)
        elif form == "each":
            e, g = self.name("e"), self.name("e")
            heads = {
                f"for {e} in {self.pick('x', 'y', 'u', 'v')}:": [[], [e]],
                f"for {i}, {e} in enumerate({self.pick('x', 'y')}):": [[i], [e]],
                f"for {e}, {g} in zip(x, {self.pick('y', 'u', 'v')}):": [[], [e, g]],
                f"for u in {self.pick('m', 'm[1:]')}:": [[], []],
            }
            head = self.pick(*heads)
            added = heads[head]
        else:
            first = (Statement((f"{i} += 1",)),)
            head = f"while {i} < {self.pick('5', '7', 'k')} and ({self.condition(1)}):"
            added[0].append(i)
        self.loops += added[0]
        self.each += added[1]
        body = first + self.block(depth - 1, 3)
        heads_of, blocks = [head], [body]
        del self.loops[len(self.loops) - len(added[0]) :]
        del self.each[len(self.each) - len(added[1]) :]
        if self.chance(0.1):
            heads_of.append("else:")
            blocks.append(self.block(0, 1))
        return Statement(tuple(heads_of), tuple(blocks))

    def block(self, depth: int, most: int) -> Block:
        """Some statements."""
        found: list[Statement] = []
        for _ in range(int(self.rng.integers(1, most + 1))):
            kind = self.rng.random()
            if depth > 0 and kind < 0.3:
                made = self.loop(depth)
                head = made.heads[0].split()
                if head[0] == "while":
                    found.append(Statement((f"{head[1]} = 0",)))
                found.append(made)
            elif depth > 0 and kind < 0.5:
                found.append(self.branch(depth))
            else:
                found.append(self.simple())
        return tuple(found)

    def helper(self) -> Statement:
        """A function inside, that may write into its argument and count outside."""
        name = self.name("g")
        lines: list[str] = []
        for _ in range(2):
            one = self.pick(
                "z[0] = w", "z[c % 6] += w", "z = z * 2", "z *= 0.5", "w = w + z[1]",
                "return w if w > 0.2 else z[0]", "s = s + w",
            )  # fmt: skip
            lines += self.form(*HELPERS) if self.chance(0.4) else (one,)
        outer = [f"nonlocal {n}" for n in "sc" if any([re.match(f"{n} [+=]", x) for x in lines])]
        last = [] if lines[-1].startswith("return") else ["return w * 0.5 + z[2]"]
        body = tuple([Statement((line,)) for line in [*outer, *lines, *last]])
        self.helpers.append(name)
        return Statement((f"def {name}(w, z):",), (body,))

    def program(self) -> Block:
        """A whole program."""
        start = [
            line.format(
                y=self.pick("x.copy()", "np.zeros(6)", "x * 0.5", "np.full(6, a)"),
                u=self.pick("y", "x", "m[1]", "np.ones(6)"),
                v=self.pick("y[1:]", "x[:-1]", "u[1:]", "np.zeros(5)"),
            )
            for line in START
        ]
        start += [f"{name} = {self.pick(*EXTRAS[name][0])}" for name in self.extras]
        helpers = (self.helper(),) if self.chance(0.2) else ()
        made: list[Statement] = []
        while not any([s.heads[0].startswith(("for", "while")) for s in made]):
            made = list(self.block(3, 4))
        opening = tuple([Statement((line,)) for line in start])
        return (*opening, *helpers, *made, Statement((self.end,)))


def without(block: Block) -> list[Block]:
    """The programs with one statement less, or with a block in place of what holds it."""
    found = []
    for k, statement in enumerate(block):
        rest = block[:k], block[k + 1 :]
        found.append(rest[0] + rest[1])
        for inner in statement.blocks:
            found.append(rest[0] + inner + rest[1])
        if len(statement.blocks) > 1:
            kept = statement._replace(heads=statement.heads[:-1], blocks=statement.blocks[:-1])
            found.append((*rest[0], kept, *rest[1]))
        for n, inner in enumerate(statement.blocks):
            for smaller in without(inner):
                blocks = (*statement.blocks[:n], smaller, *statement.blocks[n + 1 :])
                found.append((*rest[0], statement._replace(blocks=blocks), *rest[1]))
    return found


def reduced(block: Block, fails: Callable[[Block], bool]) -> Block:
    """The smallest program that is found by leaving statements out and still fails."""
    while True:
        smaller = next((b for b in without(block) if b and fails(b)), None)
        if smaller is None:
            return block
        block = smaller
