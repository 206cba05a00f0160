"""Random towers of transforms of a number's function, against dual numbers.

    python tests/transforms/random_towers.py SEED COUNT

Each level makes a function of one number of the function below it: derivatives of all kinds, lanes,
loops, branches, compiled code, custom rules, implicit functions.  Beside it stands the same in
plain Python, of dual numbers that nest, so what is right is known to the last digits.
"""

from __future__ import annotations

import itertools
import math
import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import fgrad
from fgrad import lax

Function = Callable[[Any], Any]
POINTS = (0.37, -0.58, 0.9)
LANES = np.array([1.0, 0.8, -0.5])


# --- dual numbers ---------------------------------------------------------------------------------

_tags = itertools.count()


class Dual:
    """p + t e, where e is one of many infinitesimals and p and t may have others."""

    def __init__(self, tag: int, p: Any, t: Any) -> None:
        self.tag, self.p, self.t = tag, p, t

    def __add__(self, y: Any) -> Any:
        return _binary(self, y, lambda a, b: a + b, lambda a, b: (1.0, 1.0))

    def __mul__(self, y: Any) -> Any:
        return _binary(self, y, lambda a, b: a * b, lambda a, b: (b, a))

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Any:
        return self * -1.0

    def __sub__(self, y: Any) -> Any:
        return self + -1.0 * y

    def __rsub__(self, y: Any) -> Any:
        return y + -1.0 * self

    def __truediv__(self, y: Any) -> Any:
        return _binary(self, y, lambda a, b: a / b, lambda a, b: (1.0 / b, -1.0 * a / (b * b)))

    def __rtruediv__(self, y: float) -> Any:
        return Dual(self.tag, y, 0.0) / self

    def __gt__(self, y: Any) -> bool:
        return value(self) > value(y)


def value(x: Any) -> float:
    """A number without its infinitesimals."""
    return value(x.p) if isinstance(x, Dual) else float(x)


def _part(x: Any, tag: int) -> tuple[Any, Any]:
    return (x.p, x.t) if isinstance(x, Dual) and x.tag == tag else (x, 0.0)


def _binary(x: Any, y: Any, f: Callable[..., Any], slopes: Callable[..., Any]) -> Any:
    tag = max([z.tag for z in (x, y) if isinstance(z, Dual)])
    (a, da), (b, db) = _part(x, tag), _part(y, tag)
    sa, sb = slopes(a, b)
    return Dual(tag, f(a, b), sa * da + sb * db)


def slope(f: Function, x: Any, t: Any = 1.0) -> Any:
    """f'(x) t."""
    tag = next(_tags)
    return _part(f(Dual(tag, x, t)), tag)[1]


def sin(x: Any) -> Any:
    """Of dual numbers."""
    return Dual(x.tag, sin(x.p), cos(x.p) * x.t) if isinstance(x, Dual) else math.sin(x)


def cos(x: Any) -> Any:
    """Of dual numbers."""
    return Dual(x.tag, cos(x.p), -1.0 * sin(x.p) * x.t) if isinstance(x, Dual) else math.cos(x)


def tanh(x: Any) -> Any:
    """Of dual numbers."""
    if not isinstance(x, Dual):
        return math.tanh(x)
    y = tanh(x.p)
    return Dual(x.tag, y, (1.0 - y * y) * x.t)


# --- levels: what fgrad computes, and what is right -----------------------------------------------

BASES: tuple[tuple[Function, Function], ...] = (
    (lambda x: np.sin(x) * x, lambda x: sin(x) * x),
    (lambda x: np.tanh(x) + 0.3 * x * x, lambda x: tanh(x) + 0.3 * x * x),
    (lambda x: x * x * x - 0.5 * x, lambda x: x * x * x - 0.5 * x),
    (lambda x: x / (1.5 + np.cos(x)), lambda x: x / (1.5 + cos(x))),
)


def stepped(c: Any, x: Any, y: Any) -> Any:
    """One step of the loops below."""
    return 0.4 * c + 0.3 * y + 0.1 * x


def by_scan(f: Function) -> Function:
    """A loop of `lax` with a carry."""

    def of(x: Any) -> Any:
        def body(c: Any, k: Any) -> tuple[Any, Any]:
            c = stepped(c, x, f(x * k))
            return c, c * c

        c, all_ = lax.scan(body, x * 1.0, LANES)
        return c + np.sum(all_)

    return of


def by_scan_right(f: Function) -> Function:
    """The same, step by step."""

    def of(x: Any) -> Any:
        c, total = x * 1.0, 0.0
        for k in LANES.tolist():
            c = stepped(c, x, f(x * k))
            total = total + c * c
        return c + total

    return of


def by_while(f: Function) -> Function:
    """A loop of `lax` that ends by itself; forward mode only."""

    def of(x: Any) -> Any:
        def body(state: Any) -> Any:
            k, c = state
            return k + 1, stepped(c, x, f(c))

        return lax.while_loop(lambda state: state[0] < 3, body, (0, x * 1.0))[1]

    return of


def by_fori(f: Function) -> Function:
    """A loop of `lax` with a count."""
    return lambda x: lax.fori_loop(0, 3, lambda k, c: stepped(c, x, f(c)), x * 1.0)


def by_steps(f: Function) -> Function:
    """What these loops compute."""

    def of(x: Any) -> Any:
        c = x * 1.0
        for _ in range(3):
            c = stepped(c, x, f(c))
        return c

    return of


def by_buffer(f: Function) -> Function:
    """A plain loop that fills an array."""

    def of(x: Any) -> Any:
        y = np.zeros(6)
        y[0] = x
        for i in range(1, 6):
            y[i] = stepped(y[i - 1], x, f(y[i - 1]))
        return y[5] + y[2]

    return of


def by_buffer_right(f: Function) -> Function:
    """The same in a list."""

    def of(x: Any) -> Any:
        y = [x]
        for i in range(1, 6):
            y.append(stepped(y[i - 1], x, f(y[i - 1])))
        return y[5] + y[2]

    return of


def by_branch(f: Function) -> Function:
    """A plain branch, captured under jit."""

    def of(x: Any) -> Any:
        if x > 0.2:
            return f(x) * 1.5
        return f(-x) + x

    return of


def by_cond(f: Function) -> Function:
    """The same by `lax.cond`."""
    return lambda x: lax.cond(x > 0.2, lambda x: f(x) * 1.5, lambda x: f(-x) + x, x)


def by_custom_jvp(f: Function) -> Function:
    """A rule that is forward mode of f."""
    custom = fgrad.custom_jvp(f)
    custom.defjvp(lambda primals, tangents: fgrad.jvp(f, primals, tangents))
    return custom


def by_custom_vjp(f: Function) -> Function:
    """A rule that is reverse mode of f."""
    custom = fgrad.custom_vjp(f)
    custom.defvjp(lambda x: (f(x), x), lambda x, g: (fgrad.grad(f)(x) * g,))
    return custom


def by_root(f: Function) -> Function:
    """y + 0.1 f(y) = x, by an implicit function."""

    def of(x: Any) -> Any:
        def equation(y: Any) -> Any:
            return y + 0.1 * np.tanh(f(y)) - x

        def solve(g: Function, y: Any) -> Any:
            for _ in range(40):
                y = y - 0.7 * g(y)
            return y

        def tangent_solve(g: Function, y: Any) -> Any:
            return y / g(1.0)

        return lax.custom_root(equation, x * 1.0, solve, tangent_solve)

    return of


def by_root_right(f: Function) -> Function:
    """The same by steps, which converge in all their infinitesimals."""

    def of(x: Any) -> Any:
        y = x * 1.0
        for _ in range(60):
            y = y - 0.7 * (y + 0.1 * tanh(f(y)) - x)
        return y

    return of


LEVELS: dict[str, tuple[Callable[[Function], Function], Callable[[Function], Function]]] = {
    "grad": (fgrad.grad, lambda f: lambda x: slope(f, x)),
    "jvp": (
        lambda f: lambda x: fgrad.jvp(f, (x,), (1.5,))[1], lambda f: lambda x: slope(f, x, 1.5)
    ),
    "vjp": (lambda f: lambda x: fgrad.vjp(f, x)[1](2.0)[0], lambda f: lambda x: 2.0 * slope(f, x)),
    "linearize": (
        lambda f: lambda x: fgrad.linearize(f, x)[1](x), lambda f: lambda x: slope(f, x, x)
    ),
    "jacfwd": (fgrad.jacfwd, lambda f: lambda x: slope(f, x)),
    "jacrev": (fgrad.jacrev, lambda f: lambda x: slope(f, x)),
    "hessian": (fgrad.hessian, lambda f: lambda x: slope(lambda y: slope(f, y), x)),
    "value_and_grad": (
        lambda f: lambda x: sum(fgrad.value_and_grad(f)(x)), lambda f: lambda x: f(x) + slope(f, x)
    ),
    "closing": (
        lambda f: lambda x: fgrad.grad(lambda y: f(x * y) * x)(x),
        lambda f: lambda x: slope(lambda y: f(x * y) * x, x),
    ),
    "vmap": (
        lambda f: lambda x: np.sum(fgrad.vmap(f)(x * LANES)),
        lambda f: lambda x: sum([f(x * k) for k in LANES.tolist()]),
    ),
    "vmap_closing": (
        lambda f: lambda x: np.sum(fgrad.vmap(lambda k: f(x * k) * x)(LANES)),
        lambda f: lambda x: sum([f(x * k) * x for k in LANES.tolist()]),
    ),
    "jit": (fgrad.jit, lambda f: f),
    "checkpoint": (fgrad.checkpoint, lambda f: f),
    "scan": (by_scan, by_scan_right),
    "while": (by_while, by_steps),
    "fori": (by_fori, by_steps),
    "buffer": (by_buffer, by_buffer_right),
    "branch": (by_branch, by_branch),
    "cond": (by_cond, by_branch),
    "custom_jvp": (by_custom_jvp, lambda f: f),
    "custom_vjp": (by_custom_vjp, lambda f: f),
    "root": (by_root, by_root_right),
}  # fmt: skip
COSTLY = {"hessian": 2, "closing": 1, "grad": 1, "jvp": 1, "vjp": 1, "linearize": 1, "jacfwd": 1,
          "jacrev": 1, "value_and_grad": 1}  # fmt: skip


def tower(seed: int) -> tuple[str, Function, Function]:
    """Some levels, of at most two derivatives."""
    rng = random.Random(seed)
    made, right = BASES[rng.randrange(len(BASES))]
    names: list[str] = []
    for _ in range(rng.randint(2, 4)):
        left = 2 - sum([COSTLY.get(name, 0) for name in names])
        name = rng.choice([n for n in LEVELS if COSTLY.get(n, 0) <= left])
        names.append(name)
        made, right = LEVELS[name][0](made), LEVELS[name][1](right)
    if rng.random() < 0.5 and names[-1] != "jit":
        names.append("jit")
        made = fgrad.jit(made)
    return " of ".join(reversed(names)), made, right


def difference(seed: int) -> str:
    """What is wrong with a tower; nothing if nothing is."""
    name, made, right = tower(seed)
    for x in POINTS:
        try:
            found = made(x)
        except fgrad.errors.FgradError:
            return ""  # refused
        expected = value(right(x))
        if not math.isfinite(expected):
            return ""
        if not abs(float(found) - expected) <= 1e-8 * max(1.0, abs(expected)):
            return f"{name} at {x}: {found}, right {expected}"
    return ""


def main() -> int:
    """The command line."""
    first, count = int(sys.argv[1]), int(sys.argv[2])
    wrong = 0
    for seed in range(first, first + count):
        try:
            text = difference(seed)
        except Exception as error:
            text = f"{tower(seed)[0]}: {type(error).__name__}: {str(error)[:200]}"
        if text:
            wrong += 1
            print(seed, text, flush=True)
    print(f"{count} towers, {wrong} differ")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
