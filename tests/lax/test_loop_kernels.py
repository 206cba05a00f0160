"""Loops that are one kernel: which are, what the kernels look like, and that they are right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad import lax
from fgrad.compile.kernel.ir import Break, Kernel, Loop, Op
from fgrad.compile.kernel.rewrite import walk

RNG = np.random.default_rng(11)


def kernels(f: Callable[..., Any], *args: Any) -> list[Kernel]:
    """The kernels of a compiled function, loops included."""
    steps = fgrad.inspect(f)(*args).passes["control"][1]
    return [step.kernel for step in steps if hasattr(step, "kernel")]


def loops(kernel: Kernel, kind: str) -> list[Loop]:
    return [s for s in walk(kernel.body) if isinstance(s, Loop) and s.kind == kind]


def same(f: Callable[..., Any], *args: Any, rtol: float = 1e-10) -> None:
    fgrad.tree.map(
        lambda p, q: np.testing.assert_allclose(p, q, rtol=rtol, atol=rtol),
        fgrad.jit(f)(*args),
        f(*args),
    )


def slope(s: Any) -> Any:
    return np.stack([10.0 * (s[1] - s[0]), s[0] * (28.0 - s[2]) - s[1], s[0] * s[1] - s[2]])


def test_small_scan_is_one_serial_loop_over_scalars() -> None:
    def f(s: Any) -> Any:
        return lax.fori_loop(0, 50, lambda i, s: s + 0.01 * slope(s), s)

    (kernel,) = kernels(f, np.ones(3))
    (loop,) = loops(kernel, "serial")
    assert loop.extent == 50 and not any([isinstance(s, Loop) for s in loop.body])
    assert any([isinstance(s, Op) and s.op == "muladd" for s in loop.body])
    same(f, np.ones(3))


def test_a_loop_of_no_steps_gives_a_large_carry_back() -> None:
    x = RNG.normal(size=(12, 64))
    same(lambda x: lax.fori_loop(0, 0, lambda _, c: c - np.max(c, axis=1, keepdims=True), x), x)


def test_equal_products_cancel() -> None:
    def f(x: Any) -> Any:
        return lax.fori_loop(0, 3, lambda i, x: x * x - x * x + 0.0, x)

    assert fgrad.jit(f)(np.float64(1.1)) == 0.0


def test_gradient_stacks_the_carry_alone() -> None:
    def f(s: Any) -> Any:
        return np.sum(lax.fori_loop(0, 50, lambda i, s: s + 0.01 * slope(s), s) ** 2)

    stages = fgrad.inspect(fgrad.grad(f))(np.ones(3))
    scans = [e for e in stages.passes["invariants"].eqns if e.prim.name == "scan"]
    stacked = [v.aval.shape for e in scans for v in e.outputs[e.params["n_carry"] :]]
    assert stacked == [(50, 3)]
    np.testing.assert_allclose(
        fgrad.jit(fgrad.grad(f))(np.ones(3)), fgrad.grad(f)(np.ones(3)), rtol=1e-9
    )


def test_array_writes_are_in_place() -> None:
    def f(y: Any, x: Any) -> Any:
        return lax.fori_loop(1, 40, lambda i, y: y.at[i].set(np.sin(y[i - 1]) + x[i]), y)

    y, x = RNG.normal(size=(2, 40))
    *_, kernel = kernels(f, y, x)
    assert [b.role for b in kernel.buffers].count("inout") == 1
    gathers = [s for s in walk(kernel.body) if getattr(s, "gather", ())]
    assert not gathers, "indices are affine in the loop"
    expected = y.copy()
    for i in range(1, 40):
        expected[i] = np.sin(expected[i - 1]) + x[i]
    np.testing.assert_allclose(fgrad.jit(f)(y, x), expected, rtol=1e-12)
    same(fgrad.grad(lambda y, x: np.sum(f(y, x) ** 2), argnums=(0, 1)), y, x)


@pytest.mark.parametrize("lower", [-3, 0, 2])
def test_indices_out_of_bounds(lower: int) -> None:
    def f(y: Any) -> Any:
        def step(i: Any, y: Any) -> Any:
            return y.at[i + 3].add(y[i] * 0.5).at[2 * i].max(0.25)

        return lax.fori_loop(lower, lower + 25, step, y)

    same(f, RNG.normal(size=20))


def test_while_is_a_loop_with_a_leave() -> None:
    def f(x: Any) -> Any:
        return lax.while_loop(lambda s: s[0] < 100.0, lambda s: (s[0] * 1.5, s[1] + 1), (x, 0))

    (kernel,) = kernels(f, 1.0)
    (loop,) = loops(kernel, "while")
    assert sum([isinstance(s, Break) for s in loop.body]) == 1
    for x in (1.0, 1e9, -1.0 + 1.5, 99.9):
        assert fgrad.jit(f)(x) == f(x)


def escape(re: Any, im: Any) -> Any:
    def going(s: Any) -> Any:
        return np.logical_and(s[0] * s[0] + s[1] * s[1] < 4.0, s[2] < 30)

    def step(s: Any) -> Any:
        x, y, n = s
        return x * x - y * y + re, 2.0 * x * y + im, n + 1

    return lax.while_loop(going, step, (re * 0.0, im * 0.0, 0))[2]


@pytest.mark.parametrize("shape", [(9,), (16,), (40,), (3, 37), (17, 8), (2, 3, 11)])
def test_lanes_of_a_while_end_in_blocks(shape: tuple[int, ...]) -> None:
    f = escape
    for _ in shape:
        f = fgrad.vmap(f)
    re, im = RNG.uniform(-2, 0.5, shape), RNG.uniform(-1, 1, shape)
    expected = np.vectorize(lambda a, b: escape(a, b))(re, im)
    np.testing.assert_array_equal(fgrad.jit(f)(re, im), expected)
    found = kernels(f, re, im)
    assert any([loop.lanes > 1 for k in found for loop in loops(k, "parallel")])


def test_any_of_an_array_is_not_a_lane() -> None:
    """Without the masks of `vmap`, all elements go on until the last one ends."""

    def f(x: Any) -> Any:
        return lax.while_loop(lambda x: np.any(x < 10.0), lambda x: x * 2.0, x)

    x = np.linspace(0.5, 20.0, 64)
    np.testing.assert_array_equal(fgrad.jit(f)(x), f(x))


def test_batched_scan_has_a_loop_for_each_lane() -> None:
    def f(s: Any, xs: Any) -> Any:
        return lax.scan(lambda s, x: (s + 0.01 * slope(s) * x, s[0]), s, xs)

    many = fgrad.vmap(f, in_axes=(0, None))
    s, xs = RNG.normal(size=(100, 3)), RNG.normal(size=20)
    found = [k for k in kernels(many, s, xs) if loops(k, "serial")]
    assert [loop.lanes > 1 for k in found for loop in loops(k, "parallel")] == [True]
    same(many, s, xs)


def test_large_bodies_are_left_to_the_host() -> None:
    def f(a: Any) -> Any:
        return lax.fori_loop(0, 3, lambda i, a: np.tanh(a @ a * 0.1), a)

    a = RNG.normal(size=(40, 40))
    same(f, a)
    assert not [k for k in kernels(f, a) if loops(k, "serial") and len(k.body) > 1]


def test_gradients_of_weights_are_one_product() -> None:
    w, xs = RNG.normal(size=(30, 40)) * 0.1, RNG.normal(size=(7, 5, 30))

    def f(w: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = np.tanh(x @ w + h)
            return h, None

        return np.sum(lax.scan(step, np.zeros((5, 40)), xs)[0])

    program = fgrad.inspect(fgrad.grad(f))(w).passes["invariants"]
    products = [e for e in program.eqns if e.prim.name == "dot_general"]
    assert [e.inputs[0].aval.shape for e in products] == [(35, 30)]
    np.testing.assert_allclose(fgrad.jit(fgrad.grad(f))(w), fgrad.grad(f)(w), rtol=1e-9, atol=1e-9)


def test_invariants_are_computed_before() -> None:
    def f(w: Any, x: Any) -> Any:
        return lax.fori_loop(0, 4, lambda i, x: np.tanh(np.exp(w) @ x), x)

    w, x = RNG.normal(size=(50, 50)) * 0.1, RNG.normal(size=50)
    program = fgrad.inspect(f)(w, x).passes["invariants"]
    assert [e.prim.name for e in program.eqns][:1] == ["exp"]
    same(f, w, x)


@pytest.mark.parametrize("n", [1, 2, 4, 6, 9])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_solutions_in_loops(n: int, dtype: type) -> None:
    a = (RNG.normal(size=(n, n)) + 2 * np.eye(n)).astype(dtype)
    xs = RNG.normal(size=(5, n)).astype(dtype)

    def f(a: Any, xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            c = np.linalg.solve(a + np.outer(x, c) * 0.1, x)
            low = np.linalg.cholesky(a @ a.T + np.eye(n, dtype=a.dtype))
            return c, np.sum(low) + np.linalg.det(a)

        c, ys = lax.scan(step, xs[0], xs)
        return np.sum(c * c) + np.sum(ys)

    tolerance = 1e-3 if dtype is np.float32 else 1e-8
    same(f, a, xs, rtol=tolerance)
    same(fgrad.grad(f, argnums=(0, 1)), a, xs, rtol=tolerance)


def test_singular_matrices_in_loops_raise() -> None:
    def f(a: Any, n: Any) -> Any:
        return lax.fori_loop(0, n, lambda i, x: np.linalg.solve(a, x), np.ones(3))

    run = fgrad.jit(f)
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        run(np.zeros((3, 3)), 2)
    np.testing.assert_array_equal(run(np.zeros((3, 3)), 0), np.ones(3))
    np.testing.assert_array_equal(run(np.eye(3), 2), np.ones(3))


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64, np.uint64, np.float16, bool])
def test_dtypes_of_carries(dtype: type) -> None:
    def f(c: Any, xs: Any) -> Any:
        return lax.scan(lambda c, x: (np.where(x, c, np.logical_not(c).astype(dtype)), c), c, xs)

    same(f, np.array([0, 1, 3]).astype(dtype), np.array([True, False, True, False]))


def test_complex_carries() -> None:
    def f(z: Any, xs: Any) -> Any:
        return lax.scan(lambda z, x: (z * z + x, abs(z)), z, xs)

    same(f, 0.3 + 0.2j, RNG.normal(size=6) * 0.3)


def test_nan_and_infinity_stay() -> None:
    def f(x: Any) -> Any:
        def step(i: Any, s: Any) -> Any:
            return np.maximum(s, x * 2.0) + np.where(s > 3, np.inf, 0.0)

        return lax.fori_loop(0, 3, step, x)

    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 2.0])
    np.testing.assert_array_equal(fgrad.jit(f)(x), f(x))


def test_a_long_carry_needs_no_stack() -> None:
    def f(y: Any) -> Any:
        return lax.fori_loop(0, 5, lambda i, y: y.at[i].add(1.0), y)

    np.testing.assert_array_equal(fgrad.jit(f)(np.zeros(2_000_000))[:6], [1, 1, 1, 1, 1, 0])


def test_results_that_nobody_reads_are_not_computed() -> None:
    def f(x: Any, w: Any) -> Any:
        def step(c: Any, i: Any) -> Any:
            return (c[0] + i, np.tanh(w @ c[1])), np.exp(c[1])

        return lax.scan(step, (0.0, x), np.arange(4.0))[0][0]

    x, w = RNG.normal(size=5), RNG.normal(size=(5, 5))
    (scan,) = [e for e in fgrad.inspect(f)(x, w).passes["invariants"].eqns if e.prim.name == "scan"]
    assert len(scan.outputs) == 1 and len(scan.params["body"].eqns) == 1
    assert fgrad.jit(f)(x, w) == 6.0


@pytest.mark.parametrize("n", [5, 6, 7, 8, 9, 17, 40])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_functions_of_several_numbers(n: int, dtype: type) -> None:
    def f(h: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = lax.cond(x > 0, np.tanh, lambda h: np.exp(-h * h) * np.sin(np.roll(h, 1)), h)
            h = lax.fori_loop(0, 3, lambda i, h: np.log1p(np.abs(h[::-1])) + h * x, h)
            return h, np.sum(h)

        h, ys = lax.scan(step, h, xs)
        return np.sum(h) + np.sum(ys)

    h, xs = RNG.normal(size=n).astype(dtype), RNG.normal(size=9).astype(dtype)
    tolerance = 1e-3 if dtype is np.float32 else 1e-9
    same(f, h, xs, rtol=tolerance)
    same(fgrad.grad(f), h, xs, rtol=tolerance)
    many = np.stack([h * k for k in range(11)]).astype(dtype)
    found = fgrad.jit(fgrad.vmap(f, in_axes=(0, None)))(many, xs)
    np.testing.assert_allclose(found, [f(x, xs) for x in many], rtol=tolerance)


def test_lanes_that_address_memory() -> None:
    """Each lane reads its own element of an array that its loop writes."""

    def f(y: Any, k: Any) -> Any:
        def step(i: Any, y: Any) -> Any:
            return y.at[(k + i) % 20].set(np.sin(y[(k * i) % 20] + 0.1))

        return lax.fori_loop(0, 7, step, y)

    y, k = RNG.normal(size=(12, 20)), np.arange(12)
    expected = [fgrad.jit(f)(y[j], j) for j in range(12)]
    np.testing.assert_allclose(fgrad.jit(fgrad.vmap(f))(y, k), expected, rtol=1e-12)
    np.testing.assert_allclose(
        fgrad.jit(fgrad.vmap(f, in_axes=(None, 0)))(y[0], k),
        [fgrad.jit(f)(y[0], j) for j in range(12)], rtol=1e-12,
    )  # fmt: skip


def test_inner_loops_that_read_what_they_began_with() -> None:
    def swept(b: Any, m: Any) -> Any:
        more = lambda s: s[0] < m  # noqa: E731
        step = lambda s: (s[0] + 1, s[1].at[s[0]].set(b[19 - s[0]] * 0.5 + s[1][s[0]]))  # noqa: E731
        return lax.while_loop(more, step, (0, b))[1]

    def f(b: Any, n: Any, m: Any) -> Any:
        return lax.fori_loop(0, n, lambda i, b: swept(b, m), b)

    def g(b: Any, n: Any) -> Any:
        turned = lambda b: lambda j, c: c.at[j].set(b[19 - j] * 0.5 + c[j])  # noqa: E731
        return lax.fori_loop(0, n, lambda i, b: lax.fori_loop(0, 20, turned(b), b), b)

    same(f, np.arange(20.0), 3, 20)
    same(g, np.arange(20.0), 3)


def test_lanes_that_write_at_places_of_their_own() -> None:
    def f(x: Any, n: Any) -> Any:
        def step(s: Any) -> Any:
            i, x, y = s
            y = y.at[(i + n) % 21].set(x).at[(i * n) % 13].add(0.1 * x)
            return i + 1, np.sin(x) + y[(i * 7) % 20], y

        more = lambda s: np.logical_and(s[0] < 2 * n, s[1] > -3.0)  # noqa: E731
        return lax.while_loop(more, step, (0, x, np.zeros(20)))[2]

    x, n = np.linspace(0.0, 1.0, 37), np.arange(37)
    many = fgrad.vmap(f)
    (kernel,) = [k for k in kernels(many, x, n) if loops(k, "while")]
    assert len(loops(kernel, "parallel")) == 1 and loops(kernel, "parallel")[0].lanes
    same(many, x, n)
    same(fgrad.vmap(fgrad.vmap(f, (0, None)), (None, 0)), x, n[:9])
    same(
        fgrad.vmap(lambda x, n: lax.fori_loop(0, 3, lambda i, y: y + f(x, n + i), np.ones(20))),
        x,
        n,
    )


def test_lanes_of_large_bodies_write_where_they_go_on() -> None:
    w = RNG.normal(size=(30, 30)) / 6

    def f(x: Any, n: Any) -> Any:
        def step(s: Any) -> Any:
            i, x, y = s
            return i + 1, np.tanh(w @ x), y.at[(i * n) % 9].set(x).at[(i + n) % 11].add(0.1 * x)

        return lax.while_loop(lambda s: s[0] < n, step, (0, x, np.zeros((9, 30))))[2]

    same(fgrad.vmap(f), RNG.normal(size=(7, 30)), np.array([3, 0, 12, 1, 5, 9, 2]))
