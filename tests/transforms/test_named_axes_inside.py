"""Under a named axis everything has the derivatives that it has without: functions, solvers, loops.

A gradient by what all examples share is the sum of each example's.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad import lax
from fgrad.trace import Builder

N = 4
Fun = Callable[..., Any]


def over(f: Fun, in_axes: Any = 0, out_axes: Any = 0) -> Fun:
    return fgrad.vmap(f, in_axes, out_axes, axis_name="i")


def along(f: Fun, w: Any) -> Any:
    """The Hessian times w."""
    return fgrad.jvp(fgrad.grad(f), (w,), (w,))[1]


def quotient(a: Any, b: Any) -> Any:
    def solve(matvec: Fun, y: Any) -> Any:
        return y / matvec(np.ones(3))

    return lax.custom_linear_solve(lambda v: (2.0 + np.tanh(a)) * v, b, solve, solve)


def root(w: Any, x: Any) -> Any:
    def newton(f: Fun, y: Any) -> Any:
        return lax.fori_loop(0, 30, lambda _, y: y - f(y) / (3.0 * y**2 + 1.0), y)

    f = lambda y: y**3 + y - w * x  # noqa: E731
    return lax.custom_root(f, np.ones(3), newton, lambda g, y: y / g(np.ones(3)))


def in_place(w: Any, x: Any) -> Any:
    y = np.zeros(3)
    y[0] = w[0]
    y[1:] = x[1:] * w[1:]
    y *= 2.0
    return y


def branch(w: Any, x: Any) -> Any:
    """One branch gives integers, which are converted."""
    y = 1.0 if np.sum(x) > 0 else 2
    return w * y * x


def steps(w: Any, x: Any) -> Any:
    return lax.scan(lambda c, k: (np.sin(c * w + x * k), None), x, np.arange(6.0), checkpoint=2)[0]


def lasting(w: Any, x: Any) -> Any:
    return lax.while_loop(lambda s: np.sum(s) < 9.0, lambda s: s * 1.7 + np.abs(w * x), np.abs(x))


def counted(w: Any, x: Any) -> Any:
    step = lambda s: (s[0] + 1.0, np.sin(s[1] * w) + x)  # noqa: E731
    return lax.while_loop(lambda s: s[0] < 3.5, step, (0.0, x))[1]


def chunks(w: Any, x: Any) -> Any:
    return fgrad.vmap(lambda k: np.sin(w * k * x), chunk_size=2)(np.arange(1.0, 5.0))


def one_by_one(w: Any, x: Any) -> Any:
    return fgrad.vmap(fgrad.sequential_vmap(lambda k: np.sin(w * k * x)))(np.arange(1.0, 5.0))


FUNCTIONS: dict[str, Fun] = {
    "quotient by what is shared": quotient,
    "quotient of what is shared": lambda w, x: quotient(x, w),
    "root": root,
    "in place": in_place,
    "branch": branch,
    "scan with checkpoints": steps,
    "while that ends apart": lasting,
    "while": counted,
    "chunks": chunks,
    "one by one": one_by_one,
    "transposed": lambda w, x: np.outer(w, x).T @ w,
    "jit of transposed": lambda w, x: fgrad.jit(lambda w: np.outer(w, x).T)(w) @ w,
    "solve": lambda w, x: np.linalg.solve(np.eye(3) * 3 + np.outer(w, x), x),
    "svd": lambda w, x: np.linalg.svd(np.eye(3) * 3 + np.outer(w, x))[1],
    "fft": lambda w, x: np.abs(np.fft.fft(w * x)),
    "cumsum": lambda w, x: np.cumsum(w * x),
    "sort": lambda w, x: np.sort(w * x),
    "prod": lambda w, x: np.prod(w * x),
    "max": lambda w, x: np.max(w * x),
    "take": lambda w, x: w[np.argsort(x)] * x,
    "where": lambda w, x: np.where(x > 0, w, w * w),
    "clip": lambda w, x: np.clip(w * x, -0.2, 0.2),
    "interp": lambda w, x: np.interp(x, np.arange(3.0), w),
    "convolve": lambda w, x: np.convolve(w, x),
    "norm": lambda w, x: np.linalg.norm(w - x),
    "pad": lambda w, x: np.pad(w, 1) * np.pad(x, 1),
    "logaddexp": lambda w, x: np.logaddexp(w, x),
    "at": lambda w, x: fgrad.at(w)[np.argmax(x)].add(x[0]),
    "memory": lambda w, x: fgrad.checkpoint(lambda w: np.sin(w * x))(w),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str, rng: np.random.Generator) -> None:
    f, w, x = FUNCTIONS[name], rng.normal(size=3), rng.normal(size=(N, 3))

    def loss(w: Any, x: Any) -> Any:
        return lax.psum(np.sum(np.sin(f(w, x))), "i")

    def alone(x: Any) -> Fun:
        return lambda w: np.sum(np.sin(f(w, x)))

    gradient = np.sum([fgrad.grad(alone(v))(w) for v in x], 0)
    curvature = np.sum([along(alone(v), w) for v in x], 0)
    forms: list[Callable[[Fun], Fun]] = [lambda g: g, fgrad.jit]
    for form in forms:
        got = over(form(fgrad.grad(loss)), (None, 0), None)(w, x)
        np.testing.assert_allclose(got, gradient, rtol=1e-9, atol=1e-11)
        inner = lambda w, x, form=form: along(lambda w: form(loss)(w, x), w)  # noqa: E731
        np.testing.assert_allclose(
            over(inner, (None, 0), None)(w, x), curvature, rtol=1e-7, atol=1e-9
        )
    outside = fgrad.jit(fgrad.grad(lambda w: over(loss, (None, 0), None)(w, x)))
    np.testing.assert_allclose(outside(w), gradient, rtol=1e-9, atol=1e-11)


def test_a_loop_in_a_branch_without_names(rng: np.random.Generator) -> None:
    """Its steps are numbered in the trace of its operands, not in that of the branch."""
    x = np.abs(rng.normal(size=(2, 3)))

    def looped(x: Any, y: Any) -> Any:
        return lax.fori_loop(0, 7, lambda k, c: np.tanh(c) * x * k, x) + y

    def chosen(x: Any) -> Any:
        return np.sum(lax.cond(np.sum(x) > 0, lambda y: looped(x, y), np.sin, x))

    want = np.stack([fgrad.grad(lambda x: np.sum(looped(x, x)))(v) for v in x])
    np.testing.assert_allclose(fgrad.vmap(fgrad.grad(chosen))(x), want, rtol=1e-10)


def test_two_axes_that_cross(rng: np.random.Generator) -> None:
    """The matrix varies over one axis, the right-hand side over the other."""
    a, b = rng.normal(size=(3, 3)), rng.normal(size=(2, 3))

    def loss(a: Any, b: Any) -> Any:
        return lax.psum(np.sum(np.sin(quotient(a, b))), ("a", "b"))

    want = fgrad.grad(lambda a, b: np.sum(np.sin(b[:, None] / (2.0 + np.tanh(a[None])))), (0, 1))(
        a, b
    )
    for gradient in (fgrad.grad(loss, (0, 1)), fgrad.grad(fgrad.jit(loss), (0, 1))):
        inner = fgrad.vmap(gradient, (0, None), (0, None), axis_name="b")
        got = fgrad.vmap(inner, (None, 0), (None, 0), axis_name="a")(a, b)
        np.testing.assert_allclose(got[0], want[0], rtol=1e-10)
        np.testing.assert_allclose(got[1], want[1], rtol=1e-10)


def test_no_trace_is_kept(rng: np.random.Generator) -> None:

    x = rng.normal(size=(N, 3))
    gradient = over(fgrad.grad(lambda w, x: lax.psum(np.sum(w * x), "i")), (None, 0), None)
    gradient(np.ones(3), x)
    gc.collect()
    gc.disable()
    try:
        gradient(np.ones(3), x)
        assert not [o for o in gc.get_objects() if type(o) is Builder]
    finally:
        gc.enable()
