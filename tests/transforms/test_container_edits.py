"""Containers that a function changes inside of a body that is recorded: kept, or refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.errors import ArgumentWriteError, FgradError

X = np.arange(1.0, 4.0)


def set_item(p: Any, x: Any) -> Any:
    p["w"] = p["w"] * 2.0
    return np.sum(p["w"] * x)


def append(p: Any, x: Any) -> Any:
    p["l"].append(x * 2.0)
    return np.sum(p["l"][-1])


def pop(p: Any, x: Any) -> Any:
    return np.sum(p.pop("w") * x)


def clear(p: Any, x: Any) -> Any:
    out = np.sum(p["w"] * x)
    p.clear()
    return out


EDITS: dict[str, Callable[[Any, Any], Any]] = {
    "set": set_item,
    "append": append,
    "pop": pop,
    "clear": clear,
}


def custom_jvp(edit: Any) -> Any:
    h = fgrad.custom_jvp(edit)
    h.defjvp(lambda primals, tangents: (h(*primals), np.sum(tangents[1])))
    return h


def custom_vjp(edit: Any) -> Any:
    h = fgrad.custom_vjp(edit)
    h.defvjp(lambda p, x: (h(p, x), None), lambda _, ct: (None, ct * X))
    return h


def branch(edit: Any) -> Any:
    return lambda p, x: fgrad.lax.cond(x[0] > 0, edit, lambda p, x: np.sum(x), p, x)


def scan(edit: Any) -> Any:
    def step(carry: Any, x: Any) -> Any:
        return carry, edit(carry, x)

    def wrong(carry: Any, x: Any) -> Any:
        return {"w": carry["w"] + 0.0, "l": [carry["l"][0] + 0.0]}, edit(carry, x)

    return lambda p, x: np.sum(fgrad.lax.scan(wrong, p, np.stack([x, x]))[1])


COPIES: dict[str, Callable[[Any], Any]] = {
    "checkpoint": fgrad.checkpoint,
    "custom_jvp": custom_jvp,
    "custom_vjp": custom_vjp,
    "cond": branch,
    "scan": scan,
}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("body", COPIES)
def test_changes_of_arguments_are_kept_or_refused(body: str, edit: str) -> None:
    expected = {"w": np.ones(3), "l": [np.zeros(3)]}
    EDITS[edit](expected, X)
    for way in (lambda f: f, fgrad.jit, lambda f: fgrad.grad(f, argnums=1)):
        p = {"w": np.ones(3), "l": [np.zeros(3)]}
        try:
            way(COPIES[body](EDITS[edit]))(p, X)
        except FgradError:
            continue
        assert list(p) == list(expected)
        assert len(p.get("l", ())) == len(expected.get("l", ()))
        np.testing.assert_array_equal(p.get("w", 0.0), expected.get("w", 0.0))


@pytest.mark.parametrize("way", [lambda f: f, fgrad.jit])
def test_what_a_body_returns_it_may_change(way: Any) -> None:
    def step(carry: Any, x: Any) -> Any:
        carry["w"] = carry["w"] + x
        return carry, carry["w"]

    def total(x: Any) -> Any:
        return fgrad.lax.scan(step, {"w": np.zeros(3)}, np.stack([x, x]))

    carry, ys = way(total)(X)
    np.testing.assert_array_equal(carry["w"], 2 * X)
    np.testing.assert_array_equal(ys, np.stack([X, 2 * X]))


@pytest.mark.parametrize("body", ["cond", "fori_loop", "scan", "while_loop"])
def test_traced_values_are_not_stored_outside_of_bodies(body: str) -> None:
    def f(p: Any, x: Any) -> Any:
        def edit(y: Any) -> Any:
            p["w"] = p["w"] * 2.0
            return y + np.sum(p["w"])

        if body == "cond":
            return fgrad.lax.cond(x[0] > 0, edit, lambda y: y, x)
        if body == "fori_loop":
            return fgrad.lax.fori_loop(0, 3, lambda _, y: edit(y), x)
        if body == "scan":
            return fgrad.lax.scan(lambda y, _: (edit(y), None), x, None, length=3)[0]
        return fgrad.lax.while_loop(lambda y: y[0] < 10, edit, x)

    with pytest.raises(ArgumentWriteError, match=r"stores a traced value|a container"):
        fgrad.jit(f)({"w": np.ones(3)}, X)


def test_counters_of_traces_go_on() -> None:
    made: list[int] = []

    def step(c: Any, x: Any) -> Any:
        made.append(1)
        return c + x, None

    np.testing.assert_array_equal(fgrad.jit(lambda x: fgrad.lax.scan(step, 0.0, x)[0])(X), 6.0)
    assert made
