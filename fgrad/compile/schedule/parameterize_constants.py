"""L5. Pass `parameterize_constants`: merge kernels that differ only in constants.

    y = sin(x) * 1.5 + 0.0                  y = sin(x) * 1.5 + c[0]      c = [0.0]
    z = sin(y) * 1.5 + 0.25        ->       z = sin(y) * 1.5 + c[0]      c = [0.25]

A Python loop whose steps differ in a time or a rate then compiles one step.  Requires kernels that
are not scheduled yet.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fgrad.compile.kernel.ir import Affine, Buffer, Const, Kernel, Load, Statement
from fgrad.compile.tasks.steps import KernelStep, Step
from fgrad.ir.aval import Aval
from fgrad.ir.program import Program, Var


def parameterize_constants(program: Program, steps: Sequence[Step]) -> tuple[Program, list[Step]]:
    """The steps with shared kernels, and the program with their numbers as constants."""
    families: dict[Kernel, list[int]] = {}
    known: dict[int, list[int]] = {}  # of kernels that are one object: not compared at length
    for k, step in enumerate(steps):
        if isinstance(step, KernelStep):
            family = known.get(id(step.kernel))
            if family is None:
                family = families.setdefault(_skeleton(step.kernel), [])
                known[id(step.kernel)] = family
            family.append(k)
    out, consts = list(steps), list(program.consts)
    for members in families.values():
        kernels = [out[k].kernel for k in members]  # type: ignore[union-attr]
        if len({id(kernel): kernel for kernel in kernels}) > 1 and len(set(kernels)) > 1:
            numbers = [_numbers(kernel) for kernel in kernels]
            places = [
                p for p, xs in enumerate(zip(*numbers, strict=True)) if len({*map(repr, xs)}) > 1
            ]
            for k, own in zip(members, numbers, strict=True):
                step = out[k]
                assert isinstance(step, KernelStep)
                out[k] = _reading(step, places, own, consts)
    return program.replace(consts=tuple(consts)), out


def _skeleton(kernel: Kernel) -> Kernel:
    """The kernel without its floating-point numbers."""
    body = tuple([s._replace(value=0.0) if _is_number(s) else s for s in kernel.body])
    return kernel._replace(body=body)


def _is_number(s: Statement) -> bool:
    return type(s) is Const and s.dtype.kind == "f"


def _numbers(kernel: Kernel) -> list[Const]:
    return [s for s in kernel.body if type(s) is Const and s.dtype.kind == "f"]


def _reading(
    step: KernelStep,
    places: Sequence[int],
    numbers: Sequence[Const],
    consts: list[tuple[Var, np.ndarray]],
) -> KernelStep:
    """The step with the numbers at `places` read from a constant, one for each dtype."""
    loads: dict[int, Load] = {}
    buffers: dict[np.dtype, tuple[str, list[float]]] = {}
    for p in places:
        id, value, dtype = numbers[p]
        name, values = buffers.setdefault(dtype, (f"c{len(buffers)}", []))
        loads[id] = Load(id, name, Affine(len(values)))
        values.append(value)  # type: ignore[arg-type]
    args, added = list(step.args), []
    for dtype, (name, values) in buffers.items():
        array = np.array(values, dtype)
        var = Var(Aval(array.shape, dtype))
        consts.append((var, array))
        args.append(var)
        added.append(Buffer(name, dtype, len(values), "in"))
    kernel = step.kernel
    used = len(step.args)
    body = tuple([loads.get(s.id, s) if type(s) is Const else s for s in kernel.body])
    ordered = (*kernel.buffers[:used], *added, *kernel.buffers[used:])
    return KernelStep(kernel._replace(buffers=ordered, body=body), tuple(args))
