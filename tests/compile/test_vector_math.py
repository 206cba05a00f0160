"""The accuracy of the vector math in ulp, against mpmath and (for float32) float64 functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import llvmlite.binding as llvm
import mpmath
import numpy as np
import pytest
import scipy.special
from accuracy import CASES as MEASURED
from accuracy import confirmed, measure, special_mismatches
from scalar_loops import compiled, loop_text

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
LIMIT = 2.5

Interval = tuple[float, float]


class Case(NamedTuple):
    """An exact function, its float64 form, linear intervals and intervals of magnitudes."""

    exact: Callable
    double: Callable
    linear: Sequence[Interval]
    magnitudes: Sequence[Interval] = ()
    wide: Sequence[Interval] = ()  # linear intervals of float64 only


def cube_root(x: mpmath.mpf) -> mpmath.mpf:
    """The real cube root"""
    return mpmath.sign(x) * mpmath.cbrt(abs(x))


def logistic(x: mpmath.mpf) -> mpmath.mpf:
    """1 / (1 + e^-x)"""
    return 1 / (1 + mpmath.exp(-x))


CASES = {
    "exp": Case(mpmath.exp, np.exp, [(-87, 88.7), (-1, 1)], [(1e-20, 1)], [(-708, 709.7)]),
    "exp2": Case(lambda x: mpmath.mpf(2) ** x, np.exp2, [(-126, 127.9), (-1, 1)], [(1e-20, 1)]),
    "expm1": Case(mpmath.expm1, np.expm1, [(-20, 88.7), (-1, 1)], [(1e-30, 1)], [(-40, 709.7)]),
    "logistic": Case(logistic, scipy.special.expit, [(-87, 30), (-5, 5)], [], [(-700, 0)]),
    "tanh": Case(mpmath.tanh, np.tanh, [(-10, 10), (0.5, 0.6)], [(1e-30, 1)], [(-20, 20)]),
    "sinh": Case(mpmath.sinh, np.sinh, [(-89, 89), (-2, 2)], [(1e-30, 1)], [(-710, 710)]),
    "cosh": Case(mpmath.cosh, np.cosh, [(-89, 89), (-2, 2)], [(1e-30, 1)], [(-710, 710)]),
    "log": Case(mpmath.log, np.log, [(0.5, 2)], [(1e-37, 1e38)]),
    "log2": Case(lambda x: mpmath.log(x, 2), np.log2, [(0.5, 2)], [(1e-37, 1e38)]),
    "log10": Case(mpmath.log10, np.log10, [(0.5, 2)], [(1e-37, 1e38)]),
    "log1p": Case(mpmath.log1p, np.log1p, [(-0.999, 3), (-0.4, 0.5)], [(1e-30, 1e38)]),
    "asinh": Case(mpmath.asinh, np.arcsinh, [(-3, 3)], [(1e-30, 1e38)]),
    "acosh": Case(mpmath.acosh, np.arccosh, [(1, 3), (1, 1.001)], [(1, 1e38)]),
    "atanh": Case(mpmath.atanh, np.arctanh, [(-0.99, 0.99), (0.99, 0.99999)], [(1e-30, 0.9)]),
    "sin": Case(mpmath.sin, np.sin, [(-7, 7), (-6e4, 6e4)], [(1e-30, 1e38)]),
    "cos": Case(mpmath.cos, np.cos, [(-7, 7), (-6e4, 6e4)], [(1e-30, 1e38)]),
    "tan": Case(mpmath.tan, np.tan, [(-7, 7), (-6e4, 6e4)], [(1e-30, 1e38)]),
    "asin": Case(mpmath.asin, np.arcsin, [(-1, 1), (0.45, 0.55)], [(1e-30, 1)]),
    "acos": Case(mpmath.acos, np.arccos, [(-1, 1), (0.999, 1)], [(1e-30, 1)]),
    "atan": Case(mpmath.atan, np.arctan, [(-3, 3), (0.9, 1.1)], [(1e-30, 1e38)]),
    "cbrt": Case(cube_root, np.cbrt, [(1, 8)], [(1e-37, 1e38)]),
    "sqrt": Case(mpmath.sqrt, np.sqrt, [(1, 4)], [(1e-37, 1e38)]),
    "erf": Case(mpmath.erf, scipy.special.erf, [(-6, 6), (0.9, 1.1)], [(1e-30, 1)]),
    "erfc": Case(
        mpmath.erfc, scipy.special.erfc, [(-6, 9.2), (0.7, 0.9)], [(1e-30, 1)], [(9, 26.5)]
    ),
    "erfinv": Case(
        mpmath.erfinv, scipy.special.erfinv, [(-0.99, 0.99), (0.99, 0.9999)], [(1e-30, 1)]
    ),
    "lgamma": Case(
        mpmath.loggamma, scipy.special.gammaln, [(0.01, 9), (0.9, 1.1), (1.9, 2.1)], [(1e-30, 1e30)]
    ),
    "digamma": Case(
        mpmath.digamma, scipy.special.digamma, [(0.01, 9), (1.4, 1.5)], [(1e-30, 1e30)]
    ),
}
POSITIVE_ONLY = {"log", "log2", "log10", "log1p", "acosh", "sqrt", "lgamma", "digamma"}


def arguments(name: str, dtype: np.dtype, count: int) -> np.ndarray:
    """Arguments of the intervals of a case, `count` from each."""
    rng = np.random.default_rng(len(name) * 7919 + ord(name[-1]))
    case = CASES[name]
    linear = [*case.linear, *(case.wide if dtype == F64 else ())]
    parts = [rng.uniform(low, high, count) for low, high in linear]
    for low, high in case.magnitudes:
        sizes = np.exp(rng.uniform(np.log(low), np.log(high), count))
        sizes = np.clip(sizes, low, high)
        parts.append(sizes if name in POSITIVE_ONLY else sizes * rng.choice([-1, 1], count))
    return np.concatenate(parts).astype(dtype)


def spacing(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """One ulp of the results, as float64."""
    return np.spacing(np.abs(values).astype(dtype)).astype(F64)


def error_from_double(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """The error of float32 results in ulp, from float64 results."""
    return np.abs(got.astype(F64) - exact) / spacing(exact, F32)


def error_from_mpmath(got: np.ndarray, exact: Sequence[mpmath.mpf]) -> np.ndarray:
    """The error of float64 results in ulp, from exact ones."""
    unit = spacing(np.array([float(e) for e in exact]), F64)
    gaps = [
        abs(mpmath.mpf(float(g)) - e) / mpmath.mpf(float(u))
        for g, e, u in zip(got, exact, unit, strict=True)
    ]
    return np.array([float(gap) for gap in gaps])


@pytest.mark.parametrize("name", CASES)
def test_single_precision(name: str) -> None:
    x = arguments(name, F32, 16384)
    if name == "erfinv":
        x = x[np.abs(x) < 1][: x.size // 16 * 16 - 16]
    with np.errstate(all="ignore"):
        exact = CASES[name].double(x.astype(F64))
    vectors, scalars = compiled(name, F32, 16)(x), compiled(name, F32, 1)(x)
    np.testing.assert_array_max_ulp(vectors, scalars, 1)
    error = error_from_double(vectors, exact)
    worst = int(np.nanargmax(error))
    assert error[worst] <= LIMIT, f"{error[worst]:.2f} ulp at {x[worst]!r}"


@pytest.mark.parametrize("name", CASES)
def test_double_precision(name: str) -> None:
    x = arguments(name, F64, 128 if name in ("erfinv", "lgamma", "digamma") else 512)
    with mpmath.workdps(40):
        exact = [CASES[name].exact(mpmath.mpf(float(value))) for value in x]
        vectors, scalars = compiled(name, F64, 8)(x), compiled(name, F64, 1)(x)
        np.testing.assert_array_max_ulp(vectors, scalars, 1)
        error = error_from_mpmath(vectors, exact)
    worst = int(np.argmax(error))
    assert error[worst] <= LIMIT, f"{error[worst]:.2f} ulp at {x[worst]!r}"


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("name", MEASURED)
def test_every_instruction_set(name: str, dtype: np.dtype) -> None:
    """A sample of benchmarks/accuracy.py: all magnitudes, special values as NumPy's."""
    if "x86_64" not in llvm.get_process_triple():
        pytest.skip("needs long double of 80 bits")
    for isa, worst in measure(name, dtype, 4096).items():
        assert confirmed(name, dtype, isa, worst) <= LIMIT, f"{isa}: {worst}"
        assert not special_mismatches(name, dtype, isa)


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("name", ["exp", "logistic", "tanh", "erf"])
def test_functions_that_look_up_do_not_depend_on_the_width(name: str, dtype: np.dtype) -> None:
    x = arguments(name, dtype, 512)
    results = [compiled(name, dtype, lanes)(x) for lanes in (1, 2, 4, 8, 16, 32)]
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


def test_sin_of_the_largest_and_the_worst_arguments() -> None:
    """6381956970095103 * 2^797 is the float64 nearest to a multiple of pi/2."""
    values = [6381956970095103 * 2.0**797, 1.7976931348623157e308, 2.0**30 + 0.5, 1e22, 2.0**1000]
    x = np.resize(np.array([*values, *(-value for value in values)]), 16)
    for name in ("sin", "cos", "tan"):
        with mpmath.workdps(400):
            exact = [CASES[name].exact(mpmath.mpf(float(value))) for value in x]
            for lanes in (8, 1):
                assert error_from_mpmath(compiled(name, F64, lanes)(x), exact).max() <= LIMIT


@pytest.mark.parametrize("name", ["lgamma", "digamma"])
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_reflection(name: str, dtype: np.dtype) -> None:
    """On the negative axis the error is small beside the larger of 1 and the result."""
    x = np.random.default_rng(5).uniform(-20, 0.5, 256).astype(dtype)
    with mpmath.workdps(40):
        exact = [mpmath.re(CASES[name].exact(mpmath.mpf(float(value)))) for value in x]
    reference = np.array([float(value) for value in exact])
    scale = np.maximum(np.abs(reference), 10.0)
    error = np.abs(compiled(name, dtype, 8)(x).astype(F64) - reference)
    assert (error <= 4 * np.finfo(dtype).eps * scale).all()


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_pow(dtype: np.dtype) -> None:
    rng = np.random.default_rng(11)
    count = 512
    largest = np.log(float(np.finfo(dtype).max)) * 0.98
    bases = [rng.uniform(0.01, 100, count), rng.uniform(0.999, 1.001, count)]
    bases.append(np.exp(rng.uniform(-60, 60, count)))
    x = np.concatenate(bases).astype(dtype)
    y = (rng.uniform(-largest, largest, x.size) / np.abs(np.log(x.astype(F64)))).astype(dtype)
    y = np.clip(y, -(2.0**20), 2.0**20)
    with mpmath.workdps(40):
        exact = [mpmath.mpf(float(a)) ** mpmath.mpf(float(b)) for a, b in zip(x, y, strict=True)]
    got = compiled("pow", dtype, 8)(x, y)
    unit = spacing(np.array([float(e) for e in exact]), dtype)
    gaps = [abs(mpmath.mpf(float(g)) - e) for g, e in zip(got, exact, strict=True)]
    assert max(float(gap / u) for gap, u in zip(gaps, unit, strict=True)) <= LIMIT


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_small_powers_and_logarithms_of_powers_are_exact(dtype: np.dtype) -> None:
    base, exponent = (c.ravel().astype(dtype) for c in np.mgrid[1:17, 0:5])
    got = compiled("pow", dtype, 8)(base, exponent)
    np.testing.assert_array_equal(got, base**exponent)
    k = np.arange(8).astype(dtype)
    np.testing.assert_array_equal(compiled("log10", dtype, 8)((10.0**k).astype(dtype)), k)
    np.testing.assert_array_equal(compiled("log2", dtype, 8)((2.0**k).astype(dtype)), k)


def test_long_division_in_fmod() -> None:
    rng = np.random.default_rng(3)
    for dtype, power in ((F32, 37), (F64, 300)):
        x, y = (10 ** rng.uniform(-power, power, (2, 2048))).astype(dtype)
        np.testing.assert_array_equal(compiled("fmod", dtype, 8)(x, y), np.fmod(x, y))


@pytest.mark.parametrize("features", ["+avx2,+fma,+f16c", "+sse4.2"])
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_other_x86_features(features: str, dtype: np.dtype) -> None:
    if "x86_64" not in llvm.get_process_triple():
        pytest.skip("needs an x86 processor")
    for name in ("exp", "log", "tanh", "sin", "erf", "pow", "cbrt"):
        x = np.linspace(0.1, 20, 64).astype(dtype)
        operands = (x, x[::-1] / 7) if name == "pow" else (x,)
        operands = tuple(np.ascontiguousarray(operand) for operand in operands)
        got = compiled(name, dtype, 16, None, features)(*operands)
        np.testing.assert_allclose(
            got, compiled(name, dtype, 16)(*operands), rtol=3 * np.finfo(dtype).eps
        )


def test_rows_compile_for_another_architecture() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple("aarch64-linux-gnu").create_target_machine(opt=1)
    for name in CASES.keys() | {"pow", "atan2"}:
        arity = 2 if name in ("pow", "atan2") else 1
        for dtype in (F32, F64):
            text = loop_text(name, [dtype] * arity, dtype, 4, dtype)
            module = llvm.parse_assembly(text)
            module.triple = "aarch64-linux-gnu"
            assembly = machine.emit_assembly(module)
            assert "fsqrt" in assembly if name == "sqrt" else "fmla" in assembly
