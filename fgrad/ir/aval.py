"""L1. Abstract values: the shape, dtype and weakness of an array.

Aval((3, 4), float64)  prints as  f64[3,4];   a weak Python scalar prints as  f64[]~
varying(..., {"data"})  prints as  f64[3,4]{data}: its elements may differ along a named axis
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from fgrad.typing import DType

DTYPE_NAMES = {
    "bool": "bool",
    "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "float16": "f16", "float32": "f32", "float64": "f64",
    "complex64": "c64", "complex128": "c128",
}  # fmt: skip
DTYPES = {short: np.dtype(name) for name, short in DTYPE_NAMES.items()}
DTYPE_NAMES["bfloat16"] = "bf16"  # of ml_dtypes, which only those need who have such arrays
STORED_FLOATS = {
    "float8_e3m4": "f8e3m4", "float8_e4m3": "f8e4m3", "float8_e4m3b11fnuz": "f8e4m3b11fnuz",
    "float8_e4m3fn": "f8e4m3fn", "float8_e4m3fnuz": "f8e4m3fnuz", "float8_e5m2": "f8e5m2",
    "float8_e5m2fnuz": "f8e5m2fnuz", "float6_e2m3fn": "f6e2m3fn", "float6_e3m2fn": "f6e3m2fn",
    "float4_e2m1fn": "f4e2m1fn",
}  # fmt: skip
STORED_INTEGERS = {"int4": "i4", "uint4": "u4", "int2": "i2", "uint2": "u2"}
DTYPE_NAMES.update(STORED_FLOATS | STORED_INTEGERS)

BOOL: DType = np.dtype(np.bool_)
INT32: DType = np.dtype(np.int32)
INT64: DType = np.dtype(np.int64)
UINT32: DType = np.dtype(np.uint32)
FLOAT32: DType = np.dtype(np.float32)
FLOAT64: DType = np.dtype(np.float64)

Axes: TypeAlias = "frozenset[str]"  # names of axes
NO_AXES: Axes = frozenset()

# Python scalars stand for these dtypes while they are weak (NEP 50).
PYTHON_SCALARS: dict[type, DType] = {
    bool: BOOL,
    int: INT64,
    float: FLOAT64,
    complex: np.dtype(np.complex128),
}


def is_bfloat16(dtype: DType) -> bool:
    """Whether a dtype is ml_dtypes' bfloat16, whose kind is that of no number."""
    return dtype.kind == "V" and dtype.name == "bfloat16"


FIRST_FOREIGN = 256  # the number of the first dtype that is not NumPy's own


def is_stored(dtype: DType) -> bool:
    """Whether numbers are of ml_dtypes and one byte or less: converted and moved, not computed
    with."""
    return dtype.num >= FIRST_FOREIGN and (
        dtype.name in STORED_FLOATS or dtype.name in STORED_INTEGERS
    )


def dtype_text(dtype: DType) -> str:
    """The text of a dtype in keys that outlive the process; NumPy's own is `V1` for all foreign
    ones of one byte."""
    return dtype.str if dtype.num < FIRST_FOREIGN else dtype.name


def has_derivative(dtype: DType) -> bool:
    """Whether numbers of a dtype have tangents: those that are no integers."""
    return dtype.kind in "fcV" and dtype.name not in STORED_INTEGERS


def is_wide(dtype: DType) -> bool:
    """Whether numbers are NumPy's `longdouble` or `clongdouble`; foreign dtypes have the same
    letters."""
    return dtype.num < FIRST_FOREIGN and dtype.char in "gG"


def is_numeric(dtype: DType) -> bool:
    """Whether arrays of a dtype can be traced: bool, integer, floating point or complex."""
    if dtype.kind in "biufc":
        return not is_wide(dtype) if dtype.num < FIRST_FOREIGN else is_stored(dtype)
    return is_bfloat16(dtype) or is_stored(dtype)


class Aval:
    """Shape and dtype of an array; `weak` marks a Python scalar, which yields to other dtypes.

    `varies` are the named axes along which the array may differ; none where no axis has a name.
    """

    __slots__ = ("shape", "dtype", "weak")

    varies: ClassVar[Axes] = NO_AXES

    def __init__(self, shape: tuple[int, ...], dtype: DType, weak: bool = False) -> None:
        self.shape = shape
        self.dtype = dtype
        self.weak = weak

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Aval)
            and self.shape == other.shape
            and self.dtype == other.dtype
            and self.weak == other.weak
        )

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype.char, self.weak))

    def __repr__(self) -> str:
        dims = ",".join(map(str, self.shape))
        return f"{DTYPE_NAMES[self.dtype.name]}[{dims}]{'~' if self.weak else ''}"

    def strong(self) -> Aval:
        """The same shape and dtype without the weak flag."""
        return Aval(self.shape, self.dtype) if self.weak else self

    def like(self, shape: tuple[int, ...], weak: bool = False) -> Aval:
        """Another shape of the same dtype, which varies over the same named axes."""
        return Aval(shape, self.dtype, weak)

    def fits(self, other: Aval) -> bool:
        """Whether arrays of the one have the shape and dtype of the other."""
        a, b = self.dtype, other.dtype
        return self.shape == other.shape and (a is b or a == b)


class Varying(Aval):
    """The aval of a value that varies over named axes; unlike any that does not."""

    __slots__ = ("varies",)

    def __init__(
        self, shape: tuple[int, ...], dtype: DType, weak: bool = False, varies: Axes = NO_AXES
    ) -> None:
        super().__init__(shape, dtype, weak)
        self.varies = varies  # type: ignore[misc]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Varying) and self.varies == other.varies and super().__eq__(other)

    def __hash__(self) -> int:
        return hash((super().__hash__(), self.varies))

    def __repr__(self) -> str:
        return f"{super().__repr__()}{{{','.join(sorted(self.varies))}}}"

    def strong(self) -> Aval:
        """The same without the weak flag."""
        return Varying(self.shape, self.dtype, False, self.varies) if self.weak else self

    def like(self, shape: tuple[int, ...], weak: bool = False) -> Aval:
        """Another shape of the same dtype, which varies over the same named axes."""
        return Varying(shape, self.dtype, weak, self.varies)


def varying(aval: Aval, axes: Axes) -> Aval:
    """An aval of the same shape and dtype that varies over these named axes alone."""
    if aval.varies == axes:
        return aval
    if not axes:
        return Aval(aval.shape, aval.dtype, aval.weak)
    return Varying(aval.shape, aval.dtype, aval.weak, axes)


def aval_of(x: object) -> Aval:
    """The aval of a value: a tracer's own, an array's, or a weak one for a Python scalar; what is
    an aval already is a strong one."""
    if type(x) is np.ndarray:
        return Aval(x.shape, x.dtype)
    if isinstance(x, Aval):
        return x.strong()
    aval = getattr(x, "aval", None)
    if aval is not None:
        return aval
    weak = PYTHON_SCALARS.get(type(x))
    if weak is not None:
        return Aval((), weak, True)
    other: Any = x  # a NumPy scalar, or what has a shape and a dtype as it has
    return Aval(other.shape, other.dtype)
