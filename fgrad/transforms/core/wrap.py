"""L4. User functions of pytrees <-> functions of flat lists of values."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np

from fgrad import tree
from fgrad.base.foreign import holds_array, native_order, plain_array, refuse_foreign
from fgrad.base.kinds import is_any, is_array, is_scalar, is_tuple_like
from fgrad.base.pickling import Transformed, label_of
from fgrad.base.tree_classes import computed_fields
from fgrad.errors import ArgumentError, GradDtypeError, UnsupportedTypeError
from fgrad.ir.aval import PYTHON_SCALARS, Aval, is_numeric
from fgrad.trace import Builder, Tracer, Value
from fgrad.tracing.assign import lying_as
from fgrad.tracing.device_tracing import lift, lower
from fgrad.tracing.on_device import OnDevice
from fgrad.typing import P, PyTree, R

PLAIN = frozenset({np.ndarray, Tracer, float, int, np.float64, np.float32, bool})


def flatten(x: PyTree) -> tuple[list[PyTree], tree.TreeDef]:
    """The leaves and structure of a tree; a plain array takes a short way."""
    if type(x) in PLAIN:
        return [x], tree.leaf()
    return tree.flatten(x)


def as_value(x: object, what: str = "an argument") -> PyTree:
    """A leaf as an array, NumPy scalar or tracer of native byte order.

    Raises:
        UnsupportedTypeError: for objects, strings, dates and other non-numbers.
    """
    if isinstance(x, Tracer):
        return x
    weak = PYTHON_SCALARS.get(type(x))
    if weak is not None:
        try:
            return weak.type(x)
        except OverflowError:
            raise UnsupportedTypeError(
                f"The Python integer {what} does not fit into 64 bits."
            ) from None
    if is_any(x, (np.ndarray, np.generic)):
        array: PyTree = x
    else:
        if isinstance(x, OnDevice):
            return lift(x)
        if not holds_array(x):
            raise unsupported_type(x, what)
        array = plain_array(x, what)
    if not is_numeric(array.dtype):
        raise unsupported_type(array, what)
    array = native_order(array)
    if type(array) is not np.ndarray and is_array(array):
        refuse_foreign(array, what)
        return np.asarray(array)
    return array


def unsupported_type(x: object, what: str) -> UnsupportedTypeError:
    """The card for a leaf that is not an array of numbers."""
    if is_small(getattr(x, "dtype", None)):
        headline = f"{what[:1].upper()}{what[1:]} has numbers of dtype {getattr(x, 'dtype', '')}."
        return UnsupportedTypeError(headline, SMALL_NUMBERS)
    kind = f"{type(x).__module__}.{type(x).__qualname__}".removeprefix("builtins.")
    numbers = x if is_array(x) or is_scalar(x) else None
    dtype = "" if numbers is None else f" of dtype {numbers.dtype}"
    convert = ("write", "convert it first:      np.asarray(x, dtype=np.float64)")
    return UnsupportedTypeError(
        f"fgrad traces arrays of numbers, but {what} is a {kind}{dtype}.",
        (
            ("why", "only bool, integer, float and complex arrays can be traced and compiled."),
            *dataclass_advice(x, what),
            *(() if numbers is None else (convert,)),
            ("write", "mark it as constant:   jit(f, static_argnums=...), or close over it"),
        ),
    )


def is_small(dtype: object) -> bool:
    """Whether a dtype is one of ml_dtypes'; asked of those that are not traced."""
    return getattr(getattr(dtype, "type", None), "__module__", "") == "ml_dtypes"


SMALL_NUMBERS = (
    ("why", "it has no zero, or one bit; of 8 bits and less the others of ml_dtypes are traced."),
    ("write", "f(x.astype(np.float32))      converted outside of the function"),
    (
        "write",
        "lambda w: f(w, x.astype(np.float32))      or inside, of an array that is closed over",
    ),
)


def dataclass_advice(x: object, where: str) -> tuple[tuple[str, str], ...]:
    """The row of a card about an object with fields, or about what is in a field."""
    kind, name = type(x), type(x).__name__
    if computed_fields(kind):
        text = f"@fgrad.tree.register_dataclass above class {name}: its __init__ makes"
        return (("write", f"{text} {computed_fields(kind)[0]} again"),)
    if dataclasses.is_dataclass(kind):
        return (("write", f"fgrad.tree.register_node({name}, flatten, unflatten)"),)
    if "." in where:
        text = "dataclasses.field(metadata={'static': True}) for a field that is no array"
        return (("write", text),)
    return ()


def as_values(
    leaves: Sequence[object],
    fun: Callable[..., PyTree],
    args: Sequence[PyTree],
    kwargs: dict[str, PyTree],
) -> list[Value]:
    """The leaves of `(args, kwargs)` as values; a card says which of them is no array."""
    name = function_name(fun)
    return converted(
        lambda x, what: as_value(x, f"{what} of {name}"),
        leaves,
        lambda: argument_names(fun, args, kwargs),
    )


def converted(
    convert: Callable[[PyTree, str], Value],
    leaves: Sequence[object],
    names: Callable[[], list[str]],
) -> list[Value]:
    """`convert(x, "an argument")` of each leaf; if one is refused, again, by its name."""
    try:
        return [convert(x, "an argument") for x in leaves]
    except (UnsupportedTypeError, GradDtypeError):
        pass
    return [convert(x, f"the argument {name}") for x, name in zip(leaves, names(), strict=True)]


def argument_names(
    fun: Callable[..., PyTree], args: Sequence[PyTree], kwargs: dict[str, PyTree]
) -> list[str]:
    """How each leaf of the arguments is reached: `params['w']`."""
    try:
        kinds = inspect.signature(fun).parameters.values()
        parameters = [p.name for p in kinds if p.kind is not inspect.Parameter.VAR_POSITIONAL]
    except (TypeError, ValueError):
        parameters = []
    heads = [*parameters, *[f"args[{k}]" for k in range(len(parameters), len(args))]]
    parts = [*zip(heads, args, strict=False), *sorted((kwargs or {}).items())]
    return [head + path for head, x in parts for path in tree.paths(x)]


def is_weak(x: object) -> bool:
    """Whether a leaf is a Python scalar, or a tracer that stands for one."""
    return x.weak if isinstance(x, (Tracer, Aval)) else type(x) in PYTHON_SCALARS


function_name = label_of


def named_like(wrapper: Callable[P, R], fun: Callable[..., PyTree], prefix: str) -> Transformed:
    """A wrapper as users get it: with the name and documentation of the function it transforms,
    and errors without frames of fgrad."""
    return Transformed(wrapper, fun, f"{prefix}({label_of(fun)})")


def check_callable(fun: Callable[..., PyTree], transform: str) -> None:
    """Refuse what cannot be called."""
    if not callable(fun):
        raise ArgumentError(f"{transform} takes a function, not {type(fun).__name__}.")


def normal_argnums(argnums: int | Sequence[int], count: int, transform: str) -> tuple[int, ...]:
    """Positions of arguments, counted from the front and checked."""
    given = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for i in given:
        if not is_any(i, (int, np.integer)):
            raise ArgumentError(f"{transform}: argnums must be integers, not {i!r}.")
        if not -count <= i < count:
            raise ArgumentError(
                f"{transform}: argnums={i}, but the function was called with {count} "
                f"positional argument{'s' * (count != 1)}."
            )
    normal = tuple(int(i) % count for i in given)
    if len(set(normal)) != len(normal):
        raise ArgumentError(f"{transform}: argnums {given} name one argument twice.")
    return normal


def outside(builder: Builder, x: Value) -> Value:
    """A result as the enclosing context sees it."""
    if isinstance(x, Tracer):
        inner = builder.lift(x)
        value = lying_as(inner, inner.value)
        # A handle of its own: later assignments to the result must not reach what is recorded.
        return value.handle() if isinstance(value, Tracer) else value
    return x


def outside_tree(builder: Builder, x: PyTree, given: Collection[int] = ()) -> PyTree:
    """A tree of results as the enclosing context sees it, apart from the arrays `given`."""
    leaves, treedef = flatten(x)
    taken = {*given, *ids_of([leaf for leaf in leaves if not isinstance(leaf, Tracer)])}
    return tree.unflatten(treedef, own_each([outside(builder, leaf) for leaf in leaves], taken))


def writable_result(x: Value) -> Value:
    """A result that the caller may write into: a copy if it is a view, or read-only."""
    if type(x) is np.ndarray:
        if not x.shape:
            return x[()]
        if x.base is not None or not x.flags.writeable:
            return x.copy()
        return x
    return lower(x)


def own(x: Value, given: Collection[int]) -> Value:
    """A result that shares no memory with the arrays whose ids are `given`: the caller's own."""
    x = writable_result(x)
    if id(x) not in given:
        return x
    return x.twin() if isinstance(x, Tracer) else x.copy()


def own_each(xs: Iterable[Value], given: Collection[int]) -> list[Value]:
    """Results that share no memory with what is given, nor with each other."""
    taken, results = set(given), list[Value]()
    for x in xs:
        results.append(own(x, taken))
        taken |= ids_of(results[-1:])
    return results


def ids_of(values: Iterable[Value]) -> set[int]:
    """The identities of arrays, and of traced ones: an argument that is returned is a copy."""
    return {id(x) for x in values if is_array(x) or isinstance(x, Tracer)}


def split_aux(out: PyTree, transform: str) -> tuple[PyTree, PyTree]:
    """The result and the auxiliary data of a function with `has_aux=True`."""
    if not is_tuple_like(out) or len(out) != 2:
        raise ArgumentError(
            f"{transform}: with has_aux=True the function must return a pair (result, aux), "
            f"not {type(out).__name__}."
        )
    return out[0], out[1]
