"""L7. `scipy.stats` with derivatives: the densities and distribution functions of models.

    import fgrad.scipy.stats as st
    fgrad.grad(lambda mu: st.norm.logpdf(1.0, mu, 2.0))(0.5)

Distributions have SciPy's names, arguments and values: `logpdf`, `pdf`, `cdf`, `sf`, `logcdf`,
`logsf`, `ppf`, `isf`, and `logpmf`, `pmf` for discrete ones.  On plain arrays they are SciPy's own.
Outside of the support a log-density is -inf, with derivative 0; invalid parameters give NaN.

Arguments:
    a, x, y, samples: real numbers.
    axis: along which they are samples; all of them if None.
    ddof: what is taken from their number in a variance.
    bias: whether moments are those of the samples, not corrected for their number.
    weights: of the samples, like them or along their axis.
    nan_policy: "propagate" alone for traced numbers.
    keepdims: whether the axis stays, with length 1.
    high, low: the ends of an interval that is a circle.
    dtype: as in SciPy, of plain arrays alone.
"""

from __future__ import annotations

from fgrad.base.lazy_import import lazy_module
from fgrad.scipy._either import passed_on
from fgrad.scipy.stats.continuous import CONTINUOUS
from fgrad.scipy.stats.discrete import DISCRETE
from fgrad.scipy.stats.more_continuous import MORE_CONTINUOUS
from fgrad.scipy.stats.multivariate import (
    dirichlet as dirichlet,
    multinomial as multinomial,
    multivariate_normal as multivariate_normal,
)
from fgrad.scipy.stats.ranks import (
    mode as mode,
    rankdata as rankdata,
    sem as sem,
)
from fgrad.scipy.stats.relations import (
    boxcox_llf as boxcox_llf,
    circmean as circmean,
    circstd as circstd,
    circvar as circvar,
    linregress as linregress,
    pearsonr as pearsonr,
)
from fgrad.scipy.stats.summaries import (
    describe as describe,
    entropy as entropy,
    gmean as gmean,
    gstd as gstd,
    gzscore as gzscore,
    hmean as hmean,
    iqr as iqr,
    kurtosis as kurtosis,
    median_abs_deviation as median_abs_deviation,
    moment as moment,
    pmean as pmean,
    skew as skew,
    trim_mean as trim_mean,
    variation as variation,
    zmap as zmap,
    zscore as zscore,
)

plain = lazy_module("scipy.stats")

globals().update(CONTINUOUS)
globals().update(MORE_CONTINUOUS)
globals().update(DISCRETE)


__getattr__ = passed_on(__name__, plain)


def __dir__() -> list[str]:
    return sorted(globals())
