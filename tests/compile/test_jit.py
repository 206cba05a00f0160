"""jit: keys, arguments, results, errors, nesting."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.compile.backend import BACKENDS
from fgrad.compile.jit.jitted import jit
from fgrad.compile.jit.texts import explain_retrace
from fgrad.config import config
from fgrad.errors import ArgumentError, RetraceWarning, StaticArgumentError, UnsupportedTypeError

X = np.linspace(0.0, 1.0, 12).reshape(3, 4)


def counted(fun: Any) -> tuple[Any, list[int]]:
    """A jitted function and a list that grows by one at every trace."""
    traces: list[int] = []

    def traced(*args: Any, **kwargs: Any) -> Any:
        traces.append(1)
        return fun(*args, **kwargs)

    return jit(traced), traces


def test_traces_once_for_each_shape_dtype_and_setting() -> None:
    f, traces = counted(lambda x: x * 2)
    for x in (X, X + 1, X[::-1], np.asfortranarray(X)):
        np.testing.assert_array_equal(f(x), x * 2)
    assert len(traces) == 1
    f(X.astype(np.float32))
    f(X[:2])
    assert len(traces) == 3
    with config.override(num_threads=1):
        f(X)
    assert len(traces) == 4


@pytest.mark.parametrize(
    "x",
    [
        X[:, ::2],
        X.T,
        X.astype(">f8"),
        np.float32(2.5),
        np.array(2.5),
        3,
        2.5,
        True,
        np.arange(3),
        np.zeros((0, 4)),
        np.array([True, False]),
        np.broadcast_to(X[0], (5, 4)),
    ],
)
def test_any_argument_gives_what_numpy_gives(x: Any) -> None:
    def fun(x: Any) -> Any:
        return x + x, x * 2.0, np.sum(x)

    for actual, expected in zip(jit(fun)(x), fun(x), strict=True):
        assert np.asarray(actual).dtype == np.asarray(expected).dtype
        assert np.shape(actual) == np.shape(expected)
        np.testing.assert_allclose(actual, expected)


def test_python_scalars_are_weak() -> None:
    f = jit(lambda x, s: x * s)
    x = np.ones(3, np.float32)
    assert f(x, 2.0).dtype == np.float32
    assert f(x, np.float64(2.0)).dtype == np.float64
    assert f(np.ones(3, np.int64), 2.0).dtype == np.float64


def test_results_are_arguments_fresh_arrays_and_numpy_scalars() -> None:
    constant = np.arange(3.0)
    x = np.ones(3)
    same, kept, total = jit(lambda x: (x, constant, x.sum()))(x)
    assert isinstance(total, np.float64)
    assert same is x
    assert not np.shares_memory(kept, constant)
    first = jit(lambda x: x + 1)
    a = first(x)
    b = first(x)
    assert a is not b
    assert not np.shares_memory(a, b)


def test_read_only_arguments_are_not_changed() -> None:
    x = np.ones(3)
    x.flags.writeable = False
    np.testing.assert_array_equal(jit(lambda x: x * 2)(x), [2, 2, 2])
    np.testing.assert_array_equal(x, [1, 1, 1])


def test_trees_in_and_out() -> None:
    f = jit(lambda p, *, scale: {"w": p["w"] * scale, "rest": [p["b"], (None, p["w"].sum())]})
    out = f({"w": X, "b": X[0]}, scale=2.0)
    np.testing.assert_array_equal(out["w"], X * 2)
    assert out["rest"][1][0] is None
    assert out["rest"][1][1] == X.sum()


def test_static_arguments() -> None:
    f, traces = counted(lambda x, n: x * n if n > 2 else x)
    g = jit(f.fun, static_argnums=1)
    np.testing.assert_array_equal(g(X, 3), X * 3)
    np.testing.assert_array_equal(g(X, 1), X)
    np.testing.assert_array_equal(g(X, 1), X)
    assert len(traces) == 2

    @jit(static_argnames="kind")
    def by_name(x: Any, kind: str = "double") -> Any:
        return x * 2 if kind == "double" else x

    np.testing.assert_array_equal(by_name(X), X * 2)
    np.testing.assert_array_equal(by_name(X, kind="same"), X)
    np.testing.assert_array_equal(by_name(X, "same"), X)


def test_one_and_true_are_different_static_values() -> None:
    f = jit(lambda x, n: x * n, static_argnums=1)
    assert f(np.ones(2, np.int64), 1).dtype == np.int64
    assert f(np.ones(2, np.int64), 1.0).dtype == np.float64


def test_signed_zeros_are_different_static_values() -> None:
    f = jit(lambda x, s: x * np.copysign(1.0, s), static_argnums=1)
    for zero in (0.0, np.float32(0.0), np.float64(0.0), np.float16(0.0)):
        assert [f(2.0, zero), f(2.0, -zero), f(2.0, zero)] == [2.0, -2.0, 2.0]
    g = jit(lambda x, s: x * np.copysign(1.0, s.imag), static_argnums=1)
    assert [g(2.0, complex(0.0, 0.0)), g(2.0, complex(0.0, -0.0))] == [2.0, -2.0]


def test_static_argument_errors() -> None:
    with pytest.raises(StaticArgumentError, match="argument 1 is a list"):
        jit(lambda x, n: x, static_argnums=1)(X, [3])
    with pytest.raises(StaticArgumentError, match="static_argnums=5"):
        jit(lambda x: x, static_argnums=5)
    with pytest.raises(StaticArgumentError, match="static_argnames='n'"):
        jit(lambda x: x, static_argnames="n")


def test_unsupported_arguments_are_named() -> None:
    with pytest.raises(UnsupportedTypeError, match=r"params\['name'\] is a str"):
        jit(lambda params: params["x"])({"x": X, "name": "a"})
    with pytest.raises(UnsupportedTypeError, match="x is a ndarray of dtype object"):
        jit(lambda x: x)(np.array([None]))
    with pytest.raises(UnsupportedTypeError, match="result"):
        jit(lambda x: "text")(X)


def test_methods_and_names() -> None:
    class Model:
        scale = 3.0

        @jit
        def double(x: Any) -> Any:
            """Twice."""
            return x * 2

    assert Model.double.__name__ == "double"
    assert Model.double.__doc__ == "Twice."
    np.testing.assert_array_equal(Model.double(X), X * 2)


def test_retraces_are_explained() -> None:
    f, _ = counted(lambda x: x * 2)
    f(np.zeros(2))
    f(np.zeros(3))
    assert "[0][0]: f64[2] -> f64[3]" in explain_retrace(f)
    g = jit(lambda x: x, max_traces=1)
    g(np.zeros(2))
    with pytest.warns(RetraceWarning, match="traced 2 times"):
        g(np.zeros(3))


def test_disabled_jit_runs_the_function() -> None:
    f, traces = counted(lambda x: x * 2)
    with config.override(disable_jit=True):
        f(X)
        f(X)
    assert len(traces) == 2


def test_several_threads_trace_once() -> None:
    f, traces = counted(lambda x: np.sin(x) * 2)
    results: list[Any] = []
    threads = [threading.Thread(target=lambda: results.append(f(X))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(traces) == 1
    for result in results:
        np.testing.assert_allclose(result, np.sin(X) * 2)


def loss(w: Any, x: Any) -> Any:
    return np.sum(np.tanh(x @ w) ** 2)


W = np.linspace(-1.0, 1.0, 20).reshape(4, 5)
TRANSFORMS = [
    lambda f: fgrad.grad(f),
    lambda f: fgrad.value_and_grad(f),
    lambda f: fgrad.vmap(f, in_axes=(None, 0)),
    lambda f: fgrad.vmap(fgrad.grad(f), in_axes=(None, 0)),
    lambda f: lambda w, x: fgrad.jvp(f, (w, x), (w, x)),
    lambda f: lambda w, x: fgrad.grad(lambda w: np.sum(fgrad.grad(f)(w, x) * W))(w),
    lambda f: lambda w, x: fgrad.jacfwd(fgrad.grad(f))(w, x),
]


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_nested_jit_under_transforms(transform: Any) -> None:
    expected = fgrad.tree.leaves(transform(loss)(W, X))
    for fun in (transform(jit(loss)), jit(transform(loss)), jit(transform(jit(loss)))):
        fun(W, X)
        for actual, right in zip(fgrad.tree.leaves(fun(W, X)), expected, strict=True):
            np.testing.assert_allclose(actual, right, rtol=1e-10)


def test_closures_over_outer_values() -> None:
    f = fgrad.grad(lambda s: jit(lambda t: t * s)(2.0) + jit(lambda: s * s)())
    assert f(3.0) == 2.0 + 6.0
    assert f(5.0) == 2.0 + 10.0


def test_captured_arrays_are_those_of_each_call() -> None:
    captured = np.ones(3)
    f = jit(lambda x: x + captured)
    f(np.zeros(3))
    captured[:] = 7.0
    np.testing.assert_array_equal(f(np.zeros(3)), [7.0, 7.0, 7.0])


def test_the_passes_can_be_checked_one_by_one() -> None:
    with config.override(check=3), warnings.catch_warnings():
        np.testing.assert_allclose(jit(fgrad.grad(loss))(W, X), fgrad.grad(loss)(W, X))


def test_an_unknown_device_is_refused() -> None:
    with pytest.raises(ArgumentError, match="there is no device 'toaster'"):
        jit(lambda x: x, device="toaster")


def test_other_layers_add_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[int] = []

    def build(program: Any, plan: Any) -> Any:
        built.append(len(plan.steps))
        return BACKENDS["cpu"].build(program, plan)

    loaded: Any = BACKENDS
    monkeypatch.setitem(loaded._loaded, "other", BACKENDS["cpu"]._replace(build=build))
    f = jit(lambda x: np.sin(x), device="other")
    for _ in range(3):
        np.testing.assert_allclose(f(X), np.sin(X))
    assert built == [1]
    np.testing.assert_allclose(fgrad.grad(lambda x: np.sum(f(x)))(X), np.cos(X))
    np.testing.assert_allclose(jit(fgrad.grad(lambda x: np.sum(f(x))))(X), np.cos(X))
    assert len(built) > 2
