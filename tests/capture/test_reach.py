"""Functions with loops are captured wherever the function that calls them has them from."""

from __future__ import annotations

import numpy as np
import pytest

import fgrad


def total(n, x):
    s = 0.0
    for i in range(n):
        s += x[i]
    return s


class Model:
    def total(self, n, x):
        return total(n, x)

    def looped(self, n, x):
        s = 0.0
        for i in range(n):
            s += x[i]
        return s

    def outer(self, n, x):
        return self.looped(n, x)


def by_default(n, x, h=total):
    return h(n, x)


def by_keyword(n, x, *, h=total):
    return h(n, x)


TABLE = {"h": total, "inner": [total]}


def by_table(n, x):
    return TABLE["h"](n, x)


def closing_over(h):
    return lambda n, x: h(n, x)


def closing_over_items(h):
    return lambda n, x: h[0](n, x)


WAYS = {
    "a method": Model().outer,
    "a method of a default": lambda n, x, m=Model(): m.outer(n, x),  # noqa: B008
    "a default": by_default,
    "a default by keyword": by_keyword,
    "a dictionary": by_table,
    "a closure": closing_over(total),
    "a tuple in a closure": closing_over_items((total,)),
    "a list in a dictionary": lambda n, x: TABLE["inner"][0](n, x),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_loop_with_a_traced_bound_runs(way):
    x = np.arange(9.0)
    run = fgrad.jit(WAYS[way])
    for n in (9, 3, 0):
        assert run(np.array(n), x) == x[:n].sum()


def test_a_list_that_holds_itself_is_looked_at_to_a_depth():
    endless: list[object] = []
    endless.append(endless)
    count = closing_over_items((lambda n, x: x.sum() * len(endless),))
    assert fgrad.jit(count)(3, np.arange(9.0)) == 36.0
    assert fgrad.grad(lambda x: x * len(endless))(2.0) == 1.0
