"""Numbers of Python's raise in captured code what they raise in Python; those of NumPy do not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from number_programs import PROGRAMS, REFUSED
from raising_programs import without_notes

import fgrad
from fgrad.errors import PythonNumberError

Numbers = Callable[[Any, Any], Any]


def _has_value(function: Callable[..., Any], args: tuple[Any, ...]) -> bool:
    try:
        function(*args)
    except (TypeError, ValueError):
        return False
    return True


def in_a_loop(f: Numbers) -> Numbers:
    def looped(a: Any, b: Any) -> Any:
        s = 0.0
        for _ in range(9):
            s += f(a, b)
        return s / 9

    return looped


def in_a_while(f: Numbers) -> Numbers:
    def looped(a: Any, b: Any) -> Any:
        s, k = 0.0, 0
        while k < 9 and s == s:
            s = f(a, b) + 0.0
            k += 1
        return s

    return looped


def in_a_batch(f: Numbers) -> Numbers:
    rows = np.arange(3.0)
    return lambda a, b: fgrad.vmap(lambda row: row * 0.0 + f(a, b))(rows)[1]


def differentiated(f: Numbers) -> Numbers:
    def value(a: Any, b: Any) -> Any:
        return fgrad.value_and_grad(lambda t: t * f(a, b))(1.0)[1]

    return value


MODES: dict[str, Callable[[Numbers], Numbers]] = {
    "jit": lambda f: f,
    "in a loop": in_a_loop,
    "in a while": in_a_while,
    "in a batch": in_a_batch,
    "differentiated": differentiated,
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore")
def test_numbers_raise_what_python_raises(name: str, mode: str) -> None:
    f, good, bad = PROGRAMS[name]
    run = fgrad.jit(MODES[mode](f))
    if mode == "jit" or all(map(np.isfinite, good)):
        np.testing.assert_allclose(run(*good), f(*good))
    if bad[1] == REFUSED:
        with pytest.raises(PythonNumberError):
            run(*bad[0])
        return
    with pytest.raises((ArithmeticError, ValueError)) as right:
        f(*bad)
    for _ in range(2):
        with pytest.raises(right.type) as caught:
            run(*bad)
        # Python names the number since 3.14, compiled code does not.
        assert without_notes(caught.value) == str(right.value).partition(", got ")[0]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_branch_that_is_not_taken_raises_nothing(name: str) -> None:
    f, _, bad = PROGRAMS[name]
    args = bad[0] if bad[1] == REFUSED else bad

    def chosen(p: Any, a: Any, b: Any) -> Any:
        return f(a, b) * 1.0 if p > 0 else -1.0

    assert fgrad.jit(chosen)(-1.0, *args) == -1.0


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore")
def test_one_setting_turns_checks_off(name: str) -> None:
    f, _, bad = PROGRAMS[name]
    args = bad[0] if bad[1] == REFUSED else bad
    with fgrad.config.override(checks=False):
        if name not in ("negative power", "power", "power of integers"):
            fgrad.jit(f)(*args)


DIVISIONS = ("quotient", "remainder", "ratio", "ratio of integers", "floor of a ratio")


@pytest.mark.parametrize("name", DIVISIONS)
@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int64, np.int32])
def test_numbers_of_numpy_raise_nothing(name: str, kind: Any) -> None:
    f = PROGRAMS[name][0]
    run = fgrad.jit(f)
    pairs = [(kind(7), kind(0)), (kind(7), 0), (7, kind(0)), (kind(7), np.zeros(2, kind))]
    pairs += [(np.zeros(3, kind), 0), (np.zeros(0, kind), 0), (np.array(kind(7)), 0)]
    for a, b in pairs:
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(run(a, b), f(a, b))


def test_at_the_prompt_a_known_divisor_raises_too() -> None:
    with pytest.raises(ZeroDivisionError, match="division by zero"):
        fgrad.grad(lambda x: 1.0 / x)(0.0)
    assert fgrad.grad(lambda x: 1.0 / x)(np.float64(2.0)) == -0.25


KNOWN = {
    name: next((x for x in ((2.5,), (0.5,), (2.5, 0.5)) if _has_value(getattr(math, name), x)), ())
    for name in dir(math)
    if callable(getattr(math, name))
}


@pytest.mark.parametrize("name", [name for name, args in KNOWN.items() if args])
def test_functions_of_numbers_that_are_known_where_others_are_differentiated(name: str) -> None:
    function, args = getattr(math, name), KNOWN[name]

    def scaled(x: Any) -> Any:
        plain = np.zeros(3)
        out = function(*[plain[1] + a for a in args])
        return x * (out[0] if isinstance(out, tuple) else out)

    right = scaled(1.0)
    for transform in (fgrad.grad, lambda f: fgrad.jit(fgrad.grad(f))):
        np.testing.assert_allclose(transform(scaled)(1.0), right)


def test_a_handler_of_a_division_is_run_or_refused() -> None:
    def counted(x: Any, n: Any) -> Any:
        c = 0
        for i in range(n):
            try:
                x = x / (i - 1)
            except ZeroDivisionError:
                c += 1
        return x, c

    def divided(x: Any, y: Any) -> Any:
        try:
            z = x / y
        except ZeroDivisionError:
            z = x
        return z

    with pytest.raises(fgrad.errors.FgradError, match="a handler of a `try` would catch"):
        fgrad.jit(divided)(2.0, 3.0)
    assert fgrad.jit(counted)(2.0, 3) == counted(2.0, 3)
    assert fgrad.grad(lambda x: counted(x, 3)[0])(2.0) == -1.0
