"""L6. Incomplete gamma and beta functions on the device, and the distributions made of them.

    P(a, x)     a series below x = a, 1 less Q above
    Q(a, x)     a continued fraction above, 1 less P below, a series of its own for small x
    I(a, b, x)  a continued fraction, after the reflection x -> 1 - x where it converges badly

What stands before them is x^a e^-x / Gamma(a) and its kin: with Gamma*(x) for what Stirling's
formula leaves out, and log(1 + t) - t taken without cancellation, it is good for all a.  Formulas
are those of the Digital Library of Mathematical Functions (dlmf.nist.gov), named by their numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from fgrad.compile.llvm.vector.lanes import INF, NAN, Lanes
from fgrad.lower_cuda.library.formulas import all_of, any_of, body_of, device, minus, row

_EPS = 2.0**-53
_MOST = 100_000  # terms of a sum or fraction
_SQRT_TWO_PI = math.sqrt(2 * math.pi)
# 1 / 12 x - 1 / 360 x^3 + ..., of log Gamma* (5.11.1)
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)

_tgamma, _normal = device("tgamma"), device("normcdf")


def _zeta(n: int, cut: int = 30) -> float:
    """The sum of k^-n, its tail by Euler and Maclaurin (25.2.9)."""
    rising = n * (n + 1) * (n + 2)
    tail = [cut ** (1 - n) / (n - 1), cut**-n / 2, n * cut ** (-n - 1) / 12]
    tail += [-rising * cut ** (-n - 3) / 720]
    tail += [rising * (n + 3) * (n + 4) * cut ** (-n - 5) / 30240]
    return math.fsum([*[k**-n for k in range(1, cut)], *tail])


# log Gamma(1 + x) / x (5.7.3)
_NEAR_ONE = (-0.5772156649015329, *[(-1) ** n * _zeta(n) / n for n in range(2, 44)])


def _shrunk(v: Lanes, t: str, whole: str) -> str:
    """log(1 + t) - t; near 0 by r = t / (2 + t), since log(1 + t) = 2 (r + r^3 / 3 + ...).

    `whole` is 1 + t.
    """
    near = v.compare("olt", v.abs(t), 0.5)
    small = v.select(near, t, 0.0)
    r = v.div(small, v.add(small, 2.0))
    square = v.mul(r, r)
    tail = v.polynomial([2 / (2 * k + 3) for k in range(16)], square)
    series = v.sub(v.mul(v.mul(square, r), tail), v.mul(r, small))
    return v.select(near, series, v.sub(row(v, "log", whole), t))


def star(v: Lanes, x: str) -> str:
    """Gamma(x) / (sqrt(2 pi) x^(x - 1/2) e^-x) for x > 0."""
    large = v.compare("oge", x, 10.0)
    high, low = v.select(large, x, 10.0), v.select(large, 1.0, x)
    inverse = v.div(1.0, high)
    stirling = v.mul(inverse, v.polynomial(_STIRLING, v.mul(inverse, inverse)))
    power = v.mul(row(v, "exp", low), row(v, "pow", low, v.sub(0.5, low)))
    short = v.div(v.mul(_tgamma(v, low), power), _SQRT_TWO_PI)
    return v.select(large, row(v, "exp", stirling), short)


def _gamma_density(v: Lanes, a: str, x: str) -> str:
    """x^a e^-x / Gamma(a)."""
    shrunk = _shrunk(v, v.div(v.sub(x, a), a), v.div(x, a))
    scale = v.div(v.sqrt(v.mul(a, 1 / (2 * math.pi))), star(v, a))
    return v.mul(scale, row(v, "exp", v.mul(a, shrunk)))


def _until_small(v: Lanes, step: Callable[[str], str]) -> None:
    """Repeat a step, which is given its number and gives the size of the last change."""
    text = body_of(v)
    last = text.variable("double", v.number(1.0))
    with text.count(1, _MOST) as n, text.when(v.compare("ogt", text.get(last), _EPS)):
        text.put(last, step(text.emit(f"sitofp i64 {n} to double")))


def _gamma_series(v: Lanes, a: str, x: str) -> str:
    """P(a, x) by 1 + x / (a + 1) + x^2 / (a + 1)(a + 2) + ... (8.7.1)"""
    text = body_of(v)
    term, total = (text.variable("double", v.number(1.0)) for _ in range(2))

    def step(n: str) -> str:
        now = v.mul(text.get(term), v.div(x, v.add(a, n)))
        text.put(term, now)
        text.put(total, v.add(text.get(total), now))
        return v.div(now, text.get(total))

    _until_small(v, step)
    return v.mul(v.div(_gamma_density(v, a, x), a), text.get(total))


class _Fraction:
    """1 / (b + a1 / (b1 + a2 / (b2 + ...))) from the front, after Steed: each quotient adds a part.

    D' = 1 / (b + a D), part' = (b D' - 1) part = -a D D' part.
    """

    def __init__(self, v: Lanes, first: str) -> None:
        self.v = v
        start = v.div(1.0, first)
        self.value, self.part, self.inverse = (
            body_of(v).variable("double", start) for _ in range(3)
        )

    def add(self, numerator: str, denominator: str) -> str:
        """One quotient more; how much it changed."""
        v, text = self.v, body_of(self.v)
        rest = v.mul(numerator, text.get(self.inverse))
        inverse = v.div(1.0, v.add(denominator, rest))
        part = v.mul(text.get(self.part), v.mul(minus(v, rest), inverse))
        text.put(self.inverse, inverse)
        text.put(self.part, part)
        text.put(self.value, v.add(text.get(self.value), part))
        return v.abs(v.div(part, text.get(self.value)))


def _gamma_fraction(v: Lanes, a: str, x: str) -> str:
    """Q(a, x) by x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / ...) (8.9.2)"""
    first = v.sub(v.add(x, 1.0), a)
    fraction = _Fraction(v, first)

    def step(n: str) -> str:
        return fraction.add(v.mul(n, v.sub(a, n)), v.add(first, v.mul(n, 2.0)))

    _until_small(v, step)
    return v.mul(_gamma_density(v, a, x), body_of(v).get(fraction.value))


def _gamma_near_zero(v: Lanes, a: str, x: str) -> str:
    """Q(a, x) for small x: 1 - x^a / Gamma(1 + a), taken by expm1, less x^a / Gamma(a) times the
    sum of (-x)^n / n! (a + n) (8.7.3)."""
    text = body_of(v)
    term = text.variable("double", v.number(1.0))
    total = text.variable("double", v.number(0.0))

    def step(n: str) -> str:
        now = v.mul(text.get(term), v.div(minus(v, x), n))
        part = v.div(now, v.add(a, n))
        text.put(term, now)
        text.put(total, v.add(text.get(total), part))
        return v.abs(v.div(part, text.get(total)))

    _until_small(v, step)
    over = v.compare("ogt", a, 0.5)
    rest = v.select(over, v.sub(a, 1.0), a)
    log_gamma = v.mul(rest, v.polynomial(_NEAR_ONE, rest))
    log_gamma = v.add(log_gamma, v.select(over, row(v, "log", v.select(over, a, 1.0)), 0.0))
    exponent = v.sub(v.mul(a, row(v, "log", x)), log_gamma)
    main = minus(v, row(v, "expm1", exponent))
    return v.sub(main, v.mul(v.mul(a, row(v, "exp", exponent)), text.get(total)))


def _gamma(upper: bool) -> Callable[[Lanes, str, str], str]:
    """Q or P, with SciPy's values at the edges."""

    def function(v: Lanes, a: str, x: str) -> str:
        positive = [v.compare("ogt", a, 0.0), v.compare("ogt", x, 0.0)]
        finite = [v.compare("olt", a, INF), v.compare("olt", x, INF)]
        inside = all_of(v, *positive, *finite)
        value = _inner_gamma(v, v.select(inside, a, 1.0), v.select(inside, x, 1.0), upper)
        low, high = (1.0, 0.0) if upper else (0.0, 1.0)
        at_zero, endless = v.compare("oeq", a, 0.0), v.compare("oeq", a, INF)
        edge = v.select(any_of(v, v.compare("oeq", x, 0.0), endless), low, high)
        neither = all_of(v, at_zero, v.compare("oeq", x, 0.0))
        both = all_of(v, endless, v.compare("oeq", x, INF))
        nothing = [v.compare("olt", a, 0.0), v.compare("olt", x, 0.0), v.compare("uno", a, x)]
        edge = v.select(any_of(v, neither, both, *nothing), NAN, edge)
        return v.select(inside, value, edge)

    return function


def _inner_gamma(v: Lanes, a: str, x: str, upper: bool) -> str:
    text = body_of(v)
    out = text.variable("double", v.number(0.0))
    small = v.compare("ole", x, 1.1)
    if upper:
        bound = v.select(
            v.compare("ole", x, 0.5),
            v.div(-0.4, row(v, "log", v.select(v.compare("ole", x, 0.5), x, 0.5))),
            v.mul(x, 1.1),
        )
        below = v.compare("olt", v.select(small, bound, x), a)
    else:
        below = any_of(v, v.compare("ole", x, 1.0), v.compare("ole", x, a))
    with text.either(below) as otherwise:
        value = _gamma_series(v, a, x)
        text.put(out, v.sub(1.0, value) if upper else value)
        otherwise()
        if upper:
            with text.either(small) as above:
                text.put(out, _gamma_near_zero(v, a, x))
                above()
                text.put(out, _gamma_fraction(v, a, x))
        else:
            text.put(out, v.sub(1.0, _gamma_fraction(v, a, x)))
    return text.get(out)


gammainc, gammaincc = _gamma(upper=False), _gamma(upper=True)


# --- beta -----------------------------------------------------------------------------------------


def _beta_density(v: Lanes, a: str, b: str, x: str, y: str) -> str:
    """x^a y^b / B(a, b) for x + y = 1."""
    both = v.add(a, b)
    apart = v.sub(v.mul(x, b), v.mul(y, a))
    left = _shrunk(v, v.div(apart, a), v.mul(x, v.div(both, a)))
    right = _shrunk(v, minus(v, v.div(apart, b)), v.mul(y, v.div(both, b)))
    stars = v.div(star(v, both), v.mul(star(v, a), star(v, b)))
    root = v.sqrt(v.mul(v.div(a, both), v.mul(b, 1 / (2 * math.pi))))
    exponent = v.add(v.mul(a, left), v.mul(b, right))
    return v.mul(v.mul(root, stars), row(v, "exp", exponent))


def _beta_fraction(v: Lanes, a: str, b: str, x: str, y: str) -> str:
    """I(a, b, x) by 1 / (b0 + a1 / (b1 + ...)) (8.17.22, each two quotients as one)

    an = (a + n - 1) (a + b + n - 1) n (b - n) x^2 / (a + 2n - 1)^2
    bn = n + n (b - n) x / (a + 2n - 1) + (a + n) (a y - b x + 1 + n (2 - x)) / (a + 2n + 1)
    """
    both, slope = v.add(a, b), v.sub(2.0, x)
    ahead = v.add(v.sub(v.mul(a, y), v.mul(b, x)), 1.0)
    fraction = _Fraction(v, v.div(v.mul(a, ahead), v.add(a, 1.0)))

    def step(n: str) -> str:
        before = v.sub(v.add(a, v.mul(n, 2.0)), 1.0)
        ratio = v.div(x, before)
        common = v.mul(v.mul(n, v.sub(b, n)), ratio)
        grown = v.mul(v.sub(v.add(a, n), 1.0), v.sub(v.add(both, n), 1.0))
        last = v.mul(v.div(v.add(a, n), v.add(before, 2.0)), v.add(ahead, v.mul(n, slope)))
        return fraction.add(v.mul(grown, v.mul(common, ratio)), v.add(v.add(n, common), last))

    _until_small(v, step)
    return v.mul(_beta_density(v, a, b, x, y), body_of(v).get(fraction.value))


def _inner_beta(v: Lanes, a: str, b: str, x: str, y: str, *, upper: bool) -> str:
    """I(a, b, x) or 1 less it, for positive numbers, x + y = 1."""
    turned = v.compare("ogt", v.mul(x, b), v.mul(y, a))
    a, b = v.select(turned, b, a), v.select(turned, a, b)
    x, y = v.select(turned, y, x), v.select(turned, x, y)
    value = _beta_fraction(v, a, b, x, y)
    complement = v.sub(1.0, value)
    return v.select(turned, *((value, complement) if upper else (complement, value)))


def beta_of_parts(v: Lanes, a: str, b: str, x: str, y: str, upper: bool = False) -> str:
    """I(a, b, x) or 1 less it, for x + y = 1; all is at 0 if a is 0 or b infinite, and at 1 if b is
    0 or a infinite."""
    inside = all_of(v, *[v.compare("ogt", p, 0.0) for p in (a, b, x, y)])
    inside = all_of(v, inside, v.compare("olt", a, INF), v.compare("olt", b, INF))
    p, q = (v.select(inside, shape, 1.0) for shape in (a, b))
    value = _inner_beta(v, p, q, *[v.select(inside, part, 0.5) for part in (x, y)], upper=upper)
    first, last = v.compare("oeq", x, 0.0), v.compare("oeq", y, 0.0)
    at_zero = any_of(v, v.compare("oeq", a, 0.0), v.compare("oeq", b, INF))
    low, high = (1.0, 0.0) if upper else (0.0, 1.0)
    edge = v.select(first, low, v.select(last, high, v.select(at_zero, high, low)))
    below = [v.compare("olt", p, 0.0) for p in (a, b, x, y)]
    nothing = [*below, v.compare("uno", a, b), v.compare("uno", x, x)]
    equal = any_of(v, *[all_of(v, *[v.compare("oeq", p, q) for p in (a, b)]) for q in (0.0, INF)])
    return v.select(inside, value, v.select(any_of(v, equal, *nothing), NAN, edge))


def betainc(v: Lanes, a: str, b: str, x: str) -> str:
    """I(a, b, x)."""
    return beta_of_parts(v, a, b, x, v.sub(1.0, x))


def betaincc(v: Lanes, a: str, b: str, x: str) -> str:
    """1 - I(a, b, x)."""
    return beta_of_parts(v, a, b, x, v.sub(1.0, x), upper=True)


# --- distributions --------------------------------------------------------------------------------


def gamma_distribution(upper: bool) -> Callable[[Lanes, str, str, str], str]:
    """P(b, a x) or Q(b, a x) for x >= 0."""
    function = gammaincc if upper else gammainc

    def distribution(v: Lanes, a: str, b: str, x: str) -> str:
        value = function(v, b, v.mul(a, x))
        return v.select(v.compare("olt", x, 0.0), NAN, value)

    return distribution


def poisson(upper: bool) -> Callable[[Lanes, str, str], str]:
    """Q(k + 1, m) for the whole part of k >= 0, or P(k + 1, m)."""
    function = gammainc if upper else gammaincc

    def distribution(v: Lanes, k: str, m: str) -> str:
        value = function(v, v.add(row(v, "floor", k), 1.0), m)
        value = v.select(v.compare("oeq", m, 0.0), 0.0 if upper else 1.0, value)
        outside = [v.compare("olt", x, 0.0) for x in (k, m)]
        return v.select(any_of(v, *outside), NAN, value)

    return distribution


def ratio_of_variances(upper: bool) -> Callable[[Lanes, str, str, str], str]:
    """I(m / 2, n / 2, z) for z = m x / (n + m x), or 1 less it."""

    def distribution(v: Lanes, m: str, n: str, x: str) -> str:
        product = v.mul(m, x)
        whole = v.add(n, product)
        parts = v.div(product, whole), v.div(n, whole)
        value = beta_of_parts(v, v.mul(m, 0.5), v.mul(n, 0.5), *parts, upper)
        last = v.compare("oeq", x, INF)
        value = v.select(last, 0.0 if upper else 1.0, value)
        positive = [v.compare("ogt", p, 0.0) for p in (m, n)]
        proper = all_of(v, *positive, v.compare("oge", x, 0.0))
        proper = all_of(v, proper, any_of(v, last, v.compare("olt", n, INF)))
        return v.select(proper, value, NAN)

    return distribution


def student(v: Lanes, df: str, t: str) -> str:
    """I(df / 2, 1 / 2, df / (df + t^2)) / 2 for t < 0, 1 less it above; for infinite df the normal
    distribution."""
    square = v.mul(t, t)
    whole = v.add(df, square)
    tail = beta_of_parts(v, v.mul(df, 0.5), v.number(0.5), v.div(df, whole), v.div(square, whole))
    tail = v.mul(tail, 0.5)
    value = v.select(v.compare("olt", t, 0.0), tail, v.sub(1.0, tail))
    value = v.select(v.compare("oeq", df, INF), _normal(v, t), value)
    return v.select(v.compare("ogt", df, 0.0), value, NAN)
