"""L7. Checks of derivatives and transforms for your own functions, to be used in tests.

    check_grads(f, (x, y))     jvp against finite differences, vjp against jvp, to second order
    check_vmap(f, (xs,))       vmap against a loop
    check_jit(f, args)         compiled against eager

Each raises an AssertionError that names the check, the order and the largest error.  One random
direction in all arguments at once finds errors in any of them, at the cost of two evaluations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad import tree
from fgrad.base.lazy_import import names_shown
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.pickling import label_of
from fgrad.compile.jit.jitted import jit
from fgrad.errors import ArgumentError
from fgrad.numpy.promote import as_array
from fgrad.trace import Value, concrete
from fgrad.tracing.capturing import user_form
from fgrad.transforms.core.linearize import jvp, linearize, vjp
from fgrad.transforms.vmap import vmap
from fgrad.typing import PyTree

__all__ = [
    "Tolerance",
    "check_grads",
    "check_jit",
    "check_jvp",
    "check_transpose",
    "check_vjp",
    "check_vmap",
]

Function = Callable[..., PyTree]


class Tolerance(NamedTuple):
    """How far results may be apart: atol + rtol |expected|."""

    atol: float
    rtol: float


# Tolerances by the precision of real parts: of derivatives by differences, and of values.
_DIFFERENCE_TOLERANCE = {2: 0.3, 4: 2e-2, 8: 1e-5}
_VALUE_TOLERANCE = {2: 5e-3, 4: 1e-5, 8: 1e-12}


def check_grads(
    f: Function,
    args: Sequence[PyTree],
    order: int = 2,
    modes: Sequence[str] = ("fwd", "rev"),
    eps: float | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    seed: int = 0,
) -> None:
    """Check the derivatives of `f` at `args`, up to an order, in the given modes.

    Arguments:
        f: a function of pytrees of arrays.
        args: its positional arguments; integer and bool leaves are kept constant, complex ones
            are moved in both parts.
        order: the highest derivative that is checked.
        modes: "fwd" compares `jvp` with central differences, "rev" `vjp` with `jvp`; of order 2 and
            more, the derivatives by each mode are themselves checked in all modes.
        eps: the step of the differences; by default the cube root of the precision.
        atol, rtol: tolerances; by default those of the least precise argument.
        seed: chooses the random direction.

    Raises:
        AssertionError: if a derivative is wrong.
        ArgumentError: if an argument of this function is wrong.

    Example:
        >>> check_grads(lambda x: np.sin(x) * x, (np.array([0.5, 2.0]),), order=2)
    """
    for mode in modes:
        if mode not in ("fwd", "rev"):
            raise ArgumentError(f"check_grads: modes are 'fwd' and 'rev', not {mode!r}.")
    rng = np.random.default_rng(seed)
    name = label_of(f)
    leaves, treedef = tree.flatten(tuple(args))
    free = [i for i, x in enumerate(leaves) if as_array(x).dtype.kind in "fc"]
    if not free:
        raise ArgumentError("check_grads: no argument has a floating-point or complex array.")

    def flat(*xs: object) -> list[Value]:
        whole = list(leaves)
        for i, x in zip(free, xs, strict=True):
            whole[i] = x
        outs = tree.leaves(user_form(f)(*tree.unflatten(treedef, whole)))
        return [y for y in outs if as_array(y).dtype.kind in "fc"]

    flat.__name__ = name
    values: list[Value] = [np.asarray(leaves[i]) for i in free]
    tolerance = _tolerances(values, atol, rtol)
    _check_order(flat, values, order, tuple(modes), eps, tolerance, rng, name)


def _precision(dtype: np.dtype) -> int:
    """Bytes of a real number of a dtype; integers are exact, and count as float64."""
    if dtype.kind not in "fc":
        return 8
    return dtype.itemsize // (2 if dtype.kind == "c" else 1)


def _tolerances(values: Sequence[Value], atol: float | None, rtol: float | None) -> Tolerance:
    coarse = max([_DIFFERENCE_TOLERANCE[_precision(v.dtype)] for v in values])
    return Tolerance(coarse if atol is None else atol, coarse if rtol is None else rtol)


def _check_order(
    f: Function,
    values: list[Value],
    order: int,
    modes: tuple[str, ...],
    eps: float | None,
    tolerance: Tolerance,
    rng: np.random.Generator,
    name: str,
) -> None:
    """Check f, then the functions that are its derivatives by each mode."""
    if "fwd" in modes:
        _compare_jvp(f, values, _direction(values, rng), eps, tolerance, f"jvp of {name}")
    if "rev" in modes:
        _compare_vjp(f, values, eps, tolerance, rng, f"vjp of {name}")
    if order <= 1:
        return
    if "fwd" in modes:
        tangents = _direction(values, rng)

        def forward(*xs: object) -> list[Value]:
            return jvp(f, xs, tuple(tangents))[1]

        _check_order(forward, values, order - 1, modes, eps, tolerance, rng, f"jvp of {name}")
    if "rev" in modes:
        cotangents = _direction(f(*values), rng)

        def backward(*xs: object) -> list[Value]:
            return list(vjp(f, *xs)[1](cotangents))

        _check_order(backward, values, order - 1, modes, eps, tolerance, rng, f"vjp of {name}")


def _direction(like: Sequence[Value], rng: np.random.Generator) -> list[Value]:
    """Random numbers of order one, of the shapes and dtypes of values."""

    def real(shape: tuple[int, ...]) -> np.ndarray:
        return rng.uniform(0.5, 1.5, shape) * rng.choice([-1, 1], shape)

    out = []
    for x in map(as_array, like):
        t = real(x.shape) + 1j * real(x.shape) if x.dtype.kind == "c" else real(x.shape)
        out.append(np.asarray(t).astype(x.dtype))
    return out


def _step(values: Sequence[object], eps: float | None) -> float:
    """The step of central differences that balances truncation and rounding."""
    if eps is not None:
        return eps
    return float(np.cbrt(max([np.finfo(np.asarray(v).dtype).eps for v in values])))


def _moved(values: Sequence[Value], direction: Sequence[Value], step: float) -> list[Value]:
    return [(v + t * v.dtype.type(step)) for v, t in zip(values, direction, strict=True)]


def _difference(
    f: Function, values: Sequence[Value], direction: Sequence[Value], eps: float | None
) -> list[Value]:
    """(f(x + h t) - f(x - h t)) / 2h, in double precision."""
    step = _step(values, eps)
    above, below = (f(*_moved(values, direction, h)) for h in (step, -step))
    return [(_double(a) - _double(b)) / (2 * step) for a, b in zip(above, below, strict=True)]


def _compare_jvp(
    f: Function,
    values: Sequence[Value],
    direction: Sequence[Value],
    eps: float | None,
    tolerance: Tolerance,
    what: str,
) -> None:
    outs, tangents = jvp(f, tuple(values), tuple(direction))
    _assert_close(f(*values), outs, tolerance, f"{what}: its value")
    expected = _difference(f, values, direction, eps)
    _assert_close(tangents, expected, tolerance, f"{what}, against finite differences")


def _compare_vjp(
    f: Function,
    values: Sequence[Value],
    eps: float | None,
    tolerance: Tolerance,
    rng: np.random.Generator,
    what: str,
) -> None:
    """<ct, J t> = <J^T ct, t>, with J t by finite differences."""
    outs, pullback = vjp(f, *values)
    direction, cotangents = _direction(values, rng), _direction(outs, rng)
    pulled = pullback(cotangents)
    for x, ct in zip(values, pulled, strict=True):
        if np.shape(ct) != np.shape(x) or ct.dtype != x.dtype:
            raise AssertionError(f"{what}: a cotangent is {ct.dtype}{np.shape(ct)}.")
    pushed = _difference(f, values, direction, eps)
    left = _inner(cotangents, pushed)
    right = _inner(pulled, direction)
    _assert_close([right], [left], tolerance, f"{what}, against finite differences")


def _double(x: object) -> np.ndarray:
    """A value in double precision."""
    x = np.asarray(x)
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def _inner(xs: Sequence[Value], ys: Sequence[Value]) -> np.float64:
    """The real part of sum(x y), in double precision: the pairing that transposes keep."""
    pairs = [np.sum(_double(x) * _double(y)) for x, y in zip(xs, ys, strict=True)]
    return np.float64(np.real(np.sum(pairs)))


def _assert_close(
    actual: object, expected: object, tolerance: Tolerance, what: str, equal_dtypes: bool = False
) -> None:
    """Compare two trees leaf by leaf."""
    got, structure = tree.flatten(actual)
    want, expected_structure = tree.flatten(expected)
    if structure != expected_structure:
        raise AssertionError(f"{what}: {structure}, expected {expected_structure}")
    for i, (x, y) in enumerate(zip(got, want, strict=True)):
        x, y = (np.asarray(concrete(as_array(v))) for v in (x, y))
        if x.shape != y.shape or (equal_dtypes and x.dtype != y.dtype):
            raise AssertionError(
                f"{what}: result {i} is {x.dtype}{x.shape}, expected {y.dtype}{y.shape}"
            )
        name = f"{what}: result {i}"
        if x.dtype.kind in "fc":
            np.testing.assert_allclose(x, y, tolerance.rtol, tolerance.atol, err_msg=name)
        else:
            np.testing.assert_array_equal(x, y, err_msg=name)


# --- single checks ------------------------------------------------------------------------------


def check_jvp(f: Function, args: Sequence[PyTree], **options: Any) -> None:
    """Check `jvp` against finite differences; options are those of `check_grads`.

    Arguments:
        f: a function of arrays.
        args: where it is checked.

    Example:
        >>> check_jvp(np.tanh, (0.5,))
    """
    check_grads(f, args, order=1, modes=("fwd",), **options)


def check_vjp(f: Function, args: Sequence[PyTree], **options: Any) -> None:
    """Check `vjp` against finite differences; options are those of `check_grads`.

    Arguments:
        f: a function of arrays.
        args: where it is checked.

    Example:
        >>> check_vjp(np.tanh, (0.5,))
    """
    check_grads(f, args, order=1, modes=("rev",), **options)


def check_transpose(f: Function, args: Sequence[PyTree], rtol: float | None = None) -> None:
    """Check that the derivative of `f` at `args` and its transpose agree: <y, A x> = <A^T y, x>.

    Unlike `check_vjp` it uses no finite differences, so it is exact to rounding.

    Arguments:
        f: a function of floating-point or complex arrays.
        args: its positional arguments.
        rtol: the tolerance, relative to |y| |A x|.

    Raises:
        AssertionError: if they do not agree.

    Example:
        >>> check_transpose(np.cumsum, (np.arange(3.0),))
    """
    rng = np.random.default_rng(0)
    values = [as_array(x) for x in args]
    outs, push = linearize(f, *values)
    tangents = _direction(values, rng)
    out_leaves, out_tree = tree.flatten(outs)
    cotangents = _direction(out_leaves, rng)
    pushed = tree.leaves(push(*tangents))
    pulled = vjp(f, *values)[1](tree.unflatten(out_tree, cotangents))
    left, right = _inner(cotangents, pushed), _inner(list(pulled), tangents)
    scale = _norm(cotangents) * _norm(pushed)
    bound = _value_rtol(values) if rtol is None else rtol
    if not abs(left - right) <= bound * max(scale, abs(left), 1e-300):
        raise AssertionError(
            f"the transpose of {label_of(f)} is wrong: <y, A x> = {left!r}, <A^T y, x> = {right!r}"
        )


def _norm(xs: Sequence[object]) -> np.float64:
    """The Euclidean norm, in double precision."""
    return np.sqrt(np.float64(sum([np.sum(np.abs(_double(x)) ** 2) for x in xs])))


def check_vmap(
    f: Function,
    args: Sequence[object],
    in_axes: PyTree = 0,
    rtol: float | None = None,
    atol: float = 0.0,
) -> None:
    """Check that `vmap(f)` equals a Python loop over the mapped axes.

    Arguments:
        f: a function of arrays, for one example.
        args: batched positional arguments, arrays.
        in_axes: as for `vmap`: an integer, or a tuple with an integer or None for each argument.
        rtol, atol: tolerances.

    Raises:
        AssertionError: if the results differ in structure, shape, dtype or value.

    Example:
        >>> check_vmap(np.dot, (np.ones((3, 2)), np.ones(2)), in_axes=(0, None))
    """
    values = [np.asarray(x) for x in args]
    axes = (in_axes,) * len(values) if isinstance(in_axes, int) else tuple(in_axes)
    size = next(v.shape[a] for v, a in zip(values, axes, strict=True) if a is not None)
    rows = []
    for i in range(size):
        lane = [v if a is None else np.take(v, i, a) for v, a in zip(values, axes, strict=True)]
        rows.append(f(*lane))
    looped = tree.map(lambda *xs: np.stack(xs), *rows)
    tolerance = Tolerance(atol, _value_rtol(values) if rtol is None else rtol)
    name = f"vmap of {label_of(f)}"
    _assert_close(vmap(f, in_axes)(*values), looped, tolerance, name, equal_dtypes=True)


def _value_rtol(values: Sequence[Value]) -> float:
    return max([_VALUE_TOLERANCE[_precision(v.dtype)] for v in values])


def check_jit(
    f: Function, args: Sequence[object], rtol: float | None = None, atol: float = 0.0
) -> None:
    """Check that `jit(f)` equals `f`, at its first and its second call.

    Arguments:
        f: a function of pytrees of arrays.
        args: its positional arguments.
        rtol, atol: tolerances.

    Raises:
        AssertionError: if the results differ in structure, shape, dtype or value.

    Example:
        >>> check_jit(lambda x: np.exp(x) + 1, (np.arange(3.0),))
    """
    expected, compiled = f(*args), jit(f)
    leaves = [as_array(x) for x in tree.leaves((tuple(args), expected))]
    tolerance = Tolerance(atol, _value_rtol(leaves) if rtol is None else rtol)
    name = f"jit of {label_of(f)}"
    for _ in range(2):
        _assert_close(compiled(*args), expected, tolerance, name, equal_dtypes=True)


__dir__ = names_shown(__name__)
