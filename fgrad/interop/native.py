"""L7. What fgrad compiles as a call without Python: which functions that can be."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fgrad import tree
from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.jit.call import executable_of
from fgrad.compile.jit.entries import Entry
from fgrad.compile.jit.jitted import Jitted, jit
from fgrad.errors import ArgumentError
from fgrad.typing import PyTree


class NativeForm(NamedTuple):
    """A function compiled for one type of arguments; `executable` holds its table of steps."""

    entry: Entry
    executable: PyTree
    name: str


def native_form(f: Callable[..., PyTree], args: Sequence[PyTree], caller: str) -> NativeForm:
    """The compiled form of a function for arguments like these.

    Raises:
        ArgumentError: its calls write, or read what may change outside.
    """
    jitted = f if isinstance(f, Jitted) else jit(f)
    assert isinstance(jitted, Jitted)
    entry = jitted.entry_of(tuple(args), {})
    found = ""
    effects = entry.effects
    if effects is not None and (effects.writes or effects.stores or effects.contiguous):
        found = "writes into its arguments"
    elif entry.captured:
        found = "reads arrays or numbers from outside that may change"
    elif not entry.single and not _is_flat(entry.out_tree):
        found = "returns a container in a container"
    if found:
        raise ArgumentError(
            f"{jitted} {found}, which a function for {caller} cannot do.",
            (("write", "its arrays as arguments, and its results as a tuple of arrays"),),
        )
    return NativeForm(entry, executable_of(entry.whole()), str(jitted))


def _is_flat(treedef: tree.TreeDef) -> bool:
    """Whether a result is a tuple or list of arrays."""
    count = len(tree.leaves(tree.unflatten(treedef, [0] * treedef.num_leaves)))
    return treedef in (tree.structure((0,) * count), tree.structure([0] * count))
