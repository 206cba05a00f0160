"""L7. SciPy's functions with derivatives, vectorisation and compilation, module by module.

fgrad.scipy.linalg.expm(a)     the modules are loaded when they are first used
"""

from __future__ import annotations

from fgrad.base.lazy_import import lazy_modules

__getattr__, __dir__ = lazy_modules(__name__, __path__)
