"""The largest errors of fgrad's functions, in ulp: every function, float32 and float64, each
instruction set that this processor can run.

    python benchmarks/accuracy.py                  10 million points of each, some minutes
    python benchmarks/accuracy.py --points 100000
    python benchmarks/accuracy.py --only erf

Half of the points have random bits (all magnitudes, subnormal numbers too), half are uniform on the
intervals where a function changes most.  The reference is the C library's long double, which has 11
bits more than float64; the worst point of every row is computed again by mpmath with 60 digits, and
that is the error which is reported.  Written to benchmarks/results/accuracy.json and .md.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import mpmath
import numpy as np
import scipy.special

import fgrad

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "compile"))

from scalar_loops import HOST_FEATURES, compiled, host_machine

Interval = tuple[float, float]
Function = Callable[..., Any]

LONG = np.longdouble
CHUNK = 1 << 20
REFERENCE_ERROR = 0.02  # ulp by which long double and mpmath may differ at the worst point
RESULTS = Path(__file__).parent / "results"
SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
ISAS = {
    "AVX-512": (None, 64),
    "AVX2": ("+avx2,+fma,+f16c", 64),
    "SSE4.2": ("+sse4.2", 64),
    "scalar": ("+sse2", 0),
}


# --- references -----------------------------------------------------------------------------------


@cache
def _library_loop(name: str) -> tuple[Any, Any]:
    """A loop that calls a C function of one long double."""
    text = f"""
declare x86_fp80 @{name}(x86_fp80)
define void @f(ptr %x, ptr %y, i64 %n) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %from = getelementptr x86_fp80, ptr %x, i64 %i
  %to = getelementptr x86_fp80, ptr %y, i64 %i
  %value = load x86_fp80, ptr %from, align 16
  %result = call x86_fp80 @{name}(x86_fp80 %value)
  store x86_fp80 %result, ptr %to, align 16
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}}"""
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), host_machine(None))
    engine.finalize_object()
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    return kind(engine.get_function_address("f")), engine


def library(name: str) -> Function:
    """The C library's function of long double as a function on arrays."""

    def apply(x: np.ndarray) -> np.ndarray:
        values = np.ascontiguousarray(x, LONG)
        out = np.empty_like(values)
        _library_loop(name)[0](values.ctypes.data, out.ctypes.data, values.size)
        return out

    return apply


def logistic(x: np.ndarray) -> np.ndarray:
    """1 / (1 + e^-x), as e^x / (1 + e^x) below 0"""
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, LONG(1)) / (1 + e)


def erfinv(x: np.ndarray) -> np.ndarray:
    """Newton's method on erfc or erf from SciPy's float64 result."""
    size = np.abs(x)
    y = scipy.special.erfinv(size.astype(np.float64)).astype(LONG)
    slope = 2 / np.sqrt(LONG(np.pi) + LONG(1.2246467991473531772e-16))
    for _ in range(2):
        far = library("erfcl")(y) - (1 - size)
        near = size - library("erfl")(y)
        step = np.where(size > 0.5, far, near) / (slope * np.exp(-y * y))
        y = np.where(np.isfinite(y), y + step, y)
    return np.copysign(y, x)


@cache
def _digamma_series() -> tuple[np.longdouble, np.longdouble, list[np.longdouble]]:
    """The positive zero of digamma in two parts, and the Taylor coefficients about it."""
    with mpmath.workdps(50):
        root = mpmath.findroot(mpmath.digamma, mpmath.mpf("1.4616321449683623"))
        high = _long(root)
        first = float(high)
        rest = root - mpmath.mpf(first) - mpmath.mpf(float(high - LONG(first)))
        terms = [mpmath.psi(k, root) / mpmath.factorial(k) for k in range(1, 60)]
        return high, LONG(float(rest)), [_long(term) for term in terms]


def _long(value: mpmath.mpf) -> np.longdouble:
    first = float(value)
    return LONG(first) + LONG(float(value - mpmath.mpf(first)))


def digamma(x: np.ndarray) -> np.ndarray:
    """For x > 0: the asymptotic series from 30 on, recurrence below, a Taylor series at the zero"""
    shifted, total = x.copy(), np.zeros_like(x)
    while (low := shifted < 30).any():
        total = np.where(low, total - 1 / shifted, total)
        shifted = np.where(low, shifted + 1, shifted)
    w = 1 / (shifted * shifted)
    bernoulli = [_long(mpmath.bernoulli(2 * k) / (2 * k)) for k in range(1, 12)]
    tail = np.zeros_like(x)
    for term in reversed(bernoulli):
        tail = w * (term + tail)
    result = np.log(shifted) - 1 / (2 * shifted) - tail + total
    high, low_part, terms = _digamma_series()
    distance = (x - high) - low_part
    near = np.zeros_like(x)
    for term in reversed(terms):
        near = distance * (term + near)
    return np.where(np.abs(distance) < 0.4, near, result)


class Case(NamedTuple):
    """A function: its reference, its exact form, NumPy's, and where it is measured."""

    reference: Function
    exact: Function
    numpy: Function
    linear: Sequence[Interval]
    wide: Sequence[Interval] = ()  # of float64
    domain: Interval = (-np.inf, np.inf)
    arity: int = 1


def _root3(x: mpmath.mpf) -> mpmath.mpf:
    return mpmath.sign(x) * mpmath.cbrt(abs(x))


def _log_gamma(x: mpmath.mpf) -> mpmath.mpf:
    return mpmath.log(abs(mpmath.gamma(x))) if x < 1000 else mpmath.loggamma(x)


def _lgamma_as_scipy(x: np.ndarray) -> np.ndarray:
    """SciPy's, which has another value than C at -inf, but calls the smallest numbers 0"""
    return np.where(np.isinf(x), scipy.special.gammaln(x), library("lgammal")(x))


_ERF = scipy.special.erf
_POSITIVE = (0.0, np.inf)
_TURNS: list[Interval] = [(-8, 8), (-1000, 1000)]
CASES: dict[str, Case] = {
    "sqrt": Case(np.sqrt, mpmath.sqrt, np.sqrt, [(1, 4)], (), _POSITIVE),
    "cbrt": Case(np.cbrt, _root3, np.cbrt, [(-8, 8)]),
    "exp": Case(np.exp, mpmath.exp, np.exp, [(-104, 89), (-1, 1)], [(-746, 710)]),
    "exp2": Case(np.exp2, lambda x: mpmath.mpf(2) ** x, np.exp2, [(-150, 128)], [(-1075, 1024)]),
    "expm1": Case(np.expm1, mpmath.expm1, np.expm1, [(-20, 89), (-1, 1)], [(-40, 710)]),
    "logistic": Case(
        logistic, lambda x: 1 / (1 + mpmath.exp(-x)), lambda x: logistic(x.astype(LONG)),
        [(-104, 30), (-4, 4)], [(-746, 40)],
    ),
    "sinh": Case(np.sinh, mpmath.sinh, np.sinh, [(-89.5, 89.5), (-2, 2)], [(-711, 711)]),
    "cosh": Case(np.cosh, mpmath.cosh, np.cosh, [(-89.5, 89.5), (-2, 2)], [(-711, 711)]),
    "tanh": Case(np.tanh, mpmath.tanh, np.tanh, [(-10, 10), (-1, 1)], [(-20, 20)]),
    "log": Case(np.log, mpmath.log, np.log, [(0, 4), (0.9, 1.1)], (), _POSITIVE),
    "log2": Case(
        np.log2, lambda x: mpmath.log(x) / mpmath.log(2), np.log2, [(0, 4), (0.9, 1.1)], (),
        _POSITIVE,
    ),
    "log10": Case(np.log10, mpmath.log10, np.log10, [(0, 4), (0.9, 1.1)], (), _POSITIVE),
    "log1p": Case(np.log1p, mpmath.log1p, np.log1p, [(-1, 3), (-0.1, 0.1)], (), (-1, np.inf)),
    "asinh": Case(np.arcsinh, mpmath.asinh, np.arcsinh, [(-3, 3)]),
    "acosh": Case(np.arccosh, mpmath.acosh, np.arccosh, [(1, 3), (1, 1.01)], (), (1, np.inf)),
    "atanh": Case(np.arctanh, mpmath.atanh, np.arctanh, [(-1, 1), (-0.3, 0.3)], (), (-1, 1)),
    "sin": Case(np.sin, mpmath.sin, np.sin, _TURNS),
    "cos": Case(np.cos, mpmath.cos, np.cos, _TURNS),
    "tan": Case(np.tan, mpmath.tan, np.tan, _TURNS),
    "asin": Case(np.arcsin, mpmath.asin, np.arcsin, [(-1, 1)], (), (-1, 1)),
    "acos": Case(np.arccos, mpmath.acos, np.arccos, [(-1, 1)], (), (-1, 1)),
    "atan": Case(np.arctan, mpmath.atan, np.arctan, [(-3, 3)]),
    "erf": Case(library("erfl"), mpmath.erf, _ERF, [(-4, 4), (-1, 1)], [(-6, 6)]),
    "erfc": Case(library("erfcl"), mpmath.erfc, scipy.special.erfc, [(-4, 10), (-1, 2)],
                 [(-6, 26.5)]),
    "erfinv": Case(erfinv, mpmath.erfinv, scipy.special.erfinv, [(-1, 1), (0.99, 1)], (), (-1, 1)),
    "lgamma": Case(library("lgammal"), _log_gamma, _lgamma_as_scipy, [(0, 9), (0.9, 2.1)], (),
                   _POSITIVE),
    "digamma": Case(digamma, mpmath.digamma, scipy.special.digamma, [(0, 9), (1.4, 1.5)], (),
                    _POSITIVE),
    "pow": Case(np.power, lambda x, y: x**y, np.power, [(0, 4), (0.9, 1.1)], (), _POSITIVE, 2),
    "atan2": Case(np.arctan2, mpmath.atan2, np.arctan2, [(-4, 4)], (), (-np.inf, np.inf), 2),
    "hypot": Case(np.hypot, mpmath.hypot, np.hypot, [(-4, 4)], (), (-np.inf, np.inf), 2),
    "rsqrt": Case(lambda x: 1 / np.sqrt(x), lambda x: 1 / mpmath.sqrt(x),
                  lambda x: 1 / np.sqrt(x), [(1, 4)], (), _POSITIVE),
}  # fmt: skip
# Compositions of the others: measured as compiled programs, for this processor alone.
COMPOSED = {"hypot": fgrad.jit(np.hypot), "rsqrt": fgrad.jit(lambda x: 1 / np.sqrt(x))}
DIGITS = {"sin": 400, "cos": 400, "tan": 400}  # of mpmath, where arguments may be huge


# --- points ---------------------------------------------------------------------------------------


def random_bits(rng: np.random.Generator, dtype: np.dtype, count: int) -> np.ndarray:
    """Numbers of all magnitudes."""
    words = rng.integers(0, 2 ** (8 * dtype.itemsize), count, dtype=f"u{dtype.itemsize}")
    x = words.view(dtype)
    return np.where(np.isfinite(x), x, dtype.type(1.5))


def points(name: str, dtype: np.dtype, count: int, seed: int) -> list[np.ndarray]:
    """The operands of one chunk, inside of the domain."""
    case, rng = CASES[name], np.random.default_rng(seed)
    low, high = case.domain
    x = random_bits(rng, dtype, count)
    intervals = [*case.linear, *(case.wide if dtype == DOUBLE else ())]
    for k, (start, stop) in enumerate(intervals):
        part = slice(count // 2 + k * count // (2 * len(intervals)), None)
        x[part] = rng.uniform(start, stop, x[part].size)
    x = np.abs(x) if low == 0 else x
    x = np.where((x > low) & (x < high) & (np.abs(x) > 0), x, dtype.type(1.0))
    if name in ("atan2", "hypot"):
        return [x, np.concatenate([random_bits(rng, dtype, count // 2), x[: count // 2]])]
    if name == "pow":
        return [x, exponents(rng, x)]
    return [x]


def exponents(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """Exponents for which the power neither overflows nor is subnormal."""
    largest = np.log(float(np.finfo(x.dtype).max)) * 0.98
    with np.errstate(divide="ignore"):
        y = rng.uniform(-largest, largest, x.size) / np.abs(np.log(x.astype(np.float64)))
    return np.clip(y, -(2.0**40), 2.0**40).astype(x.dtype)


# --- errors ---------------------------------------------------------------------------------------


class Worst(NamedTuple):
    """The largest error found, in ulp, and where."""

    error: float
    at: tuple[float, ...]


def errors(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """|got - exact| in units of the last place of the result's dtype; where the exact result
    overflows, an infinity is right."""
    largest = np.finfo(got.dtype).max
    with np.errstate(all="ignore"):
        size = np.minimum(np.abs(exact), LONG(largest))
        unit = np.spacing(size.astype(got.dtype)).astype(LONG)
        found = np.abs(got.astype(LONG) - exact) / unit
        beyond = np.abs(exact) >= LONG(largest) * (1 + LONG(np.finfo(got.dtype).eps) / 4)
    found = np.where(beyond & np.isinf(got) & (np.sign(got) == np.sign(exact)), 0, found)
    return np.where(np.isnan(got) & np.isnan(exact), 0, found).astype(np.float64)


def exact_error(name: str, got: float, at: Sequence[float], dtype: np.dtype) -> float:
    """The error at one point against mpmath, in ulp."""
    with mpmath.workdps(DIGITS.get(name, 60)):
        value = mpmath.re(CASES[name].exact(*[mpmath.mpf(x) for x in at]))
        with np.errstate(all="ignore"):
            unit = np.spacing(np.abs(np.array(float(value))).astype(dtype))
        return float(abs(mpmath.mpf(got) - value) / mpmath.mpf(float(unit)))


def isas() -> dict[str, tuple[str | None, int]]:
    """The instruction sets of this processor: features (None for all), bytes of a vector."""
    has = HOST_FEATURES.split(",")
    needed = {"AVX-512": "+avx512f", "AVX2": "+avx2", "SSE4.2": "+sse4.2", "scalar": "+sse2"}
    return {name: row for name, row in ISAS.items() if needed[name] in has}


def isas_of(name: str) -> list[str]:
    """The instruction sets that a function is measured with."""
    return list(isas())[: 1 if name in COMPOSED else None]


def loop(name: str, dtype: np.dtype, isa: str) -> Function:
    """The compiled loop of a function for one instruction set."""
    if name in COMPOSED:
        return COMPOSED[name]
    features, width = ISAS[isa]
    return compiled(name, dtype, max(1, width // dtype.itemsize), None, features)


def measure(name: str, dtype: np.dtype, count: int) -> dict[str, Worst]:
    """The worst point of each instruction set; all see the same points."""
    loops = {isa: loop(name, dtype, isa) for isa in isas_of(name)}
    worst = dict.fromkeys(loops, Worst(0.0, ()))
    size = min(count, CHUNK) // 16 * 16
    for seed in range(-(-count // size)):
        operands = points(name, dtype, size, seed)
        with np.errstate(all="ignore"):
            exact = CASES[name].reference(*[x.astype(LONG) for x in operands])
        for isa, run in loops.items():
            found = errors(run(*operands), exact)
            k = int(np.argmax(np.where(np.isnan(found), np.inf, found)))
            if not found[k] <= worst[isa].error:
                worst[isa] = Worst(float(found[k]), tuple(float(x[k]) for x in operands))
    return worst


def confirmed(name: str, dtype: np.dtype, isa: str, worst: Worst) -> float:
    """The error at the worst point as mpmath gives it."""
    if not worst.at:
        return worst.error
    operands = [np.full(16, x, dtype) for x in worst.at]
    got = float(loop(name, dtype, isa)(*operands)[0])
    return exact_error(name, got, worst.at, dtype)


# --- special values -------------------------------------------------------------------------------


def special_values(dtype: np.dtype) -> np.ndarray:
    """Zeros, infinities, NaN, the ends of the range, and numbers about which functions turn."""
    info = np.finfo(dtype)
    sizes = [0, np.inf, np.nan, info.smallest_subnormal, info.tiny, info.max, 0.25, 0.5, 1, 1.5, 2,
             3, 10, 100, 1000, 1 - info.epsneg, 1 + info.eps, 1e10, 1e-10]  # fmt: skip
    values = np.array([s * size for size in sizes for s in (1, -1)], dtype)
    return np.resize(values, -(-values.size // 16) * 16)


def special_mismatches(name: str, dtype: np.dtype, isa: str) -> list[str]:
    """Where a result is NaN, infinite or a zero and NumPy's is not the same, or the reverse."""
    values = special_values(dtype)
    operands = [values]
    if CASES[name].arity == 2:
        operands = [x.ravel() for x in np.meshgrid(values, values)]
    with np.errstate(all="ignore"):
        got = loop(name, dtype, isa)(*operands)
        wanted = CASES[name].numpy(*operands).astype(dtype)
        special = [~np.isfinite(y) | (y == 0) for y in (got, wanted)]
        same = (np.isnan(got) & np.isnan(wanted)) | (
            (got == wanted) & (np.signbit(got) == np.signbit(wanted))
        )
    wrong = (special[0] | special[1]) & ~same
    return sorted({
        f"{name}({', '.join(repr(float(x[k])) for x in operands)}) = {float(got[k])!r}, "
        f"NumPy {float(wanted[k])!r}"
        for k in np.flatnonzero(wrong)
    })  # fmt: skip


# --- reports --------------------------------------------------------------------------------------


def report(count: int, chosen: str) -> list[dict[str, Any]]:
    """Measure everything; a line of the table is printed when it is known."""
    rows = []
    for name in CASES:
        if chosen not in name:
            continue
        for dtype in (SINGLE, DOUBLE):
            for isa, worst in measure(name, dtype, count).items():
                special = special_mismatches(name, dtype, isa)
                exact = confirmed(name, dtype, isa, worst)
                rows.append({"function": name, "dtype": str(dtype), "isa": isa,
                             "ulp": round(worst.error, 3), "ulp_by_mpmath": round(exact, 3),
                             "at": worst.at, "special": special})  # fmt: skip
                if abs(exact - worst.error) > REFERENCE_ERROR:
                    print(f"{name} {dtype} {isa} at {worst.at}: {worst.error} is {exact}")
        print(table([row for row in rows if row["function"] == name]), flush=True)
    return rows


def header(count: int) -> str:
    """What stands above the table."""
    names = [f"{dtype} {isa}" for dtype in ("float32", "float64") for isa in isas()]
    return (
        f"# Largest errors in ulp, {count:,} points each\n\n"
        "A star marks special values that differ from NumPy's or SciPy's.  lgamma, digamma, pow:\n"
        "positive arguments.  hypot and rsqrt are compositions: as compiled for this processor.\n\n"
        f"| function | {' | '.join(names)} |\n|---|{'---|' * len(names)}"
    )


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as lines of the table."""
    lines = []
    for name in dict.fromkeys(row["function"] for row in rows):
        cells = {
            (row["dtype"], row["isa"]): f"{row['ulp']:.2f}{'*' if row['special'] else ''}"
            for row in rows
            if row["function"] == name
        }
        columns = [cells.get((d, isa), "") for d in ("float32", "float64") for isa in isas()]
        lines.append(f"| {name} | {' | '.join(columns)} |")
    return "\n".join(lines)


def main() -> None:
    """Print the table and write it into files."""
    parser = argparse.ArgumentParser(description="Largest errors of fgrad's functions in ulp")
    parser.add_argument("--points", type=int, default=10_000_000, help="of each function and dtype")
    parser.add_argument("--only", default="", help="functions whose name contains this")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of results")
    options = parser.parse_args()
    print(header(options.points), flush=True)
    rows = report(options.points, options.only)
    for line in sorted({line for row in rows for line in row["special"]}):
        print(line)
    options.out.mkdir(exist_ok=True, parents=True)
    result = {"points": options.points, "numpy": np.__version__, "rows": rows}
    (options.out / "accuracy.json").write_text(json.dumps(result, indent=1) + "\n")
    (options.out / "accuracy.md").write_text(f"{header(options.points)}\n{table(rows)}\n")
    print(f"written: {options.out / 'accuracy.json'}, accuracy.md")


if __name__ == "__main__":
    main()
