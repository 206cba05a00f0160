"""L0. Modules that are loaded when they are first used, so that `import fgrad` stays light.

special = lazy_module("scipy.special")     # at the top of a file; nothing is loaded yet
special.erf(x)                             # loads SciPy's module, once
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

PROVIDERS: dict[str, str] = {}  # for each device, the module whose `BACKEND` compiles for it


class LazyModule:
    """Stands for a module until one of its names is read."""

    def __init__(self, name: str) -> None:
        self.__dict__["_name"] = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(self._load(self.__dict__["_name"]), attribute)
        self.__dict__[attribute] = value
        return value

    def __repr__(self) -> str:
        return f"<lazy module {self.__dict__['_name']!r}>"

    def _load(self, name: str) -> ModuleType:
        return importlib.import_module(name)


class LazyExtension(LazyModule):
    """Stands for a compiled module, which is loaded without the package around it."""

    def _load(self, name: str) -> ModuleType:
        return sys.modules.get(name) or _load_alone(name) or importlib.import_module(name)


def _load_alone(name: str) -> ModuleType | None:
    """A compiled module by its file; None if it has none.

    It is not left among the imported modules: a later import of its package finds it by itself.
    """
    top, *folders, last = name.split(".")
    package = importlib.util.find_spec(top)
    places = (package and package.submodule_search_locations) or ()
    found = PathFinder.find_spec(last, [str(Path(place, *folders)) for place in places])
    if found is None or found.origin is None:
        return None
    spec = importlib.util.spec_from_file_location(name, found.origin)
    if spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules.pop(name, None)
    return module


def lazy_module(name: str) -> Any:
    """A stand-in for the module `name`, imported when it is first used."""
    return LazyModule(name)


def lazy_extension(name: str) -> Any:
    """The same for a compiled module whose package takes long to import: `scipy.linalg` takes ten
    times as long as the table of BLAS routines in it."""
    return LazyExtension(name)
