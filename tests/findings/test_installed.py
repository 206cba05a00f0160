"""Functions of installed packages: what those read that a trace runs is watched; the others cost
nothing."""

from __future__ import annotations

import importlib
import itertools
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad import lax
from fgrad.errors import RandomStateError, RetraceWarning
from fgrad.tracing.outside.world import world_of

SOURCE = """
import functools
import numpy as np

FACTOR = 2.0
TABLE = np.linspace(1.0, 2.0, 1000)
SETTINGS = {"shift": 1.0}
RNG = np.random.default_rng(0)

def scale(x):
    return x * FACTOR

def shifted(x):
    return scale(x) + SETTINGS["shift"]

def looked_up(x):
    return x + TABLE[:3]

def noisy(x):
    return x + RNG.normal()

def times(f):
    @functools.wraps(f)
    def wrapped(x):
        return FACTOR * f(x)
    return wrapped

class Layer:
    def __init__(self, n):
        self.weight = np.ones(n)

    def __call__(self, x):
        return x * self.weight[:3] * FACTOR

    @property
    def twice(self):
        return 2.0 * self.weight

def f300(x): return x
"""
NUMBER = itertools.count()
X = np.array([1.0, 2.0, 3.0])


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A package that nobody has used before."""
    folder, name = tmp_path / "site-packages", f"installed_package_{next(NUMBER)}"
    folder.mkdir()
    chain = [f"def f{k}(x): return f{k + 1}(x)" for k in range(300)]
    (folder / f"{name}.py").write_text("\n".join([*chain, SOURCE]))
    monkeypatch.syspath_prepend(folder)
    return importlib.import_module(name)


def _set_factor(package: Any, _holder: Any) -> None:
    package.FACTOR += 1.5


def _set_shift(package: Any, _holder: Any) -> None:
    package.SETTINGS["shift"] += 2.0


def _write_table(package: Any, _holder: Any) -> None:
    package.TABLE[1] += 3.0


def _write_weight(_package: Any, holder: Any) -> None:
    holder.layer.weight[2] += 1.0


def _set_weight(_package: Any, holder: Any) -> None:
    holder.layer.weight = holder.layer.weight * 2.0


class Holder:
    """What the user's own code has."""

    def __init__(self, package: Any) -> None:
        self.layer = package.Layer(1000)
        self.own = 3.0


FUNCTIONS: dict[str, Callable[[Any, Holder], Callable[[Any], Any]]] = {
    "a global": lambda package, _: lambda x: package.scale(x),
    "a global behind a function": lambda package, _: lambda x: package.shifted(x),
    "a table": lambda package, _: lambda x: package.looked_up(x),
    "a table on two ways": lambda package, _: lambda x: package.looked_up(x) * package.TABLE[1],
    "a decorator": lambda package, holder: package.times(lambda x: x * holder.own),
    "an object": lambda package, holder: lambda x: holder.layer(x),
    "an object's property": lambda package, holder: lambda x: x * holder.layer.twice[:3],
    "an object that is made": lambda package, _: lambda x: package.Layer(3)(x),
    "a function passed on": lambda package, _: lambda x: fgrad.vmap(package.scale)(x),
    "a compiled function": lambda package, _: fgrad.jit(package.shifted),
    "a loop": lambda package, _: lambda x: lax.fori_loop(0, 2, lambda _i, v: package.scale(v), x),
}
CHANGES = [_set_factor, _set_shift, _write_table, _write_weight, _set_weight]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_it_reads_is_watched(name: str, package: Any) -> None:
    holder = Holder(package)
    fun = FUNCTIONS[name](package, holder)
    ours = fgrad.jit(lambda x: fun(x))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RetraceWarning)
        for change in [lambda *_: None, *CHANGES, *CHANGES]:
            change(package, holder)
            holder.own += 0.5
            for _ in range(2):
                np.testing.assert_allclose(ours(X), fun(X))


def test_a_branch_that_is_taken_later_is_watched_then(package: Any) -> None:
    holder = Holder(package)

    def fun(x: Any) -> Any:
        return package.scale(x) if holder.own > 4.0 else x

    ours = fgrad.jit(fun)
    for own, factor in ((3.0, 2.0), (3.0, 4.0), (5.0, 4.0), (5.0, 6.0), (3.0, 6.0), (5.0, 1.0)):
        holder.own, package.FACTOR = own, factor
        np.testing.assert_allclose(ours(X), fun(X))


DRAWS: dict[str, Callable[[Any], Any]] = {
    "jit": lambda fun: fgrad.jit(fun)(X),
    "vmap": lambda fun: fgrad.vmap(fun)(X),
    "a loop": lambda fun: lax.fori_loop(0, 3, lambda _, v: fun(v), X),
    "a branch in jit": lambda fun: fgrad.jit(lambda x: lax.cond(x[0] > 0, fun, fun, x))(X),
}


@pytest.mark.parametrize("how", DRAWS)
def test_draws_are_refused_at_once(how: str, package: Any) -> None:
    with pytest.raises(RandomStateError):
        DRAWS[how](lambda x: package.noisy(x))


def test_what_does_not_run_is_not_looked_into(package: Any) -> None:
    def fun(x: Any, flag: bool = False) -> Any:
        return package.f0(x) if flag else x + 1.0

    watched = [id(getattr(package, f"f{k}")) for k in range(1, 300)]
    for call in (fgrad.jit(fun), fgrad.vmap(fun)):
        np.testing.assert_array_equal(call(X), X + 1.0)
    assert world_of(fun, {}).links.keys().isdisjoint(watched)
    assert fgrad.jit(lambda x: fun(x, True))(X).tolist() == X.tolist()
    assert 190 <= len(world_of(fun, {}).links.keys() & set(watched)) < 299  # not of all of it


def test_a_profiler_is_left_alone_and_results_are_right_with_it(package: Any) -> None:
    lines: list[str] = []

    def profile(frame: FrameType, event: str, _arg: object) -> None:
        lines.append(event)

    ours = fgrad.jit(lambda x: package.scale(x))
    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        first = ours(X)
        kept = sys.getprofile()
    finally:
        sys.setprofile(before)
    assert kept is profile
    assert lines
    np.testing.assert_array_equal(first, 2.0 * X)
    package.FACTOR = 7.0
    np.testing.assert_array_equal(ours(X), 7.0 * X)


def test_notes_end_where_a_trace_fails(package: Any) -> None:
    def fails(x: Any) -> Any:
        package.scale(x)
        raise KeyError("no")

    for call in (fgrad.jit(fails), fgrad.vmap(fails)):
        with pytest.raises(KeyError):
            call(X)
        assert sys.getprofile() is None
