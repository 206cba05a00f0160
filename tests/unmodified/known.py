"""Unmodified programs that are not yet run as Python runs them, and of which no card says so.

The rows are defects: each names a program, and what happens.  A row goes when its
program is mended.
"""

from __future__ import annotations

KNOWN: dict[str, str] = {}
