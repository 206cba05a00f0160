"""L4. The public namespaces: `fgrad.numpy` and its `linalg` and `fft`, of the tables of functions.

A name is made when it is first read, of what the tables then have, and stays. No module puts names
into another one, so nobody sees in which order modules are imported, or that an import was
interrupted.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Container
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy

from fgrad.base.lazy_import import lazy_module, load
from fgrad.base.sizes import OPEN, is_symbolic
from fgrad.numpy.adopting import adopt_array
from fgrad.numpy.dispatch import EXTRA, OWN, TRACED, has_tracer, lookup
from fgrad.numpy.jax_keywords import KEYWORDS
from fgrad.trace import Tracer, innermost, own_handle
from fgrad.tracing.device_tracing import through
from fgrad.tracing.on_device import DEVICES, device_among
from fgrad.tracing.tables import deferred
from fgrad.typing import ArrayLike, DTypeLike, PyTree

if TYPE_CHECKING:
    from fgrad.numpy import creation
else:
    creation = lazy_module("fgrad.numpy.creation")

Function: TypeAlias = Callable[..., object]

LATER = ("fgrad.numpy.common", "fgrad.numpy.more")  # what `import fgrad` leaves for later
deferred.update(dict.fromkeys(LATER))


def load_all() -> None:
    """Load the functions that `import fgrad` leaves for later: linalg, fft, sorting, ..."""
    for module in LATER:
        load(module)


def _public(name: str, target: Any, traced: Function) -> Function:
    """NumPy's function, and the traced one if a tracer is among the arguments."""
    extra, other = EXTRA.get(name), KEYWORDS.get(name)

    def function(*args: ArrayLike, **kwargs: object) -> object:
        if kwargs and other is not None and not other.names.isdisjoint(kwargs):
            return other.call(function, args, kwargs)
        if args and type(args[0]) is Tracer:
            return own_handle(traced(*args, **kwargs), target, args)
        if has_tracer(args) or (kwargs and has_tracer(kwargs.values())):
            return own_handle(traced(*args, **kwargs), target, args)
        if extra and not extra.isdisjoint(kwargs):
            return traced(*args, **kwargs)
        if OPEN.traces and is_symbolic((*args, *kwargs.values())):
            return traced(*args, **kwargs)
        device = device_among((*args, *kwargs.values())) if DEVICES else None
        if device is not None:
            return through(device, traced, args, kwargs)
        return target(*args, **kwargs)

    functools.update_wrapper(function, target, updated=())
    if extra:
        function.__wrapped__ = traced  # whose signature has the keywords
    if other is not None:
        function.other_keywords = other.names  # type: ignore[attr-defined]
    return function


# Functions whose results programs fill: in an open trace, traced values may be assigned to them.
CREATED = frozenset({
    "array", "copy", "empty", "empty_like", "eye", "full", "full_like", "identity", "ones",
    "ones_like", "zeros", "zeros_like",
})  # fmt: skip


_FILLS = {"zeros": 0, "empty": 0, "ones": 1}


def _filled(value: int, shape: PyTree, dtype: PyTree = float, *_: object, **__: object) -> object:
    """An array of one number, whose shape has lengths that may change."""
    return creation.full(shape, numpy.dtype(dtype).type(value))


def _created(function: Function, name: str) -> Function:
    """A new array belongs to the open trace, so that traced values can be assigned to it.

    What `array` and `copy` make of a number stays one: its value may decide the program.
    """
    numbers, other = name in ("array", "copy"), KEYWORDS.get(name)

    @functools.wraps(function)
    def create(*args: ArrayLike, **kwargs: object) -> object:
        if kwargs and other is not None and not other.names.isdisjoint(kwargs):
            return other.call(create, args, kwargs)
        if OPEN.traces and name in _FILLS and is_symbolic((*args, *kwargs.values())):
            return _filled(_FILLS[name], *args, **kwargs)
        out = function(*args, **kwargs)
        builder = innermost()
        if builder is not None and isinstance(out, numpy.ndarray):
            if numbers and not out.shape:
                return out
            return adopt_array(builder, out, name != "array")
        return out

    if other is not None:
        create.other_keywords = other.names  # type: ignore[attr-defined]
    return create


def _of_dtype(kind: type) -> Function:
    """`finfo` and `iinfo` of a dtype, or of an array's."""

    def info(dtype: DTypeLike | None) -> object:
        return kind(dtype.dtype if isinstance(dtype, (Tracer, numpy.ndarray)) else dtype)

    return functools.update_wrapper(info, kind, updated=())


def _made(name: str) -> object:
    """What stands here for a dotted name of NumPy; None if that is NumPy's own."""
    for module in () if name in CREATED else LATER:
        if name not in TRACED:
            load(module)
    if name in OWN:
        return OWN[name]
    target, traced = TRACED.get(name, (None, None))
    if isinstance(target, numpy.ufunc):
        if name in KEYWORDS:  # a product, which has no such methods
            return _found_here(_public(name, target, target), name)
        return target  # it finds its traced form by itself, and keeps its methods: np.add.reduce
    function = lookup(name) if traced is None else _public(name, target, traced)
    if name in CREATED:
        return _found_here(_created(function, name), name)
    return _overlay(name) if traced is None else _found_here(function, name)


def _found_here(function: Function, name: str) -> Function:
    """A function that pickle finds: NumPy's name leads to NumPy's function."""
    group, _, last = name.partition(".")
    inside = bool(last) and group in ("fft", "linalg")
    package = __name__.rpartition(".")[0]
    function.__module__ = f"{package}.{group}" if inside else package
    function.__qualname__ = last if inside else name
    return function


def _overlay(name: str) -> SimpleNamespace | None:
    """A part of NumPy in which there are traced functions, such as `lib`; else None."""
    inside = {n[len(name) + 1 :].split(".")[0] for n in TRACED if n.startswith(f"{name}.")}
    if not inside:
        return None
    plain = lookup(name)
    present = {n: getattr(plain, n) for n in dir(plain) if not n.startswith("_")}
    return SimpleNamespace(**(present | {n: _made(f"{name}.{n}") for n in inside}))


def attributes(
    module: str, parts: Container[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a module that has the names of one of NumPy's.

    Arguments:
        module: its name, `fgrad.numpy` or one of a module in it.
        parts: the names that are modules in it.
    """
    group = module.removeprefix(__name__.rpartition(".")[0]).lstrip(".")
    plain = lookup(group) if group else numpy
    prefix = f"{group}." if group else ""

    def get(name: str) -> object:
        if name == "__all__":
            return [n for n in dir(plain) if not n.startswith("_")]
        found = getattr(plain, name)  # also one of the module's own files is no name of NumPy
        if not name.startswith("_"):
            made = load(f"{module}.{name}") if name in parts else _made(prefix + name)
            found = vars(sys.modules[module])[name] = found if made is None else made
        return found

    return get, lambda: [n for n in dir(plain) if n[0] != "_" or n[:2] == "__"]


OWN.update({
    name: _found_here(_of_dtype(getattr(numpy, name)), name) for name in ("finfo", "iinfo")
})  # fmt: skip
