"""L7. A user's function as SciPy's solvers call it: with its captured values, compiled once.

A solver calls its function some ten to a thousand times in each run.  What is compiled takes the
captured values as arguments, so that it serves all runs of a program:

    converted(x, *closure)    compiled once, for all values in `closure`
    Bound(...)(x)             the same with the values of this run
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from fgrad.compile.jit.jitted import jit
from fgrad.trace import innermost
from fgrad.transforms.core.linearize import jvp
from fgrad.transforms.core.wrap import function_name
from fgrad.transforms.grad import grad
from fgrad.typing import PyTree

Function: TypeAlias = Callable[..., PyTree]
Transform: TypeAlias = Callable[[Function], Function]


class Bound:
    """A function of plain values, with the values that it closes over.

    Arguments:
        converted: `converted(*args, *closure)`.
        closure: these values.
        made: what was compiled of `converted`, by transform, in all runs.
        compiled: whether the function itself is compiled.
    """

    __slots__ = ("__name__", "call", "closure", "compiled", "converted", "made")

    def __init__(
        self,
        converted: Function,
        closure: list[np.ndarray],
        made: dict[Transform, Function],
        compiled: bool,
    ) -> None:
        self.converted, self.closure = converted, closure
        self.made, self.compiled = made, compiled
        self.__name__ = function_name(converted)
        self.call: Function = (
            self.derived(itself) if compiled else lambda *xs: converted(*xs, *closure)
        )

    def __call__(self, *args: PyTree) -> PyTree:
        """The result for plain values."""
        return self.call(*args)

    def derived(self, transform: Transform) -> Function:
        """What a transform makes of the function, compiled."""
        return _with(self.jitted(transform), self.closure)

    def jitted(self, transform: Transform) -> Function:
        """The same as a function of the closure too."""
        found = self.made.get(transform)
        if found is None:
            found = self.made.setdefault(transform, jit(transform(self.converted)))
        return found


def _with(f: Function, closure: list[np.ndarray]) -> Function:
    """A function with its last arguments, with the least work in each call."""
    if not closure:
        return f
    if len(closure) == 1:
        (only,) = closure
        return lambda *xs: f(*xs, only)
    return lambda *xs: f(*xs, *closure)


def compiled(f: Function, transform: Transform | None = None) -> Function:
    """What a transform makes of a function, compiled; once for all runs of a program if it is
    bound.  The transform is a function of a module: it is known by its identity."""
    transform = transform or itself
    return f.derived(transform) if isinstance(f, Bound) else jit(transform(f))


def derived(f: Function, transform: Transform) -> Function:
    """The same, compiled only if the function itself is."""
    if not isinstance(f, Bound):
        return transform(f)
    return f.derived(transform) if f.compiled else transform(f.call)


def of_number(f: Function, transform: Transform) -> Function:
    """What a transform makes of a function, of a Python float; SciPy calls it from C."""
    number = np.float64
    if not isinstance(f, Bound) or not f.compiled:
        call = derived(f, transform)
        return lambda t: call(number(t))
    found, closure = f.jitted(transform), f.closure
    if len(closure) == 1:
        (only,) = closure
        return lambda t: found(number(t), only)
    return lambda t: found(number(t), *closure)


def in_program() -> bool:
    """Whether what is traced will run several times: inside of `jit`, say, not of `grad` alone."""
    builder = innermost()
    while builder is not None:
        if builder.what == "jit":
            return True
        builder = builder.outer
    return False


def itself(f: Function) -> Function:
    """The transform that changes nothing."""
    return f


def first(f: Function) -> Function:
    """The first number of what a function gives."""
    return lambda *xs: f(*xs)[0]


def second_derivative(f: Function) -> Function:
    """The second derivative of a function of a number."""
    return grad(grad(f))


def along(f: Function) -> Function:
    """The derivative by each element of a function of elements."""

    def slope(x: PyTree, *rest: PyTree) -> PyTree:
        return jvp(lambda x: f(x, *rest), (x,), (np.ones_like(x),))[1]

    return slope


def twice_along(f: Function) -> Function:
    """The second derivative by each element of a function of elements."""
    return along(along(f))
