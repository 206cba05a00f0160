"""L0. The numbers and guards of a trace with sizes as symbols -> Python code that evaluates them.

def at(n0):
    a3 = (n0 + 7) // 8
    if not n0 <= 4096: return None
    return 8 * n0, a3
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Sequence
from typing import Any, cast

import numpy as np

from fgrad.base.size_functions import bits
from fgrad.base.size_terms import OPERATOR_SIGNS, Terms
from fgrad.base.sizes import Atom, Num, Size, Sizes


class Formula:
    """Writes Python that evaluates numbers and guards from the symbols.

    def at(n0):
        a3 = (n0 + 7) // 8
        if not (n0 <= 4096 and ...): return None
        return ints, floats
    """

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.lines: list[str] = []
        self.done: dict[int, str] = {}
        self.sums: dict[Terms, str] = {}

    def text(self, x: Size) -> str:
        """The expression of a number, after the lines that it needs."""
        return self.polynomial(x.terms) if type(x) is Num else repr(x)

    def shape(self, shape: tuple[Size, ...]) -> str:
        """A shape."""
        return listed([self.text(n) for n in shape])

    def polynomial(self, terms: Terms) -> str:
        parts = []
        for monomial, factor in terms:
            factors = [self.atom(k) for k in monomial]
            if factor != 1 or not factors:
                factors.append(repr(factor))
            parts.append(" * ".join(factors))
        return " + ".join(parts) if len(parts) == 1 else f"({' + '.join(parts)})"

    def atom(self, k: int) -> str:
        if k not in self.done:
            for each in atoms_of(self.sizes, k, self.done):
                self.done[each] = self._written(each)
        return self.done[k]

    def _written(self, k: int) -> str:
        """The name of an atom whose operands have theirs."""
        atom = self.sizes.atoms[k]
        if atom.op == "symbol":
            return f"n{atom.args[0]}"
        self.lines.append(f"a{k} = {self.operation(atom)}")
        return f"a{k}"

    def operation(self, atom: Atom) -> str:
        args = [self.text(x) for x in atom.args if type(x) is not str]
        if atom.op == "chosen":
            return f"{args[2]} if {args[0]} < {args[1]} else {args[3]}"
        if atom.op in ("min", "max"):
            return f"{atom.op}({', '.join(args)})"
        if atom.op == "ones":
            return f"({args[0]}).bit_count()"
        if atom.op in ("int", "bits"):
            return f"{atom.op}({args[0]})"
        if atom.op == "neg":
            return f"-({args[0]})"
        if atom.op == "float":
            return f"float({args[0]})" if atom.args[1] == "d" else f"float(f4({args[0]}))"
        return f"({args[0]}) {OPERATOR_SIGNS[atom.op]} ({args[1]})"

    def guards(self) -> None:
        """Lines that end where a guard fails."""
        sizes = self.sizes
        for terms, most in sorted(sizes.upper.items(), key=lambda item: len(item[0])):
            if terms and self.is_needed(terms):
                self.check(f"{self.polynomial(terms)} <= {most}")
        for (terms, constant), holds in sizes.equal.items():
            self.check(f"{self.polynomial(terms)} {'==' if holds else '!='} {-constant}")
        for op, a, b, result in sizes.others.values():
            text = f"({self.text(a)} {OPERATOR_SIGNS[op]} {self.text(b)})"
            self.check(text if result else f"not {text}")

    def is_needed(self, terms: Terms) -> bool:
        """Whether a bound is no fact: a remainder is smaller than its divisor anyway."""
        if len(terms) == 1 and len(terms[0][0]) == 1 and terms[0][1] == 1:
            atom = self.sizes.atoms[terms[0][0][0]]
            if atom.op == "mod" and type(atom.args[1]) is int:
                return self.sizes.upper[terms] != atom.args[1] - 1
        return True

    def check(self, text: str) -> None:
        self.lines.append(f"if not {text}: return None")

    def compiled(self, results: str) -> Callable[..., Any]:
        """The function of the symbols, in order, that gives `results` or None."""
        names = [f"n{k}" for k in sorted(self.sizes.values)]
        lines = [f"def at({', '.join(names)}):", *[f"  {line}" for line in self.lines]]
        lines.append(f"  return {results}")
        space: dict[str, object] = {
            "f4": np.float32,
            "bits": bits,
            "inf": math.inf,
            "nan": math.nan,
        }
        exec("\n".join(lines), space)
        return cast("Callable[..., Any]", space["at"])


def atoms_of(sizes: Sizes, k: int, done: Container[int]) -> list[int]:
    """An atom and those that it is made of, each after its own parts, without those that are done:
    sums of costs are thousands of atoms deep."""
    found: set[int] = set()
    pending = [k]
    while pending:
        each = pending.pop()
        if each not in found and each not in done:
            found.add(each)
            for x in sizes.atoms[each].args:
                if type(x) is Num:
                    pending += [part for monomial, _ in x.terms for part in monomial]
    return sorted(found)  # as they were made


def listed(texts: Sequence[str]) -> str:
    """Expressions as a tuple."""
    return f"({', '.join(texts)}{',' * (len(texts) == 1)})"
