"""L0. Numbers and guards of sizes as data -> their values for some sizes.

    numbers: the symbols, then    ["sum", [8, 0], [3]]         8 n0 + 3
                                  ["floordiv", 1, [4]]         (8 n0 + 3) // 4
    guards                        ["le", 0, [4096], true]      n0 <= 4096

An operand is the place of an earlier number, or a constant in a list.  Data can be hostile: its
form is checked before it is evaluated, and what it evaluates to has bounds.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from fgrad.base.named_tuple import NamedTuple

Number: TypeAlias = Any  # one of Python's, or a Num
Words: TypeAlias = "list[object]"
Operation: TypeAlias = "Callable[..., Number]"

MOST_NUMBERS = 20_000
MOST_TERMS = 256  # of a sum
_WORD = 1 << 63
_LARGEST_POWER = 64
_COMPARISONS: dict[str, Operation] = {
    name: getattr(operator, name) for name in ("lt", "le", "gt", "ge", "eq", "ne")
}


class BadNumbers(Exception):
    """Numbers that data does not give, or not for these sizes."""


class Written(NamedTuple):
    """Numbers and guards as data."""

    numbers: list[Words]
    guards: list[Words]


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
    if op not in ARITY:
        return False
    arity = ARITY[op]
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


def evaluated(
    numbers: Sequence[Words],
    symbols: Sequence[Number],
    operations: Mapping[str, Operation] | None = None,
    bounded: Callable[[Number], Number] | None = None,
) -> list[Number]:
    """The symbols, and the numbers.

    Arguments:
        operations: those of other numbers than Python's.
        bounded: the bounds of these.

    Raises:
        BadNumbers: one of them does not exist, or is too large.
    """
    values = list(symbols)
    known, bounded = operations or PLAIN, bounded or in_bounds
    try:
        for op, *operands in numbers:
            if op == "sum":
                found = _sum(values, operands, bounded)
            else:
                found = known[str(op)](*[value(values, x) for x in operands])
            values.append(bounded(found))
    except (ArithmeticError, ValueError, TypeError, AttributeError) as error:
        raise BadNumbers(f"a size cannot be computed: {type(error).__name__}") from None
    return values


def _sum(
    values: Sequence[Number], terms: Sequence[Number], bounded: Callable[[Number], Number]
) -> Number:
    total = 0
    for factor, *places in terms:
        for k in places:
            factor = bounded(factor * values[k])
        total = total + factor
    return total


def value(values: Sequence[Number], operand: Number) -> Number:
    """An operand: a number by its place, or a constant."""
    return values[operand] if type(operand) is int else operand[0]


def in_bounds(x: Number) -> Number:
    """A number of Python.

    Raises:
        OverflowError: it needs more than a word.
    """
    if type(x) is int:
        if not -_WORD <= x < _WORD:
            raise OverflowError
    elif type(x) is not float:
        raise TypeError
    return x


def failing(guards: Sequence[Words], values: Sequence[Number]) -> Words | None:
    """The first guard that does not hold; those of Nums that do are noted by their trace."""
    for guard in guards:
        op, a, b, result = guard
        if bool(_COMPARISONS[str(op)](value(values, a), value(values, b))) is not result:
            return guard
    return None


def power(a: Number, b: Number) -> Number:
    """A power of a number; no large one of an integer."""
    if type(a) is int and type(b) is int and b > _LARGEST_POWER:
        raise OverflowError
    return a**b


# How many operands each operation has, 0 for any number of them.
ARITY = {
    "add": 2, "sub": 2, "mul": 2, "floordiv": 2, "mod": 2, "truediv": 2, "pow": 2, "neg": 1,
    "int": 1, "bits": 1, "ones": 1, "min": 0, "max": 0, "chosen": 4, "float": 2,
}  # fmt: skip
PLAIN: dict[str, Operation] = {
    **{n: getattr(operator, n) for n in ("add", "sub", "mul", "floordiv", "mod", "truediv", "neg")},
    "pow": power,
    "int": int,
    "bits": lambda x: struct.unpack("<q", struct.pack("<d", x))[0],
    "ones": lambda x: x.bit_count(),
    "min": lambda *xs: min(xs),
    "max": lambda *xs: max(xs),
    "chosen": lambda a, b, x, y: x if a < b else y,
    "float": lambda x, char: np.asarray(x).astype(char).item(),
}
