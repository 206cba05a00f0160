"""L5. Pass `components`: short vectors between long axes become an array for each component.

    d: f64[n, n, 3] = sub x y            d0: f64[n, n] = sub x0 y0   d1: ...   d2: ...
    q: f64[n, n, 3] = mul d d            q0: f64[n, n] = mul d0 d0   ...
    r: f64[n, n] = reduce_sum(2) q   ->  r: f64[n, n] = add (add q0 q1) q2
    g: f64[n, n, 3] = mul r d            g0: f64[n, n] = mul r d0    ...
    f: f64[n, 3] = reduce_sum(1) g       f0: f64[n] = reduce_sum(1) g0   ...
                                         f = f0, f1, f2 side by side

Sums over pairs then run along whole rows, and the kernel that computes the pairs takes them, those
of rows and those of columns: nothing of the size of all pairs is in memory.

Requires nothing.  Ensures the same results up to the order of sums.  It is done where sums leave
components apart, and where all that is read and written of the vectors is small beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from fgrad.compile.kernel.machine import LEAST_APART
from fgrad.compile.loops.find_batch_axes import Axis, walk_of
from fgrad.compile.passes.writer import Writer
from fgrad.ir.primitive import Primitive
from fgrad.ir.program import Atom, Eqn, Params, Program, Var
from fgrad.ir.traits import Along
from fgrad.ir.walk import consumers, is_ordered
from fgrad.ops import primitives as prims

MOST_COMPONENTS = 4
LONG_AXIS = 16  # places that a sum adds
SMALL = 4  # times smaller is what enters and leaves than the arrays that are taken apart

JOINS = {"add": prims.add, "mul": prims.mul, "max": prims.max, "min": prims.min}


def split_components(program: Program) -> Program:
    """The program with short vectors between long axes taken apart."""
    if not any([_is_seed(eqn) for eqn in program.eqns]):
        return program
    apart = _Search(program).axes()
    return _Splitter(program, apart).run() if apart else program


def _is_seed(eqn: Eqn) -> bool:
    """Whether an equation sums large arrays over a long axis and leaves a short one."""
    return bool(_seeds(eqn))


def _seeds(eqn: Eqn) -> list[Axis]:
    if not _is_fold(eqn.prim) or not isinstance(eqn.inputs[0], Var) or not _is_large(eqn.inputs[0]):
        return []
    x, axes = eqn.inputs[0], eqn.params["axes"]
    if max([x.aval.shape[k] for k in axes], default=0) < LONG_AXIS:
        return []
    return [(x, k) for k in range(x.aval.ndim) if k not in axes and _is_short((x, k))]


def _is_fold(prim: Primitive) -> bool:
    return prim.fold is not None and prim.fold.along is Along.AXES and prim.fold.op in JOINS


def _is_large(var: Var) -> bool:
    return var.aval.size >= LEAST_APART


def _is_short(axis: Axis) -> bool:
    return 1 < axis[0].aval.shape[axis[1]] <= MOST_COMPONENTS


def _divides(eqn: Eqn) -> bool:
    """Whether an equation can be written component by component."""
    if len(eqn.outputs) != 1 or any([a.aval.dtype.kind not in "biuf" for a in eqn.inputs]):
        return False
    if is_ordered(eqn):
        return False
    if _is_fold(eqn.prim) or _is_dot(eqn):
        types = {a.aval.dtype for a in (*eqn.inputs, *eqn.outputs)}
        return len(types) == 1 and types.pop().itemsize >= 4
    return eqn.prim.elementwise or eqn.prim in _WITHOUT


def _is_dot(eqn: Eqn) -> bool:
    """Whether an equation sums the products of two arrays along one axis, at each place of others:
    einsum("ijk,ijk->ij", d, d)."""
    if eqn.prim is not prims.dot_general:
        return False
    one = all([len(axes) == 1 for axes in eqn.params["contract"]])
    ranks = {a.aval.ndim for a in (*eqn.inputs, *eqn.outputs)}
    return one and ranks == {len(eqn.params["batch"][0]), len(eqn.params["batch"][0]) + 1}


def _ends(eqn: Eqn) -> list[Axis]:
    """The axes of operands that an equation sums over."""
    if _is_fold(eqn.prim):
        along: Sequence[Sequence[int]] = (eqn.params["axes"],)
    else:
        along = eqn.params["contract"] if _is_dot(eqn) else ()
    return [
        (x, k)
        for x, axes in zip(eqn.inputs, along, strict=False)
        for k in axes
        if isinstance(x, Var)
    ]


def _same(eqn: Eqn, axis: Axis) -> list[Axis]:
    """The axes of a result that are an operand's axis, or those of operands that are a result's."""
    pairs = walk_of(eqn).kept
    return [b if a == axis else a for a, b in pairs if axis in (a, b)]


# --- parameters of equations without an axis of their result, which is this one of their operand


def _without(shape: Sequence[int], axis: int) -> tuple[int, ...]:
    return tuple([n for k, n in enumerate(shape) if k != axis])


def _moved(axes: Sequence[int], gone: int | None) -> tuple[int, ...]:
    """Axes by their new numbers, when one has gone."""
    return tuple([k - (gone is not None and k > gone) for k in axes if k != gone])


def _fold_without(
    p: Params, _shape: Sequence[int], source: int | None, _axis: int
) -> dict[str, object]:
    return {"axes": _moved(p["axes"], source)}


def _broadcast_without(
    p: Params, shape: Sequence[int], _source: int | None, axis: int
) -> dict[str, object]:
    return {"shape": _without(shape, axis), "dims": _moved(p["dims"], axis)}


def _reshape_without(
    _p: Params, shape: Sequence[int], _source: int | None, axis: int
) -> dict[str, object]:
    return {"shape": _without(shape, axis)}


_Rule = Callable[[Params, Sequence[int], "int | None", int], "dict[str, object]"]
_WITHOUT: Mapping[Primitive, _Rule] = {
    prims.broadcast: _broadcast_without,
    prims.reshape: _reshape_without,
    prims.permute: _fold_without,
}


# --- which arrays


class _Search:
    """Joins the short axes of large arrays that equations keep, and asks where that pays."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.parent: dict[Axis, Axis] = {}
        self.made = {v: eqn for eqn in program.eqns for v in eqn.outputs if _divides(eqn)}
        self.readers = consumers(program.eqns)
        for eqn in self.made.values():
            pairs = [*walk_of(eqn).kept, *([tuple(_ends(eqn))] if _is_dot(eqn) else [])]
            for a, b in pairs:
                if all([_is_large(v) and _is_short((v, k)) for v, k in (a, b)]):
                    self.parent[self.root(a)] = self.root(b)

    def root(self, axis: Axis) -> Axis:
        """The representative of an axis."""
        while (above := self.parent.setdefault(axis, axis)) != axis:
            self.parent[axis] = self.parent[above]
            axis = above
        return axis

    def axes(self) -> dict[Var, int]:
        """The axis along which each of the arrays is taken apart."""
        seeds = [self.root(axis) for eqn in self.program.eqns for axis in _seeds(eqn)]
        members: dict[Axis, list[Axis]] = {root: [] for root in seeds}
        for axis in list(self.parent):
            if self.root(axis) in members:
                members[self.root(axis)].append(axis)
        found: dict[Var, int] = {}
        for own in members.values():
            apart = dict(own)
            if len(apart) == len(own) and found.keys().isdisjoint(apart) and self._pays(apart):
                found |= apart
        return found

    def _pays(self, apart: dict[Var, int]) -> bool:
        """Whether what enters and leaves is small beside the arrays that are taken apart."""
        crossing: dict[Var, None] = {}
        outside = {a for a in self.program.outputs if isinstance(a, Var)}
        for var, axis in apart.items():
            eqn = self.made.get(var)
            if eqn is None or _is_dot(eqn) or var in outside:
                return False
            source = _same(eqn, (var, axis))
            if eqn.prim is prims.reshape and not source:  # it divides an axis
                return False
            readers = [e for e in self.readers.get(var, ()) if (var, axis) not in _ends(e)]
            for reader in readers:
                kept = _same(reader, (var, axis)) if self.made.keys() >= {*reader.outputs} else []
                if not kept or _is_dot(reader):
                    return False
                crossing |= dict.fromkeys([v for v, _ in kept])
            crossing |= dict.fromkeys([v for v, _ in source])
        most = max([v.aval.size for v in apart])
        return SMALL * sum([v.aval.size for v in crossing if v not in apart]) <= most


# --- the new program


class _Splitter(Writer):
    """One walk: equations on arrays that are apart, once for each component."""

    def __init__(self, program: Program, apart: dict[Var, int]) -> None:
        super().__init__()
        self.program = program
        self.apart = apart
        self.parts: dict[Axis, Sequence[Atom]] = {}

    def run(self) -> Program:
        """The program with these arrays taken apart."""
        for eqn in self.program.eqns:
            self.like = eqn
            self._equation(eqn)
        return self.program.replace(eqns=tuple(self.eqns), made_by="components")

    def _equation(self, eqn: Eqn) -> None:
        out = eqn.outputs[0] if eqn.outputs else None
        operands = [a for a in eqn.inputs if isinstance(a, Var) and a in self.apart]
        if out in self.apart:
            self.parts[out, self.apart[out]] = self._divided(eqn, self.apart[out])
        elif not operands:
            self.eqns.append(eqn)
        elif (operands[0], self.apart[operands[0]]) in _ends(eqn):
            self._summed(eqn)
        else:
            assert out is not None
            ((_, axis), *_) = _same(eqn, (operands[0], self.apart[operands[0]]))
            self._joined(eqn, self._divided(eqn, axis), axis)

    def _parts(self, atom: Atom, axis: int) -> Sequence[Atom]:
        """The components of an operand along an axis."""
        if not isinstance(atom, Var) or not atom.aval.ndim:
            return [atom] * MOST_COMPONENTS
        found = self.parts.get((atom, axis))
        if found is None:
            shape = atom.aval.shape
            starts = [
                [c if k == axis else 0 for k in range(len(shape))] for c in range(shape[axis])
            ]
            found = self.parts[atom, axis] = [
                self.apply(
                    prims.reshape, self._slice(atom, start, axis), shape=_without(shape, axis)
                )
                for start in starts
            ]
        return found

    def _slice(self, x: Var, start: Sequence[int], axis: int) -> Var:
        limit = [start[axis] + 1 if k == axis else n for k, n in enumerate(x.aval.shape)]
        steps = (1,) * len(limit)
        return self.apply(prims.slice, x, start=tuple(start), stop=tuple(limit), step=steps)

    def _divided(self, eqn: Eqn, axis: int) -> list[Atom]:
        """The components of a result along an axis."""
        out = eqn.outputs[0].aval
        count = out.shape[axis]
        if eqn.prim.elementwise:
            given = [self._parts(a, axis) for a in eqn.inputs]
            return [
                self.apply(eqn.prim, *[g[c] for g in given], **eqn.params) for c in range(count)
            ]
        (x,) = eqn.inputs
        source = next((k for _, k in _same(eqn, (eqn.outputs[0], axis))), None)
        rule = _WITHOUT.get(eqn.prim, _fold_without)
        params = rule(eqn.params, out.shape, source, axis)
        if source is None:
            return [self.apply(eqn.prim, x, **params)] * count
        return [self.apply(eqn.prim, part, **params) for part in self._parts(x, source)]

    def _summed(self, eqn: Eqn) -> None:
        """A fold over components, and then over other axes; a sum of products of components."""
        if eqn.prim.fold is None:
            join, rest = prims.add, ()
            factors = zip(eqn.inputs, eqn.params["contract"], eqn.params["batch"], strict=True)
            columns = [self._by_place(x, axis, batch) for x, (axis,), batch in factors]
            parts = [self.apply(prims.mul, a, b) for a, b in zip(*columns, strict=True)]
        else:
            ((x, axis),) = [(x, k) for x, k in _ends(eqn) if k == self.apart[x]]
            join = JOINS[eqn.prim.fold.op]
            rest = _moved(eqn.params["axes"], axis)
            parts = list(self._parts(x, axis))
        total = reduce(lambda a, b: self.apply(join, a, b), parts)
        if rest:
            self.apply(eqn.prim, total, axes=rest)
        self.eqns[-1] = self.eqns[-1]._replace(outputs=eqn.outputs)

    def _by_place(self, x: Atom, axis: int, order: Sequence[int]) -> list[Atom]:
        """The components of an operand, with the other axes in this order."""
        axes = _moved(order, axis)
        parts = self._parts(x, axis)
        if axes == tuple(sorted(axes)):
            return list(parts)
        return [self.apply(prims.permute, part, axes=axes) for part in parts]

    def _joined(self, eqn: Eqn, parts: Sequence[Atom], axis: int) -> None:
        """Components side by side, as the result of an equation."""
        (out,) = eqn.outputs
        shape = tuple([1 if k == axis else n for k, n in enumerate(out.aval.shape)])
        columns = [self.apply(prims.reshape, part, shape=shape) for part in parts]
        self.apply(prims.concatenate, *columns, axis=axis)
        self.eqns[-1] = self.eqns[-1]._replace(outputs=(out,))
