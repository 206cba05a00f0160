"""L5. The operators that rewritten code calls, by name: `capture_.for_(...)`."""

from __future__ import annotations

from fgrad.capture import conditions, elements, identity, raising
from fgrad.capture.branches import if_
from fgrad.capture.calls import class_of, own, ready
from fgrad.capture.comprehensions import over
from fgrad.capture.convert import OPERATORS, called, captured, filled, light
from fgrad.capture.loops import for_, while_
from fgrad.capture.patterns import pattern
from fgrad.tracing.texts import shown

OPERATORS.called, OPERATORS.light, OPERATORS.filled, OPERATORS.own = called, light, filled, own
OPERATORS.for_, OPERATORS.while_, OPERATORS.if_ = for_, while_, if_
OPERATORS.class_, OPERATORS.over = class_of, over
OPERATORS.pattern = pattern
OPERATORS.slice, OPERATORS.shown, OPERATORS.ready = slice, shown, ready
for _name in ("both", "any_of", "all_hold", "one_holds", "not_", "either", "chained"):
    setattr(OPERATORS, _name, getattr(conditions, _name))
OPERATORS.is_, OPERATORS.is_not = identity.is_, identity.is_not
for _name in ("assert_", "raised", "trying", "caught"):
    setattr(OPERATORS, _name, getattr(raising, _name))
for _name in (
    "item", "set_item", "change_item", "changed", "set_attribute", "change_attribute", "made",
    "changes", "effect", "made_cell", "changes_cell",
):  # fmt: skip
    setattr(OPERATORS, _name, getattr(elements, _name))

__all__ = ["captured", "light"]
