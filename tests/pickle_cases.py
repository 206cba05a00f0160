"""Functions that travel between processes, and what they are called with: name -> (function, args).

Each of them is made of functions of this module, which another process can import.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.special

import fgrad
import fgrad.numpy as fnp
from fgrad import checkpoint_policies, lax, nn, optim, random, sparse, tree
from fgrad.scipy import stats

X = np.linspace(0.1, 1.0, 5)
M = np.linspace(-1.0, 1.0, 15).reshape(3, 5)


def loss(x: Any) -> Any:
    return np.sum(np.sin(x) * x)


def vector(x: Any) -> Any:
    return np.exp(x) * x[::-1]


def weighted(w: Any, x: Any) -> Any:
    return np.sum(np.tanh(w * x) ** 2)


def linear(x: Any) -> Any:
    return M @ x


def with_aux(x: Any) -> Any:
    return loss(x), {"square": x * x}


def power(x: Any, n: int) -> Any:
    return np.sum(x**n)


def writes(x: Any) -> Any:
    x[0] *= 10.0
    return x.sum()


def tagged(x: Any) -> Any:
    hidden = fgrad.tag(np.sin(x), "hidden")
    return np.sum(hidden * hidden)


def named(x: Any) -> Any:
    return np.sum(np.sin(fgrad.checkpoint_name(np.exp(x), "e")))


@fgrad.grad
def decorated(x: Any) -> Any:
    return np.sum(x**3)


@fgrad.jit
@functools.partial(fgrad.vmap, in_axes=1)
@fgrad.grad
def decorated_thrice(x: Any) -> Any:
    return np.sum(x**3)


@functools.partial(fgrad.jit, static_argnames="n")
def decorated_static(x: Any, n: int = 2) -> Any:
    return power(x, n)


class Model:
    """Weights with methods that are transformed."""

    def __init__(self, w: Any) -> None:
        self.w = w

    def loss(self, x: Any) -> Any:
        return np.sum(np.cos(self.w * x))

    @functools.partial(fgrad.grad, argnums=1)
    def slope(self, x: Any) -> Any:
        return self.loss(x)

    @functools.partial(fgrad.jit, static_argnums=0)
    def value(self, x: Any) -> Any:
        return self.loss(x)

    @functools.partial(fgrad.jit, static_argnums=0)
    @functools.partial(fgrad.grad, argnums=1)
    def fast_slope(self, x: Any) -> Any:
        return self.loss(x)


class Scaled:
    """A function with a parameter."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, x: Any) -> Any:
        return np.sum(self.factor * x**2)


def policy(prim: Any, *avals: Any, **params: Any) -> bool:
    return prim.name == "sin"


@fgrad.custom_jvp
def slow_sine(x: Any) -> Any:
    return np.sin(x)


@slow_sine.defjvp
def slow_sine_jvp(primals: Any, tangents: Any) -> Any:
    return slow_sine(primals[0]), np.cos(primals[0]) * tangents[0]


@fgrad.custom_vjp
def clipped(x: Any) -> Any:
    return 2.0 * x


def clipped_fwd(x: Any) -> Any:
    return clipped(x), x


def clipped_bwd(x: Any, ct: Any) -> Any:
    return (5.0 * ct * x,)


clipped.defvjp(clipped_fwd, clipped_bwd)


def scaled_by(n: int, x: Any) -> Any:
    return n * x


def scaled_by_jvp(n: int, primals: Any, tangents: Any) -> Any:
    return n * primals[0], 10.0 * n * tangents[0]


scaled = fgrad.custom_jvp(scaled_by, nondiff_argnums=0)  # not found under the name of its function
scaled.defjvp(scaled_by_jvp)


@fgrad.custom_vmap
def row(x: Any) -> Any:
    return np.sum(x)


@row.def_vmap
def row_vmap(axis_size: int, in_batched: Any, x: Any) -> Any:
    return np.sum(x, axis=-1), True


@fgrad.primitive(out=lambda x: x)
def cube(x: Any) -> Any:
    return x * x * x


@cube.def_jvp
def cube_jvp(primals: Any, tangents: Any, out: Any) -> Any:
    return 3.0 * primals[0] ** 2 * tangents[0]


def square_type(x: Any) -> Any:
    return x


def square_jvp(primals: Any, tangents: Any, out: Any) -> Any:
    return 2.0 * primals[0] * tangents[0]


def square(x: Any) -> Any:
    return x * x


squared = fgrad.primitive(square, out=square_type, name="cube")  # a name that is taken
squared.def_jvp(square_jvp)


def with_callback(x: Any) -> Any:
    fgrad.debug.callback(str, x)
    return x * fgrad.pure_callback(np.max, fgrad.ShapeDtype((), float), X)


def with_customs(x: Any) -> Any:
    return scaled(2, slow_sine(x)) * clipped(cube(x) + squared(x)) + row(x)


class Case(NamedTuple):
    """A function and its arguments."""

    function: Callable[..., Any]
    args: tuple[Any, ...] = (X,)


def optimised(optimizer: Any, params: Any) -> Any:
    """Two steps of an optimiser."""
    state = optimizer.init(params)
    for _ in range(2):
        updates, state = optimizer.update(tree.map(np.cos, params), state, params)
        params = optim.apply_updates(params, updates)
    return params


STEP = optim.adamw(optim.warmup_cosine_decay(0.0, 0.1, 3, 10), mask=None)

TRANSFORMED: dict[str, Case] = {
    "jit": Case(fgrad.jit(loss)),
    "jit static": Case(fgrad.jit(power, static_argnums=1), (X, 3)),
    "jit static name": Case(decorated_static, (X, 3)),
    "jit donated": Case(fgrad.jit(vector, donate_argnums=0), (X,)),
    "grad": Case(fgrad.grad(loss)),
    "grad argnums": Case(fgrad.grad(weighted, argnums=(0, 1)), (X, X)),
    "grad aux": Case(fgrad.grad(with_aux, has_aux=True)),
    "grad memory": Case(fgrad.grad(loss, memory="1MB")),
    "value_and_grad": Case(fgrad.value_and_grad(loss)),
    "vmap": Case(fgrad.vmap(vector), (M,)),
    "vmap axes": Case(fgrad.vmap(weighted, in_axes=(None, 0), chunk_size=2), (X, M)),
    "vmap out": Case(fgrad.vmap(vector, out_axes=-1), (M,)),
    "vmap dict": Case(fgrad.vmap(fgrad.grad(loss), in_axes=({"a": 0}["a"],)), (M,)),
    "jacrev": Case(fgrad.jacrev(vector)),
    "jacfwd": Case(fgrad.jacfwd(vector, chunk_size=2)),
    "hessian": Case(fgrad.hessian(loss)),
    "checkpoint": Case(fgrad.grad(fgrad.checkpoint(loss))),
    "checkpoint policy": Case(fgrad.grad(fgrad.checkpoint(loss, policy=policy))),
    "checkpoint names": Case(
        fgrad.grad(fgrad.checkpoint(named, policy=checkpoint_policies.save_only_these_names("e")))
    ),
    "checkpoint both": Case(
        fgrad.grad(
            fgrad.checkpoint(
                named,
                policy=checkpoint_policies.save_from_both_policies(
                    policy, checkpoint_policies.dots_saveable
                ),
            )
        )
    ),
    "functionalize": Case(fgrad.functionalize(writes)),
    "per_sample": Case(fgrad.per_sample_grad(weighted, clip=1.0), (X, M)),
    "per_sample norms": Case(fgrad.per_sample_grad(weighted, norms_only=True), (X, M)),
    "linear_transpose": Case(fgrad.linear_transpose(linear, X), (np.ones(3),)),
    "grad_wrt_tags": Case(fgrad.grad_wrt_tags(tagged)),
    "custom_jvp": Case(fgrad.vmap(fgrad.grad(slow_sine)), (X,)),
    "custom_jvp alone": Case(slow_sine),
    "custom_jvp with settings": Case(fgrad.grad(functools.partial(scaled, 3)), (2.0,)),
    "custom_vjp": Case(fgrad.vmap(fgrad.grad(clipped)), (X,)),
    "jit(custom_vjp)": Case(fgrad.jit(fgrad.jacrev(clipped))),
    "custom_vmap": Case(fgrad.vmap(row), (M,)),
    "sequential_vmap": Case(fgrad.vmap(fgrad.sequential_vmap(vector)), (M,)),
    "primitive": Case(fgrad.jit(fgrad.vmap(fgrad.grad(cube))), (X,)),
    "primitive elsewhere": Case(fgrad.jit(fgrad.vmap(fgrad.grad(squared))), (X,)),
    "callbacks": Case(fgrad.jit(fgrad.jacfwd(with_callback))),
    "mapped callbacks": Case(fgrad.vmap(with_callback), (M,)),
    "closure_convert": Case(fgrad.closure_convert(weighted, X, X)[0], (X, X)),
    "distribution": Case(fgrad.vmap(fgrad.grad(stats.norm.logpdf)), (X,)),
    "special": Case(fgrad.vmap(fgrad.grad(fgrad.scipy.special.gammaln)), (X,)),
    "jit(grad)": Case(fgrad.jit(fgrad.grad(loss))),
    "grad(jit)": Case(fgrad.grad(fgrad.jit(loss))),
    "vmap(grad)": Case(fgrad.vmap(fgrad.grad(loss)), (M,)),
    "jit(vmap(grad(jit)))": Case(fgrad.jit(fgrad.vmap(fgrad.grad(fgrad.jit(loss)))), (M,)),
    "grad(grad)": Case(fgrad.grad(fgrad.grad(Scaled(2.0))), (1.5,)),
    "decorated": Case(decorated),
    "decorated thrice": Case(decorated_thrice, (M,)),
    "of decorated": Case(fgrad.jacfwd(decorated)),
    "beneath a decorator": Case(fgrad.hessian(decorated.__wrapped__)),
    "beneath two": Case(fgrad.hessian(decorated_thrice.__wrapped__.__wrapped__.__wrapped__)),
    "callable": Case(fgrad.grad(Scaled(3.0))),
    "bound method": Case(fgrad.grad(Model(2.0).loss)),
    "transformed method": Case(Model(2.0).slope),
    "jitted method": Case(Model(2.0).value),
    "jitted slope": Case(Model(2.0).fast_slope),
    "of a method": Case(fgrad.vmap(Model(2.0).slope), (M,)),
    "partial": Case(fgrad.grad(functools.partial(weighted, X))),
    "partial of grad": Case(functools.partial(fgrad.grad(weighted), X)),
    "partial of jit": Case(functools.partial(fgrad.jit, static_argnums=1)(power), (X, 2)),
    "numpy": Case(fgrad.vmap(np.linalg.norm), (M,)),
    "ufunc": Case(fgrad.vmap(fgrad.grad(np.sin)), (X,)),
    "fgrad.numpy": Case(fgrad.vmap(fnp.linalg.norm), (M,)),
    "nn": Case(fgrad.jacrev(nn.softmax)),
    "inspect": Case(fgrad.make_program(loss)),
    "schedule": Case(optim.exponential_decay(1.0, 10, 0.5), (3,)),
    "schedules": Case(optim.piecewise_constant(1.0, {2: 0.1}), (3,)),
    "optimiser": Case(functools.partial(optimised, STEP)),
    "update": Case(optim.adam(1e-2).init),
    "decay mask": Case(functools.partial(optimised, optim.add_decayed_weights(0.1))),
    "sparse": Case(sparse.jacobian(vector)),
    "sparse hessian": Case(sparse.hessian(loss)),
    "sparse pattern": Case(sparse.pattern(vector)),
}


# --- linear maps at a point, of functions with all that a tape can hold


def matrices(x: Any) -> Any:
    a = M.T @ M + np.eye(5)
    return np.linalg.solve(a, x) + np.linalg.inv(a) @ x


def gathered(x: Any) -> Any:
    return x[[0, 2, 2]] * np.sort(x)[:3] + np.cumsum(x)[1:4]


def with_scan(x: Any) -> Any:
    return lax.scan(lambda c, y: (c * np.sin(y), c), 1.0, x)


def with_while(x: Any) -> Any:
    return lax.fori_loop(0, 3, lambda i, c: np.sin(c) * x, x)


def with_cond(x: Any) -> Any:
    return lax.cond(x[0] > 0, np.sin, np.cos, x)


def with_jit(x: Any) -> Any:
    return fgrad.jit(vector)(x) * 2.0


def with_checkpoint(x: Any) -> Any:
    return fgrad.checkpoint(vector)(x) * 2.0


def with_policy(x: Any) -> Any:
    return fgrad.checkpoint(vector, policy=policy)(x) * 2.0


def with_tap(x: Any) -> Any:
    return fgrad.tap(x, on_cotangent=np.negative) * x


def with_fft(x: Any) -> Any:
    return np.abs(np.fft.fft(x))


def with_random(x: Any) -> Any:
    return x * random.normal(random.key(3), x.shape)


def with_tree(p: Any) -> Any:
    return {"a": p["x"] * p["y"][0], "b": (np.sum(p["x"]), p["y"])}


def with_special(x: Any) -> Any:

    return scipy.special.gammaln(x) * scipy.special.erf(x)


def with_jitted_customs(x: Any) -> Any:
    return fgrad.jit(with_customs)(x)


def times_x(solve: Any, b: Any) -> Any:
    return b / solve(np.ones_like(b))


def with_solve(x: Any) -> Any:
    return fgrad.custom_linear_solve(lambda y: x * y, x * x, times_x, symmetric=True)


LINEAR: dict[str, tuple[Callable[..., Any], Any]] = {
    f.__name__: (f, X)
    for f in (
        loss, vector, linear, matrices, gathered, with_scan, with_while, with_cond, with_jit,
        with_checkpoint, with_policy, with_tap, with_fft, with_random, with_special, with_callback,
        with_customs, with_jitted_customs, with_solve,
    )
}  # fmt: skip
LINEAR["with_tree"] = with_tree, {"x": X, "y": [2.0, M]}
LINEAR["float32"] = vector, X.astype(np.float32)
LINEAR["scalar"] = np.sin, 2.0
