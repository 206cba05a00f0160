"""Loops: what is carried, and what is around them and in them."""

# ruff: noqa

import numpy as np
from case import case

A = np.array


@case(1.0, 2.0, 6)
def fibonacci_in_a_tuple(a, b, n):
    for _ in range(n):
        a, b = b, a + b
    return a, b


@case(1.0, 2.0, 4)
def nested_tuple_is_carried(a, b, n):
    state = (a, (b, 0))
    for _ in range(n):
        p, (q, k) = state
        state = (q, (p * 0.5 + q, k + 1))
    return state


@case(A([1.0, 2.0]), 3)
def shape_grows(x, n):
    for i in range(n):
        x = np.concatenate([x, x[:1] * 2])
    return x


@case(A([1.0, 2.0]), 3)
def rank_grows(x, n):
    for i in range(n):
        x = x[None] * 2
    return x


@case(A([1, 2]), 3)
@case(A([1, 2]), 0)
def dtype_widens(x, n):
    for i in range(n):
        x = x * 0.5
    return x


@case(A([1.0, 2.0], np.float32), 2.0, 3, smooth=False)
def precision_widens(x, y, n):
    s = x[0]
    for i in range(n):
        s = s + y * x.astype(np.float64)[1]
    return s


@case(1.0, 3, loose=True)
def kind_alternates(x, n):
    y = x
    for i in range(n):
        if i % 2 == 0:
            y = 1
        else:
            y = x * 2
    return y


@case(1.0, 3)
def number_becomes_an_array(x, n):
    for i in range(n):
        x = x + np.ones(2)
    return x


@case(1.0, 3)
def number_becomes_a_tuple(x, n):
    y = x
    for i in range(n):
        y = (x, i)
    return y


@case(2.0, 4)
def variable_is_deleted_in_the_loop(x, n):
    for i in range(n):
        t = x * 0.5
        x = t + i
        del t
    return x


@case(2.0, 4)
def variable_is_deleted_afterwards(x, n):
    for i in range(n):
        t = x * i
    del t
    return t


@case(2.0, 3)
def variable_from_the_turn_before(x, n):
    s = 0.0
    for i in range(n):
        if i > 0:
            s = s + old
        old = x * (i + 1)
    return s, old


@case(2.0, 3, 2)
def loops_in_loops_with_bounds_of_each_other(x, n, m):
    c = 0
    for i in range(n):
        for j in range(i, n + m - i):
            x = x * 0.9 + j
            c += 1
        for k in range(j):
            x += 0.1 * k
    return x, c


@case(3.0, 6)
def empty_bodies(x, n):
    for i in range(n):
        pass
    while x > 5:
        pass
    return x + i


@case(27, smooth=False)
@case(1, smooth=False)
def collatz(n):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


@case(2.0, 5)
def generator_in_a_loop(x, n):
    def powers():
        p = 1.0
        for i in range(n):
            p = p * x
            yield p

    s = 0.0
    for p in powers():
        s += p
    return s


@case(2.0)
def generator_with_send(x):
    def averages():
        total, count = 0.0, 0
        while True:
            value = yield total / max(count, 1)
            total += value
            count += 1

    g = averages()
    next(g)
    g.send(x)
    return g.send(x * x)


@case(2.0)
def coroutine_is_driven_by_hand(x):
    async def double(y):
        return y * 2

    async def both(y):
        return await double(y) + await double(1.0)

    try:
        both(x).send(None)
    except StopIteration as stop:
        return stop.value


@case(2.0, 100_000)
def many_turns(x, n):
    for i in range(n):
        x = x * 0.5 + 1.0 / (1 + i % 7)
    return x


@case(2.0, 3)
def try_around_a_loop(x, n):
    try:
        for i in range(n):
            x = x * 1.5
    finally:
        x = x + 1
    return x


@case(2.0, 3)
@case(2.0, 0)
def try_in_a_loop(x, n):
    c = 0
    for i in range(n):
        try:
            x = x / (i - 1)
        except ZeroDivisionError:
            c += 1
    return x, c


@case(A([1.0, 2.0]), 4)
def index_error_ends_a_loop(x, n):
    s = 0.0
    try:
        for i in range(n):
            s += x[i]
    except IndexError:
        s = -s
    return s


@case(A([1.0, 4.0]), 2)
def with_in_a_loop(x, n):
    s = 0.0
    for i in range(n):
        with np.errstate(all="ignore"):
            if x[i] > 3:
                break
            s += x[i]
    return s


@case(2.0, 3)
def return_in_a_try_in_a_loop(x, n):
    for i in range(n):
        try:
            x = x * 2
            if x > 7:
                return x
        finally:
            x = x + 0.5
    return -x


@case(2.0)
def iterator_is_shared(x):
    it = iter(range(6))
    s = 0.0
    for i in it:
        s += i * x
        for j in it:
            s += 10 * j
            if j % 2:
                break
    return s


@case(A([3.0, 1.0, 2.0]))
def sorted_values_are_looped_over(x):
    s = 0.0
    for k, v in enumerate(sorted(x)):
        s += k * v
    return s


@case(2.0, 5)
def target_is_an_element(x, n):
    y = np.zeros(3)
    for y[1] in range(n):
        x = x + y[1]
    return x, y


@case(2.0)
def targets_are_starred(x):
    s = 0.0
    for a, *b in [(1.0, 2.0, 3.0), (x, x, 5.0, 6.0)]:
        s += a * len(b) + b[-1]
    return s, b


@case(A([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), 7)
@case(A([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), 1)
def row_of_a_turn_is_written(m, n):
    for i in range(n):
        row = m[i % 3]
        row *= 0.9
        row[:1] += i
    return m


@case(A([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), 7)
def row_of_a_turn_is_written_and_kept(m, n):
    for i in range(n):
        row = m[i % 3]
        row *= 0.9
    m[0] += 1.0
    return m, row


@case(A([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
def row_of_the_last_turn_is_written(m):
    for i in range(7):
        row = m[i % 3]
    m[0] = 5.0
    row[1] = 7.0
    return m, row


@case(A([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), 2)
def row_at_an_argument_is_a_view(m, k):
    row, part = m[k], m[k - 1, 1:]
    row *= 2.0
    part[-1] += row[0]
    m[k, 0] = 9.0
    k += 1
    return m, row, part
