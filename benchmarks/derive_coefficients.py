"""Derive the polynomial coefficients of fgrad's vector math with mpmath (weighted Remez exchange).

Run `python benchmarks/derive_coefficients.py [name ...]`: each row prints the coefficients, constant
term first, and the largest weighted error of the exact-arithmetic polynomial.  The library has the
results hard-coded; this file is their source.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

import mpmath as mp

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
    nodes = [
        middle - radius * mp.cos(mp.pi * (2 * k + 1) / (2 * size)) for k in range(size)
    ]
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


def ratio_minus(series: Function) -> Function:
    """Evaluate with guard digits, for expressions that cancel near zero."""

    def guarded(x: mp.mpf) -> mp.mpf:
        with mp.workdps(140):
            return series(mp.mpf(x))

    return guarded


LN2_HALF = mp.log(2) / 2 * mp.mpf("1.0001")
TINY = mp.mpf("1e-25")
EXP_TAIL = ratio_minus(lambda r: (mp.expm1(r) - r) / r**2)
EXP2_TAIL = ratio_minus(lambda r: mp.expm1(r * mp.log(2)) / r)
LOG_TAIL = ratio_minus(lambda f: (mp.log1p(f) - f + f * f / 2) / f**3)
LOG_SERIES = ratio_minus(lambda z: (2 * mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 2) / z)
SIN_TAIL = ratio_minus(lambda z: (mp.sin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z)
COS_TAIL = ratio_minus(lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2)
QUARTER_PI = (mp.pi / 4 + mp.mpf("0.004")) ** 2
SQRT_HALF = mp.sqrt(mp.mpf(1) / 2) - 1
LOG_Z = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2


def rows() -> dict[str, Fit]:
    """Every fit of the library; the name ends in the precision."""
    square, cube = (lambda x: x * x), (lambda x: abs(x) ** 3)
    return {
        "exp_32": Fit(EXP_TAIL, -LN2_HALF, LN2_HALF, 5, one),
        "exp_64": Fit(EXP_TAIL, -LN2_HALF, LN2_HALF, 10, one),
        "exp2_32": Fit(EXP2_TAIL, -mp.mpf("0.5001"), mp.mpf("0.5001"), 6, one),
        "exp2_64": Fit(EXP2_TAIL, -mp.mpf("0.5001"), mp.mpf("0.5001"), 11, one),
        "log_32": Fit(
            LOG_TAIL, SQRT_HALF, mp.sqrt(2) - 1, 8, lambda f: square(f) + TINY
        ),
        "log_64": Fit(LOG_SERIES, TINY, LOG_Z, 7, lambda z: z + TINY),
        "sin_32": Fit(SIN_TAIL, TINY, QUARTER_PI, 3, lambda z: z + TINY),
        "sin_64": Fit(SIN_TAIL, TINY, QUARTER_PI, 6, lambda z: z + TINY),
        "cos_32": Fit(COS_TAIL, TINY, QUARTER_PI, 3, lambda z: square(z) + TINY),
        "cos_64": Fit(COS_TAIL, TINY, QUARTER_PI, 6, lambda z: square(z) + TINY),
    }


def main(names: Sequence[str]) -> None:
    """Print the rows asked for (all when none is named)."""
    for name, fit in rows().items():
        if names and name not in names:
            continue
        coefficients, worst = remez(fit)
        print(f"{name}: weighted error 2^{mp.nstr(mp.log(worst, 2), 5)}")
        print("    " + ", ".join(repr(float(c)) for c in coefficients), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
