"""L4. `fgrad.numpy.linalg`: NumPy's names, for plain and for traced arrays."""

from __future__ import annotations

from fgrad.numpy.namespace import attributes

__getattr__, __dir__ = attributes(__name__)
