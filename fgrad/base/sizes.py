"""L0. A size that may change -> `Num`: its value now, and an expression of the sizes it comes from.

    n = Sizes({0: 100}).symbol(0)      n * 12 // 4  is  the Num 3 n, now 300
    if n > 64: ...                     is answered for 100, and noted: the trace is for n > 64 alone
    range(n), n ** 0.5, {n: 1}         need a number: the trace is for n == 100 alone

Sums and products of integers are polynomials in normal form, so that two that are equal for all
sizes are one object: comparisons that hold for all sizes are not noted.  In fgrad's own code the
hash and the text of a Num are those of its expression, anywhere else of its value, which fixes it.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.base.size_terms import (
    OPERATOR_SIGNS,
    Monomial,
    Terms,
    added,
    product,
    scaled,
    split,
    without,
)
from fgrad.base.source import user_frame

Size: TypeAlias = Any  # a Num, or one of Python's numbers


class Open:
    """The traces with sizes that may change, in all threads."""

    def __init__(self) -> None:
        self.traces: set[int] = set()


OPEN = Open()
LEAST = 2  # symbols are no smaller: 0 and 1 are always known


class NotShared(Exception):
    """Code cannot be written with a number in a register, or a table."""


class Fixed(NamedTuple):
    """A size that was used as a number: its value, and the user's line."""

    text: str
    value: float
    file: str
    line: int
    asked: str  # the line of Python that asked, which may be fgrad's

    def __str__(self) -> str:
        return f"{self.text} = {self.value} at {self.file.rpartition('/')[2]}:{self.line}"


class Atom(NamedTuple):
    """What polynomials are made of: a symbol, or an operation that is no sum or product."""

    op: str
    args: tuple[Size, ...]  # Nums and numbers; of a symbol its number
    value: int | float
    low: float  # it is never smaller


class Guard(NamedTuple):
    """`op(a, b)` must be what it was."""

    op: str
    a: Num
    b: object
    result: bool


class Sizes:
    """The sizes of a trace: what was computed with them, and what was decided by them."""

    def __init__(self, values: dict[int, int]) -> None:
        self.values = values
        self.atoms: list[Atom] = []
        self.numbers: dict[object, Num] = {}
        self.known: dict[tuple[object, ...], Size] = {}  # results of operations
        self.upper: dict[Terms, int] = {}  # of polynomials without a constant: at most
        self.equal: dict[tuple[Terms, int], bool] = {}  # whether a polynomial is -constant
        self.others: dict[tuple[object, ...], Guard] = {}
        self.fixed: list[Fixed] = []
        self.names: dict[object, int] = {}
        self.sealed = False  # whether the trace is over: what is left of it are plain numbers
        self.texts = 0  # how often the text or the hash of a Num was asked for
        self.tables: dict[int, tuple[np.ndarray, tuple[Size, ...]]] = {}  # by identity

    def symbol(self, number: int) -> Num:
        """The size with this number, in all places."""
        return self.atom("symbol", (number,), self.values[number], LEAST)

    def atom(self, op: str, args: tuple[Size, ...], value: int | float, low: float) -> Num:
        """The Num of one operation."""
        key = (op, *[id(x) if isinstance(x, Num) else (type(x), x) for x in args])
        found = self.names.get(key)
        if found is None:
            found = self.names[key] = len(self.atoms)
            self.atoms.append(Atom(op, args, value, low))
        terms = (((found,), 1),)
        return self.number(terms, value)

    def number(self, terms: Terms, value: int | float) -> Size:
        """The one Num of a polynomial, or an int if it is constant."""
        if not terms:
            return 0
        if len(terms) == 1 and terms[0][0] == ():
            return terms[0][1]
        found = self.numbers.get(terms)
        if found is None:
            found = self.numbers[terms] = Num(self, value, terms)
        return found

    def low(self, terms: Terms) -> float:
        """A number that a polynomial is never below."""
        total = 0.0
        for monomial, factor in terms:
            least = 1.0
            for k in monomial:
                low = self.atoms[k].low
                if low < 0:
                    return -math.inf
                least *= low
            if monomial and factor < 0:
                return -math.inf
            total += factor * least
        return total

    def high(self, terms: Terms) -> float:
        """A number that a polynomial is never above, as far as that is known."""
        low = -self.low(tuple([(m, -factor) for m, factor in terms]))
        rest, constant = split(terms)
        noted = self.upper.get(rest)
        return low if noted is None else min(low, noted + constant)

    def below(self, p: Terms, now: int | float) -> bool:
        """Whether a polynomial of integers is below 0; noted unless that is always so."""
        if self.high(p) < 0:
            return True
        negated = scaled(p, -1)
        if self.low(p) >= 0 or self.high(negated) <= 0:
            return False
        if now < 0:
            self.bound(p, -1)
        else:
            self.bound(negated, 0)
        return now < 0

    def bound(self, p: Terms, most: int) -> None:
        """Note that a polynomial is at most a number."""
        rest, constant = split(p)
        factor = math.gcd(*[c for _, c in rest])
        rest, most = tuple([(m, c // factor) for m, c in rest]), (most - constant) // factor
        before = self.upper.get(rest)
        self.upper[rest] = most if before is None else min(before, most)

    def is_zero(self, p: Terms, now: int | float) -> bool:
        """Whether a polynomial of integers is 0; noted unless that is always so."""
        if self.low(p) > 0 or self.high(p) < 0:
            return False
        rest, constant = split(p)
        factor = math.gcd(*[c for _, c in rest])
        if constant % factor:
            return False
        rest, constant = tuple([(m, c // factor) for m, c in rest]), constant // factor
        if rest[0][1] < 0:
            rest, constant = scaled(rest, -1), -constant
        self.equal[rest, constant] = now == 0
        return now == 0

    def varies(self) -> bool:
        """Whether a symbol may have another value."""
        return any([not self.is_fixed(self.symbol(k)) for k in self.values])

    def is_fixed(self, number: Num) -> bool:
        """Whether guards leave a number no other value than it has now."""
        least = self.upper.get(scaled(number.terms, -1))
        known = self.equal.get((number.terms, -int(number.value)), False)
        return known or (least is not None and self.upper.get(number.terms) == -least)

    def compare(self, op: str, a: Num, b: Size) -> bool:
        """A comparison, noted unless it holds for all sizes."""
        if a.is_integer and _is_integer(b):
            p = added(a.terms, scaled(_terms(b), -1))
            now = a.value - value_of(b)
            return _ORDER[op](self, p, now)
        result = bool(_OPERATORS[op](a.value, value_of(b)))
        key = op, id(a), id(b) if isinstance(b, Num) else b
        self.others.setdefault(key, Guard(op, a, b, result))
        return result

    def fix(self, number: Num) -> None:
        """Note that a number must be what it is now, and which line needs that."""
        self.texts += 1
        if self.sealed:
            return
        frame = user_frame()
        if frame is not None:
            place = frame.f_code.co_filename, frame.f_lineno
            asked = sys._getframe(2)
            inside = f"{asked.f_code.co_filename}:{asked.f_lineno}"
            self.fixed.append(Fixed(number.text(), number.value, *place, inside))
        if number.is_integer:
            p = added(number.terms, _terms(-int(number.value)))
            self.is_zero(p, 0)
        else:
            key = "eq", id(number), number.value
            self.others.setdefault(key, Guard("eq", number, number.value, True))


def value_of(x: Size) -> Size:
    """What a number is now, without fixing it: only for what no result depends on."""
    return x.value if type(x) is Num else x


def settled(x: Size) -> Size:
    """A number as one of Python's: what it is now, which fixes it."""
    if type(x) is not Num:
        return x
    x.sizes.fix(x)
    return x.value


def is_symbolic(x: object) -> bool:
    """Whether a number, or a part of a tuple, is a Num."""
    if type(x) is Num:
        return True
    return isinstance(x, tuple) and any([is_symbolic(y) for y in x])


def _from_own() -> bool:
    """Whether the code that asks a Num for its text or hash is fgrad's."""
    name = sys._getframe(2).f_globals.get("__name__") or ""
    return name.startswith("fgrad.")


class Num:
    """A number that depends on sizes; see the module."""

    __slots__ = ("sizes", "terms", "value")

    def __init__(self, sizes: Sizes, value: int | float, terms: Terms) -> None:
        self.sizes = sizes
        self.value = value
        self.terms = terms

    if not TYPE_CHECKING:

        @property
        def __class__(self) -> type:
            """So that `isinstance(n, int)` holds."""
            return type(self.value)

    @property
    def is_integer(self) -> bool:
        """Whether it is a whole number at all sizes."""
        return type(self.value) is int

    def text(self) -> str:
        """The expression."""
        return " + ".join([_monomial_text(self.sizes, *term) for term in self.terms])

    def __index__(self) -> int:
        return operator.index(settled(self))

    def __int__(self) -> int:
        return int(settled(self))

    __trunc__ = __int__

    def __float__(self) -> float:
        return float(settled(self))

    def __complex__(self) -> complex:
        return complex(float(self))

    def __bool__(self) -> bool:
        return self.sizes.compare("ne", self, 0)

    def __array__(self, dtype: Size = None, copy: Size = None) -> np.ndarray:
        return np.asarray(settled(self), dtype)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *given: Size, **named: Size) -> Size:
        others = [x for x in given if type(x) is not Num and not isinstance(x, np.ndarray)]
        if any([hasattr(x, "__array_ufunc__") for x in others]):
            return NotImplemented  # a tracer has it
        return getattr(ufunc, method)(*map(settled, given), **named)

    def __hash__(self) -> int:
        if _from_own():
            self.sizes.texts += 1
            return id(self)
        return hash(settled(self))

    def __repr__(self) -> str:
        if _from_own():
            self.sizes.texts += 1
            return f"{{{self.text()}}}"
        return repr(settled(self))

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        if not spec and _from_own():
            return f"{{{self.text()}}}"
        return format(settled(self), spec)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self.value), (settled(self),)

    def __copy__(self) -> Num:
        return self

    def __deepcopy__(self, _memo: object) -> Num:
        return self

    def __getattr__(self, name: str) -> Size:
        if name.startswith("__") or not hasattr(self.value, name):
            raise AttributeError(name)
        return getattr(settled(self), name)

    def __neg__(self) -> Num:
        if self.is_integer:
            return self.sizes.number(scaled(self.terms, -1), -self.value)
        return self.sizes.atom("neg", (self,), -self.value, -math.inf)

    def __pos__(self) -> Num:
        return self

    def __abs__(self) -> Num:
        return self if self >= 0 else -self

    def __add__(self, other: Size) -> Size:
        return _binary("add", self, other)

    def __radd__(self, other: Size) -> Size:
        return _binary("add", other, self)

    def __sub__(self, other: Size) -> Size:
        return _binary("sub", self, other)

    def __rsub__(self, other: Size) -> Size:
        return _binary("sub", other, self)

    def __mul__(self, other: Size) -> Size:
        return _binary("mul", self, other)

    def __rmul__(self, other: Size) -> Size:
        return _binary("mul", other, self)

    def __floordiv__(self, other: Size) -> Size:
        return _binary("floordiv", self, other)

    def __rfloordiv__(self, other: Size) -> Size:
        return _binary("floordiv", other, self)

    def __mod__(self, other: Size) -> Size:
        return _binary("mod", self, other)

    def __rmod__(self, other: Size) -> Size:
        return _binary("mod", other, self)

    def __divmod__(self, other: Size) -> tuple[Size, Size]:
        return self // other, self % other

    def __rdivmod__(self, other: Size) -> tuple[Size, Size]:
        return other // self, other % self

    def __truediv__(self, other: Size) -> Size:
        return _binary("truediv", self, other)

    def __rtruediv__(self, other: Size) -> Size:
        return _binary("truediv", other, self)

    def __pow__(self, other: Size, modulus: Size = None) -> Size:
        if modulus is not None:
            return pow(int(self), other, modulus)
        return _binary("pow", self, other)

    def __rpow__(self, other: Size) -> Size:
        return _binary("pow", other, self)

    def __lt__(self, other: Size) -> Size:
        return _compared("lt", self, other)

    def __le__(self, other: Size) -> Size:
        return _compared("le", self, other)

    def __gt__(self, other: Size) -> Size:
        return _compared("gt", self, other)

    def __ge__(self, other: Size) -> Size:
        return _compared("ge", self, other)

    def __eq__(self, other: object) -> Size:
        return _compared("eq", self, other)

    def __ne__(self, other: object) -> Size:
        return _compared("ne", self, other)

    def __and__(self, other: int) -> int:
        return int(self) & other

    def __rand__(self, other: int) -> int:
        return other & int(self)

    def __or__(self, other: int) -> int:
        return int(self) | other

    def __ror__(self, other: int) -> int:
        return other | int(self)

    def __xor__(self, other: int) -> int:
        return int(self) ^ other

    def __rxor__(self, other: int) -> int:
        return other ^ int(self)

    def __lshift__(self, other: int) -> int:
        return int(self) << other

    def __rlshift__(self, other: int) -> int:
        return other << int(self)

    def __rshift__(self, other: int) -> int:
        return int(self) >> other

    def __rrshift__(self, other: int) -> int:
        return other >> int(self)

    def __invert__(self) -> int:
        return ~int(self)

    def __round__(self, digits: int | None = None) -> Size:
        return round(int(self) if self.is_integer else float(self), digits)

    def __ceil__(self) -> Size:
        return self if self.is_integer else math.ceil(float(self))

    def __floor__(self) -> Size:
        return self if self.is_integer else math.floor(float(self))


_OPERATORS: dict[str, Callable[..., Size]] = {
    name: getattr(operator, name)
    for name in (
        "add", "sub", "mul", "floordiv", "mod", "truediv", "pow", "lt", "le", "gt", "ge", "eq",
        "ne", "neg",
    )
}  # fmt: skip
_ORDER: dict[str, Callable[[Sizes, Terms, Size], bool]] = {
    "lt": lambda s, p, now: s.below(p, now) if p else False,
    "ge": lambda s, p, now: not s.below(p, now) if p else True,
    "gt": lambda s, p, now: s.below(scaled(p, -1), -now) if p else False,
    "le": lambda s, p, now: not s.below(scaled(p, -1), -now) if p else True,
    "eq": lambda s, p, now: s.is_zero(p, now) if p else True,
    "ne": lambda s, p, now: not s.is_zero(p, now) if p else False,
}


def _compared(op: str, a: Num, b: Size) -> Size:
    if type(b) not in _NUMBERS:
        return _with_another(op, a, b)
    return a.sizes.compare(op, a, b)


def _binary(op: str, a: Size, b: Size) -> Size:
    """An operation of which at least one operand is a Num."""
    if not _NUMBERS.issuperset((type(a), type(b))):
        return _with_another(op, a, b)
    sizes = a.sizes if type(a) is Num else b.sizes
    key = op, *[id(x) if type(x) is Num else (type(x), x) for x in (a, b)]
    found = sizes.known.get(key)
    if found is None:
        found = sizes.known[key] = _computed(sizes, op, a, b)
    return found


_NUMBERS = frozenset([Num, int, float, bool])


def _with_another(op: str, a: Size, b: Size) -> Size:
    """An operation with what is not Python's: NumPy's numbers have types that theirs decide."""
    if any([isinstance(x, np.generic) or not isinstance(x, (int, float)) for x in (a, b)]):
        return NotImplemented
    return _OPERATORS[op](settled(a), settled(b))


def _is_integer(x: Size) -> bool:
    return x.is_integer if type(x) is Num else isinstance(x, int)


def _computed(sizes: Sizes, op: str, a: Size, b: Size) -> Size:
    if op in ("floordiv", "mod", "truediv") and type(b) is Num and not b:
        raise ZeroDivisionError(op)
    value = _OPERATORS[op](value_of(a), value_of(b))
    if not (_is_integer(a) and _is_integer(b)):
        return sizes.atom(op, (a, b), value, -math.inf)
    p, q = _terms(a), _terms(b)
    if op in ("add", "sub"):
        return sizes.number(added(p, q if op == "add" else scaled(q, -1)), value)
    if op == "mul":
        return sizes.number(product(p, q), value)
    if op in ("floordiv", "mod"):
        return _divided(sizes, op, a, b)
    if op == "pow" and type(b) is int and 0 <= b <= 4:
        return math.prod([a] * b)
    return sizes.atom(op, (a, b), value, -math.inf)


def _divided(sizes: Sizes, op: str, a: Size, b: Size) -> Size:
    """`a // b` or `a % b`, by what b divides exactly: (12 n + r) // 4 = 3 n + r // 4."""
    p, q = _terms(a), _terms(b)
    whole: list[tuple[Monomial, int]] = []
    rest: list[tuple[Monomial, int]] = []
    if len(q) == 1:
        ((divisor, factor),) = q
        for monomial, c in p:
            left = without(monomial, divisor)
            if left is not None and c % factor == 0:
                whole.append((left, c // factor))
            else:
                rest.append((monomial, c))
    else:
        rest = list(p)
    now = value_of(a) - (sum_now(sizes, whole) * value_of(b) if whole else 0)
    if not rest:
        return sizes.number(tuple(sorted(whole)), sum_now(sizes, whole)) if op == "floordiv" else 0
    remaining = sizes.number(tuple(sorted(rest)), now)
    positive = sizes.low(q) > 0
    if positive and sizes.low(_terms(remaining)) >= 0:
        smaller = sizes.high(added(_terms(remaining), scaled(q, -1))) < 0
    else:
        smaller = False
    above = sizes.low(added(_terms(remaining), q)) >= 0 > sizes.high(_terms(remaining))
    if smaller:  # 0 <= remaining < b
        quotient, modulo = 0, remaining
    elif positive and above:  # -b <= remaining < 0
        return remaining + b if op == "mod" else _binary_sum(sizes, whole, -1)
    elif type(remaining) is int and type(b) is int:
        quotient, modulo = divmod(remaining, b)
    elif op == "floordiv":
        low = sizes.low(_terms(remaining))
        least = low // b if type(b) is int and b > 0 else 0 if positive and low >= 0 else -math.inf
        quotient = sizes.atom("floordiv", (remaining, b), now // value_of(b), least)
        modulo = 0
    else:
        quotient = 0
        low = 0 if positive else -math.inf
        modulo = sizes.atom("mod", (remaining, b), now % value_of(b), low)
        if type(b) is int and b > 0 and type(modulo) is Num:
            sizes.upper.setdefault(modulo.terms, b - 1)
    if op == "mod":
        return modulo
    return _binary_sum(sizes, whole, quotient)


def _binary_sum(sizes: Sizes, whole: list[tuple[Monomial, int]], quotient: Size) -> Size:
    terms = added(tuple(sorted(whole)), _terms(quotient))
    return sizes.number(terms, sum_now(sizes, terms))


def sum_now(sizes: Sizes, terms: Iterable[tuple[Monomial, int]]) -> Size:
    """The value of a polynomial."""
    return sum([c * math.prod([sizes.atoms[k].value for k in m]) for m, c in terms])


def _terms(x: Size) -> Terms:
    if type(x) is Num:
        return x.terms
    return (((), int(x)),) if x else ()


def _monomial_text(sizes: Sizes, monomial: Monomial, factor: int) -> str:
    parts = [str(factor)] if factor != 1 or not monomial else []
    return "*".join([*parts, *[_atom_text(sizes.atoms[k]) for k in monomial]])


def _atom_text(atom: Atom) -> str:
    if atom.op == "symbol":
        return f"n{atom.args[0]}"
    args = [x.text() if type(x) is Num else str(x) for x in atom.args]
    if atom.op in OPERATOR_SIGNS:
        return f"(({args[0]}) {OPERATOR_SIGNS[atom.op]} ({args[1]}))"
    return f"{atom.op}({', '.join(args)})"
