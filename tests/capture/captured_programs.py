"""Programs of plain Python, with their arguments, that run the same compiled: name -> arguments."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

RNG = np.random.default_rng(7)
X = RNG.random(24)
A = RNG.random((7, 7))
SPD = A @ A.T + 7 * np.eye(7)


def smooth(x: Any) -> Any:
    y = np.zeros_like(x)
    for i in range(1, len(x) - 1):
        if x[i] > 0.5:
            y[i] = (x[i - 1] + x[i] + x[i + 1]) / 3.0
    return np.sum(y**2)


def newton(c: Any) -> Any:
    z = 1.0
    while abs(z * z - c) > 1e-12:
        z = 0.5 * (z + c / z)
    return z


def first_above(x: Any, t: Any) -> Any:
    for i in range(len(x)):
        if x[i] > t:
            return x[i] * i
    return 0.0


def skipping(x: Any) -> Any:
    s = 0
    for i in range(len(x)):
        if i % 3 == 1:
            continue
        s = s * 0.5 + x[i]
        if s > 1.2:
            break
    return s


def for_else(x: Any, v: Any) -> Any:
    for i in range(len(x)):
        if 0.2 < x[i] <= v:
            break
    else:
        return -1
    return i


def product(a: Any) -> Any:
    n = a.shape[0]
    c = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            for k in range(n):
                c[i, j] += a[i, k] * a[k, j]
    return c


def swapped_buffers(x: Any) -> Any:
    a, b = x.copy(), np.zeros_like(x)
    for _ in range(10):
        for i in range(1, len(x) - 1):
            b[i] = (a[i - 1] + a[i + 1]) * 0.5
        a, b = b, a
    return a


def views_of_one_array(x: Any) -> Any:
    y = x.copy()
    r = y[2:8]
    for i in range(6):
        r[i] = r[i] * 2 + y[i]
    return y


def two_names(x: Any) -> Any:
    a = np.zeros(10)
    b = a
    for i in range(10):
        b[i] = x[i]
        a[i] += 1
    return a


def bound_anew_and_written(x: Any) -> Any:
    a = np.zeros(10)
    b = a
    for i in range(10):
        a[i] = x[i]
        a = a * 1.0
    return b


def best_so_far(x: Any) -> Any:
    best, value = x.copy(), np.sum(x**2)
    now = x
    for k in range(8):
        trial = now * 0.9 + 0.01 * k
        score = np.sum(trial**2)
        if score < value:
            best, value = trial, score
        now = trial
    return best


def normalized_in_place(x: Any) -> Any:
    v = x * 1.0
    n = np.sqrt(np.sum(v * v))
    if n > 1:
        v = v / n
    v[0] = 3.0
    return v


def old_rows(x: Any) -> Any:
    a = np.outer(x[:8], x[:8])
    before, d = a[0], 0.0
    for i in range(1, 8):
        now = a[i]
        d += np.sum((now - before) ** 2)
        before = now
    return d


def until_converged(x: Any) -> Any:
    u, n, error = x.copy(), 0, 1.0
    while error > 1e-2:
        old = u.copy()
        error = 0.0
        for i in range(1, len(u) - 1):
            u[i] = 0.5 * (old[i - 1] + old[i + 1])
            d = abs(u[i] - old[i])
            if d > error:
                error = d
        n += 1
    return u, n


def sums_of_triangle(a: Any) -> Any:
    s = 0.0
    for i in range(a.shape[0]):
        for j in range(i):
            s += a[i, j] * a[j, i]
    return s


def cholesky(a: Any) -> Any:
    n = a.shape[0]
    c = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            s = a[i, j]
            for k in range(j):
                s -= c[i, k] * c[j, k]
            if i == j:
                c[i, j] = math.sqrt(s)
            else:
                c[i, j] = s / c[j, j]
    return c


def roots(x: Any) -> Any:
    y = np.zeros(len(x))
    for i in range(len(x)):
        z = 1.0
        while abs(z * z - x[i]) > 1e-10:
            z = 0.5 * (z + x[i] / z)
        y[i] = z
    return y


def logarithm_where_positive(x: Any) -> Any:
    s = 0.0
    for i in range(len(x)):
        t = x[i] - 0.5
        if t > 0:
            s += math.log(t)
    return s


def in_a_dictionary(x: Any) -> Any:
    d = {"s": 0.0, "n": 0}
    for i in range(len(x)):
        d["s"] += x[i]
        d["n"] += 1
    return d["s"] / d["n"]


def listed(x: Any) -> Any:
    return np.array([v * v for v in x])


class Model:
    """A method that branches, called in a loop."""

    def __init__(self, w: float) -> None:
        self.w = w

    def step(self, h: Any) -> Any:
        if h > 1:
            return h * self.w
        return h + self.w


def method(h: Any) -> Any:
    model = Model(0.3)
    for _ in range(12):
        h = model.step(h)
    return h


def closure(x: Any, k: Any) -> Any:
    acc = np.zeros(3)

    def inner(i: Any) -> Any:
        return acc[i % 3] * 0.5 + k * x[i]

    for i in range(len(x)):
        acc[i % 3] = inner(i)
    return acc


def zipped(x: Any) -> Any:
    best, where = -1e9, -1
    for i, (a, b) in enumerate(zip(x, x[::-1], strict=False)):
        if a * b > best:
            best, where = a * b, i
    return best, where


def nested_tuples(x: Any) -> Any:
    state = (0.0, (1.0, 0.0))
    for v in x:
        a, (b, c) = state
        state = (a + v, (b * v, c + a))
    return state[0] + state[1][0] + state[1][1]


def integers(x: Any) -> Any:
    t = np.zeros(5, np.int32)
    for i in range(20):
        t[i % 5] += i * 3
    return t * np.sum(x)


def chained(x: Any) -> Any:
    n = 0
    for v in x:
        if 0.25 < v < 0.75 and (v < 0.5 or not v > 0.6):
            n += 1
    return n


def conditional_expression(x: Any) -> Any:
    s = 0.0
    for v in x:
        s = s * 0.9 + (v if v > 0.5 else -v)
    return s


def defined_in_the_loop(x: Any) -> Any:
    for v in x:
        last = v * 2
    return last


def defined_before_it_is_read(x: Any) -> Any:
    s = 0.0
    for i in range(len(x)):
        if i > 0:
            s += before * x[i]  # noqa: F821 - of the step before
        before = x[i]  # noqa: F841 - the next step reads it
    return s


def nonlocal_counter(x: Any) -> Any:
    total = 0.0

    def add(v: Any) -> None:
        nonlocal total
        total += v

    for v in x:
        add(v)
    return total


def keeps_python_numbers(x: Any) -> Any:
    n = 1
    while n < len(x):
        n *= 2
    y = np.zeros(n)
    y[: len(x)] = x
    return y


def rows_are_written(a: Any) -> Any:
    for i in range(a.shape[0]):
        row = a[i]
        row[1:] += 0.5 * row[:-1]
        a[-1 - i, 0] += row[2]
    return a


def rows_are_walked(a: Any) -> Any:
    s = 0.0
    for row in a:
        row *= 2.0
        s += row[0]
    return a * s


def part_at_a_computed_place(a: Any, i: Any) -> Any:
    v = a[i % 3, 1:]
    v[i] += 0.5
    a[i % 3, 2] *= 3.0
    return a * v[1]


def elements_are_exchanged(x: Any) -> Any:
    n = len(x)
    for i in range(n - 1, -1, -1):
        x[-1 - i % n], x[(i * 2) % n] = x[(i * 2) % n], x[-1 - i % n]
    return x


def names_are_exchanged(x: Any) -> Any:
    u, v = x.copy(), np.zeros_like(x)
    first = u
    for _ in range(7):
        v[1:-1] = 0.5 * (u[:-2] + u[2:])
        v[0], v[-1] = u[0], u[-1]
        u, v = v, u
    return u + 2 * v + 3 * first


def names_are_exchanged_in_two_loops(a: Any, n: Any) -> Any:
    y, u = a[0].copy(), a[1]
    for _ in range(n):
        for _ in range(n):
            u, y = y, u
    u -= 0.5 * np.sin(y)
    return a * y


def a_name_means_another_array_after_a_turn(x: Any, n: Any) -> Any:
    y = x.copy()
    for i in range(n):
        y[0] += 1
        if i == 1:
            y = x
    return x + y


def an_iterator_for_two_loops(x: Any) -> Any:
    it, s = iter(range(6)), 0.0
    for i in it:
        s += i * x
        for j in it:
            s += 10 * j
            if j % 2:
                break
    return s


def shape_of_an_argument(x: Any, n: Any) -> Any:
    y = np.zeros(n + 1)
    for i in range(n):
        y[i + 1] = y[i] + x[i]
    return y


def names_of_one_array_after_a_turn(a: Any, k: Any) -> Any:
    y, u, z = np.full(6, a), np.ones(6), (np.zeros(6), np.zeros(6))
    for i in range(k):
        u = np.sin(a + np.arange(6.0) * i)
        y = u
        z = (u, y)
    return y, u, z[0], z[1]


def the_same_while_a_condition_holds(a: Any, k: Any) -> Any:
    y, u = np.full(6, a), np.ones(6)
    i = 0
    while i < k:
        u = np.sin(a + np.arange(6.0) * i)
        y = u
        i += 1
    return y, u


def and_one_of_them_is_written(a: Any, k: Any) -> Any:
    y, u = np.full(6, a), np.ones(6)
    for i in range(k):
        u = np.sin(a + np.arange(6.0) * i)
        y = u
    y[0] = 7.0 * a
    return y, u


PROGRAMS: dict[Callable[..., Any], tuple[Any, ...]] = {
    smooth: (X,),
    newton: (2.0,),
    first_above: (X, 0.8),
    skipping: (X,),
    for_else: (X, 0.4),
    product: (A,),
    swapped_buffers: (X,),
    views_of_one_array: (X[:12],),
    two_names: (X[:10],),
    bound_anew_and_written: (X[:10],),
    best_so_far: (X,),
    normalized_in_place: (X,),
    old_rows: (X,),
    until_converged: (X,),
    sums_of_triangle: (A,),
    cholesky: (SPD,),
    roots: (X + 0.5,),
    logarithm_where_positive: (X,),
    in_a_dictionary: (X,),
    listed: (X,),
    method: (0.5,),
    closure: (X, 0.3),
    zipped: (X,),
    nested_tuples: (X,),
    integers: (X,),
    chained: (X,),
    conditional_expression: (X,),
    defined_in_the_loop: (X,),
    defined_before_it_is_read: (X,),
    nonlocal_counter: (X,),
    keeps_python_numbers: (X,),
    rows_are_written: (A,),
    rows_are_walked: (A,),
    part_at_a_computed_place: (A, 1),
    elements_are_exchanged: (X,),
    names_are_exchanged: (X,),
    names_are_exchanged_in_two_loops: (A, 3),
    a_name_means_another_array_after_a_turn: (X, 4),
    an_iterator_for_two_loops: (0.3,),
    shape_of_an_argument: (X, 9),
}
