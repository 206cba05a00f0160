"""L4. Derivatives by arguments that are named: `grad(f, argnames="x")`.

grad(f, argnames=("x", "y"))(1.0, y=2.0)     {"x": df/dx, "y": df/dy}
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence

from fgrad.base.pickling import take_names
from fgrad.errors import ArgumentError
from fgrad.tracing.capturing import user_form
from fgrad.transforms.core.wrap import function_name
from fgrad.typing import PyTree

Names = str | Sequence[str]


def with_names(
    fun: Callable[..., PyTree],
    argnames: Names,
    argnums: object,
    place: int | None,
    differentiated: Callable[[Callable[..., PyTree]], Callable[..., PyTree]],
) -> Callable[..., PyTree]:
    """A transform of some arguments of `fun`, by name, however a call gives them.

    Arguments:
        fun: the user's function.
        argnames: a name, or several: then the gradient is a dictionary.
        argnums: must be 0, as if it had not been given.
        place: where the gradient stands in the result; None if it is all of it.
        differentiated: the transform of a function of one dictionary.
    """
    name = function_name(fun)
    if argnums != 0:
        raise ArgumentError(f"grad of {name}: argnums={argnums!r} and argnames={argnames!r}.")
    names = (argnames,) if isinstance(argnames, str) else tuple(argnames)
    signature = inspect.signature(fun)
    parameters = signature.parameters
    rest = next((p.name for p in parameters.values() if p.kind is p.VAR_KEYWORD), None)
    for wanted in names:
        if wanted not in parameters and rest is None:
            raise ArgumentError(
                f"grad: {name} has arguments {', '.join(parameters)}, no {wanted!r}."
            )

    def derivative(*args: PyTree, **kwargs: PyTree) -> PyTree:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        every = {**bound.arguments, **bound.arguments.get(rest or "", {})}
        missing = [n for n in names if n not in every]
        if missing:
            raise ArgumentError(f"grad: {name} was called without the argument {missing[0]!r}.")

        def of(chosen: dict[str, PyTree]) -> PyTree:
            again = signature.bind(*args, **kwargs)
            again.apply_defaults()
            own = {k: v for k, v in chosen.items() if k in parameters and k != rest}
            again.arguments.update(own)
            if rest is not None:
                others = {k: v for k, v in chosen.items() if k not in own}
                again.arguments[rest] = {**again.arguments[rest], **others}
            return user_form(fun)(*again.args, **again.kwargs)

        take_names(of, fun)
        out = differentiated(of)({n: every[n] for n in names})
        if not isinstance(argnames, str):
            return out
        if place is None:
            return out[argnames]
        return tuple([x[argnames] if k == place else x for k, x in enumerate(out)])

    return derivative
