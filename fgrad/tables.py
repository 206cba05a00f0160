"""L2. Tables that NumPy's surface fills: which function of fgrad's stands for which of NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

deferred: list[Callable[[], None]] = []  # loads the functions that are not in the table yet


class FunctionTable(dict[Any, Callable[..., Any]]):
    """NumPy's or SciPy's function or ufunc -> fgrad's; the rarer ones are loaded when one is first
    missing."""

    def __missing__(self, key: Any) -> Callable[..., Any]:
        if not deferred:
            raise KeyError(key)
        deferred[0]()
        return self[key]

    def find(self, key: Any) -> Callable[..., Any] | None:
        """The traced form of a function, or None if it has none."""
        found = self.get(key)
        while found is None and deferred:
            deferred[0]()
            found = self.get(key)
        return found


numpy_functions = FunctionTable()
ufunc_methods: dict[str, Callable[..., Any]] = {}
unsupported_hook: list[Callable[..., BaseException]] = []
store_hook: list[Callable[..., Any]] = []  # (out, function, method, args, kwargs) -> out
alias_functions: set[Any] = set()  # what may return its argument itself, or a view of it
