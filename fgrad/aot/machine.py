"""L7. Program -> functions of an LLVM module that needs nothing of this process.

    @fgrad_table      the steps of the host program; addresses are those of functions of the module
    @fgrad_walk       `void walk(ptr table, ptr given)`: what walks it

The functions of kernels and products are those that `jit` would run, so that results have the same
bits.  What they import is one of: another function of the module; BLAS or LAPACK, by name; a note
of a failure, which becomes a number in a word behind the arena.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.base.sizes import Size
from fgrad.compile.cpu.c_loops import c_loop
from fgrad.compile.cpu.executable import Image
from fgrad.compile.cpu.library import is_vector
from fgrad.compile.cpu.native import whole
from fgrad.compile.cpu.templates import is_for_sizes
from fgrad.compile.host import interpreter
from fgrad.compile.host.program import (
    Branch,
    Call,
    PointAt,
    Repeat,
    Share,
    Step,
    While,
    assembled,
)
from fgrad.compile.llvm import half_conversion
from fgrad.compile.llvm.loader import Address
from fgrad.compile.llvm.runtime import Recorded, Source, recording, target
from fgrad.compile.llvm.text import ATTRIBUTES
from fgrad.compile.pipeline import compile_program
from fgrad.compile.tasks.routines import MESSAGES, Evaluation, Gemm, MatrixRoutine
from fgrad.config import config
from fgrad.ir.program import Eqn, Program
from fgrad.ir.walk import subprograms

WALK, TABLE = "fgrad_walk", "fgrad_table"
FAILURE = "fgrad_failure"
NOTED = "fgrad_noted"  # which the module's maker defines
SHARED = "fgrad_shared"  # the same: `void (ptr, ptr f, ptr bufs, i64 lo, i64 hi, i64 chunk)`
# Pieces go to the function at `fgrad_share_at`; without one they are done here.
SHARING = f"""\
define void @{SHARED}(ptr %none, ptr %f, ptr %bufs, i64 %lo, i64 %hi, i64 %chunk) #0 {{
  %share = load ptr, ptr @fgrad_share_at, align 8
  %pool = load ptr, ptr @fgrad_pool_at, align 8
  %alone = icmp eq ptr %share, null
  br i1 %alone, label %all, label %several
all:
  call void %f(ptr %bufs, i64 %lo, i64 %hi)
  ret void
several:
  call void %share(ptr %pool, ptr %f, ptr %bufs, i64 %lo, i64 %hi, i64 %chunk)
  ret void
}}"""
WORD = 8
_DEFINED = re.compile(r"^(?:define [^@]*)?@([\w.]+)[ (]", re.MULTILINE)

_DECLARED = re.compile(r"^(?:declare [^@]*)?@([\w.]+)")

Functions: TypeAlias = dict[str, tuple[str, set[str]]]  # text and declarations, by symbol
VectorProducts: TypeAlias = Callable[[str, np.dtype], tuple[str, set[str]]]


class NotMachineCode(Exception):
    """What a step calls that another process does not have; never leaves this package."""

    def __init__(self, what: str, is_it: Callable[[Eqn], bool]) -> None:
        super().__init__(what)
        self.what = what
        self.is_it = is_it

    def equation(self, program: Program) -> Eqn | None:
        """The equation of the traced program, which has the user's line."""
        eqns = [eqn for each in subprograms(program) for eqn in each.eqns]
        return next((eqn for eqn in eqns if self.is_it(eqn)), None)


class Module:
    """The functions of one or more programs.

    functions: the text of each, by symbol, with what it declares.
    messages: of failures; the word behind an arena is 0, or the number of one, from 1 on.
    libraries: the functions of BLAS and LAPACK that are called.
    """

    def __init__(self) -> None:
        self.functions: Functions = {WALK: interpreter.emit_interpreter(WALK)}
        self.messages: list[str] = []
        self.libraries: set[str] = set()
        if half_conversion.calls_library(target().triple, target().features):
            for name, text in half_conversion.TEXTS.items():
                self.functions[name] = text.format(symbol=name), set()


class Machine(NamedTuple):
    """A program, and what its caller must know.

    words, relocations: the table, and the symbols of the functions whose addresses stand in it.
    single: the only step, if that is a function on slots that the caller gives, and its symbol.

    Where sizes are symbols, some words are Nums, as are the bytes of the arena.
    """

    module: Module
    words: list[Size]
    relocations: dict[int, str]
    image: Image
    arena_bytes: Size
    single: tuple[str, Call | Share] | None

    def table(self) -> str:
        """The text of the table."""
        words = [
            f"i64 ptrtoint (ptr @{self.relocations[k]} to i64)"
            if k in self.relocations
            else f"i64 {word}"
            for k, word in enumerate(self.words)
        ]
        return f"@{TABLE} = internal constant [{len(words)} x i64] [{', '.join(words)}], align 64"


def machine_of(
    program: Program,
    module: Module,
    symbolic: bool = False,
    vector_products: VectorProducts | None = None,
) -> Machine:
    """The machine form of a program, whose bodies must not have been compiled before.

    Arguments:
        program: what to compile.
        module: what the functions are added to.
        symbolic: whether sizes are symbols.
        vector_products: writes a product with vectors of a dtype under a symbol; None: BLAS does.

    Raises:
        NotMachineCode: a step calls what another process does not have.
    """
    with recording() as recorded, config.override(shared_kernels=symbolic):
        executable = compile_program(program).executable
    image = executable.image
    assert isinstance(image, Image)
    if symbolic and not is_for_sizes(image):
        raise NotMachineCode("a routine has sizes in its code", lambda _: False)
    maker = _Maker(image, recorded, module, vector_products)
    for step in _flat(image.steps):
        maker.add_call(step)
    arena = -(-image.arena_bytes // WORD) * WORD
    status = image.given + max([0, *_slots(image.steps)]) + 1
    renamed = [PointAt(status, _arena_slot(image), arena), *maker.noting(image.steps, status)]
    table = assembled(renamed, image.given)
    relocations = {at: maker.symbols[int(a)] for at, a in table.functions.items()}
    relocations |= {at + 1: SHARED for at in table.pools}
    return Machine(module, table.words, relocations, image, arena, maker.single())


def _arena_slot(image: Image) -> int:
    return image.given - 1


def _flat(steps: Sequence[Step]) -> Iterator[Call | Share]:
    """The calls among steps, those in loops too."""
    for step in steps:
        if isinstance(step, (Call, Share)):
            yield step
        else:
            for body in _bodies(step):
                yield from _flat(body)


def _bodies(step: Step) -> Sequence[tuple[Step, ...]]:
    if isinstance(step, Repeat):
        return (step.body,)
    if isinstance(step, While):
        return (step.condition, step.body)
    return step.branches if isinstance(step, Branch) else ()


def _slots(steps: Sequence[Step]) -> Iterator[int]:
    """All slots of steps, and other numbers that are no smaller."""
    for step in steps:
        if isinstance(step, (Call, Share)):
            yield from step.slots
        elif isinstance(step, PointAt):
            yield step.slot
        else:
            for body in _bodies(step):
                yield from _slots(body)


class _Maker:
    """Gathers the functions that steps call."""

    def __init__(
        self,
        image: Image,
        recorded: dict[str, Recorded],
        module: Module,
        vector_products: VectorProducts | None,
    ) -> None:
        self.image = image
        self.origins = image.origins
        self.recorded = recorded
        self.functions = module.functions
        self.messages, self.libraries = module.messages, module.libraries
        self.vector_products = vector_products
        self.symbols: dict[int, str] = {}
        self.failing: set[int] = set()

    def add_call(self, step: Call | Share) -> None:
        """The function of a step, and those that it calls."""
        address = step.address
        if int(address) in self.symbols:
            return
        origin = self.origins.get(address)
        symbol = address.symbol if isinstance(address, Address) else ""
        if symbol not in self.recorded:
            raise _foreign(origin)
        self.symbols[int(address)] = symbol
        if self.vector_products is not None and isinstance(origin, Gemm) and is_vector(origin):
            self.functions[symbol] = self.vector_products(symbol, origin.dtype)
            return
        source, imports = self.recorded[symbol]
        text, needs = source.emit(symbol)
        for name, at in imports.items():
            if f"@{name}" not in text:
                needs = {d for d in needs if f"@{name}(" not in d}
                continue
            if name == FAILURE:
                assert isinstance(origin, MatrixRoutine)
                text, needs = self.failure(text, needs, origin, len(step.slots))
                self.failing.add(int(address))
            elif isinstance(at, Address) and at.symbol in self.recorded:
                text = re.sub(rf"@{name}\b", f"@{at.symbol}", text)
                needs = {d for d in needs if f"@{name}(" not in d}
                if at.symbol not in self.functions:
                    inner: Source = self.recorded[at.symbol].source
                    self.functions[at.symbol] = inner.emit(at.symbol)
            elif isinstance(origin, (MatrixRoutine, Gemm)):
                self.libraries.add(name)
            else:
                raise _foreign(origin)
        self.functions[symbol] = text, needs

    def failure(
        self, text: str, needs: set[str], origin: MatrixRoutine, slots: int
    ) -> tuple[str, set[str]]:
        """The text with a function of the module that notes the failure of a routine.

        It has the number of the message written where the buffer after the step's own points to.
        """
        message = message_of(origin)
        if message not in self.messages:
            self.messages.append(message)
        number = self.messages.index(message) + 1
        name = f"{FAILURE}_{number}_{slots}"
        self.functions[name] = (
            f"define void @{name}(ptr %bufs, i64 %lo, i64 %hi) #0 {{\n"
            f"  %at = getelementptr ptr, ptr %bufs, i64 {slots}\n"
            "  %status = load ptr, ptr %at, align 8\n"
            f"  store i64 {number}, ptr %status, align 8\n"
            f"  call void @{NOTED}(i64 {number})\n  ret void\n}}",
            {f"declare void @{NOTED}(i64)"},
        )
        kept = {d for d in needs if f"@{FAILURE}(" not in d}
        return re.sub(rf"@{FAILURE}\b", f"@{name}", text), kept

    def single(self) -> tuple[str, Call | Share] | None:
        """The only step, if it is a function on given slots that cannot fail, and its symbol."""
        step = self.image.steps[0] if len(self.image.steps) == 1 else None
        if not isinstance(step, (Call, Share)) or int(step.address) in self.failing:
            return None
        call = whole((Call(step.address, step.lo, step.hi, step.slots),), self.image.given)
        return None if call is None else (self.symbols[int(step.address)], step)

    def noting(self, steps: Sequence[Step], status: int) -> list[Step]:
        """The steps, those that may fail with the slot for it after their own."""
        return [self._noting(step, status) for step in steps]

    def _noting(self, step: Any, status: int) -> Step:
        if isinstance(step, (Call, Share)):
            fails = int(step.address) in self.failing
            return step._replace(slots=(*step.slots, status)) if fails else step
        if isinstance(step, Repeat):
            return step._replace(body=tuple(self.noting(step.body, status)))
        if isinstance(step, While):
            return step._replace(
                condition=tuple(self.noting(step.condition, status)),
                body=tuple(self.noting(step.body, status)),
            )
        if isinstance(step, Branch):
            bodies = tuple([tuple(self.noting(b, status)) for b in step.branches])
            return step._replace(branches=bodies)
        return step


def message_of(routine: MatrixRoutine) -> str:
    """What the failure of a routine is told as."""
    params = dict(routine.params)
    return params.get("error") or params.get("message") or MESSAGES[routine.name]


def _foreign(origin: object) -> NotMachineCode:
    """The error about a step whose function is not ours."""
    if isinstance(origin, Evaluation):
        prim, params = origin.eqn.prim, origin.eqn.params
        same = lambda eqn: eqn.prim is prim and eqn.params == params  # noqa: E731
        return NotMachineCode(f"{prim.name} is evaluated by Python", same)
    name = getattr(origin, "name", type(origin).__name__)
    return NotMachineCode(
        f"{name} calls a function of NumPy, SciPy or MPI", lambda eqn: _becomes(eqn, origin)
    )


def _becomes(eqn: Eqn, origin: object) -> bool:
    """Whether an equation is, or may have led to, a loop in C."""
    return eqn.prim.host is not None and type(c_loop(eqn)) is type(origin)


def merged(functions: Functions, exported: Sequence[str]) -> list[str]:
    """Lines of a module: what none of the functions defines is declared; all but the exported ones
    are internal."""
    texts = [text for text, _ in functions.values()]
    needs: set[str] = set().union(*[d for _, d in functions.values()])
    defined = {name for text in texts for name in _DEFINED.findall(text)}
    lines = sorted([d for d in needs if not defined.intersection(_DECLARED.findall(d))])
    for symbol, (text, _) in functions.items():
        if symbol not in exported and symbol not in half_conversion.TEXTS:
            text = re.sub(r"^define (?!internal)", "define internal ", text, flags=re.MULTILINE)
        lines.append(text)
    return [*lines, ATTRIBUTES, ""]
