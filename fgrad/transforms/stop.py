"""L4. `stop_gradient` of trees of arrays."""

from __future__ import annotations

from fgrad import tree
from fgrad.ops import elementwise
from fgrad.typing import T


def stop_gradient(x: T) -> T:
    """`x`, a tree of arrays, regarded as a constant by every derivative.

    Example:
        >>> import fgrad
        >>> fgrad.grad(lambda x: x * fgrad.stop_gradient(x))(3.0)
        np.float64(3.0)
    """
    return tree.map(elementwise.stop_gradient, x)
