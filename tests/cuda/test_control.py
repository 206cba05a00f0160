"""Loops, branches and callbacks in programs of the device."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from device_programs import called, check, compiled
from emulator.driver import StubDriver
from emulator.events import Graph, Launch
from real_device import stub_device

import fgrad
from fgrad import lax
from fgrad.compile.host.program import Branch, Repeat, While
from fgrad.errors import DeviceError
from fgrad.lower_cuda import backend, nodes
from fgrad.lower_cuda.device.driver import use

RNG = np.random.default_rng(1)
X = RNG.normal(size=(12, 64)).astype(np.float32)


@pytest.fixture(autouse=True)
def stub() -> Iterator[StubDriver]:
    """A stub in the place of the machine's driver; nothing was written outside of its blocks."""
    with stub_device() as made:
        yield made


def shrunk(x: Any, t: Any = 0.5) -> Any:
    """A step that is several kernels."""
    return x * 0.9 - np.max(x, axis=1, keepdims=True) * t - np.min(x, axis=0) * t


def steps_of(executable: Any, kind: type) -> int:
    return sum([isinstance(step, kind) for step in executable.image.steps])


@pytest.mark.parametrize("length", [0, 1, 2, 5, 8])
@pytest.mark.parametrize("reverse", [False, True])
def test_scan(length: int, reverse: bool) -> None:
    times = np.linspace(0.0, 1.0, length, dtype=np.float32)

    def f(x: Any, times: Any) -> Any:
        def step(c: Any, t: Any) -> Any:
            c = shrunk(c, t)
            return c, (c.sum(axis=0), t * 2)

        return lax.scan(step, x, times, reverse=reverse)

    check(f, X, times)


def test_a_short_scan_is_part_of_a_graph(stub: StubDriver) -> None:
    f = lambda x: lax.fori_loop(0, 6, lambda _, c: shrunk(c), x)  # noqa: E731
    executable = check(f, X)
    assert steps_of(executable, Repeat) == 1 and executable.nodes is not None
    assert any(isinstance(event, Graph) for event in stub.log)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.bool_, np.int8])
@pytest.mark.parametrize("reverse", [False, True])
def test_rows_that_do_not_begin_where_vectors_may(
    monkeypatch: pytest.MonkeyPatch, dtype: Any, reverse: bool
) -> None:
    monkeypatch.setattr(backend, "PASS_CYCLES", -1.0)
    rows = (np.arange(27).reshape(3, 9) % 5).astype(dtype)

    def f(x: Any, rows: Any) -> Any:
        def step(c: Any, row: Any) -> Any:
            return shrunk(c), (row[::-1] != 0, row + row, row[:5] * row[1], c[0, 1])

        return lax.scan(step, x, rows, reverse=reverse)

    check(f, X[:, :8], rows, calls=2)


def test_rows_of_loops_in_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "PASS_CYCLES", -1.0)

    def inner(c: Any, row: Any) -> Any:
        return shrunk(c), (row * 2, c[0, :6] + row.sum())

    f = lambda x, rows: lax.scan(lambda c, r: lax.scan(inner, c, r), x, rows)  # noqa: E731
    rows = RNG.normal(size=(2, 3, 7)).astype(np.float32)
    check(f, X[:, :8], rows, calls=2, rtol=1e-4)
    check(fgrad.grad(lambda x, rows: f(x, rows)[1][1].sum()), X[:, :8], rows, calls=1, rtol=1e-3)


def test_a_long_scan_is_a_loop_of_the_host_program(
    stub: StubDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes, "MOST_NODES", 20)
    f = lambda x: lax.fori_loop(0, 10, lambda _, c: shrunk(c), x)  # noqa: E731
    executable = check(f, X, calls=1)
    assert executable.nodes is None
    assert sum([isinstance(event, Launch) for event in stub.log]) == 30


def test_a_small_loop_is_one_kernel(stub: StubDriver) -> None:
    def f(x: Any) -> Any:
        return lax.scan(lambda c, t: (c * 0.5 + t, np.sin(c)), np.float32(0), x)

    check(f, X[0], calls=1)
    assert sum([isinstance(event, Launch) for event in stub.log]) == 1


def test_a_loop_with_long_passes_is_no_kernel() -> None:
    w = RNG.normal(size=(64, 64)).astype(np.float32) * 0.1

    def f(x: Any) -> Any:
        return lax.fori_loop(0, 3, lambda _, c: np.tanh((c[:, None] * w).sum(0)), x)

    executable = check(f, X[0], calls=2, rtol=1e-4)
    assert steps_of(executable, Repeat) == 1


@pytest.mark.parametrize("limit", [100.0, 1.0, 0.2])
def test_while_loop(limit: float) -> None:
    def f(x: Any) -> Any:
        return lax.while_loop(
            lambda s: np.max(np.abs(s[0])) > limit,
            lambda s: (shrunk(s[0], 0.1), s[1] + 1),
            (x, 0),
        )

    executable = check(f, X, calls=2)
    assert steps_of(executable, While) == 1 and executable.nodes is not None


def test_a_loop_in_a_loop() -> None:
    def f(x: Any) -> Any:
        def outer(c: Any, t: Any) -> Any:
            inner = lax.while_loop(lambda s: np.max(s) > t, lambda s: shrunk(s, np.float32(0.3)), c)
            again = lax.fori_loop(0, 2, lambda _, s: shrunk(s), inner)
            return inner, again.sum(axis=1)

        return lax.scan(outer, x, np.array([1.0, 0.5, 0.2], np.float32))

    check(f, X, calls=2)


@pytest.mark.parametrize("which", [-3, 0, 1, 2, 9])
def test_switch(which: int) -> None:
    def f(k: Any, x: Any) -> Any:
        branches = [shrunk, lambda x: np.exp(x) * 2, lambda x: x[::-1] + x.sum()]
        return lax.switch(k, branches, x)

    executable = check(f, np.int64(which), X, calls=2)
    assert steps_of(executable, Branch) == 1


def test_cond_and_gradients() -> None:
    def f(x: Any) -> Any:
        y = lax.cond(x.sum() > 0, lambda x: x * 2, lambda x: shrunk(x), x)
        y = lax.fori_loop(0, 3, lambda _, c: shrunk(c), y)
        return (y * y).sum()

    check(fgrad.value_and_grad(f), X, calls=2, rtol=1e-4, atol=1e-4)


def test_carries_that_are_written_in_place() -> None:
    def f(x: Any) -> Any:
        def step(c: Any, k: Any) -> Any:
            row = shrunk(c)[0]
            return c.at[k].set(row), row.sum()

        return lax.scan(step, x, np.arange(8))

    check(f, X, calls=3)


def test_literals_and_constants_in_bodies() -> None:
    table = RNG.normal(size=X.shape).astype(np.float32)

    def f(x: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            return (shrunk(c[0]) + table, np.float32(1.5), c[1]), np.int32(3)

        return lax.scan(step, (x, np.float32(0), np.float32(2)), None, length=4)

    check(f, X, calls=3)


def test_one_body_on_both_devices() -> None:
    f = fgrad.jit(lambda x: lax.fori_loop(0, 5, lambda _, c: shrunk(c), x))
    host = f(X)
    executable = compiled(f, X)
    np.testing.assert_allclose(called(executable, X)[0], host, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(f(X), host)


def test_a_while_loop_ends_after_a_failure() -> None:
    old = StubDriver(version=12040)  # the host waits for each predicate
    before = use(old)
    executable = compiled(
        lambda x: lax.while_loop(lambda s: np.max(s) > -1.0, lambda s: shrunk(s) * 0 + 1, x), X
    )
    old.fail("cuLaunchKernel", 719, after=5)
    with pytest.raises(DeviceError):
        called(executable, X)
    old.fail("cuMemcpyDtoHAsync_v2", 719)
    with pytest.raises(DeviceError, match="predicate"):
        called(executable, X)
    use(before)


# Python in programs.


def test_pure_callback() -> None:
    def f(x: Any) -> Any:
        y = shrunk(x)
        z = fgrad.pure_callback(lambda a: np.sort(a, axis=0), y, y)
        return z * 2

    check(f, X, calls=3)


def test_debug_print(capfd: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        y = shrunk(x)
        fgrad.debug.print("sum {}", y.sum())
        return y * 2

    executable = compiled(f, X)
    for _ in range(3):
        called(executable, X)
    assert capfd.readouterr().out.count("sum") == 3


def test_an_error_of_a_callback() -> None:
    def bad(_: Any) -> Any:
        raise ValueError("no such row")

    f = lambda x: fgrad.pure_callback(bad, x, shrunk(x)) * 2  # noqa: E731
    executable = compiled(f, X)
    for _ in range(2):
        with pytest.raises(ValueError, match="no such row"):
            called(executable, X)


def test_callbacks_in_loops() -> None:
    seen: list[float] = []

    def f(x: Any) -> Any:
        def step(c: Any, t: Any) -> Any:
            fgrad.io_callback(lambda v: seen.append(float(v)), None, t)
            return shrunk(c, t), None

        return lax.scan(step, x, np.arange(4, dtype=np.float32))[0]

    executable = compiled(f, X)
    called(executable, X)
    assert seen == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (0, 0)])
def test_loops_without_elements(shape: tuple[int, int]) -> None:
    x, w = X[: shape[0], : shape[1]], X[: shape[1], : shape[1]]
    f = lambda x: lax.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, s[1] @ w), (0, x))  # noqa: E731
    check(f, x)
    check(fgrad.vmap(f), np.stack([x, x]))
    check(lambda x: lax.fori_loop(0, 2, lambda _, c: c @ x[:0].T @ x[:0], X[:2, : shape[1]]), x)
    for axis in (0, 1):
        sums = partial(np.sum, axis=axis, keepdims=True)
        check(lambda x, f=sums: lax.fori_loop(0, x.shape[0] + 2, lambda _, c: c - f(c), x), x)


# --- complex carries


def turned(z: Any, t: Any = 0.5) -> Any:
    """A step whose parts mix."""
    return z * (0.6 + 0.3j) * t - np.sum(z, axis=1, keepdims=True) * 0.1j


def passed(z: Any) -> Any:
    """As a constant, a carry and items of a scan, whose body has a loop."""

    def step(c: Any, row: Any) -> Any:
        c = lax.fori_loop(0, 2, lambda _, c: turned(c) + np.conj(z), c) + row
        return c, (c[0], np.sum(np.abs(row)))

    return lax.scan(step, z, z)


def halved(z: Any) -> Any:
    def body(s: Any) -> Any:
        return s[0] + 1, s[2] * 0.5, turned(s[1]), s[3] + s[1].real

    return lax.while_loop(lambda s: np.max(np.abs(s[1])) > 0.1, body, (0, z, z * 1j, z.imag))


COMPLEX: dict[str, Any] = {
    "scan": passed,
    "while": halved,
    "cond": lambda z: lax.cond(z[0, 0].real > 0, turned, lambda z: z, z),
    "switch": lambda z: lax.switch(2, [lambda z: z, turned, lambda z: (z.real + 0j)], z),
    "number": lambda z: lax.fori_loop(0, 3, lambda i, c: c * c + i, z[0, 0]),
    "empty": lambda z: lax.fori_loop(0, 3, lambda i, c: c * 1j, z[:0]),
    "vmap": fgrad.vmap(lambda z: lax.while_loop(lambda c: abs(c[0]) > 0.5, lambda c: c * 0.5j, z)),
    "grad": fgrad.grad(lambda z: np.sum(np.abs(passed(z)[0]) ** 2)),
    "grad of while": fgrad.grad(lambda z: np.sum(np.abs(halved(z)[1]) ** 2)),
}  # fmt: skip


@pytest.mark.parametrize("cycles", [-1.0, backend.PASS_CYCLES])
@pytest.mark.parametrize("name", COMPLEX)
def test_complex_carries(monkeypatch: pytest.MonkeyPatch, name: str, cycles: float) -> None:
    monkeypatch.setattr(backend, "PASS_CYCLES", cycles)
    check(COMPLEX[name], X[:, :12].astype(np.complex128) * (1 + 0.5j))
