"""L7. Arrays that a loop carries and does not change: they become constants of it.

    (a, x) -> (a, f(a, x))     carried     becomes     x -> f(a, x)     with the constant a

Constants are neither copied in each step nor repeated for a batch, and derivatives keep them once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fgrad.ir.program import Program, Var
from fgrad.lax.bodies import Body
from fgrad.trace import Tracer, Value


class Split(NamedTuple):
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
            found.insert(k, x.twin() if type(x) is Tracer else x)
        return found


def split(body: Body, carry: Sequence[Value]) -> Split:
    """The carries that a body changes, and those that it gives back as they were."""
    program, first = body.program, len(body.captured)
    kept = [k for k, x in enumerate(carry) if x.shape and _is_kept(program, first, k)]
    changed = [k for k in range(len(carry)) if k not in kept]
    return Split(changed, kept, [carry[k] for k in changed], [carry[k] for k in kept])


def _is_kept(program: Program, first: int, k: int) -> bool:
    out = program.outputs[k]
    return type(out) is Var and out is program.inputs[first + k]
