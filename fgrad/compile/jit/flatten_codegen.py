"""L5. Tree structure -> a generated Python function that flattens such trees.

    ({"w": x, "b": [y, z]},)  ->  (y, z, x)     take(args), ten times as fast as a general walk

Only dictionaries, lists and tuples themselves are known; others stay with the general walk.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from fgrad.typing import PyTree

Take = Callable[[tuple[object, ...]], tuple[object, ...]]


def taker(skeleton: PyTree, size: int) -> Take | None:
    """A function of arguments that gives their leaves in order, or the empty tuple where their
    structure is another one; None if there is no such function.

    Arguments:
        skeleton: arguments of the structure, with the number of each leaf in its place.
        size: how many leaves there are.
    """
    places = [""] * size
    numbers = count()
    lines: list[str] = []

    def walk(x: PyTree, name: str) -> bool:
        kind = type(x)
        if kind is int:
            places[x] = name
            return True
        if kind not in (dict, list, tuple):
            return False
        lines.append(f"if type({name}) is not {kind.__name__} or len({name}) != {len(x)}:")
        lines.append("  return ()")
        items = list(x.items()) if kind is dict else list(enumerate(x))
        parts = [f"x{next(numbers)}" for _ in items]
        if kind is dict:
            lines.extend([f"{p} = {name}[{k!r}]" for p, k in zip(parts, x, strict=True)])
        elif parts:
            lines.append(f"{', '.join(parts)}, = {name}")
        known = all([type(key) in (str, int) for key, _ in items])
        return known and all([walk(x, p) for p, (_, x) in zip(parts, items, strict=True)])

    if not walk(skeleton, "args"):
        return None
    body = "\n".join([f"    {line}" for line in lines])
    result = f"    return {', '.join(places)},"
    text = f"def take(args):\n  try:\n{body}\n{result}\n  except KeyError:\n    return ()\n"
    scope: dict[str, Take] = {}
    exec(compile(text, f"{__file__}: take", "exec"), scope)
    return scope["take"]
