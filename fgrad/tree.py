"""L0. Pytrees: nested containers of arrays, flattened by `optree`; `None` is an empty tree.

Register dataclasses with `fgrad.tree.dataclass` and other classes with `register_node`.  The
package loads a process's tenth of everything, 12 ms; what all programs use is its compiled part.

Arguments:
    tree, trees, rest: nested dictionaries, lists, tuples, dataclasses, registered nodes of arrays.
    is_leaf: a function of a subtree that says whether it is to be taken for a leaf.
    treedef, treedefs: structures, as `structure` and `flatten` return them.
"""

from __future__ import annotations

import builtins
import functools
import math
from collections.abc import Callable, Hashable, Iterable
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from fgrad.base.keywords import also_takes
from fgrad.base.lazy_import import lazy_extension, lazy_module, lazy_names
from fgrad.base.tree_classes import LEAVES, NAMESPACE, forget, recognize
from fgrad.errors import ArgumentError, UnsupportedTypeError
from fgrad.typing import PyTree, T

if TYPE_CHECKING:
    from typing import dataclass_transform

    from optree import PyTreeSpec

    from fgrad.base.tree_nodes import Partial as Partial
    from fgrad.base.tree_nodes import register_dataclass as register_dataclass
    from fgrad.base.tree_nodes import register_node_class as register_node_class
    from fgrad.base.tree_nodes import register_node_with_keys as register_node_with_keys
    from fgrad.base.tree_nodes import register_static as register_static
    from fgrad.base.tree_paths import DictKey as DictKey
    from fgrad.base.tree_paths import FlattenedIndexKey as FlattenedIndexKey
    from fgrad.base.tree_paths import GetAttrKey as GetAttrKey
    from fgrad.base.tree_paths import SequenceKey as SequenceKey
    from fgrad.base.tree_paths import flatten_with_path as flatten_with_path
    from fgrad.base.tree_paths import keystr as keystr
    from fgrad.base.tree_paths import leaves_with_path as leaves_with_path
    from fgrad.base.tree_paths import map_with_path as map_with_path
else:

    def dataclass_transform() -> Callable[[T], T]:
        """What type checkers know of dataclasses; `typing` has it from Python 3.11 on."""
        return lambda function: function


__all__ = [
    "DictKey",
    "FlattenedIndexKey",
    "GetAttrKey",
    "Partial",
    "SequenceKey",
    "all",
    "broadcast",
    "broadcast_prefix",
    "combine",
    "dataclass",
    "flatten",
    "flatten_with_path",
    "is_leaf",
    "keystr",
    "leaves",
    "leaves_with_path",
    "map",
    "map_with_path",
    "partition",
    "paths",
    "ravel",
    "reduce",
    "register_dataclass",
    "register_node",
    "register_node_class",
    "register_node_with_keys",
    "register_static",
    "structure",
    "transpose",
    "unflatten",
]

compiled = lazy_extension("optree._C")
optree = lazy_module("optree")
optree_dataclasses = lazy_module("optree.dataclasses")

TreeDef: TypeAlias = "PyTreeSpec"
IsLeaf: TypeAlias = Callable[[Any], bool]


__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "fgrad.base.tree_nodes": (
            "Partial",
            "register_dataclass",
            "register_node_class",
            "register_node_with_keys",
            "register_static",
        ),
        "fgrad.base.tree_paths": (
            "DictKey",
            "FlattenedIndexKey",
            "GetAttrKey",
            "SequenceKey",
            "flatten_with_path",
            "keystr",
            "leaves_with_path",
            "map_with_path",
        ),
    },
)


def flatten(tree: PyTree, is_leaf: IsLeaf | None = None) -> tuple[list[Any], TreeDef]:
    """The leaves of a tree and its structure.

    Example:
        >>> leaves, treedef = flatten({"b": 2.0, "a": (1.0, None)})
        >>> leaves
        [1.0, 2.0]
        >>> unflatten(treedef, leaves)
        {'b': 2.0, 'a': (1.0, None)}
    """
    found = compiled.flatten(tree, is_leaf, False, NAMESPACE)
    if LEAVES.issuperset(builtins.map(type, found[0])) or not recognize(found[0]):
        return found
    return flatten(tree, is_leaf)


def unflatten(treedef: TreeDef, leaves: Iterable[object]) -> PyTree:
    """The tree with structure `treedef` and the given leaves.

    Example:
        >>> unflatten(structure((0, [0])), [1.0, 2.0])
        (1.0, [2.0])
    """
    if treedef is leaf():
        (only,) = leaves
        return only
    return treedef.unflatten(leaves)


def leaves(tree: PyTree, is_leaf: IsLeaf | None = None) -> list[Any]:
    """The leaves of a tree, in order.

    Example:
        >>> leaves({'b': 2.0, 'a': (1.0, None)})
        [1.0, 2.0]
    """
    return flatten(tree, is_leaf)[0]


@functools.lru_cache(maxsize=1)
def leaf() -> TreeDef:
    """The structure of a tree that is one leaf."""
    return structure(0)


def structure(tree: PyTree, is_leaf: IsLeaf | None = None) -> TreeDef:
    """The structure of a tree.

    Example:
        >>> structure((1.0, 2.0)) == structure((3.0, 4.0))
        True
    """
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


@functools.lru_cache(maxsize=1024)
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

    Arguments:
        fun: a function of as many leaves as there are trees.

    Returns:
        The tree of its results.

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
    """Whether a value is a leaf: neither a container nor None.

    Arguments:
        x: any object.

    Example:
        >>> is_leaf(1.0), is_leaf([1.0]), is_leaf(None)
        (True, False, False)
    """
    return compiled.is_leaf(x, None, False, NAMESPACE) and not recognize((x,))


def children(x: object) -> list[PyTree]:
    """The children of a container, one level down."""
    recognize((x,))
    numbers = count()
    return leaves(x, lambda _node: next(numbers) > 0)


def paths(tree: PyTree) -> list[str]:
    """A readable path for each leaf, such as `['w'][0]`.

    Example:
        >>> paths({'w': [1.0, 2.0]})
        ["['w'][0]", "['w'][1]"]
    """
    flatten(tree)  # registers what it has
    accessors = optree.tree_accessors(tree, namespace=NAMESPACE)
    return [accessor.codify("") for accessor in accessors]


@also_takes(is_leaf=None)
def all(tree: PyTree) -> bool:
    """Whether all leaves are true.

    Example:
        >>> all({'a': True, 'b': [1, 0]})
        False
    """
    return not any(not leaf for leaf in leaves(tree))


_FIRST = object()


@also_takes(aliases={"function": "fun", "initializer": "initial"})
def reduce(
    fun: Callable[[PyTree, PyTree], PyTree],
    tree: PyTree,
    initial: object = _FIRST,
    is_leaf: IsLeaf | None = None,
) -> PyTree:
    """Fold the leaves from the left, starting with `initial`, or with the first leaf.

    Arguments:
        fun: a function of the result so far and a leaf.

    Raises:
        ArgumentError: an empty tree without `initial`.

    Example:
        >>> reduce(lambda a, b: a + b, {"a": 1.0, "b": (2.0, 3.0)})
        6.0
    """
    found = leaves(tree, is_leaf)
    if initial is not _FIRST:
        found = [initial, *found]
    if not found:
        raise ArgumentError("tree.reduce: an empty tree needs an initial value.")
    return functools.reduce(fun, found)


@also_takes(
    aliases={"outer_treedef": "outer", "inner_treedef": "inner", "pytree_to_transpose": "tree"}
)
def transpose(outer: TreeDef, inner: TreeDef | None, tree: PyTree) -> PyTree:
    """Turn an `outer` tree of `inner` trees into an `inner` tree of `outer` trees.

    If `inner` is None, it is taken from the inner trees, which must have one structure in common.

    Raises:
        ArgumentError: `outer` is empty and `inner` is not given.

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
    """The leaves of `prefix`, each repeated for all leaves of `tree` below it.

    Arguments:
        prefix: a tree that ends where `tree` goes on.
        none_is_leaf: whether None in the prefix is a leaf.

    Example:
        >>> broadcast_prefix({'a': 0, 'b': 1}, {'a': [2.0, 3.0], 'b': 4.0})
        [0, 0, 1]
    """
    flatten(tree, is_leaf)  # registers what it has
    return optree.broadcast_prefix(
        prefix, tree, is_leaf, none_is_leaf=none_is_leaf, namespace=NAMESPACE
    )


@also_takes(aliases={"prefix_tree": "prefix", "full_tree": "tree"})
def broadcast(prefix: object, tree: PyTree, is_leaf: IsLeaf | None = None) -> PyTree:
    """`prefix` with each of its leaves repeated below, so that it has the structure of `tree`.

    Example:
        >>> broadcast({"a": 0, "b": 1}, {"a": (5.0, 6.0), "b": 7.0})
        {'a': (0, 0), 'b': 1}
    """
    return structure(tree, is_leaf).unflatten(broadcast_prefix(prefix, tree, is_leaf, False))


def partition(tree: PyTree, wanted: PyTree, is_leaf: IsLeaf | None = None) -> tuple[PyTree, PyTree]:
    """Two trees of the same form: one with the leaves that are wanted, one with the others; None
    stands in the place of a leaf that went to the other one.

    Arguments:
        tree: a tree.
        wanted: a function of a leaf, or a tree of bools that is a prefix of `tree`.
        is_leaf: what else is a leaf.

    Example:
        >>> params = {"w": 1.0, "steps": 3}
        >>> trained, fixed = partition(params, lambda x: isinstance(x, float))
        >>> trained, fixed, combine(trained, fixed)
        ({'w': 1.0, 'steps': None}, {'w': None, 'steps': 3}, {'w': 1.0, 'steps': 3})
    """
    found, treedef = flatten(tree, is_leaf)
    if callable(wanted):
        chosen = [bool(wanted(x)) for x in found]
    else:
        chosen = broadcast_prefix(wanted, tree, is_leaf, False)
    pairs = list(zip(found, chosen, strict=True))
    first = treedef.unflatten([x if c else None for x, c in pairs])
    return first, treedef.unflatten([None if c else x for x, c in pairs])


def combine(*trees: PyTree) -> PyTree:
    """One tree out of those that `partition` gave: in each place the first that is not None.

    Example:
        >>> moving, fixed = partition({'w': 1.0, 'b': 2.0}, {'w': True, 'b': False})
        >>> combine(moving, fixed)
        {'w': 1.0, 'b': 2.0}
    """
    flatten(trees)  # registers what they have
    return optree.tree_map(_first_given, *trees, none_is_leaf=True, namespace=NAMESPACE)


def _first_given(*xs: PyTree) -> PyTree:
    return next((x for x in xs if x is not None), None)


def ravel(tree: PyTree) -> tuple[PyTree, Callable[[PyTree], PyTree]]:
    """All leaves in one vector, and the function that makes the tree of such a vector.

    The vector has the dtype that holds all leaves; the function gives each leaf its own back.

    Raises:
        UnsupportedTypeError: a leaf is no number and no array of numbers.
        ArgumentError: the function is given a vector of another length, or none.

    Example:
        >>> vector, unravel = ravel({"w": np.ones((2, 2)), "b": 3.0})
        >>> vector
        array([3., 1., 1., 1., 1.])
        >>> unravel(2 * vector)["b"]
        np.float64(6.0)
    """
    found, treedef = flatten(tree)
    found = [x if hasattr(x, "dtype") else np.asarray(x) for x in found]
    for x in found:
        if x.dtype.kind in "OSU":
            raise UnsupportedTypeError(f"tree.ravel takes a tree of numbers, not of {x!r}.")
    shapes, dtypes = [x.shape for x in found], [x.dtype for x in found]
    dtype = np.result_type(*dtypes) if dtypes else np.dtype(np.float64)
    parts = [np.ravel(x).astype(dtype) for x in found]
    vector: PyTree = np.concatenate(parts) if parts else np.zeros(0)
    ends = [int(n) for n in np.cumsum([math.prod(s) for s in shapes])]

    def unravel(flat: PyTree) -> PyTree:
        shape = getattr(flat, "shape", None)
        if shape != vector.shape:
            what = type(flat).__name__ if shape is None else shape
            raise ArgumentError(f"unravel takes shape {vector.shape}, not {what}.")
        rows = zip([0, *ends], ends, shapes, dtypes, strict=False)
        return treedef.unflatten(
            [_as(flat[a:b].reshape(shape), kind)[()] for a, b, shape, kind in rows]
        )

    return vector, unravel


def _as(x: PyTree, dtype: np.dtype) -> PyTree:
    """`x` in a dtype; a real one takes the real part, as the tree had no other."""
    if x.dtype.kind == "c" and dtype.kind != "c":
        x = np.real(x)
    return x.astype(dtype)


def register_node(
    cls: type,
    flatten_func: Callable[[Any], tuple[Iterable[PyTree], object]],
    unflatten_func: Callable[[PyTree, PyTree], PyTree],
) -> type:
    """Make a class a container: `flatten_func(x) -> (children, static)` and its inverse
    `unflatten_func(static, children)`, as in JAX.

    Arguments:
        cls: the class.

    Returns:
        The class.

    Example:
        >>> class Pair:
        ...     def __init__(self, a, b):
        ...         self.a, self.b = a, b
        >>> _ = register_node(Pair, lambda p: ((p.a, p.b), None), lambda _, items: Pair(*items))
        >>> leaves(Pair(1.0, 2.0))
        [1.0, 2.0]
    """
    forget(cls)
    optree.register_pytree_node(cls, flatten_func, unflatten_func, namespace=NAMESPACE)
    _REGISTERED.add(cls)
    return cls


_REGISTERED: set[type] = set()


def is_named_tuple(kind: object) -> bool:
    """Whether a class is a named tuple whose items are its children: it was not registered."""
    named = isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")
    return named and kind not in _REGISTERED


@dataclass_transform()
def dataclass(cls: type[T]) -> type[T]:
    """Class decorator: a dataclass whose fields are children of the tree.

    Arguments:
        cls: a class with annotated fields.

    Example:
        >>> @dataclass
        ... class Params:
        ...     w: float
        ...     b: float
        >>> leaves(Params(1.0, 2.0))
        [1.0, 2.0]
    """
    forget(cls)
    return optree_dataclasses.dataclass(cls, namespace=NAMESPACE)
