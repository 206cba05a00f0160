"""L7. Names of paddings -> (low, high) for each axis, as `jax.lax` has them.

"VALID"        no padding
"SAME"         ceil(n / stride) windows; the odd element comes last
"SAME_LOWER"   the same; the odd element comes first
"""

from __future__ import annotations

from collections.abc import Sequence

from fgrad.errors import ArgumentError
from fgrad.lax.whole import integers
from fgrad.numpy.promote import user_line
from fgrad.ops.window import spread_length

Ints = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]
Padding = str | Sequence[tuple[int, int]]


def window_padding(
    name: str, padding: Padding, lengths: Ints, windows: Ints, strides: Ints, dilation: Ints
) -> Pairs:
    """(low, high) for each axis, whose length is that of the dilated array.

    Raises:
        ArgumentError: it is no padding.
    """
    if padding == "VALID":
        return ((0, 0),) * len(lengths)
    if padding in ("SAME", "SAME_LOWER"):
        pairs = []
        for n, k, s, d in zip(lengths, windows, strides, dilation, strict=True):
            total = max(0, (-(-n // s) - 1) * s + spread_length(k, d) - n)
            less, more = total // 2, total - total // 2
            pairs.append((less, more) if padding == "SAME" else (more, less))
        return tuple(pairs)
    if not isinstance(padding, str) and len(padding) == len(lengths):
        return tuple([(int(low), int(high)) for low, high in padding])
    raise ArgumentError(
        f"lax.{name}: padding={padding!r} for {len(lengths)} axes.",
        (*user_line(), ("write", "'VALID', 'SAME', 'SAME_LOWER', or a (low, high) for each axis")),
    )


def padtype_to_pads(
    in_shape: Sequence[int],
    window_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str,
) -> list[tuple[int, int]]:
    """(low, high) for each axis of a padding that has a name.

    Arguments:
        in_shape, window_shape: the lengths of the array and of the window.

    Example:
        >>> from fgrad import lax
        >>> lax.padtype_to_pads((5,), (2,), (1,), "SAME")
        [(0, 1)]
    """
    lengths, sizes, steps = [
        integers(s, "padtype_to_pads") for s in (in_shape, window_shape, window_strides)
    ]
    ones = (1,) * len(lengths)
    return list(window_padding("padtype_to_pads", padding, lengths, sizes, steps, ones))
