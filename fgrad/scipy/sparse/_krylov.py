"""L7. Linear systems by SciPy's iterations on the host, differentiated by the system.

    A x = b      A dx = db - dA x        reverse: the same iterations with the transpose

and for least squares, m rows and n columns,

    r + A x = b,  A^H r = damp^2 x       m >= n, columns independent
    A x + damp^2 y = b,  x = A^H y       m < n, rows independent
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from fgrad import tree
from fgrad.base.lazy_import import lazy_module
from fgrad.base.progress import Progress, Told
from fgrad.errors import ShapeError
from fgrad.ir.aval import Aval
from fgrad.numpy.promote import as_operand, convert, inexact, user_line
from fgrad.ops.elementwise import stop_gradient
from fgrad.scipy._either import refusal
from fgrad.scipy._host import Untraced, floats, inside
from fgrad.scipy._told import counting, steps_of
from fgrad.scipy.sparse._operators import (
    HostForm,
    LinearOperator,
    aslinearoperator,
    host_form,
)
from fgrad.trace import Value
from fgrad.tracing.capturing import user_form
from fgrad.transforms.custom.callback import pure_callback
from fgrad.transforms.custom.implicit import custom_linear_solve
from fgrad.typing import ArrayLike, PyTree

plain = lazy_module("scipy.sparse.linalg")

Matrix: TypeAlias = PyTree  # an array, a sparse matrix, an operator, or a linear function
_INTEGER = Aval((), np.dtype(np.int64))
_ADJOINT = frozenset({"bicg", "qmr"})  # those that use products with the adjoint
_ALONE = {  # options whose lists SciPy fills between calls
    "outer_v": "lgmres", "CU": "gcrotmk",
}  # fmt: skip


def is_function(a: object) -> bool:
    """Whether a matrix is given as a linear function alone."""
    return callable(a) and not hasattr(a, "shape")


def operator(name: str, a: Matrix, size: int, of: Callable[[Value], PyTree]) -> LinearOperator:
    """A square matrix of any kind as an operator on vectors.

    Arguments:
        of: gives the tree, which a function takes, of a vector.

    Raises:
        ShapeError: it is not square, or has another size.
    """
    if is_function(a):
        return LinearOperator((size, size), lambda x: tree.ravel(user_form(a)(of(x)))[0])
    found = aslinearoperator(a)
    if found.shape != (size, size):
        raise ShapeError(
            f"scipy.sparse.linalg.{name}: a matrix of shape {found.shape} for {size} unknowns.",
            user_line(),
        )
    return found


def needs_rules(*given: PyTree) -> bool:
    """Whether a system is more than SciPy solves: linear functions, or something traced."""
    parts = [x.matrix if hasattr(x, "matrix") else x for x in given]
    own = [is_function(x) or type(x).__module__.startswith("fgrad.") for x in given]
    return any(own) or inside(*parts)


class System:
    """A square system of one vector: its matrix, right-hand side and start."""

    def __init__(self, name: str, a: Matrix, b: PyTree, x0: PyTree) -> None:
        if not is_function(a):
            b = inexact(as_operand(b))
            if len(b.shape) not in (1, 2) or (len(b.shape) == 2 and b.shape[1] != 1):
                raise ShapeError(f"scipy.sparse.linalg.{name}: b of shape {b.shape}.", user_line())
            b = np.reshape(b, -1)
        right, self.of = tree.ravel(tree.map(lambda v: inexact(as_operand(v)), b))
        self.name, self.size = name, int(right.shape[0])
        self.matrix = self.operator(a)
        self.dtype = np.result_type(right.dtype, self.matrix.matvec(right).dtype)
        if self.dtype.kind == "c" and right.dtype.kind != "c":  # the unknowns are complex too
            right, self.of = tree.ravel(tree.map(lambda v: as_operand(v) * np.complex64(1), b))
            self.matrix = self.operator(a)
        self.right = convert(right, self.dtype)
        guess = np.zeros(self.size, self.dtype)
        if x0 is not None:
            guess = convert(inexact(as_operand(tree.ravel(x0)[0])), self.dtype)
            if guess.shape != self.right.shape:
                raise ShapeError(
                    f"scipy.sparse.linalg.{name}: x0 of {guess.shape[0]} numbers for {self.size} "
                    "unknowns.",
                    user_line(),
                )
        self.guess = stop_gradient(guess)

    def operator(self, a: Matrix) -> LinearOperator:
        """A matrix of this size as an operator."""
        return operator(self.name, a, self.size, self.of)


def _counted(options: Mapping[str, PyTree], told: Told) -> Mapping[str, PyTree]:
    """The options of a call that tells of its steps."""
    if not told.progress:
        return options
    return {**options, "callback": counting(told, options.get("callback"))}


def _by_scipy(
    name: str,
    a: HostForm,
    before: Mapping[str, HostForm],
    options: Mapping[str, PyTree],
    told: Told,
) -> Callable[[Value, Value], PyTree]:
    """y, start -> SciPy's solution and its code."""

    def solve(y: Value, start: Value) -> PyTree:
        def call(
            values: PyTree, several: dict[str, PyTree], y: np.ndarray, start: np.ndarray
        ) -> tuple[np.ndarray, np.int64]:
            with Untraced(), told:
                others = {k: before[k].made(v) for k, v in several.items()}
                given = _counted(options, told)
                found = getattr(plain, name)(a.made(values), y, x0=start, **others, **given)
            return found[0].astype(y.dtype), np.int64(found[1])

        like = Aval(y.shape, y.dtype), _INTEGER
        given = {k: form.values for k, form in before.items()}
        return pure_callback(call, like, a.values, given, y, start)

    return solve


def _solved(
    name: str,
    a: Matrix,
    b: PyTree,
    x0: PyTree,
    before: dict[str, Matrix],
    options: PyTree,
    told: Told,
) -> tuple[PyTree, Value]:
    system = System(name, a, b, x0)
    others = {k: system.operator(m) for k, m in before.items() if m is not None}
    both = name in _ADJOINT

    def solver(turned: bool) -> Callable[[PyTree, Value], PyTree]:
        def solve(_product: PyTree, y: Value) -> PyTree:
            each = {"": system.matrix, **others}
            if turned:
                each = {k: op.T for k, op in each.items()}
            forms = {k: host_form(op, system.dtype, both) for k, op in each.items()}
            start = system.guess * 0 if turned else system.guess
            given = {k: v for k, v in options.items() if not turned or k != "callback"}
            return _by_scipy(name, forms.pop(""), forms, given, told)(y, start)

        return solve

    shift = options.get("shift", 0.0)
    x, info = custom_linear_solve(
        lambda x: system.matrix.matvec(x) - shift * x if shift else system.matrix.matvec(x),
        system.right, solver(False), solver(True), has_aux=True,
    )  # fmt: skip
    return system.of(x), info


_TEXT = """x with A x = b for {kind}, as `scipy.sparse.linalg.{name}`, with derivatives.

    Arguments:
        A: an array, a sparse matrix of SciPy or of `fgrad.sparse.csr`, a `LinearOperator`, or a
            linear function of pytrees like `b`.
        b: the right-hand side, a vector; a pytree if `A` is a function.
        x0: where to start.
        options: everything else as SciPy takes it, preconditioners of the same kinds as `A`.
        progress: whether to tell on stderr how many steps were made, or a function of that number
            and None.

    Returns:
        The solution, and SciPy's code: 0 if the iterations converged.

    Raises:
        ShapeError: the shapes do not fit together.

    Example:
        >>> import numpy as np, fgrad
        >>> x, info = {name}(lambda x: np.array([[2.0, 1.0], [1.0, 3.0]]) @ x, np.array([3.0, 4.0]))
        >>> x.round(6), int(info)
        (array([1., 1.]), 0)
    """


def _iteration(name: str, kind: str) -> Callable[..., PyTree]:
    def function(
        A: Matrix,
        b: PyTree,
        x0: PyTree = None,
        *,
        progress: bool | Progress = False,
        **options: PyTree,
    ) -> PyTree:
        before = {k: options.get(k) for k in ("M", "M1", "M2")}
        told = steps_of(progress, name)
        if not needs_rules(A, b, x0, *before.values()):
            with told:
                return getattr(plain, name)(A, b, x0, **_counted(options, told))
        rest = {k: v for k, v in options.items() if k not in before}
        for option in [k for k in _ALONE if rest.get(k) is not None]:
            raise refusal(
                f"scipy.sparse.linalg.{name} with {option}",
                "SciPy changes the list, and results would depend on calls before.",
                f"{name}(A, b, x0)    where the last solution is a good start",
            )
        return _solved(name, A, b, x0, before, rest, told)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = _TEXT.format(name=name, kind=kind)
    return function


minres = _iteration("minres", "a Hermitian A")
bicg = _iteration("bicg", "any invertible A, by products with A and its adjoint")
cgs = _iteration("cgs", "any invertible A")
qmr = _iteration("qmr", "any invertible A, by products with A and its adjoint")
tfqmr = _iteration("tfqmr", "any invertible A")
lgmres = _iteration("lgmres", "any invertible A")
gcrotmk = _iteration("gcrotmk", "any invertible A")


# --- least squares


class _Problem:
    """min |A x - b|^2 + damp^2 |x|^2, solved by one of SciPy's functions."""

    def __init__(self, name: str, a: Matrix, b: ArrayLike, damp: ArrayLike, x0: PyTree) -> None:
        self.name, self.a = name, aslinearoperator(a)
        right = inexact(as_operand(b))
        rows, columns = self.a.shape
        if right.shape not in ((rows,), (rows, 1)):
            raise ShapeError(
                f"scipy.sparse.linalg.{name}: a matrix of shape {self.a.shape} and b of shape "
                f"{right.shape}.",
                user_line(),
            )
        right, damping = np.reshape(right, -1), floats(damp)
        self.dtype = np.result_type(right.dtype, self.a.dtype, damping.dtype, np.float32)
        self.right, self.damp, self.start = convert(right, self.dtype), damping, None
        if x0 is not None:
            self.start = np.reshape(convert(inexact(as_operand(x0)), self.dtype), columns)
            self.right = self.right - self.a.matvec(self.start)

    def squared(self, x: Value) -> Value:
        """damp^2 x."""
        return (self.damp * self.damp).astype(self.dtype) * x

    def matvec(self, pair: tuple[Value, Value]) -> tuple[Value, Value]:
        """The square system of the two lines at the top of this file."""
        r, x = pair
        if self.a.shape[0] >= self.a.shape[1]:
            return r + self.a.matvec(x), self.a.rmatvec(r) - self.squared(x)
        return self.a.matvec(x) + self.squared(r), x - self.a.rmatvec(r)

    def solve(self, how: Callable[..., PyTree], many: int, told: Told) -> PyTree:
        """The solver of that system, which gives SciPy's further results beside the solution."""
        rows, columns = self.a.shape
        form = host_form(self.a, self.dtype)
        like = (
            (Aval((rows,), self.dtype), Aval((columns,), self.dtype)),
            tuple([Aval((), np.dtype(np.float64))] * many), Aval((columns,), np.dtype(np.float64)),
        )  # fmt: skip

        def call(values: PyTree, f: np.ndarray, g: np.ndarray, damp: PyTree) -> PyTree:
            with Untraced():
                a = plain.aslinearoperator(form.made(values))
                found, more, variances = how(a, f, float(damp))
                tall = rows >= columns
                with told:
                    b, h = (a.H, g) if tall else (a, f - a @ g)
                    other = _inverse_of_squares(b, h, damp, told)
                x = found - other if tall else g + a.H @ other
                x = found if not g.any() else x
                r = f - a @ x if tall else other
            return (r.astype(f.dtype), x.astype(f.dtype)), more, variances

        def solver(_product: PyTree, pair: tuple[Value, Value]) -> PyTree:
            (r, x), more, variances = pure_callback(
                call, like, form.values, *pair, stop_gradient(self.damp)
            )
            return (r, x), (more, variances)

        zero = np.zeros(columns, self.dtype)
        (_, x), rest = custom_linear_solve(
            self.matvec, (self.right, zero), solver, self._transposed(solver), has_aux=True
        )
        return (x if self.start is None else self.start + x), rest, self._norms(x)

    def _norms(self, x: Value) -> tuple[Value, Value, Value]:
        """|b - A x|, the root of its square and damp^2 |x - x0|^2, |x|."""
        short: PyTree = np.linalg.norm(self.right - self.a.matvec(x))
        whole = x if self.start is None else self.start + x
        damped: PyTree = self.damp * np.linalg.norm(x)
        size: PyTree = np.linalg.norm(whole)
        return short, np.hypot(short, damped), size

    def _transposed(self, solver: Callable[..., PyTree]) -> Callable[..., PyTree]:
        """The transposed system; both are Hermitian but for a sign, and their conjugates real."""
        wide = self.a.shape[0] < self.a.shape[1]

        def solve(product: PyTree, pair: tuple[Value, Value]) -> PyTree:
            f, g = np.conj(pair[0]), np.conj(pair[1])
            # The wide system is [[d, A], [-A^H, 1]]: its adjoint differs by the sign of y.
            (r, x), rest = solver(product, (-f, g) if wide else (f, g))
            return (np.conj(-r if wide else r), np.conj(x)), rest

        return solve


def _inverse_of_squares(b: PyTree, h: np.ndarray, damp: float, told: Told) -> np.ndarray:
    """(B B^H + damp^2)^-1 h, without squares of the condition: C^H w = h, C y = w."""
    if not h.any():
        return h
    rows, columns = b.shape
    many = columns + (rows if damp else 0)

    def below(y: np.ndarray) -> np.ndarray:  # C = [B^H; damp]
        return np.concatenate([b.rmatvec(y), damp * y]) if damp else b.rmatvec(y)

    def across(w: np.ndarray) -> np.ndarray:
        return b.matvec(w[:columns]) + damp * w[columns:] if damp else b.matvec(w)

    c = plain.LinearOperator((many, rows), below, rmatvec=across, dtype=h.dtype)
    exact = {"atol": 1e-15, "btol": 1e-15, "conlim": 0.0, "iter_lim": 20 * (rows + columns)}
    w = plain.lsqr(_stepping(c.H, told), h, **exact)[0]
    return plain.lsqr(_stepping(c, told), w, **exact)[0]


def _stepping(a: PyTree, told: Told) -> PyTree:
    """A matrix whose products with vectors are told: one of `lsqr` and `lsmr` in each step."""
    if not told.progress:
        return a
    base = plain.aslinearoperator(a)
    step = told.counted(base.matvec)
    return plain.LinearOperator(base.shape, step, rmatvec=base.rmatvec, dtype=base.dtype)


def lsqr(
    A: Matrix,
    b: ArrayLike,
    damp: ArrayLike = 0.0,
    atol: float = 1e-06,
    btol: float = 1e-06,
    conlim: float = 1e8,
    iter_lim: int | None = None,
    show: bool = False,
    calc_var: bool = False,
    x0: ArrayLike | None = None,
    *,
    progress: bool | Progress = False,
) -> tuple[Value, ...]:
    """The x with the least |A x - b|^2 + damp^2 |x - x0|^2, as `scipy.sparse.linalg.lsqr`.

    Arguments:
        A: an array, a sparse matrix, or a `LinearOperator`, of any shape.
        b: the right-hand side, a vector.
        damp: the damping; derivatives flow to it, to `A` and to `b`.
        atol, btol, conlim, iter_lim, show, calc_var, x0: as in SciPy.
        progress: as for `cg`.

    Returns:
        SciPy's tuple `(x, istop, itn, r1norm, r2norm, anorm, acond, arnorm, xnorm, var)`. The
        derivatives are those of columns that are independent, or of rows where they are fewer.

    Raises:
        ShapeError: the shapes do not fit together.
        UnsupportedNumpyError: a function, whose numbers of rows and columns are not known.

    Example:
        >>> import numpy as np, fgrad
        >>> slope = fgrad.grad(lambda b: lsqr(np.array([[1.0], [1.0]]), b)[0][0])
        >>> slope(np.array([1.0, 3.0])).round(6)
        array([0.5, 0.5])
    """
    given = {"atol": atol, "btol": btol, "conlim": conlim, "iter_lim": iter_lim, "show": show}
    told = steps_of(progress, "lsqr")
    if not needs_rules(A, b, damp, x0):
        with told:
            return plain.lsqr(_stepping(A, told), b, damp, calc_var=calc_var, x0=x0, **given)
    problem = _problem("lsqr", A, b, damp, x0)

    def how(a: PyTree, f: np.ndarray, d: float) -> PyTree:
        with told:
            x, *more, var = plain.lsqr(_stepping(a, told), f, d, calc_var=calc_var, **given)
        return x, tuple(map(np.float64, more)), np.zeros(a.shape[1]) + var

    x, (more, var), (short, long, size) = problem.solve(how, 8, told)
    istop, itn, _, _, anorm, acond, arnorm, _ = more
    whole = [v.astype(np.int64) for v in (istop, itn)]
    return x, *whole, short, long, anorm, acond, arnorm, size, (var if calc_var else var * 0)


def lsmr(
    A: Matrix,
    b: ArrayLike,
    damp: ArrayLike = 0.0,
    atol: float = 1e-06,
    btol: float = 1e-06,
    conlim: float = 1e8,
    maxiter: int | None = None,
    show: bool = False,
    x0: ArrayLike | None = None,
    *,
    progress: bool | Progress = False,
) -> tuple[Value, ...]:
    """The x with the least |A x - b|^2 + damp^2 |x|^2, as `scipy.sparse.linalg.lsmr`; see `lsqr`.

    Arguments:
        A, b, damp, atol, btol, conlim, show, x0, progress: as for `lsqr`.
        maxiter: the most iterations.

    Returns:
        SciPy's tuple `(x, istop, itn, normr, normar, norma, conda, normx)`.

    Example:
        >>> import numpy as np, fgrad
        >>> slope = fgrad.grad(lambda b: lsmr(np.array([[1.0], [1.0]]), b)[0][0])
        >>> slope(np.array([1.0, 3.0])).round(6)
        array([0.5, 0.5])
    """
    given = {"atol": atol, "btol": btol, "conlim": conlim, "maxiter": maxiter, "show": show}
    told = steps_of(progress, "lsmr")
    if not needs_rules(A, b, damp, x0):
        with told:
            return plain.lsmr(_stepping(A, told), b, damp, x0=x0, **given)
    problem = _problem("lsmr", A, b, damp, x0)

    def how(a: PyTree, f: np.ndarray, d: float) -> PyTree:
        with told:
            x, *more = plain.lsmr(_stepping(a, told), f, d, **given)
        return x, tuple(map(np.float64, more[:6])), np.zeros(a.shape[1])

    x, (more, _), (_, long, size) = problem.solve(how, 6, told)
    istop, itn, _, normar, norma, conda = more[:6]
    return x, istop.astype(np.int64), itn.astype(np.int64), long, normar, norma, conda, size


def _problem(name: str, A: Matrix, b: ArrayLike, damp: ArrayLike, x0: PyTree) -> _Problem:
    if is_function(A):
        raise refusal(
            f"scipy.sparse.linalg.{name} of a function",
            "its numbers of rows and columns are not known.",
            f"{name}(LinearOperator((m, n), f), b)",
        )
    return _Problem(name, A, b, damp, x0)
