"""L5. Small rewrites of kernel bodies that the passes share: walking, renaming and moving indices."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fgrad.compile.kernel.ir import Affine, Index, Load, Loop, Statement, Store

Body = tuple[Statement, ...]


def walk(body: Body) -> Iterator[Statement]:
    """All statements, outer before inner, in order."""
    for s in body:
        yield s
        if type(s) is Loop:
            yield from walk(s.body)


def map_indices(body: Body, change: Callable[[Affine], Affine]) -> Body:
    """The body with `change` applied to every affine map."""
    out: list[Statement] = []
    for s in body:
        kind = type(s)
        if kind is Loop:
            s = s._replace(body=map_indices(s.body, change))
        elif kind in (Load, Store, Index):
            index = change(s.index)
            if index is not s.index:
                s = s._replace(index=index)
        out.append(s)
    return tuple(out)


def indices(body: Body) -> Iterator[Affine]:
    """Every affine map in the body."""
    for s in walk(body):
        if type(s) in (Load, Store, Index):
            yield s.index


def stride_of(index: Affine, axis: str) -> int:
    """The stride of `axis` in an affine map, 0 if absent."""
    for name, stride in index.terms:
        if name == axis:
            return stride
    return 0


def substitute(index: Affine, axis: str, const: int, terms: tuple[tuple[str, int], ...]) -> Affine:
    """The affine map with `axis := const + sum(stride * axis')`."""
    stride = stride_of(index, axis)
    if stride == 0:
        return index
    sums = {name: step for name, step in index.terms if name != axis}
    for name, step in terms:
        sums[name] = sums.get(name, 0) + step * stride
    kept = sorted([(name, step) for name, step in sums.items() if step])
    return Affine(index.const + const * stride, tuple(kept))
