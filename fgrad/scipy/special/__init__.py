"""L7. `scipy.special` with derivatives: SciPy for plain arrays, traced forms for tracers.

    import fgrad.scipy.special as sps
    fgrad.grad(sps.gammaln)(2.5)              # digamma(2.5)
    fgrad.grad(scipy.special.gammaln)(2.5)    # SciPy's ufuncs find the same functions

Functions that are sums and products of others are compositions, which compiled code fuses; the rest
are primitives that call SciPy's own code, with derivatives by formula.
Every other name of `scipy.special` is there too, and raises a card when it meets a traced array.
"""

from __future__ import annotations

from fgrad.base.lazy_import import names_shown

import numpy as np

from fgrad.scipy._either import others
from fgrad.scipy.special.common import PUBLISHED, TRACED, plain
from fgrad.scipy.special.elementary import (
    PRIMITIVES as PRIMITIVES,
    comb as comb,
    entr as entr,
    exp10 as exp10,
    factorial as factorial,
    log_expit as log_expit,
    log_softmax as log_softmax,
    loggamma as loggamma,
    logit as logit,
    logsumexp as logsumexp,
    multigammaln as multigammaln,
    perm as perm,
    polygamma as polygamma,
    softmax as softmax,
    softplus as softplus,
    xlog1py as xlog1py,
    xlogy as xlogy,
    zeta as zeta,
)
from fgrad.scipy.special.families import (
    MORE_PRIMITIVES as MORE_PRIMITIVES,
)
from fgrad.scipy.special.sequences import (
    assoc_legendre_p as assoc_legendre_p,
    assoc_legendre_p_all as assoc_legendre_p_all,
    legendre_p as legendre_p,
    legendre_p_all as legendre_p_all,
    lmbda as lmbda,
    lqmn as lqmn,
    lqn as lqn,
    pbdn_seq as pbdn_seq,
    pbdv_seq as pbdv_seq,
    pbvv_seq as pbvv_seq,
    sph_harm_y as sph_harm_y,
    sph_harm_y_all as sph_harm_y_all,
    sph_legendre_p as sph_legendre_p,
    sph_legendre_p_all as sph_legendre_p_all,
)
from fgrad.tracing.tables import numpy_functions

globals().update(PUBLISHED)


def register() -> None:
    """SciPy's ufuncs find these functions when they are called with tracers."""
    for name, traced in TRACED.items():
        target = getattr(plain, name, None)
        if isinstance(target, np.ufunc):
            numpy_functions.setdefault(target, traced)


__getattr__ = others(__name__, plain)
register()


__dir__ = names_shown(__name__)
