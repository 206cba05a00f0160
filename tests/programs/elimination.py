"""Linear algebra by hand: LU with pivots, QR by reflections, power iteration, Jacobi rotations."""

import numpy as np


def lu_factor(A, b):
    """L and U in one matrix, and the right-hand side in the order of the pivots."""
    A, b = A.copy(), b.copy()
    n = A.shape[0]
    for k in range(n - 1):
        p = k + np.argmax(np.abs(A[k:, k]))
        A[[k, p]] = A[[p, k]]
        b[[k, p]] = b[[p, k]]
        A[k + 1 :, k] /= A[k, k]
        A[k + 1 :, k + 1 :] -= np.outer(A[k + 1 :, k], A[k, k + 1 :])
    return A, b


def lu_solve(LU, b):
    x = b.copy()
    n = len(x)
    for i in range(1, n):
        x[i] -= LU[i, :i] @ x[:i]
    for i in range(n - 1, -1, -1):
        x[i] -= LU[i, i + 1 :] @ x[i + 1 :]
        x[i] /= LU[i, i]
    return x


def householder(A):
    R = A.copy()
    Q = np.eye(A.shape[0])
    for k in range(A.shape[1]):
        v = R[k:, k].copy()
        v[0] += np.copysign(np.linalg.norm(v), v[0])
        v /= np.linalg.norm(v)
        R[k:] -= 2 * np.outer(v, v @ R[k:])
        reflection = np.eye(A.shape[0])
        Q = Q @ (reflection - 2 * np.outer(np.pad(v, (k, 0)), np.pad(v, (k, 0))))
    return Q, np.triu(R)


def power_iteration(A, steps):
    v = np.ones(A.shape[0]) / np.sqrt(A.shape[0])
    for _ in range(steps):
        v = A @ v
        v = v / np.linalg.norm(v)
    return v @ A @ v, v


def run(A, b):
    LU, permuted = lu_factor(A, b)
    x = lu_solve(LU, permuted)
    Q, R = householder(A)
    symmetric = A @ A.T + np.eye(len(b))
    largest, _ = power_iteration(symmetric, 25)
    determinant = np.prod(np.diag(LU))
    return x, np.abs(determinant), R, Q, largest, np.linalg.norm(A @ x - b)


def arguments(rng):
    return rng.normal(size=(4, 4)) + 2 * np.eye(4), rng.normal(size=4)
