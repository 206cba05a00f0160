"""The scalar table against NumPy: completeness, special values, integers, conversions."""

from __future__ import annotations

import itertools
import operator
import platform
from collections.abc import Callable

import numpy as np
import pytest
import scipy.special
from scalar_loops import BOOL, compiled

from fgrad.compile.kernel.scalar import SCALAR_OPS
from fgrad.compile.llvm.vector.scalar_llvm import SCALAR_LLVM

F16, F32, F64 = (np.dtype(kind) for kind in ("f2", "f4", "f8"))
SIGNED = [np.dtype(f"i{size}") for size in (1, 2, 4, 8)]
UNSIGNED = [np.dtype(f"u{size}") for size in (1, 2, 4, 8)]
WORDS = SIGNED + UNSIGNED
DTYPES = [BOOL, *WORDS, F16, F32, F64]
LANES = 16
# The rows without AVX-512; what the host has on another architecture.
AVX2 = "+avx2,+fma,+f16c" if platform.machine() in ("x86_64", "AMD64") else None

NUMPY_NAMES = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh",
    "atanh": "arctanh", "atan2": "arctan2", "max": "maximum", "min": "minimum",
    "sub": "subtract", "mul": "multiply", "div": "divide", "neg": "negative", "not": "invert",
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater",
    "ge": "greater_equal", "pow": "power", "and": "bitwise_and", "or": "bitwise_or",
    "xor": "bitwise_xor", "shift_left": "left_shift", "shift_right": "right_shift",
    "abs": "absolute",
}  # fmt: skip
SCIPY_NAMES = {
    "erf": "erf", "erfc": "erfc", "erfinv": "erfinv", "lgamma": "gammaln", "digamma": "digamma",
    "logistic": "expit",
}  # fmt: skip


def fits(name: str) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Whether what Python's integers give is one of the dtype."""
    operation = getattr(operator, name.removesuffix("_fits"))

    def exact(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        limits = np.iinfo(x.dtype)
        found = [operation(int(a), int(b)) for a, b in zip(x, y, strict=True)]
        return np.array([limits.min <= n <= limits.max for n in found])

    return exact


def reference(name: str) -> Callable[..., np.ndarray]:
    """The NumPy or SciPy function that a row stands for."""
    if name.endswith("_fits"):
        return fits(name)
    if name in SCIPY_NAMES:
        return getattr(scipy.special, SCIPY_NAMES[name])
    return getattr(np, NUMPY_NAMES.get(name, name))


def whole_vectors(values: np.ndarray) -> np.ndarray:
    """The values, repeated up to a multiple of the lanes."""
    return np.resize(values, -(-values.size // LANES) * LANES)


def special_floats(dtype: np.dtype) -> np.ndarray:
    """Zeros, infinities, NaN, subnormals, extremes and values around the branches."""
    info = np.finfo(dtype)
    smallest = info.smallest_subnormal
    values = [
        0.0, np.inf, np.nan, smallest, 3 * smallest, info.tiny, info.tiny - smallest,
        info.tiny * 1.5, info.max, info.max / 3, info.eps, 1.0, 1 + info.eps, 1 - info.eps, 0.5,
        2.0, 3.0, 1.5, 2.5, 0.1, 7.0, 10.0, 0.45, 0.8, 0.9999, 26.0, 1e-3, 1000.0, 2.0**15,
    ]  # fmt: skip
    positive = np.array(values, dtype)
    return np.concatenate([positive, -positive])


def assert_same(got: np.ndarray, expected: np.ndarray, ulps: int, *operands: np.ndarray) -> None:
    """Equal up to some ulp, with equal NaN, infinities and signs of zeros."""
    with np.errstate(all="ignore"):
        close = np.abs(got.astype(F64) - expected.astype(F64)) <= ulps * np.spacing(
            np.abs(expected)
        ).astype(F64)
    same = (got == expected) | (np.isnan(got) & np.isnan(expected)) | close
    same &= (np.signbit(got) == np.signbit(expected)) | (expected != 0)
    same &= np.isnan(got) == np.isnan(expected)
    wrong = np.flatnonzero(~same)
    rows = [(*(float(x[k]) for x in operands), float(got[k]), float(expected[k])) for k in wrong]
    assert not rows, f"(operands, got, expected): {rows[:8]}"


def operations(kinds: str, arity: int, result: str | None = None) -> list[str]:
    """Names of the rows that take these dtype kinds."""
    return [
        name
        for name, row in SCALAR_OPS.items()
        if set(kinds) <= set(row.kinds)
        and row.arity == arity
        and result in (None, row.result)
        and name not in ("convert", "bitcast", "mulhi", "select")
    ]


def test_every_operation_has_one_row() -> None:
    assert set(SCALAR_LLVM) == set(SCALAR_OPS)


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("name", operations("f", 1))
def test_special_values_of_one_operand(name: str, dtype: np.dtype) -> None:
    x = whole_vectors(special_floats(dtype))
    if name in SCIPY_NAMES:  # Their finite values have a test against mpmath.
        x = np.where(np.isfinite(x) & (x != np.rint(x)), x.dtype.type(1), x)
    with np.errstate(all="ignore"):
        expected = reference(name)(x)
    if name == "erfinv":
        expected = np.copysign(expected, x)
    for lanes, features in ((LANES, None), (1, None), (8, AVX2)):
        assert_same(compiled(name, dtype, lanes, None, features)(x), expected, 4, x)


@pytest.mark.parametrize("dtype", [F16, F32, F64], ids=str)
@pytest.mark.parametrize("name", operations("f", 2))
def test_special_values_of_two_operands(name: str, dtype: np.dtype) -> None:
    grid = np.array(list(itertools.product(special_floats(dtype), repeat=2)), dtype)
    x, y = (whole_vectors(column) for column in grid.T.copy())
    with np.errstate(all="ignore"):
        expected = reference(name)(x, y)
    # Which zero is larger is left open, and NumPy changed the zero next to a zero in float16.
    open_zeros = name in ("max", "min") or (name, dtype) == ("nextafter", F16)
    if open_zeros:
        expected = expected + dtype.type(0)
    exact = name not in ("pow", "atan2")
    for lanes, features in ((LANES, None), (1, None), (8, AVX2)):
        got = compiled(name, dtype, lanes, None, features)(x, y)
        if open_zeros:
            got = got + dtype.type(0)
        assert_same(got, expected, 0 if exact else 3, x, y)


@pytest.mark.parametrize("name", operations("f", 1))
def test_half_precision(name: str) -> None:
    x = whole_vectors(np.arange(0, 2**16, 7, dtype=np.uint16).view(F16))
    wide = x.astype(F32)
    with np.errstate(all="ignore"):
        expected = reference(name)(wide)
        expected = expected if expected.dtype == BOOL else expected.astype(F16)
    keep = ~((wide < 0) & (name in ("lgamma", "digamma")))
    got = compiled(name, F16, LANES)(x)
    assert_same(got[keep].astype(F16), expected[keep].astype(F16), 1, x[keep])


def word_edges(dtype: np.dtype) -> np.ndarray:
    """The ends of the range, small values and some in between."""
    info = np.iinfo(dtype)
    near = [info.max, info.max - 1, info.max // 2, info.max // 3, info.min, info.min + 1]
    small = [k for k in range(-9, 10) if k >= info.min]
    between = [info.min // 2, info.min // 3, 31, 32, 33, 63, 64, 65, 100]
    values = [k for k in (*near, *small, *between) if info.min <= k <= info.max]
    return np.array(values, dtype)


@pytest.mark.parametrize("dtype", WORDS, ids=str)
def test_integers(dtype: np.dtype) -> None:
    edges = word_edges(dtype)
    x, y = (whole_vectors(c) for c in np.array(list(itertools.product(edges, repeat=2))).T.copy())
    if dtype.itemsize == 1:
        every = np.arange(256, dtype=np.uint8).view(dtype)
        x, y = (c.copy() for c in np.array(list(itertools.product(every, repeat=2))).T)
    for arity, operands in ((1, (x,)), (2, (x, y))):
        for name in operations(dtype.kind, arity):
            args = operands
            if name == "pow":
                args = (x, np.abs(y) & np.array(63, dtype))
            with np.errstate(all="ignore"):
                expected = reference(name)(*args)
            for lanes in (LANES, 1):
                got = compiled(name, dtype, lanes)(*args)
                np.testing.assert_array_equal(got, expected, f"{name} lanes={lanes}")


def test_bools() -> None:
    x, y = (np.resize(c, 16) for c in np.array(list(itertools.product([False, True], repeat=2))).T)
    for arity, operands in ((1, (x.copy(),)), (2, (x.copy(), y.copy()))):
        for name in operations("b", arity):
            for lanes in (LANES, 1):
                got = compiled(name, BOOL, lanes)(*operands)
                np.testing.assert_array_equal(got, reference(name)(*operands), name)


@pytest.mark.parametrize("dtype", [F16, F32, F64], ids=str)
def test_products_and_sums(dtype: np.dtype) -> None:
    rng = np.random.default_rng(5)
    a, b, c = rng.normal(size=(3, 64)).astype(dtype)
    wide = a.astype(np.longdouble) * b + c
    for lanes in (1, 8, LANES):
        assert_same(compiled("muladd", dtype, lanes)(a, b, c), wide.astype(dtype), 64, a, b, c)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_select(dtype: np.dtype) -> None:
    a, b = np.arange(32).astype(dtype), np.arange(1, 33).astype(dtype)
    condition = np.arange(32) % 3 == 0
    for lanes in (LANES, 1):
        got = compiled("select", dtype, lanes)(condition, a, b)
        np.testing.assert_array_equal(got, np.where(condition, a, b))


@pytest.mark.parametrize("dtype", UNSIGNED, ids=str)
def test_high_half_of_a_product(dtype: np.dtype) -> None:
    edges = [int(k) for k in word_edges(dtype)]
    pairs = list(itertools.product(edges, repeat=2))
    x, y = (whole_vectors(np.array(column, dtype)) for column in zip(*pairs, strict=True))
    bits = dtype.itemsize * 8
    expected = np.array([(int(a) * int(b)) >> bits for a, b in zip(x, y, strict=True)], dtype)
    for lanes in (LANES, 1):
        np.testing.assert_array_equal(compiled("mulhi", dtype, lanes)(x, y), expected)


def conversion_sources(source: np.dtype) -> np.ndarray:
    """Values of a dtype at the edges of every other dtype."""
    if source == BOOL:
        return np.resize([False, True], LANES)
    if source.kind in "iu":
        return whole_vectors(word_edges(source))
    powers = [2.0**k + d for k in (7, 8, 15, 16, 31, 32, 63, 64) for d in (-1.5, -1, -0.5, 0, 0.5)]
    with np.errstate(all="ignore"):
        edges = np.array([*powers, *(-p for p in powers)]).astype(source)
        halves = (np.arange(0, 2**16, 31, dtype=np.uint16).view(F16)).astype(source)
        between = (halves * source.type(1 + 2.0**-11)).astype(source)
    return whole_vectors(np.concatenate([special_floats(source), edges, halves, between]))


def in_range(x: np.ndarray, target: np.dtype) -> np.ndarray:
    """Where a float truncates to a value of an integer dtype."""
    info = np.iinfo(target)
    with np.errstate(all="ignore"):
        whole = np.trunc(x.astype(F64))
        return (whole >= float(info.min)) & (whole < float(info.max) + 1)


@pytest.mark.parametrize("source", DTYPES, ids=str)
def test_conversions(source: np.dtype) -> None:
    x = conversion_sources(source)
    for target in DTYPES:
        with np.errstate(all="ignore"):
            expected = x.astype(target)
        if source.kind == "f" and target.kind in "iu":
            defined = in_range(x, target)
        else:
            defined = np.ones(x.size, bool)
        vectors = compiled("convert", source, LANES, target)(x)
        scalars = compiled("convert", source, 1, target)(x)
        np.testing.assert_array_equal(vectors, scalars, f"{source} to {target}")
        np.testing.assert_array_equal(vectors[defined], expected[defined], f"{source} to {target}")


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="what x86 does")
@pytest.mark.parametrize("source", [F32, F64], ids=str)
@pytest.mark.parametrize("target", [np.dtype("i4"), np.dtype("i8")], ids=str)
def test_float_to_integer_out_of_range(source: np.dtype, target: np.dtype) -> None:
    x = conversion_sources(source)
    outside = ~in_range(x, target)
    got = compiled("convert", source, LANES, target)(x)
    np.testing.assert_array_equal(got[outside], np.iinfo(target).min)


@pytest.mark.parametrize("size", [2, 4, 8])
def test_bitcast(size: int) -> None:
    kinds = [np.dtype(f"{letter}{size}") for letter in "iuf"]
    bits = np.arange(64, dtype=np.dtype(f"u{size}")) * 1021
    for source, target in itertools.product(kinds, repeat=2):
        for lanes in (LANES, 1):
            got = compiled("bitcast", source, lanes, target)(bits.view(source))
            np.testing.assert_array_equal(got.view(bits.dtype), bits)
