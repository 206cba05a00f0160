"""In-place code does what NumPy does: no view is read as it was before its base was written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp
from fgrad.errors import InPlaceError

A = np.arange(1.0, 5.0)

VIEW_IS_READ = (
    "v.copy()", "np.copy(v)", "fnp.array(v)", "v.astype(float)", "v.flatten()", "+v",
    "np.positive(v)", "np.roll(v, 0)", "v.conj()", "v.real", "np.squeeze(v)",
)  # fmt: skip
VIEW_IS_STORED = ("y[:] = v", "y[...] = v", "np.copyto(y, v)", "y.flat = v", "y.flat[:] = v")
NOTHING_IS_WRITTEN = ("v[3:3] = 0", "v[:] = v", "v[...] = v", "v[range(0)] = 1.", "v[()] = v")

PROGRAMS = {
    **{f"1.1 {r}": f"v = x[1:]; x *= x; r = {r}" for r in VIEW_IS_READ},
    **{f"1.1 {w}": f"y = fnp.zeros(3); v = x[1:]; x *= x; {w}; r = y" for w in VIEW_IS_STORED},
    **{f"1.1 {w}": f"v = x[:]; x.fill(.25); {w}; r = x" for w in NOTHING_IS_WRITTEN},
    "1.2 ravel of a strided view is a copy": "v = x[::-1].ravel(); v[0] = 10; r = x",
    "1.2 reshape of a strided view": "v = x[::2].reshape(1, 2); v[0, 0] = 10; r = x",
    "1.2 reshape of a column is a copy": "m = x.reshape(2, 2)*1; m.T.reshape(-1)[0] = 9; r = m",
    "1.2 ravel('F')": "m = x.reshape(2, 2)*1; m.ravel('F')[1] = 9; r = m",
    "1.2 ravel('K')": "m = x.reshape(2, 2)*1; m.T.ravel('K')[1] = 9; r = m",
    "1.2 reshape('A')": "m = x.reshape(2, 2)*1; m.T.reshape(-1, order='A')[1] = 9; r = m",
    "1.3 copyto with overlap": "v = x[::-1]; np.copyto(v, x); r = x",
    "1.3 assignment with overlap": "x[1:] = x[:-1]; x[::-1][...] = x; r = x",
    "1.4 a view of rank 0": "v = x[..., 1]; v[...] = 7; r = x * v",
    "1.4 += of a view of rank 0": "v = x[..., 1]; w = v; v += 7; r = x * w",
    "1.4 x[()]": "v = x[()]; v[0] = 7; r = x",
    "1.4 squeezed": "v = x[:1].squeeze(); v *= 7; r = x",
    "an array of rank 0": "s = fnp.zeros(()); t = s; s += x[0]; s[...] = s*2; r = s + t",
    "one of a traced value": "s = fnp.full((), x[1]); t = s; s *= 2; r = s + t",
    "np.take makes C order": "m = np.take(x.reshape(2, 2), [1, 0], 1); m.reshape(-1)[0] = 9; r = m",
    "2.9 leading axes of length 1": "m = x[None]*1; m[0, :] = m; m[0, [0]] = m[:, :1]; r = m",
    "2.9 an empty range": "x[range(0)] = 1.; r = x",
    "read-only views see writes": "b = np.broadcast_to(x, (2, 4)); x[0] = 9; r = b",
    "diagonals see writes": "m = x.reshape(2, 2)*1; d = np.diag(m); m[0, 0] = 9; r = d",
    "a part of x.flat is a copy": "v = x.flat[1:3]; v[0] = 9; r = x",
    "an index array is no slice": "m = x.reshape(2, 2)*1; m[np.array([1, 0]), :] = m[:2, :]; r = m",
    "two arrays at once": "s = np.sum(x); a, b = np.atleast_1d(x, s); x[0] = 9; r = a + b",
}  # fmt: skip


def function(statements: str) -> Callable[[Any], Any]:
    """A function of an array; it returns `r`."""
    scope: dict[str, Any] = {"np": np, "fnp": fnp}
    lines = ["def f(a):", "x = a.copy()", *statements.split("; "), "return r"]
    exec("\n    ".join(lines), scope)
    return scope["f"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_result_is_that_of_numpy(name: str) -> None:
    f = function(PROGRAMS[name])
    right = f(A.copy())
    for found in (
        fgrad.vjp(f, A)[0],
        fgrad.jit(f)(A),
        fgrad.vmap(f)(np.stack([A, A]))[1],
        fgrad.jvp(f, (A,), (A,))[0],
    ):
        np.testing.assert_allclose(found, right)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_gradient_is_that_of_differences(name: str) -> None:
    f = function(PROGRAMS[name])

    def loss(a: Any) -> Any:
        return np.sum(np.sin(f(a)))

    steps = 1e-6 * np.eye(4)
    right = [(loss(A + h) - loss(A - h)) / 2e-6 for h in steps]
    for gradient in (fgrad.grad(loss), fgrad.jit(fgrad.grad(loss)), fgrad.grad(fgrad.jit(loss))):
        np.testing.assert_allclose(gradient(A), right, atol=1e-7)


# --- 1.14: an array that an inner function makes of outer values is that function's own -----------

MADE_INSIDE = ("x.copy()", "np.zeros_like(x)", "1.0*x", "fnp.array(x)", "np.copy(x)", "x[:]*1",
               "np.stack([x, x])[0].copy()", "x.astype(float)")  # fmt: skip


@pytest.mark.parametrize("made", MADE_INSIDE)
def test_what_an_inner_function_makes_it_may_write(made: str) -> None:
    scope: dict[str, Any] = {"np": np, "fnp": fnp}
    exec(f"def f(w, x):\n y = {made}; v = y[1:]; y[0] = w; v[0] *= w; return np.sum(y * x)", scope)
    f, x = scope["f"], np.arange(1.0, 4.0)
    right = (f(2.0 + 1e-6, x) - f(2.0 - 1e-6, x)) / 2e-6
    np.testing.assert_allclose(fgrad.jit(fgrad.grad(f))(2.0, x), right, rtol=1e-6)
    np.testing.assert_allclose(
        fgrad.vmap(fgrad.grad(f), (0, None))(np.full(2, 2.0), x), [right] * 2
    )

    def mixed(t: Any) -> Any:
        return fgrad.grad(f)(2.0, t)

    value = fgrad.jit(mixed)
    values = [(value(x + h) - value(x - h)) / 2e-6 for h in 1e-6 * np.eye(3)]
    np.testing.assert_allclose(fgrad.grad(mixed)(x), values, atol=1e-6)
    batch = np.arange(2.0)
    for mapped in (fgrad.vmap(f, (0, None)), fgrad.jit(fgrad.vmap(f, (0, None)))):
        np.testing.assert_allclose(mapped(batch, x), [f(w, x) for w in batch])


def test_bodies_and_checkpoints_write_what_they_make() -> None:
    def f(x: Any) -> Any:
        def body(c: Any, e: Any) -> Any:
            y = x.copy()
            y[0] = c
            return c + np.sum(y) * e, y[1]

        c, ys = fgrad.lax.scan(body, x[0], np.ones(3))
        return c + np.sum(ys) + np.sum(fgrad.checkpoint(lambda w: body(w, 2.0)[0])(c))

    def plain(x: Any) -> Any:
        c, total = x[0], 0.0
        for _ in range(3):
            c, total = c + c + np.sum(x[1:]), total + x[1]
        return c + total + c + 2.0 * (c + np.sum(x[1:]))

    np.testing.assert_allclose(fgrad.jit(f)(A), plain(A))
    right = [(plain(A + h) - plain(A - h)) / 2e-6 for h in 1e-6 * np.eye(4)]
    for gradient in (fgrad.grad(f), fgrad.jit(fgrad.grad(f))):
        np.testing.assert_allclose(gradient(A), right, rtol=1e-6)


def test_what_the_outer_function_made_cannot_be_written_inside() -> None:
    def f(x: Any) -> Any:
        y = x.copy()

        def inner(w: Any) -> Any:
            y[0] = w
            return w

        return fgrad.grad(inner)(x[0]) + y[0]

    for transform in (fgrad.grad, fgrad.jit):
        with pytest.raises(InPlaceError, match="outer function"):
            transform(f)(A)


def test_the_advice_of_that_card() -> None:
    def f(x: Any) -> Any:
        y = x * 1.0

        def inner(w: Any) -> Any:
            z = y.copy()
            z[0] = w
            return np.sum(z * z)

        return fgrad.grad(inner)(x[0]) + y[0]

    np.testing.assert_allclose(fgrad.jit(fgrad.grad(f))(A), [3.0, 0, 0, 0])


def test_buffers_that_cannot_be_seen_are_refused() -> None:
    def f(x: Any) -> Any:
        y = np.ndarray(4)
        y[0] = x[0]
        return np.sum(y[:1] * x[:1])

    with fgrad.config.override(capture=False), pytest.raises(ValueError, match="sequence"):
        fgrad.grad(f)(A)
    np.testing.assert_array_equal(fgrad.grad(f)(A), [2.0, 0, 0, 0])
    with pytest.raises(ValueError, match=r"sequence|plain NumPy array"):
        fgrad.jit(f, capture=False)(A)
    assert fgrad.jit(f)(A) == 1.0


NEW_ARRAYS = {
    "a copy": "s = np.copy(x[..., 0]); w = fnp.ascontiguousarray(s); w[0] = 9; r = s * x",
    "an array of a number": "s = fnp.array(x[0]); t = s; s += 1; s[...] *= 2; r = t * x",
    "like a number": "s = np.zeros_like(x[0]); t = s; s += x[1]; r = t * x",
    "a strided line": "v = np.flip(x); w = fnp.asfortranarray(v); w[0] = 9; r = x",
    "filled": "v = np.full_like(x, 0.5); v[0] = x[1]; r = v * x",
    "filled with a line": "v = np.full_like(x, np.ones(4)); v[0] = x[1]; r = v * x",
}


@pytest.mark.parametrize("name", NEW_ARRAYS)
def test_new_arrays_are_arrays(name: str) -> None:
    f = function(NEW_ARRAYS[name])
    for transform in (fgrad.jit, fgrad.vmap, lambda f: lambda x: fgrad.vjp(f, x)[0]):
        batched = transform is fgrad.vmap
        found = transform(f)(np.stack([A, A]) if batched else A)
        np.testing.assert_allclose(found[1] if batched else found, f(A.copy()))


def test_a_plain_array_is_written_after_a_view_of_it_was_used() -> None:
    def small(m: Any) -> Any:
        c = np.array([0.5, 0.5])
        y = m * np.broadcast_to(c, (2, 2))
        c[:] = 7
        return np.sum(y)

    def large(m: Any) -> Any:
        c = np.full(3000, 0.5)
        y = m * c[1:]
        c[:] = 7
        return np.sum(y)

    m = np.ones((2, 2))
    assert fgrad.jit(small)(m) == 2.0
    np.testing.assert_array_equal(fgrad.grad(small)(m), np.full((2, 2), 0.5))
    for transform in (fgrad.jit, fgrad.grad):
        with fgrad.config.override(capture=False), pytest.raises(ValueError, match="read-only"):
            transform(large)(np.ones(2999))
    assert fgrad.jit(large)(np.ones(2999)) == 1499.5
    with pytest.raises(ValueError, match="read-only"):  # a buffer stays NumPy's at the prompt
        fgrad.grad(large)(np.ones(2999))
    c = np.ones(3000)
    fgrad.grad(lambda x: np.sum(x * c[1:]))(np.ones(2999))
    c[:] = 2  # again writable


def test_arrays_that_are_only_read_may_lie_in_any_order() -> None:
    """6: `ascontiguousarray` and `asarray` with a dtype, of transposed and broadcast arguments."""
    a, rows = np.arange(6.0).reshape(2, 3), np.broadcast_to(np.arange(3.0), (2, 3))
    for x in (a, a.T, rows):
        for f in (
            lambda x: fnp.ascontiguousarray(x) + 1,
            lambda x: fnp.asfortranarray(x) * 2,
            lambda x: fnp.asarray(x, dtype=complex) * 2,
            lambda x: fnp.asarray(x * 2, dtype=np.float32).T + 1,
        ):
            for g in (fgrad.jit(f), lambda x, f=f: fgrad.jvp(f, (x,), (x,))[0]):
                np.testing.assert_array_equal(g(x), f(x))


def test_zeros_like_an_array_of_a_trace_that_has_ended_can_be_written() -> None:
    kept: list[Any] = []
    fgrad.grad(lambda x: np.sum(kept.append(x * 1) or x))(A)
    zeros = np.zeros_like(kept[0])
    zeros[...] = 1
    assert np.sum(zeros) == 4


def test_an_array_and_a_view_of_it_are_written_again_after_a_trace() -> None:
    """Both are read-only while a trace has them as constants; a view cannot be freed first."""
    whole = np.ones(2000)
    part = whole[:1500]
    for first, second in ((whole, part), (part, whole), (part[::-1], whole)):
        for f in (
            lambda x, u, v: np.sum(x * u) + np.sum(x * v),
            lambda x, u, v: np.sum(x * u[0] + u) + np.sum(x * v[0] + v),
        ):
            fgrad.grad(f)(2.0, first, second)
            fgrad.jit(fgrad.grad(lambda x, f=f, u=first, v=second: f(x, u, v)))(2.0)
        assert whole.flags.writeable and part.flags.writeable
        whole[0] = part[1] = 1.0
        assert fgrad.grad(lambda x: x * x)(3.0) == 6.0


RANK_0: dict[str, Callable[[Any], Any]] = {
    "roll": lambda v: np.roll(v, 1),
    "flip": np.flip,
    "squeeze": np.squeeze,
    "transpose": np.transpose,
    "reshape": lambda v: np.reshape(v, ()),
    "copy": np.copy,
    "item": lambda v: v[()],
    "ellipsis": lambda v: v[...],
    "ravel": np.ravel,
    "atleast_1d": np.atleast_1d,
    "real": np.real,
    "flat": lambda v: v.flat[:1],
}


@pytest.mark.parametrize("name", RANK_0)
def test_functions_of_rank_0_give_views_copies_or_numbers_as_numpys(name: str) -> None:
    def f(z: Any) -> Any:
        z = z.copy()
        v = RANK_0[name](z[..., 1])
        w = v[...]
        w[...] = 7.0
        return np.sum(v), z

    for made, expected in zip(fgrad.jit(f)(A), f(A), strict=True):
        np.testing.assert_array_equal(made, expected)


def test_a_row_at_a_traced_place_is_a_view() -> None:
    def f(m: Any, k: Any) -> Any:
        row, part = m[k], m[k - 1, 1:]
        row *= 2.0
        part[-1] += row[0]
        m[k, 0] = 9.0
        k += 1  # another number: the views are where they were
        return m, row + 0.0, part.sum()

    m = np.arange(12.0).reshape(3, 4)
    right = f(m.copy(), 2)
    compiled = fgrad.jit(f, capture=False)(m.copy(), 2)
    mapped = fgrad.vmap(lambda m, k: f(m * 1.0, k))(np.stack([m, m]), np.array([1, 2]))
    for found in (compiled, fgrad.jit(f)(m.copy(), 2), [a[1] for a in mapped]):
        for a, b in zip(found, right, strict=True):
            np.testing.assert_array_equal(a, b)
