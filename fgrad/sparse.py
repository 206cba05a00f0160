"""L7. Sparse Jacobians and Hessians, as matrices of `scipy.sparse`; matrices of traced entries.

    fgrad.sparse.csr(data, indices, indptr, shape)   entries may be traced, places are constant
    fgrad.sparse.jacobian(f)(x)      one derivative for each colour, not for each column
    fgrad.sparse.hessian(f)(x)
    fgrad.sparse.pattern(f)(x)       where entries may be nonzero

The pattern comes from a dependence analysis of the traced function, once for each type of
arguments; columns without a common row get one colour and share a derivative.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse

from fgrad import tree
from fgrad.base.frames import hides_own_frames
from fgrad.base.lazy_import import names_shown
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.pickling import Recipe, label_of, named, pickles_as_call, reduced
from fgrad.compile.jit.jitted import jit
from fgrad.errors import ArgumentError, GradDtypeError
from fgrad.ir.aval import aval_of
from fgrad.ir.program import Program
from fgrad.numpy.promote import as_array
from fgrad.numpy.sparse_matrices import CsrMatrix, csr
from fgrad.trace import Tracer, Value, trace
from fgrad.tracing.capturing import user_form
from fgrad.transforms.core.linearize import jvp, vjp
from fgrad.transforms.core.wrap import as_value, check_callable, function_name, named_like
from fgrad.transforms.grad import grad
from fgrad.transforms.sparse.coloring import color_columns, color_star
from fgrad.transforms.sparse.pattern import jacobian_pattern
from fgrad.transforms.vmap import vmap
from fgrad.typing import PyTree

__all__ = [
    "CsrMatrix",
    "SparseDerivative",
    "csr",
    "hessian",
    "jacobian",
    "pattern",
]


class Plan(NamedTuple):
    """The plan for one type of arguments: pattern, colours, and compiled derivatives."""

    pattern: scipy.sparse.csr_array
    colors: np.ndarray
    count: int
    reverse: bool
    rows: np.ndarray  # the position of each entry in the compressed derivatives
    columns: np.ndarray
    compressed: Callable[..., PyTree]
    seeds: np.ndarray


class SparseDerivative:
    """A function that returns a sparse matrix; `plan(*args)` returns its pattern and colours.

    Example:
        >>> import fgrad, numpy as np
        >>> derivative = fgrad.sparse.jacobian(lambda x: x**2)
        >>> derivative(np.array([1.0, 2.0])).toarray()
        array([[2., 0.],
               [0., 4.]])
    """

    recipe: Recipe | None = None  # the call that made it

    def __init__(
        self,
        fun: Callable[..., PyTree],
        argnums: int,
        pattern: object,
        what: str,
        prepare: Callable[[_Flat, Any], Plan],
    ) -> None:
        self.fun, self.argnums, self.given, self.what = fun, argnums, pattern, what
        self.prepare = prepare
        self.plans: dict[object, tuple[_Flat, Plan]] = {}
        named(self, fun, f"{what}({function_name(fun)})")

    def __repr__(self) -> str:
        return f"<{label_of(self)}>"

    def __reduce__(self) -> str | tuple[object, ...]:
        assert self.recipe is not None
        return reduced(self, self.recipe)

    @hides_own_frames
    def __call__(self, *args: PyTree) -> scipy.sparse.csr_array:
        flat, plan = self._prepared(args)
        return _decompressed(plan, flat.of(args))

    def plan(self, *args: PyTree) -> Plan:
        """The pattern and colours for arguments like these."""
        return self._prepared(args)[1]

    def _prepared(self, args: tuple[PyTree, ...]) -> tuple[_Flat, Plan]:
        flat = _Flat(self.fun, self.argnums, args, self.what)
        found = self.plans.get(flat.key)
        if found is None:
            found = self.plans[flat.key] = flat, self.prepare(flat, self.given)
        return found


@pickles_as_call
def jacobian(
    fun: Callable[..., PyTree],
    argnums: int = 0,
    *,
    mode: str = "auto",
    pattern: object = None,
) -> SparseDerivative:
    """The Jacobian of a function as a sparse matrix.

    Arguments:
        fun: a function of pytrees of real arrays.
        argnums: the position of the argument to differentiate.
        mode: "forward" computes columns, "reverse" rows, "auto" what takes fewer derivatives.
        pattern: a sparse matrix with an entry wherever a derivative may be nonzero; by default
            it is derived from the function.

    Returns:
        A function that returns a `scipy.sparse.csr_array` with a row for each element of the
        result and a column for each element of the argument, leaves concatenated.  Pattern,
        colours and compiled code are cached by the shapes and dtypes of the arguments.

    Raises:
        ArgumentError: if the pattern has another shape, or would be dense and huge.

    Example:
        >>> import numpy as np, fgrad
        >>> def f(x):
        ...     return x[1:] ** 2 - x[:-1]
        >>> df = fgrad.sparse.jacobian(f)
        >>> df(np.array([1.0, 2.0, 3.0])).toarray()
        array([[-1.,  4.,  0.],
               [ 0., -1.,  6.]])
        >>> df.plan(np.zeros(1000)).count
        2
    """
    check_callable(fun, "sparse.jacobian")
    if mode not in ("auto", "forward", "reverse"):
        raise ArgumentError(
            f"sparse.jacobian: mode={mode!r}; it is 'auto', 'forward' or 'reverse'."
        )
    prepare = functools.partial(_plan_jacobian, mode=mode)
    return SparseDerivative(fun, argnums, pattern, "sparse.jacobian", prepare)


@pickles_as_call
def hessian(
    fun: Callable[..., PyTree], argnums: int = 0, *, pattern: object = None
) -> SparseDerivative:
    """The matrix of second derivatives of a function, as a sparse matrix.

    Arguments:
        fun: a function of pytrees of real arrays whose result is a scalar.
        argnums: the position of the argument to differentiate.
        pattern: a symmetric sparse matrix; see `jacobian`.

    Returns:
        A function that returns a symmetric `scipy.sparse.csr_array`.

    Example:
        >>> import numpy as np, fgrad
        >>> h = fgrad.sparse.hessian(lambda x: np.sum(x**3) + x[0] * np.sum(x))
        >>> h(np.array([1.0, 2.0, 3.0])).toarray()
        array([[ 8.,  1.,  1.],
               [ 1., 12.,  0.],
               [ 1.,  0., 18.]])
        >>> h.plan(np.zeros(1000)).count
        2
    """
    check_callable(fun, "sparse.hessian")
    return SparseDerivative(fun, argnums, pattern, "sparse.hessian", _plan_hessian)


@pickles_as_call
def pattern(fun: Callable[..., PyTree], argnums: int = 0) -> Callable[..., scipy.sparse.csr_array]:
    """Where the Jacobian of a function may be nonzero, for any values.

    Arguments:
        fun: a function of an array.
        argnums: the argument to differentiate by.

    Example:
        >>> import numpy as np, fgrad
        >>> fgrad.sparse.pattern(lambda x: np.flip(x) * x[0])(np.zeros(3)).toarray().astype(int)
        array([[1, 0, 1],
               [1, 1, 0],
               [1, 0, 0]])
    """
    check_callable(fun, "sparse.pattern")

    def pattern_fun(*args: PyTree) -> scipy.sparse.csr_array:
        return _found(_Flat(fun, argnums, args, "sparse.pattern")).astype(bool)

    return named_like(pattern_fun, fun, "sparse.pattern")


class _Flat:
    """A function of one flat vector, the concatenated leaves of an argument."""

    def __init__(
        self, fun: Callable[..., PyTree], argnums: int, args: tuple[PyTree, ...], what: str
    ) -> None:
        if not isinstance(argnums, (int, np.integer)):
            raise ArgumentError(f"{what}: argnums is one integer, not {argnums!r}.")
        if not -len(args) <= argnums < len(args):
            raise ArgumentError(f"{what}: argnums={argnums}, but there are {len(args)} arguments.")
        self.fun, self.what = fun, what
        self.position = argnums % len(args)
        leaves, self.treedef = tree.flatten(args[self.position])
        values = [self._checked(x) for x in leaves]
        self.avals = [aval_of(x).strong() for x in values]
        rest, rest_tree = tree.flatten([x for k, x in enumerate(args) if k != self.position])
        self.rest_tree = rest_tree
        self.rest_avals = [aval_of(as_value(x)).strong() for x in rest]
        self.key = (self.treedef, tuple(self.avals), rest_tree, tuple(self.rest_avals))
        self.size = sum([a.size for a in self.avals])
        self.dtype = np.result_type(*[a.dtype for a in self.avals]) if values else np.dtype(float)

    def _checked(self, x: object) -> PyTree:
        if isinstance(x, Tracer):
            raise _traced(self.what, x, "the argument is traced")
        value = as_value(x)
        if value.dtype.kind != "f":
            raise GradDtypeError(
                f"{self.what} needs floating-point arguments, but one of "
                f"{function_name(self.fun)} is {value.dtype}."
            )
        return value

    def of(self, args: tuple[PyTree, ...]) -> tuple[np.ndarray, list[Value]]:
        """The vector, and the leaves of the other arguments."""
        leaves = [np.asarray(x, self.dtype).ravel() for x in tree.leaves(args[self.position])]
        rest = tree.leaves([x for k, x in enumerate(args) if k != self.position])
        return np.concatenate(leaves) if leaves else np.zeros(0), [as_value(x) for x in rest]

    def call(self, fun: Callable[..., PyTree], x: Value, rest: Sequence[Value]) -> PyTree:
        """Unflatten the arguments and call `fun`."""
        parts, start = [], 0
        for a in self.avals:
            parts.append(np.reshape(x[start : start + a.size], a.shape).astype(a.dtype))
            start += a.size
        given = tree.unflatten(self.rest_tree, rest)
        given.insert(self.position, tree.unflatten(self.treedef, parts))
        return user_form(fun)(*given)

    def flat(self, x: Value, rest: Sequence[Value]) -> Value:
        """The result as one vector."""
        leaves = [as_array(y) for y in tree.leaves(self.call(self.fun, x, rest))]
        for y in leaves:
            if y.dtype.kind != "f":
                raise GradDtypeError(
                    f"{self.what} needs floating-point results, but one of "
                    f"{function_name(self.fun)} is {y.dtype}."
                )
        return np.concatenate([np.ravel(y) for y in leaves]) if leaves else np.zeros(0)

    def gradient(self, x: Value, rest: Sequence[Value]) -> Value:
        """The gradient as one vector."""
        return grad(lambda v: self.call(self.fun, v, rest))(x)


def _traced(what: str, x: Tracer, found: str) -> ArgumentError:
    return ArgumentError(
        f"{what}: {found}, but a sparse matrix holds plain numbers.",
        (
            ("why", f"scipy.sparse cannot be traced by {x.builder.what}."),
            ("write", "fgrad.jacfwd, fgrad.jacrev, or fgrad.jvp inside of transforms"),
        ),
    )


def _found(flat: _Flat, gradient: bool = False) -> PyTree:
    """The pattern of a function's Jacobian, or of its gradient's."""
    program = _program(flat, gradient)
    return jacobian_pattern(program, [True] + [False] * len(flat.rest_avals))


def _program(flat: _Flat, gradient: bool) -> Program:
    """The function, or its gradient, of one vector and the other arguments."""
    vector = aval_of(np.empty(flat.size, flat.dtype))
    avals = [vector, *flat.rest_avals]
    what = flat.gradient if gradient else flat.flat

    def traced(x: Value, *rest: Value) -> list[Value]:
        return [what(x, rest)]

    program, captured, _ = trace(traced, avals, function_name(flat.fun), flat.what)
    if captured:
        raise _traced(
            flat.what, captured[0], f"{function_name(flat.fun)} closes over a traced array"
        )
    return program


def _checked_pattern(given: object, flat: _Flat, gradient: bool) -> PyTree:
    found = scipy.sparse.csr_array(given, copy=True)
    found.sum_duplicates()
    expected = (_program(flat, gradient).out_avals[0].size, flat.size)
    if found.shape != expected:
        raise ArgumentError(
            f"{flat.what}: the pattern has shape {found.shape}, the matrix {expected}."
        )
    return found


def _plan_jacobian(flat: _Flat, given: object, mode: str) -> Plan:
    found = _found(flat) if given is None else _checked_pattern(given, flat, False)
    colors, reverse = _columns_or_rows(found, mode)
    rows, columns = _entries(found)
    if reverse:

        def pulled(x: Value, seeds: Value, rest: Sequence[Value]) -> PyTree:
            pullback = vjp(lambda v: flat.flat(v, rest), x)[1]
            return vmap(lambda ct: pullback(ct)[0])(seeds)

        places = colors[rows], columns
        return _plan(found, colors, True, places, jit(pulled), flat.dtype)

    def pushed(x: Value, seeds: Value, rest: Sequence[Value]) -> PyTree:
        return vmap(lambda t: jvp(lambda v: flat.flat(v, rest), (x,), (t,))[1])(seeds)

    return _plan(found, colors, False, (colors[columns], rows), jit(pushed), flat.dtype)


def _columns_or_rows(found: scipy.sparse.csr_array, mode: str) -> tuple[np.ndarray, bool]:
    forward = color_columns(found) if mode != "reverse" else None
    backward = color_columns(found.T.tocsr()) if mode != "forward" else None
    if forward is None:
        assert backward is not None
        return backward, True
    fewer = backward is not None and _count(backward) < _count(forward)
    return (backward, True) if fewer and backward is not None else (forward, False)


def _plan_hessian(flat: _Flat, given: object) -> Plan:
    found = _found(flat, True) if given is None else _checked_pattern(given, flat, True)
    found = scipy.sparse.csr_array(found + found.T)
    found.data = np.ones(found.nnz, np.int8)
    found.sort_indices()
    rows, columns = _entries(found)
    star = color_star(found)
    by_columns = color_columns(found) if star is None or _count(star) > 2 else None
    if star is None or (by_columns is not None and _count(by_columns) <= _count(star)):
        assert by_columns is not None
        colors, places = by_columns, (by_columns[columns], rows)
    else:
        # Entry (i, j) is alone in row i among the columns of j's colour, or alone in row j.
        colors = star
        count = _count(star)
        key = rows * count + star[columns]
        alone = np.bincount(key, minlength=flat.size * count)[key] == 1
        places = (
            np.where(alone, star[columns], star[rows]),
            np.where(alone, rows, columns),
        )

    def pushed(x: Value, seeds: Value, rest: Sequence[Value]) -> PyTree:
        return vmap(lambda t: jvp(lambda v: flat.gradient(v, rest), (x,), (t,))[1])(seeds)

    return _plan(found, colors, False, places, jit(pushed), flat.dtype)


def _count(colors: np.ndarray) -> int:
    return int(colors.max(initial=-1)) + 1


def _entries(found: scipy.sparse.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """The row and the column of each entry."""
    return np.repeat(np.arange(len(found.indptr) - 1), np.diff(found.indptr)), found.indices


def _plan(
    found: scipy.sparse.csr_array,
    colors: np.ndarray,
    reverse: bool,
    places: tuple[np.ndarray, np.ndarray],
    compressed: Callable[..., PyTree],
    dtype: np.dtype,
) -> Plan:
    count = _count(colors)
    seeds = (colors == np.arange(count)[:, None]).astype(dtype)
    return Plan(found, colors, count, reverse, *places, compressed, seeds)


def _decompressed(plan: Plan, given: tuple[np.ndarray, list[Value]]) -> scipy.sparse.csr_array:
    """Recover the matrix from sums of its columns or rows."""
    found = plan.pattern
    dtype = np.promote_types(plan.seeds.dtype, np.float32)  # scipy.sparse has no float16
    if not found.nnz:
        return scipy.sparse.csr_array(found.shape, dtype=dtype)
    x, rest = given
    products = plan.compressed(x, plan.seeds, rest)
    data = products[plan.rows, plan.columns].astype(dtype, copy=False)
    return scipy.sparse.csr_array((data, found.indices.copy(), found.indptr.copy()), found.shape)


__dir__ = names_shown(__name__)
