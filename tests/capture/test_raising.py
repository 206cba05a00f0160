"""What Python raises, captured code raises: the class, the message and the line, in all modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from raising_programs import BAD, PROGRAMS, Refused, raised, raised_in_a_loop, without_notes

import fgrad

Run = Callable[[Any], Any]


def _lanes(f: Run, transform: Callable[[Run], Run]) -> Callable[[Any, Any], Any]:
    return lambda good, x: transform(f)(np.stack([good, x, good]))[1]


MODES: dict[str, Callable[[Run], Callable[[Any, Any], Any]]] = {
    "jit": lambda f: _alone(fgrad.jit(f)),
    "jit(grad)": lambda f: _alone(fgrad.jit(fgrad.grad(f))),
    "grad(jit)": lambda f: _alone(fgrad.grad(fgrad.jit(f))),
    "vmap": lambda f: _lanes(f, fgrad.vmap),
    "jit(vmap)": lambda f: _lanes(f, lambda f: fgrad.jit(fgrad.vmap(f))),
    "vmap(jit(grad))": lambda f: _lanes(f, lambda f: fgrad.vmap(fgrad.jit(fgrad.grad(f)))),
    "float32": lambda f: _alone(fgrad.jit(lambda x: f(np.float32(1.0) * x))),
    "remat": lambda f: _alone(fgrad.jit(fgrad.grad(fgrad.checkpoint(f)))),
    "jit(jit)": lambda f: _alone(fgrad.jit(lambda x: fgrad.jit(f)(x) * 1.0)),
}


def _alone(f: Run) -> Callable[[Any, Any], Any]:
    return lambda _good, x: f(x)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_errors_are_those_of_python(program: Run, mode: str) -> None:
    good, bad = PROGRAMS[program]
    run = MODES[mode](program)
    found = run(good, good)
    if mode in ("jit", "vmap", "jit(vmap)", "jit(jit)"):
        np.testing.assert_allclose(found, program(good))
    with pytest.raises(Exception) as right:
        program(bad)
    for _ in range(3):  # the first call, by Python, and native
        with pytest.raises(right.type) as caught:
            run(good, bad)
        if right.type is not IndexError:
            assert without_notes(caught.value) == without_notes(right.value)
        assert "raising_programs.py" in str(caught.value) + "".join(
            getattr(caught.value, "__notes__", [])
        )
        run(good, good)  # the failure of one call is not that of the next


def test_exceptions_of_users_keep_their_attributes() -> None:
    with pytest.raises(Refused, match="below") as caught:
        fgrad.jit(raised)(-1.0)
    assert caught.value.code == 3


def test_empty_arrays_raise_nothing() -> None:
    assert fgrad.jit(raised_in_a_loop)(np.zeros(0)) == 0.0


def test_one_setting_turns_checks_off() -> None:
    def f(x: Any) -> Any:
        assert x > 0
        return np.arange(3.0)[int(x)]

    with fgrad.config.override(checks=False):
        assert fgrad.jit(f)(-9.0) == 0.0
        assert fgrad.jit(f)(9.0) == 2.0
        with pytest.raises(TypeError):  # what cannot be left out is not
            fgrad.jit(raised_in_a_loop)(BAD)


def caught(x: Any) -> Any:
    try:
        if x < 0:
            raise ValueError("negative")
        y = x * 2
    except ValueError:
        y = 0.0
    return y


def caught_by_all(x: Any) -> Any:
    s = 0.0
    for v in x:
        try:
            assert v > 0
            s += v
        except Exception:
            s -= 1.0
    return s


def caught_index(x: Any) -> Any:
    s = 0.0
    try:
        for i in range(9):
            s += x[i]
    except IndexError:
        s = -s
    return s


def caught_branch(x: Any) -> Any:
    try:
        y = 1.0 if x[0] > 0 else [1.0][int(x[1])]
    except Exception:
        y = 5.0
    return y


def kept_from_other_handlers(x: Any) -> Any:
    s = 0.0
    for v in x:
        try:
            if v < 0:
                raise ArithmeticError("negative")
            s += v
        except (KeyError, AttributeError):
            s = 0.0
    return s


@pytest.mark.parametrize("program", [caught_by_all, caught_index, caught_branch])
def test_what_a_handler_would_catch_is_python_or_a_card(program: Run) -> None:
    for x in (np.ones(6), BAD, -BAD):
        try:
            found = fgrad.jit(program)(x)
        except fgrad.errors.FgradError:
            continue
        np.testing.assert_allclose(found, program(x))


def test_a_handler_of_another_class_changes_nothing() -> None:
    assert fgrad.jit(kept_from_other_handlers)(np.ones(6)) == 6.0
    with pytest.raises(ArithmeticError, match="negative"):
        fgrad.jit(kept_from_other_handlers)(BAD)


def test_a_raise_that_is_caught_is_a_card() -> None:
    with pytest.raises(fgrad.errors.FgradError, match="a handler of a `try` would catch"):
        fgrad.jit(caught)(1.0)
