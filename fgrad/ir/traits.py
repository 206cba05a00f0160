"""L1. Traits of primitives for passes; each primitive sets or refuses every trait.

    Primitive("permute", moving(view=True), ...)       in its block
    eqn.prim.movement                                  what a pass reads: a `Movement`, or None

A pass asks for a trait, never for the name of a primitive, so that a new primitive is treated by
what it is.  The functions below make the traits of a family; a refusal says why there is none.
"""

from __future__ import annotations

import enum
from typing import TypeVar

from fgrad.base.named_tuple import NamedTuple


class Refusal:
    """An empty slot on purpose: `NotDifferentiable`, `NotLinear`; `why` completes a sentence."""

    __slots__ = ("why",)

    def __init__(self, why: str) -> None:
        self.why = why


T = TypeVar("T")


def given(trait: T | Refusal) -> T | None:
    """A trait, or None if it is refused."""
    return None if isinstance(trait, Refusal) else trait


class Movement(NamedTuple):
    """How a primitive moves the elements of arrays without computing.

    view: whether NumPy's result shares the memory of the operand.
    fixed: whether the places follow from the parameters, and not from values.
    repeats: whether an element may be taken more than once.
    drops: whether an element may be left out.
    joins: whether elements of several arrays are put together.
    fills: whether there are elements that are of no operand.
    """

    view: bool = False
    fixed: bool = True
    repeats: bool = False
    drops: bool = False
    joins: bool = False
    fills: bool = False

    @property
    def permutes(self) -> bool:
        """Whether the result has each element of one operand exactly once."""
        return self.fixed and not (self.repeats or self.drops or self.joins or self.fills)


class Along(enum.Enum):
    """What becomes of the axes that a fold goes along."""

    AXES = "axes"  # they disappear: a sum
    RUNNING = "running"  # they stay: a running sum
    PLACE = "place"  # the place of the first extremum along one axis


class Fold(NamedTuple):
    """Elements along axes are combined by a scalar operation."""

    along: Along
    op: str  # the row of the scalar table


class Holds(enum.Enum):
    """How a primitive runs the programs in its parameters."""

    CALL = "call"  # `program`, once: its equations may stand in its place
    LOOP = "loop"
    BRANCHES = "branches"


CONTROL = (Holds.LOOP, Holds.BRANCHES)  # they stay equations, however programs are nested


class Host(enum.Enum):
    """Who computes a primitive in compiled programs, where a kernel cannot."""

    NUMPY = "numpy"  # NumPy, LAPACK, or a routine that does what they do
    SCIPY = "scipy"  # the function of scipy.special that has its name
    CALLBACK = "callback"  # a function of the user, given as a parameter
    CUSTOM = "custom"  # a primitive of the user


class Cost(enum.IntEnum):
    """The cost of one element in scalar operations."""

    NOTHING = 0  # only addresses
    CHEAP = 1
    DIVISION = 4  # many dependent instructions
    FUNCTION = 16  # a formula, or a call


class Rounding(enum.Enum):
    """How the elements of results are related to those of operands of the same dtype."""

    COPIES = "copies"  # they are bits of operands
    EXACT = "exact"  # computed, but representable where the operands are
    ROUNDS = "rounds"


UNROUNDED = (Rounding.COPIES, Rounding.EXACT)


class Algorithm(enum.Enum):
    """What libraries and backends know by a name of their own."""

    SORT = "sort"
    SEARCH = "search"  # places in sorted rows
    SELECT = "select"  # the largest of each row
    FOURIER = "fourier"
    EIGENVALUES = "eigenvalues"  # of general matrices
    CONVOLUTION = "convolution"
    ALL_REDUCE = "all-reduce"  # of ranks along an axis, as the next ones: sums
    REDUCE_SCATTER = "reduce-scatter"
    ALL_GATHER = "all-gather"
    ALL_TO_ALL = "all-to-all"
    PERMUTE = "permute"
    PLACE = "place"  # the number of the rank

    @property
    def orders(self) -> bool:
        """Whether results are elements of operands, or places."""
        return self in (Algorithm.SORT, Algorithm.SEARCH, Algorithm.SELECT)


class Across(enum.Enum):
    """What a primitive over the named axis `axis` gives along that axis."""

    SAME = "same"  # one value for all: a sum over the axis
    VARIES = "varies"  # a value for each place: what the neighbour has
    COUNTS = "counts"  # likewise, but of no other place's values: nothing is communicated

    @property
    def communicates(self) -> bool:
        """Whether all places along the axis must take part."""
        return self is not Across.COUNTS


_NO_ALGORITHM = Refusal("has no name in libraries")
_NO_MATRIX = Refusal("does not factor matrices")
_NO_OPERATOR = Refusal("is not, to the last bit, an expression of Python's numbers")
_NO_BODY = Refusal("has no loop's body")
_NO_AXIS = Refusal("knows no named axis")


class Traits(NamedTuple):
    """All traits of a primitive.

    movement, fold, holds, host, cost, rounding, algorithm, across: see their classes.
    elementwise: whether each element of the result is computed of the elements at its place.
    commutative: whether its two operands may change places, to the last bit.
    contracts: whether it sums products along axes of two operands.
    addresses: whether places in its first operand are values, and not parameters.
    finite: whether its derivative maps multiply by infinity for infinite operands alone.
    flops_over_n3: for matrices, the additions and products for an n x n one, divided by n^3
        (Golub and Van Loan, Matrix Computations, 4th edition).
    operator: the expression of Python that computes one element of float32, float64, int64 or bool.
    constants: the parameter that counts the operands of `body` that no step of a loop changes.
    """

    movement: Movement | Refusal
    fold: Fold | Refusal
    holds: Holds | Refusal
    host: Host | Refusal
    cost: Cost | Refusal
    rounding: Rounding | Refusal
    elementwise: bool = False
    commutative: bool = False
    contracts: bool = False
    addresses: bool = False
    finite: bool = False
    algorithm: Algorithm | Refusal = _NO_ALGORITHM
    flops_over_n3: float | Refusal = _NO_MATRIX
    operator: str | Refusal = _NO_OPERATOR
    constants: str | Refusal = _NO_BODY
    across: Across | Refusal = _NO_AXIS


_COMPUTES = Refusal("computes its results")
_MOVES = Refusal("only moves elements")
_SINGLE = Refusal("does not combine the elements along an axis")
_NO_PROGRAM = Refusal("has no program among its parameters")
_IN_KERNEL = Refusal("is part of kernels")
_BY_STEP = Refusal("is a step of its own in compiled programs")
_WHOLE = Refusal("computes whole arrays, not one element after the other")
_AS_ITS_PROGRAMS = Refusal("does what its programs do")
_OF_THE_USER = Refusal("is a function of the user, of which nothing is known")


def elementwise(
    cost: Cost = Cost.CHEAP,
    rounding: Rounding = Rounding.ROUNDS,
    commutative: bool = False,
    host: Host | None = None,
    finite: bool = False,
) -> Traits:
    """Each element of the result is computed of the elements at its place."""
    by = _IN_KERNEL if host is None else host
    found = Traits(_COMPUTES, _SINGLE, _NO_PROGRAM, by, cost, rounding, True, commutative)
    return found._replace(finite=finite)


PLAIN = elementwise()
COPIES = elementwise(Cost.NOTHING, Rounding.COPIES)
EXACT = elementwise(rounding=Rounding.EXACT)
COMMUTES = elementwise(commutative=True)
COMMUTES_EXACTLY = elementwise(rounding=Rounding.EXACT, commutative=True)
DIVIDES = elementwise(Cost.DIVISION)
FUNCTION = elementwise(Cost.FUNCTION)
FINITE_FUNCTION = elementwise(Cost.FUNCTION, finite=True)


def moving(
    view: bool = False,
    fixed: bool = True,
    repeats: bool = False,
    drops: bool = False,
    joins: bool = False,
    fills: bool = False,
    rounding: Rounding = Rounding.COPIES,
) -> Traits:
    """It moves elements, see `Movement`."""
    movement = Movement(view, fixed, repeats, drops, joins, fills)
    found = Traits(movement, _MOVES, _NO_PROGRAM, _IN_KERNEL, Cost.NOTHING, rounding)
    return found._replace(addresses=not fixed)


def passing() -> Traits:
    """The results are the operands themselves."""
    movement = Movement(view=True)
    return Traits(movement, _MOVES, _NO_PROGRAM, _IN_KERNEL, Cost.NOTHING, Rounding.COPIES)


def folding(along: Along, op: str) -> Traits:
    """It combines the elements along axes by a scalar operation."""
    exact = op in ("max", "min", "and", "or")
    rounding = Rounding.EXACT if exact else Rounding.ROUNDS
    return Traits(_COMPUTES, Fold(along, op), _NO_PROGRAM, _IN_KERNEL, Cost.CHEAP, rounding)


def contracting() -> Traits:
    """It sums products of the elements of two operands."""
    traits = Traits(
        _COMPUTES, _SINGLE, _NO_PROGRAM, _IN_KERNEL, Cost.CHEAP, Rounding.ROUNDS, contracts=True
    )
    return traits


def ordering(algorithm: Algorithm) -> Traits:
    """It sorts, searches or selects: results are elements of operands, or places."""
    found = Traits(_COMPUTES, _SINGLE, _NO_PROGRAM, _BY_STEP, _WHOLE, Rounding.EXACT)
    return found._replace(algorithm=algorithm)


def collecting(addresses: bool = False) -> Traits:
    """It sums what it makes of elements, or adds them at places that overlap."""
    found = Traits(_COMPUTES, _SINGLE, _NO_PROGRAM, _IN_KERNEL, Cost.CHEAP, Rounding.ROUNDS)
    return found._replace(addresses=addresses)


def whole(
    host: Host | None = Host.NUMPY,
    algorithm: Algorithm | None = None,
    flops_over_n3: float | None = None,
) -> Traits:
    """It computes whole matrices, transforms or arrays of random bits."""
    by = _IN_KERNEL if host is None else host
    found = Traits(_COMPUTES, _SINGLE, _NO_PROGRAM, by, _WHOLE, Rounding.ROUNDS)
    return found._replace(
        algorithm=_NO_ALGORITHM if algorithm is None else algorithm,
        flops_over_n3=_NO_MATRIX if flops_over_n3 is None else flops_over_n3,
    )


def holding(how: Holds, constants: str | None = None) -> Traits:
    """It runs the programs in its parameters."""
    found = Traits(_COMPUTES, _SINGLE, how, _BY_STEP, _AS_ITS_PROGRAMS, _AS_ITS_PROGRAMS)
    return found if constants is None else found._replace(constants=constants)


def collective(how: Across, algorithm: Algorithm | None = None) -> Traits:
    """It combines or exchanges the values along a named axis."""
    return whole(Host.NUMPY, algorithm)._replace(across=how)


def calling(host: Host) -> Traits:
    """It calls a function of the user."""
    return Traits(_COMPUTES, _SINGLE, _NO_PROGRAM, host, _OF_THE_USER, _OF_THE_USER)
