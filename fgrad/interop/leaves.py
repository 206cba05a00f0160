"""L7. Functions of trees as functions of the leaves that may differ from call to call."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from fgrad import tree
from fgrad.compile.jit.jitted import jit
from fgrad.compile.jit.static_arguments import typed
from fgrad.tracing.capturing import user_form
from fgrad.typing import PyTree

Arrays = Callable[..., PyTree]  # of arrays, one after the other


def of_trees(
    f: Callable[..., PyTree], operands: tuple[type, ...], make: Callable[[Arrays], Arrays]
) -> Callable[..., PyTree]:
    """A function of trees whose leaves are `operands`, floats and complex numbers: each of its
    calls is one of `make(fun)`, with a `fun` of these leaves.  All else is a constant of `fun`."""
    kinds = (*operands, np.ndarray, np.generic, float, complex)
    made: dict[object, Arrays] = {}

    @functools.wraps(f)
    def call(*args: PyTree, **kwargs: PyTree) -> PyTree:
        leaves, treedef = tree.flatten((args, kwargs))
        moving = tuple([isinstance(x, kinds) for x in leaves])
        fixed = [x for x, moves in zip(leaves, moving, strict=True) if not moves]
        key = treedef, moving, tuple(map(typed, fixed))
        if key not in made:
            made[key] = make(jit(_of_leaves(f, treedef, moving, fixed)))
        return made[key](*[x for x, moves in zip(leaves, moving, strict=True) if moves])

    return call


def _of_leaves(
    fun: Arrays, treedef: tree.TreeDef, moving: Sequence[bool], fixed: Sequence[object]
) -> Arrays:
    def of_leaves(*operands: PyTree) -> PyTree:
        given, others = iter(operands), iter(fixed)
        args, kwargs = tree.unflatten(treedef, [next(given if m else others) for m in moving])
        return user_form(fun)(*args, **kwargs)

    return of_leaves


def float_part(fun: Arrays, places: Sequence[int], operands: Sequence[PyTree]) -> Arrays:
    """Those results that have a derivative, as a function of some operands; and all results."""

    def float_part(*chosen: PyTree) -> PyTree:
        given = list(operands)
        for k, x in zip(places, chosen, strict=True):
            given[k] = x
        outs = fun(*given)
        return tuple([y for y in tree.leaves(outs) if is_float(y)]), outs

    return float_part


def is_float(x: PyTree) -> bool:
    """Whether derivatives by an array exist."""
    dtype = x.dtype if hasattr(x, "dtype") else np.dtype(type(x))
    return dtype.kind not in "biu"
