"""L2. Values read from globals and closures, by path: whether they have changed.

Two values are the same if they are one object, or numbers, strings and the like of one type and
the same bits.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np

from fgrad.base.containers import Contents
from fgrad.base.kinds import is_array, is_scalar
from fgrad.base.named_tuple import NamedTuple
from fgrad.ir.aval import DTYPE_NAMES
from fgrad.typing import PyTree

PlaceKey: TypeAlias = "tuple[int, object]"  # the identity of what holds a value, and where in it

Key: TypeAlias = "int | PlaceKey"  # the identity of an array, or a place

MOST_ITEMS = 1024  # of one container
_BY_VALUE = (int, float, complex, bool, str, bytes, np.generic)


class _Missing:
    """What stands for a name that is not there."""

    def __repr__(self) -> str:
        return "nothing"


MISSING = _Missing()


class Item(NamedTuple):
    """`holder[key]` of a dictionary: of a module, an object, a class, or the user's."""

    holder: Contents
    key: object
    value: object
    path: str

    def now(self) -> object:
        return Contents.get(self.holder, self.key, MISSING)


class Attribute(NamedTuple):
    """Something else that holds a value: a cell, an object's class or dictionary, a slot."""

    holder: object
    key: types.MemberDescriptorType | str  # a slot, or the name of an attribute
    value: object
    path: str

    def now(self) -> object:
        try:
            if isinstance(self.key, types.MemberDescriptorType):
                return self.key.__get__(self.holder)
            found = getattr(self.holder, self.key)
            return MISSING if found is None and self.key.endswith("defaults__") else found
        except (AttributeError, ValueError):
            return MISSING


class Items(NamedTuple):
    """All items of a list, or all keys of a dictionary."""

    holder: Collection[object]
    values: tuple[object, ...]
    path: str


class Shown:
    """What a value that is no list holds, as items: those of a set, the bytes of a buffer.

    Arguments:
        holder: the value.
        read: what it holds now.
    """

    def __init__(self, holder: object, read: Callable[[PyTree], Collection[object]]) -> None:
        self.holder, self.read = holder, read

    def __len__(self) -> int:
        return len(self.read(self.holder))

    def __iter__(self) -> Iterator[object]:
        return iter(self.read(self.holder))

    def __contains__(self, x: object) -> bool:
        return x in self.read(self.holder)


class Number:
    """A number that the program takes as an input: what a place holds at each call.

    Arguments:
        place: where it is.
        key: the key of that place.
    """

    def __init__(self, place: Item | Attribute, key: Key) -> None:
        self.place, self.key, self.path = place, key, place.path
        self.kind: type[Any] = type(place.value)

    def now(self) -> Any:
        """Its value, of the type that it had."""
        found = self.place.now()
        return found if type(found) is self.kind else self.kind(found)

    def fits(self) -> bool:
        """Whether there is a number of this type."""
        found = self.place.now()
        return type(found) is self.kind and is_number(found)


class Input(NamedTuple):
    """An array that the program takes as an input."""

    array: np.ndarray
    shape: tuple[int, ...]
    dtype: np.dtype
    path: str


class Content(NamedTuple):
    """An array that can be written into, and a copy of it."""

    array: np.ndarray
    copy: np.ndarray
    path: str


def _items_of(x: np.ndarray) -> list[object]:
    """The objects in an array."""
    return list(x.flat)


def is_number(x: object) -> bool:
    """Whether a value is a number that compiled code knows, other than True and False."""
    kind = type(x)
    if type(x) is int:
        return -(2**63) <= x < 2**63
    if kind is float or kind is complex:
        return True
    return is_scalar(x) and x.dtype.name in DTYPE_NAMES and x.dtype.kind in "iufc"


def same(a: object, b: object) -> bool:
    """Whether two values are one, or equal in type and bits."""
    if a is b:
        return True
    kind = type(a)
    if kind is not type(b) or not isinstance(a, _BY_VALUE):
        return False
    if kind in (float, complex) or isinstance(a, np.generic):
        return np.asarray(a).tobytes() == np.asarray(b).tobytes()
    return kind in _BY_VALUE and a == b


class Watches:
    """What one trace depends on."""

    def __init__(self) -> None:
        self._items: dict[Key, Item] = {}
        self._places: dict[Key, Attribute] = {}
        self._sequences: dict[int, Items] = {}
        self._keys: dict[int, Items] = {}
        self._arrays: dict[int, tuple[np.ndarray, str]] = {}
        self._frozen: dict[int, np.ndarray] = {}  # those that nobody may write into
        self._contents: dict[int, Content] = {}
        self._inputs: dict[int, Input] = {}
        self._numbers: dict[Key, Number] = {}
        self.given: list[np.ndarray | Number] = []  # what the program takes, in order

    # Made while the world is looked at.

    def item(self, holder: Contents, key: object, value: object, path: str) -> None:
        self._items.setdefault((id(holder), key), Item(holder, key, value, path))

    def cell(self, cell: types.CellType, value: object, path: str) -> None:
        self._place(cell, "cell_contents", value, path)

    def function(self, fun: types.FunctionType, path: str) -> None:
        for key in ("__code__", "__defaults__", "__kwdefaults__"):
            held = getattr(fun, key)
            self._place(fun, key, MISSING if held is None else held, path)

    def type_(self, x: object, path: str) -> None:
        self._place(x, "__class__", type(x), path)

    def dict_of(self, x: object, held: dict[str, object], path: str) -> None:
        self._place(x, "__dict__", held, path)

    def slot(self, x: object, member: types.MemberDescriptorType, value: object, path: str) -> None:
        self._place(x, member, value, path)

    def _place(
        self, holder: object, key: types.MemberDescriptorType | str, value: object, path: str
    ) -> None:
        self._places.setdefault((id(holder), key), Attribute(holder, key, value, path))

    def sequence(self, x: list[object], path: str) -> None:
        self._sequences.setdefault(id(x), Items(x, tuple(x), path))

    def shown(self, x: object, read: Callable[[PyTree], Collection[object]], path: str) -> None:
        """All that `read` finds in a value."""
        if id(x) not in self._sequences:
            shown = Shown(x, read)
            self._sequences[id(x)] = Items(shown, tuple(shown), path)

    def keys(self, x: Contents, path: str) -> None:
        self._keys.setdefault(id(x), Items(x, tuple(x), path))

    def array(self, x: np.ndarray, path: str) -> None:
        """An array is read."""
        if not is_written(x):
            self._frozen.setdefault(id(x), x)
        elif x.dtype == object and 0 < x.size <= MOST_ITEMS:
            self.shown(x, _items_of, path)
        elif not x.dtype.hasobject and x.size:
            self._arrays.setdefault(id(x), (x, path))

    def take(self, given: Iterable[object], unread: Collection[Key]) -> None:
        """What the program takes as its first inputs: arrays and numbers among others.  Other
        arrays must keep their numbers, unless the trace has read none of these: `unread`."""
        for x in given:
            if is_array(x):
                self._inputs[id(x)] = Input(x, x.shape, x.dtype, self._arrays[id(x)][1])
                self.given.append(x)
            elif isinstance(x, Number):
                self._numbers[x.key] = x
                self.given.append(x)
        for key, (x, path) in self._arrays.items():
            if key not in unread and key not in self._inputs:
                self._contents[key] = Content(x, x.copy("K"), path)
        for key in unread:
            place = self._items.get(key) or self._places.get(key)
            if place is not None:
                self._numbers.setdefault(key, Number(place, key))
        for key in self._numbers:
            self._items.pop(key, None)
            self._places.pop(key, None)

    # For what compares them natively.

    def places(self) -> Iterable[Attribute]:
        """Cells, slots, classes and dictionaries of objects, code of functions."""
        return self._places.values()

    def sequences(self) -> Iterable[Items]:
        """Lists that are read as a whole."""
        return self._sequences.values()

    def contents(self) -> Collection[Content]:
        """Arrays that must have the same numbers."""
        return self._contents.values()

    def inputs(self) -> Collection[Input]:
        """Arrays that are read at each call."""
        return self._inputs.values()

    def numbers(self) -> Collection[Number]:
        """Numbers that are read at each call."""
        return self._numbers.values()

    def numbers_read(self) -> Iterable[tuple[Key, Item | Attribute]]:
        """All places that hold a number, and their keys."""
        both = (*self._items.items(), *self._places.items())
        return [(key, place) for key, place in both if is_number(place.value)]

    def arrays(self) -> list[tuple[np.ndarray, str]]:
        """All arrays whose numbers matter, and their paths."""
        return [(x.array, x.path) for x in (*self.contents(), *self.inputs())]

    def written(self) -> Collection[np.ndarray]:
        """All arrays that can be written into."""
        return [x for x, _ in self._arrays.values()]

    def moved(self) -> dict[Key, object]:
        """The arrays that have other numbers now, by identity, and the places that hold another
        number of the same type, by key."""
        found: dict[Key, object] = {
            id(array): array for array, copy, _ in self.contents() if not _equal_bits(array, copy)
        }
        for key, place in self.numbers_read():
            now = place.now()
            if type(now) is type(place.value) and is_number(now) and not same(now, place.value):
                found[key] = place
        return found

    def dictionaries(
        self,
    ) -> Iterable[tuple[PyTree, Items | None, list[tuple[object, object]]]]:
        """Dictionaries, all of their keys if these are read, and the items that are read."""
        found: dict[int, list[tuple[object, object]]] = {at: [] for at in self._keys}
        holders: dict[int, PyTree] = {at: items.holder for at, items in self._keys.items()}
        for holder, key, value, _ in self._items.values():
            holders[id(holder)] = holder
            found.setdefault(id(holder), []).append((key, value))
        return [(holders[at], self._keys.get(at), items) for at, items in found.items()]

    # Asked at each call.

    def changed(self) -> str | None:
        """The path of something that is not as it was; None if all is."""
        for holder, key, value, path in self._items.values():
            if not same(Contents.get(holder, key, MISSING), value):
                return path
        for place in self._places.values():
            if not same(place.now(), place.value):
                return place.path
        for holder, values, path in self._sequences.values():
            if len(holder) != len(values) or not all(map(same, holder, values)):
                return path
        for holder, values, path in self._keys.values():
            if len(holder) != len(values) or not all(map(same, holder, values)):
                return path
        for array, copy, path in self._contents.values():
            if not _equal_bits(array, copy):
                return path
        for array, shape, dtype, path in self._inputs.values():
            if array.shape != shape or array.dtype != dtype:
                return path
        for number in self._numbers.values():
            if not number.fits():
                return number.path
        return None

    def are_as_found(self) -> bool:
        """Whether a second look at the world would find the same, before anything is taken."""
        written = [is_written(x) for x in self._frozen.values()]
        return not any(written) and self.changed() is None


def is_written(x: object) -> bool:
    """Whether somebody may write into the memory of an array."""
    while is_array(x):
        if x.flags.writeable:
            return True
        x = x.base
    return x is not None and not isinstance(x, bytes)


def _equal_bits(a: np.ndarray, b: np.ndarray) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.flags.c_contiguous and b.flags.c_contiguous:
        a, b = a.reshape(-1).view(np.uint8), b.reshape(-1).view(np.uint8)
        return np.array_equal(a, b)
    return a.tobytes() == b.tobytes()
