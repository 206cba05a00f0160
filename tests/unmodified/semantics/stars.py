"""Names that come by `import *`: NumPy's stand where built-ins did."""

# ruff: noqa

import builtins
from math import sin

import numpy
import numpy as np
from case import case
from numpy import *
from starred import *

A = np.array


def float_of(x):
    return x * 1000


@case(2.0)
def name_of_a_star_import(x):
    return twice(x) + sin(x) + float_of(x)


@case(2.0, 3)
def range_of_a_star_import(x, n):
    for i in countdown(n):
        x = x + i
    return x


@case(A([1.0, 2.0]))
def numpy_by_other_names(x):
    return numpy.sum(x) + builtins.sum([x[0], x[1]]) + arctan(x[0])


@case(A([1.0, -2.0, 3.0]))
def built_ins_are_numpys(x):
    s = abs(x).sum() + sum(x) + max(x) * min(x)
    if any(x < 0) and not all(x < 0):
        s = s + round(2.6)
    return s


@case(A([1.0, 2.0, 3.0]), 3)
def functions_of_numpy_in_a_loop(x, n):
    y = zeros(n)
    for i in range(n):
        y[i] = exp(-x[i]) + dot(x, ones(3)) * pi
    return y
