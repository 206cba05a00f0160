"""What Python raises where values decide, and what it does not."""

# ruff: noqa

import numpy as np
from case import case

A = np.array


@case(A([1.0, 3.0, 2.0]), 3.0, smooth=False)
@case(A([1.0, 3.0, 2.0]), 4.0, smooth=False)
def search_without_an_end(x, v):
    k = 0
    while x[k] != v:
        k += 1
    return k


@case(A([1.0, 3.0, 2.0, 5.0, 4.0, 6.0]))
@case(A([1.0, 3.0, -2.0, 5.0, 4.0, 6.0]))
def raise_in_nested_branches(x):
    s = 0.0
    for v in x:
        if v < 3.5:
            if v < 0:
                raise ValueError("negative")
            s += v * v
        else:
            s -= 1.0
    return s


@case(2.0, 0.0, smooth=False)
@case(2.0, 4.0)
def division_that_is_not_reached(x, y):
    return x / y if y != 0 else 0.0


@case(3, A([1.0, 2.0, 3.0]))
@case(-4, A([1.0, 2.0, 3.0]))
@case(-3, A([1.0, 2.0, 3.0]))
def index_without_a_loop(i, x):
    return x[i] * 2


@case(A([2.0, 0.5, 3.0, 1.0, 2.0, 4.0]))
@case(A([2.0, 0.5, 3.0, 0.0, 2.0, 4.0]))
def division_of_floats_in_a_loop(x):
    s = 0.0
    for v in x:
        s += 1.0 / float(v)
    return s


@case(A([2.0, 0.5, 3.0, 1.0, 2.0, 4.0]))
@case(A([2.0, 0.5, 3.0, -1.0, 2.0, 4.0]))
def handler_of_another_class(x):
    s = 0.0
    for v in x:
        try:
            assert v > 0, "not positive"
            s += v
        except KeyError:
            s = -1.0
    return s
