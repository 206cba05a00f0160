"""L5. Looking inside: what a function becomes, stage by stage.

make_program(f)(*args)      the traced program, which prints as text
inspect(f)(*args)           all stages of its compilation, with times and sizes
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from fgrad.compile.jit import Jitted, jit
from fgrad.compile.kernel.ir import Kernel
from fgrad.compile.kernel.text import print_kernel
from fgrad.compile.pipeline import Stage, compile_program, distinct_kernels, llvm_text
from fgrad.ir.program import Program


class Stages(NamedTuple):
    """The results of all passes over a program."""

    program: Program
    list: list[Stage]

    @property
    def passes(self) -> dict[str, Any]:
        """The result of each pass by its name: programs, then groups, steps and a plan."""
        return {stage.name: stage.result for stage in self.list}

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The distinct kernels, scheduled, in order of first use."""
        return tuple(distinct_kernels(self.passes["schedule"]))

    @property
    def llvm(self) -> str:
        """The LLVM text of the kernels."""
        return llvm_text(self.kernels)

    def report(self) -> str:
        """A table of passes: milliseconds, and equations or steps before and after."""
        lines = [f"{'pass':<14}{'ms':>9}  size"]
        for stage in self.list:
            lines.append(f"{stage.name:<14}{stage.ms:>9.3f}  {stage.before} -> {stage.after}")
        lines.append(f"{'total':<14}{sum([stage.ms for stage in self.list]):>9.3f}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.report() + "\n\n" + "\n".join(map(print_kernel, self.kernels))


def _jitted(fun: Callable[..., Any]) -> Jitted:
    return fun if isinstance(fun, Jitted) else jit(fun)


def make_program(fun: Callable[..., Any]) -> Callable[..., Program]:
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

    @functools.wraps(fun)
    def traced(*args: Any, **kwargs: Any) -> Program:
        return _jitted(fun).program_of(args, kwargs)

    return traced


def inspect(fun: Callable[..., Any]) -> Callable[..., Stages]:
    """A function that compiles `fun` for its arguments and returns all stages.

    Arguments:
        fun: a function of arrays, or what `jit` returned for one.

    Example:
        >>> import numpy as np
        >>> stages = inspect(lambda x: np.exp(x) / np.sum(np.exp(x)))(np.ones(5))
        >>> len(stages.passes["trace"].eqns), len(stages.kernels)
        (5, 1)
    """

    @functools.wraps(fun)
    def compiled(*args: Any, **kwargs: Any) -> Stages:
        program = _jitted(fun).program_of(args, kwargs)
        stages = compile_program(program).stages
        first = Stage("trace", 0.0, len(program.eqns), len(program.eqns), program)
        return Stages(program, [first, *stages])

    return compiled
