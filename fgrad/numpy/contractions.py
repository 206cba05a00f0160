"""L4. `np.einsum`: diagonals and sums of single operands, then pairs as `dot_general`.

    "bij,bjk->bik"    batch b, contract j:  one dot_general
    "ii,ij->j"        diagonal of the first operand, then contract i

Which pairs are contracted first is opt_einsum's choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from types import EllipsisType
from typing import Any

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.base.named_tuple import NamedTuple
from fgrad.errors import ArgumentError, ShapeError
from fgrad.numpy.creation import diagonal
from fgrad.numpy.dispatch import implements
from fgrad.numpy.promote import (
    as_array,
    broadcast_to,
    convert,
    promote,
    refuse_out,
    reshape,
    shape_of,
)
from fgrad.ops import dot as dt
from fgrad.ops import elementwise as ew
from fgrad.ops import reduce as rd
from fgrad.ops import shape as sh
from fgrad.trace import Tracer, Value
from fgrad.tracing.layouts import ordered
from fgrad.typing import Array, Casting, DTypeLike, Order

opt_einsum = lazy_module("opt_einsum")

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Term(NamedTuple):
    """An operand and the label of each of its axes."""

    x: Value
    labels: tuple[str, ...]


@implements("einsum")
def einsum(
    *operands: Any,
    out: Array | None = None,
    dtype: DTypeLike | None = None,
    casting: Casting = "safe",
    optimize: bool | str | Sequence[object] = False,
    order: Order = "K",
) -> Value:
    """Sums of products over labelled axes."""
    refuse_out("einsum", out)
    if len(operands) == 3 and type(operands[0]) is str and dtype is None and order == "K":
        x, y = promote(operands[1:])
        plan = _plan(operands[0], shape_of(x), shape_of(y))
        if plan is not None:
            return sh.permute(dt.dot_general(x, y, plan.contract, plan.batch), plan.order)
    terms, result = _parse(operands)
    xs = promote([t.x for t in terms])
    if dtype is not None:
        xs = [_cast(x, np.dtype(dtype), casting) for x in xs]
    terms = [Term(x, t.labels) for x, t in zip(xs, terms, strict=True)]
    sizes = _sizes(terms)
    terms = [_without_ones(t, sizes) for t in terms]
    for positions in _order(terms, result, sizes):
        chosen = [terms[i] for i in positions]
        terms = [t for i, t in enumerate(terms) if i not in positions]
        needed = set(result).union(*[t.labels for t in terms])
        terms.append(_contract(chosen, needed))
    (last,) = terms
    return ordered(_arrange(_simplify(last, set(result)), result, sizes), order)


class _Plan(NamedTuple):
    """A product of two operands, and the order of its axes."""

    contract: dt.Pair
    batch: dt.Pair
    order: tuple[int, ...]


@lru_cache(maxsize=1024)
def _plan(text: str, left: tuple[int, ...], right: tuple[int, ...]) -> _Plan | None:
    """What a sum of products of two operands is, if each label has one length and is not repeated,
    and no operand is summed by itself; None for anything else."""
    inputs, arrow, out = text.replace(" ", "").partition("->")
    a, comma, b = inputs.partition(",")
    sizes = dict(zip(a + b, left + right, strict=False))
    known = bool(arrow and comma) and all([c in _LETTERS for c in a + b + out])
    if not known or [*map(len, (a, b))] != [*map(len, (left, right))]:
        return None
    whole = [sizes[c] for c in a + b] == [*left, *right]
    if not whole or any([len(set(term)) < len(term) for term in (a, b, out)]):
        return None
    summed = [c for c in a if c in b and c not in out]
    kept = [c for c in a if c in b and c in out]
    free = [c for c in a + b if (c in a) != (c in b)]
    if not summed or sorted(kept + free) != sorted(out):
        return None

    def places(labels: Sequence[str]) -> dt.Pair:
        return tuple([a.index(c) for c in labels]), tuple([b.index(c) for c in labels])

    return _Plan(places(summed), places(kept), tuple([[*kept, *free].index(c) for c in out]))


def _cast(x: Value, dtype: np.dtype, casting: Casting) -> Value:
    if not np.can_cast(x.dtype, dtype, casting):
        raise ArgumentError(
            f"einsum: an operand of {x.dtype} cannot be cast to {dtype} according to the rule "
            f"{casting!r}",
        )
    return convert(x, dtype)


@implements("einsum_path")
def einsum_path(
    *operands: Any,
    optimize: bool | str | Sequence[object] = "greedy",
    einsum_call: Any = False,
) -> tuple[list[object], str]:
    """The order of contractions that NumPy would choose: it depends on shapes alone."""
    zero = np.float64(0)
    plain: list[Any] = [
        np.broadcast_to(zero, x.shape) if isinstance(x, Tracer) else x for x in operands
    ]
    return np.einsum_path(*plain, optimize=optimize, einsum_call=einsum_call)


# --- reading --------------------------------------------------------------------------------------


def _parse(operands: Sequence[Any]) -> tuple[list[Term], tuple[str, ...]]:
    """The operands with their labels, and the result's; "..." becomes labels "0", "1", ..."""
    if isinstance(operands[0], str):
        text, arrays = operands[0].replace(" ", ""), [as_array(x) for x in operands[1:]]
        left, arrow, right = text.partition("->")
        inputs = left.split(",")
    else:
        given, (arrays, lists) = list(operands), ([], [])
        while len(given) > 1:
            arrays.append(as_array(given.pop(0)))
            lists.append(_spell(given.pop(0)))
        inputs, arrow = lists, "->" if given else ""
        right = _spell(given[0]) if given else ""
    if len(inputs) != len(arrays):
        raise ArgumentError("number of einsum subscripts must be equal to the number of operands")
    extra = [len(x.shape) - len(s.replace("...", "")) for s, x in zip(inputs, arrays, strict=True)]
    if any(n < 0 or (n > 0 and "..." not in s) for s, n in zip(inputs, extra, strict=True)):
        raise ArgumentError(
            "einstein sum subscripts do not fit the number of dimensions of the operands",
        )
    dots = max([n for s, n in zip(inputs, extra, strict=True) if "..." in s], default=0)
    terms = [Term(x, _labels(s, n, dots)) for s, n, x in zip(inputs, extra, arrays, strict=True)]
    if arrow:
        if dots and "..." not in right:
            raise ArgumentError(
                "einsum: operands have more axes than labels, but there is no '...' in the output.",
            )
        return terms, _labels(right, dots, dots)
    letters = "".join(inputs).replace(".", "")
    once = sorted([c for c in set(letters) if letters.count(c) == 1])
    return terms, tuple([str(i) for i in range(dots)] + once)


def _spell(axes: Sequence[int | EllipsisType]) -> str:
    """The letters of a list of axis numbers."""
    return "".join(["..." if a is ... else _LETTERS[a] for a in axes])


def _labels(subscripts: str, extra: int, dots: int) -> tuple[str, ...]:
    before, ellipsis, after = subscripts.partition("...")
    bad = [c for c in before + after if c not in _LETTERS]
    if bad:
        raise ArgumentError(f"einsum: {bad[0]!r} in {subscripts!r} is no label.")
    middle = [str(i) for i in range(dots - extra, dots)] if ellipsis else []
    return (*before, *middle, *after)


def _sizes(terms: Sequence[Term]) -> dict[str, int]:
    """The length of each label; lengths 1 give way."""
    sizes: dict[str, int] = {}
    for term in terms:
        for label, n in zip(term.labels, term.x.shape, strict=True):
            if sizes.setdefault(label, n) == 1:
                sizes[label] = n
            elif n not in (1, sizes[label]):
                raise ShapeError(f"einsum: label {label!r} has lengths {sizes[label]} and {n}.")
    return sizes


def _without_ones(term: Term, sizes: dict[str, int]) -> Term:
    """A term without the axes of length 1 that broadcast against longer ones."""
    kept = [
        (label, n) for label, n in zip(term.labels, term.x.shape, strict=True) if n == sizes[label]
    ]
    if len(kept) == len(term.labels):
        return term
    x = reshape(term.x, tuple([n for _, n in kept]))
    return Term(x, tuple([label for label, _ in kept]))


# --- contracting ----------------------------------------------------------------------------------


def _order(
    terms: Sequence[Term], result: Sequence[str], sizes: dict[str, int]
) -> list[tuple[int, ...]]:
    """Which terms are contracted together, step by step."""
    if len(terms) == 1:
        return []
    if len(terms) == 2:
        return [(0, 1)]
    symbols = {label: opt_einsum.get_symbol(i) for i, label in enumerate(sizes)}
    spelled = ["".join([symbols[c] for c in t.labels]) for t in terms]
    text = ",".join(spelled) + "->" + "".join([symbols[c] for c in result])
    return _path(text, tuple([t.x.shape for t in terms]))


@lru_cache(maxsize=1024)
def _path(text: str, shapes: tuple[tuple[int, ...], ...]) -> list[tuple[int, ...]]:
    """The order of least cost, which takes longer to find than small contractions do."""
    path, _ = opt_einsum.contract_path(text, *shapes, shapes=True, optimize="auto")
    return path


def _contract(terms: Sequence[Term], needed: set[str]) -> Term:
    """The product of a few terms, summed over the labels that nothing else needs."""
    left = terms[0]
    for i, right in enumerate(terms[1:], 2):
        later = needed.union(*[t.labels for t in terms[i:]])
        left = _pair(left, right, later)
    return left


def _pair(left: Term, right: Term, needed: set[str]) -> Term:
    left = _simplify(left, needed | set(right.labels))
    right = _simplify(right, needed | set(left.labels))
    shared = [c for c in left.labels if c in right.labels]
    summed = [c for c in shared if c not in needed]
    kept = [c for c in shared if c in needed]
    if not summed:
        return _product(left, right)

    def places(term: Term, labels: Sequence[str]) -> tuple[int, ...]:
        return tuple([term.labels.index(c) for c in labels])

    x = dt.dot_general(
        left.x,
        right.x,
        (places(left, summed), places(right, summed)),
        (places(left, kept), places(right, kept)),
    )
    free = [c for t in (left, right) for c in t.labels if c not in shared]
    return Term(x, (*kept, *free))


def _product(left: Term, right: Term) -> Term:
    """An elementwise product over the union of the labels."""
    labels = left.labels + tuple([c for c in right.labels if c not in left.labels])
    sizes = dict(zip(left.labels + right.labels, left.x.shape + right.x.shape, strict=True))
    shape = tuple([sizes[c] for c in labels])
    x, y = (_spread(t, labels, shape) for t in (left, right))
    return Term(ew.mul(x, y), labels)


def _spread(term: Term, labels: Sequence[str], shape: tuple[int, ...]) -> Value:
    order = sorted(range(len(term.labels)), key=lambda i: labels.index(term.labels[i]))
    x = sh.permute(term.x, tuple(order)) if order != sorted(order) else term.x
    lengths = tuple([n if c in term.labels else 1 for c, n in zip(labels, shape, strict=True)])
    return broadcast_to(reshape(x, lengths), shape)


def _simplify(term: Term, needed: set[str]) -> Term:
    """Repeated labels become diagonals; labels that nothing else needs are summed."""
    x, labels = term
    for c in dict.fromkeys(labels):
        while labels.count(c) > 1:
            i = labels.index(c)
            j = labels.index(c, i + 1)
            x = diagonal(x, 0, i, j)
            labels = (*labels[:i], *labels[i + 1 : j], *labels[j + 1 :], c)
    axes = tuple([i for i, c in enumerate(labels) if c not in needed])
    if axes:
        x = rd.reduce_sum(x, axes)
        labels = tuple([c for c in labels if c in needed])
    return Term(x, labels)


def _arrange(term: Term, result: tuple[str, ...], sizes: dict[str, int]) -> Value:
    """The axes in the order that was asked for."""
    unknown = [c for c in result if c not in sizes]
    if unknown or len(set(result)) != len(result):
        raise ArgumentError(f"einstein sum subscripts string has wrong output labels {result}")
    order = [term.labels.index(c) for c in result]
    return sh.permute(term.x, tuple(order)) if order != sorted(order) else term.x
