"""L4. Shapes and dtypes without numbers: `ShapeDtype`, `typeof`, `eval_shape`.

eval_shape : (a -> b) -> types of a -> types of b
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from fgrad import tree
from fgrad.ir.aval import Aval, aval_of
from fgrad.trace import Tracer, Value, trace
from fgrad.tracing.capturing import user_form
from fgrad.transforms.core.wrap import as_value, check_callable, function_name, is_weak
from fgrad.typing import DTypeLike, PyTree


class ShapeDtype:
    """The shape and dtype of an array without its numbers.

    Example:
        >>> ShapeDtype((2, 3), "float32")
        ShapeDtype((2, 3), float32)
    """

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: Sequence[int], dtype: DTypeLike | None) -> None:
        self.shape, self.dtype = tuple([int(n) for n in shape]), np.dtype(dtype)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of the elements."""
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, ShapeDtype)
        return same and (self.shape, self.dtype) == (other.shape, other.dtype)

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype))

    def __repr__(self) -> str:
        return f"ShapeDtype({self.shape}, {self.dtype})"


def stand_in(x: object) -> object:
    """An array that takes no memory, in place of a `ShapeDtype`; all else as it is."""
    if not isinstance(x, ShapeDtype):
        return x
    return np.broadcast_to(np.zeros((), x.dtype), x.shape) if x.shape else np.zeros((), x.dtype)[()]


def typeof(x: object) -> Aval:
    """The type that a trace gives to a value: shape, dtype, and `~` for a weak Python number.

    Arguments:
        x: an array or a number, plain or traced, or anything with `shape` and `dtype`.

    Raises:
        UnsupportedTypeError: for what is no array of numbers.

    Example:
        >>> import fgrad, numpy as np
        >>> fgrad.typeof(np.ones((2, 3), np.float32)), fgrad.typeof(1.0)
        (f32[2,3], f64[]~)
    """
    if isinstance(x, (Tracer, Aval)):
        return x if isinstance(x, Aval) else x.aval
    if isinstance(x, ShapeDtype):
        return Aval(x.shape, x.dtype)
    aval = aval_of(as_value(x))
    return Aval(aval.shape, aval.dtype, True) if is_weak(x) else aval


def eval_shape(fun: Callable[..., PyTree], *args: PyTree, **kwargs: PyTree) -> PyTree:
    """The shapes and dtypes that `fun(*args, **kwargs)` returns; nothing is computed.

    Arguments:
        fun: a function of pytrees of arrays, which is traced.
        args, kwargs: its arguments, of which shapes and dtypes matter: `ShapeDtype` stands for
            an array that does not exist.

    Returns:
        The result with a `ShapeDtype` for each array.

    Example:
        >>> import fgrad, numpy as np
        >>> big = fgrad.ShapeDtype((10**6, 10**6), np.float32)
        >>> fgrad.eval_shape(lambda a, x: {"y": a @ x}, big, fgrad.ShapeDtype((10**6,), float))
        {'y': ShapeDtype((1000000,), float64)}
    """
    check_callable(fun, "eval_shape")
    leaves, in_tree = tree.flatten((args, kwargs))
    found: list[tree.TreeDef] = []

    def flat(*values: Value) -> list[Value]:
        positional, named = tree.unflatten(in_tree, values)
        outs, out_tree = tree.flatten(user_form(fun)(*positional, **named))
        found.append(out_tree)
        return [as_value(x, "a result") for x in outs]

    traced = trace(flat, [typeof(x) for x in leaves], function_name(fun), "eval_shape")
    avals = traced.program.out_avals
    return tree.unflatten(found[-1], [ShapeDtype(a.shape, a.dtype) for a in avals])
