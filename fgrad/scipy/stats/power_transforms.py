"""L7. Box and Cox's and Yeo and Johnson's powers of samples, and the likeliest power of each.

    lmbda = argmax_l L(l, x):    d/dl L(l, x) = 0, by whose root lmbda has derivatives

SciPy finds the power when the program runs; its derivative in the samples is that of the root.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.errors import DtypeError, ShapeError
from fgrad.ir.aval import Aval
from fgrad.numpy.promote import as_operand, inexact, user_line
from fgrad.ops.elementwise import lit, stop_gradient
from fgrad.scipy import special as sp
from fgrad.scipy._either import check_choice, either, refusal
from fgrad.scipy._host import implicit
from fgrad.scipy.stats.relations import boxcox_llf
from fgrad.scipy.stats.summaries import Samples
from fgrad.trace import Value
from fgrad.transforms.core.linearize import jvp
from fgrad.transforms.custom.callback import pure_callback
from fgrad.typing import ArrayLike, P, PyTree, R

plain = lazy_module("scipy.stats")

Score = Callable[[Value], Value]


def _either(traced: Callable[P, R]) -> Callable[P, R]:
    """Decorator: SciPy's function of the same name, unless a tracer is among the arguments."""
    return either(plain, traced)


def _found(search: Callable[[np.ndarray], float], x: Value) -> Value:
    """A number that SciPy finds for samples, without derivative."""

    def call(samples: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.asarray(search(np.asarray(samples, np.float64)), samples.dtype)

    return pure_callback(call, Aval((), x.dtype), stop_gradient(x))


def _stationary(score: Score, power: Value) -> Value:
    """A number where a score has slope 0, with derivatives in what the score closes over."""
    return implicit(lambda p: jvp(score, (p,), (lit(p, 1),))[1], power)


def _vector(name: str, x: ArrayLike) -> Value:
    value = inexact(as_operand(x))
    if value.dtype.kind == "c":
        raise DtypeError(f"scipy.stats.{name} takes real numbers, not {value.dtype}.", user_line())
    if len(value.shape) != 1:
        raise ShapeError(f"scipy.stats.{name}: samples of shape {value.shape}.", user_line())
    return value


@_either
def boxcox(
    x: ArrayLike,
    lmbda: ArrayLike | None = None,
    alpha: float | None = None,
    optimizer: Callable[..., PyTree] | None = None,
) -> PyTree:
    """Box and Cox's power of positive samples: (x^l - 1) / l, which is log(x) for l = 0.

    Arguments:
        lmbda: the power l; the likeliest if None.
        alpha: with it the interval of powers of confidence 1 - alpha is given too.
        optimizer: as in SciPy.

    Returns:
        The samples to a given power; else they and the likeliest power, and its interval.

    Example:
        >>> boxcox(np.array([1.0, 2.0]), 2.0)
        array([0. , 1.5])
    """
    if lmbda is not None:
        return sp.boxcox(x, lmbda)
    samples = _vector("boxcox", x)
    if not samples.shape[0]:
        return samples
    power = boxcox_normmax(samples, method="mle", optimizer=optimizer)
    moved = sp.boxcox(samples, power)
    return (moved, power) if alpha is None else (moved, power, _interval(samples, power, alpha))


def _interval(x: Value, power: Value, alpha: float) -> tuple[Value, Value]:
    """Where the likelihood is less than the greatest by half the quantile of chi^2."""
    fall = 0.5 * float(plain.chi2.ppf(1 - alpha, 1))

    def end(k: int) -> Value:
        def search(samples: np.ndarray) -> float:
            return plain.boxcox(samples, alpha=alpha)[2][k]

        def residual(p: Value) -> Value:
            return boxcox_llf(p, x) - boxcox_llf(power, x) + fall

        return implicit(residual, _found(search, x))

    return end(0), end(1)


def _normal_plot(x: Value) -> Score:
    """The correlation of powers of samples with normal quantiles."""
    n = x.shape[0]
    medians = (np.arange(1, n + 1) - 0.3175) / (n + 0.365)
    medians[-1] = 0.5 ** (1.0 / n)
    medians[0] = 1 - medians[-1]
    quantiles = sp.ndtri(medians).astype(x.dtype)
    v = quantiles - np.mean(quantiles)
    ordered = np.sort(x)

    def score(power: Value) -> Value:
        moved = sp.boxcox(ordered, power)
        u = moved - np.mean(moved)
        return np.sum(u * v) / np.sqrt(np.sum(u * u) * np.sum(v * v))

    return score


@_either
def boxcox_normmax(
    x: ArrayLike,
    brack: Sequence[float] | None = None,
    method: str = "pearsonr",
    optimizer: Callable[..., PyTree] | None = None,
    *,
    ymax: ArrayLike | None = None,
) -> Value:
    """The power for which samples look most normal.

    Arguments:
        brack: where SciPy begins to look.
        method: "pearsonr" for the correlation with normal quantiles, "mle" for the likelihood,
            "all" for both.
        optimizer: as in SciPy.
        ymax: as in SciPy, of plain samples alone.

    Example:
        >>> float(boxcox_normmax(np.array([1.0, 2.0, 4.0, 8.0, 17.0]), method="mle").round(3))
        -0.025
    """
    if ymax is not None:
        what = "scipy.stats.boxcox_normmax with ymax"
        raise refusal(what, "it has no traced form.", "boxcox_normmax(x)")
    check_choice("scipy.stats.boxcox_normmax", "method", method, ("pearsonr", "mle", "all"))
    samples = _vector("boxcox_normmax", x)
    names = ("pearsonr", "mle") if method == "all" else (method,)
    scores = {"pearsonr": _normal_plot, "mle": lambda x: lambda p: boxcox_llf(p, x)}

    def best(name: str) -> Value:
        def search(values: np.ndarray) -> float:
            return plain.boxcox_normmax(
                values, brack=brack, method=name, optimizer=optimizer, ymax=np.inf
            )

        return _stationary(scores[name](samples), _found(search, samples))

    powers = [best(name) for name in names]
    return np.stack(powers) if method == "all" else powers[0]


def _yeo_johnson(x: Value, power: Value) -> Value:
    """((x + 1)^l - 1) / l, and below 0 its mirror image of power 2 - l."""
    right = x >= 0
    above = sp.boxcox1p(np.where(right, x, 0.0), power)
    below = sp.boxcox1p(np.where(right, 0.0, -x), 2 - power)
    return np.where(right, above, -below)


@_either
def yeojohnson(x: ArrayLike, lmbda: ArrayLike | None = None) -> PyTree:
    """Yeo and Johnson's power of samples, which may be negative.

    Arguments:
        lmbda: the power; the likeliest if None.

    Returns:
        The samples to a given power; else they and the likeliest power.

    Example:
        >>> yeojohnson(np.array([-1.0, 1.0]), 1.0)
        array([-1.,  1.])
    """
    samples = inexact(as_operand(x))
    if samples.dtype.kind == "c":
        raise DtypeError("scipy.stats.yeojohnson takes real numbers.", user_line())
    if 0 in samples.shape:
        return samples
    if lmbda is not None:
        return _yeo_johnson(samples, inexact(as_operand(lmbda)))
    power = yeojohnson_normmax(samples)
    return _yeo_johnson(samples, power), power


@_either
def yeojohnson_llf(
    lmb: ArrayLike,
    data: ArrayLike,
    *,
    axis: int = 0,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Value:
    """The log-likelihood of Yeo and Johnson's power, without constants.

    Arguments:
        lmb: the power.
        data: the samples.

    Example:
        >>> float(yeojohnson_llf(1.0, np.array([1.0, 3.0])).round(9) + 0.0)
        0.0
    """
    s = Samples("yeojohnson_llf", data, axis, nan_policy, keepdims)
    power = inexact(as_operand(lmb))
    spread = np.var(_yeo_johnson(s.x, power), axis=-1)
    slopes = np.sum(np.sign(s.x) * np.log1p(np.abs(s.x)), axis=-1)
    return s.placed((power - 1) * slopes - 0.5 * s.n * np.log(spread))


@_either
def yeojohnson_normmax(x: ArrayLike, brack: Sequence[float] | None = None) -> Value:
    """The power for which samples are likeliest.

    Arguments:
        brack: where SciPy begins to look.

    Example:
        >>> float(yeojohnson_normmax(np.array([-1.0, 0.0, 1.0])).round(6))
        1.0
    """
    samples = np.ravel(inexact(as_operand(x)))
    if not samples.shape[0]:
        why = "there is no sample."
        raise refusal("scipy.stats.yeojohnson_normmax", why, "samples of length 1 or more")
    power = _found(lambda values: plain.yeojohnson_normmax(values, brack=brack), samples)
    return _stationary(lambda p: yeojohnson_llf(p, samples), power)
