"""L0. Classes that are containers without being registered: dataclasses, those of attrs, models of
pydantic. Each is registered when the first object of it is met.

    Layer(w=x, name="dense")   ->   children (x,), static ("dense",), rebuilt without `__init__`

Fields are children but for those marked as static. An object is rebuilt from its fields alone:
converters and validators saw the user's arrays, and would refuse what stands for them. What
`__init__` computes besides could be out of date then, so such objects are refused.
"""

from __future__ import annotations

import copyreg
import dataclasses
import functools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NoReturn
from weakref import WeakSet

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.base.named_tuple import NamedTuple
from fgrad.errors import ArgumentError
from fgrad.typing import PyTree

optree = lazy_module("optree")

NAMESPACE = "fgrad"  # in which classes are registered as containers

# Types of leaves that need no look at their class.
LEAVES: set[type] = {np.ndarray, int, float, complex, bool, str, np.float64, np.float32, np.int64}
_SEEN: WeakSet[type] = WeakSet()  # no other needs one again
_REGISTERED: WeakSet[type] = WeakSet()  # those of them that are registered here

_MADE_BY_PYTHON = 1 << 9  # the flag of types that a class statement makes
_KNOWN = ("fgrad", "numpy")  # packages whose classes register themselves

# What has one of these is an array, whatever else it is.
_ARRAYS = ("__array__", "__array_interface__", "__array_ufunc__", "__dlpack__", "__jax_array__")


class Form(NamedTuple):
    """How objects of a class are taken apart: names of children, of static parts, and the maker."""

    data: tuple[str, ...]
    static: tuple[str, ...]
    make: Callable[[Mapping[str, PyTree]], PyTree]


def recognize(leaves: Iterable[PyTree]) -> bool:
    """Register the classes of these leaves that are containers; whether there was one."""
    found = False
    for kind, x in {type(x): x for x in leaves}.items():
        if kind in LEAVES or kind in _SEEN:
            continue
        if not kind.__flags__ & _MADE_BY_PYTHON or kind.__module__.split(".")[0] in _KNOWN:
            LEAVES.add(kind)
            continue
        _SEEN.add(kind)
        form = form_of(kind)
        if form is not None and optree.tree_is_leaf(x, namespace=NAMESPACE):  # not by `is_leaf`
            _register(kind, form)
            found = True
    return found


def form_of(kind: type) -> Form | None:
    """The form of a class that is known without being registered."""
    if any([hasattr(kind, name) for name in _ARRAYS]):
        return None
    if hasattr(kind, "__dataclass_fields__"):
        return _fields_form(kind, dataclasses.fields(kind))
    if hasattr(kind, "__attrs_attrs__"):
        return _fields_form(kind, kind.__attrs_attrs__)
    pydantic = sys.modules.get("pydantic")
    model = getattr(pydantic, "BaseModel", None)
    return _model_form(kind) if isinstance(model, type) and issubclass(kind, model) else None


def computed_fields(kind: type) -> tuple[str, ...]:
    """The fields of a dataclass or class of attrs that its `__init__` computes."""
    if hasattr(kind, "__dataclass_fields__"):
        return tuple([f.name for f in dataclasses.fields(kind) if not f.init])
    return tuple([f.name for f in getattr(kind, "__attrs_attrs__", ()) if not f.init])


def is_static(metadata: Mapping[PyTree, PyTree]) -> bool:
    """Whether the metadata of a field say that it is no child."""
    return bool(metadata.get("static", False)) or not metadata.get("pytree_node", True)


def static_values(x: PyTree, names: Iterable[str]) -> tuple[PyTree, ...]:
    """The static fields of an object, which are compared and hashed with its structure."""
    values = tuple([getattr(x, name) for name in names])
    try:
        hash(values)
    except TypeError:
        _refuse_static(x, dict(zip(names, values, strict=True)))
    return values


def _refuse_static(x: PyTree, values: Mapping[str, PyTree]) -> NoReturn:
    name, value = next((n, v) for n, v in values.items() if not _is_hashable(v))
    kind = type(x).__name__
    raise ArgumentError(
        f"The static field {name} of {kind} cannot be hashed.",
        (
            ("value", f"it is a {type(value).__name__}"),
            ("why", "static fields are part of the structure, which is a key of caches."),
            ("write", f"{name} without static=True in its metadata, if it is an array"),
            ("write", "a tuple for a list, a frozen dataclass for a dictionary"),
        ),
    )


def _is_hashable(x: PyTree) -> bool:
    try:
        hash(x)
    except TypeError:
        return False
    return True


def _fields_form(kind: type, fields: Sequence[PyTree]) -> Form | None:
    """The form of a class whose fields have `name`, `init` and `metadata`."""
    try:
        object.__new__(kind)
    except TypeError:  # a list or an exception with fields, which has more than these
        return None
    if computed_fields(kind):
        return None
    static = tuple([f.name for f in fields if is_static(f.metadata)])
    data = tuple([f.name for f in fields if f.name not in static])

    def make(values: Mapping[str, PyTree]) -> PyTree:
        made = object.__new__(kind)
        for name, value in values.items():
            object.__setattr__(made, name, value)
        return made

    return Form(data, static, make)


def _model_form(kind: PyTree) -> Form | None:
    """The form of a model of pydantic 2, whose static fields have `json_schema_extra`."""
    fields = getattr(kind, "model_fields", None)
    if fields is None:
        return None
    extras = {name: field.json_schema_extra for name, field in fields.items()}
    static = tuple(
        [n for n, extra in extras.items() if isinstance(extra, dict) and is_static(extra)]
    )
    private = dict.fromkeys(kind.__private_attributes__)

    def make(values: Mapping[str, PyTree]) -> PyTree:
        made = kind.__new__(kind)
        made.__setstate__(
            {
                "__dict__": dict(values),
                "__pydantic_fields_set__": set(values),
                "__pydantic_extra__": {} if kind.model_config.get("extra") == "allow" else None,
                "__pydantic_private__": private or None,
            }
        )
        return made

    return Form(tuple([n for n in fields if n not in static]), static, make)


def forget(kind: type) -> None:
    """Let a class be registered by its user, whatever it was taken for before."""
    _SEEN.add(kind)
    if kind in _REGISTERED:
        _REGISTERED.discard(kind)
        optree.unregister_pytree_node(kind, namespace=NAMESPACE)


def _register(kind: type, form: Form) -> None:
    names = (*form.data, *form.static)

    def flatten(x: PyTree) -> tuple[PyTree, ...]:
        _refuse_more(x, names)
        children = [getattr(x, name) for name in form.data]
        return children, static_values(x, form.static), form.data

    def unflatten(static: PyTree, children: Iterable[PyTree]) -> PyTree:
        return form.make(dict(zip(names, (*children, *static), strict=True)))

    entries = optree.GetAttrEntry
    optree.register_pytree_node(
        kind, flatten, unflatten, path_entry_type=entries, namespace=NAMESPACE
    )
    _REGISTERED.add(kind)
    copyreg.pickle(optree.PyTreeSpec, _reduce)


def _reduce(treedef: PyTree) -> tuple[PyTree, ...]:
    """A structure for `pickle`: the process that reads it may not have met its classes."""
    make, args, state = treedef.__reduce_ex__(2)
    kinds = tuple([kind for kind in _kinds(treedef) if kind in _REGISTERED])
    return (_restored, (kinds, make, args, state)) if kinds else (make, args, state)


def _kinds(treedef: PyTree) -> set[type]:
    """The classes of the containers of a structure."""
    if treedef.is_leaf():
        return set()
    return {treedef.type}.union(*[_kinds(child) for child in treedef.children()])


def _restored(
    kinds: Iterable[type], make: Callable[..., PyTree], args: tuple[PyTree, ...], state: PyTree
) -> PyTree:
    """A structure as it was pickled, whose classes are registered first."""
    for kind in kinds:
        form = None if kind in _SEEN else form_of(kind)
        _SEEN.add(kind)
        if form is not None:
            _register(kind, form)
    treedef = make(*args)
    treedef.__setstate__(state)
    return treedef


def _refuse_more(x: PyTree, names: Sequence[str]) -> None:
    """Refuse an object with attributes that are no fields, which would be lost."""
    kind = type(x)
    more = {**getattr(x, "__dict__", {}), **(getattr(x, "__pydantic_extra__", None) or {})}
    more.update(getattr(x, "__pydantic_private__", None) or {})
    lost = [
        name
        for name in more
        if name not in names
        and not isinstance(getattr(kind, name, None), functools.cached_property)
    ]
    if not lost:
        return
    raise ArgumentError(
        f"{kind.__name__} has an attribute {lost[0]} in this object, which is no field.",
        (
            ("why", "the object is rebuilt from its fields, and the attribute would be lost."),
            ("write", f"{lost[0]} as a field, or as a property that computes it"),
            ("write", f"fgrad.tree.register_node({kind.__name__}, flatten, unflatten)"),
        ),
    )
