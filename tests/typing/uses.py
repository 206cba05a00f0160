# pyright: strict
"""A hundred typical uses, which `pyright --strict` and mypy accept, and which run.

`assert_type` says what an editor shows where that matters: transforms keep the parameters of a
user's function, and its result where that is the same.  What is a tree of the caller's, such as a
gradient, is `Any`, and can be annotated.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

import fgrad
import fgrad.numpy as fnp
from fgrad import lax, nn, optim, random, tree
from fgrad.scipy import special
from fgrad.typing import Array, ArrayLike, PyTree

if TYPE_CHECKING:
    from typing import assert_type
else:

    def assert_type(value, kind):
        """At run time the value, whatever its type."""
        return value


Vector = NDArray[np.float64]
Number = np.floating[Any]


class Layer(NamedTuple):
    """Parameters in a named tuple."""

    w: Vector
    b: Vector


class Params(TypedDict):
    """Parameters in a dictionary."""

    hidden: Layer
    scale: float


def loss(w: Vector, x: Vector, y: Vector, decay: float = 0.1) -> Number:
    """A loss as users write it."""
    return np.mean((np.tanh(x @ w) - y) ** 2) + decay * np.sum(w * w)


def predict(params: Params, x: Vector) -> Vector:
    """A model of a tree of parameters."""
    layer = params["hidden"]
    return np.tanh(x @ layer.w + layer.b) * params["scale"]


def with_aux(w: Vector, x: Vector) -> tuple[Number, Vector]:
    """A loss with its predictions."""
    out = x @ w
    return np.sum(out**2), out


def wave(x: Vector) -> Vector:
    """Element by element."""
    return np.sin(x) * x


def doubled(x: Vector) -> Vector:
    """A linear function."""
    return x * 2.0


def squared(x: float) -> float:
    """Of a number."""
    return x * x


rng = np.random.default_rng(0)
w, x, y = rng.normal(size=3), rng.normal(size=(8, 3)), rng.normal(size=8)
v = np.array([1.0, 2.0, 3.0])
params: Params = {"hidden": Layer(np.ones((3, 2)), np.zeros(2)), "scale": 2.0}


def transforms() -> None:
    """What is made of a function takes the same arguments."""
    assert_type(fgrad.jit(loss)(w, x, y), Number)
    assert_type(fgrad.jit(loss)(w, x, y, decay=0.0), Number)
    assert_type(fgrad.jit(loss, static_argnames="decay")(w, x, y, decay=0.5), Number)
    assert_type(fgrad.jit(predict)(params, x), Vector)
    assert_type(fgrad.jit(static_argnums=3)(loss)(w, x, y, 0.1), Number)
    assert_type(fgrad.value_and_grad(loss)(w, x, y), tuple[Number, Any])
    assert_type(
        fgrad.value_and_grad(with_aux, has_aux=True)(w, x), tuple[tuple[Number, Vector], Any]
    )
    assert_type(fgrad.grad(with_aux, has_aux=True)(w, x), tuple[Any, Vector])
    assert_type(fgrad.jit(fgrad.value_and_grad(loss))(w, x, y), tuple[Number, Any])
    gradient: Vector = fgrad.grad(loss)(w, x, y)
    both: tuple[Vector, Vector] = fgrad.grad(loss, argnums=(0, 1))(w, x, y)
    named: dict[str, Vector] = fgrad.grad(loss, argnames=("w", "x"))(w, x, y)
    value, slope = fgrad.value_and_grad(squared)(3.0)
    assert_type(value, float)
    second: float = fgrad.grad(fgrad.grad(squared))(slope)
    assert_type(fgrad.vmap(loss, in_axes=(None, 0, 0))(w, x, y), Number)
    assert_type(fgrad.vmap(predict, in_axes=(None, 0))(params, x), Vector)
    rows: Vector = fgrad.vmap(fgrad.grad(loss), in_axes=(None, 0, 0))(w, x, y)
    each: Vector = fgrad.per_sample_grad(loss, in_axes=(None, 0, 0))(w, x, y)
    jacobian: Vector = fgrad.jacrev(wave)(v)
    forward: Vector = fgrad.jacfwd(wave, chunk_size=2)(v)
    curvature: Vector = fgrad.hessian(loss)(w, x, y)
    assert_type(fgrad.jvp(wave, (v,), (v,)), tuple[Vector, Vector])
    assert_type(fgrad.jvp(with_aux, (w, x), (w, x), has_aux=True), tuple[Number, Number, Vector])
    out, pull = fgrad.vjp(wave, v)
    assert_type(out, Vector)
    (back,) = pull(out)
    primal, push = fgrad.linearize(wave, v)
    assert_type(push(primal), Vector)
    assert_type(fgrad.vjp(with_aux, w, x, has_aux=True)[2], Vector)
    (transposed,) = fgrad.linear_transpose(doubled, v)(v)
    assert_type(fgrad.checkpoint(wave)(v), Vector)
    assert_type(fgrad.remat(wave)(v), Vector)
    told: dict[str, Vector] = fgrad.grad_wrt_tags(tagged)(v)
    print(
        gradient,
        both,
        named,
        second,
        rows,
        each,
        jacobian,
        forward,
        curvature,
        back,
        transposed,
        told,
    )


def tagged(x: Vector) -> Number:
    """Identities give back what they take."""
    hidden: Vector = fgrad.tag(np.sin(x), "hidden")
    assert_type(fgrad.stop_gradient(hidden), Vector)
    assert_type(fgrad.tap(hidden, on_cotangent=lambda ct: ct * 0.5), Vector)
    assert_type(fgrad.checkpoint_name(x, "x"), Any)
    return np.sum(hidden)


def methods() -> None:
    """Methods, decorators and classes."""

    class Model:
        """With a compiled method."""

        def __init__(self, scale: float) -> None:
            self.scale = scale

        @fgrad.jit
        def __call__(self, x: Vector) -> Vector:
            return x * 2.0

        @staticmethod
        @fgrad.jit
        def square(x: Vector) -> Vector:
            """Compiled."""
            return x * x

    @fgrad.jit(static_argnames="n", max_traces=8)
    def power(x: Vector, n: int = 2) -> Vector:
        return x**n

    @fgrad.vmap
    def norm(row: Vector) -> np.float64:
        return np.sum(row * row)

    assert_type(Model.square(v), Vector)
    assert_type(power(v, n=3), Vector)
    assert_type(norm(x), np.float64)
    model: Callable[[Vector], Vector] = Model.square
    print(model(v))


@fgrad.custom_jvp
def log1pexp(x: Vector) -> Vector:
    """A rule for forward mode."""
    return np.log1p(np.exp(x))


def _log1pexp_slope(t: Vector, _out: Vector, x: Vector) -> Vector:
    return t / (1.0 + np.exp(-x))


log1pexp.defjvps(_log1pexp_slope)


@fgrad.custom_jvp
def cubed(x: Vector) -> Vector:
    """A rule by a function of primals and tangents."""
    return x * x * x


@cubed.defjvp
def _cubed_jvp(primals: tuple[Vector], tangents: tuple[Vector]) -> tuple[Vector, Vector]:  # pyright: ignore[reportUnusedFunction]
    (x,), (t,) = primals, tangents
    return x * x * x, 3 * x * x * t


@fgrad.custom_vjp
def straight(x: Vector) -> Vector:
    """A rule for reverse mode."""
    return np.round(x)


def _straight_fwd(x: Vector) -> tuple[Vector, None]:
    return np.round(x), None


def _straight_bwd(_saved: None, ct: Vector) -> tuple[Vector]:
    return (ct,)


straight.defvjp(_straight_fwd, _straight_bwd)


def rules() -> None:
    """Own rules, callbacks, hooks."""
    assert_type(log1pexp(v), Vector)
    assert_type(cubed(v), Vector)
    assert_type(straight(v), Vector)

    def total(x: Vector) -> Number:
        summed: Number = np.sum(straight(x))
        return summed

    def log(s: Number) -> None:
        logged.append(float(s))

    slope: Vector = fgrad.grad(total)(v)
    result: Vector = fgrad.pure_callback(np.sin, fgrad.ShapeDtype((3,), float), v)
    logged: list[float] = []
    fgrad.debug.callback(log, v[0])
    fgrad.debug.print("x = {x}", x=v)
    with fgrad.debug.nans(infs=False), fgrad.debug.check_index():
        safe = fgrad.grad(squared)(2.0)
    root: float = fgrad.custom_root(lambda x: x * x - 2.0, 1.0, newton, lambda g, y: y / g(1.0))
    print(slope, result, logged, safe, root)


def newton(f: Callable[[float], float], x: float) -> float:
    """The solver of a custom root."""
    root: float = lax.fori_loop(0, 8, lambda _, x: x - f(x) / (2 * x), x)
    return root


def loops() -> None:
    """Loops and branches."""

    def step(carry: Vector, row: Vector) -> tuple[Vector, np.float64]:
        carry = carry * 0.5 + row
        return carry, np.sum(carry)

    def first(pair: tuple[float, float]) -> float:
        return pair[0]

    def second(pair: tuple[float, float]) -> float:
        return pair[1]

    def ranked(x: ArrayLike) -> Array:
        summed: Array = lax.psum(x, "i")
        return summed

    @fgrad.jit
    def weighted(x: Vector) -> Vector:
        for k in fgrad.unroll(range(3)):
            x = x * k
        return x

    last, sums = lax.scan(step, w, x)
    backwards = lax.scan(step, w, x, reverse=True, checkpoint="sqrt")
    counted = lax.scan(lambda c, _: (c * 2.0, c), 1.0, length=4)
    halved = lax.while_loop(lambda t: t > 1.0, lambda t: t / 2, 37.0)
    total: Vector = lax.fori_loop(0, 5, lambda i, t: t + i, v)
    assert_type(lax.cond(v[0] > 0, wave, fgrad.jit(wave), v), Vector)
    assert_type(lax.cond(True, first, second, (1.0, 2.0)), float)
    assert_type(lax.switch(1, [wave, doubled], v), Vector)
    mapped: Vector = lax.map(wave, x, batch_size=4)
    running: Vector = lax.associative_scan(np.add, v)
    ranks = fgrad.vmap(ranked, axis_name="i")(v)
    assert_type(weighted(v), Vector)
    print(last, sums, backwards, counted, halved, total, mapped, running, ranks)


def trees() -> None:
    """Trees."""

    @tree.register_dataclass
    @dataclasses.dataclass
    class State:
        """A dataclass as a tree."""

        position: Vector
        time: float = 0.0

    @tree.dataclass
    class Point:
        """A dataclass whose fields are known."""

        place: Vector
        mass: float = 1.0

    def later(state: State) -> State:
        return State(state.position + 1.0, state.time + 1.0)

    def of_params(p: Params) -> Number:
        return np.sum(predict(p, x))

    summed: Params = tree.map(np.add, params, params)
    leaves = tree.leaves(params)
    flat, treedef = tree.flatten(params)
    again: Params = tree.unflatten(treedef, flat)
    assert_type(treedef, tree.TreeDef)
    vector, back = tree.ravel(params)
    square: float = tree.reduce(lambda s, p: s + np.sum(p**2), params, 0.0)
    named = [tree.keystr(path) for path, _ in tree.leaves_with_path(params)]
    assert_type(fgrad.jit(later)(State(v)), State)
    assert_type(Point(v, mass=2.0).place, Vector)
    slopes: Params = fgrad.grad(of_params)(params)
    print(summed, len(leaves), again, back(vector), square, named, slopes)


def randomness() -> None:
    """Keys."""
    key = random.key(0)
    assert_type(key, Array)
    first, second = random.split(key)
    normal = random.normal(first, (3,))
    uniform = random.uniform(second, (2, 3), minval=-1.0)
    mask = random.bernoulli(key, 0.5, (3,))

    @fgrad.jit
    def noisy(key: Array, x: Array) -> Array:
        moved: Array = x + random.normal(key, x.shape)
        return moved

    @fgrad.vmap
    def several(key: Array) -> Array:
        return random.normal(key, (2,))

    assert_type(noisy(key, v), Array)
    assert_type(several(random.split(key, 4)), Array)
    print(normal, uniform, mask)


def training() -> None:
    """Optimisers and layers."""
    optimizer = optim.chain(optim.clip_by_global_norm(1.0), optim.adam(1e-2))
    state = optimizer.init(w)

    @fgrad.jit
    def step(w: Vector, state: PyTree, x: Vector, y: Vector) -> tuple[Vector, PyTree, Number]:
        value, gradient = fgrad.value_and_grad(loss)(w, x, y)
        assert_type(value, Number)
        updates, state = optimizer.update(gradient, state, w)
        return optim.apply_updates(w, updates), state, value

    fitted, state, value = step(w, state, x, y)
    assert_type(fitted, Vector)
    assert_type(value, Number)
    schedule = optim.cosine_decay(1e-2, 100)
    momentum = optim.sgd(1e-2, momentum=0.9)
    decayed = optim.adamw(1e-3, weight_decay=0.01)
    hidden: Array = nn.gelu(x)
    odds: Array = nn.log_softmax(x, axis=-1)
    entropy: Array = nn.relu(special.logsumexp(x, axis=1))
    print(schedule, momentum, decayed, hidden, odds, entropy)


def looking() -> None:
    """Shapes, programs, costs."""
    spec = fgrad.ShapeDtype((3,), np.float64)
    assert_type(spec, fgrad.ShapeDtype)
    result = fgrad.eval_shape(wave, spec)
    program = fgrad.make_program(loss)(w, x, y)
    names = [eqn.prim.name for eqn in program.eqns]
    stages = fgrad.inspect(loss)(w, x, y)
    peak: int = stages.memory.peak
    cost = fgrad.cost_analysis(loss)(w, x, y)
    flops: int = cost.flops
    times = fgrad.profile(loss, repeat=1)(w, x, y)
    assert_type(times.seconds, float)
    assert_type(fgrad.explain_capture(loss)(w, x, y), str)
    assert_type(fgrad.explain_retrace(fgrad.jit(loss)), str)
    page = fgrad.view(loss)(w, x, y)
    assert_type(page.dot(), str)
    with fgrad.config.override(disable_jit=True):
        plain = fgrad.jit(wave)(v)
    print(result, names, peak, flops, plain)


def arrays() -> None:
    """Functions of arrays, traced ones too; errors."""

    def standardized(x: ArrayLike, axis: int = -1) -> Array:
        values = fnp.asarray(x)
        centred: Array = (values - values.mean(axis)) / 2.0
        return centred

    updated = fgrad.at(v)[0].set(5.0)
    zeros = fnp.zeros((2, 3))
    assert_type(zeros, np.ndarray[tuple[int, int], np.dtype[np.float64]])
    factor = fgrad.scipy.linalg.cholesky(np.eye(2))
    assert_type(factor.ndim, int)
    scaled = fgrad.jit(standardized)([1.0, 2.0, 3.0])
    assert_type(scaled, Array)
    try:
        fgrad.grad(wave)(v)
    except fgrad.errors.NonScalarGradError as error:
        assert_type(error.headline, str)
    try:
        fgrad.jit(wave, device="none")
    except fgrad.errors.FgradError as error:
        assert_type(error.rows, tuple[tuple[str, str], ...])
    fgrad.testing.check_grads(wave, (v,), order=1)
    lowered = fgrad.jit(wave)
    version: str = fgrad.__version__
    print(updated, zeros, lowered, version, factor)


if __name__ == "__main__":
    for section in (
        transforms, methods, rules, loops, trees, randomness, training, looking, arrays,
    ):  # fmt: skip
        section()
