"""L7. SciPy's functions with derivatives, vectorisation and compilation, module by module.

fgrad.scipy.linalg.expm(a)     the modules are loaded when they are first used
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fgrad.base.lazy_import import lazy_modules

if TYPE_CHECKING:  # for editors and type checkers; else loaded when first used
    from fgrad.scipy import cluster as cluster
    from fgrad.scipy import fft as fft
    from fgrad.scipy import integrate as integrate
    from fgrad.scipy import interpolate as interpolate
    from fgrad.scipy import linalg as linalg
    from fgrad.scipy import ndimage as ndimage
    from fgrad.scipy import optimize as optimize
    from fgrad.scipy import signal as signal
    from fgrad.scipy import sparse as sparse
    from fgrad.scipy import spatial as spatial
    from fgrad.scipy import special as special
    from fgrad.scipy import stats as stats

__getattr__, __dir__ = lazy_modules(__name__, __path__)
