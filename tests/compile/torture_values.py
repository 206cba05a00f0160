"""The values of `torture`: numbers in every guise, containers of every sort, things to refuse."""

from __future__ import annotations

import ctypes
import decimal
import fractions
import functools
import pickle
import tempfile
import threading
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fgrad import jit, tree

SHAPES = ((), (0,), (3,), (8,), (2, 2), (3, 3), (1, 8), (2, 0, 3), (2, 3, 4), (40, 50), (1,) * 6)
DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]
SCALARS = (bool, int, float, complex, np.float64, np.float32, np.int8, np.uint64, np.bool_)
SINGULAR = np.array([[1.0, 2.0], [2.0, 4.0]])


def whole_numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Small numbers, which every dtype can add without rounding."""
    low = 0 if dtype[0] in "?u" else -4
    return rng.integers(low, 2 if dtype == "?" else 5, shape).astype(dtype)


# --- the same numbers in another guise -----------------------------------------------------------


def in_fortran_order(x: np.ndarray) -> np.ndarray:
    """Columns first."""
    return np.asfortranarray(x)


def backwards(x: np.ndarray) -> np.ndarray:
    """With a negative stride."""
    return np.ascontiguousarray(x[::-1])[::-1] if x.ndim else x


def strided(x: np.ndarray) -> np.ndarray:
    """Every other element of something longer."""
    return np.repeat(x, 2, axis=-1)[..., ::2] if x.ndim else x


def broadcast(x: np.ndarray) -> np.ndarray:
    """One row, many times."""
    return np.broadcast_to(x[..., :1], x.shape) if x.ndim and x.size else x


def read_only(x: np.ndarray) -> np.ndarray:
    """Not to be written."""
    x.flags.writeable = False
    return x


def misaligned(x: np.ndarray) -> np.ndarray:
    """At an odd address."""
    memory = b"." + x.tobytes()
    return np.frombuffer(memory, x.dtype, x.size, offset=1).reshape(x.shape)


def swapped(x: np.ndarray) -> np.ndarray:
    """With the other byte order."""
    return x.astype(x.dtype.newbyteorder())


def unpickled(x: np.ndarray) -> np.ndarray:
    """With another dtype object."""
    return pickle.loads(pickle.dumps(x))


def foreign(x: np.ndarray) -> np.ndarray:
    """In memory of ctypes."""
    memory = (ctypes.c_char * max(x.nbytes, 1))()
    view = np.frombuffer(memory, x.dtype, x.size).reshape(x.shape)
    view[...] = x
    return view


class Sub(np.ndarray):
    """An ordinary subclass."""


class Loud(np.ndarray):
    """A subclass with code of its own, which must not run in compiled calls."""

    def __array_ufunc__(self, *_args: Any, **_kwargs: Any) -> Any:
        raise AssertionError("a ufunc was called")


class Holder:
    """An object with `__array__`."""

    def __init__(self, x: np.ndarray) -> None:
        self.x = x

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(self.x, dtype)


_FILE = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the module
_FILE.write(bytes(1 << 16))
_FILE.flush()


def mapped(x: np.ndarray) -> np.ndarray:
    """In a file."""
    if x.size == 0 or x.ndim == 0:
        return x
    view = np.memmap(_FILE, x.dtype, "c", 0, x.shape)
    view[...] = x
    return view


def recorded(x: np.ndarray) -> np.ndarray:
    """A `recarray` without fields."""
    return x.view(np.recarray)


def metadata(x: np.ndarray) -> np.ndarray:
    """A dtype with a note."""
    return x.astype(np.dtype(x.dtype, metadata={"unit": "m"}))


GUISES: tuple[Callable[[Any], Any], ...] = (
    in_fortran_order,
    backwards,
    strided,
    broadcast,
    read_only,
    misaligned,
    swapped,
    unpickled,
    foreign,
    mapped,
    recorded,
    metadata,
    Holder,
    lambda x: x.view(Sub),
    lambda x: x.view(Loud),
    lambda x: x if x.ndim else x[()],
)


def plain(x: Any) -> Any:
    """A leaf as an ordinary native array, or the scalar that it is."""
    if isinstance(x, (bool, int, float, complex)) and not isinstance(x, np.generic):
        return x
    array = np.array(x.x if isinstance(x, Holder) else x, subok=False)
    return array.astype(np.dtype(array.dtype.type)) if array.ndim else array[()]


# --- containers -----------------------------------------------------------------------------------

Pair = namedtuple("Pair", "left right")


class Named(NamedTuple):
    """A typed named tuple."""

    w: Any
    b: Any


class Record(NamedTuple):
    """A named tuple of anything."""

    items: Any


@tree.dataclass
class Params:
    """A dataclass."""

    w: Any
    b: Any


class _Switch(threading.local):
    """Whether the next `Fragile` of this thread cannot be made."""

    fails = False


FRAGILE = _Switch()


class Fragile:
    """A registered class whose reconstruction calls a jitted function, or fails."""

    def __init__(self, *children: Any) -> None:
        self.children = children


@jit
def _increment(x: Any) -> Any:
    return x + 1


def _unflatten(_static: Any, children: Any) -> Fragile:
    if FRAGILE.fails:
        raise LookupError("now and then")
    if type(children[0]) is np.ndarray:
        assert np.array_equal(_increment(children[0]), children[0] + 1)
    return Fragile(*children)


tree.register_node(Fragile, lambda x: (x.children, None), _unflatten)


class Key:
    """A key with an order and a comparison of its own."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and self.name == other.name

    def __lt__(self, other: Key) -> bool:
        return self.name < other.name


def _named(names: Callable[[int], Any], leaves: list[Any]) -> dict[Any, Any]:
    return {names(k): x for k, x in enumerate(leaves)}


def _backwards_dict(leaves: list[Any]) -> dict[Any, Any]:
    return {f"k{k}": leaves[k] for k in reversed(range(len(leaves)))}


def _nested(leaves: list[Any]) -> Any:
    return {"a": leaves[:1], "b": (None, {"c": leaves[1:]}, []), "d": None}


def _halves(kind: Any, leaves: list[Any]) -> Any:
    return kind(leaves[: len(leaves) // 2], leaves[len(leaves) // 2 :])


TREES: tuple[Callable[[list[Any]], Any], ...] = (
    tuple,
    list,
    functools.partial(_named, "k{}".format),
    functools.partial(_named, lambda k: k),
    functools.partial(_named, lambda k: ("t", k)),
    functools.partial(_named, lambda k: Key(f"k{k}")),
    _backwards_dict,
    _nested,
    functools.partial(_halves, Pair),
    functools.partial(_halves, Named),
    functools.partial(_halves, Params),
    Record,
    deque,
    lambda leaves: OrderedDict(_named("k{}".format, leaves)),
    lambda leaves: defaultdict(list, _named("k{}".format, leaves)),
    lambda leaves: leaves[0] if leaves else None,
)


# --- what must be refused -------------------------------------------------------------------------

BAD_OBJECTS: tuple[Any, ...] = (
    "text",
    b"bytes",
    2**64,
    -(2**70),
    object(),
    {1, 2},
    range(3),
    len,
    int,
    decimal.Decimal(1),
    fractions.Fraction(1, 2),
    slice(0, 3),
    Ellipsis,
    np.dtype("f8"),
    np.str_("a"),
    np.datetime64("2020-01-01"),
    np.longdouble(1),
)
BAD_ARRAYS: tuple[Callable[[np.random.Generator], Any], ...] = (
    lambda rng: np.ma.masked_array(np.zeros(8, "f4"), rng.integers(0, 2, 8)),
    lambda rng: np.zeros((2, 2)).view(np.matrix),
    lambda rng: np.zeros(8, object),
    lambda rng: np.array(["a", "b"]),
    lambda rng: np.zeros(3, "M8[s]"),
    lambda rng: np.zeros(3, "m8[s]"),
    lambda rng: np.zeros(8, [("a", "f4")]),
    lambda rng: np.zeros(8, [("a", "f4")]).view(np.recarray),
    lambda rng: np.zeros(8, np.longdouble),
    lambda rng: np.zeros(8, "V4"),
    lambda rng: Holder(np.zeros(8, object)),
)
