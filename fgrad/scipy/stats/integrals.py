"""L7. Densities with constants that are integrals: by a trapezoidal rule about their peak."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from fgrad.numpy.promote import convert
from fgrad.numpy.selection import take
from fgrad.ops.elementwise import lit, stop_gradient
from fgrad.scipy import special as sp
from fgrad.scipy.special._noncentral import log_integral, log_sum
from fgrad.trace import Value

_DOUBLE = np.dtype(np.float64)
_GRID = np.linspace(-1.0, 1.0, 65)
_NODES = 0.05 * np.arange(-160, 161)
_HALVES = 2.0 ** np.arange(-10, 6)


def in_double(function: Callable[..., Value]) -> Callable[..., Value]:
    """Decorator: what is computed of floats in double precision, in their own."""

    @functools.wraps(function)
    def cast(*xs: Value) -> Value:
        return convert(function(*[convert(x, _DOUBLE) for x in xs]), xs[0].dtype)

    return cast


def log_kv(v: Value, x: Value) -> Value:
    """log(K_v(x)) with derivatives in both: K_v(x) = 1/2 int exp(v t - x cosh(t)) dt."""
    known_v, known_x = stop_gradient(np.abs(v)), stop_gradient(x)
    centre = np.arcsinh(known_v / known_x)
    step = np.minimum((known_x * known_x + known_v * known_v) ** -0.25 / 3, 0.25)
    t = centre[..., None] + step[..., None] * np.arange(-160.0, 161.0)
    terms = np.abs(v)[..., None] * t - x[..., None] * np.cosh(t)
    return log_sum(terms) + np.log(step / 2)


def log_of_peak(log_f: Callable[[Value], Value], like: Value, low: float, high: float) -> Value:
    """The logarithm of the integral of a positive function of all numbers with one peak.

    Arguments:
        log_f: of the places, in a new last axis.
        like: a value with the shape of the result.
        low, high: between which the peak is.
    """
    middle = stop_gradient(like)[..., None] * 0 + (low + high) / 2
    reach = (high - low) / 2
    for _ in range(3):
        places = middle + reach * _GRID
        best = np.argmax(stop_gradient(log_f(places)), axis=-1)[..., None]
        middle, reach = middle + reach * take(_GRID, best), reach / 32
    top = stop_gradient(log_f(middle))
    falls = [top - stop_gradient(log_f(middle + side * _HALVES)) for side in (1.0, -1.0)]
    narrow = np.maximum(*falls) < 0.7  # a normal peak falls by 0.5 in a width
    width = np.max(np.where(narrow, _HALVES, _HALVES[0]), axis=-1)
    return log_integral(log_f, middle[..., 0], width, _NODES)


@in_double
def gauss_hypergeometric(a: Value, b: Value, c: Value, z: Value) -> Value:
    """log int_0^1 x^(a - 1) (1 - x)^(b - 1) (1 + z x)^-c dx, by x = expit(u)."""
    a, b, c, z = [y[..., None] for y in (a, b, c, z)]

    def log_f(u: Value) -> Value:
        powers = a * sp.log_expit(u) + b * sp.log_expit(-u)
        return powers - c * np.log1p(z * sp.expit(u))

    return log_of_peak(log_f, a[..., 0], -40.0, 40.0)


@in_double
def generalised_inverse_gauss(p: Value, b: Value) -> Value:
    """log int_0^inf x^(p - 1) exp(-b (x + 1/x) / 2) dx = log(2 K_p(b))."""
    return math.log(2) + log_kv(p, b)


@in_double
def generalised_hyperbolic(x: Value, p: Value, a: Value, b: Value) -> Value:
    """The logarithm of the density of normal numbers of mean b v and variance v, where v has the
    generalised inverse normal density of p and sqrt(a^2 - b^2)."""
    gamma = np.sqrt((a - b) * (a + b))
    s = np.hypot(lit(x, 1), x)
    scale = p * np.log(gamma) - 0.5 * math.log(2 * math.pi) - log_kv(p, gamma)
    return scale + (p - 0.5) * (np.log(s) - np.log(a)) + log_kv(p - 0.5, a * s) + b * x


@in_double
def wallenius(x: Value, rest: Value, w: Value, d: Value) -> Value:
    """log int_0^1 (1 - t^(w/d))^x (1 - t^(1/d))^rest dt, by t = exp(-d e^u)."""
    x, rest, w, d = [y[..., None] for y in (x, rest, w, d)]

    def log_less(y: Value) -> Value:
        return np.log(-np.expm1(-np.minimum(y, 700.0)))

    def log_f(u: Value) -> Value:
        y = np.exp(np.clip(u, -300.0, 300.0))
        return np.log(d) - d * y + u + x * log_less(w * y) + rest * log_less(y)

    return log_of_peak(log_f, x[..., 0], -30.0, 10.0)


def _landau_terms(u: Value) -> tuple[Value, Value]:
    """log V(theta) and log(dtheta/du) at 1 / (pi/2 - theta) = 1/pi + exp(u)."""
    size = np.exp(np.clip(u, -300.0, 300.0))
    p = size + 1 / math.pi
    below, above = math.pi * size / p, 1 / p  # theta + pi/2, and pi/2 - theta
    near = p > 1
    angle = np.where(near, above, below)
    sine, cosine = np.sin(angle), np.where(near, np.cos(angle), -np.cos(angle))
    return math.log(2 / math.pi) + np.log(below / sine) + below * cosine / sine, u - 2 * np.log(p)


@in_double
def landau(x: Value) -> Value:
    """The logarithm of Landau's density, in Zolotarev's form: 1/2 int V g exp(-V g) dtheta with
    g = exp(-pi x / 2)."""
    log_g = -0.5 * math.pi * x[..., None]

    def log_f(u: Value) -> Value:
        log_v, slope = _landau_terms(u)
        y = np.minimum(log_v + log_g, 600.0)
        return y - np.exp(y) + slope

    return log_of_peak(log_f, x, -30.0, 40.0) - math.log(2)
