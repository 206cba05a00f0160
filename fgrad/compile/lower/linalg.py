"""L5. Equations that run outside of kernels: linear algebra, Fourier transforms, convolutions that
a library of the device takes, complex numbers.

The commonest factorisations and solutions are routines of LAPACK by name.  All else is an
`Evaluation`, for which a backend takes a loop in C where it knows one, or runs the primitive's
NumPy evaluation on views of the buffers: so it is with the equations on complex arrays that pass
`legalize_complex` has left, since kernels have no complex scalars.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.passes.compositions import vectors_are_native
from fgrad.compile.tasks.routines import MESSAGES, ComplexParts, Evaluation, MatrixRoutine
from fgrad.compile.tasks.steps import LibraryStep
from fgrad.ir.aval import Aval
from fgrad.ir.primitive import Primitive
from fgrad.ir.program import Atom, Eqn, Lit, Var
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
    """A routine of LAPACK where there is one, else a call of the primitive's evaluation."""
    native = NATIVE.get(eqn.prim)
    if native is not None and native.suits(eqn):
        return native.step(eqn)
    args = (*[a for a in eqn.inputs if isinstance(a, Var)], *eqn.outputs)
    return LibraryStep(Evaluation(eqn), args, ((0,) * len(args),))


def _parts(eqn: Eqn) -> LibraryStep:
    out = eqn.outputs[0].aval
    buffers: Any = (*[a for a in eqn.inputs if isinstance(a, Var)], *eqn.outputs)
    constants = tuple([float(a.value) if isinstance(a, Lit) else None for a in eqn.inputs])
    parts = ComplexParts(eqn.prim.name, real_dtype(out.dtype), out.size, constants)
    return LibraryStep(parts, buffers, ((0,) * len(buffers),))


class Native(NamedTuple):
    """A step for the equations of a primitive that it suits; NumPy evaluates the others."""

    suits: Callable[[Eqn], bool]
    step: Callable[[Eqn], LibraryStep]


def _has_array(eqn: Eqn) -> bool:
    return any([isinstance(a, Var) for a in eqn.inputs])


def _has_arrays(eqn: Eqn) -> bool:
    return eqn.outputs[0].aval.size > 0 and all([isinstance(a, Var) for a in eqn.inputs])


def _has_elements(eqn: Eqn) -> bool:
    return eqn.inputs[0].aval.size > 0 and isinstance(eqn.inputs[0], Var)


def _has_matrices(eqn: Eqn) -> bool:
    a = eqn.inputs[0].aval
    return a.dtype.char in "fdFD" and a.size > 0


def _has_vectors(eqn: Eqn) -> bool:
    return _has_matrices(eqn) and vectors_are_native(eqn.inputs[0].aval)


def _native(eqn: Eqn, args: Sequence[Atom], **sizes: int) -> LibraryStep:
    first = eqn.inputs[0].aval
    batch = math.prod(first.shape[:-2])
    params = {**eqn.params, **sizes, "dtype": first.dtype, "batch": batch}
    notes = [Var(Aval((batch,), np.dtype(np.uint8)))] if batch > 1 else []
    buffers: Any = (*args, *eqn.outputs, *notes)
    routine = MatrixRoutine(eqn.prim.name, tuple(params.items()))
    return LibraryStep(routine, buffers, ((0,) * len(buffers),))


def with_flags(step: LibraryStep) -> list[LibraryStep]:
    """A step, and for stacks of matrices what raises if one of them has failed."""
    routine = step.routine
    if not isinstance(routine, MatrixRoutine):
        return [step]
    message = MESSAGES.get(routine.name)
    if message is None or routine.batch < 2:
        return [step]
    flags = MatrixRoutine("flags", (("message", message), ("batch", routine.batch)))
    return [step, LibraryStep(flags, step.args[-1:], ((0,),))]


def _square(eqn: Eqn) -> LibraryStep:
    return _native(eqn, eqn.inputs, n=eqn.inputs[0].aval.shape[-1])


def _rectangular(eqn: Eqn) -> LibraryStep:
    m, n = eqn.inputs[0].aval.shape[-2:]
    return _native(eqn, eqn.inputs, m=m, n=n)


def _system(eqn: Eqn) -> LibraryStep:
    n, k = eqn.outputs[0].aval.shape[-2:]
    return _native(eqn, eqn.inputs[eqn.prim is prims.lu_solve :], n=n, k=k)


def _checked(eqn: Eqn) -> LibraryStep:
    aval = eqn.outputs[0].aval
    params = {**eqn.params, "itemsize": aval.dtype.itemsize, "size": aval.size}
    buffers: Any = (*eqn.inputs, *eqn.outputs)
    return LibraryStep(MatrixRoutine("checked", tuple(params.items())), buffers, ((0, 0, 0),))


def _required(eqn: Eqn) -> LibraryStep:
    params = {**eqn.params, "size": eqn.outputs[0].aval.size}
    buffers: Any = (*eqn.inputs, *eqn.outputs)
    return LibraryStep(MatrixRoutine("required", tuple(params.items())), buffers, ((0, 0),))


def _in_range(eqn: Eqn) -> LibraryStep:
    aval = eqn.outputs[0].aval
    params = {**eqn.params, "dtype": aval.dtype, "size": aval.size}
    buffers: Any = (*eqn.inputs, *eqn.outputs)
    return LibraryStep(MatrixRoutine("in_range", tuple(params.items())), buffers, ((0, 0),))


def _exchanges(eqn: Eqn) -> LibraryStep:
    pivots = eqn.inputs[0].aval
    params = (("n", pivots.shape[-1]), ("batch", math.prod(pivots.shape[:-1])))
    buffers: Any = (*eqn.inputs, *eqn.outputs)
    return LibraryStep(MatrixRoutine("pivots_order", params), buffers, ((0, 0),))


_SQUARE = Native(_has_matrices, _square)
_RECTANGULAR = Native(_has_matrices, _rectangular)
_SYSTEM = Native(_has_matrices, _system)
_PARTS = Native(_has_array, _parts)
NATIVE: dict[Primitive, Native] = {
    prims.checked: Native(_has_arrays, _checked),
    prims.in_range: Native(_has_elements, _in_range),
    prims.required: Native(_has_elements, _required),
    prims.cholesky: _SQUARE,
    prims.factor: _SQUARE,
    prims.eigh: Native(_has_vectors, _square),
    prims.eigvalsh: _SQUARE,
    prims.lu: _RECTANGULAR,
    prims.pivots_order: Native(_has_elements, _exchanges),
    prims.qr: _RECTANGULAR,
    prims.svd: Native(_has_vectors, _rectangular),
    prims.svdvals: _RECTANGULAR,
    prims.triangular_solve: _SYSTEM,
    prims.lu_solve: _SYSTEM,
    prims.real: _PARTS,
    prims.imag: _PARTS,
    prims.complex: _PARTS,
}
