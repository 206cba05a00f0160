"""L7. Elementwise activation functions, right in value and in every derivative, tails included.

Functions that are x, 0 or a constant beyond some bound are so by selection: the middle formula is
given 0 there, so that no infinity meets a zero.  NaN stays NaN.  Integers become float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from fgrad.errors import DtypeError, ShapeError
from fgrad.numpy.promote import (
    as_array,
    broadcast,
    broadcast_shapes,
    inexact,
    normalize_axis,
    user_line,
)
from fgrad.ops import elementwise as ew
from fgrad.ops import erf_gamma as eg
from fgrad.ops.elementwise import lit, select
from fgrad.ops.shape import slice_
from fgrad.trace import Value
from fgrad.typing import ArrayLike


def refuse_complex(x: Value) -> None:
    """Refuse complex numbers, which lie neither on the left nor on the right."""
    if x.dtype.kind == "c":
        raise DtypeError(
            f"This activation takes real numbers, not {x.dtype}.",
            (*user_line(), ("write", "f(x.real) + 1j * f(x.imag)    for each of the parts")),
        )


def counted(x: ArrayLike) -> Value:
    """Integers as they are, others as floats."""
    x = as_array(x)
    return x if x.dtype.kind in "iu" else inexact(x)


def _between_tails(x: Value, bound: float, middle: Callable[[Value], Value]) -> Value:
    """`middle(x)` for |x| <= bound; beyond, 0 on the left and x on the right."""
    refuse_complex(x)
    inside = ew.not_(ew.gt(ew.abs_(x), lit(x, bound)))  # NaN is inside
    tails = select(ew.gt(x, lit(x, 0)), x, lit(x, 0))
    return select(inside, middle(select(inside, x, lit(x, 0))), tails)


# --- piecewise linear ---------------------------------------------------------------------------


def relu(x: ArrayLike) -> Value:
    """max(x, 0), with derivative 0 at 0; integers stay integers.

    Example:
        >>> import fgrad, numpy as np
        >>> relu(np.array([-1.0, 0.0, 2.0]))
        array([0., 0., 2.])
        >>> fgrad.grad(relu)(0.0)
        np.float64(0.0)
    """
    x = counted(x)
    return select(ew.le(x, lit(x, 0)), lit(x, 0), x)


def relu6(x: ArrayLike) -> Value:
    """min(max(x, 0), 6), with derivative 0 at 0 and at 6.

    Example:
        >>> relu6(8.0)
        np.float64(6.0)
    """
    x = relu(inexact(x))
    return select(ew.ge(x, lit(x, 6)), lit(x, 6), x)


def leaky_relu(x: ArrayLike, negative_slope: float = 0.01) -> Value:
    """x for x > 0, else negative_slope * x.

    Example:
        >>> leaky_relu(-2.0)
        np.float64(-0.02)
    """
    x = inexact(x)
    return select(ew.gt(x, lit(x, 0)), x, ew.mul(x, lit(x, negative_slope)))


def hard_tanh(x: ArrayLike) -> Value:
    """min(max(x, -1), 1), with derivative 0 at the corners; integers stay integers.

    Example:
        >>> hard_tanh(3.0)
        np.float64(1.0)
    """
    x = counted(x)
    unsigned = x.dtype.kind == "u"
    low = x if unsigned else select(ew.le(x, lit(x, -1)), lit(x, -1), x)
    return select(ew.ge(low, lit(x, 1)), lit(x, 1), low)


def hard_sigmoid(x: ArrayLike) -> Value:
    """relu6(x + 3) / 6.

    Example:
        >>> hard_sigmoid(0.0)
        np.float64(0.5)
    """
    x = inexact(x)
    return ew.div(relu6(ew.add(x, lit(x, 3))), lit(x, 6))


def hard_silu(x: ArrayLike) -> Value:
    """x * relu6(x + 3) / 6, also called hard_swish (Howard et al. 2019).

    Example:
        >>> import numpy as np
        >>> hard_silu(np.array([-4.0, 1.0, 4.0]))
        array([0.        , 0.66666667, 4.        ])
    """
    x = inexact(x)
    return _between_tails(x, 3.0, lambda y: ew.mul(y, hard_sigmoid(y)))


hard_swish = hard_silu


def identity(x: ArrayLike) -> Value:
    """x itself.

    Example:
        >>> identity(2.0)
        np.float64(2.0)
    """
    return inexact(x)


def sparse_plus(x: ArrayLike) -> Value:
    """0 for x <= -1, x for x >= 1, (x + 1)^2 / 4 between.

    Example:
        >>> import numpy as np
        >>> sparse_plus(np.array([-2.0, 0.0, 2.0]))
        array([0.  , 0.25, 2.  ])
    """
    x = inexact(x)

    def middle(y: Value) -> Value:
        return ew.mul(ew.square(ew.add(y, lit(y, 1))), lit(y, 0.25))

    return _between_tails(x, 1.0, middle)


def sparse_sigmoid(x: ArrayLike) -> Value:
    """The derivative of `sparse_plus`: (x + 1) / 2 between 0 and 1.

    Example:
        >>> import numpy as np
        >>> sparse_sigmoid(np.array([-2.0, 0.0, 2.0]))
        array([0. , 0.5, 1. ])
    """
    y = hard_tanh(inexact(x))
    return ew.mul(ew.add(y, lit(y, 1)), lit(y, 0.5))


# --- exponential --------------------------------------------------------------------------------


def elu(x: ArrayLike, alpha: float = 1.0) -> Value:
    """x for x > 0, else alpha (exp(x) - 1) (Clevert et al. 2016).

    Example:
        >>> elu(0.5)
        np.float64(0.5)
    """
    x = inexact(x)
    positive = ew.gt(x, lit(x, 0))
    below = ew.expm1(select(positive, lit(x, 0), x))
    return select(positive, x, ew.mul(below, lit(x, alpha)))


_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193349852946


def selu(x: ArrayLike) -> Value:
    """The self-normalising scale * elu(x, alpha) (Klambauer et al. 2017, eq. 2).

    Example:
        >>> selu(1.0)
        np.float64(1.0507009873554805)
    """
    y = elu(x, _SELU_ALPHA)
    return ew.mul(y, lit(y, _SELU_SCALE))


def celu(x: ArrayLike, alpha: float = 1.0) -> Value:
    """x for x > 0, else alpha (exp(x / alpha) - 1), continuously differentiable (Barron 2017).

    Example:
        >>> celu(-1e9, alpha=2.0)
        np.float64(-2.0)
    """
    x = inexact(x)
    positive = ew.gt(x, lit(x, 0))
    below = ew.expm1(ew.div(select(positive, lit(x, 0), x), lit(x, alpha)))
    return select(positive, x, ew.mul(below, lit(x, alpha)))


def sigmoid(x: ArrayLike) -> Value:
    """1 / (1 + exp(-x)).

    Example:
        >>> sigmoid(0.0)
        np.float64(0.5)
    """
    x = inexact(x)
    refuse_complex(x)
    return ew.logistic(x)


def tanh(x: ArrayLike) -> Value:
    """The hyperbolic tangent.

    Arguments:
        x: an array.

    Example:
        >>> tanh(0.0)
        np.float64(0.0)
    """
    return ew.tanh(inexact(x))


def soft_sign(x: ArrayLike) -> Value:
    """x / (1 + |x|).

    Example:
        >>> soft_sign(1.0)
        np.float64(0.5)
    """
    x = inexact(x)
    refuse_complex(x)
    infinite = ew.isinf(x)
    y = select(infinite, lit(x, 0), x)
    return select(infinite, ew.sign(x), ew.div(y, ew.add(ew.abs_(y), lit(x, 1))))


def softplus(x: ArrayLike) -> Value:
    """log(1 + exp(x)) = max(x, 0) + log1p(exp(-|x|)), without overflow.

    Example:
        >>> softplus(1000.0), softplus(-1000.0)
        (np.float64(1000.0), np.float64(0.0))
    """
    x = inexact(x)
    positive = ew.gt(x, lit(x, 0))
    distance = select(positive, ew.neg(x), x)
    return ew.add(select(positive, x, lit(x, 0)), ew.log1p(ew.exp(distance)))


def squareplus(x: ArrayLike, b: ArrayLike = 4) -> Value:
    """(x + sqrt(x^2 + b)) / 2, without cancellation (Barron 2021).

    Example:
        >>> squareplus(0.0), squareplus(-1e9)
        (np.float64(1.0), np.float64(1e-09))
    """
    x = inexact(x)
    b = ew.convert(as_array(b), x.dtype)
    shape = broadcast_shapes(x.shape, b.shape)
    x, b = broadcast((x, b), shape)
    positive = ew.ge(x, lit(x, 0))
    size = select(positive, x, ew.neg(x))  # |x|, with slope 1 at 0
    large = ew.gt(size, lit(x, 1e8 if x.dtype.itemsize > 4 else 1e3))  # where x^2 alone counts
    middle = select(large, lit(x, 0), x)
    root = select(large, size, ew.sqrt(ew.add(ew.square(middle), b)))
    double = ew.add(size, root)
    zero = ew.eq(double, lit(x, 0))  # x = 0 and b = 0
    below = ew.div(b, select(zero, lit(x, 1), double))
    return ew.mul(select(positive, double, below), lit(x, 0.5))


def log1mexp(x: ArrayLike) -> Value:
    """log(1 - exp(-x)) for x > 0, by the better of two formulas (Maechler 2012).

    Example:
        >>> log1mexp(1e-20), log1mexp(50.0)
        (np.float64(-46.051701859880914), np.float64(-1.9287498479639178e-22))
    """
    x = inexact(x)
    near = ew.lt(x, lit(x, math.log(2)))
    close = ew.log(ew.neg(ew.expm1(ew.neg(select(near, x, lit(x, 1))))))
    far = ew.log1p(ew.neg(ew.exp(ew.neg(select(near, lit(x, 1), x)))))
    return select(near, close, far)


def log_sigmoid(x: ArrayLike) -> Value:
    """log(sigmoid(x)) = -softplus(-x).

    Example:
        >>> log_sigmoid(-1000.0)
        np.float64(-1000.0)
    """
    return ew.neg(softplus(ew.neg(inexact(x))))


def silu(x: ArrayLike) -> Value:
    """x * sigmoid(x) (Elfwing et al. 2018), also called swish.

    Example:
        >>> silu(0.0), silu(float("-inf"))
        (np.float64(0.0), np.float64(0.0))
    """
    x = inexact(x)
    return _between_tails(x, 750.0, lambda y: ew.mul(y, ew.logistic(y)))


swish = silu


def mish(x: ArrayLike) -> Value:
    """x * tanh(softplus(x)) (Misra 2019).

    Example:
        >>> mish(0.0)
        np.float64(0.0)
    """
    x = inexact(x)
    return _between_tails(x, 750.0, lambda y: ew.mul(y, ew.tanh(softplus(y))))


def gelu(x: ArrayLike, approximate: bool = True) -> Value:
    """x times the probability that a standard normal number is below x (Hendrycks and Gimpel 2016).

    Arguments:
        x: a floating-point array of any shape.
        approximate: whether the probability is (1 + tanh(c (x + 0.044715 x^3))) / 2 with
            c = sqrt(2 / pi), or erfc(-x / sqrt(2)) / 2.

    Example:
        >>> gelu(0.0), gelu(float("-inf"))
        (np.float64(0.0), np.float64(0.0))
    """
    x = inexact(x)
    if approximate:
        return _between_tails(x, 25.0, _gelu_tanh)
    return _between_tails(x, 40.0, _gelu_erf)


def _gelu_tanh(x: Value) -> Value:
    cubic = ew.add(x, ew.mul(ew.mul(x, ew.mul(x, x)), lit(x, 0.044715)))
    return ew.mul(x, ew.logistic(ew.mul(cubic, lit(x, 2 * math.sqrt(2 / math.pi)))))


def _gelu_erf(x: Value) -> Value:
    tail = eg.erfc(ew.mul(x, lit(x, -math.sqrt(0.5))))
    return ew.mul(ew.mul(x, lit(x, 0.5)), tail)


def glu(x: ArrayLike, axis: int = -1) -> Value:
    """The first half of an axis times the sigmoid of the second half (Dauphin et al. 2017).

    Arguments:
        x: an array.

    Raises:
        ShapeError: if the axis has odd length.

    Example:
        >>> glu([2.0, 0.0])
        array([1.])
    """
    x = inexact(x)
    refuse_complex(x)
    axis = normalize_axis(axis, len(x.shape))
    half, odd = divmod(x.shape[axis], 2)
    if odd:
        raise ShapeError(f"nn.glu: axis {axis} of shape {x.shape} has odd length.", user_line())
    zero = (0,) * len(x.shape)
    middle = tuple([half if a == axis else n for a, n in enumerate(x.shape)])
    start = tuple([half if a == axis else 0 for a in range(len(x.shape))])
    return ew.mul(slice_(x, zero, middle), ew.logistic(slice_(x, start, x.shape)))
