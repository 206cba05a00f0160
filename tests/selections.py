"""Functions with a singular point, ways to keep away from it, and random chains of both.

As a program: python tests/selections.py --seed 0 --count 1000
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.special as sc

import fgrad
from fgrad import grad, jit, jvp, lax, vmap

Function = Callable[[Any], Any]


class Singular(NamedTuple):
    """A function of one number, a point where it or a derivative is none, and points where not."""

    name: str
    function: Function
    bad: float
    good: tuple[float, ...]


def _rows() -> Iterator[Singular]:
    near_zero = (0.7, 1.3, 2.2)
    inside = (0.3, 0.6, 0.45)
    for name, f in {
        "log": np.log, "log2": np.log2, "log10": np.log10, "sqrt": np.sqrt, "cbrt": np.cbrt,
        "reciprocal": np.reciprocal, "x ** 0.5": lambda x: x**0.5, "x ** 1.5": lambda x: x**1.5,
        "x ** -1": lambda x: x**-1, "x ** -2.5": lambda x: x**-2.5, "x ** x": lambda x: x**x,
        "2 ** (1 / x)": lambda x: 2.0 ** (1 / x), "1 / x": lambda x: 1 / x,
        "x / x": lambda x: x / x, "x log x": lambda x: x * np.log(x),
        "sin(x) / x": lambda x: np.sin(x) / x, "expm1(x) / x": lambda x: np.expm1(x) / x,
        "(1 - cos x) / x ** 2": lambda x: (1 - np.cos(x)) / x**2,
        "log(x) / x": lambda x: np.log(x) / x, "1 / sqrt(x)": lambda x: 1 / np.sqrt(x),
        "1 / tan": lambda x: 1 / np.tan(x), "1 / sinh": lambda x: 1 / np.sinh(x),
        "1 / expm1": lambda x: 1 / np.expm1(x), "log(expm1)": lambda x: np.log(np.expm1(x)),
        "log(1 - exp(-x))": lambda x: np.log(1 - np.exp(-x)), "exp(1 / x)": lambda x: np.exp(1 / x),
        "exp(-1 / x ** 2)": lambda x: np.exp(-1 / x**2), "sinc(1 / x)": lambda x: np.sinc(1 / x),
        "tanh(1 / x)": lambda x: np.tanh(1 / x), "arctan(1 / x)": lambda x: np.arctan(1 / x),
        "hypot(x, 2 x)": lambda x: np.hypot(x, 2 * x), "log|x|": lambda x: np.log(np.abs(x)),
        "arctan2(x, 2 x)": lambda x: np.arctan2(x, 2 * x), "abs ** 0.5": lambda x: np.abs(x) ** 0.5,
        "logaddexp(log x, 0)": lambda x: np.logaddexp(np.log(x), 0.0),
        "logaddexp2(log2 x, 1)": lambda x: np.logaddexp2(np.log2(x), 1.0),
        "max(log x, -1 / x)": lambda x: np.maximum(np.log(x), -1 / x),
        "clip(1 / x, 0, 9)": lambda x: np.clip(1 / x, 0.0, 9.0) * np.log(x),
        "remainder(3, x)": lambda x: np.remainder(3.1, x) / x,
        "gamma": sc.gamma, "gammaln": sc.gammaln, "digamma": sc.digamma,
        "beta": lambda x: sc.beta(x, 2.0),
        "betaln": lambda x: sc.betaln(x, 2.0), "xlogy": lambda x: sc.xlogy(x, x),
        "xlogy(2, x)": lambda x: sc.xlogy(2.0, x), "entr": sc.entr,
        "rel_entr": lambda x: sc.rel_entr(x, 0.5), "kl_div": lambda x: sc.kl_div(x, 0.5),
        "boxcox": lambda x: sc.boxcox(x, 0.3), "y0": sc.y0, "y1": sc.y1, "k0": sc.k0, "k1": sc.k1,
        "k0e": sc.k0e, "k1e": sc.k1e, "yn": lambda x: sc.yv(2.0, x), "kv": lambda x: sc.kv(1.5, x),
        "expi": sc.expi, "exp1": sc.exp1, "expn": lambda x: sc.expn(2, x), "spence": sc.spence,
        "exprel / x": lambda x: sc.exprel(x) / x, "pseudo": lambda x: sc.pseudo_huber(x, x),
        "jv / x": lambda x: sc.jv(1.0, x) / x, "gammainc(x)": lambda x: sc.gammainc(1.5, x) / x,
    }.items():  # fmt: skip
        yield Singular(name, f, 0.0, near_zero)
    for name, f in {
        "logit": sc.logit, "erfcinv": sc.erfcinv, "ndtri": sc.ndtri,
        "log x log(1 - x)": lambda x: np.log(x) * np.log1p(-x), "ellipkm1": sc.ellipkm1,
        "betaincinv": lambda x: sc.betaincinv(1.5, 2.0, x), "stdtrit": lambda x: sc.stdtrit(5.0, x),
        "chi": lambda x: sc.gammaincinv(1.5, x),
    }.items():  # fmt: skip
        yield Singular(name, f, 0.0, inside)
    for name, f in {
        "arcsin": np.arcsin, "arccos": np.arccos, "arctanh": np.arctanh, "erfinv": sc.erfinv,
        "log1p(-x)": lambda x: np.log1p(-x), "sqrt(1 - x ** 2)": lambda x: np.sqrt(1 - x**2),
        "ellipk": sc.ellipk, "log(-log x)": lambda x: np.log(-np.log(x)),
        "arccos(x) ** 2": lambda x: np.arccos(x) ** 2,
    }.items():  # fmt: skip
        yield Singular(name, f, 1.0, inside)
    yield Singular("arccosh", np.arccosh, 1.0, (1.4, 2.0, 3.0))
    yield Singular("poch(x, -0.5)", lambda x: sc.poch(x, -0.5), 0.0, (0.7, 1.3, 2.2))
    yield Singular("log1p", np.log1p, -1.0, inside)
    yield Singular("gamma at a pole", sc.gamma, -2.0, inside)
    yield Singular("exp overflows", lambda x: np.exp(np.exp(x)), 1e4, inside)
    yield Singular("exp - exp", lambda x: np.exp(x) - np.exp(x) * x, 1e4, inside)
    yield Singular("x / |x| of inf", lambda x: x / np.abs(x) * x, np.inf, inside)
    yield Singular("NaN", lambda x: x * np.sin(x), np.nan, inside)


TABLE = tuple(_rows())


# --- ways to keep away from a point: (f, g, x, good) -> f(x) where good, else g(x) ----------------


def _by_where(f: Function, g: Function, x: Any, good: Any) -> Any:
    return np.where(good, f(x), g(x))


def _by_double_where(f: Function, g: Function, x: Any, good: Any) -> Any:
    return np.where(np.logical_not(good), g(x), np.where(good, f(np.where(good, x, 0.5)), f(x)))


def _by_select(f: Function, g: Function, x: Any, good: Any) -> Any:
    return np.select([good, np.isfinite(x)], [f(x), g(x)], g(x))


def _by_piecewise(f: Function, g: Function, x: Any, good: Any) -> Any:
    return np.piecewise(x, [good], [f, g])


def _by_cond(f: Function, g: Function, x: Any, good: Any) -> Any:
    return vmap(lambda v, c: lax.cond(c, f, g, v))(x, good)


def _by_mask_products(f: Function, g: Function, x: Any, good: Any) -> Any:
    zero = np.zeros(3, x.dtype)
    return np.stack([np.where(good, f(x), zero), np.where(good, zero, g(x))]).sum(axis=0)


def _by_slice(f: Function, g: Function, x: Any, good: Any) -> Any:
    return np.concatenate([g(x)[:1], f(x)[1:]])


def _by_take(f: Function, g: Function, x: Any, good: Any) -> Any:
    return np.concatenate([g(x)[np.array([0])], np.take(f(x), np.array([1, 2]))])


def _by_store(f: Function, g: Function, x: Any, good: Any) -> Any:
    y = f(x) * 1.0
    y[0] = g(x)[0]
    return y


def _by_loop(f: Function, g: Function, x: Any, good: Any) -> Any:
    return lax.map(lambda pair: np.where(pair[1], f(pair[0]), g(pair[0])), (x, good))


def _by_jitted(f: Function, g: Function, x: Any, good: Any) -> Any:
    return np.where(good, jit(f)(x), jit(g)(x))


def _by_reshape(f: Function, g: Function, x: Any, good: Any) -> Any:
    y = np.where(good[None, :], f(x.reshape(1, 3)), g(x)[None, :])
    return y.T[::-1].reshape(3)[::-1]


def _by_boolean_mask(f: Function, g: Function, x: Any, good: Any) -> Any:
    return np.concatenate([g(x)[~good], f(x)[good]])


def _by_where_of_sum(f: Function, g: Function, x: Any, good: Any) -> Any:
    both = np.stack([f(x), g(x)])
    return np.sum(both, axis=0, where=np.stack([good, np.logical_not(good)]))


# --- around loops and branches, and within them


def _by_where_around_map(f: Function, g: Function, x: Any, good: Any) -> Any:
    return np.where(good, lax.map(f, x), lax.map(g, x))


def _by_where_around_scan(f: Function, g: Function, x: Any, good: Any) -> Any:
    last, _ = lax.scan(lambda c, k: (np.where(k == 0, f(c), c), f(c)), x, np.arange(2))
    return np.where(good, last, g(x))


def _by_where_around_fori(f: Function, g: Function, x: Any, good: Any) -> Any:
    return np.where(good, lax.fori_loop(0, 2, lambda i, c: np.where(i == 1, f(x), c), x), g(x))


def _by_where_around_while(f: Function, g: Function, x: Any, good: Any) -> Any:
    def step(state: Any) -> Any:
        k, c = state
        return k + 1, np.where(k == 0, f(c), c)

    return np.where(good, lax.while_loop(lambda s: s[0] < 2, step, (0, x))[1], g(x))


def _by_where_around_bounded(f: Function, g: Function, x: Any, good: Any) -> Any:
    state = lax.while_loop(lambda s: s[0] < 1, lambda s: (s[0] + 1, f(s[1])), (0, x), max_steps=3)
    return np.where(good, state[1], g(x))


def _by_where_around_checkpoints(f: Function, g: Function, x: Any, good: Any) -> Any:
    def step(c: Any, k: Any) -> Any:
        return np.where(k == 2, f(x), c), None

    last, _ = lax.scan(step, x, np.arange(9), checkpoint=True)
    return np.where(good, fgrad.checkpoint(lambda y: 1.0 * y)(last), g(x))


def _by_where_around_cond(f: Function, g: Function, x: Any, good: Any) -> Any:
    return np.where(good, lax.cond(good[1], f, g, x), lax.cond(good[0], f, g, x))


def _by_where_before_loop(f: Function, g: Function, x: Any, good: Any) -> Any:
    """A step that takes what is good; the other values are computed before the loop."""
    y = f(x)
    return lax.fori_loop(0, 2, lambda i, c: np.where(good, y, c), g(x))


def _by_unbatched_cond(f: Function, g: Function, x: Any, good: Any) -> Any:
    y, z = f(x), g(x)
    return np.stack(
        [lax.cond(good[k], lambda a, b: a, lambda a, b: b, y[k], z[k]) for k in range(3)]
    )


def _by_switch(f: Function, g: Function, x: Any, good: Any) -> Any:
    y, z = f(x), g(x)
    pick = [lambda a, b: b, lambda a, b: a]
    return np.stack([lax.switch(1 * good[k], pick, y[k], z[k]) for k in range(3)])


def _by_reset(f: Function, g: Function, x: Any, good: Any) -> Any:
    """A carry that each step begins anew, so that what was bad in it is dropped."""

    def step(c: Any, item: Any) -> Any:
        v, ok, first = item
        y = np.where(first, f(v), c * f(v))
        return y, np.where(ok, y, g(v))

    return lax.scan(step, f(x[0]), (x, good, np.array([True] * 3)))[1]


def _by_unread_results(f: Function, g: Function, x: Any, good: Any) -> Any:
    """Results of a loop that nobody reads."""
    ys = lax.scan(lambda c, v: (c, (np.where(v[1], f(v[0]), g(v[0])), f(v[0]))), 0.0, (x, good))[1]
    return ys[0]


# --- by arguments and functions of NumPy, and by stores


def _by_where_of_ufunc(f: Function, g: Function, x: Any, good: Any) -> Any:
    return np.multiply(f(x), 1.0, where=good, out=1.0 * g(x))


def _by_choose(f: Function, g: Function, x: Any, good: Any) -> Any:
    return np.choose(1 * good, [g(x), f(x)])


def _by_copyto(f: Function, g: Function, x: Any, good: Any) -> Any:
    y = 1.0 * g(x)
    np.copyto(y, f(x), where=good)
    return y


def _by_putmask(f: Function, g: Function, x: Any, good: Any) -> Any:
    y = 1.0 * f(x)
    np.putmask(y, np.logical_not(good), g(x))
    return y


def _by_masked_store(f: Function, g: Function, x: Any, good: Any) -> Any:
    y = 1.0 * f(x)
    y[np.logical_not(good)] = g(x)[np.logical_not(good)]
    return y


def _by_masked_read(f: Function, g: Function, x: Any, good: Any) -> Any:
    y = 1.0 * g(x)
    y[good] = f(x[good])
    return y


def _by_masked_product(f: Function, g: Function, x: Any, good: Any) -> Any:
    y = np.where(good, 1.0, g(x))
    y[good] *= f(x)[good]
    return y


def _by_nansum(f: Function, g: Function, x: Any, good: Any) -> Any:
    pair = np.stack([np.where(good, f(x), np.nan), np.where(good, np.nan, g(x))])
    return np.nansum(pair, axis=0)


def _by_mean_where(f: Function, g: Function, x: Any, good: Any) -> Any:
    return np.mean(np.stack([f(x), g(x)]), axis=0, where=np.stack([good, np.logical_not(good)]))


def _by_prod_where(f: Function, g: Function, x: Any, good: Any) -> Any:
    return np.prod(np.stack([f(x), g(x)]), axis=0, where=np.stack([good, np.logical_not(good)]))


def _by_max_where(f: Function, g: Function, x: Any, good: Any) -> Any:
    mask = np.stack([good, np.logical_not(good)])
    return np.max(np.stack([f(x), g(x)]), axis=0, where=mask, initial=-np.inf)


def _by_nan_to_num(f: Function, g: Function, x: Any, good: Any) -> Any:
    return np.nan_to_num(np.where(good, f(x), np.nan)) + np.where(good, 0.0, g(x))


def _by_nanmax(f: Function, g: Function, x: Any, good: Any) -> Any:
    pair = np.stack([np.where(good, f(x), np.nan), np.where(good, np.nan, g(x))])
    return np.nanmax(pair, axis=0)


def _by_take_along(f: Function, g: Function, x: Any, good: Any) -> Any:
    return np.take_along_axis(np.stack([g(x), f(x)]), 1 * good[None], axis=0)[0]


def _by_compress(f: Function, g: Function, x: Any, good: Any) -> Any:
    return np.concatenate([np.extract(~good, g(x)), np.compress(good, f(x))])


def _by_pad(f: Function, g: Function, x: Any, good: Any) -> Any:
    return np.pad(f(x)[1:], (1, 0)) + np.pad(g(x)[:1], (0, 2))


def _by_split(f: Function, g: Function, x: Any, good: Any) -> Any:
    return np.hstack([np.split(g(x), [1])[0], np.split(f(x), [1])[1]])


# --- where the elements of a selection meet: a row that is not selected counts as zero


def _by_where_of_sums(f: Function, g: Function, x: Any, good: Any) -> Any:
    rows = np.stack([f(x), np.zeros(3, x.dtype)], axis=1)
    return np.where(good, np.sum(rows, axis=1), g(x))


def _by_where_of_cumsum(f: Function, g: Function, x: Any, good: Any) -> Any:
    """Sums up to what is not selected, which is last."""
    total = np.cumsum(f(x)[::-1])[::-1]
    before = np.concatenate([total[1:], np.zeros(1, x.dtype)])
    return np.where(good, total - before, g(x))


def _by_where_of_matmul(f: Function, g: Function, x: Any, good: Any) -> Any:
    rows = np.stack([f(x), x], axis=1)
    return np.where(good, rows @ np.array([1.0, 0.0], x.dtype), g(x))


def _by_where_of_einsum(f: Function, g: Function, x: Any, good: Any) -> Any:
    both = np.einsum(
        "ij,kj->ik", np.stack([f(x), x], axis=1), np.array([[1.0, 0.0], [1.0, 1.0]], x.dtype)
    )
    return np.where(good[:, None], both, g(x)[:, None])[:, 0]


def _by_where_of_outer(f: Function, g: Function, x: Any, good: Any) -> Any:
    return np.where(
        good[:, None], np.outer(f(x), np.ones(2, x.dtype)), np.outer(g(x), np.ones(2, x.dtype))
    )[:, 1]


def _by_where_of_two_products(f: Function, g: Function, x: Any, good: Any) -> Any:
    """Both factors of the product are not finite in rows that are not selected."""
    root = np.sqrt(np.abs(f(x)))
    rows = np.stack([root, root], axis=1)
    product = np.einsum("ij,ij->i", rows, rows) / 2 * np.sign(f(x))
    return np.where(good, product, g(x))


WAYS = {
    "where": _by_where, "double where": _by_double_where, "select": _by_select,
    "piecewise": _by_piecewise, "cond under vmap": _by_cond, "stack": _by_mask_products,
    "slice": _by_slice, "take": _by_take, "store": _by_store, "loop": _by_loop,
    "jitted": _by_jitted, "reshape": _by_reshape, "boolean mask": _by_boolean_mask,
    "sum where": _by_where_of_sum, "around map": _by_where_around_map,
    "around scan": _by_where_around_scan, "around fori": _by_where_around_fori,
    "around while": _by_where_around_while, "around bounded": _by_where_around_bounded,
    "around checkpoints": _by_where_around_checkpoints, "around cond": _by_where_around_cond,
    "before a loop": _by_where_before_loop,
    "cond": _by_unbatched_cond, "switch": _by_switch, "reset": _by_reset,
    "unread results": _by_unread_results, "ufunc where": _by_where_of_ufunc,
    "choose": _by_choose, "copyto": _by_copyto, "putmask": _by_putmask,
    "masked store": _by_masked_store, "masked read": _by_masked_read,
    "masked product": _by_masked_product, "nansum": _by_nansum, "mean where": _by_mean_where,
    "prod where": _by_prod_where, "max where": _by_max_where, "nan_to_num": _by_nan_to_num,
    "nanmax": _by_nanmax, "take_along_axis": _by_take_along, "compress": _by_compress,
    "pad": _by_pad, "split": _by_split, "where of sums": _by_where_of_sums,
    "where of cumsum": _by_where_of_cumsum, "where of matmul": _by_where_of_matmul,
    "where of einsum": _by_where_of_einsum, "where of outer": _by_where_of_outer,
    "where of products": _by_where_of_two_products,
}  # fmt: skip
# Shapes that depend on values.
EAGER_ONLY = {
    "boolean mask", "piecewise", "masked store", "masked read", "masked product", "compress",
}  # fmt: skip
# Products of matrices mix what is selected with what is not.
UNKNOWN = {"where of matmul", "where of einsum", "where of products"}


def other(x: Any) -> Any:
    """The branch that is taken at the bad point, with derivatives 3 and 0 there."""
    return 3.0 * np.where(np.isfinite(x), x, 1.0)


# --- derivatives of all kinds ---------------------------------------------------------------------


def derivatives(f: Function, x: Any) -> list[Any]:
    """Value, gradient, forward derivative, and second derivatives in four ways, of an elementwise
    function."""
    one = np.ones(x.shape, x.dtype)

    def total(v: Any) -> Any:
        return np.sum(f(v))

    slope = grad(total)
    return [
        f(x),
        slope(x),
        jvp(f, (x,), (one,))[1],
        jvp(slope, (x,), (one,))[1],
        grad(lambda v: np.sum(slope(v)))(x),
        grad(lambda v: np.sum(jvp(f, (v,), (one,))[1]))(x),
        jvp(lambda v: jvp(f, (v,), (one,))[1], (x,), (one,))[1],
    ]


KINDS = ("value", "gradient", "forward", "forward of reverse", "reverse of reverse",
         "reverse of forward", "forward of forward")  # fmt: skip


def expected(f: Function, bad: float, good: np.ndarray) -> list[np.ndarray]:
    """The derivatives of the branch that is taken: of `other` at the bad point, which is first."""
    taken = derivatives(f, good)
    first = derivatives(other, np.full(1, bad, good.dtype))
    return [np.concatenate([a, b]) for a, b in zip(first, taken, strict=True)]


def differences(
    f: Function, bad: float, good: tuple[float, ...], way: str, dtype: Any, jitted: bool
) -> list[str]:
    """Which derivatives through a selection are not those of the branch taken."""
    points = np.array(good[:2], dtype)
    x = np.concatenate([np.full(1, bad, dtype), points])
    mask = np.array([False, True, True])

    def same_dtype(v: Any) -> Any:
        return f(v).astype(v.dtype)

    def chosen(v: Any) -> Any:
        return WAYS[way](same_dtype, other, v, mask)

    want = expected(same_dtype, bad, points)
    everything = jit(lambda v: derivatives(chosen, v)) if jitted else None
    found = everything(x) if everything else derivatives(chosen, x)
    tol = 1e-9 if dtype is np.float64 else 2e-3
    return [
        f"{kind}: {a}, right {b}"
        for kind, a, b in zip(KINDS, found, want, strict=True)
        if (way not in UNKNOWN or kind == "value")
        and (not np.allclose(a, b, tol, tol) or (kind != "value" and a.dtype != b.dtype))
    ]


# --- random chains --------------------------------------------------------------------------------


def random_chain(rng: np.random.Generator) -> tuple[str, Function, float, tuple[float, ...]]:
    """A chain of singular functions of one point, joined by products, sums and nesting."""
    bad = float(rng.choice([0.0, 1.0]))
    rows = [row for row in TABLE if row.bad == bad]
    parts = [rows[k] for k in rng.integers(len(rows), size=rng.integers(1, 4))]
    good = tuple([0.31, 0.62] if bad or any(r.good[0] < 0.5 for r in parts) else [0.8, 1.4])
    if any(r.good[0] > 1 for r in parts):
        parts = [r for r in parts if r.good[0] > 1]
        good = parts[0].good[:2]
    hows = [str(h) for h in rng.choice(["mul", "add", "div", "tanh", "exp", "self"], len(parts))]

    def chain(x: Any) -> Any:
        y = x
        for row, how in zip(parts, hows, strict=True):
            z = row.function(x)
            if how == "mul":
                y = y * z
            elif how == "add":
                y = y + z
            elif how == "div":
                y = z / (1.5 + y * y)
            elif how == "tanh":
                y = np.tanh(z) * y
            elif how == "exp":
                y = np.exp(-z * z) + y
            else:
                y = y * np.sin(z) + y / x if bad == 0.0 else y * z
        return y

    name = " ".join([f"{h}({r.name})" for h, r in zip(hows, parts, strict=True)])
    return name, chain, bad, good


def random_difference(seed: int, jitted: bool | None = None) -> str | None:
    """What is wrong with one random chain through one random selection, if anything is."""
    rng = np.random.default_rng(seed)
    name, chain, bad, good = random_chain(rng)
    if jitted is None:
        jitted = bool(rng.random() < 0.2)
    ways = [w for w in WAYS if not (jitted and w in EAGER_ONLY)]
    way = ways[rng.integers(len(ways))]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        wrong = differences(chain, bad, good, way, np.float64, jitted)
    return f"seed {seed}, {name}, by {way}, jitted {jitted}: {wrong}" if wrong else None


def main() -> int:
    """Run random chains; print and count what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    args = parser.parse_args()
    wrong = 0
    for seed in range(args.seed, args.seed + args.count):
        found = random_difference(seed)
        if found is not None:
            wrong += 1
            print(found, flush=True)
    print(f"{args.count} chains, {wrong} wrong, fgrad from {fgrad.__file__}")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
