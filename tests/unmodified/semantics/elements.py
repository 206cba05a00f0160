"""Elements of what lies outside of a function, at traced places, without loops or branches."""

# ruff: noqa

import numpy as np
from case import case

X = np.array([1.3, 0.4, -0.7, 2.1])
TABLE = np.array([2.0, 3.0, 5.0, 7.0, 11.0])
MATRIX = np.arange(20.0).reshape(4, 5)
NUMBERS = [2.0, 3.0, 5.0]
NAMED = {"t": TABLE, "n": NUMBERS}


@case(X, 2)
@case(X, -1)
def of_an_array(x, k):
    return TABLE[k] * x[k]


@case(X, 2)
@case(X, 5)
def of_an_array_perhaps_outside(x, k):
    return x[0] * TABLE[k]


@case(X, 2)
def of_a_matrix(x, k):
    return MATRIX[k] * x[0] + MATRIX[k, k] * x[k] + MATRIX[:, k].sum() + MATRIX[k - 1, 1:3] @ x[:2]


@case(X)
def of_many_places(x):
    k = np.searchsorted(TABLE, x * 4)
    return TABLE[k % 5] * x


@case(X, 2)
def of_a_list(x, k):
    return NUMBERS[k] * x[k]


@case(X, 2)
def of_a_dictionary(x, k):
    return NAMED["t"][k] * x[k] + NAMED["n"][k]


@case(X, 2)
def of_a_default(x, k, t=TABLE):
    return t[k] * x[k]


@case(X, 2)
def of_a_closure(x, k):
    t = TABLE * 2
    return (lambda j: t[j] * x[j])(k)


@case(X, 2)
def by_a_mask(x, k):
    return TABLE[:4][x > 0.5].sum() * x


@case(X, 2)
def lists_are_given(x, k):
    y = [x[0], x[1] * 2, 3.0]
    return (
        np.linalg.norm([x[0], x[1]]) + np.sum((x[0], 1.0)) * np.dot([x[1], x[2]], [1.0, k]),
        np.mean(y),
        np.max(y),
    )
