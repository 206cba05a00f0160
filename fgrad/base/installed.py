"""L0. What depends on the version of a package that is installed: fgrad does as that one does."""

from __future__ import annotations

from types import ModuleType


def at_least(package: ModuleType, major: int, minor: int) -> bool:
    """Whether a package has this version or a newer one."""
    found = str(package.__version__).split(".")
    return (int(found[0]), int(found[1])) >= (major, minor)
