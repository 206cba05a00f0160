"""While loops that save the states of another one, or pull it back, say so in their equations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad import lax
from fgrad.errors import CheckError, ShapeError
from fgrad.ir.aval import FLOAT64, INT64, Aval
from fgrad.ir.check import check_program
from fgrad.ir.program import Eqn, Params, Program
from fgrad.ir.walk import subprograms
from fgrad.ops.control import while_p
from fgrad.trace import run, trace
from fgrad.transforms.control.while_loop import PullsBack, SavesStates

X, N = 0.7, 5


def loop(x: Any, n: Any) -> Any:
    step = lambda s: (s[0] + 1, np.sin(s[1]) * x)  # noqa: E731
    return lax.while_loop(lambda s: s[0] < n, step, (0, x))[1]


def slope_program() -> Program:
    """The derivative of a loop whose steps are not counted."""
    avals = [Aval((), FLOAT64), Aval((), INT64)]
    return trace(lambda x, n: [fgrad.grad(loop)(x, n)], avals).program


def loops_of(program: Program) -> list[Eqn]:
    return [eqn for p in subprograms(program) for eqn in p.eqns if eqn.prim is while_p]


def copied(eqn: Eqn) -> Eqn:
    """A loop of copies of its programs."""
    if eqn.prim is not while_p:
        return eqn
    params = {k: v.replace() if isinstance(v, Program) else v for k, v in eqn.params.items()}
    return eqn._replace(params=Params(params))


def test_roles_are_parameters() -> None:
    roles = [type(eqn.params["role"]) for eqn in loops_of(slope_program())]
    assert SavesStates in roles and PullsBack in roles
    assert "role=<SavesStates>" in str(slope_program())


def test_roles_survive_copies_of_programs() -> None:
    program = slope_program()
    copy = program.replace(eqns=tuple([copied(eqn) for eqn in program.eqns]))

    def second(p: Program) -> Program:
        slope = fgrad.grad(lambda x, n: run(p, [x, n])[0])
        return trace(lambda x, n: [slope(x, n)], program.in_avals).program

    found, expected = second(copy), second(program)
    assert len(loops_of(found)) == len(loops_of(expected))  # and not the loops of stacks
    x, n = np.float64(X), np.int64(N)
    numbers = fgrad.grad(fgrad.grad(loop))(X, N)
    np.testing.assert_allclose(run(found, [x, n])[0], numbers, rtol=1e-12)
    np.testing.assert_allclose(fgrad.jit(lambda x, n: run(found, [x, n])[0])(X, N), numbers)


def test_a_role_of_another_loop_is_refused() -> None:
    saving, pulling = (
        next(e for e in slope_program().eqns if isinstance(e.params.get("role"), kind))
        for kind in (SavesStates, PullsBack)
    )
    wrong = {**saving.params, "role": pulling.params["role"]}
    with pytest.raises(ShapeError, match="while with the role PullsBack"):
        while_p.type_of(*[a.aval for a in saving.inputs], **wrong)
    program = slope_program()
    eqns = [
        e._replace(params=Params({**e.params, "role": pulling.params["role"]}))
        if isinstance(e.params.get("role"), SavesStates)
        else e
        for e in program.eqns
    ]
    with pytest.raises(CheckError, match="P7"):
        check_program(program.replace(eqns=tuple(eqns)))
