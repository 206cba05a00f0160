"""L5. Pass `regions`: equations on a few numbers for each place of a long axis become one body.

    a: f64[n, 3] = sub x c        r = switch[branches=(body,)] 0 x c ...
    b: f64[n] = reduce_sum a      body: all of these equations, which `loops/kernel.py` writes
    ...                           as one kernel over n lanes, with `a`, `b`, ... in registers
    r: f64[n, 2, 11] = ...

Fused kernels keep in memory what is read at other places of the short axes: the Jacobian of a
function of ten numbers, for each of n points, has dozens of such arrays.  Requires nothing.

An equation belongs to the lanes of an axis if it mixes no places of it.  Those of a region have one
level, which grows wherever a value leaves the region and comes back, so that no two regions depend
on each other in a circle; equations with effects, which keep their order, have growing levels.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from fgrad.base.size_functions import most
from fgrad.compile.fuse.partition import Fusion, fuse
from fgrad.compile.loops.find_batch_axes import FEWEST_PLACES, Axis, Walk, walk_of
from fgrad.compile.loops.rules import RULES
from fgrad.compile.loops.writer import KINDS, MOST_CELLS, MOST_CODE, WIDE
from fgrad.ir.aval import INT64, Aval
from fgrad.ir.program import Atom, Eqn, Lit, Params, Program, Var
from fgrad.ir.walk import cost_of, is_ordered
from fgrad.ops import primitives as prims

REGION = "<region>"  # the name of a body, which has no regions if it is too large for a kernel
FEWEST_EQNS = 8  # of a region that move or sum along short axes
FEWEST_GROUPS = 4  # kernels that a region replaces
FEW_CELLS = 64  # of an array for each place
MOST_BODY = 0.9 * MOST_CODE / WIDE  # instructions of a region

FEW_NUMBERS = 4  # of an array whose elements are computed one by one, beside no lanes
FEWEST_SCALARS = 64  # equations on them that are a region
MOST_SCALARS = 250  # instructions of one: LLVM takes longer for each of more

NO_AXIS: Axis = (Var(Aval((1,), INT64)), 0)  # stands for the axis of equations on few numbers
Region = tuple[Axis, int, int, int]  # the class of the lanes' axes, level, part, component


def gather_regions(program: Program, fused: Callable[[Program], Fusion] = fuse) -> Program:
    """The program with each region as one equation.

    Arguments:
        fused: `fuse`, or what keeps its result for those who ask again.
    """
    short = sum([_is_short(eqn) for eqn in program.eqns])
    if program.name == REGION or (short < FEWEST_EQNS and len(program.eqns) < FEWEST_SCALARS):
        return program
    found = all_regions(program)
    worth = _worth(program, found, fused) if found else None
    return with_regions(program, worth) if worth else program


def all_regions(program: Program) -> dict[int, Region]:
    """The region of each equation that could be in one, by its number."""
    return _Search(program).regions()


def _is_short(eqn: Eqn) -> bool:
    """Whether an equation moves or sums along short axes beside a long one, so that no loop over
    all elements takes it with what reads it."""
    if eqn.prim.elementwise or eqn.prim is prims.broadcast or not eqn.outputs:
        return False
    shape = eqn.outputs[0].aval.shape
    longest = most(*shape, 0)
    return longest >= FEWEST_PLACES and eqn.outputs[0].aval.size <= FEW_CELLS * longest


class _Search:
    """Finds the regions of a program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.parent: dict[Axis, Axis] = {}
        self.walks: dict[int, Walk] = {}  # of equations that kernels of lanes can have, by number
        self.made: set[Var] = set()  # their results
        for k, eqn in enumerate(program.eqns):
            if _is_known(eqn):
                self.walks[k] = walk_of(eqn)
                self.made.update(eqn.outputs)
                for a, b in self.walks[k].kept:
                    if _is_long(a) and a[0] in self.made and b[0] in self.made:
                        self.parent[self.root(a)] = self.root(b)

    def root(self, axis: Axis) -> Axis:
        """The representative of an axis."""
        while (above := self.parent.get(axis, axis)) != axis:
            self.parent[axis] = self.parent.get(above, above)
            axis = above
        return axis

    def regions(self) -> dict[int, Region]:
        """The region of each equation that has one, by its number."""
        self._forget_double()
        levels: dict[Var, tuple[Axis | None, int, int]] = {}
        sizes: dict[Region, float] = {}
        found: dict[int, Region] = {}
        before = 0  # the level of the last equation that keeps its place among others
        for k, eqn in enumerate(self.program.eqns):
            given = [levels[a] for a in eqn.inputs if isinstance(a, Var) and a in levels]
            lanes = self.lanes_of(k, [axis for axis, _, _ in given])
            if lanes is None:
                level = max([level for _, level, _ in given], default=0)
                if is_ordered(eqn):
                    level = before = max(level, before)
                levels.update({v: (None, level, 0) for v in eqn.outputs if level})
                continue
            level = max([at if axis == lanes else at + 1 for axis, at, _ in given], default=1)
            part = max([p for axis, at, p in given if (axis, at) == (lanes, level)], default=0)
            most = MOST_SCALARS if lanes is NO_AXIS else MOST_BODY
            while sizes.get((lanes, level, part, 0), 0.0) > most:
                part += 1
            region = found[k] = (lanes, level, part, 0)
            sizes[region] = sizes.get(region, 0.0) + _size(eqn, lanes[0].aval.shape[lanes[1]])
            levels.update(dict.fromkeys(eqn.outputs, region[:3]))
        return self._connected(found)

    def _connected(self, found: Mapping[int, Region]) -> dict[int, Region]:
        """The regions with those over lanes cut into what is connected by values: their lanes are
        found again from the axes that their own equations join."""
        numbers = {
            v: k for k, eqn in enumerate(self.program.eqns) for v in eqn.outputs if k in found
        }
        first: dict[int, int] = {}

        def root(k: int) -> int:
            while (above := first.get(k, k)) != k:
                first[k] = first.get(above, above)
                k = above
            return k

        for k, region in found.items():
            for atom in self.program.eqns[k].inputs:
                n = numbers.get(atom)  # type: ignore[call-overload]
                if n is not None and found[n] == region:
                    first[root(k)] = root(n)
        return {k: (*r[:3], 0 if r[0] is NO_AXIS else root(k)) for k, r in found.items()}

    def _forget_double(self) -> None:
        """Without the classes of which an array has two axes."""
        self.double: set[Axis] = set()
        for var in self.made:
            roots = [self.root((var, k)) for k in range(var.aval.ndim) if _is_long((var, k))]
            self.double |= {r for r in roots if roots.count(r) > 1}

    def lanes_of(self, k: int, above: Sequence[Axis | None]) -> Axis | None:
        """The class of axes that are the lanes of an equation, that of an operand if possible."""
        walk, eqn = self.walks.get(k), self.program.eqns[k]
        if walk is None or _is_copied(eqn):
            return None
        mixed = {self.root(a) for a in walk.mixed if a[0] in self.made}
        mixed |= {self.root(b) for a, b in walk.kept if a in walk.mixed or b in walk.mixed}
        out = eqn.outputs[0]
        own = [self.root((out, n)) for n in range(out.aval.ndim) if _is_long((out, n))]
        fitting = [
            r for r in own
            if r not in mixed and r not in self.double and _is_narrow(eqn, walk, out, own.index(r))
        ]  # fmt: skip
        shared = [r for r in fitting if r in above]
        if not own and _is_scalar(eqn):
            return NO_AXIS
        return max(shared or fitting, key=lambda r: r[0].aval.shape[r[1]], default=None)


def _is_known(eqn: Eqn) -> bool:
    """Whether a kernel of lanes can have an equation."""
    if RULES.get(eqn.prim) is None or is_ordered(eqn) or len(eqn.outputs) != 1:
        return False
    return all([a.aval.dtype.kind in KINDS for a in (*eqn.inputs, *eqn.outputs)])


def _is_long(axis: Axis) -> bool:
    return axis[0].aval.shape[axis[1]] >= FEWEST_PLACES


def _is_copied(eqn: Eqn) -> bool:
    """Whether each region that reads a result makes it for itself: lanes repeat it."""
    if eqn.prim is prims.broadcast:
        return not any([n >= FEWEST_PLACES for n in eqn.inputs[0].aval.shape])
    return eqn.prim in (prims.iota, prims.size)


def _is_narrow(eqn: Eqn, walk: Walk, out: Var, place: int) -> bool:
    """Whether there are few elements of the result for each place of its long axes, and of operands
    that have no such axis."""
    axis = [n for n in range(out.aval.ndim) if _is_long((out, n))][place]
    if out.aval.size > FEW_CELLS * out.aval.shape[axis]:
        return False
    for k, atom in enumerate(eqn.inputs):
        if isinstance(atom, Var):
            lanes = [
                a for a, b in walk.kept if {a[0], b[0]} == {atom, out} and axis in (a[1], b[1])
            ]
            cells = atom.aval.size // (out.aval.shape[axis] if lanes else 1)
            if cells > MOST_CELLS and not (eqn.prim.addresses and not k):
                return False
    return True


def _is_scalar(eqn: Eqn) -> bool:
    """Whether an equation computes a few numbers, or moves some more."""
    size, prim = eqn.outputs[0].aval.size, eqn.prim
    read = max([a.aval.size for a in eqn.inputs], default=1)
    if prim.movement is not None:
        return size <= FEW_CELLS and (read <= MOST_CELLS or prim in (prims.index, prims.slice))
    return size <= FEW_NUMBERS and read <= FEW_CELLS and (prim.elementwise or prim.fold is not None)


def _size(eqn: Eqn, extent: int) -> float:
    """The instructions of an equation, roughly."""
    cells = max([a.aval.size for a in (*eqn.inputs, *eqn.outputs)]) // extent
    if eqn.prim.movement is not None:
        return 0.0
    if eqn.prim.contracts:
        (cx, _), x = eqn.params["contract"], eqn.inputs[0].aval
        cells = eqn.outputs[0].aval.size // extent * math.prod([x.shape[k] for k in cx])
    return 1.0 * max(cost_of(eqn), 1) * cells


# --- which are worth it


def _worth(
    program: Program, found: Mapping[int, Region], fused: Callable[[Program], Fusion]
) -> dict[int, Region]:
    """The regions whose kernels are worth it: those of many equations on few numbers, whose fused
    kernels would compute again what several read, and lanes with few reads and writes."""
    counts = Counter(found.values())
    short = Counter([r for k, r in found.items() if _is_short(program.eqns[k])])
    scalars = {r for r, n in counts.items() if r[0] is NO_AXIS and n >= FEWEST_SCALARS}
    others = {r for r, n in short.items() if r[0] is not NO_AXIS and n >= FEWEST_EQNS}
    worth = scalars | (_kept_in_registers(program, found, others, fused) if others else set())
    return {k: region for k, region in found.items() if region in worth}


def _kept_in_registers(
    program: Program,
    found: Mapping[int, Region],
    counts: Collection[Region],
    fused: Callable[[Program], Fusion],
) -> set[Region]:
    """The regions that keep more numbers in registers than they read and write as lanes."""
    numbers = {v: k for k, eqn in enumerate(program.eqns) for v in eqn.outputs}
    kept: dict[Region, int] = {}  # elements that fused kernels would keep in memory
    groups: dict[Region, int] = {}
    for group in fused(program).groups:
        # What `fuse` and `join` have made themselves is of no region.
        own = {found.get(numbers.get(e.outputs[0], -1)) for e in group.eqns if e.outputs}
        region = own.pop() if len(own) == 1 else None
        if region is not None:
            groups[region] = groups.get(region, 0) + 1
            kept[region] = kept.get(region, 0) + sum([v.aval.size for v in group.outputs])
    moved = _moved(program, found)
    return {
        region
        for region in counts
        if groups.get(region, 0) >= FEWEST_GROUPS and kept[region] >= 2 * moved.get(region, 0)
    }


def _moved(program: Program, found: Mapping[int, Region]) -> dict[Region, int]:
    """The elements that each region reads or writes, results twice."""
    home = {v: found.get(k) for k, eqn in enumerate(program.eqns) for v in eqn.outputs}
    copied = {eqn.outputs[0] for eqn in program.eqns if _is_copied(eqn)}
    given: dict[tuple[Region, Var], int] = {}
    outside = {a for a in program.outputs if isinstance(a, Var)}
    for k, eqn in enumerate(program.eqns):
        region = found.get(k)
        for atom in eqn.inputs:
            if isinstance(atom, Var) and home.get(atom) != region:
                outside.add(atom)
                if region is not None and atom not in copied:
                    given[region, atom] = min(atom.aval.size, eqn.outputs[0].aval.size)
    moved: dict[Region, int] = {}
    for (region, _), size in given.items():
        moved[region] = moved.get(region, 0) + size
    for var, region in home.items():
        if region is not None and var in outside:
            moved[region] = moved.get(region, 0) + 2 * var.aval.size
    return moved


# --- the new program


def with_regions(program: Program, found: Mapping[int, Region]) -> Program:
    """The program with each region as one equation."""
    members: dict[Region, list[Eqn]] = {}
    home: dict[Var, Region | None] = {}
    for k, eqn in enumerate(program.eqns):
        home.update(dict.fromkeys(eqn.outputs, found.get(k)))
        if k in found:
            members.setdefault(found[k], []).append(eqn)
    read = {a for a in program.outputs if isinstance(a, Var)}  # outside of their region
    for k, eqn in enumerate(program.eqns):
        read |= {a for a in eqn.inputs if isinstance(a, Var) and home.get(a) != found.get(k)}
    whole = _Bodies(program)
    units: list[Eqn] = []
    for k, eqn in enumerate(program.eqns):
        own = members.get(found[k]) if k in found else None
        if own is None:
            units.append(eqn)
        elif eqn is own[-1]:
            results = [v for e in own for v in e.outputs if v in read]
            units += [whole.equation(own, results)] if results else []
    eqns = _in_order(units)
    return program.replace(eqns=tuple(eqns), made_by="regions")


class _Bodies:
    """Makes equations of regions."""

    def __init__(self, program: Program) -> None:
        self.defined = {v: eqn for eqn in program.eqns for v in eqn.outputs}

    def equation(self, eqns: Sequence[Eqn], results: Sequence[Var]) -> Eqn:
        """These equations as one.  An array that is read with its axes in several ways is several
        inputs of the body, so that each has its own lanes."""
        env: dict[Var, Var] = {}
        inputs: dict[tuple[Var, tuple[Axis, ...]], Var] = {}
        body: list[Eqn] = []

        def operand(atom: Atom, walk: Walk) -> Atom:
            if not isinstance(atom, Var) or atom in env:
                return env.get(atom, atom)  # type: ignore[call-overload]
            made = self.defined.get(atom)
            if made is not None and _is_copied(made):
                env[atom] = copied(made)
                return env[atom]
            axes = tuple([b for a, b in walk.kept if a[0] is atom and _is_long(a)])
            return inputs.setdefault((atom, axes), Var(atom.aval))

        def copied(eqn: Eqn) -> Var:
            walk = walk_of(eqn)
            given = tuple([operand(a, walk) for a in eqn.inputs])
            outputs = tuple([Var(v.aval) for v in eqn.outputs])
            body.append(eqn._replace(inputs=given, outputs=outputs))
            return outputs[0]

        for eqn in eqns:
            env[eqn.outputs[0]] = copied(eqn)
        program = Program(
            REGION,
            tuple(inputs.values()),
            (),
            tuple(body),
            tuple([env[v] for v in results]),
            "regions",
        )
        given = (Lit(np.int64(0)), *[atom for atom, _ in inputs])
        return Eqn(
            prims.switch, given, Params({"branches": (program,)}), tuple(results), eqns[-1].loc
        )


def _in_order(eqns: Sequence[Eqn]) -> list[Eqn]:
    """Equations, each after those that it reads, in their order where that is free; those that
    keep their places among each other do."""
    number = {v: k for k, eqn in enumerate(eqns) for v in eqn.outputs}
    above = [{number[a] for a in eqn.inputs if a in number} for eqn in eqns]  # type: ignore[index]
    in_place = [k for k, eqn in enumerate(eqns) if is_ordered(eqn)]
    for first, then in itertools.pairwise(in_place):
        above[then].add(first)
    below: list[list[int]] = [[] for _ in eqns]
    for k, given in enumerate(above):
        for n in given:
            below[n].append(k)
    waits = [len(given) for given in above]
    ready = [k for k, n in enumerate(waits) if not n]
    found: list[Eqn] = []
    while ready:
        k = heapq.heappop(ready)
        found.append(eqns[k])
        for n in below[k]:
            waits[n] -= 1
            if not waits[n]:
                heapq.heappush(ready, n)
    assert len(found) == len(eqns)
    return found
