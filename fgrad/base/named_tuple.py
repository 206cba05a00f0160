"""L0. `NamedTuple` as in `typing`, whose classes are made in a tenth of the time.

`typing` compiles the annotation of each field, which nobody reads, and then the text of a function,
95 us for each class.  The first result of a process needs 60 of them, the compiler 200 more.  Here
all classes share their methods, and those with as many fields the code of `__new__`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["NamedTuple"]

if TYPE_CHECKING:
    from typing import NamedTuple
else:
    from collections import _tuplegetter as _field

    T = TypeVar("T", bound="Named")

    class Named(tuple):
        """What all named tuples can do, see `collections.namedtuple`."""

        __slots__ = ()
        _fields = ()

        @classmethod
        def _make(cls: type[T], values: Iterable[Any]) -> T:
            made = tuple.__new__(cls, values)
            if len(made) != len(cls._fields):
                raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
            return made

        def _replace(self: T, /, **fields: Any) -> T:
            made = self._make(map(fields.pop, self._fields, self))
            if fields:
                raise ValueError(f"Got unexpected field names: {list(fields)!r}")
            return made

        def _asdict(self) -> dict[str, Any]:
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self) -> str:
            both = zip(self._fields, self, strict=True)
            return f"{type(self).__name__}({', '.join([f'{name}={x!r}' for name, x in both])})"

        def __getnewargs__(self) -> tuple[Any, ...]:
            return tuple(self)

    class _Maker(type):
        """Makes a named tuple of the annotations and the contents of a class."""

        def __new__(cls, name: str, bases: tuple[type, ...], space: dict[str, Any]) -> type:
            if not bases:
                return super().__new__(cls, name, bases, space)
            fields = tuple(space.get("__annotations__", ()))
            given = {field: space[field] for field in fields if field in space}
            if tuple(given) != fields[len(fields) - len(given) :]:
                raise TypeError(f"{name}: a field without a default follows one that has one")
            for place, field in enumerate(fields):
                space[field] = _getter(place)
            space["_fields"] = space["__match_args__"] = fields
            space["_field_defaults"] = given
            space["__slots__"] = ()
            space["__new__"] = _new(name, fields, tuple(given.values()))
            return type(name, (Named,), space)

    def _new(name: str, fields: tuple[str, ...], defaults: tuple[Any, ...]) -> FunctionType:
        code = _code_of(len(fields)).replace(co_varnames=("_cls", *fields), co_name="__new__")
        made = FunctionType(code, {"_new": tuple.__new__}, "__new__", defaults)
        made.__qualname__ = f"{name}.__new__"
        return made

    @functools.cache
    def _getter(place: int) -> object:
        return _field(place, f"Alias for field number {place}")

    @functools.cache
    def _code_of(count: int) -> CodeType:
        """The code of `__new__` for a number of fields; the most frequent are compiled with this
        file, as to compile one takes 50 us."""
        if count < len(_FREQUENT):
            return _FREQUENT[count].__code__
        names = "".join([f"_{k}, " for k in range(count)])
        return eval(f"lambda _cls, {names}: _new(_cls, ({names}))").__code__

    _FREQUENT = (
        lambda c: _new(c, ()),
        lambda c, a: _new(c, (a,)),
        lambda c, a, b: _new(c, (a, b)),
        lambda c, a, b, d: _new(c, (a, b, d)),
        lambda c, a, b, d, e: _new(c, (a, b, d, e)),
        lambda c, a, b, d, e, f: _new(c, (a, b, d, e, f)),
        lambda c, a, b, d, e, f, g: _new(c, (a, b, d, e, f, g)),
        lambda c, a, b, d, e, f, g, h: _new(c, (a, b, d, e, f, g, h)),
        lambda c, a, b, d, e, f, g, h, i: _new(c, (a, b, d, e, f, g, h, i)),
        lambda c, a, b, d, e, f, g, h, i, j: _new(c, (a, b, d, e, f, g, h, i, j)),
        lambda c, a, b, d, e, f, g, h, i, j, k: _new(c, (a, b, d, e, f, g, h, i, j, k)),
        lambda c, a, b, d, e, f, g, h, i, j, k, m: _new(c, (a, b, d, e, f, g, h, i, j, k, m)),
        lambda c, a, b, d, e, f, g, h, i, j, k, m, n: _new(c, (a, b, d, e, f, g, h, i, j, k, m, n)),
    )

    class NamedTuple(metaclass=_Maker):
        """What a class names as its base to be a named tuple."""
