"""L5. The data structures of fusion: sources, nests, shared loops, the partition being built.

A source is read in one of three ways: at the same place ("same"), once for each row ("row", a
broadcast along trailing axes), or elsewhere ("other").
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.kernel.machine import NEAR_ELEMENTS
from fgrad.compile.lower.linalg import on_host
from fgrad.compile.lower.rules import MOVES, REDUCTIONS
from fgrad.compile.lower.walks import is_row_walk
from fgrad.compile.tasks.steps import Cut
from fgrad.ir.primitive import Primitive
from fgrad.ir.program import Eqn, Program, Var
from fgrad.ir.traits import CONTROL, Cost
from fgrad.ir.walk import consumers, cost_of
from fgrad.ops import primitives as prims

CHEAP = 12  # scalar operations that may be computed again by every reader
MAX_COST = 384  # of one element in one kernel: compile time grows with it, and gains nothing
NEAR_COST = 128  # the same for arrays that stay in the nearest cache between kernels
EXPENSIVE = int(Cost.DIVISION)  # an operation of many dependent instructions
LONG_COST = 512  # of expensive operations on arrays of a size, from which kernels have few:
PIECE_COST = 64  # a long row of them keeps the processor from running iterations side by side
NEAR_PIECE = 32  # where arrays stay in the nearest cache between kernels
MAX_LEAVES = 12  # sources of one virtual value
PRODUCT_COST = 8  # of what is computed with each element of a product: it is written out often

SAME, ROW, OTHER = "same", "row", "other"


class Leaf(NamedTuple):
    """A source with a buffer or a group, and how it is read."""

    var: Var
    how: str


class Nest:
    """A group in the making; merged ones point to the survivor."""

    __slots__ = (
        "columns",
        "cost",
        "expensive",
        "domain",
        "kind",
        "members",
        "outputs",
        "parent",
        "row_vars",
        "rows",
        "cuts",
        "stage",
        "width",
    )  # fmt: skip

    def __init__(self, stage: int, kind: str, domain: tuple[int, ...]) -> None:
        self.stage = stage
        self.kind = kind
        self.domain = domain
        self.rows: int | None = None
        self.members: list[int] = []
        self.row_vars: set[Var] = set()
        self.parent: Nest | None = None
        self.outputs: dict[Var, None] = {}
        self.cost = 0
        self.expensive = 0  # the part of the cost of expensive operations
        self.columns: list[Var] = []  # sums of blocks of rows, `width` of them for each block
        self.cuts: tuple[Cut, ...] = ()  # how the axes of rows are cut into blocks
        self.width = 0

    def has_large(self, leaves: Iterable[Leaf]) -> bool:
        """Whether a source is about as large as the results: tiles are no good order to read it,
        and results could not take its memory."""
        size = math.prod(self.domain)
        return any([4 * leaf.var.aval.size > size for leaf in leaves])

    def rows_after(self) -> int | None:
        """The row count of a nest, whose domain may have been refined."""
        return rows_of(self.domain, self.inner())

    def inner(self) -> int:
        if self.width:
            return self.width
        rows = next(iter(self.row_vars)).aval.size
        return math.prod(self.domain) // max(rows, 1)


def max_cost(domain: tuple[int, ...]) -> int:
    """The greatest cost of one element of a nest over `domain`."""
    return NEAR_COST if math.prod(domain) <= NEAR_ELEMENTS else MAX_COST


def piece_cost(size: int) -> int:
    """The cost limit for expensive operations in a nest of this size in a long program."""
    return NEAR_PIECE if size <= NEAR_ELEMENTS else PIECE_COST


def shrinks(prim: Primitive) -> bool:
    """Whether a primitive moves each element of its one array to one place at most."""
    movement = prim.movement
    return movement is not None and not movement.repeats and not movement.joins


def is_library(eqn: Eqn) -> bool:
    prim = eqn.prim
    orders = prim.algorithm is not None and prim.algorithm.orders
    if orders or prim.holds in CONTROL:
        return True
    return is_row_walk(eqn) or on_host(eqn)


def stripped(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([n for n in shape if n != 1]) if 1 in shape else shape


def common_domain(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    """The coarsest loops of which both shapes are merges; None if there are none.

    >>> common_domain((6, 4), (2, 3, 4))
    (2, 3, 4)
    """
    if a == b:
        return a
    if math.prod(a) != math.prod(b) or 0 in a:
        return None
    steps = sorted(_suffixes(a) | _suffixes(b))
    if any(big % small for small, big in itertools.pairwise(steps)):
        return None
    sizes = [big // small for small, big in itertools.pairwise(steps)]
    return tuple(reversed(sizes))


def _suffixes(shape: Sequence[int]) -> set[int]:
    products, step = {1}, 1
    for n in reversed(shape):
        step *= n
        products.add(step)
    return products


def rows_of(domain: tuple[int, ...], inner: int) -> int | None:
    """How many leading axes leave `inner` elements; None if no axis ends there."""
    step = 1
    for k in range(len(domain), -1, -1):
        if step == inner:
            return k
        if k:
            step *= domain[k - 1]
    return None


def is_trailing(eqn: Eqn) -> bool:
    """Whether the reduced axes come after the kept ones, not counting those of length 1."""
    axes, shape = eqn.params["axes"], eqn.inputs[0].aval.shape
    long = [k in axes for k, n in enumerate(shape) if n != 1]
    return long == sorted(long)


def composed(eqn: Eqn, leaves: tuple[Leaf, ...]) -> tuple[Leaf, ...]:
    """How the sources are read through a moving equation."""
    how = _movement(eqn)
    if how == SAME:
        return leaves
    if how == ROW:
        found = [Leaf(v, OTHER if h == OTHER else ROW) for v, h in leaves]
    else:
        found = [leaf if leaf[1] == OTHER else Leaf(leaf[0], OTHER) for leaf in leaves]
    return tuple(dict.fromkeys(found)) if len(found) > 1 else tuple(found)


def reads_places_once(eqn: Eqn) -> bool:
    """Whether an equation reads single elements at places that it computes: `x[i]`, one of x for
    each element of i."""
    return eqn.prim is prims.gather and len(eqn.params["axes"]) == eqn.inputs[0].aval.ndim


def _movement(eqn: Eqn) -> str:
    prim = eqn.prim
    if prim not in MOVES:
        return SAME
    if prim is prims.reshape:
        return SAME
    if prim is prims.broadcast:
        shape, dims = eqn.params["shape"], eqn.params["dims"]
        used = [k in dims for k, n in enumerate(shape) if n != 1]
        if all(used):
            return SAME
        return ROW if used == sorted(used, reverse=True) else OTHER
    return OTHER


class Partition:
    """The state of a program being partitioned."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.readers = consumers(program.eqns)
        self.kept = {a for a in program.outputs if type(a) is Var}
        self.leaves: dict[Var, tuple[Leaf, ...]] = {}
        self.cost: dict[Var, int] = {}
        self.virtual: dict[Var, Eqn] = {}
        self.nest_of: dict[Var, Nest] = {}
        self.nests: list[Nest] = []
        self.dropped: dict[Var, tuple[Leaf, ...]] = {}  # results of groups that became virtual
        self.read: dict[Var, tuple[Leaf, ...]] = {}  # sources of equations, by their first result
        self.totals: dict[int, int] = {}  # costs of expensive operations, by the number of elements
        for var in (*program.inputs, *[v for v, _ in program.consts]):
            self.leaves[var] = (Leaf(var, SAME),)
        self.spread: set[Var] = set()

    def sources(self, eqn: Eqn) -> tuple[Leaf, ...]:
        """The leaves of all operands, each once."""
        leaves = self.read.get(eqn.outputs[0])
        if leaves is None:
            leaves = ()
            for atom in eqn.inputs:
                if type(atom) is Var:
                    own = self.leaves[atom]
                    if not leaves:
                        leaves = own
                    elif own is not leaves:
                        leaves = tuple(dict.fromkeys((*leaves, *own)))
            self.read[eqn.outputs[0]] = leaves
        dropped = self.dropped
        if dropped:
            for leaf in leaves:
                if leaf.var in dropped:
                    return self._behind(leaves)
        return leaves

    def composed(self, eqn: Eqn) -> tuple[Leaf, ...]:
        """How the leaves of all operands are read through an equation."""
        leaves = self.sources(eqn)
        if not reads_places_once(eqn):
            return composed(eqn, leaves)
        near = {leaf for a in eqn.inputs[1:] if type(a) is Var for leaf in self.leaves[a]}
        far = {leaf.var for leaf in self.leaves.get(eqn.inputs[0], ())}  # type: ignore[call-overload]
        return tuple([leaf if leaf in near and leaf.var not in far else Leaf(leaf.var, OTHER)
                      for leaf in leaves])  # fmt: skip

    def _behind(self, leaves: tuple[Leaf, ...]) -> tuple[Leaf, ...]:
        """The leaves with those of groups that became virtual replaced by their sources."""
        found: dict[Leaf, None] = {}
        pending = list(leaves)
        while pending:
            leaf = pending.pop()
            below = self.dropped.get(leaf.var)
            if below is None:
                found[leaf] = None
            else:
                pending += [
                    inner if leaf.how == SAME else Leaf(inner.var, OTHER) for inner in below
                ]
        return tuple(found)

    def sums_elsewhere(self, nest: Nest) -> bool:
        """Whether elements of a nest are sums of their own, as those of a product of matrices.

        Such a nest is not walked twice: the order of a sum is that of its loops, and two walks in
        different orders would make two different values of one, so that `x == max(x)` fails.
        """
        eqns = [self.program.eqns[k] for k in nest.members]
        return any(
            [
                e.prim.contracts or (e.prim in REDUCTIONS and e.outputs[0] not in nest.row_vars)
                for e in eqns
                if e.outputs[0] not in nest.columns
            ]
        )

    def nest(self, var: Var) -> Nest | None:
        """The group of a variable; None for inputs and constants."""
        nest = self.nest_of.get(var)
        if nest is not None and nest.parent is not None:
            while nest.parent is not None:
                nest = nest.parent
            self.nest_of[var] = nest
        return nest

    def is_full(self, nest: Nest, cost: int = 0) -> bool:
        """Whether a nest is too long for an operation of this cost.

        What is cheap stays with what it reads, so that the pieces of a repetition begin alike and
        are compiled once.
        """
        most = max_cost(nest.domain)
        if nest.cost >= most:
            return cost != 1 or 4 * nest.cost >= 5 * most
        size = math.prod(nest.domain)
        return cost != 1 and nest.expensive >= piece_cost(size) and self.is_long(size)

    def is_long(self, size: int) -> bool:
        """Whether the expensive operations on arrays of this size need many kernels anyway."""
        if not self.totals:
            for eqn in self.program.eqns:
                if cost_of(eqn) >= EXPENSIVE:
                    elements = eqn.outputs[0].aval.size
                    self.totals[elements] = self.totals.get(elements, 0) + cost_of(eqn)
        return self.totals.get(size, 0) > LONG_COST
