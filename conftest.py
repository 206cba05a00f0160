"""Doctests are of fgrad's own docstrings: those that it carries over from NumPy are left out."""

from __future__ import annotations

import importlib.util
import pkgutil

import pytest
from _pytest.doctest import DoctestItem

# Modules for libraries that are not there.
OPTIONAL = ("torch", "jax")
collect_ignore = [
    f"fgrad/interop/{name}.py" for name in OPTIONAL if importlib.util.find_spec(name) is None
]
collect_ignore_glob = ["tests/ranks/*.py"]  # programs that ranks run


def _is_carried(item: pytest.Item) -> bool:
    """Whether a doctest of `fgrad.numpy.f` stands in the docstring of `numpy.f`."""
    if not isinstance(item, DoctestItem) or item.dtest.docstring is None:
        return False
    try:
        plain = pkgutil.resolve_name(item.name.removeprefix("fgrad."))
    except (AttributeError, ImportError, ValueError, DeprecationWarning):
        return False  # the last: a module of SciPy's that has a name of ours, but is private now
    return plain.__doc__ == item.dtest.docstring


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out the doctests that are not fgrad's."""
    items[:] = [item for item in items if not _is_carried(item)]
