"""L5. Places of a loop's reads and writes as linear forms of its counter, and whether steps meet.

    %1 = add i64 %k 3;  %2 = min i64 %1 99      %2 is k + 3, if that is at most 99
    store x[8*i + 1*%2]                         x at 8 i + k + 3

Steps that are d apart meet where two of them read or write one element, and one of them writes.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.kernel.ir import Affine, Const, Index, Load, Op, Read, Statement, Store
from fgrad.compile.kernel.unread import used_by

Atom: TypeAlias = "str | int"  # an axis, or the id of a value that stays the same
Access: TypeAlias = "Load | Store"
INT64 = np.dtype(np.int64)


class Form(NamedTuple):
    """`const + step * counter + sum(stride * atom)`."""

    const: int = 0
    step: int = 0
    terms: tuple[tuple[Atom, int], ...] = ()

    def plus(self, other: Form, times: int = 1) -> Form:
        """The sum of this and a multiple of another."""
        sums = dict(self.terms)
        for atom, stride in other.terms:
            sums[atom] = sums.get(atom, 0) + times * stride
        kept = [(atom, stride) for atom, stride in sums.items() if stride]
        return Form(
            self.const + times * other.const,
            self.step + times * other.step,
            tuple(sorted(kept, key=lambda term: str(term[0]))),
        )


class Assumed(NamedTuple):
    """`0 <= value < high`, or the side of it that is not None, by the ids of both."""

    value: int
    low: int | None
    high: int | None
    open: bool  # whether the value is below `high`, not `high` itself


class Places:
    """The linear forms of a loop's integers.

    Arguments:
        body: a straight line.
        counter: the axis of the loop, or the accumulator that counts its steps.
        around: the constants and places of the whole kernel, by id.
        inner: the axes of the loops in it.
        assumes: whether indices may be taken to be where they are clamped to.
    """

    def __init__(
        self,
        body: Iterable[Statement],
        counter: str,
        around: Mapping[int, Const | Index],
        inner: Collection[str] = (),
        assumes: bool = False,
    ) -> None:
        body = list(body)
        self.assumes = assumes
        self.counter = counter
        self.moving = {counter, *inner}
        self.around = around
        self.forms: dict[int, Form] = {}
        self.assumed: list[Assumed] = []
        self.certain: set[int] = set()  # truth values that what is assumed makes true
        self.varying: set[int] = set()
        self.made: dict[int, Statement] = {}
        self.stored = {s.buffer for s in body if isinstance(s, Store)}
        for s in body:
            self._add(s)

    def _add(self, s: Statement) -> None:
        if not isinstance(s, (Index, Op, Read, Load, Const)):
            return
        self.made[s.id] = s
        if self._varies(s):
            self.varying.add(s.id)
        if isinstance(s, Index) and s.dtype == INT64:
            self.forms[s.id] = self.affine(s.index)
        elif isinstance(s, Read) and s.acc == self.counter:
            self.forms[s.id] = Form(0, 1)
        elif isinstance(s, Op):
            form = self._op(s)
            if form is not None:
                self.forms[s.id] = form

    def _varies(self, s: Statement) -> bool:
        if isinstance(s, Read):
            return True
        if isinstance(s, (Index, Load)) and any([a in self.moving for a, _ in s.index.terms]):
            return True
        if isinstance(s, Load) and s.buffer in self.stored:
            return True
        return not self.varying.isdisjoint(used_by(s))

    def affine(self, index: Affine) -> Form:
        """The form of an affine map."""
        step = sum([stride for axis, stride in index.terms if axis == self.counter])
        rest = [(axis, stride) for axis, stride in index.terms if axis != self.counter]
        return Form(index.const, step, tuple(rest))

    def form(self, id: int) -> Form | None:
        """The form of a value."""
        found, known = self.forms.get(id), self.around.get(id)
        if isinstance(known, Const) and known.dtype == INT64:
            return Form(int(known.value))
        if found is None and isinstance(known, Index) and known.dtype == INT64:
            return self.affine(known.index)
        return Form(0, 0, ((id, 1),)) if found is None and id not in self.varying else found

    def is_pure(self, id: int) -> bool:
        """Whether a value is computed of the counter, and of what stands before the loop."""
        s = self.made.get(id)
        if isinstance(s, Load):
            return False
        return s is None or all([self.is_pure(a) for a in used_by(s)])

    def place(self, s: Access) -> Form | None:
        """Where a statement reads or writes."""
        found = self.affine(s.index)
        for id, stride in s.gather if isinstance(s, Load) else s.scatter:
            form = self.form(id)
            if form is None:
                return None
            found = found.plus(form, stride)
        return found

    def uncertain(self, id: int | None) -> int | None:
        """What is left of a predicate where what is assumed holds."""
        if id is None or id in self.certain:
            return None
        s = self.made.get(id)
        if isinstance(s, Op) and s.op == "and":
            left = [a for a in s.args if self.uncertain(a) is not None]
            return self.uncertain(left[0]) if len(left) == 1 else id
        return id

    def _op(self, s: Op) -> Form | None:
        if s.op == "lt" and self.assumes and self._is_inside(s):
            self.certain.add(s.id)
        if s.op == "and" and self.certain.issuperset(s.args):
            self.certain.add(s.id)
        if s.dtype != INT64:
            return None
        forms = [form for form in map(self.form, s.args) if form is not None]
        if len(forms) != len(s.args):
            return None
        if s.op == "neg":
            return Form().plus(forms[0], -1)
        if len(forms) != 2:
            return None
        x, y = forms
        if s.op in ("add", "sub"):
            return x.plus(y, 1 if s.op == "add" else -1)
        if s.op == "mul":
            for p, q in ((x, y), (y, x)):
                if p == Form(p.const):
                    return Form().plus(q, p.const)
        if s.op in ("max", "min") and self.assumes:
            return self._clamped(s, x, y)
        return None

    def _clamped(self, s: Op, x: Form, y: Form) -> Form | None:
        """The larger, or the smaller one, which is assumed to be the one that counts."""
        if bool(x.step) is bool(y.step) or not all([self.is_pure(a) for a in s.args]):
            return None
        value, limit = s.args if x.step else s.args[::-1]
        if s.op == "max":
            self.assumed.append(Assumed(value, limit, None, False))
        else:
            self.assumed.append(Assumed(value, None, limit, False))
        return x if x.step else y

    def _is_inside(self, s: Op) -> bool:
        """Whether this asks if a place is not negative and below a number, as unsigned."""
        made = self.made.get(s.args[0])
        if not isinstance(made, Op) or made.op != "convert" or made.dtype.kind != "u":
            return False
        form = self.forms.get(made.args[0])
        known = isinstance(self.around.get(s.args[1]), Const) and self.is_pure(made.args[0])
        if form is None or not form.step or not known:
            return False
        self.assumed.append(Assumed(made.args[0], None, s.args[1], True))
        return True


def are_apart(
    accesses: Iterable[tuple[Access, Form | None]], lanes: int, inner: Collection[str] = ()
) -> bool:
    """Whether no two of as many steps as there are lanes meet, whatever the axes of the loops in
    them are."""
    by_buffer: dict[str, list[tuple[Access, Form | None]]] = {}
    for access, form in accesses:
        by_buffer.setdefault(access.buffer, []).append((access, form))
    return all([_apart(found, lanes, inner) for found in by_buffer.values()])


def _apart(found: Sequence[tuple[Access, Form | None]], lanes: int, inner: Collection[str]) -> bool:
    """The same for those of one buffer."""
    stores = [form for s, form in found if isinstance(s, Store)]
    for written in stores:
        for _, other in found:
            if written is None or other is None or not _never_meet(written, other, lanes, inner):
                return False
    return True


def _never_meet(a: Form, b: Form, lanes: int, inner: Collection[str]) -> bool:
    """Whether the forms are one, or differ in no two of the steps by what the counter moves.

    a - b = c + g m for some m, where g divides all strides of what stays the same, and of the
    inner axes, which are others in each.
    """
    if not a.step or a.step != b.step:
        return False
    gap = a.plus(b, -1)
    free = [stride for form in (a, b) for atom, stride in form.terms if atom in inner]
    unit = math.gcd(*free, *[stride for atom, stride in gap.terms if atom not in inner])
    moves = [a.step * d for d in range(1 - lanes, lanes) if d]
    return not any([_divides(unit, gap.const - move) for move in moves])


def _divides(unit: int, number: int) -> bool:
    return number % unit == 0 if unit else number == 0
