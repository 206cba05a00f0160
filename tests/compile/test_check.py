"""The checker finds every planted defect, and nothing in good programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from random_programs import programs

from fgrad.base.source import Loc
from fgrad.errors import CheckError
from fgrad.ir.aval import Aval
from fgrad.ir.check import check_program
from fgrad.ir.program import Eqn, Lit, Params, Program, Var
from fgrad.ir.text import parse_program

F64 = np.dtype(np.float64)
GOOD = parse_program(
    """program f(a: f64[3], b: f64[3]) -> (f64[3]):
  const k: f64[3] = [1.0 2.0 3.0]
  c: f64[3] = add a b
  d: f64[3] = mul c k
  return d
"""
)


def _replace_eqn(at: int, **changes: Any) -> Program:
    eqns = list(GOOD.eqns)
    eqns[at] = eqns[at]._replace(**changes)
    return GOOD.replace(eqns=tuple(eqns))


def _twice() -> Program:
    return GOOD.replace(eqns=(*GOOD.eqns, GOOD.eqns[0]))


def _unbound() -> Program:
    return _replace_eqn(0, inputs=(GOOD.inputs[0], Var(Aval((3,), F64))))


def _wrong_aval() -> Program:
    wrong = Var(Aval((4,), F64))
    return _replace_eqn(1, outputs=(wrong,)).replace(outputs=(wrong,))


def _unhashable() -> Program:
    return _replace_eqn(0, params=Params(x=[1]))


def _variable_in_params() -> Program:
    return _replace_eqn(0, params=Params(x=GOOD.inputs[0]))


def _bad_subprogram() -> Program:
    return _replace_eqn(0, params=Params(program=_unbound()))


def _shapes() -> Program:
    odd = Var(Aval((5,), F64))
    return _replace_eqn(0, inputs=(GOOD.inputs[0], odd)).replace(inputs=(*GOOD.inputs, odd))


def _dtypes() -> Program:
    odd = Var(Aval((3,), np.dtype(np.float32)))
    return _replace_eqn(0, inputs=(GOOD.inputs[0], odd)).replace(inputs=(*GOOD.inputs, odd))


def _half_located() -> Program:
    return _replace_eqn(0, loc=Loc("model.py", 1, "f"))


def _scalar_constant() -> Program:
    return GOOD.replace(consts=((GOOD.consts[0][0], np.array(1.0)),))


MUTANTS = [
    ("P1", _twice), ("P2", _unbound), ("P3", _wrong_aval), ("P4", _unhashable),
    ("P4", _variable_in_params), ("P2", _bad_subprogram), ("P6", _shapes), ("P7", _dtypes),
    ("P8", _half_located), ("P9", _scalar_constant),
]  # fmt: skip


@pytest.mark.parametrize(
    ("number", "mutant"), MUTANTS, ids=[f"{n}{m.__name__}" for n, m in MUTANTS]
)
def test_planted_defects_are_found(number: str, mutant: Any) -> None:
    with pytest.raises(CheckError, match=rf"after pass 'cse' in program f: {number}"):
        check_program(mutant(), "cse")


def test_the_neighbours_are_shown() -> None:
    with pytest.raises(CheckError, match=r"-> .*mul"):
        check_program(_wrong_aval())


def test_literals_fit_any_shape() -> None:
    one = Lit(np.float64(1.0))
    check_program(_replace_eqn(0, inputs=(GOOD.inputs[0], one)))


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_traced_programs_are_good(case: tuple[Program, list[Any]]) -> None:
    check_program(case[0])


def test_an_equation_may_have_no_operands() -> None:
    text = "program f() -> (i64[3]):\n  a: i64[3] = iota[shape=(3,) dtype=i64 axis=0]\n  return a\n"
    program = parse_program(text)
    check_program(program)
    assert isinstance(program.eqns[0], Eqn)
