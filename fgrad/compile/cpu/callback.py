"""L5. Steps that run Python: an equation evaluated by NumPy on views of a program's buffers.

    buffers (addresses) -> views -> prim.evaluate -> copied into the output's buffer

The callback takes the GIL.  What it raises reaches the caller after the program has run; until then
its results are NaN, or zeros where there is no NaN.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from fgrad.compile.cpu.host import Callback
from fgrad.ir.aval import Aval
from fgrad.ir.program import Eqn, Lit


def evaluation(eqn: Eqn) -> Callback:
    """The step that evaluates an equation; its buffers are those of variables, inputs first."""
    count = sum([not isinstance(a, Lit) for a in eqn.inputs])

    def run(*addresses: int) -> None:
        given = iter(addresses[:count])
        operands = [
            a.value if isinstance(a, Lit) else view(next(given), a.aval) for a in eqn.inputs
        ]
        outs = [
            view(address, v.aval) for address, v in zip(addresses[count:], eqn.outputs, strict=True)
        ]
        try:
            with np.errstate(all="ignore"):
                results = eqn.prim.evaluate_rule(*operands, **eqn.params)
        except Exception:
            for out in outs:
                out[...] = np.nan if out.dtype.kind in "fc" else 0
            raise
        for out, value in zip(outs, results if eqn.prim.multiple else (results,), strict=True):
            out[...] = value

    return Callback(run, count + len(eqn.outputs))


def view(address: int | None, aval: Aval) -> np.ndarray:
    """The array at an address."""
    size = aval.size * aval.dtype.itemsize
    if not size:
        return np.empty(aval.shape, aval.dtype)
    memory: Any = (ctypes.c_char * size).from_address(address or 0)
    return np.frombuffer(memory, aval.dtype).reshape(aval.shape)
