"""L5. Pass `update_in_place`: an array that is updated where it is read for the last time stays.

    step 7   y[...] = x[...]; y[i] = v        becomes     y is the buffer of x;  x[i] = v

So a loop that is written out costs what it writes, not a copy of the whole array in each step.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from fgrad.compile.kernel.ir import Kernel, Load, Loop, Statement, Store
from fgrad.compile.kernel.rewrite import walk
from fgrad.compile.tasks.steps import AliasStep, KernelStep, Step
from fgrad.ir.program import Program, Var


def update_in_place(program: Program, steps: Sequence[Step]) -> list[Step]:
    """The steps without the copies of arrays that nobody reads afterwards."""
    step: Step | None
    root = {s.output: s.source for s in steps if isinstance(s, AliasStep)}

    def home(var: Var) -> Var:
        while var in root:
            var = root[var]
        return var

    last: dict[Var, int] = defaultdict(lambda: -1)  # the last step that names a buffer
    for k, step in enumerate(steps):
        if not isinstance(step, AliasStep):
            last.update({home(var): k for var in step.args})
    kept = {*program.inputs, *[var for var, _ in program.consts]}
    kept |= {home(atom) for atom in program.outputs if isinstance(atom, Var)}
    done: list[Step] = []
    for k, step in enumerate(steps):
        found = _copied(step) if isinstance(step, KernelStep) else None
        if found is not None:
            assert isinstance(step, KernelStep)
            source, out = home(found[0]), found[1]
            once = [home(var) for var in step.args].count(source) == 1
            if once and source not in kept and last[source] == k:
                done.append(AliasStep(found[0], out))
                copies = _copies(step.kernel.body)
                step = None if copies else _without_copy(step, found[0], out)
                root[out] = found[0]
                last[source] = last[out]
                if out in kept:
                    kept.add(source)
        if step is not None:
            done.append(step)
    return done


def _copied(step: KernelStep) -> tuple[Var, Var] | None:
    """What a kernel copies as a whole, and perhaps writes into later, and the copy; or None."""
    body = step.kernel.body
    pair = _pair(body[0]) if body else None
    if pair is None or (not _copies(body) and not _reads_first(body[1:], pair[0].buffer)):
        return None
    load, store = pair
    args = dict(zip([b.name for b in step.kernel.buffers], step.args, strict=False))
    source, out = args.get(load.buffer), args.get(store.buffer)
    if source is None or out is None or source.aval.dtype != out.aval.dtype:
        return None
    return (source, out) if source.aval.size == out.aval.size else None


def _pair(statement: Statement) -> tuple[Load, Store] | None:
    """How a loop copies elements to the same places; None if it does anything else."""
    if not isinstance(statement, Loop):
        return None
    inside: Sequence[Statement] = statement.body
    while len(inside) == 1 and isinstance(inside[0], Loop):
        inside = inside[0].body
    if len(inside) != 2:
        return None
    load, store = inside
    if not isinstance(load, Load) or not isinstance(store, Store) or store.value != load.id:
        return None
    plain = load.index == store.index and not (load.gather or store.scatter)
    if not plain or load.predicate is not None or store.predicate is not None:
        return None
    return (load, store) if store.mode == "set" else None


def _copies(body: Sequence[Statement]) -> bool:
    """Whether a kernel copies one array, part by part, and does nothing else."""
    pairs = [_pair(statement) for statement in body]
    return len({(p[0].buffer, p[1].buffer) if p is not None else None for p in pairs}) == 1


def _reads_first(body: Sequence[Statement], source: str) -> bool:
    """Whether a kernel reads nothing of a buffer, or all that it reads before it writes once, or
    the very element that it writes."""
    found = [s for s in walk(tuple(body)) if isinstance(s, (Load, Store))]
    loads = [s for s in found if isinstance(s, Load) and s.buffer == source]
    if not loads:
        return True
    stores = [s for s in found if isinstance(s, Store)]
    if len(stores) != 1:
        return False
    (store,) = stores
    inside: Sequence[Statement] = body
    while isinstance(inside[-1], Loop) and inside[-1].extent == 1:
        inside = inside[-1].body
    if inside[-1] is store:
        return True
    same = all([s.index == store.index and not s.gather for s in loads])
    return same and not store.scatter and store.mode == "set"


def _renamed(body: Sequence[Statement], old: str, new: str) -> tuple[Statement, ...]:
    """Statements that read another buffer."""
    done: list[Statement] = []
    for s in body:
        if isinstance(s, Loop):
            s = s._replace(body=_renamed(s.body, old, new))
        elif isinstance(s, Load) and s.buffer == old:
            s = s._replace(buffer=new)
        done.append(s)
    return tuple(done)


def _without_copy(step: KernelStep, source: Var, out: Var) -> KernelStep:
    """The kernel that writes into what is there."""
    kernel, buffers, args = step.kernel, [], []
    for buffer, var in zip(kernel.buffers, step.args, strict=False):
        if var is not source:
            buffers.append(buffer._replace(role="inout") if var is out else buffer)
            args.append(var)
    private = kernel.buffers[len(step.args) :]
    names = {var: buffer.name for var, buffer in zip(step.args, kernel.buffers, strict=False)}
    body = _renamed(kernel.body[1:], names[source], names[out])
    return KernelStep(Kernel(kernel.name, (*buffers, *private), body), tuple(args))
