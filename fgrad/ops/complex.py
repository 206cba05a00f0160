"""L3. Complex numbers and their parts.

Cotangents pair with tangents as <c, t> = Re(c t), summed: the transpose of multiplication by a is
multiplication by a, not by its conjugate.  So

    transpose of conj:     c -> conj(c)         of real:  c -> c + 0i
    of complex(x, y):      c -> Re c, -Im c     of imag:  c -> 0 - ic
"""

from __future__ import annotations

import numpy as np

from fgrad.errors import DtypeError, MissingRuleError
from fgrad.ir import traits
from fgrad.ir.aval import Aval
from fgrad.ir.primitive import Primitive
from fgrad.ir.traits import Host, Rounding
from fgrad.ops.elementwise import lit, neg
from fgrad.ops.families import elementwise, finish_elementwise, same_dtype, same_shape
from fgrad.trace import Value, bind
from fgrad.tracing.fastpath import bind_one

REAL_OF = {np.dtype("D"): np.dtype("d"), np.dtype("F"): np.dtype("f")}
COMPLEX_OF = {real: number for number, real in REAL_OF.items()}


def real_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of the parts of a complex dtype; a real dtype itself."""
    return REAL_OF.get(dtype, dtype)


def complex_dtype(dtype: np.dtype) -> np.dtype:
    """The complex dtype whose parts have a real dtype; a complex dtype itself."""
    return COMPLEX_OF.get(dtype, dtype)


def is_complex(x: Value) -> bool:
    """Whether a value has a complex dtype."""
    return x.dtype.kind == "c"


def holomorphic_only(name: str, x: Value) -> None:
    """A card for the derivative of a scaled function of complex numbers."""
    if is_complex(x):
        raise MissingRuleError(
            f"The derivative of {name} at complex numbers is not available.",
            (
                ("why", "it is scaled by the absolute value of a real part: not holomorphic."),
                ("write", f"{name.rstrip('e')} times the exponential of that part"),
            ),
        )


_PARTS = traits.elementwise(rounding=Rounding.EXACT, host=Host.NUMPY)

conj_p = elementwise(
    "conj",
    np.conjugate,
    lambda t, x, out: conj(t),
    accepts="c",
    reads=((),),
    traits=_PARTS,
    linear_in="all",
)

real_p = Primitive("real", _PARTS, linear_in="all", scalar="real", reads=((),))
imag_p = Primitive("imag", _PARTS, linear_in="all", scalar="imag", reads=((),))
complex_p = Primitive("complex", _PARTS, linear_in="all", scalar="complex", reads=((), ()))


def part_type(x: Aval) -> Aval:
    """The type of a part of complex numbers."""
    if x.dtype not in REAL_OF:
        raise DtypeError(f"The parts of a complex number were asked of {x.dtype}.")
    return Aval(x.shape, REAL_OF[x.dtype])


real_p.type_rule(part_type)
imag_p.type_rule(part_type)
real_p.evaluate(np.real)
imag_p.evaluate(np.imag)
finish_elementwise(real_p, (lambda t, z, out: real(t) if is_complex(t) else to_complex(t),))
finish_elementwise(
    imag_p, (lambda t, z, out: imag(t) if is_complex(t) else complex_(lit(t, 0), neg(t)),)
)


@complex_p.type_rule
def _(x: Aval, y: Aval) -> Aval:
    dtype = same_dtype(complex_p, (x, y), "f")
    if dtype not in COMPLEX_OF:
        raise DtypeError(f"complex does not take {dtype} operands.")
    return Aval(same_shape(complex_p, (x, y)), COMPLEX_OF[dtype])


@complex_p.evaluate
def _(x: Value, y: Value) -> Value:
    out = np.empty(np.broadcast_shapes(x.shape, y.shape), COMPLEX_OF[x.dtype])
    out.real, out.imag = x, y
    return out if out.ndim else out[()]


finish_elementwise(
    complex_p,
    (
        lambda t, x, y, out: real(t) if is_complex(t) else complex_(t, lit(t, 0)),
        lambda t, x, y, out: neg(imag(t)) if is_complex(t) else complex_(lit(t, 0), t),
    ),
)


def conj(x: Value) -> Value:
    """The complex conjugate; a real value itself."""
    return bind_one(conj_p, x, {}) if is_complex(x) else x


def real(x: Value) -> Value:
    """The real part; a real value itself."""
    return bind_one(real_p, x, {}) if is_complex(x) else x


def imag(x: Value) -> Value:
    """The imaginary part of a complex value."""
    return bind_one(imag_p, x, {})


def complex_(x: Value, y: Value) -> Value:
    """x + iy."""
    return bind(complex_p, x, y)


def to_complex(x: Value) -> Value:
    """x + 0i; a complex value itself."""
    return x if is_complex(x) else bind(complex_p, x, lit(x, 0))
