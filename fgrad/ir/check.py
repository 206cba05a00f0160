"""L1. The checker of array programs: nine numbered invariants; a failure names the pass and the
line.

P1 each Var is bound once                 P2 a Var is bound before it is used
P3 output avals are the type rule's       P4 params are hashable and hold no Var or tracer
P5 programs in params are closed and good P6 elementwise operands have one shape (Lits fit any)
P7 operand dtypes are promoted already    P8 all equations have a location, or none has (parsed
text) P9 constants are arrays of rank >= 1 that match their aval
"""

from __future__ import annotations

from collections.abc import Hashable

from fgrad.base.kinds import is_array, is_tuple
from fgrad.errors import CheckError, FgradError
from fgrad.ir.aval import Aval
from fgrad.ir.program import Eqn, Lit, Program, Var
from fgrad.ir.text import print_eqn
from fgrad.ir.walk import subprograms

_CONTEXT = 5
_PLAIN = frozenset({int, float, bool, str, type(None)})


def check_program(program: Program, after: str = "trace") -> None:
    """Raise unless the program and those in its parameters keep P1 to P9.

    Raises:
      CheckError: names the pass `after` which the defect was found, the program and the equation.
    """
    for each in reversed(subprograms(program)):
        _check_flat(each, after)


def _check_flat(program: Program, after: str) -> None:
    bound: set[Var] = set()
    for var in program.inputs:
        _require(var not in bound, "P1", "an input is bound twice", program, None, after)
        bound.add(var)
    for var, array in program.consts:
        _require(var not in bound, "P1", "a constant is bound twice", program, None, after)
        fits = is_array(array) and array.ndim >= 1
        fits = fits and (array.shape, array.dtype) == (var.aval.shape, var.aval.dtype)
        _require(fits, "P9", "a constant is not an array of its aval", program, None, after)
        bound.add(var)
    good: set[Hashable] = set()
    for k, eqn in enumerate(program.eqns):
        problem = _problem(eqn, bound, good)
        if problem is not None:
            _require(False, *problem, program, k, after)
        bound.update(eqn.outputs)
    located = {eqn.loc is not None for eqn in program.eqns}
    _require(len(located) < 2, "P8", "some equations have no location", program, None, after)
    for atom in program.outputs:
        known = type(atom) is Lit or atom in bound
        _require(known, "P2", "an output is not bound", program, None, after)


def _problem(eqn: Eqn, bound: set[Var], good: set[Hashable]) -> tuple[str, str] | None:
    """The number and text of the first invariant that an equation breaks.

    `good` are the kinds of equations that were found to be good: an equation with the primitive,
    the parameters and the types of an earlier one is as good as that.
    """
    prim, inputs, params, outputs, _, _ = eqn
    shape: tuple[int, ...] | None = None
    same_shape = True
    kind: list[Hashable] = [prim, params.content if params else ""]
    for atom in inputs:
        aval = atom.aval
        own = aval.shape
        if type(atom) is Var:
            if atom not in bound:
                return "P2", "an operand is not bound before"
            same_shape = same_shape and (shape is None or own == shape)
            shape = own
        elif own or atom.value.ndim:  # type: ignore[union-attr]
            return "P9", "a literal is not a scalar"
        kind += (type(atom), own, aval.dtype.num, aval.weak)
    if not bound.isdisjoint(outputs) or (len(outputs) > 1 and len(set(outputs)) < len(outputs)):
        return "P1", "a result is bound twice"
    for var in outputs:
        kind += (var.aval.shape, var.aval.dtype.num, var.aval.weak)
    key = tuple(kind)
    if key in good:
        return None
    problem = _problem_of_kind(eqn, same_shape)
    if problem is None:
        good.add(key)
    return problem


def _problem_of_kind(eqn: Eqn, same_shape: bool) -> tuple[str, str] | None:
    """What is wrong with the parameters or the types of an equation."""
    prim, inputs, params, _, _, _ = eqn
    if params:
        try:
            hash(params)
        except TypeError:
            return "P4", "a parameter is not hashable"
        for value in params.values():
            if type(value) not in _PLAIN and not _closed(value):
                return "P4", "a parameter holds a variable or a tracer"
    if prim.scalar is not None and not same_shape:
        shapes = {a.aval.shape for a in inputs if type(a) is Var}
        return "P6", f"elementwise operands have shapes {sorted(shapes)}"
    return _type_problem(eqn)


def _type_problem(eqn: Eqn) -> tuple[str, str] | None:
    try:
        avals = eqn.prim.type_of(*[a.aval for a in eqn.inputs], **eqn.params)
    except FgradError as error:
        return "P7", f"the type rule refuses: {error.headline}"
    except TypeError as error:
        return "P3", f"operands or parameters do not fit the primitive: {error}"
    expected = tuple(avals) if eqn.prim.multiple else (avals,)
    found = [v.aval for v in eqn.outputs]
    if len(expected) != len(found) or not all(map(Aval.fits, expected, found)):
        return "P3", f"the type rule gives {', '.join(map(str, expected))}"
    return None


def _closed(value: object) -> bool:
    if is_tuple(value):
        return all([type(item) in _PLAIN or _closed(item) for item in value])
    return not isinstance(value, Var | Lit) and not isinstance(getattr(value, "aval", None), Aval)


def _require(
    good: bool, number: str, text: str, program: Program, eqn: int | None, after: str
) -> None:
    if good:
        return
    where = "" if eqn is None else f" eqn {eqn}"
    rows = [("why", text)]
    if eqn is not None:
        low = max(0, eqn - _CONTEXT)
        shown = program.eqns[low : eqn + _CONTEXT + 1]
        rows += [("near", _line(e, low + k == eqn)) for k, e in enumerate(shown)]
    rows.append(("write", "FGRAD_DUMP=dir writes the program after each pass"))
    message = f"after pass {after!r} in program {program.name}: {number}{where} is broken."
    raise CheckError(message, rows)


def _line(eqn: Eqn, guilty: bool) -> str:
    marker = "->" if guilty else "  "
    return f"{marker} {print_eqn(eqn)}" + (f"    # {eqn.loc}" if eqn.loc else "")
