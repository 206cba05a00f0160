"""L0. Polynomials with integer coefficients in atoms, which are numbered: sums and products.

((), 3), ((0,), 2), ((0, 1), -1)      is      3 + 2 a0 - a0 a1
"""

from __future__ import annotations

from typing import TypeAlias

Monomial: TypeAlias = "tuple[int, ...]"  # numbers of atoms, sorted; with repetitions
Terms: TypeAlias = "tuple[tuple[Monomial, int], ...]"  # a polynomial: sorted, no zero coefficients

OPERATOR_SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%", "truediv": "/", "pow": "**",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
}  # fmt: skip


def without(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    left = list(monomial)
    for k in divisor:
        if k not in left:
            return None
        left.remove(k)
    return tuple(left)


def split(p: Terms) -> tuple[Terms, int]:
    """A polynomial without its constant, and that."""
    if p and p[0][0] == ():
        return p[1:], p[0][1]
    return p, 0


def scaled(p: Terms, factor: int) -> Terms:
    return tuple([(m, factor * c) for m, c in p])


def added(p: Terms, q: Terms) -> Terms:
    found = dict(p)
    for m, c in q:
        found[m] = found.get(m, 0) + c
    return tuple(sorted([(m, c) for m, c in found.items() if c]))


def product(p: Terms, q: Terms) -> Terms:
    found: dict[Monomial, int] = {}
    for m, c in p:
        for n, d in q:
            both = tuple(sorted((*m, *n)))
            found[both] = found.get(both, 0) + c * d
    return tuple(sorted([(m, c) for m, c in found.items() if c]))
