"""Callbacks under every transform, in order; NaN found with the line that made it."""

from __future__ import annotations

import bdb
import io
import sys
import threading
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.errors import ArgumentError, CustomRuleError, MissingRuleError, NanError

X = np.array([1.0, 2.0])


def _noting(seen: list[Any]) -> Any:
    def f(x: Any) -> Any:
        fgrad.debug.callback(lambda v: seen.append(("first", v.tolist())), x)
        y = np.sin(x) * 2
        fgrad.debug.callback(lambda v: seen.append(("second", v.tolist())), x + 1)
        return np.sum(y)

    return f


ONCE = [("first", [1.0, 2.0]), ("second", [2.0, 3.0])]


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: f,
        fgrad.grad,
        fgrad.jit,
        lambda f: fgrad.jit(fgrad.grad(f)),
        lambda f: fgrad.grad(fgrad.jit(f)),
        lambda f: fgrad.jit(lambda x: fgrad.jvp(f, (x,), (x,))),
        lambda f: fgrad.jit(fgrad.jit(f)),
        fgrad.value_and_grad,
    ],
)
def test_callbacks_run_once_in_order(transform: Any) -> None:
    seen: list[Any] = []
    f = transform(_noting(seen))
    f(X)
    assert seen == ONCE
    f(X)
    assert seen == ONCE * 2


@pytest.mark.parametrize("compiled", [False, True])
def test_mapped_callbacks_run_for_each_example(compiled: bool) -> None:
    seen: list[Any] = []
    f = fgrad.vmap(_noting(seen))
    (fgrad.jit(f) if compiled else f)(np.stack([X, X + 1]))
    assert sorted(seen) == sorted([*ONCE, ("first", [2.0, 3.0]), ("second", [3.0, 4.0])])


def test_callbacks_in_loops_and_branches() -> None:
    seen: list[Any] = []

    def body(i: Any, c: Any) -> Any:
        fgrad.debug.callback(lambda i, c: seen.append((int(i), float(c))), i, c)
        return c + i

    expected = [(0, 1.0), (1, 1.0), (2, 2.0)]
    assert fgrad.jit(lambda x: fgrad.lax.fori_loop(0, 3, body, x))(1.0) == 4.0
    assert seen == expected
    seen.clear()
    fgrad.jit(lambda x: (fgrad.lax.fori_loop(0, 3, body, x), x)[1])(1.0)  # the result is unused
    assert seen == expected
    seen.clear()
    fgrad.jit(fgrad.grad(lambda x: fgrad.lax.fori_loop(0, 3, body, x)))(1.0)
    assert seen == expected
    seen.clear()
    branch = fgrad.jit(lambda p, x: fgrad.lax.cond(p, lambda x: body(7, x), lambda x: x, x))
    branch(False, 1.0)
    branch(True, 1.0)
    assert seen == [(7, 1.0)]


def test_effects_of_equal_calls_are_all_there() -> None:
    count = [0]

    def add() -> np.int64:
        count[0] += 1
        return np.int64(count[0])

    kind = fgrad.ShapeDtype((), np.int64)
    f = fgrad.jit(lambda x: [fgrad.io_callback(add, kind) for _ in range(3)] + [x])
    assert f(1.0)[:3] == [1, 2, 3]
    assert f(1.0)[:3] == [4, 5, 6]


def test_pure_callback() -> None:
    def order(x: Any) -> Any:
        return fgrad.pure_callback(np.argsort, fgrad.ShapeDtype(x.shape, np.int64), x)

    rows = np.array([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]])
    expected = np.argsort(rows)
    for f in (order, fgrad.jit(order)):
        np.testing.assert_array_equal(f(rows[0]), expected[0])
        np.testing.assert_array_equal(fgrad.vmap(f)(rows), expected)
    calls = []

    def whole(x: Any) -> Any:
        calls.append(x.shape)
        return np.sort(x, -1)

    def sort(x: Any) -> Any:
        kind = fgrad.ShapeDtype(x.shape, x.dtype)
        return fgrad.pure_callback(whole, kind, x, vmap_method="expand_dims")

    np.testing.assert_array_equal(fgrad.jit(fgrad.vmap(sort))(rows), np.sort(rows))
    assert calls == [(2, 3)]
    with pytest.raises(MissingRuleError, match="pure_callback"):
        fgrad.grad(lambda x: np.sum(sort(x)))(rows[0])
    with pytest.raises(CustomRuleError, match="another type"):
        fgrad.jit(lambda x: fgrad.pure_callback(np.sum, fgrad.ShapeDtype((2,), float), x))(X)
    with pytest.raises(ArgumentError, match="vmap_method"):
        fgrad.pure_callback(np.sort, X, X, vmap_method="all")


def test_pytrees_and_keywords() -> None:
    def split(p: Any, *, k: Any) -> Any:
        return {"a": p["x"] + k, "b": np.float32(1)}

    kinds = {"a": X, "b": np.float32(0)}
    out = fgrad.jit(lambda x: fgrad.pure_callback(split, kinds, {"x": x}, k=2.0))(X)
    np.testing.assert_array_equal(out["a"], X + 2)
    assert out["b"].dtype == np.float32


def test_print(capsys: pytest.CaptureFixture[str]) -> None:
    @fgrad.jit
    def f(x: Any) -> Any:
        fgrad.debug.print("x={x} and {}", 3, x=x)
        return x

    f(1.5)
    f(2.5)
    assert capsys.readouterr().out == "x=1.5 and 3\nx=2.5 and 3\n"
    with pytest.raises(ArgumentError, match="nothing for"):
        fgrad.debug.print("{y}", 1)


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: f,
        fgrad.jit,
        fgrad.grad,
        lambda f: fgrad.jit(fgrad.grad(f)),
        lambda f: fgrad.grad(fgrad.jit(f)),
    ],
)
def test_values_are_names_in_the_debugger(
    transform: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def f(x: Any) -> Any:
        total = np.sum(x * x)
        fgrad.debug.breakpoint(x=x, total=total)
        return total

    g = transform(f)
    for _ in range(2):
        monkeypatch.setattr("sys.stdin", io.StringIO("p x\np total * 2\nc\n"))
        g(X)
        shown = capsys.readouterr().out
        assert "array([1., 2.])" in shown and "(fgrad) np.float64(10.0)" in shown
        assert "-> fgrad.debug.breakpoint(x=x, total=total)" in shown


@pytest.mark.parametrize("typed", ["q\n", ""])
@pytest.mark.parametrize("compiled", [False, True])
def test_leaving_the_debugger_ends_the_program(
    typed: str, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def f(x: Any) -> Any:
        fgrad.debug.breakpoint(x=x)
        return x

    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    tracer = sys.gettrace()
    with pytest.raises(bdb.BdbQuit):
        (fgrad.jit(f) if compiled else f)(X)
    assert sys.gettrace() is tracer


@pytest.mark.parametrize("transform", [lambda f: f, fgrad.jit, fgrad.grad])
def test_print_shows_other_objects_too(transform: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        fgrad.debug.print("{} {fmt}: {x:{w}.1f} {d[a]}", "layer", fmt=None, x=x, w=6, d={"a": "b"})
        return x * x

    transform(f)(1.5)
    assert capsys.readouterr().out == "layer None:    1.5 b\n"
    for wrong in ("{x:{width}}", "{2}", 3):
        with pytest.raises(ArgumentError, match=r"debug\.print"):
            fgrad.debug.print(wrong, x=1.0)  # type: ignore[arg-type]


def test_blocks_that_overlap_leave_nothing_behind() -> None:
    before = fgrad.config.nans, fgrad.config.check_index
    for make in (fgrad.debug.nans, fgrad.debug.check_index):
        one, two = make(), make()
        one.__enter__()
        two.__enter__()
        one.__exit__(None, None, None)
        assert fgrad.config.nans or fgrad.config.check_index
        two.__exit__(None, None, None)
        assert (fgrad.config.nans, fgrad.config.check_index) == before

    def work() -> None:
        for _ in range(30):
            with np.errstate(all="ignore"), fgrad.debug.nans(), pytest.raises(NanError):
                fgrad.grad(np.sqrt)(-1.0)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert (fgrad.config.nans, fgrad.config.check_index) == before
    with np.errstate(all="ignore"):
        assert np.isnan(fgrad.grad(np.sqrt)(-1.0))


def test_errors_in_callbacks_reach_the_caller() -> None:
    def fail(_x: Any) -> None:
        raise RuntimeError("as asked")

    def f(x: Any) -> Any:
        fgrad.debug.callback(fail, x)
        return x + 1

    with pytest.raises(RuntimeError, match="as asked"):
        fgrad.jit(f)(1.0)


def _forward(x: Any) -> Any:
    y = x - 2.0
    z = np.sqrt(y)
    return np.sum(z)


def _backward(x: Any) -> Any:
    y = np.exp(x * 1000.0)
    return np.sum(1.0 / (1.0 + y))


TRANSFORMS = [
    lambda f: fgrad.grad(f),
    lambda f: fgrad.jit(fgrad.grad(f)),
    lambda f: fgrad.grad(fgrad.jit(f)),
    lambda f: lambda x: fgrad.vmap(fgrad.grad(f))(x[None]),
    lambda f: lambda x: fgrad.jit(fgrad.vmap(fgrad.grad(f)))(x[None]),
    lambda f: lambda x: fgrad.vmap(fgrad.jit(fgrad.grad(f)))(x[None]),
    lambda f: lambda x: fgrad.vmap(fgrad.vmap(fgrad.grad(f)))(x[None, None]),
    lambda f: lambda x: fgrad.grad(lambda x: np.sum(fgrad.vmap(f)(x)))(x[None]),
    lambda f: lambda x: fgrad.jvp(fgrad.grad(f), (x,), (x,)),
    lambda f: lambda x: fgrad.grad(lambda x: np.sum(fgrad.grad(f)(x)))(x),
]


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_nan_forward(transform: Any) -> None:
    raises = pytest.raises(NanError, match="sqrt produced a NaN")
    with np.errstate(all="ignore"), raises as found, fgrad.debug.nans():
        transform(_forward)(np.array([1.0, 3.0]))
    assert "z = np.sqrt(y)" in str(found.value)
    assert "backward:" not in str(found.value)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_nan_backward(transform: Any) -> None:
    raises = pytest.raises(NanError)
    with np.errstate(all="ignore"), raises as found, fgrad.debug.nans(infs=False):
        transform(_backward)(np.array([1.0, 3.0]))
    text = str(found.value)
    assert "backward: the derivative of this line" in text
    assert "y = np.exp(x * 1000.0)" in text


def _overflow(x: Any) -> Any:
    y = np.exp(x * 300.0)
    return np.sum(y)


def _steep(x: Any) -> Any:
    y = np.sqrt(x - 1.0)
    return np.sum(y)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("f", [_overflow, _steep])
def test_an_infinity_of_finite_numbers_is_found(transform: Any, f: Any) -> None:
    raises = pytest.raises(NanError, match="produced an infinity")
    with np.errstate(all="ignore"), raises as found, fgrad.debug.nans():
        transform(f)(np.array([1.0, 3.0]))
    text = str(found.value)
    assert "y = np." in text and "infs=False" in text
    assert f is _overflow or "backward" in text or "jvp" in repr(transform)


def test_infinities_that_are_given_are_no_error() -> None:
    x = np.array([1.0, np.inf, -np.inf])
    with fgrad.debug.nans():
        assert fgrad.jit(lambda v: np.sum(np.where(v > 1, -np.inf, v)))(x) == -np.inf
        assert fgrad.grad(lambda v: np.max(v[:1]))(x)[0] == 1.0
        assert fgrad.grad(lambda v: np.max(np.pad(v[:1], 1, constant_values=-np.inf)))(x)[0] == 1.0
        assert fgrad.grad(lambda v: np.max(v, initial=-np.inf, where=v < 2))(x)[0] == 1.0
        np.testing.assert_array_equal(np.exp(x[1:]), [np.inf, 0.0])
    with np.errstate(all="ignore"), fgrad.debug.nans(infs=False):
        assert fgrad.grad(np.log)(0.0) == np.inf
        with pytest.raises(NanError, match="infinity"), fgrad.debug.nans():
            fgrad.grad(np.log)(0.0)
        assert fgrad.grad(np.log)(0.0) == np.inf


def test_nan_in_a_loop() -> None:
    def body(c: Any, x: Any) -> Any:
        return c + np.log(x), c

    with (
        np.errstate(all="ignore"),
        pytest.raises(NanError, match="log produced"),
        fgrad.debug.nans(),
    ):
        fgrad.jit(lambda xs: fgrad.lax.scan(body, 0.0, xs)[0])(np.array([1.0, -1.0]))


def test_what_is_nan_already_is_no_error_and_all_is_restored() -> None:
    x = np.array([np.nan, 4.0])
    with fgrad.debug.nans(), fgrad.debug.nans():
        np.testing.assert_array_equal(fgrad.jit(np.sqrt)(x), [np.nan, 2.0])
    with np.errstate(all="ignore"):
        assert np.isnan(fgrad.grad(_forward)(np.array([1.0, 3.0]))[0])
        assert np.isnan(fgrad.jit(_forward)(np.array([1.0, 3.0])))


def test_indices_are_checked_where_asked() -> None:
    x = np.arange(4.0)
    f = fgrad.jit(lambda x, i: x[i] * 2, capture=False)
    assert f(x, 9) == 6.0
    with fgrad.debug.check_index():
        assert f(x, -4) == 0.0
        with pytest.raises(IndexError, match="index 9 is out of bounds for axis 0 with size 4"):
            f(x, 9)
        with pytest.raises(IndexError, match="index -5"):
            fgrad.vmap(fgrad.grad(f), in_axes=(None, 0))(x, np.array([1, -5]))
        with pytest.raises(IndexError, match="index 4"):
            fgrad.jit(lambda x, i: x.at[i].add(1.0))(x, np.array([3, 4]))
    assert f(x, 9) == 6.0
