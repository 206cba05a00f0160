"""L7. The modules that define the operations a program names: they are imported when one is met.

The file does not say where an operation is from: the modules are looked through, those of the core
first.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterator

import fgrad.ops
from fgrad.base.lazy_import import load
from fgrad.ir.primitive import REGISTRY

MODULES = (
    "fgrad.compile.jit.call",
    "fgrad.transforms.checkpoint.checkpoint",
    "fgrad.transforms.checkpoint.names",
    "fgrad.transforms.custom.call",
    "fgrad.transforms.custom.implicit",
    "fgrad.transforms.hooks",
    "fgrad.compile.passes.library_conv",
)
PACKAGES = ("fgrad.scipy.special", "fgrad.scipy.stats")
_NAMED = re.compile(r"^  [^=\n]*= ([A-Za-z]\w*)", re.MULTILINE)


def import_operations(text: str) -> None:
    """Import the modules of the operations in the text of a program, as far as there are any."""
    missing = set(_NAMED.findall(text)) - REGISTRY.keys()
    for module in _homes():
        if not missing:
            return
        load(module)
        missing -= REGISTRY.keys()


def _homes() -> Iterator[str]:
    """The modules in which operations may be defined."""
    yield from _modules("fgrad.ops", list(fgrad.ops.__path__))
    yield from MODULES
    for package in PACKAGES:
        yield from _modules(package, list(load(package).__path__))


def _modules(package: str, folders: list[str]) -> Iterator[str]:
    for found in pkgutil.iter_modules(folders):
        yield f"{package}.{found.name}"
