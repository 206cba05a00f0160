"""L2. The attributes of objects, classes and modules, read without running code of the user's."""

from __future__ import annotations

import functools
import gc
import sys
import types
from collections.abc import Callable, Mapping, Set
from typing import Protocol, TypeGuard

from fgrad.base.containers import Contents
from fgrad.base.kinds import is_attributes, is_dict, is_tuple, own_dict
from fgrad.tracing.outside.installed import is_installed
from fgrad.tracing.outside.watches import MISSING
from fgrad.typing import PyTree

# Libraries that nobody changes; pytest's assertions read all of it in functions of test files.
_LIBRARIES = {"numpy", "scipy", "fgrad", "optree", "pytest", "_pytest", "pluggy"}
TRUSTED = frozenset(_LIBRARIES) | sys.stdlib_module_names
_WHOLE = frozenset({"__dict__", "vars", "eval", "exec"})  # read attributes that code does not name
_RELATIVES = frozenset({"__class__", "__mro__", "__base__", "__bases__"})
_HOLDERS = frozenset({("types", "SimpleNamespace"), ("argparse", "Namespace")})


def is_trusted(x: object) -> bool:
    """Whether a module, class or function belongs to a library that nobody changes."""
    if isinstance(x, type) and (x.__module__, x.__name__) in _HOLDERS:
        return False
    name = x.__name__ if isinstance(x, types.ModuleType) else getattr(x, "__module__", None)
    return isinstance(name, str) and name.partition(".")[0] in TRUSTED and name != "__main__"


METHODS = (types.FunctionType, property, staticmethod, classmethod, functools.cached_property)
_UNREAD = frozenset({"__repr__", "__str__", "__del__", "__reduce__", "__getstate__"})


def special_functions(cls: type) -> list[str]:
    """The names of the special functions that users have written for a class."""
    return [
        name
        for owner in cls.__mro__
        if not is_trusted(owner)
        for name, held in list(vars(owner).items())
        if name.startswith("__") and isinstance(held, METHODS) and name not in _UNREAD
    ]


class Wrapper(Protocol):
    """What calls its function `fun`, and can be made of another one."""

    fun: Callable[..., object]

    def with_function(self, fun: Callable[..., PyTree], /) -> object: ...


def is_wrapper(x: object) -> TypeGuard[Wrapper]:
    """Whether an object calls its function `fun`, and can be made of another one."""
    return hasattr(type(x), "with_function") and is_trusted(type(x))


def dict_of_class(cls: type) -> Contents:
    """The dictionary behind `cls.__dict__`."""
    (held,) = [d for d in gc.get_referents(cls.__dict__) if is_dict(d)]
    return held


def own_attributes(x: object) -> Mapping[str, object]:
    """`x.__dict__`; nothing where there is none."""
    held = own_dict(x)
    return held if is_attributes(held) else {}


def attribute_names(x: object) -> set[str]:
    """The names of an object's attributes."""
    found = set(own_attributes(x))
    for owner in type(x).__mro__ if not isinstance(x, type) else x.__mro__:
        if not is_trusted(owner):
            found |= set(vars(owner))
    return found


def asked_names(x: object, names: Set[str]) -> set[str]:
    """The attributes that code with `names` in it may ask of an object: all of its own where code
    reads dictionaries of attributes, or a method of the user's finds them.  Of modules, and of
    objects of installed packages, those that are named."""
    found = attribute_names(x)
    if isinstance(x, types.ModuleType) or _is_of_package(x):
        return found & names
    if not reads_dictionaries(names) and not _is_answered(x):
        return found & names
    own = vars(x) if isinstance(x, type) else own_attributes(x)
    return found & (names | {name for name in own if not name.startswith("__")})


def absent_names(x: object, names: Set[str]) -> set[str]:
    """Those of some attributes that an object of the user's has not, and may get."""
    named = isinstance(x, (type, types.ModuleType, types.FunctionType))
    if not names or is_trusted(x if named else type(x)) or _is_of_package(x):
        return set()
    if isinstance(x, types.ModuleType) and is_installed(str(getattr(x, "__file__", ""))):
        return set()
    return set(names) - attribute_names(x)


def reads_dictionaries(names: Set[str]) -> bool:
    """Whether code with these names may read attributes that it does not name."""
    return not names.isdisjoint(_WHOLE)


def _is_answered(x: object) -> bool:
    """Whether a method in the user's own files answers when an attribute is not found."""
    code = getattr(getattr(type(x), "__getattr__", None), "__code__", None)
    return isinstance(code, types.CodeType) and not is_installed(code.co_filename)


def _is_of_package(x: object) -> bool:
    """Whether an object, or a class or function, is of an installed package."""
    home = x if isinstance(x, (type, types.FunctionType)) else type(x)
    module = sys.modules.get(str(home.__module__))
    return is_installed(str(getattr(module, "__file__", "")))


def relatives(x: object, name: str) -> object:
    """The class of an object, or the bases of a class; `MISSING` for other names."""
    if name not in _RELATIVES or (name != "__class__" and not isinstance(x, type)):
        return MISSING
    return type(x) if name == "__class__" else getattr(x, name)


def has_usual_attributes(x: object) -> bool:
    """Whether no code of the user's own answers when an attribute is asked for."""
    cls = type(x)
    usual = cls.__getattribute__ in (
        object.__getattribute__,
        type.__getattribute__,
        types.ModuleType.__getattribute__,
        types.SimpleNamespace.__getattribute__,
    )
    return usual and not hasattr(cls, "__getattr__")


def slot(member: types.MemberDescriptorType, x: object) -> object:
    """What a slot of an object holds; `MISSING` if nothing."""
    try:
        return member.__get__(x)
    except AttributeError:
        return MISSING


def is_plain_key(key: object) -> bool:
    """Whether a key of a dictionary is a number, a text, None, or a tuple of these."""
    return type(key) in (str, int, bool, float, bytes, type(None)) or (
        is_tuple(key) and all([is_plain_key(part) for part in key])
    )


def is_called_by_code(cls: type) -> bool:
    """Whether a call of an object runs a function of its class, which says what it reads."""
    found = [vars(owner)["__call__"] for owner in cls.__mro__ if "__call__" in vars(owner)]
    return bool(found) and isinstance(found[0], types.FunctionType) and not is_trusted(cls)
