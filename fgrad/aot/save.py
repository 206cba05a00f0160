"""L7. `export`: a function -> a file with its program as text, its constants and machine code."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import NoReturn

import numpy as np

from fgrad import tree
from fgrad.aot.axes import Axes
from fgrad.aot.coded import code_for_lengths, code_for_one
from fgrad.aot.files import FORMAT, NotPlain, spec_of, version
from fgrad.aot.located import locate
from fgrad.aot.symbols import Symbols, numbered, traced_with_symbols
from fgrad.aot.writing import Writer, aval_words, write
from fgrad.base.keywords import also_takes
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.size_functions import at_present
from fgrad.base.sizes import Size
from fgrad.compile.jit.dynamic import Dynamic
from fgrad.compile.jit.entries import Entry
from fgrad.compile.jit.jitted import Jitted, jit
from fgrad.compile.passes.inline import inline_calls
from fgrad.errors import ExportError
from fgrad.ir.primitive import Opaque
from fgrad.ir.program import Eqn, Program
from fgrad.ir.text import const_digest, equal_programs, parse_program, print_eqn, print_program
from fgrad.ir.walk import communicates, subprograms
from fgrad.transforms.core.shapes import stand_in
from fgrad.typing import PyTree

TARGETS = ("host",)
_SMALL_CONST = 16


class Exportable(NamedTuple):
    """A traced function in the form that leaves the process."""

    traced: Program  # with the user's lines
    program: Program  # parsed from the text
    text: str
    arguments: PyTree
    results: PyTree
    differentiable: bool
    sizes: Axes | None = None  # those that may change


@also_takes()
def export(
    f: Callable[..., PyTree],
    *example_args: PyTree,
    path: str | os.PathLike[str],
    targets: Sequence[str] = TARGETS,
    dynamic: Dynamic = False,
) -> int:
    """Write a function, compiled for arguments like the given ones, into a file that `load` reads.

    Arguments:
        f: a function, jitted or not; also `fgrad.grad(g)` and other transforms.
        example_args: arrays, numbers and `ShapeDtype`s in tuples, lists and dictionaries; what
            counts is their shapes and dtypes.
        path: the file, which is replaced if there is one.
        targets: for which machines there is machine code: "host" is this one.  Without any the file
            is smaller, and compiled when it is loaded.
        dynamic: which lengths of axes may be others in calls of what is loaded: none (False), all
            for which the program is the same (True), or `{"x": 0, "y": (0, 1)}`, axes of these
            arguments.  Axes of one length in the example are of one length in all calls.  Machine
            code is for lengths that are like those of the example; others are compiled.

    Returns:
        The size of the file in bytes.

    What `f` reads from outside is as it is now.  A program that calls NumPy, SciPy or MPI while it
    runs has no machine code in the file; it is compiled when it is loaded.

    Raises:
        ExportError: a file cannot hold the function: it calls Python, writes into its arguments,
            takes or gives containers of other classes, or needs one of the lengths in `dynamic`.
        ArgumentError: there is no such axis that is `dynamic`.

    Example:
        >>> import fgrad, numpy as np, os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "loss.fgx")
        >>> loss = lambda w, x: np.sum(np.tanh(x @ w) ** 2)
        >>> w, x = np.ones(3), np.ones((4, 3))
        >>> size = fgrad.export(fgrad.value_and_grad(loss), w, x, path=path)
        >>> f = fgrad.load(path)
        >>> value, slope = f(w, x)
        >>> np.allclose(slope, fgrad.grad(loss)(w, x))
        True
    """
    for name in targets:
        if name not in TARGETS:
            raise ExportError(
                f"There is no target {name!r}.", (("write", 'targets=("host",)    or targets=()'),)
            )
    found = exportable(f, example_args, "fgrad.export", dynamic)
    writer = Writer()
    program = found.program
    head: dict[str, PyTree] = {
        "format": FORMAT,
        "fgrad": version(),
        "name": program.name,
        "arguments": found.arguments,
        "results": found.results,
        "inputs": aval_words(program.in_avals),
        "outputs": aval_words(program.out_avals),
        "differentiable": found.differentiable,
        "program": writer.section(found.text.encode()),
        "constants": [writer.array(x) for x in named_constants(program)],
        "machine": [],
    }
    if found.sizes is not None:
        head["sizes"] = found.sizes.words()
    if targets:
        words = _machine_words(found, writer)
        head["machine"] = [] if words is None else [words]
    return write(os.fspath(path), head, writer)


def named_constants(program: Program) -> list[np.ndarray]:
    """The arrays that the text of a program names by their contents."""
    arrays = [x for each in subprograms(program) for _, x in each.consts if x.size > _SMALL_CONST]
    return list({const_digest(x): x for x in arrays}.values())


def _machine_words(found: Exportable, writer: Writer) -> dict[str, PyTree] | None:
    """What the head says of machine code for this machine; None if there is none."""
    if found.sizes is None:
        return code_for_one(found.program, writer)
    constants = named_constants(found.program)

    def parsed(numbers: Sequence[Size]) -> Program:
        program = parse_program(found.text, constants, numbers)
        locate(program, "fgrad.export")
        return program

    avals = [a.like(at_present(a.shape), a.weak) for a in found.program.in_avals]
    return code_for_lengths(avals, found.sizes, parsed, writer)


def exportable(
    f: Callable[..., PyTree],
    example_args: Sequence[PyTree],
    caller: str,
    dynamic: Dynamic = False,
) -> Exportable:
    """The program of a function, by way of its text.

    Raises:
        ExportError: see `export`.
    """
    jitted = f if isinstance(f, Jitted) else jit(f)
    assert isinstance(jitted, Jitted)
    example_args = tree.map(stand_in, tuple(example_args))
    traceable = jitted.traceable(tuple(example_args), {})
    entry, _ = traceable.traced(None)
    if dynamic is False:
        return _exportable(_Given(jitted, tuple(example_args), caller), entry, None)
    with traced_with_symbols(traceable, dynamic, caller) as (symbols, entry):
        return _exportable(_Given(jitted, tuple(example_args), caller), entry, symbols)


class _Given(NamedTuple):
    """What is exported."""

    jitted: object
    example_args: tuple[PyTree, ...]
    caller: str


def _exportable(given: _Given, entry: Entry, symbols: Symbols | None) -> Exportable:
    caller = given.caller
    traced = _closed(entry, caller, given.jitted)
    arguments = _spec(given.example_args, "arguments", caller)
    results = (
        0 if entry.single else _spec(entry.result(range(len(traced.outputs))), "results", caller)
    )
    opaque = [
        e for e in _equations(traced) if any([isinstance(p, Opaque) for p in e.params.values()])
    ]
    program = inline_calls(traced) if opaque else traced
    _check_equations(program, caller)
    program = program.replace(name=_plain_name(program.name))
    text, values, axes = print_program(program, locs=False), [], None
    if symbols is not None:
        sized = numbered(text, symbols, caller)
        text, values, axes = sized.text, sized.values, sized.axes(symbols)
    try:
        parsed = parse_program(text, named_constants(program), values)
    except (ValueError, KeyError) as error:
        raise ExportError(
            f"{caller}: the program has no text form.", (("why", f"{error}"),)
        ) from error
    if not equal_programs(parsed, program):
        raise ExportError(f"{caller}: the text of the program is not the program.")
    locate(parsed, caller)
    return Exportable(traced, parsed, text, arguments, results, not opaque, axes)


def _closed(entry: Entry, caller: str, jitted: object) -> Program:
    """The program of an entry, with what it captured as constants."""
    effects = entry.effects
    if effects is not None and (effects.writes or effects.stores or effects.contiguous):
        raise ExportError(
            f"{caller}: {jitted} writes into its arguments or into what it captured.",
            (("write", "return the new arrays instead"),),
        )
    if entry.arguments.statics:
        names = ", ".join([repr(name) for name, _ in entry.arguments.statics])
        raise ExportError(
            f"{caller}: the arguments {names} of {jitted} are static.",
            (("write", "lambda x: f(x, n=3)    exported, with the arrays alone as arguments"),),
        )
    program = entry.whole()
    outside = entry.outside()
    if not outside:
        return program
    count = len(outside)
    arrays = [np.array(x, v.aval.dtype) for x, v in zip(outside, program.inputs, strict=False)]
    if any([x.ndim == 0 for x in arrays]):
        raise ExportError(
            f"{caller}: {jitted} reads numbers from outside that may change.",
            (("write", "them as arguments"),),
        )
    consts = zip(program.inputs[:count], arrays, strict=True)
    return program.replace(inputs=program.inputs[count:], consts=(*program.consts, *consts))


def _spec(value: PyTree, what: str, caller: str) -> PyTree:
    """The structure of arguments or results."""
    leaves, treedef = tree.flatten(value)
    try:
        return spec_of(tree.unflatten(treedef, range(len(leaves))))
    except NotPlain as error:
        raise ExportError(
            f"{caller}: the {what} hold a {error}, which a file cannot name.",
            (
                ("why", "a file is loaded without the classes of the program that wrote it."),
                ("write", "dictionaries, tuples and lists"),
            ),
        ) from None


def _equations(program: Program) -> list[Eqn]:
    return [eqn for each in subprograms(program) for eqn in each.eqns]


def _check_equations(program: Program, caller: str) -> None:
    for eqn in _equations(program):
        if communicates(eqn):
            refuse(caller, eqn, "it exchanges arrays with other processes")
        if "=<" in print_eqn(eqn, labels={id(p): "@1" for p in subprograms(program)}):
            refuse(caller, eqn, "it calls Python, or holds what has no text form")
        if eqn.prim.owner is not None:
            refuse(caller, eqn, "it is a primitive of yours, which other processes do not know")


def refuse(caller: str, eqn: Eqn | None, why: str) -> NoReturn:
    """Raise the error about an equation."""
    rows = [("why", why)]
    if eqn is not None:
        rows.insert(0, ("what", f"the operation {eqn.prim.name}"))
        if eqn.loc is not None:
            rows.insert(1, ("used", f"{eqn.loc}:  {eqn.loc.text()}"))
    raise ExportError(f"{caller}: an operation cannot leave this process.", rows)


def _plain_name(name: str) -> str:
    plain = "".join([c if c.isalnum() and c.isascii() else "_" for c in name])
    return plain.strip("_") or "program"
