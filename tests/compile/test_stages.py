"""`jit(f).lower(...)`: the program, types and cost of a function before its call, and its code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad import ShapeDtype
from fgrad.errors import ArgumentError

SQUARE = ShapeDtype((4, 4), np.float64)


@fgrad.jit(static_argnums=1)
def product(x: Any, n: int, *, y: float = 1.0) -> dict[str, Any]:
    return {"a": np.sin(x @ x) * n + y}


def test_what_is_known_before_a_call() -> None:
    lowered = product.lower(SQUARE, 3, y=2.0)
    assert "dot_general" in lowered.as_text() and "sin" in lowered.as_text()
    assert lowered.out_info == {"a": SQUARE} and lowered.args_info[0] == (SQUARE, None)
    assert lowered.in_avals[1]["y"].weak and lowered.out_avals["a"].shape == (4, 4)
    assert (lowered.in_tree.num_leaves, lowered.out_tree.num_leaves) == (2, 1)
    cost = lowered.cost_analysis()
    assert (cost["flops"], cost["transcendentals"]) == (160.0, 16.0)
    assert cost["bytes accessed"] >= 2 * SQUARE.nbytes
    assert product.eval_shape(SQUARE, 3) == {"a": SQUARE}


def test_compiled_calls_do_not_trace() -> None:
    compiled = product.lower(SQUARE, 3, y=2.0).compile()
    traces, x = product.traces, np.linspace(0.0, 1.0, 16).reshape(4, 4)
    np.testing.assert_allclose(compiled(x, y=2.0)["a"], np.sin(x @ x) * 3 + 2.0, rtol=1e-12)
    assert product.traces == traces
    assert "define" in compiled.as_text() and compiled.memory_analysis().results == SQUARE.nbytes
    assert compiled.cost_analysis()["flops"] == 160.0


def test_numbers_and_stand_ins_for_them() -> None:
    number = fgrad.jit(np.sin).lower(ShapeDtype((), float)).compile()
    assert number(0.5) == number(np.float64(0.5)) == np.sin(0.5)
    assert fgrad.jit(fgrad.grad(lambda x: x**3)).lower(1.0).compile()(2.0) == 12.0


def test_compiled_functions_are_differentiated_and_called_in_others() -> None:
    compiled = fgrad.jit(lambda x: np.sum(x**3)).lower(ShapeDtype((2,), float)).compile()
    x = np.array([1.0, 2.0])
    np.testing.assert_allclose(fgrad.jit(fgrad.grad(compiled))(x), 3 * x**2)


def test_writes_into_arguments() -> None:
    def step(p: Any, x: float) -> Any:
        p["w"] += x
        return p["w"].sum()

    compiled = fgrad.jit(step).lower({"w": ShapeDtype((3,), float)}, 1.0).compile()
    p = {"w": np.ones(3)}
    assert compiled.out_info == ShapeDtype((), float)
    assert compiled(p, 1.0) == 6.0 and p["w"][0] == 2.0


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c(np.ones((3, 4)), y=2.0),
        lambda c: c(np.ones((4, 4), np.float32), y=2.0),
        lambda c: c(np.ones((4, 4))),
        lambda c: c(np.ones((4, 4)), np.ones(2), y=2.0),
        lambda c: c(y=2.0),
        lambda c: c.as_text("stablehlo"),
    ],
)
def test_other_types_are_refused(call: Callable[[Any], Any]) -> None:
    compiled = product.lower(SQUARE, 3, y=2.0).compile()
    with pytest.raises(ArgumentError):
        call(compiled)
