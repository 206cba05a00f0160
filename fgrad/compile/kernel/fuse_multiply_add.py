"""L5. Products that are added become one operation: `add (mul a b) c` -> `muladd a b c`.

Only a product that nothing else reads, and that meets no other product: `x*x - y*y` keeps both
rounded alike, so that equal squares cancel.  Nor where a loop in order adds what needs no step
before to what that has made: each step waits for the last, and an addition takes half as long.
"""

from __future__ import annotations

from fgrad.compile.kernel.ir import (
    Init,
    Kernel,
    Load,
    Loop,
    Op,
    Read,
    Statement,
    Store,
    Update,
)
from fgrad.compile.kernel.rewrite import Body, Names, walk
from fgrad.compile.kernel.unread import used_by

_NONE: frozenset[int] = frozenset()


def fuse_multiply_add(kernel: Kernel) -> Kernel:
    """The kernel with sums of products contracted."""
    products = {s.id: s for s in walk(kernel.body) if type(s) is Op and _is_product(s)}
    return _Contraction(kernel, products).kernel() if products else kernel


def _is_product(s: Op) -> bool:
    return s.op == "mul" and s.dtype.kind == "f"


class _Contraction:
    """Rewrites the bodies of one kernel."""

    def __init__(self, whole: Kernel, products: dict[int, Op]) -> None:
        self.whole = whole
        self.names = Names(whole)
        self.products = products
        self.uses: dict[int, int] = {}
        self.carried = _carried(whole.body, products) if _is_in_order(whole.body) else {}
        for s in walk(whole.body):
            for id in used_by(s):
                self.uses[id] = self.uses.get(id, 0) + 1

    def kernel(self) -> Kernel:
        """The whole kernel."""
        return self.whole._replace(body=self.body(self.whole.body))

    def body(self, body: Body) -> Body:
        """One body: products join sums that stand beside them."""
        own = {s.id for s in body if isinstance(s, Op) and s.id in self.products}
        gone: set[int] = set()
        out: list[Statement] = []
        for s in body:
            if isinstance(s, Loop):
                out.append(s._replace(body=self.body(s.body)))
                continue
            made = self.joined(s, own, gone) if isinstance(s, Op) else None
            out.extend([s] if made is None else made)
        return tuple([s for s in out if not (isinstance(s, Op) and s.id in gone)])

    def joined(self, s: Op, own: set[int], gone: set[int]) -> list[Statement] | None:
        """The contraction of a sum or a difference."""
        if s.op not in ("add", "sub") or s.dtype.kind != "f":
            return None
        left, right = s.args
        products = [id for id in s.args if id in self.products]
        if len(products) != 1 or products[0] not in own or self.uses[products[0]] != 1:
            return None
        (product,) = products
        if self.carried.get(s.id, _NONE) >= {left, right}:
            return None
        a, b = self.products[product].args
        gone.add(product)
        if s.op == "add":
            return [Op(s.id, "muladd", (a, b, right if product == left else left), s.dtype)]
        minus = self.names.id()
        turned = right if product == left else a
        negated = Op(minus, "neg", (turned,), s.dtype)
        args = (a, b, minus) if product == left else (minus, b, left)
        return [negated, Op(s.id, "muladd", args, s.dtype)]


def _is_in_order(body: Body) -> bool:
    """Whether a kernel has no lanes that hide how long an operation takes."""
    return all([s.kind in ("serial", "while") for s in body if isinstance(s, Loop)])


def _carried(body: Body, products: dict[int, Op]) -> dict[int, set[int]]:
    """For each value that an accumulator becomes, the ids of what it was in that step, and the
    products that need no step before."""
    carries = {s.acc for s in walk(body) if isinstance(s, Init) and s.op == "carry"}
    written = {s.buffer for s in walk(body) if isinstance(s, Store)}
    before: dict[str, set[int]] = {acc: set() for acc in carries}
    late: set[int] = set()
    for s in walk(body):
        if isinstance(s, Read):
            late.add(s.id)
            before.get(s.acc, set()).add(s.id)
        elif isinstance(s, (Load, Op)):
            changes = isinstance(s, Load) and s.buffer in written
            if changes or not late.isdisjoint(used_by(s)):
                late.add(s.id)
    early = products.keys() - late
    updates = [s for s in walk(body) if isinstance(s, Update) and s.acc in carries]
    return {s.value: before[s.acc] | early for s in updates}
