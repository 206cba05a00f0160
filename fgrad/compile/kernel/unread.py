"""L5. What nobody reads goes away: values, and accumulators that are read for themselves alone.

acc s = carry 0.0
serial i in n:                      becomes     serial i in n:
  %1 = read s;  %2 = load x[i]                    ...
  update s (add %1 %2)
"""

from __future__ import annotations

from fgrad.compile.kernel.ir import (
    Break,
    Const,
    Index,
    Init,
    Kernel,
    Load,
    Loop,
    Op,
    Read,
    Ref,
    Statement,
    Store,
    Update,
)
from fgrad.compile.kernel.rewrite import Body, walk

VALUES = (Const, Index, Load, Op, Read)


def used_by(s: Statement) -> list[int]:
    """The ids that a statement reads."""
    if isinstance(s, Op):
        return list(s.args)
    if isinstance(s, Load):
        return [v for v, _ in s.gather] + ([] if s.predicate is None else [s.predicate])
    if isinstance(s, Store):
        own = [v for v, _ in s.scatter] + ([] if s.predicate is None else [s.predicate])
        return [s.value, *own]
    if isinstance(s, (Update, Break)):
        return [s.value]
    if isinstance(s, Init) and isinstance(s.start, Ref):
        return [s.start.id]
    return []


def drop_unread(kernel: Kernel) -> Kernel:
    """The kernel without what nobody reads."""
    made = {s.id: s for s in walk(kernel.body) if isinstance(s, VALUES)}
    changes: dict[str, list[int]] = {}  # what accumulators are made of
    for s in walk(kernel.body):
        if isinstance(s, (Init, Update)):
            changes.setdefault(s.acc, []).extend(used_by(s))
    left = [v for s in walk(kernel.body) if isinstance(s, (Store, Break)) for v in used_by(s)]
    read: set[int] = set()
    accs: set[str] = set()
    while left:
        id = left.pop()
        if id in read:
            continue
        read.add(id)
        s = made[id]
        left += used_by(s)
        if isinstance(s, Read) and s.acc not in accs:
            accs.add(s.acc)
            left += changes[s.acc]
    return kernel._replace(body=_kept(kernel.body, read, accs))


def _kept(body: Body, read: set[int], accs: set[str]) -> Body:
    out: list[Statement] = []
    for s in body:
        if isinstance(s, VALUES) and s.id not in read:
            continue
        if isinstance(s, (Init, Update)) and s.acc not in accs:
            continue
        if isinstance(s, Loop):
            s = s._replace(body=_kept(s.body, read, accs))
            if not s.body:
                continue
        out.append(s)
    return tuple(out)
