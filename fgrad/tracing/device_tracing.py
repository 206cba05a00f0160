"""L2. Device arrays in traces -> tracers of an outermost builder that evaluates on the device.

    lift(x)      a tracer whose equations are evaluated on the device at once
    lower(y)     the array behind such a tracer; anything else as it is

What a trace evaluates, it evaluates in the context that encloses it: where a value is a tracer of
the outermost builder, that is the device.  So no transform knows of devices.

Calls of functions that were jitted for a device name it; programs that hold them are for it too.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar

import numpy as np

from fgrad import tree
from fgrad.base.kinds import is_array, is_scalar
from fgrad.base.provided import Provided
from fgrad.base.source import resolve
from fgrad.config import config
from fgrad.errors import ArgumentError
from fgrad.ir.primitive import Primitive
from fgrad.ir.program import Eqn, Program
from fgrad.ir.walk import programs_in, subprograms
from fgrad.trace import Builder, Tracer, Value, bind
from fgrad.tracing.on_device import DEVICES, HOST, OnDevice, bind_on_device, put
from fgrad.typing import EqnParams, P, PyTree, R

F = TypeVar("F", bound=Callable[..., PyTree])

# (primitive, operands, params, device) -> results on the device; from the compiler.  The first one
# looks for what is said of the evaluation: that it is for the host, or that NaN are watched for.
Evaluation: TypeAlias = Callable[[Primitive, Sequence[PyTree], dict[str, object], str], PyTree]
evaluate_on_device: Provided[Evaluation] = Provided("fgrad.compile.jit.eager_device.evaluate")
compute_on_device: Provided[Evaluation] = Provided("fgrad.compile.jit.eager_device.compute")


class DeviceBuilder(Builder):
    """The outermost context of a thread: it records nothing, and evaluates on a device."""

    __slots__ = ("device",)

    def __init__(self, device: str) -> None:
        super().__init__("device", "device", eager=False)
        self.device = device
        self.thread = threading.get_ident()
        self.live = True

    def record(
        self, prim: Primitive, operands: Sequence[object], params: dict[str, object]
    ) -> PyTree:
        """Evaluate an equation on the device."""
        values = [x.value if type(x) is Tracer else x for x in operands]
        results = evaluate_on_device.call(prim, values, params, self.device)
        if prim.multiple:
            return tuple([lift(x) for x in results])
        return lift(results)

    def snapshot(self, x: np.ndarray) -> np.ndarray:
        """A constant is read at once."""
        return x


class _Here(threading.local):
    """The outermost contexts of this thread, by device."""

    def __init__(self) -> None:
        self.builders: dict[str, DeviceBuilder] = {}

    def of(self, device: str) -> DeviceBuilder:
        """That of a device."""
        found = self.builders.get(device)
        if found is None:
            found = self.builders[device] = DeviceBuilder(device)
        return found


_HERE = _Here()


def lift(x: PyTree) -> PyTree:
    """An array on the device as a tracer, the same one for as long as it lives; else `x` itself."""
    if not isinstance(x, OnDevice):
        return x
    known = x.lifted
    tracer = None if known is None else known()
    builder = _HERE.of(x.device)
    if tracer is None or tracer.builder is not builder:
        tracer = Tracer(builder, 0, x, None)
        x.lifted = weakref.ref(tracer)
    return tracer


def is_lifted(x: object) -> bool:
    """Whether a value is a tracer that stands for an array on the device."""
    return type(x) is Tracer and type(x.builder) is DeviceBuilder


def lower(x: PyTree) -> PyTree:
    """The device array of a lifted tracer; other values unchanged."""
    return x.value if type(x) is Tracer and type(x.builder) is DeviceBuilder else x


def bind_lifted(prim: Primitive, operands: Sequence[object], params: EqnParams) -> PyTree:
    """`bind` where arrays on a device are among the operands."""
    out = bind(prim, *[lift(x) for x in operands], **params)
    if any([type(x) is Tracer for x in operands]):
        return out
    return tuple([lower(x) for x in out]) if prim.multiple else lower(out)


bind_on_device.provide(bind_lifted)


def on_same_device(x: PyTree, other: Value) -> PyTree:
    """A value in the memory that another one is in."""
    plain = DEVICES and (is_array(x) or is_scalar(x))
    return lift(put(x, lower(other).device)) if plain and is_lifted(other) else x


def lift_tree(x: PyTree) -> PyTree:
    """A tree with all arrays on the device lifted."""
    if isinstance(x, OnDevice):
        return lift(x)
    return tree.map(lift, x) if isinstance(x, (list, tuple, dict)) else x


def results_of(out: PyTree, device: str) -> PyTree:
    """Results for the caller: arrays become arrays on a device."""
    if type(out) is Tracer:
        return lower(out)
    if is_array(out):
        return put(out, device)
    if isinstance(out, (list, tuple, dict)):
        return tree.map(functools.partial(results_of, device=device), out)
    return out


def through(
    device: str,
    function: Callable[..., object],
    args: Sequence[object],
    kwargs: Mapping[str, object] | None = None,
) -> PyTree:
    """Apply a function of tracers to arrays of a device."""
    named = {k: lift_tree(x) for k, x in kwargs.items()} if kwargs else {}
    return results_of(function(*[lift_tree(x) for x in args], **named), device)


def lowered(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator: a function whose results the user sees."""

    def outer(*args: P.args, **kwargs: P.kwargs) -> R:
        out: PyTree = function(*args, **kwargs)
        if type(out) is Tracer:
            return lower(out)
        return tree.map(lower, out) if DEVICES else out

    return functools.update_wrapper(outer, function)


# Programs for a device.


def device_of(program: Program, wanted: str | None = None) -> str | None:
    """The device that a program is for: the wanted one, or that of the calls in it.

    Raises:
        ArgumentError: there are several.
    """

    def pinned() -> list[Eqn]:
        eqns = [eqn for part in subprograms(program) for eqn in part.eqns]
        return [eqn for eqn in eqns if "device" in eqn.params]

    calls = program.derived("pinned", pinned)
    devices = {eqn.params["device"] for eqn in calls} | ({wanted} - {None})
    if len(devices) > 1:
        raise _several(program, calls, wanted)
    return next(iter(devices), None)


def _several(program: Program, calls: Sequence[Eqn], wanted: str | None) -> ArgumentError:
    """The card for functions for different devices in one program."""
    own = "" if wanted is None else f", device={wanted!r}"
    rows: list[tuple[str, str]] = []
    for eqn in calls:
        loc = "" if eqn.loc is None else f"    {resolve(eqn.loc)}"
        rows.append(("calls", f"jit({eqn.params['name']}, device={eqn.params['device']!r}){loc}"))
    return ArgumentError(
        f"jit({program.name}{own}) calls functions that were jitted for another device.",
        (
            *dict.fromkeys(rows),
            ("why", "a compiled program runs on one device, and calls in it become parts of it."),
            ("write", f"jit({program.name}) without a device: it is for the device of its calls"),
            ("write", "and the same device, or none, for the functions that it calls"),
        ),
    )


def follows(prim: Primitive) -> Callable[[F], F]:
    """Decorator of the evaluation of a primitive that holds programs: where these are for a device,
    so is the evaluation, and its results are tracers of arrays there."""

    def decorate(rule: F) -> F:
        def evaluate(*operands: Value, **params: object) -> PyTree:
            device = pinned_to(params)
            if device is None or device == HOST:
                return rule(*operands, **params)
            if config.nans and "device" in params:  # where the first one is made: on the host
                rule(*operands, **params)
            return tuple([lift(x) for x in compute_on_device.call(prim, operands, params, device)])

        return evaluate  # type: ignore[return-value]

    return decorate


def pinned_to(params: EqnParams) -> str | None:
    """The device of an equation that holds programs: its own, or that of the programs."""
    device = params.get("device")
    for program in programs_in(params) if device is None else ():
        device = device_of(program, device)
    return device
