"""L7. The structure of arguments and results as JSON, and values of that structure.

(x, {"w": w}, None)    {"tuple": [0, {"dict": [["w", 1]]}, null]}       leaves by number
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fgrad.typing import PyTree

MOST_DEPTH = 64


class NotPlain(Exception):
    """A container of another class; never leaves this package."""


def spec_of(tree: PyTree) -> PyTree:
    """The structure of a tree whose leaves are their numbers.

    Raises:
        NotPlain: with the class of a container that a file cannot hold.
    """
    kind = type(tree)
    if tree is None or kind is int:
        return tree
    if kind in (tuple, list):
        return {kind.__name__: [spec_of(child) for child in tree]}
    if kind is dict and all([type(key) in (str, int) for key in tree]):
        return {"dict": [[key, spec_of(tree[key])] for key in tree]}
    raise NotPlain(f"{kind.__module__}.{kind.__qualname__}")


def check_spec(spec: PyTree, count: int) -> bool:
    """Whether JSON is the structure of `count` leaves."""
    found: list[int] = []
    return _is_spec(spec, found, MOST_DEPTH) and sorted(found) == list(range(count))


def _is_spec(spec: PyTree, found: list[int], depth: int) -> bool:
    if spec is None:
        return True
    if type(spec) is int:
        found.append(spec)
        return True
    if type(spec) is not dict or len(spec) != 1 or not depth:
        return False
    ((kind, children),) = spec.items()
    if type(children) is not list:
        return False
    if kind in ("tuple", "list"):
        return all([_is_spec(child, found, depth - 1) for child in children])
    if kind != "dict":
        return False
    pairs = all([type(c) is list and len(c) == 2 and type(c[0]) in (str, int) for c in children])
    if not pairs or len({key for key, _ in children}) < len(children):
        return False
    return all([_is_spec(child, found, depth - 1) for _, child in children])


def made(spec: PyTree, leaves: Sequence[object]) -> PyTree:
    """The tree of a structure with the given leaves."""
    if spec is None:
        return None
    if type(spec) is int:
        return leaves[spec]
    ((kind, children),) = spec.items()
    if kind == "dict":
        return {key: made(child, leaves) for key, child in children}
    items = [made(child, leaves) for child in children]
    return tuple(items) if kind == "tuple" else items


def leaves_of(spec: PyTree, tree: PyTree, fail: Callable[[str, str], None], at: str = "") -> PyTree:
    """The pairs of number and leaf of a tree; `fail(place, expected)` where it is another one."""
    if type(spec) is int:
        yield spec, tree, at
        return
    yield from _inner(spec, tree, fail, at)


def _inner(
    spec: PyTree, tree: PyTree, fail: Callable[[str, str], None], at: str
) -> Iterator[tuple[int, object, str]]:
    if spec is None:
        if tree is not None:
            fail(at, "None")
        return
    ((kind, children),) = spec.items()
    if kind == "dict":
        keys = [key for key, _ in children]
        if type(tree) is not dict or set(tree) != set(keys):
            fail(at, f"a dict with the keys {', '.join(map(repr, keys))}")
        for key, child in children:
            yield from leaves_of(child, tree[key], fail, f"{at}[{key!r}]")
        return
    if type(tree).__name__ != kind or len(tree) != len(children):
        fail(at, f"a {kind} of {len(children)}")
    for k, child in enumerate(children):
        yield from leaves_of(child, tree[k], fail, f"{at}[{k}]")


def paths_of(spec: PyTree, at: str) -> dict[int, str]:
    """Where each leaf of a structure stands, as text: `argument [0]["w"]`."""
    if spec is None:
        return {}
    if type(spec) is int:
        return {spec: at.strip()}
    ((kind, children),) = spec.items()
    pairs = children if kind == "dict" else enumerate(children)
    found: dict[int, str] = {}
    for key, child in pairs:
        name = repr(key).replace("*/", "* /")
        found |= paths_of(child, f"{at}[{name if name.isascii() else ascii(key)}]")
    return found
