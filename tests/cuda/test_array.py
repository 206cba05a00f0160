"""Arrays on a device that is not there: what NumPy and the transforms make of them."""

from __future__ import annotations

import copy
import pickle
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from device_arrays import K, V, W, X, Y, check
from emulator.driver import StubDriver
from op_cases import OP_CASES, OpCase
from real_device import stub_device

import fgrad
from fgrad import DeviceArray, device_get, device_put
from fgrad.compile.jit import eager_device
from fgrad.errors import (
    ArgumentError,
    InPlaceError,
    MissingCudaError,
    UnsupportedDeviceError,
    UnsupportedTypeError,
)
from fgrad.trace import Tracer

jit: Any = fgrad.jit


@pytest.fixture(scope="module", autouse=True)
def stub() -> Iterator[StubDriver]:
    with stub_device() as made:
        yield made


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


def test_linear_maps_at_a_point_on_the_device_are_pickled() -> None:
    x = device_put(X)
    _, pullback = fgrad.vjp(lambda x: np.sin(x) * x, x)
    _, pushforward = fgrad.linearize(lambda x: np.sin(x) * x, x)
    for f in (pullback, pushforward):
        loaded = pickle.loads(pickle.dumps(f))
        check(loaded(device_put(Y)), fgrad.tree.map(device_get, f(device_put(Y))))


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
    except (InPlaceError, MissingCudaError, UnsupportedDeviceError) as error:
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
    with pytest.raises(InPlaceError, match="Arrays on the GPU are immutable"):
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
