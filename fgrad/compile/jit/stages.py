"""L5. The stages of a jitted function for some arguments: traced, compiled, called.

lowered = jit(f).lower(x)      the program, its types and its cost; ShapeDtype stands for arrays
compiled = lowered.compile()   machine code: compiled(x) traces and compiles nothing
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fgrad import tree
from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.jit import staged
from fgrad.compile.jit.call import executable_of
from fgrad.compile.jit.costs import cost_analysis
from fgrad.compile.jit.entries import Entry
from fgrad.compile.jit.inspect import Memory, Stages, inspect
from fgrad.errors import ArgumentError, UnpicklableError
from fgrad.ir.aval import Aval
from fgrad.tracing.on_device import HOST
from fgrad.transforms.core.shapes import ShapeDtype, stand_in, typeof
from fgrad.typing import PyTree

if TYPE_CHECKING:
    from fgrad.compile.jit.jitted import Jitted


def _shown(dialect: str | None, known: Sequence[str]) -> None:
    if dialect is not None and dialect not in known:
        write = " or ".join(["as_text()", *[f"as_text({k!r})" for k in known]])
        raise ArgumentError(f"jit: there is no text of the kind {dialect!r}.", [("write", write)])


class Given(NamedTuple):
    """The arguments that a function was traced with, of which some may be stand-ins."""

    args: tuple[PyTree, ...]
    kwargs: dict[str, PyTree]


class _Stage:
    """What is known of a jitted function for the types of some arguments."""

    def __init__(self, jitted: Jitted, given: Given, entry: Entry) -> None:
        self._jitted, self._given, self._entry = jitted, given, entry

    def __reduce__(self) -> tuple[object, ...]:
        raise UnpicklableError(
            f"{type(self).__name__} cannot be pickled: machine code belongs to its process.",
            (("write", "jit(f), which can be, and what was compiled is found on the disk"),),
        )

    @property
    def program(self) -> object:
        """The traced program."""
        return self._entry.whole()

    @property
    def in_tree(self) -> tree.TreeDef:
        """The structure of the arguments, positional ones and those by name."""
        return self._entry.arguments.treedef

    @property
    def in_avals(self) -> PyTree:
        """The types of the arguments, in their structure."""
        return tree.unflatten(self.in_tree, self._avals())

    @property
    def args_info(self) -> PyTree:
        """Shapes and dtypes of the arguments, in their structure."""
        return tree.unflatten(self.in_tree, [ShapeDtype(a.shape, a.dtype) for a in self._avals()])

    @property
    def out_tree(self) -> tree.TreeDef:
        """The structure of the results."""
        return self._entry.out_tree

    @property
    def out_avals(self) -> PyTree:
        """The types of the results, in their structure."""
        return self._results(self._out_avals())

    @property
    def out_info(self) -> PyTree:
        """Shapes and dtypes of the results, in their structure."""
        return self._results([ShapeDtype(a.shape, a.dtype) for a in self._out_avals()])

    def cost_analysis(self) -> dict[str, float]:
        """What a call costs, by the names that JAX has: "flops", "transcendentals" and "bytes
        accessed"; `fgrad.cost_analysis` says more."""
        cost = cost_analysis(self._jitted)(*self._given.args, **self._given.kwargs)
        found = {"flops": cost.flops, "transcendentals": cost.transcendentals}
        return {**{k: float(v) for k, v in found.items()}, "bytes accessed": float(cost.bytes)}

    def _avals(self) -> Sequence[Aval]:
        return self._entry.arguments.avals

    def _out_avals(self) -> list[Aval]:
        return list(self._entry.whole().out_avals)[: self.out_tree.num_leaves]

    def _results(self, leaves: Sequence[object]) -> PyTree:
        return self._entry.result(leaves)


class Lowered(_Stage):
    """A jitted function, traced for the types of some arguments.

    Example:
        >>> import fgrad
        >>> lowered = fgrad.jit(lambda x: {"y": x @ x}).lower(fgrad.ShapeDtype((4, 4), np.float64))
        >>> lowered.out_info, lowered.cost_analysis()["flops"]
        ({'y': ShapeDtype((4, 4), float64)}, 128.0)
    """

    def as_text(self, dialect: str | None = None) -> str:
        """The traced program as text."""
        _shown(dialect, ())
        return str(self.program)

    def compile(self) -> Compiled:
        """The function as machine code; calls with arguments of these types are calls of it."""
        entry = self._entry
        executable_of(entry.program, None, entry.device or HOST, entry.donated)
        return Compiled(self._jitted, self._given, entry)


class Compiled(_Stage):
    """A jitted function, compiled for the types of some arguments; static ones are left out.

    Example:
        >>> import fgrad
        >>> double = fgrad.jit(lambda x: 2 * x).lower(fgrad.ShapeDtype((3,), float)).compile()
        >>> double(np.ones(3))
        array([2., 2., 2.])
    """

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        """The results.

        Raises:
            ArgumentError: if the arguments have other types.
        """
        whole = self._whole(args)
        dynamic = tuple([None if k in self._static else x for k, x in enumerate(whole)])
        leaves, structure = tree.flatten((dynamic, kwargs))
        if structure != self.in_tree:
            raise _differ(f"the structure {structure}", str(self.in_tree))
        pairs = zip(leaves, self._avals(), strict=True)
        plain, named = tree.unflatten(structure, [_fitting(x, aval) for x, aval in pairs])
        full = [whole[k] if k in self._static else x for k, x in enumerate(plain)]
        names = self._jitted.static_argnames
        static = {k: v for k, v in self._given.kwargs.items() if k in names}
        return self._jitted(*full, **named, **static)

    @property
    def _static(self) -> set[int]:
        """The places of the static arguments."""
        count = len(self._given.args)
        return {k % count for k in self._jitted.static_argnums if -count <= k < count}

    def _whole(self, args: Sequence[PyTree]) -> list[PyTree]:
        """Positional arguments with the static ones in their places."""
        given, rest = self._given.args, iter(args)
        static = self._static
        return [*[x if k in static else next(rest, None) for k, x in enumerate(given)], *rest]

    def as_text(self, dialect: str | None = None) -> str:
        """The text of the kernels, LLVM's; "asm" for machine code."""
        _shown(dialect, ("llvm", "asm"))
        return self._stages().texts(dialect or "llvm")

    def memory_analysis(self) -> Memory:
        """The bytes that a call needs."""
        return self._stages().memory

    def _stages(self) -> Stages:
        return inspect(self._jitted)(*self._given.args, **self._given.kwargs)


def _fitting(x: PyTree, aval: Aval) -> PyTree:
    """An argument of the type that was compiled for; numbers of Python take its dtype."""
    found = typeof(x)
    if (found.shape, found.dtype) != (aval.shape, aval.dtype):
        raise _differ(f"{found.dtype}{list(found.shape)}", f"{aval.dtype}{list(aval.shape)}")
    return np.asarray(x, aval.dtype)[()] if found.weak and not aval.weak else x


def _differ(found: str, wanted: str) -> ArgumentError:
    rows = (("why", f"it was compiled for {wanted}."), ("write", "jit(f)(x)"))
    return ArgumentError(f"A compiled function was given {found}.", rows)


def lowered(jitted: Jitted, args: tuple[PyTree, ...], kwargs: dict[str, PyTree]) -> Lowered:
    """A jitted function traced for arguments, of which some may be `ShapeDtype`s; it is kept as if
    it had been called."""
    plain, named = tree.map(stand_in, (args, kwargs))
    entry = jitted.traced_call(plain, named, None).entry
    return Lowered(jitted, Given(plain, named), entry)


staged.lowered.provide(lowered)
