"""L5. `inspect`: a function -> the result of every compiler stage.

make_program(f)(*args)      the traced program, which prints as text
inspect(f)(*args)           all stages of its compilation, with times and sizes
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from fgrad import tree
from fgrad.base.keywords import also_takes
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.pickling import pickles_as_call
from fgrad.compile.backend import BACKENDS
from fgrad.compile.jit.jitted import Jitted, jit
from fgrad.compile.kernel.ir import Kernel
from fgrad.compile.kernel.text import print_kernel
from fgrad.compile.pipeline import Stage, compile_program, distinct_kernels
from fgrad.compile.tasks.steps import KernelStep
from fgrad.ir.aval import Aval
from fgrad.ir.program import Program
from fgrad.tracing.on_device import HOST
from fgrad.transforms.core.shapes import stand_in
from fgrad.transforms.core.wrap import named_like


class Memory(NamedTuple):
    """Bytes that a call needs: of its arguments, the constants of the code, its results (less what
    is written into donated arguments), and temporaries, which are one block."""

    arguments: int
    constants: int
    results: int
    temporaries: int

    @property
    def peak(self) -> int:
        """All of it."""
        return sum(self)


class Stages(NamedTuple):
    """The results of all passes over a program."""

    program: Program
    list: list[Stage]
    code: tuple[tuple[str, float], ...] = ()
    device: str = HOST

    @property
    def passes(self) -> dict[str, Any]:
        """The result of each pass by its name: programs, then groups, steps and a plan."""
        return {stage.name: stage.result for stage in self.list}

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The distinct kernels, scheduled, in order of first use."""
        return tuple(distinct_kernels(self.passes["schedule"]))

    @property
    def calls(self) -> tuple[int, int]:
        """How many kernels, and how many library routines, one call of the function runs."""
        steps = self.passes["plan"].steps
        kernels = sum([isinstance(step, KernelStep) for step in steps])
        return kernels, len(steps) - kernels

    @property
    def llvm(self) -> str:
        """The LLVM text of the kernels."""
        return self.texts("llvm")

    def texts(self, topic: str) -> str:
        """The kernels as "llvm", "asm" or another of the `topics` of the device's backend."""
        return BACKENDS[self.device].texts(topic, self.kernels)

    @property
    def memory(self) -> Memory:
        """What a call needs.

        Example:
            >>> import numpy as np
            >>> inspect(lambda x: x @ x + 1)(np.ones((64, 64))).memory
            Memory(arguments=32768, constants=0, results=32768, temporaries=0)
        """
        plan, program = self.passes["plan"], self.program
        final = self.passes["parameterize_constants"][0]
        written = {k for k, _ in plan.reuse}
        return Memory(
            sum([_bytes(a) for a in program.in_avals]),
            sum([array.nbytes for _, array in final.consts]),
            sum([_bytes(a) for k, a in enumerate(program.out_avals) if k not in written]),
            plan.arena_bytes,
        )

    def report(self) -> str:
        """A table of passes (milliseconds, equations or steps before and after), of the parts of
        `build`, of kernels and of memory."""
        lines = [f"{'pass':<22}{'ms':>9}  size"]
        for stage in self.list:
            lines.append(f"{stage.name:<22}{stage.ms:>9.3f}  {stage.before} -> {stage.after}")
        lines.append(f"{'total':<22}{sum([stage.ms for stage in self.list]):>9.3f}")
        lines += [f"  build: {name:<8}{ms:>6.3f}" for name, ms in self.code]
        kernels, routines = self.calls
        lines.append(f"kernels        {len(self.kernels)} distinct, {kernels} called")
        lines.append(f"routines       {routines} called")
        memory = self.memory
        lines.append(f"{'memory':<15}bytes")
        for name, size in (*zip(memory._fields, memory, strict=True), ("peak", memory.peak)):
            lines.append(f"{name:<15}{size:,}")
        return "\n".join(lines)

    def describe(self) -> str:
        """The calls that a GPU makes: kernels with their grids, blocks and bytes, and routines.

        Raises:
            AttributeError: the function was compiled for the CPU.
        """
        return self.passes["build"].describe()

    def __repr__(self) -> str:
        return self.report()

    def __str__(self) -> str:
        return self.report() + "\n\n" + "\n".join(map(print_kernel, self.kernels))


def _bytes(aval: Aval) -> int:
    return aval.size * aval.dtype.itemsize


def jitted(fun: Callable[..., object]) -> Jitted:
    """The jitted function; one that is jitted already is returned unchanged."""
    made = fun if isinstance(fun, Jitted) else jit(fun)
    assert isinstance(made, Jitted)
    return made


@pickles_as_call
@also_takes()
def make_program(fun: Callable[..., object]) -> Callable[..., Program]:
    """A function that traces `fun` with its arguments and returns the program.

    Arguments:
        fun: a function of arrays, or what `jit` returned for one.

    Example:
        >>> import numpy as np
        >>> print(make_program(lambda x: np.sin(x))(np.zeros(3)))  # doctest: +ELLIPSIS
        program lambda(a: f64[3]) -> (f64[3]): ...
          b: f64[3] = sin a ...
          return b
        <BLANKLINE>
    """

    def traced(*args: object, **kwargs: object) -> Program:
        return jitted(fun).program_of(*tree.map(stand_in, (args, kwargs)))

    return named_like(traced, fun, "make_program")


@pickles_as_call
@also_takes()
def inspect(fun: Callable[..., object]) -> Callable[..., Stages]:
    """A function that compiles `fun` for its arguments and returns all stages.

    Arguments:
        fun: a function of arrays, or what `jit` returned for one.

    Example:
        >>> import numpy as np
        >>> stages = inspect(lambda x: np.exp(x) / np.sum(np.exp(x)))(np.ones(5))
        >>> len(stages.passes["trace"].eqns), len(stages.kernels)
        (5, 1)
    """

    def compiled(*args: object, **kwargs: object) -> Stages:
        start = time.perf_counter()
        whole = jitted(fun)
        entry = whole.entry_of(*tree.map(stand_in, (args, kwargs)))
        ms, program = 1e3 * (time.perf_counter() - start), entry.program
        device = entry.device or HOST
        done = compile_program(program, device=device, donated=entry.donated)
        first = Stage("trace", ms, len(program.eqns), len(program.eqns), program)
        return Stages(program, [first, *done.stages], done.code, device)

    return named_like(compiled, fun, "inspect")
