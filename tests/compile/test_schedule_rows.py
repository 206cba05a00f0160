"""Two rows at a time, and several vectors at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.compile.kernel.ir import Affine, Buffer, Init, Kernel, Load, Loop, Read, Store, Update
from fgrad.compile.kernel.rewrite import Names, walk
from fgrad.compile.schedule import order as schedule
from fgrad.compile.schedule import rows as schedule_rows


def softmax(x: Any) -> Any:
    """Rows that sum to 1."""
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def normalised(x: Any) -> Any:
    """Rows of mean 0 and variance 1."""
    centred = x - np.mean(x, axis=-1, keepdims=True)
    return centred / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)


def gradient(x: Any) -> Any:
    """Of rows and of a gain that all rows share."""

    def loss(x: Any, gain: Any) -> Any:
        return np.sum(normalised(x) * gain * np.cos(x))

    return fgrad.grad(loss, argnums=(0, 1))(x, np.ones(x.shape[-1], np.float32))


def top(x: Any) -> Any:
    """The sum of a running total of rows, which no pair of rows may reorder."""
    return np.cumsum(softmax(x), axis=0)


FUNCTIONS = {"softmax": softmax, "normalised": normalised, "gradient": gradient, "top": top}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("shape", [(256, 64), (130, 200), (64, 1003)], ids=str)
def test_pairs_of_rows_have_the_same_numbers(
    name: str, shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same bits, unless the end of a row is masked in another way."""
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    monkeypatch.setattr(schedule, "interleave", lambda body, *_: body)  # has other partial sums
    paired = fgrad.jit(lambda x: FUNCTIONS[name](x))(x)
    monkeypatch.setattr(schedule, "pair_rows", lambda body, *_: body)
    alone = fgrad.jit(lambda x: FUNCTIONS[name](x))(x)
    for a, b in zip(fgrad.tree.leaves(paired), fgrad.tree.leaves(alone), strict=True):
        np.testing.assert_allclose(a, b, 2e-6 if shape[1] % 64 else 0, 1e-6 if shape[1] % 64 else 0)


def scheduled(fun: Callable[..., Any], x: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """The largest kernel of a compiled function, as for a processor with AVX-512."""
    found: list[Kernel] = []
    kept = schedule_rows.pair_rows

    def note(body: Any, names: Any, buffers: Any, *rest: Any) -> Any:
        result = kept(body, names, buffers, *rest)
        found.append(Kernel("k", tuple(buffers.values()), schedule.interleave(result, 4)))
        return result

    monkeypatch.setattr(schedule, "pair_rows", note)
    monkeypatch.setattr(schedule, "WIDE_REGISTERS", 8)
    fgrad.jit(fun)(x)
    return max(found, key=lambda kernel: len(list(walk(kernel.body))))


def test_rows_are_taken_in_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).normal(size=(512, 96)).astype(np.float32)
    kernel = scheduled(lambda x: softmax(x), x, monkeypatch)
    assert next(s for s in kernel.body if isinstance(s, Loop)).extent == 256


def test_odd_numbers_of_rows_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).normal(size=(511, 96)).astype(np.float32)
    kernel = scheduled(lambda x: softmax(x), x, monkeypatch)
    assert next(s for s in kernel.body if isinstance(s, Loop)).extent == 511


@pytest.mark.parametrize(("stride", "paired"), [(64, True), (65, True), (63, False), (1, False)])
def test_rows_that_overlap_keep_their_order(stride: int, paired: bool) -> None:
    single = np.dtype(np.float32)
    size = 512 * stride + 64
    body = (
        Init("s", "add", single, 0.0),
        Loop("j", 64, "reduce", (Load(0, "x", Affine(0, (("j", 1),))), Update("s", 0)), 16),
        Read(1, "s"),
        Loop("k", 64, "parallel", (Store("y", Affine(0, (("i", stride), ("k", 1))), 1),), 16),
    )
    buffers = {"x": Buffer("x", single, 64, "in"), "y": Buffer("y", single, size, "out")}
    loop = Loop("i", 512, "serial", body)
    names = Names(Kernel("k", tuple(buffers.values()), (loop,)))
    found = schedule_rows.pair_rows((loop,), names, buffers)
    assert (found != (loop,)) == paired


@pytest.mark.parametrize(("count", "lanes"), [(9999, 16), (16384, 32), (20007, 32), (262151, 64)])
def test_formulas_take_several_vectors(
    count: int, lanes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.random.default_rng(0).normal(size=count).astype(np.float32)
    kernel = scheduled(lambda x: np.tanh(x) * x, x, monkeypatch)
    assert next(s for s in kernel.body if isinstance(s, Loop)).lanes == lanes
    np.testing.assert_allclose(fgrad.jit(lambda x: np.tanh(x) * x)(x), np.tanh(x) * x, rtol=1e-6)
