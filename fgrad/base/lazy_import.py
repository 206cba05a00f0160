"""L0. Modules that are loaded when they are first used, so that `import fgrad` stays light.

special = lazy_module("scipy.special")     # at the top of a file; nothing is loaded yet
special.erf(x)                             # loads SciPy's module, once

Who presses Ctrl-C does not know that something is being loaded, and many a compiled module cannot
be initialised a second time. So signals wait until a module is there.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from _thread import get_ident
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from importlib.machinery import PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from fgrad.base.gc_policy import modules_loading
from fgrad.base.system import at_fork, main_thread

if TYPE_CHECKING:
    import importlib.util as importlib_util
    import pkgutil
    import signal
else:  # whose names are enumerations, which take half a millisecond and are not used here
    import _signal as signal

R = TypeVar("R")

PROVIDERS: dict[str, str] = {}  # for each device, the module whose `BACKEND` compiles for it


def load(name: str, by: Callable[[str], ModuleType] = importlib.import_module) -> ModuleType:
    """Import the module `name` if necessary; interrupts are deferred until it is loaded."""
    found = sys.modules.get(name)
    if found is not None and not getattr(found.__spec__, "_initializing", False):
        return found
    _LOADING.append(get_ident())
    try:
        with modules_loading():
            if get_ident() != main_thread():
                return _with_memory(name, by)  # interrupts are raised in the main thread alone
            return _uninterrupted(
                lambda: _with_memory(name, by), [s for s in signal.valid_signals() if _raises(s)]
            )
    finally:
        _LOADING.remove(get_ident())


_LOADING: list[int] = []  # the threads that load a module, once for each
_PATIENCE = 30.0  # seconds


def _loaded_by_others() -> None:
    """Let a fork wait for modules that other threads load: Python's lock of such a module would be
    held in the child for ever."""
    own, end = get_ident(), time.monotonic() + _PATIENCE
    while any([k != own for k in list(_LOADING)]) and time.monotonic() < end:
        time.sleep(1e-3)


def _forked() -> None:
    _LOADING[:] = [k for k in _LOADING if k == get_ident()]


at_fork(before=_loaded_by_others, in_child=_forked)


def _with_memory(name: str, by: Callable[[str], ModuleType]) -> ModuleType:
    """Import a module; a `MemoryError` where its library finds no memory."""
    try:
        return by(name)
    except (ImportError, OSError) as error:
        causes = f"{error} {error.__cause__} {error.__context__}"
        if any(text in causes for text in _NO_MEMORY):
            raise MemoryError(f"there is no memory to load {name}") from error
        raise


_NO_MEMORY = ("failed to map segment", "cannot allocate memory", "Cannot allocate memory")


def _raises(number: int) -> bool:
    """Whether a signal runs Python code, which may raise."""
    return callable(signal.getsignal(number)) and signal.getsignal(number) is not _wait


_WAITING: set[int] = set()  # the signals that have come meanwhile


def _wait(number: int, _frame: object) -> None:
    _WAITING.add(number)


def _uninterrupted(function: Callable[[], R], signals: Sequence[int]) -> R:
    """Call a function with these signals deferred."""
    if not signals:
        return function()
    number = signals[0]
    handler = signal.getsignal(number)
    try:
        signal.signal(number, _wait)
        return _uninterrupted(function, signals[1:])
    finally:
        signal.signal(number, handler)
        if number in _WAITING:
            _WAITING.remove(number)
            signal.raise_signal(number)


class LazyModule:
    """A proxy that imports its module when an attribute is first read."""

    def __init__(self, name: str) -> None:
        self.__dict__["_name"] = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute == "__wrapped__":  # asked by `inspect.unwrap`, and had by no module
            raise AttributeError(f"{self!r} has no attribute {attribute!r}")
        value = getattr(self._load(self.__dict__["_name"]), attribute)
        self.__dict__[attribute] = value
        return value

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.__dict__["_name"],)

    def __repr__(self) -> str:
        return f"<lazy module {self.__dict__['_name']!r}>"

    def _load(self, name: str) -> ModuleType:
        return load(name)


if not TYPE_CHECKING:  # half a millisecond, for what few programs do
    pkgutil = LazyModule("pkgutil")
    importlib_util = LazyModule("importlib.util")


class LazyExtension(LazyModule):
    """A proxy of an extension module, loaded once, without importing its package."""

    def _load(self, name: str) -> ModuleType:
        found: ModuleType | None = self.__dict__.get("_module")
        if found is None:
            found = load(name, lambda name: _load_alone(name) or importlib.import_module(name))
            self.__dict__["_module"] = found
        return found


def _load_alone(name: str) -> ModuleType | None:
    """A compiled module by its file; None if it has none.

    It is not left among the imported modules: a later import of its package finds it by itself.
    """
    top, *folders, last = name.split(".")
    package = importlib_util.find_spec(top)
    places = (package and package.submodule_search_locations) or ()
    found = PathFinder.find_spec(last, [os.path.join(place, *folders) for place in places])
    if found is None or found.origin is None:
        return None
    spec = importlib_util.spec_from_file_location(name, found.origin)
    if spec is None or spec.loader is None:
        return None
    module = importlib_util.module_from_spec(spec)
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


def lazy_names(
    module: str, parts: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a module of which some names are loaded when they are read.

    Arguments:
        module: its name.
        parts: for each module that is loaded then, the names that it has.
    """
    homes = {name: part for part, names in parts.items() for name in names}

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value = vars(sys.modules[module])[name] = getattr(load(homes[name]), name)
        return value

    shown = names_shown(module)
    return get, lambda: sorted({*shown(), *[n for n in homes if not n.startswith("_")]})


def python_names(found: Iterable[str]) -> list[str]:
    """Names such as `__doc__`."""
    return [n for n in found if n.startswith("__")]


def names_shown(module: str, hidden: Container[str] = ()) -> Callable[[], list[str]]:
    """`__dir__` of a module, for completion: its `__all__`, else what it defines, without what is
    `hidden`, and what it has of the SciPy module of its name."""

    def is_own(name: str, value: object) -> bool:
        home = getattr(value, "__module__", None) or ""
        if f"{home}.".startswith(f"{module}."):
            return True
        plain = module.removeprefix("fgrad.")
        return plain.startswith("scipy.") and home[:6] == "fgrad." and hasattr(load(plain), name)

    def listed() -> list[str]:
        found = dict(vars(sys.modules[module]))
        own = [n for n, v in found.items() if n[0] != "_" and n not in hidden and is_own(n, v)]
        return sorted({*found.get("__all__", own), *python_names(found)})

    return listed


def lazy_modules(
    package: str, path: Iterable[str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package whose modules are loaded when they are read."""

    def public() -> list[str]:
        return [m.name for m in pkgutil.iter_modules(path) if not m.name.startswith("_")]

    def get(name: str) -> Any:
        if name.startswith("_") or name not in public():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return load(f"{package}.{name}")

    return get, lambda: sorted({*public(), *python_names(vars(sys.modules[package]))})
