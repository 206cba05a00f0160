"""L0. Numbers and guards of a trace with sizes as symbols <-> data, evaluated for other sizes.

    numbers: the symbols, then    ["sum", [8, 0], [3]]         8 n0 + 3
                                  ["floordiv", 1, [4]]         (8 n0 + 3) // 4
    guards                        ["le", 0, [4096], true]      n0 <= 4096

An operand is the place of an earlier number, or a constant in a list.  Data can be hostile: its
form is checked before it is evaluated, and what it evaluates to has bounds.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.base.size_code import atoms_of
from fgrad.base.size_functions import bits, chosen, least, most, ones, rounded, truncated
from fgrad.base.size_terms import OPERATOR_SIGNS, Terms
from fgrad.base.sizes import Num, Size, Sizes, value_of

Words: TypeAlias = "list[object]"

MOST_NUMBERS = 20_000
MOST_TERMS = 256  # of a sum
_WORD = 1 << 63
_LARGEST_POWER = 64
_COMPARISONS: dict[str, Callable[[Size, Size], Size]] = {
    name: getattr(operator, name) for name in ("lt", "le", "gt", "ge", "eq", "ne")
}


class BadNumbers(Exception):
    """Numbers that data does not give, or not for these sizes."""


class Written(NamedTuple):
    """Numbers and guards as data."""

    numbers: list[Words]
    guards: list[Words]


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


# Data from anywhere.


def checked(count: int, numbers: object, guards: object) -> Written:
    """Data of the right form, for so many symbols.

    Raises:
        BadNumbers: it has another.
    """
    if type(numbers) is not list or type(guards) is not list:
        raise BadNumbers("its sizes are no lists")
    if max(len(numbers), len(guards)) > MOST_NUMBERS:
        raise BadNumbers("it has too many sizes")
    for k, words in enumerate(numbers):
        if not _is_number(words, count + k):
            raise BadNumbers("its sizes are not described as they should be")
    for words in guards:
        good = type(words) is list and len(words) == 4 and type(words[3]) is bool
        good = good and type(words[0]) is str and words[0] in _COMPARISONS
        if not good or not all([_is_operand(x, count + len(numbers)) for x in words[1:3]]):
            raise BadNumbers("its guards are not described as they should be")
    return Written(numbers, guards)


def _is_number(words: object, known: int) -> bool:
    if type(words) is not list or not words or type(words[0]) is not str:
        return False
    op, *operands = words
    if op == "sum":
        return len(operands) <= MOST_TERMS and all([_is_term(x, known) for x in operands])
    if op not in _OPERATIONS:
        return False
    arity = _OPERATIONS[op][0]
    if len(operands) != arity and (arity or not 0 < len(operands) <= MOST_TERMS):
        return False
    if op == "float" and operands[1] not in (["d"], ["f"], ["e"]):
        return False
    return all([_is_operand(x, known) for x in operands[: 1 if op == "float" else None]])


def _is_term(words: object, known: int) -> bool:
    if type(words) is not list or not 0 < len(words) <= 8:
        return False
    return _is_constant(words[0]) and all([_is_place(k, known) for k in words[1:]])


def _is_operand(x: object, known: int) -> bool:
    if type(x) is list:
        return len(x) == 1 and _is_constant(x[0])
    return _is_place(x, known)


def _is_place(x: object, known: int) -> bool:
    return type(x) is int and 0 <= x < known


def _is_constant(x: object) -> bool:
    if type(x) is float:
        return math.isfinite(x)
    return type(x) is int and -_WORD <= x < _WORD


def evaluated(numbers: Sequence[Words], symbols: Sequence[Size]) -> list[Size]:
    """The symbols, of which each is an int or a Num, and the numbers.

    Raises:
        BadNumbers: one of them does not exist, or is too large.
    """
    values: list[Size] = list(symbols)
    try:
        for op, *operands in numbers:
            if op == "sum":
                found = _sum(values, operands)
            else:
                found = _OPERATIONS[str(op)][1](*[_value(values, x) for x in operands])
            values.append(_bounded(found))
    except (ArithmeticError, ValueError, TypeError, AttributeError) as error:
        raise BadNumbers(f"a size cannot be computed: {type(error).__name__}") from None
    return values


def _sum(values: Sequence[Size], terms: Sequence[Size]) -> Size:
    total: Size = 0
    for factor, *places in terms:
        for k in places:
            factor = _bounded(factor * values[k])
        total = total + factor
    return total


def _value(values: Sequence[Size], operand: Size) -> Size:
    return values[operand] if type(operand) is int else operand[0]


def _bounded(x: Size) -> Size:
    now = value_of(x)
    if type(now) is int:
        if not -_WORD <= now < _WORD:
            raise OverflowError
    elif type(now) is not float:
        raise TypeError
    if type(x) is Num and len(x.terms) > MOST_TERMS:
        raise OverflowError
    return x


def failing(guards: Sequence[Words], values: Sequence[Size]) -> Words | None:
    """The first guard that does not hold; those of Nums that do are noted by their trace."""
    for guard in guards:
        op, a, b, result = guard
        if bool(_COMPARISONS[str(op)](_value(values, a), _value(values, b))) is not result:
            return guard
    return None


def text_of(guard: Words, values: Sequence[Size]) -> str:
    """A guard as the user reads it; the values are Nums."""
    op, a, b, result = guard
    sides = [_value(values, x) for x in (a, b)]
    a, b = [x.text() if type(x) is Num else repr(x) for x in sides]
    shown = f"{a} {OPERATOR_SIGNS[str(op)]} {b}"
    return shown if result else f"not ({shown})"


def _power(a: Size, b: Size) -> Size:
    if type(value_of(a)) is int and type(value_of(b)) is int and value_of(b) > _LARGEST_POWER:
        raise OverflowError
    return a**b


# How many operands each operation has, 0 for any number of them, and what it is.
_OPERATIONS: dict[str, tuple[int, Callable[..., Size]]] = {
    "add": (2, operator.add),
    "sub": (2, operator.sub),
    "mul": (2, operator.mul),
    "floordiv": (2, operator.floordiv),
    "mod": (2, operator.mod),
    "truediv": (2, operator.truediv),
    "pow": (2, _power),
    "neg": (1, operator.neg),
    "int": (1, truncated),
    "bits": (1, bits),
    "ones": (1, ones),
    "min": (0, least),
    "max": (0, most),
    "chosen": (4, chosen),
    "float": (2, lambda x, char: rounded(x, np.dtype(char))),
}
