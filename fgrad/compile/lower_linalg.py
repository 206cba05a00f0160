"""L5. Equations that run outside of kernels: linear algebra, Fourier transforms, complex numbers.

The commonest factorisations and solutions are native steps (`cpu/lapack.py`).  A step named `host`
runs the primitive's NumPy evaluation on views of the buffers: so do the equations on complex arrays
that pass `real_parts` has left, since kernels have no complex scalars.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fgrad.compile.steps import LibraryStep
from fgrad.ir.aval import Aval
from fgrad.ir.program import Atom, Eqn, Var
from fgrad.ops.complex import real_dtype

HOST = frozenset(
    {
        "cholesky", "triangular_solve", "lu", "pivots_order", "factor", "lu_solve", "solve",
        "slogdet", "det", "cofactor",
        "qr", "svd", "svdvals", "eigh", "eigvalsh", "eig", "eigvals", "pinv",
        "matrix_function", "frechet", "sqrtm", "solve_sylvester", "fft",
        "real", "imag", "complex", "conj",
    }
)  # fmt: skip

UNDIVIDED = 24  # rows and columns up to which eigenvectors are found in one piece
_COMPLEX = frozenset("FD")


def on_host(eqn: Eqn) -> bool:
    """Whether an equation is a step of this file."""
    if eqn.prim.name in HOST:
        return True
    return not _COMPLEX.isdisjoint([a.aval.dtype.char for a in (*eqn.inputs, *eqn.outputs)])


def host_step(eqn: Eqn, _virtual: Mapping[Var, Eqn]) -> LibraryStep:
    """A native step of LAPACK where there is one, else a call of the primitive's evaluation."""
    native = NATIVE.get(eqn.prim.name)
    if native is not None and _suits_native(eqn):
        return native(eqn)
    if eqn.prim.name in PARTS and all([isinstance(a, Var) for a in eqn.inputs]):
        return _parts(eqn)
    args = (*[a for a in eqn.inputs if isinstance(a, Var)], *eqn.outputs)
    return LibraryStep("host", {"eqn": eqn}, args, ((0,) * len(args),))


PARTS = frozenset({"real", "imag", "complex"})


def _parts(eqn: Eqn) -> LibraryStep:
    out = eqn.outputs[0].aval
    buffers: Any = (*eqn.inputs, *eqn.outputs)
    params = {"name": eqn.prim.name, "dtype": real_dtype(out.dtype), "size": out.size}
    return LibraryStep("complex_parts", params, buffers, ((0,) * len(buffers),))


def vectors_are_native(a: Aval) -> bool:
    """Whether singular vectors and eigenvectors of a matrix come from a native step.

    Their signs are rounding's choice where LAPACK divides and conquers, and in float32, which NumPy
    computes in float64: there NumPy makes it, as outside of compiled code.
    """
    return a.dtype.char == "d" and max(a.shape[-2:]) <= UNDIVIDED


def _suits_native(eqn: Eqn) -> bool:
    a = eqn.inputs[0].aval
    if a.dtype.char not in "fd" or not a.size:
        return False
    return eqn.prim.name not in ("eigh", "svd") or vectors_are_native(a)


def _native(eqn: Eqn, args: Sequence[Atom], **sizes: int) -> LibraryStep:
    first = eqn.inputs[0].aval
    params = {**eqn.params, **sizes, "dtype": first.dtype, "batch": math.prod(first.shape[:-2])}
    buffers: Any = (*args, *eqn.outputs)
    return LibraryStep(eqn.prim.name, params, buffers, ((0,) * len(buffers),))


def _square(eqn: Eqn) -> LibraryStep:
    return _native(eqn, eqn.inputs, n=eqn.inputs[0].aval.shape[-1])


def _rectangular(eqn: Eqn) -> LibraryStep:
    m, n = eqn.inputs[0].aval.shape[-2:]
    return _native(eqn, eqn.inputs, m=m, n=n)


def _system(eqn: Eqn) -> LibraryStep:
    n, k = eqn.outputs[0].aval.shape[-2:]
    return _native(eqn, eqn.inputs[eqn.prim.name == "lu_solve" :], n=n, k=k)


NATIVE: dict[str, Callable[[Eqn], LibraryStep]] = {
    "cholesky": _square,
    "factor": _square,
    "eigh": _square,
    "eigvalsh": _square,
    "qr": _rectangular,
    "svd": _rectangular,
    "svdvals": _rectangular,
    "triangular_solve": _system,
    "lu_solve": _system,
}
