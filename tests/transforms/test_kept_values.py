"""A tape keeps what its derivative reads and nothing else, and reads nothing that it let go of."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from op_cases import OP_CASES, OpCase
from random_programs import programs

import fgrad
from fgrad.ir.primitive import OUT, REGISTRY
from fgrad.trace import Builder, run

SMOOTH = [case for case in OP_CASES if case.differentiable and case.order]


@pytest.fixture
def tracing_memory() -> Iterator[None]:
    gc.collect()
    tracemalloc.start()
    yield
    tracemalloc.stop()


class keeping_all:
    """Every record keeps the values of all its operands and results for the time of a block."""

    def __enter__(self) -> None:
        self.enter = enter = Builder.__enter__

        def keep(builder: Builder) -> Builder:
            builder.keeps = True
            return enter(builder)

        Builder.__enter__ = keep  # type: ignore[method-assign]

    def __exit__(self, *_exc: object) -> None:
        Builder.__enter__ = self.enter  # type: ignore[method-assign]


def derivatives(f: Callable[..., list[Any]], xs: list[Any]) -> list[Any]:
    """Tangents, cotangents twice, and the gradient of a smooth sum of the cotangents."""
    ones = [np.ones_like(x) for x in xs]
    out, tangent = fgrad.jvp(f, xs, ones)
    cts = [np.cos(np.arange(y.size)).reshape(y.shape).astype(y.dtype)[()] for y in out]
    _, pullback = fgrad.vjp(f, *xs)
    _, push = fgrad.linearize(f, *xs)

    def pulled(*xs: Any) -> Any:
        return fgrad.vjp(f, *xs)[1](cts)

    found = [tangent, pullback(cts), pullback(cts), push(*ones), fgrad.jvp(pulled, xs, ones)[1]]
    return fgrad.tree.leaves(found)


def check_same(f: Callable[..., list[Any]], xs: list[Any]) -> None:
    with np.errstate(all="ignore"):
        found = derivatives(f, xs)
        with keeping_all():
            expected = derivatives(f, xs)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("case", SMOOTH, ids=lambda c: c.name)
def test_what_is_not_kept_is_not_read(case: OpCase, rng: np.random.Generator) -> None:
    args = case.args(rng)
    which = [i for i, x in enumerate(args) if np.asarray(x).dtype.kind == "f"]

    def f(*xs: Any) -> list[Any]:
        whole = list(args)
        for i, x in zip(which, xs, strict=True):
            whole[i] = x
        return [y for y in fgrad.tree.leaves(case.fun(*whole)) if y.dtype.kind == "f"]

    check_same(f, [args[i] for i in which])


@given(programs())
@settings(max_examples=60, deadline=None)
def test_random_programs_read_what_is_kept(made: Any) -> None:
    program, args = made
    which = [i for i, x in enumerate(args) if x.dtype.kind == "f"]

    def f(*xs: Any) -> list[Any]:
        whole = list(args)
        for i, x in zip(which, xs, strict=True):
            whole[i] = x
        return [y for y in run(program, whole) if y.dtype.kind == "f"]

    if which:
        check_same(f, [args[i] for i in which])


@pytest.mark.parametrize("prim", REGISTRY.values(), ids=repr)
def test_reads_name_places(prim: Any) -> None:
    if isinstance(prim.reads, tuple):
        assert not prim.maps or len(prim.reads) == len(prim.maps)
        assert {k for places in prim.reads for k in places} <= {OUT, *range(len(prim.reads))}


ROWS = 20_000

SQUARE = np.ones((50, 50))  # made outside: arrays made in a function may be written, and traced

# How many arrays as large as the argument the pullback of each function may hold.
HELD: dict[str, tuple[Callable[[Any], Any], float]] = {
    "x + 1, twenty times": (lambda x: repeat(lambda y: y + 1, x, 20), 0),
    "roll and add": (lambda x: repeat(lambda y: np.roll(y, 1) + 1.0, x, 20), 0),
    "x * 2.5 - x / 3": (lambda x: x * 2.5 - x / 3, 0),
    "slices, stacked and summed": (lambda x: np.stack([x[::2], -x[1::2]]).sum(0), 0),
    "transposed, reshaped, padded": (lambda x: np.pad(x.reshape(2, -1).T, 1).ravel(), 0),
    "astype, real, where of a constant": (lambda x: np.where(MASK, x.astype("f4"), 0), 0.2),
    "cumsum and rfft": (lambda x: np.fft.rfft(np.cumsum(x)).real, 0),
    "exp reads its result": (lambda x: repeat(lambda y: np.exp(y * -0.1), x, 5), 5),
    "tanh of x + 1": (lambda x: repeat(lambda y: np.tanh(y + 1), x, 5), 5),
    "x * x reads x": (lambda x: x * x, 1),
    "x * y reads both": (lambda x: (x + 1) * (x + 2), 2),
    "products with constants": (lambda x: (x.reshape(400, -1) @ SQUARE).ravel(), 0),
    "comparisons and where": (lambda x: np.where(x > 0, x * 2, x - 1), 0.2),
}
MASK = np.arange(ROWS) % 3 == 0


def repeat(f: Callable[[Any], Any], x: Any, count: int) -> Any:
    for _ in range(count):
        x = f(x)
    return x


@pytest.mark.usefixtures("tracing_memory")
@pytest.mark.parametrize("name", HELD)
def test_a_pullback_holds_what_it_reads(name: str) -> None:
    f, arrays = HELD[name]
    x = np.linspace(-1.0, 1.0, ROWS)
    fgrad.vjp(f, x)
    before = tracemalloc.get_traced_memory()[0]
    pullback = fgrad.vjp(f, x)[1]
    held = tracemalloc.get_traced_memory()[0] - before
    assert held <= (arrays + 0.05) * x.nbytes + 50_000
    assert pullback.__name__


@pytest.mark.usefixtures("tracing_memory")
def test_linear_operations_need_no_memory_for_their_length() -> None:
    def peak(count: int) -> int:
        gradient = fgrad.grad(lambda x: np.sum(repeat(lambda y: np.roll(y, 1) + 1.0, x, count)))
        x = np.ones(100_000)
        gradient(x)
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        gradient(x)
        return tracemalloc.get_traced_memory()[1] - before

    assert peak(40) < 1.2 * peak(4)
