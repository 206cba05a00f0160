"""What a function asks the machine for while it is traced: entropy is refused, the clock warns."""

from __future__ import annotations

import datetime
import os
import random
import secrets
import time
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy import errstate as states

import fgrad
from fgrad import lax
from fgrad.errors import CaptureError, RandomStateError, TracedOnceWarning


def _noise() -> Any:
    return np.random.default_rng().normal()


def _under_a_loop(x: Any) -> Any:
    for _ in range(3):
        x = x * np.random.default_rng().uniform()
    return x


DRAWS: dict[str, Callable[[Any], Any]] = {
    "default_rng": lambda x: x * np.random.default_rng().normal(),
    "default_rng(None)": lambda x: x * np.random.default_rng(None).normal(),
    "default_rng(seed=None)": lambda x: x * np.random.default_rng(seed=None).normal(),
    "a helper's": lambda x: x * _noise(),
    "a loop's": _under_a_loop,
    "RandomState": lambda x: x * np.random.RandomState().normal(),
    "SeedSequence": lambda x: x * float(np.random.SeedSequence().generate_state(1)[0]),
    "PCG64": lambda x: x * np.random.Generator(np.random.PCG64()).normal(),
    "Philox": lambda x: x * np.random.Generator(np.random.Philox()).normal(),
    "Random": lambda x: x * random.Random().random(),
    "SystemRandom": lambda x: x * random.SystemRandom().random(),
    "secrets.randbelow": lambda x: x * secrets.randbelow(1000),
    "secrets.randbits": lambda x: x * float(secrets.randbits(30)),
    "secrets.choice": lambda x: x * secrets.choice([1.0, 2.0]),
    "secrets.token_bytes": lambda x: x * secrets.token_bytes(1)[0],
    "os.urandom": lambda x: x * os.urandom(1)[0],
    "uuid4": lambda x: x * float(uuid.uuid4().int % 1000),
    "np.random.rand": lambda x: x * np.random.rand(),
    "random.random": lambda x: x * random.random(),
}
SEEDED: dict[str, Callable[[Any], Any]] = {
    "default_rng(x)": lambda x: x * np.random.default_rng(x.astype(int)).normal(),
    "RandomState(seed=x)": lambda x: x * np.random.RandomState(seed=x.astype(int)).normal(),
    "PCG64(x)": lambda x: x * np.random.Generator(np.random.PCG64(x.astype(int))).normal(),
}
CLOCKS: dict[str, Callable[[Any], Any]] = {
    "time": lambda x: x + time.time(),
    "perf_counter": lambda x: x + time.perf_counter(),
    "monotonic_ns": lambda x: x + float(time.monotonic_ns()),
    "now": lambda x: x + datetime.datetime.now().microsecond,
    "today": lambda x: x + datetime.date.today().day,
}
ONCE: dict[str, Callable[[Callable[[Any], Any]], Any]] = {
    "jit": lambda f: fgrad.jit(f)(1.0),
    "jit of grad": lambda f: fgrad.jit(fgrad.grad(f))(1.0),
    "grad of jit": lambda f: fgrad.grad(fgrad.jit(f))(1.0),
    "vmap": lambda f: fgrad.vmap(f)(np.ones(3)),
    "scan": lambda f: lax.scan(lambda c, x: (f(c), x), 1.0, np.arange(3.0)),
    "fori_loop": lambda f: lax.fori_loop(0, 3, lambda i, c: f(c), 1.0),
}


@pytest.mark.parametrize("draw", [*DRAWS, *SEEDED])
@pytest.mark.parametrize("transform", ONCE)
def test_draws_for_many_calls_are_refused(transform: str, draw: str) -> None:
    with pytest.raises(RandomStateError) as caught:
        ONCE[transform]({**DRAWS, **SEEDED}[draw])
    assert "test_asked.py" in str(caught.value)


@pytest.mark.parametrize("draw", DRAWS)
def test_draws_at_the_prompt_are_new_each_time(draw: str) -> None:
    gradient = fgrad.grad(DRAWS[draw])
    assert len({float(gradient(1.0)) for _ in range(40)}) > 1


@pytest.mark.parametrize("clock", CLOCKS)
def test_the_clock_warns_at_the_line_that_asks(clock: str) -> None:
    f = fgrad.jit(CLOCKS[clock])
    with pytest.warns(TracedOnceWarning, match="while it is traced") as caught:
        first = f(0.0)
    assert [w.filename for w in caught] == [__file__]
    assert f(0.0) == first  # without a warning
    assert fgrad.grad(CLOCKS[clock])(0.0) == 1.0


def test_seeded_generators_give_what_they_give_in_numpy() -> None:
    def f(x: Any) -> Any:
        rng = np.random.default_rng(3)
        other = np.random.Generator(np.random.PCG64(seed=np.random.SeedSequence(entropy=5)))
        return x * rng.normal() + other.normal() + random.Random(x=7).random()

    assert fgrad.jit(f)(2.0) == f(2.0)


def _within(x: Any) -> Any:
    with np.errstate(divide="raise"):
        return 1.0 / x


def _aliased(x: Any) -> Any:
    with states(all="raise"):
        return 1.0 / x


def _set(x: Any) -> Any:
    old = np.seterr(divide="raise")
    y = 1.0 / x
    np.seterr(**old)
    return y


def _caught(x: Any) -> Any:
    for _ in range(2):
        try:
            with np.errstate(all="raise"):
                x = 1.0 / x
        except FloatingPointError:
            x = x + 5.0
    return x


RAISING: dict[str, Callable[[Any], Any]] = {
    "errstate": _within, "another name": _aliased, "seterr": _set, "caught in a loop": _caught,
}  # fmt: skip


@pytest.mark.parametrize("program", RAISING)
@pytest.mark.parametrize("transform", ONCE)
def test_errors_of_floating_point_numbers_are_not_asked_for(transform: str, program: str) -> None:
    """Compiled code gave inf, where NumPy raises."""
    with pytest.raises(CaptureError, match="errors of floating point"):
        ONCE[transform](RAISING[program])


@pytest.mark.parametrize("program", ("errstate", "another name", "seterr"))
def test_errors_of_floating_point_numbers_are_raised_at_the_prompt(program: str) -> None:
    with pytest.raises(FloatingPointError), np.errstate(divide="warn"):
        fgrad.grad(RAISING[program])(np.zeros(()))


def test_what_ignores_errors_of_floating_point_numbers_is_left_alone() -> None:
    def f(x: Any) -> Any:
        with np.errstate(divide="ignore", invalid="warn"):
            return 1.0 / x

    assert fgrad.jit(f)(np.zeros(2)).tolist() == [np.inf, np.inf]
