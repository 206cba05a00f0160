"""Tables are complete: every primitive has a rule or a refusal in every slot, and a lowering."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from sources import load_primitives

from fgrad.compile.cpu import native_routines
from fgrad.compile.cpu.exchanges import Exchange
from fgrad.compile.cpu.ufunc_loops import UfuncLoop
from fgrad.compile.kernel.rewrite import identity
from fgrad.compile.kernel.scalar import ACCUMULATORS, SCALAR_OPS, TRANSCENDENTAL
from fgrad.compile.llvm.vector.scalar_llvm import SCALAR_LLVM
from fgrad.compile.lower.groups import LIBRARY_STEPS
from fgrad.compile.lower.nest import NESTS
from fgrad.compile.lower.rules import COMPOSED, VALUE_RULES
from fgrad.compile.passes.inline import EXPANSIONS
from fgrad.compile.tasks.routines import FusedProduct, OneCall, SpecialFunction
from fgrad.errors import CheckError
from fgrad.ir.primitive import REGISTRY, Primitive, Refusal
from fgrad.ir.traits import PLAIN, Along, Cost, Holds, Rounding, folding
from fgrad.lower_cuda.library.steps import LIBRARY_CUDA
from fgrad.transforms.checkpoint.checkpoint import barrier_p

load_primitives()
PRIMITIVES = sorted(REGISTRY.values(), key=lambda p: p.name)


@pytest.mark.parametrize("prim", PRIMITIVES, ids=lambda p: p.name)
def test_every_slot_is_filled_or_refused(prim: Primitive) -> None:
    for slot in ("type_rule", "evaluate", "jvp", "batch"):
        assert slot in prim.rules, f"{prim.name} has neither a rule nor a refusal for {slot}"
    if prim.linear_in is not None and not prim.maps:
        assert "transpose" in prim.rules
    for rule in prim.rules.values():
        if isinstance(rule, Refusal):
            assert rule.why


@pytest.mark.parametrize("prim", PRIMITIVES, ids=lambda p: p.name)
def test_every_primitive_has_a_lowering(prim: Primitive) -> None:
    tables = (VALUE_RULES, NESTS, LIBRARY_STEPS, EXPANSIONS, {barrier_p})
    elementwise = prim.scalar in SCALAR_OPS or prim.scalar in COMPOSED
    expanded = prim.composition is not None or prim.holds is Holds.CALL
    assert elementwise or expanded or prim.host or any(prim in table for table in tables)


def test_the_scalar_tables_agree() -> None:
    assert set(SCALAR_LLVM) == set(SCALAR_OPS)


@pytest.mark.parametrize("prim", PRIMITIVES, ids=lambda p: p.name)
def test_every_fold_has_an_accumulator(prim: Primitive) -> None:
    assert prim.fold is None or prim.fold.op in ACCUMULATORS, f"{prim.name}: {prim.fold}"


@pytest.mark.parametrize("prim", PRIMITIVES, ids=lambda p: p.name)
def test_every_formula_has_its_cost(prim: Primitive) -> None:
    assert prim.scalar not in TRANSCENDENTAL or prim.cost is Cost.FUNCTION


UFUNCS = {
    "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum,
    "and": np.bitwise_and, "or": np.bitwise_or,
}  # fmt: skip


@pytest.mark.parametrize("op", ACCUMULATORS)
def test_accumulators_start_from_a_neutral_element(op: str) -> None:
    for dtype in (np.dtype(c) for c in "?bBhHiIqQfd"):
        if dtype.kind in ACCUMULATORS[op]:
            values = np.array([0, 1, 1, 0], dtype)
            start = np.array(identity(op, dtype), dtype)
            np.testing.assert_array_equal(UFUNCS[op](values, start), values, f"{op} {dtype}")


@pytest.mark.parametrize("op", ACCUMULATORS)
def test_folds_of_integers_alone_are_exact(op: str) -> None:
    exact = folding(Along.AXES, op).rounding is Rounding.EXACT
    assert exact or "f" in ACCUMULATORS[op]


def test_a_slot_is_written_once() -> None:
    prim = REGISTRY["sin"]
    with pytest.raises(CheckError, match="written twice"):
        prim.evaluate(abs)
    with pytest.raises(CheckError, match="defined twice"):
        Primitive("sin", PLAIN)


def test_a_refused_second_rule_changes_nothing() -> None:
    prim = REGISTRY["sin"]
    before = prim.evaluate_rule, prim.type_of
    for slot in (prim.evaluate, prim.type_rule):
        with pytest.raises(CheckError, match="written twice"):
            slot(abs)
    assert (prim.evaluate_rule, prim.type_of) == before


# --- routines


def test_every_routine_has_code_on_the_cpu() -> None:
    """By name: those of steps, and the loops in C that evaluations are."""
    tasks = {kind.__name__ for kind in get_args(OneCall)}
    assert set(native_routines._NATIVE) == {
        *tasks,
        SpecialFunction.__name__,
        UfuncLoop.__name__,
        Exchange.__name__,
    }


def test_every_routine_has_a_form_on_the_gpu() -> None:
    assert set(LIBRARY_CUDA) == {*get_args(OneCall), FusedProduct}
