"""Programs with lists that hold arrays of other names, and programs that ask what is one object.

Each returns all of them after one is written; Python says what they hold.
"""

# ruff: noqa: B007

from __future__ import annotations

import numpy as np

G = np.arange(6.0)


def m1(x, t):
    u = x * 2
    a, b = [x * 3, x * 4], [u, x * 5]
    i = 0
    while i < t * 5:
        a, b = b, a
        i += 1
    u[1:] = x[:5]
    return a[0], b[0], u


def m2(x, t):
    u = x * 2
    a = [u, x * 3]
    i = 0
    while i < t * 5:
        a = [a[1], a[0]]
        i += 1
    a[0][1:] = x[:5]
    return a[0], a[1], u


def m3(x, t):
    u = x * 2
    a = {"p": [u, x * 3]}
    i = 0
    while i < t * 5:
        a = {"p": [a["p"][1], a["p"][0]]}
        i += 1
    u[1:] = x[:5]
    return a["p"][0], a["p"][1], u


def m4(x, t):
    k = [x * 2, x * 3]
    a = [k, [x * 4, x * 5]]
    i = 0
    while i < t * 5:
        a = [a[1], a[0]]
        i += 1
    k[0] = x * 6
    return a[0][0], a[1][0], k[0]


def m5(x, t):
    u = x * 2
    a = (u, x * 3)
    i = 0
    while i < t * 5:
        a = (a[1], a[0])
        i += 1
    u[1:] = x[:5]
    return a[0], a[1], u


def m6(x, t):
    u = x * 2
    a = [u[1:], x[1:] * 3]
    for i in range(6):
        if t * i > 0.3:
            a = [a[1], a[0]]
    u[1:] = x[:5]
    return a[0], a[1], u


def n1(x, t):
    y, u = x * 2, x * 3
    if t > 0.3:
        y = u
    return (1.0 if y is u else 2.0) * x


def n2(x, t):
    y, u = x * 2, x * 3
    for i in range(6):
        if t * i > 0.3:
            y = u
    return (x if y is not u else x * 2) + 0.0


def n3(x, t):
    y = u = x * 2
    if t > 0.3:
        y = y + 1
    return (1.0 if y is u else 2.0) * x


def n4(x, t):
    y, u, i, r = x, x, 0, 0.0
    while i < t * 5:
        if y is u:
            r += 1.0
        y = y * 1.1
        i += 1
    return r * x


def n5(x, t):
    a = b = [x * 2, x * 3]
    if t > 0.3:
        b = [x * 4, x * 5]
    return (1.0 if a is b else 2.0) * x


def n6(x, t):
    a = b = [x * 2]
    i, r = 0, 0.0
    while i < t * 5:
        if a is b:
            r += 1.0
        a = [a[0] * t]
        i += 1
    return r * x


def n7(x, t):
    y, u = x * 2, x * 3
    if t > 0.3:
        y = u
    return (1.0 if id(y) == id(u) else 2.0) * x


def n8(x, t):
    y = u = x * 2
    u = y[1:] if t > 0.3 else x[1:] * 1
    return (1.0 if np.shares_memory(y, u) else 2.0) * x


def n9(x, t):
    a = b = (x * 2, x * 3)
    if t > 0.3:
        b = (x * 4, a[1])
    return (1.0 if a is b else 2.0) * x


def n10(x, t):
    start = float("inf")
    best = start
    for v in x:
        if v > t:
            best = v
    return (1.0 if best is start else 2.0) * x


def n11(x, t):
    kept = [x * 2, x * 3]
    y = kept[0]
    if t > 0.3:
        y = kept[1]
    return [z is y for z in kept].index(True) * x


def p1(x, t):
    y = x * 1
    r = 0.0
    for i in range(8):
        if y is x:
            r += 1.0
        y = y * t
    return r * y


def p2(x, t):
    y = x * 1
    u = y
    for i in range(9):
        u[i % 6] += t
        if u is y:
            y[0] += 1
    return y


def p3(x, t):
    y, u = x * 1, x * 2
    if t > 0.3:
        y = y * 2
    z = y[:]
    return (z is y) + (y is None) + x * (u is not y)


def m7(x, t):
    y, u = G * 2, G * 3
    if t > 0.3:
        y = u
    u[0] = 9.0
    return y, u, x * t


def m8(x, t):
    y, u = G * 2, G * 3
    for i in range(6):
        if t * i > 0.3:
            y = u
    u[0] = 9.0
    return y, u, x * t


def m9(x, t):
    y, u = G * 2, G * 3
    if t > 0.05:
        if t > 0.3:
            y = u
        x = x * 2
    u[0] = 9.0
    return y, u, x * t


def m10(x, t):
    y, u = [G * 2], G * 3
    i = 0
    while i < t * 5:
        if t > 0.3:
            y = [u]
        i += 1
    u[0] = 9.0
    return y[0], u, x * t
