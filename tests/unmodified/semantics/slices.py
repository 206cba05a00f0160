"""Slices whose bounds count with a loop: read, written, cut again."""

# ruff: noqa

import numpy as np
from case import case

X = np.linspace(0.1, 2.0, 9)


@case(X)
def ends_are_changed(x):
    y = np.zeros(len(x))
    for k in range(1, len(x)):
        y[:k] += x[k] * np.flip(x[:k])
        y[k:] -= 0.5
    return y


@case(X)
def is_moved_onto_itself(x):
    y = x * 1.0
    for k in range(1, len(x)):
        y[:k] = y[1 : k + 1]
        y[k:] *= 1.1
        y[1 : k + 1] = y[:k]
    return y


@case(X)
def is_a_view_that_is_written(x):
    y = x * 1.0
    for k in range(1, len(x)):
        v = y[:k]
        v += 1.0
        v[:] = v * 2
        y[k] = v.sum()
        y *= 0.1
    return y


@case(X)
def is_read_after_a_write(x):
    y = x * 1.0
    for k in range(1, len(x)):
        v, c, u = y[:k], y[:k].copy(), 2 * y[:k]
        y[0] += 1.0
        y[k] = np.sum(v) + 3.0 * np.sum(c) - 5.0 * np.sum(u)
        y *= 0.1
    return y


@case(X)
def elements_and_parts(x):
    s = 0.0
    for k in range(2, len(x)):
        v = x[:k]
        s += v[-1] * v[0] - v[k // 2] + v[:-1].sum() * (v[1:] @ v[::-1][1:]) + v[-2:] @ v[:2]
    return s


@case(X)
def rows_of_a_triangle(x):
    a = np.outer(x, x) + np.eye(len(x))
    for i in range(len(x)):
        a[i, : i + 1] *= 2.0
        for k in range(6):
            a[i, : i + 1] += 0.1 * a[i, k] * a[: i + 1, k]
        a[i:, i] = 1.5
    return a


@case(X)
def factors(x):
    a = np.outer(x, x) + 9.0 * np.eye(len(x))
    for i in range(len(x)):
        for j in range(i):
            a[i, j] -= a[i, :j] @ a[:j, j]
            a[i, j] /= a[j, j]
        for j in range(i, len(x)):
            a[i, j] -= np.dot(a[i, :i], a[:i, j])
    return a


@case(X)
def backward(x):
    u = np.outer(x, x) + 9.0 * np.eye(len(x))
    y = np.zeros(len(x))
    for i in range(len(x) - 1, -1, -1):
        y[i] = (x[i] - u[i, i + 1 :] @ y[i + 1 :]) / u[i, i]
    return y


@case(X)
def is_an_array(x):
    s = 0.0
    for i in range(len(x)):
        v = x[:i]
        if isinstance(v, np.ndarray):
            s += 1.0 * len(v) + v.size * v.shape[0]
        if type(v) is np.ndarray:
            s += v.sum()
    return s


@case(X)
def integers_are_written(x):
    r = np.zeros(len(x), int)
    for i in range(len(x)):
        r[:i] = 3.7 * x[i]
        r[i:] += 1
    return r


@case(X)
def lengths_differ(x):
    r = np.zeros(len(x))
    for i in range(3, len(x)):
        r[:i] = x[: i - 1]
    return r


@case(X)
def element_behind_the_end(x):
    r = np.zeros(len(x))
    for i in range(1, len(x)):
        r[i] = x[:i][i]
    return r


@case(X)
def largest_of_none(x):
    s = 0.0
    for i in range(len(x)):
        s += np.max(x[:i])
    return s


@case(X)
def with_a_step(x):
    s = 0.0
    for i in range(len(x)):
        s += np.sum(x[:i:2]) - x[i::-1].sum()
    return s


@case(X)
def sorted_parts(x):
    s = 0.0
    for i in range(1, len(x)):
        s += np.sort(x[:i])[0] * np.cumsum(x[i:])[-1]
    return s


@case(X)
def a_moving_window(x):
    y = np.zeros(len(x))
    for i in range(len(x)):
        y[i] = x[max(0, i - 2) : i + 3].mean()
    return y
