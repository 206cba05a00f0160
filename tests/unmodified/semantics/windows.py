"""Slices of a known length at places that count with a loop."""

# ruff: noqa

import numpy as np
from case import case

X = 0.53 + 1.5 * np.sin(1.3 * np.arange(12.0))
M = np.sin(np.arange(56.0)).reshape(7, 8)
W = np.array([0.2, 0.5, 0.3])


@case(X, W)
def filtered(x, w):
    y = np.zeros(len(x) - 2)
    for i in range(len(x) - 2):
        y[i] = np.sum(w * x[i : i + 3])
    return y


@case(X, W)
def around(x, w):
    y = x * 1.0
    for i in range(1, len(x) - 1):
        y[i] = y[i - 1 : i + 2] @ w
    return y


@case(X, W)
def at_the_ends(x, w):
    y = np.zeros(len(x))
    for i in range(len(x)):
        y[i] = x[i : i + 3].sum() + x[i - 1 : i + 1].sum()
    return y


@case(M, W)
def blocks(m, w):
    y = np.zeros((5, 6))
    for i in range(5):
        for j in range(6):
            y[i, j] = np.sum(m[i : i + 3, j : j + 3] * w) + m[i : i + 3, j] @ w
    return y


@case(M, W)
def blocks_with_more_axes(m, w):
    y = np.zeros((5, 6, 2))
    for i in range(5):
        for j in range(6):
            part = m[i : i + 3, j : j + 3, np.newaxis]
            y[i, j, :] = np.sum(part * w[:2], axis=(0, 1)) + m[..., j : j + 2][i]
    return y


@case(M, W)
def strided(m, w):
    s = 0.0
    for i in range(0, 12, 2):
        s += np.sin(M.reshape(-1)[3 * i : 3 * i + 4]).sum() * m[i // 2, 2 * 3 - 1 : 8].sum()
    for k in range(4, -1, -1):
        s += np.sum(m[k : k + 2, 7 - k - 1 : 7 - k + 1])
    return s


@case(X, W)
def are_written(x, w):
    y = x * 1.0
    for i in range(len(x) - 2):
        y[i : i + 3] += w * x[i]
        y[i + 1 : i + 3] = x[i : i + 2]
        y[i : i + 2] *= 0.5
    return y


@case(X, W)
def are_views(x, w):
    y = x * 1.0
    for i in range(len(x) - 2):
        v = y[i : i + 3]
        v[0] = 2.0 * v[2]
        v += w
        y[i + 1] -= 1.0
        y[0] = v.sum()
    return y


@case(X, W)
def overlap(x, w):
    y = x * 1.0
    for i in range(len(x) - 4):
        y[i : i + 3] = y[i + 1 : i + 4]
        y[i + 1 : i + 4] += y[i : i + 3]
    return y


@case(X, W)
def lengths_differ(x, w):
    y = x * 1.0
    for i in range(len(x) - 4):
        y[i : i + 3] = x[i : i + 2]
    return y


@case(X, W)
def are_empty(x, w):
    s = 0.0
    for i in range(len(x)):
        s += x[i:i].sum() + x[i + 1 : i].sum() + x[i]
    return s


@case(X, W)
def alone_is_written(x, w):
    y = x * 1.0
    for i in range(len(x) - 2):
        v = y[i : i + 3]
        v[1:] *= w[i % 3]
    return y


@case(X, W)
def of_an_argument_is_written(x, w):
    for i in range(len(x) - 2):
        x[i : i + 3][::-1][0] += w[1]
    return x.sum()


@case(X, W)
def of_a_constant(x, w):
    s = 0.0
    for i in range(len(X) - 2):
        v = X[i : i + 3]
        s += v @ w * x[i]
    return s


@case(X, W)
def in_a_branch(x, w):
    y = x * 1.0
    for i in range(len(x) - 2):
        if x[i] > 0.5:
            y[i : i + 3] += w
        else:
            y[i : i + 2] = x[i + 1]
    return y
