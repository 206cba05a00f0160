"""L7. A primitive -> the rule, or default, that each pass applies to it.

A pass asks for traits (ir/traits.py), or has a table keyed by primitives.  What holds for those
that are not in its table is written here, so that the card of a primitive says it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.loops.branches import LOOP_RULES
from fgrad.compile.loops.find_batch_axes import LANE_RULES
from fgrad.compile.lower.groups import LIBRARY_STEPS
from fgrad.compile.lower.linalg import NATIVE
from fgrad.compile.lower.nest import NESTS
from fgrad.compile.lower.rules import RULES
from fgrad.compile.passes.inline import EXPANSIONS
from fgrad.compile.passes.legalize_complex import OTHERS
from fgrad.compile.passes.legalize_complex import RULES as REAL_PARTS
from fgrad.compile.passes.simplify import EXACT, FASTMATH
from fgrad.ir.primitive import Primitive
from fgrad.ir.traits import Holds
from fgrad.transforms.checkpoint.checkpoint import barrier_p
from fgrad.transforms.sparse.pattern import PATTERN_RULES

Default = Callable[[Primitive], "str | None"]


class PassRule(NamedTuple):
    """How a pass treats primitives.

    rule: the function for a primitive, or None.
    default: what holds without a rule, as the end of a sentence; None where that is a mistake.
    """

    label: str
    rule: Callable[[Primitive], object]
    default: Default


def _always(text: str) -> Default:
    return lambda _: text


def _lowering(prim: Primitive) -> object:
    for table in (NESTS, LIBRARY_STEPS):
        if prim in table:
            return table[prim]
    if prim in NATIVE:
        return NATIVE[prim].step
    try:
        return RULES[prim]
    except KeyError:
        return None


def _lowered_by(prim: Primitive) -> str | None:
    if prim.host is not None:
        return f"is called on the host ({prim.host.value})"
    if prim.holds is Holds.CALL or prim in EXPANSIONS or prim.composition is not None:
        return "is gone: pass inline has put its equations in its place"
    if prim is barrier_p:
        return "passes its operands on"
    return None


def _inlined(prim: Primitive) -> str:
    return "the equations of `program`" if prim.holds is Holds.CALL else "stays an equation"


def _in_loops(prim: Primitive) -> str:
    return "its loop is compiled by itself, not written out in a kernel"


def _pattern(prim: Primitive) -> str:
    if prim.fold is not None or prim.elementwise or prim.movement is not None:
        return "follows from its traits"
    if prim.holds is Holds.CALL:
        return "that of `program`"
    return "each result may depend on all operands"


def _in_table(table: Mapping[Primitive, object]) -> Callable[[Primitive], object]:
    return lambda prim: table.get(prim)


PASS_RULES = (
    PassRule("inline", lambda p: p.composition or EXPANSIONS.get(p), _inlined),
    PassRule("lowering", _lowering, _lowered_by),
    PassRule("loops in kernels", _in_table(LOOP_RULES), _in_loops),
    PassRule(
        "axes of loops", _in_table(LANE_RULES), lambda p: "axes of equal length belong together"
        if p.scalar else "no axis of its operands is one of its results"
    ),
    PassRule(
        "complex numbers as parts", lambda p: REAL_PARTS.get(p) or OTHERS.get(p),
        _always("NumPy computes complex operands"),
    ),
    PassRule("sparsity", _in_table(PATTERN_RULES), _pattern),
)  # fmt: skip


def laws_of(prim: Primitive) -> list[str]:
    """The names of the laws by which pass simplify rewrites equations of a primitive."""
    return [law.name for law in (*EXACT, *FASTMATH) if law.rewrites(prim)]
