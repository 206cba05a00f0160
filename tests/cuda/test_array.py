"""Arrays on a device that is not there: what NumPy, the transforms and `jit` make of them."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from op_cases import OP_CASES, OpCase

import fgrad
from fgrad import DeviceArray, device_get, device_put
from fgrad.compile import eager_device
from fgrad.errors import (
    ArgumentError,
    InPlaceError,
    NanError,
    UnsupportedDeviceError,
    UnsupportedTypeError,
)
from fgrad.lower_cuda.array import from_cuda_array_interface, from_dlpack
from fgrad.lower_cuda.driver import use
from fgrad.lower_cuda.stub import StubDriver
from fgrad.trace import Tracer

jit: Any = fgrad.jit
X = np.linspace(-1.0, 2.0, 12).reshape(3, 4)
Y = np.cos(np.arange(12.0)).reshape(3, 4)
V = np.array([0.5, -1.5, 2.0, 0.25])
K = np.arange(12).reshape(3, 4) % 5


@pytest.fixture(scope="module", autouse=True)
def stub() -> Iterator[StubDriver]:
    made = StubDriver()
    before = use(made)
    yield made
    use(before)
    made.check_memory()


def check(out: Any, expected: Any, tolerance: float = 1e-12) -> None:
    """All leaves are on the device, with NumPy's shapes, dtypes and numbers."""
    outs, treedef = fgrad.tree.flatten(out)
    wanted, expected_def = fgrad.tree.flatten(expected)
    assert treedef == expected_def
    for x, y in zip(outs, wanted, strict=True):
        assert type(x) is DeviceArray, type(x)
        y = np.asarray(y)
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        np.testing.assert_allclose(x.numpy(), y, rtol=tolerance, atol=tolerance)


# There and back.


@pytest.mark.parametrize(
    "x",
    [
        X,
        X.T,
        X[::2, ::-1],
        X.astype(">f4"),
        X > 0,
        K.astype(np.int8),
        K.astype(np.uint64),
        X.astype(np.float16),
        X + 1j * Y,
        (X + 1j).astype(np.complex64),
        np.zeros((0, 3)),
        np.array(2.5),
        np.broadcast_to(1.5, (2, 3)),
    ],
    ids=lambda x: f"{x.dtype}{x.shape}",
)
def test_there_and_back(x: np.ndarray) -> None:
    put = device_put(x)
    native = x.astype(x.dtype.newbyteorder("="))
    assert (put.shape, put.dtype, put.ndim, put.size) == (x.shape, native.dtype, x.ndim, x.size)
    assert put.nbytes == native.nbytes and put.itemsize == native.itemsize
    np.testing.assert_array_equal(put.numpy(), x)
    np.testing.assert_array_equal(np.asarray(put), x)
    np.testing.assert_array_equal(device_get(put), x)
    assert put.strides == np.zeros(x.shape, x.dtype).strides or not x.size
    assert device_put(put) is put


def test_bfloat16_there_and_back() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = X.astype(ml_dtypes.bfloat16)
    put = device_put(x)
    np.testing.assert_array_equal(put.numpy(), x)
    assert (put + put).dtype == x.dtype
    assert not hasattr(put, "__cuda_array_interface__")


def test_trees_and_numbers() -> None:
    put = device_put({"a": [1, 2.0, True], "b": None, "c": (np.float32(3),)})
    check(put, {"a": [1, 2.0, True], "b": None, "c": (np.float32(3),)})
    assert device_get(put) == {"a": [1, 2.0, True], "b": None, "c": (3.0,)}
    assert type(device_get(put)["c"][0]) is np.float32
    assert device_put({"x": X}, device="cpu")["x"] is X
    assert fgrad.block_until_ready(put) is put


@pytest.mark.parametrize("x", [np.array(["a"]), np.array([None]), object()])
def test_what_is_no_array_of_numbers_is_refused(x: Any) -> None:
    with pytest.raises(UnsupportedTypeError, match="arrays of numbers"):
        device_put(x)


def test_a_device_that_does_not_exist() -> None:
    with pytest.raises(ArgumentError, match="no device 'tpu'"):
        device_put(X, "tpu")


def test_repr() -> None:
    assert repr(device_put(np.float32(2.5))) == "DeviceArray(2.5, dtype=float32)"
    assert repr(device_put(np.eye(2))) == ("DeviceArray([[1., 0.],\n             [0., 1.]])")
    assert f"{device_put(2.5):.2f}" == "2.50"


def test_copies_and_pickles() -> None:
    x = device_put(X)
    assert copy.copy(x) is x and copy.deepcopy(x) is x
    check(pickle.loads(pickle.dumps(x)), X)


# NumPy on the device.

EXPRESSIONS: dict[str, Callable[..., Any]] = {
    "add": lambda x, y, v, i: x + y,
    "add broadcast": lambda x, y, v, i: x + v,
    "add number": lambda x, y, v, i: x + 1,
    "reflected": lambda x, y, v, i: 2.0 - x,
    "host array left": lambda x, y, v, i: Y * x,
    "host array right": lambda x, y, v, i: x * V,
    "host column": lambda x, y, v, i: x / Y[:, :1],
    "scalar left": lambda x, y, v, i: np.float64(3) * x,
    "scalar of lower type": lambda x, y, v, i: x * np.float32(3),
    "int and float": lambda x, y, v, i: i * x,
    "int and number": lambda x, y, v, i: i / 2,
    "floor": lambda x, y, v, i: (x // 0.3, i % 3, divmod(i, 2)),
    "powers": lambda x, y, v, i: (x**2, x**3, 2.0**x, abs(x) ** 0.5, i**2),
    "matmul": lambda x, y, v, i: (x @ y.T, x @ v, v @ v, Y @ x.T, V @ v),
    "compare": lambda x, y, v, i: (x > y, x == y, i != 2, x <= 0, v > 1),
    "bits": lambda x, y, v, i: (i & 3, i | 1, i ^ i, ~i, i << 1, (x > 0) & (y > 0)),
    "unary": lambda x, y, v, i: (-x, +x, abs(x), np.round(x, 1)),
    "ufuncs": lambda x, y, v, i: (np.sin(x), np.exp(y), np.maximum(x, y), np.sign(i)),
    "ufunc of two memories": lambda x, y, v, i: np.arctan2(Y, x),
    "reduce": lambda x, y, v, i: (np.add.reduce(x), np.multiply.reduce(v), np.maximum.reduce(x, 1)),
    "sums": lambda x, y, v, i: (x.sum(), x.sum(0), np.sum(x, axis=1, keepdims=True), np.mean(x)),
    "extrema": lambda x, y, v, i: (x.max(), x.min(axis=0), x.argmax(), np.argmin(y, axis=1)),
    "spread": lambda x, y, v, i: (np.var(x), x.std(axis=0), np.ptp(v), np.median(v)),
    "logic": lambda x, y, v, i: ((x > 0).any(), (x > 0).all(axis=0), np.isnan(x)),
    "cumulative": lambda x, y, v, i: (np.cumsum(x, axis=1), v.cumprod(), np.diff(v)),
    "shape": lambda x, y, v, i: (x.T, x.reshape(4, 3), x.ravel(), x.reshape(2, -1), x[None]),
    "rows": lambda x, y, v, i: (x[0], x[-1], x[1:], x[:2], x[1:2], x[2:1], v[3], v[1:3]),
    "index": lambda x, y, v, i: (x[1, 2], x[:, 1], x[::2], x[..., -1], x[:, ::-1], x[[0, 2]]),
    "index by arrays": lambda x, y, v, i: (v[i % 4], x[np.array([2, 0])], x[x > 0]),
    "join": lambda x, y, v, i: (np.concatenate([x, y]), np.stack([x, Y]), np.vstack([x, v])),
    "where": lambda x, y, v, i: (np.where(x > 0, x, 0), np.where(X > 0, y, x), np.clip(x, -0.5, 1)),
    "einsum": lambda x, y, v, i: (np.einsum("ij,kj->ik", x, y), np.dot(x, v)),
    "norm": lambda x, y, v, i: (np.linalg.norm(x), np.linalg.norm(v, 1)),
    "types": lambda x, y, v, i: (x.astype(np.float32), i.astype(float), x.astype(bool)),
    "like": lambda x, y, v, i: (np.zeros_like(x) + x, np.ones_like(i) + i, np.full_like(x, 3) + x),
    "values": lambda x, y, v, i: (np.nonzero(x > 0), np.unique(i), np.flatnonzero(i)),
    "sorted": lambda x, y, v, i: (np.sort(y, axis=1), np.argsort(v), np.searchsorted(V, v)),
    "complex": lambda x, y, v, i: ((x + 1j * y).real, np.conj(x * 1j), abs(x + 1j * y)),
    "at": lambda x, y, v, i: (fgrad.at(x)[0].set(v), fgrad.at(x)[1, 2].add(3.0)),
    "flat": lambda x, y, v, i: (x.flat[5], x.flat[2:7], fgrad.numpy.r_[v, 1.0, v]),
    "repeat": lambda x, y, v, i: (np.tile(v, 2), np.repeat(v, 2), np.outer(v, v), np.pad(v, 1)),
}  # fmt: skip


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_numpy(name: str) -> None:
    expression = EXPRESSIONS[name]
    check(expression(*map(device_put, (X, Y, V, K))), expression(X, Y, V, K))


def leaves_of(out: Any) -> list[Any]:
    return [y for x in out for y in leaves_of(x)] if isinstance(out, (tuple, list)) else [out]


@pytest.mark.parametrize("case", OP_CASES[::12], ids=lambda case: case.name)
def test_rows_of_the_table(case: OpCase) -> None:
    args = case.args(np.random.default_rng(zlib.adler32(case.name.encode())))
    expected = leaves_of(case.fun(*args))
    try:
        outs = leaves_of(case.fun(*map(device_put, args)))
    except (InPlaceError, UnsupportedDeviceError) as error:
        pytest.skip(error.headline)
    for x, y in zip(outs, map(np.asarray, expected), strict=True):
        assert type(x) is DeviceArray or not isinstance(x, (np.ndarray, Tracer))
        x = np.asarray(x)
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.complex64, np.uint8])
def test_types_are_numpys(dtype: Any) -> None:
    x = (10 * abs(X)).astype(dtype)
    put = device_put(x)
    tolerance = 1e-2 if dtype is np.float16 else 1e-5
    check(put * 2 + put, x * 2 + x, tolerance)
    check(put / 3, x / 3, tolerance)
    check(put.sum(), x.sum(), tolerance)
    check(put + device_put(X), x + X, tolerance)


def test_scalars_and_empty_arrays() -> None:
    s, e = device_put(2.0), device_put(np.zeros((0, 3)))
    check(
        (s + 1, s * X, np.sin(s), s.reshape(1), s[()]),
        (3.0, 2 * X, np.sin(2.0), np.array([2.0]), 2.0),
    )
    check(
        (e + 1, e.sum(axis=0), e.T, e.sum()), (np.zeros((0, 3)), np.zeros(3), np.zeros((3, 0)), 0.0)
    )


def test_numbers_for_python() -> None:
    x = device_put(np.array([[1, 0], [2, 3]]))
    assert float(x[0, 0]) == 1.0 and int(x[1, 0]) == 2 and complex(x[1, 1]) == 3
    assert bool(x[0, 0]) and not x[0, 1] and x.item(3) == 3 and x.tolist() == [[1, 0], [2, 3]]
    assert [10, 20, 30][x[1, 0]] == 30 and len(x) == 2 and 3 in x and 7 not in x
    assert [row.tolist() for row in x] == [[1, 0], [2, 3]]
    with pytest.raises(ValueError, match="ambiguous"):
        bool(x)
    with pytest.raises(TypeError, match="shape"):
        len(x[0, 0])
    with pytest.raises(IndexError):
        x[2]


def test_parts_of_one_size_are_one_program(stub: StubDriver) -> None:
    x = device_put(X)
    check((x[:, 0], x[1, 0], x[0:2, 1:3]), (X[:, 0], X[1, 0], X[0:2, 1:3]))
    before = len(eager_device._PROGRAMS)
    check(
        ([x[:, k] for k in range(4)], [x[2, k] for k in range(4)], x[1:3, 0:2]),
        ([X[:, k] for k in range(4)], [X[2, k] for k in range(4)], X[1:3, 0:2]),
    )
    assert len(eager_device._PROGRAMS) == before


def test_numbers_are_no_part_of_a_program() -> None:
    x = device_put(X)
    check(x * 1.5 + 2, X * 1.5 + 2)
    before = len(eager_device._PROGRAMS)
    check(x * -0.25 + 7, X * -0.25 + 7)
    assert len(eager_device._PROGRAMS) == before


@pytest.mark.parametrize(
    "draw",
    [
        lambda key: fgrad.random.uniform(key, (5,)),
        lambda key: fgrad.random.split(key),
        lambda key: fgrad.random.randint(key, (4,), 0, 100),
        lambda key: fgrad.random.normal(fgrad.random.fold_in(key, 3), (7,)),
    ],
)
def test_random_numbers_are_those_of_the_host(draw: Callable[[Any], Any]) -> None:
    key = fgrad.random.key(4)
    check(draw(device_put(key)), draw(key), 1e-14)
    check(jit(draw, device="cuda")(key), draw(key), 1e-14)


def test_functions_of_fgrad_numpy() -> None:
    x = device_put(X)
    check(fgrad.numpy.vectorize(lambda a: a * 2)(x), X * 2)
    check((fgrad.numpy.tanh(x), fgrad.numpy.sum(x, axis=0)), (np.tanh(X), X.sum(axis=0)))
    check((fgrad.numpy.asarray(x), fgrad.numpy.array([x, x])), (X, np.array([X, X])))


def test_libraries_of_fgrad() -> None:
    x = device_put(X)
    check(fgrad.nn.gelu(x), fgrad.nn.gelu(X))
    check(fgrad.nn.softmax(x), fgrad.nn.softmax(X))
    check(
        fgrad.lax.scan(lambda c, a: (c + a, c * a), x[0], x),
        fgrad.lax.scan(lambda c, a: (c + a, c * a), X[0], X),
    )
    check(fgrad.lax.fori_loop(0, 3, lambda _, c: c * 2, x), X * 8)
    check(fgrad.lax.fori_loop(0, 3, lambda _, c: {"a": c["a"] * 2}, {"a": x}), {"a": X * 8})
    check(fgrad.lax.cond(x.sum() > 0, np.sin, np.cos, x), np.sin(X))
    check(fgrad.scipy.special.expit(x), fgrad.scipy.special.expit(X))


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.__setitem__(0, 1.0),
        lambda x: np.add.at(x, [0], 1.0),
        lambda x: np.sin(x, out=x),
        lambda x: np.sum(x, axis=0, out=x),
        lambda x: x.sort(),
        lambda x: x.fill(0),
        lambda x: np.copyto(x, 0.0),
        lambda x: np.fill_diagonal(x, 0.0),
        lambda x: x.sum(axis=0, out=x[0]),
        lambda x: x.flat.__setitem__(0, 1.0),
    ],
)
def test_arrays_do_not_change(write: Callable[[Any], Any]) -> None:
    x = device_put(X)
    with pytest.raises(InPlaceError, match="An array on a GPU was to be written into"):
        write(x)
    check(x, X)


def test_host_arrays_are_not_written_by_the_device() -> None:
    y = X.copy()
    with pytest.raises(InPlaceError, match="over an array in the memory of the host"):
        y += device_put(X)
    y[0] = device_put(X)[1]
    np.testing.assert_array_equal(y[0], X[1])


def test_names_are_bound_anew() -> None:
    x = y = device_put(X)
    y += 1
    check((x, y), (X, X + 1))


def test_no_view_without_a_copy() -> None:
    with pytest.raises(ValueError, match="without a copy"):
        np.array(device_put(X), copy=False)


# Transforms.


def loss(w: Any, x: Any) -> Any:
    y = np.tanh(x @ w)
    if y.sum() > 100:
        return y.sum()
    y[0] *= 2
    return np.mean(y**2) + 0.1 * np.sum(w * w)


def loss_of_one(w: Any, row: Any) -> Any:
    return np.sum((row @ w) ** 2)


def recurrent(w: Any, x: Any) -> Any:
    return np.sum(fgrad.lax.scan(lambda c, row: (np.tanh(c + row @ w), None), w[0], x)[0])


W = np.sin(np.arange(8.0)).reshape(4, 2)
TRANSFORMS: dict[str, Callable[[Any, Any], Any]] = {
    "grad": lambda w, x: fgrad.grad(loss)(w, x),
    "both": lambda w, x: fgrad.value_and_grad(loss, argnums=(0, 1))(w, x),
    "vjp": lambda w, x: fgrad.vjp(np.matmul, x, w)[1](x @ w),
    "jvp": lambda w, x: fgrad.jvp(lambda w: loss(w, x), (w,), (w,)),
    "linearize": lambda w, x: fgrad.linearize(lambda w: loss(w, x), w)[1](w),
    "vmap": lambda w, x: fgrad.vmap(lambda r: np.sum(r @ w) * r)(x),
    "vmap of grad": lambda w, x: fgrad.vmap(fgrad.grad(loss_of_one), (None, 0))(w, x),
    "jacrev": lambda w, x: fgrad.jacrev(lambda w: np.sin(x @ w)[0])(w),
    "jacfwd": lambda w, x: fgrad.jacfwd(lambda w: np.sin(x @ w)[0])(w),
    "hessian": lambda w, x: fgrad.hessian(lambda v: np.sum(v**3) + np.prod(v))(w[0]),
    "grad of grad": lambda w, x: fgrad.grad(lambda w: np.sum(fgrad.grad(loss)(w, x) ** 2))(w),
    "of jit": lambda w, x: fgrad.grad(jit(lambda w: np.mean(np.tanh(x @ w))))(w),
    "jit of": lambda w, x: jit(fgrad.grad(lambda w: np.mean(np.tanh(x @ w))))(w),
    "jit of vmap": lambda w, x: jit(fgrad.vmap(lambda r: r @ w))(x),
    "zero": lambda w, x: fgrad.grad(lambda w: np.sum(x))(w),
    "constant": lambda w, x: fgrad.grad(lambda w: np.sum(w))(w),
    "aux": lambda w, x: fgrad.grad(lambda w: (np.sum(w), {"w": w, "x": x}), has_aux=True)(w),
    "scan": lambda w, x: fgrad.grad(recurrent)(w, x),
    "checkpoint": lambda w, x: fgrad.grad(lambda w: fgrad.checkpoint(loss)(w, x))(w),
    "index": lambda w, x: fgrad.grad(lambda w: np.sum(w[[0, 0, 2]] ** 2))(w),
    "host and device": lambda w, x: fgrad.grad(lambda w: np.sum((X @ w) ** 2))(w),
    "transpose": lambda w, x: fgrad.linear_transpose(lambda r: r @ w, x)(x @ w),
    "in place": lambda w, x: fgrad.functionalize(lambda w: w.__imul__(2))(w),
    "samples": lambda w, x: fgrad.per_sample_grad(loss_of_one)(w, x),
    "memory": lambda w, x: fgrad.grad(lambda w: np.mean(np.tanh(x @ w)), memory="1GB")(w),
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.filterwarnings("ignore::fgrad.errors.DetachedWarning")
def test_transforms(name: str) -> None:
    transform = TRANSFORMS[name]
    check(transform(device_put(W), device_put(X)), transform(W, X))


@pytest.mark.parametrize("name", ["grad", "vmap", "jvp"])
def test_custom_rules(name: str) -> None:
    @fgrad.custom_vjp
    def square(x: Any) -> Any:
        return x * x

    square.defvjp(lambda x: (x * x, x), lambda x, ct: (3 * x * ct,))

    @fgrad.custom_jvp
    def cube(x: Any) -> Any:
        return x**3

    cube.defjvp(lambda primals, tangents: (primals[0] ** 3, 5 * primals[0] * tangents[0]))

    def run(x: Any) -> Any:
        if name == "jvp":
            return fgrad.jvp(cube, (x,), (x,)), cube(x)
        if name == "vmap":
            return fgrad.vmap(square)(x), fgrad.vmap(cube)(x), square(x)
        return fgrad.grad(lambda x: np.sum(square(x) + cube(x)))(x)

    check(run(device_put(X)), run(X))


# jit.


def test_jit_of_arrays_on_the_device(stub: StubDriver) -> None:
    f = jit(lambda x, y: np.sum(np.tanh(x) * y, axis=1))
    x, y = device_put(X), device_put(Y)
    expected = np.sum(np.tanh(X) * Y, axis=1)
    for _ in range(3):
        check(f(x, y), expected)
    assert isinstance(f(X, Y), np.ndarray), "arrays on the host stay there"
    check(f(x, Y), expected)
    check(f(X, y), expected)
    assert len({id(entry) for entry in f.entries.values()}) == 1
    before = stub.launches
    f(x, y)
    assert stub.launches - before == 1


def test_jit_of_trees_and_numbers() -> None:
    f = jit(lambda t, s, *, k=1.0: {"a": t["x"] * s + k, "b": (t["x"][0], s)})
    check(f({"x": device_put(X)}, 2.0), {"a": X * 2 + 1, "b": (X[0], 2.0)})
    check(f({"x": device_put(X)}, 3, k=V), {"a": X * 3 + V, "b": (X[0], 3)})
    check(f({"x": X}, device_put(2.0)), {"a": X * 2 + 1, "b": (X[0], 2.0)})


def test_jit_of_trees_on_the_device() -> None:
    f = jit(lambda p, g: {k: p[k] - 0.5 * g[k][0] for k in p})
    for scale in (1.0, 2.0, 3.0):
        p, g = {"a": scale * X, "b": V}, {"a": (Y,), "b": (V,)}
        check(f(device_put(p), device_put(g)), {"a": p["a"] - 0.5 * Y, "b": 0.5 * V})
    p, g = {"a": X, "b": V}, {"a": (Y,), "b": (V,)}
    check(f(device_put(p), g), {"a": X - 0.5 * Y, "b": 0.5 * V})
    wide = {"a": np.stack([X, X]), "b": V}
    check(f(device_put(wide), device_put(g)), {"a": wide["a"] - 0.5 * Y, "b": 0.5 * V})
    assert len({id(entry) for entry in f.entries.values()}) == 2


def test_jit_for_a_device() -> None:
    f = jit(lambda x: x + 1, device="cuda")
    check((f(X), f(2.0), f(device_put(X)), f(np.float32(1))), (X + 1, 3.0, X + 1, np.float32(2)))
    g = jit(lambda x: x + 1, device="cpu")
    assert type(g(device_put(X))) is np.ndarray and type(g(X)) is np.ndarray
    np.testing.assert_array_equal(g(device_put(X)), X + 1)


def test_jit_closes_over_arrays_on_the_device() -> None:
    w = device_put(W)
    f = jit(lambda x: np.tanh(x @ w) + w.sum() + w[0, 0])
    expected = np.tanh(X @ W) + W.sum() + W[0, 0]
    check((f(X), f(device_put(X)), f(X)), (expected,) * 3)
    assert len({id(entry) for entry in f.entries.values()}) == 1
    g = fgrad.vmap(fgrad.grad(lambda x: np.sum(f(x[None]))))
    check(g(X), fgrad.vmap(fgrad.grad(lambda x: np.sum(np.tanh(x @ W))))(X))
    check(jit(lambda: w)(), W)
    check(jit(lambda x: (x, w))(X), (X, W))


def test_jit_with_static_arguments() -> None:
    f = jit(lambda x, n: x * n, static_argnums=1)
    check((f(device_put(X), 2), f(device_put(X), 3)), (X * 2, X * 3))


def test_jit_within_jit_and_within_grad() -> None:
    inner = jit(lambda x: np.sin(x) * 2)
    check(jit(lambda x: inner(x) + inner(2 * x))(device_put(X)), 2 * (np.sin(X) + np.sin(2 * X)))
    check(fgrad.grad(lambda x: np.sum(inner(x)))(device_put(X)), 2 * np.cos(X))


def test_jit_without_compilation() -> None:
    with fgrad.config.override(disable_jit=True):
        check(jit(lambda x: np.sin(x) + 1)(device_put(X)), np.sin(X) + 1)


def test_donated_memory_becomes_a_result() -> None:
    big = np.linspace(0, 1, 1 << 14)
    step = jit(lambda p, g: p - 0.1 * g, donate_argnums=0)
    p, g = device_put(big), device_put(big)
    pointer = p.pointer
    q = step(p, g)
    assert q.pointer == pointer
    check(q, big - 0.1 * big)
    for use_it in (lambda: step(p, g), lambda: p + 1, lambda: p.numpy(), lambda: p[0]):
        with pytest.raises(ArgumentError, match="whose memory was given away"):
            use_it()
    assert repr(p) == "DeviceArray(f64[16384], given away)"


def test_shared_memory_is_not_donated() -> None:
    big = np.linspace(0, 1, 1 << 14)
    step = jit(lambda p: p + 1, donate_argnums=0)
    p = device_put(big)
    half = p[: 1 << 13]
    check((step(p), half, p), (big + 1, big[: 1 << 13], big))


def test_nan_is_found() -> None:
    f = jit(lambda x: np.log(x) + 1)
    for run in (f, np.log, fgrad.grad(lambda x: np.sum(np.log(x)))):
        with np.errstate(all="ignore"), fgrad.debug.nans(), pytest.raises(NanError, match="log"):
            run(device_put(X))


def test_threads() -> None:
    f = jit(lambda x: np.cumsum(np.sin(x) * 2, axis=1))
    x, failed = device_put(X), []

    def work() -> None:
        try:
            for _ in range(5):
                check(
                    (f(x), x * 3, fgrad.grad(lambda x: np.sum(x**2))(x)),
                    (np.cumsum(np.sin(X) * 2, axis=1), X * 3, 2 * X),
                )
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


# Memory.


def test_memory_goes_back_with_the_arrays(stub: StubDriver) -> None:
    f = jit(lambda x: np.sin(x) * np.arange(64.0))
    x = device_put(np.ones((64, 64)))
    f(x)
    gc.collect()
    before = stub.memory.statistics
    for _ in range(10):
        y = f(x) + 1
        assert y[3:5].shape == (2, 64)
    del y
    gc.collect()
    after = stub.memory.statistics
    assert after.in_use == before.in_use
    assert after.reserved - before.reserved <= 4, "blocks are used again"


def test_views_keep_the_memory(stub: StubDriver) -> None:
    x = device_put(np.arange(64.0).reshape(8, 8))
    row, flat = x[3], x.reshape(64)
    assert row.pointer == x.pointer + 3 * 64 and flat.pointer == x.pointer
    used = stub.memory.statistics.in_use
    del x
    gc.collect()
    assert stub.memory.statistics.in_use == used
    check((row, flat), (np.arange(24.0, 32.0), np.arange(64.0)))
    del row, flat
    gc.collect()
    assert stub.memory.statistics.in_use == used - 512


def test_rows_that_are_not_aligned_are_copied() -> None:
    x = device_put(np.arange(9.0).reshape(3, 3))
    assert all([x[k].pointer % 16 == 0 for k in range(3)])
    check(
        (x[1], x[1] * 2, x[1:], x[1:] + 1),
        (
            np.arange(3.0, 6),
            np.arange(3.0, 6) * 2,
            np.arange(3.0, 9).reshape(2, 3),
            np.arange(4.0, 10).reshape(2, 3),
        ),
    )


# Other libraries.


class Foreign:
    """An array of another library on the same device."""

    def __init__(self, x: Any, **changes: Any) -> None:
        self.x, self.changes = x, changes
        self.stream: int | None = None

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self.x.__cuda_array_interface__, **self.changes}


class Capsules(Foreign):
    """The same by DLPack alone."""

    __cuda_array_interface__ = None  # type: ignore[assignment]

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.changes.get("device", (2, 0))

    def __dlpack__(self, stream: int | None = None) -> Any:
        self.stream = stream
        return self.x.__dlpack__(stream=stream)


@pytest.mark.parametrize("x", [X, X.astype(np.float32), K, X > 0, np.array(3.0), np.zeros((0, 2))])
def test_cuda_array_interface(x: np.ndarray) -> None:
    mine = device_put(x)
    given = mine.__cuda_array_interface__
    assert given["version"] == 3 and given["typestr"] == x.dtype.str and given["strides"] is None
    theirs = from_cuda_array_interface(Foreign(mine))
    check(theirs, x)
    assert theirs.pointer == mine.pointer
    check(device_put(Foreign(mine)) * 1, x * 1)


@pytest.mark.parametrize("x", [X, X.astype(np.float16), K, X > 0, X * 1j, np.array(3.0)])
def test_dlpack(stub: StubDriver, x: np.ndarray) -> None:
    mine = device_put(x)
    other = Capsules(mine)
    theirs = from_dlpack(other)
    check(theirs, x)
    assert theirs.pointer == mine.pointer and other.stream == stub.stream
    check(device_put(mine), x)
    assert mine.__dlpack_device__() == (2, 0)


def test_dlpack_of_bfloat16() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = X.astype(ml_dtypes.bfloat16)
    theirs = from_dlpack(Capsules(device_put(x)))
    assert theirs.dtype == x.dtype
    np.testing.assert_array_equal(theirs.numpy(), x)


def test_exported_memory_lives_as_long_as_it_is_used(stub: StubDriver) -> None:
    x = device_put(np.ones(1000))
    used = stub.memory.statistics.in_use
    capsule = x.__dlpack__()
    theirs = from_dlpack(Capsules(x))
    del x
    gc.collect()
    assert stub.memory.statistics.in_use == used
    check(theirs, np.ones(1000))
    del capsule, theirs
    gc.collect()
    assert stub.memory.statistics.in_use == used - 8192


def test_foreign_memory_that_cannot_be_used() -> None:
    x = device_put(X)
    with pytest.raises(UnsupportedTypeError, match="not contiguous"):
        device_put(Foreign(x, strides=(8, 24)))
    with pytest.raises(UnsupportedTypeError, match="mask"):
        device_put(Foreign(x, mask=x))
    with pytest.raises(UnsupportedTypeError, match="dtype >f8"):
        device_put(Foreign(x, typestr=">f8"))
    with pytest.raises(UnsupportedTypeError, match="device"):
        from_dlpack(Capsules(x, device=(2, 1)))


def test_foreign_memory_that_is_not_aligned_is_copied() -> None:
    x = device_put(np.arange(8.0))
    data = (x.pointer + 8, False)
    theirs = device_put(Foreign(x, data=data, shape=(6,)))
    assert theirs.pointer % 16 == 0
    check(theirs, np.arange(1.0, 7))
