"""L4. `import fgrad.numpy as np`: NumPy's names, for plain and for traced arrays.

A function of arrays that are not traced is NumPy's own function, called as it is.  What has no
traced form is NumPy's own too, and raises a card when it meets a traced array.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy

from fgrad.lifted import has_device, through
from fgrad.numpy import (  # noqa: F401  (each fills the tables)
    creation,
    inplace,
    methods,
    ufunc_methods,
    unsupported,
)
from fgrad.numpy.register import EXTRA, TRACED, has_tracer, lookup
from fgrad.tables import deferred
from fgrad.trace import STATE, Tracer


def _public(name: str, target: Any, traced: Callable[..., Any]) -> Callable[..., Any]:
    """NumPy's function, and the traced one if a tracer is among the arguments."""
    extra = EXTRA.get(name)

    def function(*args: Any, **kwargs: Any) -> Any:
        if args and type(args[0]) is Tracer:
            return traced(*args, **kwargs)
        if has_tracer(args) or (kwargs and has_tracer(kwargs.values())):
            return traced(*args, **kwargs)
        if extra and not extra.isdisjoint(kwargs):
            return traced(*args, **kwargs)
        if has_device(args) or (kwargs and has_device(kwargs.values())):
            return through(traced, args, kwargs)
        return target(*args, **kwargs)

    functools.update_wrapper(function, target, updated=())
    if extra:
        function.__wrapped__ = traced  # whose signature has the keywords
    return function


# Functions whose results programs fill: in an open trace, traced values may be assigned to them.
CREATED = (
    "array", "copy", "empty", "empty_like", "eye", "full", "full_like", "identity", "ones",
    "ones_like", "zeros", "zeros_like",
)  # fmt: skip


def _created(function: Callable[..., Any]) -> Callable[..., Any]:
    """A new array belongs to the open trace, so that traced values can be assigned to it."""

    @functools.wraps(function)
    def create(*args: Any, **kwargs: Any) -> Any:
        out = function(*args, **kwargs)
        builder = STATE.builder
        if builder is not None and isinstance(out, numpy.ndarray) and out.shape:
            return inplace.adopt(builder, out)
        return out

    return create


def _fill_functions() -> None:
    """Put every traced function into this namespace, and into its `linalg` and `fft`."""
    groups: dict[str, dict[str, Any]] = {"linalg": {}, "fft": {}, "lib.stride_tricks": {}}
    for name, (target, traced) in TRACED.items():
        group, _, leaf = name.rpartition(".")
        space = groups[group] if group else globals()
        # A ufunc finds its traced form by itself, and keeps its methods: np.add.reduce.
        space[leaf] = target if isinstance(target, numpy.ufunc) else _public(name, target, traced)
    if load_all in deferred:
        return
    groups["fft"] |= importlib.import_module("fgrad.numpy.grids").FREQUENCIES
    for group, names in groups.items():
        space = _overlay(lookup(group), names)
        parent, _, leaf = group.rpartition(".")
        if parent:
            globals()[parent] = _overlay(lookup(parent), {leaf: space})
        else:
            globals()[group] = space


def _overlay(plain: Any, names: dict[str, Any]) -> SimpleNamespace:
    """A module of NumPy with some of its names replaced."""
    present = {n: getattr(plain, n) for n in dir(plain) if not n.startswith("_")}
    return SimpleNamespace(**(present | names))


def load_all() -> None:
    """Load the functions that `import fgrad` leaves for later: linalg, fft, sorting, ..."""
    if load_all in deferred:
        deferred.remove(load_all)
        importlib.import_module("fgrad.numpy.more")
        inplace.mark_views()
        _fill()
        globals().update(importlib.import_module("fgrad.numpy.grids").OBJECTS)
        globals()["vectorize"] = importlib.import_module("fgrad.numpy.lanes").vectorize


def _of_dtype(kind: type) -> Callable[[Any], Any]:
    """`finfo` and `iinfo` of a dtype, or of an array's."""

    def info(dtype: Any) -> Any:
        return kind(dtype.dtype if isinstance(dtype, (Tracer, numpy.ndarray)) else dtype)

    return functools.update_wrapper(info, kind, updated=())


def _fill() -> None:
    _fill_functions()
    globals().update(finfo=_of_dtype(numpy.finfo), iinfo=_of_dtype(numpy.iinfo))
    for name in CREATED:
        globals()[name] = _created(globals().get(name) or getattr(numpy, name))


methods.install()
_fill()
deferred.append(load_all)


def __getattr__(name: str) -> Any:
    """Functions that are loaded when first used; constants, dtypes and all else that NumPy has."""
    if not name.startswith("_") and load_all in deferred:
        load_all()
        if name in globals():
            return globals()[name]
    return getattr(numpy, name)


def __dir__() -> list[str]:
    return sorted(set(dir(numpy)) | set(globals()))
