"""L7. Programs -> what the head of a file says of their machine code, for one length or for many.

    code, symbols     one object, and the functions in it that the words below name by number
    templates         of each program: its table, in which addresses are to be filled in, and
                      what differs from length to length, as numbers of these

A program without symbols is a template without numbers.  One with symbols is compiled for the
lengths of the example, then for some others, as long as these need other code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fgrad.aot.axes import Axes, Lengths, with_lengths
from fgrad.aot.machine import WALK, Machine, Module, NotMachineCode, machine_of
from fgrad.aot.objects import object_of
from fgrad.aot.trusted import TemplateWords
from fgrad.aot.writing import Writer
from fgrad.base.size_data import Writer as NumberWriter
from fgrad.base.size_data import evaluated
from fgrad.base.size_functions import at_present
from fgrad.base.size_words import BadNumbers, Written, checked, failing
from fgrad.base.sizes import LEAST, Num, Size, Sizes
from fgrad.base.system import processor
from fgrad.compile.cpu.native import cycles_of
from fgrad.compile.cpu.shared import without_history
from fgrad.compile.cpu.templates import Part, constants_of
from fgrad.compile.host.program import Share
from fgrad.compile.jit.dynamic import opened, with_symbols
from fgrad.compile.kernel.machine import RELEASE_CYCLES
from fgrad.compile.llvm.runtime import target
from fgrad.config import config
from fgrad.ir.aval import Aval
from fgrad.ir.program import Program
from fgrad.typing import PyTree

MOST_TEMPLATES = 8  # in one file
# Lengths that code is made for too, unless there is some that serves them, in the example's.
FACTORS = (1.4, 0.7, 2, 0.5, 2.8, 4, 0.25, 5.6, 8, 16)

Words = dict[str, PyTree]


def code_for_one(program: Program, writer: Writer) -> Words | None:
    """The words of a program without symbols; None if another process cannot run it."""
    made = _Templates(writer)
    try:
        made.add(program, machine_of(program, made.module), None)
    except NotMachineCode:
        return None
    return made.words()


def code_for_lengths(
    avals: Sequence[Aval],
    axes: Axes,
    parsed: Callable[[Sequence[Size]], Program],
    writer: Writer,
) -> Words | None:
    """The words of a program with symbols; None if its code would be for one length.

    Arguments:
        avals: the types of the example.
        axes: which axes are symbols, and the numbers of the program.
        parsed: the program with given numbers.
        writer: of the file.
    """
    if not config.shared_kernels:
        return None
    made = _Templates(writer)
    example = tuple([avals[g[0][0]].shape[g[0][1]] for g in axes.groups])
    with without_history():
        for lengths in _asked(example):
            if len(made.templates) < MOST_TEMPLATES and not made.serves(lengths):
                _add(made, with_lengths(avals, axes.groups, lengths), axes, parsed)
            if not made.templates:
                return None  # not even for the example
    return made.words()


def _asked(example: Lengths) -> list[Lengths]:
    """Lengths that there is to be code for; odd ones, which are the same for few reasons."""
    found = [example]
    for factor in FACTORS:
        found.append(tuple([max(LEAST, int(n * factor) | 1) for n in example]))
    return found


def _add(
    made: _Templates,
    avals: Sequence[Aval],
    axes: Axes,
    parsed: Callable[[Sequence[Size]], Program],
) -> None:
    """Add the template for some lengths, if there can be one."""
    sizes, _ = with_symbols(avals, axes.groups)
    try:
        with opened(sizes):
            numbers = evaluated(axes.written.numbers, [sizes.symbol(k) for k in sizes.values])
            if failing(axes.written.guards, numbers) is None:
                program = parsed(numbers)
                made.add(program, machine_of(program, made.module, symbolic=True), sizes)
    except Exception:  # as `jit` does: what needs a number is no template
        return


class _Templates:
    """The templates of a file that is being made."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.module = Module()
        self.symbols: dict[str, int] = {WALK: 0}
        self.templates: list[TemplateWords] = []

    def serves(self, lengths: Lengths) -> bool:
        """Whether a template is for some lengths."""
        for template in self.templates:
            try:
                known = evaluated(template.numbers, lengths)
            except BadNumbers:
                continue
            if failing(template.guards, known) is None:
                return True
        return False

    def add(self, program: Program, machine: Machine, sizes: Sizes | None) -> None:
        """Add the template of a program.

        Raises:
            BadNumbers: its numbers cannot be written.
        """
        image = machine.image
        numbers = _Numbers(sizes)
        words: list[Size] = list(machine.words)
        consts = constants_of(image, sizes, words)
        avals = (*image.in_avals, *image.out_avals)
        long = [numbers.operand(cycles_of(program)), [RELEASE_CYCLES]]
        fields = {
            "words": self.writer.array(np.array([at_present(w) for w in words], np.int64)),
            "changed": [[k, numbers.operand(w)] for k, w in enumerate(words) if type(w) is Num],
            "functions": [[at, self.symbol(name)] for at, name in machine.relocations.items()],
            "arrays": [[*c] if isinstance(c, Part) else self.writer.array(c) for c in consts],
            "fills": [
                [k, self.writer.array(np.asarray(x.value).reshape(1))] for k, x in image.literals
            ],
            "arena": numbers.operand(machine.arena_bytes),
            "shapes": [[numbers.operand(n) for n in a.shape] for a in avals],
            "single": self.single(machine, numbers),
            "long": long,
        }
        written = numbers.written()
        self.templates.append(TemplateWords(written.numbers, written.guards, **fields))

    def symbol(self, name: str) -> int:
        """The number of a function of the module."""
        return self.symbols.setdefault(name, len(self.symbols))

    def single(self, machine: Machine, numbers: _Numbers) -> PyTree:
        """The function that is the whole program, its range, up to where it is not shared among
        threads, and the slots in its order."""
        if machine.single is None:
            return None
        name, step = machine.single
        order = [*step.slots, *[k for k in range(machine.image.given) if k not in step.slots]]
        chunk = step.chunk if isinstance(step, Share) else step.hi
        return [self.symbol(name), numbers.operand(step.hi), numbers.operand(chunk), order]

    def words(self) -> Words:
        """What the head says."""
        module = self.module
        return {
            "target": list(target()),
            "processor": processor(),
            "code": self.writer.section(object_of(module, list(self.symbols))),
            "symbols": list(self.symbols),
            "messages": module.messages,
            "libraries": sorted(module.libraries),
            "templates": [each._asdict() for each in self.templates],
        }


class _Numbers:
    """Numbers of a template as operands; without symbols all are constants."""

    def __init__(self, sizes: Sizes | None) -> None:
        self.sizes = sizes
        self.writer = None if sizes is None else NumberWriter(sizes)

    def operand(self, x: Size) -> PyTree:
        """A number as `size_words` has it."""
        return [x] if self.writer is None else self.writer.operand(x)

    def written(self) -> Written:
        """The numbers, and the guards of all that was decided.

        Raises:
            BadNumbers: a file cannot hold them.
        """
        if self.sizes is None or self.writer is None:
            return Written([], [])
        written = self.writer.written()
        count = len(self.sizes.values)
        checked(count, written.numbers, written.guards)
        known = evaluated(written.numbers, list(self.sizes.values.values()))
        if failing(written.guards, known) is not None:
            raise BadNumbers("its guards do not hold for the example")
        return written
