"""L7. Tests of hypotheses by formulas: statistics and their probabilities, as in `scipy.stats`.

Arguments:
    alternative: "two-sided", "less" or "greater".

Ranks are constant between ties, so tests of ranks have derivative zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.base.named_tuple import NamedTuple
from fgrad.errors import ShapeError
from fgrad.numpy.promote import as_operand, inexact, user_line
from fgrad.ops.elementwise import stop_gradient
from fgrad.scipy import special as sp
from fgrad.scipy._either import check_choice, either, refusal
from fgrad.scipy.stats.ranks import rankdata
from fgrad.scipy.stats.results import TTest
from fgrad.scipy.stats.summaries import Samples, aligned, kurtosis, skew
from fgrad.trace import Value
from fgrad.typing import ArrayLike, Axis, P, R

plain = lazy_module("scipy.stats")

_SIDES = ("two-sided", "less", "greater")


def _either(traced: Callable[P, R]) -> Callable[P, R]:
    """Decorator: SciPy's function of the same name, unless a tracer is among the arguments."""
    return either(plain, traced)


class Outcome(NamedTuple):
    """What a test returns inside of a transform."""

    statistic: Value
    pvalue: Value


def _chance(name: str, x: Value, below: Callable[[Value], Value], alternative: str) -> Value:
    """The probability of what is as far, of a symmetric distribution."""
    check_choice(f"scipy.stats.{name}", "alternative", alternative, _SIDES)
    if alternative == "two-sided":
        return 2 * below(-np.abs(x))
    return below(x if alternative == "less" else -x)


def _students(name: str, t: Value, df: Value | float, alternative: str) -> tuple[Value, ...]:
    """The statistic, its probability and the degrees of freedom."""
    wide = np.broadcast_to(as_operand(df), np.shape(t)).astype(t.dtype)
    return t, _chance(name, t, lambda x: sp.stdtr(wide, x), alternative), wide


def _normals(name: str, z: Value, alternative: str) -> Outcome:
    return Outcome(z, _chance(name, z, sp.ndtr, alternative))


def _above(x: Value, df: float) -> Value:
    """The probability of more than x, of chi^2."""
    return sp.chdtrc(np.full(np.shape(x), float(df)), x)


def _snedecor(x: Value, m: float, n: float) -> Outcome:
    shape = np.shape(x)
    return Outcome(x, sp.fdtrc(np.full(shape, float(m)), np.full(shape, float(n)), x))


@_either
def ttest_1samp(
    a: ArrayLike,
    popmean: ArrayLike,
    axis: Axis = 0,
    nan_policy: str = "propagate",
    alternative: str = "two-sided",
    *,
    keepdims: bool = False,
) -> TTest:
    """Whether samples have a mean, by Student's t.

    Arguments:
        popmean: the mean: a number, or an array with axes of length 1 where samples are.

    Example:
        >>> float(ttest_1samp(np.array([1.0, 3.0]), 1.0).statistic)
        1.0
    """
    s = Samples("ttest_1samp", a, axis, nan_policy, keepdims)
    middle = inexact(as_operand(popmean))
    if len(middle.shape) == len(s.kept) and s.kept:
        middle = np.squeeze(middle, axis=s.axes)
    error, mean = np.sqrt(np.var(s.x, axis=-1, ddof=1) / s.n), np.mean(s.x, axis=-1)
    found = _students("ttest_1samp", (mean - middle) / error, s.n - 1.0, alternative)
    return TTest(*[s.placed(v) for v in (*found, mean, error)], _alternative=alternative)


@_either
def ttest_rel(
    a: ArrayLike,
    b: ArrayLike,
    axis: Axis = 0,
    nan_policy: str = "propagate",
    alternative: str = "two-sided",
    *,
    keepdims: bool = False,
) -> TTest:
    """Whether pairs of samples have the same mean, by Student's t of their differences.

    Example:
        >>> float(ttest_rel(np.array([1.0, 3.0]), np.array([1.0, 1.0])).statistic)
        1.0
    """
    x, y = inexact(as_operand(a)), inexact(as_operand(b))
    if x.shape != y.shape:
        raise ShapeError(f"scipy.stats.ttest_rel: {x.shape} and {y.shape}.", user_line())
    return ttest_1samp(x - y, 0.0, axis, nan_policy, alternative, keepdims=keepdims)


def _two_means(
    m1: Value, v1: Value, n1: ArrayLike, m2: Value, v2: Value, n2: ArrayLike, equal: bool
) -> tuple[Value, Value, Value, Value]:
    """The statistic, the degrees of freedom, the difference and its error, of two means."""
    n, m = as_operand(n1), as_operand(n2)
    if equal:
        df = n + m - 2.0
        v1, v2 = [np.where(c == 1, 0.0, v) for c, v in ((n, v1), (m, v2))]  # of one sample
        error = np.sqrt(((n - 1) * v1 + (m - 1) * v2) / df * (1.0 / n + 1.0 / m))
        return (m1 - m2) / error, df, m1 - m2, error
    first, second = v1 / n, v2 / m
    total = first + second
    df = total * total / (first * first / (n - 1) + second * second / (m - 1))
    error = np.sqrt(total)
    return (m1 - m2) / error, df, m1 - m2, error


@_either
def ttest_ind(
    a: ArrayLike,
    b: ArrayLike,
    *,
    axis: Axis = 0,
    equal_var: bool = True,
    nan_policy: str = "propagate",
    alternative: str = "two-sided",
    trim: float = 0,
    method: None = None,
    keepdims: bool = False,
) -> TTest:
    """Whether two sets of samples have the same mean, by Student's t, or Welch's.

    Arguments:
        equal_var: whether both have the same variance.
        trim, method: as in SciPy, of plain arrays alone.

    Example:
        >>> float(ttest_ind(np.array([1.0, 3.0]), np.array([2.0, 4.0])).statistic.round(6))
        -0.707107
    """
    if trim != 0 or method is not None:
        what = "scipy.stats.ttest_ind with trim or method"
        raise refusal(what, "it has no traced form.", "ttest_ind(a, b, equal_var=False)")
    first, second = aligned([a, b], axis)
    s = Samples("ttest_ind", first, axis, nan_policy, keepdims)
    t = Samples("ttest_ind", second, axis, nan_policy)
    if not s.n or not t.n:
        raise ShapeError("scipy.stats.ttest_ind: no samples.", user_line())
    means = [np.mean(x.x, axis=-1) for x in (s, t)]
    few = equal_var and min(s.n, t.n) == 1
    spreads = [np.var(x.x, axis=-1, ddof=0 if few and x.n == 1 else 1) for x in (s, t)]
    score, df, *rest = _two_means(means[0], spreads[0], s.n, means[1], spreads[1], t.n, equal_var)
    found = _students("ttest_ind", score, df, alternative)
    return TTest(*[s.placed(v) for v in (*found, *rest)], _alternative=alternative)


@_either
def ttest_ind_from_stats(
    mean1: ArrayLike,
    std1: ArrayLike,
    nobs1: ArrayLike,
    mean2: ArrayLike,
    std2: ArrayLike,
    nobs2: ArrayLike,
    equal_var: bool = True,
    alternative: str = "two-sided",
) -> Outcome:
    """`ttest_ind` of the means, deviations and numbers of two sets of samples.

    Arguments:
        mean1, std1, nobs1: of the first.
        mean2, std2, nobs2: of the second.
        equal_var: whether both have the same variance.

    Example:
        >>> float(ttest_ind_from_stats(1.0, 1.0, 2, 0.0, 1.0, 2).statistic)
        1.0
    """
    m1, s1, m2, s2 = [inexact(as_operand(v)) for v in (mean1, std1, mean2, std2)]
    score, df, *_ = _two_means(m1, s1 * s1, nobs1, m2, s2 * s2, nobs2, equal_var)
    return Outcome(*_students("ttest_ind_from_stats", score, df, alternative)[:2])


# --- groups ---------------------------------------------------------------------------------------


def _groups(
    name: str, samples: tuple[ArrayLike, ...], axis: Axis, policy: str, keepdims: bool
) -> list[Samples]:
    if len(samples) < 2:
        raise ShapeError(f"scipy.stats.{name} takes at least two groups.", user_line())
    return [Samples(name, a, axis, policy, keepdims) for a in aligned(samples, axis)]


def _ratio(groups: Sequence[Value]) -> tuple[Value, int, int]:
    """The variance between groups in units of that inside of them, and both degrees."""
    counts = [x.shape[-1] for x in groups]
    n, k = sum(counts), len(groups)
    means = [np.mean(x, axis=-1) for x in groups]
    grand = sum([m * c for m, c in zip(means, counts, strict=True)]) / n
    between = sum([c * (m - grand) ** 2 for m, c in zip(means, counts, strict=True)])
    pairs = zip(groups, means, strict=True)
    within = sum([np.sum((x - m[..., None]) ** 2, axis=-1) for x, m in pairs])
    return as_operand((between / (k - 1)) / (within / (n - k))), k - 1, n - k


@_either
def f_oneway(
    *samples: ArrayLike,
    axis: Axis = 0,
    equal_var: bool = True,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Outcome:
    """Whether groups have the same mean, by the F of their variances.

    Arguments:
        samples: the groups.
        equal_var: True; else as in SciPy, of plain arrays alone.

    Raises:
        ShapeError: there are fewer than two groups.

    Example:
        >>> float(f_oneway(np.array([1.0, 3.0]), np.array([2.0, 4.0])).statistic)
        0.5
    """
    if not equal_var:
        what = "scipy.stats.f_oneway with equal_var=False"
        raise refusal(what, "it has no traced form.", "ttest_ind(a, b, equal_var=False)")
    groups = _groups("f_oneway", samples, axis, nan_policy, keepdims)
    found = _snedecor(*_ratio([s.x for s in groups]))
    return Outcome(*[groups[0].placed(v) for v in found])


@_either
def levene(
    *samples: ArrayLike,
    center: str = "median",
    proportiontocut: float = 0.05,
    axis: Axis = 0,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Outcome:
    """Whether groups have the same variance, by the F of distances to their centres.

    Arguments:
        samples: the groups.
        center: "median" or "mean".
        proportiontocut: as in SciPy, of "trimmed" plain arrays alone.

    Raises:
        ShapeError: there are fewer than two groups.

    Example:
        >>> x = np.array([1.0, 2.0, 4.0])
        >>> float(levene(x, x + 1.0).statistic)
        0.0
    """
    if center == "trimmed":
        what = f"scipy.stats.levene with center='trimmed', {proportiontocut}"
        raise refusal(what, "it has no traced form.", 'center="median"')
    check_choice("scipy.stats.levene", "center", center, ("median", "mean"))
    groups = _groups("levene", samples, axis, nan_policy, keepdims)
    middle = np.median if center == "median" else np.mean
    away = [np.abs(s.x - middle(s.x, axis=-1, keepdims=True)) for s in groups]
    found = _snedecor(*_ratio(away))
    return Outcome(*[groups[0].placed(v) for v in found])


@_either
def bartlett(
    *samples: ArrayLike,
    axis: Axis = 0,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Outcome:
    """Whether groups of normal samples have the same variance.

    Arguments:
        samples: the groups.

    Raises:
        ShapeError: there are fewer than two groups.

    Example:
        >>> x = np.array([1.0, 2.0, 4.0])
        >>> bool(abs(bartlett(x, x + 1.0).statistic) < 1e-12)
        True
    """
    groups = _groups("bartlett", samples, axis, nan_policy, keepdims)
    n, k = [float(s.n) for s in groups], len(groups)
    spreads = [np.var(s.x, axis=-1, ddof=1) for s in groups]
    df = sum(n) - k
    pooled = sum([(c - 1) * v for c, v in zip(n, spreads, strict=True)]) / df
    logs = sum([(c - 1) * np.log(v) for c, v in zip(n, spreads, strict=True)])
    scale = 1 + (sum([1 / (c - 1) if c > 1 else math.inf for c in n]) - 1 / df) / (3 * (k - 1))
    statistic = (df * np.log(pooled) - logs) / scale
    return Outcome(*[groups[0].placed(v) for v in (statistic, _above(statistic, k - 1))])


@_either
def kruskal(
    *samples: ArrayLike,
    nan_policy: str = "propagate",
    axis: Axis = 0,
    keepdims: bool = False,
) -> Outcome:
    """Whether groups have the same median, by their ranks among all; derivative zero.

    Arguments:
        samples: the groups.

    Raises:
        ShapeError: there are fewer than two groups.

    Example:
        >>> float(kruskal(np.array([1.0, 2.0]), np.array([3.0, 4.0])).statistic.round(6))
        2.4
    """
    groups = _groups("kruskal", samples, axis, nan_policy, keepdims)
    counts = [s.n for s in groups]
    n = sum(counts)
    joined = stop_gradient(np.concatenate([s.x for s in groups], axis=-1))
    ranks = rankdata(joined, axis=-1)
    ends = np.cumsum(counts)
    sums = [np.sum(ranks[..., b - c : b], axis=-1) for b, c in zip(ends, counts, strict=True)]
    total = sum([s * s / c for s, c in zip(sums, counts, strict=True)])
    last, first = [rankdata(joined, way, axis=-1) for way in ("max", "min")]
    ties = np.sum((last - first + 1.0) ** 2 - 1, axis=-1) / (float(n) ** 3 - n)
    statistic = (12.0 / (n * (n + 1)) * total - 3 * (n + 1)) / (1 - ties)
    return Outcome(*[groups[0].placed(v) for v in (statistic, _above(statistic, len(groups) - 1))])


# --- counts, shapes of distributions --------------------------------------------------------------

_POWERS = {
    "pearson": 1.0, "log-likelihood": 0.0, "freeman-tukey": -0.5, "mod-log-likelihood": -1.0,
    "neyman": -2.0, "cressie-read": 2 / 3,
}  # fmt: skip


@_either
def power_divergence(
    f_obs: ArrayLike,
    f_exp: ArrayLike | None = None,
    ddof: int = 0,
    axis: Axis = 0,
    lambda_: str | float | None = None,
    *,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Outcome:
    """Whether counts have expected ones, by a family of statistics; sums are not compared.

    Arguments:
        f_obs, f_exp: the counts; the expected ones are equal if they are not given.
        ddof: what is taken from the degrees of freedom.
        lambda_: a power, or its name in SciPy.

    Example:
        >>> float(power_divergence(np.array([8.0, 12.0])).statistic.round(9))
        0.8
    """
    if isinstance(lambda_, str):
        check_choice("scipy.stats.power_divergence", "lambda_", lambda_, tuple(_POWERS))
    power = _POWERS[lambda_] if isinstance(lambda_, str) else 1.0 if lambda_ is None else lambda_
    s = Samples("power_divergence", f_obs, axis, nan_policy, keepdims)
    if f_exp is None:
        expected = np.mean(s.x, axis=-1, keepdims=True)
    else:
        expected = Samples("power_divergence", f_exp, axis, nan_policy).x
    if power == 1.0:
        terms = (s.x - expected) ** 2 / expected
    elif power == 0.0:
        terms = 2.0 * sp.xlogy(s.x, s.x / expected)
    elif power == -1.0:
        terms = 2.0 * sp.xlogy(expected, expected / s.x)
    else:
        terms = s.x * ((s.x / expected) ** power - 1) * (2.0 / (power * (power + 1)))
    statistic = np.sum(terms, axis=-1)
    return Outcome(*[s.placed(v) for v in (statistic, _above(statistic, s.n - 1 - ddof))])


@_either
def chisquare(
    f_obs: ArrayLike,
    f_exp: ArrayLike | None = None,
    ddof: int = 0,
    axis: Axis = 0,
    *,
    sum_check: bool = True,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Outcome:
    """Whether counts have expected ones, by Pearson's statistic.

    Arguments:
        f_obs, f_exp, ddof: as of `power_divergence`.
        sum_check: sums of traced counts are not compared, whatever it is.

    Example:
        >>> float(chisquare(np.array([8.0, 12.0])).statistic.round(9))
        0.8
    """
    return power_divergence(
        f_obs, f_exp, ddof, axis, "pearson", nan_policy=nan_policy, keepdims=keepdims
    )


@_either
def jarque_bera(
    x: ArrayLike,
    *,
    axis: Axis = None,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Outcome:
    """Whether samples have the skewness and the kurtosis of normal ones.

    Example:
        >>> float(jarque_bera(np.array([1.0, 2.0, 3.0])).statistic)
        0.28125
    """
    s = Samples("jarque_bera", x, axis, nan_policy, keepdims)
    statistic = s.n / 6 * (skew(s.x, axis=-1) ** 2 + kurtosis(s.x, axis=-1) ** 2 / 4)
    return Outcome(*[s.placed(v) for v in (statistic, _above(statistic, 2))])


def _skewness_score(s: Samples) -> Value:
    """D'Agostino's: the skewness as a normal number."""
    n = float(s.n)
    y = skew(s.x, axis=-1) * math.sqrt((n + 1) * (n + 3) / (6.0 * (n - 2)))
    top = 3.0 * (n * n + 27 * n - 70) * (n + 1) * (n + 3)
    beta = top / ((n - 2.0) * (n + 5) * (n + 7) * (n + 9))
    w = math.sqrt(2 * (beta - 1)) - 1
    return np.arcsinh(y * math.sqrt((w - 1) / 2)) / math.sqrt(0.5 * math.log(w))


def _kurtosis_score(s: Samples) -> Value:
    """Anscombe and Glynn's: the kurtosis as a normal number."""
    n = float(s.n)
    middle = 3.0 * (n - 1) / (n + 1)
    spread = 24.0 * n * (n - 2) * (n - 3) / ((n + 1) ** 2 * (n + 3) * (n + 5))
    x = (kurtosis(s.x, axis=-1, fisher=False) - middle) / math.sqrt(spread)
    root = 6.0 * (n * n - 5 * n + 2) / ((n + 7) * (n + 9))
    root *= math.sqrt(6.0 * (n + 3) * (n + 5) / (n * (n - 2) * (n - 3)))
    a = 6.0 + 8.0 / root * (2.0 / root + math.sqrt(1 + 4.0 / root**2))
    below = 1 + x * math.sqrt(2 / (a - 4.0))
    ratio = np.sign(below) * np.cbrt((1 - 2.0 / a) / np.abs(below))
    return (1 - 2 / (9.0 * a) - ratio) / math.sqrt(2 / (9.0 * a))


@_either
def skewtest(
    a: ArrayLike,
    axis: Axis = 0,
    nan_policy: str = "propagate",
    alternative: str = "two-sided",
    *,
    keepdims: bool = False,
) -> Outcome:
    """Whether samples have the skewness of normal ones.

    Raises:
        ShapeError: there are fewer than 8 samples.

    Example:
        >>> float(skewtest(np.arange(30.0) ** 2).statistic.round(3))
        1.629
    """
    s = Samples("skewtest", a, axis, nan_policy, keepdims)
    if s.n < 8:
        raise ShapeError(f"skewtest takes at least 8 samples, not {s.n}.", user_line())
    found = _normals("skewtest", _skewness_score(s), alternative)
    return Outcome(*[s.placed(v) for v in found])


@_either
def kurtosistest(
    a: ArrayLike,
    axis: Axis = 0,
    nan_policy: str = "propagate",
    alternative: str = "two-sided",
    *,
    keepdims: bool = False,
) -> Outcome:
    """Whether samples have the kurtosis of normal ones.

    Raises:
        ShapeError: there are fewer than 5 samples.

    Example:
        >>> float(kurtosistest(np.arange(30.0) ** 2).statistic.round(3))
        -1.098
    """
    s = Samples("kurtosistest", a, axis, nan_policy, keepdims)
    if s.n < 5:
        raise ShapeError(f"kurtosistest takes at least 5 samples, not {s.n}.", user_line())
    found = _normals("kurtosistest", _kurtosis_score(s), alternative)
    return Outcome(*[s.placed(v) for v in found])


@_either
def normaltest(
    a: ArrayLike, axis: Axis = 0, nan_policy: str = "propagate", *, keepdims: bool = False
) -> Outcome:
    """Whether samples are normal, by their skewness and kurtosis.

    Raises:
        ShapeError: there are fewer than 8 samples.

    Example:
        >>> float(normaltest(np.arange(30.0) ** 2).statistic.round(3))
        3.861
    """
    s = Samples("normaltest", a, axis, nan_policy, keepdims)
    if s.n < 8:
        raise ShapeError(f"normaltest takes at least 8 samples, not {s.n}.", user_line())
    statistic = _skewness_score(s) ** 2 + _kurtosis_score(s) ** 2
    return Outcome(*[s.placed(v) for v in (statistic, _above(statistic, 2))])


@_either
def combine_pvalues(
    pvalues: ArrayLike,
    method: str = "fisher",
    weights: ArrayLike | None = None,
    *,
    axis: Axis = 0,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Outcome:
    """The probability of several tests together.

    Arguments:
        pvalues: the probabilities of the tests.
        method: "fisher", "pearson", "tippett", "stouffer" or "mudholkar_george".
        weights: of the tests, for "stouffer".

    Example:
        >>> float(combine_pvalues(np.array([0.1, 0.2])).pvalue.round(6))
        0.09824
    """
    known = ("fisher", "pearson", "tippett", "stouffer", "mudholkar_george")
    check_choice("scipy.stats.combine_pvalues", "method", method, known)
    s = Samples("combine_pvalues", pvalues, axis, nan_policy, keepdims)
    p, n = s.x, s.n
    if method == "fisher":
        statistic = -2 * np.sum(np.log(p), axis=-1)
        chance = _above(statistic, 2 * n)
    elif method == "pearson":
        statistic = 2 * np.sum(np.log1p(-p), axis=-1)
        chance = sp.chdtr(np.full(np.shape(statistic), 2.0 * n), -statistic)
    elif method == "tippett":
        statistic = np.min(p, axis=-1)
        chance = -np.expm1(n * np.log1p(-statistic))
    elif method == "stouffer":
        w = (
            np.ones(n)
            if weights is None
            else Samples("combine_pvalues", weights, axis, "propagate").x
        )
        if w.shape not in ((n,), p.shape):
            raise ShapeError(f"scipy.stats.combine_pvalues: weights of {w.shape}.", user_line())
        statistic = np.sum(-sp.ndtri(p) * w, axis=-1) / np.sqrt(np.sum(w * w, axis=-1))
        chance = sp.ndtr(-statistic)
    else:
        statistic = np.sum(np.log1p(-p) - np.log(p), axis=-1)
        df, scale = 5.0 * n + 4, math.sqrt(3 / n) / math.pi
        factor = math.sqrt((5.0 * n + 4) / (5.0 * n + 2))
        below = -statistic * scale * factor
        chance = sp.stdtr(np.full(np.shape(statistic), df), below)
    return Outcome(s.placed(statistic), s.placed(chance))
