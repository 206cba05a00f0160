"""L5. Lists and dictionaries that have several names when a branch or a loop ends.

    if p: b = a        a list is taken apart, and made anew of the results of the branch: b is one
    b[0] = 1.0         of its own, where in Python it is `a`

Reading such a list is right.  Changing it, or what it was made of, raises a card.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from fgrad.trace import Builder, innermost
from fgrad.tracing.capturing import not_recorded


def containers_of(x: object) -> list[object]:
    """The lists and dictionaries in a value, at all depths."""
    if type(x) is dict:
        return [x, *[c for part in x.values() for c in containers_of(part)]]
    if type(x) is list:
        return [x, *[c for part in x for c in containers_of(part)]]
    return [c for part in x for c in containers_of(part)] if isinstance(x, tuple) else []


def shared_names(
    values: Sequence[tuple[str, object]],
    starts: Sequence[tuple[str, object]],
    sole: Mapping[str, bool],
    made: Collection[int],
) -> set[str]:
    """The variables in whose lists another one, or a name that is not known, may have a part.

    Arguments:
        values: of the variables where a body ends.
        starts: those where it begins.
        sole: the variables to whose value nothing else refers where it begins, see `Cells.sole`.
        made: the lists that the body has made, by identity.
    """
    owners = {id(c): (name, c is x) for name, x in starts for c in containers_of(x)}
    seen: dict[int, str] = {}
    found: set[str] = set()
    for name, x in values:
        for c in containers_of(x):
            if id(c) in seen:
                found |= {name, seen[id(c)]}
            seen[id(c)] = name
            owner, whole = owners.get(id(c), ("", False))
            own = owner in sole and (whole or sole[owner]) if owner else id(c) in made
            if not own:
                found.add(name)
    return found


def note_shared(values: Iterable[object]) -> None:
    """Let changes of the lists in these values be refused from now on."""
    builder = _outermost()
    if builder is not None:
        builder.shared.update({id(c): c for x in values for c in containers_of(x)})


def is_shared(x: object) -> bool:
    """Whether a list may have another name."""
    builder = _outermost()
    return builder is not None and id(x) in builder.shared


def refuse_shared(x: object) -> None:
    """Refuse a change of a list that may have another name."""
    if is_shared(x):
        kind = type(x).__name__
        raise not_recorded(
            f"a {kind} is changed that a branch or a loop before may have given another name"
        )


def _outermost() -> Builder | None:
    builder = innermost()
    while builder is not None and builder.outer is not None:
        builder = builder.outer
    return builder
