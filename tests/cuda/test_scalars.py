"""The scalar table of the device: complete, compiled within its resources, equal to NumPy.

Rows are run by the emulator, whose transcendental functions are NVIDIA's own code.
"""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest
from accuracy import CASES as MEASURED
from accuracy import LONG, errors, points, special_values
from scalar_bodies import BOOL, THREADS, Case, apply, body, case, inputs_of, run
from scalar_loops import compiled
from test_scalar_llvm import (
    DTYPES,
    F16,
    F32,
    F64,
    SCIPY_NAMES,
    UNSIGNED,
    WORDS,
    assert_same,
    conversion_sources,
    in_range,
    operations,
    reference,
    special_floats,
    word_edges,
)

from fgrad.compile.kernel.scalar import SCALAR_OPS, TRANSCENDENTAL
from fgrad.lower_cuda.device.cubin import opcodes
from fgrad.lower_cuda.device.toolchain import body_ptx, compile_body
from fgrad.lower_cuda.emit.scalar_cuda import SCALAR_CUDA

LIMIT = 3.7  # ulp
FLOATS = [F16, F32, F64]
# A large float64 is reduced with words on the stack.
REDUCED = {("sin", F64), ("cos", F64), ("tan", F64)}
FUNCTIONS = [*TRANSCENDENTAL, "cbrt", "pow", "atan2"]


def test_every_operation_has_one_row() -> None:
    assert SCALAR_CUDA.keys() == SCALAR_OPS.keys()


# Results.


@cache
def on_one_float(dtype: np.dtype) -> dict[str, np.ndarray]:
    x = special_floats(dtype)
    cases = [case(name, dtype, [x]) for name in operations("f", 1)]
    return dict(zip([c.name for c in cases], run(cases), strict=True))


@cache
def on_two_floats(dtype: np.dtype) -> dict[str, np.ndarray]:
    x, y = float_pairs(dtype)
    cases = [case(name, dtype, [x, y]) for name in operations("f", 2)]
    return dict(zip([c.name for c in cases], run(cases), strict=True))


@cache
def float_pairs(dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    grid = np.array(list(itertools.product(special_floats(dtype), repeat=2)), dtype)
    return grid[:, 0].copy(), grid[:, 1].copy()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", operations("f", 1))
def test_special_values_of_one_float(name: str, dtype: np.dtype) -> None:
    x, got = special_floats(dtype), on_one_float(dtype)[name]
    wide = x.astype(F32) if dtype == F16 else x
    with np.errstate(all="ignore"):
        expected = reference(name)(wide)
        expected = expected.astype(got.dtype)
    if name == "erfinv":
        expected = np.copysign(expected, x)
    keep = np.ones(x.size, bool)
    if name in ("lgamma", "digamma"):  # Other values have tests of their own.
        keep = ~np.isfinite(x) | ((x > 0) & (x == np.rint(x)))
    ulps = 8 if name in SCIPY_NAMES else 4  # SciPy's are not exact themselves
    assert_same(got[keep], expected[keep], ulps, x[keep])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", operations("f", 2))
def test_special_values_of_two_floats(name: str, dtype: np.dtype) -> None:
    x, y = float_pairs(dtype)
    got = on_two_floats(dtype)[name]
    if name in ("max", "min", "nextafter"):  # Of equal zeros the table of the CPU has its own.
        expected = compiled(name, dtype, 1)(x, y)
    else:
        with np.errstate(all="ignore"):
            expected = reference(name)(x, y)
    assert_same(got, expected, 3 if name in ("pow", "atan2") else 0, x, y)


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_accuracy(name: str, dtype: np.dtype) -> None:
    operands = points(name, dtype, 8192, 1)
    with np.errstate(all="ignore"):
        exact = MEASURED[name].reference(*[x.astype(LONG) for x in operands])
    error = errors(apply(name, dtype, *operands), exact)
    worst = int(np.argmax(error))
    assert error[worst] <= LIMIT, f"{error[worst]:.2f} ulp at {[x[worst] for x in operands]}"


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_have_numpys_zeros_and_infinities(name: str, dtype: np.dtype) -> None:
    operands = [special_values(dtype)]
    if MEASURED[name].arity == 2:
        operands = [x.ravel() for x in np.meshgrid(*operands * 2)]
    got = apply(name, dtype, *operands)
    with np.errstate(all="ignore"):
        wanted = MEASURED[name].numpy(*operands).astype(dtype)
    special = ~np.isfinite(got) | ~np.isfinite(wanted) | (got == 0) | (wanted == 0)
    np.testing.assert_array_equal(got[special], wanted[special])
    zeros = special & (wanted == 0)
    np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(wanted[zeros]))


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_gamma_of_negative_numbers(dtype: np.dtype) -> None:
    x = -np.random.default_rng(3).uniform(0.05, 9.95, 2048).astype(dtype)
    x = x[np.abs(x - np.rint(x)) > 0.05]
    for name in ("lgamma", "digamma"):
        np.testing.assert_allclose(
            apply(name, dtype, x), reference(name)(x.astype(F64)), 1e3 * np.finfo(dtype).eps, 1e-5
        )


@pytest.mark.parametrize("dtype", WORDS, ids=str)
def test_integers(dtype: np.dtype) -> None:
    x, y = np.array(list(itertools.product(word_edges(dtype), repeat=2)), dtype).T.copy()
    if dtype.itemsize == 1:
        every = np.arange(256, dtype=np.uint8).view(dtype)
        x, y = np.array(list(itertools.product(every, repeat=2))).T.copy()
    exponents = np.abs(y) & np.array(63, dtype)
    operands = {name: [x, exponents if name == "pow" else y] for name in operations(dtype.kind, 2)}
    operands |= {name: [x] for name in operations(dtype.kind, 1)}
    cases = [case(name, dtype, args) for name, args in operands.items()]
    for row, got in zip(cases, run(cases), strict=True):
        with np.errstate(all="ignore"):
            expected = reference(row.name)(*row.operands)
        np.testing.assert_array_equal(got, expected, row.name)


def test_bools() -> None:
    x, y = np.array(list(itertools.product([False, True], repeat=2))).T.copy()
    cases = [case(name, BOOL, [x]) for name in operations("b", 1)]
    cases += [case(name, BOOL, [x, y]) for name in operations("b", 2)]
    for row, got in zip(cases, run(cases), strict=True):
        np.testing.assert_array_equal(got, reference(row.name)(*row.operands), row.name)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_product_and_a_sum_are_rounded_once(dtype: np.dtype) -> None:
    a, b, c = np.random.default_rng(5).normal(size=(3, 512)).astype(dtype)
    single = np.float32 if dtype == F16 else dtype
    wide = np.longdouble(a) * np.longdouble(b) + np.longdouble(c)  # exact up to float32
    expected = wide.astype(single).astype(dtype)
    assert_same(apply("muladd", dtype, a, b, c), expected, dtype == F64, a, b, c)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_select(dtype: np.dtype) -> None:
    a, b = np.arange(32).astype(dtype), np.arange(1, 33).astype(dtype)
    condition = np.arange(32) % 3 == 0
    got = apply("select", dtype, condition, a, b)
    np.testing.assert_array_equal(got, np.where(condition, a, b))


@pytest.mark.parametrize("dtype", UNSIGNED, ids=str)
def test_high_half_of_a_product(dtype: np.dtype) -> None:
    x, y = np.array(list(itertools.product(word_edges(dtype), repeat=2)), dtype).T.copy()
    bits = dtype.itemsize * 8
    expected = np.array([(int(a) * int(b)) >> bits for a, b in zip(x, y, strict=True)], dtype)
    np.testing.assert_array_equal(apply("mulhi", dtype, x, y), expected)


@pytest.mark.parametrize("source", DTYPES, ids=str)
def test_conversions(source: np.dtype) -> None:
    """As NumPy's where that is defined, and else as the CPU's."""
    x = conversion_sources(source)
    cases = [case("convert", source, [x], target) for target in DTYPES]
    for row, got in zip(cases, run(cases), strict=True):
        target = row.result
        np.testing.assert_array_equal(got, compiled("convert", source, 1, target)(x), str(target))
        with np.errstate(all="ignore"):
            expected = x.astype(target)
        defined = np.ones(x.size, bool)
        if source.kind == "f" and target.kind in "iu":
            defined = in_range(x, target)
        np.testing.assert_array_equal(got[defined], expected[defined], str(target))


@pytest.mark.parametrize("size", [2, 4, 8])
def test_bitcast(size: int) -> None:
    kinds = [np.dtype(f"{letter}{size}") for letter in "iuf"]
    bits = np.arange(64, dtype=np.dtype(f"u{size}")) * 1021
    views = {kind: bits.view(kind) for kind in kinds}
    cases = [case("bitcast", a, [views[a]], b) for a, b in itertools.product(kinds, repeat=2)]
    for got in run(cases):
        np.testing.assert_array_equal(got.view(bits.dtype), bits)


# Machine code.


def all_cases(dtype: np.dtype, size: int = 100) -> list[Case]:
    """Every row that takes a dtype."""
    x, y, z = (np.zeros(size, dtype) for _ in range(3))
    condition = np.zeros(size, BOOL)
    cases = []
    for name, row in SCALAR_OPS.items():
        if dtype.kind not in row.kinds:
            continue
        operands = [condition, x, y] if name == "select" else [x, y, z][: row.arity]
        targets = DTYPES if name == "convert" else [None]
        if name == "bitcast":
            targets = [t for t in DTYPES if t != BOOL and t.itemsize == dtype.itemsize]
        cases += [case(name, dtype, operands, target) for target in targets]
    return cases


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_all_rows_of_a_dtype_compile(dtype: np.dtype) -> None:
    cases = [c for c in all_cases(dtype) if c.name not in FUNCTIONS]
    arrays = inputs_of(cases)
    text, arity = body(cases, arrays), len(arrays) + len(cases)
    resources = compile_body(text, arity, THREADS).resources
    assert resources.spill_bytes == 0
    assert resources.stack_bytes == 0


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_compile_within_their_budget(name: str, dtype: np.dtype) -> None:
    cases = [c for c in all_cases(dtype) if c.name == name]
    text = body(cases, inputs_of(cases))
    resources = compile_body(text, len(inputs_of(cases)) + 1, THREADS).resources
    assert resources.spill_bytes == 0
    assert resources.stack_bytes <= (40 if (name, dtype) in REDUCED else 0)
    assert resources.registers <= (32 if dtype == F32 else 64)


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != F64], ids=str)
def test_no_float64_creeps_in(dtype: np.dtype) -> None:
    cases = [c for c in all_cases(dtype) if c.result != F64]
    arrays = inputs_of(cases)
    ptx = body_ptx(body(cases, arrays), len(arrays) + len(cases), THREADS)
    assert not [name for name in opcodes(ptx) if "f64" in name]


def test_names_of_functions_cover_the_table() -> None:
    assert set(MEASURED) >= set(FUNCTIONS) | set(SCIPY_NAMES)
