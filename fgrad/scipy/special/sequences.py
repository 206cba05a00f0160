"""L7. Legendre functions, spherical harmonics, and functions of all orders up to a known one.

The results of SciPy's functions with `diff_n` have the derivatives of order 0 to diff_n along
their first axis, and those with `_all` the degrees, then the orders 0, 1, ..., m, -m, ..., -1.
"""

from __future__ import annotations

import numpy as np

import fgrad.scipy.special._polynomials as so
import fgrad.scipy.special._waves as sw
from fgrad.ops import elementwise as ew
from fgrad.ops import special_functions as sp
from fgrad.ops.complex import complex_, is_complex
from fgrad.ops.elementwise import lit
from fgrad.scipy.special.common import (
    count,
    double,
    either_form,
    known_number,
    operands,
    with_counts,
)
from fgrad.trace import Value
from fgrad.typing import ArrayLike


def _order(function: str, diff_n: int) -> int:
    """0, 1 or 2.

    Raises:
        ValueError: it is another, as in SciPy.
    """
    known = count(function, "diff_n", diff_n)
    if known > 2:
        raise ValueError(f"diff_n is only implemented for orders 0, 1 and 2, received: {known}.")
    return known


def _columns(size: int, x: Value) -> np.ndarray:
    """0, 1, ..., size along an axis before those of x."""
    return np.arange(size + 1).reshape(-1, *[1] * x.ndim)


def _signed(size: int, x: Value) -> np.ndarray:
    """0, 1, ..., size, -size, ..., -1 along an axis before those of x."""
    orders = [*range(size + 1), *range(-size, 0)]
    return np.array(orders).reshape(-1, *[1] * x.ndim)


# --- Legendre polynomials -------------------------------------------------------------------------


@either_form
def legendre_p(n: ArrayLike, z: ArrayLike, *, diff_n: int = 0) -> Value:
    """The Legendre polynomial of degree n, and its derivatives up to order diff_n."""
    n, z = with_counts(z, n)
    rows = [so.eval_legendre(n, z)]
    degree = ew.select(ew.lt(n, lit(n, 0)), -n - 1, n)
    for k in range(1, _order("legendre_p", diff_n) + 1):
        known = ew.ge(degree, lit(n, k))
        inner = so.eval_gegenbauer(ew.select(known, degree - k, lit(n, 0)), n * 0 + (k + 0.5), z)
        rows.append(ew.select(known, inner * (1, 1, 3)[k], lit(z, 0)))
    return np.stack(rows)


@either_form
def legendre_p_all(n: int, z: ArrayLike, *, diff_n: int = 0) -> Value:
    """The Legendre polynomials of degrees 0 to n, and their derivatives up to order diff_n."""
    z = double(z)
    return legendre_p(_columns(count("legendre_p_all", "n", n), z), z, diff_n=diff_n)


@either_form
def assoc_legendre_p(
    n: ArrayLike,
    m: ArrayLike,
    z: ArrayLike,
    *,
    branch_cut: int = 2,
    norm: bool = False,
    diff_n: int = 0,
) -> Value:
    """The associated Legendre function, and its derivatives up to order diff_n."""
    n, m, z = with_counts(z, n, m)
    cut = count("assoc_legendre_p", "branch_cut", branch_cut)
    known = _order("assoc_legendre_p", diff_n)
    return np.stack([f(n, m, z) for f in so.ASSOCIATED[cut, bool(norm)][: known + 1]])


@either_form
def assoc_legendre_p_all(
    n: int,
    m: int,
    z: ArrayLike,
    *,
    branch_cut: int = 2,
    norm: bool = False,
    diff_n: int = 0,
) -> Value:
    """The associated Legendre functions of degrees 0 to n and orders -m to m."""
    z = double(z)
    orders = _signed(abs(_whole("assoc_legendre_p_all", m)), z)
    degrees = _columns(count("assoc_legendre_p_all", "n", n), z)[:, None]
    settings = {"branch_cut": branch_cut, "norm": norm, "diff_n": diff_n}
    return assoc_legendre_p(degrees, orders, z, **settings)


def _whole(function: str, m: int) -> int:
    return count(function, "m", abs(m))


# --- spherical harmonics --------------------------------------------------------------------------


@either_form
def sph_legendre_p(n: ArrayLike, m: ArrayLike, theta: ArrayLike, *, diff_n: int = 0) -> Value:
    """The spherical Legendre function, and its derivatives up to order diff_n."""
    n, m, theta = with_counts(theta, n, m)
    known = _order("sph_legendre_p", diff_n)
    return np.stack([so.sph_legendre_slope(n, m, theta, k) for k in range(known + 1)])


@either_form
def sph_legendre_p_all(n: int, m: int, theta: ArrayLike, *, diff_n: int = 0) -> Value:
    """The spherical Legendre functions of degrees 0 to n and orders -m to m."""
    theta = double(theta)
    orders = _signed(_whole("sph_legendre_p_all", m), theta)
    degrees = _columns(count("sph_legendre_p_all", "n", n), theta)[:, None]
    return sph_legendre_p(degrees, orders, theta, diff_n=diff_n)


@either_form
def sph_harm_y(
    n: ArrayLike, m: ArrayLike, theta: ArrayLike, phi: ArrayLike, *, diff_n: int = 0
) -> Value | tuple[Value, ...]:
    """The spherical harmonic, complex; with diff_n also its gradient and Hessian in the angles.

    Arguments:
        n, m: degree and order, integers.
        theta: the polar angle.
        phi: the azimuth.
        diff_n: 0, 1 or 2.

    Returns:
        An array, or a tuple of 1 + diff_n arrays.
    """
    theta, phi = operands(double(theta), double(phi))
    n, m, theta, phi = _of_angles(n, m, theta, phi)
    known = _order("sph_harm_y", diff_n)
    turn = complex_(ew.cos(m * phi), ew.sin(m * phi))
    rows = [so.sph_legendre_slope(n, m, theta, k) * turn for k in range(known + 1)]
    if not known:
        return rows[0]
    by_phi = [1j * m * row for row in rows]
    out = [rows[0], np.stack([rows[1], by_phi[0]], axis=-1)]
    if known == 2:
        corner = -m * m * rows[0]
        pairs = [[rows[2], by_phi[1]], [by_phi[1], corner]]
        out.append(np.stack([np.stack(pair, axis=-1) for pair in pairs], axis=-2))
    return tuple(out)


def _of_angles(n: ArrayLike, m: ArrayLike, theta: Value, phi: Value) -> list[Value]:
    if is_complex(theta) or is_complex(phi):
        raise TypeError("sph_harm_y does not take complex angles.")
    *orders, theta = with_counts(theta, n, m)
    return operands(*orders, theta, phi)


@either_form
def sph_harm_y_all(
    n: int, m: int, theta: ArrayLike, phi: ArrayLike, *, diff_n: int = 0
) -> Value | tuple[Value, ...]:
    """The spherical harmonics of degrees 0 to n and orders -m to m."""
    theta, phi = operands(double(theta), double(phi))
    orders = _signed(_whole("sph_harm_y_all", m), theta)
    degrees = _columns(count("sph_harm_y_all", "n", n), theta)[:, None]
    return sph_harm_y(degrees, orders, theta, phi, diff_n=diff_n)


# --- sequences of orders --------------------------------------------------------------------------


@either_form
def lqn(n: int, z: ArrayLike) -> tuple[Value, Value]:
    """Legendre functions of the second kind of degrees 0 to n, and their derivatives."""
    z = double(z)
    return _second_kind(0, _columns(count("lqn", "n", n), z), z)


@either_form
def lqmn(m: int, n: int, z: ArrayLike) -> tuple[Value, Value]:
    """Associated Legendre functions of the second kind of orders 0 to m, degrees 0 to n."""
    z = double(z)
    orders = _columns(count("lqmn", "m", m), z)[:, None]
    return _second_kind(orders, _columns(count("lqmn", "n", n), z), z)


def _second_kind(m: ArrayLike, n: ArrayLike, z: Value) -> tuple[Value, Value]:
    values = with_counts(z, m, n)
    return so.lqmn(*values), so.lqmn_slope(*values)


def _orders_up_to(function: str, v: ArrayLike, x: ArrayLike, least: int) -> tuple[Value, Value]:
    """v - floor(v), ..., v, at least `least` of them after the first, and x; of numbers.

    Raises:
        ValueError: v is negative, or something is no number, as in SciPy.
    """
    place = double(x)
    if np.ndim(v) or place.ndim:
        raise ValueError("arguments must be scalars.")
    known = known_number(function, "v", v)
    if known < 0:
        raise ValueError(f"{function}: v must not be negative.")
    last = int(known)
    orders = np.arange(max(last, least) + 1) + (known - last)
    v, x = operands(orders, place)
    return v, x


@either_form
def lmbda(v: float, x: ArrayLike) -> tuple[Value, Value]:
    """Jahnke's and Emden's Lambda functions of orders v - floor(v) to v, and their derivatives:
    gamma(v + 1) (2 / x)^v J_v(x) = 0F1(v + 1, -x^2 / 4)."""
    orders, x = _orders_up_to("lmbda", v, x, 0)
    inner = x * x / -4
    return sp.hyp0f1(orders + 1, inner), x / (-2 * (orders + 1)) * sp.hyp0f1(orders + 2, inner)


@either_form
def pbdv_seq(v: float, x: ArrayLike) -> tuple[Value, Value]:
    """The parabolic cylinder functions D of orders v - floor(v) to v, and their derivatives."""
    orders, x = _orders_up_to("pbdv_seq", v, x, 1)
    return sw.pbdv[0](orders, x), sw.pbdv[1](orders, x)


@either_form
def pbvv_seq(v: float, x: ArrayLike) -> tuple[Value, Value]:
    """The parabolic cylinder functions V of orders v - floor(v) to v, and their derivatives."""
    orders, x = _orders_up_to("pbvv_seq", v, x, 1)
    return sw.pbvv[0](orders, x), sw.pbvv[1](orders, x)


@either_form
def pbdn_seq(n: int, z: ArrayLike) -> tuple[Value, Value]:
    """The parabolic cylinder functions D_0(z), ..., D_n(z) of a complex number, and their
    derivatives: D_(k+1) = z D_k - k D_(k-1), D_k' = k D_(k-1) - z D_k / 2 (DLMF 12.8)."""
    z = double(z)
    if z.ndim:
        raise ValueError("arguments must be scalars.")
    values: list[Value] = [ew.exp(z * z / -4)]
    for k in range(max(count("pbdn_seq", "n", n), 1)):
        values.append(z * values[k] - k * values[max(k - 1, 0)])
    slopes = [k * values[max(k - 1, 0)] - z * y / 2 for k, y in enumerate(values)]
    dtype = np.dtype(np.complex128)
    return np.stack(values).astype(dtype), np.stack(slopes).astype(dtype)
