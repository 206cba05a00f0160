"""L0. Classes that are containers: dataclasses, classes with keys, partial applications.

register_dataclass(Layer)       a plain dataclass, from now on a tree of its fields
Partial(f, params)              a function with some arguments, which are its children
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from fgrad.base.keywords import also_takes
from fgrad.base.lazy_import import lazy_module
from fgrad.base.tree_classes import NAMESPACE, forget, is_static, static_values
from fgrad.errors import ArgumentError
from fgrad.typing import PyTree

optree = lazy_module("optree")

C = TypeVar("C", bound=type)
Flat = tuple[Iterable[PyTree], object]


@also_takes(aliases={"nodetype": "cls"})
def register_dataclass(
    cls: C,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> C:
    """Make a dataclass that exists a container; usable as a decorator above `@dataclass`.

    Arguments:
        cls: a dataclass, or another class whose fields are listed.
        data_fields: the fields that are children.  If None, all fields of the dataclass, but for
            those whose metadata have `static=True` or `pytree_node=False`.
        meta_fields: the fields that are part of the structure: equal and hashable things.
        drop_fields: fields that are left to their defaults.

    Returns:
        The class.

    Raises:
        ArgumentError: the fields are not those of the dataclass.

    Example:
        >>> import dataclasses, fgrad
        >>> @fgrad.tree.register_dataclass
        ... @dataclasses.dataclass
        ... class Layer:
        ...     w: float
        ...     name: str = dataclasses.field(metadata={"static": True}, default="dense")
        >>> fgrad.grad(lambda layer: layer.w**2)(Layer(3.0))
        Layer(w=np.float64(6.0), name='dense')
    """
    made_of: type = cls
    data, meta = _fields(cls, data_fields, meta_fields, drop_fields)

    def flatten(x: PyTree) -> tuple[object, ...]:
        children = [getattr(x, name) for name in data]
        return children, static_values(x, meta), data

    if hasattr(cls, "__dataclass_fields__"):

        def unflatten(static: PyTree, children: Iterable[PyTree]) -> PyTree:
            given = dict(zip((*meta, *data), (*static, *children), strict=True))
            return made_of(**given)
    else:

        def unflatten(static: PyTree, children: Iterable[PyTree]) -> PyTree:
            made = object.__new__(made_of)
            for name, value in zip((*meta, *data), (*static, *children), strict=True):
                object.__setattr__(made, name, value)
            return made

    forget(cls)
    entries = optree.GetAttrEntry
    optree.register_pytree_node(
        cls, flatten, unflatten, path_entry_type=entries, namespace=NAMESPACE
    )
    return cls


def _fields(
    cls: type,
    data: Sequence[str] | None,
    meta: Sequence[str] | None,
    dropped: Sequence[str],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of children and of the fields that are part of the structure."""
    if not dataclasses.is_dataclass(cls):
        if data is None or meta is None:
            raise ArgumentError(
                f"tree.register_dataclass: {cls.__name__} is no dataclass.",
                (
                    ("write", f"@dataclasses.dataclass above class {cls.__name__}"),
                    ("write", "data_fields=[...], meta_fields=[...]"),
                ),
            )
        return tuple(data), tuple(meta)
    fields = {f.name: f for f in dataclasses.fields(cls) if f.init and f.name not in dropped}
    if data is None and meta is None:
        static = {name for name, f in fields.items() if is_static(f.metadata)}
        return tuple([n for n in fields if n not in static]), tuple(
            [n for n in fields if n in static]
        )
    data = [n for n in fields if n not in (meta or ())] if data is None else data
    meta = [n for n in fields if n not in data] if meta is None else meta
    if {*data, *meta} != {*fields} or {*data} & {*meta}:
        raise ArgumentError(
            f"tree.register_dataclass: {cls.__name__} has the fields {', '.join(fields)}.",
            (
                ("given", f"data_fields={list(data)}, meta_fields={list(meta)}"),
                ("write", "each field once; drop_fields=[...] for those left to their defaults"),
            ),
        )
    return tuple(data), tuple(meta)


def register_node_with_keys(
    cls: C,
    flatten_with_keys: Callable[[PyTree], tuple[Iterable[tuple[PyTree, PyTree]], object]],
    unflatten_func: Callable[[PyTree, PyTree], PyTree],
    flatten_func: Callable[[PyTree], Flat] | None = None,
) -> C:
    """Make a class a container whose children have keys, which `flatten_with_path` shows.

    Arguments:
        cls: the class.
        flatten_with_keys: gives `((key, child), ...)` and the static part.
        unflatten_func: its inverse, of the static part and the children.
        flatten_func: the same without keys, which JAX uses for speed; not needed.

    Returns:
        The class.

    Example:
        >>> import fgrad
        >>> class Pair:
        ...     def __init__(self, x, y):
        ...         self.x, self.y = x, y
        >>> key = fgrad.tree.GetAttrKey
        >>> cls = fgrad.tree.register_node_with_keys(
        ...     Pair, lambda p: (((key("x"), p.x), (key("y"), p.y)), None), lambda _, xs: Pair(*xs)
        ... )
        >>> [fgrad.tree.keystr(path) for path, _ in fgrad.tree.leaves_with_path([Pair(1.0, 2.0)])]
        ['[0].x', '[0].y']
    """
    del flatten_func
    forget(cls)

    def flatten(x: PyTree) -> tuple[object, ...]:
        pairs, static = flatten_with_keys(x)
        pairs = tuple(pairs)
        return [child for _, child in pairs], static, tuple([key for key, _ in pairs])

    optree.register_pytree_node(cls, flatten, unflatten_func, namespace=NAMESPACE)
    return cls


def register_node_class(cls: C) -> C:
    """Class decorator: a container by its methods `tree_flatten` and `tree_unflatten`.

    Arguments:
        cls: the class.

    Example:
        >>> import fgrad
        >>> @fgrad.tree.register_node_class
        ... class Box:
        ...     def __init__(self, x):
        ...         self.x = x
        ...     def tree_flatten(self):
        ...         return (self.x,), None
        ...     @classmethod
        ...     def tree_unflatten(cls, static, children):
        ...         return cls(*children)
        >>> fgrad.tree.leaves(Box(2.0))
        [2.0]
    """
    forget(cls)
    unflatten = cls.tree_unflatten  # type: ignore[attr-defined]
    optree.register_pytree_node(cls, lambda x: x.tree_flatten(), unflatten, namespace=NAMESPACE)
    return cls


def register_static(cls: C) -> C:
    """Class decorator: an object without children, a part of the structure; it needs `__eq__` and
    `__hash__`.

    Arguments:
        cls: the class.

    Example:
        >>> import fgrad
        >>> @fgrad.tree.register_static
        ... class Mode(str):
        ...     pass
        >>> fgrad.tree.leaves([Mode("train"), 1.0])
        [1.0]
    """
    forget(cls)
    optree.register_pytree_node(cls, lambda x: ((), x), lambda x, _: x, namespace=NAMESPACE)
    return cls


class Partial(functools.partial[PyTree]):
    """A function with some of its arguments: a container of these, the function is static.

    Example:
        >>> import fgrad
        >>> def scaled(scale, x):
        ...     return scale * x
        >>> fgrad.jit(lambda f, x: f(x))(fgrad.tree.Partial(scaled, 3.0), 2.0)
        np.float64(6.0)
    """

    __slots__ = ()


optree.register_pytree_node(
    Partial,
    lambda p: ((p.args, p.keywords), p.func),
    lambda fun, parts: Partial(fun, *parts[0], **parts[1]),
    namespace=NAMESPACE,
)
