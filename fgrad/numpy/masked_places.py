"""L4. `x[i, mask]` and `x[places[mask]]`, read and written, for masks with unknown values.

x[i, mask, 0]              x[i, :, 0], of which the mask selects elements
x[columns[mask]]           the elements at those places: as many as the mask selects
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.numpy.bounds import traced_indices
from fgrad.numpy.indexing import getitem, update
from fgrad.numpy.masked import Masked, is_unknown_mask, same_value, unknown_size
from fgrad.trace import Tracer, Value


class Chosen(NamedTuple):
    """An index of which a mask selects: what it reads, and the mask."""

    index: tuple[Any, ...]
    mask: Tracer
    has_places: bool  # whether it is an index of integers, of which some must not be used


def chosen(index: Any) -> Chosen | None:
    """The parts of an index with a mask of unknown values, or with places that one selects."""
    parts = index if isinstance(index, tuple) else (index,)
    masks = [k for k, part in enumerate(parts) if is_unknown_mask(part)]
    places = [k for k, part in enumerate(parts) if isinstance(part, Masked)]
    if not masks and not places:
        return None
    found = masks or places
    inside = parts[found[0] : found[-1] + 1]
    if any([not _is_number(part) for part in parts[: found[0]]]) or len(inside) > len(found):
        raise unknown_size()  # the axis of what is selected would not be the first
    if masks:
        if places or len(masks) > 1:
            raise unknown_size()
        mask: Tracer = parts[masks[0]]
        whole = (slice(None),) * mask.ndim
        return Chosen((*parts[: found[0]], *whole, *parts[found[0] + 1 :]), mask, False)
    mask = parts[places[0]].mask
    if any([part.rest or not same_value(part.mask, mask) for part in inside]):
        raise unknown_size()
    if any([part.dtype.kind not in "iu" for part in inside]):
        raise unknown_size()
    wholes = [np.where(mask, part.whole, part.dtype.type(0)) for part in inside]
    return Chosen((*parts[: found[0]], *wholes, *parts[found[-1] + 1 :]), mask, True)


def _is_number(part: object) -> bool:
    return not isinstance(part, slice) and part is not None and not np.ndim(part)  # type: ignore[arg-type]


def read_chosen(x: Tracer, at: Chosen) -> Masked:
    """The elements at an index of which a mask selects."""
    found: Any = getitem(x, at.index)
    if found.shape[: at.mask.ndim] != at.mask.shape:
        raise unknown_size()
    return Masked(found.twin(), at.mask)


def write_chosen(x: Tracer, at: Chosen, value: Any, how: str) -> Value | None:
    """The array with elements replaced, added, ...; None if they have been written by a view."""
    if not at.has_places:
        if how != "set":
            raise unknown_size()
        x[at.index][at.mask] = value
        return None
    if isinstance(value, Masked):
        if not same_value(value.mask, at.mask):
            raise unknown_size()
        value = value.whole
    elif np.ndim(value) and np.shape(value)[0] != 1:
        raise unknown_size()
    parts = list(at.index)
    for k, part in enumerate(parts):
        if np.ndim(part):  # where the mask does not hold it is behind the end: it is dropped
            parts[k] = np.where(at.mask, traced_indices(part, k, x.shape[k]), x.shape[k])
    return update(x, tuple(parts), value, how, "drop")
