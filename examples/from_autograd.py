"""What autograd has and fgrad has under other names, each in a few lines: take what you use.

    python examples/from_autograd.py

docs/coming_from.md lists the names. autograd's own examples run with these functions and NumPy's
in the place of autograd's (tests/unmodified/autograd_examples.py).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize

import fgrad
import fgrad.testing
from fgrad import optim
from fgrad.scipy.sparse.linalg import gmres

Tree = Any
Function = Callable[..., Any]

flatten = fgrad.tree.ravel  # the vector, and the function that makes the tree of one


def flatten_func(f: Function, example: Tree) -> tuple[Function, Function, np.ndarray]:
    """`f` of one vector, the function that makes its tree, and the vector of the example."""
    vector, unflatten = flatten(example)
    return lambda x, *rest: f(unflatten(x), *rest), unflatten, vector


def elementwise_grad(f: Function) -> Function:
    """The derivative of each element of the result by the element it was made of."""

    def derivative(x: Tree, *rest: Any) -> Tree:
        value, pullback = fgrad.vjp(lambda x: f(x, *rest), x)
        return pullback(np.ones_like(value))[0]

    return derivative


def hessian_vector_product(f: Function) -> Function:
    """`product(x, v)`: the Hessian of `f` at `x` times `v`."""
    return lambda x, v: fgrad.jvp(fgrad.grad(f), (x,), (v,))[1]


def make_vjp(f: Function) -> Function:
    """`make_vjp(f)(x)` is the pullback, which gives the tree itself, and the value."""

    def pair(x: Tree) -> tuple[Function, Tree]:
        value, pullback = fgrad.vjp(f, x)
        return lambda g: pullback(g)[0], value

    return pair


def descend(
    rule: Any, gradient: Function, params: Tree, callback: Function | None, num_iters: int
) -> Tree:
    """The loop around an optimizer; `gradient` and the callback are told the number of the step."""
    state = rule.init(params)
    for i in range(num_iters):
        slope = gradient(params, i)
        if callback is not None:
            callback(params, i, slope)
        updates, state = rule.update(slope, state, params)
        params = optim.apply_updates(params, updates)
    return params


def adam(
    gradient: Function,
    x0: Tree,
    callback: Function | None = None,
    num_iters: int = 100,
    step_size: float = 0.001,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
) -> Tree:
    """autograd's `adam`."""
    return descend(optim.adam(step_size, b1, b2, eps), gradient, x0, callback, num_iters)


def sgd(
    gradient: Function,
    x0: Tree,
    callback: Function | None = None,
    num_iters: int = 200,
    step_size: float = 0.1,
    mass: float = 0.9,
) -> Tree:
    """autograd's `sgd`, whose velocity is a mean: the rate is (1 - mass) of the usual one."""
    return descend(optim.sgd(step_size * (1 - mass), mass), gradient, x0, callback, num_iters)


def fixed_point(f: Function, a: Tree, x0: Tree, distance: Function, tol: float) -> Tree:
    """The x with `x = f(a)(x)`, with derivatives by `a` of the point itself, not of the steps."""

    def residual(x: Tree) -> Tree:
        return x - f(a)(x)

    def solve(residual: Function, x: Tree) -> Tree:
        following = x - residual(x)
        while distance(following, x) > tol:
            x, following = following, following - residual(following)
        return following

    def tangent_solve(linear: Function, y: Tree) -> Tree:
        return gmres(linear, y, rtol=1e-10)[0]

    return fgrad.custom_root(residual, x0, solve, tangent_solve)


def primitive(f: Function) -> Function:
    """A function with a rule of its own, for `defvjp` below."""
    return fgrad.custom_vjp(f)


def defvjp(f: Any, *rules: Function | None) -> None:
    """`rule(ans, *args)` gives the pullback by one argument; None: there is no derivative by it."""

    def forward(*args: Any) -> tuple[Tree, Tree]:
        ans = f(*args)
        return ans, (ans, args)

    def backward(kept: Tree, g: Tree) -> Tree:
        ans, args = kept
        return tuple(None if rule is None else rule(ans, *args)(g) for rule in rules)

    f.defvjp(forward, backward)


Axes = tuple[list[int], list[int]]


def convolve(
    a: Tree, b: Tree, axes: Axes | None = None, dot_axes: Axes = ([], []), mode: str = "full"
) -> Tree:
    """autograd's `convolve`: along `axes`, summed over `dot_axes`, for all pairs of the others.

    Axes of the result: those of `a` alone, those of `b` alone, the convolved ones.
    """
    moved, dotted = axes or (list(range(a.ndim)), list(range(b.ndim))), dot_axes
    own = [
        [k for k in range(x.ndim) if k not in moved[i] and k not in dotted[i]]
        for i, x in enumerate((a, b))
    ]
    sizes = [[x.shape[k] for k in kept] for x, kept in zip((a, b), own, strict=True)]
    parts = []
    for i, x in enumerate((a, b)):
        ordered = x.transpose([*own[i], *dotted[i], *moved[i]])
        parts.append(ordered.reshape(math.prod(sizes[i]), -1, *[x.shape[k] for k in moved[i]]))
    image, kernel = parts[0], np.flip(parts[1], tuple(range(2, parts[1].ndim)))
    wide = [0 if mode == "valid" else n - 1 for n in kernel.shape[2:]]
    found = fgrad.lax.conv_general_dilated(image, kernel, [1] * len(wide), [(n, n) for n in wide])
    return found.reshape(*sizes[0], *sizes[1], *found.shape[2:])


def check_grads(f: Function, modes: list[str], order: int = 2) -> Function:
    """autograd's `check_grads`: a function of the arguments at which derivatives are checked."""
    return lambda *args: fgrad.testing.check_grads(f, args, order=order, modes=modes)


def main() -> int:
    """A curve through points: by `adam`, then by SciPy with products of the Hessian."""
    x = np.linspace(-1, 1, 40)
    y = np.sin(3 * x)
    first = {"scale": np.ones(5), "shift": np.linspace(-1, 1, 5), "weights": np.ones(5)}

    def loss(params: Tree) -> Tree:
        units = np.tanh(params["scale"] * (x[:, None] - params["shift"]))
        return np.mean((units @ params["weights"] - y) ** 2)

    slope = fgrad.grad(loss)
    trained = adam(lambda params, i: slope(params), first, num_iters=200, step_size=0.05)
    flat, unflatten, start = flatten_func(loss, trained)
    product = hessian_vector_product(flat)
    found = minimize(flat, start, jac=fgrad.grad(flat), hessp=product, method="Newton-CG")
    print(f"loss {loss(first):.4f}, after adam {loss(trained):.4f}")
    print(f"after Newton-CG {loss(unflatten(found.x)):.6f}")
    return 0 if found.fun < loss(trained) < loss(first) else 1


if __name__ == "__main__":
    sys.exit(main())
