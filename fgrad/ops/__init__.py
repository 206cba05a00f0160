"""L3. The primitives, one family of mathematics in each file; importing any loads all rules."""

from fgrad.ops import (  # noqa: F401
    dot,
    elementwise,
    index,
    random_bits,
    reduce,
    shape,
    sort,
    window,
)
