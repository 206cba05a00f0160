"""Special functions as mpmath has them, or as its formulas of them, with operands to compare at.

A row is a name (with the number of the result, if there are several), the function, the operands,
and the places of those in which the slope is compared; all if none are told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mpmath as mp
from mpmath import mpf

Row = tuple[str, Callable[..., Any], Sequence[tuple[float, ...]], tuple[int, ...]]


def _p(a: Any, x: Any) -> Any:
    return mp.gammainc(a, 0, x, regularized=True)


def _q(a: Any, x: Any) -> Any:
    return mp.gammainc(a, x, mp.inf, regularized=True)


def _i(a: Any, b: Any, x: Any) -> Any:
    return mp.betainc(a, b, 0, x, regularized=True)


def _t(df: Any, x: Any) -> Any:
    tail = _i(df / 2, mpf(1) / 2, df / (df + x * x)) / 2
    return 1 - tail if x > 0 else tail


def _f(m: Any, n: Any, x: Any) -> Any:
    return _i(m / 2, n / 2, m * x / (n + m * x))


def _poisson_sum(nc: Any, of: Callable[[int], Any]) -> Any:
    total, w, j = mpf(0), mp.exp(-nc / 2), 0
    while j < 20 or w > mpf(10) ** -34:
        total, j, w = total + w * of(j), j + 1, w * nc / 2 / (j + 1)
    return total


def _chndtr(x: Any, v: Any, nc: Any) -> Any:
    return _poisson_sum(nc, lambda j: _p(v / 2 + j, x / 2))


def _ncfdtr(m: Any, n: Any, nc: Any, x: Any) -> Any:
    return _poisson_sum(nc, lambda j: _i(m / 2 + j, n / 2, m * x / (n + m * x)))


def _nctdtr(df: Any, nc: Any, t: Any) -> Any:
    def f(w: Any) -> Any:
        return mp.exp((df - 1) * mp.log(w) - w * w / 2) * mp.ncdf(t * w / mp.sqrt(df) - nc)

    scale = mpf(2) ** (df / 2 - 1) * mp.gamma(df / 2)
    return mp.quad(f, [0, 0.1, 0.5, 1, 2, 4, 6, 8, 14]) / scale


def _solved(f: Callable[..., Any], place: int, start: float) -> Callable[..., Any]:
    """The operand at a place for which f is the argument at that place."""

    def inverse(*args: Any) -> Any:
        def away(x: Any) -> Any:
            return f(*args[:place], x, *args[place + 1 :]) - args[place]

        return mp.findroot(away, mpf(start), tol=mpf(10) ** -50)

    return inverse


def _boxcox(x: Any, a: Any) -> Any:
    return mp.expm1(a * mp.log(x)) / a if a else mp.log(x)


def _owen(h: Any, a: Any) -> Any:
    f = lambda x: mp.exp(-h * h * (1 + x * x) / 2) / (1 + x * x)  # noqa: E731
    return mp.quad(f, [0, a]) / (2 * mp.pi)


def _smirnov(n: Any, d: Any) -> Any:
    n = int(n)
    terms = [
        mp.binomial(n, j) * (d + mpf(j) / n) ** (j - 1) * (1 - d - mpf(j) / n) ** (n - j)
        for j in range(int(mp.floor(n * (1 - d))) + 1)
    ]
    return d * mp.fsum(terms)


def _kolmogorov(y: Any) -> Any:
    return 2 * mp.nsum(lambda k: (-1) ** (int(k) - 1) * mp.exp(-2 * k * k * y * y), [1, 40])


def _elliprg(x: Any, y: Any, z: Any) -> Any:
    rest = (x - z) * (y - z) / 3
    return (z * mp.elliprf(x, y, z) - rest * mp.elliprd(x, y, z) + mp.sqrt(x * y / z)) / 2


def _cell(kind: str) -> Callable[..., Any]:
    return lambda u, m: mp.ellipfun(kind, u, m=m)


def _wright(a: Any, b: Any, x: Any) -> Any:
    return mp.nsum(lambda k: x**k / mp.factorial(k) * mp.rgamma(a * k + b), [0, 80])


def _spherical(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda n, x: mp.sqrt(mp.pi / (2 * x)) * f(n + mpf(1) / 2, x)


def _modified(n: Any, x: Any) -> Any:
    return mp.sqrt(mp.pi / (2 * x)) * mp.besselk(n + mpf(1) / 2, x)


def _integral(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: mp.quad(f, [0, x])


def _degrees(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: f(x * mp.pi / 180)


_sqrt_two = mp.sqrt(2)
X = ((0.3,), (1.7,), (12.0,))
SMALL = ((-0.8,), (0.2,), (0.65,))
SIGNED = ((-2.3,), (0.4,), (3.1,))
UNIT = ((0.03,), (0.5,), (0.97,))
TWO = ((0.4, 0.7), (2.3, 1.9), (8.0, 11.0))
THREE = ((0.4, 0.7, 1.9), (2.3, 1.9, 0.2), (8.0, 11.0, 3.0))

ROWS: tuple[Row, ...] = (
    # powers and logarithms
    ("cbrt", mp.cbrt, X, ()), ("exp2", lambda x: mpf(2) ** x, SIGNED, ()),
    ("exp10", lambda x: mpf(10) ** x, SIGNED, ()), ("expm1", mp.expm1, SIGNED, ()),
    ("log1p", mp.log1p, X, ()), ("cosm1", lambda x: mp.cos(x) - 1, SIGNED, ()),
    ("exprel", lambda x: mp.expm1(x) / x, (*SIGNED, (1e-6,)), ()),
    ("expit", lambda x: 1 / (1 + mp.exp(-x)), ((-40.0,), (0.3,), (9.0,)), ()),
    ("log_expit", lambda x: -mp.log1p(mp.exp(-x)), ((-40.0,), (0.3,), (35.0,)), ()),
    ("logit", lambda x: mp.log(x / (1 - x)), UNIT, ()),
    ("softplus", lambda x: mp.log1p(mp.exp(x)), ((-40.0,), (0.3,), (35.0,)), ()),
    ("xlogy", lambda x, y: x * mp.log(y), TWO, ()),
    ("xlog1py", lambda x, y: x * mp.log1p(y), TWO, ()),
    ("entr", lambda x: -x * mp.log(x), X, ()),
    ("rel_entr", lambda x, y: x * mp.log(x / y), TWO, ()),
    ("kl_div", lambda x, y: x * mp.log(x / y) - x + y, TWO, ()),
    ("pseudo_huber", lambda d, r: d * d * (mp.sqrt(1 + (r / d) ** 2) - 1), TWO, ()),
    ("boxcox", _boxcox, (*TWO, (1.3, 1e-7)), ()),
    ("boxcox1p", lambda x, a: _boxcox(1 + x, a), (*TWO, (1e-5, -2.0)), ()),
    ("inv_boxcox", lambda y, a: (1 + a * y) ** (1 / a), (*TWO, (1.3, 1e-5)), ()),
    ("inv_boxcox1p", lambda y, a: (1 + a * y) ** (1 / a) - 1, TWO, ()),
    ("powm1", lambda x, y: x**y - 1, TWO, ()),
    ("sindg", _degrees(mp.sin), ((20.0,), (95.0,)), ()),
    ("cosdg", _degrees(mp.cos), ((20.0,), (95.0,)), ()),
    ("tandg", _degrees(mp.tan), ((20.0,), (95.0,)), ()),
    ("cotdg", _degrees(mp.cot), ((20.0,), (95.0,)), ()),
    ("sinc", lambda x: mp.sinc(mp.pi * x), SIGNED, ()),
    # gamma
    ("gamma", mp.gamma, (*X, (-1.6,)), ()), ("rgamma", mp.rgamma, (*X, (-1.6,), (-3.0,)), ()),
    ("gammaln", lambda x: mp.log(abs(mp.gamma(x))), (*X, (-1.6,), (1e-5,)), ()),
    ("digamma", mp.digamma, (*X, (-1.6,)), ()), ("psi", mp.digamma, X, ()),
    ("polygamma", lambda n, x: mp.polygamma(int(n), x), ((1, 0.4), (3, 2.2), (2, 40.0)), (1,)),
    ("multigammaln", lambda a: mp.log(mp.pi) * 1.5 + sum(
        [mp.loggamma(a - mpf(j) / 2) for j in range(3)]), ((1.4,), (7.0,)), ()),
    ("beta", mp.beta, TWO, ()), ("betaln", lambda a, b: mp.log(mp.beta(a, b)), TWO, ()),
    ("poch", mp.rf, TWO, ()), ("binom", mp.binomial, ((5.4, 2.2), (40.0, 11.3)), ()),
    ("gammainc", _p, (*TWO, (0.3, 1e-4), (200.0, 190.0)), ()),
    ("gammaincc", _q, (*TWO, (3.0, 30.0), (200.0, 220.0)), ()),
    ("betainc", _i, ((0.4, 0.7, 0.2), (2.3, 1.9, 0.8), (80.0, 40.0, 0.6)), ()),
    ("betaincc", lambda a, b, x: 1 - _i(a, b, x), ((0.4, 0.7, 0.2), (2.3, 1.9, 0.8)), ()),
    ("gammaincinv", _solved(_p, 1, 1.5), ((1.7, 0.5), (2.2, 0.3)), ()),
    ("gammainccinv", _solved(_q, 1, 1.5), ((1.7, 0.5), (2.2, 0.6)), ()),
    ("betaincinv", _solved(_i, 2, 0.5), ((1.7, 2.1, 0.5), (3.2, 2.0, 0.3)), ()),
    ("betainccinv", _solved(lambda a, b, x: 1 - _i(a, b, x), 2, 0.5), ((1.7, 2.1, 0.5),), ()),
    # distribution functions
    ("gdtr", lambda a, b, x: _p(b, a * x), THREE, ()),
    ("gdtrc", lambda a, b, x: _q(b, a * x), THREE, ()),
    ("gdtrix", lambda a, b, p: _solved(_p, 1, 1.2)(b, p) / a, ((0.7, 1.7, 0.4),), ()),
    ("chdtr", lambda v, x: _p(v / 2, x / 2), TWO, ()),
    ("chdtrc", lambda v, x: _q(v / 2, x / 2), TWO, ()),
    ("chdtri", lambda v, p: 2 * _solved(_q, 1, 1.2)(v / 2, p), ((3.1, 0.4),), ()),
    ("fdtr", _f, THREE, ()), ("fdtrc", lambda m, n, x: 1 - _f(m, n, x), THREE, ()),
    ("fdtri", _solved(_f, 2, 1.0), ((3.1, 4.2, 0.6),), ()),
    ("stdtr", _t, ((0.7, 1.3), (3.1, -2.0), (40.0, 0.4)), ()),
    ("stdtrit", _solved(_t, 1, 0.5), ((3.1, 0.7),), ()),
    ("pdtr", lambda k, m: _q(k + 1, m), ((2.0, 1.3), (40.0, 33.0)), (1,)),
    ("pdtrc", lambda k, m: _p(k + 1, m), ((2.0, 1.3), (40.0, 33.0)), (1,)),
    ("bdtr", lambda k, n, p: _i(n - k, k + 1, 1 - p), ((2.0, 7, 0.3), (20.0, 60, 0.4)), (2,)),
    ("bdtrc", lambda k, n, p: _i(k + 1, n - k, p), ((2.0, 7, 0.3), (20.0, 60, 0.4)), (2,)),
    ("nbdtr", lambda k, n, p: _i(n, k + 1, p), ((2.0, 7, 0.3), (20.0, 60, 0.7)), (2,)),
    ("nbdtrc", lambda k, n, p: _i(k + 1, n, 1 - p), ((2.0, 7, 0.3),), (2,)),
    ("kolmogorov", _kolmogorov, ((0.6,), (1.2,), (3.0,)), ()),
    ("kolmogi", _solved(_kolmogorov, 0, 0.9), ((0.4,),), ()),
    ("smirnov", _smirnov, ((5.0, 0.31), (12.0, 0.07)), (1,)),
    ("owens_t", _owen, ((0.7, 1.3), (2.1, 0.4), (0.1, 5.0)), ()),
    ("chndtr", _chndtr, (*THREE, (60.0, 4.0, 50.0), (3.0, 2.0, 1e-6)), ()),
    ("ncfdtr", _ncfdtr, ((0.7, 3.0, 1.9, 0.4), (4.0, 9.0, 12.0, 3.0)), ()),
    ("nctdtr", _nctdtr, ((0.7, 0.4, 1.2), (4.0, -1.1, 0.5), (11.0, 2.0, -1.3)), ()),
    ("chndtrix", _solved(_chndtr, 0, 2.5), ((0.4, 2.2, 0.9),), ()),
    # errors
    ("erf", mp.erf, SIGNED, ()), ("erfc", mp.erfc, (*SIGNED, (9.0,)), ()),
    ("erfcx", lambda x: mp.exp(x * x) * mp.erfc(x), (*SIGNED, (30.0,)), ()),
    ("erfi", mp.erfi, SIGNED, ()),
    ("dawsn", lambda x: mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x), (*SIGNED, (11.0,)), ()),
    ("erfinv", mp.erfinv, SMALL, ()), ("erfcinv", lambda x: mp.erfinv(1 - x), UNIT, ()),
    ("ndtr", mp.ncdf, (*SIGNED, (-20.0,)), ()),
    ("log_ndtr", lambda x: mp.log(mp.erfc(-x / _sqrt_two) / 2), (*SIGNED, (-30.0,)), ()),
    ("ndtri", lambda p: _sqrt_two * mp.erfinv(2 * p - 1), UNIT, ()),
    ("ndtri_exp", lambda y: _sqrt_two * mp.erfinv(2 * mp.exp(y) - 1), ((-3.0,), (-0.2,)), ()),
    ("voigt_profile", lambda x, s, g: mp.re(
        mp.exp(-(((x + 1j * g) / s / _sqrt_two) ** 2))
        * mp.erfc(-1j * (x + 1j * g) / s / _sqrt_two)) / s / mp.sqrt(2 * mp.pi), THREE[:2], ()),
    ("fresnel 0", mp.fresnels, SIGNED, ()), ("fresnel 1", mp.fresnelc, SIGNED, ()),
    # Bessel
    ("j0", mp.j0, (*X, (60.0,)), ()), ("j1", mp.j1, (*X, (60.0,)), ()),
    ("y0", lambda x: mp.bessely(0, x), X, ()), ("y1", lambda x: mp.bessely(1, x), X, ()),
    ("i0", lambda x: mp.besseli(0, x), X, ()), ("i1", lambda x: mp.besseli(1, x), X, ()),
    ("k0", lambda x: mp.besselk(0, x), X, ()), ("k1", lambda x: mp.besselk(1, x), X, ()),
    ("i0e", lambda x: mp.exp(-x) * mp.besseli(0, x), (*X, (300.0,)), ()),
    ("i1e", lambda x: mp.exp(-x) * mp.besseli(1, x), (*X, (300.0,)), ()),
    ("k0e", lambda x: mp.exp(x) * mp.besselk(0, x), (*X, (300.0,)), ()),
    ("k1e", lambda x: mp.exp(x) * mp.besselk(1, x), (*X, (300.0,)), ()),
    ("jv", mp.besselj, TWO, (1,)), ("yv", mp.bessely, TWO, (1,)),
    ("iv", mp.besseli, TWO, (1,)), ("kv", mp.besselk, TWO, (1,)),
    ("ive", lambda v, x: mp.exp(-x) * mp.besseli(v, x), (*TWO, (2.5, 90.0)), (1,)),
    ("kve", lambda v, x: mp.exp(x) * mp.besselk(v, x), (*TWO, (2.5, 90.0)), (1,)),
    ("jn", mp.besselj, ((2, 1.3), (5, 9.0)), (1,)), ("yn", mp.bessely, ((2, 1.3),), (1,)),
    ("kn", mp.besselk, ((2, 1.3),), (1,)),
    ("struve", mp.struveh, TWO, (1,)), ("modstruve", mp.struvel, TWO, (1,)),
    ("spherical_jn", _spherical(mp.besselj), ((0, 0.7), (3, 2.2)), (1,)),
    ("spherical_yn", _spherical(mp.bessely), ((0, 0.7), (3, 2.2)), (1,)),
    ("spherical_in", _spherical(mp.besseli), ((0, 0.7), (3, 2.2)), (1,)),
    ("spherical_kn", _modified, ((0, 0.7), (3, 2.2)), (1,)),
    ("airy 0", mp.airyai, SIGNED, ()), ("airy 1", lambda x: mp.airyai(x, 1), SIGNED, ()),
    ("airy 2", mp.airybi, SIGNED, ()), ("airy 3", lambda x: mp.airybi(x, 1), SIGNED, ()),
    ("itairy 0", _integral(mp.airyai), ((0.7,), (2.0,)), ()),
    ("ber", lambda x: mp.ber(0, x), X, ()), ("bei", lambda x: mp.bei(0, x), X, ()),
    ("ker", lambda x: mp.ker(0, x), X, ()), ("kei", lambda x: mp.kei(0, x), X, ()),
    ("itj0y0 0", _integral(mp.j0), ((0.7,), (2.0,)), ()),
    ("iti0k0 0", _integral(lambda x: mp.besseli(0, x)), ((0.7,), (2.0,)), ()),
    ("itstruve0", _integral(lambda x: mp.struveh(0, x)), ((0.7,), (2.0,)), ()),
    ("itmodstruve0", _integral(lambda x: mp.struvel(0, x)), ((0.7,), (2.0,)), ()),
    # integrals of exponentials, zeta
    ("expi", mp.ei, (*X, (-1.3,)), ()), ("exp1", mp.e1, X, ()),
    ("expn", lambda n, x: mp.expint(int(n), x), ((2, 0.7), (5, 3.0)), (1,)),
    ("shichi 0", mp.shi, X, ()), ("shichi 1", mp.chi, X, ()),
    ("sici 0", mp.si, X, ()), ("sici 1", mp.ci, X, ()),
    ("spence", lambda z: mp.polylog(2, 1 - z), ((0.3,), (1.6,)), ()),
    ("zeta", mp.zeta, ((2.3, 0.7), (5.0, 3.1)), (1,)),
    ("zetac", lambda x: mp.zeta(x) - 1, ((1.2,), (3.4,), (0.3,), (-2.5,)), ()),
    ("lambertw", lambda x: mp.re(mp.lambertw(x)), ((0.4,), (3.0,), (-0.3,)), ()),
    ("wrightomega", lambda x: mp.re(mp.lambertw(mp.exp(x))), SIGNED, ()),
    ("wright_bessel", _wright, ((0.4, 0.7, 1.9), (0.9, 1.3, 3.0)), (2,)),
    # elliptic
    ("ellipk", mp.ellipk, SMALL, ()), ("ellipe", mp.ellipe, SMALL, ()),
    ("ellipkm1", lambda p: mp.ellipk(1 - p), ((0.3,), (1e-5,)), ()),
    ("ellipkinc", mp.ellipf, ((0.7, 0.4), (1.3, 0.95), (0.4, -2.0)), ()),
    ("ellipeinc", mp.ellipe, ((0.7, 0.4), (1.3, 0.95), (0.4, -2.0)), ()),
    ("elliprf", mp.elliprf, THREE, ()), ("elliprc", mp.elliprc, TWO, ()),
    ("elliprd", mp.elliprd, THREE, ()),
    ("elliprj", mp.elliprj, ((0.4, 0.7, 1.9, 1.1), (2.3, 1.9, 0.2, 3.0)), ()),
    ("elliprg", _elliprg, THREE, ()), ("agm", mp.agm, TWO, ()),
    ("ellipj 0", _cell("sn"), ((0.7, 0.4), (2.1, 0.8)), ()),
    ("ellipj 1", _cell("cn"), ((0.7, 0.4), (2.1, 0.8)), ()),
    ("ellipj 2", _cell("dn"), ((0.7, 0.4), (2.1, 0.8)), ()),
    # hypergeometric
    ("hyp0f1", mp.hyp0f1, TWO, (1,)), ("hyp1f1", mp.hyp1f1, THREE[:2], (2,)),
    ("hyp2f1", mp.hyp2f1, ((0.4, 0.7, 1.9, 0.3), (2.3, 1.1, 3.0, -2.0)), (3,)),
    ("hyperu", mp.hyperu, THREE[:2], (2,)),
    # polynomials and functions of parabolic cylinders
    ("eval_legendre", mp.legendre, ((3, 0.3), (2.4, 0.6)), (1,)),
    ("eval_chebyt", mp.chebyt, ((3, 0.3), (2.4, 0.6)), (1,)),
    ("eval_chebyu", mp.chebyu, ((3, 0.3), (2.4, 0.6)), (1,)),
    ("eval_hermite", mp.hermite, ((3, 0.3), (6, 1.6)), (1,)),
    ("eval_laguerre", lambda n, x: mp.laguerre(n, 0, x), ((3, 0.3), (2.4, 0.6)), (1,)),
    ("eval_genlaguerre", mp.laguerre, ((3, 0.7, 0.3), (2.4, 1.2, 0.6)), (2,)),
    ("eval_gegenbauer", mp.gegenbauer, ((3, 0.7, 0.3), (4, 1.2, 0.6)), (2,)),
    ("eval_jacobi", mp.jacobi, ((3, 0.7, 0.4, 0.3), (2.4, 1.2, 0.3, 0.6)), (3,)),
    ("eval_sh_legendre", lambda n, x: mp.legendre(n, 2 * x - 1), ((3, 0.3),), (1,)),
    ("pbdv 0", mp.pcfd, ((0.4, 0.7), (1.3, -1.1)), (1,)),
)  # fmt: skip
