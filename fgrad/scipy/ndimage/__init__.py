"""L7. `scipy.ndimage` with derivatives: filters, images between their pixels, measures of objects.

    import fgrad.scipy.ndimage as nd
    fgrad.grad(lambda c: nd.map_coordinates(image, c).sum())(places)
    fgrad.grad(lambda x: (nd.gaussian_filter(x, 2.0) ** 2).sum())(image)

Names, arguments and values are SciPy's; what has no traced form raises a card.
"""

from __future__ import annotations

from fgrad.scipy._either import others
from fgrad.scipy.ndimage.common import plain
from fgrad.scipy.ndimage.distances import (  # noqa: F401
    distance_transform_bf,
    distance_transform_edt,
    generic_filter1d,
)
from fgrad.scipy.ndimage.geometry import (  # noqa: F401
    affine_transform,
    geometric_transform,
    rotate,
    shift,
    spline_filter,
    spline_filter1d,
    zoom,
)
from fgrad.scipy.ndimage.labels import (  # noqa: F401
    center_of_mass,
    extrema,
    labeled_comprehension,
    maximum,
    mean,
    median,
    minimum,
    standard_deviation,
    sum,
    sum_labels,
    variance,
)
from fgrad.scipy.ndimage.ranks import (  # noqa: F401
    black_tophat,
    generic_filter,
    grey_closing,
    grey_dilation,
    grey_erosion,
    grey_opening,
    maximum_filter,
    maximum_filter1d,
    median_filter,
    minimum_filter,
    minimum_filter1d,
    morphological_gradient,
    morphological_laplace,
    percentile_filter,
    rank_filter,
    white_tophat,
)
from fgrad.scipy.ndimage.spectra import (  # noqa: F401
    fourier_ellipsoid,
    fourier_gaussian,
    fourier_shift,
    fourier_uniform,
)
from fgrad.scipy.ndimage.splines import map_coordinates  # noqa: F401
from fgrad.scipy.ndimage.sums import (  # noqa: F401
    convolve,
    convolve1d,
    correlate,
    correlate1d,
    gaussian_filter,
    gaussian_filter1d,
    gaussian_gradient_magnitude,
    gaussian_laplace,
    generic_gradient_magnitude,
    generic_laplace,
    laplace,
    prewitt,
    sobel,
    uniform_filter,
    uniform_filter1d,
)

__getattr__ = others(__name__, plain)
