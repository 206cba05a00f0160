"""L5. Linear algebra and transforms: one library step for each equation.

A step named `host` runs the primitive's NumPy evaluation on views of the buffers.
"""

from __future__ import annotations

from collections.abc import Mapping

from fgrad.compile.steps import LibraryStep
from fgrad.ir.program import Eqn, Var

HOST = frozenset(
    {
        "cholesky", "triangular_solve", "lu", "lu_solve", "slogdet", "det", "cofactor",
        "qr", "svd", "svdvals", "eigh", "eigvalsh", "eig", "eigvals", "pinv",
        "expm", "expm_frechet", "sqrtm", "solve_sylvester", "fft",
    }
)  # fmt: skip


def host_step(eqn: Eqn, _virtual: Mapping[Var, Eqn]) -> LibraryStep:
    """A call of the primitive's NumPy evaluation."""
    args = (*[a for a in eqn.inputs if isinstance(a, Var)], *eqn.outputs)
    return LibraryStep("host", {"eqn": eqn}, args, ((0,) * len(args),))
