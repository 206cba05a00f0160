"""L4. Checks of values in lanes that have ended, or chose another branch, always pass.

Where lanes of a batch run one body together, some compute what is not used.  A check there
(`x[i]` in bounds, a divisor that is not zero) would fail for what the program never does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.base.kinds import is_tuple
from fgrad.ir.aval import BOOL, Aval
from fgrad.ir.program import Atom, Eqn, Lit, Params, Program, Var
from fgrad.ir.walk import has_checks, may_raise, programs_in, resolve_atom, resolve_operands
from fgrad.ops.checked import checked_p, in_range_p, required_p
from fgrad.ops.control import scan_p, switch_p, while_p
from fgrad.ops.elementwise import not_, or_, select
from fgrad.ops.shape import broadcast
from fgrad.trace import Value, bind
from fgrad.tracing.thread_state import THREAD
from fgrad.transforms.core.derived_programs import derived_program

_GO = Aval((), BOOL)


def guarded(program: Program) -> Program:
    """The program with a truth value as its first input; where it is false, no check fails."""

    def run_guarded(go: Value, *args: Value) -> list[Value]:
        env: dict[Var, Value] = dict(zip(program.inputs, args, strict=True))
        env.update(program.consts)
        state = THREAD.state
        saved = state.loc
        try:
            for eqn in program.eqns:
                state.loc = eqn.loc
                ins = [x.value if type(x) is Lit else env[x] for x in eqn.inputs]  # type: ignore[index]
                out: Any = _equation(eqn, go, ins)
                env.update(zip(eqn.outputs, out if eqn.prim.multiple else (out,), strict=True))
        finally:
            state.loc = saved
        return [x.value if type(x) is Lit else env[x] for x in program.outputs]  # type: ignore[index]

    return derived_program(program, "guarded", run_guarded, [_GO, *program.in_avals], "vmap")


def unchecked(program: Program) -> Program:
    """The program without its checks, which others make: for what is computed before it is known
    whether it is needed."""
    if not has_checks(program):
        return program

    def make() -> Program:
        env: dict[Var, Atom] = {}
        kept: list[Eqn] = []
        for eqn in program.eqns:
            eqn = resolve_operands(eqn, env)
            if eqn.prim.checks:
                env[eqn.outputs[0]] = eqn.inputs[0]
            elif may_raise(eqn):
                params = {k: _unchecked_in(x) for k, x in eqn.params.items()}
                kept.append(eqn._replace(params=Params(params)))
            else:
                kept.append(eqn)
        outputs = tuple([resolve_atom(a, env) for a in program.outputs])
        return program.replace(eqns=tuple(kept), outputs=outputs)

    return program.derived("unchecked", make)


def _unchecked_in(x: object) -> object:
    if is_tuple(x):
        return tuple([_unchecked_in(item) for item in x])
    return unchecked(x) if isinstance(x, Program) else x


def _equation(eqn: Eqn, go: Value, ins: Sequence[Value]) -> object:
    """The result of an equation whose checks count only where `go` is true."""
    params: dict[str, Any] = dict(eqn.params)
    if eqn.prim is checked_p:
        x, passed = ins
        return bind(checked_p, x, or_(passed, _like(not_(go), passed)), **params)
    if eqn.prim is required_p:
        return bind(required_p, or_(ins[0], _like(not_(go), ins[0])), **params)
    if eqn.prim is in_range_p:
        return bind(in_range_p, _in_place_of(ins[0], go, params), **params)
    if any(map(has_checks, programs_in(params))):
        if eqn.prim is scan_p:
            params |= {"body": guarded(params["body"]), "n_consts": params["n_consts"] + 1}
            ins = [go, *ins]
        elif eqn.prim is while_p and params["role"] is None:
            n = params["n_cond"]
            params |= {"body": guarded(params["body"]), "n_body": params["n_body"] + 1}
            ins = [*ins[:n], go, *ins[n:]]
        elif eqn.prim is switch_p:
            params["branches"] = tuple(map(guarded, params["branches"]))
            ins = [ins[0], go, *ins[1:]]
    return bind(eqn.prim, *ins, **params)


def _like(go: Value, x: Value) -> Value:
    """A truth value for each element."""
    shape = np.shape(x)
    return broadcast(go, shape, ()) if shape else go


def _in_place_of(n: Value, go: Value, params: dict[str, Any]) -> Value:
    """The integers, and such as are in range where they are not used."""
    low, high = params["low"], params["high"]
    dtype = n.dtype
    allowed = dtype.type(low if low is not None else min(high, 0))
    fill = broadcast(allowed, np.shape(n), ()) if np.shape(n) else allowed
    return select(_like(go, n), n, fill)
