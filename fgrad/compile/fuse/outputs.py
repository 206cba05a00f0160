"""L5. The end of fusion: which results get a buffer, and in which order groups run.

A result that is cheap to compute from what has a buffer anyway is not stored; a group whose results
one other group alone reads moves into it.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping

from fgrad.compile.fuse.parts import (
    CHEAP,
    MAX_LEAVES,
    PRODUCT_COST,
    SAME,
    Nest,
    Partition,
    common_domain,
    max_cost,
    piece_cost,
    rows_of,
)
from fgrad.compile.lower.rules import REDUCTIONS
from fgrad.compile.tasks.steps import Group
from fgrad.errors import CheckError
from fgrad.ir.program import Eqn, Var
from fgrad.ir.walk import cost_of, is_ordered
from fgrad.ops import primitives as prims


def find_outputs(p: Partition) -> None:
    """Which results others read, and which of these not element by element."""
    for eqn in p.program.eqns:
        if eqn.outputs[0] in p.virtual:
            continue
        own = p.nest(eqn.outputs[0])
        for leaf in p.composed(eqn):
            nest = p.nest(leaf.var)
            if nest is not None and nest is not own:
                nest.outputs.setdefault(leaf.var)
                if leaf.how != SAME or eqn.prim.contracts:
                    p.spread.add(leaf.var)
        for var in eqn.outputs:
            opaque = own is not None and own.kind not in ("loop", "product")
            read = eqn.prim is not prims.sort or var in p.readers
            if own is not None and (var in p.kept or (opaque and read)):
                own.outputs.setdefault(var)


def drop_cheap_outputs(p: Partition, nest: Nest) -> None:
    """A result that is cheap to compute from what has a buffer anyway is not stored."""
    hard = {v for v in nest.outputs if v in p.kept or v in p.spread}
    eqns = {v: e for k in sorted(nest.members) for e in (p.program.eqns[k],) for v in e.outputs}
    results = [v for v in eqns if v in nest.outputs]
    for var in results if len(results) > 1 else ():
        if var in hard or var in nest.row_vars:
            continue
        found = _recomputed(p, var, eqns, hard, nest)
        if found is None:
            hard.add(var)
            continue
        inside, rows = found
        del nest.outputs[var]
        for v in inside:
            if v not in p.dropped:
                p.virtual[v] = eqns[v]
                p.dropped[v] = p.sources(eqns[v])
                p.cost[v] = CHEAP // 2
        nest.outputs.update(dict.fromkeys(rows))


def _recomputed(
    p: Partition, var: Var, eqns: Mapping[Var, Eqn], hard: set[Var], nest: Nest
) -> tuple[list[Var], list[Var]] | None:
    """What to recompute for `var`, and the row values it reads; None if expensive."""
    inside: dict[Var, None] = {}
    leaves: dict[Var, None] = {}
    rows: list[Var] = []
    pending, spent = [var], 0
    while pending:
        v = pending.pop()
        if v in inside or v in leaves:
            continue
        if v in eqns and v in nest.row_vars:
            rows.append(v)
            leaves[v] = None
        elif v in eqns and (v not in hard or v is var):
            if eqns[v].prim in REDUCTIONS or eqns[v].prim.contracts:
                return None
            inside[v] = None
            spent += cost_of(eqns[v])
            for atom in eqns[v].inputs:
                if type(atom) is Var:
                    spent += p.cost.get(atom, 0)
                    pending += [leaf.var for leaf in p.leaves[atom]]
        elif v in p.dropped and v not in eqns:
            spent += p.cost[v]
            pending += [leaf.var for leaf in p.dropped[v]]
        else:
            leaves[v] = None
        if spent > CHEAP or len(leaves) > MAX_LEAVES:
            return None
    if sum([v.aval.size for v in leaves]) > 1.1 * var.aval.size + 64:
        return None
    return list(inside), rows


def absorb(p: Partition) -> None:
    """A group whose results one other group alone reads, element by element, moves into it."""
    readers: dict[int, dict[int, Nest]] = {}
    for eqn in p.program.eqns:
        own = p.nest(eqn.outputs[0])
        if own is None:
            continue
        for leaf in p.sources(eqn):
            nest = p.nest(leaf.var)
            if nest is not None and nest is not own:
                readers.setdefault(id(nest), {})[id(own)] = own
    for nest in reversed(p.nests):
        found = list(readers.get(id(nest), {}).values())
        plain = nest.parent is None and nest.kind == "loop" and not nest.row_vars
        plain = plain and not nest.columns
        if not plain or len(found) != 1 or not nest.outputs:
            continue
        reader = found[0]
        while reader.parent is not None:
            reader = reader.parent
        if _can_absorb(p, nest, reader):
            reader.domain = common_domain(nest.domain, reader.domain) or reader.domain
            reader.members += nest.members
            reader.cost += nest.cost
            reader.expensive += nest.expensive
            if reader.row_vars:
                reader.rows = reader.rows_after()
            nest.parent = reader
            nest.outputs = {}


def _can_absorb(p: Partition, nest: Nest, reader: Nest) -> bool:
    product = PRODUCT_COST if nest.domain == reader.domain else 0
    most = {"loop": max_cost(nest.domain), "product": product}
    if nest.cost + reader.cost > most.get(reader.kind, -1):
        return False
    size = math.prod(nest.domain)
    if nest.expensive + reader.expensive > piece_cost(size) and p.is_long(size):
        return False
    if any(v in p.kept or v in p.spread for v in nest.outputs):
        return False
    if reader.kind == "product":
        leaves = [leaf for k in nest.members for leaf in p.sources(p.program.eqns[k])]
        if nest.has_large([leaf for leaf in leaves if p.nest(leaf.var) is not nest]):
            return False
    if math.prod(nest.domain) != math.prod(reader.domain):
        return False
    domain = common_domain(nest.domain, reader.domain)
    if domain is None or (reader.columns and domain != reader.domain):
        return False
    if not reader.row_vars:
        return True
    return rows_of(domain, reader.inner()) is not None and not p.sums_elsewhere(nest)


def ordered(p: Partition) -> list[Group]:
    """Groups with outputs, each after those it reads, else in program order; effects in order."""
    live = [n for n in p.nests if n.parent is None and n.outputs]
    waiting: dict[int, int] = {}
    readers: dict[int, list[Nest]] = {}
    last: Nest | None = None
    for nest in sorted(live, key=lambda n: min(n.members)):
        nest.members.sort()
        sources = _read_by(p, nest)
        if nest.kind == "library" and is_ordered(p.program.eqns[nest.members[0]]):
            if last is not None:
                sources.add(id(last))
            last = nest
        waiting[id(nest)] = len(sources)
        for source in sources:
            readers.setdefault(source, []).append(nest)
    ready = [(n.members[-1], i, n) for i, n in enumerate(live) if not waiting[id(n)]]
    heapq.heapify(ready)
    count, groups = len(live), []
    while ready:
        _, _, nest = heapq.heappop(ready)
        groups.append(_group(p, nest))
        for reader in readers.get(id(nest), ()):
            waiting[id(reader)] -= 1
            if not waiting[id(reader)]:
                count += 1
                heapq.heappush(ready, (reader.members[-1], count, reader))
    if len(groups) != len(live):
        raise CheckError("after pass 'fuse': groups read each other in a circle.")
    return groups


def _read_by(p: Partition, nest: Nest) -> set[int]:
    """The groups whose buffers a group reads, also through results that it computes again."""
    found: set[int] = set()
    seen: set[Var] = set()
    pending = [v for k in nest.members for v, _ in p.sources(p.program.eqns[k])]
    while pending:
        var = pending.pop()
        other = p.nest(var)
        if other is None or other is nest or var in seen:
            continue
        seen.add(var)
        if var in p.virtual:
            pending += [v for v, _ in p.sources(p.virtual[var])]
        else:
            found.add(id(other))
    return found


def _group(p: Partition, nest: Nest) -> Group:
    eqns = tuple([p.program.eqns[k] for k in nest.members])
    rows = len(nest.domain) if nest.rows is None else nest.rows
    row_vars, columns = frozenset(nest.row_vars), frozenset(nest.columns)
    outputs = tuple(nest.outputs)
    return Group(nest.kind, eqns, outputs, nest.domain, rows, row_vars, columns, nest.cuts)
