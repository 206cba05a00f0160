"""L5. The data types of lowering: groups of equations, and steps over buffers.

Program --fuse--> Groups --lower--> Steps --plan--> host program
"""

from __future__ import annotations

from typing import TypeAlias

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.kernel.ir import Kernel
from fgrad.compile.tasks.routines import Routine, label_of
from fgrad.ir.program import Eqn, Var


class Cut(NamedTuple):
    """An axis in `full` blocks of `size` elements, and one of `rest` where that is not 0."""

    full: int
    size: int
    rest: int

    @property
    def blocks(self) -> int:
        """How many blocks there are."""
        return self.full + (self.rest > 0)


class Group(NamedTuple):
    """A group of equations, lowered to one step.

    kind:
      loop     one nest over `domain`, whose first `rows` axes are independent; reductions over the
               rest, and the equations between them, are phases inside; `row_vars` are the
               results with one value for each row, `columns` those with one for each column and
               block of rows; `cuts` says how each axis of the rows is cut into blocks
      product  a sum of products over `domain`, and elementwise equations on its result
      nest     one equation with loops of its own (scatter, cumsum, ...)
      library  one equation for BLAS, LAPACK or the sorter
      alias    a reshape of a buffer, which costs nothing
    """

    kind: str
    eqns: tuple[Eqn, ...]
    outputs: tuple[Var, ...]
    domain: tuple[int, ...] = ()
    rows: int = 0
    row_vars: frozenset[Var] = frozenset()
    columns: frozenset[Var] = frozenset()
    cuts: tuple[Cut, ...] = ()


class KernelStep(NamedTuple):
    """Run a kernel on the buffers of `args`."""

    kernel: Kernel
    args: tuple[Var, ...]


class LibraryStep(NamedTuple):
    """Call a routine on the buffers of `args`, once for each tuple of byte offsets."""

    routine: Routine
    args: tuple[Var, ...]
    offsets: tuple[tuple[int, ...], ...]

    @property
    def name(self) -> str:
        """The name of the routine, for reports."""
        return label_of(self.routine)


class AliasStep(NamedTuple):
    """`output` is the buffer of `source`."""

    source: Var
    output: Var


Step: TypeAlias = KernelStep | LibraryStep | AliasStep
