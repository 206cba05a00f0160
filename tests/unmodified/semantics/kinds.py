"""Python's truth values and integers beside NumPy's: what adds up, what wraps."""

# ruff: noqa

import math

import numpy as np
from case import case

A = np.array
X = A([0.5, -1.5, 2.5])
BYTES = A([5, 6, 7], np.uint8)


@case(0.5)
@case(2.0)
def comparisons_are_added(a):
    g = a > 0
    return (a > 0) + (a > 1), -g, g * 3, sum([g, g, g]), ~g, g / 2, g << 2, (0 < a < 1) + g


@case(0.0)
@case(1.0)
def negations_are_added(a):
    g = not a
    return g + g, -g, isinstance(g, bool), (not g) + (not g)


@case(X)
@case(-X)
def truth_of_numpy_as_pythons(x):
    g = bool(x[0] > 0)
    h = x[0] > 0
    return g + g, -g, g << 2, h + h, h << 2, isinstance(g, bool), isinstance(h, bool)


@case(1.0)
@case(math.nan)
def tests_of_math_are_added(a):
    return math.isnan(a) + math.isnan(a), -math.isinf(a), math.isclose(a, 1.0) + math.isclose(a, 1)


@case(X)
@case(abs(X))
def any_and_all_are_added(x):
    return any(x > 0) + any(x > 1), all([v > 0 for v in x]) + any(x), -all(x)


@case(1j, loose=True)
@case(0j, loose=True)
def truth_of_a_complex_number(z):
    return bool(z), bool(z * 0), not z, 1 if z else 2


@case(-1.0, BYTES)
@case(1.0, BYTES)
def byte_or_integer(p, r):
    c = 5
    if p > 0:
        c = r[0]
    return c * 100


@case(-1.0, BYTES)
@case(1.0, BYTES)
def integer_or_byte(p, r):
    c = r[0]
    if p > 0:
        c = 3
    return c * 100


@case(-1.0, BYTES)
@case(1.0, BYTES)
def byte_or_integer_in_a_loop(p, r):
    c = 0
    for i in range(6):
        if p > 0:
            c = r[i % 3]
        c = c * 100 + 5
    return c


@case(0, BYTES)
@case(6, BYTES)
def integer_becomes_a_byte_in_a_loop(n, r):
    c = 3
    for i in range(n):
        c = r[i % 3] * 2
    return c * 100


@case(BYTES)
def bytes_are_summed_from_an_integer(r):
    c = 0
    for v in r:
        c = c + v * 20
    return c


@case(-1.0, BYTES)
@case(1.0, BYTES)
def larger_of_a_byte_and_an_integer(p, r):
    return max(r[0], 10) * 100, min(10, r[1]) * 100, max(r[0], r[1]) * 100


@case(X)
@case(-X)
def truth_value_of_numpy_or_an_integer(x):
    c = 5
    if x[0] > 0:
        c = x[1] > 0
    return c + c


@case(1.0, A([1.5, 2.5], np.float16), smooth=False)
@case(-1.0, A([1.5, 2.5], np.float16), smooth=False)
def number_beyond_single_precision(p, h):
    best = 1e6
    if p > 0:
        best = h[0]
    return best


@case(A([3, 1, 2]), A([5, 200, 7], np.uint8), A([1, 0, 1]))
def bytes_are_subtracted_at_places(q, r, p):
    np.subtract.at(q, p, r)
    h = np.zeros(3, np.float32)
    np.subtract.at(h, p, r)
    return q, h


@case(A([3, 1, 2], np.int8), A([5, 200, 7], np.uint8), A([1, 0, 2]))
def larger_bytes_at_places(q, r, p):
    np.maximum.at(q, [1, 0, 2], r)
    return q


@case(A([3, 1, 2]), A([5, 200, 7], np.uint64), X)
def mask_takes_what_fits(q, r, x):
    np.putmask(q, q > 9, r)
    return q


@case(A([3, 1, 2]), A([5, 200, 7], np.uint64), X)
def places_take_what_fits(q, r, x):
    np.place(q, q > 9, x)
    return q
