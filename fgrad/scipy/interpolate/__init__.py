"""L7. `scipy.interpolate` with derivatives: splines, polynomials, grids, scattered data.

    import fgrad.scipy.interpolate as ip
    fgrad.grad(lambda y: ip.CubicSpline(x, y)(0.5))(values)
    fgrad.grad(lambda p: ip.RegularGridInterpolator((xs, ys), values)(p)[0])(np.array([0.5, 1.5]))

Derivatives are taken in the values and in the places; in the places of the data too where a
docstring does not call them plain.
"""

from __future__ import annotations

from fgrad.base.lazy_import import names_shown

from fgrad.scipy._either import others
from fgrad.scipy.interpolate.common import plain
from fgrad.scipy.interpolate.fitpack import (
    insert as insert,
    make_splprep as make_splprep,
    make_splrep as make_splrep,
    spalde as spalde,
    splprep as splprep,
    sproot as sproot,
)
from fgrad.scipy.interpolate.grids import (
    RegularGridInterpolator as RegularGridInterpolator,
    interpn as interpn,
)
from fgrad.scipy.interpolate.pieces import (
    BPoly as BPoly,
    NdPPoly as NdPPoly,
)
from fgrad.scipy.interpolate.piecewise import (
    Akima1DInterpolator as Akima1DInterpolator,
    CubicHermiteSpline as CubicHermiteSpline,
    CubicSpline as CubicSpline,
    PchipInterpolator as PchipInterpolator,
    PPoly as PPoly,
    pchip_interpolate as pchip_interpolate,
)
from fgrad.scipy.interpolate.polynomials import (
    BarycentricInterpolator as BarycentricInterpolator,
    KroghInterpolator as KroghInterpolator,
    barycentric_interpolate as barycentric_interpolate,
    krogh_interpolate as krogh_interpolate,
)
from fgrad.scipy.interpolate.radial import (
    Rbf as Rbf,
)
from fgrad.scipy.interpolate.rational import (
    AAA as AAA,
    FloaterHormannInterpolator as FloaterHormannInterpolator,
    approximate_taylor_polynomial as approximate_taylor_polynomial,
    lagrange as lagrange,
    pade as pade,
)
from fgrad.scipy.interpolate.scattered import (
    LinearNDInterpolator as LinearNDInterpolator,
    NearestNDInterpolator as NearestNDInterpolator,
    RBFInterpolator as RBFInterpolator,
    griddata as griddata,
)
from fgrad.scipy.interpolate.spheres import (
    LSQSphereBivariateSpline as LSQSphereBivariateSpline,
    RectSphereBivariateSpline as RectSphereBivariateSpline,
)
from fgrad.scipy.interpolate.splines import (
    BSpline as BSpline,
    make_interp_spline as make_interp_spline,
    make_lsq_spline as make_lsq_spline,
    make_smoothing_spline as make_smoothing_spline,
    splantider as splantider,
    splder as splder,
    splev as splev,
    splint as splint,
    splrep as splrep,
)
from fgrad.scipy.interpolate.tensors import (
    BivariateSpline as BivariateSpline,
    LSQBivariateSpline as LSQBivariateSpline,
    NdBSpline as NdBSpline,
    RectBivariateSpline as RectBivariateSpline,
    bisplev as bisplev,
)
from fgrad.scipy.interpolate.univariate import (
    InterpolatedUnivariateSpline as InterpolatedUnivariateSpline,
    LSQUnivariateSpline as LSQUnivariateSpline,
    UnivariateSpline as UnivariateSpline,
    interp1d as interp1d,
)

__getattr__ = others(__name__, plain)


__dir__ = names_shown(__name__)
