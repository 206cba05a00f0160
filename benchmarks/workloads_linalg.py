"""Workloads of linear algebra: stacks of small matrices, one large one, gradients, transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from harness import Cost, Library, Workload
from workloads_arrays import Call, jitted, normal

STACK, ONE = (256, 16, 16), (512, 512)
Maker = Callable[[Library], Call]


def general(*shape: int) -> np.ndarray:
    """Well-conditioned matrices."""
    n = shape[-1]
    return normal(*shape) / n**0.5 + 2 * np.eye(n)


def definite(*shape: int) -> np.ndarray:
    """Symmetric, positive definite matrices."""
    a = general(*shape)
    return a @ np.swapaxes(a, -1, -2)


def solve(*shape: int, columns: int = 1, parts: bool = False) -> Maker:
    """a x = b for some right-hand sides."""

    def make(lib: Library) -> Call:
        a, b = general(*shape), normal(*shape[:-1], columns, seed=1)
        a, b = (a + 0.3j * normal(*shape, seed=2), b + 0j) if parts else (a, b)
        return jitted(lib, lambda a, b: lib.np.linalg.solve(a, b), a, b)

    return make


def solve_gradient(*shape: int) -> Maker:
    """The gradient of a sum of squares of a solution."""

    def make(lib: Library) -> Call:
        def loss(a: Any, b: Any) -> Any:
            return lib.np.sum(lib.np.linalg.solve(a, b) ** 2)

        b = normal(*shape[:-1], 1, seed=1)
        return jitted(lib, lib.api.grad(loss, argnums=(0, 1)), general(*shape), b)

    return make


def function(name: str, make_matrix: Callable[..., np.ndarray], *shape: int) -> Maker:
    """A function of `linalg` of one argument; results as a tuple."""

    def make(lib: Library) -> Call:
        one = getattr(lib.np.linalg, name)

        def f(a: Any) -> Any:
            out = one(a)
            return tuple(out) if isinstance(out, tuple) else out

        return jitted(lib, f, make_matrix(*shape))

    return make


def gaussian_gradient(*shape: int) -> Maker:
    """The gradient of the logarithm of a Gaussian density with respect to its covariance."""

    def make(lib: Library) -> Call:
        def loss(a: Any, x: Any) -> Any:
            low = lib.np.linalg.cholesky(a)
            white = lib.np.linalg.solve(low, x)
            size = lib.np.sum(lib.np.log(lib.np.diagonal(low, axis1=-2, axis2=-1)))
            return 0.5 * lib.np.sum(white**2) + size

        x = normal(*shape[:-1], 1, seed=1)
        return jitted(lib, lib.api.grad(loss), definite(*shape), x)

    return make


def spectrum(*shape: int) -> Maker:
    """Filtering by a product of Fourier transforms along the last axis."""

    def make(lib: Library) -> Call:
        def f(x: Any, w: Any) -> Any:
            return lib.np.fft.irfft(lib.np.fft.rfft(x) * lib.np.fft.rfft(w), x.shape[-1])

        return jitted(lib, f, normal(*shape), normal(shape[-1], seed=1))

    return make


def phases(lib: Library) -> Call:
    """Elementwise complex arithmetic."""
    z = normal(100_000) + 1j * normal(100_000, seed=1)
    return jitted(lib, lambda z: lib.np.exp(1j * z) * z / (1 + lib.np.abs(z)), z)


LANES = (
    "8 matrices are transposed into lanes and back (a third of the profiles of `det` and `inv`), "
    "quotients of pivots wait (a sixth), each step reads and writes the matrices in a cache"
)
TURNS = (
    "each rotation waits for a root and a quotient of the one before; 8 matrices make them together"
)
FOURIER = "NumPy's transforms add and multiply single numbers, without vectors"


def stacked(
    share: float, columns: tuple[float, float], reason: str = LANES, itemsize: int = 8
) -> Cost:
    """`share` n^3 operations for each matrix of the stack, of which columns of n numbers are read
    and written."""
    matrices, n, _ = STACK
    read, written = [itemsize * matrices * n * count for count in columns]
    return Cost(read, written, flops=share * matrices * n**3, reason=reason)


def one(share: float, read: float = 0.0, reason: str = "") -> Cost:
    """The same for one matrix, of which `read` n^3 elements are read for products with vectors."""
    n = ONE[0]
    return Cost(8 * read * n**3, within=8 * n * n, flops=share * n**3, reason=reason)


# Values, which NumPy has too.  Signs of vectors are not compared, nor derivatives with respect to
# the triangle that is not read, which JAX spreads over both.
VALUES = (
    Workload("solve, 256 of 16x16", 1.0, solve(*STACK), cost=stacked(2 / 3, (17, 1))),
    Workload(
        "solve, 256 of 16x16, 16 columns",
        1.0,
        solve(*STACK, columns=16),
        cost=stacked(2 / 3 + 2, (32, 16)),
    ),
    Workload(
        "solve, 256 of 16x16, complex",
        1.0,
        solve(*STACK, parts=True),
        cost=stacked(8 / 3, (17, 1), itemsize=16),
    ),
    Workload("solve, 512x512", 1.0, solve(*ONE), cost=one(2 / 3)),
    Workload(
        "inverse, 256 of 16x16", 1.0, function("inv", general, *STACK), cost=stacked(2, (16, 16))
    ),
    Workload(
        "determinant, 256 of 16x16",
        1.0,
        function("det", general, *STACK),
        cost=stacked(2 / 3, (16, 1 / 16)),
    ),
    Workload(
        "cholesky, 256 of 16x16",
        1.0,
        function("cholesky", definite, *STACK),
        cost=stacked(1 / 3, (16, 16)),
    ),
    Workload("cholesky, 512x512", 1.0, function("cholesky", definite, *ONE), cost=one(1 / 3)),
    Workload(
        "qr, 256 of 16x16",
        1.0,
        function("qr", general, *STACK),
        exact=False,
        cost=stacked(8 / 3, (16, 32)),
    ),
    Workload("qr, 512x512", 1.0, function("qr", general, *ONE), exact=False, cost=one(8 / 3)),
    Workload(
        "eigh, 256 of 16x16",
        1.0,
        function("eigh", definite, *STACK),
        exact=False,
        cost=stacked(14 / 3, (16, 17), TURNS),
    ),
    Workload(
        "eigh, 512x512",
        1.0,
        function("eigh", definite, *ONE),
        exact=False,
        cost=one(14 / 3, read=1 / 6),
    ),
    Workload(
        "svd, 256 of 16x16",
        1.0,
        function("svd", general, *STACK),
        exact=False,
        cost=stacked(10, (16, 33), TURNS),
    ),
    Workload(
        "svd, 512x512",
        1.0,
        function("svd", general, *ONE),
        exact=False,
        cost=one(
            10,
            read=1 / 3,
            reason="LAPACK: half of the first step and the rotations of the second are no products",
        ),
    ),
    Workload(
        "filter by rfft, 64 of 1024",
        1.0,
        spectrum(64, 1024),
        cost=Cost(8 * 64 * 1024, 8 * 64 * 1024, flops=64 * 5 * 1024 * 10, reason=FOURIER),
    ),
    Workload(
        "filter by rfft, one of 256",
        1.0,
        spectrum(256),
        cost=Cost(flops=3 * 2.5 * 256 * 8, reason=FOURIER),
    ),
    Workload(
        "complex chain, 100k",
        1.0,
        phases,
        cost=Cost(
            16e5,
            16e5,
            functions=3e5,
            divisions=2e5,
            reason="it is taken apart and put together in passes of their own; a sine and a cosine "
            "cost more than an exponential",
        ),
    ),
)
GRADIENTS = (
    Workload(
        "gradient of solve, 256 of 16x16",
        1.0,
        solve_gradient(*STACK),
        cost=stacked(2 / 3, (17, 17)),
    ),
    Workload("gradient of solve, 512x512", 1.0, solve_gradient(*ONE), cost=one(2 / 3)),
    Workload(
        "gradient of a Gaussian, 256 of 16x16",
        1.0,
        gaussian_gradient(*STACK),
        exact=False,
        cost=stacked(1, (17, 16)),
    ),
    Workload(
        "gradient of a Gaussian, 512x512",
        1.0,
        gaussian_gradient(*ONE),
        exact=False,
        cost=one(
            1,
            reason="the limit is the closed form; the gradient of cholesky is a product and two "
            "solutions for n columns",
        ),
    ),
)
LINALG = (*VALUES, *GRADIENTS)
