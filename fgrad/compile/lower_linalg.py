"""L5. Equations that run outside of kernels: linear algebra, Fourier transforms, complex numbers.

A step named `host` runs the primitive's NumPy evaluation on views of the buffers.  Kernels have no
complex scalars, so every equation on complex arrays is such a step.
"""

from __future__ import annotations

from collections.abc import Mapping

from fgrad.compile.steps import LibraryStep
from fgrad.ir.program import Eqn, Var

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
    """Whether NumPy evaluates an equation in compiled programs."""
    if eqn.prim.name in HOST:
        return True
    return any([a.aval.dtype.kind == "c" for a in (*eqn.inputs, *eqn.outputs)])


def host_step(eqn: Eqn, _virtual: Mapping[Var, Eqn]) -> LibraryStep:
    """A call of the primitive's NumPy evaluation."""
    args = (*[a for a in eqn.inputs if isinstance(a, Var)], *eqn.outputs)
    return LibraryStep("host", {"eqn": eqn}, args, ((0,) * len(args),))
