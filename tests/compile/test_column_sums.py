"""Sums over leading axes that share a kernel with what makes or reads their operand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.compile.fuse.columns import cuts
from fgrad.compile.pipeline import compile_program
from fgrad.compile.tasks.steps import KernelStep
from fgrad.config import config
from fgrad.ir.aval import aval_of
from fgrad.trace import run, trace

RNG = np.random.default_rng(0)


def arrays(*shapes: tuple[int, ...], dtype: Any = np.float32) -> list[np.ndarray]:
    """Random numbers."""
    return [RNG.normal(size=shape).astype(dtype) for shape in shapes]


def kernels(fun: Callable[..., Any], *args: Any) -> int:
    """How many kernels a function needs, after comparing it with the interpreter."""
    program = trace(lambda *xs: fgrad.tree.leaves(fun(*xs)), [aval_of(x) for x in args]).program
    compiled = compile_program(program)
    with np.errstate(all="ignore"):
        expected = run(program, args)
    for a, e in zip(compiled.executable(args), expected, strict=True):
        assert (np.shape(a), np.asarray(a).dtype) == (np.shape(e), np.asarray(e).dtype)
        single = np.asarray(e).dtype == np.float32
        scale = float(np.max(np.abs(np.nan_to_num(e)), initial=1.0))
        tolerance = (1e-4, 2e-5 * scale) if single else (1e-9, 1e-11 * scale)
        np.testing.assert_allclose(a, e, *tolerance)
    steps = next(s.result for s in compiled.stages if s.name == "schedule")
    return sum([isinstance(step, KernelStep) for step in steps])


def layer_norm(x: Any, gain: Any, bias: Any) -> Any:
    """Normalised rows."""
    centred = x - np.mean(x, axis=-1, keepdims=True)
    variance = np.mean(centred * centred, axis=-1, keepdims=True)
    return centred / np.sqrt(variance + 1e-5) * gain + bias


def norm_gradient(x: Any, gain: Any, bias: Any, ct: Any) -> Any:
    """By rows, gain and bias."""
    loss = lambda x, gain, bias: np.sum(layer_norm(x, gain, bias) * ct)  # noqa: E731
    return fgrad.grad(loss, argnums=(0, 1, 2))(x, gain, bias)


@pytest.mark.parametrize(
    "shape",
    [(1024, 96), (512, 257), (8, 128, 130), (1031, 70), (2, 3, 64, 200), (1000, 97)],
    ids=str,
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_norm_gradient(shape: tuple[int, ...], dtype: Any) -> None:
    x, ct, gain, bias = arrays(shape, shape, shape[-1:], shape[-1:], dtype=dtype)
    assert kernels(norm_gradient, x, gain, bias, ct) <= 3


@pytest.mark.parametrize("rows", [512, 1000, 1013])
def test_elementwise_results_and_their_column_sums(rows: int) -> None:
    x, y = arrays((rows, 150), (rows, 150))

    def f(x: Any, y: Any) -> Any:
        z = np.tanh(x) * y
        return z, np.sum(z, axis=0), np.max(z, axis=0), np.sum(x * y, axis=0) * 2.0

    kernels(f, x, y)


def test_not_a_number_reaches_its_column_only() -> None:
    (x,) = arrays((1024, 80))
    x[700, 3], x[5, 9], x[6, 9] = np.nan, np.inf, -np.inf

    def f(x: Any) -> Any:
        z = x * 2
        return z, np.sum(z, axis=0), np.max(z, axis=0), np.min(z, axis=0)

    kernels(f, x)


def test_integers_and_products() -> None:
    x = RNG.integers(-3, 4, size=(2048, 70))
    kernels(lambda x: (x * 3, np.sum(x * 3, axis=0), np.max(x, axis=0)), x)
    (x,) = arrays((1024, 70), dtype=np.float64)
    kernels(lambda x: (x + 1, np.prod(1 + x * 1e-3, axis=0)), x)


def test_a_sum_that_its_own_group_needs_comes_later() -> None:
    (x,) = arrays((1024, 100), dtype=np.float64)

    def f(x: Any) -> Any:
        centred = x - np.mean(x, axis=0)
        scaled = centred / np.sqrt(np.mean(centred * centred, axis=0) + 1e-5)
        return scaled, np.sum(scaled, axis=0), np.sum(scaled * x, axis=1)

    kernels(f, x)


def test_softmax_and_its_column_sums() -> None:
    (x,) = arrays((1024, 99))

    def f(x: Any) -> Any:
        e = np.exp(x - np.max(x, axis=-1, keepdims=True))
        p = e / np.sum(e, axis=-1, keepdims=True)
        return p, np.sum(p, axis=0), np.sum(e, axis=0) + np.max(x, axis=0)

    assert kernels(f, x) <= 4


def test_results_do_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    x, ct, gain, bias = arrays((2048, 128), (2048, 128), (128,), (128,))
    found = []
    for threads in (1, 2):
        monkeypatch.setattr(config, "num_threads", threads)
        found.append(fgrad.jit(norm_gradient)(x, gain, bias, ct))
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ((4096,), [(16, 256, 0)]),
        ((8, 128), [(8, 1, 0), (2, 64, 0)]),
        ((4099,), [(16, 255, 19)]),
        ((4097,), [(16, 255, 17)]),
        ((3, 1000), [(3, 1, 0), (5, 200, 0)]),
        ((3, 1001), [(3, 1, 0), (5, 197, 16)]),
        ((64, 2), [(16, 4, 0), (1, 2, 0)]),
        ((2, 3), None),
    ],
)
def test_cuts(rows: tuple[int, ...], expected: list[tuple[int, int, int]] | None) -> None:
    found = cuts(rows)
    assert (None if found is None else list(map(tuple, found))) == expected


@pytest.mark.parametrize("rows", [(1024,), (1025,), (1031,), (1039,), (4, 257), (3, 341)])
def test_rows_that_fill_no_block(rows: tuple[int, ...], rng: np.random.Generator) -> None:
    x, ct = rng.normal(size=(2, *rows, 96))
    gain, bias = rng.normal(size=(2, 96))
    found = fgrad.jit(norm_gradient)(x, gain, bias, ct)
    with config.override(disable_jit=True):
        expected = norm_gradient(x, gain, bias, ct)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
