"""L7. A loaded program whose lengths may change, compiled: templates, as `jit` has them.

lengths -> a template that is for them              words computed anew, microseconds
        -> the text, compiled with symbols          a template for these and others
        -> the text, with these numbers             where the compiler needs them
The guards of the trace are checked first: lengths for which the program is another are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

from fgrad.aot import parsing
from fgrad.aot.axes import MOST_FORMS, Axes, Lengths, with_lengths
from fgrad.aot.files import File
from fgrad.aot.trusted import Form
from fgrad.base.size_data import evaluated, text_of
from fgrad.base.size_words import BadNumbers, failing
from fgrad.base.sizes import Size
from fgrad.compile.backend import BACKENDS, Template
from fgrad.compile.jit.dynamic import opened, with_symbols
from fgrad.compile.pipeline import compile_program
from fgrad.config import config
from fgrad.ir.aval import Aval
from fgrad.ir.program import Program
from fgrad.tracing.on_device import HOST

if TYPE_CHECKING:
    from fgrad.aot.trusted import Executable

MOST_TEMPLATES = 16  # made


class Compiled:
    """What the compiler makes of the text of a file; its owner has the lock.

    Arguments:
        axes: which axes of the arguments are symbols.
        avals: the types of arguments and results in the example.
        refuse: raises the error about lengths, with the reason.
    """

    def __init__(
        self,
        file: File,
        axes: Axes,
        avals: tuple[Sequence[Aval], Sequence[Aval]],
        refuse: Callable[[Lengths, str], NoReturn],
    ) -> None:
        self._file, self._axes, self._refuse = file, axes, refuse
        self._in_avals, self._out_avals = avals
        self._programs: dict[Lengths, Program] = {}
        self.templates: list[Template] = []
        self._takes_symbols = True  # whether the compiler can do with symbols

    def form_at(self, lengths: Lengths) -> Form:
        """What runs the program for these lengths.

        Raises:
            ExportError: its results are not those that the file says.
        """
        form = self._form_at(lengths)
        found = [(a.ndim, a.dtype) for a in form.typed().out_avals]
        if found != [(a.ndim, a.dtype) for a in self._out_avals]:
            self._file.refuse("the program gives other results than its head says")
        return form

    def _form_at(self, lengths: Lengths) -> Form:
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

    def _numbers(self, lengths: tuple[Size, ...]) -> list[Size]:
        """All numbers of the program.

        Raises:
            ArgumentError: a guard does not hold.
        """
        written = self._axes.written
        try:
            values = evaluated(written.numbers, lengths)
            guard = failing(written.guards, values)
        except BadNumbers as error:
            self._refuse(lengths, f"{error}: they are too large.")
        if guard is not None:
            symbols = with_symbols(self._in_avals, self._axes.groups)[0]
            named = evaluated(written.numbers, [symbols.symbol(k) for k in symbols.values])
            asked = f"the program is for {text_of(guard, named)}, which the function asked."
            self._refuse(lengths, asked)
        return values

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
        return with_lengths(self._in_avals, self._axes.groups, lengths)

    def _template(self, lengths: Lengths) -> Template | None:
        """The program compiled with symbols that are these lengths now; None if that is not
        possible."""
        if not config.shared_kernels:
            return None
        sizes, avals = with_symbols(self._avals_at(lengths), self._axes.groups)
        try:
            with opened(sizes):
                numbers = self._numbers(tuple([sizes.symbol(k) for k in sizes.values]))
                program = parsing.program_of(self._file, avals, None, numbers)
                executable = compile_program(program).executable
                return BACKENDS[HOST].template(program, executable, sizes)
        except Exception:
            return None  # it is compiled for these lengths, which raises what is wrong


def _form(program: Program, executable: Executable) -> Form:
    return Form(executable, lambda: program)
