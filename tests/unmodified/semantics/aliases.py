"""Names that mean one array or another, or a part of one, after a branch or a loop."""

# ruff: noqa

import numpy as np
from case import case

A = np.array


@case(A([1.0, 2.0, 3.0]), 2.0)
@case(A([1.0, 2.0, 3.0]), -2.0)
def view_of_the_whole_or_new(x, a):
    y = x[::-1] if a > 0 else np.sin(x)
    x[0] = 5.0
    return x, y


@case(A([1.0, 2.0, 3.0]), 2.0)
@case(A([1.0, 2.0, 3.0]), -2.0)
def reversed_view_or_new_is_written(x, a):
    if a > 0:
        y = x[::-1]
        x[1] = 7.0
    else:
        y = np.sin(x)
    y[0] = 5.0
    return x, y


@case(A([1.0, 2.0, 3.0]), 2.0)
@case(A([1.0, 2.0, 3.0]), -2.0)
def both_branches_return_the_same_arrays(x, a):
    v = x[:-1]
    if a > 0:
        x[0] = 5.0
        return a, v, x
    return a, v, x


@case(A([1.0, 2.0, 3.0]), 2.0)
@case(A([1.0, 2.0, 3.0]), -2.0)
def array_or_its_copy(x, a):
    y = x if a > 0 else x.copy()
    y[0] = 5.0
    x[1] = 6.0
    return x, y


@case(A([1.0, 2.0, 3.0]), 7)
@case(A([1.0, 2.0, 3.0]), 1)
def whole_view_from_some_turn_on(x, n):
    u, c = x, 0
    for i in range(1, 6):
        if c > n:
            u = x[::-1]
        c += 1
    return u


@case(A([1.0, 2.0, 3.0]), 5)
@case(A([1.0, 2.0, 3.0]), 1)
def return_in_nested_branches_of_a_loop(x, k):
    for i in range(5):
        if k > 3:
            if i < 3:
                return x, i
    return x * 2, 7


@case(A([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), 1)
@case(A([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), 7)
def row_of_the_smaller_number_is_a_view(m, k):
    row = m[min(k, 1), 1:]
    row[0] = 9.0
    m[max(k - 9, 0)][0] = 7.0
    return m


@case(A([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
def view_of_the_last_turn_is_written_in_the_next(m):
    v = np.zeros(2)
    for j in range(6):
        v[0] = 7.0
        for i in range(5, -1, -1):
            v = m[min(i, 1), 1:]
    return m


@case(A([1.0, 2.0, 3.0]), A([[4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]), 6)
@case(A([1.0, 2.0, 3.0]), A([[4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]), 1)
def row_at_times_or_the_other_array(x, m, k):
    y = x * 0.5
    u, c = y, 0
    for i in range(k):
        if i % 2 == 0 and c % 3 == 1:
            u = m[-1 - i % 2]
    y[:2] = np.array([9.0, 0.5])
    return y, u


@case(A([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), 3, 0.5)
@case(A([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), 3, 0.9)
def rows_are_written_in_nested_while_loops(m, k, a):
    y, i = np.zeros(6), 0
    while i < 7 and a < 0.7:
        i += 1
        for u in m[1:]:
            j = 0
            while j < k and y[i % 6] < 0.3:
                j += 1
                u[0] = np.sin(a)
    return m


@case(A([1.0, 2.0, 3.0]), 2, loose=True)
@case(A([1.0, 2.0, 3.0]), 5, loose=True)
def integer_in_one_branch_of_two(y, k):
    s = 0
    if k > 3:
        pass
    elif y[2] < 7.0:
        s = y[0]
    return s


@case(A([0.5, 0.3, -0.7, 0.2, 0.9, -0.4, 1.1, 0.6]), A([0.2, 0.5, 0.3]))
def block_outlives_its_loop(x, w):
    y = x * 1.0
    v = y[:3]
    for i in range(len(x) - 2):
        v = y[i : i + 3]
    y[-1] = 7.0
    return v * w, y


@case(A([1.0, 2.0, 3.0]), -1.0)
@case(A([1.0, 2.0, 3.0]), 0.5)
def name_that_two_whiles_may_bind(x, p):
    y = x.copy()
    u = y
    i = 0
    while i < p:
        u = x
        i += 1
    while i < p + 0.5:
        u = x
        i += 1
    y -= 1.0
    return y, u


@case(A([1.0, 2.0, 3.0]), -1.0)
@case(A([1.0, 2.0, 3.0]), 0.5)
def name_that_two_loops_may_bind(x, p):
    y = x.copy()
    u = y
    for _ in range(9):
        if p > 0:
            u = x
    for _ in range(9):
        if p > 1:
            u = x
    y -= 1.0
    return y, u


@case(A([1.0, 2.0, 3.0]), -1.0, 3)
@case(A([1.0, 2.0, 3.0]), 0.5, 3)
def name_that_a_loop_in_a_short_loop_may_bind(x, p, n):
    y = x.copy()
    u = y
    for i in range(n):
        k = i
        while k < p:
            u = x
            k += 1
    y[1:] -= 1.0
    return y, u


@case(A([1.0, 2.0, 3.0]), -1.0)
@case(A([1.0, 2.0, 3.0]), 0.4)
@case(A([1.0, 2.0, 3.0]), 0.6)
def name_that_loops_exchange_is_written(x, p):
    y, z = x.copy(), 2.0 * x
    u = y
    i = 0
    while i < p:
        u = z
        i += 1
    while i < p + 0.5:
        u, i = x, i + 1
    z *= 2.0
    y += 1.0
    return u, y, z


@case(A([1.0, 2.0, 3.0]), 2)
@case(A([1.0, 2.0, 3.0]), 0)
def part_of_a_new_array_bound_in_a_loop(x, n):
    u = np.ones(3)
    v = x[1:]
    for _ in range(n):
        v = u[1:]
    u[1:] = x[0] * x[1:]
    return v


@case(A([1.0, 2.0, 3.0]), 2.0)
@case(A([1.0, 2.0, 3.0]), -1.0)
def part_of_a_new_array_bound_in_a_branch(x, p):
    u = np.ones(3)
    v = x[1:]
    if p > 0:
        v = u[1:]
    u[1:] = x[0] * x[1:]
    return v
