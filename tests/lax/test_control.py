"""Loops and branches against Python: values, derivatives, batches, compiled or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fgrad
from fgrad import errors, lax
from fgrad.config import config

RNG = np.random.default_rng(7)
W, C, X = RNG.normal(size=(3, 3)), RNG.normal(size=3), RNG.normal(size=(5, 3))


def cell(w: Any, c: Any, xs: Any) -> Any:
    last, ys = lax.scan(lambda c, x: (np.tanh(w @ c + x), np.sum(c**2)), c, xs)
    return np.sum(ys) + np.sum(last)


def cell_python(w: Any, c: Any, xs: Any) -> Any:
    total = 0.0
    for x in xs:
        total = total + np.sum(c**2)
        c = np.tanh(w @ c + x)
    return total + np.sum(c)


def same(a: Any, b: Any) -> None:
    fgrad.tree.map(lambda p, q: np.testing.assert_allclose(p, q, rtol=1e-9, atol=1e-12), a, b)


TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "value": lambda f: f,
    "grad": lambda f: fgrad.grad(f, argnums=(0, 1, 2)),
    "jacfwd": lambda f: fgrad.jacfwd(f, argnums=(0, 1, 2)),
    "hessian": fgrad.hessian,
    "jacrev of jacfwd": lambda f: fgrad.jacrev(fgrad.jacfwd(f)),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_scan_is_its_python_loop(name: str) -> None:
    transform = TRANSFORMS[name]
    expected = transform(cell_python)(W, C, X)
    same(transform(cell)(W, C, X), expected)
    same(fgrad.jit(transform(cell))(W, C, X), expected)
    same(transform(fgrad.jit(cell))(W, C, X), expected)


@pytest.mark.parametrize("axes", [(0, None, None), (None, 0, None), (None, None, 1), (2, 1, 0)])
def test_scan_in_batches(axes: tuple[int | None, ...]) -> None:
    args = [
        x if a is None else np.moveaxis(np.stack([x, 2 * x, -x]), 0, a)
        for x, a in zip((W, C, X), axes, strict=True)
    ]
    for f in (cell, fgrad.grad(cell)):
        expected = [
            f(*[x if a is None else np.take(x, k, a) for x, a in zip(args, axes, strict=True)])
            for k in range(3)
        ]
        same(fgrad.vmap(f, in_axes=axes)(*args), np.stack(expected))
        same(fgrad.jit(fgrad.vmap(f, in_axes=axes))(*args), np.stack(expected))


@pytest.mark.parametrize("length", range(4))
@pytest.mark.parametrize("reverse", [False, True])
def test_scan_of_any_length(length: int, reverse: bool) -> None:
    def f(c: Any, xs: Any) -> Any:
        return lax.scan(
            lambda c, x: ({"a": c["a"] * 2 + x, "n": c["n"] + 1}, c), c, xs, None, reverse
        )

    c, xs = {"a": 1.0, "n": 0}, np.arange(float(length))
    a, n, before = 1.0, 0, []
    for x in xs[::-1] if reverse else xs:
        before.append(a)
        a, n = a * 2 + x, n + 1
    for run in (f, fgrad.jit(f)):
        last, ys = run(c, xs)
        assert last == {"a": a, "n": n}
        np.testing.assert_array_equal(ys["a"], before[::-1] if reverse else before)
        assert ys["a"].shape == (length,) and ys["n"].dtype == np.int64


def test_loops_inside_of_branches_inside_of_loops() -> None:
    def nested(x: Any) -> Any:
        def inner(c: Any, i: Any) -> Any:
            return lax.cond(i % 2 == 0, lambda c: c * x, lambda c: c + np.sin(x), c), None

        return lax.fori_loop(0, 3, lambda i, c: lax.scan(inner, c + i, np.arange(4))[0], 1.0)

    def python(x: Any) -> Any:
        c = 1.0
        for i in range(3):
            c = c + i
            for j in range(4):
                c = c * x if j % 2 == 0 else c + np.sin(x)
        return c

    for f, g in ((nested, python), (fgrad.grad(nested), fgrad.grad(python))):
        same(f(1.1), g(1.1))
        same(fgrad.jit(f)(1.1), g(1.1))
    same(fgrad.grad(fgrad.grad(nested))(1.1), fgrad.grad(fgrad.grad(python))(1.1))
    xs = np.array([0.3, 1.1])
    same(fgrad.jit(fgrad.vmap(fgrad.grad(nested)))(xs), [fgrad.grad(python)(x) for x in xs])


def test_while_loop() -> None:
    def f(x: Any) -> Any:
        return lax.while_loop(lambda s: s[0] < 100, lambda s: (s[0] * x, s[1] + 1), (x, 0))

    for run in (f, fgrad.jit(f)):
        assert run(2.0) == (128.0, 6)
        assert run(200.0) == (200.0, 0)
    many = fgrad.jit(fgrad.vmap(f))(np.array([2.0, 3.0, 200.0]))
    same(many, (np.array([128.0, 243.0, 200.0]), np.array([6, 4, 0])))
    same(fgrad.jit(lambda x: fgrad.jvp(lambda x: f(x)[0], (x,), (1.0,)))(2.0), (128.0, 7 * 64.0))


def test_while_loop_in_reverse() -> None:
    def f(x: Any, most: int | None = None) -> Any:
        return lax.while_loop(lambda y: y < 100, lambda y: y * x, x, max_steps=most)

    assert fgrad.grad(f)(2.0) == 7 * 64.0  # the steps are counted where the values are known
    assert fgrad.grad(fgrad.grad(f))(2.0) == 42 * 32.0
    assert fgrad.grad(lambda x: f(x, 10))(2.0) == 7 * 64.0
    assert fgrad.jit(fgrad.grad(lambda x: f(x, 10)))(2.0) == 7 * 64.0
    assert fgrad.jit(fgrad.grad(f))(2.0) == 7 * 64.0
    assert fgrad.jit(fgrad.grad(fgrad.grad(f)))(2.0) == 42 * 32.0


def test_fori_loop() -> None:
    def f(n: Any, x: Any) -> Any:
        return lax.fori_loop(0, n, lambda i, y: y * x + i, 1.0)

    for n in (0, 1, 6):
        expected = 1.0
        for i in range(n):
            expected = expected * 1.5 + i
        assert f(n, 1.5) == expected
        assert fgrad.jit(f)(n, 1.5) == expected
        same(fgrad.jit(lambda x, n=n: f(n, x))(1.5), expected)
    same(fgrad.grad(lambda x: f(4, x))(1.5), fgrad.jit(fgrad.grad(lambda x: f(4, x)))(1.5))
    assert lax.fori_loop(5, 2, lambda i, x: x + 1, 0) == 0


def test_cond_and_switch() -> None:
    def f(x: Any) -> Any:
        return lax.cond(x > 0, lambda x: np.sin(x) * x, lambda x: x**3, x)

    def g(k: Any, x: Any) -> Any:
        return lax.switch(k, [lambda x: x, np.sin, lambda x: x * x], x)

    for x in (2.0, -2.0):
        value, slope = (np.sin(x) * x, np.cos(x) * x + np.sin(x)) if x > 0 else (x**3, 3 * x**2)
        for wrap in (lambda h: h, fgrad.jit):
            same(wrap(f)(x), value)
            same(wrap(fgrad.grad(f))(x), slope)
    xs = np.array([2.0, -2.0])
    same(fgrad.vmap(fgrad.grad(f))(xs), [fgrad.grad(f)(x) for x in xs])
    for k, expected in ((-3, 0.5), (0, 0.5), (1, np.sin(0.5)), (2, 0.25), (9, 0.25)):
        assert g(k, 0.5) == expected
        same(fgrad.jit(g)(k, 0.5), expected)
    same(
        fgrad.jit(fgrad.vmap(g, in_axes=(0, None)))(np.arange(-1, 4), 0.5),
        [0.5, 0.5, np.sin(0.5), 0.25, 0.25],
    )


def test_map_and_associative_scan() -> None:
    xs = np.arange(7.0)
    for size in (None, 1, 3, 7, 10):
        f = lambda x, size=size: lax.map(lambda x: x**2 + 1, x, batch_size=size)  # noqa: E731
        same(f(xs), xs**2 + 1)
        same(fgrad.jit(f)(xs), xs**2 + 1)
    same(lax.associative_scan(np.add, xs), np.cumsum(xs))
    same(
        fgrad.jit(lambda x: lax.associative_scan(np.add, x, reverse=True))(xs),
        np.cumsum(xs[::-1])[::-1],
    )


def test_slices() -> None:
    x = np.arange(12.0).reshape(3, 4)
    same(lax.dynamic_slice(x, (1, 3), (2, 2)), x[1:3, 2:4])
    same(lax.dynamic_slice(x, (-1, 0), (1, 4)), x[2:])
    same(fgrad.jit(lambda i: lax.dynamic_index_in_dim(x, i, 1, keepdims=False))(-1), x[:, 3])
    y = lax.dynamic_update_slice(x, np.zeros((1, 2)), (1, 1))
    assert y[1].tolist() == [4, 0, 0, 7] and x[1, 1] == 5
    same(lax.select_n(np.array([0, 1, 2]), x[0, :3], x[1, :3], x[2, :3]), [0.0, 5.0, 10.0])


def test_cards() -> None:
    with pytest.raises(errors.DtypeError, match=r"carry\['a'\]") as found:
        lax.scan(lambda c, x: ({"a": c["a"].astype(np.float32)}, x), {"a": np.zeros(2)}, np.ones(3))
    assert "f64[2]" in str(found.value) and "f32[2]" in str(found.value)
    with pytest.raises(errors.ShapeError, match="carry"):
        lax.fori_loop(0, 3, lambda i, x: np.concatenate([x, x]), np.zeros(2))
    with pytest.raises(errors.ArgumentError, match="structure"):
        lax.while_loop(lambda x: True, lambda x: (x, x), 1.0)
    with pytest.raises(errors.ArgumentError, match="length"):
        lax.scan(lambda c, x: (c, x), 0.0)
    with pytest.raises(errors.ShapeError, match="differ"):
        lax.scan(lambda c, x: (c, x), 0.0, (np.zeros(2), np.zeros(3)))
    with pytest.raises(errors.DtypeError, match="branches"):
        lax.cond(True, lambda x: x, lambda x: x.astype(np.float32), np.zeros(2))
    with config.override(capture=False), pytest.raises(errors.TracedBoolError):
        lax.fori_loop(0, 3, lambda i, x: x if i > 1 else -x, 1.0)


def test_python_numbers_take_the_dtype_of_the_loop() -> None:
    x = np.float32(2)
    assert lax.scan(lambda c, _: (c * x, None), 1.0, None, length=3)[0].dtype == np.float32
    assert lax.fori_loop(0, 3, lambda i, c: c * 0.5, x).dtype == np.float32
    assert lax.fori_loop(0, 3, lambda i, c: c + 0.5, 0) == 1.5
    assert lax.cond(True, lambda: 0, lambda: x).dtype == np.float32


STEPS: dict[str, Callable[..., Any]] = {
    "scale": lambda c, x: 0.7 * c + np.sin(x),
    "branch": lambda c, x: lax.cond(np.sum(c) > x, lambda c: c * 0.5, lambda c: c + 1.0, c),
    "inner": lambda c, x: lax.fori_loop(0, 2, lambda i, c: np.tanh(c) + x * i, c),
    "write": lambda c, x: lax.dynamic_update_index_in_dim(c, c[0] * x, 1, 0),
    "roll": lambda c, x: np.roll(c, 1) * 0.9,
}


@settings(max_examples=12, deadline=None)
@given(
    st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=3),
    st.integers(0, 4),
    st.booleans(),
)
def test_random_programs(names: list[str], length: int, reverse: bool) -> None:
    xs = np.linspace(-0.5, 0.8, length)

    def step(c: Any, x: Any) -> Any:
        for name in names:
            c = STEPS[name](c, x)
        return c, c[0] * x

    def looped(c: Any, xs: Any) -> Any:
        last, ys = lax.scan(step, c, xs, reverse=reverse)
        return np.sum(last * last) + np.sum(ys)

    def unrolled(c: Any, xs: Any) -> Any:
        total = 0.0
        for k in reversed(range(length)) if reverse else range(length):
            c, y = step(c, xs[k])
            total = total + y
        return np.sum(c * c) + total

    c = np.array([0.3, -0.2, 0.5])
    for transform in (lambda f: f, lambda f: fgrad.grad(f, argnums=(0, 1))):
        expected = transform(unrolled)(c, xs)
        same(transform(looped)(c, xs), expected)
        same(fgrad.jit(transform(looped))(c, xs), expected)


def fill(x: Any) -> Any:
    """Writes and reads one element of the carry in each step."""

    def step(i: Any, y: Any) -> Any:
        y[i] = np.sin(1.0 * i) * y[i - 1] + lax.dynamic_index_in_dim(x, i, keepdims=False)
        y[i - 1] += lax.dynamic_index_in_dim(x, i, keepdims=False) * y[i]
        return y

    return lax.fori_loop(1, x.shape[0], step, x * 1.0)


def test_carries_written_in_place() -> None:
    x = np.linspace(0.1, 1.0, 6)
    y = x.copy()
    for i in range(1, 6):
        y[i] = np.sin(1.0 * i) * y[i - 1] + lax.dynamic_index_in_dim(x, i, keepdims=False)
        y[i - 1] += lax.dynamic_index_in_dim(x, i, keepdims=False) * y[i]
    kept = x.copy()
    same(fill(x), y)
    same(fgrad.jit(fill)(x), y)
    jacobian = fgrad.jacfwd(fill)(x)
    same(fgrad.jit(fgrad.jacrev(fill))(x), jacobian)
    same(fgrad.jit(fgrad.jacfwd(fill))(x), jacobian)
    same(fgrad.jit(fgrad.grad(lambda x: np.sum(fill(x))))(x), np.sum(jacobian, 0))
    np.testing.assert_array_equal(x, kept)


def test_shifted_blocks_are_read_before_they_are_written() -> None:
    def f(x: Any) -> Any:
        return lax.fori_loop(0, 3, lambda i, y: lax.dynamic_update_slice(y, 2 * y[:-1], (1,)), x)

    x = np.arange(1.0, 6.0)
    y = x.copy()
    for _ in range(3):
        y[1:] = 2 * y[:-1].copy()
    same(fgrad.jit(f)(x), y)
    swap = fgrad.jit(lambda a, b: lax.fori_loop(0, 3, lambda i, s: (s[1], s[0]), (a, b)))
    same(swap(x, y), (y, x))


def test_one_body_under_many_conditions() -> None:
    class Limit:
        def __init__(self, value: float) -> None:
            self.value = value

    def body(x: Any) -> Any:
        return x * 2.0

    for k in range(12):
        limit = Limit(k + 1.0)
        f = lambda x, limit=limit: lax.while_loop(lambda x: x < limit.value, body, x, 40)  # noqa: E731
        value, slope = fgrad.jit(fgrad.value_and_grad(f))(1.0)
        assert value == slope == f(1.0)
        same(fgrad.jit(fgrad.vmap(f))(np.array([1.0, 3.0])), [f(1.0), f(3.0)])
