"""L5. What a `for` loop walks: `range`, arrays, `enumerate`, `zip` and `reversed` of these, with
bounds that may be traced."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Iterator

import numpy as np

from fgrad.base.size_functions import integer, length_of
from fgrad.base.sizes import is_symbolic
from fgrad.capture.elements import own_part
from fgrad.capture.ragged import Ragged
from fgrad.capture.values import is_unknown
from fgrad.ops.checked import checked, located
from fgrad.trace import Tracer, concrete
from fgrad.tracing.capturing import not_recorded
from fgrad.tracing.checks import checking, checks
from fgrad.typing import PyTree

ACTS_FOR_USERS = True  # what these raise is raised by what they stand for
ZERO_STEP = ValueError("range() arg 3 must not be zero")


class Steps:
    """Items that are found by their number.

    Arguments:
        count: how many; perhaps traced.
        item: finds an item.
        plain: makes Python's iterator of them.
    """

    def __init__(
        self,
        count: PyTree,
        item: Callable[[object], object],
        plain: Callable[[], Iterator[object]] | None = None,
    ) -> None:
        self.count, self.item, self.plain = count, item, plain
        self.any_order = False  # whether what steps add up may be added in any order

    def known_count(self) -> int | None:
        """The number of items, if it is known, which may be a length that changes."""
        return None if is_unknown(self.count) else integer(self.count)

    def __iter__(self) -> Iterator[object]:
        count = self.known_count()
        if count is None:
            raise not_recorded("the number of steps is traced")
        return iter([self.item(k) for k in range(count)]) if self.plain is None else self.plain()

    def __len__(self) -> int:
        count = self.known_count()
        if count is None:
            raise not_recorded("len() of a range with traced bounds")
        return count


def steps_of(x: PyTree) -> Steps | None:
    """What is walked by number; None for all that Python walks by itself."""
    if isinstance(x, Steps):
        return x
    if isinstance(x, Ragged):
        own = x.settled()
        return Steps(own.count, own.at)
    if isinstance(x, range):
        return Steps(len(x), _in_range(x.start, x.step), lambda: iter(x))
    if isinstance(x, (Tracer, np.ndarray)) and x.shape:
        if isinstance(x, np.ndarray) and x.dtype.kind not in "biufc":
            return None
        return Steps(x.shape[0], lambda k: _row(x, k), lambda: iter(x))
    return None


def _row(x: PyTree, k: PyTree) -> PyTree:
    from_plain = isinstance(x, np.ndarray) and is_unknown(k)
    return own_part(np.take(x, k, axis=0), k) if from_plain else x[k]


def _in_range(start: PyTree, step: int) -> Callable[[PyTree], PyTree]:
    if type(start) is int and start == 0 and step == 1:
        return lambda k: k

    def item(k: PyTree) -> PyTree:
        with checking(False):  # it lies between the bounds, which are integers of 64 bits
            far = k if abs(step) == 1 else k * abs(step)
            return start + far if step > 0 else start - far

    return item


def range_(*args: PyTree) -> PyTree:
    """`range`, of which bounds may be traced."""
    if not any([is_unknown(x) for x in args]):
        known = [_integer(x) for x in args]
        return _sized(known) if is_symbolic(args) else range(*known)
    start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
    for x in args:
        if isinstance(x, Tracer) and x.dtype.kind not in "iu":
            raise TypeError(f"'{x.dtype}' object cannot be interpreted as an integer")
    if is_unknown(step):
        return _of_traced_step(start, stop, step, args)
    step = _integer(step)
    if step == 0:
        raise ValueError(*ZERO_STEP.args)
    long = stop - start if step > 0 else start - stop
    count = long if abs(step) == 1 else (long + (abs(step) - 1)) // abs(step)
    return Range(count, args, _in_range(start, step))


def _sized(args: list[PyTree]) -> PyTree:
    """A range between lengths that may change."""
    start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
    if type(step) is not int or not step:
        return range(*args)
    return Range(length_of(start, stop, step), tuple(args), _in_range(start, step))


def _of_traced_step(start: PyTree, stop: PyTree, step: PyTree, args: tuple[PyTree, ...]) -> Range:
    """A range whose step has no value yet: it may count up or down."""
    if not checks():
        raise not_recorded("the step of a range is traced, and nothing checks that it is not zero")
    step = checked(step, step != 0, located(ZERO_STEP))
    sign = np.where(step > 0, 1, -1)
    size = step * sign
    count = ((stop - start) * sign + (size - 1)) // size

    def item(k: PyTree) -> PyTree:
        with checking(False):  # it lies between the bounds, which are integers of 64 bits
            return start + k * step

    return Range(count, args, item)


class Range(Steps):
    """A range with traced bounds: where it is more than walked, they must be known."""

    def __init__(
        self, count: PyTree, bounds: tuple[PyTree, ...], item: Callable[[object], object]
    ) -> None:
        super().__init__(count, item)
        self.bounds = bounds

    def known(self) -> range:
        """The range.

        Raises:
            TracedIndexError: its bounds are traced; integers among arguments are then constants.
        """
        return range(*[operator.index(x) for x in self.bounds])

    def __getitem__(self, place: PyTree) -> PyTree:
        return self.known()[place]

    def __contains__(self, x: object) -> bool:
        return x in self.known()

    def __eq__(self, other: object) -> bool:
        return self.known() == other

    def __hash__(self) -> int:
        return hash(self.known())

    def __getattr__(self, name: str) -> PyTree:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.known(), name)


def _integer(x: PyTree) -> PyTree:
    return concrete(x).item() if isinstance(x, Tracer) else x


def enumerate_(items: PyTree, start: PyTree = 0) -> PyTree:
    """`enumerate`."""
    steps = steps_of(items)
    if steps is None:
        return builtins.enumerate(items, start)
    plain = None if steps.plain is None else lambda: builtins.enumerate(items, start)
    return Steps(steps.count, lambda k: (start + k, steps.item(k)), plain)  # type: ignore[arg-type]


def zip_(*items: object, strict: bool = False) -> object:
    """`zip`."""
    found = [steps_of(x) for x in items]
    counts = [None if s is None else s.known_count() for s in found]
    if not items or strict or any([n is None for n in counts]):
        return builtins.zip(*items, strict=strict)
    every = [s for s in found if s is not None]
    return Steps(
        min([n for n in counts if n is not None]),
        lambda k: tuple([s.item(k) for s in every]),
        lambda: builtins.zip(*items, strict=False),
    )


def reversed_(items: PyTree) -> PyTree:
    """`reversed`."""
    steps = steps_of(items)
    if steps is None:
        return builtins.reversed(items)
    last = steps.count - 1
    plain = None if steps.plain is None else lambda: builtins.reversed(items)

    def item(k: PyTree) -> PyTree:
        with checking(False):
            place = last - k
        return steps.item(place)

    return Steps(steps.count, item, plain)
