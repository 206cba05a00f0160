"""L0. The way to each leaf of a tree, as a tuple of keys.

    {"w": [1.0, 2.0]}   ->   (DictKey('w'), SequenceKey(0)), (DictKey('w'), SequenceKey(1))

Keys have the names, the fields and the text of JAX's.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, TypeAlias

from fgrad.base.keywords import also_takes
from fgrad.base.lazy_import import lazy_module
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.tree_classes import NAMESPACE, recognize
from fgrad.typing import PyTree

if TYPE_CHECKING:
    from optree import PyTreeSpec

optree = lazy_module("optree")

IsLeaf: TypeAlias = Callable[[PyTree], bool]


class DictKey(NamedTuple):
    """The key of an item of a dictionary."""

    key: Hashable

    def __str__(self) -> str:
        return f"[{self.key!r}]"


class SequenceKey(NamedTuple):
    """The place of an item of a list, a tuple or a deque."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx}]"


class GetAttrKey(NamedTuple):
    """The name of a field of a dataclass or a named tuple."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"


class FlattenedIndexKey(NamedTuple):
    """The number of a child of a registered class that has no keys."""

    key: int

    def __str__(self) -> str:
        return f"[<flat index {self.key}>]"


Path: TypeAlias = "tuple[PyTree, ...]"


def _key(entry: PyTree) -> PyTree:
    """The key of an entry of a path, as `optree` makes them."""
    value: PyTree = entry.entry
    kind = entry.kind.name
    if not isinstance(value, (str, int)) and str(value)[:1] in "[.":
        return value  # one that the class itself has given
    if kind == "NAMEDTUPLE":
        return GetAttrKey(entry.type._fields[value])
    if kind in ("DICT", "ORDEREDDICT", "DEFAULTDICT"):
        return DictKey(value)
    if kind != "CUSTOM":
        return SequenceKey(int(value))
    return GetAttrKey(value) if isinstance(value, str) else FlattenedIndexKey(value)


@also_takes(is_leaf_takes_path=False)
def flatten_with_path(
    tree: PyTree, is_leaf: IsLeaf | None = None
) -> tuple[list[tuple[Path, PyTree]], PyTreeSpec]:
    """The leaves of a tree with the way to each, and its structure.

    Example:
        >>> import fgrad
        >>> pairs, treedef = fgrad.tree.flatten_with_path({"w": [1.0, 2.0]})
        >>> [(fgrad.tree.keystr(path), leaf) for path, leaf in pairs]
        [("['w'][0]", 1.0), ("['w'][1]", 2.0)]
    """
    found = optree.tree_flatten_with_accessor(tree, is_leaf=is_leaf, namespace=NAMESPACE)
    accessors, leaves, treedef = found
    if recognize(leaves):
        return flatten_with_path(tree, is_leaf)
    paths = [tuple(map(_key, accessor)) for accessor in accessors]
    return list(zip(paths, leaves, strict=True)), treedef


@also_takes(is_leaf_takes_path=False)
def leaves_with_path(tree: PyTree, is_leaf: IsLeaf | None = None) -> list[tuple[Path, PyTree]]:
    """The leaves of a tree with the way to each.

    Example:
        >>> from fgrad import tree
        >>> [(tree.keystr(path), leaf) for path, leaf in tree.leaves_with_path({'w': [1.0]})]
        [("['w'][0]", 1.0)]
    """
    return flatten_with_path(tree, is_leaf)[0]


@also_takes(aliases={"f": "fun"}, is_leaf_takes_path=False)
def map_with_path(
    fun: Callable[..., PyTree], tree: PyTree, *rest: PyTree, is_leaf: IsLeaf | None = None
) -> PyTree:
    """Apply `fun(path, leaf, *others)` to the corresponding leaves of trees of one structure.

    Returns:
        The tree of its results.

    Example:
        >>> import fgrad
        >>> fgrad.tree.map_with_path(lambda path, x: fgrad.tree.keystr(path), {"w": [1.0]})
        {'w': ["['w'][0]"]}
    """
    pairs, treedef = flatten_with_path(tree, is_leaf)
    others = [treedef.flatten_up_to(other) for other in rest]
    rows = zip(pairs, *others, strict=True)
    return treedef.unflatten([fun(path, leaf, *more) for (path, leaf), *more in rows])


def keystr(keys: Iterable[PyTree], *, simple: bool = False, separator: str = "") -> str:
    """The way to a leaf as text.

    Arguments:
        keys: the keys of the way.
        simple: whether only the names and numbers are shown, without brackets and dots.
        separator: what stands between them.

    Example:
        >>> import fgrad
        >>> path = (fgrad.tree.DictKey("w"), fgrad.tree.SequenceKey(0))
        >>> fgrad.tree.keystr(path), fgrad.tree.keystr(path, simple=True, separator="/")
        ("['w'][0]", 'w/0')
    """
    return separator.join([_simple(key) if simple else str(key) for key in keys])


def _simple(key: PyTree) -> str:
    return str(key[0]) if isinstance(key, tuple) else str(key)
