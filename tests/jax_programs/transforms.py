"""Gradients, Jacobians, batches, compiled functions, rules."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from jax_programs.data import CUBE, SPD, B, K, M, N, P, X, Y, Z


def square_sum(x: Any) -> Any:
    return (x * x).sum()


def mlp(J: Any, params: Any, x: Any) -> Any:
    for w, b in params[:-1]:
        x = J.np.tanh(x @ w + b)
    w, b = params[-1]
    return x @ w + b


LAYERS = [(M, np.ones(5)), (N, np.zeros(3))]


def ruled(J: Any) -> Any:
    """log(1 + exp(x)) with a rule that does not overflow."""

    @J.custom_jvp
    def f(x: Any) -> Any:
        return J.np.log(1.0 + J.np.exp(x))

    @f.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        return f(x), t * (1 - 1 / (1 + J.np.exp(x)))

    return f


def clipped(J: Any) -> Any:
    """The identity, with clipped cotangents."""

    @J.custom_vjp
    def f(x: Any, limit: Any) -> Any:
        return x * 1.0

    f.defvjp(lambda x, m: (f(x, m), m), lambda m, ct: (J.np.clip(ct, -m, m), None))
    return f


def with_static(J: Any) -> Any:
    @partial(J.jit, static_argnums=(1,))
    def power(x: Any, n: int) -> Any:
        y = x
        for _ in range(n - 1):
            y = y * x
        return y

    return power(X, 4)


def unrolled(J: Any, x: Any) -> Any:
    for _ in range(5):
        x = J.np.sin(x) + 0.1
    return x.sum()


def newton(J: Any) -> Any:
    f = lambda x: x**3 - 2.0  # noqa: E731
    x = 1.5
    for _ in range(6):
        x = x - f(x) / J.grad(f)(x)
    return x


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "grad": lambda J: J.grad(square_sum)(X),
    "grad of tanh": lambda J: J.grad(J.np.tanh)(2.0),
    "third derivative": lambda J: J.grad(J.grad(J.grad(J.np.tanh)))(0.7),
    "argnums": lambda J: J.grad(lambda a, b: (a * b**2).sum(), (0, 1))(X, Y),
    "argnums negative": lambda J: J.grad(lambda a, b: (a * b**2).sum(), -1)(X, Y),
    "has_aux": lambda J: J.grad(lambda x: (square_sum(x), x * 2), has_aux=True)(X),
    "value_and_grad": lambda J: J.value_and_grad(lambda x: J.np.exp(x).sum())(X),
    "value_and_grad aux": lambda J: J.value_and_grad(
        lambda x: (square_sum(x), {"n": x.size}), has_aux=True)(X),
    "grad of a tree": lambda J: J.grad(lambda p: (p["w"] @ p["v"]).sum() + p["b"])(
        {"w": M, "v": N, "b": 1.0}),
    "jacfwd": lambda J: J.jacfwd(lambda x: J.np.sin(x) * x[0])(X),
    "jacrev": lambda J: J.jacrev(lambda x: J.np.cumsum(x**2))(X),
    "jacrev of a tree": lambda J: J.jacrev(lambda p: p["a"] * p["b"].sum())({"a": X, "b": Y}),
    "hessian": lambda J: J.hessian(lambda x: J.np.prod(x) + square_sum(x))(P),
    "hessian of two": lambda J: J.hessian(lambda x, y: (x * y**2).sum(), (0, 1))(X, Y),
    "hessian vector": lambda J: J.jvp(J.grad(lambda x: (x**3).sum()), (X,), (Y,))[1],
    "hessian vector reverse": lambda J: J.grad(
        lambda x: J.np.vdot(J.grad(lambda x: (x**3).sum())(x), Y))(X),
    "jvp": lambda J: J.jvp(lambda x, y: x * J.np.sin(y), (X, Y), (Y, X)),
    "vjp": lambda J: J.vjp(lambda x, y: x * J.np.sin(y), X, Y)[1](X),
    "vjp of a tree": lambda J: J.vjp(lambda p: {"s": p[0] + p[1]}, (X, Y))[1]({"s": X}),
    "vjp aux": lambda J: J.vjp(lambda x: (x**2, x + 1), X, has_aux=True)[2],
    "linearize": lambda J: J.linearize(lambda x: J.np.exp(x) * x, X)[1](Y),
    "linear_transpose": lambda J: J.linear_transpose(lambda x: M.T @ x, np.zeros(4))(np.ones(5)),
    "vmap": lambda J: J.vmap(lambda x: x / J.np.linalg.norm(x))(M),
    "vmap in_axes": lambda J: J.vmap(lambda a, b: a @ b, (0, None))(M, N),
    "vmap axis 1": lambda J: J.vmap(lambda a: a.sum(), 1)(M),
    "vmap out_axes": lambda J: J.vmap(lambda a: a * 2, out_axes=1)(M),
    "vmap of a tree": lambda J: J.vmap(lambda d: d["a"] * d["b"], ({"a": 0, "b": None},))(
        {"a": X, "b": 3.0}),
    "vmap of vmap": lambda J: J.vmap(J.vmap(lambda a, b: a * b, (None, 0)), (0, None))(X, Y),
    "vmap of grad": lambda J: J.vmap(J.grad(lambda x: J.np.sin(x) * x))(X),
    "per example gradients": lambda J: J.vmap(
        J.grad(lambda w, x: (J.np.tanh(x @ w) ** 2).sum()), (None, 0))(N, M),
    "vmap keyword": lambda J: J.vmap(lambda x, k: x * k)(X, k=Y),
    "vmap with a name": lambda J: J.vmap(
        lambda x: x / J.lax.psum(x, "i"), axis_name="i")(P),
    "batched gather": lambda J: J.vmap(lambda r, k: r[k])(M, K),
    "pairwise": lambda J: J.vmap(lambda a: J.vmap(lambda b: J.np.abs(a - b).sum())(M))(M),
    "jit": lambda J: J.jit(lambda x: J.np.where(x > 0, x, 0.1 * x))(X),
    "jit of grad": lambda J: J.jit(J.grad(lambda x: (J.np.log(x) * x).sum()))(P),
    "grad of jit": lambda J: J.grad(J.jit(lambda x: (J.np.log(x) * x).sum()))(P),
    "jit static": with_static,
    "jit static name": lambda J: J.jit(
        lambda x, mode: x.sum() if mode == "sum" else x.mean(), static_argnames="mode")(
        X, mode="mean"),
    "jit of a tree": lambda J: J.jit(lambda d: {k: v * 2 for k, v in d.items()})(
        {"a": X, "b": Y}),
    "jit closure": lambda J: (lambda c: J.jit(lambda x: x * c))(Y)(X),
    "jit no arguments": lambda J: J.jit(lambda: J.np.arange(4.0))(),
    "jit returns vjp": lambda J: J.jit(lambda x: J.vjp(J.np.sin, x)[1])(X)(Y),
    "custom_jvp": lambda J: (J.grad(ruled(J))(1.0), J.vmap(J.grad(ruled(J)))(X)),
    "custom_jvp large": lambda J: J.grad(ruled(J))(100.0),
    "custom_vjp": lambda J: J.grad(lambda x: (clipped(J)(x, 0.5) * Y).sum())(X),
    "custom_vjp vmap": lambda J: J.vmap(J.grad(lambda x: clipped(J)(x, 0.5) * 3))(X),
    "stop_gradient": lambda J: J.grad(lambda x: (x * J.stop_gradient(x)).sum())(X),
    "checkpoint": lambda J: J.grad(J.checkpoint(lambda x: J.np.sin(J.np.sin(x)).sum()))(X),
    "mlp": lambda J: J.grad(lambda p: square_sum(mlp(J, p, M[:, :4])))(LAYERS),
    "unrolled": lambda J: J.jit(J.grad(lambda x: unrolled(J, x)))(X),
    "newton": newton,
    "sgd": lambda J: descend(J),
    "where gradient": lambda J: J.grad(lambda x: J.np.where(x > 0, x**2, -x).sum())(X),
    "max gradient": lambda J: J.grad(lambda x: x.max())(X),
    "norm gradient": lambda J: J.grad(J.np.linalg.norm)(X),
    "boolean": lambda J: J.grad(lambda x: (x * B).sum())(X),
    "complex value": lambda J: J.jit(lambda z: J.np.exp(z) * z.conj())(Z),
    "complex of real": lambda J: J.grad(lambda x: J.np.abs(J.np.exp(1j * x) + x).sum())(X),
    "holomorphic": lambda J: J.grad(lambda z: z**3, holomorphic=True)(1.0 + 2j),
    "complex gradient": lambda J: J.grad(lambda z: J.np.abs(z**2).sum())(Z),
    "eval_shape": lambda J: J.eval_shape(lambda a, b: a @ b, M, N).shape,
    "pure_callback": lambda J: J.jit(lambda x: J.pure_callback(
        lambda v: np.sin(v), J.ShapeDtype((6,), np.float64), x))(X),
    "closure_convert": lambda J: J.grad(lambda c: (J.vjp(lambda x: x * c, X)[1](Y)[0]).sum())(2.0),
    "cube": lambda J: J.jacfwd(lambda x: (x * CUBE).sum((0, 1)))(2.0),
    "quadratic form": lambda J: J.hessian(lambda x: x @ SPD @ x)(np.ones(4)),
}  # fmt: skip


def descend(J: Any) -> Any:
    """Logistic regression by gradient descent."""

    @J.jit
    def step(w: Any) -> Any:
        def loss(w: Any) -> Any:
            return J.np.mean(J.np.logaddexp(0.0, -(M @ w) * np.array([1.0, -1.0, 1.0, -1.0])))

        return w - 0.5 * J.grad(loss)(w)

    w = np.zeros(5)
    for _ in range(20):
        w = step(w)
    return w
