"""L7. `scipy.integrate` with derivatives: initial and boundary value problems, and integrals.

    import fgrad.scipy.integrate as si
    fgrad.grad(lambda k: si.odeint(lambda y, t: -k * y, 1.0, ts)[-1, 0])(0.5)

Outside of every transform these are SciPy's own solvers.

Arguments:
    y: samples.
    x: where they were taken; `dx` apart if None.
    dx: the distance between samples.
    axis: along which they lie.
    func, f: functions of NumPy operations; derivatives flow to `args` and to what they close over.
    args: further arguments of a function.
    epsabs, epsrel, limit, points, norm: as SciPy takes them, for integrals and their derivatives.
"""

from __future__ import annotations

from fgrad.base.lazy_import import lazy_module, names_shown
from fgrad.scipy._either import passed_on
from fgrad.scipy.integrate.boundary_values import BvpSolution as BvpSolution, solve_bvp as solve_bvp
from fgrad.scipy.integrate.cubatures import (
    cubature as cubature,
    qmc_quad as qmc_quad,
)
from fgrad.scipy.integrate.double_exponential import nsum as nsum, tanhsinh as tanhsinh
from fgrad.scipy.integrate.odes import (
    OdeSolution as OdeSolution,
    odeint as odeint,
    solve_ivp as solve_ivp,
)
from fgrad.scipy.integrate.quadrature import (
    dblquad as dblquad,
    nquad as nquad,
    quad as quad,
    quad_vec as quad_vec,
    tplquad as tplquad,
)
from fgrad.scipy.integrate.sampled import (
    cumulative_simpson as cumulative_simpson,
    cumulative_trapezoid as cumulative_trapezoid,
    fixed_quad as fixed_quad,
    romb as romb,
    simpson as simpson,
    trapezoid as trapezoid,
)

__getattr__ = passed_on(__name__, lazy_module("scipy.integrate"))


__dir__ = names_shown(__name__)
