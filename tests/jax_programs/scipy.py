"""Special functions, densities, optimisation, integration, signals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jax_programs.data import M, P, X, Y

U = np.linspace(0.1, 0.9, 5)


def special(name: str, *args: Any) -> Callable[[Any], Any]:
    """Values of a special function, and its slopes by the last argument."""

    def program(J: Any) -> Any:
        f = getattr(J.scipy.special, name)
        slopes = J.vmap(J.grad(lambda x: f(*[a[0] for a in args[:-1]], x)))(args[-1])
        return J.jit(f)(*args), slopes

    return program


def density(name: str, function: str, *args: Any) -> Callable[[Any], Any]:
    """A function of a distribution, and its slopes by the place."""

    def program(J: Any) -> Any:
        f = getattr(getattr(J.scipy.stats, name), function)
        return f(*args), J.grad(lambda x: f(x, *args[1:]).sum())(args[0])

    return program


ONE = np.full(6, 1.5)
PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "gammaln": special("gammaln", P),
    "digamma": special("digamma", P),
    "gamma": special("gamma", P),
    "erf": special("erf", X),
    "erfc": special("erfc", X),
    "erfinv": special("erfinv", U),
    "expit": special("expit", X),
    "logit": special("logit", U),
    "xlogy": special("xlogy", ONE, P),
    "xlog1py": special("xlog1py", ONE, P),
    "entr": special("entr", P),
    "i0": special("i0", X),
    "i0e": special("i0e", X),
    "i1": special("i1", X),
    "ndtr": special("ndtr", X),
    "ndtri": special("ndtri", U),
    "log_ndtr": special("log_ndtr", X),
    "betaln": special("betaln", ONE, P),
    "gammainc": special("gammainc", ONE, P),
    "gammaincc": special("gammaincc", ONE, P),
    "betainc": lambda J: J.scipy.special.betainc(2.0, 3.0, U),
    "zeta": lambda J: J.scipy.special.zeta(P + 1.5, 1.0),
    "polygamma": lambda J: J.scipy.special.polygamma(1, P),
    "multigammaln": lambda J: J.scipy.special.multigammaln(P + 2, 3),
    "factorial": lambda J: J.scipy.special.factorial(np.arange(5.0)),
    "expi": special("expi", P),
    "exp1": special("exp1", P),
    "kl_div": special("kl_div", ONE, P),
    "rel_entr": special("rel_entr", ONE, P),
    "logsumexp": lambda J: J.scipy.special.logsumexp(M, axis=0),
    "softmax": lambda J: J.scipy.special.softmax(M, axis=1),
    "sinc": lambda J: J.np.sinc(X),
    "norm pdf": density("norm", "pdf", X),
    "norm logpdf": density("norm", "logpdf", X, 0.5, 2.0),
    "norm cdf": density("norm", "cdf", X),
    "norm logcdf": density("norm", "logcdf", X),
    "norm ppf": density("norm", "ppf", U),
    "norm sf": density("norm", "sf", X),
    "gamma logpdf": density("gamma", "logpdf", P, 2.0),
    "beta logpdf": density("beta", "logpdf", U, 2.0, 3.0),
    "t logpdf": density("t", "logpdf", X, 4.0),
    "cauchy logpdf": density("cauchy", "logpdf", X),
    "laplace logpdf": density("laplace", "logpdf", X + 0.01),
    "logistic logpdf": density("logistic", "logpdf", X),
    "expon logpdf": density("expon", "logpdf", P),
    "uniform pdf": lambda J: J.scipy.stats.uniform.pdf(X, -1.0, 2.0),
    "chi2 logpdf": density("chi2", "logpdf", P, 3.0),
    "pareto logpdf": density("pareto", "logpdf", P + 1, 2.0),
    "poisson logpmf": lambda J: J.scipy.stats.poisson.logpmf(np.arange(4), 2.5),
    "binom logpmf": lambda J: J.scipy.stats.binom.logpmf(np.arange(4), 5, 0.3),
    "bernoulli logpmf": lambda J: J.scipy.stats.bernoulli.logpmf(np.array([0, 1]), 0.3),
    "geom logpmf": lambda J: J.scipy.stats.geom.logpmf(np.arange(1, 5), 0.3),
    "dirichlet logpdf": lambda J: J.scipy.stats.dirichlet.logpdf(
        np.array([0.2, 0.3, 0.5]), np.array([1.0, 2.0, 3.0])),
    "multivariate logpdf": lambda J: J.grad(lambda m: J.scipy.stats.multivariate_normal.logpdf(
        X[:2], m, np.array([[2.0, 0.3], [0.3, 1.0]])))(Y[:2]),
    "trapezoid": lambda J: J.np.trapezoid(X, dx=0.5),
    "minimize": lambda J: J.np.round(J.scipy.optimize.minimize(
        lambda v: ((v - X) ** 2).sum() + (v[0] * v[1]) ** 2, np.zeros(6), method="BFGS").x, 3),
    "convolve": lambda J: J.scipy.signal.convolve(X, Y[:3]),
    "convolve same": lambda J: J.scipy.signal.convolve(M, M[:2, :2], mode="same"),
    "correlate": lambda J: J.scipy.signal.correlate(X, Y[:3]),
    "convolve gradient": lambda J: J.grad(
        lambda k: (J.scipy.signal.convolve(X, k) ** 2).sum())(Y[:3]),
    "map_coordinates": lambda J: J.scipy.ndimage.map_coordinates(
        M, [np.array([0.5, 2.2]), np.array([1.5, 3.1])], order=1),
    "odeint": lambda J: J.odeint(lambda y, t, a: -a * y, np.array([1.0, 2.0]),
                                 np.linspace(0.0, 1.0, 4), 0.7),
    "nanmean": lambda J: J.np.nanmean(np.where(X > 1, np.nan, X)),
    "percentile": lambda J: J.np.percentile(X, np.array([10.0, 50.0, 90.0])),
    "median gradient": lambda J: J.grad(J.np.median)(X),
    "gradient of samples": lambda J: J.np.gradient(X, 0.5),
    "cumprod": lambda J: J.grad(lambda x: J.np.cumprod(x)[-2:].sum())(P),
    "logaddexp": lambda J: J.grad(lambda x: J.np.logaddexp(x, Y).sum())(X),
    "hypot": lambda J: J.vmap(J.grad(J.np.hypot, (0, 1)))(X, Y),
    "arctan2": lambda J: J.vmap(J.grad(J.np.arctan2, (0, 1)))(X, Y),
    "mixture": lambda J: J.grad(lambda m: J.scipy.special.logsumexp(
        J.scipy.stats.norm.logpdf(X[:, None], m, 0.5), axis=1).sum())(np.array([-1.0, 1.0])),
}  # fmt: skip
