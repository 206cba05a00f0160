"""L6. Compiled program -> a text report of its device calls.

2 kernels in 3 launches, 1 other call, arena 64.0 KB, constants 0 B, graph of 4 nodes
tanh_add      grid 128 of (256, 1)   1.5 MB   model.py:12 (loss)
"""

from __future__ import annotations

from collections.abc import Sequence

from fgrad.base.source import resolve
from fgrad.errors import Row
from fgrad.lower_cuda.link import Image, Origin
from fgrad.lower_cuda.nodes import GraphNode, count


def described(image: Image, nodes: Sequence[GraphNode] | None, refused: str = "") -> str:
    """The calls of a program in order; those of a loop once, with the loop before them.

    Arguments:
        image: the program.
        nodes: those of its graph, if it has one.
        refused: why the driver made no graph of them.
    """
    listed = [(inside, image.origins[number]) for inside, number in image.listing]
    launches = [origin for _, origin in listed if origin.grid]
    constants = sum([x.nbytes for x in image.consts])
    head = (
        f"{len(set(launches))} kernels in {len(launches)} launches, "
        f"{len(listed) - len(launches)} other calls, arena {size(image.arena_bytes)}, "
        f"constants {size(constants)}, "
        + ("no graph" if nodes is None else f"graph of {count(nodes)} nodes")
        + (f" (refused: {refused})" if refused else "")
    )
    names = [": ".join([*inside, origin.name]) for inside, origin in listed]
    width = max([len(name) for name in names], default=0)
    lines = [
        f"{name:<{width}}  {_work(origin):<28}{_place(origin)}".rstrip()
        for name, (_, origin) in zip(names, listed, strict=True)
    ]
    return "\n".join([head, *lines])


def _work(origin: Origin) -> str:
    launch = f"grid {origin.grid} of {origin.block}" if origin.grid else ""
    return f"{launch:<22} {size(origin.nbytes) if origin.nbytes else ''}"


def _place(origin: Origin) -> str:
    return "" if origin.loc is None else f"  {resolve(origin.loc)}"


def rows(origin: Origin) -> tuple[Row, ...]:
    """The rows of a card: where a call comes from, and what it worked on."""
    found: list[Row] = []
    if origin.loc is not None:
        loc = resolve(origin.loc)
        found.append(("used", f"{loc}:  {loc.text()}"))
    if origin.grid:
        found.append(("value", f"{_work(origin)} of arrays"))
    return tuple(found)


def size(nbytes: int) -> str:
    """Bytes as people read them.

    >>> size(12), size(5000), size(3 << 20)
    ('12 B', '4.9 KB', '3.0 MB')
    """
    power = max((nbytes.bit_length() - 1) // 10, 0)
    return f"{nbytes / 1024**power:.1f} {'KMGT'[power - 1]}B" if power else f"{nbytes} B"
