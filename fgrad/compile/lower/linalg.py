"""L5. Equations that run outside of kernels: linear algebra, Fourier transforms, convolutions that
a library of the device takes, complex numbers.

The commonest factorisations and solutions are native steps (`cpu/lapack.py`).  A step named `host`
runs the primitive's NumPy evaluation on views of the buffers: so do the equations on complex arrays
that pass `real_parts` has left, since kernels have no complex scalars.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from fgrad.compile.cpu.external import has_pointer
from fgrad.compile.cpu.lapack import MESSAGES
from fgrad.compile.cpu.ufunc_loops import Operand, find_loop, find_ufunc, types_of
from fgrad.compile.passes.compositions import vectors_are_native
from fgrad.compile.steps import LibraryStep
from fgrad.ir.aval import Aval
from fgrad.ir.primitive import Primitive
from fgrad.ir.program import Atom, Eqn, Lit, Var
from fgrad.ir.traits import Host
from fgrad.ops import primitives as prims
from fgrad.ops.complex import real_dtype

_COMPLEX = frozenset("FD")
_CHAR = attrgetter("aval.dtype.char")


def on_host(eqn: Eqn) -> bool:
    """Whether an equation is a step of this file."""
    if eqn.prim.host is not None:
        return True
    return not _COMPLEX.isdisjoint(map(_CHAR, (*eqn.outputs, *eqn.inputs)))


def host_step(eqn: Eqn, _virtual: Mapping[Var, Eqn]) -> LibraryStep:
    """A native step of LAPACK where there is one, else a call of the primitive's evaluation."""
    native = NATIVE.get(eqn.prim)
    if native is not None and _suits_native(eqn):
        return native(eqn)
    if eqn.prim in PARTS and any([isinstance(a, Var) for a in eqn.inputs]):
        return _parts(eqn)
    real = eqn.outputs[0].aval.dtype.kind == "f"
    if eqn.prim.host is Host.SCIPY and real and has_pointer(eqn.prim.name, len(eqn.inputs)):
        return _external(eqn)
    loop = _fourier(eqn) if eqn.prim is prims.fft else _ufunc(eqn)
    if loop is not None:
        return loop
    args = (*[a for a in eqn.inputs if isinstance(a, Var)], *eqn.outputs)
    return LibraryStep("host", {"eqn": eqn}, args, ((0,) * len(args),))


def _external(eqn: Eqn) -> LibraryStep:
    """A loop that calls SciPy's function."""
    args: Any = (*[a for a in eqn.inputs if isinstance(a, Var)], *eqn.outputs)
    return LibraryStep("external", external_params(eqn), args, ((0,) * len(args),))


def external_params(eqn: Eqn) -> dict[str, Any]:
    """The parameters of a step `external`."""
    out = eqn.outputs[0].aval
    return {
        "name": eqn.prim.name,
        "dtype": out.dtype,
        "size": out.size,
        "constants": tuple([float(a.value) if isinstance(a, Lit) else None for a in eqn.inputs]),
        "ones": tuple([k for k, a in enumerate(eqn.inputs) if a.aval.size == 1 < out.size]),
    }


def _ufunc(eqn: Eqn) -> LibraryStep | None:
    """A loop of NumPy's on complex arrays, where there is one for these dtypes."""
    ufunc, out = eqn.prim.evaluate_rule, eqn.outputs[0].aval
    if not isinstance(ufunc, np.ufunc) or eqn.params or len(eqn.outputs) > 1:
        return None
    types = types_of([a.aval.dtype for a in eqn.inputs], out.dtype)
    if find_loop(ufunc, types) is None:
        return None
    operands = [
        Operand(0, constant=a.value.tobytes().hex())
        if isinstance(a, Lit)
        else Operand(a.aval.dtype.itemsize if a.aval.ndim else 0)
        for a in eqn.inputs
    ]
    args: Any = (*[a for a in eqn.inputs if isinstance(a, Var)], *eqn.outputs)
    params = {
        "name": ufunc.__name__,
        "types": types,
        "operands": tuple([tuple(x) for x in (*operands, Operand(out.dtype.itemsize))]),
        "size": out.size,
    }
    return LibraryStep("ufunc", params, args, ((0,) * len(args),))


_FOURIER = {"fft": "fft.fft", "ifft": "fft.ifft", "irfft": "fft.irfft"}


def _fourier(eqn: Eqn) -> LibraryStep | None:
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

    params = {
        "name": name,
        "types": types,
        "operands": (
            tuple(operand(n, x.dtype.itemsize)),
            tuple(Operand(0, constant=factor.tobytes().hex())),
            tuple(operand(m, out.dtype.itemsize)),
        ),
        "size": outer,
        "dims": (n, m),
        "inner": inner if inner > 1 else 0,
    }
    args: Any = (*eqn.inputs, *eqn.outputs)
    return LibraryStep("ufunc", params, args, ((0, 0),))


PARTS = frozenset({prims.real, prims.imag, prims.complex})


def _parts(eqn: Eqn) -> LibraryStep:
    out = eqn.outputs[0].aval
    buffers: Any = (*[a for a in eqn.inputs if isinstance(a, Var)], *eqn.outputs)
    constants = tuple([float(a.value) if isinstance(a, Lit) else None for a in eqn.inputs])
    params = {
        "name": eqn.prim.name,
        "dtype": real_dtype(out.dtype),
        "size": out.size,
        "constants": constants,
    }
    return LibraryStep("complex_parts", params, buffers, ((0,) * len(buffers),))


def _suits_native(eqn: Eqn) -> bool:
    a = eqn.inputs[0].aval
    if eqn.prim in (prims.pivots_order, prims.in_range):
        return a.size > 0 and isinstance(eqn.inputs[0], Var)
    if a.dtype.char not in "fdFD" or not a.size:
        return False
    return eqn.prim not in (prims.eigh, prims.svd) or vectors_are_native(a)


def _native(eqn: Eqn, args: Sequence[Atom], **sizes: int) -> LibraryStep:
    first = eqn.inputs[0].aval
    batch = math.prod(first.shape[:-2])
    params = {**eqn.params, **sizes, "dtype": first.dtype, "batch": batch}
    notes = [Var(Aval((batch,), np.dtype(np.uint8)))] if batch > 1 else []
    buffers: Any = (*args, *eqn.outputs, *notes)
    return LibraryStep(eqn.prim.name, params, buffers, ((0,) * len(buffers),))


def with_flags(step: LibraryStep) -> list[LibraryStep]:
    """A step, and for stacks of matrices what raises if one of them has failed."""
    if step.name not in MESSAGES or step.params["batch"] < 2:
        return [step]
    params = {"message": MESSAGES[step.name], "batch": step.params["batch"]}
    return [step, LibraryStep("flags", params, step.args[-1:], ((0,),))]


def _square(eqn: Eqn) -> LibraryStep:
    return _native(eqn, eqn.inputs, n=eqn.inputs[0].aval.shape[-1])


def _rectangular(eqn: Eqn) -> LibraryStep:
    m, n = eqn.inputs[0].aval.shape[-2:]
    return _native(eqn, eqn.inputs, m=m, n=n)


def _system(eqn: Eqn) -> LibraryStep:
    n, k = eqn.outputs[0].aval.shape[-2:]
    return _native(eqn, eqn.inputs[eqn.prim is prims.lu_solve :], n=n, k=k)


def _in_range(eqn: Eqn) -> LibraryStep:
    aval = eqn.outputs[0].aval
    params = {**eqn.params, "dtype": aval.dtype, "size": aval.size}
    buffers: Any = (*eqn.inputs, *eqn.outputs)
    return LibraryStep("in_range", params, buffers, ((0, 0),))


def _exchanges(eqn: Eqn) -> LibraryStep:
    pivots = eqn.inputs[0].aval
    params = {"n": pivots.shape[-1], "batch": math.prod(pivots.shape[:-1])}
    buffers: Any = (*eqn.inputs, *eqn.outputs)
    return LibraryStep("pivots_order", params, buffers, ((0, 0),))


NATIVE: dict[Primitive, Callable[[Eqn], LibraryStep]] = {
    prims.in_range: _in_range,
    prims.cholesky: _square,
    prims.factor: _square,
    prims.eigh: _square,
    prims.eigvalsh: _square,
    prims.lu: _rectangular,
    prims.pivots_order: _exchanges,
    prims.qr: _rectangular,
    prims.svd: _rectangular,
    prims.svdvals: _rectangular,
    prims.triangular_solve: _system,
    prims.lu_solve: _system,
}
