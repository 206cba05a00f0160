"""L4. Solutions of equations: derivatives by the implicit function theorem, not through the solver.

    custom_linear_solve   A x = b        A dx = db - dA x;          transposed: A' ct_b = ct_x
    custom_root           f(p, x) = 0    df/dx dx = -df/dp dp

What a user's function closes over becomes operands of the equation, so these have derivatives too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from fgrad import tree
from fgrad.base.keywords import also_takes
from fgrad.base.lazy_import import lazy_module
from fgrad.base.pickling import Transformed, pickles_as_call
from fgrad.errors import ArgumentError, CustomRuleError, MissingRuleError
from fgrad.ir import traits
from fgrad.ir.aval import Aval, aval_of
from fgrad.ir.primitive import Primitive
from fgrad.ir.program import Program, Var
from fgrad.ir.traits import Holds
from fgrad.ops.elementwise import neg, stop_gradient, sub
from fgrad.ops.families import batch_first
from fgrad.trace import Value, bind, run
from fgrad.tracing.axes import varies
from fgrad.tracing.capturing import user_form
from fgrad.tracing.device_tracing import lower
from fgrad.transforms.control.common import split_list
from fgrad.transforms.core.derived_programs import derived_program, jvp_program, zeros_of
from fgrad.transforms.core.linear import linear_transpose
from fgrad.transforms.core.linearize import jvp
from fgrad.transforms.core.outer_context import (
    Traced,
    batched_first,
    derivatives,
    trace_beneath,
)
from fgrad.transforms.core.wrap import as_value, function_name, is_weak
from fgrad.transforms.custom.function import line_of
from fgrad.transforms.custom.jvp import CustomJvp
from fgrad.typing import EqnParams, PyTree

varying = lazy_module("fgrad.ops.varying")

Values = Sequence[Value]
Solver = Callable[[Callable[[PyTree], PyTree], PyTree], PyTree]


def _unknowns(params: EqnParams) -> tuple[int, ...]:
    first = sum(params["counts"])
    return tuple(range(first, first + len(params["matvec"].outputs)))


linear_solve_p = Primitive(
    "custom_linear_solve",
    traits.holding(Holds.CALL),
    params=("program", "matvec", "vecmat", "solve", "transpose_solve", "counts"),
    linear_in=_unknowns,
    multiple=True,
)


@also_takes()
def closure_convert(
    fun: Callable[..., PyTree], *example_args: object
) -> tuple[Callable[..., PyTree], list[Value]]:
    """A function that takes what `fun` closes over as arguments, and these values.

    Arguments:
        fun: a function of pytrees of arrays.
        example_args: arguments, of which the types matter.

    Returns:
        `(converted, consts)`: `converted(*args, *consts)` is `fun(*args)`.

    Example:
        >>> import fgrad
        >>> def f(c):
        ...     converted, consts = fgrad.closure_convert(lambda x: c * x, 1.0)
        ...     return converted(3.0, *consts)
        >>> fgrad.grad(f)(2.0)
        np.float64(3.0)
    """
    values, treedef, weak = _leaves(example_args)
    traced = trace_beneath(
        lambda *xs: user_form(fun)(*tree.unflatten(treedef, xs)),
        values, function_name(fun), "closure_convert", weak, known=False,
    )  # fmt: skip
    consts, program = list(traced.captured), traced.program
    return _converted(program, len(consts), treedef, traced.treedef, function_name(fun)), consts


@pickles_as_call
def _converted(
    program: Program, count: int, in_tree: tree.TreeDef, out_tree: tree.TreeDef, name: str
) -> Callable[..., PyTree]:
    """A program, whose first inputs are constants, as a function that takes them last."""

    def converted(*args: PyTree) -> PyTree:
        given, consts = args[: len(args) - count], args[len(args) - count :]
        leaves, found = tree.flatten(tuple(given))
        if found != in_tree:
            raise ArgumentError(
                f"closure_convert: {name} was converted for arguments of structure "
                f"{in_tree}, not {found}."
            )
        outs = run(program, [*map(as_value, consts), *map(as_value, leaves)])
        return tree.unflatten(out_tree, map(lower, outs))

    return Transformed(converted, converted, f"closure_convert({name})")


def _leaves(x: Iterable[object]) -> tuple[list[Value], tree.TreeDef, list[bool]]:
    leaves, treedef = tree.flatten(tuple(x))
    return [as_value(leaf) for leaf in leaves], treedef, [is_weak(leaf) for leaf in leaves]


@also_takes()
def custom_linear_solve(
    matvec: Callable[[PyTree], PyTree],
    b: object,
    solve: Solver,
    transpose_solve: Solver | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> PyTree:
    """The solution x of `matvec(x) = b`, whose derivatives are solutions too.

    Arguments:
        matvec: a linear function; derivatives of what it closes over are taken.
        b: the right-hand side, a pytree of arrays; x has its structure.
        solve: `solve(matvec, b)` gives x; it is never differentiated.
        transpose_solve: `transpose_solve(vecmat, ct)` solves with the transpose; needed for
            derivatives in reverse unless `symmetric`.
        symmetric: whether the function is its own transpose.
        has_aux: whether the solvers return `(x, aux)`.

    Example:
        >>> import numpy as np, fgrad
        >>> def quotient(a, b):
        ...     solve = lambda matvec, y: y / matvec(1.0)
        ...     return fgrad.custom_linear_solve(lambda x: a * x, b, solve, symmetric=True)
        >>> fgrad.grad(quotient, argnums=(0, 1))(2.0, 6.0)
        (np.float64(-1.5), np.float64(0.5))
    """
    values, treedef, weak = _leaves((b,))
    name = function_name(solve)
    if symmetric and transpose_solve is None:
        transpose_solve = solve

    def operator(*xs: Value) -> PyTree:
        return user_form(matvec)(*tree.unflatten(treedef, xs))

    mv = trace_beneath(operator, values, function_name(matvec), "matvec", weak, known=False)
    apart = [a.varies for a in mv.program.out_avals]
    if not all([axes <= varies(x) for axes, x in zip(apart, values, strict=False)]):
        # The solution varies as the matrix does.
        values = [varying.spread(x, axes) for x, axes in zip(values, apart, strict=True)]
        mv = trace_beneath(operator, values, function_name(matvec), "matvec", weak, known=False)
    _check_operator(mv, matvec, treedef, values)
    n_m = len(mv.captured)

    def with_solver(solver: Callable[..., PyTree], program: Program) -> Traced:
        def flat(*inputs: Value) -> PyTree:
            def apply(x: PyTree) -> PyTree:
                leaves = [as_value(leaf) for leaf in tree.leaves(x)]
                outs = run(program, [*inputs[:n_m], *leaves])
                return tree.unflatten(tree.structure(x), outs)

            with derivatives("stopped"):  # what the solver closes over counts as constant
                out = user_form(solver)(apply, *tree.unflatten(treedef, inputs[n_m:]))
            return out if has_aux else (out, None)

        flags = [False] * n_m + weak
        return trace_beneath(flat, [*mv.captured, *values], name, "solve", flags, known=False)

    vm = mv.program if symmetric else _transposed(mv.program, n_m)
    solving = with_solver(solve, mv.program)
    _check_solution(solving, solve, treedef, values)
    back = None if transpose_solve is None or vm is None else with_solver(transpose_solve, vm)
    captured = [] if back is None else back.captured
    outs = _bind(
        [*solving.captured, *captured, *mv.captured, *values],
        matvec=mv.program, vecmat=vm, solve=solving.program,
        transpose_solve=None if back is None else back.program,
        counts=(len(solving.captured), len(captured), n_m),
    )  # fmt: skip
    found = tree.unflatten(solving.treedef, map(lower, outs))
    return found if has_aux else found[0]


def _transposed(program: Program, n_m: int) -> Program | None:
    """(consts, ct) -> (CT x) of a program (consts, x) -> y that is linear in x; None if it is not
    known how."""
    avals = [a.strong() for a in program.in_avals]

    def flat(*inputs: Value) -> list[Value]:
        consts = inputs[:n_m]
        transpose = linear_transpose(lambda *x: tuple(run(program, [*consts, *x])), *avals[n_m:])
        return list(transpose(tuple(inputs[n_m:])))

    outs = [a.strong() for a in program.out_avals]
    try:
        return derived_program(program, ("transpose", n_m), flat, [*avals[:n_m], *outs], "vecmat")
    except MissingRuleError as error:
        raise CustomRuleError(f"custom_linear_solve: {error.headline}") from error


def _check_operator(
    mv: Traced, matvec: Callable[..., PyTree], treedef: tree.TreeDef, values: Values
) -> None:
    single = tree.unflatten(treedef, range(len(values)))[0]
    found = [a.strong() for a in mv.program.out_avals]
    expected = [aval_of(x).strong() for x in values]
    fits = len(found) == len(expected) and all(map(Aval.fits, found, expected))
    if mv.treedef != tree.structure(single) or not fits:
        raise CustomRuleError(
            "custom_linear_solve: matvec must return something like b.",
            (
                ("found", ", ".join(map(str, found))),
                ("b", ", ".join(map(str, expected))),
                line_of(matvec, "matvec"),
            ),
        )


def _check_solution(
    solving: Traced, solve: Callable[..., PyTree], treedef: tree.TreeDef, values: Values
) -> None:
    found = [a.strong() for a in solving.program.out_avals][: len(values)]
    expected = [aval_of(x).strong() for x in values]
    if len(found) != len(expected) or not all(map(Aval.fits, found, expected)):
        raise CustomRuleError(
            "custom_linear_solve: solve must return something like b.",
            (
                ("found", ", ".join(map(str, found))),
                ("b", ", ".join(map(str, expected))),
                line_of(solve, "solve"),
            ),
        )


def _bind(operands: Values, **params: PyTree) -> tuple[Value, ...]:
    """The equation, with the solver as a program of all operands: what compiled code runs."""
    solve: Program = params["solve"]
    n_s, n_t, _ = params["counts"]
    unused = () if n_t == 0 else params["transpose_solve"].in_avals[:n_t]
    key = ("whole", n_s, unused)

    def whole() -> Program:
        extra = tuple([Var(a.strong()) for a in unused])
        return solve.replace(inputs=(*solve.inputs[:n_s], *extra, *solve.inputs[n_s:]))

    program = solve.derived(key, whole)
    return bind(linear_solve_p, *operands, **{**params, "program": program})


@linear_solve_p.type_rule
def _(*_avals: Aval, **params: PyTree) -> tuple[Aval, ...]:
    return tuple([aval.strong() for aval in params["solve"].out_avals])


@linear_solve_p.evaluate
def _(*operands: Value, **params: PyTree) -> tuple[Value, ...]:
    return tuple(run(params["program"], operands))


@linear_solve_p.jvp
def _(
    primals: Values, tangents: Sequence[Value | None], outs: Values, **params: PyTree
) -> tuple[Value | None, ...]:
    n_s, n_t, n_m = params["counts"]
    matvec: Program = params["matvec"]
    count = len(matvec.outputs)
    caps_s, caps_t, consts, _ = split_list(primals, n_s, n_t, n_m)
    _, _, dconsts, db = split_list(tangents, n_s, n_t, n_m)
    active = tuple([t is not None for t in dconsts])
    if any(active):
        derived = jvp_program(matvec, (*active, *[False] * count))
        given = [t for t in dconsts if t is not None]
        pushed = iter(run(derived.program, [*consts, *outs[:count], *given])[count:])
        moved = [next(pushed) if has else None for has in derived.has_tangent]
        db = [_minus(t, m) for t, m in zip(db, moved, strict=True)]
    if all([t is None for t in db]):
        return (None,) * len(outs)
    avals = [a.strong() for a in matvec.out_avals]
    rhs = [zeros_of(a) if t is None else t for t, a in zip(db, avals, strict=True)]
    dx = _bind([*caps_s, *caps_t, *consts, *rhs], **params)
    return (*dx[:count], *[None] * (len(outs) - count))


def _minus(x: Value | None, y: Value | None) -> Value | None:
    if y is None:
        return x
    return neg(y) if x is None else sub(x, y)


@linear_solve_p.transpose
def _(
    cts: Sequence[Value | None], wanted: Sequence[bool], *operands: Value, **params: PyTree
) -> list[Value | None]:
    n_s, n_t, n_m = params["counts"]
    if params["transpose_solve"] is None:
        raise MissingRuleError(
            "custom_linear_solve has no derivative in reverse without transpose_solve.",
            (
                ("write", "custom_linear_solve(matvec, b, solve, transpose_solve=solve)"),
                ("write", "    the same solver serves, if it solves with any matrix"),
                ("write", "symmetric=True    if matvec is its own transpose"),
            ),
        )
    caps_s, caps_t, consts, _ = split_list(operands, n_s, n_t, n_m)
    avals = [a.strong() for a in params["matvec"].out_avals]
    rhs = [
        zeros_of(a) if ct is None else ct for ct, a in zip(cts[: len(avals)], avals, strict=True)
    ]
    turned = {
        "matvec": params["vecmat"], "vecmat": params["matvec"],
        "solve": params["transpose_solve"], "transpose_solve": params["solve"],
        "counts": (n_t, n_s, n_m),
    }  # fmt: skip
    found = _bind([*caps_t, *caps_s, *consts, *rhs], **turned)
    return [*[None] * (n_s + n_t + n_m), *found[: len(avals)]]


@linear_solve_p.batch
def _(
    size: int, operands: Values, dims: Sequence[int | None], **params: PyTree
) -> tuple[tuple[Value, ...], list[int]]:
    n_s, n_t, n_m = params["counts"]
    caps_s, caps_t, consts, b = split_list(operands, n_s, n_t, n_m)
    d_s, d_t, d_m, d_b = split_list(dims, n_s, n_t, n_m)
    b = [batch_first(size, x, d) for x, d in zip(b, d_b, strict=True)]
    zeros = [0] * len(b)

    def batched(program: Program | None, own: Sequence[int | None]) -> Program | None:
        return None if program is None else batched_first(program, size, (*own, *d_m, *zeros))

    derived = {
        "matvec": batched(params["matvec"], ()),
        "vecmat": batched(params["vecmat"], ()),
        "solve": batched(params["solve"], d_s),
        "transpose_solve": batched(params["transpose_solve"], d_t),
        "counts": params["counts"],
    }
    outs = _bind([*caps_s, *caps_t, *consts, *b], **derived)
    return outs, [0] * len(outs)


@also_takes()
def custom_root(
    f: Callable[[PyTree], PyTree],
    initial_guess: PyTree,
    solve: Solver,
    tangent_solve: Solver,
    has_aux: bool = False,
) -> PyTree:
    """The root x of `f(x) = 0`, with derivatives by the implicit function theorem.

    Arguments:
        f: a function whose result is like its argument; derivatives of what it closes over are
            taken.
        initial_guess: where to begin, a pytree of arrays.
        solve: `solve(f, initial_guess)` gives the root; it is never differentiated, so it may be a
            Python loop, or SciPy; what it closes over counts as constant.
        tangent_solve: `tangent_solve(g, y)` gives the x with `g(x) = y`, for a linear function g.
        has_aux: whether `solve` returns `(x, aux)`.

    Example: Newton's method for the square root.
        >>> import fgrad
        >>> def newton(f, x):
        ...     for _ in range(10):
        ...         x = x - f(x) / fgrad.grad(f)(x)
        ...     return x
        >>> def square_root(p):
        ...     f = lambda x: x * x - p
        ...     return fgrad.custom_root(f, 1.0, newton, lambda g, y: y / g(1.0))
        >>> square_root(4.0), fgrad.grad(square_root)(4.0)
        (np.float64(2.0), np.float64(0.25))
    """
    converted, consts = closure_convert(f, initial_guess)

    @CustomJvp
    def root(consts: list[Value], guess: PyTree) -> PyTree:
        def of_unknown(x: PyTree) -> PyTree:
            return converted(x, *consts)

        return user_form(solve)(of_unknown, guess)

    @root.defjvp
    def _(primals: PyTree, tangents: PyTree) -> PyTree:
        (consts, _), (moved, _) = primals, tangents
        found = root(*primals)
        x = found[0] if has_aux else found

        def residual(*parameters: Value) -> PyTree:
            return converted(x, *parameters)

        _, df = jvp(residual, consts, moved)

        def at(x: PyTree) -> PyTree:
            return converted(x, *consts)

        def matvec(v: PyTree) -> PyTree:
            return jvp(at, (x,), (v,))[1]

        rhs = tree.map(neg, df)
        dx = custom_linear_solve(matvec, rhs, tangent_solve, tangent_solve)
        return found, (dx, tree.map(_nothing, found[1])) if has_aux else dx

    root.stops = True
    root.__name__ = root.name = f"custom_root of {function_name(f)}"
    return root(consts, tree.map(_stopped, initial_guess))


def _nothing(_: object) -> None:
    """A known zero."""


def _stopped(x: object) -> Value:
    return stop_gradient(as_value(x))
