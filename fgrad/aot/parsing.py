"""L7. The text in a file -> a checked program, which cannot do anything but compute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fgrad.aot.files import File, damaged
from fgrad.aot.located import locate
from fgrad.aot.operations import import_operations
from fgrad.base.sizes import Size
from fgrad.compile.jit import call as calls
from fgrad.errors import CheckError, FgradError
from fgrad.ir.aval import Aval
from fgrad.ir.check import check_program
from fgrad.ir.program import Program
from fgrad.ir.text import parse_program
from fgrad.ir.walk import communicates, subprograms
from fgrad.transforms.control import jvp, vjp, vmap  # noqa: F401 - rules of loops and branches

if TYPE_CHECKING:
    from fgrad.aot.trusted import Executable

MOST_BYTES = 1 << 46  # of one array in a program


def program_of(
    file: File,
    in_avals: Sequence[Aval],
    out_avals: Sequence[Aval] | None,
    sizes: Sequence[Size] = (),
) -> Program:
    """The program of a file, with these numbers for the sizes that it names; `out_avals` is None
    where these are not known.

    Raises:
        ExportError: the text is no program, or not one of these types.
    """
    data = bytes(file.section(file.head.get("program")))
    places = file.head.get("constants")
    arrays = file.head.get("arrays")
    if type(places) is not list or type(arrays) is not list:
        file.refuse("it has no list of constants")
    if not all([type(k) is int and 0 <= k < len(arrays) for k in places]):
        file.refuse("it has no such constant")
    constants = [file.array(arrays[k]) for k in places]
    try:
        text = data.decode("ascii")
        import_operations(text)
        program = parse_program(text, constants, sizes)
        locate(program, file.path)
        check_program(program, "load")
    except CheckError as error:
        file.refuse(f"its program is not sound: {error.headline} {_why(error)}")
    except Exception as error:
        file.refuse(f"its program cannot be read: {type(error).__name__}")
    if [*map(_plain, program.in_avals)] != [*map(_plain, in_avals)]:
        file.refuse("the program takes other arguments than its head says")
    if out_avals is not None and [*map(_plain, program.out_avals)] != [*map(_plain, out_avals)]:
        file.refuse("the program gives other results than its head says")
    for each in subprograms(program):
        for eqn in each.eqns:
            if eqn.prim.owner is not None or eqn.prim.effect or communicates(eqn):
                file.refuse(f"its program has the operation {eqn.prim.name}")
            for var in eqn.outputs:
                shape = var.aval.shape
                few = sizes and any([n < 0 for n in shape])
                if few or var.aval.size * var.aval.dtype.itemsize > MOST_BYTES:
                    file.refuse("its program has an array that no memory holds")
    return program


def executable_of(file: File, program: Program) -> Executable:
    """The compiled form of a program from a file.

    Raises:
        ExportError: it cannot be compiled.
    """
    try:
        return calls.executable_of(program)
    except FgradError:
        raise
    except Exception as error:
        why = f"its program cannot be compiled: {type(error).__name__}"
        raise damaged(file.path, why) from error


def _why(error: FgradError) -> str:
    return next((text for label, text in error.rows if label == "why"), "")


def _plain(aval: Aval) -> tuple[object, ...]:
    return aval.shape, aval.dtype
