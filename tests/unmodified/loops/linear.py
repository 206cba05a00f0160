"""Linear algebra and solvers by loops."""

# ruff: noqa

import math

import numpy as np
from case import case

R = np.random.default_rng(3)
M = R.standard_normal((5, 5))
SPD = M @ M.T + 5 * np.eye(5)
B = R.standard_normal(5)


@case(SPD)
def cholesky_by_elements(a):
    n = a.shape[0]
    l = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            s = a[i, j]
            for k in range(j):
                s -= l[i, k] * l[j, k]
            if i == j:
                l[i, i] = math.sqrt(s)
            else:
                l[i, j] = s / l[j, j]
    return l


@case(M, B)
def elimination_with_pivots(a, b):
    n = len(b)
    a, b = a.copy(), b.copy()
    for k in range(n):
        p = k
        for i in range(k + 1, n):
            if abs(a[i, k]) > abs(a[p, k]):
                p = i
        if p != k:
            for j in range(n):
                a[k, j], a[p, j] = a[p, j], a[k, j]
            b[k], b[p] = b[p], b[k]
        for i in range(k + 1, n):
            f = a[i, k] / a[k, k]
            for j in range(k, n):
                a[i, j] -= f * a[k, j]
            b[i] -= f * b[k]
    x = np.zeros(n)
    for i in range(n - 1, -1, -1):
        s = b[i]
        for j in range(i + 1, n):
            s -= a[i, j] * x[j]
        x[i] = s / a[i, i]
    return x


@case(SPD, B)
def lu_in_place(a, b):
    n = len(b)
    for i in range(n):
        for j in range(i):
            for k in range(j):
                a[i, j] -= a[i, k] * a[k, j]
            a[i, j] /= a[j, j]
        for j in range(i, n):
            for k in range(i):
                a[i, j] -= a[i, k] * a[k, j]
    y = b.copy()
    for i in range(n):
        y[i] -= a[i, :i] @ y[:i]
    for i in range(n - 1, -1, -1):
        y[i] = (y[i] - np.dot(a[i, i + 1 :], y[i + 1 :])) / a[i, i]
    return y


@case(R.uniform(0.1, 0.3, 7), R.uniform(2, 3, 7), R.uniform(0.1, 0.3, 7), R.standard_normal(7))
def tridiagonal(lower, diag, upper, rhs):
    n = len(diag)
    c, d = np.zeros(n), np.zeros(n)
    c[0], d[0] = upper[0] / diag[0], rhs[0] / diag[0]
    for i in range(1, n):
        m = 1.0 / (diag[i] - lower[i] * c[i - 1])
        c[i] = upper[i] * m
        d[i] = (rhs[i] - lower[i] * d[i - 1]) * m
    for i in range(n - 2, -1, -1):
        d[i] -= c[i] * d[i + 1]
    return d


@case(SPD, B, 4)
def conjugate_gradients(a, b, steps):
    x = np.zeros_like(b)
    r = b - a @ x
    p = r.copy()
    rs = r @ r
    for _ in range(steps):
        if rs < 1e-20:
            break
        ap = a @ p
        alpha = rs / (p @ ap)
        x += alpha * p
        r -= alpha * ap
        new = r @ r
        p = r + (new / rs) * p
        rs = new
    return x


@case(SPD, B, 12)
def gauss_seidel(a, b, turns):
    x = np.zeros(len(b))
    for t in range(turns):
        change = 0.0
        for i in range(len(b)):
            s = b[i]
            for j in range(len(b)):
                if j != i:
                    s -= a[i, j] * x[j]
            new = s / a[i, i]
            change = max(change, abs(new - x[i]))
            x[i] = new
        if change < 1e-14:
            break
    return x


@case(R.standard_normal((5, 3)))
def gram_schmidt(a):
    m, n = a.shape
    q, r = np.zeros((m, n)), np.zeros((n, n))
    for j in range(n):
        v = a[:, j].copy()
        for i in range(j):
            r[i, j] = q[:, i] @ v
            v -= r[i, j] * q[:, i]
        r[j, j] = np.sqrt(v @ v)
        q[:, j] = v / r[j, j]
    return q, r


@case(SPD, R.standard_normal(5), 10)
def power_iteration(a, v, n):
    value = 0.0
    for _ in range(n):
        w = a @ v
        value = np.linalg.norm(w)
        v = w / value
    return value, v


@case(SPD, 4)
def jacobi_rotations(a, sweeps):
    n = a.shape[0]
    for _ in range(sweeps):
        for p in range(n - 1):
            for q in range(p + 1, n):
                if abs(a[p, q]) < 1e-12:
                    continue
                theta = (a[q, q] - a[p, p]) / (2 * a[p, q])
                sign = 1.0 if theta >= 0 else -1.0
                t = sign / (abs(theta) + math.sqrt(theta * theta + 1))
                c = 1 / math.sqrt(t * t + 1)
                s = t * c
                for k in range(n):
                    x, y = a[k, p], a[k, q]
                    a[k, p] = c * x - s * y
                    a[k, q] = s * x + c * y
                for k in range(n):
                    x, y = a[p, k], a[q, k]
                    a[p, k] = c * x - s * y
                    a[q, k] = s * x + c * y
    d = np.zeros(n)
    for i in range(n):
        d[i] = a[i, i]
    return np.sort(d)


@case(R.standard_normal((4, 3)), R.standard_normal((3, 5)))
def product_by_three_loops(a, b):
    c = np.zeros((a.shape[0], b.shape[1]))
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            for k in range(a.shape[1]):
                c[i, j] += a[i, k] * b[k, j]
    return c


@case(
    np.array([0, 2, 3, 3, 6]),
    np.array([0, 2, 1, 0, 1, 3]),
    R.standard_normal(6),
    R.standard_normal(4),
)
def sparse_product(offsets, columns, values, x):
    y = np.zeros(len(offsets) - 1)
    for i in range(len(y)):
        s = 0.0
        for k in range(offsets[i], offsets[i + 1]):
            s += values[k] * x[columns[k]]
        y[i] = s
    return y


@case(SPD)
def determinant_by_elimination(a):
    n = a.shape[0]
    a = a.copy()
    det = 1.0
    for k in range(n):
        det *= a[k, k]
        for i in range(k + 1, n):
            a[i, k:] = a[i, k:] - a[i, k] / a[k, k] * a[k, k:]
    return det / 1000


@case(2.0)
def newton_root(a):
    x, tolerance = a, 1e-12
    for k in range(50):
        step = (x**3 - a) / (3 * x * x)
        x -= step
        if abs(step) < tolerance:
            break
    else:
        raise ArithmeticError("no convergence")
    return x, k


@case(0.0, 2.0, 1.5)
def bisection(lo, hi, target):
    flo = lo**3 + lo - target
    while hi - lo > 1e-3:
        mid = (lo + hi) / 2
        fmid = mid**3 + mid - target
        if flo * fmid <= 0:
            hi = mid
        else:
            lo, flo = mid, fmid
    return lo + (target - lo**3 - lo) / (3 * lo * lo + 1)


@case(np.array([1.2, 0.3]), 40, 0.1)
def gradient_descent_with_momentum(x, n, rate):
    v = np.zeros(2)
    history = np.zeros(n)
    for k in range(n):
        g = np.array([2 * x[0] - x[1], 3 * x[1] ** 3 - x[0]])
        v = 0.8 * v - rate * g
        x = x + v
        history[k] = x[0] ** 2 + x[1] ** 4
    return x, history


@case(np.array([0.5, -0.2, 0.8]), 0.3)
def horner(c, x):
    s = 0.0
    for k in range(len(c) - 1, -1, -1):
        s = s * x + c[k]
    return s


@case(
    np.array([0.0, 1.0, 2.0, 3.5, 4.0]),
    np.array([1.0, 2.0, 0.5, 1.5, 3.0]),
    np.array([0.5, 1.7, 3.9]),
)
def interpolation_by_search(xs, ys, at):
    out = np.empty(len(at))
    for k in range(len(at)):
        lo, hi = 0, len(xs) - 1
        while hi - lo > 1:
            mid = (lo + hi) // 2
            if xs[mid] > at[k]:
                hi = mid
            else:
                lo = mid
        t = (at[k] - xs[lo]) / (xs[hi] - xs[lo])
        out[k] = ys[lo] * (1 - t) + ys[hi] * t
    return out


@case(np.array([0.3, 1.2, 0.7]), 5)
def romberg(c, levels):
    def f(x):
        return math.exp(-c[0] * x) * math.cos(c[1] * x) + c[2] * x

    t = np.zeros((levels, levels))
    h = 1.0
    t[0, 0] = 0.5 * (f(0.0) + f(1.0))
    for i in range(1, levels):
        h /= 2
        s = 0.0
        for k in range(1, 2**i, 2):
            s += f(k * h)
        t[i, 0] = 0.5 * t[i - 1, 0] + h * s
        for j in range(1, i + 1):
            t[i, j] = t[i, j - 1] + (t[i, j - 1] - t[i - 1, j - 1]) / (4**j - 1)
    return t[levels - 1, levels - 1]
