"""Error cards, word for word: what happened, where, why, and what to write instead.

`pytest tests/test_errors.py --update-golden` rewrites the expected texts in tests/golden/errors/.
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.special
import scipy.stats

import fgrad
from fgrad import distributed
from fgrad.distributed import P
from fgrad.errors import FgradError

GOLDEN = pathlib.Path(__file__).parent / "golden" / "errors"
X = np.array([1.0, 2.0, 3.0])
leaks: list[Any] = []


@dataclasses.dataclass
class _Plain:
    x: float
    y: float = dataclasses.field(init=False, default=0.0)


def grad_of_a_vector() -> Any:
    def loss(x: Any) -> Any:
        return np.sin(x)

    return fgrad.grad(loss)(X)


def grad_of_a_dict() -> Any:
    return fgrad.grad(lambda x: {"loss": np.sum(x)})(X)


def grad_of_an_integer() -> Any:
    def loss(n: Any) -> Any:
        return n * 2.0

    return fgrad.grad(loss)(3)


def write_into_a_read_only_argument() -> Any:
    def add(u: Any, v: Any) -> None:
        u += v

    fixed = np.arange(3.0)
    fixed.flags.writeable = False
    return fgrad.jit(add)(fixed, X)


def write_into_an_argument_that_is_given_twice() -> Any:
    def add(u: Any, v: Any) -> None:
        u += v

    u = np.arange(4.0)
    return fgrad.jit(add)(u[1:], u[:-1])


def write_into_a_number() -> Any:
    def fill(s: Any) -> None:
        s[...] = 1.0

    return fgrad.jit(fill)(2.0)


def store_into_a_container_that_is_given_twice() -> Any:
    def move(p: Any, q: Any) -> None:
        p["x"] = q["x"] + 1

    p = {"x": X.copy()}
    return fgrad.jit(move)(p, p)


def grad_to_an_integer() -> Any:
    return fgrad.grad(lambda x: np.argmax(x))(X)


def grad_to_a_complex_number() -> Any:
    return fgrad.grad(lambda z: z**2)(1 + 2j)


def holomorphic_grad_of_a_real_number() -> Any:
    return fgrad.grad(lambda z: z**2, holomorphic=True)(1.0)


def holomorphic_grad_to_a_real_number() -> Any:
    return fgrad.grad(np.abs, holomorphic=True)(1 + 2j)


def jacfwd_of_a_complex_number() -> Any:
    return fgrad.jacfwd(np.abs)(1 + 2j)


def grad_beyond_the_arguments() -> Any:
    return fgrad.grad(lambda x: np.sum(x), argnums=1)(X)


def if_under_jit() -> Any:
    def f(x: Any) -> Any:
        y = np.sum(x)
        if y > 0:
            return y
        return -y

    return fgrad.jit(f)(X)


def if_in_vmap() -> Any:
    def f(x: Any) -> Any:
        return x if x > 0 else -x

    return fgrad.vmap(f)(X)


def float_under_jit() -> Any:
    return fgrad.jit(lambda x: float(x[0]))(X)


def float_under_grad() -> Any:
    return fgrad.grad(lambda x: float(np.sum(x)) ** 2)(X)


def math_function_under_grad() -> Any:
    def f(x: Any) -> Any:
        return x**2 + math.sin(x)

    return fgrad.jvp(f, (1.0,), (1.0,))


def scipy_integral_under_grad() -> Any:
    def integral(p: Any) -> Any:
        return scipy.integrate.quad(lambda x: np.exp(-p * x), 0.0, 1.0)[0]

    return fgrad.grad(integral)(8.0)


def range_under_jit() -> Any:
    return fgrad.jit(lambda n: sum(range(n)))(3)


def array_of_tracers() -> Any:
    return fgrad.grad(lambda x: np.array([x, x * 2]).sum())(2.0)


def scipy_function_of_a_tracer() -> Any:
    return fgrad.grad(lambda x: scipy.special.logsumexp(x))(X)


def scipy_distribution_of_a_tracer() -> Any:
    return fgrad.grad(lambda x: np.sum(scipy.stats.norm.logpdf(x)))(X)


def random_numbers_around_a_tracer() -> Any:
    rng = np.random.default_rng(0)
    return fgrad.grad(lambda x: np.sum(rng.normal(x, 1.0)))(X)


def numpy_array_at_a_traced_index() -> Any:
    return fgrad.jit(lambda i: X[i])(1)


def numpy_array_at_a_traced_mask() -> Any:
    return fgrad.jit(lambda m: X[m])(X > 1)


def identity_at_a_traced_diagonal() -> Any:
    return fgrad.jit(lambda k: np.eye(2, k=k))(1)


def store_into_numpy_array_under_jit() -> Any:
    def f(x: Any) -> Any:
        y = np.zeros(3)
        y[0] = x
        return y.sum()

    return fgrad.jit(f)(2.0)


def shape_from_an_argument_of_jit() -> Any:
    return fgrad.jit(lambda x, n: np.zeros(n) + x)(1.0, 3)


def plain_dataclass_under_jit() -> Any:
    return fgrad.jit(lambda state: state.x)(_Plain(2.0))


def string_in_a_dictionary() -> Any:
    def loss(params: Any) -> Any:
        return params["w"] ** 2

    return fgrad.grad(loss)({"w": 1.0, "name": "dense"})


def store_into_numpy_array() -> Any:
    def f(x: Any) -> Any:
        y = np.zeros(3)
        y[0] = x
        return y.sum()

    return fgrad.grad(f)(2.0)


def assignment_to_an_outer_tracer() -> Any:
    def f(x: Any) -> Any:
        def inner(y: Any) -> Any:
            x[0] = 1.0
            return y

        return np.sum(fgrad.jit(inner)(x))

    return fgrad.grad(f)(X)


def leaked_tracer() -> Any:
    def f(x: Any) -> Any:
        leaks.append(np.sin(x))
        return np.sum(x)

    fgrad.jit(f)(X)
    return leaks.pop() + 1.0


def unequal_vmap_sizes() -> Any:
    return fgrad.vmap(lambda p, x: p["w"] * x)({"w": np.ones(4)}, np.ones((5, 2)))


def vmap_axis_that_is_missing() -> Any:
    return fgrad.vmap(np.sin, in_axes=2)(X)


def vmap_of_nothing() -> Any:
    return fgrad.vmap(lambda x: x, in_axes=None)(X)


def unhashable_static() -> Any:
    return fgrad.jit(lambda x, n: x, static_argnums=1)(X, [1, 2])


def unsupported_function() -> Any:
    return fgrad.grad(lambda x: np.may_share_memory(x, x))(X)


def unsupported_out() -> Any:
    return fgrad.grad(lambda x: np.sum(np.sin(x, out=np.zeros(3))))(X)


def at_of_a_plain_array() -> Any:
    def spread(x: Any) -> Any:
        out = np.zeros(2)
        np.add.at(out, [0, 1, 1], x)
        return out

    return fgrad.jit(spread, capture=False)(X)


def boolean_mask_under_jit() -> Any:
    return fgrad.jit(lambda x: x[x > 0])(X)


def index_out_of_bounds() -> Any:
    return fgrad.grad(lambda x: x[7])(X)


def shapes_do_not_broadcast() -> Any:
    return fgrad.jit(lambda x: x + np.ones(4))(X)


def object_argument() -> Any:
    return fgrad.grad(lambda x: np.sum(x))(np.array([object()]))


def string_argument_of_jit() -> Any:
    return fgrad.jit(lambda x, how: x)(X, "sum")


def tangents_of_another_shape() -> Any:
    return fgrad.jvp(np.sin, (X,), (np.ones(2),))


def cotangents_of_another_structure() -> Any:
    return fgrad.vjp(np.sin, X)[1]((X, X))


def rule_without_a_pair() -> Any:
    @fgrad.custom_jvp
    def f(x: Any) -> Any:
        return np.sin(x)

    @f.defjvp
    def f_jvp(primals: Any, tangents: Any) -> Any:
        return np.cos(primals[0]) * tangents[0]

    return fgrad.grad(f)(1.0)


def cotangent_of_another_shape() -> Any:
    @fgrad.custom_vjp
    def f(params: Any, x: Any) -> Any:
        return params["w"] * x

    def fwd(params: Any, x: Any) -> Any:
        return f(params, x), (params, x)

    def bwd(residuals: Any, ct: Any) -> Any:
        params, x = residuals
        return {"w": np.sum(x * ct)}, params["w"] * ct

    f.defvjp(fwd, bwd)
    return fgrad.grad(lambda p: np.sum(f(p, X)))({"w": X})


def rule_that_is_not_linear() -> Any:
    @fgrad.custom_jvp
    def f(x: Any) -> Any:
        return np.sin(x)

    @f.defjvp
    def f_jvp(primals: Any, tangents: Any) -> Any:
        return f(*primals), np.abs(tangents[0])

    return fgrad.grad(f)(1.0)


def custom_function_that_closes_over_a_parameter() -> Any:
    def loss(scale: Any) -> Any:
        @fgrad.custom_vjp
        def f(x: Any) -> Any:
            return scale * x

        f.defvjp(lambda x: (scale * x, None), lambda _, ct: (ct,))
        return f(scale * 2.0)

    return fgrad.grad(loss)(3.0)


def string_argument_of_a_custom_function() -> Any:
    @fgrad.custom_jvp
    def f(x: Any, mode: Any) -> Any:
        return x

    f.defjvps(lambda t, out, x, mode: t, None)
    return f(1.0, "fast")


def forward_through_a_clipped_gradient() -> Any:
    @fgrad.custom_vjp
    def f(x: Any) -> Any:
        return x

    def bwd(_: Any, ct: Any) -> Any:
        return (np.clip(ct, -1.0, 1.0),)

    f.defvjp(lambda x: (x, None), bwd)
    return fgrad.jvp(f, (1.0,), (1.0,))


def primitive_without_a_derivative() -> Any:
    @fgrad.primitive(out=lambda x: x)
    def flip(x: Any) -> Any:
        return x[::-1]

    return fgrad.grad(lambda x: np.sum(flip(x)))(X)


def masked_argument() -> Any:
    return fgrad.grad(np.sum)(np.ma.masked_array(X, X > 1))


def masked_operand() -> Any:
    mask = np.ma.masked_array(X, X > 1)
    return fgrad.jit(lambda x: x * mask)(X)


def draw_of_a_random_number_in_a_batch() -> Any:
    def noisy(x: Any) -> Any:
        return x + np.random.normal()

    return fgrad.vmap(noisy)(X)


def jacobian_that_is_not_sparse() -> Any:
    return fgrad.sparse.jacobian(lambda x: np.cumsum(x))(np.ones(100_000))


def sum_over_an_axis_that_is_not_there() -> Any:
    return fgrad.vmap(lambda x: fgrad.lax.psum(x, "rows"), axis_name="batch")(X)


def axis_whose_name_is_taken() -> Any:
    inner = fgrad.vmap(np.sin, axis_name="batch")
    return fgrad.vmap(inner, axis_name="batch")(np.ones((2, 3)))


def sum_of_what_all_examples_share() -> Any:
    def f(w: Any, x: Any) -> Any:
        return x + fgrad.lax.psum(w, "batch")

    return fgrad.vmap(f, (None, 0), axis_name="batch")(2.0, X)


def gradient_of_each_example_by_what_all_share() -> Any:
    def gradient(w: Any, x: Any) -> Any:
        return fgrad.grad(lambda w: np.sin(w * x))(w)

    return fgrad.vmap(gradient, (None, 0), axis_name="batch")(2.0, X)


def sum_in_a_branch_that_not_all_take() -> Any:
    def f(x: Any) -> Any:
        return fgrad.lax.cond(x > 1.5, lambda y: fgrad.lax.psum(y, "batch"), np.sin, x)

    return fgrad.vmap(f, axis_name="batch")(X)


def result_that_differs_between_places() -> Any:
    def mean(x: Any) -> Any:
        return np.mean(x)

    sharded = distributed.shard_map(
        mean, mesh=distributed.simulate(data=3), in_specs=P("data"), out_specs=P()
    )
    return sharded(X)


def export_of_what_calls_python() -> Any:
    return fgrad.export(lambda x: fgrad.pure_callback(np.sin, x, x), X, path="nowhere.fgx")


def export_of_what_writes() -> Any:
    def f(x: Any) -> Any:
        x[0] = 1.0
        return x

    return fgrad.export(f, X, path="nowhere.fgx")


def export_of_fourier_transforms_to_c() -> Any:
    return fgrad.export_c(lambda x: np.fft.fft(x), X, path="nowhere")


def check_in_a_format_without_errors() -> Any:
    def power(n: Any, k: Any) -> Any:
        return n**k

    return fgrad.stablehlo(power)(np.arange(3), np.arange(3))


def operation_that_a_format_has_not() -> Any:
    def inverse(x: Any) -> Any:
        return np.linalg.inv(x)

    return fgrad.onnx(inverse, np.eye(7))


def numbers_that_a_format_has_not() -> Any:
    return fgrad.onnx(np.sin, X + 1j)


def function_of_torch() -> Any:
    # As torch calls it, which is not installed everywhere.
    def sin() -> None: ...

    return fgrad.jit(lambda x: type(x).__torch_function__(sin, (type(x),), (x,)))(X)


def shared_memory_of_a_tracer() -> Any:
    return fgrad.jit(lambda x: np.from_dlpack(x))(X)


def resized_in_place() -> Any:
    def f(x: Any) -> Any:
        y = x.copy()
        y.resize(5)
        return y

    return fgrad.grad(lambda x: np.sum(f(x)))(X)


CASES = [
    value
    for name, value in list(globals().items())
    if callable(value)
    and getattr(value, "__module__", "") == __name__
    and not name.startswith(("test", "_"))
]


@pytest.fixture(autouse=True)
def plain() -> Iterator[None]:
    """Functions are traced as they are."""
    with fgrad.config.override(capture=False):
        yield


@pytest.mark.parametrize("case", CASES, ids=lambda f: f.__name__)
def test_card(case: Callable[[], Any], request: pytest.FixtureRequest) -> None:
    with pytest.raises((FgradError, IndexError, ValueError, TypeError)) as caught:
        case()
    error = caught.value
    if isinstance(error.__cause__, FgradError):  # NumPy wraps what a conversion raises
        error = error.__cause__
    text = f"{type(error).__name__}: {error}\n"
    text = re.sub(r"test_errors\.py:\d+", "test_errors.py:N", text)
    path = GOLDEN / f"{case.__name__}.txt"
    if request.config.getoption("--update-golden"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert path.exists(), "no golden text yet: run with --update-golden and read what it wrote"
    assert text == path.read_text()


def test_cards_never_print_array_contents() -> None:
    secret = np.array([1234.5, 6789.25])
    with pytest.raises(FgradError) as caught:
        fgrad.grad(lambda x: x * secret)(secret)
    assert "1234" not in str(caught.value)
