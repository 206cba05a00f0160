"""L7. Branches whose choice is a traced value: `cond`, `switch`, `select_n`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fgrad import tree
from fgrad.base.frames import hides_own_frames
from fgrad.base.keywords import REFUSED, also_takes
from fgrad.errors import ArgumentError, DtypeError, ShapeError
from fgrad.ir.aval import INT64
from fgrad.lax.bodies import (
    Body,
    body_of,
    check_structure,
    common_inputs,
    fits,
    leaves_of,
    own_results,
)
from fgrad.lax.unchanged import chosen
from fgrad.lax.whole import places
from fgrad.numpy.promote import as_array, convert
from fgrad.trace import Value
from fgrad.tracing.device_tracing import lowered
from fgrad.typing import ArrayLike, PyTree, R


@hides_own_frames
@lowered
@also_takes(operand=REFUSED)
def cond(
    pred: ArrayLike,
    true_fun: Callable[..., R],
    false_fun: Callable[..., R],
    *operands: PyTree,
) -> R:
    """`true_fun(*operands)` if `pred`, else `false_fun(*operands)`; only one of them is computed.

    Arguments:
        pred: a scalar, which counts as true if it is not 0.
        true_fun: a function of the operands.
        false_fun: another one, whose results have the same structure, shapes and dtypes.
        operands: pytrees of arrays.

    Raises:
        ArgumentError: if the structures of the results differ, or `pred` is not a scalar.
        DtypeError: if a result's dtype differs between the functions.

    Example:
        >>> import numpy as np, fgrad
        >>> fgrad.lax.cond(True, np.sin, np.cos, 0.0)
        np.float64(0.0)
    """
    index = _scalar(pred, "cond")
    index = convert(index != 0, INT64) if index.dtype != bool else convert(index, INT64)
    return _choose("cond", index, (false_fun, true_fun), operands)


@hides_own_frames
@lowered
@also_takes(operand=REFUSED)
def switch(index: ArrayLike, branches: Sequence[Callable[..., R]], *operands: PyTree) -> R:
    """`branches[index](*operands)`, the index clamped to the valid ones; only that is computed.

    Arguments:
        index: an integer scalar.
        branches: functions whose results have the same structure, shapes and dtypes.
        operands: pytrees of arrays.

    Raises:
        ArgumentError: if there are no branches, or the structures of the results differ.
        DtypeError: if the index is not an integer, or a result's dtype differs.

    Example:
        >>> import numpy as np, fgrad
        >>> fgrad.lax.switch(5, [np.sin, np.cos], 0.0)
        np.float64(1.0)
    """
    branches = tuple(branches)
    if not branches:
        raise ArgumentError("lax.switch: there are no branches.")
    found = _scalar(index, "switch")
    if found.dtype.kind not in "iu":
        raise DtypeError(f"lax.switch: the index has dtype {found.dtype}; it must be an integer.")
    return _choose("switch", convert(found, INT64), branches, operands)


def _scalar(x: ArrayLike, what: str) -> Value:
    value = as_array(x)
    if value.shape:
        raise ArgumentError(f"lax.{what}: the choice has shape {value.shape}; it must be a scalar.")
    return value


def _choose(
    what: str, index: Value, functions: Sequence[Callable[..., PyTree]], operands: Sequence[PyTree]
) -> PyTree:
    args = [leaves_of(x, f"an operand of {what}") for x in operands]
    given = [(a.avals, a.treedef) for a in args]
    bodies = [body_of(fun, given, what) for fun in functions]
    for body in bodies[1:]:
        check_structure(what, "result of one branch", bodies[0].out_tree, body.out_tree)
    dtypes = _common_dtypes(what, bodies)
    bodies = [
        body
        if [a.dtype for a in body.program.out_avals] == dtypes
        else body_of(fun, given, what, dtypes)
        for fun, body in zip(functions, bodies, strict=True)
    ]
    programs, captured = common_inputs(bodies)
    values = [x for a in args for x in a.values]
    results = chosen(index, programs, [*captured, *values])
    return tree.unflatten(bodies[0].out_tree, own_results(results, values))


def _common_dtypes(what: str, bodies: Sequence[Body]) -> list[np.dtype]:
    """The dtype of each result; Python numbers yield to the dtypes of other branches."""
    dtypes = []
    for k in range(len(bodies[0].weak)):
        avals = [body.program.out_avals[k] for body in bodies]
        strong = [a.dtype for a, body in zip(avals, bodies, strict=True) if not body.weak[k]]
        weak = [a.dtype for a, body in zip(avals, bodies, strict=True) if body.weak[k]]
        found = set(strong) or {np.result_type(*weak)}
        dtype = next(iter(found))
        if len(found) > 1 or not all([fits(w, dtype) for w in weak]):
            names = ", ".join(str(a.strong()) for a in avals)
            raise DtypeError(f"lax.{what}: result {k} is {names} in the branches.")
        if len({a.shape for a in avals}) > 1:
            names = ", ".join(str(a.strong()) for a in avals)
            raise ShapeError(f"lax.{what}: result {k} is {names} in the branches.")
        dtypes.append(dtype)
    return dtypes


@lowered
def select_n(which: ArrayLike, *cases: ArrayLike) -> PyTree:
    """`cases[which]` for each element.

    Arguments:
        which: booleans for two cases, else integers; a scalar or of the cases' shape.
        cases: arrays of one shape and dtype.

    Raises:
        ArgumentError: if there are no cases, or booleans choose among more than two.
        ShapeError: if cases differ in shape or dtype, or the choice in shape.
        DtypeError: if the choice is neither of bools nor of integers.

    Example:
        >>> import numpy as np, fgrad
        >>> fgrad.lax.select_n(np.array([False, True]), np.zeros(2), np.ones(2))
        array([0., 1.])
    """
    which = places(which, "select_n")
    values = [as_array(x) for x in cases]
    if not values:
        raise ArgumentError("lax.select_n: there are no cases.")
    if len({(x.shape, np.dtype(x.dtype)) for x in values}) > 1:
        found = ", ".join(f"{x.dtype}{x.shape}" for x in values)
        raise ShapeError(f"lax.select_n: the cases must have one shape and dtype, not {found}.")
    if which.shape not in ((), values[0].shape):
        raise ShapeError(f"lax.select_n: the choice has shape {which.shape}.")
    if which.dtype == bool:
        if len(values) > 2:
            raise ArgumentError("lax.select_n: booleans choose between two cases.")
        return np.where(which, values[-1], values[0])
    chosen = values[-1]
    for n in reversed(range(len(values) - 1)):
        chosen = np.where(which <= n, values[n], chosen)
    return chosen
