"""Locations, names and provenance never change a result; and they survive every transform."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.compile.jit.call import executable_of
from fgrad.ir.aval import Aval
from fgrad.ir.program import Program
from fgrad.trace import trace

X = np.array([0.4, -0.3, 0.8])


def loss(x: Any) -> Any:
    """Three lines of user code."""
    y = np.sin(x) * x
    z = np.where(y > 0, y, np.exp(y))
    return np.sum(z)


FIRST = loss.__code__.co_firstlineno
LINES = set(range(FIRST, FIRST + 5))

TRANSFORMED: dict[str, Callable[[Any], Any]] = {
    "plain": loss,
    "grad": fgrad.grad(loss),
    "jvp": lambda x: fgrad.jvp(loss, (x,), (x,))[1],
    "hessian": fgrad.hessian(loss),
    "vmap": lambda x: fgrad.vmap(loss)(np.stack([x, x]) if not hasattr(x, "builder") else x[None]),
    "vmap(grad)": lambda x: fgrad.vmap(fgrad.grad(loss))(x[None]),
    "grad(jit)": fgrad.grad(fgrad.jit(loss)),
}
DIRECT = ("plain", "grad", "jvp")


def traced(fun: Callable[[Any], Any]) -> Program:
    """The program of a function of X."""
    return trace(lambda x: [fun(x)], [Aval(X.shape, X.dtype)], "f").program


@pytest.mark.parametrize("name", TRANSFORMED)
def test_every_equation_has_the_users_location(name: str) -> None:
    program = traced(TRANSFORMED[name])
    assert program.eqns
    for eqn in program.eqns:
        assert eqn.loc is not None and eqn.loc.file == __file__, eqn
    if name in DIRECT:
        assert {eqn.loc.line for eqn in program.eqns if eqn.loc} <= LINES


@pytest.mark.parametrize("name", TRANSFORMED)
def test_stripping_metadata_changes_nothing(name: str) -> None:
    program = traced(TRANSFORMED[name])
    bare = program.replace(
        name="other",
        eqns=tuple(eqn._replace(loc=None, via=()) for eqn in program.eqns),
        made_by="nobody",
    )
    with fgrad.config.override(check=0):
        for a, b in zip(executable_of(program)([X]), executable_of(bare)([X]), strict=True):
            np.testing.assert_array_equal(a, b)


def test_provenance_names_the_transform() -> None:
    assert any(eqn.via == ("vjp",) for eqn in traced(fgrad.grad(loss)).eqns)
    assert any("vmap" in eqn.via for eqn in traced(TRANSFORMED["vmap(grad)"]).eqns)
