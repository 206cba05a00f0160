"""Unmodified programs that are not yet run as Python runs them, and of which no card says so.

The rows are defects: each names a program, and what happens.  A row goes when its
program is mended.
"""

from __future__ import annotations

INTEGERS = "Python's integer has 64 bits"
TYPES = "a traced value is asked for its type"
HASH = "TypeError: a tracer has no hash"

KNOWN: dict[str, str] = {
    "buffers.dictionary_counts": HASH,
    "buffers.set_of_elements": HASH,
    "buffers.shape_is_assigned": "AttributeError",
    "numbers.integers_have_no_bound": INTEGERS,
    "numbers.rounding_to_digits": "round(x, 2) rounds as NumPy does",
    "numbers.methods_of_numbers": "traced numbers do not have the methods of Python's",
    "numbers.type_of_a_float": TYPES,
}
