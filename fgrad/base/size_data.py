"""L0. Numbers and guards of a trace with sizes as symbols <-> the data of `size_words.py`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fgrad.base.size_code import atoms_of
from fgrad.base.size_functions import bits, chosen, least, most, ones, rounded, truncated
from fgrad.base.size_terms import OPERATOR_SIGNS, Terms
from fgrad.base.size_words import (
    MOST_TERMS,
    PLAIN,
    Operation,
    Words,
    Written,
    in_bounds,
    power,
    value,
)
from fgrad.base.size_words import evaluated as evaluated_words
from fgrad.base.sizes import Num, Size, Sizes, value_of


class Writer:
    """Numbers of a trace become data, once each."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.numbers: list[Words] = []
        self.count = len(sizes.values)
        self.written_atoms: set[int] = set()
        self.places: dict[Terms, int] = {sizes.symbol(k).terms: k for k in sizes.values}

    def place(self, terms: Terms) -> int:
        """Where a polynomial stands."""
        found = self.places.get(terms)
        if found is None:
            for k in sorted({k for monomial, _ in terms for k in monomial}):
                self._place_parts(k)
            found = self.places.get(terms)  # of one atom
        if found is None:
            words = self._words(terms)
            found = self.places[terms] = self.count + len(self.numbers)
            self.numbers.append(words)
        return found

    def _place_parts(self, k: int) -> None:
        """Write an atom after those that it is made of."""
        for each in atoms_of(self.sizes, k, self.written_atoms):
            self.written_atoms.add(each)
            terms = (((each,), 1),)
            if terms not in self.places:
                words = self._words(terms)
                self.places[terms] = self.count + len(self.numbers)
                self.numbers.append(words)

    def operand(self, x: Size) -> int | Words:
        """A number, a constant or a word."""
        return self.place(x.terms) if type(x) is Num else [x]

    def _words(self, terms: Terms) -> Words:
        if len(terms) == 1 and len(terms[0][0]) == 1 and terms[0][1] == 1:
            atom = self.sizes.atoms[terms[0][0][0]]
            return [atom.op, *[self.operand(x) for x in atom.args]]
        parts = [[factor, *[self.place((((k,), 1),)) for k in m]] for m, factor in terms]
        return ["sum", *parts]

    def guards(self) -> list[Words]:
        """What must hold for sizes to which the trace applies."""
        sizes = self.sizes
        found: list[Words] = [
            ["le", self.place(terms), [most], True] for terms, most in sizes.upper.items() if terms
        ]
        for (terms, constant), holds in sizes.equal.items():
            found.append(["eq", self.place(terms), [-constant], holds])
        for op, a, b, result in sizes.others.values():
            found.append([op, self.operand(a), self.operand(b), result])
        return found

    def written(self) -> Written:
        """All of it."""
        guards = self.guards()
        return Written(self.numbers, guards)


def _power(a: Size, b: Size) -> Size:
    power(value_of(a), value_of(b))  # which may be too large
    return a**b


# How operations are done with what may be Nums.
_OPERATIONS: dict[str, Operation] = {
    **PLAIN,
    "pow": _power,
    "int": truncated,
    "bits": bits,
    "ones": ones,
    "min": least,
    "max": most,
    "chosen": chosen,
    "float": lambda x, char: rounded(x, np.dtype(char)),
}


def evaluated(numbers: Sequence[Words], symbols: Sequence[Size]) -> list[Size]:
    """The symbols, of which each is an int or a Num, and the numbers.

    Raises:
        BadNumbers: one of them does not exist, or is too large.
    """
    return evaluated_words(numbers, symbols, _OPERATIONS, _bounded)


def _bounded(x: Size) -> Size:
    in_bounds(value_of(x))
    if type(x) is Num and len(x.terms) > MOST_TERMS:
        raise OverflowError
    return x


def text_of(guard: Words, values: Sequence[Size]) -> str:
    """A guard as the user reads it; the values are Nums."""
    op, a, b, result = guard
    sides = [value(values, x) for x in (a, b)]
    a, b = [x.text() if type(x) is Num else repr(x) for x in sides]
    shown = f"{a} {OPERATOR_SIGNS[str(op)]} {b}"
    return shown if result else f"not ({shown})"
