"""The pass `ranges`: which checks of indices are proven, and whether the ranges it finds hold."""

from __future__ import annotations

import numpy as np
import pytest
from native_calls import NEEDS_NATIVE

import fgrad
from fgrad import lax
from fgrad.compile.entry.native import is_native
from fgrad.compile.passes.dce import dce
from fgrad.compile.passes.fold import fold
from fgrad.compile.passes.inline import inline_calls
from fgrad.compile.passes.ranges import Range, Walk, ranges
from fgrad.compile.passes.simplify import simplify
from fgrad.tracing.checks import checking

X, A, IDX = np.arange(6.0), np.ones((6, 6)), np.array([1, 2, 3])


def left(f, args):
    """How many checks a program has, and how many are left."""

    def traced(*args):
        with checking():
            return f(*args)

    program = fgrad.make_program(traced)(*args)
    found = dce(ranges(simplify(fold(dce(inline_calls(program))))))
    return str(program).count("in_range["), str(found).count("in_range[")


def loop(low, high, index):
    return lambda x, *n: lax.fori_loop(low, n[0] if n else high, lambda i, s: s + x[index(i)], 0.0)


def counted(test, step):
    def f(x):
        return lax.while_loop(test, lambda c: (c[0] + step, c[1] + x[c[0]]), (0, 0.0))[1]

    return f


PROVEN = {
    "a counter": (loop(0, 6, lambda i: i), (X,)),
    "below it": (loop(1, 6, lambda i: i - 1), (X,)),
    "backwards": (loop(0, 6, lambda i: 5 - i), (X,)),
    "from the end": (loop(0, 6, lambda i: -1 - i), (X,)),
    "a remainder": (loop(0, 60, lambda i: (i * 7) % 6), (X,)),
    "a quotient": (loop(0, 12, lambda i: i // 2), (X,)),
    "a traced count": (
        lambda x, n: loop(0, 6, lambda i: i)(x, np.minimum(n, 6)),
        (X, 4),
    ),
    "nested": (
        lambda A: lax.fori_loop(
            0, 6, lambda i, s: lax.fori_loop(0, 6, lambda j, t: t + A[i, j], s), 0.0
        ),
        (A,),
    ),
    "a triangle": (
        lambda A: lax.fori_loop(
            0, 6, lambda i, s: lax.fori_loop(0, i, lambda j, t: t + A[i, j], s), 0.0
        ),
        (A,),
    ),
    "known indices": (
        lambda x: lax.fori_loop(
            0, 3, lambda k, s: s + x[fgrad.numpy.array([0, 5, 2])[k]], 0.0
        ),
        (X,),
    ),
    "a position": (lambda x: x[np.argmax(x)], (X,)),
    "a state": (
        lambda x: lax.fori_loop(0, 9, lambda _, c: ((c[0] + 1) % 6, c[1] + x[c[0]]), (0, 0.0))[1],
        (X,),
    ),
    "a write": (
        lambda x: lax.fori_loop(1, 6, lambda k, x: fgrad.at(x)[k].set(x[k - 1]), x),
        (X,),
    ),
    "while": (counted(lambda c: c[0] < 6, 1), (X,)),
    "while not": (counted(lambda c: c[0] < 6, 1), (X,)),
    "while both": (counted(lambda c: (c[0] < 6) & (c[1] < 3.0), 2), (X,)),
    "in a branch": (
        lambda x, b: lax.cond(b, loop(0, 6, lambda i: i), lambda x: x[0], x),
        (X, True),
    ),
    "a gradient": (
        fgrad.grad(lambda x: lax.fori_loop(1, 6, lambda i, s: s * x[i - 1] + x[i] ** 2, 0.0)),
        (X,),
    ),
}  # fmt: skip


def _plain_for(x):
    s = 0.0
    for i in range(1, len(x)):
        s += x[i - 1]
    return s


def _plain_while(x):
    s, i = 0.0, 0
    while i < len(x):
        s, i = s + x[i] + x[-1 - i], i + 1
    return s


# Loops of plain Python count in weak integers, which are converted.
PLAIN = {"for": (_plain_for, (np.ones(200),)), "while": (_plain_while, (X,))}

OPEN = {
    "one too far": (loop(0, 6, lambda i: i + 1), (X,)),
    "before the first": (loop(0, 7, lambda i: -i), (X,)),
    "given": (lambda x, i: x[i], (X, 2)),
    "given, in a loop": (loop(0, 3, lambda i: i * 3), (X,)),
    "a traced count": (loop(0, 6, lambda i: i), (X, 4)),
    "gathered": (
        lambda x, idx: lax.fori_loop(0, 3, lambda k, s: s + x[idx[k]], 0.0),
        (X, IDX),
    ),
    "while open": (counted(lambda c: c[1] < 3.0, 1), (X,)),
    "or": (counted(lambda c: (c[0] < 6) | (c[1] < 3.0), 1), (X,)),
    "a growing state": (
        lambda x: lax.fori_loop(0, 9, lambda _, c: (c[0] * 2 + 1, c[1] + x[c[0]]), (0, 0.0))[1],
        (X,),
    ),
    "a wrapping step": (
        counted(lambda c: c[0] < 2**62, 2**62),
        (X,),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", PROVEN)
def test_checks_that_always_pass_are_gone(case):
    before, after = left(*PROVEN[case])
    assert before and not after


@pytest.mark.parametrize("case", PLAIN)
def test_checks_of_captured_loops_are_gone(case):
    f, args = PLAIN[case]
    program = fgrad.make_program(fgrad.jit(f))(*args)
    whole = inline_calls(program)
    assert str(whole).count("in_range[")
    assert not str(dce(ranges(simplify(fold(dce(whole)))))).count("in_range[")


@pytest.mark.parametrize("case", OPEN)
def test_checks_that_may_fail_stay(case):
    before, after = left(*OPEN[case])
    assert before and after


def _rows(x, y, A):
    for i in range(A.shape[0]):
        p = x[: i + 1]
        A[i, : i + 1] += p * y[: i + 1]
    return A


def _columns(x, y, A):
    for i in range(A.shape[0]):
        for k in range(A.shape[1]):
            column = A[: i + 1, k] * x[k]
            A[i, : i + 1] += column + y[: i + 1]
    return A


def _one_longer(x, y, A):
    for i in range(1, A.shape[0]):
        A[i, : i + 1] += x[: i + 1] * y[:i]
    return A


def _up_to_two(x, y, A):
    for i in range(A.shape[0]):
        for k in range(A.shape[0]):
            x[:i] += y[:k]
    return x


LENGTHS = {"rows": _rows, "columns": _columns}
UNLIKE = {"one longer": _one_longer, "up to two": _up_to_two}


def _checks_of_lengths(f):
    """The tests of lengths that `ranges` leaves in a captured program."""
    whole = inline_calls(fgrad.make_program(fgrad.jit(f))(X, X, A))
    before, after = str(whole), str(dce(ranges(simplify(fold(dce(whole))))))
    return before.count("unlike lengths"), after.count("unlike lengths")


@pytest.mark.parametrize("case", LENGTHS)
def test_slices_of_one_length_are_not_compared(case):
    before, after = _checks_of_lengths(LENGTHS[case])
    assert before and not after


@pytest.mark.parametrize("case", UNLIKE)
def test_slices_of_unlike_lengths_are_compared(case):
    before, after = _checks_of_lengths(UNLIKE[case])
    assert before and after


@NEEDS_NATIVE
@pytest.mark.parametrize("case", LENGTHS)
def test_loops_over_slices_of_arguments_are_called_natively(case):
    f = fgrad.jit(LENGTHS[case])
    for _ in range(12):
        f(X.copy(), X.copy(), A.copy())
    assert is_native(f)


COMPARISONS = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)


@pytest.mark.parametrize("seed", range(20))
def test_comparisons_of_what_is_computed_alike_hold(seed):
    rng = np.random.default_rng(seed)
    f, g = _random_function(rng), _random_function(rng)
    picks = rng.integers(0, 10**6, (30, 3))

    def compared(x, y):
        one, same, other = f(x, y), f(x, y), g(x, y)
        n, found = len(one), [*one, *other]
        return [
            COMPARISONS[c % 6](one[a % n], same[a % n] if c % 2 else found[b % len(found)])
            for a, b, c in picks
        ]

    program = dce(inline_calls(fgrad.make_program(compared)(3, 5)))
    walk = Walk(program, [Range(-20, 20) for _ in program.inputs])
    known = [walk.holds(a) for a in program.outputs]
    assert any([k is not None for k in known])
    for x, y in rng.integers(-20, 21, (20, 2)):
        with np.errstate(all="ignore"):
            results = compared(int(x), int(y))
        for holds, value in zip(known, results, strict=True):
            assert holds is None or holds == bool(value)


UNARY = (np.negative, np.abs, lambda x: x % 7, lambda x: x // 3, lambda x: np.clip(x, -4, 9))
BINARY = (np.add, np.subtract, np.multiply, np.minimum, np.maximum, lambda x, y: x % (y + 40))


def _random_function(rng):
    """A function of integers, some of them narrow, and of loops over them."""
    picks = rng.integers(0, 100, 12)

    def f(x, y):
        found = [x, y, np.minimum(np.maximum(x, -5), 12)]
        for k, pick in enumerate(picks):
            a, b = found[pick % len(found)], found[(pick * 7 + k) % len(found)]
            if pick % 5 == 0:
                found.append(UNARY[pick % len(UNARY)](a))
            elif pick % 7 == 0:
                found.append(np.where(a < b, a, b + 1))
            elif pick % 11 == 0:
                found.append(lax.fori_loop(0, 4, lambda i, s, a=a: (s + i * a) % 50, b))
            elif pick % 13 == 0:
                found.append(
                    lax.while_loop(lambda c: c[0] < 5, lambda c, a=a: (c[0] + 2, a), (0, b))[1]
                )
            else:
                found.append(BINARY[pick % len(BINARY)](a, b))
        return tuple(found[3:])

    return f


@pytest.mark.parametrize("seed", range(40))
def test_ranges_hold(seed):
    rng = np.random.default_rng(seed)
    f = _random_function(rng)
    program = simplify(fold(dce(inline_calls(fgrad.make_program(f)(3, 5)))))
    walk = Walk(program, [Range(-20, 20) for _ in program.inputs])
    for _ in range(20):
        x, y = (int(v) for v in rng.integers(-20, 21, 2))
        with np.errstate(all="ignore"):
            results = f(x, y)
        for found, value in zip(walk.outputs, results, strict=True):
            assert found is not None and found.low <= value <= found.high


def test_loops_in_loops_are_not_walked_again_for_each_level(monkeypatch):
    def nested(depth):
        if not depth:
            return lambda s, n: (s + X[n % 6], n * 3 % 7)
        inner = nested(depth - 1)
        return lambda s, n: lax.while_loop(
            lambda c: c[1] < 3 * depth, lambda c: inner(*c), inner(s, n + 1)
        )

    walked = []
    first = Walk.__init__
    monkeypatch.setattr(Walk, "__init__", lambda *a: (walked.append(1), first(*a))[1])
    counts = []
    for depth in (3, 6):
        walked.clear()
        left(lambda s, n, depth=depth: nested(depth)(s, n)[0], (1.0, 1))
        counts.append(len(walked))
    assert counts[1] < 12 * counts[0]


def gained(x, n, pick, inner):
    """Counts in branches, and in loops in each step: places from 0 to 5 * inner * pick."""

    def step(i, c):
        places, s = c

        def more(j, k):
            return lax.cond(np.sin(s) > j, lambda k: k + pick, lambda k: k, k)

        after = lax.fori_loop(0, inner, more, places) if inner > 1 else more(0, places)
        return after, s + x[places]

    return lax.fori_loop(0, 6, step, (n, 0.0))[1]


@pytest.mark.parametrize(("pick", "inner"), [(1, 1), (1, 4), (2, 4)])
@pytest.mark.parametrize("spare", [0, 1])
def test_what_branches_and_inner_loops_add_is_known(pick, inner, spare):
    x = np.ones(5 * pick * inner + spare)
    before, after = left(lambda x: gained(x, 0, pick, inner), (x,))
    assert before > 0
    assert after == (not spare)


def test_many_sums_in_a_step_are_no_recursion():
    def step(i, c):
        for _ in range(2000):
            c = c + 1
        return c

    @fgrad.jit
    def f(n):
        return lax.fori_loop(0, n, step, 0)

    assert f(3) == 6000


@pytest.mark.parametrize("chosen", [True, False])
@pytest.mark.parametrize("number", [0.0, 2.5, -1])
def test_a_choice_that_is_known_keeps_its_shape(chosen, number):
    """`select` takes numbers for arrays, what reads it does not."""

    def f(x, n):
        y = np.full(6, chosen)
        picked = np.where(y, number, x) if chosen else np.where(y, x, number)
        return np.sum(picked), picked[1:], x[n]

    for got, right in zip(fgrad.jit(f)(X, 2), f(X, 2), strict=True):
        np.testing.assert_array_equal(got, right)
