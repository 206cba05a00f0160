"""L5. `call`: a compiled function used inside a trace; its derived programs are compiled too.

    y = call[program=P] x                        one native call when evaluated
    jvp       y, s = call[program=P.jvp] x, t
    vjp       y, r = call[program=P.forward] x   while the trace is recorded, keeping residuals
              ct_x = call[program=P.backward] r, ct
    batch     [y] = call[program=P.batched] [x]

The derived programs are made once and kept with P, so `grad(jit(f))` and `vmap(jit(f))` run
native code.  A call of `jit(f, device=...)` has the device as a parameter, and so have its derived
calls: they run there, also where their operands are elsewhere.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fgrad import tree
from fgrad.base.gc_policy import collector_paused
from fgrad.base.lazy_import import lazy_module
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.system import Locked
from fgrad.compile.backend import BACKENDS, RunnableOnHost
from fgrad.compile.entry.native import NativeCallable, NativeCalls, native_class
from fgrad.config import config
from fgrad.errors import UnsupportedTypeError
from fgrad.ir import traits
from fgrad.ir.aval import Aval, is_wide
from fgrad.ir.primitive import Primitive
from fgrad.ir.program import Program
from fgrad.ir.traits import Holds
from fgrad.ir.walk import subprograms
from fgrad.ops.families import FLOATS
from fgrad.ops.selected import Selected, Tangent
from fgrad.trace import Value, bind, run
from fgrad.tracing.device_tracing import follows
from fgrad.tracing.on_device import HOST
from fgrad.typing import EqnParams

if TYPE_CHECKING:
    from fgrad.compile import pipeline
    from fgrad.compile.jit import native as learning
    from fgrad.compile.tasks.plan import Donation
    from fgrad.compile.tasks.runnable import Runnable
    from fgrad.transforms.core import derived_programs as derived
else:
    learning = lazy_module("fgrad.compile.jit.native")
    derived = lazy_module("fgrad.transforms.core.derived_programs")
    pipeline = lazy_module("fgrad.compile.pipeline")  # not needed for programs in the cache

call_p = Primitive("call", traits.holding(Holds.CALL), params=("program", "name"), multiple=True)

_COMPILER = Locked()


@call_p.type_rule
def _(*_avals: Aval, program: Program, name: str, device: str | None = None) -> tuple[Aval, ...]:
    return tuple([aval.strong() for aval in program.out_avals])


def executable_of(
    program: Program,
    args: Sequence[object] | None = None,
    device: str = HOST,
    donated: tuple[Donation, ...] = (),
) -> Any:
    """The compiled form of a program for a device, made once; see `compile_program`."""
    key = _key(device, donated)
    found = program.known(key)
    if found is None:
        with _COMPILER.lock:  # a thread that waited here finds what the other one made
            found = program.derived(key, lambda: _compiled(program, args, device, donated))
    return found


def _key(device: str, donated: tuple[Donation, ...]) -> Hashable:
    return (device, donated) if donated else device


def keep_executable(
    program: Program, executable: Runnable, device: str, donated: tuple[Donation, ...]
) -> None:
    """Let a program have a compiled form that is known already."""
    program.derived(_key(device, donated), lambda: executable)


def _compiled(
    program: Program, args: Sequence[object] | None, device: str, donated: tuple[Donation, ...]
) -> Runnable:
    """The compiled form from the disk cache, or else from the compiler."""

    def compile_now() -> Runnable:
        refuse_wide(program)
        return pipeline.compile_program(program, args, device, donated).executable

    with collector_paused():
        return BACKENDS[device].stored(program, donated, compile_now)


def refuse_wide(program: Program) -> None:
    """Raise where numbers are wider than 64 bits, which no kernel has.

    Raises:
        UnsupportedTypeError: with the line where the first of them is.
    """
    atoms = [(None, c[0] if isinstance(c, tuple) else c) for c in program.consts]
    atoms += [(eqn, x) for p in subprograms(program) for eqn in p.eqns for x in eqn.inputs]
    for eqn, x in atoms:
        if is_wide(x.aval.dtype):
            used = () if eqn is None or eqn.loc is None else (
                ("used", f"{eqn.loc}:  {eqn.loc.text()}"),)  # fmt: skip
            raise UnsupportedTypeError(
                f"Compiled code has no numbers of dtype {x.aval.dtype}.",
                (*used, ("write", "x.astype(np.float64)    before the function is compiled")),
            )


@native_class
class FlatCall(NativeCallable):
    """A compiled program as a function of arrays and scalars that returns a tuple."""

    __slots__ = ("executable", "native", "program")

    def __init__(self, program: Program, executable: RunnableOnHost) -> None:
        self.program = program
        self.executable = executable
        self.native = NativeCalls()

    def __call__(self, *operands: Value) -> tuple[Value, ...]:
        avals = self.program.in_avals
        if self.native.wants(self.executable):
            treedef = tree.structure((operands, {}))
            results = tree.structure(tuple(self.program.outputs))
            parameters = learning.Parameters(operands, {}, treedef, {}, avals)
            learning.learn(self.native, self, parameters, self.program, self.executable, results)
        return tuple(computed(self.program, operands))


@call_p.evaluate
@follows(call_p)
def _(
    *operands: Value, program: Program, name: str, device: str | None = None
) -> tuple[Value, ...]:
    def flat() -> FlatCall:
        arrays = [contiguous(x, v.dtype) for x, v in zip(operands, program.in_avals, strict=True)]
        return FlatCall(program, executable_of(program, arrays))

    if config.nans:
        return tuple(computed(program, operands))
    return program.derived("flat", flat)(*operands)


def computed(
    program: Program,
    operands: Sequence[Any],
    device: str = HOST,
    donated: tuple[Donation, ...] = (),
) -> Sequence[Value]:
    """The results of a program for arrays and scalars on the host.

    While `debug.nans` watches, its equations are evaluated one by one instead.
    """
    arrays = [contiguous(x, v.dtype) for x, v in zip(operands, program.in_avals, strict=True)]
    if config.nans:
        return run(program, arrays)
    return executable_of(program, arrays, device, donated)(arrays)


def contiguous(x: object, dtype: np.dtype) -> np.ndarray:
    """`x` as the C-contiguous native array that compiled code reads."""
    if type(x) is np.ndarray and x.flags.c_contiguous and x.dtype is dtype:
        return x
    return np.asarray(x, dtype, order="C")


def call(
    program: Program, operands: Sequence[Value], device: str | None = None
) -> tuple[Value, ...]:
    """Apply a program, on a device if one is named: an equation of the present trace, or native
    code at once."""
    pinned = {} if device is None else {"device": device}
    return bind(call_p, *operands, program=program, name=program.name, **pinned)


# --- derivatives and batching


@call_p.jvp
def _(
    primals: Sequence[Value], tangents: Sequence[Tangent], _outs: object, *,
    program: Program, name: str, device: str | None = None, saved: Saved | None = None,
) -> tuple[Tangent, ...]:  # fmt: skip
    """The tangents of the results, by the derived program without its primal outputs."""
    return derived.push_program(program, primals, tangents, lambda p, xs: call(p, xs, device))


class Saved(NamedTuple):
    """What the forward program of a call left for its pullback."""

    programs: derived.VjpPrograms
    mask: tuple[bool, ...]
    residuals: tuple[Value, ...]


def _forward(
    values: Sequence[Value], mask: Sequence[bool], program: Program, device: str | None
) -> tuple[tuple[Value, ...], Saved]:
    """The results by the forward program, and what its pullback by the operands in `mask` needs."""
    inexact = [aval.dtype.kind in FLOATS for aval in program.in_avals]
    wanted = tuple([bool(m and x) for m, x in zip(mask, inexact, strict=True)])
    programs = derived.vjp_programs(program, wanted)
    outs = call(programs.forward, values, device)
    return outs[: programs.results], Saved(programs, wanted, outs[programs.results :])


def _save(
    values: Sequence[Value], traced: Sequence[bool], params: EqnParams
) -> tuple[tuple[Value, ...], Saved]:
    return _forward(values, traced, params["program"], params.get("device"))


def _pullback(
    cts: Sequence[Tangent],
    wanted: Sequence[bool],
    values: Sequence[Value | Aval],
    _outs: object,
    params: EqnParams,
) -> list[Tangent]:
    """The cotangents of the wanted operands, by the backward program.

    Only an operand that enters linearly has no value here; no derivative reads it, so zeros stand
    in for it.
    """
    program: Program = params["program"]
    device: str | None = params.get("device")
    saved: Saved | None = params.get("saved")
    if saved is None or not derived.covers(saved.mask, wanted):
        both = zip(values, program.in_avals, strict=True)
        known = [derived.zeros_of(a) if isinstance(v, Aval) else v for v, a in both]
        saved = _forward(known, wanted, program, device)[1]
    programs, residuals = saved.programs, saved.residuals
    given = [ct for ct, take in zip(cts, programs.takes, strict=True) if take]

    def apply(program: Program, operands: Sequence[Value]) -> Sequence[Value]:
        return call(program, operands, device)

    if any([ct is None or type(ct) is Selected for ct in given]):
        # The backward program is linear in the cotangents, so its jvp along them, at cotangents of
        # zero, is its result; the jvp can leave out zeros and take `Selected` cotangents.
        zeros = [derived.zeros_of(aval) for aval in programs.backward.in_avals[len(residuals) :]]
        tangents = [*[None] * len(residuals), *given]
        primals = [*residuals, *zeros]
        pulled = iter(derived.push_program(programs.backward, primals, tangents, apply))
    else:
        operands = [*residuals, *given]
        found = apply(programs.backward, operands)
        pulled = iter(
            derived.with_supports(found, programs.kinds, lambda: apply(programs.supports, operands))
        )
    return [next(pulled) if m else None for m in saved.mask]


call_p.save = _save
call_p.pullback = _pullback
call_p.selects = True
call_p.refuse("transpose", "is transposed by its backward program")


@call_p.batch
def _(
    size: int, operands: Sequence[Value], dims: Sequence[int | None], *,
    program: Program, name: str, device: str | None = None, saved: Saved | None = None,
) -> tuple[tuple[Value, ...], tuple[int | None, ...]]:  # fmt: skip
    batched = derived.batched_program(program, size, tuple(dims))
    return call(batched.program, operands, device), batched.dims
