"""Programs that raise for some arguments, with what they are called with: (good, bad)."""

# ruff: noqa

import math

import numpy as np

import fgrad

BAD = np.array([1.0, 2.0, 3.0, -1.0, 2.0, 1.0])


class Refused(ValueError):
    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


def asserted(x):
    assert x > 0, "negative"
    return x * 2


def asserted_without_a_message(x):
    assert x > 0
    return x * 2


def asserted_of_all(x):
    assert np.all(x > 0)
    return np.sum(x**2)


def asserted_in_a_loop(x):
    s = 0.0
    for i in range(len(x)):
        assert x[i] > 0, "negative"
        s += x[i] ** 2
    return s


def asserted_in_a_loop_without_results(x):
    for v in x:
        assert v > 0
    return np.sum(x**2)


def asserted_in_a_branch(x):
    s = 0.0
    for v in x:
        if v < 2.0:
            assert v > 0, "negative"
            s += v
    return s


def raised(x):
    if x < 0:
        raise Refused(3, "below")
    return x * 2


def raised_as_a_class(x):
    if x < 0:
        raise ArithmeticError
    return x * 2


def raised_in_a_loop(x):
    s = 0.0
    for v in x:
        if v < 0:
            raise ArithmeticError("negative")
        s += v * v
    return s


def raised_at_the_end(x):
    if x > 0:
        return x * 3
    raise ValueError("not positive")


def raised_in_both_places(x):
    y = x * 1.0
    if x > 1:
        y = x * 2
    elif x > 0:
        y = x * 3
    else:
        raise ValueError("not positive")
    return y


def _root(x):
    if x < 0:
        raise KeyError("k")
    return math.sqrt(x)


def raised_in_a_helper(x):
    s = 0.0
    for i in range(len(x)):
        if x[i] != 7.0:
            s += _root(x[i])
    return s


def _go(y):
    assert y > 0, "gone"
    return y < 10


def asserted_in_a_condition(x):
    while _go(x):
        x = x * 2 - 1
    return x


def raised_instead_of_an_endless_loop(x):
    k = 0
    while x < 100.0:
        x = x * 2
        k += 1
        if k > 20:
            raise RuntimeError("no end")
    return x


def index_instead_of_an_endless_loop(x):
    k = 0
    while x[k] > 0:
        k += 1
    return x[k] * 2


def index_in_a_condition(x):
    s, k = 0.0, 0
    while x[int(x[0]) + k] < 3.0:
        s += x[k]
        k += 1
    return s


def index_without_a_loop(x):
    return x[int(x[0])] * 2


def raised_in_nested_loops(x):
    s = 0.0
    for i in range(len(x)):
        for j in range(i):
            if x[j] * x[i] < 0:
                raise ValueError("signs")
            s += x[i] * x[j]
    return s


def raised_in_a_body_of_lax(x):
    def body(s, v):
        if v < 0:
            raise ValueError("negative")
        return s + v * v, None

    return fgrad.lax.scan(body, 0.0, x)[0]


def raised_in_the_while_of_lax(x):
    def body(s):
        if s < 0:
            raise ValueError("negative")
        return s * 2 - 1.0

    return fgrad.lax.while_loop(lambda s: s < 50.0, body, x)


PROGRAMS = {
    asserted: (0.5, -0.5),
    asserted_without_a_message: (0.5, -0.5),
    asserted_of_all: (np.ones(6), BAD),
    asserted_in_a_loop: (np.ones(6), BAD),
    asserted_in_a_loop_without_results: (np.ones(6), BAD),
    asserted_in_a_branch: (np.ones(6), BAD),
    raised: (1.0, -1.0),
    raised_as_a_class: (1.0, -1.0),
    raised_in_a_loop: (np.ones(6), BAD),
    raised_at_the_end: (1.0, -1.0),
    raised_in_both_places: (0.5, -1.0),
    raised_in_a_helper: (np.arange(1.0, 9), np.array([1.0, 2, 7, -3, 3, 5, 1, 1])),
    asserted_in_a_condition: (2.0, 0.5),
    raised_instead_of_an_endless_loop: (1.0, 0.0),
    index_instead_of_an_endless_loop: (BAD, np.ones(6)),
    index_in_a_condition: (np.array([0.0, 1, 2, 3, 4, 5]), np.zeros(6)),
    index_without_a_loop: (np.arange(2.0, 6), np.arange(7.0, 11)),
    raised_in_nested_loops: (np.ones(6), BAD),
    raised_in_a_body_of_lax: (np.ones(6), BAD),
    raised_in_the_while_of_lax: (2.0, 0.5),
}


def without_notes(error: BaseException) -> str:
    """The message of an error; Python 3.10 has no notes, and they follow it there."""
    return str(error).partition("\n  used ")[0]
