"""Programs on blocks: `shard_map` on simulated meshes equals the same program on whole arrays."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad import distributed as dist
from fgrad import lax, nn
from fgrad.distributed import P
from fgrad.errors import ArgumentError, AxisNameError, ShapeError, VaryingError

SAME = P()


def close(got: Any, want: Any, rtol: float = 1e-10) -> None:
    pairs = zip(fgrad.tree.leaves(got), fgrad.tree.leaves(want), strict=True)
    for a, b in pairs:
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-12)


# --- blocks

SPECS = [
    ((8, 6), P()),
    ((8, 6), P("a")),
    ((8, 6), P(None, "b")),
    ((6, 8), P("b", "a")),
    ((8, 6), P("a", "b")),
    ((12, 5), P(("a", "b"))),
    ((12, 5), P(("b", "a"))),
    ((3, 12, 2), P(None, ("b", "a"))),
]


@pytest.mark.parametrize(("shape", "spec"), SPECS)
def test_blocks_are_cut_and_joined(shape: tuple[int, ...], spec: P) -> None:
    x = np.arange(float(np.prod(shape))).reshape(shape)
    mesh = dist.simulate(a=2, b=3)
    seen: list[tuple[int, ...]] = []

    def body(x: Any) -> Any:
        seen.append(x.shape)
        return 3.0 * x

    sharded = dist.shard_map(body, mesh=mesh, in_specs=spec, out_specs=spec)
    np.testing.assert_array_equal(sharded(x), 3.0 * x)
    np.testing.assert_array_equal(fgrad.jit(sharded)(x), 3.0 * x)
    cut = {k: np.prod([mesh.shape[n] for n in names]) for k, names in enumerate(spec.parts)}
    assert seen[0] == tuple([n // int(cut.get(k, 1)) for k, n in enumerate(shape)])


def test_blocks_lie_in_the_order_of_the_names() -> None:
    mesh = dist.simulate(a=2, b=3)
    for names in (("a", "b"), ("b", "a")):
        f = dist.shard_map(
            lambda x, names=names: x + lax.axis_index(names),
            mesh=mesh, in_specs=P(names), out_specs=P(names),
        )  # fmt: skip
        np.testing.assert_array_equal(f(np.zeros(6)), np.arange(6.0))


def test_trees_prefixes_and_other_objects() -> None:
    mesh = dist.simulate(data=2)
    given = {"x": np.arange(4.0), "y": [np.ones((2, 3)), 5]}

    def body(tree: Any, scale: Any, word: Any) -> Any:
        assert word == "word"
        return {"sum": lax.psum(np.sum(tree["x"]), "data"), "y": tree["y"][0] * scale}

    specs = ({"x": P("data"), "y": [P("data"), P()]}, P(), P())
    f = dist.shard_map(body, mesh=mesh, in_specs=specs, out_specs={"sum": P(), "y": P("data")})
    out = f(given, 2.0, "word")
    assert out["sum"] == 6.0 and out["y"].tolist() == [[2.0] * 3] * 2


# --- derivatives


def mlp(p: Any, x: Any) -> Any:
    return np.tanh(x @ p["a"] + p["b"]) @ p["c"]


def test_data_parallel_training(rng: np.random.Generator) -> None:
    p = {"a": rng.normal(size=(3, 5)), "b": rng.normal(size=5), "c": rng.normal(size=(5, 2))}
    x, y = rng.normal(size=(8, 3)), rng.normal(size=(8, 2))
    mesh = dist.simulate(data=4)

    def plain_step(p: Any, x: Any, y: Any) -> Any:
        value, g = fgrad.value_and_grad(lambda p: np.mean((mlp(p, x) - y) ** 2))(p)
        return value, fgrad.tree.map(lambda w, d: w - 0.1 * d, p, g)

    @fgrad.jit
    @dist.shard_map(mesh=mesh, in_specs=(SAME, P("data"), P("data")), out_specs=SAME)
    def step(p: Any, x: Any, y: Any) -> Any:
        loss = lambda p: lax.pmean(np.mean((mlp(p, x) - y) ** 2), "data")  # noqa: E731
        value, g = fgrad.value_and_grad(loss)(p)
        return value, fgrad.tree.map(lambda w, d: w - 0.1 * d, p, g)

    q = p
    for _ in range(5):
        value, p = step(p, x, y)
        want, q = plain_step(q, x, y)
        close((value, p), (want, q))


def block(p: Any, x: Any, heads: int, join: Callable[[Any], Any] = lambda x: x) -> Any:
    """A transformer block; `join` sums what the heads and the hidden units give."""
    batch, length, _ = x.shape
    y = nn.layer_norm(x, (-1,))
    q, k, v = [np.reshape(y @ p[w], (batch, length, heads, -1)) for w in ("q", "k", "v")]
    scores = np.einsum("bihd,bjhd->bhij", q, k) / np.sqrt(q.shape[-1])
    seen = np.einsum("bhij,bjhd->bihd", nn.softmax(scores), v)
    x = x + join(np.reshape(seen, (batch, length, -1)) @ p["o"])
    hidden = np.tanh(nn.layer_norm(x, (-1,)) @ p["up"])
    return x + join(hidden @ p["down"])


@pytest.mark.parametrize(("data", "model"), [(1, 1), (2, 1), (1, 2), (2, 2), (4, 1)])
def test_a_transformer_block_on_data_and_model_axes(
    data: int, model: int, rng: np.random.Generator
) -> None:
    width, heads = 8, 4
    p = {w: 0.4 * rng.normal(size=(width, width)) for w in ("q", "k", "v", "o")}
    p |= {"up": 0.4 * rng.normal(size=(width, 12)), "down": 0.4 * rng.normal(size=(12, width))}
    x, y = rng.normal(size=(2, 4, 3, width))
    columns, rows = P(None, "model"), P("model")
    cut = {"q": columns, "k": columns, "v": columns, "o": rows, "up": columns, "down": rows}

    def plain_step(p: Any, x: Any, y: Any) -> Any:
        value, g = fgrad.value_and_grad(lambda p: np.mean((block(p, x, heads) - y) ** 2))(p)
        return value, fgrad.tree.map(lambda w, d: w - 0.1 * d, p, g)

    @dist.shard_map(
        mesh=dist.simulate(data=data, model=model),
        in_specs=(cut, P("data"), P("data")), out_specs=(SAME, cut),
    )  # fmt: skip
    def step(p: Any, x: Any, y: Any) -> Any:
        def loss(p: Any) -> Any:
            z = block(p, x, heads // model, lambda part: lax.psum(part, "model"))
            return lax.pmean(np.mean((z - y) ** 2), "data")

        value, g = fgrad.value_and_grad(loss)(p)
        return value, fgrad.tree.map(lambda w, d: w - 0.1 * d, p, g)

    q, compiled = p, fgrad.jit(step)
    for take in (step, compiled, compiled):
        value, p = take(p, x, y)
        want, q = plain_step(q, x, y)
        close((value, p), (want, q))


def test_the_heat_equation_and_its_adjoint(rng: np.random.Generator) -> None:
    n, steps = 4, 9
    u, target = rng.normal(size=(2, 24))
    right, left = [(r, r + 1) for r in range(n - 1)], [(r + 1, r) for r in range(n - 1)]

    def plain(u: Any, k: Any) -> Any:
        for _ in range(steps):
            e = np.concatenate([u[:1] * k, u, u[-1:] * k])
            u = u + 0.2 * (e[:-2] - 2 * u + e[2:])
        return np.sum((u - target) ** 2)

    @dist.shard_map(
        mesh=dist.simulate(x=n), in_specs=(P("x"), SAME, P("x")), out_specs=(P("x"), SAME)
    )
    def adjoint(u: Any, k: Any, target: Any) -> Any:
        def loss(u: Any, k: Any) -> Any:
            place = lax.axis_index("x")

            def step(u: Any, _: Any) -> Any:
                low = np.where(place == 0, u[:1] * k, lax.ppermute(u[-1:], "x", right))
                high = np.where(place == n - 1, u[-1:] * k, lax.ppermute(u[:1], "x", left))
                e = np.concatenate([low, u, high])
                return u + 0.2 * (e[:-2] - 2 * u + e[2:]), None

            return lax.psum(np.sum((lax.scan(step, u, length=steps)[0] - target) ** 2), "x")

        return fgrad.grad(loss, (0, 1))(u, k)

    want = fgrad.grad(plain, (0, 1))(u, 0.7)
    close(adjoint(u, 0.7, target), want)
    close(fgrad.jit(adjoint)(u, 0.7, target), want)


def test_derivatives_from_outside(rng: np.random.Generator) -> None:
    a, x = rng.normal(size=(4, 6)), rng.normal(size=(6, 2))
    f = dist.shard_map(
        lambda a, x: lax.psum(np.tanh(a) @ x, "k"),
        mesh=dist.simulate(k=3), in_specs=(P(None, "k"), P("k")), out_specs=SAME,
    )  # fmt: skip
    loss = lambda f: lambda a, x: np.sum(np.sin(f(a, x)))  # noqa: E731
    plain = lambda a, x: np.tanh(a) @ x  # noqa: E731
    close(fgrad.grad(loss(f), (0, 1))(a, x), fgrad.grad(loss(plain), (0, 1))(a, x))
    close(
        fgrad.jvp(f, (a, x), (x[:4, :1] + a, x))[1], fgrad.jvp(plain, (a, x), (x[:4, :1] + a, x))[1]
    )
    many = np.stack([x, 2 * x])
    close(fgrad.vmap(f, (None, 0))(a, many), fgrad.vmap(plain, (None, 0))(a, many))


# --- pickles, and what is refused


def _mean(x: Any) -> Any:
    return np.mean(x)


def test_pickles() -> None:
    f = dist.shard_map(_total, mesh=dist.simulate(data=2), in_specs=P("data"), out_specs=SAME)
    assert pickle.loads(pickle.dumps(f))(np.arange(4.0)) == 6.0


def _total(x: Any) -> Any:
    return lax.psum(np.sum(x), "data")


@pytest.mark.parametrize(
    ("in_specs", "out_specs", "x", "error", "words"),
    [
        (P("data"), SAME, np.ones(4), VaryingError, "varies over 'data'"),
        (P("data"), P("data"), np.ones(3), ShapeError, "axis 0 of x of _mean has length 3"),
        (P(None, "data"), SAME, np.ones(4), ShapeError, "too few axes"),
        (P("rows"), SAME, np.ones(4), AxisNameError, "the mesh has no axis 'rows'"),
        (P("data"), P("rows"), np.ones(4), AxisNameError, "the mesh has no axis 'rows'"),
        ("data", SAME, np.ones(4), ArgumentError, "must hold P"),
        ((SAME, SAME), SAME, np.ones(4), ArgumentError, "2 entries"),
        (SAME, (SAME, SAME), np.ones(4), ArgumentError, "not a prefix"),
    ],
)
def test_cards(in_specs: Any, out_specs: Any, x: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        dist.shard_map(_mean, mesh=dist.simulate(data=2), in_specs=in_specs, out_specs=out_specs)(x)


def test_meshes() -> None:
    mesh = dist.simulate(data=2, model=3)
    assert (mesh.size, mesh.shape) == (6, {"data": 2, "model": 3})
    assert mesh == dist.simulate(data=2, model=3) and hash(mesh) == hash(
        dist.simulate(data=2, model=3)
    )
    for axes in ({}, {"data": 0}, {"data": 1.5}, {"data": True}):
        with pytest.raises(ArgumentError):
            dist.simulate(**axes)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="once"):
        P("a", "a")
    with pytest.raises(ArgumentError):
        P(3)  # type: ignore[arg-type]
    inner = dist.shard_map(np.sin, mesh=dist.simulate(data=2), in_specs=SAME, out_specs=SAME)
    with pytest.raises(AxisNameError, match="open already"):
        fgrad.vmap(inner, axis_name="data")(np.ones(2))
