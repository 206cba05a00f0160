"""L7. Integrals of functions of one variable, by SciPy's own code, with derivatives.

    I(a, b, p) = int_a^b f(t, p) dt
    dI = f(b, p) db - f(a, p) da + (int_a^b df/dp dt) dp        (Leibniz)

The last integral is one of a vector function, taken to the same tolerances, and has the same rule:
so do derivatives of any order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.base.named_tuple import NamedTuple
from fgrad.ir.aval import Aval
from fgrad.scipy._bound import first, of_number
from fgrad.scipy._either import refusal
from fgrad.scipy._host import (
    arguments,
    floats,
    inside,
    must_be_real,
    on_host,
    refuse_options,
    refuse_unknown,
)
from fgrad.trace import Value
from fgrad.transforms.core.wrap import function_name
from fgrad.transforms.custom.implicit import closure_convert
from fgrad.transforms.custom.jvp import CustomJvp
from fgrad.transforms.jacobian import jacrev
from fgrad.typing import ArrayLike, PyTree

plain = lazy_module("scipy.integrate")

FLOAT = np.dtype(np.float64)
Numbers: TypeAlias = tuple[np.ndarray, np.ndarray | np.float64]
Arguments: TypeAlias = tuple[Value | None, Value | None, list[Value]]
Tangents: TypeAlias = tuple[Value | None, Value | None, list[Value | None]]
Integrand: TypeAlias = Callable[[PyTree], PyTree]
Options: TypeAlias = Mapping[str, PyTree]  # of `quad`
Limits: TypeAlias = tuple[ArrayLike, ArrayLike] | Callable[..., tuple[ArrayLike, ArrayLike]]


class Integral(NamedTuple):
    """An integral, and an estimate of its absolute error."""

    value: Value
    error: Value


class Rule(Protocol):
    """A way to integrate numerically."""

    @property
    def place(self) -> ArrayLike:
        """A place at which the integrand can be traced."""
        ...

    def errors(self, size: int) -> tuple[int, ...]:
        """The shape of the estimates of the errors of `size` numbers."""
        ...

    def numeric(self, size: int) -> Callable[..., Numbers]:
        """The integration of a plain function to `size` numbers, from low to high."""
        ...


class Tolerances(NamedTuple):
    """What SciPy's `quad` and `quad_vec` have in common."""

    epsabs: float = 1.49e-8
    epsrel: float = 1.49e-8
    limit: int = 50
    points: ArrayLike | None = None
    norm: str = "max"  # of vectors

    @property
    def place(self) -> ArrayLike:
        """A number."""
        return np.float64(0.5)

    def errors(self, size: int) -> tuple[int, ...]:
        """One for all."""
        return ()

    def numeric(self, size: int) -> Callable[..., Numbers]:
        """SciPy's integration of a plain function to `size` numbers."""

        def integrate(f: Integrand, low: np.float64, high: np.float64) -> Numbers:
            given = self._asdict()
            norm = given.pop("norm")
            if size == 1:
                given["limit"] = min(self.limit, 10_000)  # quad's memory
                y, error = plain.quad(of_number(f, first), low, high, **given)[:2]
            else:
                y, error = plain.quad_vec(f, low, high, norm=norm, **given)[:2]
            return np.reshape(y, size), np.float64(error)

        return integrate


def integral_of(
    f: Integrand, size: int, low: Value | None, high: Value | None, rule: Rule
) -> Integral:
    """The integral of `f`, whose values are vectors of a length; derivatives flow to the limits, if
    there are some, and to all that it closes over."""
    converted, consts = closure_convert(f, rule.place)

    @CustomJvp
    def integral(low: Value | None, high: Value | None, consts: list[Value]) -> Integral:
        like = (Aval((size,), FLOAT), Aval(rule.errors(size), FLOAT))
        found = on_host(
            rule.numeric(size), like, lambda t: converted(t, *consts), rule.place, low, high
        )
        return Integral(*found)

    def moves(primals: Arguments, tangents: Tangents) -> tuple[Integral, Integral]:
        (low, high, consts), (d_low, d_high, d_consts) = primals, tangents
        found = integral(low, high, consts)
        moved = np.zeros(size)
        for end, d_end, sign in ((high, d_high, 1.0), (low, d_low, -1.0)):
            if end is not None and d_end is not None:
                finite = np.isfinite(end)  # an infinite end does not move
                along = np.where(finite, sign * d_end, 0.0)
                moved = moved + converted(np.where(finite, end, 0.5), *consts) * along
        active = {k: t for k, t in enumerate(d_consts) if t is not None and is_float(consts[k])}
        if active:
            slopes = _slopes(converted, consts, list(active), size)
            along = np.concatenate([np.reshape(t, -1) for t in active.values()])
            n = int(along.shape[0])
            matrix = integral_of(slopes, size * n, low, high, rule).value
            moved = moved + np.reshape(matrix, (size, n)) @ along
        return found, Integral(moved, np.zeros(rule.errors(size)))

    integral.defjvp(moves, symbolic_zeros=True)
    integral.__name__ = integral.name = "quad"
    return integral(low, high, consts)


def is_float(x: Value) -> bool:
    """Whether a parameter has a derivative; a card for complex ones."""
    if x.dtype.kind == "c":
        why = "the derivative in a complex parameter is not there."
        raise refusal("scipy.integrate.quad", why, "z.real and z.imag    as real parameters")
    return x.dtype.kind == "f"


def _slopes(
    converted: Callable[..., PyTree], consts: Sequence[Value], active: Sequence[int], size: int
) -> Integrand:
    """t -> the derivatives of the integrand in some of its parameters, in one row."""

    def with_parameters(parameters: list[Value], t: ArrayLike) -> Value:
        given = list(consts)
        for k, p in zip(active, parameters, strict=True):
            given[k] = p
        return converted(t, *given)

    def slopes(t: ArrayLike) -> Value:
        parts = jacrev(with_parameters)([consts[k] for k in active], t)
        rows = [np.reshape(p, (size, -1)) for p in parts]
        return np.reshape(np.concatenate(rows, axis=1), -1).astype(FLOAT)

    return slopes


def quad(
    func: Callable[..., PyTree],
    a: ArrayLike,
    b: ArrayLike,
    args: PyTree = (),
    full_output: int = 0,
    epsabs: float = 1.49e-8,
    epsrel: float = 1.49e-8,
    limit: int = 50,
    points: ArrayLike | None = None,
    **options: object,
) -> tuple[Value, Value]:
    """`scipy.integrate.quad` with derivatives in the limits and parameters of an integral.

    Arguments:
        func: `func(t, *args)` to a number, of NumPy operations; derivatives flow to `args` and to
            what it closes over.
        a, b: the limits, which may be infinite.
        epsabs, epsrel, limit, points: as in SciPy, for the integral and for its derivatives.
        options: other options of SciPy's, outside of transforms.
        full_output: as in SciPy, outside of transforms.

    Returns:
        The integral, and an estimate of its error.

    Example:
        >>> import numpy as np, fgrad
        >>> slope = fgrad.grad(lambda a: quad(lambda t: np.exp(-a * t), 0.0, 1.0)[0])(1.0)
        >>> float(slope.round(12)), float(np.round(2 / np.e - 1, 12))
        (-0.264241117657, -0.264241117657)
    """
    args = arguments(args)
    if not inside(a, b, args):
        tolerances = {"epsabs": epsabs, "epsrel": epsrel, "limit": limit, "points": points}
        return plain.quad(func, a, b, args, full_output, **tolerances, **options)
    refuse_unknown(plain.quad, options)
    refuse_options("scipy.integrate.quad", {"full_output": full_output, **options})

    def vector(t: ArrayLike) -> Value:
        return np.reshape(must_be_real(func(t, *args), "scipy.integrate.quad"), 1).astype(FLOAT)

    vector.__name__ = function_name(func)
    control = Tolerances(epsabs, epsrel, limit, None if points is None else np.asarray(points))
    found = integral_of(vector, 1, floats(a), floats(b), control)
    return found.value[0], found.error


def _given(x: object, point: Sequence[ArrayLike]) -> PyTree:
    return x(*point) if callable(x) else x


def nquad(
    func: Callable[..., PyTree],
    ranges: Sequence[Limits],
    args: PyTree = None,
    opts: Options | Sequence[Options | Callable[..., Options]] | None = None,
    full_output: bool = False,
) -> PyTree:
    """`scipy.integrate.nquad` with derivatives, as nested integrals by `quad`.

    Arguments:
        func: `func(x0, ..., xn, *args)`.
        ranges: the limits of each variable, x0 first: pairs, or functions of the later variables.
        args: further arguments; derivatives flow to them.
        opts: options of `quad`: a dictionary, or one for each variable.
        full_output: as in SciPy, outside of transforms.

    Example:
        >>> import fgrad
        >>> volume = lambda r: nquad(lambda x, y: x * y, [(0.0, r), (0.0, 1.0)])[0]
        >>> float(round(volume(2.0), 9)), float(fgrad.grad(volume)(2.0).round(9))
        (1.0, 1.0)
    """
    args = () if args is None else arguments(args)
    if not inside([r for r in ranges if not callable(r)], args):
        return plain.nquad(func, ranges, args or None, opts, full_output)
    refuse_options("scipy.integrate.nquad", {"full_output": full_output})
    each = opts if isinstance(opts, Sequence) else [opts or {}] * len(ranges)
    return _nested(func, ranges, each, args, ())


def _nested(
    func: Callable[..., PyTree],
    ranges: Sequence[Limits],
    each: Sequence[Options | Callable[..., Options]],
    args: tuple[ArrayLike, ...],
    later: tuple[ArrayLike, ...],
) -> tuple[Value, Value]:
    """The integral over all variables but the last ones, which have the values `later`."""
    k = len(ranges) - 1 - len(later)
    low, high = _given(ranges[k], (*later, *args))

    def integrand(t: ArrayLike) -> PyTree:
        if k == 0:
            return func(t, *later, *args)
        return _nested(func, ranges, each, args, (t, *later))[0]

    return quad(integrand, low, high, **_given(each[k], (*later, *args)))


def dblquad(
    func: Callable[..., PyTree],
    a: ArrayLike,
    b: ArrayLike,
    gfun: ArrayLike | Callable[[ArrayLike], ArrayLike],
    hfun: ArrayLike | Callable[[ArrayLike], ArrayLike],
    args: PyTree = (),
    epsabs: float = 1.49e-8,
    epsrel: float = 1.49e-8,
) -> tuple[Value, Value]:
    """`scipy.integrate.dblquad` with derivatives: the integral of `func(y, x, *args)`.

    Arguments:
        func: `func(y, x, *args)` to a number.
        a, b: the limits of x.
        gfun, hfun: the limits of y: numbers, or functions of x.
        epsabs, epsrel: tolerances.

    Example:
        >>> import fgrad
        >>> def area(r):
        ...     return dblquad(lambda y, x: 1.0, 0.0, r, 0.0, lambda x: x)[0]
        >>> float(fgrad.grad(area)(2.0).round(9))
        2.0
    """
    rest = arguments(args)
    if not inside(a, b, [x for x in (gfun, hfun) if not callable(x)], rest):
        return plain.dblquad(func, a, b, gfun, hfun, args, epsabs, epsrel)

    def inner(x: ArrayLike, *_args: object) -> tuple[ArrayLike, ArrayLike]:
        return _given(gfun, (x,)), _given(hfun, (x,))

    return nquad(func, [inner, (a, b)], rest, {"epsabs": epsabs, "epsrel": epsrel})


def tplquad(
    func: Callable[..., PyTree],
    a: ArrayLike,
    b: ArrayLike,
    gfun: ArrayLike | Callable[[ArrayLike], ArrayLike],
    hfun: ArrayLike | Callable[[ArrayLike], ArrayLike],
    qfun: ArrayLike | Callable[[ArrayLike, ArrayLike], ArrayLike],
    rfun: ArrayLike | Callable[[ArrayLike, ArrayLike], ArrayLike],
    args: PyTree = (),
    epsabs: float = 1.49e-8,
    epsrel: float = 1.49e-8,
) -> tuple[Value, Value]:
    """`scipy.integrate.tplquad` with derivatives: the integral of `func(z, y, x, *args)`.

    Arguments:
        a, b: the limits of x.
        gfun, hfun: the limits of y: numbers, or functions of x.
        qfun, rfun: the limits of z: numbers, or functions of x and y.

    Example:
        >>> import fgrad
        >>> def volume(r):
        ...     return tplquad(lambda z, y, x: 1.0, 0.0, r, 0.0, 1.0, 0.0, lambda x, y: x)[0]
        >>> float(fgrad.grad(volume)(2.0).round(9))
        2.0
    """
    rest = arguments(args)
    numbers = [x for x in (gfun, hfun, qfun, rfun) if not callable(x)]
    if not inside(a, b, numbers, rest):
        return plain.tplquad(func, a, b, gfun, hfun, qfun, rfun, args, epsabs, epsrel)

    def inner(y: ArrayLike, x: ArrayLike, *_args: object) -> tuple[ArrayLike, ArrayLike]:
        return _given(qfun, (x, y)), _given(rfun, (x, y))

    def middle(x: ArrayLike, *_args: object) -> tuple[ArrayLike, ArrayLike]:
        return _given(gfun, (x,)), _given(hfun, (x,))

    return nquad(func, [inner, middle, (a, b)], rest, {"epsabs": epsabs, "epsrel": epsrel})


def quad_vec(
    f: Callable[..., PyTree],
    a: ArrayLike,
    b: ArrayLike,
    epsabs: float = 1e-200,
    epsrel: float = 1e-8,
    norm: str = "2",
    cache_size: float = 100e6,
    limit: int = 10_000,
    workers: int = 1,
    points: ArrayLike | None = None,
    quadrature: str | None = None,
    full_output: bool = False,
    *,
    args: PyTree = (),
) -> tuple[Value, Value]:
    """`scipy.integrate.quad_vec` with derivatives: the integral of a function to arrays.

    Arguments:
        f: `f(t, *args)` to an array, of NumPy operations.
        a, b: the limits, which may be infinite.
        cache_size, workers, quadrature, full_output: as in SciPy, outside of transforms.

    Example:
        >>> import fgrad
        >>> def total(p):
        ...     return quad_vec(lambda t: np.stack([p * t, t**p]), 0.0, 1.0)[0].sum()
        >>> float(fgrad.grad(total)(1.0).round(9))
        0.25
    """
    rest = arguments(args)
    if not inside(a, b, rest):
        return plain.quad_vec(
            f, a, b, epsabs, epsrel, norm, cache_size, limit, workers, points, quadrature,
            full_output, args=rest,
        )  # fmt: skip
    more = {"quadrature": quadrature, "full_output": full_output, "workers": workers != 1}
    refuse_options("scipy.integrate.quad_vec", more)
    shape = np.shape(f(np.float64(0.5), *rest))
    size = int(np.prod(shape))

    def vector(t: ArrayLike) -> Value:
        return np.reshape(must_be_real(f(t, *rest), "scipy.integrate.quad_vec"), size).astype(FLOAT)

    vector.__name__ = function_name(f)
    given = None if points is None else np.asarray(points)
    control = Tolerances(epsabs, epsrel, limit, given, norm)
    found = integral_of(vector, size, floats(a), floats(b), control)
    return np.reshape(found.value, shape)[()], found.error
