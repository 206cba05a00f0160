"""L4. What the derivatives of a program's results depend on.

The cotangent of a carry that leads to no result with a cotangent is zero in all steps of a loop: a
backward loop has none for it, so that it costs nothing, and meets no infinite derivative.
"""

from __future__ import annotations

from collections.abc import Sequence

from fgrad.ir.program import Atom, Eqn, Program
from fgrad.ops.control import scan_p, switch_p, while_p
from fgrad.ops.families import FLOATS
from fgrad.transforms.control.common import inexact_mask

Reach = tuple[int, ...]  # for each result, the bits of the inputs that it depends on


def reach_of(program: Program) -> Reach:
    """The inputs that each result depends on by floats, as bits."""
    return program.derived(("reach",), lambda: _reach(program))


def _reach(program: Program) -> Reach:
    found: dict[Atom, int] = {v: 1 << k for k, v in enumerate(program.inputs) if _is_float(v)}
    for eqn in program.eqns:
        if eqn.prim.discrete:
            continue
        operands = [found.get(a, 0) for a in eqn.inputs]
        if any(operands):
            pairs = zip(eqn.outputs, _of_results(eqn, operands), strict=True)
            found.update([(v, bits) for v, bits in pairs if bits and _is_float(v)])
    return tuple([found.get(a, 0) for a in program.outputs])


def _is_float(atom: Atom) -> bool:
    return atom.aval.dtype.kind in FLOATS


def _of_results(eqn: Eqn, operands: Sequence[int]) -> Sequence[int]:
    """What the results of an equation depend on, for what its operands do."""
    p = eqn.params
    if eqn.prim is switch_p:
        each = [reach_of(branch) for branch in p["branches"]]
        return [_joined(operands[1:], column) for column in zip(*each, strict=True)]
    if eqn.prim is scan_p:
        return _of_loop(p["body"], operands, p["n_consts"], p["n_carry"])
    if eqn.prim is while_p:
        body = p["body"]
        return _of_loop(body, operands[p["n_cond"] :], p["n_body"], len(body.outputs))
    return [_joined(operands, [-1])] * len(eqn.outputs)


def _of_loop(body: Program, operands: Sequence[int], first: int, n_carry: int) -> list[int]:
    """What the last carry of a loop, and its stacked results, depend on."""
    of_body, operands = reach_of(body), list(operands)
    while True:
        results = [_joined(operands, [bits]) for bits in of_body]
        before = operands[first : first + n_carry]
        after = [a | b for a, b in zip(before, results[:n_carry], strict=True)]
        if after == before:
            return [*after, *results[n_carry:]]
        operands[first : first + n_carry] = after


def _joined(operands: Sequence[int], selections: Sequence[int]) -> int:
    """What the operands depend on that one of some selections has."""
    bits = 0
    for selection in selections:
        bits |= selection
    found = 0
    for k, own in enumerate(operands):
        if bits >> k & 1:
            found |= own
    return found


def carries_with_cotangents(
    body: Program, first: int, n_carry: int, given: Sequence[bool]
) -> list[bool]:
    """Which carries of a loop have cotangents in some step.

    Arguments:
        body: its step.
        first, n_carry: the place of the first carry among the body's inputs, and their number.
        given: which results of the loop have cotangents, last carries and stacked ones.
    """
    reach, found = reach_of(body), list(given)
    while True:
        bits = 0
        for has, own in zip(found, reach, strict=True):
            bits |= own if has else 0
        after = [has or bool(bits >> (first + k) & 1) for k, has in enumerate(found[:n_carry])]
        if after == found[:n_carry]:
            return after
        found[:n_carry] = after


def inputs_with_tangents(body: Program, first: int, traced: Sequence[bool]) -> list[bool]:
    """The `traced` inputs of a loop's step that are floats, and the carries, from the `first` input
    on, that depend on them in some step."""
    reach, found = reach_of(body), list(inexact_mask(body.in_avals, traced))
    while True:
        bits = sum([1 << k for k, has in enumerate(found) if has])
        after = [has or bool(own & bits) for has, own in zip(found[first:], reach, strict=True)]
        if after == found[first:]:
            return found
        found[first:] = after
