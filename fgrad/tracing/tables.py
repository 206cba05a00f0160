"""L2. The dispatch tables from NumPy functions to traced ones, filled by `fgrad/numpy`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from fgrad.base.lazy_import import load
from fgrad.base.provided import Provided
from fgrad.typing import PyTree

deferred: dict[str, None] = {}  # the modules, in order, that fill the tables with rarer functions


class FunctionTable(dict[object, Callable[..., PyTree]]):
    """NumPy's or SciPy's function or ufunc -> fgrad's; the rarer ones are loaded when one is first
    missing."""

    def __missing__(self, key: object) -> Callable[..., PyTree]:
        found = self.find(key)
        if found is None:
            raise KeyError(key)
        return found

    def find(self, key: object) -> Callable[..., PyTree] | None:
        """The traced form of a function, or None if it has none."""
        found = self.get(key)
        for module in deferred if found is None else ():
            load(module)
            found = self.get(key)
            if found is not None:
                break
        return found


numpy_functions = FunctionTable()
ufunc_methods: dict[str, Callable[..., PyTree]] = {}
alias_functions: set[object] = set()  # what may return its argument itself, or a view of it

Store: TypeAlias = Callable[
    [PyTree, Callable[..., PyTree], str, tuple[PyTree, ...], dict[str, object]], PyTree
]
# Fills the tables, before anything is traced.
essentials: Provided[Callable[[], None]] = Provided("fgrad.essentials.loaded")
# (function, method) -> the card; (out, function, method, args, kwargs) -> out
unsupported_card: Provided[Callable[[object, str], BaseException]] = Provided(
    "fgrad.numpy.unsupported.unsupported"
)
store_out: Provided[Store] = Provided("fgrad.numpy.inplace.store")
