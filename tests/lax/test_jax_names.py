"""The names of `jax.lax`: values and gradients are those of JAX, at the prompt and compiled."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from jax_cases import CASES, weights
from sources import ROOT

import fgrad
from fgrad import lax, testing
from fgrad.errors import ArgumentError, DtypeError, ShapeError

GOLDEN = json.loads((ROOT / "tests" / "golden" / "jax_lax.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str) -> None:
    function, operands = CASES[name]
    expected = GOLDEN[name]

    def call(*xs: Any) -> Any:
        return function(lax, *xs)

    def loss(*xs: Any) -> Any:
        out = call(*xs)
        return np.sum(np.where(np.isfinite(out), out, 0.0) * weights(out.shape))

    value = np.array(expected["value"], float).reshape(expected["shape"])
    for f in (call, fgrad.jit(call)):
        np.testing.assert_allclose(f(*operands), value, rtol=1e-12, atol=1e-12)
    slope = fgrad.grad(loss, tuple(range(len(operands))))
    for f in (slope, fgrad.jit(slope)):
        if not expected["gradient"]:
            testing.check_grads(call, operands, order=1, modes=("rev",), atol=1e-6, rtol=1e-6)
            break
        for found, flat in zip(f(*operands), expected["gradient"], strict=True):
            np.testing.assert_allclose(np.ravel(found), flat, rtol=1e-10, atol=1e-11)


# --- what JAX's values do not say -----------------------------------------------------------------

FORMULAS: dict[str, tuple[Callable[[], Any], Any]] = {
    "div": (lambda: lax.div(np.array([-7, 7, -7]), np.array([2, -2, -2])), [-3, -3, 3]),
    "div_unsigned": (lambda: lax.div(np.uint8(7), np.uint8(2)), 3),
    "round": (lambda: lax.round(np.array([-2.5, -0.5, 0.49, 0.5, 1e300])), [-3, -1, 0, 1, 1e300]),
    "round_even": (
        lambda: lax.round(np.array([2.5, 3.5]), lax.RoundingMethod.TO_NEAREST_EVEN), [2, 4]),
    "clz": (lambda: lax.clz(np.array([0, 1, 255, -1], np.int32)), [32, 31, 24, 0]),
    "population_count": (lambda: lax.population_count(np.array([-1, 5], np.int8)), [8, 2]),
    "logical": (lambda: lax.shift_right_logical(np.array([-1], np.int16), 4), [4095]),
    "arithmetic": (lambda: lax.shift_right_arithmetic(np.array([240], np.uint8), 4), [255]),
    "bfloat16": (
        lambda: lax.reduce_precision(np.array([1.00390625, 0.1, np.inf, 1e39]), 8, 7),
        [1.0, 0.10009765625, np.inf, np.inf]),
    "float16": (lambda: lax.reduce_precision(np.array([0.1, -7e-8]), 5, 10),
                [0.0999755859375, -5.9604644775390625e-08]),
    "bitcast": (lambda: lax.bitcast_convert_type(np.float64(1.0), np.int64), 0x3FF0 << 48),
    "sum_keeps_dtype": (lambda: lax.reduce_sum(np.array([100, 100], np.int8), (0,)), -56),
    "max_of_none": (lambda: lax.reduce_max(np.zeros((2, 0)), (1,)), [-np.inf] * 2),
    "reduce_of_none": (
        lambda: lax.reduce(np.zeros((2, 0)), 3.0, lambda a, b: a * b - a, (1,)), [3.0, 3.0]),
    "reduce_in_order": (  # composition of the maps a x + b, which does not commute
        lambda: lax.reduce(
            (np.array([2.0, 3.0, 5.0]), np.array([1.0, 1.0, 1.0])), (1.0, 0.0),
            lambda f, g: (g[0] * f[0], g[0] * f[1] + g[1]), (0,))[1],
        21.0),
    "argmax_by_reduce": (
        lambda: lax.reduce(
            (np.array([1.0, 4.0, 2.0, 4.0]), np.arange(4)), (-np.inf, 0),
            lambda a, b: tuple(np.where(a[0] >= b[0], x, y) for x, y in zip(a, b, strict=True)),
            (0,))[1],
        1),
    "window_of_any": (
        lambda: lax.reduce_window(
            np.array([1.0, 2.0, 3.0, 4.0]), 1.0, lambda a, b: a * b * 1.0, (2,), (2,), [(1, 1)]),
        [1.0, 6.0, 4.0]),
    "segment_ids_outside": (
        lambda: lax.segment_max(np.array([3, 5, 7]), np.array([1, -1, 9]), 2),
        [np.iinfo(np.int64).min, 3]),
    "segments_of_rows": (
        lambda: lax.segment_sum(np.ones((3, 2)), np.array([1, 1, 0])), [[1, 1], [2, 2]]),
    "no_segments": (lambda: lax.segment_sum(np.zeros(0), np.zeros(0, int)), []),
    "ragged_rows_beyond": (
        lambda: lax.ragged_dot(np.ones((3, 1)), np.ones((2, 1, 1)), np.array([1, 1]))[:, 0],
        [1, 1, 0]),
    "top_k": (lambda: lax.approx_min_k(np.array([3.0, 1.0, 2.0]), 2)[0], [1, 2]),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMULAS)
def test_formula(name: str) -> None:
    call, expected = FORMULAS[name]
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(call(), expected)
        np.testing.assert_array_equal(fgrad.jit(call)(), expected)


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception]]] = {
    "select": (lambda: lax.select(np.array([True]), np.ones(2), np.ones(2)), ShapeError),
    "clz": (lambda: lax.clz(1.0), DtypeError),
    "round": (lambda: lax.round(1), DtypeError),
    "power": (lambda: lax.integer_pow(2.0, 0.5), ArgumentError),
    "bitcast": (lambda: lax.bitcast_convert_type(np.float32(1), np.int64), DtypeError),
    "precision": (lambda: lax.reduce_precision(1.0, 4, 3), ArgumentError),
    "broadcast": (lambda: lax.broadcast_in_dim(np.ones(3), (2, 2), (1,)), ShapeError),
    "reshape": (lambda: lax.reshape(np.ones(3), (2,)), ShapeError),
    "slice": (lambda: lax.slice(np.ones(3), (0,), (4,)), ShapeError),
    "index": (lambda: lax.index_in_dim(np.ones(3), 3), ShapeError),
    "split": (lambda: lax.split(np.ones(3), [1]), ShapeError),
    "tile": (lambda: lax.tile(np.ones(3), (1, 2)), ShapeError),
    "pad": (lambda: lax.pad(np.ones(3), 0.0, [(0, 0, -1)]), ShapeError),
    "pad_value": (lambda: lax.pad(np.ones(3), np.ones(1), [(0, 0, 0)]), ArgumentError),
    "window": (lambda: lax.reduce_window(np.ones(3), 0.0, lax.add, (2, 2)), ShapeError),
    "window_padding": (
        lambda: lax.reduce_window(np.ones(3), 0.0, lax.add, (2,), padding="FULL"), ArgumentError),
    "reduce": (lambda: lax.reduce(np.ones(3), np.zeros(1), lax.add, (0,)), ShapeError),
    "layout": (
        lambda: lax.conv_general_dilated(
            np.ones((1, 1, 3)), np.ones((1, 1, 2)), (1,), "VALID",
            dimension_numbers=("NCX", "OIW", "NCW")), ArgumentError),
    "ranks": (lambda: lax.conv(np.ones((1, 1, 3)), np.ones((1, 1)), (1,), "VALID"), ShapeError),
    "strides": (
        lambda: lax.conv(np.ones((1, 1, 3)), np.ones((1, 1, 2)), (0,), "VALID"), ArgumentError),
    "channels": (
        lambda: lax.conv(np.ones((1, 2, 3)), np.ones((1, 1, 2)), (1,), "VALID"), ShapeError),
    "transpose": (
        lambda: lax.conv_transpose(np.ones((1, 3, 1)), np.ones((2, 1, 1)), (1,), "FULL"),
        ArgumentError),
    "dot": (lambda: lax.dot(np.ones((2, 2, 2)), np.ones(2)), ShapeError),
    "dot_general": (
        lambda: lax.dot_general(np.ones((2, 3)), np.ones((4, 5)), (((1,), (1,)), ((), ()))),
        ShapeError),
    "ragged": (
        lambda: lax.ragged_dot(np.ones((2, 3)), np.ones((1, 3, 2)), np.array([1, 1])), ShapeError),
    "gather": (
        lambda: lax.gather(
            np.ones(3), np.array([[0]]), lax.GatherDimensionNumbers((), (0,), (0,)), (2,)),
        ShapeError),
    "gather_mode": (
        lambda: lax.gather(
            np.ones(3), np.array([[0]]), lax.GatherDimensionNumbers((), (0,), (0,)), (1,),
            mode="wrap"), ArgumentError),
    "gather_fill": (
        lambda: lax.gather(
            np.ones(3), np.array([[0]]), lax.GatherDimensionNumbers((), (0,), (0,)), (1,),
            fill_value=1.0), ArgumentError),
    "starts": (
        lambda: lax.gather(
            np.ones(3), np.array([[0.0]]), lax.GatherDimensionNumbers((), (0,), (0,)), (1,)),
        DtypeError),
    "segments": (
        lambda: fgrad.jit(lax.segment_sum)(np.ones(3), np.array([0, 1, 0])), ArgumentError),
    "segment_ids": (lambda: lax.segment_sum(np.ones(3), np.array([0, 1])), ShapeError),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    call, error = REFUSED[name]
    with pytest.raises(error):
        call()
