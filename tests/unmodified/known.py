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
NAMES = "a name means another array from some turn on"
MADE = "KeyError: a variable of another trace"
SEQUENCE = "ValueError: a traced number in a plain buffer"

KNOWN: dict[str, str] = {
    "arrays.aliases_in_one_turn_only": NAMES,
    "arrays.list_of_arrays": "the write into items[i] is lost",
    "arrays.two_buffers_take_turns": NAMES,
    "physics.heat_in_a_plate_with_two_buffers": NAMES,
    "physics.wave_on_a_string": NAMES,
    "arrays.index_out_of_bounds": BOUNDS,
    "arrays.loop_runs_out_of_bounds": BOUNDS,
    "arrays.loop_writes_out_of_bounds": BOUNDS,
    "arrays.second_index_out_of_bounds": BOUNDS,
    "arrays.write_out_of_bounds": BOUNDS,
    "carries.index_error_ends_a_loop": BOUNDS,
    "branches.branch_in_a_loop": MADE,
    "turns.break_leaves_the_inner_loop_only": MADE,
    "turns.for_else": MADE,
    "turns.return_in_nested_loops": MADE,
    "dynamic_programs.largest_sum_of_a_run": MADE,
    "linear.conjugate_gradients": MADE,
    "physics.gillespie_with_given_uniforms": MADE,
    "signals.point_in_polygon": MADE,
    "dynamic_programs.soft_dtw": SEQUENCE,
    "buffers.dictionary_counts": HASH,
    "buffers.set_of_elements": HASH,
    "buffers.shape_is_assigned": "AttributeError",
    "carries.dtype_widens": "an array has the dtype of later turns, if there are none",
    "carries.iterator_is_shared": "the inner loop does not advance the iterator",
    "carries.try_in_a_loop": FLOATS,
    "functions.prints_known_values": "prints when it is traced, not when it runs",
    "functions.prints_traced_values": "what is printed after a loop comes before it",
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
    "numbers.min_and_max_of_nan": "min and max are NumPy's, not by comparison",
    "numbers.largest_of_a_loop_with_nan": "min and max are NumPy's, not by comparison",
    "numbers.rounding_to_digits": "round(x, 2) rounds as NumPy does",
    "numbers.methods_of_numbers": "traced numbers do not have the methods of Python's",
    "numbers.arrays_are_asked": TYPES,
    "numbers.type_of_a_float": TYPES,
}
