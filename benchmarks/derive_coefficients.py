"""Derive the polynomial coefficients of fgrad's vector math by weighted Remez exchange in mpmath.

Redirected to fgrad/compile/llvm/vector/coefficients.py this script's output is the module that the
library reads (half a minute).  With names as arguments only those rows are printed; i0_near,
i0_far, i1_near and i1_far are those of fgrad/compile/lower/bessel.py.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import NamedTuple

import mpmath as mp
import numpy as np

Function = Callable[[mp.mpf], mp.mpf]

mp.mp.dps = 60


class Fit(NamedTuple):
    """A function to approximate on an interval, with an error weight and a number of terms."""

    function: Function
    low: mp.mpf
    high: mp.mpf
    terms: int
    weight: Function


def solve_levelled(fit: Fit, nodes: Sequence[mp.mpf]) -> list[mp.mpf]:
    """The polynomial whose weighted error alternates at the nodes with equal size."""
    size = fit.terms + 1
    matrix, right = mp.matrix(size, size), mp.matrix(size, 1)
    for row, x in enumerate(nodes):
        for power in range(fit.terms):
            matrix[row, power] = x**power
        matrix[row, fit.terms] = (-1) ** row / fit.weight(x)
        right[row] = fit.function(x)
    solution = mp.lu_solve(matrix, right)
    return [solution[k] for k in range(fit.terms)]


def extrema(fit: Fit, coefficients: Sequence[mp.mpf]) -> list[tuple[mp.mpf, mp.mpf]]:
    """The alternating extrema (place, weighted error) of the polynomial's error."""
    count = 24 * (fit.terms + 1)
    middle, radius = (fit.low + fit.high) / 2, (fit.high - fit.low) / 2
    found: list[tuple[mp.mpf, mp.mpf]] = []
    for step in range(count + 1):
        x = middle - radius * mp.cos(mp.pi * step / count)
        error = (mp.polyval(coefficients[::-1], x) - fit.function(x)) * fit.weight(x)
        if not found or (error > 0) != (found[-1][1] > 0):
            found.append((x, error))
        elif abs(error) > abs(found[-1][1]):
            found[-1] = (x, error)
    return found


def remez(fit: Fit, rounds: int = 8) -> tuple[list[mp.mpf], mp.mpf]:
    """Minimax coefficients, constant term first, and the largest weighted error."""
    size = fit.terms + 1
    middle, radius = (fit.low + fit.high) / 2, (fit.high - fit.low) / 2
    nodes = [middle - radius * mp.cos(mp.pi * (2 * k + 1) / (2 * size)) for k in range(size)]
    coefficients: list[mp.mpf] = []
    worst = mp.inf
    for _ in range(rounds):
        coefficients = solve_levelled(fit, nodes)
        found = extrema(fit, coefficients)
        errors = [abs(error) for _, error in found]
        worst = max(errors)
        if len(found) < size or worst < min(errors) * 1.02:
            break
        while len(found) > size:
            found.pop(0 if abs(found[0][1]) < abs(found[-1][1]) else -1)
        nodes = [x for x, _ in found]
    return coefficients, worst


def one(_: mp.mpf) -> mp.mpf:
    """Weight of an absolute error."""
    return mp.mpf(1)


def guarded(series: Function) -> Function:
    """Evaluate with guard digits, for expressions that cancel near zero."""

    def evaluate(x: mp.mpf) -> mp.mpf:
        with mp.workdps(140):
            return series(mp.mpf(x))

    return evaluate


def odd_tail(function: Function) -> Function:
    """(function(r)/r - 1) / r^2 as a function of z = r^2, for an odd function with slope 1."""
    return guarded(lambda z: (function(mp.sqrt(z)) / mp.sqrt(z) - 1) / z)


def square(x: mp.mpf) -> mp.mpf:
    """Weight x^2, positive at zero."""
    return x * x + TINY


def linear(x: mp.mpf) -> mp.mpf:
    """Weight |x|, positive at zero."""
    return abs(x) + TINY


def acosh_tail(t: mp.mpf) -> mp.mpf:
    """(acosh(1 + t) / sqrt(2 t) - 1) / t"""
    return (mp.acosh(1 + t) / mp.sqrt(2 * t) - 1) / t


def erf_tail(x: mp.mpf) -> mp.mpf:
    """-log2(1 - erf x)"""
    return -mp.log(mp.erfc(x), 2)


def scaled_erfcx(q: mp.mpf) -> mp.mpf:
    """(x + 2) e^(x^2) erfc(x) where q = (x - 2) / (x + 2)."""
    x = 2 * (1 + q) / (1 - q)
    return (x + 2) * mp.exp(x * x) * mp.erfc(x)


def erfinv_central(w: mp.mpf) -> mp.mpf:
    """erfinv(x) / x where w = -log(1 - x^2)."""
    x = mp.sqrt(-mp.expm1(-w))
    return mp.erfinv(x) / x


def erfinv_tail(s: mp.mpf) -> mp.mpf:
    """erfinv(x) / x where s = sqrt(-log(1 - x^2)) - 3."""
    return erfinv_central((s + 3) ** 2)


def erfinv_far(s: mp.mpf) -> mp.mpf:
    """erfinv(x) / x where s = sqrt(-log(1 - x^2)) - 5."""
    return erfinv_central((s + 5) ** 2)


def digamma_ratio(t: mp.mpf) -> mp.mpf:
    """digamma(x) / (x - root) where t = (x - 2) / (x + 2)."""
    x = 2 * (1 + t) / (1 - t)
    return mp.digamma(x) / (x - DIGAMMA_ROOT)


def lgamma_ratio(t: mp.mpf) -> mp.mpf:
    """lgamma(x) / ((x - 1) (x - 2)) where t = (x - 1.5) / (x + 1.5)."""
    x = 3 * HALF * (1 + t) / (1 - t)
    return mp.loggamma(x) / ((x - 1) * (x - 2))


def digamma_tail(w: mp.mpf) -> mp.mpf:
    """(log x - 1 / (2 x) - digamma(x)) x^2 where w = 1 / x^2"""
    x = 1 / mp.sqrt(w)
    return (mp.log(x) - 1 / (2 * x) - mp.digamma(x)) * x * x


def lgamma_tail(w: mp.mpf) -> mp.mpf:
    """(lgamma(x) - (x - 1/2) log x + x - log(2 pi) / 2) x where w = 1 / x^2"""
    x = 1 / mp.sqrt(w)
    stirling = (x - HALF) * mp.log(x) - x + mp.log(2 * mp.pi) / 2
    return (mp.loggamma(x) - stirling) * x


def mobius(center: mp.mpf, x: mp.mpf) -> mp.mpf:
    """(x - center) / (x + center)"""
    return (x - center) / (x + center)


TINY = mp.mpf("1e-25")
HALF = mp.mpf(1) / 2
LN2_HALF = mp.log(2) / 2 * mp.mpf("1.0001")
EXP_TAIL = guarded(lambda r: (mp.expm1(r) - r) / r**2)
EXP2_TAIL = guarded(lambda r: mp.expm1(r * mp.log(2)) / r)
LOG_TAIL = guarded(lambda f: (mp.log1p(f) - f + f * f / 2) / f**3)
LOG_SERIES = guarded(lambda z: (2 * mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 2) / z)
COS_TAIL = guarded(lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2)
QUARTER_PI = (mp.pi / 4 + mp.mpf("0.004")) ** 2
SQRT_HALF = mp.sqrt(HALF) - 1
LOG_Z = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2
DIGAMMA_ROOT = mp.findroot(mp.digamma, mp.mpf("1.46163214496836"))
ATAN_WEIGHT = guarded(lambda z: z * mp.sqrt(z) / mp.atan(mp.sqrt(z)))
ERF_RATIO = guarded(lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1)


def relative(function: Function) -> Function:
    """The weight of a relative error."""
    return lambda x: 1 / abs(function(x))


def exponentials(terms: Callable[[int, int], int]) -> dict[str, Fit]:
    """exp, exp2, expm1, log, sinh and the inverse hyperbolic functions."""
    half = mp.mpf("0.5001")
    asinh, atanh = odd_tail(mp.asinh), odd_tail(mp.atanh)
    cube_root = guarded(lambda m: m ** (-mp.mpf(1) / 3))
    return {
        "exp": Fit(EXP_TAIL, -LN2_HALF, LN2_HALF, terms(5, 10), linear),
        "exp2": Fit(EXP2_TAIL, -half, half, terms(6, 11), one),
        "sinh": Fit(odd_tail(mp.sinh), TINY, mp.mpf(1), terms(3, 7), linear),
        "asinh": Fit(asinh, TINY, mp.mpf(1) / 4, terms(4, 11), linear),
        "atanh": Fit(atanh, TINY, mp.mpf(1) / 16, terms(3, 8), linear),
        "acosh": Fit(guarded(acosh_tail), TINY, HALF, terms(5, 11), linear),
        "pow": Fit(guarded(pow_tail), TINY, LOG_Z, terms(3, 7), square),
        "inverse_cbrt": Fit(cube_root, mp.mpf(1), mp.mpf(2), terms(5, 5), relative(cube_root)),
    }


def circular(terms: Callable[[int, int], int]) -> dict[str, Fit]:
    """sin, cos, tan, asin, atan."""
    return {
        "sin": Fit(odd_tail(mp.sin), TINY, QUARTER_PI, terms(3, 6), linear),
        "cos": Fit(COS_TAIL, TINY, QUARTER_PI, terms(3, 6), square),
        "tan": Fit(odd_tail(mp.tan), TINY, QUARTER_PI, terms(7, 14), linear),
        "asin": Fit(odd_tail(mp.asin), TINY, mp.mpf(1) / 4, terms(5, 12), linear),
        "atan": Fit(odd_tail(mp.atan), TINY, mp.mpf(1), terms(8, 20), ATAN_WEIGHT),
    }


def special(terms: Callable[[int, int], int]) -> dict[str, Fit]:
    """erf, erfc, erfinv, digamma, lgamma."""
    erfcx = guarded(scaled_erfcx)
    central, tail = guarded(erfinv_central), guarded(erfinv_tail)
    psi, gamma = guarded(digamma_ratio), guarded(lgamma_ratio)
    low, high = mobius(mp.mpf(2), mp.mpf(1)), mobius(mp.mpf(2), mp.mpf(4))
    bottom, top = mobius(3 * HALF, HALF), mobius(3 * HALF, mp.mpf(4))
    erfcx_range = (mobius(mp.mpf(2), mp.mpf("0.8")), mobius(mp.mpf(2), mp.mpf(terms(11, 28))))

    erf_end = mp.mpf(terms(41, 61)) / 10
    far_end, tiny = mp.mpf(1) / 16, mp.mpf("1e-12")
    start, one_more = mp.sqrt(5), mp.mpf("1.001")
    return {
        "erf": Fit(ERF_RATIO, TINY, mp.mpf(1), terms(7, 12), one),
        "erf_tail": Fit(guarded(erf_tail), mp.mpf(1), erf_end, terms(6, 19), mp.erfc),
        "erfcx": Fit(erfcx, *erfcx_range, terms(9, 22), relative(erfcx)),
        "erfinv": Fit(central, TINY, mp.mpf(5), terms(11, 22), relative(central)),
        "erfinv_tail": Fit(tail, start - 3, one_more, terms(10, 24), relative(tail)),
        "digamma": Fit(psi, low, high, terms(11, 23), relative(psi)),
        "digamma_tail": Fit(guarded(digamma_tail), tiny, far_end, terms(3, 9), linear),
        "lgamma_tail": Fit(guarded(lgamma_tail), tiny, far_end, terms(3, 10), one),
        "lgamma": Fit(gamma, bottom, top, terms(12, 27), relative(gamma)),
    }


def pow_tail(z: mp.mpf) -> mp.mpf:
    """(2 atanh(s) / s - 2 - 2 z / 3) / z^2 where z = s^2."""
    return (2 * mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 2 - 2 * z / 3) / z**2


def rows() -> dict[str, tuple[Fit, ...]]:
    """Every fit of the library: name -> (float32, float64), or one fit that has one precision."""
    families = (exponentials, circular, special)
    single = {k: fit for family in families for k, fit in family(lambda a, _: a).items()}
    double = {k: fit for family in families for k, fit in family(lambda _, b: b).items()}
    far = guarded(erfinv_far)
    return {
        **{name: (single[name], double[name]) for name in single},
        "log_short": (Fit(LOG_TAIL, SQRT_HALF, mp.sqrt(2) - 1, 8, square),),
        "erfinv_far": (Fit(far, mp.mpf(-1), mp.mpf("1.1"), 19, relative(far)),),
        "log_series": (Fit(LOG_SERIES, TINY, LOG_Z, 7, linear),),
    }


# --- what is looked up in a register of 16 float32 or 8 float64 -----------------------------------

STEPS = (16, 8)
# Keeps the divisor of tanh just below 2 near 0, where its rounding is small.
TANH_FACTOR = mp.mpf(13) / 16
# The distance of the points about which erf is developed, and the number of terms of each piece.
ERF_STEPS = ((mp.mpf(65) / 256, 5), (mp.mpf(102) / 128, 15))


def step_rows() -> dict[str, tuple[Fit, ...]]:
    """e^r and tanh(r / 2) where r is what a table of powers of two leaves."""
    exps, tanhs = [], []
    for steps, exp_terms, tanh_terms in zip(STEPS, (2, 6), (1, 3), strict=True):
        half = mp.log(2) / (2 * steps) * mp.mpf("1.0001")
        exps.append(Fit(EXP_TAIL, -half, half, exp_terms, square))
        tanhs.append(Fit(odd_tail(mp.tanh), TINY, half * half / 4, tanh_terms, linear))
    return {"exp_step": tuple(exps), "tanh_step": tuple(tanhs)}


def bessel_rows() -> dict[str, tuple[Fit, ...]]:
    """The modified Bessel functions I0 and I1: by y = (x / 2)^2 for x <= 8, by 1 / x beyond."""
    found = {}
    for order in (0, 1):
        near = guarded(lambda y, n=order: mp.hyp0f1(n + 1, y))
        far = guarded(lambda w, n=order: mp.besseli(n, 1 / w) * mp.exp(-1 / w) / mp.sqrt(w))
        sizes = [(Fit(near, TINY, mp.mpf(16), a, relative(near)),
                  Fit(far, mp.mpf("1e-9"), mp.mpf(1) / 8, b, relative(far)))
                 for a, b in ((10, 6), (15, 22))]  # fmt: skip
        found[f"i{order}_near"], found[f"i{order}_far"] = zip(*sizes, strict=True)
    return found


def powers(steps: int, factor: mp.mpf) -> list[mp.mpf]:
    """factor 2^(k / steps) for one octave."""
    return [factor * mp.mpf(2) ** (mp.mpf(k) / steps) for k in range(steps)]


def power_shifts(steps: int, kind: type[np.floating]) -> list[mp.mpf]:
    """Half of how far log p is from k ln2 / steps for the rounded p = 2^(k / steps) and ln2."""
    unit = mp.mpf(float(kind(float(mp.log(2)))))
    rounded = [mp.mpf(float(kind(float(p)))) for p in powers(steps, TANH_FACTOR)]
    return [(mp.log(p / TANH_FACTOR) - unit * k / steps) / 2 for k, p in enumerate(rounded)]


def steps_taken_off(steps: int, kind: type[np.floating]) -> list[mp.mpf]:
    """The numbers whose bits, with k steps added to the exponent field, are factor 2^(k / steps)"""
    rounded = np.array([float(p) for p in powers(steps, TANH_FACTOR)], kind)
    words = rounded.view(np.int64 if rounded.itemsize == 8 else np.int32)
    step = 2 ** np.finfo(kind).nmant // steps
    less = words - np.arange(steps, dtype=words.dtype) * words.dtype.type(step)
    return [mp.mpf(float(p)) for p in less.view(kind)]


def erf_piece(center: mp.mpf, half: mp.mpf, terms: int) -> Fit:
    """(erf(center + r) - erf(center)) / r for |r| <= half; an even function at center 0."""
    start = mp.erf(center)

    def slope(r: mp.mpf) -> mp.mpf:
        with mp.workdps(90):
            if abs(r) < mp.mpf(10) ** -30:
                return 2 / mp.sqrt(mp.pi) * mp.exp(-center * center)
            return (mp.erf(center + r) - start) / r

    if not center:
        return Fit(slope, TINY, half, terms, relative(slope))
    return Fit(slope, -half, half, terms, lambda r: linear(r) / mp.erf(center + r))


def erf_pieces(count: int, step: mp.mpf, terms: int) -> tuple[list[list[mp.mpf]], mp.mpf]:
    """For each power of r, the coefficients of all pieces; and the largest error."""
    solved = [remez(erf_piece(k * step, step / 2, terms)) for k in range(count)]
    starts = [mp.erf(k * step) for k in range(count)]
    columns = [[found[k] for found, _ in solved] for k in range(terms)]
    return [starts, *columns], max(worst for _, worst in solved)


HEADER = '''"""L5. Polynomial coefficients of vector math, constant term first: (float32, float64).

Written by benchmarks/derive_coefficients.py, which says of what function, on what interval and
with what error weight; the largest weighted error stands over each tuple.  Tuples read by
Lanes.fit_parts have the constant term as high + low.
"""

from __future__ import annotations

# fmt: off'''


# Read by Lanes.fit_parts, which takes the first coefficient as high + low.
SPLIT = ("erfcx", "erfinv", "erfinv_tail", "erfinv_far", "digamma", "lgamma")


def split_first(coefficients: Sequence[mp.mpf], kind: type[np.floating]) -> list[mp.mpf]:
    """The first coefficient rounded to the precision, its rest, and the others."""
    first, *others = coefficients
    high = mp.mpf(float(kind(float(first))))
    return [high, first - high, *others]


def tuple_text(coefficients: Sequence[mp.mpf]) -> str:
    """A tuple of float literals over several lines."""
    numbers = ", ".join(repr(float(c)) for c in coefficients)
    return (
        "(\n" + textwrap.fill(numbers, 96, initial_indent="    ", subsequent_indent="    ") + ",\n)"
    )


def print_tables() -> None:
    """Print the tables: float32, float64."""
    kinds = (np.float32, np.float64)
    tables = {
        "POWERS": [powers(steps, mp.mpf(1)) for steps in STEPS],
        "TANH_POWERS": [steps_taken_off(*row) for row in zip(STEPS, kinds, strict=True)],
        "TANH_SHIFTS": [power_shifts(*row) for row in zip(STEPS, kinds, strict=True)],
    }
    for name, table in tables.items():
        print(f"\n# exact\n{name} = ({', '.join(map(tuple_text, table))})", flush=True)
    found = [erf_pieces(n, step, terms) for n, (step, terms) in zip(STEPS, ERF_STEPS, strict=True)]
    errors = ", ".join(f"2^{mp.nstr(mp.log(worst, 2), 4)}" for _, worst in found)
    texts = [
        "(" + ", ".join(tuple_text(column) for column in columns) + ")" for columns, _ in found
    ]
    print(f"\n# {errors}\nERF_PIECES = ({', '.join(texts)})", flush=True)


def main(names: Sequence[str]) -> None:
    """Print a module with the rows asked for (all when none is named)."""
    print(HEADER)
    if not names or "tables" in names:
        print_tables()
    known = rows() | step_rows()
    for name, fits in (known | bessel_rows() if names else known).items():
        if names and name not in names:
            continue
        solved = [remez(fit) for fit in fits]
        if name in SPLIT:
            kinds = (np.float32, np.float64) if len(fits) == 2 else (np.float64,)
            solved = [
                (split_first(found, kind), worst)
                for (found, worst), kind in zip(solved, kinds, strict=True)
            ]
        errors = ", ".join(f"2^{mp.nstr(mp.log(worst, 2), 4)}" for _, worst in solved)
        tuples = [tuple_text(found) for found, _ in solved]
        value = tuples[0] if len(tuples) == 1 else f"({', '.join(tuples)})"
        print(f"\n# {errors}\n{name.upper()} = {value}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
