"""Parameters for each distribution of scipy.stats that has some."""

from __future__ import annotations

SHAPES: dict[str, tuple[float, ...]] = {
    "lognorm": (0.8,), "gamma": (2.5,), "invgamma": (3.0,), "beta": (2.0, 3.5), "t": (4.0,),
    "chi2": (3.0,), "chi": (3.0,), "f": (4.0, 7.0), "pareto": (2.5,), "weibull_min": (1.7,),
    "truncnorm": (-1.0, 2.0), "gennorm": (1.3,), "powerlaw": (1.6,), "skewnorm": (2.0,),
    "invgauss": (1.4,), "triang": (0.3,), "loguniform": (0.5, 4.0), "vonmises": (2.0,),
    "bernoulli": (0.3,), "binom": (7.0, 0.4), "poisson": (2.5,), "geom": (0.35,),
    "nbinom": (3.0, 0.4), "betabinom": (6.0, 2.0, 3.0),
    "alpha": (1.5,), "argus": (1.7,), "betaprime": (2.0, 3.5), "bradford": (0.7,),
    "burr": (2.5, 1.3), "burr12": (2.0, 1.4), "crystalball": (1.2, 2.5), "dgamma": (1.6,),
    "dweibull": (1.7,), "erlang": (2.0,), "exponnorm": (1.5,), "exponpow": (1.7,),
    "exponweib": (1.8, 1.4), "fatiguelife": (0.9,), "fisk": (2.2,), "foldcauchy": (1.2,),
    "foldnorm": (0.8,), "genexpon": (1.1, 0.7, 1.6), "genextreme": (-0.2,), "gengamma": (2.3, 1.4),
    "genhalflogistic": (0.6,), "genlogistic": (1.4,), "genpareto": (0.3,), "gompertz": (0.9,),
    "halfgennorm": (1.3,), "invweibull": (2.1,), "jf_skew_t": (2.0, 3.0), "johnsonsb": (0.8, 1.4),
    "johnsonsu": (0.8, 1.4), "kappa3": (1.2,), "laplace_asymmetric": (1.6,), "loggamma": (1.7,),
    "loglaplace": (2.3,), "lomax": (1.9,), "mielke": (2.4, 1.6), "nakagami": (1.8,),
    "norminvgauss": (1.9, 0.6), "pearson3": (0.7,), "powerlognorm": (1.4, 0.6),
    "powernorm": (1.8,), "rdist": (2.6,), "recipinvgauss": (0.8,), "reciprocal": (0.5, 4.0),
    "rel_breitwigner": (1.4,), "rice": (0.9,), "skewcauchy": (0.4,), "truncexpon": (2.7,),
    "truncpareto": (2.1, 5.0), "truncweibull_min": (1.7, 0.3, 3.1), "vonmises_line": (1.6,),
    "ncx2": (3.0, 1.4), "ncf": (4.0, 7.0, 1.3), "nct": (4.0, 0.8),
    "gausshyper": (2.0, 1.6, 1.2, 0.7), "dpareto_lognorm": (0.2, 0.7, 2.3, 1.6),
    "genhyperbolic": (0.6, 1.9, 0.5),
    "geninvgauss": (0.8, 1.3), "irwinhall": (4.0,), "kappa4": (0.3, -0.2), "ksone": (5.0,),
    "kstwo": (5.0,), "studentized_range": (3.0, 10.0), "trapezoid": (0.2, 0.7),
    "tukeylambda": (0.3,),
    "weibull_max": (1.7,), "wrapcauchy": (0.4,), "betanbinom": (5.0, 2.5, 1.6),
    "boltzmann": (0.8, 7.0), "dlaplace": (0.9,), "hypergeom": (12.0, 5.0, 6.0), "logser": (0.4,),
    "nhypergeom": (12.0, 6.0, 3.0), "planck": (0.6,), "yulesimon": (2.2,),
}  # fmt: skip
