"""L5. Equations that run outside of kernels: linear algebra, Fourier transforms, complex numbers.

The commonest factorisations and solutions are native steps (`cpu/lapack.py`).  A step named `host`
runs the primitive's NumPy evaluation on views of the buffers.  Kernels have no complex scalars, so
every equation on complex arrays is such a step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fgrad.compile.steps import LibraryStep
from fgrad.ir.program import Atom, Eqn, Var

HOST = frozenset(
    {
        "cholesky", "triangular_solve", "lu", "pivots_order", "factor", "lu_solve",
        "slogdet", "det", "cofactor",
        "qr", "svd", "svdvals", "eigh", "eigvalsh", "eig", "eigvals", "pinv",
        "expm", "expm_frechet", "sqrtm", "solve_sylvester", "fft",
        "real", "imag", "complex", "conj",
    }
)  # fmt: skip


def on_host(eqn: Eqn) -> bool:
    """Whether an equation is a step of this file."""
    if eqn.prim.name in HOST:
        return True
    return any([a.aval.dtype.kind == "c" for a in (*eqn.inputs, *eqn.outputs)])


def host_step(eqn: Eqn, _virtual: Mapping[Var, Eqn]) -> LibraryStep:
    """A native step of LAPACK where there is one, else a call of the primitive's evaluation."""
    native = NATIVE.get(eqn.prim.name)
    if native is not None and eqn.outputs[0].aval.dtype.char in "fd":
        return native(eqn)
    args = (*[a for a in eqn.inputs if isinstance(a, Var)], *eqn.outputs)
    return LibraryStep("host", {"eqn": eqn}, args, ((0,) * len(args),))


def _native(eqn: Eqn, args: Sequence[Atom], **params: Any) -> LibraryStep:
    out = eqn.outputs[0].aval
    params.update(dtype=out.dtype, n=out.shape[-2], batch=math.prod(out.shape[:-2]))
    buffers: Any = (*args, *eqn.outputs)
    return LibraryStep(eqn.prim.name, params, buffers, ((0,) * len(buffers),))


NATIVE: dict[str, Callable[[Eqn], LibraryStep]] = {
    "cholesky": lambda eqn: _native(eqn, eqn.inputs),
    "factor": lambda eqn: _native(eqn, eqn.inputs),
    "triangular_solve": lambda eqn: _native(
        eqn, eqn.inputs, k=eqn.outputs[0].aval.shape[-1], **eqn.params
    ),
    "lu_solve": lambda eqn: _native(
        eqn, eqn.inputs[1:], k=eqn.outputs[0].aval.shape[-1], **eqn.params
    ),
}
