"""L5. What a jitted function tells of itself before it is called: `lower`, `eval_shape`."""

from __future__ import annotations

from collections.abc import Callable

from fgrad.base.provided import Provided
from fgrad.compile.entry.native import NativeCallable
from fgrad.typing import PyTree

lowered: Provided[Callable[..., PyTree]] = Provided("fgrad.compile.jit.stages.lowered")


class Staged(NativeCallable):
    """The base class of jitted functions."""

    __slots__ = ()

    def lower(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        """The traced program for the types of some arguments, a `Lowered` of `stages.py`.

        Arguments:
            args, kwargs: the arguments of a call; a `ShapeDtype` stands for an array.

        Example:
            >>> import fgrad
            >>> fgrad.jit(lambda x: 2 * x).lower(fgrad.ShapeDtype((3,), float)).out_info
            ShapeDtype((3,), float64)
        """
        return lowered.call(self, args, kwargs)

    def eval_shape(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        """The shapes and dtypes of the results for the types of some arguments."""
        return self.lower(*args, **kwargs).out_info
