"""L5. `call`: a compiled function used inside a trace; its derived programs are compiled too.

    y = call[program=P] x                 one native call when evaluated
    jvp     call[program=P.jvp] x, t      P.jvp : (x, t) -> t_y, made once and kept in P.cache
    batch   call[program=P.batched] x     one for each combination of batched operands
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.compile.executable import Executable
from fgrad.compile.pipeline import compile_program
from fgrad.ir.aval import Aval
from fgrad.ir.primitive import Primitive
from fgrad.ir.program import Program

call_p = Primitive("call", params=("program", "name"), multiple=True)

_LOCK = threading.RLock()


@call_p.type_rule
def _(*_avals: Aval, program: Program, name: str) -> tuple[Aval, ...]:
    return tuple([aval.strong() for aval in program.out_avals])


def executable_of(program: Program, args: Sequence[Any] | None = None) -> Executable:
    """The compiled form of a program, made once."""
    found = program.cache.get("cpu")
    if found is None:
        with _LOCK:
            found = program.cache.get("cpu")
            if found is None:
                found = program.cache["cpu"] = compile_program(program, args).executable
    return found


@call_p.evaluate
def _(*operands: Any, program: Program, name: str) -> tuple[Any, ...]:
    arrays = [contiguous(x, aval.dtype) for x, aval in zip(operands, program.in_avals, strict=True)]
    return tuple(executable_of(program, arrays)(arrays))


def contiguous(x: Any, dtype: np.dtype) -> np.ndarray:
    """`x` as the C-contiguous native array that compiled code reads."""
    if type(x) is np.ndarray and x.flags.c_contiguous and x.dtype is dtype:
        return x
    return np.array(x, dtype, order="C", copy=None)
