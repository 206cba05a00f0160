"""`match`: classes, True and False, sequences, mappings, guards, names of traced values."""

# ruff: noqa

import collections
import dataclasses

import numpy as np
from case import case

A = np.array
X = A([0.5, -1.5, 2.5, 3.5, -0.25, 1.25])
Pair = collections.namedtuple("Pair", "first second")


@dataclasses.dataclass
class Leaf:
    value: object


@dataclasses.dataclass
class Sum:
    left: object
    right: object


@dataclasses.dataclass
class Product:
    left: object
    right: object


class Constants:
    THREE = 3.0


def evaluated(e):
    match e:
        case Leaf(v):
            return v
        case Sum(l, r):
            return evaluated(l) + evaluated(r)
        case Product(left=l, right=r):
            return evaluated(l) * evaluated(r)
        case float() | int():
            return e
        case _:
            raise TypeError("what is that")


@case(X)
def tree_is_evaluated(x):
    return evaluated(Sum(Product(Leaf(x[0]), 2.0), Product(x[1], Leaf(x[2]))))


@case(1.0)
@case(-1.0)
def truth_values(a):
    match a > 0:
        case True:
            return 2 * a
        case False:
            return -a
        case _:
            return 0.0


@case(1.0)
@case(-1.0)
def truth_value_in_a_tuple(a):
    match (a > 0, a):
        case (True, y) if y > 0.5:
            return y * 2
        case (False, y):
            return -y
        case _:
            return 0.0


@case(1.0)
def truth_value_in_a_dictionary(a):
    match {"k": a > 0}:
        case {"k": True}:
            return a
        case _:
            return 0.0


@case(X)
@case(-X)
def truth_value_of_numpy_is_not_true(x):
    match x[0] > 0:
        case True:
            return x[1]
        case False:
            return x[2]
        case _:
            return x[3]


@case(1.0)
@case(2)
def python_numbers_by_class(a):
    match a:
        case bool():
            return a
        case int():
            return a + 1
        case float(y):
            return y * 2


@case(X)
@case(X.reshape(2, 3))
def arrays_by_class(x):
    match x:
        case np.ndarray(shape=(n,)) if n > 2:
            return x.sum() * n
        case np.ndarray(ndim=2):
            return x.sum()


@case(X)
def numbers_of_arrays_by_class(x):
    match x[0]:
        case np.floating() as v:
            return v * 2
        case _:
            return 0.0


@case(0.5, 0)
@case(0.5, 1, smooth=False)
@case(2.25, 1)
@case(2.25, 3)
def named_tuples(a, k):
    match Pair(a, k):
        case Pair(u, 0):
            return u
        case Pair(first=0.5 | 2.5, second=w):
            return w * 1.0
        case Pair(u, v) if u > v:
            return u + v
        case Pair() as z:
            return z.first - z.second


@case(1.0)
@case(2.25)
@case(-1.0)
def values_and_guards(a):
    match a:
        case 7.0:
            return 5.0
        case y if y > 2:
            return y
        case _:
            return -a


@case(1.0)
@case(5.0)
@case(2.75)
def name_of_a_guard_that_fails(a):
    y = 0.0
    match a:
        case y if y > 3:
            return 1.0
        case Constants.THREE:
            return 2.0
    return y


@case(0.0, 0.0, smooth=False)
@case(0.0, 1.0, smooth=False)
@case(1.0, 0.0, smooth=False)
@case(3.0, 1.0)
@case(1.0, 3.0)
def several_values(a, b):
    match a, b:
        case (0.0, 0.0):
            return 0.0
        case (0.0, y):
            return y
        case (x, 0.0):
            return x
        case (x, y) if (d := x - y) > 0:
            return d
    return 7.0


@case(X)
@case(-X)
def sequences(x):
    match list(x):
        case [a, b]:
            return a
        case [a, b, *_, z] if a > b:
            return a * z
        case [first, *rest]:
            return first * len(rest) + sum(rest)


@case(2.0)
def mapping_with_a_rest(a):
    match {"a": a, "n": 1, "t": 2}:
        case {"a": float(v), "n": 1, **rest}:
            return v * len(rest)


@case(2.0)
def what_a_number_is_not(a):
    match a:
        case "x":
            return 0.0
        case None:
            return 1.0
        case [] | {}:
            return 2.0
        case float() as f:
            return f * 5


@case(X)
@case(-X)
def in_a_loop_with_jumps(x):
    s = 0.0
    for i, v in enumerate(x):
        match (i % 2, float(v) > 0):
            case (0, True):
                s += v
            case (1, True):
                s *= 0.5
                if v > 3:
                    break
            case (_, False):
                continue
        s += 1
    return s


@case(1.0)
@case(-1.0)
def in_an_endless_loop(a):
    n = 0
    while True:
        match (a > 10, n):
            case (True, _):
                return a
            case (_, 30):
                break
        a = a * 1.5
        n += 1
    return -a


@case(X)
def values_are_counted(x):
    m = 0
    for v in x:
        match v:
            case 0.5 | 2.5:
                m += 1
            case _ if v < 0:
                m -= 1
    return m


@case(X)
def of_a_shape(x):
    match x.shape:
        case (n,):
            return x.sum() * n
        case (n, m):
            return x.sum()


@case(1.0)
@case(-1.0)
def bodies_are_captured(a):
    y = np.zeros(2)
    match 2:
        case 1:
            return y
        case 2:
            y[0] = np.sin(a)
            if a > 0:
                y[1] = a
    return y


@case(1.0)
@case(-1.0)
def identity_of_truth_values(a):
    b = a > 0
    return a * 2 if b is True else a * 3 if b is False else a * 5


@case(X)
def identity_of_truth_values_of_numpy(x):
    return x[0] * 2 if (x[0] > 0) is not True else x[0] * 3
