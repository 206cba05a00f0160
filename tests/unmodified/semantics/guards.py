"""Jumps out of `try` and `with`, out of endless loops, after `else`, and `:=` in conditions."""

# ruff: noqa

import contextlib

import numpy as np
from case import case

A = np.array


@case(A([1.0, -2.0, 3.0, 4.0, 5.0, 6.0]))
@case(A([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
def return_in_with(x):
    s = 0.0
    for v in x:
        with np.errstate(all="ignore"):
            if v < 0:
                return s
            s += np.sqrt(v)
        s *= 0.5
    return -s


@case(A([1.0, -2.0, 3.0, 4.0, 5.0, 6.0]))
@case(A([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
def continue_in_with(x):
    s = 0.0
    for v in x:
        with contextlib.nullcontext() as nothing:
            if v < 0:
                continue
            s += v
        s *= 0.5
    return s


@case(2.0)
@case(-2.0)
def return_in_try_else_and_finally(x):
    n = 0
    try:
        n += 1
        if x > 0:
            return x * 2, n
    except ValueError:
        n = 10
    else:
        n += 20
    finally:
        n += 100
    return x, n


@case(A([1.0, 5.0, 3.0, 4.0, 5.0, 6.0]), 3)
@case(A([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), 3)
def break_in_try_in_loop(x, n):
    s, turns = 0.0, 0
    for i in range(6):
        try:
            if x[i] > 4.5:
                break
            s += x[i]
        finally:
            turns += 1
    else:
        s = -s
    return s, turns


@case(A([[1.0, 2.0], [-1.0, 3.0], [2.0, 2.0], [1.0, 1.0], [1.0, 0.5], [3.0, -1.0]]))
def continue_after_the_else_of_an_inner_loop(m):
    s = 0.0
    for row in m:
        for v in row:
            if v < 0:
                break
        else:
            s += row[0]
            continue
        s -= 10.0
    return s


@case(100.0)
@case(1.0)
def endless_loop_with_two_returns(x):
    n = 0
    while True:
        x = x * 0.5
        n += 1
        if x < 0.1:
            return x, n
        if n > 4:
            return -x, n


@case(50.0, 3.0)
@case(0.5, 3.0)
def walrus_in_while_with_break(x, y):
    n = 0
    while (r := x % y) > 0.25:
        x = x * 0.8
        n += 1
        if n > 5:
            break
    return x, r, n


@case(50.0)
def walrus_and_continue(x):
    s = 0.0
    while (x := x * 0.5) > 1.0:
        if x > 10.0:
            continue
        s += x
    return x, s


@case(A([1.0, 2.0, 3.0]))
def return_in_a_guarded_branch(x):
    try:
        for i in range(3):
            for j in range(6):
                if x[i] * j > 7.0:
                    return i, j
    except IndexError:
        return -1, -1
    return 0, 0


@case(3.0)
@case(-3.0)
def handler_is_not_entered(x):
    y = 0.0
    try:
        if x > 0:
            y = x
        else:
            y = -2 * x
    except ZeroDivisionError:
        y = 7.0
    return y


@case(A([1.0, 2.0, 3.0, 0.5, 0.25, 4.0]))
def nested_guards(x):
    best = -1.0
    for v in x:
        with contextlib.nullcontext():
            try:
                if v < 0.4:
                    break
                if v < best:
                    continue
            finally:
                best = best + 0.01
            best = v
    return best


@case(A([1.0, 2.1, 3.0, 4.0, 5.0, 6.0]), 2)
@case(A([1.0, 2.1, 3.0, 4.0, 5.0, 6.0]), 9)
def else_of_while_and_of_for(x, k):
    i, s = 0, 0.0
    while i < 6:
        if x[i] > k:
            break
        s += x[i]
        i += 1
    else:
        for v in x:
            s += v
        else:
            s = s * 2
    return s, i


@case(A([0.1, 0.2, -0.3, 0.4, -2.0, 3.0]))
@case(A([0.1, 0.2]))
def walrus_before_and(x):
    s, i = 0.0, 0
    while (v := x[i]) > -1.0 and i < len(x) - 1:
        s += v
        i += 1
    return s, i, v


@case(A([0.1, 0.2, -0.3, 0.4, -2.0, 3.0]))
def walrus_before_or_in_a_loop(x):
    s = 0.0
    for i in range(len(x)):
        if (v := x[i] * 2) > 1.0 or i % 2:
            s += v
    return s, v


@case(A([0.1, 0.2, -0.3, 0.4, -2.0, 3.0]))
def walrus_in_the_test_of_a_choice(x):
    s = 0.0
    for i in range(len(x)):
        s += v if (v := x[i] * i) > 0.3 else -v
        s -= 1.0 if -1.0 < (v - 1.0) < 3.0 else 0.0
    return s


@case(A([0.1, 0.2, -0.3, 0.4, -2.0, 3.0]))
def walrus_that_may_not_run(x):
    s, v = 0.0, 0.0
    for i in range(len(x)):
        if i > 2 and (v := x[i]) > 0.0:
            s += v
    return s, v
