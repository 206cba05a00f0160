"""L5. Equations computed by C functions of NumPy, SciPy and MPI -> loops that call these.

    np.log(z), np.fft.fft(z)      the loop of NumPy's ufunc
    scipy.special.j0(x)           its pointer
    lax.psum(x, "data")           a function of the MPI library

What has neither is left to Python.
"""

from __future__ import annotations

import math

import numpy as np

from fgrad.compile.cpu.exchanges import Exchange, exchange
from fgrad.compile.cpu.external import has_pointer
from fgrad.compile.cpu.ufunc_loops import Operand, UfuncLoop, find_loop, find_ufunc, types_of
from fgrad.compile.tasks.routines import SpecialFunction, special_function
from fgrad.ir.program import Eqn, Lit
from fgrad.ir.traits import Host
from fgrad.ops import primitives as prims
from fgrad.ops.complex import real_dtype


def c_loop(eqn: Eqn) -> UfuncLoop | SpecialFunction | Exchange | None:
    """The loop in C of an equation; its buffers are the operands that are arrays, then results."""
    if eqn.prim.across is not None:
        return exchange(eqn)
    real = eqn.outputs[0].aval.dtype.kind == "f"
    if eqn.prim.host is Host.SCIPY and real and has_pointer(eqn.prim.name, len(eqn.inputs)):
        return special_function(eqn)
    return _fourier(eqn) if eqn.prim is prims.fft else _ufunc(eqn)


def _ufunc(eqn: Eqn) -> UfuncLoop | None:
    """A loop of NumPy's on complex arrays, where there is one for these dtypes."""
    ufunc, inputs, out = eqn.prim.evaluate_rule, eqn.inputs, eqn.outputs[0].aval
    if not isinstance(ufunc, np.ufunc) or eqn.params or len(eqn.outputs) > 1:
        return None
    types = types_of([a.aval.dtype for a in inputs], out.dtype)
    if find_loop(ufunc, types) is None:
        return None
    operands = [
        Operand(0, constant=a.value.tobytes().hex())
        if isinstance(a, Lit)
        else Operand(a.aval.dtype.itemsize if a.aval.ndim else 0)
        for a in inputs
    ]
    fields = tuple([tuple(x) for x in (*operands, Operand(out.dtype.itemsize))])
    return UfuncLoop(ufunc.__name__, types, fields, out.size)


_FOURIER = {"fft": "fft.fft", "ifft": "fft.ifft", "irfft": "fft.irfft"}


def _fourier(eqn: Eqn) -> UfuncLoop | None:
    """Transforms along one axis by NumPy's loop, where there is one."""
    x, out, kind = eqn.inputs[0].aval, eqn.outputs[0].aval, eqn.params["kind"]
    if len(eqn.params["axes"]) > 1 or isinstance(eqn.inputs[0], Lit) or not x.size:
        return None
    (axis,) = eqn.params["axes"]
    n, m, points = x.shape[axis], out.shape[axis], eqn.params["n"] or x.shape[axis]
    name = _FOURIER.get(kind) or f"fft.rfft_n_{'odd' if n % 2 else 'even'}"
    factor = real_dtype(x.dtype).type(1 / points if kind in ("ifft", "irfft") else 1)
    types = types_of([x.dtype, factor.dtype], out.dtype)
    if find_loop(find_ufunc(name), types) is None:
        return None
    outer, inner = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])

    def operand(length: int, item: int) -> Operand:
        whole = length * inner * item
        return Operand(item if inner > 1 else whole, (inner * item,), whole)

    operands = (
        tuple(operand(n, x.dtype.itemsize)),
        tuple(Operand(0, constant=factor.tobytes().hex())),
        tuple(operand(m, out.dtype.itemsize)),
    )
    return UfuncLoop(name, types, operands, outer, (n, m), inner if inner > 1 else 0)
