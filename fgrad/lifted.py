"""L2. Arrays on a device in traces: as tracers of a builder that encloses all others.

    lift(x)      a tracer whose equations are evaluated on the device at once
    lower(y)     the array behind such a tracer; anything else as it is

What a trace evaluates, it evaluates in the context that encloses it: where a value is a tracer of
the outermost builder, that is the device.  So no transform knows of devices.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from fgrad import tree
from fgrad.ir.primitive import Primitive
from fgrad.on_device import OnDevice, bind_hook, put, put_hook
from fgrad.trace import Builder, Tracer, Value, bind

F = TypeVar("F", bound=Callable[..., Any])

# (primitive, operands, params) -> results, all of them on the device; filled by the compiler.
evaluate_hook: list[Callable[[Primitive, Sequence[Any], dict[str, Any]], Any]] = []


class DeviceBuilder(Builder):
    """The outermost context of a thread: it records nothing, and evaluates on the device."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("device", "device", eager=False)
        self.thread = threading.get_ident()
        self.live = True

    def record(self, prim: Primitive, operands: Sequence[Any], params: dict[str, Any]) -> Any:
        """Evaluate an equation on the device."""
        values = [x.value if type(x) is Tracer else x for x in operands]
        results = evaluate_hook[0](prim, values, params)
        if prim.multiple:
            return tuple([lift(x) for x in results])
        return lift(results)

    def snapshot(self, x: np.ndarray) -> np.ndarray:
        """A constant is read at once."""
        return x


class _Here(threading.local):
    """The outermost context of this thread."""

    def __init__(self) -> None:
        self.builder = DeviceBuilder()


_HERE = _Here()


def lift(x: Any) -> Any:
    """An array on the device as a tracer, the same one for as long as it lives; else `x` itself."""
    if not isinstance(x, OnDevice):
        return x
    known = x.lifted
    tracer = None if known is None else known()
    if tracer is None or tracer.builder is not _HERE.builder:
        tracer = Tracer(_HERE.builder, 0, x, None)
        x.lifted = weakref.ref(tracer)
    return tracer


def is_lifted(x: Any) -> bool:
    """Whether a value is a tracer that stands for an array on the device."""
    return type(x) is Tracer and type(x.builder) is DeviceBuilder


def lower(x: Value) -> Any:
    """The array on the device behind a tracer, if that is all that it stands for."""
    return x.value if type(x) is Tracer and type(x.builder) is DeviceBuilder else x


def bind_lifted(prim: Primitive, operands: Sequence[Any], params: dict[str, Any]) -> Any:
    """`bind` where arrays on a device are among the operands."""
    out = bind(prim, *[lift(x) for x in operands], **params)
    if any([type(x) is Tracer for x in operands]):
        return out
    return tuple([lower(x) for x in out]) if prim.multiple else lower(out)


bind_hook.append(bind_lifted)


def beside(x: Value, other: Value) -> Value:
    """A value in the memory that another one is in."""
    plain = isinstance(x, (np.ndarray, np.generic))
    return lift(put(x)) if plain and is_lifted(other) else x


def lift_tree(x: Any) -> Any:
    """A tree with all arrays on the device lifted."""
    if isinstance(x, OnDevice):
        return lift(x)
    return tree.map(lift, x) if isinstance(x, (list, tuple, dict)) else x


def results_of(out: Any) -> Any:
    """Results as the caller sees them: on the device, whatever is an array."""
    if type(out) is Tracer:
        return lower(out)
    if isinstance(out, np.ndarray):
        return put(out)
    return tree.map(results_of, out) if isinstance(out, (list, tuple, dict)) else out


def has_device(values: Iterable[Any]) -> bool:
    """Whether an array on a device is among the values, or in lists and tuples in them."""
    return bool(put_hook) and any(
        [isinstance(x, OnDevice) or (type(x) in (list, tuple) and has_device(x)) for x in values]
    )


def through(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any] | None = None
) -> Any:
    """What a function of tracers makes of arrays on a device."""
    named = {k: lift_tree(x) for k, x in kwargs.items()} if kwargs else {}
    return results_of(function(*[lift_tree(x) for x in args], **named))


def lowered(function: F) -> F:
    """Decorator: a function whose results the user sees."""

    def outer(*args: Any, **kwargs: Any) -> Any:
        out = function(*args, **kwargs)
        if type(out) is Tracer:
            return lower(out)
        return tree.map(lower, out) if put_hook else out

    return functools.update_wrapper(outer, function)  # type: ignore[return-value]
