"""The loops of `loop_gaps.py`, as one writes them in NumPy or Numba."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

# --- loops with bounds that depend on outer ones


def lu(A: Any) -> Any:
    """LU factors in place, without pivots, by products of slices."""
    A = A.copy()
    n = A.shape[0]
    for i in range(n):
        for j in range(i):
            A[i, j] -= A[i, :j] @ A[:j, j]
            A[i, j] /= A[j, j]
        for j in range(i, n):
            A[i, j] -= A[i, :i] @ A[:i, j]
    return A


def cholesky(A: Any) -> Any:
    """A Cholesky factor by three scalar loops."""
    n = A.shape[0]
    L = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            s = A[i, j]
            for k in range(j):
                s -= L[i, k] * L[j, k]
            if i == j:
                L[i, j] = math.sqrt(s)
            else:
                L[i, j] = s / L[j, j]
    return L


def triangle(A: Any) -> Any:
    """A sum over the lower triangle."""
    n = A.shape[0]
    s = 0.0
    for i in range(n):
        for j in range(i):
            s += A[i, j] * A[j, i]
    return s


def triangle_write(A: Any) -> Any:
    """A recurrence over the lower triangle."""
    n = A.shape[0]
    B = np.zeros((n, n))
    for i in range(1, n):
        for j in range(1, i):
            B[i, j] = 0.5 * B[i - 1, j] + 0.4 * B[i, j - 1] + A[i, j] * A[i, j]
    return B


def dots(A: Any) -> Any:
    """Products of slices with moving bounds."""
    n = A.shape[0]
    y = np.zeros(n)
    for i in range(n):
        y[i] = A[i, :i] @ A[:i, i]
    return y


def trisolv(A: Any) -> Any:
    """A triangular system by products of slices."""
    n = A.shape[0]
    x = np.zeros(n)
    for i in range(n):
        x[i] = (1.0 - A[i, :i] @ x[:i]) / A[i, i]
    return x


# --- rectangular nests


def sum3(A: Any) -> Any:
    """A sum of triple products."""
    n = A.shape[0]
    s = 0.0
    for i in range(n):
        for j in range(n):
            for k in range(n):
                s += A[i, k] * A[k, j] * A[i, j]
    return s


def matmul3(A: Any) -> Any:
    """A product of matrices by three loops."""
    n = A.shape[0]
    C = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            s = 0.0
            for k in range(n):
                s += A[i, k] * A[k, j]
            C[i, j] = s
    return C


def seidel(A: Any) -> Any:
    """A recurrence over rows and columns."""
    n = A.shape[0]
    B = np.zeros((n, n))
    for i in range(1, n):
        for j in range(1, n):
            B[i, j] = 0.5 * B[i - 1, j] + 0.4 * B[i, j - 1] + A[i, j] * A[i, j]
    return B


# --- rows and columns


def rows(A: Any) -> Any:
    """A recurrence of rows."""
    B = np.zeros_like(A)
    B[0] = A[0]
    for i in range(1, A.shape[0]):
        B[i] = A[i] - 0.5 * B[i - 1] * A[i]
    return B


def columns(A: Any) -> Any:
    """A recurrence of columns."""
    B = np.zeros_like(A)
    B[:, 0] = A[:, 0]
    for i in range(1, A.shape[1]):
        B[:, i] = A[:, i] - 0.5 * B[:, i - 1] * A[:, i]
    return B


def correlation(A: Any) -> Any:
    """Products of a column with those to its right."""
    n = A.shape[1]
    C = np.eye(n)
    for i in range(n - 1):
        C[i + 1 :, i] = A[:, i] @ A[:, i + 1 :]
    return C


# --- scalars


def rosenbrock(x: Any) -> Any:
    """A sum over neighbours."""
    s = 0.0
    for i in range(len(x) - 1):
        s += 100.0 * (x[i + 1] - x[i] ** 2) ** 2 + (1.0 - x[i]) ** 2
    return s


def written(x: Any) -> Any:
    """An array, element by element."""
    y = np.zeros(len(x))
    for i in range(len(x)):
        y[i] = np.sin(x[i]) * x[i]
    return y


def recurrence(x: Any) -> Any:
    """An array, each element of the one before."""
    y = x.copy()
    for i in range(1, len(x)):
        y[i] = np.sin(y[i - 1]) + x[i]
    return y


def complex_map(x: Any) -> Any:
    """A complex number that is carried."""
    z = 0.1 + 0.2j
    s = 0.0
    for i in range(len(x)):
        z = z * z * 0.5 + 0.2 * x[i]
        s += abs(z)
    return s


def branch_loop(x: Any) -> Any:
    """A loop in a branch."""
    y = x.copy()
    for i in range(1, len(x)):
        if y[i] > 0.5:
            s = 0.0
            for k in range(5):
                s += math.sin(y[i - 1] + k)
            y[i] = s
    return y


def newton(x: Any) -> Any:
    """A `while` in a loop."""
    y = np.zeros(len(x))
    for i in range(len(x)):
        z = 1.0
        while abs(z * z - x[i]) > 1e-12:
            z = 0.5 * (z + x[i] / z)
        y[i] = z
    return y


def broken(x: Any) -> Any:
    """A `break` in an inner loop."""
    n = len(x)
    y = np.zeros(n)
    for i in range(n):
        s = 0.0
        for k in range(20):
            s += x[(i + k) % n]
            if s > 2.0:
                break
        y[i] = s
    return y


def powers(x: Any) -> Any:
    """Integer powers that vary."""
    s = 0.0
    for i in range(len(x)):
        s += x[i] ** (i % 5)
    return s


# --- rows of the table


class Row(NamedTuple):
    """A loop, how many innermost steps it takes at a size, its sizes, and its argument."""

    fun: Callable[[Any], Any]
    steps: Callable[[int], float]
    sizes: tuple[int, ...]
    argument: Callable[[int], np.ndarray]


def _matrix(n: int) -> np.ndarray:
    return np.random.default_rng(0).random((n, n))


def _definite(n: int) -> np.ndarray:
    a = _matrix(n)
    return a @ a.T + n * np.eye(n)


def _scaled(n: int) -> np.ndarray:
    return _matrix(n) / n + np.eye(n)


def _vector(n: int) -> np.ndarray:
    return np.random.default_rng(0).random(n) + 0.01


ROWS = {
    "rosenbrock": Row(rosenbrock, lambda n: n, (10, 100, 1000), _vector),
    "written": Row(written, lambda n: n, (1000,), _vector),
    "recurrence": Row(recurrence, lambda n: n, (400, 1000), _vector),
    "lu": Row(lu, lambda n: n**3 / 3, (40, 80), _definite),
    "cholesky": Row(cholesky, lambda n: n**3 / 6, (20, 40, 80), _definite),
    "triangle": Row(triangle, lambda n: n * n / 2, (40, 400), _matrix),
    "triangle_write": Row(triangle_write, lambda n: n * n / 2, (40, 400), _matrix),
    "dots": Row(dots, lambda n: n * n / 2, (100, 500, 600), _matrix),
    "trisolv": Row(trisolv, lambda n: n * n / 2, (100, 500, 520), _scaled),
    "sum3": Row(sum3, lambda n: n**3, (16, 32, 64), _matrix),
    "matmul3": Row(matmul3, lambda n: n**3, (20, 40, 80), _matrix),
    "seidel": Row(seidel, lambda n: n * n, (20, 40, 400), _matrix),
    "rows": Row(rows, lambda n: n * n, (20, 60, 200, 600), _matrix),
    "columns": Row(columns, lambda n: n * n, (20, 60, 200, 600), _matrix),
    "correlation": Row(correlation, lambda n: n**3 / 2, (40, 200), _matrix),
    "complex": Row(complex_map, lambda n: n, (1000,), _vector),
    "branch_loop": Row(branch_loop, lambda n: n, (1000,), _vector),
    "newton": Row(newton, lambda n: 6 * n, (1000,), _vector),
    "break": Row(broken, lambda n: 5 * n, (1000,), _vector),
    "powers": Row(powers, lambda n: n, (1000,), _vector),
}  # fmt: skip


# --- the same for JAX


def _jax_rosenbrock(jax: Any) -> Any:
    def step(i: Any, s: Any, x: Any) -> Any:
        return s + 100.0 * (x[i + 1] - x[i] ** 2) ** 2 + (1.0 - x[i]) ** 2

    return lambda x: jax.lax.fori_loop(0, len(x) - 1, lambda i, s: step(i, s, x), 0.0)


def _jax_written(jax: Any) -> Any:
    jnp = jax.numpy

    def run(x: Any) -> Any:
        step = lambda i, y: y.at[i].set(jnp.sin(x[i]) * x[i])  # noqa: E731
        return jax.lax.fori_loop(0, len(x), step, jnp.zeros(len(x)))

    return run


def _jax_recurrence(jax: Any) -> Any:
    def run(x: Any) -> Any:
        step = lambda i, y: y.at[i].set(jax.numpy.sin(y[i - 1]) + x[i])  # noqa: E731
        return jax.lax.fori_loop(1, len(x), step, x)

    return run


def _jax_rows(jax: Any) -> Any:
    def run(A: Any) -> Any:
        step = lambda i, B: B.at[i].set(A[i] - 0.5 * B[i - 1] * A[i])  # noqa: E731
        start = jax.numpy.zeros_like(A).at[0].set(A[0])
        return jax.lax.fori_loop(1, A.shape[0], step, start)

    return run


def _jax_columns(jax: Any) -> Any:
    def run(A: Any) -> Any:
        step = lambda i, B: B.at[:, i].set(A[:, i] - 0.5 * B[:, i - 1] * A[:, i])  # noqa: E731
        start = jax.numpy.zeros_like(A).at[:, 0].set(A[:, 0])
        return jax.lax.fori_loop(1, A.shape[1], step, start)

    return run


def _jax_complex(jax: Any) -> Any:
    def run(x: Any) -> Any:
        def step(c: Any, v: Any) -> Any:
            z, s = c
            z = z * z * 0.5 + 0.2 * v
            return (z, s + abs(z)), None

        return jax.lax.scan(step, (0.1 + 0.2j, 0.0), x)[0][1]

    return run


def _jax_seidel(jax: Any) -> Any:
    def run(A: Any) -> Any:
        n = A.shape[0]

        def inner(i: Any, j: Any, B: Any) -> Any:
            return B.at[i, j].set(0.5 * B[i - 1, j] + 0.4 * B[i, j - 1] + A[i, j] * A[i, j])

        outer = lambda i, B: jax.lax.fori_loop(1, n, lambda j, B: inner(i, j, B), B)  # noqa: E731
        return jax.lax.fori_loop(1, n, outer, jax.numpy.zeros_like(A))

    return run


def _jax_matmul3(jax: Any) -> Any:
    def run(A: Any) -> Any:
        n, loop = A.shape[0], jax.lax.fori_loop

        def cell(i: Any, j: Any, C: Any) -> Any:
            return C.at[i, j].set(loop(0, n, lambda k, s: s + A[i, k] * A[k, j], 0.0))

        row = lambda i, C: loop(0, n, lambda j, C: cell(i, j, C), C)  # noqa: E731
        return loop(0, n, row, jax.numpy.zeros_like(A))

    return run


JAX_FORMS = {
    "rosenbrock": _jax_rosenbrock,
    "written": _jax_written,
    "recurrence": _jax_recurrence,
    "rows": _jax_rows,
    "columns": _jax_columns,
    "complex_map": _jax_complex,
    "seidel": _jax_seidel,
    "matmul3": _jax_matmul3,
}
