"""L0. Pytrees: nested containers of arrays, flattened by `optree`; `None` is an empty tree.

Register dataclasses with `fgrad.tree.dataclass` and other classes with `register_node`.  The
package loads a process's tenth of everything, 12 ms; what all programs use is its compiled part.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from fgrad.base.lazy_import import lazy_extension, lazy_module
from fgrad.errors import ArgumentError
from fgrad.typing import PyTree

if TYPE_CHECKING:
    from optree import PyTreeSpec

compiled = lazy_extension("optree._C")
optree = lazy_module("optree")
optree_dataclasses = lazy_module("optree.dataclasses")

NAMESPACE = "fgrad"
TreeDef: TypeAlias = "PyTreeSpec"
IsLeaf: TypeAlias = Callable[[Any], bool]


def flatten(tree: PyTree, is_leaf: IsLeaf | None = None) -> tuple[list[Any], TreeDef]:
    """The leaves of a tree and its structure.

    Example:
        >>> leaves, treedef = flatten({"b": 2.0, "a": (1.0, None)})
        >>> leaves
        [1.0, 2.0]
        >>> unflatten(treedef, leaves)
        {'b': 2.0, 'a': (1.0, None)}
    """
    return compiled.flatten(tree, is_leaf, False, NAMESPACE)


def unflatten(treedef: TreeDef, leaves: Iterable[object]) -> PyTree:
    """The tree with structure `treedef` and the given leaves."""
    if treedef is leaf():
        (only,) = leaves
        return only
    return treedef.unflatten(leaves)


def leaves(tree: PyTree, is_leaf: IsLeaf | None = None) -> list[Any]:
    """The leaves of a tree, in order."""
    return flatten(tree, is_leaf)[0]


@lru_cache(maxsize=1)
def leaf() -> TreeDef:
    """The structure of a tree that is one leaf."""
    return structure(0)


def structure(tree: PyTree, is_leaf: IsLeaf | None = None) -> TreeDef:
    """The structure of a tree."""
    return flatten(tree, is_leaf)[1]


def exact(treedef: TreeDef) -> Hashable:
    """A structure as a cache key that distinguishes what Python compares as equal: dictionary keys
    such as 1, True and 1.0, and the static parts of containers.

    Example:
        >>> one, true = structure({1: 0.0}), structure({True: 0.0})
        >>> one == true, exact(one) == exact(true)
        (True, False)
    """
    if not _is_ambiguous(treedef):
        return treedef
    text = repr(treedef)  # with an address in it, it would tell equal structures apart
    return treedef if " at 0x" in text else (treedef, text)


@lru_cache(maxsize=1024)
def _is_ambiguous(treedef: TreeDef) -> bool:
    """Whether a structure may equal one with keys or static parts of other types.

    Equal structures have the same answer, so that a cache by equality is right.
    """
    kind = treedef.type
    if kind is None:
        return False
    if issubclass(kind, dict):
        if any([isinstance(key, _EQUAL_KINDS) for key in treedef.entries()]):
            return True
    elif kind not in (list, tuple, type(None)) and not is_named_tuple(kind):
        return True
    return any([_is_ambiguous(child) for child in treedef.children()])


# Types of which a value may equal one of another type.
_EQUAL_KINDS = (int, float, complex, np.generic, tuple, frozenset)


def map(
    fun: Callable[..., PyTree],
    tree: PyTree,
    *rest: PyTree,
    is_leaf: IsLeaf | None = None,
) -> PyTree:
    """Apply `fun` to the corresponding leaves of trees of one structure.

    Example:
        >>> map(lambda p, g: p - g, {"w": 3.0}, {"w": 1.0})
        {'w': 2.0}
    """
    first, treedef = flatten(tree, is_leaf)
    others = [treedef.flatten_up_to(other) for other in rest]
    return treedef.unflatten([fun(*xs) for xs in zip(first, *others, strict=True)])


def tuple_of(*treedefs: TreeDef) -> TreeDef:
    """The structure of a tuple whose items have the given structures."""
    return optree.treespec_tuple(treedefs, namespace=NAMESPACE)


def is_leaf(x: object) -> bool:
    """Whether a value is a leaf: neither a container nor None."""
    return compiled.is_leaf(x, None, False, NAMESPACE)


def children(x: object) -> list[PyTree]:
    """The children of a container, one level down."""
    numbers = count()
    return leaves(x, lambda _node: next(numbers) > 0)


def paths(tree: PyTree) -> list[str]:
    """A readable path for each leaf, such as `['w'][0]`."""
    accessors = optree.tree_accessors(tree, namespace=NAMESPACE)
    return [accessor.codify("") for accessor in accessors]


def all(tree: PyTree) -> bool:
    """Whether all leaves are true."""
    return not any(not leaf for leaf in leaves(tree))


def reduce(fun: Callable[[PyTree, PyTree], PyTree], tree: PyTree, initial: object) -> PyTree:
    """Fold the leaves from the left, starting with `initial`."""
    total = initial
    for leaf in leaves(tree):
        total = fun(total, leaf)
    return total


def transpose(outer: TreeDef, inner: TreeDef | None, tree: PyTree) -> PyTree:
    """Turn an `outer` tree of `inner` trees into an `inner` tree of `outer` trees.

    If `inner` is None, it is taken from the inner trees, which must have one structure in common.

    Example:
        >>> transpose(structure((0, 0)), None, ({"a": 1, "b": 2}, {"a": 3, "b": 4}))
        {'a': (1, 3), 'b': (2, 4)}
    """
    if inner is None:
        parts = outer.flatten_up_to(tree)
        if not parts:
            raise ArgumentError("tree.transpose: an empty outer tree does not say what is inside.")
        inner = structure(parts[0])
    return optree.tree_transpose(outer, inner, tree)


def broadcast_prefix(
    prefix: object,
    tree: PyTree,
    is_leaf: IsLeaf | None = None,
    none_is_leaf: bool = True,
) -> list[PyTree]:
    """The leaves of `prefix`, each repeated for all leaves of `tree` below it."""
    return optree.broadcast_prefix(
        prefix, tree, is_leaf, none_is_leaf=none_is_leaf, namespace=NAMESPACE
    )


def register_node(
    cls: type,
    flatten_func: Callable[[Any], tuple[Iterable[PyTree], object]],
    unflatten_func: Callable[[PyTree, PyTree], PyTree],
) -> type:
    """Make a class a container: `flatten_func(x) -> (children, static)` and its inverse
    `unflatten_func(static, children)`, as in JAX."""
    optree.register_pytree_node(cls, flatten_func, unflatten_func, namespace=NAMESPACE)
    _REGISTERED.add(cls)
    return cls


_REGISTERED: set[type] = set()


def is_named_tuple(kind: object) -> bool:
    """Whether a class is a named tuple whose items are its children: it was not registered."""
    named = isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")
    return named and kind not in _REGISTERED


def dataclass(cls: type) -> type:
    """Class decorator: a dataclass whose fields are children of the tree.

    Example:
        >>> @dataclass
        ... class Params:
        ...     w: float
        ...     b: float
        >>> leaves(Params(1.0, 2.0))
        [1.0, 2.0]
    """
    return optree_dataclasses.dataclass(cls, namespace=NAMESPACE)
