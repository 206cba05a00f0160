"""L4. `import fgrad.numpy as np`: NumPy's names, for plain and for traced arrays.

A function of arrays that are not traced is NumPy's own function, called as it is.  What has no
traced form is NumPy's own too, and raises a card when it meets a traced array.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from fgrad.numpy import (  # noqa: F401  (each fills the tables)
    creation,
    inplace,
    methods,
    ufunc_methods,
    unsupported,
)
from fgrad.numpy.namespace import attributes

if TYPE_CHECKING:  # an editor shows what NumPy says of its functions
    from numpy import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]

methods.install(sys.modules[__name__])
__getattr__, __dir__ = attributes(__name__, ("fft", "linalg"))
