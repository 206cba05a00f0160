"""Programs in which a branch or a loop gives one array, list or dictionary several names.

Each returns all of them after one is written; Python says what they hold.
"""

# ruff: noqa: B007, F841

from __future__ import annotations

import numpy as np

P = np.array([3, 0, 5, 4, 2, 1])
G = np.arange(6.0)


def g1(x, t):
    y = np.full(6, t)
    v = np.zeros(5)
    if t < 0.3:
        y = 0.5 * (y[P])
        v = y[1:]
    v[1:] = x[:4]
    return y, v


def g2(x, t):
    y = np.full(6, t)
    v = np.zeros(5)
    for i in range(5):
        if t < 0.3:
            y = 0.5 * (y[P])
            v = y[1:]
    v[1:] = x[:4]
    return y, v


def g3(x, t):
    y = np.full(6, t)
    v = np.zeros(5)
    for i in range(5):
        if t < 0.3:
            y = 0.5 * (y[P])
        v = y[1:]
    v[1:] = x[:4]
    return y, v


def g4(x, t):
    y = np.full(6, t)
    v = np.zeros(5)
    for i in range(5):
        if t < 0.3:
            y = 0.5 * (y[P])
        v = y
    v[1:] = x[:5]
    return y, v


def g5(x, t):
    y = np.full(6, t)
    v = np.zeros(5)
    for i in range(5):
        y = 0.5 * (y[P])
        v = y[1:]
    v[1:] = x[:4]
    return y, v


def g6(x, t):
    y = np.full(6, t)
    v = np.zeros(5)
    for i in range(5):
        if not t < 0.3:
            continue
        y = 0.5 * (y[P])
        v = y[1:]
    v[1:] = x[:4]
    return y, v


def g7(x, t):
    y = np.full(6, t)
    v = np.zeros(5)
    for i in range(5):
        if not t < 0.3:
            break
        y = 0.5 * (y[P])
        v = y[1:]
    v[1:] = x[:4]
    return y, v


def g8(x, t):
    y = np.full(6, t)
    v = np.zeros(5)
    i = 0
    while i < 5 and t < 0.3:
        y = 0.5 * (y[P])
        v = y[1:]
        i += 1
    v[1:] = x[:4]
    return y, v


def g9(x, t):
    y = np.full(6, t)
    v = np.zeros(5)
    for i in range(5):
        if t < 0.3:
            y = 0.5 * (y[P])
            v = y[1:]
    y[2:] = x[:4]
    return y, v


def h1(x, t):
    y = x * 2
    v = y
    if t < 0.3:
        y = 0.5 * x
        v = y
    v[1:] = x[:5]
    return y, v


def h2(x, t):
    y = x * 2
    v = x * 3
    if t < 0.3:
        y = 0.5 * x
        v = y
    v[1:] = x[:5]
    return y, v


def h3(x, t):
    y = x * 2
    v = x * 3
    if t < 0.3:
        y = v = 0.5 * x
    else:
        y = v = 0.7 * x
    v[1:] = x[:5]
    return y, v


def h4(x, t):
    y = x * 2
    v = x * 3
    if t < 0.3:
        y = 0.5 * x
        v = y
    y[1:] = x[:5]
    return y, v


def h5(x, t):
    if t < 0.3:
        y = [0.5 * x, x * 2]
        v = y[0]
    else:
        y = [x * 2, x * 3]
        v = y[1]
    v[1:] = x[:5]
    return y[0], y[1], v


def h6(x, t):
    y, v = (lambda a: (a, a[::-1]))(x * 2) if t < 0.3 else (x * 1, x * 1)
    v[1:] = x[:5]
    return y, v


def h7(x, t):
    w = G.copy()
    if t < 0.3:
        y = w
        v = w[1:]
    else:
        y = x * 2
        v = x[1:]
    w[:] = x
    return y, v


def h8(x, t):
    y = x * 2
    v = x * 3
    if t < 0.3:
        w = np.zeros(6)
        y = w
        v = w[1:]
    y[1:] = x[:5]
    return y, v[:3]


def h9(x, t):
    y = x * 2
    v = x * 3
    z = x * 4
    if t < 0.3:
        y = x * 5
        v, z = y[:3].reshape(3, 1), y.T
    else:
        v = v[:3].reshape(3, 1)
    z[1:] = x[:5]
    return y, v, z


def h10(x, t):
    y = x * 2
    v = x * 3
    for i in range(4):
        if t * i > 0.3:
            y = x * (5 + i)
            v = y
    v[1:] = x[:5]
    return y, v


def h11(x, t):
    y = x * 2
    v = x * 3

    def inner(a, b):
        if t > 0.3:
            b = a + 1
            a = b
        return a, b

    y, v = inner(y, v)
    v += 1
    return y, v


def h12(x, t):
    d = {"a": x * 2, "b": x * 3}
    if t > 0.3:
        d["a"] = x + 1
        d["b"] = d["a"]
    d["b"][2:] = x[2:] * 9
    return d["a"], d["b"]


def h13(x, t):
    y = x * 2
    v = x * 3
    if t > 0.3:
        y = x * 4
        v = y.copy()
    v[1:] = x[:5]
    return y, v


def h14(x, t):
    y = x * 2
    v = x * 3
    while t < 0.3:
        y = x * 4
        v = y
        t += 0.2
    v[1:] = x[:5]
    return y, v


def h15(x, t):
    y = x * 2
    v = x * 3
    if t > 0.3:
        y = x * 4
        v = y
    else:
        v = x * 7
        y = v[::-1]
    v *= 2
    return y, v


def h16(x, t):
    y = x * 2
    v = x * 3
    if t > 0.3:
        y = x * 4
        v = y[1:]
    elif t > 0.2:
        y = x * 7
        v = y[:2]
    else:
        v = x[:2]
    y *= 2
    return y


def k1(x, t):
    a = [x * 1, x * 2]
    b = [x * 3, x * 4]
    if t < 0.3:
        a = [x * 5, x * 6]
        b = a
    b[0] = x * 7
    return a[0], b[0]


def k2(x, t):
    a = [x * 1, x * 2]
    b = [x * 3, x * 4]
    if t < 0.3:
        b = a
    b[0] = x * 7
    return a[0], b[0]


def k3(x, t):
    a = [x * 1, x * 2]
    b = [x * 3, x * 4]
    for i in range(4):
        if t * i < 0.3:
            a = [x * 5, x * 6]
            b = a
    b[0] = x * 7
    return a[0], b[0]


def k4(x, t):
    a = [x * 1, x * 2]
    b = a
    for i in range(4):
        a[0] = a[0] * t
    return a[0], b[0]


def k5(x, t):
    a = [x * 1, x * 2]
    b = a
    if t > 0.3:
        a[0] = x * t
    return a[0], b[0]


def k6(x, t):
    a = [x * 1, x * 2]
    b = a
    i = 0
    while i < t * 5:
        a = [a[1], a[0] * 2]
        i += 1
    a[0] = x
    return a[0], b[0], b[1]


def k7(x, t):
    a = [x * 1, x * 2]
    b = [x * 3, x * 4]
    i = 0
    while i < t * 5:
        a = [a[1], a[0] * 2]
        b = a
        i += 1
    b[0] = x * 9
    return a[0], b[0], b[1]


def k8(x, t):
    d = {"p": x * 1}
    e = {"p": x * 2}
    if t > 0.3:
        d = {"p": x * 3}
        e = d
    else:
        e = d
    e["p"] = x * 4
    return d["p"], e["p"]


def k10(x, t):
    a = (x * 1, x * 2)
    b = a
    if t > 0.3:
        a = (x * 3, x * 4)
        b = (a[1], a[0])
    else:
        b = (a[0], a[0])
    b[0][1:] = 0.0
    return a[0], a[1], b[0], b[1]


def k11(x, t):
    a = [x * 1, x * 2]
    b = a[0]
    if t > 0.3:
        b = a[1]
    b[1:] = 0.0
    return a[0], a[1], b


def k12(x, t):
    a = np.stack([x, x * 2])
    r = a[0]
    for i in range(2):
        if t * i > 0.3:
            r = a[i]
    r[1:] = 0.0
    return a, r


def k13(x, t):
    a = [x * 1, x * 2]
    b = [x * 3, x * 4]
    if t < 0.3:
        a = [x * 5, x * 6]
        b = a
    else:
        b = a
    b.append(x)
    return len(a) + 0 * x, a[-1]


def q1(x, t):
    path = [x * 1]
    if t > 0.3:
        path = [x * 2]
    path.append(x * 3)
    return path[0], path[1]


def q2(x, t):
    a = [x * 1, x * 2]
    if t > 0.3:
        a = [x * 3, x * 4]
    a[0] = x * 5
    return a[0], a[1]


def q3(x, t):
    a = [x * 1, x * 2]
    b = [x * 3, x * 4]
    i = 0
    while i < t * 5:
        a, b = b, [a[0] + 1, a[1] * 2]
        i += 1
    return a[0], b[0], b[1]


def q4(x, t):
    a = [x * 1, x * 2]
    i = 0
    while i < t * 5:
        a = [a[1], a[0] * 2]
        i += 1
    a[0] = a[0] + 1
    return a[0], a[1]


def q5(x, t):
    best, bl = [x * 1, x * 2], -1.0
    for i in range(5):
        c = [x * i, x * t]
        s = np.sum(c[0]) + np.sum(c[1])
        if s > bl:
            best, bl = c, s
    return best[0], best[1]


def q6(x, t):
    best = x * 1
    bl = -1e9
    for i in range(5):
        c = x * i + t
        s = np.sum(np.sin(c))
        if s > bl:
            best = c
            bl = s
    return best * 2


def q7(x, t):
    best = x * 1
    bl = -1e9
    i = 0
    while i < t * 10:
        c = best * i + t
        s = np.sum(np.sin(c))
        if s > bl:
            best = c.copy()
            bl = s
        i += 1
    best[0] = 1.0
    return best


def q8(x, t):
    y = x * 1
    old = y
    i = 0
    while i < t * 10:
        old = y
        y = np.sin(y)
        i += 1
    return y - old


def q9(x, t):
    y = x * 1
    prev = x * 0
    i = 0
    while i < t * 10:
        new = np.sin(y)
        if np.sum(new) > -9:
            prev, y = y, new
        i += 1
    y[0] = 0.0
    return y + prev


def q10(x, t):
    d = {}
    if t > 0.3:
        d["a"] = x * 2
    else:
        d["a"] = x * 3
    d["b"] = x
    return d["a"] + d["b"]
