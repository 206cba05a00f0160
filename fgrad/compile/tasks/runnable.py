"""L5. `Runnable`: the interface of the compiled programs that a backend's `build` returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from fgrad.ir.aval import Aval
from fgrad.ir.program import Lit


class Runnable(Protocol):
    """A compiled program, on arrays of its device.

    Attributes:
        in_avals, out_avals: of the arguments and results.
        consts: the arrays that it needs besides.
        literals: the results that are numbers, and these.
        arena_bytes: of temporaries, which are one block.
    """

    in_avals: tuple[Aval, ...]
    out_avals: tuple[Aval, ...]
    consts: list[np.ndarray]
    literals: list[tuple[int, Lit]]
    arena_bytes: int

    @property
    def image(self) -> object:
        """What its backend has made it of."""
        ...

    @property
    def host(self) -> object:
        """A `HostProgram` (compile/host/program.py) over the slots inputs, constants, results,
        arena; the steps of a loop's body become steps of the loop's program."""
        ...

    def __call__(self, args: Sequence[Any], /) -> list[Any]:
        """The results: arrays of the device for such ones."""
        ...

    def seen_as(self, in_avals: Sequence[Aval], out_avals: Sequence[Aval]) -> Runnable:
        """The same for arguments and results of other dtypes of the same sizes."""
        ...
