"""L5. Equal bodies of loops and branches -> one program.

A loop that is written out has a copy of each loop in it for every step.  What is derived of a
program (derivatives, its form in kernels) is made once for the program, so once for all of them.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Hashable

from fgrad.base.sizes import OPEN
from fgrad.ir.aval import dtype_text
from fgrad.ir.program import Atom, Lit, Program


class _Known(threading.local):
    """The programs that are in use, by what they are made of."""

    def __init__(self) -> None:
        self.programs: weakref.WeakValueDictionary[Hashable, Program] = (
            weakref.WeakValueDictionary()
        )


KNOWN = _Known()


def shared(program: Program) -> Program:
    """The program, or the first one that is equal to it: in its equations, their places in the
    user's text, its types and names; sizes that may change belong to one trace."""
    if program.consts or OPEN.traces:
        return program
    return KNOWN.programs.setdefault(_content(program), program)


def _content(program: Program) -> Hashable:
    numbers: dict[Atom, int] = {v: k for k, v in enumerate(program.inputs)}

    def word(a: Atom) -> Hashable:
        return (
            numbers[a] if not isinstance(a, Lit) else (dtype_text(a.value.dtype), a.value.tobytes())
        )

    eqns: list[Hashable] = []
    for eqn in program.eqns:
        ins = tuple(map(word, eqn.inputs))
        for v in eqn.outputs:
            numbers[v] = len(numbers)
        outs = tuple([_type(v) for v in eqn.outputs])
        eqns.append((eqn.prim, ins, eqn.params.content, outs, eqn.loc, eqn.via))
    inputs = tuple([_type(v) for v in program.inputs])
    return program.name, program.made_by, inputs, tuple(eqns), tuple(map(word, program.outputs))


def _type(v: Atom) -> Hashable:
    aval = v.aval
    return aval.shape, aval.dtype, aval.weak, aval.varies
