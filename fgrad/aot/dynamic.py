"""L7. Loaded programs whose sizes may change: templates for lengths, as `jit` has them.

lengths -> a template that is for them              words computed anew, microseconds
        -> the text, compiled with symbols          a template for these and others
        -> the text, with these numbers             where the compiler needs them
The guards of the trace are checked first: lengths for which the program is another are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from fgrad.aot import parsing
from fgrad.aot.files import File, paths_of
from fgrad.aot.trusted import Form
from fgrad.base.fork_locks import own_lock
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.size_data import BadNumbers, Written, checked, evaluated, failing, text_of
from fgrad.base.sizes import LEAST, Size
from fgrad.compile.backend import BACKENDS, Template
from fgrad.compile.jit.dynamic import Place, opened, with_symbols
from fgrad.compile.pipeline import compile_program
from fgrad.config import config
from fgrad.errors import ArgumentError
from fgrad.ir.aval import DTYPE_NAMES, Aval
from fgrad.ir.program import Program
from fgrad.tracing.on_device import HOST
from fgrad.typing import PyTree

if TYPE_CHECKING:
    from fgrad.aot.trusted import Executable

MOST_FORMS = 512  # kept: those made last
MOST_TEMPLATES = 16  # made

Lengths: TypeAlias = "tuple[int, ...]"  # of the symbols
Shapes: TypeAlias = "Sequence[tuple[int, ...]]"  # of the leaves


class _Axes(NamedTuple):
    """Which axes of the leaves are which symbols, and what the head says of sizes."""

    groups: tuple[tuple[Place, ...], ...]
    written: Written


class Changing:
    """The programs of a file for arguments of several lengths.

    Arguments:
        names: what users call the function, and the structure of its arguments.
    """

    def __init__(
        self,
        file: File,
        names: tuple[str, PyTree],
        in_avals: Sequence[Aval],
        out_avals: Sequence[Aval],
    ) -> None:
        self.lock = own_lock(self)
        self._file, self._names, self._in_avals = file, names, in_avals
        self._axes = _axes_of(file, in_avals)
        groups = self._axes.groups
        self._symbols = {place: k for k, group in enumerate(groups) for place in group}
        self._forms: dict[Lengths, Form] = {}
        self._programs: dict[Lengths, Program] = {}
        self.templates: list[Template] = []
        self._takes_symbols = True  # whether the compiler can do with symbols
        try:
            self.example = self._lengths([aval.shape for aval in in_avals])
            form = self._form_at(self.example, None)
        except ArgumentError:
            file.refuse("its example is not of the lengths that it is for")
        given = [(a.shape, a.dtype) for a in form.typed().out_avals]
        if given != [(a.shape, a.dtype) for a in out_avals]:
            file.refuse("the program gives other results than its head says")

    # Arguments.

    def form_for(self, shapes: Shapes, forget: Callable[[Form], None] | None) -> Form:
        """What runs the program for arguments of these shapes; `forget` is told of what is no
        longer kept."""
        lengths = self._lengths(shapes)
        return self._forms.get(lengths) or self._form_at(lengths, forget)

    def program_for(self, shapes: Shapes) -> Program:
        """The program for arguments of these shapes."""
        return self.program_at(self._lengths(shapes))

    def fits(self, shape: tuple[int, ...], k: int) -> bool:
        """Whether a leaf may have a shape, whatever the others have."""
        known = self._in_avals[k].shape
        return len(shape) == len(known) and all(
            [n == known[axis] or (k, axis) in self._symbols for axis, n in enumerate(shape)]
        )

    def expected(self, k: int) -> str:
        """The type of a leaf."""
        aval = self._in_avals[k]
        dims = [
            f"n{self._symbols[k, axis]}" if (k, axis) in self._symbols else str(n)
            for axis, n in enumerate(aval.shape)
        ]
        return f"{DTYPE_NAMES[aval.dtype.name]}[{','.join(dims)}]"

    def _lengths(self, shapes: Shapes) -> Lengths:
        """The lengths of the symbols.

        Raises:
            ArgumentError: axes that are one symbol have several, or one is too short.
        """
        found: list[int] = []
        for k, ((leaf, axis), *others) in enumerate(self._axes.groups):
            length = shapes[leaf][axis]
            for other, at in others:
                if shapes[other][at] != length:
                    self._refuse(
                        f"{self._place(leaf, axis)} has length {length}, "
                        f"{self._place(other, at)} has {shapes[other][at]}",
                        "they had one length in the example, so the program has one for both.",
                        "an example in which they differ",
                    )
            if length < LEAST:
                self._refuse(
                    f"{self._place(leaf, axis)} has length {length}",
                    f"n{k} is {LEAST} or more: shorter axes make other programs.",
                    "an example of this length, without this axis in dynamic",
                )
            found.append(length)
        return tuple(found)

    def _place(self, leaf: int, axis: int) -> str:
        return f"axis {axis} of {paths_of(self._names[1], 'argument ')[leaf]}"

    def _refuse(self, given: str, why: str, example: str) -> NoReturn:
        raise ArgumentError(
            f"{self._names[0]}: the lengths of the arguments do not fit.",
            (
                ("given", given),
                ("why", why),
                ("write", f"fgrad.export(f, ..., dynamic=...)    with {example}"),
            ),
        )

    # Programs.

    def _form_at(self, lengths: Lengths, forget: Callable[[Form], None] | None) -> Form:
        """What runs the program for these lengths."""
        with self.lock:
            form = self._forms.pop(lengths, None) or self._made(lengths)
            if len(self._forms) >= MOST_FORMS:
                oldest = self._forms.pop(next(iter(self._forms)))
                if forget is not None:
                    forget(oldest)
            self._forms[lengths] = form
            return form

    def _made(self, lengths: Lengths) -> Form:
        for template in self.templates:
            made = template.instance(lengths, "template")
            if made is not None:
                return _form(*made)
        self._numbers(lengths)  # which refuses lengths that the trace is not for
        if self._takes_symbols and len(self.templates) < MOST_TEMPLATES:
            template = self._template(lengths)
            made = None if template is None else template.instance(lengths, "symbols")
            self._takes_symbols = made is not None
            if template is not None and made is not None:
                self.templates.insert(0, template)
                return _form(*made)
        program = self.program_at(lengths)
        return _form(program, parsing.executable_of(self._file, program))

    def _numbers(self, lengths: Sequence[Size]) -> list[Size]:
        """All numbers of the program.

        Raises:
            ArgumentError: a guard does not hold.
        """
        written = self._axes.written
        try:
            values = evaluated(written.numbers, lengths)
            guard = failing(written.guards, values)
        except BadNumbers as error:
            self._refuse_lengths(lengths, f"{error}: they are too large.")
        if guard is not None:
            symbols = with_symbols(self._in_avals, self._axes.groups)[0]
            named = evaluated(written.numbers, [symbols.symbol(k) for k in symbols.values])
            self._refuse_lengths(
                lengths, f"the program is for {text_of(guard, named)}, which the function asked."
            )
        return values

    def _refuse_lengths(self, lengths: Sequence[Size], why: str) -> NoReturn:
        places = [self._place(*group[0]) for group in self._axes.groups]
        given = [f"n{k} = {n}, {p}" for k, (n, p) in enumerate(zip(lengths, places, strict=True))]
        self._refuse("; ".join(given), why, "an example of these lengths")

    def program_at(self, lengths: Lengths) -> Program:
        """The program with numbers for the symbols."""
        found = self._programs.get(lengths)
        if found is None:
            numbers = self._numbers(lengths)
            found = parsing.program_of(self._file, self._avals_at(lengths), None, numbers)
            if len(self._programs) >= MOST_FORMS:
                self._programs.clear()
            self._programs[lengths] = found
        return found

    def _avals_at(self, lengths: Lengths) -> list[Aval]:
        """The types of the arguments with these lengths."""

        def length(place: Place, known: int) -> int:
            symbol = self._symbols.get(place)
            return known if symbol is None else lengths[symbol]

        return [
            aval.like(tuple([length((k, a), n) for a, n in enumerate(aval.shape)]), aval.weak)
            for k, aval in enumerate(self._in_avals)
        ]

    def _template(self, lengths: Lengths) -> Template | None:
        """The program compiled with symbols that are these lengths now; None if that is not
        possible."""
        if not config.shared_kernels:
            return None
        sizes, avals = with_symbols(self._avals_at(lengths), self._axes.groups)
        try:
            with opened(sizes):
                numbers = self._numbers([sizes.symbol(k) for k in sizes.values])
                program = parsing.program_of(self._file, avals, None, numbers)
                executable = compile_program(program).executable
                return BACKENDS[HOST].template(program, executable, sizes)
        except Exception:
            return None  # it is compiled for these lengths, which raises what is wrong


def _form(program: Program, executable: Executable) -> Form:
    return Form(executable, lambda: program)


def _axes_of(file: File, avals: Sequence[Aval]) -> _Axes:
    """What the head says of sizes.

    Raises:
        ExportError: it says nothing that can be.
    """
    words = file.head["sizes"]
    if type(words) is not dict or {*words} != {"axes", "numbers", "guards"}:
        file.refuse("its sizes are not described as they should be")
    places = {(k, axis) for k, aval in enumerate(avals) for axis in range(aval.ndim)}
    groups: list[tuple[Place, ...]] = []
    for group in words["axes"] if type(words["axes"]) is list else [None]:
        if type(group) is not list or not group:
            file.refuse("its sizes are of no axes")
        for place in group:
            good = type(place) is list and len(place) == 2 and all([type(x) is int for x in place])
            if not good or tuple(place) not in places:
                file.refuse("its sizes are of no axes")
            places.remove(tuple(place))
        groups.append(tuple([tuple(place) for place in group]))
    try:
        return _Axes(tuple(groups), checked(len(groups), words["numbers"], words["guards"]))
    except BadNumbers as error:
        file.refuse(str(error))
