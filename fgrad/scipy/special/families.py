"""L7. The rest of `scipy.special`: functions with several results, of integer orders, sequences."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

import fgrad.scipy.special._bessel as sb
import fgrad.scipy.special._carlson as sc
import fgrad.scipy.special._inverses as si
import fgrad.scipy.special._more as sm
import fgrad.scipy.special._noncentral as sn
import fgrad.scipy.special._polynomials as so
import fgrad.scipy.special._waves as sw
from fgrad.numpy.promote import as_array, as_operand, convert
from fgrad.ops import elementwise as ew
from fgrad.ops.complex import complex_, to_complex
from fgrad.ops.elementwise import lit
from fgrad.scipy._either import refusal
from fgrad.scipy.special.common import (
    converted,
    count,
    either_form,
    elementwise,
    operands,
    publish,
    real_operand,
    with_counts,
)
from fgrad.scipy.special.elementary import PRIMITIVES
from fgrad.trace import Value
from fgrad.typing import ArrayLike

# --- one primitive, or one for each result --------------------------------------------------------

_NAMES = {
    sb: "jve yve hankel1 hankel2 hankel1e hankel2e ber bei ker kei berp beip kerp keip struve "
    "modstruve itstruve0 it2struve0 itmodstruve0 besselpoly",
    sc: "elliprf elliprd elliprj elliprg elliprc ellipkinc ellipeinc agm",
    si: "bdtr bdtrc nbdtr nbdtrc bdtri bdtrik bdtrin nbdtri nbdtrik nbdtrin pdtri pdtrik chdtri "
    "chdtriv gdtria gdtrib gdtrix btdtria btdtrib betainccinv fdtri fdtridfd stdtridf nrdtrimn "
    "nrdtrisd kolmogorov kolmogi smirnov smirnovi tklmbda",
    sn: "chndtr chndtrix chndtridf chndtrinc ncfdtr ncfdtri ncfdtridfn ncfdtridfd ncfdtrinc nctdtr "
    "nctdtrit nctdtridf nctdtrinc",
    sm: "wrightomega wright_bessel log_wright_bessel wofz voigt_profile powm1 zetac cosdg sindg "
    "tandg cotdg radian",
    so: "eval_jacobi eval_sh_jacobi eval_gegenbauer eval_genlaguerre eval_laguerre eval_legendre "
    "eval_sh_legendre eval_chebyt eval_chebyu eval_chebyc eval_chebys eval_sh_chebyt "
    "eval_sh_chebyu eval_hermite eval_hermitenorm lpmv",
    sw: "mathieu_a mathieu_b pro_cv obl_cv",
}
MORE_PRIMITIVES: dict[str, Callable[..., Value]] = {
    **{n: getattr(module, n) for module, names in _NAMES.items() for n in names.split()},
    "round": sm.rounded,
}
for _name, _apply in MORE_PRIMITIVES.items():
    elementwise(_name, _apply)

SEVERAL: dict[str, Sequence[Callable[..., Value]]] = {
    "airy": sb.airy, "airye": sb.airye, "itairy": sb.itairy, "itj0y0": sb.itj0y0,
    "iti0k0": sb.iti0k0, "it2j0y0": sb.it2j0y0, "it2i0k0": sb.it2i0k0, "shichi": sb.shichi,
    "ellipj": (sc.sn, sc.cn, sc.dn, sc.amplitude), "pbdv": sw.pbdv, "pbvv": sw.pbvv,
    "pbwa": sw.pbwa, "mathieu_cem": sw.mathieu_cem, "mathieu_sem": sw.mathieu_sem,
    "mathieu_modcem1": sw.mathieu_modcem1, "mathieu_modcem2": sw.mathieu_modcem2,
    "mathieu_modsem1": sw.mathieu_modsem1, "mathieu_modsem2": sw.mathieu_modsem2, **sw.SPHEROIDAL,
}  # fmt: skip


def _several(name: str, functions: Sequence[Callable[..., Value]]) -> None:
    """A function with a tuple of results, each of which is one primitive."""

    def traced(*xs: ArrayLike) -> tuple[Value, ...]:
        values = operands(*xs)
        return tuple([f(*values) for f in functions])

    traced.__doc__ = f"""`scipy.special.{name}`, with derivatives.

    Arguments:
        xs: arrays of floats, which broadcast; integers become floats.

    Returns:
        A tuple of arrays of the common shape and dtype.
    """
    publish(name, traced)


for _name, _functions in SEVERAL.items():
    _several(_name, _functions)


# --- real operands, complex results ---------------------------------------------------------------


@either_form
def kelvin(x: ArrayLike) -> tuple[Value, ...]:
    """The Kelvin functions ber + i bei, ker + i kei and their derivatives."""
    x = real_operand("kelvin", x)
    pairs = ((sb.ber, sb.bei), (sb.ker, sb.kei), (sb.berp, sb.beip), (sb.kerp, sb.keip))
    return tuple([complex_(re(x), im(x)) for re, im in pairs])


def _fresnel(x: Value, scaled: Callable[[Value], Value], s: int) -> tuple[Value, Value]:
    """F = sqrt(pi) exp(s i (x^2 + pi / 4)) K and K."""
    k = scaled(to_complex(x))
    angle = x * x + math.pi / 4
    return complex_(ew.cos(angle), ew.sin(angle) * s) * math.sqrt(math.pi) * k, k


@either_form
def modfresnelp(x: ArrayLike) -> tuple[Value, Value]:
    """The integral of exp(i t^2) from x to infinity, and it scaled."""
    return _fresnel(real_operand("modfresnelp", x), sb.modfresnelp_k, 1)


@either_form
def modfresnelm(x: ArrayLike) -> tuple[Value, Value]:
    """The integral of exp(-i t^2) from x to infinity, and it scaled."""
    return _fresnel(real_operand("modfresnelm", x), sb.modfresnelm_k, -1)


@either_form
def lambertw(z: ArrayLike, k: ArrayLike = 0, tol: float = 1e-8) -> Value:
    """The branch k of the solution w of w exp(w) = z, complex."""
    if tol != 1e-8:
        raise refusal("lambertw with tol", "it has no traced form.", "lambertw(z, k)")
    z, k = operands(*[_double_complex(x) for x in (z, k)])
    return sm.lambertw(z, k)


def _double_complex(x: ArrayLike) -> Value:
    return convert(as_array(as_operand(x)), np.dtype(np.complex128))


@either_form
def diric(x: ArrayLike, n: ArrayLike) -> Value:
    """sin(n x / 2) / (n sin(x / 2)), Dirichlet's function."""
    return so.diric(*operands(x, n))


@either_form
def assoc_laguerre(x: ArrayLike, n: ArrayLike, k: ArrayLike = 0.0) -> Value:
    """The generalised Laguerre polynomial of degree n and parameter k."""
    n, k, x = converted("eval_genlaguerre", n, k, x)
    return so.eval_genlaguerre(*operands(n, k, x))


# --- derivatives of Bessel functions of a known order (DLMF 10.6.7, 10.29.5) ----------------------


def _derivative(name: str, function: str, parity: int, sign: int) -> None:
    """f^(n) = 2^-n sum_i parity^i C(n, i) f_(v - n + 2 i), times sign^n."""

    def traced(v: ArrayLike, z: ArrayLike, n: int = 1) -> Value:
        n = count(name, "n", n)
        v, z = operands(*converted(function, v, z))
        f = PRIMITIVES.get(function) or MORE_PRIMITIVES[function]
        total = lit(z, 0)
        for i in range(n + 1):
            total = total + parity**i * math.comb(n, i) * f(v - n + 2 * i, z)
        return total * (sign**n / 2**n)

    traced.__doc__ = f"The derivative of order n of `scipy.special.{function}` in z."
    publish(name, traced)


for _name, _function, _parity, _sign in (
    ("jvp", "jv", -1, 1), ("yvp", "yv", -1, 1), ("h1vp", "hankel1", -1, 1),
    ("h2vp", "hankel2", -1, 1), ("ivp", "iv", 1, 1), ("kvp", "kv", 1, -1),
):  # fmt: skip
    _derivative(_name, _function, _parity, _sign)


# --- spherical Bessel functions -------------------------------------------------------------------


def _spherical(name: str, f: Callable[..., Value], slope: Callable[..., Value]) -> None:
    def traced(n: ArrayLike, z: ArrayLike, derivative: bool = False) -> Value:
        known = operands(z)[0].dtype
        n, z = with_counts(z, n)
        value = slope(n, z) if derivative else f(n, z)
        return convert(value, known) if name == "spherical_kn" else value  # as in SciPy

    traced.__doc__ = f"`scipy.special.{name}`, or its derivative in z."
    publish(name, traced)


for _name in ("spherical_jn", "spherical_yn", "spherical_in", "spherical_kn"):
    _spherical(_name, *getattr(sb, _name))


def _riccati(name: str, f: Callable[..., Value], slope: Callable[..., Value]) -> None:
    """x f_k(x) and f_k(x) + x f_k'(x) for k up to n."""

    def traced(n: int, x: ArrayLike) -> tuple[Value, Value]:
        k, x = with_counts(x, np.arange(count(name, "n", n) + 1))
        if not k.ndim or k.ndim > 1:
            raise ValueError("arguments must be scalars.")
        value = f(k, x)
        return x * value, value + x * slope(k, x)

    traced.__doc__ = f"`scipy.special.{name}`, of a number x."
    publish(name, traced)


_riccati("riccati_jn", *sb.spherical_jn)
_riccati("riccati_yn", *sb.spherical_yn)
