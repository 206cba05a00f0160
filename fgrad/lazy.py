"""L0. Modules that are loaded when they are first used, so that `import fgrad` stays light.

special = lazy_module("scipy.special")     # at the top of a file; nothing is loaded yet
special.erf(x)                             # loads SciPy's module, once
"""

from __future__ import annotations

import importlib
from typing import Any


class LazyModule:
    """Stands for a module until one of its names is read."""

    def __init__(self, name: str) -> None:
        self.__dict__["_name"] = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(importlib.import_module(self.__dict__["_name"]), attribute)
        self.__dict__[attribute] = value
        return value

    def __repr__(self) -> str:
        return f"<lazy module {self.__dict__['_name']!r}>"


def lazy_module(name: str) -> Any:
    """A stand-in for the module `name`, imported when it is first used."""
    return LazyModule(name)
