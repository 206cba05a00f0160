"""L4. Functions that choose elements and multiply matrices, imported at the first use of one."""

from __future__ import annotations

from fgrad.numpy import products, selection  # noqa: F401  (each fills the tables)
from fgrad.numpy.inplace import mark_views

mark_views()
