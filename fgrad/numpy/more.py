"""L4. Rarely used NumPy functions, imported at the first use of one."""

# ruff: noqa: F401

import fgrad.numpy.apply_functions
import fgrad.numpy.calculus
import fgrad.numpy.contractions
import fgrad.numpy.dynamic_shapes
import fgrad.numpy.fft_functions
import fgrad.numpy.grids
import fgrad.numpy.histograms
import fgrad.numpy.host_only
import fgrad.numpy.integers
import fgrad.numpy.linalg_functions
import fgrad.numpy.nan_reductions
import fgrad.numpy.norms
import fgrad.numpy.padding
import fgrad.numpy.polynomials
import fgrad.numpy.quantiles
import fgrad.numpy.sets
import fgrad.numpy.sorting
import fgrad.numpy.windows
from fgrad.numpy.inplace import mark_views

mark_views()
