"""L5. Pass `factor_contractions`: sums of products of broadcasts, without forming the products.

A sum of a product is written with a label for each axis; factors have some of the labels each.

    law of distribution    sum_ij x[b,i]^2 d[b,j]^2     ->  (sum_i x[b,i]^2) (sum_j d[b,j]^2)
    a matrix product       sum_b x[b,i] d[b,j] c[b]     ->  dot(x, c d) over b
    the identity matrix    sum_s I[k,s] v[s] w[s,f]     ->  v[k] w[k,f]

So norms of per-sample gradients and their clipped sums never form a gradient for each sample, and
Jacobians do not multiply by the basis that they are pushed along.

Requires nothing.  Ensures the same results up to rounding: in float32 a product of sums is taken in
float64, so that it overflows where the sum of products does.  Where the identity meets infinities
or NaN, an entry depends on its own row alone, not on 0 times the others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.passes.writer import Writer
from fgrad.ir.program import Atom, Eqn, Lit, Program, Var
from fgrad.ir.walk import definitions
from fgrad.ops import primitives as prims

MAX_FACTORS = 12
LEAST_SIZE = 256  # of a product: smaller ones are summed in one kernel
_DOUBLE = np.dtype(np.float64)


def factor_contractions(program: Program) -> Program:
    """The program with sums of products of smaller arrays rewritten."""
    if not any([e.prim in (prims.reduce_sum, prims.dot_general) for e in program.eqns]):
        return program
    return _Contractor(program).run()


class Factor(NamedTuple):
    """An array with a label for each axis; axes of length 1 have none."""

    atom: Atom
    labels: tuple[int, ...]


class _Contractor(Writer):
    """One walk; new equations stand where the sum stood."""

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.program = program
        self.defined = definitions(program.eqns)
        self.bases = {v for v, array in program.consts if _is_basis(array)}
        self.extents: list[int] = []

    def run(self) -> Program:
        """The program with its sums rewritten."""
        changed = False
        for eqn in self.program.eqns:
            self.like = eqn
            start = len(self.eqns)
            if _is_candidate(eqn) and self.rewrite(eqn):
                changed = True
            else:
                del self.eqns[start:]
                self.eqns.append(eqn)
        if not changed:
            return self.program
        return self.program.replace(eqns=tuple(self.eqns), made_by="factor_contractions")

    # The sum as factors.

    def rewrite(self, eqn: Eqn) -> bool:
        """Replace one sum; False where nothing is gained."""
        self.extents = []
        if eqn.prim is prims.dot_general:
            found = self.product(eqn) if self.bases else None
        else:
            found = self.total(eqn)
        if found is None:
            return False
        factors, kept = found
        factors, kept = self.without_bases(factors, kept)
        summed = {k for f in factors for k in f.labels} - set(kept)
        new = self.summed(factors, kept, summed)
        if new is None:
            return False
        self.result(eqn, new)
        return True

    def total(self, eqn: Eqn) -> tuple[list[Factor], list[int]] | None:
        """reduce_sum of a product, all factors of which are smaller than the product."""
        (x,) = eqn.inputs
        source = self.defined.get(x) if isinstance(x, Var) else None
        if source is None or source.prim is not prims.mul or x.aval.size < LEAST_SIZE:
            return None
        labels = self.fresh(x.aval.shape)
        factors = self.factors(x, labels)
        long = {k for k in labels if self.extents[k] != 1}
        if factors is None or any([set(f.labels) >= long for f in factors]):
            return None
        if {k for f in factors for k in f.labels} != long:
            return None
        kept = [k for a, k in enumerate(labels) if a not in eqn.params["axes"] and k in long]
        return factors, kept

    def product(self, eqn: Eqn) -> tuple[list[Factor], list[int]] | None:
        """dot_general with a basis among the factors of its operands."""
        a, b = eqn.inputs
        (ca, cb), (ba, bb) = eqn.params["contract"], eqn.params["batch"]
        left = self.fresh(a.aval.shape)
        right = self.fresh(b.aval.shape)
        for i, j in (*zip(ca, cb, strict=True), *zip(ba, bb, strict=True)):
            right[j] = left[i]
        factors: list[Factor] = []
        for atom, labels in ((a, left), (b, right)):
            found = self.factors(atom, labels)
            factors += [self.leaf(atom, labels)] if found is None else found
        if not any([self.is_basis(f) for f in factors]):
            return None
        order = [left[i] for i in ba]
        order += [k for i, k in enumerate(left) if i not in (*ba, *ca)]
        order += [k for j, k in enumerate(right) if j not in (*bb, *cb)]
        kept = [k for k in order if self.extents[k] != 1]
        summed = {left[i] for i in ca}
        good = any([self.is_basis(f) and set(f.labels[1:]) <= summed for f in factors])
        return (factors, kept) if good else None

    def fresh(self, shape: Sequence[int]) -> list[int]:
        """New labels for the axes of an array."""
        first = len(self.extents)
        self.extents += shape
        return list(range(first, len(self.extents)))

    def leaf(self, atom: Atom, labels: Sequence[int]) -> Factor:
        """An array as a factor, without its axes of length 1."""
        kept = tuple([k for k in labels if self.extents[k] != 1])
        shape = tuple([self.extents[k] for k in kept])
        if shape != atom.aval.shape:
            atom = self.apply(prims.reshape, atom, shape=shape)
        return Factor(atom, kept)

    def factors(self, atom: Atom, labels: Sequence[int]) -> list[Factor] | None:
        """What a product of broadcasts multiplies; None if that is too much."""
        pending, found = [(atom, list(labels))], []
        while pending:
            x, at = pending.pop()
            eqn = self.defined.get(x) if isinstance(x, Var) else None
            below = None if eqn is None or isinstance(x, Lit) else self.below(eqn, at)
            if below is None:
                found.append((x, at))
            else:
                pending += below
            if len(found) + len(pending) > MAX_FACTORS:
                return None
        return [self.leaf(x, at) for x, at in reversed(found)]

    def below(self, eqn: Eqn, labels: list[int]) -> list[tuple[Atom, list[int]]] | None:
        """The operands of an equation that multiplies or moves, with their labels."""
        prim, p = eqn.prim, eqn.params
        if prim is prims.mul:
            return [(x, labels if x.aval.shape else []) for x in eqn.inputs]
        if prim is prims.dot_general:
            return self.below_outer(eqn, labels)
        (x, *_) = eqn.inputs
        if prim is prims.neg:
            return [(x, labels), (Lit(x.aval.dtype.type(-1)), [])]
        if prim is prims.broadcast:
            at = [labels[d] for d in p["dims"]]
            return [(x, at)]
        if prim is prims.permute:
            at = [0] * len(labels)
            for k, a in enumerate(p["axes"]):
                at[a] = labels[k]
            return [(x, at)]
        long = [k for k in labels if self.extents[k] != 1]
        if prim is prims.reshape and [self.extents[k] for k in long] == _long(x.aval.shape):
            rest = iter(long)
            return [(x, [next(rest) if n != 1 else self.fresh((1,))[0] for n in x.aval.shape])]
        return None

    def below_outer(self, eqn: Eqn, labels: list[int]) -> list[tuple[Atom, list[int]]] | None:
        """The operands of a product that sums nothing."""
        (summed, batch), at = (eqn.params["contract"], eqn.params["batch"]), list(labels)
        if any([eqn.inputs[0].aval.shape[i] != 1 for i in summed[0]]):
            return None
        lead, free = at[: len(batch[0])], iter(at[len(batch[0]) :])
        found = []
        for x, own, one in zip(eqn.inputs, batch, summed, strict=True):
            given = {i: self.fresh((1,))[0] for i in one} | dict(zip(own, lead, strict=True))
            found.append((x, [given[i] if i in given else next(free) for i in range(x.aval.ndim)]))
        return found

    # Laws.

    def is_basis(self, f: Factor) -> bool:
        """Whether a factor is the identity between its first label and the others."""
        return f.atom in self.bases and len(f.labels) > 1

    def without_bases(
        self, factors: list[Factor], kept: list[int]
    ) -> tuple[list[Factor], list[int]]:
        """sum_s I[k,s] f[s] -> f[k]: the labels s take the place of k in the result."""
        for f in [f for f in factors if self.is_basis(f)]:
            first, *rest = f.labels
            others = [g for g in factors if g is not f]
            elsewhere = {k for g in others for k in g.labels}
            free = not set(rest) & set(kept) and first not in elsewhere and first in kept
            if free and set(rest) <= elsewhere:
                factors = others
                at = kept.index(first)
                kept = [*kept[:at], *rest, *kept[at + 1 :]]
        return factors, kept

    def summed(self, factors: list[Factor], kept: list[int], summed: set[int]) -> Atom | None:
        """The sum over labels, as products of sums and matrix products; axes as in `kept`."""
        dtype = factors[0].atom.aval.dtype
        alone = all([len({f.labels for f in factors if k in f.labels}) == 1 for k in summed])
        if alone and summed and dtype.itemsize < 8:
            factors = [f._replace(atom=self.convert(f.atom, _DOUBLE)) for f in factors]
        factors = self.merged(factors)
        while summed:
            label = min(summed)
            near = [f for f in factors if label in f.labels]
            factors = self.absorbed(factors, near) if len(near) > 2 else factors
            near = [f for f in factors if label in f.labels]
            if len(near) > 2:
                return None
            rest = [f for f in factors if f not in near]
            elsewhere = {k for f in rest for k in f.labels} | set(kept)
            gone = summed - elsewhere
            new = self.sum_of(near[0], gone) if len(near) == 1 else self.dot_of(*near, gone)
            if len(near) == 2 and label not in gone:
                return None
            factors = self.merged([*rest, new])
            summed -= gone
        x = self.outer(factors, kept)
        return self.convert(x, dtype)

    def merged(self, factors: Sequence[Factor]) -> list[Factor]:
        """One factor for each set of labels."""
        found: dict[frozenset[int], Factor] = {}
        for f in factors:
            key = frozenset(f.labels)
            same = found.get(key)
            found[key] = f if same is None else self.times(same, f)
        return list(found.values())

    def absorbed(self, factors: list[Factor], near: Sequence[Factor]) -> list[Factor]:
        """c[b] x[b,i] d[b,j] -> x[b,i] (c d)[b,j]: small factors go into the least larger one."""
        for f in sorted(near, key=lambda f: len(f.labels)):
            larger = [g for g in factors if g is not f and set(g.labels) > set(f.labels)]
            if larger:
                g = min(larger, key=lambda g: g.atom.aval.size)
                new = self.times(g, f)
                factors = [new if x is g else x for x in factors if x is not f]
        return factors

    def times(self, f: Factor, g: Factor) -> Factor:
        """f g, where the labels of g are among those of f."""
        return Factor(self.apply(prims.mul, f.atom, self.spread(g, f.labels)), f.labels)

    def spread(self, f: Factor, labels: Sequence[int]) -> Atom:
        """A factor with its axes in another order, repeated along the labels that it lacks."""
        if f.labels == tuple(labels) or isinstance(f.atom, Lit):
            return f.atom
        own = [k for k in labels if k in f.labels]
        axes = tuple([f.labels.index(k) for k in own])
        x = f.atom
        if axes != tuple(range(len(axes))):
            x = self.apply(prims.permute, x, axes=axes)
        if own == list(labels):
            return x
        shape = tuple([self.extents[k] for k in labels])
        dims = tuple([k for k, label in enumerate(labels) if label in own])
        return self.apply(prims.broadcast, x, shape=shape, dims=dims)

    def sum_of(self, f: Factor, gone: set[int]) -> Factor:
        """The sum over the labels that no other factor has."""
        axes = tuple([a for a, k in enumerate(f.labels) if k in gone])
        kept = tuple([k for k in f.labels if k not in gone])
        return Factor(self.apply(prims.reduce_sum, f.atom, axes=axes), kept)

    def dot_of(self, f: Factor, g: Factor, gone: set[int]) -> Factor:
        """The matrix product over the labels that both have and no other one."""
        shared = [k for k in f.labels if k in g.labels]
        f, g = [
            self.sum_of(x, only) if (only := (gone & set(x.labels)) - set(shared)) else x
            for x in (f, g)
        ]
        pairs = [(f.labels.index(k), g.labels.index(k), k) for k in shared]
        sums = tuple(zip(*[(i, j) for i, j, k in pairs if k in gone], strict=True)) or ((), ())
        lead = tuple(zip(*[(i, j) for i, j, k in pairs if k not in gone], strict=True)) or ((), ())
        out = self.apply(prims.dot_general, f.atom, g.atom, contract=sums, batch=lead)
        labels = [k for k in shared if k not in gone]
        labels += [k for k in f.labels if k not in shared] + [
            k for k in g.labels if k not in shared
        ]
        return Factor(out, tuple(labels))

    def outer(self, factors: Sequence[Factor], kept: list[int]) -> Atom:
        """The product of factors, broadcast to the labels of the result."""
        ordered = sorted(factors, key=lambda f: isinstance(f.atom, Lit))
        spread = [self.spread(f, kept) for f in ordered]
        x = spread[0]
        for y in spread[1:]:
            x = self.apply(prims.mul, x, y)
        return x

    # Equations.

    def convert(self, x: Atom, dtype: np.dtype) -> Atom:
        """`x` in another precision."""
        if x.aval.dtype == dtype:
            return x
        if isinstance(x, Lit):
            return Lit(dtype.type(x.value))
        return self.apply(prims.convert, x, dtype=dtype)


def _is_candidate(eqn: Eqn) -> bool:
    (out,) = eqn.outputs if len(eqn.outputs) == 1 else (None,)
    if out is None or eqn.prim not in (prims.reduce_sum, prims.dot_general):
        return False
    return out.aval.dtype.name in ("float32", "float64") and all([x.aval.size for x in eqn.inputs])


def _is_basis(array: np.ndarray) -> bool:
    """Whether a constant is I[k, s], with s one axis or several."""
    if array.ndim < 2 or array.dtype.kind != "f" or array.size != array.shape[0] ** 2:
        return False
    n = array.shape[0]
    square = array.reshape(n, n)
    return bool((square.diagonal() == 1).all()) and np.count_nonzero(square) == n


def _long(shape: Sequence[int]) -> list[int]:
    return [n for n in shape if n != 1]
