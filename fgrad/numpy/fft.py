"""L4. `fgrad.numpy.fft`: the functions of `numpy.fft`, for plain and traced arrays."""

from __future__ import annotations

from fgrad.numpy.namespace import attributes

__getattr__, __dir__ = attributes(__name__)
