"""Integers that grow, kinds that meet, membership, keys, ranges as values, order of targets."""

# ruff: noqa

import math

import numpy as np
from case import case

A = np.array
X = A([0.5, -1.5, 2.5, 3.5, -4.5, 5.5, 0.25])


@case(91)
@case(60)
@case(200)
def integers_grow_in_a_loop(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


@case(20)
@case(21)
@case(5)
def product_of_a_range(n):
    r = 1
    for i in range(2, n + 1):
        r *= i
    return r


@case(X, 31, 1_000_000_007)
@case(X, 2**40, 2**62)
def hash_of_places(x, base, modulus):
    h = 7
    for i in range(len(x)):
        if x[i] > 0:
            h = (h * base + i) % modulus
    return h


@case(X, 5)
@case(X, 2**62)
def sum_of_squares_of_a_counter(x, n):
    c = 0
    for i in range(len(x)):
        c = c - n if x[i] > 0 else c + i * i
    return c


@case(1.0, 2**53 + 1, loose=True, smooth=False)
@case(-1.0, 2**53 + 1, loose=True, smooth=False)
@case(-1.0, 7, loose=True, smooth=False)
def large_integer_or_a_float(p, n):
    t = 0.5 if p > 0 else n
    return t - 2**53


@case(3, 2**53 + 1, loose=True, smooth=False)
@case(0, 2**53 + 1, loose=True, smooth=False)
def large_integer_in_a_float_variable(k, n):
    t = 0.5
    for i in range(k):
        t = n + i
    return t - 2**53


@case(1.0, A([100, 3], np.int8), 100)
@case(-1.0, A([100, 3], np.int8), 100)
def short_integer_or_a_long_one(p, b, n):
    wide = np.zeros(1, np.int64) + n
    t = b[0] if p > 0 else wide[0]
    return t * 3


@case(1.0, np.float32(0.1), 0.1, smooth=False)
@case(-1.0, np.float32(0.1), 0.1, smooth=False)
def single_or_double(p, a, b):
    t = a if p > 0 else np.float64(b)
    return t * 3.0


@case(X)
def membership_of_a_counter(x):
    s = 0.0
    for i in range(len(x)):
        if i in (1, 3):
            s += x[i]
        if i in {2, 5}:
            s -= x[i]
        if i not in [0, 6]:
            s *= 0.5
        if i in {4: "four"}:
            s += 10.0
    return s


@case(X, 3)
def membership_of_an_argument(x, n):
    return n in (1, 3), n in {4, 5}, n in range(2, 9, 2), n in [3], 2.5 in x, n in {3: 1}


@case(X)
def dictionary_is_read_at_a_counter(x):
    table = {0: 1.5, 1: 2.5, 2: -1.0}
    s = 0.0
    for i in range(len(x)):
        s += table[i % 3] * x[i]
    return s


@case(X, 2)
@case(X, 5)
def dictionary_is_read_at_an_argument(x, n):
    return x * {2: 1.5}.get(n, 7.0)


@case(X)
def dictionary_has_defaults(x):
    d = {}
    for i in range(len(x)):
        d.setdefault(i % 2, []).append(x[i])
        d["n"] = d.get("n", 0) + 1
    return d[0], d[1], d["n"]


@case(X)
def list_shrinks_in_a_loop(x):
    items = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    s = 0.0
    for i in range(len(x)):
        del items[0]
        s += items[0] * x[i] + items.pop() if len(items) > 3 else x[i]
    return s, items


@case(X, 2)
@case(X, 0)
@case(X, 7)
@case(X, -3)
def slices_with_ends_of_all_kinds(x, n):
    return (
        x[n:None].sum(),
        x[:-n].sum(),
        x[-n:].sum(),
        x[n::-1].sum(),
        x[:n:-2].sum(),
        x[None:n].sum(),
    )


@case(X)
def slices_with_ends_of_a_loop(x):
    s = 0.0
    for i in range(len(x)):
        s = s * 0.5 + x[i : i - 3 : -1].sum() + x[-i:].sum() - x[i::-2].sum() + x[: -i - 1].sum()
    return s


@case(X, 1.0)
@case(X, -1.0)
def truth_value_is_an_index(x, p):
    return x[p > 0].shape, x[np.bool_(True)].shape


@case(X, A(3))
@case(X, A(0))
def bound_of_rank_zero(x, n):
    s = 0.0
    for i in range(n):
        s += x[i]
    return s, x[:n].sum(), x[n]


@case(-0.0, 0.0, smooth=False)
@case(0.0, -0.0, smooth=False)
def zeros_with_signs(a, b):
    t = [min(a, b), max(a, b), a + b, -a, abs(a), a * b, sum([a, b]), np.minimum(a, b) * 1, a or b]
    return [math.copysign(1.0, x) for x in t], a < b, a == b, 1.0 if a else 2.0


@case(A([-0.0, -0.0, -0.0, -0.0, -0.0, -0.0]))
def sum_of_negative_zeros(x):
    s = -0.0
    for v in x:
        s = s + v
    return np.signbit(s), np.signbit(np.sum(x)), np.signbit(sum(x)), np.signbit(np.prod(x))


@case(X.copy(), 2)
def targets_from_left_to_right(x, i):
    i, x[i] = 1, 7.0
    x[i], i = 9.0, 3
    j = x[j] = 4
    return x, i


@case(X)
def targets_from_left_to_right_in_a_loop(x):
    x = x.copy()
    k = 0
    for i in range(len(x)):
        k, x[k] = i, x[k] * 0.5 + i
    return x, k


@case(math.nan)
@case(1.0)
def loops_on_nan(x):
    n = 0
    while not x >= 3 and n < 6:
        x = x + 1
        n += 1
    m = 0
    while x < 9 and m < 6:
        x, m = x + 1, m + 1
    return n, m, x != x, x == x, not x < 3, -1 < x < 9


@case(X)
def truth_values_are_counted(x):
    c = 0
    for i in range(len(x)):
        c += x[i] > 0
        c -= True
        c = -c
    return c, True + True, -True, True / 2, (x[0] > 0) + (x[1] > 0), (x[0] > 0) == True != False


@case(-7, 3)
@case(7, -3)
@case(-7, -3)
def negative_numbers_are_divided_in_a_loop(a, b):
    found = []
    q = r = 0
    for i in range(8):
        q, r = divmod(a + i, b)
        a -= q * r
    return q, r, a, -a // b, a % -b, int(a / b), math.fmod(a, b), np.int64(a) // b, np.fmod(a, b)


@case(np.uint8(200), np.int8(-128))
def short_numbers_wrap(a, b):
    return a + np.uint8(100), a * np.uint8(2), -b, abs(b), a - np.uint8(201), b - np.int8(1)


@case(X, 4)
def ranges_are_values(x, n):
    r = range(1, n + 3, 2)
    s = 0.0
    for i in r[::-1]:
        s = s * 0.5 + x[i]
    return s, len(r), r[1], list(r), r[-1], sum(r), max(r), r == range(1, 7, 2)


@case(X, 4)
@case(X, 0)
def lengths_of_two_kinds(x, n):
    s = 0.0
    for i, v in zip(range(n), x):
        s += v * i
    for i in reversed(range(n)):
        s = s * 0.5 + x[i]
    for i, v in enumerate(x[::-1], start=n):
        s += i * v
    return s


@case(X, 3, smooth=False)
def constants_beyond_words(x, n):
    c = 0
    for i in range(len(x)):
        if c < 10**20 and i > -(2**70):
            c += n
    return c, x[0] * 10**20, n > 2**64


@case(X)
def array_turns_over_in_each_step(x):
    y = x.copy()
    for i in range(7):
        y = y[::-1]
        y[i] += 1.0
    return y, x


@case(X)
def sorts_a_part_in_place(x):
    x = x.copy()
    part = x[1:5]
    part.sort()
    for i in range(6):
        x[i : i + 2].sort()
    return x, part


@case(X.copy(), 0, 6, smooth=False)
def sorts_in_place_by_recursion(x, low, high):
    def sort(low, high):
        if low >= high:
            return
        last, k = x[high], low
        for j in range(low, high):
            if x[j] < last:
                x[j], x[k] = x[k], x[j]
                k += 1
        x[k], x[high] = x[high], x[k]
        sort(low, k - 1)
        sort(k + 1, high)

    sort(low, high)
    return x


@case(X)
def two_names_in_one_statement(x):
    a = b = np.zeros(7)
    for i in range(7):
        a[i] += x[i]
        b = b + a
    return a, b


@case(A([3, 1, 2, 0, 5, 4]), X)
def integers_take_floats_in_place(p, x):
    for i in range(6):
        p[i] += 1
        p[i] = x[i] * 2.5
    return p


@case(A([3, 1, 2, 0, 5, 4]), 0.5)
def integer_array_takes_a_float_in_place(p, a):
    for i in range(6):
        p += a
    return p


@case(X)
def sees_integers(x):
    found = []
    n = 0
    for i in range(len(x)):
        n += isinstance(i, int) + (type(i) is int) * 10 + isinstance(x[i], float) * 100
    return n


@case(X, 1.0)
@case(X, -1.0)
def returns_in_finally(x, p):
    for i in range(6):
        try:
            if x[i] * p > 2:
                return i
        finally:
            p = p * 1.5
    return -1
