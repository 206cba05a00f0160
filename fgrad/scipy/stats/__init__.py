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

from fgrad.base.lazy_import import lazy_module, names_shown
from fgrad.scipy._either import passed_on
from fgrad.scipy.stats.continuous import CONTINUOUS
from fgrad.scipy.stats.discrete import DISCRETE
from fgrad.scipy.stats.further_continuous import FURTHER_CONTINUOUS
from fgrad.scipy.stats.further_discrete import FURTHER_DISCRETE, poisson_binom as poisson_binom
from fgrad.scipy.stats.kde import gaussian_kde as gaussian_kde
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
from fgrad.scipy.stats.binned import (
    binned_statistic as binned_statistic,
    binned_statistic_2d as binned_statistic_2d,
    binned_statistic_dd as binned_statistic_dd,
)
from fgrad.scipy.stats.distances import (
    energy_distance as energy_distance,
    wasserstein_distance as wasserstein_distance,
    wasserstein_distance_nd as wasserstein_distance_nd,
)
from fgrad.scipy.stats.power_transforms import (
    boxcox as boxcox,
    boxcox_normmax as boxcox_normmax,
    yeojohnson as yeojohnson,
    yeojohnson_llf as yeojohnson_llf,
    yeojohnson_normmax as yeojohnson_normmax,
)
from fgrad.scipy.stats.robust_lines import (
    siegelslopes as siegelslopes,
    theilslopes as theilslopes,
)
from fgrad.scipy.stats.statistics import (
    differential_entropy as differential_entropy,
    directional_stats as directional_stats,
    kstat as kstat,
    kstatvar as kstatvar,
    lmoment as lmoment,
    obrientransform as obrientransform,
    pointbiserialr as pointbiserialr,
)
from fgrad.scipy.stats.trimmed import (
    expectile as expectile,
    quantile as quantile,
    scoreatpercentile as scoreatpercentile,
    sigmaclip as sigmaclip,
    tmax as tmax,
    tmean as tmean,
    tmin as tmin,
    trim1 as trim1,
    trimboth as trimboth,
    tsem as tsem,
    tstd as tstd,
    tvar as tvar,
)
from fgrad.scipy.stats.matrices import (
    invwishart as invwishart,
    matrix_normal as matrix_normal,
    matrix_t as matrix_t,
    wishart as wishart,
)
from fgrad.scipy.stats.vectors import (
    dirichlet_multinomial as dirichlet_multinomial,
    multivariate_hypergeom as multivariate_hypergeom,
    multivariate_t as multivariate_t,
    normal_inverse_gamma as normal_inverse_gamma,
    vonmises_fisher as vonmises_fisher,
)
from fgrad.scipy.stats.random_variables import (
    Binomial as Binomial,
    Logistic as Logistic,
    Normal as Normal,
    Uniform as Uniform,
)
from fgrad.scipy.stats.hypotheses import (
    bartlett as bartlett,
    chisquare as chisquare,
    combine_pvalues as combine_pvalues,
    f_oneway as f_oneway,
    jarque_bera as jarque_bera,
    kruskal as kruskal,
    kurtosistest as kurtosistest,
    levene as levene,
    normaltest as normaltest,
    power_divergence as power_divergence,
    skewtest as skewtest,
    ttest_1samp as ttest_1samp,
    ttest_ind as ttest_ind,
    ttest_ind_from_stats as ttest_ind_from_stats,
    ttest_rel as ttest_rel,
)
from fgrad.scipy.stats.resampling import (
    bootstrap as bootstrap,
    ortho_group as ortho_group,
    special_ortho_group as special_ortho_group,
    uniform_direction as uniform_direction,
    unitary_group as unitary_group,
)

plain = lazy_module("scipy.stats")

globals().update(CONTINUOUS)
globals().update(MORE_CONTINUOUS)
globals().update(FURTHER_CONTINUOUS)
globals().update(DISCRETE)
globals().update(FURTHER_DISCRETE)


__getattr__ = passed_on(__name__, plain)


__dir__ = names_shown(__name__)
