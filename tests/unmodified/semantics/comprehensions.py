"""Comprehensions of traced values: with conditions, in sums and arrays, in each other."""

# ruff: noqa

import math

import numpy as np
from case import case

X = 0.53 + 1.5 * np.sin(1.3 * np.arange(40.0))
SMALL = np.array([0.3, -0.2, 1.5])


@case(X, 0.5)
@case(SMALL, 0.5)
def sum_of_some(x, a):
    return sum(v * v for v in x if v > a)


@case(X, 0.5)
@case(X, 9.0)
def sum_from_a_start(x, a):
    return sum((v for v in x if v > a), 1.5), sum([v for v in x if v > a], a)


@case(X, 0.5)
def several_conditions(x, a):
    return sum(v for v in x if v > -a if v < a if v != 0.25)


@case(X, 0.5)
@case(X, 9.0)
def how_many(x, a):
    return len([v for v in x if v > a]), sum(1 for v in x if v > a), sum(v > a for v in x)


@case(X, 0.5)
@case(X, 9.0)
@case(SMALL, -9.0)
def any_and_all(x, a):
    return any(v > a for v in x), all(v < a for v in x), any(v < 0 for v in x if v > a)


@case(X, 0.5)
@case(SMALL, 0.5)
def best_of_some(x, a):
    return max(v for v in x if v < a), min(v * v for v in x if v < a), max([v - a for v in x])


@case(X, 9.0)
def best_of_none(x, a):
    return max(v for v in x if v > a)


@case(X, 9.0)
@case(X, 0.5)
def best_or_default(x, a):
    return max((v for v in x if v > a), default=-1.0), min([v for v in x if v > a], default=a)


@case(X, 0.5)
def best_by_a_key(x, a):
    return max((v for v in x if v < a), key=abs), min((v for v in x), key=lambda v: (v - a) ** 2)


@case(X, 0.5)
def place_of_the_best(x, a):
    value, place = max((v, i) for i, v in enumerate(x) if v < a)
    return value, x[place] * 2.0, min((abs(v - a), -i) for i, v in enumerate(x))


@case(X, 0.5)
def of_indices(x, a):
    return sum(x[i] * x[i - 1] for i in range(1, len(x)) if x[i] > a * x[i - 1])


@case(X, 0.5)
def of_pairs(x, a):
    return sum(u * v for u, v in zip(x, x[::-1]) if u < v), sum(
        i * v for i, (v, _) in enumerate(zip(x, x))
    )


@case(X, 9)
@case(X, 0)
def of_a_traced_number(x, n):
    return sum((x[i] for i in range(n) if x[i] < 0.5), 0.0), any(x[i] > 0.5 for i in range(n))


@case(X.reshape(8, 5), 0.5)
def sum_of_rows(m, a):
    return sum(row * a for row in m), sum(sum(v for v in row if v > a) for row in m)


@case(X, 0.5)
def array_of_all(x, a):
    def f(v):
        return math.sin(v) if v > a else v * a

    return np.array([f(v) for v in x])


@case(X, 0.5)
def array_of_differences(x, a):
    return np.array([x[i] - a * x[i - 1] for i in range(len(x))]) ** 2


@case(X, 0.5)
def array_whose_first_is_an_integer(x, a):
    return np.array([0 if i == 0 else x[i - 1] for i in range(len(x))])


@case(X, 0.5)
def array_of_arrays(x, a):
    return np.array([[u * v for v in x] for u in x]), np.array([x * v for v in x])


@case(X, 0.5)
def matrix_of_some(x, a):
    return np.array([sum(v for v in x if v > u) for u in x])


@case(X, 0.5)
@case(X, 1.9)
def array_of_some(x, a):
    y = np.array([1.0 / v for v in x if v > a])
    return y.sum(), np.max(y), np.mean([v for v in x if v < a])


@case(X, 0.5)
def integers(x, a):
    return np.array([int(v * 7) for v in x]), np.sum([1 if v > a else 0 for v in x])


@case(X, 0.5)
def with_a_dtype(x, a):
    return np.array([round(v * a) for v in x], np.float32), np.asarray(
        [v > a for v in x], dtype=int
    )


@case(X, 0.5)
def reductions(x, a):
    y = [np.sum([v * u for v in x]) for u in x]
    return np.mean([v**2 for v in x]), np.max([abs(v - a) for v in x]), np.linalg.norm(y)


@case(X, 0.5)
def in_a_loop(x, a):
    y = x * 1.0
    for i in range(len(y)):
        y[i] = sum(v for v in y if v < a) * 0.01 + max(v for v in y)
        a = a * 0.9
    return y


@case(X, 0.5)
def in_a_branch(x, a):
    if a > 0:
        return sum(v for v in x if v > 0)
    return max(v for v in x if v > 100.0)


@case(X, 0.5)
def other_sum(x, a):
    def sum(items):
        return list(items)[0] * 2

    return sum(v * a for v in x)


@case(X, 0.5)
def the_variable_stays(x, a):
    v = a
    s = sum(v for v in x if v > 0.1)
    return s * v


@case(X, 0.5)
def late_binding(x, a):
    g = lambda: sum(v for v in x if v > a)
    a = 1.0
    return g()


@case(SMALL, 0.5)
def of_a_list(x, a):
    parts = [x[0], x[1] * 2, a]
    return (
        sum(v for v in parts if v > 0.1),
        any(v > 1 for v in parts),
        np.array([v * v for v in parts]),
    )


@case(X, 0.5)
def two_loops_in_one(x, a):
    return sum(u * v for u in x[:3] for v in x[:3])


@case(X, 0.5)
def dictionaries(x, a):
    d = {"p": x[0], "q": x[1]}
    return sum(v for v in d.values()), sum(d[k] * a for k in sorted(d)), max(d.values())


@case(X, 0.5)
def errors_behind_the_end_of_any(x, a):
    return any(x[i] > a for i in range(1000))


@case(X, 5.0)
def errors_in_what_is_not_chosen(x, a):
    return sum(math.sqrt(v) for v in x if v >= 0)


@case(X, 5.0)
def errors_in_what_is_chosen(x, a):
    return sum(math.sqrt(v) for v in x if v < 0.5)


@case(X, 0.5)
def writes_in_an_element(x, a):
    y = np.zeros(len(x))

    def put(i):
        y[i] = x[i] * a
        return y[i] + 1.0

    return np.array([put(i) for i in range(len(x))]), y


@case(X, 0.5)
def fills_a_list(x, a):
    seen = []

    def put(v):
        seen.append(v)
        return v * a

    return sum(put(v) for v in x), seen[3]


@case(X, 0.5)
def texts(x, a):
    return len([f"k{i}" for i in range(len(x))]), len(", ".join(str(i) for i in range(5)))
