"""Functions that write into their arguments: the caller's arrays and containers hold what NumPy's
would, or a card says why not.  Names begin with the number of the finding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad import grad, jit, value_and_grad, vmap
from fgrad.errors import ArgumentWriteError, InPlaceError, LostWriteWarning


def heat(u: Any) -> None:
    u[1:-1] += 0.5 * (u[2:] - 2 * u[1:-1] + u[:-2])


def test_1_6_a_jitted_function_writes_into_its_argument() -> None:
    step, u, expected = jit(heat), np.arange(6.0) ** 2, np.arange(6.0) ** 2
    for _ in range(4):  # traced, compiled, native
        assert step(u) is None
        heat(expected)
    np.testing.assert_array_equal(u, expected)


@pytest.mark.parametrize("transform", [lambda f: f, jit], ids=["eager", "jit"])
def test_1_6_a_jitted_call_inside_writes_its_callers_arrays(transform: Any) -> None:
    @jit
    def inner(y: Any) -> None:
        y += 1

    def whole(x: Any) -> Any:
        y = x * 1.0
        inner(y)
        return y.sum()

    def parts(x: Any) -> Any:
        y = x * 1.0
        inner(y[1:])
        inner(y[::2])
        return (y * y).sum()

    x = np.arange(1.0, 5.0)
    assert transform(whole)(x) == 14.0
    value, gradient = transform(value_and_grad(whole))(x)
    assert value == 14.0
    np.testing.assert_array_equal(gradient, np.ones(4))
    np.testing.assert_array_equal(transform(grad(parts))(x), 2 * np.add(x, [1, 1, 2, 1]))
    np.testing.assert_array_equal(transform(vmap(whole))(np.stack([x, x])), [14.0, 14.0])


def test_1_6_a_returned_argument_is_that_object() -> None:
    @jit
    def double(u: Any) -> Any:
        u *= 2
        return u

    same = jit(lambda x, y: (y, x, y * 2))
    for _ in range(4):
        u, v = np.ones(3), np.array(2.0)
        assert double(u) is u
        np.testing.assert_array_equal(u, [2.0, 2.0, 2.0])
        first, second, _new = same(u, v)
        assert first is v
        assert second is u


def test_1_6_one_array_given_twice_is_refused() -> None:
    @jit
    def step(a: Any, b: Any) -> None:
        a += b
        b += a

    u = np.arange(4.0)
    for _ in range(4):
        with pytest.raises(ArgumentWriteError, match="shares memory"):
            step(u, u)
    np.testing.assert_array_equal(u, np.arange(4.0))


def test_1_6_parts_of_one_array_that_are_apart_are_written() -> None:
    def step(a: Any, b: Any) -> None:
        a += b
        b *= 2

    jitted, u = jit(step), np.arange(10.0)
    expected = u.copy()
    for _ in range(4):
        for x, f in ((u, jitted), (expected, step)):
            f(x[:5], x[5:])
            f(x[::2], x[1::2])
            f(x[7:2:-1], x[8:3:-1] * 1.0)
    np.testing.assert_array_equal(u, expected)


def test_1_6_what_cannot_be_written_is_refused() -> None:
    fixed = np.ones(3)
    fixed.flags.writeable = False
    windows = np.lib.stride_tricks.sliding_window_view(np.arange(5.0), 3, writeable=True)
    step = jit(lambda u: np.multiply(u, 2, out=u))
    for _ in range(4):
        for x in (fixed, np.broadcast_to(1.0, 3), windows):
            with pytest.raises(ArgumentWriteError, match="cannot be written"):
                step(x)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f8", "c8", "c16", "i2", "u1", "?"])
@pytest.mark.parametrize("shape", [(), (0,), (5,), (3, 4)])
def test_1_6_arrays_of_all_kinds_are_written(dtype: str, shape: Any) -> None:
    def step(u: Any, v: Any) -> Any:
        np.maximum(u, v, out=u)
        v[...] = u[...]
        return u.sum()

    jitted = jit(step)
    for strided in (False, True):
        for k in range(4):
            a, b = (np.full(tuple([2 * n for n in shape]), n, dtype) for n in (k % 2, 1))
            if strided and shape:
                a, b = a[..., ::2], b.T[::-1].T[..., 1::2]
            x, y = a.copy(), b.copy()
            np.testing.assert_array_equal(jitted(a, b), step(x, y))
            np.testing.assert_array_equal(a, x)
            np.testing.assert_array_equal(b, y)


def test_1_6_containers_hold_what_was_stored_in_them() -> None:
    def step(p: Any, x: Any) -> Any:
        p["w"] = p["w"] * x
        p["new"] = {"sum": x.sum(), "kept": p["list"], "text": "done"}
        p["list"].append(x + 1)
        p["n"] += 1
        del p["gone"]
        return x

    def fresh() -> Any:
        return {"w": np.ones(2), "list": [np.zeros(2)], "n": 3, "gone": 1.0}

    jitted, x = jit(step), np.array([2.0, 3.0])
    for _ in range(4):
        found, expected = fresh(), fresh()
        inner = found["list"]
        jitted(found, x)
        step(expected, x)
        assert list(found) == list(expected)
        assert found["list"] is inner
        assert found["new"]["kept"] is inner
        assert fgrad.tree.structure(inner) == fgrad.tree.structure(expected["list"])
        np.testing.assert_array_equal(found["w"], expected["w"])
        np.testing.assert_array_equal(inner[1], expected["list"][1])
        assert found["n"] == 4


def test_1_6_attributes_hold_what_was_stored_in_them() -> None:
    @fgrad.tree.dataclass
    class Model:
        w: Any
        b: Any

    def step(m: Any) -> None:
        m.w, m.b = m.b * 2, m.w
        m.calls = 1

    jitted = jit(step)
    for _ in range(3):
        w, b = np.ones(2), np.zeros(3)
        model = Model(w, b)
        jitted(model)
        assert model.b is w
        assert model.calls == 1
        np.testing.assert_array_equal(model.w, np.zeros(3))


def test_1_6_a_call_that_raises_leaves_its_arguments() -> None:
    @jit
    def step(u: Any, a: Any) -> None:
        u += 1
        u *= np.linalg.inv(a)

    u = np.ones((2, 2))
    for _ in range(4):
        with pytest.raises(np.linalg.LinAlgError):
            step(u, np.zeros((2, 2)))
        np.testing.assert_array_equal(u, np.ones((2, 2)))


def test_1_6_what_is_written_into_a_differentiated_argument_and_not_returned_warns() -> None:
    def lost(x: Any) -> Any:
        x += 1
        return np.sum(x * x)

    def returned(x: Any) -> Any:
        x += 1
        return np.sum(x * x), x

    x = np.arange(3.0)
    calls = (
        lambda: grad(lost)(x),
        lambda: jit(grad(lost))(x),
        lambda: fgrad.vjp(lost, x),
        lambda: fgrad.jvp(lost, (x,), (x,)),
        lambda: fgrad.linearize(lost, x),
        lambda: fgrad.hessian(lost)(x),
        lambda: fgrad.jacfwd(lost)(x),
        lambda: vmap(lost)(np.stack([x, x])),
    )
    for call in calls:
        with pytest.warns(LostWriteWarning, match="is a copy"):
            call()
    fgrad.grad(returned, has_aux=True)(x)
    fgrad.vjp(returned, x)
    vmap(returned)(np.stack([x, x]))
    np.testing.assert_array_equal(x, np.arange(3.0))


def test_1_6_what_is_stored_in_differentiated_containers_warns() -> None:
    def lost(p: Any) -> Any:
        p["w"] = p["w"] * 2
        return np.sum(p["w"])

    for call in (grad(lost), jit(grad(lost)), vmap(lost)):
        with pytest.warns(LostWriteWarning, match="dict"):
            call({"w": np.ones(3)})


def test_1_6_arguments_that_are_not_differentiated_are_written() -> None:
    def loss(x: Any, seen: Any, p: Any) -> Any:
        seen[1:] += seen[:-1]
        p["n"] += 1
        return np.sum(x * x) * seen[1]

    for call in (grad(loss), fgrad.jacrev(loss), grad(jit(loss)), fgrad.hessian(loss)):
        seen, p = np.ones(3), {"n": 1}
        call(np.ones(2), seen, p)
        np.testing.assert_array_equal(seen, [1.0, 2.0, 2.0])
        assert p["n"] == 2


def test_1_6_what_all_examples_share_is_written_once() -> None:
    def f(x: Any, seen: Any, p: Any) -> Any:
        seen[1:] += seen[:-1]
        p["kept"] = p["w"] + 1
        return x * seen[1]

    seen, p = np.ones(3), {"w": np.zeros(2)}
    out = vmap(f, in_axes=(0, None, None))(np.arange(3.0), seen, p)
    np.testing.assert_array_equal(out, [0.0, 2.0, 4.0])
    np.testing.assert_array_equal(seen, [1.0, 2.0, 2.0])
    np.testing.assert_array_equal(p["kept"], [1.0, 1.0])

    def differs(x: Any, seen: Any) -> Any:
        seen[0] = x
        return x

    with pytest.raises(ArgumentWriteError, match="stores a batched value"):
        vmap(differs, in_axes=(0, None))(np.arange(3.0), seen)
    np.testing.assert_array_equal(seen, [1.0, 2.0, 2.0])


@pytest.mark.parametrize("size", [4, 5000])
def test_1_6_what_is_not_differentiated_is_written_under_jit_too(size: int) -> None:
    def loss(x: Any, seen: Any) -> Any:
        y = np.sum(seen * x)
        seen[1:] += seen[:-1]
        seen *= 2
        part = seen[1:]
        seen += 1
        return y + np.sum(seen * x * x) + part[0] * x

    def outcome(fun: Any) -> Any:
        seen = np.arange(float(size)) % 7
        return fun(3.0, seen), seen

    expected = np.arange(float(size)) % 7
    value = loss(3.0, expected)
    slope = (outcome(lambda x, s: loss(x + 1, s))[0] - outcome(lambda x, s: loss(x - 1, s))[0]) / 2
    found, seen = outcome(jit(loss))
    assert found == value
    np.testing.assert_array_equal(seen, expected)
    gradients = [jit(grad(loss)), jit(jit(grad(loss))), grad(jit(loss)), jit(grad(jit(loss)))]
    gradients += [jit(fgrad.jacfwd(loss)), jit(lambda x, s: fgrad.jvp(
        lambda z: loss(z, s), (x,), (1.0,))[1])]  # fmt: skip
    for gradient in gradients:
        found, seen = outcome(gradient)
        assert found == slope
        np.testing.assert_array_equal(seen, expected)
    mapped = jit(lambda x, s: vmap(loss, in_axes=(0, None))(np.ones(2) * x, s))
    found, seen = outcome(mapped)
    np.testing.assert_array_equal(found, [value, value])
    np.testing.assert_array_equal(seen, expected)


def test_1_6_what_has_a_derivative_is_not_written_into_what_has_none() -> None:
    def loss(x: Any, seen: Any) -> Any:
        seen[0] = x
        return np.sum(seen) * x

    for fun in (jit(grad(loss)), grad(jit(loss))):
        seen = np.ones(3)
        with pytest.raises(InPlaceError):
            fun(2.0, seen)
        np.testing.assert_array_equal(seen, np.ones(3))


def test_1_6_views_that_depend_on_the_layout_of_memory_are_refused() -> None:
    def step(u: Any) -> None:
        line = u.reshape(-1)
        line[1] = 9

    jitted = jit(step)
    for _ in range(4):
        u = np.zeros((2, 3))
        jitted(u)
        assert u[0, 1] == 9
        with pytest.raises(ArgumentWriteError, match="would be a copy"):
            jitted(np.zeros((3, 2)).T)


def _checkpointed(x: Any, seen: Any) -> Any:
    fgrad.checkpoint(_touch)(x, seen)
    return np.sum(x)


def _touch(y: Any, seen: Any) -> Any:
    y += 1
    return np.sum(y * y)


def _custom(x: Any, seen: Any) -> Any:
    f = fgrad.custom_jvp(lambda y: _touch(y, seen))
    f.defjvp(lambda p, t: (f(*p), 2 * np.sum(p[0] * t[0])))
    return f(x) + np.sum(x)


def _branch(x: Any, seen: Any) -> Any:
    y = x * 1.0
    out = fgrad.lax.cond(np.sum(y) > 0, lambda y: _touch(y, seen), np.sum, y)
    return out + np.sum(y)


def _budget(x: Any, seen: Any) -> Any:
    return fgrad.value_and_grad(_touch, argnums=1, memory="1MB")(x, seen)[0]


def _chunks(x: Any, seen: Any) -> Any:
    return fgrad.vmap(lambda z, s: _touch(s, z), (0, None), chunk_size=1)(x, seen)


@pytest.mark.parametrize("fun", [_checkpointed, _custom, _branch, _budget, _chunks])
@pytest.mark.parametrize("transform", [lambda f: f, jit, lambda f: vmap(f, (0, None))])
def test_1_6_no_function_that_is_called_with_copies_loses_writes(fun: Any, transform: Any) -> None:
    x, seen = np.ones((2, 2)), np.ones(2)
    try:
        found = transform(fun)(x, seen)
    except (ArgumentWriteError, InPlaceError, ValueError):
        np.testing.assert_array_equal(x, np.ones((2, 2)))
        np.testing.assert_array_equal(seen, np.ones(2))
    else:
        assert fun is _checkpointed and found == 8.0
        np.testing.assert_array_equal(x, 2 * np.ones((2, 2)))
