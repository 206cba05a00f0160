"""L0. Refuse containers whose arithmetic differs from that of arrays, such as data frames.

pandas and polars skip NaN, align indices, and have another `std`; xarray aligns by names; masked
arrays leave elements out; `np.matrix` has another product.  What says how it becomes an array, by
a method `to_numpy`, is none.
"""

from __future__ import annotations

import numpy as np

from fgrad.errors import UnsupportedTypeError


def is_foreign(x: object) -> bool:
    """Whether an object holds numbers, but is not a plain array of them."""
    if isinstance(x, np.ndarray):
        return type(x) is not np.ndarray and isinstance(x, (np.ma.MaskedArray, np.matrix))
    return hasattr(type(x), "to_numpy")


def refuse_foreign(x: object, what: str) -> None:
    """Raise a card for an object that holds numbers, but is not a plain array of them."""
    if is_foreign(x):
        raise foreign_container(x, what)


def foreign_container(x: object, what: str) -> UnsupportedTypeError:
    """The card that says how to make an array of it."""
    kind: type[object] = type(x)
    if isinstance(x, np.ma.MaskedArray):
        why = "its functions leave masked elements out; those of plain arrays do not."
        write = (("write", "x.filled(0.0)       and the mask x.mask as an argument of its own"),)
    elif isinstance(x, np.matrix):
        why = "its * is the product of matrices; that of arrays goes element by element."
        write = (("write", "np.asarray(x)       and @ for products"),)
    else:
        why = "it skips NaN, aligns labels, and has another std than arrays: numbers would differ."
        write = (("write", "x.to_numpy()        the plain array"),)
    return UnsupportedTypeError(
        f"fgrad traces plain arrays, but {what} is a {kind.__module__.split('.')[0]} "
        f"{kind.__name__}.",
        (("why", why), *write),
    )
