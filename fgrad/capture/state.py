"""L5. The variables that a body binds: what of them is carried from step to step, and its type.

    numbers         carried by value; Python's numbers keep that they yield to other dtypes
    arrays          the object stays the same, and writes to it are carried (`tracing/carried.py`);
                    one that the body replaces by another is carried by value
    tuples, ...     left alone until the body replaces them; then taken apart
    all else        must stay the same object

What is not known at first is learnt by tracing: `Again` says that something was learnt, `Peel`
that the first step is another one than those that follow, and is taken alone.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from types import CellType, FunctionType
from typing import Any

import numpy as np

from fgrad.base.closures import contents
from fgrad.base.named_tuple import NamedTuple
from fgrad.capture.aliases import plain_behind, roots_of
from fgrad.capture.containers import shared_names
from fgrad.capture.names import MADE
from fgrad.capture.values import (
    UNDEFINED,
    Parts,
    aval_of_value,
    calculate_alike,
    converted,
    has_memory,
    is_container,
    is_number,
    is_unknown,
    parts_of,
    plain_of,
    zeros,
)
from fgrad.errors import CaptureError, Row
from fgrad.ir.aval import Aval
from fgrad.numpy.adopting import adopted
from fgrad.numpy.rebinding import is_owner
from fgrad.trace import Tracer, Value
from fgrad.tracing.assign import View, made_inside, root_of, writes_of
from fgrad.tracing.capturing import not_recorded
from fgrad.tracing.carried import Body
from fgrad.tracing.thread_state import THREAD
from fgrad.typing import PyTree


class Again(Exception):
    """More is known of what is carried: trace the body again."""


class Peel(Exception):
    """The first step must be taken alone; the text says why."""


class PlainWritten(CaptureError):
    """A body writes a traced value into a plain array."""

    def __init__(self) -> None:
        card = not_recorded("the body changes a ndarray")
        super().__init__(card.headline, card.rows)


class Exchanged(CaptureError):
    """Arrays change their names in a step, and are written."""

    def __init__(self, why: str, rows: Sequence[Row] = ()) -> None:
        card = not_recorded(why)
        super().__init__(card.headline, rows or card.rows)


class Cells:
    """Some variables of a function, by the cells of functions made in it."""

    def __init__(self, names: Sequence[str], *functions: FunctionType) -> None:
        cells: dict[str, CellType] = {}
        for function in functions:
            names_of = function.__code__.co_freevars
            cells.update(zip(names_of, function.__closure__ or (), strict=True))
        self.names = [name for name in names if name in cells]
        self.cells = [cells[name] for name in self.names]

    def get(self) -> list[object]:
        """The values."""
        return [contents(cell, UNDEFINED) for cell in self.cells]

    def sole(self) -> dict[str, bool]:
        """The variables to whose value nothing else refers; of a list or the like also whether
        nothing else refers to what is in it."""
        entered = {id(x) for body in THREAD.state.bodies for x in body.entered}
        return {
            name: _is_alone_in(contents(cell, UNDEFINED), entered)
            for name, cell in zip(self.names, self.cells, strict=True)
            if _references(cell)
            <= _ALONE + (_ENTERED if id(contents(cell, UNDEFINED)) in entered else 0)
            and not isinstance(getattr(contents(cell, UNDEFINED), "memory", None), View)
        }

    def adopt(self, alone: Collection[str]) -> bool:
        """Make arrays of the trace of plain arrays of floats in some variables, to which nothing
        else may refer; whether there are any."""
        found = False
        for name, cell in zip(self.names, self.cells, strict=True):
            x: PyTree = contents(cell, UNDEFINED)
            if name in alone and is_owner(x) and x.dtype.kind in "fc":
                cell.cell_contents, found = adopted(x), True
        return found

    def set(self, values: Sequence[object]) -> None:
        """Bind the variables to other values."""
        for cell, value in zip(self.cells, values, strict=True):
            if value is not UNDEFINED:
                cell.cell_contents = value
            elif contents(cell, UNDEFINED) is not UNDEFINED:
                del cell.cell_contents


def is_internal(name: str) -> bool:
    """Whether a variable was made by the rewriting."""
    return name.startswith(MADE)


def _references(cell: CellType) -> int:
    try:
        return sys.getrefcount(cell.cell_contents)
    except ValueError:
        return 0


def _counts(x: Any) -> list[tuple[object, int]]:
    """What a container holds, each with how many references there are."""
    found = []
    for y in x.values() if type(x) is dict else x:
        found.append((y, sys.getrefcount(y)))
    return found


def _is_alone_in(x: object, entered: Collection[int]) -> bool:
    """Whether nothing but a value refers to the arrays that it holds."""
    for y, count in _counts(x) if type(x) in (list, dict) or isinstance(x, tuple) else ():
        if not any([has_memory(z) for z in parts_of(y).leaves]):
            continue
        if count > _HELD_ONCE + (_ENTERED if id(y) in entered else 0):
            return False
        if isinstance(getattr(y, "memory", None), View) or not _is_alone_in(y, entered):
            return False
    return True


_HELD_ONCE = _counts([object()])[0][1]
_ALONE = _references(CellType(object()))  # where nothing but the cell refers to the value
_ENTERED = 2  # of a body that is being traced: its handles, and the values of its variables
HELD, VALUE, NEW = "held", "value", "new"


class Slot:
    """One variable: how it is carried."""

    __slots__ = ("kind", "name", "parts", "start")

    def __init__(self, name: str, start: object) -> None:
        self.name, self.start = name, start
        self.parts: Parts | None = None
        if start is UNDEFINED:
            self.kind = NEW
        elif is_number(start) and not has_memory(start):
            self.kind = VALUE
        else:
            self.kind = HELD
        if self.kind == VALUE:
            self.parts = parts_of(start)

    def apart(self) -> None:
        """Carry it by value."""
        self.kind, self.parts = VALUE, parts_of(self.start)

    def widen(self, types: dict[int, Aval]) -> None:
        """Begin with numbers of other types."""
        assert self.parts is not None
        leaves = list(self.parts.leaves)
        for k, aval in types.items():
            new = converted(leaves[k], aval)
            leaves[k] = new.item() if aval.weak and not isinstance(new, Tracer) else new
        self.adopt(self.parts.together(leaves))

    def adopt(self, start: object) -> None:
        """Take another value before the first step."""
        self.start, self.kind, self.parts = start, VALUE, parts_of(start)


Place = tuple[str, int]  # an array: a variable, and which leaf of its value


class Outcome(NamedTuple):
    """What a step has made: the numbers that are carried, and whole values of the variables."""

    numbers: list[Value]
    values: list[Any]
    fresh: list[str]  # the variables that were not defined before
    outside: dict[str, list[Tracer]]  # those that are arrays from outside, or parts of them
    twins: dict[Place, list[Place]]  # of an array, those before it with which it may share memory
    shared: set[str]  # the variables whose lists may have other names
    plain: dict[str, list[np.ndarray]]  # the plain arrays in variables that may have other names


class Plan:
    """What a loop carries.

    Arguments:
        cells: the variables that the body binds.
        guessed: arrays that it writes, as far as its text shows.
        sole: the variables to whose first value nothing else refers, see `Cells.sole`.
    """

    def __init__(self, cells: Cells, guessed: Sequence[object], sole: Mapping[str, bool]) -> None:
        self.cells, self.sole = cells, sole
        self.slots = [Slot(n, v) for n, v in zip(cells.names, cells.get(), strict=True)]
        self.fresh = [slot.name for slot in self.slots if slot.kind == NEW]
        self.learnt: list[Callable[[], None]] = []  # to be done outside of the trace
        self.roots: list[Tracer] = []
        for x in guessed:
            if isinstance(x, Tracer) and has_memory(x):
                self.add_root(root_of(x))

    def add_root(self, root: Tracer) -> bool:
        """Carry an array; whether that is new."""
        if any([root is other for other in self.roots]):
            return False
        self.roots.append(root)
        return True

    def starts(self) -> list[object]:
        """The values of the variables before the first step."""
        return [slot.start for slot in self.slots]

    def leaves(self) -> list[tuple[Slot, Any]]:
        """What is carried by value: the numbers in the variables."""
        return [
            (slot, leaf)
            for slot in self.slots
            if slot.kind == VALUE and slot.parts is not None
            for leaf in slot.parts.leaves
            if is_number(leaf)
        ]

    def numbers(self) -> list[Value]:
        """The first values of what is carried."""
        return [leaf for _, leaf in self.leaves()]

    def unshared(self, given: Sequence[Any]) -> list[Any]:
        """Of what stands for the numbers in a trace, that to which nothing else refers."""
        own = {*[name for name, alone in self.sole.items() if alone], *self.fresh}
        pairs = zip(self.leaves(), given, strict=True)
        return [x for (slot, _), x in pairs if slot.name in own]

    def others(self, slot: Slot) -> list[Tracer]:
        """The arrays that a variable is before the first step, if these have other names."""
        if self.sole.get(slot.name) or slot.name in self.fresh or slot.parts is None:
            return []
        arrays = [x for x in slot.parts.leaves if isinstance(x, Tracer) and has_memory(x)]
        return [root for x in arrays for root in roots_of(x)]

    def live_roots(self) -> list[Tracer]:
        """The arrays that are carried, without those that are carried by value."""
        own = [leaf for _, leaf in self.leaves() if isinstance(leaf, Tracer)]
        return [root for root in self.roots if not any([root is x for x in own])]

    def bind(self, numbers: Sequence[Value]) -> list[object]:
        """Give the variables values with these numbers, and return them."""
        each = iter(numbers)
        values = []
        for slot in self.slots:
            if slot.kind != VALUE or slot.parts is None:
                values.append(slot.start)
                continue
            leaves = [next(each) if is_number(leaf) else leaf for leaf in slot.parts.leaves]
            values.append(slot.parts.together(leaves))
        self.cells.set(values)
        return values

    def learn(self) -> None:
        """Take account of what was learnt in a trace that has ended."""
        for step in self.learnt:
            step()
        self.learnt = []

    def restore(self) -> None:
        """Give the variables the values that they had before."""
        self.cells.set(self.starts())

    def outcome(self, body: Body, entered: Sequence[object]) -> Outcome:
        """What a step has made of the variables, which had the values `entered`.

        Raises:
            Again, Peel: it is another kind of thing than before the step.
            CaptureError: it cannot be carried.
        """
        sole = self.cells.sole()
        after = self.cells.get()
        learnt = False
        for slot, before, now in zip(self.slots, entered, after, strict=True):
            learnt |= self._learn(slot, before, now)
        if learnt:
            raise Again
        numbers: list[Value] = []
        for slot, before, now in zip(self.slots, entered, after, strict=True):
            if slot.kind == VALUE:
                numbers += self._taken(slot, before, now)
        outside = self._check_aliases(body, entered, after)
        twins = twins_of(self.slots, after)
        given = [x for _, x in _arrays(self.slots, entered) if isinstance(x, Tracer)]
        if twins and any(map(writes_of, given)):
            raise Exchanged(f"{next(iter(twins))[0]} is another name of an array that is written")
        carried = [k for k, slot in enumerate(self.slots) if slot.kind == VALUE]
        ends = [(self.slots[k].name, after[k]) for k in carried]
        starts = [(self.slots[k].name, entered[k]) for k in carried]
        shared = shared_names(ends, starts, self.sole, body.made)
        plain = {name: found for name, x in ends if (found := _plain_in(x, name in sole))}
        return Outcome(numbers, after, self.fresh, outside, twins, shared, plain)

    def _learn(self, slot: Slot, before: object, now: object) -> bool:
        """Note how a variable is to be carried; whether that is new."""
        if slot.kind == NEW and now is not UNDEFINED:
            parts = parts_of(now)
            types = [(x, aval_of_value(x) if is_number(x) else None) for x in parts.leaves]

            def begin() -> None:
                slot.adopt(parts.together([x if t is None else zeros(t) for x, t in types]))

            self.learnt.append(begin)
            return True
        if slot.kind == HELD and now is not before:
            if now is UNDEFINED:
                raise not_recorded(f"`del {slot.name}`")
            if not (is_number(now) and has_memory(before)) and not is_container(before):
                raise Peel(f"{slot.name} changes from {_kind(before)} to {_kind(now)}")
            slot.apart()
            return True
        return False

    def _taken(self, slot: Slot, before: object, now: object) -> list[Value]:
        """The numbers in the new value of a variable, in the types that are carried."""
        if now is UNDEFINED:
            raise not_recorded(f"{slot.name} is not defined after some steps")
        assert slot.parts is not None
        parts = parts_of(now)
        if parts.shape != slot.parts.shape:
            raise Peel(f"{slot.name} changes its structure")
        new: list[Value] = []
        wider: dict[int, Aval] = {}
        for k, (old, leaf) in enumerate(zip(slot.parts.leaves, parts.leaves, strict=True)):
            if not is_number(old) or not is_number(leaf):
                if old is not leaf and not _equal(old, leaf):
                    raise Peel(f"{slot.name} changes from {_kind(old)} to {_kind(leaf)}")
                continue
            a, b = aval_of_value(old), aval_of_value(leaf)
            if a.shape != b.shape:
                raise Peel(f"{slot.name} changes its shape from {a.shape} to {b.shape}")
            if a != b:
                both = _wider(old, a, b)
                if both is None:
                    raise Peel(f"{slot.name} changes its dtype from {a.dtype} to {b.dtype}")
                if both != a:
                    wider[k] = both
                leaf = converted(leaf, both)
            new.append(leaf)
        if wider:
            self.learnt.append(functools.partial(slot.widen, wider))
            raise Again
        return new

    def _check_aliases(
        self, body: Body, entered: Sequence[object], after: Sequence[object]
    ) -> dict[str, list[Tracer]]:
        """Refuse arrays that have another name where one of them is written; the arrays from
        outside that variables are."""
        given, made = _arrays(self.slots, entered), _arrays(self.slots, after)
        for name, x in _arrays(self.slots, self.starts()):
            if isinstance(x, Tracer) and any([body.carries(root) for root in roots_of(x)]):
                raise Peel(f"{name} is another name of an array that is written")
        written = [x for x in given if isinstance(x[1], Tracer) and writes_of(x[1])]
        traced = [x for _, x in made if isinstance(x, Tracer)]
        roots = [root_of(x) for x in traced]
        outside: dict[str, list[Tracer]] = {}
        for name, x in made:
            if not isinstance(x, Tracer) or any([x is y for _, y in given]):
                continue
            for root in roots_of(x):
                if body.carries(root):
                    raise Peel(f"{name} is another name of an array that is written")
                if root.builder is not body.builder and not made_inside(root, body.builder):
                    outside.setdefault(name, []).append(root)
        if len({id(root) for root in roots}) < len(
            {id(x) for x in traced} if not written else roots
        ):
            raise Peel(f"{made[0][0]} is another name of an array")
        shared = [slot.name for slot in self.slots if not self.sole.get(slot.name)]
        shared = [name for name, _ in given if name in shared and name not in self.fresh]
        if written and (outside or shared):
            raise Exchanged(f"{written[0][0]} is written and bound anew, and has another name")
        if shared:
            for name, roots in self._exchanged(given, made).items():
                outside[name] = [*outside.get(name, ()), *roots]
        return outside

    def _exchanged(
        self, given: Sequence[tuple[str, object]], made: Sequence[tuple[str, object]]
    ) -> dict[str, list[Tracer]]:
        """The variables that are, after a step, what another one was before."""
        starts = [x for _, x in _arrays(self.slots, self.starts()) if isinstance(x, Tracer)]
        roots = [root for x in starts for root in roots_of(x)]
        before = {id(x) for _, x in given}
        return {
            name: roots
            for name, x in made
            if isinstance(x, Tracer) and any([id(root) in before for root in roots_of(x)])
        }


def twins_of(slots: Sequence[Slot], values: Sequence[object]) -> dict[Place, list[Place]]:
    """Of each array that is carried by value, those before it that may be in one array with it."""
    of_root: dict[int, list[tuple[Place, Tracer]]] = {}
    found: dict[Place, list[Place]] = {}
    for slot, value in zip(slots, values, strict=True):
        for k, x in enumerate(parts_of(value).leaves if slot.kind == VALUE else ()):
            if not isinstance(x, Tracer) or not has_memory(x):
                continue
            for root in roots_of(x):
                before = of_root.setdefault(id(root), [])
                shared = [place for place, y in before if y is not x]
                if shared:
                    found[slot.name, k] = [*found.get((slot.name, k), ()), *shared]
                before.append(((slot.name, k), x))
    return found


def _plain_in(x: object, sole: bool) -> list[np.ndarray]:
    """The plain arrays with other names that are in a value, or that traced ones in it may be."""
    traced = [leaf for leaf in parts_of(x).leaves if isinstance(leaf, Tracer)]
    return [*plain_of(x, sole), *[y for leaf in traced for y in plain_behind(leaf)]]


def _arrays(slots: Sequence[Slot], values: Sequence[object]) -> list[tuple[str, object]]:
    """The arrays in the variables that are carried by value."""
    return [
        (slot.name, leaf)
        for slot, value in zip(slots, values, strict=True)
        if slot.kind == VALUE
        for leaf in parts_of(value).leaves
        if has_memory(leaf)
    ]


def _wider(old: object, a: Aval, b: Aval) -> Aval | None:
    """The type in which a number that changes its type can be carried exactly; or None."""
    if not a.weak:
        return None
    if not b.weak and not calculate_alike(a, b):
        return None
    dtype = np.result_type(a.dtype, b.dtype) if b.weak else b.dtype
    if "biufc".index(dtype.kind) < "biufc".index(a.dtype.kind):
        return None
    wider = Aval((), dtype, b.weak)
    if is_unknown(old) or isinstance(old, Tracer) or a.dtype == dtype:
        return wider
    return wider if np.asarray(old).astype(dtype)[()] == old else None


def _equal(a: object, b: object) -> bool:
    """Whether two values that are no numbers are the same."""
    plain = isinstance(a, (str, bytes, int, type(None))) and type(a) is type(b)
    return plain and a == b


def _kind(x: object) -> str:
    return "undefined" if x is UNDEFINED else f"a {type(x).__name__}"
