"""L5. Sums over leading axes join a group that walks the same rows anyway.

The group's rows are cut into blocks, and a small rest; each adds its rows up, and a second, small
reduction adds the blocks.  Matrices are then read once, threads share the blocks, and the cut
depends on shapes alone, so that results do not depend on the number of threads.

    y = reduce_sum[axes=(0,)] x             part: (16, columns)   in the group that makes or reads x
                                      ->    y = reduce_sum[axes=(0,)] part
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from fgrad.compile.fuse.parts import (
    MAX_COST,
    ROW,
    SAME,
    Leaf,
    Nest,
    Partition,
    common_domain,
    is_trailing,
    rows_of,
    stripped,
)
from fgrad.compile.lower.rules import REDUCTIONS
from fgrad.compile.tasks.steps import Cut
from fgrad.ir.aval import Aval
from fgrad.ir.program import Eqn, Params, Var
from fgrad.ir.walk import cost_of

LEAST_BYTES = 1 << 18  # of the operand; smaller ones stay in a near cache between two kernels
LEAST_ROWS = 32
COLUMNS_PER_ROW = 64  # at most: the sums of blocks are written, and read again
MOST_COLUMNS = 1 << 16  # sums that a block keeps in a cache
BLOCKS = 16
LEAST_REST = 16
MOST_TERMS = 1024  # of one sum, so that blocks are as accurate as sums in pairs


def join_columns(p: Partition) -> None:
    """Move the larger part of sums over leading axes into groups that walk their operands."""
    sums = [k for k, eqn in enumerate(p.program.eqns) if _pays(eqn)]
    walkers = _walkers(p) if sums else {}
    late: set[int] = set()  # groups that now come after others of their stage
    for k in sums:
        eqn = p.program.eqns[k]
        nest = p.nest(eqn.outputs[0])
        if nest is None or nest.kind != "loop" or eqn.outputs[0] in nest.row_vars:
            continue
        for host in _candidates(p, eqn, walkers):
            if host is not nest and id(host) not in late and _fits(p, eqn, nest, host):
                if host.stage == nest.stage:
                    late.add(id(nest))
                _join(p, k, host)
                break


def _walkers(p: Partition) -> dict[Var, dict[int, Nest]]:
    """For each variable, the groups that read it element by element."""
    found: dict[Var, dict[int, Nest]] = {}
    for eqn in p.program.eqns:
        nest = p.nest(eqn.outputs[0])
        if nest is None or nest.kind != "loop":
            continue
        for leaf in p.sources(eqn):
            if leaf.how == SAME and leaf.var.aval.size == math.prod(nest.domain):
                found.setdefault(leaf.var, {})[id(nest)] = nest
    return found


def _pays(eqn: Eqn) -> bool:
    """Whether an equation sums many long rows."""
    if eqn.prim not in REDUCTIONS or is_trailing(eqn):
        return False
    x, out = eqn.inputs[0], eqn.outputs[0]
    axes = eqn.params["axes"]
    long = [k in axes for k, n in enumerate(x.aval.shape) if n != 1]
    leading = long == sorted(long, reverse=True)
    wide = x.aval.dtype.kind in "iuf" and x.aval.dtype.itemsize >= 4
    large = x.aval.size * x.aval.dtype.itemsize >= LEAST_BYTES
    columns = out.aval.size
    least = max(LEAST_ROWS, columns // COLUMNS_PER_ROW)
    many = 1 < columns <= MOST_COLUMNS and x.aval.size >= least * columns
    return leading and wide and large and many and type(x) is Var


def _candidates(p: Partition, eqn: Eqn, walkers: dict[Var, dict[int, Nest]]) -> list[Nest]:
    """The group that makes the operand, or those that read all its large sources."""
    x = eqn.inputs[0]
    assert isinstance(x, Var)
    own = p.nest(x)
    if own is not None and own.kind == "loop":
        return [own]
    large = [leaf.var for leaf in p.leaves[x] if leaf.how == SAME]
    found: dict[int, Nest] | None = None
    for var in large:
        here = dict(walkers.get(var, {}))
        maker = p.nest(var)
        if maker is not None:
            here[id(maker)] = maker
        found = here if found is None else {i: n for i, n in found.items() if i in here}
    return list((found or {}).values())


def _fits(p: Partition, eqn: Eqn, nest: Nest, host: Nest) -> bool:
    """Whether the group `host` can compute the blocks of the sum that `nest` now holds."""
    x, columns = eqn.inputs[0], eqn.outputs[0].aval.size
    assert isinstance(x, Var)
    if host.kind != "loop" or host.stage > nest.stage or p.sums_elsewhere(host):
        return False
    if host.cost + p.cost.get(x, 0) + cost_of(eqn) > MAX_COST:
        return False
    domain = common_domain(host.domain, stripped(x.aval.shape))
    if domain is None or (host.columns and domain != host.domain):
        return False
    rows = rows_of(domain, columns)
    if rows is None or ((host.row_vars or host.columns) and host.inner() != columns):
        return False
    if cuts(domain[:rows]) is None:
        return False
    return all([_readable(p, leaf.var, leaf.how, host) for leaf in p.leaves[x]])


def _readable(p: Partition, var: Var, how: str, host: Nest) -> bool:
    """Whether a source is known in the group, or in a buffer before it runs."""
    maker = p.nest(var)
    if maker is None or maker.stage < host.stage:
        return True
    if maker is not host:
        return False
    return how == SAME or (how == ROW and var in host.row_vars)


def cuts(rows: Sequence[int]) -> tuple[Cut, ...] | None:
    """How each axis of rows is cut into blocks; None if there are too few or too long ones.

    >>> cuts((4096,)), cuts((8, 128))
    ((Cut(full=16, size=256, rest=0),), (Cut(full=8, size=1, rest=0), Cut(full=2, size=64, rest=0)))
    >>> cuts((4099,))
    (Cut(full=16, size=255, rest=19),)
    """
    count = math.prod(rows)
    wanted, found = max(BLOCKS, count // MOST_TERMS), []
    for n in rows:
        found.append(_cut(n, min(n, wanted)))
        wanted = wanted // n if wanted >= n else 1
    blocks = math.prod([cut.blocks for cut in found])
    if blocks < BLOCKS // 2 or count // blocks > 2 * MOST_TERMS:
        return None
    return tuple(found)


def _cut(n: int, parts: int) -> Cut:
    """An axis in equal parts; else with a small rest, of LEAST_REST rows where there are enough, so
    that it is a loop for all sizes."""
    size = n // parts if n % parts == 0 else max(1, (n - LEAST_REST) // parts)
    return Cut(parts, size, n - parts * size)


def _join(p: Partition, k: int, host: Nest) -> None:
    """Give the blocks' sums of equation number `k` to `host`; the equation then adds the blocks."""
    eqn = p.program.eqns[k]
    x, out = eqn.inputs[0], eqn.outputs[0]
    assert isinstance(x, Var)
    host.domain = common_domain(host.domain, stripped(x.aval.shape)) or host.domain
    host.width = out.aval.size
    host.rows = rows_of(host.domain, host.width)
    host.cuts = cuts(host.domain[: host.rows]) or ()
    blocks = math.prod([cut.blocks for cut in host.cuts])
    part = Var(Aval((blocks, *out.aval.shape), out.aval.dtype))
    first = eqn._replace(outputs=(part,))
    last = eqn._replace(inputs=(part,), params=Params({**eqn.params, "axes": (0,)}))
    host.members.append(len(p.program.eqns))
    eqns = (*p.program.eqns[:k], last, *p.program.eqns[k + 1 :], first)
    p.program = p.program.replace(eqns=eqns)
    p.read.pop(out, None)
    host.cost += cost_of(eqn)
    host.columns.append(part)
    p.nest_of[part] = host
    p.leaves[part] = (Leaf(part, SAME),)
