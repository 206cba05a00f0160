"""L0. Functions of higher layers that lower layers call without importing them.

    at: Provided[...] = Provided("fgrad.lower_cuda.device.array.on_device")     the lower layer
    at.call(x)                                    the first call loads the module that it names
    at.provide(on_device)                         where `on_device` is defined, higher up

The declaration names the only function that can be provided: a second provider is refused, and a
module that runs again after an interrupted import (see lazy_import.py) provides the same one anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from fgrad.base.lazy_import import load
from fgrad.errors import CheckError
from fgrad.typing import PyTree

F = TypeVar("F", bound=Callable[..., PyTree])


class Provided(Generic[F]):
    """A function that another module provides when it is imported, at the first call at the latest.

    Arguments:
        name: the module and name of the function.
    """

    __slots__ = ("call", "name", "provided")

    call: F  # a plain attribute, which costs nothing more than the function's own name
    provided: bool  # whether its module has been imported

    def __init__(self, name: str) -> None:
        def missing(*args: PyTree, **kwargs: PyTree) -> PyTree:
            module = name.rpartition(".")[0]
            load(module)
            if not self.provided:
                raise CheckError(f"{module} is imported and does not provide {name}")
            return self.call(*args, **kwargs)

        self.name = name
        self.call = missing  # type: ignore[assignment]
        self.provided = False

    def __repr__(self) -> str:
        return f"<{'provided' if self.provided else 'missing'} {self.name}>"

    def provide(self, function: F) -> None:
        """Set the function.

        Raises:
            CheckError: it is not the function that the declaration names.
        """
        name = f"{function.__module__}.{function.__qualname__}"
        if name != self.name:
            raise CheckError(f"{name} is provided where {self.name} is declared")
        self.call = function
        self.provided = True  # last: other threads read it first
