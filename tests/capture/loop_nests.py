"""Nests of plain loops whose gradients meet sums that begin elsewhere: in branches, inner loops and
updates of one array."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def triangle(A: Any) -> Any:
    s = 0.0
    for i in range(A.shape[0]):
        for j in range(i):
            s = s + A[i, j] * A[j, i]
    return s


def recurrence(A: Any) -> Any:
    n = A.shape[0]
    B = np.zeros_like(A)
    for i in range(1, n):
        for j in range(1, n):
            B[i, j] = 0.5 * B[i - 1, j] + 0.4 * B[i, j - 1] + A[i, j] * A[i, j]
    return np.sum(B * A)


def rows(A: Any) -> Any:
    B = A.copy()
    for i in range(1, A.shape[0]):
        B[i] = A[i] - 0.5 * B[i - 1] * A[i]
    return np.sum(B**2)


def columns(A: Any) -> Any:
    B = A.copy()
    for i in range(1, A.shape[1]):
        B[:, i] = A[:, i] - 0.5 * B[:, i - 1] * A[:, i]
    return np.sum(B**2)


def product(A: Any) -> Any:
    n = A.shape[0]
    C = np.zeros_like(A)
    for i in range(n):
        for j in range(n):
            s = 0.0
            for k in range(n):
                s = s + A[i, k] * A[k, j]
            C[i, j] = s
    return np.sum(C * A)


def branches(A: Any) -> Any:
    s = 0.0
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            if A[i, j] > 0.5:
                for k in range(3):
                    s = s + A[i, j] * A[k % A.shape[0], j] * k
            elif A[i, j] > 0.25:
                s = s + A[j, i]
    return s


def two_loops(A: Any) -> Any:
    n, s, t = A.shape[0], 0.0, 1.0
    for i in range(n):
        for j in range(n):
            s = s + A[i, j] * t
        for j in range(n):
            t = 0.9 * t + A[j, i]
    return s * t


def one_array_twice(A: Any) -> Any:
    B = 2.0 * A
    for i in range(1, A.shape[0]):
        for j in range(A.shape[1]):
            B[i, j] = B[i - 1, j] * B[i, j] + B[i - 1, -1 - j]
    return np.sum(B)


def not_read_at_infinity(A: Any) -> Any:
    """The logarithm of an element that no step reads is no part of the sum."""
    B, s = np.log(A), 0.0
    for i in range(A.shape[0]):
        for j in range(1, A.shape[1]):
            s = s + B[i, j]
    return s


def rosenbrock(A: Any) -> Any:
    x, s = A.ravel(), 0.0
    for i in range(x.size - 1):
        s = s + 100.0 * (x[i + 1] - x[i] ** 2) ** 2 + (1.0 - x[i]) ** 2
    return s


def sines(A: Any) -> Any:
    y = A.ravel().copy()
    for i in range(1, y.size):
        y[i] = math.sin(y[i - 1]) + y[i]
    return np.sum(y**2)


def cholesky(A: Any) -> Any:
    n = A.shape[0]
    M = A @ A.T
    L = 0.0 * A
    for i in range(n):
        for j in range(i + 1):
            t = M[i, j] + (1.0 if i == j else 0.0)
            for k in range(j):
                t -= L[i, k] * L[j, k]
            if i == j:
                L[i, j] = math.sqrt(t)
            else:
                L[i, j] = t / L[j, j]
    return np.sum(L * A)


def factors(A: Any) -> Any:
    n = A.shape[0]
    A = A + n * np.eye(n)
    for i in range(n):
        for j in range(i):
            for k in range(j):
                A[i, j] -= A[i, k] * A[k, j]
            A[i, j] /= A[j, j]
        for j in range(i, n):
            for k in range(i):
                A[i, j] -= A[i, k] * A[k, j]
    return np.sum(np.sin(A))


def triangle_written(A: Any) -> Any:
    B = 0.0 * A
    for i in range(1, A.shape[0]):
        for j in range(1, i):
            B[i, j] = 0.5 * B[i - 1, j] + 0.4 * B[i, j - 1] + A[i, j] * A[i, j]
    return np.sum(B * A)


def backward_rows(A: Any) -> Any:
    n = A.shape[0]
    B = A.copy()
    for i in range(n - 1, -1, -1):
        for j in range(n - 1, i, -1):
            B[i] = B[i] - 0.3 * np.sin(B[j]) * A[i, j]
    return np.sum(B**2)


def swaps(A: Any) -> Any:
    n = A.shape[0]
    B = A.copy()
    for i in range(n):
        for j in range(i, n):
            if B[i, 0] > B[j, n - 1]:
                B[i, j], B[j, i] = B[j, i] * B[i, 0], B[i, j]
    return np.sum(B * A)


def band(A: Any) -> Any:
    n, w = A.shape[0], np.argmax(A[0]) + 1
    B = A.copy()
    for i in range(1, n):
        for j in range(max(1, i - w), min(n - 1, i + w) + 1):
            B[i, j] = abs(A[i, j] - A[j, i]) + min(B[i - 1, j], B[i, j - 1])
    return np.sum(B * A)


def exchanges(A: Any) -> Any:
    x = A[0] * 1.5
    n, swapped = len(x), True
    while swapped:
        swapped = False
        for i in range(n - 1):
            if x[i] > x[i + 1]:
                x[i], x[i + 1] = x[i + 1], x[i]
                swapped = True
        n -= 1
    return np.sum(x * A[-1])


def rotations(A: Any) -> Any:
    n, sweeps = A.shape[0], 1 + np.argmax(A[:2, 0])
    B = A + A.T
    for _ in range(sweeps):
        for p in range(n - 1):
            for q in range(p + 1, n):
                if abs(B[p, q]) < 1e-12:
                    continue
                t = B[p, q] / (B[p, p] + B[q, q] + 3)
                c = 1 / math.sqrt(t * t + 1)
                s = t * c
                for k in range(n):
                    x, y = B[k, p], B[k, q]
                    B[k, p] = c * x - s * y
                    B[k, q] = s * x + c * y
    d = np.zeros(n)
    for i in range(n):
        d[i] = B[i, i]
    return np.sum(np.sort(d) * A[0])


def two_buffers(A: Any) -> Any:
    n, steps = A.shape[0], 2 + np.argmax(A[0])
    u = A.copy()
    for _ in range(steps):
        new = np.zeros_like(u)
        for i in range(n):
            for j in range(n):
                new[i, j] = u[i, j] + 0.1 * u[i - 1, j] * u[i, (j + 1) % n] - 0.2 * u[i, j] ** 2
        u = new
    return np.sum(u * A)


NESTS = [
    triangle, recurrence, rows, columns, product, branches, two_loops, one_array_twice, rosenbrock,
    sines, cholesky, factors, triangle_written, backward_rows, swaps,
    band, exchanges, two_buffers,
]  # fmt: skip
