"""What each golden card advises, followed to the letter on the program that raised it.

    MENDED[case][beginning of a "write" line] = a program that does so, and its result

The programs are those of `test_errors.py`, with the one change that the line asks for.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.special

import fgrad
import fgrad.numpy as fnp
from fgrad import distributed, lax
from fgrad.distributed import P

X = np.array([1.0, 2.0, 3.0])
MASKED = np.ma.masked_array(X, X == 2)
KEEP = np.array([True, False, True])
RNG = np.random.default_rng(0)


class Mended(NamedTuple):
    """A program that follows a card, and what it gives."""

    run: Callable[[], Any]
    result: Any


def _exported() -> Any:
    def f(x: Any) -> Any:
        y = x.copy()
        y[0] = 1.0
        return y

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "f.fgx")
        fgrad.export(f, X, path=path)
        return fgrad.load(path)(X)


def _filled(make: Callable[[int], Any]) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        y = make(3)
        y[0] = x
        return y.sum()

    return f


def _replaced(x: Any) -> Any:
    y = fgrad.at(np.zeros(3))[0].set(x)
    return y.sum()


def _counted(i: Any) -> Any:
    n = fnp.array(np.zeros(3))
    n[i] += 1
    return n


def _shared_gradient(
    joined: Callable[[Any], Any], entering: Callable[[Any], Any] = lambda w: w
) -> Any:
    def gradient(w: Any, x: Any) -> Any:
        return fgrad.grad(lambda w: joined(np.sin(w * x)))(entering(w))

    return fgrad.vmap(gradient, (None, 0), axis_name="batch")(2.0, X)


def _copied_inside(x: Any) -> Any:
    def inner(y: Any) -> Any:
        z = x.copy()
        z[0] = 1.0
        return y * z[1]

    return np.sum(fgrad.vmap(inner)(x))


def _assigned_outside(x: Any) -> Any:
    x = fgrad.vmap(lambda y: y * 2.0)(x)
    return np.sum(x)


def _ruled(make: Callable[..., Any], *, as_argument: bool) -> Callable[[Any], Any]:
    """A function with a rule that gets what it closed over."""

    def loss(scale: Any) -> Any:
        if as_argument:

            @fgrad.custom_vjp
            def product(x: Any, s: Any) -> Any:
                return s * x

            product.defvjp(lambda x, s: (s * x, (x, s)), lambda r, ct: (r[1] * ct, r[0] * ct))
            return product(scale * 2.0, scale)
        fixed = make(scale)

        @fgrad.custom_vjp
        def f(x: Any) -> Any:
            return fixed * x

        f.defvjp(lambda x: (fixed * x, None), lambda _, ct: (fixed * ct,))
        return f(scale * 2.0)

    return loss


@fgrad.tree.register_dataclass
@dataclasses.dataclass
class _Computed:
    x: Any
    y: Any = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.y = self.x * self.x


class _Plain:
    def __init__(self, x: float) -> None:
        self.x = x


def _clipped(x: Any) -> Any:
    @fgrad.custom_vjp
    def f(x: Any) -> Any:
        return x

    f.defvjp(lambda x: (x, None), lambda _, ct: (np.clip(ct, -1.0, 1.0),))
    return f(x) * 3.0


def _halved(x: Any) -> Any:
    @fgrad.custom_jvp
    def f(x: Any) -> Any:
        return x

    f.defjvps(lambda t, out, x: t / 2.0)
    return f(x)


def _flipped(how: str) -> Any:
    @fgrad.primitive(out=lambda x: x)
    def flip(x: Any) -> Any:
        return x[::-1]

    if how == "jvp":
        flip.def_jvp(lambda primals, tangents, out: tangents[0][::-1])
    else:
        flip.def_composition(lambda x: np.flip(x))
    return flip


def _with_setting() -> Any:
    def f(x: Any, mode: Any) -> Any:
        return x * len(mode)

    ruled = fgrad.custom_jvp(f, nondiff_argnames=("mode",))
    ruled.defjvp(lambda mode, p, t: (p[0] * len(mode), t[0] * len(mode)))
    return ruled(1.0, "fast")


def _stepped(x: Any) -> Any:
    return lax.while_loop(lambda v: v < 4.0, lambda v: v * 2.0, x)


_CALLBACK = Mended(lambda: fgrad.jit(lambda x: fgrad.pure_callback(np.cumsum, x, x))(X), [1, 3, 6])
_NUMBER_UNDER_JIT = {
    "fgrad.pure_callback(f, x, x)": _CALLBACK,
    "x  ": Mended(lambda: fgrad.jit(lambda x: x[0])(X), 1.0),
    "fgrad.debug.print": Mended(
        lambda: fgrad.jit(lambda x: (fgrad.debug.print("{:.3f}", x[0]), x[0])[1])(X), 1.0
    ),
    "fgrad.jit(f, static_argn": Mended(
        lambda: fgrad.jit(lambda x: float(x[0]), static_argnums=0)((1.0, 2.0)), 1.0
    ),
    "grad(f) without jit": Mended(
        lambda: fgrad.grad(lambda x: x[0] if int(x[0]) else x[1])(X), [1, 0, 0]
    ),
}
_NUMBER_UNDER_GRAD = {
    "scipy.special.erf(x)": Mended(
        lambda: fgrad.grad(lambda x: scipy.special.erf(x))(0.0), 2 / np.sqrt(np.pi)
    ),
    "np.sin(x), np.sum(x)": Mended(lambda: fgrad.grad(lambda x: np.sin(x))(0.0), 1.0),
    "x  ": Mended(lambda: fgrad.grad(lambda x: np.sum(x) ** 2)(X), [12, 12, 12]),
    "float(fgrad.stop_gradient(x))": Mended(
        lambda: fgrad.grad(lambda x: x * float(fgrad.stop_gradient(x)))(3.0), 3.0
    ),
}
_INTEGER_UNDER_JIT = {
    "x[i]": Mended(lambda: fgrad.jit(lambda x, i: x[i])(X, 1), 2.0),
    "fgrad.lax.fori_loop": Mended(
        lambda: fgrad.jit(lambda n: lax.fori_loop(0, n, lambda i, s: s + i, 0))(3), 3
    ),
    "fgrad.lax.dynamic_slice": Mended(
        lambda: fgrad.jit(lambda x, i: lax.dynamic_slice_in_dim(x, i, 2))(X, 1), [2, 3]
    ),
    "fgrad.jit(f, static_argn": Mended(
        lambda: fgrad.jit(lambda n: np.zeros(n) + sum(range(n)), static_argnames="n")(3), [3, 3, 3]
    ),
    "grad(f) without jit": Mended(
        lambda: fgrad.grad(lambda x, n: sum(range(n)) * x, argnums=0)(2.0, 3), 3.0
    ),
}
_ARRAY = {
    "fgrad.pure_callback(f, x, x)": _CALLBACK,
    "x                       ": Mended(lambda: fgrad.grad(lambda x: np.sum(x * 2))(X), [2, 2, 2]),
    "x.astype(np.int64)": Mended(lambda: fgrad.jit(lambda x: x.astype(np.int64))(2.5), 2),
    "np.stack([x, y])": Mended(lambda: fgrad.grad(lambda x: np.stack([x, x * 2]).sum())(2.0), 3.0),
    "import fgrad.numpy as np": Mended(
        lambda: fgrad.grad(lambda x: fnp.array([x, x * 2]).sum() + fnp.full(2, x).sum())(2.0), 5.0
    ),
    "m + s * rng.normal(size=n)": Mended(
        lambda: fgrad.grad(lambda x: np.sum(x + 1.0 * RNG.normal(size=3)))(X), [1, 1, 1]
    ),
    "fgrad.stop_gradient(x)": Mended(
        lambda: fgrad.grad(lambda x: x * np.array([fgrad.stop_gradient(x)])[0])(3.0), 3.0
    ),
}
_STORE = {
    "y = fgrad.numpy.zeros(n)": Mended(lambda: fgrad.grad(_filled(fnp.zeros))(2.0), 1.0),
    "np.stack([a, b])": Mended(lambda: fgrad.grad(lambda x: np.stack([x, 0.0]).sum())(2.0), 1.0),
    "fgrad.at(y)[i].set(x)": Mended(lambda: fgrad.jit(fgrad.grad(_replaced))(2.0), 1.0),
}
_BRANCH = {
    "np.where(p, a, b)": Mended(lambda: fgrad.vmap(lambda x: np.where(x > 0, x, -x))(-X), X),
    "fgrad.lax.cond(p, f, g, x)": Mended(
        lambda: fgrad.vmap(lambda x: lax.cond(x > 0, lambda v: v, lambda v: -v, x))(-X), X
    ),
    "fgrad.lax.while_loop": Mended(lambda: fgrad.vmap(fgrad.jit(_stepped))(X), [4, 4, 6]),
}
_CLOSE_OVER = Mended(lambda: (lambda how: fgrad.jit(lambda x: x if how else -x)(X))("sum"), X)

_MASKED = {
    "x.filled(0.0)": Mended(
        lambda: fgrad.jit(lambda x, m: np.sum(np.where(m, 0.0, x)))(
            MASKED.filled(0.0), MASKED.mask
        ),
        4.0,
    )
}

MENDED: dict[str, dict[str, Mended]] = {
    "draw_of_a_random_number_in_a_batch": {
        "def f(key, x)": Mended(
            lambda: fgrad.vmap(lambda key, x: fgrad.random.normal(key, x.shape) * 0 + x)(
                fgrad.random.split(fgrad.random.key(0), 3), X
            ),
            X,
        ),
        "or draw before the call": Mended(
            lambda: fgrad.vmap(lambda x, e: x + 0 * e)(X, RNG.normal(size=3)), X
        ),
    },
    "masked_argument": _MASKED,
    "masked_operand": _MASKED,
    "array_of_tracers": _ARRAY,
    "random_numbers_around_a_tracer": _ARRAY,
    "assignment_to_an_outer_tracer": {
        "x = x.copy()": Mended(lambda: fgrad.grad(_copied_inside)(X), [2, 8, 2]),
        "return the new array": Mended(lambda: fgrad.grad(_assigned_outside)(X), [2, 2, 2]),
    },
    "boolean_mask_under_jit": {
        "np.where(mask, x, 0)": Mended(
            lambda: fgrad.jit(lambda x: np.sum(np.where(x > 1, x, 0)))(X), 5.0
        ),
        "np.sum(x, where=mask)": Mended(
            lambda: fgrad.jit(lambda x: np.sum(x, where=x > 1) + np.mean(x, where=x > 1))(X), 7.5
        ),
        "lambda x: x[mask]": Mended(lambda: fgrad.jit(lambda x: x[KEEP])(X), [1, 3]),
    },
    "custom_function_that_closes_over_a_parameter": {
        "pass the value as an argument": Mended(
            lambda: fgrad.grad(_ruled(lambda s: s, as_argument=True))(3.0), 12.0
        ),
        "fgrad.stop_gradient(value)": Mended(
            lambda: fgrad.grad(_ruled(fgrad.stop_gradient, as_argument=False))(3.0), 6.0
        ),
    },
    "float_under_grad": _NUMBER_UNDER_GRAD,
    "math_function_under_grad": _NUMBER_UNDER_GRAD,
    "float_under_jit": _NUMBER_UNDER_JIT,
    "forward_through_a_clipped_gradient": {
        "fgrad.grad(f) or fgrad.vjp(f, x)": Mended(lambda: fgrad.grad(_clipped)(5.0), 1.0),
        "fgrad.custom_jvp": Mended(lambda: fgrad.jvp(_halved, (1.0,), (2.0,))[1], 1.0),
    },
    "grad_of_a_dict": {
        "grad(f, has_aux=True)": Mended(
            lambda: fgrad.grad(lambda x: (np.sum(x), {"n": 3}), has_aux=True)(X)[0], [1, 1, 1]
        ),
        "fgrad.jacrev(f)": Mended(
            lambda: fgrad.jacrev(lambda x: {"loss": np.sum(x)})(X)["loss"], [1, 1, 1]
        ),
    },
    "grad_of_a_vector": {
        "np.sum(...) or np.mean(...)": Mended(
            lambda: fgrad.grad(lambda x: np.sum(np.sin(x)))(X), np.cos(X)
        ),
        "fgrad.jacrev(f)": Mended(lambda: fgrad.jacrev(np.sin)(X), np.diag(np.cos(X))),
        "fgrad.vjp(f, x)": Mended(lambda: fgrad.vjp(np.sin, X)[1](np.ones(3))[0], np.cos(X)),
    },
    "grad_of_an_integer": {
        "x = np.asarray(x, dtype=np.float64)": Mended(
            lambda: fgrad.grad(lambda n: n * 2.0)(np.asarray(3, dtype=np.float64)), 2.0
        ),
        "grad(f, argnums=...)": Mended(
            lambda: fgrad.grad(lambda n, x: n * x, argnums=1)(3, 2.0), 3.0
        ),
    },
    "grad_to_a_complex_number": {
        "np.abs(y) or y.real": Mended(lambda: fgrad.grad(lambda z: (z**2).real)(1 + 2j), 2 - 4j),
        "grad(f, holomorphic=True)": Mended(
            lambda: fgrad.grad(lambda z: z**2, holomorphic=True)(1 + 2j), 2 + 4j
        ),
        "fgrad.jvp(f, (z,), (dz,))": Mended(
            lambda: fgrad.jvp(lambda z: z**2, (1 + 2j,), (1j,))[1], -4 + 2j
        ),
    },
    "holomorphic_grad_of_a_real_number": {
        "grad(f)": Mended(lambda: fgrad.grad(lambda z: z**2)(1.0), 2.0),
        "x = np.asarray(x, dtype=complex)": Mended(
            lambda: fgrad.grad(lambda z: z**2, holomorphic=True)(np.asarray(1.0, dtype=complex)), 2
        ),
    },
    "holomorphic_grad_to_a_real_number": {
        "grad(f)": Mended(lambda: fgrad.grad(np.abs)(3 + 4j), 0.6 + 0.8j)
    },
    "if_in_vmap": _BRANCH,
    "if_under_jit": _BRANCH
    | {
        "fgrad.jit(f, static_argn": Mended(
            lambda: fgrad.jit(lambda x: x if x > 0 else -x, static_argnums=0)(-2.0), 2.0
        ),
        "grad(f) without jit": Mended(lambda: fgrad.grad(lambda x: x if x > 0 else -x)(-2.0), -1.0),
    },
    "jacfwd_of_a_complex_number": {
        "jacfwd(f, holomorphic=True)": Mended(
            lambda: fgrad.jacfwd(lambda z: z**2, holomorphic=True)(1 + 2j), 2 + 4j
        ),
        "jacfwd(lambda x, y": Mended(
            lambda: fgrad.jacfwd(lambda x, y: np.abs(x + 1j * y), (0, 1))(3.0, 4.0), (0.6, 0.8)
        ),
    },
    "jacobian_that_is_not_sparse": {
        "fgrad.sparse.jacobian(f, pattern=...)": Mended(
            lambda: fgrad.sparse.jacobian(lambda x: x * 2, pattern=np.eye(3))(X).toarray(),
            2 * np.eye(3),
        )
    },
    "leaked_tracer": {
        "return the value": Mended(
            lambda: fgrad.jit(lambda x: (np.sum(x), np.sin(x)))(X), (6.0, np.sin(X))
        ),
        "a list or an object": Mended(
            lambda: fgrad.grad(lambda x: (np.sum(x), np.sin(x)), has_aux=True)(X)[1], np.sin(X)
        ),
    },
    "numpy_array_at_a_traced_index": {
        "fgrad.numpy.array(x)[i]": Mended(lambda: fgrad.jit(lambda i: fnp.array(X)[i])(1), 2.0),
        "n = fgrad.numpy.array(n)": Mended(lambda: fgrad.jit(_counted)(1), [0, 1, 0]),
        "i.astype(np.int64)": Mended(lambda: fgrad.jit(lambda i: i.astype(np.int64))(1), 1),
    },
    "numpy_array_at_a_traced_mask": {
        "np.where(m, x, 0)": Mended(
            lambda: fgrad.jit(lambda m: np.where(m, X, 0))(KEEP), [1, 0, 3]
        ),
        "fgrad.numpy.compress(m, x, size=n)": Mended(
            lambda: fgrad.jit(lambda m: fnp.compress(m, X, size=2))(KEEP), [1, 3]
        ),
    },
    "identity_at_a_traced_diagonal": {
        "fgrad.numpy.eye": Mended(lambda: fgrad.jit(lambda k: fnp.eye(2, k=k))(1), [[0, 1], [0, 0]])
    },
    "object_argument": {
        "convert it first": Mended(
            lambda: fgrad.grad(np.sum)(np.asarray(np.array([1, 2.5], object), dtype=np.float64)),
            [1, 1],
        ),
        "mark it as constant": _CLOSE_OVER,
    },
    "string_in_a_dictionary": {"mark it as constant": _CLOSE_OVER},
    "plain_dataclass_under_jit": {
        "@fgrad.tree.register_dataclass above": Mended(
            lambda: fgrad.jit(lambda state: state.x * state.y)(_Computed(2.0)), 8.0
        ),
        "jit(<lambda>, static_argnames='state')": Mended(
            lambda: fgrad.jit(lambda state: state.x * 1.0, static_argnames="state")(
                state=_Plain(2.0)
            ),
            2.0,
        ),
        "or close over the object": Mended(
            lambda: (lambda state: fgrad.jit(lambda x: state.x * x)(1.0))(_Plain(2.0)), 2.0
        ),
    },
    "primitive_without_a_derivative": {
        "@flip.def_jvp": Mended(
            lambda: fgrad.grad(lambda x: np.sum(_flipped("jvp")(x) * X))(X), X[::-1]
        ),
        "@flip.def_composition": Mended(
            lambda: fgrad.grad(lambda x: np.sum(_flipped("of")(x) * X))(X), X[::-1]
        ),
    },
    "range_under_jit": _INTEGER_UNDER_JIT,
    "shape_from_an_argument_of_jit": _INTEGER_UNDER_JIT,
    "scipy_distribution_of_a_tracer": {
        "fgrad.scipy.stats.norm.logpdf": Mended(
            lambda: fgrad.grad(lambda x: np.sum(fgrad.scipy.stats.norm.logpdf(x)))(X), -X
        )
    },
    "scipy_function_of_a_tracer": {
        "fgrad.scipy.special.logsumexp": Mended(
            lambda: np.sum(fgrad.grad(fgrad.scipy.special.logsumexp)(X)), 1.0
        )
    },
    "scipy_integral_under_grad": {
        "fgrad.scipy.integrate.quad": Mended(
            lambda: fgrad.grad(
                lambda p: fgrad.scipy.integrate.quad(lambda x: np.exp(-p * x), 0.0, 1.0)[0]
            )(8.0),
            (9 * np.exp(-8.0) - 1) / 64,
        )
    },
    "store_into_numpy_array": _STORE,
    "store_into_numpy_array_under_jit": _STORE,
    "store_into_a_container_that_is_given_twice": {
        "a copy of it for one": Mended(
            lambda: fgrad.jit(lambda p, q: p["x"] + q["x"])({"x": X}, dict({"x": X})), 2 * X
        )
    },
    "string_argument_of_a_custom_function": {
        "custom_jvp(f, nondiff_argnames=": Mended(_with_setting, 4.0)
    },
    "string_argument_of_jit": {
        "jit(<lambda>, static_argnames='how')": Mended(
            lambda: fgrad.jit(lambda x, how: getattr(np, how)(x), static_argnames="how")(X, "sum"),
            6.0,
        ),
        "or close over the object": _CLOSE_OVER,
    },
    "vmap_axis_that_is_missing": {
        "in_axes=None": Mended(
            lambda: fgrad.vmap(lambda a, x: np.sin(a) * x, in_axes=(None, 0))(X, np.ones(2)),
            np.sin([X, X]),
        )
    },
    "check_in_a_format_without_errors": {
        "checks=False": Mended(
            lambda: len(fgrad.onnx(lambda n, k: n**k, KEEP + 1, KEEP + 2, checks=False)) > 0, True
        )
    },
    "export_of_what_writes": {"return the new arrays instead": Mended(_exported, [1, 2, 3])},
    "numbers_that_a_format_has_not": {
        "the real and the imaginary part": Mended(
            lambda: len(fgrad.onnx(lambda a, b: np.sin(a) * np.cosh(b), X, X)) > 0, True
        )
    },
    "unequal_vmap_sizes": {
        "in_axes=None": Mended(
            lambda: fgrad.vmap(lambda p, x: p["w"] * np.sum(x), in_axes=(None, 0))(
                {"w": np.ones(2)}, np.ones((3, 2))
            ),
            np.full((3, 2), 2.0),
        )
    },
    "unhashable_static": {
        "a tuple for a list": Mended(
            lambda: fgrad.jit(lambda x, n: x * n[1], static_argnums=1)(X, (1, 2)), 2 * X
        ),
        "lambda x: x[mask]": Mended(lambda: fgrad.jit(lambda x: x[KEEP])(X), [1, 3]),
        "or pass an array": Mended(
            lambda: fgrad.jit(lambda x, n: x * n[1])(X, np.array([1, 2])),
            2 * X,
        ),
    },
    "result_that_differs_between_places": {
        "out_specs=P('data')": Mended(
            lambda: distributed.shard_map(
                np.sin, mesh=distributed.simulate(data=3), in_specs=P("data"), out_specs=P("data")
            )(X),
            np.sin(X),
        ),
        "return lax.pmean": Mended(
            lambda: distributed.shard_map(
                lambda x: lax.pmean(np.mean(x), "data"),
                mesh=distributed.simulate(data=3),
                in_specs=P("data"),
                out_specs=P(),
            )(X),
            2.0,
        ),
    },
    "sum_over_an_axis_that_is_not_there": {
        "fgrad.vmap(f, axis_name='rows')": Mended(
            lambda: fgrad.vmap(lambda x: lax.psum(x, "rows"), axis_name="rows")(X), [6, 6, 6]
        )
    },
    "axis_whose_name_is_taken": {
        "another name for the inner axis": Mended(
            lambda: fgrad.vmap(fgrad.vmap(np.sin, axis_name="inner"), axis_name="batch")(
                X[:, None]
            ),
            np.sin(X[:, None]),
        )
    },
    "sum_of_what_all_examples_share": {
        "x ": Mended(
            lambda: fgrad.vmap(lambda w, x: x + w, (None, 0), axis_name="batch")(2.0, X), X + 2
        ),
        "x * lax.axis_size": Mended(
            lambda: fgrad.vmap(
                lambda w, x: x + w * lax.axis_size("batch"), (None, 0), axis_name="batch"
            )(2.0, X),
            X + 6,
        ),
    },
    "gradient_of_each_example_by_what_all_share": {
        "return lax.pmean": Mended(
            lambda: _shared_gradient(lambda loss: lax.pmean(loss, "batch")),
            np.full(3, np.mean(X * np.cos(2 * X))),
        ),
        "return lax.psum": Mended(
            lambda: _shared_gradient(lambda loss: lax.psum(loss, "batch")),
            np.full(3, np.sum(X * np.cos(2 * X))),
        ),
        "w = lax.pvary": Mended(
            lambda: _shared_gradient(lambda loss: loss, lambda w: lax.pvary(w, "batch")),
            X * np.cos(2 * X),
        ),
    },
    "sum_in_a_branch_that_not_all_take": {
        "the psum before": Mended(
            lambda: fgrad.vmap(
                lambda x: np.where(x > 1.5, lax.psum(x, "batch"), np.sin(x)), axis_name="batch"
            )(X),
            [np.sin(1.0), 6, 6],
        ),
        "lax.pmax(condition": Mended(
            lambda: fgrad.vmap(
                lambda x: lax.cond(
                    lax.pmax(x > 1.5, "batch"), lambda y: lax.psum(y, "batch"), np.sum, x
                ),
                axis_name="batch",
            )(X),
            [6, 6, 6],
        ),
    },
    "unsupported_out": {
        "y = np.sin(...)": Mended(lambda: fgrad.grad(lambda x: np.sum(np.sin(x)))(X), np.cos(X)),
        "y = y + x": Mended(lambda: fgrad.grad(lambda x: np.sum(np.zeros(3) + x))(X), [1, 1, 1]),
        "import fgrad.numpy as np": Mended(
            lambda: fgrad.grad(lambda x: np.sum(np.sin(x, out=fnp.zeros(3))))(X), np.cos(X)
        ),
    },
    "at_of_a_plain_array": {
        "b = fgrad.numpy.array(a)": Mended(lambda: _spread(X), [X[0], X[1] + X[2]]),
        "np.add.at(b, ...)": Mended(lambda: _spread(X), [X[0], X[1] + X[2]]),
    },
    "write_into_a_number": {
        "s = np.array(s)": Mended(lambda: fgrad.jit(lambda s: _written(fnp.array(s)))(2.0), 1.0)
    },
    "write_into_a_read_only_argument": {
        "u = np.array(u)": Mended(lambda: fgrad.jit(lambda u, v: fnp.array(u) + v)(X, X), 2 * X)
    },
    "function_of_torch": {"np.sin(x)": Mended(lambda: fgrad.jit(np.sin)(X), np.sin(X))},
    "shared_memory_of_a_tracer": {
        "the array that jit(f)(x)": Mended(lambda: np.from_dlpack(fgrad.jit(np.sin)(X)), np.sin(X))
    },
    "resized_in_place": {
        "x = np.resize(": Mended(lambda: fgrad.jit(lambda x: np.resize(x, 2))(X), [1, 2])
    },
    "write_into_an_argument_that_is_given_twice": {
        "v.copy() in the call": Mended(
            lambda: (lambda u: fgrad.jit(lambda u, v: u + v)(u[1:], u[:-1].copy()))(np.arange(4.0)),
            [1, 3, 5],
        )
    },
}


@fgrad.jit(capture=False)
def _spread(x: Any) -> Any:
    out = fnp.array(np.zeros(2))
    np.add.at(out, [0, 1, 1], x)
    return out


def _written(s: Any) -> Any:
    s[...] = 1.0
    return s
