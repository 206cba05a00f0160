"""Numbers read out of a trace: those that would lose a derivative raise, all others are given."""

from __future__ import annotations

import cmath
import ctypes
import functools
import itertools
import math
import pickle
import statistics
import struct
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from op_cases import OP_CASES
from op_domains import OpCase

import fgrad
from fgrad import grad, jvp, linearize, stop_gradient, vjp, vmap
from fgrad.errors import LeakedTracerError, LostDerivativeError, TracedArrayError

X = np.array([0.5, 1.5, 2.5])


def chain(error: BaseException | None) -> list[BaseException]:
    """An error and what it was raised from."""
    return [] if error is None else [error, *chain(error.__cause__ or error.__context__)]


def _filled(x: Any) -> Any:
    y = np.zeros(3)
    y.fill(x)
    return y.sum() * x


def _set_item(x: Any) -> Any:
    y = np.zeros(3)
    y.__setitem__(0, x)
    return y.sum() * x


# What gives a plain number of the float x to Python or to C code.
READERS: dict[str, Callable[[Any], Any]] = {
    "float": lambda x: float(x) * x,
    "complex": lambda x: complex(x).real * x,
    "item": lambda x: x * x.item(),
    "tolist": lambda x: x * sum(np.stack([x, x]).tolist()),
    "math": lambda x: x**2 + math.sin(x),
    "over several lines": lambda x: x * math.hypot(
        1.0,
        x,
    ),
    "map": lambda x: x * sum(map(math.exp, [x, x])),
    "from a dictionary": lambda x: x * {"e": math.exp}["e"](x),
    "partial": lambda x: x * functools.partial(math.exp)(x),
    "accumulate": lambda x: x * list(itertools.accumulate([x, x], math.hypot))[-1],
    "fsum": lambda x: x * math.fsum([x, x]),
    "cmath": lambda x: x * abs(cmath.exp(x)),
    "statistics": lambda x: x * statistics.NormalDist(0.0, 1.0).inv_cdf(math.tanh(x)),
    "isnan": lambda x: x * math.isnan(x),
    "percent": lambda x: x * float("%.3f" % x),  # noqa: UP031 - it is what is tested
    "struct": lambda x: x * struct.unpack("d", struct.pack("d", x))[0],
    "ctypes": lambda x: x * ctypes.c_double(x).value,
    "np.float64": lambda x: x * np.float64(x),
    "fill": _filled,
    "setitem": _set_item,
    "initial": lambda x: x * np.sum(np.ones(3), initial=x),
    "interp": lambda x: x * np.interp(-1.0, X, X, left=x),
    "generator": lambda x: x * np.random.default_rng(0).normal(x),
    "asarray": lambda x: x * np.asarray(x),
    "tobytes": lambda x: x * np.frombuffer(x.tobytes())[0],
    "pickle": lambda x: x * pickle.loads(pickle.dumps(x)),
    "fromiter": lambda x: x * np.fromiter([x, x], float).sum(),
    "exec": lambda x: eval("x * math.sin(x)", {"math": math, "x": x}),
}  # fmt: skip

TRANSFORMS: dict[str, Callable[[Callable[..., Any]], Any]] = {
    "grad": lambda f: grad(f)(0.7),
    "vjp": lambda f: vjp(f, 0.7),
    "jvp": lambda f: jvp(f, (0.7,), (1.0,)),
    "linearize": lambda f: linearize(f, 0.7),
    "grad grad": lambda f: grad(grad(f))(0.7),
    "outer": lambda f: grad(lambda a: grad(lambda x: f(a) * x)(1.0))(0.7),
    "unmapped": lambda f: grad(lambda a: np.sum(vmap(lambda x: f(a) * x)(X)))(0.7),
    "checkpoint": lambda f: grad(fgrad.checkpoint(f))(0.7),
    "custom": lambda f: grad(lambda a: fgrad.sequential_vmap(f)(a))(0.7),
}


@pytest.fixture(autouse=True)
def plain() -> Iterator[None]:
    """Functions are traced as they are."""
    with fgrad.config.override(capture=False):
        yield


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("reader", READERS)
def test_a_number_that_would_lose_a_derivative_raises(reader: str, transform: str) -> None:
    kinds = (LostDerivativeError, TracedArrayError)
    with pytest.raises(Exception) as found:
        TRANSFORMS[transform](READERS[reader])
    # struct drops the error that it met, and raises its own.
    assert reader == "struct" or any(isinstance(error, kinds) for error in chain(found.value))


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("reader", READERS)
def test_a_constant_is_read_freely(reader: str, transform: str) -> None:
    read = READERS[reader]
    if reader in ("over several lines", "statistics"):
        pytest.skip("they read what they make of their argument")
    TRANSFORMS[transform](lambda x: x * read(stop_gradient(x)))


CONSTANTS: dict[str, Callable[[Any], Any]] = {
    "floor": np.floor,
    "sign": np.sign,
    "comparison": lambda x: np.where(x > 0, 1.0, 2.0),
    "integer": lambda x: np.asarray(1.0) * (10 * x).astype(int),
    "argmax": lambda x: np.argmax(np.stack([x, 1.0])) * 1.5,
    "of constants": lambda x: np.sin(fgrad.numpy.zeros(3))[0],
    "copysign": lambda x: np.copysign(2.0, x),
    "long chain": lambda x: functools.reduce(
        lambda y, _: np.cos(y), range(50), stop_gradient(x) + np.rint(x)
    ),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", CONSTANTS)
def test_what_has_derivative_zero_is_read_freely(name: str, transform: str) -> None:
    TRANSFORMS[transform](lambda x: x * float(CONSTANTS[name](x)))


def test_discrete_readings_and_text_go_on() -> None:
    def f(x: Any) -> Any:
        numbers = int(x) + round(x) + math.floor(x) + math.ceil(x) + math.trunc(x) + bool(x)
        text = f"{x} {x:.2f} {x!r} {x!s}" + "%s" % x + format(x, ".1e")  # noqa: UP031
        assert "2.50" in text
        return x * numbers * (2.0 if x > 1 else 3.0)

    assert grad(f)(2.5) == 2.0 * (2 + 2 + 2 + 3 + 2 + 1)


def test_an_argument_that_is_not_differentiated_is_a_constant() -> None:
    assert grad(lambda x, y: x * math.sin(y))(2.0, 3.0) == math.sin(3.0)
    with pytest.raises(LostDerivativeError):
        grad(lambda x, y: x * math.sin(y), argnums=1)(2.0, 3.0)


def test_stop_gradient_stops_all_enclosing_derivatives() -> None:
    def f(x: Any) -> Any:
        return x**2 * float(stop_gradient(x))

    assert grad(f)(3.0) == 18.0
    assert grad(grad(f))(3.0) == 6.0
    assert jvp(grad(f), (3.0,), (1.0,)) == (18.0, 6.0)
    assert grad(lambda a: grad(lambda x: x * float(stop_gradient(a)) * a)(1.0))(3.0) == 3.0


def test_a_plot_or_a_generator_gets_the_detached_array() -> None:
    def f(p: Any) -> Any:
        np.testing.assert_array_equal(np.asarray(stop_gradient(p)), X / X.sum())
        return np.sum(p) * np.random.default_rng(0).choice(3, p=stop_gradient(p))

    grad(f)(X / X.sum())


def test_a_custom_rule_reads_numbers_where_its_rule_does() -> None:
    @fgrad.custom_vjp
    def f(x: Any) -> Any:
        return math.sin(x)

    f.defvjp(lambda x: (math.sin(x), x), lambda x, ct: (ct * np.cos(x),))
    assert grad(f)(0.5) == np.cos(0.5)

    @fgrad.custom_jvp
    def g(x: Any) -> Any:
        return math.sin(x)

    g.defjvp(lambda primals, tangents: (g(*primals), tangents[0] * np.cos(primals[0])))
    assert grad(g)(0.5) == np.cos(0.5)
    np.testing.assert_allclose(grad(grad(g))(0.5), -np.sin(0.5))


# --- values of ended traces -----------------------------------------------------------------------


def _kept(x: Any) -> Any:
    """A traced value of an ended trace."""
    log: list[Any] = []
    if isinstance(x, float) or getattr(x, "dtype", np.dtype(int)).kind == "f":
        fgrad.vjp(lambda y: log.append(y), x)
    return log[0] if log else x


def test_a_log_can_be_read_when_the_trace_has_ended() -> None:
    log: list[Any] = []

    def loss(x: Any) -> Any:
        log.append(np.sum(x**2))
        log.append(x[1:])
        return log[0]

    grad(loss)(X)
    total, rest = log
    assert (float(total), total.item(), str(total), f"{total:.1f}") == (8.75, 8.75, "8.75", "8.8")
    assert (repr(total), rest.tolist()) == (repr(np.float64(8.75)), [1.5, 2.5])
    np.testing.assert_array_equal(np.asarray(rest), X[1:])
    assert grad(lambda x: x * total)(2.0) == 8.75
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(log))[1], rest)


def test_a_value_of_an_inner_trace_belongs_to_the_outer_one() -> None:
    def outer(a: Any) -> Any:
        log: list[Any] = []
        grad(lambda x: log.append(x * a) or x)(3.0)
        return log[0] ** 2

    assert grad(outer)(2.0) == 36.0
    with pytest.raises(LostDerivativeError):
        grad(lambda a: float(outer(a)) * a)(2.0)


@pytest.mark.parametrize("transform", [fgrad.jit, vmap])
def test_a_value_that_was_never_known_raises(transform: Any) -> None:
    log: list[Any] = []
    transform(lambda x: log.append(x) or x)(X)
    for read in (float, np.sin, lambda x: x + 1):
        with pytest.raises((LeakedTracerError, TracedArrayError)):
            read(log[0])


@pytest.mark.parametrize("case", OP_CASES, ids=lambda case: case.name)
def test_functions_of_ended_values(case: OpCase, rng: np.random.Generator) -> None:
    args = case.args(rng)
    if ".out" in case.name or "in_place" in case.name:
        pytest.skip("it writes into its arguments")
    try:
        expected = case.fun(*[x.copy() if isinstance(x, np.ndarray) else x for x in args])
    except (TypeError, AttributeError):
        pytest.skip("plain NumPy has no such function")
    try:
        found = case.fun(*map(_kept, args))
    except LeakedTracerError:
        return  # it writes
    for a, b in zip(fgrad.tree.leaves(found), fgrad.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-10, atol=1e-12)


# --- random programs ------------------------------------------------------------------------------

UNARY: list[tuple[Callable[[Any], Any], bool]] = [  # and whether a derivative goes through
    (np.sin, True), (np.tanh, True), (lambda x: x * x, True), (lambda x: 2.0 - x, True),
    (np.floor, False), (np.sign, False), (stop_gradient, False),
    (lambda x: np.where(x > 0.3, 1.5, 0.5), False), (lambda x: np.rint(4 * x) / 4, False),
    (lambda x: np.sum(np.stack([x, 1.0])), True), (lambda x: (9 * x).astype(int) * 0.1, False),
    (fgrad.checkpoint(np.cos), True),
]  # fmt: skip
BINARY: list[Callable[[Any, Any], Any]] = [np.add, np.multiply, np.maximum, np.hypot]


def run_reading(seed: int, x: Any, wrap: Callable[[Any, Any], tuple[Any, bool]]) -> bool:
    """A random program that reads one number; whether it depends on x."""
    rng = np.random.default_rng(seed)
    pool: list[tuple[Any, bool]] = [(x, True), (np.float64(0.4), False)]
    for _ in range(rng.integers(1, 9)):
        kind = rng.integers(4)
        value, active = pool[rng.integers(len(pool))]
        if kind == 0:
            other, too = pool[rng.integers(len(pool))]
            pool.append((BINARY[rng.integers(len(BINARY))](value, other), active or too))
        elif kind == 1:
            pool.append(wrap(value, active))
        else:
            apply, through = UNARY[rng.integers(len(UNARY))]
            pool.append((apply(value), active and through))
    value, active = pool[-1]
    try:
        float(value)
    except LostDerivativeError:
        assert active
        return True
    assert not active
    return False


def _in_inner_trace(value: Any, active: bool) -> tuple[Any, bool]:
    """The value again, by the derivative of another trace."""
    return grad(lambda y: y * value)(1.0), active


@pytest.mark.parametrize("seed", range(150))
def test_random_programs_read_constants_alone(seed: int) -> None:
    """`float` of the last value raises if, and only if, a derivative reaches it."""

    def f(x: Any) -> Any:
        run_reading(seed, x, _in_inner_trace)
        return x * 1.0

    for transform in ("grad", "jvp", "grad grad", "checkpoint"):
        TRANSFORMS[transform](f)
