"""L6. Special functions on the device: libdevice's, and formulas of elementary functions.

    jit(lambda x: scipy.special.log_ndtr(x))     log(erfc(-x / sqrt 2) / 2), scaled far below 0

All are computed in float64, as SciPy's are.  Functions that have no row are not on the device.
"""

from __future__ import annotations

import math

from fgrad.compile.llvm.text import element_type, literal
from fgrad.compile.llvm.vector.lanes import INF, NAN, Lanes
from fgrad.compile.tasks.routines import SpecialFunction
from fgrad.lower_cuda.emit.calls import Address, Calls
from fgrad.lower_cuda.emit.text import BodyText
from fgrad.lower_cuda.library import beta, elliptic, incomplete
from fgrad.lower_cuda.library.formulas import DOUBLE, Special, all_of, device, minus, row
from fgrad.lower_cuda.library.plan import Planner


def special_calls(call: SpecialFunction, buffers: int) -> Calls | None:
    """The calls of a special function; None if there is no row for its function.

    Buffers: the operands that are arrays, then the result.
    """
    function = SPECIAL.get(call.name)
    if function is None:
        return None
    dtype = call.dtype
    kind = element_type(dtype)

    def write(body: BodyText, e: str) -> None:
        operands, place = [], 0
        for k, constant in enumerate(call.constants):
            if constant is not None:
                operands.append(literal(constant, DOUBLE))
                continue
            at = "0" if k in call.ones else e
            value = body.load(body.pointer(place, kind), at)
            operands.append(body.cast("fpext", kind, value, "double"))
            place += 1
        value = function(Lanes(body, 1, DOUBLE), *operands)
        body.store(body.cast("fptrunc", "double", value, kind), body.pointer(place, kind), e)

    plan = Planner(buffers)
    plan.each(call.size, write, *[Address(k) for k in range(buffers)])
    return plan.finish()


# The normal distribution and the gamma function.

_erfcx, _tgamma = device("erfcx"), device("tgamma")


def _log_ndtr(v: Lanes, x: str) -> str:
    """log(erfc(-x / sqrt 2) / 2); erfc(t) = erfcx(t) e^(-t^2) for x < -1"""
    t = v.mul(x, -math.sqrt(0.5))
    scaled = row(v, "log", v.mul(_erfcx(v, t), 0.5))
    below = v.sub(scaled, v.mul(v.mul(x, x), 0.5))
    above = row(v, "log1p", v.mul(row(v, "erfc", minus(v, t)), -0.5))
    return v.select(v.compare("olt", x, -1.0), below, above)


def _is_pole(v: Lanes, x: str) -> str:
    """0, -1, -2, ..."""
    whole = v.compare("oeq", row(v, "floor", x), x)
    return all_of(v, whole, v.compare("ole", x, 0.0))


def _rgamma(v: Lanes, x: str) -> str:
    """1 / gamma(x), 0 at its poles"""
    return v.select(_is_pole(v, x), 0.0, v.div(1.0, _tgamma(v, x)))


def _gamma_sign(v: Lanes, x: str) -> str:
    """1, or -1 where the whole part of a negative x is odd; no sign at poles."""
    whole = row(v, "floor", x)
    half = v.mul(whole, 0.5)
    odd = v.compare("one", row(v, "floor", half), half)
    value = v.select(all_of(v, odd, v.compare("olt", x, 0.0)), -1.0, 1.0)
    pole = all_of(v, v.compare("oeq", whole, x), v.compare("olt", x, 0.0))
    value = v.select(pole, NAN, v.select(v.compare("oeq", x, 0.0), v.copysign(1.0, x), value))
    return v.select(v.compare("uno", x, x), x, value)


# Differences that must not cancel.


def _exprel(v: Lanes, x: str) -> str:
    """(e^x - 1) / x, 1 at 0"""
    value = v.div(row(v, "expm1", x), x)
    value = v.select(v.compare("oeq", x, INF), INF, value)
    return v.select(v.compare("oeq", x, 0.0), 1.0, value)


def _pseudo_huber(v: Lanes, d: str, r: str) -> str:
    """d^2 (sqrt(1 + (r / d)^2) - 1)"""
    q = v.div(r, d)
    root = row(v, "expm1", v.mul(row(v, "log1p", v.mul(q, q)), 0.5))
    value = v.mul(v.mul(d, d), root)
    value = v.select(v.compare("oeq", r, 0.0), 0.0, value)
    value = v.select(v.compare("oeq", d, 0.0), 0.0, value)
    return v.select(v.compare("olt", d, 0.0), INF, value)


# Entropies.


def _entropy(divergence: bool) -> Special:
    """x log(x / y), of a divergence also - x + y; their limit at x = 0, and inf outside"""

    def entropy(v: Lanes, x: str, y: str) -> str:
        value = v.mul(x, row(v, "log", v.div(x, y)))
        if divergence:
            value = v.add(v.sub(value, x), y)
        inside = all_of(v, v.compare("ogt", x, 0.0), v.compare("ogt", y, 0.0))
        edge = all_of(v, v.compare("oeq", x, 0.0), v.compare("oge", y, 0.0))
        rest = v.select(edge, y if divergence else 0.0, INF)
        known = v.select(inside, value, rest)
        return v.select(v.compare("uno", x, y), NAN, known)

    return entropy


# Powers of Box and Cox.


def _box_cox(logarithm: str) -> Special:
    """(t^p - 1) / p = (e^(p log t) - 1) / p, log t at p = 0; t = x or 1 + x"""

    def transform(v: Lanes, x: str, p: str) -> str:
        known = row(v, logarithm, x)
        power = v.div(row(v, "expm1", v.mul(p, known)), p)
        return v.select(v.compare("olt", v.abs(p), 1e-19), known, power)

    return transform


def _inverse_box_cox(exponential: str) -> Special:
    """(1 + p x)^(1 / p) = e^(log(1 + p x) / p), e^x at p = 0; or less 1"""

    def transform(v: Lanes, x: str, p: str) -> str:
        product = v.mul(p, x)
        power = v.div(row(v, "log1p", product), p)
        tiny = v.compare("olt", v.abs(product), 1e-154)
        power = v.select(tiny, x, power)
        return row(v, exponential, v.select(v.compare("oeq", p, 0.0), x, power))

    return transform


SPECIAL: dict[str, Special] = {
    "gammainc": incomplete.gammainc,
    "gammaincc": incomplete.gammaincc,
    "betainc": incomplete.betainc,
    "betaincc": incomplete.betaincc,
    "gdtr": incomplete.gamma_distribution(upper=False),
    "gdtrc": incomplete.gamma_distribution(upper=True),
    "pdtr": incomplete.poisson(upper=False),
    "pdtrc": incomplete.poisson(upper=True),
    "fdtr": incomplete.ratio_of_variances(upper=False),
    "fdtrc": incomplete.ratio_of_variances(upper=True),
    "stdtr": incomplete.student,
    "beta": beta.beta,
    "betaln": beta.betaln,
    "ellipk": elliptic.ellipk,
    "ellipkm1": elliptic.ellipkm1,
    "ellipe": elliptic.ellipe,
    "gammasgn": _gamma_sign,
    "erfcinv": device("erfcinv"),
    "erfcx": _erfcx,
    "gamma": _tgamma,
    "rgamma": _rgamma,
    "ndtr": device("normcdf"),
    "ndtri": device("normcdfinv"),
    "log_ndtr": _log_ndtr,
    "j0": device("j0"),
    "j1": device("j1"),
    "y0": device("y0"),
    "y1": device("y1"),
    "exprel": _exprel,
    "pseudo_huber": _pseudo_huber,
    "rel_entr": _entropy(False),
    "kl_div": _entropy(True),
    "boxcox": _box_cox("log"),
    "boxcox1p": _box_cox("log1p"),
    "inv_boxcox": _inverse_box_cox("exp"),
    "inv_boxcox1p": _inverse_box_cox("expm1"),
}
