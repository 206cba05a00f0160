"""float16 of NumPy and bfloat16 of ml_dtypes: dtypes, rounding, sums in float32, transforms."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from op_cases import OP_CASES, OpCase

import fgrad
import fgrad.numpy  # np functions of tracers
from fgrad import lax
from fgrad.testing import check_jit

# Rows whose traced dtype is not that of NumPy for float16.
OTHER_DTYPES = {
    "nanpercentile", "geomspace", "gradient.spacing", "asarray", "mgrid", "ogrid", "at.fill",
    "at.drop",
}  # fmt: skip


def half_arguments(case: OpCase) -> list[Any]:
    """The arguments of a row, floats as float16."""
    rng = np.random.default_rng(zlib.adler32(case.name.encode()))
    args = [np.asarray(x) for x in case.args(rng)]
    return [x.astype(np.float16)[()] if x.dtype.kind == "f" else x for x in args]


def takes_half(case: OpCase) -> bool:
    """Whether NumPy's function takes float16, which linear algebra does not."""
    args = half_arguments(case)
    try:
        case.fun(*args)
    except TypeError:
        return False
    return any(x.dtype == np.float16 for x in args)


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    HALF = [
        case
        for case in OP_CASES
        if not case.known and case.name not in OTHER_DTYPES and takes_half(case)
    ]
GRADIENTS = [
    "sin",
    "cos",
    "tan",
    "tanh",
    "exp",
    "log",
    "log1p",
    "sqrt",
    "reciprocal",
    "square",
    "absolute",
    "arctan2",
    "hypot",
    "multiply",
    "divide",
    "power",
    "maximum",
    "sum",
    "prod",
    "mean",
    "var",
    "std",
    "max",
    "cumsum",
    "cumprod",
    "matmul",
    "dot",
    "einsum",
    "outer",
    "where",
    "take",
    "concatenate",
    "stack",
    "reshape",
    "transpose",
    "sort",
    "pad",
    "roll",
    "op.arithmetic",
]
SMOOTH = [case for case in HALF if case.name in GRADIENTS]


@pytest.mark.parametrize("case", HALF, ids=lambda c: c.name)
def test_float16(case: OpCase) -> None:
    check_jit(case.fun, half_arguments(case), rtol=4e-3, atol=2e-3)


@pytest.mark.parametrize("case", SMOOTH, ids=lambda c: c.name)
def test_float16_gradients(case: OpCase) -> None:
    args = half_arguments(case)
    which = tuple([i for i, x in enumerate(args) if x.dtype.kind == "f"])

    def loss(*xs: Any) -> Any:
        outs = [y for y in fgrad.tree.leaves(case.fun(*xs)) if y.dtype.kind == "f"]
        return sum(np.sum(np.sin(y)) for y in outs)

    wide = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in args]
    expected = fgrad.grad(loss, which)(*wide)
    for way in (fgrad.grad(loss, which), fgrad.jit(fgrad.grad(loss, which))):
        for got, exact in zip(way(*args), expected, strict=True):
            assert got.dtype == np.float16
            scale = 1 + np.abs(exact).max(initial=0)
            np.testing.assert_allclose(got, exact, rtol=0, atol=3e-2 * scale)


def test_sums_are_in_float32() -> None:
    x = np.full(100_000, 0.1, np.float16)
    exact = np.sum(x.astype(np.float64))
    for way in (np.sum, fgrad.jit(np.sum), lambda x: fgrad.value_and_grad(np.sum)(x)[0]):
        np.testing.assert_allclose(float(way(x)), exact, rtol=1e-3)


# --- bfloat16


ml_dtypes = pytest.importorskip("ml_dtypes")
BRAIN = np.dtype(ml_dtypes.bfloat16)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(5, 7)).astype(BRAIN)
W = RNG.normal(size=(7, 3)).astype(BRAIN)

# Rounded after every operation, as ml_dtypes does: equal to the bit.
EXACT: dict[str, Callable[[Any], Any]] = {
    "arithmetic": lambda x: x * x + x / 3 - 2,
    "functions": lambda x: np.sin(x) * np.exp(x) + np.tanh(x),
    "roots": lambda x: np.sqrt(np.abs(x)) + x**2,
    "integers": lambda x: x + np.int8(3),
    "compared": lambda x: x < 1,
    "chosen": lambda x: np.where(x > 0, x, -x),
    "extremes": lambda x: np.max(np.maximum(x, 0), 1),
    "moved": lambda x: np.concatenate([x[1:3, ::2].T, x[[0, 2], :4].T], 1),
    "sorted": lambda x: np.sort(x, 1),
    "rounded": lambda x: np.round(x) + np.floor(x),
    "python float": lambda x: x * 0.1,
    "float32": lambda x: x.astype(np.float32) * 2,
    "float64": lambda x: x.astype(np.float64) + 1,
    "back": lambda x: (x.astype(np.float32) * np.float32(1.1)).astype(BRAIN),
    "from float16": lambda x: x.astype(np.float16).astype(BRAIN),
    "to integers": lambda x: x.astype(np.int64),
    "scalar": lambda x: x[0, 0] * x[1, 1],
    "isnan": np.isnan,
}
# Sums, which ml_dtypes rounds after each term.
SUMS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: np.sum(x, 0),
    "mean": np.mean,
    "matmul": lambda x: x @ W,
    "dot": lambda x: np.dot(x, W),
    "var": np.var,
    "std": np.std,
    "cumsum": lambda x: np.cumsum(x, 1),
    "norm": np.linalg.norm,
    "softmax": lambda x: np.exp(x) / np.sum(np.exp(x), 1, keepdims=True),
}


def ways(f: Callable[..., Any], x: Any) -> Iterator[Any]:
    """The values by each transform."""
    yield fgrad.jit(f)(x)
    yield fgrad.vmap(f)(np.stack([x, x]))[1]
    yield fgrad.jvp(f, (x,), (x,))[0]


@pytest.mark.parametrize("name", EXACT)
def test_bfloat16(name: str) -> None:
    f = EXACT[name]
    expected = f(X)
    for got in ways(f, X):
        assert got.dtype == expected.dtype and got.shape == expected.shape
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("name", SUMS)
def test_bfloat16_sums(name: str) -> None:
    f = SUMS[name]
    like, exact = f(X), f(X.astype(np.float64))
    for got in ways(f, X):
        assert got.dtype == like.dtype and got.shape == like.shape
        scale = np.abs(exact).max()
        np.testing.assert_allclose(got.astype(float), exact, rtol=0, atol=1e-2 * scale)


@pytest.mark.parametrize("name", [n for n in (*EXACT, *SUMS) if n not in ("rounded", "isnan")])
def test_bfloat16_gradients(name: str) -> None:
    f = {**EXACT, **SUMS}[name]
    if f(X).dtype.kind not in "fV":
        return

    def loss(x: Any) -> Any:
        return np.sum(f(x).astype(np.float32) ** 2)

    exact = fgrad.grad(loss)(X.astype(np.float64))
    for way in (fgrad.grad(loss), fgrad.jit(fgrad.grad(loss)), fgrad.grad(fgrad.jit(loss))):
        got = way(X)
        assert got.dtype == BRAIN
        scale = np.abs(exact).max()
        np.testing.assert_allclose(got.astype(float), exact, rtol=0, atol=4e-2 * scale)


def test_conversions() -> None:
    """To the nearest, ties to even; all words are kept, and NaN stays NaN."""
    words = np.arange(2**16, dtype=np.uint16).view(BRAIN)
    wide = fgrad.jit(lambda x: x.astype(np.float32))(words)
    np.testing.assert_array_equal(wide.view(np.uint32) >> 16, words.view(np.uint16))
    x = RNG.integers(0, 2**32, 100_000, dtype=np.uint32)
    x[:4] = 0x3F808000, 0x3F818000, 0x7F800001, 0x7FFFFFFF
    x = x.view(np.float32)
    got = fgrad.jit(lambda x: x.astype(BRAIN))(x)
    number = ~np.isnan(x)
    np.testing.assert_array_equal(got[number], x[number].astype(BRAIN))
    assert np.isnan(got[~number].astype(np.float32)).all()


def test_long_sums() -> None:
    x = np.full(100_000, 0.1, BRAIN)
    exact = np.sum(x.astype(np.float64))
    for way in (fgrad.jit(np.sum), lambda x: fgrad.vjp(np.sum, x)[0]):
        np.testing.assert_allclose(float(way(x)), exact, rtol=4e-3)


def test_loops() -> None:
    def f(x: Any) -> Any:
        return lax.scan(lambda c, t: (c * BRAIN.type(0.5) + t, c), BRAIN.type(0), x)

    last, before = fgrad.jit(f)(np.ones(4, BRAIN))
    assert last.dtype == before.dtype == BRAIN
    assert float(last) == 1.875 and before.tolist() == [0, 1, 1.5, 1.75]
    assert fgrad.grad(lambda x: f(x)[0].astype(np.float32))(np.ones(4, BRAIN)).tolist() == [
        0.125, 0.25, 0.5, 1,
    ]  # fmt: skip


def test_what_has_no_numbers_is_refused() -> None:
    with pytest.raises(fgrad.errors.UnsupportedTypeError):
        fgrad.jit(lambda x: x)(np.zeros(2, "V4"))
    with pytest.raises(TypeError, match="bfloat16"):
        fgrad.jit(np.linalg.inv)(np.eye(2, dtype=BRAIN))


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """NumPy's warnings are not what is tested."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield
