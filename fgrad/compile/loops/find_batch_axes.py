"""L5. Find the batch axes of a loop: its steps never mix elements along these lanes.

    vmap of a loop      scan (carry f64[512,512]) ...     becomes
                        parallel i in 512, j in 512 lanes 32: scan (carry f64) ...

Axes of variables are joined where an equation keeps them apart from place to place (elementwise,
batch axes of products) and spoiled where it mixes places.  What is neither is a lane.  A `while`
that runs until no lane goes on, as `vmap` makes it, ends for each block of lanes on its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.kernel.affine import axis_runs
from fgrad.compile.passes.cse import cse
from fgrad.compile.passes.dce import dce
from fgrad.ir.primitive import Primitive, folds
from fgrad.ir.program import Atom, Eqn, Program, Var
from fgrad.ir.traits import Along
from fgrad.ir.walk import definitions
from fgrad.ops import primitives as prims

Axis = tuple[Var, int]
Prepare = Callable[[Program], Program]


FEWEST_PLACES = 64  # of an axis of equations that is worth lanes


class LaneWhile(NamedTuple):
    """A while loop over lanes: `go` and `body` both take the body's constants and the carry; `go`
    says for each lane whether it goes on, and the body changes nothing where it does not.

    `unchosen` gives the carry with that choice, then without it: for arrays in memory, whose writes
    can be predicated instead.
    """

    go: Program
    body: Program
    unchosen: Program


class Lanes(NamedTuple):
    """Where lanes stand: for each variable, the number of the lane axis of each of its axes that is
    one; the extents of the lane axes; and the loops that end lane by lane."""

    axes: dict[Var, dict[int, int]]
    extents: tuple[int, ...]
    loops: dict[int, LaneWhile]


NO_LANES = Lanes({}, (), {})


def find_lanes(eqn: Eqn, prepare: Prepare, used: Sequence[Var]) -> Lanes | None:
    """The lanes of a loop; None if there are none.

    Arguments:
        eqn: a scan or while equation.
        prepare: what bodies are before they are written.
        used: the results that are wanted.
    """
    for by_lane in (True, False):
        search = _Search(prepare, by_lane)
        search.equation(eqn)
        found = search.lanes(used)
        if found is None or all([_is_whole(found, loop) for loop in found.loops.values()]):
            return found
    return None


class Walk(NamedTuple):
    """What an equation does with axes: pairs of an operand's and a result's whose places it keeps
    apart, and those along which it mixes places."""

    kept: list[tuple[Axis, Axis]]
    mixed: set[Axis]


def walk_of(eqn: Eqn) -> Walk:
    """What one equation does with axes."""
    search = _Recorded(_itself, False)
    search.equation(eqn)
    return Walk(search.kept, search.spoiled)


def body_lanes(body: Program) -> Lanes:
    """The longest axis that all results of a program have and no equation of it mixes, as lanes;
    none if there is no long one."""
    search = _Search(_itself, False)
    search.program(body)
    outputs = [a for a in body.outputs if isinstance(a, Var)]
    whole = search.lanes(outputs)
    if whole is None or max(whole.extents) < FEWEST_PLACES:
        return NO_LANES
    longest = max(range(len(whole.extents)), key=lambda k: whole.extents[k])
    axes = {v: {k: 0 for k, n in own.items() if n == longest} for v, own in whole.axes.items()}
    if not all([axes.get(v) for v in outputs]):
        return NO_LANES
    return Lanes({v: own for v, own in axes.items() if own}, (whole.extents[longest],), {})


def _itself(program: Program) -> Program:
    return program


def _is_whole(lanes: Lanes, loop: LaneWhile) -> bool:
    """Whether the predicate of a loop and all that it carries differ between lanes alone."""
    (go,) = loop.go.outputs
    own = lanes.axes.get(go, {}) if isinstance(go, Var) else {}
    count = len(loop.body.outputs)
    carried = loop.body.inputs[len(loop.body.inputs) - count :]
    numbers = set(own.values())
    return len(own) == go.aval.ndim and all(
        [numbers <= set(lanes.axes.get(v, {}).values()) for v in carried]
    )


class _Search:
    """Joins and spoils axes, equation by equation."""

    def __init__(self, prepare: Prepare, by_lane: bool) -> None:
        self.prepare = prepare
        self.by_lane = by_lane
        self.parent: dict[Axis, Axis] = {}
        self.spoiled: set[Axis] = set()
        self.loops: dict[int, LaneWhile] = {}
        self.counts: dict[Atom, int] = {}  # arrays that count along one axis: which
        self.seen: set[int] = set()

    # --- classes

    def root(self, axis: Axis) -> Axis:
        """The representative of an axis."""
        self.parent.setdefault(axis, axis)
        while self.parent[axis] is not axis and self.parent[axis] != axis:
            self.parent[axis] = self.parent[self.parent[axis]]
            axis = self.parent[axis]
        return axis

    def join(self, a: Atom, i: int, b: Atom, k: int) -> None:
        """Unify two axes."""
        if isinstance(a, Var) and isinstance(b, Var):
            self.parent[self.root((a, i))] = self.root((b, k))

    def spoil(self, a: Atom, k: int) -> None:
        """Mark an axis along which elements are mixed."""
        if isinstance(a, Var):
            self.root((a, k))
            self.spoiled.add((a, k))

    def join_all(self, a: Atom, b: Atom, shift: int = 0) -> None:
        """Axis k of `b` is axis `k + shift` of `a`."""
        for k in range(b.aval.ndim):
            self.join(a, k + shift, b, k)

    def spoil_all(self, *atoms: Atom) -> None:
        """All axes of some arrays."""
        for a in atoms:
            for k in range(a.aval.ndim):
                self.spoil(a, k)

    def lanes(self, used: Sequence[Var]) -> Lanes | None:
        """The longest lane axis, and those that stand beside it in all wanted results."""
        bad = {self.root(axis) for axis in self.spoiled}
        members: dict[Var, dict[int, Axis]] = {}
        for var, k in list(self.parent):
            root = self.root((var, k))
            if root not in bad and var.aval.shape[k] > 1:
                members.setdefault(var, {})[k] = root
        for own in members.values():  # two axes of one array cannot be one lane axis
            roots = list(own.values())
            bad |= {r for r in roots if roots.count(r) > 1}
        wanted = [{r for r in members.get(v, {}).values() if r not in bad} for v in used]
        every = set().union(*wanted)
        if not every:
            return None
        longest = max(every, key=lambda axis: axis[0].aval.shape[axis[1]])
        chosen = set.intersection(*[own for own in wanted if longest in own])
        first = next(v for v in used if chosen <= set(members.get(v, {}).values()))
        order = [r for _, r in sorted(members[first].items()) if r in chosen]
        number = {r: k for k, r in enumerate(order)}
        axes = {
            v: {k: number[r] for k, r in own.items() if r in number} for v, own in members.items()
        }
        extents = [n for k, n in enumerate(first.aval.shape) if members[first].get(k) in chosen]
        return Lanes({v: own for v, own in axes.items() if own}, tuple(extents), self.loops)

    # --- equations

    def program(self, program: Program) -> None:
        """All equations of a program."""
        if id(program) in self.seen:
            return
        self.seen.add(id(program))
        for eqn in program.eqns:
            self.equation(eqn)

    def equation(self, eqn: Eqn) -> None:
        """One equation."""
        rule = LANE_RULES.get(eqn.prim)
        if rule is not None:
            rule(self, eqn)
        elif eqn.prim.elementwise:
            for a in eqn.inputs:
                if a.aval.ndim:
                    self.join_all(eqn.outputs[0], a)
        else:
            self.spoil_all(*eqn.inputs, *eqn.outputs)


class _Recorded(_Search):
    """The same for one equation, whose axes are not joined."""

    def __init__(self, prepare: Prepare, by_lane: bool) -> None:
        super().__init__(prepare, by_lane)
        self.kept: list[tuple[Axis, Axis]] = []

    def join(self, a: Atom, i: int, b: Atom, k: int) -> None:
        """Note a pair of axes."""
        if isinstance(a, Var) and isinstance(b, Var):
            self.kept.append(((a, i), (b, k)))


def _broadcast(s: _Search, eqn: Eqn) -> None:
    for k, d in enumerate(eqn.params["dims"]):
        s.join(eqn.inputs[0], k, eqn.outputs[0], d)


def _permute(s: _Search, eqn: Eqn) -> None:
    for k, a in enumerate(eqn.params["axes"]):
        s.join(eqn.inputs[0], a, eqn.outputs[0], k)


def _reshape(s: _Search, eqn: Eqn) -> None:
    (x,), (y,) = eqn.inputs, eqn.outputs
    if not x.aval.size:
        s.spoil_all(x, y)
        return
    for (a, b), (c, d) in axis_runs(x.aval.shape, y.aval.shape):
        left = [k for k in range(a, b) if x.aval.shape[k] != 1]
        right = [k for k in range(c, d) if y.aval.shape[k] != 1]
        if len(left) == len(right) == 1:
            s.join(x, left[0], y, right[0])
            continue
        for k in left:
            s.spoil(x, k)
        for k in right:
            s.spoil(y, k)


def _keeps(same: Callable[[Eqn, int], bool]) -> Callable[[_Search, Eqn], None]:
    """Axes of the first operand are those of the result; those that are not `same` are mixed."""

    def rule(s: _Search, eqn: Eqn) -> None:
        x, y = eqn.inputs[0], eqn.outputs[0]
        for k in range(x.aval.ndim):
            s.join(x, k, y, k)
            if not same(eqn, k):
                s.spoil(x, k)

    return rule


def _full(eqn: Eqn, k: int) -> bool:
    x, y = eqn.inputs[0].aval, eqn.outputs[0].aval
    return x.shape[k] == y.shape[k]


def _padded(eqn: Eqn, k: int) -> bool:
    p = eqn.params
    return p["low"][k] == p["high"][k] == p["interior"][k] == 0


def _index(s: _Search, eqn: Eqn) -> None:
    count = len(eqn.params["ints"])
    for k in range(count):
        s.spoil(eqn.inputs[0], k)
    s.join_all(eqn.inputs[0], eqn.outputs[0], count)


def _concatenate(s: _Search, eqn: Eqn) -> None:
    for x in eqn.inputs:
        s.join_all(x, eqn.outputs[0])
        s.spoil(x, eqn.params["axis"])


def _reduce(s: _Search, eqn: Eqn) -> None:
    axes = eqn.params["axes"] if "axes" in eqn.params else (eqn.params["axis"],)
    kept = iter(range(eqn.outputs[0].aval.ndim))
    for k in range(eqn.inputs[0].aval.ndim):
        if k in axes:
            s.spoil(eqn.inputs[0], k)
        else:
            s.join(eqn.inputs[0], k, eqn.outputs[0], next(kept))


def _dot(s: _Search, eqn: Eqn) -> None:
    (cx, cy), (bx, by) = eqn.params["contract"], eqn.params["batch"]
    (x, y), (out,) = eqn.inputs, eqn.outputs
    at = 0
    for i, k in zip(bx, by, strict=True):
        s.join(x, i, out, at)
        s.join(y, k, out, at)
        at += 1
    for operand, used in ((x, (*cx, *bx)), (y, (*cy, *by))):
        for k in range(operand.aval.ndim):
            if k not in used:
                s.join(operand, k, out, at)
                at += 1
    for k in cx:
        s.spoil(x, k)
    for k in cy:
        s.spoil(y, k)


def _iota(s: _Search, eqn: Eqn) -> None:
    s.counts[eqn.outputs[0]] = eqn.params["axis"]


def _own_rows(s: _Search, x: Atom, axes: Sequence[int], indices: Sequence[Atom]) -> dict[int, int]:
    """The indexed axes of which each place of an index reads or writes its own: x[i, j[i]]."""
    found = {a: s.counts[i] for a, i in zip(axes, indices, strict=True) if i in s.counts}
    return {a: k for a, k in found.items() if x.aval.shape[a] == indices[0].aval.shape[k]}


def _gather(s: _Search, eqn: Eqn) -> None:
    x, *indices = eqn.inputs
    out, rank, axes = eqn.outputs[0], indices[0].aval.ndim, eqn.params["axes"]
    rows = _own_rows(s, x, axes, indices)
    for index in indices:
        for k in range(rank):
            s.join(index, k, out, k)
    at = rank
    for k in range(x.aval.ndim):
        if k in rows:
            s.join(x, k, out, rows[k])
        elif k in axes:
            s.spoil(x, k)
        else:
            s.join(x, k, out, at)
            at += 1


def _scatter(s: _Search, eqn: Eqn) -> None:
    x, updates, *indices = eqn.inputs
    out, at, axes = eqn.outputs[0], indices[0].aval.ndim, eqn.params["axes"]
    rows = _own_rows(s, x, axes, indices)
    for k in range(at):
        for index in indices:
            s.join(index, k, updates, k)
        if k not in rows.values():
            s.spoil(updates, k)
    for k in range(x.aval.ndim):
        s.join(x, k, out, k)
        if k in rows:
            s.join(x, k, updates, rows[k])
        elif k in axes:
            s.spoil(x, k)
        else:
            s.join(updates, at, out, k)
            at += 1


def _dynamic_update(s: _Search, eqn: Eqn) -> None:
    x, update = eqn.inputs[:2]
    for k in range(x.aval.ndim):
        s.join(x, k, eqn.outputs[0], k)
        s.join(update, k, x, k)
        if update.aval.shape[k] != x.aval.shape[k]:
            s.spoil(x, k)


def _scan(s: _Search, eqn: Eqn) -> None:
    body, p = s.prepare(eqn.params["body"]), eqn.params
    stop = p["n_consts"] + p["n_carry"]
    for k, (a, v) in enumerate(zip(eqn.inputs, body.inputs, strict=True)):
        s.join_all(a, v, int(k >= stop))
        if k >= stop:
            s.spoil(a, 0)
    for k, (v, a) in enumerate(zip(eqn.outputs, body.outputs, strict=True)):
        s.join_all(v, a, int(k >= p["n_carry"]))
        if k >= p["n_carry"]:
            s.spoil(v, 0)
        else:
            s.join_all(a, body.inputs[p["n_consts"] + k])
    s.program(body)


def _while(s: _Search, eqn: Eqn) -> None:
    p = eqn.params
    n, first = p["n_cond"], p["n_cond"] + p["n_body"]
    cond, body = s.prepare(p["cond"]), s.prepare(p["body"])
    found = lane_while(eqn, s.prepare) if s.by_lane else None
    if found is not None:
        s.loops[id(eqn.params["body"])] = found
        body = found.body
        for a, v in zip(eqn.inputs[n:], found.go.inputs, strict=True):
            s.join_all(a, v)
        s.program(found.go)
    else:
        for a, v in zip((*eqn.inputs[:n], *eqn.inputs[first:]), cond.inputs, strict=True):
            s.join_all(a, v)
        s.program(cond)
    for a, v in zip(eqn.inputs[n:], body.inputs, strict=True):
        s.join_all(a, v)
    for k, (v, a) in enumerate(zip(eqn.outputs, body.outputs, strict=True)):
        s.join_all(v, a)
        s.join_all(a, body.inputs[p["n_body"] + k])
    s.program(body)


def _switch(s: _Search, eqn: Eqn) -> None:
    for branch in map(s.prepare, eqn.params["branches"]):
        for a, v in zip(eqn.inputs[1:], branch.inputs, strict=True):
            s.join_all(a, v)
        for v, a in zip(eqn.outputs, branch.outputs, strict=True):
            s.join_all(v, a)
        s.program(branch)


LANE_RULES: Mapping[Primitive, Callable[[_Search, Eqn], None]] = {
    prims.broadcast: _broadcast,
    prims.permute: _permute,
    prims.reshape: _reshape,
    prims.slice: _keeps(_full),
    prims.dynamic_slice: _keeps(_full),
    prims.pad: _keeps(_padded),
    prims.reverse: _keeps(lambda eqn, k: k not in eqn.params["axes"]),
    **dict.fromkeys(
        folds(Along.RUNNING),
        _keeps(lambda eqn, k: k != eqn.params["axis"]),
    ),
    prims.index: _index,
    prims.concatenate: _concatenate,
    **dict.fromkeys([*folds(Along.AXES), *folds(Along.PLACE)], _reduce),
    prims.dot_general: _dot,
    prims.gather: _gather,
    prims.scatter: _scatter,
    prims.dynamic_update: _dynamic_update,
    prims.iota: _iota,
    prims.unset: lambda _s, _eqn: None,
    prims.scan: _scan,
    prims.while_: _while,
    prims.switch: _switch,
}


# --- loops that end lane by lane


def lane_while(eqn: Eqn, prepare: Prepare) -> LaneWhile | None:
    """The loop `while any(go): carry = select(go, new, carry)`, lane by lane.

    A lane whose `go` is false keeps its carry, so that `go` stays false: it has ended.
    """
    p = eqn.params
    n, cond, body = p["n_cond"], p["cond"], p["body"]
    same = all([a is b for a, b in zip(eqn.inputs[:n], eqn.inputs[n:], strict=False)])
    if not same or n > p["n_body"]:
        return None
    key = ("lane while", cond, n, p["n_body"])
    return body.derived(key, lambda: _lane_while(prepare(cond), prepare(body), n, p["n_body"]))


def _lane_while(cond: Program, body: Program, n: int, n_body: int) -> LaneWhile | None:
    env = dict(zip(cond.inputs, (*body.inputs[:n], *body.inputs[n_body:]), strict=True))
    tested = [
        e._replace(inputs=tuple([env.get(a, a) for a in e.inputs]))  # type: ignore[call-overload]
        for e in cond.eqns
    ]
    outputs = (env.get(cond.outputs[0], cond.outputs[0]), *body.outputs)  # type: ignore[call-overload]
    consts = (*cond.consts, *body.consts)
    merged = cse(body.replace(consts=consts, eqns=(*tested, *body.eqns), outputs=outputs))
    go, *results = merged.outputs
    defined = definitions(merged.eqns)
    depth = 0
    while (eqn := _made_by(go, prims.reduce_any, defined)) is not None:
        go, depth = eqn.inputs[0], depth + 1
    if not depth:
        return None
    kept = []
    for atom, carry in zip(results, body.inputs[n_body:], strict=True):
        chosen = atom if atom is carry else _chosen_by_lane(atom, carry, go, defined)
        if chosen is None:
            return None
        kept.append(chosen)
    bare = [_without_choice(atom, go, defined) for atom in kept]
    made = {v for e in tested for v in e.outputs}
    before = tuple([e for e in merged.eqns if not made.isdisjoint(e.outputs)])
    return LaneWhile(
        dce(merged.replace(eqns=before, outputs=(go,))),
        dce(merged.replace(outputs=tuple(kept))),
        dce(merged.replace(outputs=(*kept, *bare))),
    )


def _without_choice(atom: Atom, go: Atom, defined: Mapping[Var, Eqn]) -> Atom:
    """The value in a lane that continues."""
    eqn = _made_by(atom, prims.select, defined)
    if eqn is None or _stripped(eqn.inputs[0], defined)[0] is not go:
        return atom
    return eqn.inputs[1]


def _made_by(atom: Atom, prim: Primitive, defined: Mapping[Var, Eqn]) -> Eqn | None:
    eqn = defined.get(atom) if isinstance(atom, Var) else None
    return eqn if eqn is not None and eqn.prim is prim else None


def _chosen_by_lane(atom: Atom, carry: Var, go: Atom, defined: Mapping[Var, Eqn]) -> Atom | None:
    """The inner `select(go, ..., carry)` of such by whole rows of lanes, which it implies."""
    while (eqn := _made_by(atom, prims.select, defined)) is not None and eqn.inputs[2] is carry:
        if not _is_test(eqn.inputs[0], go, defined):
            return None
        if _stripped(eqn.inputs[0], defined)[0] is go:
            return atom
        atom = eqn.inputs[1]
    return None


def _stripped(test: Atom, defined: Mapping[Var, Eqn]) -> tuple[Atom, tuple[int, ...]]:
    """The atom that a test broadcasts, and the positions of its axes."""
    dims = tuple(range(test.aval.ndim))
    while (made := _made_by(test, prims.broadcast, defined)) is not None:
        dims = tuple([dims[d] for d in made.params["dims"]])
        test = made.inputs[0]
    return test, dims


def _is_test(test: Atom, go: Atom, defined: Mapping[Var, Eqn]) -> bool:
    """Whether a test is `go`, or whether any lane of a row goes on, for leading axes of lanes."""
    found, dims = _stripped(test, defined)
    kept = tuple(range(go.aval.ndim))
    while found is not go:
        made = _made_by(found, prims.reduce_any, defined)
        if made is None:
            return False
        (found,) = made.inputs
        if found is go:
            kept = tuple([k for k in kept if k not in made.params["axes"]])
    return dims == kept
