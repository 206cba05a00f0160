"""L7. `scipy.interpolate` with derivatives: splines, polynomials, grids, scattered data.

    import fgrad.scipy.interpolate as ip
    fgrad.grad(lambda y: ip.CubicSpline(x, y)(0.5))(values)
    fgrad.grad(lambda p: ip.RegularGridInterpolator((xs, ys), values)(p)[0])(np.array([0.5, 1.5]))

Derivatives are taken in the values and in the places; in the places of the data too where a
docstring does not call them plain.
"""

from __future__ import annotations

from fgrad.scipy._either import others
from fgrad.scipy.interpolate.common import plain
from fgrad.scipy.interpolate.fitpack import (  # noqa: F401
    insert,
    make_splprep,
    make_splrep,
    spalde,
    splprep,
    sproot,
)
from fgrad.scipy.interpolate.grids import RegularGridInterpolator, interpn  # noqa: F401
from fgrad.scipy.interpolate.pieces import BPoly, NdPPoly  # noqa: F401
from fgrad.scipy.interpolate.piecewise import (  # noqa: F401
    Akima1DInterpolator,
    CubicHermiteSpline,
    CubicSpline,
    PchipInterpolator,
    PPoly,
    pchip_interpolate,
)
from fgrad.scipy.interpolate.polynomials import (  # noqa: F401
    BarycentricInterpolator,
    KroghInterpolator,
    barycentric_interpolate,
    krogh_interpolate,
)
from fgrad.scipy.interpolate.radial import Rbf  # noqa: F401
from fgrad.scipy.interpolate.rational import (  # noqa: F401
    AAA,
    FloaterHormannInterpolator,
    approximate_taylor_polynomial,
    lagrange,
    pade,
)
from fgrad.scipy.interpolate.scattered import (  # noqa: F401
    LinearNDInterpolator,
    NearestNDInterpolator,
    RBFInterpolator,
    griddata,
)
from fgrad.scipy.interpolate.spheres import (  # noqa: F401
    LSQSphereBivariateSpline,
    RectSphereBivariateSpline,
)
from fgrad.scipy.interpolate.splines import (  # noqa: F401
    BSpline,
    make_interp_spline,
    make_lsq_spline,
    make_smoothing_spline,
    splantider,
    splder,
    splev,
    splint,
    splrep,
)
from fgrad.scipy.interpolate.tensors import (  # noqa: F401
    BivariateSpline,
    LSQBivariateSpline,
    NdBSpline,
    RectBivariateSpline,
    bisplev,
)
from fgrad.scipy.interpolate.univariate import (  # noqa: F401
    InterpolatedUnivariateSpline,
    LSQUnivariateSpline,
    UnivariateSpline,
    interp1d,
)

__getattr__ = others(__name__, plain)
