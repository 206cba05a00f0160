"""L7. SciPy's functions with derivatives, vectorisation and compilation, module by module.

fgrad.scipy.linalg.expm(a)     the modules are loaded when they are first used
"""

from __future__ import annotations

import pkgutil
from typing import Any

from fgrad.base.lazy_import import load


def _modules() -> list[str]:
    return [m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")]


def __getattr__(name: str) -> Any:
    if name.startswith("_") or name not in _modules():
        raise AttributeError(f"module 'fgrad.scipy' has no attribute {name!r}")
    return load(f"fgrad.scipy.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_modules()})
