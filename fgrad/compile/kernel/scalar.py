"""L5. The closed vocabulary of scalar operations, shared by the kernels and both backends.

A row says how many operands an operation takes, which dtype kinds ("b" bool, "i" signed, "u"
unsigned, "f" float) it accepts, and whether its result is a bool ("bool"), of the operands' dtype
("same") or of a dtype that the instruction names ("named").  `select` takes (bool, x, x). Semantics
are NumPy's: max/min propagate NaN, integer division by zero gives 0, `remainder` has the sign of
the divisor, shifts by the width or more give 0 (or -1 for negative >>), int overflow wraps.
`add_fits` and its kin say whether it does not.  `muladd` is a b + c, rounded once where the
processor can.
"""

from __future__ import annotations

from fgrad.base.named_tuple import NamedTuple


class ScalarRow(NamedTuple):
    """Arity, accepted dtype kinds and result kind of a scalar operation."""

    arity: int
    kinds: str
    result: str


TRANSCENDENTAL = [
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "erf",
    "erfc",
    "erfinv",
    "lgamma",
    "digamma",
    "logistic",
]
_FLOAT_UNARY = [
    "floor",
    "ceil",
    "rint",
    "trunc",
    "sqrt",
    "cbrt",
    *TRANSCENDENTAL,
]

SCALAR_OPS: dict[str, ScalarRow] = {
    **{name: ScalarRow(1, "f", "same") for name in _FLOAT_UNARY},
    "neg": ScalarRow(1, "iuf", "same"),
    "abs": ScalarRow(1, "biuf", "same"),
    "sign": ScalarRow(1, "iuf", "same"),
    "not": ScalarRow(1, "biu", "same"),
    "isnan": ScalarRow(1, "f", "bool"),
    "isinf": ScalarRow(1, "f", "bool"),
    "isfinite": ScalarRow(1, "f", "bool"),
    "signbit": ScalarRow(1, "f", "bool"),
    "add": ScalarRow(2, "biuf", "same"),
    "sub": ScalarRow(2, "iuf", "same"),
    "mul": ScalarRow(2, "biuf", "same"),
    "muladd": ScalarRow(3, "f", "same"),
    "div": ScalarRow(2, "f", "same"),
    "floor_divide": ScalarRow(2, "iuf", "same"),
    "remainder": ScalarRow(2, "iuf", "same"),
    "fmod": ScalarRow(2, "iuf", "same"),
    "pow": ScalarRow(2, "iuf", "same"),
    "atan2": ScalarRow(2, "f", "same"),
    "nextafter": ScalarRow(2, "f", "same"),
    "copysign": ScalarRow(2, "f", "same"),
    "max": ScalarRow(2, "biuf", "same"),
    "min": ScalarRow(2, "biuf", "same"),
    "and": ScalarRow(2, "biu", "same"),
    "or": ScalarRow(2, "biu", "same"),
    "xor": ScalarRow(2, "biu", "same"),
    "shift_left": ScalarRow(2, "iu", "same"),
    "shift_right": ScalarRow(2, "iu", "same"),
    **{name: ScalarRow(2, "biuf", "bool") for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    **{name: ScalarRow(2, "i", "bool") for name in ("add_fits", "sub_fits", "mul_fits")},
    "select": ScalarRow(3, "biuf", "same"),
    "convert": ScalarRow(1, "biuf", "named"),
    "bitcast": ScalarRow(1, "iuf", "named"),
    "mulhi": ScalarRow(2, "u", "same"),
}

# The operations that an accumulator repeats, and the dtype kinds of the accumulator.
ACCUMULATORS = {
    "add": "biuf",
    "mul": "biuf",
    "max": "biuf",
    "min": "biuf",
    "and": "biu",
    "or": "biu",
}
