"""Functions with batching rules, and primitives of the user's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.errors import ArgumentError, CustomRuleError, MissingRuleError

X = np.array([[0.3, -0.7, 1.1], [1.0, 2.0, 3.0]])


def marked() -> tuple[Any, list[Any]]:
    """A function whose batching rule says what it was given."""
    seen: list[Any] = []

    @fgrad.custom_vmap
    def f(x: Any, y: Any) -> Any:
        return np.sin(x) * y

    @f.def_vmap
    def _(axis_size: int, in_batched: Any, x: Any, y: Any) -> Any:
        seen.append((axis_size, in_batched))
        return np.sin(x) * y, True

    return f, seen


def test_rule_is_used() -> None:
    f, seen = marked()
    assert np.allclose(fgrad.vmap(f, in_axes=(1, None))(X, 2.0), 2.0 * np.sin(X.T))
    assert np.allclose(fgrad.jit(fgrad.vmap(f, in_axes=(0, None)))(X, 2.0), 2.0 * np.sin(X))
    assert seen == [(3, [True, False]), (2, [True, False])]


def test_without_a_batch_the_function_runs() -> None:
    f, seen = marked()
    assert np.allclose(f(X, 2.0), 2.0 * np.sin(X))
    assert np.allclose(fgrad.jit(f)(X, 2.0), 2.0 * np.sin(X))
    assert not seen


def test_derivatives() -> None:
    f, seen = marked()
    total = lambda x, y: np.sum(fgrad.vmap(f, in_axes=(0, None))(x, y))  # noqa: E731
    expected = fgrad.grad(lambda x, y: np.sum(np.sin(x) * y), argnums=(0, 1))(X, 2.0)
    for found in (
        fgrad.grad(total, argnums=(0, 1))(X, 2.0),
        fgrad.jit(fgrad.grad(total, argnums=(0, 1)))(X, 2.0),
        fgrad.grad(fgrad.jit(total), argnums=(0, 1))(X, 2.0),
    ):
        assert np.allclose(found[0], expected[0]) and np.isclose(found[1], expected[1])
    assert seen
    assert np.allclose(fgrad.vmap(fgrad.grad(lambda x: np.sum(f(x, 2.0))))(X), 2.0 * np.cos(X))
    assert np.allclose(fgrad.jvp(lambda x: f(x, 2.0), (X,), (X,))[1], 2.0 * np.cos(X) * X)
    assert np.allclose(fgrad.hessian(lambda x: np.sum(f(x, 1.0)))(X[0])[1, 1], -np.sin(-0.7))


def test_nested_batches() -> None:
    f, seen = marked()
    both = fgrad.vmap(fgrad.vmap(f, in_axes=(0, None)), in_axes=(0, None))
    assert np.allclose(both(X, 2.0), 2.0 * np.sin(X))
    assert [size for size, _ in seen] == [3]


def test_trees_and_unbatched_results() -> None:
    @fgrad.custom_vmap
    def f(p: Any) -> Any:
        return {"a": p["a"] * 2.0, "b": p["b"]}

    f.def_vmap(lambda n, flags, p: ({"a": p["a"] * 2.0, "b": p["b"]}, flags[0]))
    out = fgrad.vmap(f, in_axes=({"a": 0, "b": None},))({"a": X, "b": 1.0})
    assert np.array_equal(out["a"], 2.0 * X) and np.array_equal(out["b"], [1.0, 1.0])


DEFECTS = {
    "no pair": (lambda n, flags, x: x, r"must return a pair .*\n.*\n.*it is one array, f64"),
    "structure": (lambda n, flags, x: ((x, x), True), r"must return the result of f first"),
    "flags": (lambda n, flags, x: (x, (True, False)), r"must say which parts"),
    "shape": (lambda n, flags, x: (x[0], True), r"result 0 is f64\[3\], but it must be f64\[2,3\]"),
}


@pytest.mark.parametrize("name", list(DEFECTS))
def test_cards(name: str) -> None:
    rule, text = DEFECTS[name]
    f = fgrad.custom_vmap(lambda x: x)
    f.name = "f"
    with pytest.raises(CustomRuleError, match="no batching rule yet"):
        f(X)
    f.def_vmap(rule)
    with pytest.raises(CustomRuleError, match=text) as caught:
        fgrad.vmap(f)(X)
    assert "rule    test_custom_vmap.py:" in str(caught.value)


@pytest.mark.parametrize("compiled", [False, True])
def test_one_after_the_other(compiled: bool) -> None:
    f = fgrad.sequential_vmap(lambda x, y: {"z": np.cumsum(x) * y})
    g = fgrad.vmap(f, in_axes=(0, None))
    found = (fgrad.jit(g) if compiled else g)(X, 2.0)
    assert np.allclose(found["z"], 2.0 * np.cumsum(X, axis=1))
    derivative = fgrad.grad(lambda x: np.sum(g(x, 2.0)["z"]))
    assert np.allclose((fgrad.jit(derivative) if compiled else derivative)(X), [[6, 4, 2]] * 2)


# --- primitives


@fgrad.primitive(out=lambda x, **_: x)
def scaled_sine(x: Any, scale: float = 1.0) -> Any:
    """scale sin(x), by NumPy."""
    assert type(x) is not fgrad.trace.Tracer
    return scale * np.sin(x)


@scaled_sine.def_jvp
def _(primals: Any, tangents: Any, out: Any, scale: float = 1.0) -> Any:
    return scale * np.cos(primals[0]) * tangents[0]


def ways(f: Any) -> dict[str, Any]:
    """The derivative of an elementwise function in many ways."""
    total = lambda x: np.sum(f(x))  # noqa: E731
    return {
        "grad": fgrad.grad(total),
        "jit of grad": fgrad.jit(fgrad.grad(total)),
        "grad of jit": fgrad.grad(fgrad.jit(total)),
        "jvp": lambda x: fgrad.jvp(f, (x,), (np.ones_like(x),))[1],
        "vmap of grad": fgrad.vmap(fgrad.grad(total)),
        "grad of vmap": fgrad.grad(lambda x: np.sum(fgrad.vmap(f)(x))),
        "jit of vmap of grad": fgrad.jit(fgrad.vmap(fgrad.grad(total))),
        "scan": fgrad.jit(
            fgrad.grad(lambda x: fgrad.lax.scan(lambda c, v: (c + np.sum(f(v)), None), 0.0, x)[0])
        ),
    }


@pytest.mark.parametrize("way", list(ways(np.sin)))
def test_primitive(way: str) -> None:
    f = lambda x: scaled_sine(x, scale=2.0)  # noqa: E731
    assert np.allclose(f(X), 2.0 * np.sin(X)) and np.allclose(fgrad.jit(f)(X), 2.0 * np.sin(X))
    assert np.allclose(ways(f)[way](X), 2.0 * np.cos(X), rtol=1e-12)
    second = fgrad.grad(lambda x: np.sum(ways(f)[way](x)))(X)
    assert np.allclose(second, -2.0 * np.sin(X), rtol=1e-12)


def test_linear_primitive() -> None:
    @fgrad.primitive(out=lambda x, w: fgrad.ShapeDtype(x.shape, x.dtype))
    def twice(x: Any, w: Any) -> Any:
        return x * w

    @twice.def_transpose(linear_in=(0,))
    def _(ct: Any, x: Any, w: Any) -> Any:
        return twice(ct, w), None

    f = lambda x: np.sum(twice(x, X) ** 2)  # noqa: E731
    assert np.allclose(fgrad.grad(f)(X), 2.0 * X**3)
    assert np.allclose(fgrad.jit(fgrad.grad(f))(X), 2.0 * X**3)
    with pytest.raises(MissingRuleError, match="no derivative"):
        fgrad.grad(lambda w: np.sum(twice(X, w)))(X)


def test_composition_and_several_results() -> None:
    @fgrad.primitive(out=lambda x: (x, fgrad.ShapeDtype((), x.dtype)))
    def both(x: Any) -> Any:
        return np.sin(x), np.sum(x)

    both.def_composition(lambda x: (np.sin(x), np.sum(x)))
    y, total = fgrad.jit(both)(X)
    assert np.allclose(y, np.sin(X)) and np.isclose(total, X.sum())
    assert "both" not in [e.prim.name for e in fgrad.inspect(both)(X).passes["inline"].eqns]
    f = lambda x: np.sum(both(x)[0]) + both(x)[1]  # noqa: E731
    assert np.allclose(fgrad.grad(f)(X), np.cos(X) + 1.0)
    assert np.allclose(fgrad.vmap(both)(X)[1], X.sum(axis=1))


def test_batching_rule() -> None:
    sizes = []

    @fgrad.primitive(out=lambda x: fgrad.ShapeDtype((), x.dtype))
    def total(x: Any) -> Any:
        return np.sum(x)

    @total.def_batch
    def _(size: int, operands: Any, dims: Any) -> Any:
        sizes.append(size)
        return np.sum(operands[0], axis=1 - dims[0]), 0

    assert np.allclose(fgrad.vmap(total)(X), X.sum(axis=1)) and sizes == [2]


def test_cards_of_primitives() -> None:
    @fgrad.primitive(out=lambda x: x)
    def broken(x: Any) -> Any:
        return np.float32(1.0)

    with pytest.raises(CustomRuleError, match=r"another type than it promised"):
        broken(X)
    with pytest.raises(ArgumentError, match="must be hashable"):
        scaled_sine(X, scale=[1.0])

    @fgrad.primitive(out=lambda x: x)
    def plain(x: Any) -> Any:
        return x

    with pytest.raises(MissingRuleError, match=r"no derivative of the primitive 'plain'"):
        fgrad.grad(lambda x: np.sum(plain(x)))(X)
    plain.def_jvp(lambda primals, tangents, out: tangents[0][0])
    with pytest.raises(CustomRuleError, match=r"f64\[3\], but the value is f64\[2,3\]"):
        fgrad.grad(lambda x: np.sum(plain(x)))(X)
