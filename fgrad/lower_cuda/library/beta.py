"""L6. The beta function and its logarithm on the device, for all real numbers, as SciPy has them.

For positive numbers powers of a / (a + b) and b / (a + b) times what Stirling's formula leaves out;
for others gamma functions; at a negative integer the limit where the other is an integer below.
"""

from __future__ import annotations

import math

from fgrad.compile.llvm.vector.lanes import INF, NAN, Lanes
from fgrad.lower_cuda.library.formulas import all_of, any_of, device, minus, row
from fgrad.lower_cuda.library.incomplete import star

_LARGEST = 170.0  # whose gamma function is finite
_tgamma = device("tgamma")


def beta(v: Lanes, a: str, b: str) -> str:
    """B(a, b)."""
    return _beta(v, a, b, logarithm=False)


def betaln(v: Lanes, a: str, b: str) -> str:
    """log |B(a, b)|."""
    return _beta(v, a, b, logarithm=True)


def _positive(v: Lanes, a: str, b: str, logarithm: bool) -> str:
    """For 0 < a, b: sqrt(2 pi (a + b) / a b) (a / (a + b))^a (b / (a + b))^b and the rest."""
    both, smaller = v.add(a, b), v.compare("olt", a, b)
    less, more = v.select(smaller, a, b), v.select(smaller, b, a)
    share = v.div(less, both)
    power = v.mul(more, row(v, "log1p", minus(v, share)))
    power = v.add(power, v.mul(less, row(v, "log", share)))
    stars = v.div(v.mul(star(v, a), star(v, b)), star(v, both))
    root = v.sqrt(v.mul(v.div(v.div(both, more), less), 2 * math.pi))
    factor = v.mul(stars, root)
    if logarithm:
        return v.add(power, row(v, "log", factor))
    return v.mul(row(v, "exp", power), factor)


def _by_gammas(v: Lanes, a: str, b: str, logarithm: bool) -> str:
    """gamma(a) gamma(b) / gamma(a + b), 0 at the poles of the last; for large numbers by their
    logarithms."""
    both = v.add(a, b)
    pole = _is_pole(v, both)
    small = all_of(v, *[v.compare("olt", v.abs(x), _LARGEST) for x in (a, b, both)])
    gammas = [_tgamma(v, v.select(small, x, 1.0)) for x in (a, b, both)]
    value = v.div(v.mul(gammas[0], gammas[1]), gammas[2])
    logs = [row(v, "lgamma", x) for x in (a, b, both)]
    total = v.sub(v.add(logs[0], logs[1]), logs[2])
    if logarithm:
        found = v.select(small, row(v, "log", v.abs(value)), total)
        return v.select(pole, -INF, found)
    signs = v.mul(v.mul(_sign(v, a), _sign(v, b)), _sign(v, both))
    found = v.select(small, value, v.mul(signs, row(v, "exp", total)))
    return v.select(pole, 0.0, found)


def _sign(v: Lanes, x: str) -> str:
    """The sign of gamma(x) between its poles."""
    half = v.mul(row(v, "floor", x), 0.5)
    odd = v.compare("one", row(v, "floor", half), half)
    return v.select(all_of(v, odd, v.compare("olt", x, 0.0)), -1.0, 1.0)


def _is_pole(v: Lanes, x: str) -> str:
    """0, -1, -2, ..."""
    return all_of(v, v.compare("oeq", row(v, "floor", x), x), v.compare("ole", x, 0.0))


def _beta(v: Lanes, a: str, b: str, logarithm: bool) -> str:
    first = _is_pole(v, a)
    pole, other = v.select(first, a, b), v.select(first, b, a)
    singular = any_of(v, first, _is_pole(v, b))
    # B(-n, k) = (-1)^k B(1 + n - k, k) for integers 0 < k <= n
    turned, half = v.sub(v.sub(1.0, pole), other), v.mul(other, 0.5)
    whole = v.compare("oeq", row(v, "floor", other), other)
    whole = all_of(v, singular, whole, v.compare("ogt", turned, 0.0), v.compare("ogt", pole, -INF))
    limited = all_of(v, whole, v.compare("ogt", other, 0.0))
    turns = all_of(v, whole, v.compare("one", row(v, "floor", half), half))
    p, q = v.select(limited, turned, a), v.select(limited, other, b)
    inside = all_of(v, *[v.compare("ogt", x, 0.0) for x in (p, q)])
    finite = all_of(v, *[v.compare("olt", v.abs(x), INF) for x in (p, q)])
    plain, below = all_of(v, inside, finite), all_of(v, finite, v.negate(inside))
    value = _positive(v, v.select(plain, p, 1.0), v.select(plain, q, 1.0), logarithm)
    gammas = _by_gammas(v, v.select(below, p, 0.5), v.select(below, q, 0.5), logarithm)
    # beside an infinite number 0, or as far from it for a negative one
    endless = v.select(inside, -INF if logarithm else 0.0, INF if logarithm else -INF)
    value = v.select(plain, value, v.select(below, gammas, endless))
    both = all_of(v, v.compare("oeq", a, INF), v.compare("oeq", b, INF))
    value = v.select(any_of(v, both, v.compare("uno", a, b)), NAN, value)
    value = v.select(all_of(v, singular, v.negate(limited)), INF, value)
    return value if logarithm else v.select(turns, minus(v, value), value)
