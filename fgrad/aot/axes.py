"""L7. Which axes of the arguments of an exported program may change, as the head of its file says.

axes      [[[0, 0], [1, 0]], [[1, 1]]]    the first axes of leaves 0 and 1 are a symbol, an axis of
                                          leaf 1 is another
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from fgrad.aot.files import File
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.size_words import BadNumbers, Written, checked
from fgrad.ir.aval import Aval
from fgrad.typing import PyTree

MOST_FORMS = 512  # of a file that are kept: those made last
LEAST = 2  # symbols are no smaller

Place: TypeAlias = "tuple[int, int]"  # a leaf of the arguments, and its axis
Lengths: TypeAlias = "tuple[int, ...]"  # of the symbols


class Axes(NamedTuple):
    """Which axes of the leaves are which symbols, and what the head says of sizes."""

    groups: tuple[tuple[Place, ...], ...]
    written: Written

    def words(self) -> dict[str, PyTree]:
        """What the head of a file says."""
        groups = [[[*place] for place in group] for group in self.groups]
        return {"axes": groups, "numbers": self.written.numbers, "guards": self.written.guards}


def with_lengths(
    avals: Sequence[Aval], groups: Sequence[Sequence[Place]], lengths: Lengths
) -> list[Aval]:
    """The types of arguments with these lengths."""
    known = {place: n for group, n in zip(groups, lengths, strict=True) for place in group}
    return [
        aval.like(tuple([known.get((k, a), n) for a, n in enumerate(aval.shape)]), aval.weak)
        for k, aval in enumerate(avals)
    ]


def axes_of(file: File, avals: Sequence[Aval]) -> Axes:
    """What the head says of sizes.

    Raises:
        ExportError: it says nothing that can be.
    """
    words = file.head["sizes"]
    if type(words) is not dict or {*words} != {"axes", "numbers", "guards"}:
        file.refuse("its sizes are not described as they should be")
    places = {(k, axis) for k, aval in enumerate(avals) for axis in range(aval.ndim)}
    groups: list[tuple[Place, ...]] = []
    for group in words["axes"] if type(words["axes"]) is list else [None]:
        if type(group) is not list or not group:
            file.refuse("its sizes are of no axes")
        for place in group:
            good = type(place) is list and len(place) == 2 and all([type(x) is int for x in place])
            if not good or tuple(place) not in places:
                file.refuse("its sizes are of no axes")
            places.remove(tuple(place))
        groups.append(tuple([tuple(place) for place in group]))
    try:
        return Axes(tuple(groups), checked(len(groups), words["numbers"], words["guards"]))
    except BadNumbers as error:
        file.refuse(str(error))
