"""L4. Program -> the sparsity pattern of its Jacobian, by dependence analysis.

The derivative of a function is a linear program of the tangents; dependences are followed through
its equations as sparse matrices with a row for each element of an array and a column for each
tangent.  What a rule does not know depends on all that its operands depend on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.errors import ArgumentError
from fgrad.ir.aval import Aval
from fgrad.ir.primitive import Primitive, folds
from fgrad.ir.program import Atom, Eqn, Lit, Program, Var
from fgrad.ir.traits import Along, Holds
from fgrad.ops import primitives as prims
from fgrad.transforms.checkpoint.checkpoint import barrier_p
from fgrad.transforms.core.derived_programs import jvp_program
from fgrad.transforms.sparse.coloring import Pattern
from fgrad.typing import PyTree

sparse = lazy_module("scipy.sparse")

Known: TypeAlias = dict[Var, np.ndarray]  # values of variables that do not depend on anything

MOST_ENTRIES = 1 << 28  # of a pattern
MOST_KNOWN = 1 << 24  # elements of a constant that is computed
MOST_STEPS = 256  # of a loop that is followed step by step


def jacobian_pattern(program: Program, active: Sequence[bool]) -> Pattern:
    """The pattern of the Jacobian of a program: a row for each element of all results in turn, a
    column for each element of the inputs where `active`."""
    mask = tuple(active)
    derived = jvp_program(program, mask)
    count, sizes = (
        len(program.inputs),
        [a.size for a, m in zip(program.in_avals, mask, strict=True) if m],
    )
    total = sum(sizes)
    inputs: list[Pattern] = [None] * count
    start = 0
    for n in sizes:
        inputs.append(_unit(n, start, total))
        start += n
    found = _Walk(total).run(derived.program, inputs)[len(program.outputs) :]
    given = iter(found)
    parts: list[Pattern] = []
    for aval, has in zip(program.out_avals, derived.has_tangent, strict=True):
        pattern = next(given) if has else None
        parts.append(
            sparse.csr_array((aval.size, total), dtype=np.int8) if pattern is None else pattern
        )
    return sparse.csr_array(sparse.vstack(parts, format="csr"))


def _unit(n: int, start: int, total: int) -> Pattern:
    ones = np.ones(n, np.int8)
    return sparse.csr_array((ones, np.arange(start, start + n), np.arange(n + 1)), (n, total))


def _or(a: Pattern, b: Pattern) -> Pattern:
    if a is None or b is None:
        return b if a is None else a
    found = sparse.csr_array(a + b)
    found.data = np.ones(found.nnz, np.int8)
    return found


def _through(selection: Pattern, pattern: Pattern) -> Pattern:
    """The pattern of S x, for the pattern of x."""
    wide = selection.astype(np.int32) @ pattern.astype(np.int32)
    found = sparse.csr_array(wide)
    found.data = np.ones(found.nnz, np.int8)
    return found


def _selection(rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> Pattern:
    entries = np.ones(len(rows), np.int8)
    return sparse.csr_array(sparse.coo_array((entries, (rows, columns)), shape))


def _picked(numbers: np.ndarray, pattern: Pattern) -> Pattern:
    """The rows of a pattern by number; those of number 0 are empty, 1 is the first."""
    flat = np.asarray(numbers).ravel()
    rows = np.flatnonzero(flat)
    if len(rows) == len(flat):
        return sparse.csr_array(pattern[flat - 1])
    return _through(_selection(rows, flat[rows] - 1, (len(flat), pattern.shape[0])), pattern)


def _numbers(aval: Aval, first: int = 1) -> np.ndarray:
    return np.arange(first, first + aval.size, dtype=np.int64).reshape(aval.shape)


class _Walk:
    """One walk over a program."""

    def __init__(self, total: int) -> None:
        self.total = total

    def run(
        self,
        program: Program,
        inputs: Sequence[Pattern],
        known: dict[Var, np.ndarray] | None = None,
    ) -> list[Pattern]:
        """The patterns of the results."""
        env: dict[Var, Pattern] = dict(zip(program.inputs, inputs, strict=True))
        values: Known = {**(known or {}), **dict(program.consts)}
        for eqn in program.eqns:
            given = [env.get(a) if isinstance(a, Var) else None for a in eqn.inputs]
            if all([p is None for p in given]):
                self._constant(eqn, values)
                continue
            outs = self.equation(eqn, given, values)
            env.update(zip(eqn.outputs, outs, strict=True))
        return [env.get(a) if isinstance(a, Var) else None for a in program.outputs]

    def _constant(self, eqn: Eqn, values: Known) -> None:
        """Compute what depends on constants alone, for it may be indices."""
        operands = [_value(a, values) for a in eqn.inputs]
        size = sum([v.aval.size for v in eqn.outputs])
        if eqn.prim.holds is not None or size > MOST_KNOWN or any([x is None for x in operands]):
            return
        with np.errstate(all="ignore"):
            found = eqn.prim.evaluate_rule(*operands, **eqn.params)
        values.update(zip(eqn.outputs, found if eqn.prim.multiple else (found,), strict=True))

    def equation(self, eqn: Eqn, given: list[Pattern], values: Known) -> list[Pattern]:
        """The patterns of the results of an equation, of which some operand depends on inputs."""
        prim = eqn.prim
        if all([v.aval.dtype.kind not in "fc" for v in eqn.outputs]):
            return [None] * len(eqn.outputs)
        if prim is barrier_p:
            return given
        if _rearranges(prim):
            return [self._move(eqn, given[0])]
        if prim.fold is not None and prim.fold.along is Along.AXES:
            return [self._sum(eqn, given[0])]
        if prim.holds is Holds.CALL:
            return self.run(eqn.params["program"], given, self._known_inputs(eqn, values))
        rule = PATTERN_RULES.get(prim)
        if rule is not None:
            found = rule(self, eqn, given, values)
            if found is not None:
                return found
        elif prim.elementwise:
            return [self._elementwise(eqn, given, values)]
        return self.all(eqn, given)

    def _known_inputs(self, eqn: Eqn, values: Known) -> Known:
        found: Known = {}
        for var, atom in zip(eqn.params["program"].inputs, eqn.inputs, strict=True):
            value = _value(atom, values)
            if value is not None:
                found[var] = np.asarray(value)
        return found

    def all(self, eqn: Eqn, given: Sequence[Pattern]) -> list[Pattern]:
        """All results depend on all that any operand depends on."""
        union = np.zeros(self.total, bool)
        for p in given:
            if p is not None:
                union[p.indices] = True
        columns = np.flatnonzero(union)
        outs: list[Pattern] = []
        for var in eqn.outputs:
            if var.aval.dtype.kind not in "fc":
                outs.append(None)
                continue
            n = var.aval.size
            self.check(eqn, n * len(columns))
            starts = np.arange(0, (n + 1) * len(columns), max(len(columns), 1))[: n + 1]
            starts = starts if len(columns) else np.zeros(n + 1, np.int64)
            entries = np.ones(n * len(columns), np.int8)
            outs.append(sparse.csr_array((entries, np.tile(columns, n), starts), (n, self.total)))
        return outs

    def check(self, eqn: Eqn, entries: int) -> None:
        """Raise where a pattern is too large to be written down."""
        if entries > MOST_ENTRIES:
            where = f"{eqn.loc}:  {eqn.loc.text()}" if eqn.loc else eqn.prim.name
            raise ArgumentError(
                f"The Jacobian is not sparse: {entries:,} entries at least.",
                (
                    ("where", where),
                    ("why", f"each result of {eqn.prim.name} may depend on all of its operands."),
                    ("write", "fgrad.sparse.jacobian(f, pattern=...)   if you know it is sparse"),
                ),
            )

    def _move(self, eqn: Eqn, pattern: Pattern) -> Pattern:
        params = {**eqn.params, "value": 0} if "value" in eqn.params else eqn.params
        numbers = _numbers(eqn.inputs[0].aval)
        if not numbers.ndim:
            numbers = numbers[()]
        return _picked(eqn.prim.evaluate_rule(numbers, **params), pattern)

    def _sum(self, eqn: Eqn, pattern: Pattern) -> Pattern:
        shape, axes = eqn.inputs[0].aval.shape, eqn.params["axes"]
        kept = [1 if a in axes else n for a, n in enumerate(shape)]
        rows = np.broadcast_to(np.arange(math.prod(kept)).reshape(kept), shape).ravel()
        return _through(
            _selection(rows, np.arange(len(rows)), (math.prod(kept), len(rows))), pattern
        )

    def _elementwise(self, eqn: Eqn, given: Sequence[Pattern], values: Known) -> Pattern:
        shape, found = eqn.outputs[0].aval.shape, None
        for k, (p, atom) in enumerate(zip(given, eqn.inputs, strict=True)):
            if p is None:
                continue
            if atom.aval.shape != shape:
                p = _picked(np.ones(shape, np.int64), p)
            if eqn.prim in (prims.mul, prims.masked_mul):
                p = _without_zeros(p, _value(eqn.inputs[1 - k], values), shape)
            found = _or(found, p)
        return found


def _rearranges(prim: Primitive) -> bool:
    """Whether what a primitive does to the numbers of elements is what it does to elements."""
    movement = prim.movement
    return movement is not None and movement.fixed and not movement.joins


def _without_zeros(
    pattern: Pattern, factor: np.ndarray | np.generic | None, shape: tuple[int, ...]
) -> Pattern:
    """A product with a constant does not depend on anything where that is 0."""
    if factor is None or np.all(factor):
        return pattern
    kept = np.broadcast_to(np.asarray(factor) != 0, shape)
    return _picked(np.where(kept, np.arange(1, kept.size + 1).reshape(shape), 0), pattern)


def _value(atom: Atom, values: Known) -> np.ndarray | np.generic | None:
    return atom.value if isinstance(atom, Lit) else values.get(atom)


Rule = Callable[[_Walk, Eqn, "list[Pattern]", Known], "list[Pattern] | None"]


def _concatenate(
    _walk: _Walk, eqn: Eqn, given: list[Pattern], _values: Known
) -> list[Pattern] | None:
    first = 1
    numbers: list[np.ndarray] = []
    parts: list[Pattern] = []
    for p, atom in zip(given, eqn.inputs, strict=True):
        if p is None:
            numbers.append(np.zeros(atom.aval.shape, np.int64))
        else:
            numbers.append(_numbers(atom.aval, first))
            parts.append(p)
            first += atom.aval.size
    whole = eqn.prim.evaluate_rule(*numbers, **eqn.params)
    return [_picked(whole, sparse.csr_array(sparse.vstack(parts, format="csr")))]


def _gather(_walk: _Walk, eqn: Eqn, given: list[Pattern], values: Known) -> list[Pattern] | None:
    """Reading at known places."""
    places = [_value(a, values) for a in eqn.inputs[1:]]
    if given[0] is None or any([x is None for x in places]):
        return None
    numbers = _numbers(eqn.inputs[0].aval)
    return [_picked(eqn.prim.evaluate_rule(numbers, *places, **eqn.params), given[0])]


def _scatter(_walk: _Walk, eqn: Eqn, given: list[Pattern], values: Known) -> list[Pattern] | None:
    """Writing at known places: `set` and `add` of numbers, where both say where these go."""
    places = [_value(a, values) for a in eqn.inputs[2:]]
    mode = eqn.params.get("mode", "set")
    if any([x is None for x in places]) or mode not in ("set", "add"):
        return None
    x, update = eqn.inputs[0].aval, eqn.inputs[1].aval
    params = {**eqn.params, "mode": "set"} if "mode" in eqn.params else eqn.params
    found = None
    if given[0] is not None:
        kept = _numbers(x)
        if mode == "set":
            gone = np.zeros(update.shape, np.int64)
            kept = eqn.prim.evaluate_rule(kept, gone, *places, **params)
        found = _picked(kept, given[0])
    if given[1] is not None:
        # Each element of the update goes to one place at most: numbers of places, read back.
        where = _places(eqn, x, update, places)
        inside = where >= 0
        rows, columns = where[inside], np.flatnonzero(inside)
        moved = _through(_selection(rows, columns, (x.size, update.size)), given[1])
        found = _or(found, moved)
    return [found]


def _places(eqn: Eqn, x: Aval, update: Aval, places: Sequence[PyTree]) -> np.ndarray:
    """For each element of an update, the number of the element that it is written to, or -1."""
    if eqn.prim is prims.dynamic_update:
        starts = [
            int(np.clip(int(s), 0, n - m))
            for s, n, m in zip(places, x.shape, update.shape, strict=True)
        ]
        block = tuple(slice(s, s + m) for s, m in zip(starts, update.shape, strict=True))
        return _numbers(x, 0)[block].ravel()
    axes: tuple[int, ...] = eqn.params["axes"]
    rest = [a for a in range(x.ndim) if a not in axes]
    moved = np.transpose(_numbers(x, 0), [*axes, *rest])
    bounds = [x.shape[a] for a in axes]
    inside: np.ndarray = np.ones(np.shape(places[0]), bool)
    for i, n in zip(places, bounds, strict=True):
        inside &= (np.asarray(i) >= 0) & (np.asarray(i) < n)
    safe = tuple([np.where(inside, i, 0) for i in places])
    found = moved[safe]
    extra = (1,) * (found.ndim - inside.ndim)
    return np.where(inside.reshape(*inside.shape, *extra), found, -1).ravel()


def _lines(_walk: _Walk, eqn: Eqn, given: list[Pattern], _values: Known) -> list[Pattern] | None:
    """Each element of a line may depend on all of the line."""
    params = eqn.params
    axes: tuple[int, ...] = params["axes"] if "axes" in params else (params["axis"],)
    if any([p is None for p in given]) and len(given) > 1:
        return None
    shape = eqn.inputs[0].aval.shape
    kept = [1 if a in axes else n for a, n in enumerate(shape)]
    rows = np.broadcast_to(np.arange(math.prod(kept)).reshape(kept), shape).ravel()
    outs: list[Pattern] = []
    for var in eqn.outputs:
        if var.aval.shape != shape:
            return None
        union = None
        for p in given:
            _walk.check(eqn, p.nnz * math.prod([shape[a] for a in axes]))
            into = _selection(rows, np.arange(len(rows)), (math.prod(kept), len(rows)))
            union = _or(union, _through(into, p))
        outs.append(_picked(rows + 1, union))
    return outs


def _axes_of(eqn: Eqn) -> Iterator[tuple[int, ...]]:
    """The contracted axes of two operands, and those of batches."""
    yield from (*eqn.params["contract"], *eqn.params["batch"])


def _dot(_walk: _Walk, eqn: Eqn, given: list[Pattern], values: Known) -> list[Pattern] | None:
    """out[b,i,j] depends on x[b,i,:] and y[b,:,j], and not where a constant is 0."""
    x, y = eqn.inputs
    cx, cy, bx, by = _axes_of(eqn)
    found = None
    for side, (p, own, other, c, b, oc, ob) in enumerate(
        ((given[0], x, y, cx, bx, cy, by), (given[1], y, x, cy, by, cx, bx))
    ):
        if p is None:
            continue
        shape = own.aval.shape
        free = [a for a in range(len(shape)) if a not in (*b, *c)]
        own_free = math.prod([shape[a] for a in free])
        nbatch = math.prod([shape[a] for a in b])
        ncontract = math.prod([shape[a] for a in c])
        others = [a for a in range(other.aval.ndim) if a not in (*ob, *oc)]
        nother = math.prod([other.aval.shape[a] for a in others])
        numbers = np.transpose(_numbers(own.aval, 0), [*b, *free, *c]).reshape(
            nbatch, own_free, ncontract
        )
        constant = _value(other, values)
        if constant is None:
            kept = np.ones((nbatch, ncontract, 1), bool)
        else:
            ordered = np.transpose(np.asarray(constant), [*ob, *oc, *others])
            kept = ordered.reshape(nbatch, ncontract, nother) != 0
        batch, k, j = np.nonzero(kept)
        _walk.check(eqn, len(k) * own_free)
        width = kept.shape[2]
        i = np.arange(own_free)
        rows = (batch[:, None] * own_free + i[None, :]) * width + j[:, None]
        columns = numbers[batch, :, k]
        size = nbatch * own_free * width
        into = _selection(rows.ravel(), columns.ravel(), (size, own.aval.size))
        part = _through(into, p)
        order = np.arange(1, size + 1).reshape(nbatch, own_free, width)
        order = np.broadcast_to(order, (nbatch, own_free, nother))
        order = order if side == 0 else np.swapaxes(order, 1, 2)
        found = _or(found, _picked(order, part))
    return [found]


def _conv(_walk: _Walk, eqn: Eqn, given: list[Pattern], _values: Known) -> list[Pattern] | None:
    """Each result depends on its window, in all channels of its group."""
    p, (x, w) = eqn.params, [a.aval for a in eqn.inputs]
    if given[0] is None or given[1] is not None or p["batch_groups"] != 1:
        return None
    numbers = _spread(_numbers(x), p["x_dilation"], p["padding"])
    sizes = tuple([(k - 1) * d + 1 for k, d in zip(w.shape[2:], p["w_dilation"], strict=True)])
    axes = tuple(range(2, x.ndim))
    views = np.lib.stride_tricks.sliding_window_view(numbers, sizes, axes)
    step = (slice(None), slice(None), *[slice(None, None, s) for s in p["strides"]])
    views = views[(*step, *[slice(None, None, d) for d in p["w_dilation"]])]
    out = eqn.outputs[0].aval
    groups = p["feature_groups"]
    n, spatial = out.shape[0], out.shape[2:]
    views = views.reshape(n, groups, w.shape[1], *spatial, -1)
    views = np.moveaxis(views, 2, -1).reshape(n, groups, math.prod(spatial), -1)
    every = np.repeat(views, out.shape[1] // groups, axis=1).reshape(out.size, -1)
    _walk.check(eqn, every.size)
    rows, columns = np.nonzero(every)
    into = _selection(rows, every[rows, columns] - 1, (out.size, x.size))
    return [_through(into, given[0])]


def _spread(
    x: np.ndarray, dilation: Sequence[int], padding: Sequence[tuple[int, int]]
) -> np.ndarray:
    """Zeros between and around the elements of the spatial axes; negative padding crops."""
    for axis, (d, (low, high)) in enumerate(zip(dilation, padding, strict=True), 2):
        shape = list(x.shape)
        shape[axis] = max((shape[axis] - 1) * d + 1, 0)
        wide = np.zeros(shape, x.dtype)
        wide[(slice(None),) * axis + (slice(None, None, d),)] = x
        edges = [(0, 0)] * x.ndim
        edges[axis] = (max(low, 0), max(high, 0))
        wide = np.pad(wide, edges)
        stop = wide.shape[axis] + min(high, 0)
        x = wide[(slice(None),) * axis + (slice(max(-low, 0), stop),)]
    return x


def _scan(walk: _Walk, eqn: Eqn, given: list[Pattern], values: Known) -> list[Pattern] | None:
    """Step by step, or as a fixed point of the carry for long loops."""
    p = eqn.params
    body, length, n_consts, n_carry = p["body"], p["length"], p["n_consts"], p["n_carry"]
    stop = n_consts + n_carry
    consts, carry, xs = given[:n_consts], given[n_consts:stop], given[stop:]
    known = {
        v: np.asarray(x)
        for v, a in zip(body.inputs[:n_consts], eqn.inputs, strict=False)
        if (x := _value(a, values)) is not None
    }
    item_sizes = [a.size for a in body.in_avals[stop:]]
    ys_count = len(body.outputs) - n_carry
    if length > MOST_STEPS:
        items = [
            None if x is None else _union_of_items(x, n, length)
            for x, n in zip(xs, item_sizes, strict=True)
        ]
        while True:
            outs = walk.run(body, [*consts, *carry, *items], known)
            wider = [_or(a, b) for a, b in zip(carry, outs, strict=False)]
            if [_entries(a) for a in wider] == [_entries(a) for a in carry]:
                break
            carry = wider
        ys = [
            None if y is None else sparse.csr_array(sparse.vstack([y] * length, format="csr"))
            for y in outs[n_carry:]
        ]
        return [*carry, *ys]
    steps: list[list[Pattern]] = []
    for k in reversed(range(length)) if p["reverse"] else range(length):
        items = [
            None if x is None else sparse.csr_array(x[k * n : (k + 1) * n])
            for x, n in zip(xs, item_sizes, strict=True)
        ]
        outs = walk.run(body, [*consts, *carry, *items], known)
        carry = outs[:n_carry]
        steps.append(outs[n_carry:])
    steps = steps[::-1] if p["reverse"] else steps
    sizes = [a.size for a in body.out_avals[n_carry:]]
    ys = [_stack([s[j] for s in steps], sizes[j], walk.total) for j in range(ys_count)]
    return [*carry, *ys]


def _entries(p: Pattern) -> int:
    return -1 if p is None else int(p.nnz)


def _union_of_items(x: Pattern, n: int, length: int) -> Pattern:
    rows = np.tile(np.arange(n), length)
    return _through(_selection(rows, np.arange(n * length), (n, n * length)), x)


def _stack(parts: Sequence[Pattern], size: int, total: int) -> Pattern:
    if all([p is None for p in parts]):
        return None
    empty = sparse.csr_array((size, total), dtype=np.int8)
    return sparse.csr_array(sparse.vstack([empty if p is None else p for p in parts], format="csr"))


def _switch(walk: _Walk, eqn: Eqn, given: list[Pattern], _values: Known) -> list[Pattern] | None:
    found: list[Pattern] = [None] * len(eqn.outputs)
    for branch in eqn.params["branches"]:
        outs = walk.run(branch, given[1:])
        found = [_or(a, b) for a, b in zip(found, outs, strict=True)]
    return found


PATTERN_RULES: dict[Primitive, Rule] = {
    prims.concatenate: _concatenate,
    prims.gather: _gather,
    prims.dynamic_slice: _gather,
    prims.scatter: _scatter,
    prims.dynamic_update: _scatter,
    prims.dot_general: _dot,
    prims.conv: _conv,
    prims.scan: _scan,
    prims.switch: _switch,
    prims.sort: _lines,
    prims.fft: _lines,
    **dict.fromkeys(folds(Along.RUNNING), _lines),
}
