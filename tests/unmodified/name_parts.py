"""What random programs about names call: small objects, and functions that write into arguments or
return them, or views of them."""

from __future__ import annotations

from typing import Any


class Box:
    """An array, a number, and a list of arrays."""

    def __init__(self, w: Any, n: Any) -> None:
        self.w, self.n = w, n
        self.held = [w]

    def add(self, z: Any) -> Box:
        """Write into the array."""
        self.w += z
        return self

    def take(self, z: Any) -> Any:
        """Hold another array, and return the one before."""
        old, self.w = self.w, z
        self.held[0] = old
        return old

    @property
    def part(self) -> Any:
        """A view."""
        return self.w[1:]


def scaled(z: Any, w: Any = 0.5) -> Any:
    """The argument, written."""
    z *= w
    return z


def mirrored(z: Any) -> Any:
    """A view."""
    return z[::-1]


def either(z: Any, q: Any, w: Any) -> Any:
    """One of two."""
    if w > 0.2:
        return z
    return q


def larger(z: Any, q: Any) -> Any:
    """One of two, written."""
    best = z
    for one in (z, q):
        if one[0] > best[0]:
            best = one
    best[1] = 0.5
    return best


def exchanged(z: Any, q: Any) -> Any:
    """Two arguments, which change their contents."""
    z[:], q[:] = q.copy(), z.copy()
    return q, z


def stored(kept: Any, z: Any) -> Any:
    """A list that got an array."""
    kept.append(z)
    return kept


def rotated(kept: Any) -> Any:
    """A list whose arrays change places."""
    first = kept[0]
    for j in range(len(kept) - 1):
        kept[j] = kept[j + 1]
    kept[-1] = first
    return first


def stepped(z: Any, n: int, q: Any = None) -> Any:
    """Recursion: the argument, or a view of it."""
    if n == 0:
        return z if q is None else q
    z[n % 6] += 0.1
    return stepped(z[::-1], n - 1, z)


def found(z: Any, w: Any) -> Any:
    """An early return out of a loop: the array, another, or a new one."""
    for j in range(5):
        if z[j] > w:
            return z
        z[j + 1] += 0.1
    else:
        if w > 0.4:
            return z * 2
    return z[::-1]


def counter(z: Any) -> Any:
    """A closure that binds an array anew and writes it."""
    held, count = z, 0

    def step(w: Any) -> Any:
        nonlocal held, count
        count += 1
        held[count % 6] += w
        if count % 2 == 0:
            held = held * 0.5
        return held

    return step
