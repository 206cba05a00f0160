"""Indices in `for j in range(a, b)`, whatever a and b are: checks that always pass are gone, others
are not: programs with random bounds do what Python does, or raise its IndexError."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.compile.passes.dce import dce
from fgrad.compile.passes.fold import fold
from fgrad.compile.passes.inline import inline_calls
from fgrad.compile.passes.ranges import ranges
from fgrad.compile.passes.simplify import simplify
from fgrad.ir.text import print_program

N = 12
Place = Callable[..., Any]
BOUNDS: dict[str, Place] = {
    "0": lambda i: 0, "i": lambda i: i, "i+1": lambda i: i + 1, "i-1": lambda i: i - 1,
    "N": lambda i: N, "N-1": lambda i: N - 1, "N-i": lambda i: N - i, "-1": lambda i: -1,
    "N-1-i": lambda i: N - 1 - i, "2*i": lambda i: 2 * i,
}  # fmt: skip
PLACES: dict[str, Place] = {
    "j": lambda i, j: j, "j+1": lambda i, j: j + 1, "j-1": lambda i, j: j - 1,
    "i": lambda i, j: i, "i+1": lambda i, j: i + 1, "i-1": lambda i, j: i - 1,
    "j-i": lambda i, j: j - i, "N-1-j": lambda i, j: N - 1 - j, "i+j": lambda i, j: i + j,
}  # fmt: skip


def summed(first: str, last: str, step: int, place: str) -> Callable[..., Any]:
    """A nest that reads a place in each step."""
    a, b, at = BOUNDS[first], BOUNDS[last], PLACES[place]

    def f(x: Any) -> Any:
        s = 0.0
        for i in range(N):
            for j in range(a(i), b(i), step):
                s = 0.5 * s + x[at(i, j)]
        return s

    return f


def checks_left(f: Callable[..., Any], *args: Any) -> int:
    """How many checks of indices are left."""
    program = fgrad.jit(f).program_of(args, {})
    found = simplify(fold(dce(inline_calls(program))))
    assert "in_range[" in print_program(found)
    return print_program(dce(ranges(found))).count("in_range[")


def does_as_python(f: Callable[..., Any], x: np.ndarray, what: str = "") -> None:
    """The value, or an IndexError."""
    try:
        right = f(x)
    except IndexError:
        with pytest.raises(IndexError):
            print(what, fgrad.jit(f)(x))
    else:
        assert np.isclose(fgrad.jit(f)(x), right, rtol=1e-13), what


# (a, b, step, place): the number of elements that are needed, and no less
PROVEN = [
    ("i", "N", 1, "j", 12), ("i+1", "N", 1, "j", 12), ("i+1", "N", 1, "j-1", 11),
    ("i+1", "N", 1, "i+1", 12), ("i+1", "N", 1, "i", 11), ("i-1", "N", 1, "j+1", 13),
    ("0", "i", 1, "j", 11), ("0", "i", 1, "i", 12), ("0", "N-i", 1, "j", 12),
    ("i", "N-i", 1, "j", 12), ("i+1", "N-1", 1, "j+1", 12), ("i", "N-1-i", 1, "i", 11),
    ("i", "-1", -1, "j", 12), ("N-1", "i", -1, "j", 12), ("N-1", "i", -1, "i+1", 12),
    ("N-1", "i-1", -1, "j", 12), ("N-1-i", "-1", -1, "j", 12), ("i", "0", -1, "j-1", 11),
]  # fmt: skip


@pytest.mark.parametrize(("first", "last", "step", "place", "needed"), PROVEN)
def test_what_ranges_prove(first: str, last: str, step: int, place: str, needed: int) -> None:
    f = summed(first, last, step, place)
    x = np.linspace(1.0, 2.0, needed)
    assert checks_left(f, x) == 0
    assert fgrad.jit(f)(x) == f(x)
    does_as_python(f, x[:-1])


def changed(x: Any) -> Any:
    s = 0.0
    for i in range(N):
        a = i
        for j in range(a, N):
            a = a + 1
            s += x[a] + x[j]
    return s


def changed_item(x: Any) -> Any:
    s = 0.0
    for i in range(N):
        for j in range(i, N):
            j = j + 1
            s += x[j]
    return s


def changed_end(x: Any) -> Any:
    s = 0.0
    for i in range(N):
        b = N - i
        for j in range(i, b):
            b = b + 1
            s += x[b] + x[j]
    return s


def after_it(x: Any) -> Any:
    s = 0.0
    for i in range(1, N):
        j = i
        for j in range(i, N):
            s += x[j]
        s += x[j + 1]
    return s


def another_range(x: Any) -> Any:
    s = 0.0
    for i in range(N):
        for j in range(i, N):
            for k in range(j, N + i):
                s += x[k]
    return s


def wrapped(x: Any, a: Any, b: Any) -> Any:
    s = 0.0
    for j in range(a, b):
        s += x[j]
    return s


@pytest.mark.parametrize("f", [changed, changed_item, changed_end, after_it, another_range])
def test_what_is_changed_or_elsewhere_is_still_checked(f: Callable[..., Any]) -> None:
    x = np.ones(N)
    assert checks_left(f, x) > 0
    with pytest.raises(IndexError):
        f(x)
    with pytest.raises(IndexError):
        fgrad.jit(f)(x)


def test_bounds_that_are_given_are_checked() -> None:
    x = np.ones(N)
    assert checks_left(wrapped, x, 0, 1) > 0
    assert fgrad.jit(wrapped)(x, 3, 2) == 0
    assert fgrad.jit(wrapped)(x, 2**62, -(2**62)) == 0
    for a, b in ((0, N + 1), (-N - 1, 0), (N, N + 1)):
        with pytest.raises(IndexError):
            fgrad.jit(wrapped)(x, a, b)


@pytest.mark.parametrize("seed", range(6))
def test_random_ranges_do_what_python_does(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(12):
        first, last = rng.choice([*BOUNDS], 2)
        step, place = int(rng.choice([1, 1, -1, -1, 2, -3])), str(rng.choice([*PLACES]))
        f, places = summed(first, last, step, place), set()
        a, b, at = BOUNDS[first], BOUNDS[last], PLACES[place]
        for i in range(N):
            places |= {at(i, j) for j in range(a(i), b(i), step)}
        size = max([1, *[k + 1 for k in places], *[-k for k in places]]) - int(rng.integers(0, 2))
        x = rng.standard_normal(max(size, 1))
        what = f"range({first}, {last}, {step}), x[{place}] of {x.size}"
        does_as_python(f, x, what)
