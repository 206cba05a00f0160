"""L3. Loop bodies -> Python functions of NumPy calls, for eager loops.

    d = mul a 0.99; e = add d b        becomes        for k, v1 in ...:
                                                          v2 = v0 * c0
                                                          v0 = v2 + v1

A step then costs what the user's own loop costs.  Operators stand for scalars alone, where they are
what NumPy's functions compute, to the bit; all else calls the evaluation of its primitive.  What
depends on constants alone is computed before the loop.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from fgrad.ir.aval import Aval
from fgrad.ir.primitive import Primitive
from fgrad.ir.program import Atom, Eqn, Lit, Program, Var
from fgrad.ir.walk import must_run
from fgrad.ops.elementwise import convert_p
from fgrad.ops.families import BROADCAST
from fgrad.ops.index import gather_p, scatter_p
from fgrad.trace import Value

WORTH = 16  # steps of a body, in all of its loops so far, from which on its text is worth making

Function: TypeAlias = Callable[..., Value | tuple[Value, ...]]

# (*avals, **params) -> an evaluation for these, or None.
PREPARED: dict[Primitive, Callable[..., Function | None]] = {}

# Of the scalars that operators take.
_DTYPES = ("f4", "f8", "i8", "b1")


def is_worth(program: Program, steps: int) -> bool:
    """Whether a body that runs so many steps more has run often enough."""
    done = program.derived("steps", _Steps)
    done.count += steps
    return done.count >= WORTH


class _Steps:
    """How many steps of a body have run: they decide how, and not what, the next ones compute."""

    count = 0


def scan_loop(body: Program, n_consts: int, n_carry: int) -> Callable[..., tuple[Value, ...]]:
    """`loop(consts, carry, items, stacks)`: the last carry.

    `items` gives for each step its number and an item of each operand; the results of a step are
    written into `stacks` at its number.
    """
    key = ("scan loop", n_consts, n_carry)
    return body.derived(key, lambda: _scan_loop(body, n_consts, n_carry))


def _scan_loop(body: Program, n_consts: int, n_carry: int) -> Callable[..., tuple[Value, ...]]:
    text = _Text()
    names = [text.fresh() for _ in body.inputs]
    stop = n_consts + n_carry
    env: dict[Var, str] = dict(zip(body.inputs, names, strict=True))
    fixed = set(body.inputs[:n_consts])
    stacks = [text.fresh() for _ in body.outputs[n_carry:]]
    text.unpack(names[:n_consts], "consts")
    text.unpack(names[n_consts:stop], "carry")
    text.unpack(stacks, "stacks")
    once, each = _parts(body, fixed)
    text.equations(body, env, once)
    text.lines.append(f"for {', '.join(['k', *names[stop:]])}, in items:")
    outs = text.step(body, env, each)
    text.lines += [f"    {s}[k] = {y}" for s, y in zip(stacks, outs[n_carry:], strict=True)]
    text.assign(names[n_consts:stop], outs[:n_carry])
    text.lines.append("    pass")
    return text.function(
        f"scan of {body.name}", names[n_consts:stop], "consts, carry, items, stacks"
    )


def while_loops(
    cond: Program, body: Program, n_cond: int, n_body: int
) -> Callable[..., tuple[Value, ...]]:
    """`loop(cond_consts, body_consts, carry)`: the carry for which the condition fails."""
    key = ("while loop", cond, n_cond, n_body)
    return body.derived(key, lambda: _while_loop(cond, body, n_cond, n_body))


def _while_loop(
    cond: Program, body: Program, n_cond: int, n_body: int
) -> Callable[..., tuple[Value, ...]]:
    text = _Text()
    tests = [text.fresh() for _ in range(n_cond)]
    names = [text.fresh() for _ in body.inputs]
    carry = names[n_body:]
    cond_env: dict[Var, str] = dict(zip(cond.inputs, [*tests, *carry], strict=True))
    env: dict[Var, str] = dict(zip(body.inputs, names, strict=True))
    text.unpack(tests, "cond_consts")
    text.unpack(names[:n_body], "body_consts")
    text.unpack(carry, "carry")
    once, each = _parts(cond, set(cond.inputs[:n_cond]))
    body_once, body_each = _parts(body, set(body.inputs[:n_body]))
    text.equations(cond, cond_env, once)
    text.equations(body, env, body_once)
    text.lines.append("while True:")
    (goes_on,) = text.step(cond, cond_env, each)
    text.lines.append(f"    if not {goes_on}: break")
    text.assign(carry, text.step(body, env, body_each))
    return text.function(f"while of {body.name}", carry, "cond_consts, body_consts, carry")


def _parts(program: Program, fixed: set[Var]) -> tuple[list[Eqn], list[Eqn]]:
    """The equations that depend on constants alone, and those of each step."""
    fixed = fixed | {v for v, _ in program.consts}
    once: list[Eqn] = []
    each: list[Eqn] = []
    for eqn in program.eqns:
        if all([type(a) is Lit or a in fixed for a in eqn.inputs]) and not must_run(eqn):
            once.append(eqn)
            fixed.update(eqn.outputs)
        else:
            each.append(eqn)
    return once, each


class _Text:
    """The growing text of a function, and the objects that it names."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.given: dict[str, object] = {}
        self.count = 0

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def constant(self, value: object) -> str:
        """The name of an object: a local variable, by a default of the function."""
        name = f"c{len(self.given)}"
        self.given[name] = value
        return name

    def unpack(self, names: Sequence[str], of: str) -> None:
        if names:
            self.lines.append(f"{', '.join(names)}, = {of}")

    def assign(self, names: Sequence[str], values: Sequence[str]) -> None:
        """The carry of the next step, at once."""
        pairs = [(n, v) for n, v in zip(names, values, strict=True) if n != v]
        if pairs:
            left, right = zip(*pairs, strict=True)
            self.lines.append(f"    {', '.join(left)} = {', '.join(right)}")

    def atom(self, env: dict[Var, str], atom: Atom) -> str:
        if isinstance(atom, Lit):
            return self.constant(atom.value)
        return env[atom]

    def equations(self, program: Program, env: dict[Var, str], eqns: Sequence[Eqn]) -> None:
        """A line for each equation; constants get names."""
        for var, array in program.consts:
            env.setdefault(var, self.constant(array))
        alone = _spread_by_numpy(program)
        for eqn in eqns:
            if eqn.outputs and eqn.outputs[0] in alone:
                env[eqn.outputs[0]] = self.atom(env, eqn.inputs[0])
                continue
            atoms = [self.atom(env, a) for a in eqn.inputs]
            outs = [self.fresh() for _ in eqn.outputs]
            env.update(zip(eqn.outputs, outs, strict=True))
            left = ", ".join(outs) + "," * eqn.prim.multiple + " = " if outs else ""
            self.lines.append(left + self.value(eqn, atoms))

    def value(self, eqn: Eqn, atoms: Sequence[str]) -> str:
        """The text of an equation's value."""
        operator = eqn.prim.operator
        if operator is not None and all([_is_scalar(a) for a in (*eqn.inputs, *eqn.outputs)]):
            return operator.format(*atoms)
        return f"{self.constant(_rule(eqn))}({', '.join(atoms)})"

    def step(self, program: Program, env: dict[Var, str], eqns: Sequence[Eqn]) -> list[str]:
        """The lines of one step, indented; the names of its results."""
        start = len(self.lines)
        self.equations(program, env, eqns)
        self.lines[start:] = [f"    {line}" for line in self.lines[start:]]
        return [self.atom(env, a) for a in program.outputs]

    def function(
        self, name: str, results: Sequence[str], parameters: str
    ) -> Callable[..., tuple[Value, ...]]:
        """The function; what it names are defaults, so that they are local."""
        defaults = "".join([f", {c}={c}" for c in self.given])
        lines = [f"    {line}" for line in self.lines]
        head = f"def loop({parameters}{defaults}):"
        result = f"    return ({''.join([f'{r}, ' for r in results])})"
        scope: dict[str, Any] = dict(self.given)
        exec(compile("\n".join([head, *lines, result]), f"{__file__}: {name}", "exec"), scope)
        return scope["loop"]


def _rule(eqn: Eqn) -> Callable[..., Any]:
    """The evaluation of an equation, with its parameters."""
    prim, rule = eqn.prim, eqn.prim.evaluate_rule
    to_float = prim is convert_p and eqn.params["dtype"].kind == "f"
    if to_float and all([_is_scalar(a) for a in (*eqn.inputs, *eqn.outputs)]):
        return eqn.params["dtype"].type
    prepare = PREPARED.get(prim)
    if prepare is not None:
        prepared = prepare(*[a.aval for a in eqn.inputs], **eqn.params)
        if prepared is not None:
            return prepared
    return functools.partial(rule, **eqn.params) if eqn.params else rule


def _one_row(x: Aval, *indices: Aval, axes: tuple[int, ...], mode: str) -> Function | None:
    """x[i] for one number i, clipped."""
    if not _is_one_row(x, indices, axes) or mode != "clip":
        return None
    last = x.shape[0] - 1
    return lambda x, i: x[0 if i < 0 else last if i > last else i]


def _one_update(
    x: Aval, _updates: Aval, *indices: Aval, axes: tuple[int, ...], mode: str
) -> Function | None:
    """A copy of x with another x[i], where i is in bounds."""
    if not _is_one_row(x, indices, axes) or mode not in ("set", "add"):
        return None
    count = x.shape[0]

    def update(x: Value, row: Value, i: int) -> Value:
        out = np.array(x, order="C")
        if 0 <= i < count:
            out[i] = row if mode == "set" else out[i] + row
        return out

    return update


def _is_one_row(x: Aval, indices: Sequence[Aval], axes: tuple[int, ...]) -> bool:
    (i, *others) = indices
    number = not i.shape and i.dtype.kind == "i"
    return axes == (0,) and not others and number and x.shape[0] > 0 and x.dtype.kind != "V"


PREPARED.update({gather_p: _one_row, scatter_p: _one_update})


def _spread_by_numpy(program: Program) -> set[Var]:
    """Scalars that are broadcast for elementwise operations, which NumPy does by itself."""
    spread = {
        eqn.outputs[0]
        for eqn in program.eqns
        if eqn.prim is BROADCAST and not eqn.inputs[0].aval.shape
    }
    spread -= {a for a in program.outputs if type(a) is Var}
    for eqn in program.eqns:
        alone = [a for a in eqn.inputs if type(a) is Var and a in spread]
        whole = [a for a in eqn.inputs if a.aval.shape and a not in alone]
        if alone and (eqn.prim.scalar is None or not whole):
            spread.difference_update(alone)
    return spread


def _is_scalar(atom: Atom) -> bool:
    aval = atom.aval
    return not aval.shape and f"{aval.dtype.kind}{aval.dtype.itemsize}" in _DTYPES
