"""Unmodified programs that are not yet run as Python runs them, and of which no card says so.

The rows are defects: each names a program, and what happens.  A row whose program
is mended is taken out.
"""

from __future__ import annotations

FLOATS = "a float of Python's becomes NumPy's: no error, infinity or NaN instead"
INTEGERS = "an integer of Python's becomes one of 64 bits"
TYPES = "a traced value is asked for its type"
BOUNDS = "a traced index out of bounds is not seen"

KNOWN: dict[str, str] = {
    "numbers.float_division_by_zero": FLOATS,
    "numbers.power_of_a_negative": FLOATS,
    "numbers.power_overflows": FLOATS,
    "carries.try_in_a_loop": FLOATS,
    "numbers.rounding_to_digits": "round(x, 2) rounds as NumPy does",
    "numbers.integer_division_by_zero": "the quotient is 0",
    "numbers.integer_remainder_of_zero": "the remainder is 0",
    "numbers.integer_powers": "an integer to a negative power raises",
    "numbers.shifts": INTEGERS,
    "numbers.methods_of_numbers": "traced numbers do not have the methods of Python's",
    "numbers.types_are_asked": TYPES,
    "numbers.arrays_are_asked": TYPES,
    "numbers.type_of_a_float": TYPES,
    "arrays.index_out_of_bounds": BOUNDS,
    "arrays.write_out_of_bounds": BOUNDS,
    "buffers.shape_is_assigned": "AttributeError",
    "functions.prints_known_values": "prints when it is traced, not when it runs",
    "carries.index_error_ends_a_loop": "the card for range(n) is caught as an IndexError",
}
