"""L7. `scipy.ndimage` with derivatives: filters, images between their pixels, measures of objects.

    import fgrad.scipy.ndimage as nd
    fgrad.grad(lambda c: nd.map_coordinates(image, c).sum())(places)
    fgrad.grad(lambda x: (nd.gaussian_filter(x, 2.0) ** 2).sum())(image)

Names, arguments and values are SciPy's; what has no traced form raises a card.
"""

from __future__ import annotations

from fgrad.base.lazy_import import names_shown

from fgrad.scipy._either import others
from fgrad.scipy.ndimage.common import plain
from fgrad.scipy.ndimage.distances import (
    distance_transform_bf as distance_transform_bf,
    distance_transform_edt as distance_transform_edt,
    generic_filter1d as generic_filter1d,
)
from fgrad.scipy.ndimage.geometry import (
    affine_transform as affine_transform,
    geometric_transform as geometric_transform,
    rotate as rotate,
    shift as shift,
    spline_filter as spline_filter,
    spline_filter1d as spline_filter1d,
    zoom as zoom,
)
from fgrad.scipy.ndimage.labels import (
    center_of_mass as center_of_mass,
    extrema as extrema,
    labeled_comprehension as labeled_comprehension,
    maximum as maximum,
    mean as mean,
    median as median,
    minimum as minimum,
    standard_deviation as standard_deviation,
    sum as sum,
    sum_labels as sum_labels,
    variance as variance,
)
from fgrad.scipy.ndimage.ranks import (
    black_tophat as black_tophat,
    generic_filter as generic_filter,
    grey_closing as grey_closing,
    grey_dilation as grey_dilation,
    grey_erosion as grey_erosion,
    grey_opening as grey_opening,
    maximum_filter as maximum_filter,
    maximum_filter1d as maximum_filter1d,
    median_filter as median_filter,
    minimum_filter as minimum_filter,
    minimum_filter1d as minimum_filter1d,
    morphological_gradient as morphological_gradient,
    morphological_laplace as morphological_laplace,
    percentile_filter as percentile_filter,
    rank_filter as rank_filter,
    white_tophat as white_tophat,
)
from fgrad.scipy.ndimage.spectra import (
    fourier_ellipsoid as fourier_ellipsoid,
    fourier_gaussian as fourier_gaussian,
    fourier_shift as fourier_shift,
    fourier_uniform as fourier_uniform,
)
from fgrad.scipy.ndimage.splines import (
    map_coordinates as map_coordinates,
)
from fgrad.scipy.ndimage.sums import (
    convolve as convolve,
    convolve1d as convolve1d,
    correlate as correlate,
    correlate1d as correlate1d,
    gaussian_filter as gaussian_filter,
    gaussian_filter1d as gaussian_filter1d,
    gaussian_gradient_magnitude as gaussian_gradient_magnitude,
    gaussian_laplace as gaussian_laplace,
    generic_gradient_magnitude as generic_gradient_magnitude,
    generic_laplace as generic_laplace,
    laplace as laplace,
    prewitt as prewitt,
    sobel as sobel,
    uniform_filter as uniform_filter,
    uniform_filter1d as uniform_filter1d,
)

__getattr__ = others(__name__, plain)


__dir__ = names_shown(__name__)
