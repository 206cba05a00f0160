"""L3. Tangents and cotangents that are zero outside a known support.

The derivative of `select(c, x, y)` in x is t where c.  Elsewhere it is not multiplied by zero: the
pair (t, c) goes on as one.  Elementwise derivatives act on t alone, whatever they make of it
outside of c, and the zeros are put in by one `select` where elements meet:

    (t, c) d   =  (t d, c)          d may be NaN or infinite outside of c
    (t, c) + (s, not c)  =  select(c, t, s)
    (t, c) + (s, b)  =  (select(c, t, 0) + select(b, s, 0), c or b)
    reshape (t, c)  =  (reshape select(c, t, 0), reshape c)

So a zero of a selection stays zero, while 0 * inf of numbers that happen to be zero is NaN: what is
right there is not known.  Supports are computed when they are first needed, mostly never.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, final

import numpy as np

from fgrad.ir import traits
from fgrad.ir.primitive import Primitive
from fgrad.ir.traits import Rounding
from fgrad.ops.known import has_no_nan
from fgrad.trace import Tracer, Value, bind
from fgrad.typing import Operand

# Their rules stand in families.py and elementwise.py.
ADD = Primitive(
    "add",
    traits.COMMUTES._replace(finite=True, operator="{} + {}"),
    linear_in="all",
    scalar="add",
    reads=((), ()),
)
SELECT = Primitive(
    "select",
    traits.elementwise(rounding=Rounding.COPIES, finite=True)._replace(
        operator="{1} if {0} else {2}"
    ),
    linear_in=(1, 2),
    scalar="select",
    reads=((), (0,), (0,)),
)

FALSE = np.bool_(False)

# What a value is outside of its support.
ZERO = 0
ZERO_OR_NAN = 1
ANYTHING = 2


class Support:
    """Where a tangent or cotangent may differ from zero: a bool array that is made when it is read.

    `make` takes the arrays of the supports that it is made from.  A `loose` one is all zeros that
    happen to be in what the user gave: they are good where a derivative is infinite.
    """

    __slots__ = ("found", "loose", "made_from", "make")

    def __init__(
        self,
        made_from: Sequence[Support],
        make: Callable[..., Value] | None,
        loose: bool = False,
    ) -> None:
        self.loose = loose
        self.made_from = made_from
        self.make = make
        self.found: Value | None = None

    def array(self) -> Value:
        """The bool array.  No recursion: a loop makes chains of any length."""
        stack: list[Support] = [self]
        while stack:
            top = stack[-1]
            missing = [s for s in top.made_from if s.found is None]
            if top.found is not None or not missing:
                stack.pop()
                top.settle()
            stack.extend(missing)
        assert self.found is not None
        return self.found

    def settle(self) -> None:
        """Make the array of those it is made from."""
        if self.found is None:
            self.found = self.compute(*[s.array() for s in self.made_from])
            self.made_from, self.make = (), None

    def compute(self, *found: Value) -> Value:
        """The array, of those it is made from.  Who overrides it gives no `make`: a method of its
        own would be a cycle, and keep arrays until the collector runs."""
        assert self.make is not None
        return self.make(*found)


class Branch(Support):
    """Where a condition holds (or does not), within an outer support."""

    __slots__ = ("cond", "holds", "outer")

    def __init__(self, cond: Value, holds: bool, outer: Support | None = None) -> None:
        super().__init__(() if outer is None else (outer,), None)
        self.cond = cond
        self.holds = holds
        self.outer = outer

    def compute(self, outer: Operand = np.True_) -> Value:
        """The condition within the outer support."""
        if self.outer is None and self.holds:
            return self.cond
        pair = (outer, FALSE) if self.holds else (FALSE, outer)
        return bind(SELECT, self.cond, *pair)

    def completes(self, other: Support) -> bool:
        """Whether the two branches together cover the outer support."""
        return (
            isinstance(other, Branch)
            and self.cond is other.cond
            and self.outer is other.outer
            and self.holds is not other.holds
        )


@final
class Selected:
    """A value that counts as zero outside of `support`; `outside` says what it is there."""

    __slots__ = ("outside", "support", "value")

    def __init__(self, value: Value, support: Support, outside: int = ANYTHING) -> None:
        self.value = value
        self.support = support
        self.outside = outside

    def bits(self) -> Value:
        """The array of the support."""
        return fitted(self.support.array(), self.value.shape)

    def then(self, part: Tangent, finite: bool, harmless: bool) -> Selected | None:
        """What an elementwise linear map makes of this, which made `part` of the value.

        Arguments:
            finite: whether the map multiplies by infinity for infinite numbers alone.
            harmless: whether it makes zero of zero.
        """
        if part is None or part is self.value:
            return None if part is None else self
        if type(part) is Selected:
            branch = part.support
            assert isinstance(branch, Branch)
            return Selected(part.value, Branch(branch.cond, branch.holds, self.support))
        if self.outside == ZERO and (harmless or (finite and self.support.loose)):
            return Selected(part, self.support, ZERO)
        return Selected(part, self.support, max(self.outside, ZERO_OR_NAN))


Tangent: TypeAlias = Value | Selected | None
"""A tangent or cotangent inside of a walk; None is zero."""


def fitted(bits: Value, shape: tuple[int, ...]) -> Value:
    """A support at the shape of its value; one number is that of all elements."""
    if bits.shape == shape:
        return bits
    return bind(SELECT, bits, np.broadcast_to(np.True_, shape), np.broadcast_to(FALSE, shape))


def known_support(bits: Value, loose: bool = False) -> Support:
    """A support whose array there is."""
    return Support((), lambda: bits, loose)


def where(cond: Value, t: Value) -> Selected:
    """t where `cond` holds, zero elsewhere."""
    return Selected(t, Branch(cond, True))


def unless(cond: Value, t: Value) -> Selected:
    """t where `cond` does not hold, zero elsewhere."""
    return Selected(t, Branch(cond, False))


def _select(*operands: Operand) -> Any:
    return bind(SELECT, *operands)


def plain(t: Any) -> Any:
    """The array of a tangent or cotangent, with its zeros in place."""
    if type(t) is not Selected:
        return t
    if t.outside != ZERO and not (t.outside == ZERO_OR_NAN and has_no_nan(t.value)):
        zero, support = t.value.dtype.type(0), t.support
        if type(support) is Branch and support.outer is None:
            pair = (t.value, zero) if support.holds else (zero, t.value)
            known = type(t.value) is np.ndarray and type(support.cond) is np.ndarray
            choose = SELECT.evaluate_rule if known else _select
            t.value = choose(support.cond, *pair)
        else:
            t.value = bind(SELECT, support.array(), t.value, zero)
    t.outside = ZERO
    return t.value


def alike(t: Tangent, value: Value) -> Value | Selected:
    """Another array of a tangent or cotangent whose zeros are in place, with the same support."""
    return Selected(value, t.support, ZERO) if type(t) is Selected else value


def join(s: Tangent, t: Tangent) -> Tangent:
    """The sum of two tangents or cotangents; None is zero."""
    if s is None or t is None:
        return t if s is None else s
    if type(s) is not Selected or type(t) is not Selected:
        return bind(ADD, plain(s), plain(t))
    a, b = s.support, t.support
    if a is b:
        return Selected(bind(ADD, s.value, t.value), a, max(s.outside, t.outside))
    if isinstance(a, Branch) and a.completes(b):
        first, second = (s, t) if a.holds else (t, s)
        whole = bind(SELECT, a.cond, first.value, second.value)
        return whole if a.outer is None else Selected(whole, a.outer)
    known = type(s.value) is not Tracer and type(t.value) is not Tracer
    if known and max(s.outside, t.outside) == ZERO_OR_NAN:
        total = bind(ADD, s.value, t.value)
        if has_no_nan(total):  # nor has any of the two
            return Selected(total, either(a, b), ZERO)
    return Selected(bind(ADD, plain(s), plain(t)), either(a, b), ZERO)


def either(a: Support, b: Support) -> Support:
    """The union of two supports."""
    return Support((a, b), lambda x, y: bind(ADD, x, y), a.loose and b.loose)
