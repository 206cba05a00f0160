"""L4. In-place functions -> pure functions that return the new values.

functionalize : (a -> b, writing into a) -> a -> (b, a)
"""

from __future__ import annotations

from collections.abc import Callable

from fgrad import tree
from fgrad.base.keywords import also_takes
from fgrad.base.pickling import pickles_as_call
from fgrad.trace import Builder, Tracer, Value
from fgrad.tracing.capturing import user_form
from fgrad.tracing.device_tracing import lower
from fgrad.transforms.core.wrap import (
    as_values,
    check_callable,
    function_name,
    is_weak,
    named_like,
    outside,
    outside_tree,
    writable_result,
)
from fgrad.typing import P, PyTree, R


@pickles_as_call
@also_takes()
def functionalize(fun: Callable[P, R]) -> Callable[P, tuple[R, PyTree]]:
    """A function that returns what `fun` returns, and its arguments as `fun` leaves them.

    Arguments:
        fun: a function of pytrees of arrays that may assign to its arguments.

    Returns:
        A function with the arguments of `fun` that returns `(result, args)`, where `args` is the
        tuple of updated positional arguments; the caller's own arrays stay as they are.

    Example:
        >>> import numpy as np, fgrad
        >>> def f(x):
        ...     x[0] *= 10
        ...     return x.sum()
        >>> fgrad.functionalize(f)(np.array([1.0, 2.0]))
        (np.float64(12.0), (array([10.,  2.]),))
    """
    check_callable(fun, "functionalize")

    def functionalized(*args: PyTree, **kwargs: PyTree) -> tuple[PyTree, PyTree]:
        leaves, in_tree = tree.flatten(args)
        values = as_values(leaves, fun, args, {})
        builder = Builder("functionalize", function_name(fun), eager=True)
        try:
            with builder.running, builder:
                pairs = zip(values, leaves, strict=True)
                handles = [builder.input(v, None, is_weak(x)) for v, x in pairs]
                result = user_form(fun)(*tree.unflatten(in_tree, handles), **kwargs)
                out = outside_tree(builder, result)
                updated = [lower(_own(outside(builder, x))) for x in handles]
        finally:
            builder.release()
        return out, tree.unflatten(in_tree, updated)

    return named_like(functionalized, fun, "functionalize")


def _own(x: Value) -> Value:
    """An argument that was not written is copied: the results are the caller's to write into."""
    return x if isinstance(x, Tracer) or not hasattr(x, "copy") else writable_result(x.copy())
