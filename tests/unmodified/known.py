"""Unmodified programs that are not yet run as Python runs them, and of which no card says so.

The rows are defects: each names a program, and what happens.  A row goes when its
program is mended.
"""

from __future__ import annotations

FLOATS = "Python's float is NumPy's: infinity or NaN where Python raises"
MATH = "a function of math gives infinity or NaN where Python raises"
INTEGERS = "Python's integer has 64 bits"
TYPES = "a traced value is asked for its type"
BOUNDS = "a traced index out of bounds is not seen"
CUT = "an integer of what is no integer of 64 bits"
HASH = "TypeError: a tracer has no hash"

KNOWN: dict[str, str] = {
    "arrays.index_out_of_bounds": BOUNDS,
    "arrays.write_out_of_bounds": BOUNDS,
    "buffers.dictionary_counts": HASH,
    "buffers.set_of_elements": HASH,
    "buffers.shape_is_assigned": "AttributeError",
    "carries.try_in_a_loop": FLOATS,
    "numbers.exponential_overflows": MATH,
    "numbers.logarithm_of_zero": MATH,
    "numbers.root_of_a_negative": MATH,
    "numbers.float_division_by_zero": FLOATS,
    "numbers.power_of_a_negative": FLOATS,
    "numbers.power_overflows": FLOATS,
    "numbers.integer_division_by_zero": "the quotient is 0",
    "numbers.integer_division_by_zero_in_a_loop": "the quotient is 0",
    "numbers.integer_remainder_of_zero": "the remainder is 0",
    "numbers.integer_of_a_large_float": CUT,
    "numbers.integer_of_infinity": CUT,
    "numbers.integer_of_nan": CUT,
    "numbers.integer_powers": "an integer to a negative power raises",
    "numbers.integers_have_no_bound": INTEGERS,
    "numbers.shifts": INTEGERS,
    "numbers.rounding_to_digits": "round(x, 2) rounds as NumPy does",
    "numbers.methods_of_numbers": "traced numbers do not have the methods of Python's",
    "numbers.type_of_a_float": TYPES,
}
