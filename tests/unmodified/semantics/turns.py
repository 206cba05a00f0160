"""Loops: turns, bounds, steps, what leaves them, and what is left after them."""

# ruff: noqa

import numpy as np
from case import case

A = np.array


@case(2.0, 0)
@case(2.0, 1)
@case(2.0, 7)
def any_number_of_turns(x, n):
    s = 1.0
    for i in range(n):
        s = s * x
    return s


@case(0.5, 5)
@case(0.5, 1)
def loop_variable_afterwards(x, n):
    for i in range(n):
        x = x + i
    return x * i


@case(0.5, 0)
@case(0.5, 3)
def loop_variable_keeps_its_value_without_turns(x, n):
    i = 10
    for i in range(n):
        x = x + 1
    return x * i


@case(0.5, 0)
def loop_variable_is_undefined_without_turns(x, n):
    for i in range(n):
        x = x + 1
    return x * i


@case(0.5, 0)
@case(0.5, 2)
def result_is_undefined_without_turns(x, n):
    for i in range(n):
        y = x + i
    return y


@case(1.0, 5)
def negative_step(x, n):
    for i in range(n, 0, -1):
        x = x / i + i
    return x


@case(1.0, 10, 3)
@case(1.0, 10, -3)
@case(1.0, -7, -2)
def traced_step(x, n, k):
    for i in range(0, n, k):
        x = x * 0.5 + i
    return x


@case(1.0, 10, 0)
def step_of_zero(x, n, k):
    for i in range(0, n, k):
        x = x + i
    return x


@case(1.0, 3.0)
def range_of_a_float(x, n):
    for i in range(n):
        x = x + i
    return x


@case(1.0, np.int32(4))
@case(1.0, np.int64(4))
@case(1.0, np.uint8(4))
def range_of_numpy_integers(x, n):
    s = 0
    for i in range(n):
        s += i
        x = x * 0.9
    return x, s


@case(A([1.0, -2.0, 3.0]))
@case(A([1.0, 2.0, 3.0]))
@case(A([-1.0]))
def for_else(x):
    s = 0.0
    for i in range(len(x)):
        if x[i] < 0:
            break
        s += x[i]
    else:
        s = s + 100.0
    return s


@case(3.0, 4)
@case(30.0, 4)
def while_else(x, n):
    i = 0
    while i < n:
        if x > 20:
            break
        x = x * 1.1
        i += 1
    else:
        x = -x
    return x, i


@case(A([[1.0, 2.0, -1.0], [0.5, -3.0, 4.0], [1.5, 2.5, 3.5]]))
def break_leaves_the_inner_loop_only(a):
    s = 0.0
    for i in range(3):
        for j in range(3):
            if a[i, j] < 0:
                break
            s += a[i, j]
        s *= 1.5
    return s


@case(A([[1.0, 2.0, -1.0], [0.5, -3.0, 4.0], [1.5, 2.5, 3.5]]))
def continue_of_the_outer_loop(a):
    s = 0.0
    for i in range(3):
        for j in range(3):
            if a[i, j] < 0:
                break
        else:
            s += a[i].sum()
            continue
        s -= 1.0
    return s


@case(A([[1.0, 2.0, 1.0], [0.5, -3.0, 4.0], [1.5, 2.5, 3.5]]))
@case(A([[1.0, 2.0, 1.0], [0.5, 3.0, 4.0], [1.5, 2.5, 3.5]]))
def break_out_of_two_loops(a):
    s = 0.0
    for i in range(3):
        for j in range(3):
            if a[i, j] < 0:
                break
            s += a[i, j]
        else:
            continue
        break
    return s, i, j


@case(A([0.5, 2.0, -1.0, 3.0]))
def continue_skips_the_rest(x):
    s, n = 0.0, 0
    for v in x:
        n += 1
        if v < 0:
            continue
        s += v * n
    return s, n


@case(A([0.5, 2.0, -1.0, 3.0]))
@case(A([0.5, 2.0, 1.0, 3.0]))
def return_in_a_loop(x):
    for i in range(len(x)):
        if x[i] < 0:
            return x[i] * i
    return 7.0


@case(A([0.5, 2.0, -1.0, 3.0]), smooth=False)
@case(A([0.5, 2.0, 1.0, 3.0]), smooth=False)
def return_in_a_loop_or_nothing(x):
    for i in range(len(x)):
        if x[i] < 0:
            return x[i] * i


@case(A([[0.5, 2.0], [-1.0, 3.0]]))
@case(A([[0.5, 2.0], [1.0, 3.0]]))
def return_in_nested_loops(a):
    s = 0.0
    for i in range(2):
        for j in range(2):
            if a[i, j] < 0:
                return s
            s += a[i, j]
    return s * 2


@case(50.0)
@case(0.5)
def return_in_an_endless_loop(x):
    while True:
        x = x * 0.7
        if x < 1.0:
            return x


@case(50.0)
@case(0.5)
def while_a_float(x):
    n = 0
    while x > 1.0:
        x = x / 3.0
        n += 1
    return x, n


@case(50.0)
def while_not(x):
    while not x < 1.0:
        x = x / 3.0
    return x


@case(5, 2.0)
def while_counts_down(n, x):
    while n:
        x = x * 0.5 + n
        n -= 1
    return x, n


@case(100.0)
def while_with_walrus(x):
    while (y := x / 2.0) > 1.0:
        x = y - 0.1
    return x, y


@case(1.0, 3)
def while_false_has_no_turn(x, n):
    while n < 0:
        x = x * 5
        n = n + 1
    return x, n


@case(2.0, 5)
def loop_variable_is_rebound(x, n):
    s = 0
    for i in range(n):
        i = i * 2
        s += i
    return s * x, i


@case(2.0, 5)
def bound_is_read_once(x, n):
    c = 0
    for i in range(n):
        n = n - 1
        c += 1
    return c * x, n


@case(2.0, A([1.0, 2.0, 3.0]))
def bound_of_a_list_that_grows(x, v):
    items = [v[0], v[1]]
    for item in items:
        if len(items) < 6:
            items.append(item * x)
    return items


@case(A([1.0, 2.0, 3.0, 4.0]))
def elements_are_read_when_they_come(x):
    s = 0.0
    for v in x:
        x[1:] = x[1:] * 0.5
        s += v
    return s, x


@case(A([[1.0, 2.0], [3.0, 4.0]]))
def rows_are_views(a):
    for row in a:
        row *= 2.0
        row[0] = row[1]
    return a


@case(A([1.0, 2.0]), A([3.0, 4.0, 5.0]))
def zip_of_unequal_lengths(x, y):
    s = 0.0
    for a, b in zip(x, y):
        s += a * b
    return s


@case(A([1.0, 2.0, 3.0]))
def enumerate_from(x):
    s = 0.0
    for k, v in enumerate(x, 5):
        s += k * v
    return s, k


@case(A([1.0, 2.0, 3.0]), 3)
def reversed_things(x, n):
    s = 0.0
    for v in reversed(x):
        s = s * 0.5 + v
    for i in reversed(range(n)):
        s = s * 0.5 + i
    return s


@case(A([1.0, 2.0, 3.0]), A([1.0, 2.0, 3.0]), 3)
def zip_of_enumerate_and_range(x, y, n):
    s = 0.0
    for (k, a), b, j in zip(enumerate(x), y[::-1], range(n, 0, -1)):
        s += a * b * k + j
    return s


@case({"a": 1.0, "b": 2.0})
def items_of_a_dictionary(d):
    s = 0.0
    for k, v in d.items():
        s = s * 2 + v * len(k)
    return s


@case(A([0.5, 1.5, -2.0, 3.0]))
def carried_nothing_at_first(x):
    best = None
    for v in x:
        if best is None or v > best:
            best = v
    return best


@case(A([0.5, 1.5]))
def integer_that_becomes_a_float(x):
    s = 0
    for i in range(2):
        s += x[i]
    return s


@case(0.5, 3, loose=True)
def float_that_becomes_an_integer(x, n):
    s = x
    for i in range(n):
        s = i
    return s


@case(0.5, 0, loose=True)
@case(0.5, 3, loose=True)
def integer_only_without_turns(x, n):
    s = 1
    for i in range(n):
        s = s * x
    return s


@case(A([0.5, 1.5, 0.2]))
def truth_values_are_carried(x):
    found, every = False, True
    for v in x:
        found = found or v > 1
        every = every and v > 0
    return found, every


@case(A([1.0, 2.0, 3.0]), 5)
@case(A([1.0, 2.0, 3.0]), 3)
def while_is_left_in_its_first_turn(x, k):
    i = 0
    while i < 5 and k > 3:
        x -= 0.5 * x
        return x, i
    return x * 2, i


@case(A([1.0, 2.0, 3.0]), 5)
def while_has_two_turns_and_changes_its_kind(x, k):
    i, last = 0, None
    while i < 2 and k > 3:
        x *= 0.5
        last = (i, x) if last is None else (x, i, last)
        i += 1
    return x, i, last[0]
