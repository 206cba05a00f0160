"""In-place code on traced arrays: the same results as NumPy, the caller's arrays untouched."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp
from fgrad.errors import FgradError, InPlaceError

# Many functions here write into what is differentiated, and do not return it.
pytestmark = pytest.mark.filterwarnings("ignore::fgrad.errors.LostWriteWarning")

X = np.array([0.1, 0.5, -0.3, 0.7])
M = np.arange(12.0).reshape(3, 4) / 10 + 0.01


def slice_in_place(x: Any) -> Any:
    y = 2 * x
    y[0:2] *= 3
    return y


def argument_element(x: Any) -> Any:
    x[1] = x[0] * x[2]
    return x


def mask_unknown(x: Any) -> Any:
    x += 1
    x[x > 1] = 0.5
    return x * x


def row_view(m: Any) -> Any:
    r = m[1]
    r += m[0]
    m[:, 2] = r[2]
    return m * r


def transpose_and_flat_views(m: Any) -> Any:
    t = m.T
    t[0] = t[1] * t[2]
    v = m.reshape(-1)
    v[3] *= 2
    return m + 0


def copies_are_not_views(m: Any) -> Any:
    c = m.copy()
    c[0] = 0
    return m * c


def iteration_over_rows(m: Any) -> Any:
    for row in m:
        row -= row.mean()
    return m


def add_at(m: Any) -> Any:
    np.add.at(m, (np.array([0, 0, 2]), np.array([1, 1, 3])), m[1, :3])
    return m


def diagonal(m: Any) -> Any:
    np.fill_diagonal(m[:, :3], m[0, 3])
    return m


def out_and_copyto(m: Any) -> Any:
    np.sin(m, out=m)
    np.copyto(m[0], m[2])
    return m


def sort_in_place(x: Any) -> Any:
    x.sort()
    x[::-1][0] = 5 * x[0]
    return x


def split_views(m: Any) -> Any:
    a, b = np.split(m, 2, axis=1)
    a *= b
    return m


def two_names_one_array(x: Any) -> Any:
    y = x
    y += 1
    return x * y


def scalars_are_values(x: Any) -> Any:
    s = x[0]
    s += 1
    return x * s


def integer_index(m: Any) -> Any:
    m[np.array([0, 2])] *= m[1]
    return m


def view_of_view(m: Any) -> Any:
    m[1:][:, ::2][0] = m[0, :2] * 3
    return m


def flipped_view(m: Any) -> Any:
    f = np.flip(m, 1)
    f[0] = m[1] * 2
    return m * f


def zeros_like(m: Any) -> Any:
    z = np.zeros_like(m)
    z[1:] = m[:-1]
    z[0] = m[2]
    return z * m


def put_and_put_along_axis(m: Any) -> Any:
    np.put(m, [1, 5, 11], m[0, :3])
    np.put_along_axis(m, np.argmax(m, 1)[:, None], m[:, :1] * 2, 1)
    return m


def views_of_views(x: Any) -> Any:
    y = x.reshape(2, 2)
    z = y.T
    z[0, 1] = x[0] * x[1]
    x[3] = 9 * x[2]
    return z.ravel() * x


def mask_to_itself(m: Any) -> Any:
    m[m > 0.5] += m[m > 0.5]
    return m


def ellipsis_and_newaxis(m: Any) -> Any:
    m[..., 1] = m[..., 0]
    m[None, 0, :] = m[1] * 2
    return m


CASES = [
    (slice_in_place, X),
    (argument_element, X),
    (mask_unknown, X),
    (two_names_one_array, X),
    (scalars_are_values, X),
    (views_of_views, X),
    (sort_in_place, X),
    (row_view, M),
    (transpose_and_flat_views, M),
    (copies_are_not_views, M),
    (iteration_over_rows, M),
    (add_at, M),
    (diagonal, M),
    (out_and_copyto, M),
    (split_views, M),
    (integer_index, M),
    (view_of_view, M),
    (flipped_view, M),
    (zeros_like, M),
    (put_and_put_along_axis, M),
    (ellipsis_and_newaxis, M),
    (mask_to_itself, M),
]


@pytest.mark.parametrize(("fun", "x"), CASES, ids=lambda c: getattr(c, "__name__", ""))
def test_in_place_code(fun: Callable[[Any], Any], x: np.ndarray) -> None:
    expected, before = fun(x.copy()), x.copy()
    for found in (
        fgrad.jit(fun)(x.copy()),
        fgrad.vjp(fun, x)[0],
        fgrad.functionalize(fun)(x)[0],
        fgrad.vmap(fun)(np.stack([x, x]))[1],
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize(("fun", "x"), CASES, ids=lambda c: getattr(c, "__name__", ""))
def test_gradients_of_in_place_code(fun: Callable[[Any], Any], x: np.ndarray) -> None:
    def loss(y: Any) -> Any:
        return np.sum(np.sin(fun(y)))

    numeric = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        h = np.zeros_like(x)
        h[i] = 1e-6
        numeric[i] = (loss(x + h) - loss(x - h)) / 2e-6
    for gradient in (fgrad.grad(loss), fgrad.jit(fgrad.grad(loss)), fgrad.grad(fgrad.jit(loss))):
        np.testing.assert_allclose(gradient(x), numeric, atol=1e-7)


def test_arguments_as_they_are_left() -> None:
    def swap(x: Any) -> Any:
        x[0], x[1] = x[1], x[0]
        return x.sum()

    x = np.array([1.0, 2.0])
    for fun in (swap, fgrad.jit(fgrad.functionalize(swap))):
        out = fgrad.functionalize(fun)(x) if fun is swap else fun(x)
        assert out[0] == 3.0
        np.testing.assert_array_equal(out[1][0], [2.0, 1.0])
    np.testing.assert_array_equal(x, [1.0, 2.0])


def test_new_arrays_of_a_trace_take_traced_values() -> None:
    def f(x: Any) -> Any:
        y = fnp.zeros(3)
        z = fnp.array([1.0, 2.0, 3.0])
        y[1] = x[0] * 2
        z[:2] += x[:2]
        return np.sum(y * z)

    expected = 4.0  # d/dx0 of 2 x0 (2 + x1)
    x = np.array([0.0, 0.0, 0.0])
    np.testing.assert_allclose(fgrad.grad(f)(x)[0], expected)
    np.testing.assert_allclose(fgrad.jit(fgrad.grad(f))(x)[0], expected)
    assert isinstance(fnp.zeros(3), np.ndarray)


def test_writes_into_plain_arrays_are_refused() -> None:
    def f(x: Any) -> Any:
        y = np.zeros(3)
        y += x
        return y.sum()

    def g(x: Any) -> Any:
        y = z = np.zeros(3)
        y += x
        return y.sum() + z.sum()

    np.testing.assert_array_equal(fgrad.grad(f)(np.ones(3)), np.ones(3))
    with fgrad.config.override(capture=False):
        np.testing.assert_array_equal(fgrad.grad(f)(np.ones(3)), np.ones(3))
        with pytest.raises(InPlaceError, match="plain NumPy"):
            fgrad.grad(g)(np.ones(3))


def test_writes_into_an_outer_array_are_refused() -> None:
    def f(x: Any) -> Any:
        def inner(y: Any) -> Any:
            x[0] = 5.0
            return y

        return np.sum(fgrad.jit(inner)(x)) + x[0]

    with pytest.raises(InPlaceError, match="outer function"):
        fgrad.grad(f)(np.ones(3))


def test_a_mask_of_unknown_size_is_refused_by_name() -> None:
    with pytest.raises(FgradError, match="boolean mask"):
        fgrad.jit(lambda x: np.sort(x[x > 0]))(X)


def test_results_of_vjp_may_be_written_into() -> None:
    x = np.array([0.5, 1.0])
    y, pullback = fgrad.vjp(np.exp, x)
    y[:] = 0
    x[:] = 0
    np.testing.assert_allclose(pullback(np.ones(2))[0], np.exp([0.5, 1.0]))


def test_a_residual_is_not_reached_by_later_writes() -> None:
    def f(x: Any) -> Any:
        y, pullback = fgrad.vjp(lambda z: z * z, x)
        x[0] = 100.0
        return np.sum(pullback(np.ones(2))[0]) + y[0] * 0

    np.testing.assert_allclose(fgrad.jit(f)(np.array([1.0, 2.0])), 6.0)
    np.testing.assert_allclose(fgrad.grad(f)(np.array([1.0, 2.0])), [2.0, 2.0])


def test_arrays_made_like_others_take_traced_values() -> None:
    def f(x: Any) -> Any:
        y, z = fnp.zeros_like(np.ones(3)), fnp.copy(np.ones(2))
        y[0] = x[0]
        z[1] = x[1] * 2
        w = fnp.full_like(np.ones(2), 3.0)
        w += x[:2]
        return np.sum(y) + np.sum(z) + np.sum(w)

    x = np.arange(3.0)
    np.testing.assert_array_equal(fgrad.grad(f)(x), [2.0, 3.0, 0.0])
    assert fgrad.jit(f)(x) == 10.0


def test_views_share_memory() -> None:
    def f(x: Any) -> Any:
        assert np.shares_memory(x, x[1:]) and np.shares_memory(x.reshape(2, 3).T, x)
        assert not np.shares_memory(x[:2], x[2:]) and not np.shares_memory(x[::2], x[1::2])
        assert not np.may_share_memory(x, x + 1) and not np.shares_memory(x, x.copy())
        return x.sum()

    for transform in (fgrad.grad, fgrad.jit):
        transform(f)(np.arange(6.0))


def test_at_of_plain_and_traced_arrays() -> None:
    x = np.arange(4.0)
    changed = fgrad.at(x)[[1, 1]].add(1.0)
    assert type(changed) is np.ndarray
    np.testing.assert_array_equal(changed, [0, 3, 2, 3])
    np.testing.assert_array_equal(x, np.arange(4.0))
    outside = np.array([1, 9])
    read = fgrad.jit(lambda a, i: fgrad.at(a)[i].get(mode="fill", fill_value=-1.0))
    np.testing.assert_array_equal(read(x, outside), [1, -1])
    np.testing.assert_array_equal(fgrad.at(x)[outside].set(7.0, mode="drop"), [0, 7, 2, 3])
    np.testing.assert_array_equal(fgrad.at(x)[outside].set(7.0, mode="clip"), [0, 7, 2, 7])
    assert np.isnan(fgrad.at(x)[9].get(mode="fill"))
    masked = fgrad.jit(lambda a: a.at[a > 1].multiply(10.0))
    np.testing.assert_array_equal(masked(x), [0, 1, 20, 30])
    with pytest.raises(IndexError):
        fgrad.at(x)[9].set(0.0)


LAYOUTS = {
    "m.T.copy()": True,
    "np.copy(m)": True,
    "(m @ m.T @ m)": True,
    "m.T.copy('F').T": False,
    "np.zeros_like(m.T, order='C')": True,
    "fnp.ascontiguousarray(m.T)": True,
    "fnp.asfortranarray(m)": True,
    "np.sin(m)": True,
    "m[[1, 0]]": True,
    "np.sin(m.T)": False,
    "np.copy(m.T)": False,
    "np.zeros_like(m.T)": False,
    "m[:, [0, 1]]": False,
    "np.tanh(np.sin(m.T) + 1)": False,
    "m.T.astype(np.float32)": False,
}


@pytest.mark.parametrize("made", LAYOUTS)
def test_a_write_through_a_reshape_is_right_or_refused(made: str) -> None:
    scope: dict[str, Any] = {"np": np, "fnp": fnp}
    lines = ("def f(m):", f"y = {made}", "r = y.reshape(-1)", "r[:2] = 9", "return y * 1.0")
    exec("\n ".join(lines), scope)
    m = M + 0.5
    right = scope["f"](m.copy())
    for transform in (fgrad.jit, lambda f: lambda x: fgrad.vjp(f, x)[0]):
        if LAYOUTS[made]:
            np.testing.assert_allclose(transform(scope["f"])(m), right, rtol=1e-12)
        else:
            with pytest.raises(InPlaceError, match="through a reshape"):
                transform(scope["f"])(m)


def test_the_advice_about_reshapes() -> None:
    def before(m: Any) -> Any:
        y = np.sin(m.T)
        y = y.copy()
        y.reshape(-1)[0] = 9.0
        return y

    def apart(m: Any) -> Any:
        y = np.sin(m.T)
        r = y.reshape(-1).copy()
        r[0] = 9.0
        return y * r[0]

    for f in (before, apart):
        np.testing.assert_allclose(fgrad.jit(f)(M), f(M.copy()))


@pytest.mark.parametrize("name", ["squeeze", "round", "real_if_close", "nan_to_num", "positive"])
def test_results_are_handles_of_their_own(name: str) -> None:
    """What copies in NumPy copies, by both names; what aliases in NumPy aliases."""
    for space in (np, fnp):

        def f(x: Any, space: Any = space) -> Any:
            y = getattr(space, name)(x)
            x[0] = 7.0
            return y * 1.0

        np.testing.assert_array_equal(fgrad.jit(f)(X), f(X.copy()))


def test_views_of_views_of_many_steps():
    def turned(a, n):
        z = np.full(6, a)
        for _ in range(n):
            z = z[::-1]
            z[1] = z[0] * 0.5
        return np.sum(z)

    for n in (3, 600):
        assert np.isclose(fgrad.grad(lambda a, n=n: turned(a, n))(0.3), turned(1.0, n))


WRITERS: dict[str, Callable[[Any, Any], Any]] = {
    "np.add.at": lambda b, x: np.add.at(b, [0, 1, 1], x),
    "np.subtract.at": lambda b, x: np.subtract.at(b, [0, 1, 1], x),
    "np.hypot.at": lambda b, x: np.hypot.at(b, [0, 1, 1], x),
    "np.copyto": lambda b, x: np.copyto(b, x),
    "np.put": lambda b, x: np.put(b, [0, 2, 1], x),
    "np.put_along_axis": lambda b, x: np.put_along_axis(b, np.array([0, 2]), x[:2], 0),
    "np.putmask": lambda b, x: np.putmask(b, np.array([True, False, True]), x),
    "np.place": lambda b, x: np.place(b, np.array([True, False, True]), x),
}


@pytest.mark.parametrize("name", WRITERS)
def test_what_the_card_of_a_plain_array_advises_works(name: str) -> None:
    write, x, a = WRITERS[name], np.array([0.5, 0.25, 2.0]), np.arange(3.0)

    def plainly(x: Any) -> Any:
        b = a.copy()
        write(b, x)
        return b

    def as_advised(x: Any) -> Any:
        b = fnp.array(a)
        write(b, x)
        return b

    with pytest.raises(InPlaceError) as caught:
        fgrad.jit(plainly, capture=False)(x)
    assert re.search(
        rf"write   b = fgrad.numpy.array\(a\) .*\n +{name}\(b, ...\)", str(caught.value)
    )
    np.testing.assert_allclose(fgrad.jit(as_advised, capture=False)(x), plainly(x), rtol=1e-14)
    _, push = fgrad.linearize(as_advised, x)
    ahead, behind = plainly(x + 1e-6), plainly(x - 1e-6)
    np.testing.assert_allclose(push(np.ones(3)), (ahead - behind) / 2e-6, atol=1e-8)
