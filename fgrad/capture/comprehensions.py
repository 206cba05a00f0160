"""L5. `sum(f(v) for v in x if p(v))` and `np.array([f(v) for v in x])` as loops.

    sum, min, max, any, all      carry what they have found so far
    np.array, np.sum, ...        a loop that fills an array, instead of a list of traced values; of
                                 those that a condition chooses, the array under a mask

`value(item, rows)` makes an element, in which `rows` stands for the function that a list of
elements in it is given to.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable

import numpy as np

from fgrad import numpy as fnp
from fgrad.base.frames import is_defect
from fgrad.base.named_tuple import NamedTuple
from fgrad.capture.branches import if_
from fgrad.capture.calls import OF_LISTS, bool_
from fgrad.capture.conditions import any_of, either, not_
from fgrad.capture.convert import called
from fgrad.capture.iteration import Steps, steps_of
from fgrad.capture.loop_equations import operations
from fgrad.capture.loops import FEWEST, INDEX, SHORT, for_
from fgrad.capture.state import Cells
from fgrad.capture.values import Parts, aval_of_value, is_number, is_unknown, parts_of, zeros
from fgrad.errors import TooManyStepsError
from fgrad.ir.aval import Aval
from fgrad.ir.program import Program
from fgrad.numpy.masked import Masked
from fgrad.ops.checked import located, require
from fgrad.trace import Tracer, Value, innermost, trace
from fgrad.tracing.capturing import rolls
from fgrad.tracing.carried import Body, Written
from fgrad.transforms.core.closure_capture import closing
from fgrad.typing import PyTree

ACTS_FOR_USERS = True  # what these raise is raised by what they stand for

FEWEST_ROWS = 16  # elements of an array that a loop fills
Items = Iterable[PyTree]
ElementOf = Callable[[PyTree, PyTree], PyTree]
Fold = Callable[..., PyTree]
Best = tuple[PyTree, PyTree, PyTree]  # whether there is one, its value, and what it is judged by
NOT_DONE = object()


def over(
    function: Callable[..., PyTree],
    items: Items,
    plain: Callable[[Items], PyTree],
    test: ElementOf | None,
    value: ElementOf,
    *rest: PyTree,
    **named: PyTree,
) -> PyTree:
    """`function(plain(items), *rest, **named)`, where `plain` makes a list or a generator.

    Arguments:
        test: whether an item is chosen; None if all are.
        value: the element of an item.
    """
    fold = _fold_of(function) if rolls() else None
    if fold is not None and (test is not None or _is_long(items)):
        found = fold(items, test, value, *rest, **named)
        if found is not NOT_DONE:
            return found
    return called(function)(plain(items), *rest, **named)


def _fold_of(function: PyTree) -> Fold | None:
    try:
        return FOLDS.get(function)
    except TypeError:  # it cannot be hashed
        return None


def _is_long(items: Items) -> bool:
    steps = steps_of(items)
    count = 0 if steps is None else steps.known_count()
    return count is None or count >= FEWEST


def _folded(
    items: Items,
    test: ElementOf | None,
    combine: Callable[[PyTree, PyTree], PyTree],
    start: PyTree,
    ends: Callable[[PyTree], PyTree] | None = None,
) -> PyTree:
    """`start` combined with each item that is chosen, until it `ends`."""
    result = start

    def step(item: PyTree) -> None:
        def then() -> None:
            nonlocal result
            result = combine(result, item)

        if test is None:
            then()
        else:
            cells = Cells(("result",), then)  # type: ignore[arg-type]
            if_(test(item, list), then, _nothing, ("result",), (), (), cells)

    stop = None if ends is None else lambda: ends(result)
    for_(items, stop, step, ("result",), ())  # type: ignore[arg-type]
    return result


def _nothing() -> None:
    """The branch of what is not chosen."""


def _sample(items: Items, value: ElementOf, convert: Callable[[PyTree], PyTree]) -> Sample | None:
    """What an element is made of, and the program that makes it; None if that is not known before
    the loop runs."""
    steps = steps_of(items)
    if steps is None:
        return None
    found: list[Parts] = []

    def flat(index: Tracer) -> list[Value]:
        builder = innermost()
        assert builder is not None
        with closing(builder), Body(builder, (), ()):
            found.append(parts_of(convert(value(steps.item(index), rows))))
            return [x.handle() if isinstance(x, Tracer) else x for x in found[0].leaves]

    try:
        traced = trace(flat, [INDEX], "comprehension", "for")
    except TooManyStepsError:
        raise
    except Written:
        return None
    except Exception as error:
        if is_defect(error):
            raise
        return None
    avals = [aval_of_value(x) for x in found[0].leaves]
    return Sample(steps, found[0], avals, traced.program)


class Sample(NamedTuple):
    """An element of a comprehension, at a place that is not known."""

    steps: Steps
    parts: Parts
    avals: list[Aval]
    program: Program


# --- numbers --------------------------------------------------------------------------------------


def _summed(items: Items, test: ElementOf | None, value: ElementOf, start: PyTree = 0) -> PyTree:
    return _folded(items, test, lambda total, item: total + value(item, list), start)


def _counted(items: Items, test: ElementOf | None, _value: ElementOf) -> PyTree:
    return NOT_DONE if test is None else _folded(items, test, lambda n, _: n + 1, 0)


def _any(items: Items, test: ElementOf | None, value: ElementOf) -> PyTree:
    return _folded(items, test, lambda _, item: bool_(value(item, list)), False, lambda x: x)


def _all(items: Items, test: ElementOf | None, value: ElementOf) -> PyTree:
    return _folded(items, test, lambda _, item: bool_(value(item, list)), True, not_)


def _extreme(plain: Callable[..., PyTree], better: Callable[[PyTree, PyTree], PyTree]) -> Fold:
    """`max` and `min`."""

    def of(
        items: Items,
        test: ElementOf | None,
        value: ElementOf,
        *rest: PyTree,
        key: PyTree = None,
        **named: PyTree,
    ) -> PyTree:
        if rest or not named.keys() <= {"default"}:
            return NOT_DONE

        def pair(item: PyTree) -> tuple[PyTree, PyTree]:
            made = value(item, list)
            return made, made if key is None else called(key)(made)

        def combine(best: Best, item: PyTree) -> Best:
            found, old, by = best
            new, other = pair(item)
            wins = any_of(not_(found), lambda: _before(other, by, better))
            return either(wins, lambda: (True, new, other), lambda: (found, old, by))  # type: ignore[return-value]

        sample = _sample(items, lambda item, _: pair(item), lambda x: x)
        if sample is None or not all(map(is_number, sample.parts.leaves)):
            return NOT_DONE
        start: PyTree = sample.parts.together([zeros(aval) for aval in sample.avals])
        found, best, _ = _folded(items, test, combine, (False, *start))
        if not is_unknown(found):
            return best if found else plain((), **named)
        if "default" in named:
            return either(found, lambda: best, lambda: named["default"])
        try:
            plain(())
        except ValueError as error:
            require(found, located(error))
        return best

    return of


def _before(a: PyTree, b: PyTree, better: Callable[[PyTree, PyTree], PyTree]) -> PyTree:
    """Whether `a` is better than `b`: tuples by their first elements that differ."""
    if not isinstance(a, tuple):
        return better(a, b)
    if len(a) == 1:
        return _before(a[0], b[0], better)
    same = a[0] == b[0]
    return either(same, lambda: _before(a[1:], b[1:], better), lambda: _before(a[0], b[0], better))


# --- arrays ---------------------------------------------------------------------------------------


def rows(items: PyTree) -> PyTree:
    """What a list in a list is given to, where an array is made of them."""
    return items


def _stacked(items: Items, test: ElementOf | None, value: ElementOf) -> PyTree:
    """The elements as one array, or what a mask selects of one; None if a loop cannot fill it."""
    sample = _sample(items, value, fnp.array)
    count = None if sample is None else sample.steps.known_count()
    if sample is None or count is None or count < FEWEST_ROWS:
        return None
    (aval,), size = sample.avals, operations(sample.program)
    if test is None and size is not None and count * size <= SHORT:
        return None
    buffer: PyTree = fnp.zeros((count, *aval.shape), aval.dtype)
    mask: PyTree = fnp.zeros(count, bool)

    def step(item: tuple[PyTree, PyTree]) -> None:
        place, own = item
        if test is None:
            buffer[place] = value(own, rows)
            return
        mask[place] = chosen = bool_(test(own, rows))
        made = either(chosen, lambda: fnp.array(value(own, rows)), lambda: zeros(aval))
        buffer[place] = made  # in each step: a branch that writes carries all

    numbered = Steps(count, lambda k: (k, sample.steps.item(k)))
    for_(numbered, None, step, (), ("buffer", "mask"))  # type: ignore[arg-type]
    return buffer if test is None else Masked(buffer, mask)


def _array(
    items: Items, test: ElementOf | None, value: ElementOf, dtype: PyTree = None, **named: PyTree
) -> PyTree:
    """`np.array`."""
    found: PyTree = None if named else _stacked(items, test, value)
    if found is None:
        return NOT_DONE
    return found if dtype is None else found.astype(dtype)


def _reduced(function: Callable[..., PyTree]) -> Fold:
    """A function of all elements, which takes arrays as it takes lists."""

    def of(
        items: Items, test: ElementOf | None, value: ElementOf, *rest: PyTree, **named: PyTree
    ) -> PyTree:
        found = _stacked(items, test, value)
        return NOT_DONE if found is None else called(function)(found, *rest, **named)

    return of


FOLDS: dict[object, Fold] = {
    sum: _summed, len: _counted, any: _any, all: _all, rows: _array, np.array: _array,
    np.asarray: _array, max: _extreme(max, operator.gt), min: _extreme(min, operator.lt),
}  # fmt: skip
FOLDS |= {function: _reduced(function) for function in OF_LISTS}
