"""L7. A function of arrays as a program that a writer of another format can write.

f, arguments -> Program of what the format has; arrays from outside are constants

Calls and compositions become equations, and checks that always pass go.  What the format does not
have is refused where it is written, by `no_form`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fgrad import tree
from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.jit.inspect import jitted
from fgrad.compile.passes.cse import cse
from fgrad.compile.passes.dce import dce
from fgrad.compile.passes.fold import fold
from fgrad.compile.passes.inline import Expansions, inline_calls
from fgrad.compile.passes.legalize_complex import legalize_all_complex, legalize_complex
from fgrad.compile.passes.ranges import ranges
from fgrad.compile.passes.simplify import simplify
from fgrad.errors import ArgumentError, UnsupportedFormatError
from fgrad.ir.program import Eqn, Program
from fgrad.ir.text import print_eqn
from fgrad.ir.walk import has_checks
from fgrad.transforms.core.shapes import stand_in
from fgrad.typing import PyTree


class Format(NamedTuple):
    """What a writer needs of programs: its name, what it lets be composed of others, and whether
    it has real numbers alone."""

    name: str
    expansions: Expansions
    real: bool = False


def traced(
    f: Callable[..., PyTree], args: Sequence[PyTree], kwargs: dict[str, PyTree], form: Format
) -> Program:
    """The program of a function for the types of some arguments.

    Raises:
        ArgumentError: its calls write into arguments or containers.
    """
    plain, named = tree.map(stand_in, (tuple(args), kwargs))
    entry = jitted(f).entry_of(plain, named, closed_over=True)
    effects = entry.effects
    if effects is not None and (effects.writes or effects.stores):
        raise ArgumentError(
            f"{form.name}: {f} writes into its arguments, which a program of arrays cannot do.",
            (("write", "a function that returns the new arrays"),),
        )
    return prepared(entry.whole(), form)


def prepared(program: Program, form: Format) -> Program:
    """The program as it is written; bodies of loops and branches are prepared when these are."""
    program = dce(inline_calls(program, form.expansions))
    if form.real:
        split = legalize_all_complex(legalize_complex(program))
        program = program if split is program else dce(inline_calls(split, form.expansions))
    program = cse(program)
    program = inline_calls(simplify(fold(program)), form.expansions)
    if has_checks(program):
        program = ranges(program)
    return dce(program)


def no_such_numbers(form: Format, dtype: np.dtype) -> UnsupportedFormatError:
    """The card for an input, result or constant of a dtype that a format has not."""
    rows = (("write", "the real and the imaginary part, or x.astype(np.float32)"),)
    return UnsupportedFormatError(f"{form.name} has no numbers of dtype {dtype}.", rows)


def no_form(form: Format, eqn: Eqn, why: str = "") -> UnsupportedFormatError:
    """The card for an equation that cannot be written."""
    rows = [("used", f"{eqn.loc}:  {eqn.loc.text()}")] if eqn.loc is not None else []
    if eqn.prim.checks:
        rows.append(("why", f"it may raise an error when it runs, which {form.name} cannot."))
        rows.append(("write", "checks=False      errors are left out, see there"))
        return UnsupportedFormatError(f"{form.name} has no checks of values.", rows)
    rows.append(("in", print_eqn(eqn)))
    if why:
        rows.append(("why", why))
    return UnsupportedFormatError(f"{form.name} has no form of {eqn.prim.name}.", rows)
