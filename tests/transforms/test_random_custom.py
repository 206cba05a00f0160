"""Random programs of custom functions, which close over values of other traces, under random
transforms: as the same program without custom rules.

    python tests/transforms/test_random_custom.py SEED COUNT
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad

Function = Callable[..., Any]
LANES = np.array([0.3, 0.7, 1.1])

# Functions of x and of q, which they close over: the value, and its derivative by x.
SMOOTH: tuple[tuple[Function, Function], ...] = (
    (lambda x, q: np.sin(x) * q, lambda x, q: np.cos(x) * q),
    (lambda x, q: x * x + q, lambda x, q: 2.0 * x),
    (lambda x, q: np.tanh(q * x), lambda x, q: q * (1.0 - np.tanh(q * x) ** 2)),
    (lambda x, q: x / (1.0 + q * q), lambda x, q: 1.0 / (1.0 + q * q)),
)
LINEAR: tuple[Function, ...] = (lambda x, q: x * q, lambda x, q: 3.0 * x)


def by_jvp(rng: random.Random, q: Any) -> tuple[Function, Function]:
    """A custom_jvp whose rule calls it on the primal, or not; and the plain function."""
    value, slope = rng.choice(SMOOTH)
    again = rng.random() < 0.5

    @fgrad.custom_jvp
    def f(x: Any) -> Any:
        return value(x, q)

    if rng.random() < 0.3:
        f.defjvps(lambda t, y, x: slope(x, q) * t)
    else:
        f.defjvp(lambda p, t: (f(*p) if again else value(p[0], q), slope(p[0], q) * t[0]))
    return f, lambda x: value(x, q)


def by_itself(rng: random.Random, q: Any) -> tuple[Function, Function]:
    """A linear custom_jvp, whose rule calls it on the tangent."""
    value = rng.choice(LINEAR)

    @fgrad.custom_jvp
    def f(x: Any) -> Any:
        return value(x, q)

    f.defjvp(lambda p, t: (f(p[0]), f(t[0])))
    return f, lambda x: value(x, q)


def by_vjp(rng: random.Random, q: Any) -> tuple[Function, Function]:
    """A custom_vjp of a tree, with None among its cotangents and in its argument."""
    value, slope = rng.choice(SMOOTH)
    kept = rng.random() < 0.5

    @fgrad.custom_vjp
    def f(p: Any, other: Any) -> Any:
        return value(p["x"], q) + 0.0 * other

    def bwd(residual: Any, ct: Any) -> Any:
        part = (residual if kept else slope(residual, q)) * ct
        return {"x": part, "none": None}, None

    f.defvjp(lambda p, other: (f(p, other), slope(p["x"], q) if kept else p["x"]), bwd)
    return lambda x: f({"x": x, "none": None}, 1.5), lambda x: value(x, q)


def by_root(rng: random.Random, q: Any) -> tuple[Function, Function]:
    """A custom_root, whose solver closes over what is differentiated: y + q y^3 = x."""

    def f(x: Any) -> Any:
        def solve(g: Any, y: Any) -> Any:
            for _ in range(30):
                y = y - (y + q * y**3 - x) / (1.0 + 3.0 * q * y**2)
            return y

        return fgrad.custom_root(
            lambda y: y + q * y**3 - x, 0.0 * q, solve, lambda g, y: y / g(1.0)
        )

    def plain(x: Any) -> Any:
        y = 0.0 * x
        for _ in range(30):
            y = y - (y + q * y**3 - x) / (1.0 + 3.0 * q * y**2)
        return y

    return f, plain


# What a function is called in.
AROUND: tuple[Function, ...] = (
    lambda f: f,
    lambda f: fgrad.jit(f),
    lambda f: fgrad.checkpoint(f),
    lambda f: lambda x: np.sum(fgrad.vmap(f)(np.stack([x, 0.5 * x]))),
    lambda f: lambda x: fgrad.lax.scan(lambda c, _: (f(c), c), x, None, length=2)[0],
    lambda f: lambda x: fgrad.lax.cond(x > -100.0, f, lambda y: y, x),
    lambda f: lambda x: fgrad.grad(lambda y: f(y) * y)(x),
)

# How the whole is differentiated, over lanes of q.
WHOLE: dict[str, Function] = {
    "gradient of lanes": lambda f, z: fgrad.grad(lambda z: lanes(f, z))(z),
    "compiled gradient of lanes": lambda f, z: fgrad.jit(fgrad.grad(lambda z: lanes(f, z)))(z),
    "gradient of compiled lanes": lambda f, z: fgrad.grad(fgrad.jit(lambda z: lanes(f, z)))(z),
    "lanes of gradients": lambda f, z: fgrad.vmap(fgrad.grad(f), (None, 0))(z, LANES),
    "lanes of values": lambda f, z: fgrad.vmap(f, (None, 0))(z, LANES),
    "tangent of lanes": lambda f, z: fgrad.jvp(lambda z: lanes(f, z), (z,), (1.0,))[1],
    "second derivative": lambda f, z: fgrad.grad(fgrad.grad(lambda z: lanes(f, z)))(z),
}


def lanes(f: Function, z: Any) -> Any:
    """The sum over the lanes of q."""
    return np.sum(fgrad.vmap(lambda q: f(z, q))(LANES))


def program(seed: int) -> tuple[Function, Function]:
    """A random function of z and q with custom rules, and the same without."""

    def build(custom: bool) -> Function:
        def f(z: Any, q: Any) -> Any:
            rng = random.Random(seed)
            for _ in range(rng.randint(1, 3)):
                kind = rng.choice((by_jvp, by_itself, by_vjp, by_root))
                pair = kind(rng, q)
                wrapped = rng.choice(AROUND)(pair[0] if custom else pair[1])
                z = wrapped(z) * 0.7
            return z

        return f

    return build(True), build(False)


def differences(seed: int) -> list[str]:
    """What differs for one program."""
    custom, plain = program(seed)
    wrong = []
    for name, whole in WHOLE.items():
        found, expected = whole(custom, 0.6), whole(plain, 0.6)
        if not np.allclose(found, expected, rtol=1e-7, atol=1e-9):
            wrong.append(f"{seed} {name}: {found}, not {expected}")
    return wrong


@pytest.mark.parametrize("seed", range(12))
def test_custom_rules_are_what_they_stand_for(seed: int) -> None:
    assert not differences(seed)


if __name__ == "__main__":
    first, count = int(sys.argv[1]), int(sys.argv[2])
    failures = [text for seed in range(first, first + count) for text in differences(seed)]
    print("\n".join([*failures, f"{count} programs, {len(failures)} differences"]))
