"""L5. A program that was compiled with sizes as symbols -> executables for other sizes.

All that differs from size to size is words of 64 bits: the table of the host program, the tables of
kernels and products, the bytes of the arena, the shapes of results.  They are one array; a new size
is a copy of it with some words computed anew, and a new executable over the same machine code.

    words   [ host program | table of a kernel | ... ]        changed[k] = at(n)[k]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.base.size_code import Formula, listed
from fgrad.base.size_functions import at_present
from fgrad.base.sizes import NotShared, Num, Size, Sizes, is_symbolic
from fgrad.compile.cpu.executable import Executable, Image
from fgrad.compile.cpu.native import cycles_of
from fgrad.compile.host.program import Call, HostProgram, Share, Step
from fgrad.compile.kernel.machine import RELEASE_CYCLES
from fgrad.compile.tasks.routines import Gemm, RowWalk
from fgrad.ir.aval import Aval
from fgrad.ir.program import Program, Var

if TYPE_CHECKING:
    from fgrad.compile.entry.table import Work

_SIZED = (Gemm, RowWalk)  # routines that read all sizes from a table


class Instance(NamedTuple):
    """A program for one size, whose equations are not known, and its executable."""

    program: Program
    executable: Executable


class Part(NamedTuple):
    """A constant that is a part of the words."""

    start: int
    stop: int


class Template:
    """A compiled program for all sizes for which some guards hold.

    `at(*sizes)` gives the words that differ from size to size and what else does, or None where a
    guard fails.
    """

    def __init__(self, program: Program, executable: Executable, sizes: Sizes) -> None:
        image, cycles = executable.image, cycles_of(program)
        words: list[Size] = list(executable.host.words)
        self.consts = constants_of(executable.image, sizes, words)
        self.program, self.image, self.executable = program, image, executable
        self.host_words = len(executable.host.words)
        self.words = np.array([at_present(w) for w in words], np.int64)
        places = [k for k, word in enumerate(words) if type(word) is Num]
        self.places = np.array(places, np.int64)
        formula = Formula(sizes)
        formula.guards()
        avals = (*image.in_avals, *image.out_avals)
        self.avals = [(not is_symbolic(aval.shape), aval) for aval in avals]
        shapes = [formula.shape(aval.shape) for aval in avals]
        single = image.steps[0] if len(image.steps) == 1 else None
        extent = single.hi if isinstance(single, (Call, Share)) else 0
        chunk = single.chunk if type(single) is Share else extent
        results = (
            listed([formula.text(words[k]) for k in places]),
            formula.text(image.arena_bytes),
            listed(shapes),
            formula.text(extent),
            formula.text(chunk),
            f"{formula.text(cycles)} > {RELEASE_CYCLES}",
        )
        self.at = formula.compiled(listed(results))

    def instance(self, sizes: Sequence[int], made_by: str) -> Instance | None:
        """The program and the executable for some sizes; None where a guard fails."""
        try:
            found = self.at(*sizes)
        except (ArithmeticError, ValueError):
            return None
        if found is None:
            return None
        changed, arena_bytes, shapes, extent, chunk, is_long = found
        words = self.words.copy()
        words[self.places] = changed
        image, count = self.image, len(self.image.in_avals)
        avals = [
            a if same else a.like(shape, a.weak)
            for (same, a), shape in zip(self.avals, shapes, strict=True)
        ]
        steps = image.steps
        if len(steps) == 1 and isinstance(steps[0], (Call, Share)) and extent <= chunk:
            steps = (Call(steps[0].address, 0, extent, steps[0].slots),)
        image = image._replace(
            in_avals=tuple(avals[:count]),
            out_avals=tuple(avals[count:]),
            consts=[words[c.start : c.stop] if type(c) is Part else c for c in self.consts],
            arena_bytes=arena_bytes,
            steps=steps,
        )
        host = _Host(steps, image, words[: self.host_words])
        return Instance(self._program(avals, made_by), _Executable(image, host, is_long))

    def _program(self, avals: Sequence[Aval], made_by: str) -> Program:
        """A program of these types without equations."""
        program = self.program
        count = len(program.inputs)
        inputs = tuple([Var(aval) for aval in avals[:count]])
        outputs = tuple([Var(aval) for aval in avals[count:]])
        return Program(program.name, inputs, (), (), outputs, made_by=made_by)


class _Host(HostProgram):
    """A host program whose table is known."""

    def __init__(self, steps: tuple[Step, ...], image: Image, table: np.ndarray) -> None:
        super().__init__((), image.given, image.callbacks)
        self.steps = steps
        self._made["table"] = table
        self._walked = True


class _Executable(Executable):
    """The executable for one size."""

    def __init__(self, image: Any, host: HostProgram, is_long: bool) -> None:
        self.set_image(image, host)
        self.is_long = is_long

    def work(self, program: Program) -> Work:
        """What native code does for a call."""
        return super().work(program)._replace(release=self.is_long)


def template(program: Program, executable: object, sizes: Sizes) -> Template | None:
    """The template of a program that was compiled with symbols; None if some part of it is for
    one size, as what calls Python or reads sizes from its code may be."""
    made = cast("Executable", executable)
    return Template(program, made, sizes) if is_for_sizes(made.image) else None


def is_for_sizes(image: Image) -> bool:
    """Whether all that a program compiled with symbols has of sizes stands in its words."""
    if any([callback.buffers for callback in image.callbacks]):
        return False  # those without buffers raise what a check has found
    origins = image.origins.values()
    return not any([not isinstance(x, (str, *_SIZED)) and _has_symbols(x) for x in origins])


def _has_symbols(task: object) -> bool:
    """Whether a size stands in the parameters of a routine, or what cannot be seen through."""
    if isinstance(task, tuple):
        return any([_has_symbols(x) for x in task])
    return type(task) is Num or not isinstance(task, (int, float, str, np.dtype, type(None)))


def constants_of(image: Image, sizes: Sizes | None, words: list[Size]) -> list[np.ndarray | Part]:
    """The constants of a program; those with sizes in them are added to the words.

    Raises:
        NotShared: one with sizes is not among them: a copy of it would keep those of this length.
    """
    if sizes is None:
        return [*image.consts]
    tables = {array.ctypes.data: known for array, known in sizes.tables.values()}
    parts: dict[int, Part] = {}
    consts: list[np.ndarray | Part] = []
    for array in image.consts:
        at = array.ctypes.data
        if at in tables and at not in parts:
            parts[at] = Part(len(words), len(words) + len(tables[at]))
            words += tables[at]
        consts.append(parts.get(at, array))
    if len(parts) < len(tables):
        raise NotShared("a table of sizes")
    return consts
