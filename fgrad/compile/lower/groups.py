"""L5. Pass `lower`: groups of equations -> kernels and library steps.

loop group: exp, reduce_sum, broadcast, div over (rows, columns)
  parallel i in rows:
    acc s = add 0
    reduce j in columns: %0 = load x[i, j]; %1 = exp %0; store scratch[j] %1; update s %1
    %2 = read s
    parallel j in columns: %3 = load scratch[j]; %4 = div %3 %2; store y[i, j] %4
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

from fgrad.compile.kernel.affine import row_major, total
from fgrad.compile.kernel.builder import KernelBuilder
from fgrad.compile.kernel.ir import Kernel
from fgrad.compile.lower.control import control_step
from fgrad.compile.lower.group_key import content
from fgrad.compile.lower.linalg import host_step, on_host, with_flags
from fgrad.compile.lower.nest import NESTS
from fgrad.compile.lower.products import product_step
from fgrad.compile.lower.rows import lower_rows
from fgrad.compile.lower.rules import RULES
from fgrad.compile.lower.sort import sort_step, top_step
from fgrad.compile.lower.walks import is_row_walk, search_step, walk_step
from fgrad.compile.tasks.steps import AliasStep, Group, KernelStep, LibraryStep, Step
from fgrad.ir.primitive import REGISTRY, Primitive
from fgrad.ir.program import Eqn, Var
from fgrad.ir.traits import CONTROL
from fgrad.ops import primitives as prims

LIBRARY_STEPS: dict[Primitive, Callable[[Eqn, Mapping[Var, Eqn]], LibraryStep]] = {
    prims.dot_general: product_step,
    prims.product: product_step,
    prims.searchsorted: search_step,
    prims.top_k: top_step,
    **{prim: control_step for prim in REGISTRY.values() if prim.holds in CONTROL},
}

MOST_CUTS = 8  # times that a nest is written again with finer axes


def lower(groups: Sequence[Group], defined: Mapping[Var, Eqn]) -> list[Step]:
    """One step for each group that has something to compute.

    Arguments:
        groups: in an order in which each reads only what earlier ones wrote.
        defined: the equations of variables that have no buffer: every reader computes them itself.
    """
    steps: list[Step] = []
    known: dict[Hashable, tuple[Kernel, list[int]]] = {}
    for group in groups:
        if group.kind == "barrier":
            steps += _passed_on(group)
        elif group.kind in ("alias", "library"):
            if group.kind == "alias" or any([v.aval.size for v in group.outputs]):
                single = _lower_single(group, defined)
                steps += with_flags(single) if isinstance(single, LibraryStep) else [single]
        elif any([v.aval.size for v in group.outputs]):
            key, variables = content(group, defined)
            found = known.get(key)
            if found is None:
                step = _lower_kernel(group, defined)
                number = {v: k for k, v in enumerate(variables)}
                found = known[key] = step.kernel, [number[v] for v in step.args]
            kernel, args = found
            steps.append(KernelStep(kernel, tuple([variables[k] for k in args])))
    return steps


def _passed_on(group: Group) -> list[Step]:
    """The results of a barrier are its operands' buffers."""
    (eqn,) = group.eqns
    pairs = zip(eqn.inputs, eqn.outputs, strict=True)
    return [AliasStep(a, v) for a, v in pairs if v in group.outputs and isinstance(a, Var)]


def _lower_single(group: Group, defined: Mapping[Var, Eqn]) -> Step:
    """A step without a kernel."""
    if group.kind == "alias":
        (eqn,) = group.eqns
        source = eqn.inputs[0]
        assert isinstance(source, Var)
        return AliasStep(source, eqn.outputs[0])
    (eqn,) = group.eqns
    if eqn.prim is prims.sort:
        return sort_step(eqn, defined, group.outputs)
    if is_row_walk(eqn):
        return walk_step(eqn)
    step = host_step if on_host(eqn) else LIBRARY_STEPS[eqn.prim]
    return step(eqn, defined)


def _lower_kernel(group: Group, defined: Mapping[Var, Eqn]) -> KernelStep:
    inside = {v: eqn for eqn in group.eqns for v in eqn.outputs}
    domain: tuple[int, ...] | None = group.domain
    for _ in range(MOST_CUTS):
        b = KernelBuilder(inside, defined, RULES)
        if group.kind == "nest":
            (eqn,) = group.eqns
            NESTS[eqn.prim](b, eqn)
        elif group.row_vars or group.columns:
            lower_rows(b, group)
        else:
            assert domain is not None
            domain = _lower_flat(b, group.outputs, domain)
            if domain is not None:
                continue
        break
    return KernelStep(b.kernel(), tuple(b.args))


def _lower_flat(
    b: KernelBuilder, outputs: Sequence[Var], domain: tuple[int, ...]
) -> tuple[int, ...] | None:
    """parallel over the domain: store every output.

    Returns the domain with an axis cut in two if that saves divisions of indices, else None.
    """
    places = b.open_all(domain, "parallel")
    for out in outputs:
        at = b.reshaped(places, domain, out.aval.shape)
        id = b.value(out, at)
        b.store(b.buffer(out, "out"), total(places, row_major(domain)), id)
    b.close_to(0)
    for k, place in enumerate(places):
        inner = b.cuts.get(place.terms[0][0]) if place.terms else None
        if inner is not None:
            return (*domain[:k], domain[k] // inner, inner, *domain[k + 1 :])
    return None
