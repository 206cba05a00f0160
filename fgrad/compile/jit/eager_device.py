"""L5. NumPy and Python on arrays of a device: each primitive is a program of one equation.

    x + 1      add[broadcast] of two arrays on the device of x, compiled once for these types

What the operators, methods and functions mean is said once, for tracers: here their arguments are
lifted, and their results lowered.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.base.source import here, resolve
from fgrad.compile.backend import on_host
from fgrad.compile.jit.call import call_p, computed, executable_of
from fgrad.config import config
from fgrad.errors import InPlaceError
from fgrad.ir.aval import Aval
from fgrad.ir.primitive import Primitive
from fgrad.ir.program import Eqn, Params, Program, Var
from fgrad.ops import primitives as prims
from fgrad.ops.families import BROADCAST
from fgrad.trace import Tracer
from fgrad.tracing.assign import immutable
from fgrad.tracing.device_tracing import (
    compute_on_device,
    evaluate_on_device,
    lift,
    lift_tree,
    pinned_to,
    results_of,
    through,
)
from fgrad.tracing.on_device import OnDevice, device_among, put
from fgrad.tracing.tables import essentials
from fgrad.tracing.thread_state import THREAD
from fgrad.typing import EqnParams, PyTree

KEPT_PROGRAMS = 4096


# Primitives.


class Operand(NamedTuple):
    """How an operand enters a program: as it is, or one number that is repeated to a shape."""

    shape: tuple[int, ...]
    dtype: np.dtype
    repeated: bool = False


_PROGRAMS: dict[Hashable, Program] = {}


def evaluate(prim: Primitive, operands: Sequence[Any], params: EqnParams, device: str) -> PyTree:
    """The results of a primitive, on the device that the programs in it are for, else on this."""
    pinned = pinned_to(params) if prim.multiple else None
    if pinned is not None and on_host(pinned):
        return prim.evaluate_rule(*_on_host(operands), **params)
    if config.nans:  # where the first one is made is found on the host
        prim.evaluate_rule(*_on_host(operands), **params)
    return compute(prim, operands, params, pinned or device_among(operands) or device)


def compute(prim: Primitive, operands: Sequence[Any], params: EqnParams, device: str) -> PyTree:
    """The results of a primitive, on a device."""
    if prim is call_p:
        return tuple(run_on_device(params["program"], operands, device))
    same = _same_memory(prim, operands, params)
    if same is not None:
        return same
    if prim is prims.slice and all([step == 1 for step in params["step"]]):
        prim, operands, params = _dynamic(operands[0], **params)
    shape = next((x.shape for x in operands if getattr(x, "shape", ())), ())
    forms = [_form(prim, x, shape) for x in operands]
    program = _program(prim, tuple([form for form, _ in forms]), params)
    results = run_on_device(program, [x for _, x in forms], device)
    return results if prim.multiple else results[0]


def _on_host(operands: Sequence[Any]) -> list[Any]:
    return [x.numpy()[()] if isinstance(x, OnDevice) else x for x in operands]


def run_on_device(
    program: Program, arguments: Sequence[Any], device: str, donated: tuple[int, ...] = ()
) -> list[Any]:
    """The results of a program; arguments are copied to the memory of the device."""
    if on_host(device):
        return list(computed(program, _on_host(arguments), device, donated))
    executable = None if donated else program.known(device)
    if executable is None:
        executable = executable_of(program, None, device, donated)
    for x in arguments:
        if not isinstance(x, OnDevice):
            arguments = _all_put(program, arguments, device)
            break
        if x.given_away:
            x.require()
    return executable(arguments)


def _all_put(program: Program, arguments: Sequence[Any], device: str) -> list[OnDevice]:
    """The arguments of a program, all of them on the device."""
    arrays = [
        x if isinstance(x, OnDevice) else put(x, device, var.aval.dtype)
        for x, var in zip(arguments, program.inputs, strict=True)
    ]
    for x in arrays:
        x.require()
    return arrays


def _same_memory(prim: Primitive, operands: Sequence[Any], params: EqnParams) -> PyTree:
    """A result that needs no kernel: rows of an array, or another shape of it."""
    x: object = operands[0] if len(operands) == 1 else None
    if not isinstance(x, OnDevice):
        return None
    if prim is prims.reshape:
        return x.reshaped(params["shape"])
    if prim is prims.convert and params["dtype"] == x.dtype:
        return x
    if prim is prims.index and params["ints"]:
        ints = params["ints"]
        place = int(np.ravel_multi_index(ints, x.shape[: len(ints)]))
        rest = x.shape[len(ints) :]
        rows = x.reshaped((math.prod(x.shape[: len(ints)]), *rest))
        return rows.rows(place, place + 1).reshaped(rest)
    if prim is prims.slice and x.shape:
        start, stop, step = params["start"], params["stop"], params["step"]
        whole = not any(start[1:]) and stop[1:] == x.shape[1:]
        if whole and step == (1,) * x.ndim and stop[0] > start[0]:
            return x.rows(start[0], stop[0])
    return None


def _dynamic(
    x: object, start: tuple[int, ...], stop: tuple[int, ...], step: tuple[int, ...]
) -> tuple[Primitive, Sequence[Any], EqnParams]:
    """x[start:stop] with its start as operands, so that all parts of one size are one program."""
    starts = [np.int64(k) for k in start]
    return prims.dynamic_slice, [x, *starts], {"sizes": tuple(map(operator.sub, stop, start))}


def _form(prim: Primitive, x: object, shape: tuple[int, ...]) -> tuple[Operand, object]:
    """How an operand enters a program, and what is put on the device for it."""
    if isinstance(x, OnDevice):
        repeated = bool(shape and not x.shape and prim.scalar is not None)
        return Operand(shape if repeated else x.shape, x.dtype, repeated), x
    if isinstance(x, np.ndarray) and x.ndim:
        if any(x.strides) or x.size <= 1:
            return Operand(x.shape, x.dtype), x
        return Operand(x.shape, x.dtype, repeated=True), x[(0,) * x.ndim]
    scalar = np.asarray(x)[()]
    repeated = bool(shape and prim.scalar is not None)
    return Operand(shape if repeated else (), scalar.dtype, repeated), scalar


def _program(prim: Primitive, forms: tuple[Operand, ...], params: EqnParams) -> Program:
    """The program of a primitive for operands of these forms, made once."""
    content = Params(params).content
    key = config.epoch, prim, forms, content
    found = _PROGRAMS.get(key)
    if found is None:
        if len(_PROGRAMS) >= KEPT_PROGRAMS:
            _PROGRAMS.clear()
        found = _PROGRAMS[key] = _made(prim, forms, params)
    return found


def _made(prim: Primitive, forms: Sequence[Operand], params: EqnParams) -> Program:
    loc = resolve(THREAD.state.loc or here())
    inputs: list[Var] = []
    eqns: list[Eqn] = []
    atoms: list[Var] = []
    for form in forms:
        var = Var(Aval(() if form.repeated else form.shape, form.dtype))
        inputs.append(var)
        if form.repeated:
            repeat = Params({"shape": form.shape, "dims": ()})
            whole = Var(Aval(form.shape, form.dtype))
            eqns.append(Eqn(BROADCAST, (var,), repeat, (whole,), loc))
            var = whole
        atoms.append(var)
    avals = prim.type_of(*[atom.aval for atom in atoms], **params)
    outs = tuple([Var(aval.strong()) for aval in (avals if prim.multiple else (avals,))])
    eqns.append(Eqn(prim, tuple(atoms), Params(params), outs, loc))
    return Program(prim.name, tuple(inputs), (), tuple(eqns), outs)


evaluate_on_device.provide(evaluate)
compute_on_device.provide(compute)


# Operators, methods and functions.


def _method(name: str) -> Callable[..., object]:
    """A method of tracers, as one of arrays on a device."""
    traced = getattr(Tracer, name)

    def method(self: OnDevice, *args: PyTree, **kwargs: PyTree) -> PyTree:
        given = [lift_tree(x) for x in args]
        return results_of(
            traced(lift(self), *given, **{k: lift_tree(x) for k, x in kwargs.items()}), self.device
        )

    method.__name__ = name
    method.__doc__ = getattr(traced, "__doc__", None)
    return method


def _property(name: str) -> property:
    traced = getattr(Tracer, name)
    return property(lambda self: through(self.device, traced.fget, (self,)), doc=traced.__doc__)


def _object_property(name: str) -> property:
    traced = getattr(Tracer, name)
    return property(lambda self: _Through(traced.fget(lift(self)), self.device), doc=traced.__doc__)


class _Through:
    """An object of tracers, whose methods take arrays on a device and give them back."""

    def __init__(self, inner: PyTree, device: str) -> None:
        self._inner, self._device = inner, device

    def __getitem__(self, index: PyTree) -> PyTree:
        found = self._inner[lift_tree(index)]
        is_result = type(found) is Tracer
        return results_of(found, self._device) if is_result else _Through(found, self._device)

    def __len__(self) -> int:
        return len(self._inner)

    def __getattr__(self, name: str) -> Callable[..., object]:
        function = getattr(self._inner, name)

        def method(*args: PyTree, **kwargs: PyTree) -> PyTree:
            return through(self._device, function, args, kwargs)

        return method


def _getitem(self: OnDevice, index: PyTree) -> PyTree:
    """x[index]; a row, or several one after the other, share the memory of `x`."""
    if self.shape:
        kind = type(index)
        if kind is int and -self.shape[0] <= index < self.shape[0]:
            k = index % self.shape[0]
            return self.rows(k, k + 1).reshaped(self.shape[1:])
        if kind is slice:
            start, stop, step = index.indices(self.shape[0])
            if step == 1:
                return self.rows(start, max(start, stop))
    return _GENERAL_ITEM(self, index)


def _refuse_writing(self: OnDevice, *_args: object, **_kwargs: object) -> None:
    raise immutable(self.aval)


def _refuse_output(self: OnDevice, kwargs: Mapping[str, PyTree]) -> None:
    """Raise if a result is to be written over an array, here or on the host."""
    out = kwargs.get("out")
    if out is None:
        return
    if any([isinstance(o, OnDevice) for o in (out if isinstance(out, tuple) else (out,))]):
        raise immutable(self.aval)
    loc = resolve(here())
    raise InPlaceError(
        "A result of the GPU was to be written over an array in the memory of the host.",
        (
            ("value", f"{self.aval}"),
            ("used", f"{loc}:  {loc.text()}"),
            ("write", "y += fgrad.device_get(x)     a copy, after all work before it"),
            ("write", "y = y + x                    a new array, on the GPU"),
        ),
    )


def _array_ufunc(
    self: OnDevice, ufunc: np.ufunc, method: str, *inputs: PyTree, **kwargs: PyTree
) -> PyTree:
    if method == "at":
        raise immutable(self.aval)
    _refuse_output(self, kwargs)
    given = [lift_tree(x) for x in inputs]
    named = {k: lift_tree(x) for k, x in kwargs.items()}
    out = Tracer.__array_ufunc__(lift(self), ufunc, method, *given, **named)
    return results_of(out, self.device)


def _array_function(
    self: OnDevice,
    func: Callable[..., PyTree],
    types: object,
    args: Sequence[PyTree],
    kwargs: Mapping[str, PyTree],
) -> PyTree:
    _refuse_output(self, kwargs)
    given = tuple([lift_tree(x) for x in args])
    named = {k: lift_tree(x) for k, x in kwargs.items()}
    out = Tracer.__array_function__(lift(self), func, (Tracer,), given, named)
    return results_of(out, self.device)


def _scalar(function: Callable[[np.ndarray], object]) -> Callable[[OnDevice], object]:
    """What needs the number: it is copied to the host."""
    return lambda self: function(self.numpy())


def _length(self: OnDevice) -> int:
    if not self.shape:
        raise TypeError("len() of an array of shape ()")
    return self.shape[0]


def _rows(self: OnDevice) -> object:
    if not self.shape:
        raise TypeError("iteration over an array of shape ()")
    return iter([_getitem(self, k) for k in range(self.shape[0])])


BINARY = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "divmod", "matmul", "and", "or",
    "xor", "lshift", "rshift",
)  # fmt: skip
OTHERS = (
    "eq", "ne", "lt", "le", "gt", "ge", "neg", "abs", "pos", "invert", "round", "floor", "ceil",
    "trunc", "contains",
)  # fmt: skip
METHODS = (
    "sum", "mean", "prod", "max", "min", "any", "all", "var", "std", "ptp", "dot", "astype",
    "reshape", "transpose", "ravel", "flatten", "copy", "take", "argmax", "argmin", "argsort",
    "argpartition", "choose", "clip", "cumprod", "cumsum", "diagonal", "nonzero", "repeat", "round",
    "searchsorted", "squeeze", "swapaxes", "trace", "compress", "conj", "conjugate", "view",
    "tobytes", "tofile",
)  # fmt: skip
PROPERTIES = ("T", "mT", "real", "imag")
WRITING = ("__setitem__", "__delitem__", "fill", "put", "sort", "partition")
_NUMBERS: dict[str, Callable[[np.ndarray], object]] = {
    "__bool__": bool,
    "__float__": float,
    "__int__": int,
    "__complex__": complex,
    "__index__": operator.index,
}
essentials.call()  # tracers have their methods now
_GENERAL_ITEM = _method("__getitem__")


def install() -> None:
    """Give arrays on devices what NumPy's arrays have."""
    names = [f"__{prefix}{name}__" for name in BINARY for prefix in ("", "r")]
    names += [*[f"__{name}__" for name in OTHERS], *METHODS]
    table: dict[str, object] = {name: _method(name) for name in names}
    table |= {name: _property(name) for name in PROPERTIES}
    table |= dict.fromkeys(WRITING, _refuse_writing)
    table |= {name: _scalar(function) for name, function in _NUMBERS.items()}
    table |= {
        "__getitem__": _getitem,
        "__len__": _length,
        "__iter__": _rows,
        "__format__": lambda self, spec: format(self.numpy()[()], spec) if spec else repr(self),
        "__array_ufunc__": _array_ufunc,
        "__array_function__": _array_function,
        "__array_namespace__": Tracer.__array_namespace__,  # type: ignore[attr-defined]
        "__array_priority__": Tracer.__array_priority__,
        **{name: _object_property(name) for name in ("at", "flat")},
        "item": lambda self, *args: self.numpy().item(*args),
        "tolist": lambda self: self.numpy().tolist(),
    }
    for name, member in table.items():
        setattr(OnDevice, name, member)


install()
