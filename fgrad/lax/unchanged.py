"""L7. Loop-invariant carries, and operands that all branches return unchanged.

    (a, x) -> (a, f(a, x))     carried     becomes     x -> f(a, x)     with the constant a

Constants are neither copied in each step nor repeated for a batch, and derivatives keep them once.
"""

from __future__ import annotations

from collections.abc import Sequence

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.jit.call import call_p
from fgrad.ir.program import Atom, Program, Var
from fgrad.ir.walk import must_run
from fgrad.lax.bodies import Body
from fgrad.ops.control import switch
from fgrad.trace import Tracer, Value


class SplitCarry(NamedTuple):
    """The carries of a loop: which of them change, and the values of both kinds."""

    changed: list[int]
    kept: list[int]
    carry: list[Value]
    constants: list[Value]

    def program(self, program: Program, first: int) -> Program:
        """A program that takes the carries after `first` others, and gives them or other results:
        the constant ones come first, and are not given."""
        if not self.kept:
            return program
        given = program.inputs
        rest = given[first + len(self.changed) + len(self.kept) :]
        carried = [given[first + k] for k in (*self.kept, *self.changed)]
        return program.replace(inputs=(*given[:first], *carried, *rest))

    def body(self, body: Program, first: int) -> Program:
        """The same without the results that are constant."""
        if not self.kept:
            return body
        outs = [y for k, y in enumerate(body.outputs) if k not in self.kept]
        return self.program(body, first).replace(outputs=tuple(outs))

    def consts(self, captured: Sequence[Value]) -> list[Value]:
        """The constants of a program of the loop."""
        return [*captured, *self.constants]

    def results(self, outs: Sequence[Value]) -> list[Value]:
        """The results of the loop as it was written."""
        found: list[Value] = list(outs)
        for k, x in zip(self.kept, self.constants, strict=True):
            found.insert(k, _twin(x))
        return found


def split_carry(body: Body, carry: Sequence[Value]) -> SplitCarry:
    """Split carries into those that the body changes and those that it returns unchanged."""
    program, first = body.program, len(body.captured)
    kept = [k for k, x in enumerate(carry) if x.shape and _is_kept(program, first, k)]
    changed = [k for k in range(len(carry)) if k not in kept]
    return SplitCarry(changed, kept, [carry[k] for k in changed], [carry[k] for k in kept])


def _is_kept(program: Program, first: int, k: int) -> bool:
    return _passed_on(program, program.outputs[k]) is program.inputs[first + k]


def _passed_on(program: Program, atom: Atom) -> Atom:
    """What a result is, seen through jitted functions that return an argument."""
    if type(atom) is not Var or atom in program.inputs:
        return atom
    for eqn in reversed(program.eqns):
        if atom in eqn.outputs:
            inner = eqn.params.get("program") if eqn.prim is call_p else None
            if inner is None:
                return atom
            found = _passed_on(inner, inner.outputs[eqn.outputs.index(atom)])
            if found not in inner.inputs:
                return atom
            return _passed_on(program, eqn.inputs[inner.inputs.index(found)])
    return atom


def chosen(index: Value, branches: Sequence[Program], operands: Sequence[Value]) -> list[Value]:
    """The results of the branch that is chosen; what all of them pass on is no result of it."""
    passed = [_place(branches, k, operands) for k in range(len(branches[0].outputs))]
    kept = tuple([k for k, place in enumerate(passed) if place is None])
    acts = any([must_run(eqn) for b in branches for eqn in b.eqns])
    if len(kept) == len(passed) or (acts and not kept):
        return list(switch(index, branches, operands))
    found = iter(switch(index, [_only(b, kept) for b in branches], operands))
    return [next(found) if place is None else _twin(operands[place]) for place in passed]


def _place(branches: Sequence[Program], k: int, operands: Sequence[Value]) -> int | None:
    """The place of the operand that all branches have as a result."""
    places = {_input_of(b, k) for b in branches}
    place = places.pop() if len(places) == 1 else None
    return place if place is not None and operands[place].shape else None


def _input_of(program: Program, k: int) -> int | None:
    atom = _passed_on(program, program.outputs[k])
    return next((j for j, x in enumerate(program.inputs) if x is atom), None)


def _only(program: Program, kept: tuple[int, ...]) -> Program:
    """A program with some of its results."""
    outputs = tuple([program.outputs[k] for k in kept])
    return program.derived(("only", kept), lambda: program.replace(outputs=outputs))


def _twin(x: Value) -> Value:
    return x.twin() if type(x) is Tracer else x
