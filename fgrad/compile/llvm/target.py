"""L5. The compilation target: triple, CPU and features, cached so that LLVM need not load.

The processor as the system describes it and the version of LLVM are the key of LLVM's words for
it, so that a process that finds all its code in the cache never loads LLVM.
"""

from __future__ import annotations

import contextlib
import functools
import os
import platform
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING

from fgrad.base.digest import digest
from fgrad.base.lazy_import import lazy_module
from fgrad.base.system import processor
from fgrad.compile.llvm.levels import selected
from fgrad.compile.llvm.store import DiskStore
from fgrad.compile.llvm.text import Target

if TYPE_CHECKING:
    from fgrad.compile.llvm import generator
else:
    generator = lazy_module("fgrad.compile.llvm.generator")


def process_target(store: DiskStore | None) -> Target:
    """What this process makes code for: its machine, or the level that FGRAD_CPU names."""
    return selected(_host_target(store))


def _host_target(store: DiskStore | None) -> Target:
    """This machine, by its features and not by LLVM's guess of its name alone."""
    found = processor()
    if store is None or not found:
        return generator.host_target()
    words = (found, platform.machine(), llvm_version())
    key = "t_" + digest(repr(words).encode())[:40]
    known = (store.get(key) or b"").decode().split("\n")
    if len(known) == len(Target._fields):
        return Target(*known)
    described = generator.host_target()
    store.put(key, "\n".join(described).encode())
    return described


@functools.cache
def llvm_version() -> str:
    """The version of LLVM, from its file."""
    return version_in("llvmlite", "_version.py") or generator.version()


def version_in(package: str, file: str) -> str:
    """A hash of the file in which a package keeps its version, which takes less time than to import
    it; empty if it is not there."""
    found = PathFinder.find_spec(package)
    for place in (found and found.submodule_search_locations) or ():
        with contextlib.suppress(FileNotFoundError), open(os.path.join(place, file), "rb") as text:
            return digest(text.read())
    return ""
