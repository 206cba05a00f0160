"""Named axes: collectives under every transform, compared with programs that know no axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from random_spmd import SIZES, Case, Lanes, Whole, case

import fgrad
from fgrad import lax
from fgrad.errors import AxisNameError, DtypeError, ShapeError, VaryingError
from fgrad.ir.walk import subprograms

N = 4
Fun = Callable[..., Any]


def over(f: Fun, in_axes: Any = 0, out_axes: Any = 0) -> Fun:
    return fgrad.vmap(f, in_axes, out_axes, axis_name="i")


# --- random programs

MODES = ("value", "jit", "grad", "grad of jit", "grad outside", "jvp", "hvp", "grad of grad")


def full(x: Any, c: Case) -> np.ndarray:
    """A result of the whole program at every place along the axes."""
    named = [SIZES[name] for name in c.names]
    return np.broadcast_to(x, (*named, *np.shape(x)[len(named) :]))


def dotted(f: Fun, where: tuple[int, ...], m: Any) -> Fun:
    """The gradient in a direction that depends on the arguments."""

    def directional(*xs: Any) -> Any:
        total: Any = 0.0
        for g, x in zip(fgrad.grad(f, where)(*xs), xs, strict=True):
            part = m.total(g * np.cos(fgrad.stop_gradient(x)))
            for name in m.names:
                part = m.psum(part, name)
            total = total + np.sum(part)
        return total

    return directional


def results(c: Case, m: Any, mode: str) -> Fun:
    """What is computed of a program at one place."""
    where = tuple(range(len(c.inputs)))

    def value(*xs: Any) -> Any:
        return np.sum(c.program.result(m, list(xs)))

    def along(f: Fun) -> Fun:
        return lambda *xs: fgrad.jvp(f, xs, tuple([np.cos(x) for x in xs]))[1]

    lanes = isinstance(m, Lanes)
    gradient = fgrad.grad(value, where)
    return {
        "value": value,
        "jit": fgrad.jit(value) if lanes else value,
        "grad": gradient,
        "grad of jit": fgrad.grad(fgrad.jit(value), where) if lanes else gradient,
        "jvp": along(value),
        "hvp": along(gradient),
        "grad of grad": fgrad.grad(dotted(value, where, m), where),
    }[mode]


def mismatch(seed: int, mode: str) -> str:
    """How the lanes of a program differ from the program without axes; empty if they do not."""
    c = case(seed)
    lanes, whole = Lanes(c.names), Whole(c.names)
    if mode == "grad outside":
        where = tuple(range(len(c.inputs)))
        mapped = c.lanes(results(c, lanes, "value"))
        got = fgrad.grad(lambda *xs: np.mean(mapped(*xs)), where)(*c.given())
        want = [
            np.reshape(x, y.shape)
            for x, y in zip(results(c, whole, "grad")(*c.inputs), c.given(), strict=True)
        ]
    else:
        mapped = c.lanes(results(c, lanes, mode))
        got = (fgrad.jit(mapped) if seed % 2 else mapped)(*c.given())
        want = fgrad.tree.map(lambda x: full(x, c), results(c, whole, mode)(*c.inputs))
    for g, w in zip(fgrad.tree.leaves(got), fgrad.tree.leaves(want), strict=True):
        w = np.broadcast_to(w, np.shape(g))
        if not np.allclose(g, w, rtol=1e-9, atol=1e-10):
            return f"seed {seed} {mode}: {np.max(np.abs(g - w))}\n" + "\n".join(c.program.text)
    return ""


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("part", range(6))
def test_random_programs(mode: str, part: int) -> None:
    start = 1000 * MODES.index(mode) + 2 * part
    assert not "".join([mismatch(seed, mode) for seed in (start, start + 1)])


# --- rules, one by one


def gathered(x: Any) -> Any:
    return np.tensordot(np.arange(1.0, N + 1), lax.all_gather(x, "i"), 1)


def whole_gathered(x: Any) -> Any:
    return np.broadcast_to(np.tensordot(np.arange(1.0, N + 1), x, 1), x.shape)


RULES: dict[str, tuple[Fun, Fun]] = {
    "psum": (lambda x: lax.psum(x, "i"), lambda x: 0 * x + np.sum(x, 0)),
    "pmean": (lambda x: lax.pmean(x, "i"), lambda x: 0 * x + np.mean(x, 0)),
    "pmax": (lambda x: lax.pmax(x, "i"), lambda x: 0 * x + np.max(x, 0)),
    "pmin": (lambda x: lax.pmin(x, "i"), lambda x: 0 * x + np.min(x, 0)),
    "all_gather": (gathered, whole_gathered),
    "psum_scatter": (
        lambda x: lax.psum_scatter(x, "i") + 0 * x,
        lambda x: np.sum(x, 0)[:, None] + 0 * x,
    ),
    "psum_scatter tiled": (
        lambda x: lax.psum_scatter(x, "i", tiled=True) + 0 * x,
        lambda x: np.sum(x, 0)[:, None] + 0 * x,
    ),
    "all_to_all": (lambda x: lax.all_to_all(x, "i", 0, 0), lambda x: np.transpose(x)),
    "all_to_all tiled": (
        lambda x: lax.all_to_all(x, "i", 0, 0, tiled=True),
        lambda x: np.transpose(x),
    ),
    "ppermute": (
        lambda x: lax.ppermute(x, "i", [(0, 1), (1, 3)]),
        lambda x: np.stack([0 * x[0], x[0], 0 * x[0], x[1]]),
    ),
    "pshuffle": (lambda x: lax.pshuffle(x, "i", [2, 0, 3, 1]), lambda x: x[np.array([2, 0, 3, 1])]),
    "pbroadcast": (lambda x: lax.pbroadcast(x, "i", 2), lambda x: 0 * x + x[2]),
    "axis_index": (
        lambda x: x * lax.axis_index("i"),
        lambda x: x * np.arange(N).reshape(N, *[1] * (x.ndim - 1)),
    ),
    "pvary": (lambda x: lax.pvary(x, "i"), lambda x: x),
}


def bent(f: Fun) -> Fun:
    return lambda x: np.tanh(f(np.sin(x)))


HELD: dict[str, Callable[[Fun], Fun]] = {
    "itself": lambda f: f,
    "jit": fgrad.jit,
    "checkpoint": fgrad.checkpoint,
    "scan": lambda f: lambda x: lax.scan(lambda c, _: (f(c), None), x, length=2)[0],
    "fori": lambda f: lambda x: lax.fori_loop(0, 2, lambda _, c: f(c), x),
    "while": lambda f: (
        lambda x: lax.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, f(s[1])), (0, x))[1]
    ),
    "cond": lambda f: lambda x: lax.cond(np.True_, f, np.cos, x),
    "inner vmap": lambda f: lambda x: fgrad.vmap(f)(np.stack([x, 2 * x]))[1],
}
WHOLE: dict[str, Callable[[Fun], Fun]] = {
    **dict.fromkeys(("itself", "jit", "checkpoint", "cond"), lambda f: f),
    **dict.fromkeys(("scan", "fori", "while"), lambda f: lambda x: f(f(x))),
    "inner vmap": lambda f: lambda x: f(2 * x),
}


def close(got: Any, want: Any) -> None:
    np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("holder", HELD)
@pytest.mark.parametrize("rule", RULES)
def test_rules(rule: str, holder: str, rng: np.random.Generator) -> None:
    x, weights = rng.normal(size=(2, N, N))
    lane, whole = [
        table[holder](bent(f)) for table, f in zip((HELD, WHOLE), RULES[rule], strict=True)
    ]

    def value(x: Any) -> Any:
        return np.sum(whole(x) * weights)

    def loss(x: Any, w: Any) -> Any:
        return lax.psum(np.sum(lane(x) * w), "i")

    close(over(lane)(x), whole(x))
    close(fgrad.jit(over(lane))(x), whole(x))
    expected = fgrad.grad(value)(x)
    gradient = over(fgrad.grad(loss))
    close(gradient(x, weights), expected)
    close(fgrad.jit(gradient)(x, weights), expected)
    outside = fgrad.grad(lambda x: np.sum(over(lane)(x) * weights))
    close(outside(x), expected)
    t = np.cos(x)
    pushed = over(lambda x, t: fgrad.jvp(lane, (x,), (t,))[1])(x, t)
    close(pushed, fgrad.jvp(whole, (x,), (t,))[1])
    curved = over(lambda x, w, t: fgrad.jvp(lambda x: fgrad.grad(loss)(x, w), (x,), (t,))[1])
    np.testing.assert_allclose(
        curved(x, weights, t), fgrad.jvp(fgrad.grad(value), (x,), (t,))[1], rtol=1e-9, atol=1e-11
    )


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint16", "float32", "complex128", "bool"])
def test_dtypes(dtype: str, rng: np.random.Generator) -> None:
    x = (rng.integers(0, 2, (N, 3)) if dtype == "bool" else rng.integers(0, 9, (N, 3))).astype(
        dtype
    )
    total = over(lambda x: lax.psum(x, "i"), 0, None)(x)
    assert total.dtype == (np.int64 if dtype == "bool" else x.dtype)
    np.testing.assert_array_equal(total, np.sum(x, 0).astype(total.dtype))
    np.testing.assert_allclose(over(lambda x: lax.pmean(x, "i"), 0, None)(x), np.mean(x, 0))
    for f in (lambda x: lax.all_gather(x, "i"), lambda x: lax.pbroadcast(x, "i", 1)):
        found = over(f, 0, None)(x)
        assert found.dtype == x.dtype
    turned = over(lambda x: lax.pshuffle(x, "i", [3, 2, 1, 0]))(x)
    np.testing.assert_array_equal(turned, x[::-1])
    assert turned.dtype == x.dtype
    if dtype == "complex128":
        with pytest.raises(DtypeError, match="pmax does not take"):
            over(lambda x: lax.pmax(x, "i"))(x)
    else:
        np.testing.assert_array_equal(over(lambda x: lax.pmax(x, "i"), 0, None)(x), np.max(x, 0))


def test_complex_gradients(rng: np.random.Generator) -> None:
    z = rng.normal(size=N) + 1j * rng.normal(size=N)
    w = 0.3 - 0.2j
    got = over(fgrad.grad(lambda w, z: lax.psum(np.abs(np.sin(w * z)) ** 2, "i")), (None, 0), None)(
        w, z
    )
    want = fgrad.grad(lambda w: np.sum(np.abs(np.sin(w * z)) ** 2))(w)
    np.testing.assert_allclose(got, want, rtol=1e-12)


def test_trees_empty_arrays_and_one_place() -> None:
    x = {"a": np.ones((N, 2)), "b": [np.zeros((N, 0)), np.arange(N)]}
    total = over(lambda x: lax.psum(x, "i"), 0, None)(x)
    np.testing.assert_array_equal(total["a"], [4.0, 4.0])
    assert total["b"][0].shape == (0,) and total["b"][1] == 6
    one = fgrad.vmap(lambda x: lax.psum(x, "i") + lax.axis_index("i"), axis_name="i")
    np.testing.assert_array_equal(one(np.ones((1, 2))), np.ones((1, 2)))
    assert over(lambda x: lax.psum(1, "i") + 0 * x)(np.zeros(N)).tolist() == [N] * N


def test_nan_has_its_gradient() -> None:
    x = np.array([1.0, np.nan, 3.0, 0.0])
    got = over(fgrad.grad(lambda x: lax.pmax(x, "i")))(x)
    np.testing.assert_array_equal(got, fgrad.grad(np.max)(x))
    x = np.array([1.0, 3.0, 3.0, 0.0])
    got = over(fgrad.grad(lambda x: lax.pmax(x, "i")))(x)
    np.testing.assert_array_equal(got, fgrad.grad(np.max)(x))


def test_several_axes(rng: np.random.Generator) -> None:
    x, w = rng.normal(size=(2, 3)), rng.normal()

    def loss(w: Any, x: Any) -> Any:
        return lax.pmean(np.sin(w * x), ("a", "b")) + lax.psum(np.cos(w * lax.psum(x, "a")), "b")

    inner = fgrad.vmap(fgrad.grad(loss), (None, 0), None, axis_name="b")
    got = fgrad.vmap(inner, (None, 0), None, axis_name="a")(w, x)
    want = fgrad.grad(lambda w: np.mean(np.sin(w * x)) + np.sum(np.cos(w * np.sum(x, 0))))(w)
    np.testing.assert_allclose(got, want, rtol=1e-12)
    places = fgrad.vmap(
        fgrad.vmap(lambda x: lax.axis_index(("a", "b")), axis_name="b"), axis_name="a"
    )(x)
    np.testing.assert_array_equal(places, np.arange(6).reshape(2, 3))


# --- what varies


def test_a_carry_varies_as_soon_as_a_step_makes_it(rng: np.random.Generator) -> None:
    x = rng.normal(size=(N, 3))

    def f(w: Any, x: Any) -> Any:
        """The carry begins with zeros, varies from the first step on, and is summed in the next."""

        def step(c: Any, _: Any) -> Any:
            return np.tanh(w * x + lax.psum(c, "i")), c

        last, ys = lax.scan(step, np.zeros(3), length=3)
        return lax.psum(np.sum(last) + np.sum(ys), "i")

    def whole(w: Any) -> Any:
        c, total = np.zeros((N, 3)), 0.0
        for _ in range(3):
            total = total + np.sum(c)
            c = np.tanh(w * x + np.sum(c, 0))
        return total + np.sum(c)

    got = over(fgrad.value_and_grad(f), (None, 0), None)(0.7, x)
    np.testing.assert_allclose(got, fgrad.value_and_grad(whole)(0.7), rtol=1e-12)
    got = over(fgrad.jit(fgrad.value_and_grad(f)), (None, 0), None)(0.7, x)
    np.testing.assert_allclose(got, fgrad.value_and_grad(whole)(0.7), rtol=1e-12)


def test_training_in_a_loop_keeps_parameters_equal(rng: np.random.Generator) -> None:
    x, y = rng.normal(size=(2, N, 5))

    def loss(w: Any, x: Any, y: Any) -> Any:
        return np.mean((np.tanh(w * x) - y) ** 2)

    def train(w: Any, x: Any, y: Any) -> Any:
        def step(w: Any, _: Any) -> Any:
            g = fgrad.grad(lambda w: lax.pmean(loss(w, x, y), "i"))(w)
            return w - 0.1 * g, None

        return lax.scan(step, w, length=6)[0]

    def plain(w: Any) -> Any:
        for _ in range(6):
            w = w - 0.1 * fgrad.grad(loss)(w, x, y)
        return w

    got = over(train, (None, 0, 0), None)(0.5, x, y)
    np.testing.assert_allclose(got, plain(0.5), rtol=1e-12)
    np.testing.assert_allclose(fgrad.jit(over(train, (None, 0, 0), None))(0.5, x, y), got)


def test_a_loop_of_plain_python(rng: np.random.Generator) -> None:
    x = rng.normal(size=(N, 3))

    def f(x: Any) -> Any:
        total = np.zeros(3)
        for _ in range(40):
            total = np.tanh(x + 0.1 * total)
        while np.sum(total) < 40.0:
            total = 2.0 * total + np.abs(x) + 1.0
        return total

    def summed(x: Any) -> Any:
        c = np.zeros(3)
        for k in range(40):
            c = 0.5 * c + lax.pmean(c + x, "i") if k % 2 else np.sin(c) + x
        return c

    np.testing.assert_allclose(fgrad.jit(over(f))(x), fgrad.vmap(f)(x), rtol=1e-12)
    c = np.zeros((N, 3))
    for k in range(40):
        c = 0.5 * c + np.mean(c + x, 0) if k % 2 else np.sin(c) + x
    np.testing.assert_allclose(over(summed)(x), c, rtol=1e-10)
    np.testing.assert_allclose(over(fgrad.jit(summed))(x), c, rtol=1e-10)
    np.testing.assert_allclose(fgrad.jit(over(summed))(x), c, rtol=1e-10)


def test_the_end_of_a_loop_may_vary(rng: np.random.Generator) -> None:
    x = rng.uniform(0.1, 1.0, size=N)

    def f(w: Any, x: Any) -> Any:
        return lax.while_loop(lambda s: s < 4.0, lambda s: s * (1.5 + w), x)

    def gradient(w: Any, x: Any) -> Any:
        return fgrad.grad(lambda w: lax.psum(f(w, x), "i"))(w)

    got = over(gradient, (None, 0), None)(0.3, x)
    want = np.sum([fgrad.grad(f)(0.3, v) for v in x])
    np.testing.assert_allclose(got, want, rtol=1e-10)


def test_types_are_part_of_the_key_of_jit(rng: np.random.Generator) -> None:
    x = rng.normal(size=N)
    scaled = fgrad.jit(lambda w, x: fgrad.grad(lambda w: lax.psum(np.sin(w * x), "i"))(w))
    shared = over(scaled, (None, 0))(0.5, x)
    apart = over(lambda w, x: scaled(lax.pvary(w, "i"), x), (None, 0))(0.5, x)
    np.testing.assert_allclose(shared, np.full(N, np.sum(x * np.cos(0.5 * x))))
    np.testing.assert_allclose(apart, x * np.cos(0.5 * x))
    sized = fgrad.jit(lambda x: x / lax.axis_size("i"))
    assert over(sized)(np.ones(2)).tolist() == [0.5, 0.5]
    assert over(sized)(np.ones(4)).tolist() == [0.25] * 4
    counted = fgrad.jit(lambda c: c * lax.psum(1, "i"))
    for n in (2, 3):
        constant = over(lambda x: counted(np.ones(2)) + x)(np.zeros((n, 2)))
        assert constant.tolist() == [[n, n]] * n


def test_a_parameter_is_summed_once() -> None:
    def loss(w: Any, x: Any) -> Any:
        return lax.pmean(np.sum(np.sin(w * x) * np.cos(w + x) + w * x), "i")

    kept: list[Any] = []

    def gradient(w: Any, x: Any) -> Any:
        made = fgrad.jit(fgrad.grad(loss))
        kept.append(made)
        return made(w, x)

    over(gradient, (None, 0), None)(np.ones(3), np.ones((N, 3)))
    (entry,) = kept[0].entries.values()
    names = [e.prim.name for p in subprograms(entry.program) for e in p.eqns]
    assert names.count("psum") == 2  # of the loss, and of the gradient
    assert names.count("pvary") == 2  # of the parameter, and of the cotangent


def test_rules_of_the_user(rng: np.random.Generator) -> None:
    """A bwd that knows nothing of axes gives each place's part, and one that sums gives the sum."""
    x, w = rng.normal(size=(N, 3)), rng.normal(size=3)

    @fgrad.custom_vjp
    def local(w: Any, x: Any) -> Any:
        return np.sin(w * x)

    local.defvjp(
        lambda w, x: (np.sin(w * x), (w, x)),
        lambda r, ct: (ct * np.cos(r[0] * r[1]) * r[1], ct * np.cos(r[0] * r[1]) * r[0]),
    )

    @fgrad.custom_vjp
    def joined(w: Any, x: Any) -> Any:
        return np.sin(w * x)

    def bwd(r: Any, ct: Any) -> Any:
        slope = ct * np.cos(r[0] * r[1])
        return lax.psum(slope * r[1], "i"), slope * r[0]

    joined.defvjp(lambda w, x: (np.sin(w * x), (w, x)), bwd)
    want = fgrad.grad(lambda w, x: np.sum(np.sin(w * x)), (0, 1))(w, x)
    for f in (local, joined):
        loss = lambda w, x, f=f: lax.psum(np.sum(f(w, x)), "i")  # noqa: E731
        for inside in (fgrad.grad(loss, (0, 1)), fgrad.jit(fgrad.grad(fgrad.jit(loss), (0, 1)))):
            got = over(inside, (None, 0), (None, 0))(w, x)
            np.testing.assert_allclose(got[0], want[0], rtol=1e-12)
            np.testing.assert_allclose(got[1], want[1], rtol=1e-12)
        outside = fgrad.grad(lambda w, x, f=f: np.sum(over(f, (None, 0))(w, x)), (0, 1))(w, x)
        np.testing.assert_allclose(outside[0], want[0], rtol=1e-12)
        np.testing.assert_allclose(outside[1], want[1], rtol=1e-12)


def test_solutions_of_linear_equations(rng: np.random.Generator) -> None:
    a, b = np.eye(3) * 3 + rng.normal(size=(3, 3)), rng.normal(size=(N, 3))

    def solved(a: Any, b: Any) -> Any:
        solve = lambda matvec, b: np.linalg.solve(a, b)  # noqa: E731
        return lax.custom_linear_solve(lambda v: a @ v, b, solve, solve)

    def loss(a: Any, b: Any) -> Any:
        return lax.psum(np.sum(np.sin(np.linalg.solve(a, b))), "i")

    want = fgrad.grad(lambda a: np.sum(np.sin(np.linalg.solve(a, b.T))))(a)
    np.testing.assert_allclose(over(fgrad.grad(loss), (None, 0), None)(a, b), want, rtol=1e-9)
    total = over(lambda a, b: lax.psum(np.sum(solved(a, b)), "i"), (None, 0), None)(a, b)
    np.testing.assert_allclose(total, np.sum(np.linalg.solve(a, b.T)), rtol=1e-10)


def test_random_numbers_of_each_place() -> None:
    key = fgrad.random.key(0)

    def draw(x: Any) -> Any:
        return fgrad.random.normal(fgrad.random.fold_in(key, lax.axis_index("i")), (2,)) + x

    got = over(draw)(np.zeros(N))
    want = [fgrad.random.normal(fgrad.random.fold_in(key, k), (2,)) for k in range(N)]
    np.testing.assert_array_equal(got, want)


# --- what is refused


def test_refusals_in_loops_and_branches() -> None:
    x = np.arange(float(N))

    def in_while(x: Any) -> Any:
        return lax.while_loop(lambda s: s < 4.0, lambda s: s + lax.psum(s, "i"), x + 1.0)

    with pytest.raises(VaryingError, match="The condition of a while loop varies"):
        over(in_while)(x)

    def hidden(x: Any) -> Any:
        inner = fgrad.jit(lambda y: lax.scan(lambda c, _: (lax.pmax(c, "i"), None), y, length=2)[0])
        return lax.cond(x > 1.0, inner, np.sin, x)

    with pytest.raises(VaryingError, match="a pmax in it"):
        over(hidden)(x)
    with pytest.raises(VaryingError, match="same everywhere"):
        over(lambda x: lax.scan(lambda c, _: (c + lax.psum(c, "i"), x), 1.0, length=2)[0])(x)
    with pytest.raises(VaryingError, match="which does not"):
        over(lambda x: fgrad.jacrev(lambda w: w * x)(1.0))(x)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: lax.psum(x, "j"), AxisNameError),
        (lambda x: lax.psum(x, cast(Any, 0)), AxisNameError),
        (lambda x: lax.axis_index("j"), AxisNameError),
        (lambda x: lax.ppermute(x, "i", [(0, 1), (2, 1)]), ShapeError),
        (lambda x: lax.ppermute(x, "i", [(0, 9)]), ShapeError),
        (lambda x: lax.pshuffle(x, "i", [0, 0, 1, 2]), ShapeError),
        (lambda x: lax.pbroadcast(x, "i", 4), ShapeError),
        (lambda x: lax.psum_scatter(np.stack([x] * 3), "i"), ShapeError),
        (lambda x: lax.all_to_all(np.stack([x] * 6), "i", 0, 0, tiled=True), ShapeError),
    ],
)
def test_errors(call: Fun, error: type[Exception]) -> None:
    with pytest.raises(error):
        over(call)(np.ones(N))


def test_names() -> None:
    with pytest.raises(AxisNameError, match="none"):
        lax.psum(1.0, "i")
    for name in ("", 3):
        with pytest.raises(AxisNameError):
            fgrad.vmap(np.sin, axis_name=name)(np.ones(2))  # type: ignore[arg-type]
    with pytest.raises(fgrad.errors.ArgumentError, match="chunk_size"):
        fgrad.vmap(np.sin, axis_name="i", chunk_size=1)(np.ones(2))
    with pytest.raises(AxisNameError, match="open already"):
        over(over(np.sin))(np.ones((N, 2)))
    assert over(lambda x: lax.psum(x, "i"))(np.ones(2)).tolist() == [2.0, 2.0]  # it closed again


def test_interpreted_and_under_disable_jit(rng: np.random.Generator) -> None:
    x = rng.normal(size=N)
    f = over(fgrad.jit(lambda x: lax.psum(np.sin(x), "i")), 0, None)
    with fgrad.config.override(disable_jit=True):
        np.testing.assert_allclose(f(x), np.sum(np.sin(x)))
