"""Rules, registration and libraries: each test is one thing that was wrong once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fgrad
import fgrad.scipy.integrate
from fgrad import optim
from fgrad.errors import (
    ArgumentError,
    CustomRuleError,
    MissingRuleError,
    NanError,
)

ROOT = Path(__file__).resolve().parents[2]


def in_new_process(code: str) -> str:
    """What a program prints that is the first to use fgrad in its process."""
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=True
    )
    return done.stdout.strip()


@pytest.mark.parametrize(
    "code",
    [
        "f = lambda x: np.linalg.norm([x, x + 2])",
        "f = lambda x: np.fft.fft([x, 0 * x])[0].real",
        "import fgrad.numpy.linalg as la; f = lambda x: la.norm([x, x + 2])",
        "import fgrad.numpy.fft as fft; f = lambda x: fft.fft([x, 0 * x])[0].real",
    ],
    ids=["2.4 linalg", "2.4 fft", "6f linalg first", "6f fft first"],
)
def test_linalg_and_fft_take_traced_numbers_from_the_beginning(code: str) -> None:
    program = f"import fgrad, fgrad.numpy as np; {code}; print(fgrad.grad(f)(0.0))"
    assert in_new_process(program) == "1.0"
    if "import " in code:
        first, rest = code.split("; ")
        program = f"{first}; {rest}; import fgrad.numpy as np; print(np.linalg.norm([3, 4]))"
        assert in_new_process(program) == "5.0"


def test_2_5_a_lazy_import_is_not_interrupted() -> None:
    """A Ctrl-C in the midst of a load comes when the load is done; all works afterwards."""
    program = """
import builtins, signal, fgrad, numpy as np
plain, left = builtins.__import__, [1]
def interrupting(name, *args, **kwargs):
    if left and "scipy" in name:
        left.pop()
        signal.raise_signal(signal.SIGINT)
    return plain(name, *args, **kwargs)
builtins.__import__ = interrupting
import scipy.special
f = lambda x: fgrad.scipy.special.erf(x)
try:
    fgrad.grad(f)(0.0)
except KeyboardInterrupt:
    print("interrupted")
print(fgrad.grad(f)(0.0).round(4))
"""
    program = program.replace("import scipy.special\n", "")
    assert in_new_process(program).split() == ["interrupted", "1.1284"]


@pytest.mark.parametrize("name", ["adam", "adamw", "rmsprop", "adagrad"])
def test_7_1_optimizers_find_the_minimum_over_complex_numbers(name: str) -> None:
    settings = {"weight_decay": 0.0} if name == "adamw" else {}
    rate = {"adagrad": 1.0, "rmsprop": 0.01}.get(name, 0.1)
    optimizer = getattr(optim, name)(rate, **settings)
    z = np.zeros(2, complex)
    state = optimizer.init(z)
    for _ in range(400):
        gradient = fgrad.grad(lambda z: np.sum(np.abs(z - (2 + 2j)) ** 2))(z)
        updates, state = optimizer.update(gradient, state, z)
        z = optim.apply_updates(z, updates)
    np.testing.assert_allclose(z, 2 + 2j, atol=0.02)


def test_7_1_the_norm_of_complex_numbers_is_that_of_their_parts() -> None:
    norm = optim.global_norm([3 + 4j])
    assert norm == 5.0 and norm.dtype == np.float64
    clipped, _ = optim.clip_by_global_norm(1.0).update([3 + 4j], optim.EmptyState())
    np.testing.assert_allclose(clipped, [0.6 + 0.8j])


@pytest.mark.parametrize("function", ["minimize", "root", "least_squares"])
def test_7_1_minimisers_refuse_complex_numbers(function: str) -> None:
    optimize = fgrad.scipy.optimize
    with pytest.raises(ArgumentError, match="real numbers"):
        getattr(optimize, function)(lambda z: np.abs(z - 1j) ** 2, np.array([0j]))
    x0 = np.array([1 + 2j, 0j])  # as the card says
    goal = np.array([1j, 3.0])
    found = optimize.minimize(
        lambda p: np.sum(np.abs(p[: x0.size] + 1j * p[x0.size :] - goal) ** 2),
        np.r_[x0.real, x0.imag],
    ).x
    np.testing.assert_allclose(found[:2] + 1j * found[2:], goal, atol=1e-5)


def test_1_11_neighbours_have_the_slope_of_a_rounded_number() -> None:
    """The spacing of floats is constant in pieces; the next number is x, but for rounding."""
    for transform in (fgrad.grad, lambda f: fgrad.jit(fgrad.grad(f))):
        assert transform(np.spacing)(1.5) == 0.0
        assert transform(lambda x: np.nextafter(x, 2.0))(1.5) == 1.0
        assert transform(lambda y: np.nextafter(1.5, y))(2.0) == 0.0


def test_1_11_equal_elements_share_the_running_maximum() -> None:
    slope = fgrad.grad(lambda x: np.sum(np.maximum.accumulate(x)))(np.array([1.0, 1.0, 0.0]))
    np.testing.assert_array_equal(slope, [2.0, 1.0, 0.0])


def test_6_entropy_has_an_infinite_slope_at_zero() -> None:
    entr = fgrad.scipy.special.entr
    for transform in (lambda f: f, fgrad.jit):
        with np.errstate(divide="ignore"):
            assert transform(lambda x: fgrad.jvp(entr, (x,), (1.0,)))(0.0) == (0.0, np.inf)
            assert transform(fgrad.grad(entr))(0.0) == np.inf
        assert transform(fgrad.grad(fgrad.grad(entr)))(0.5) == -2.0


def test_6_choosing_nothing_with_repetition() -> None:
    special = pytest.importorskip("scipy.special")
    n, k = np.array([0.0, -1.0, 3.0, 2.0]), np.array([0.0, 0.0, 2.0, 0.0])
    found = fgrad.jit(lambda n, k: fgrad.scipy.special.comb(n, k, repetition=True))(n, k)
    np.testing.assert_array_equal(found, [1.0, np.nan, 6.0, 1.0])
    if special.comb(0.0, 0.0, repetition=True) == 1.0:  # SciPy 1.16 and later
        np.testing.assert_array_equal(found, special.comb(n, k, repetition=True))


TRANSFORMS = {
    "grad": lambda f: fgrad.grad(f),
    "jit of grad": lambda f: fgrad.jit(fgrad.grad(f)),
    "grad of jit": lambda f: fgrad.grad(fgrad.jit(f)),
    "jvp": lambda f: lambda x: fgrad.jvp(f, (x,), (1.0,))[1],
    "jit of jvp": lambda f: fgrad.jit(lambda x: fgrad.jvp(f, (x,), (1.0,))[1]),
    "vmap of grad": lambda f: lambda x: fgrad.vmap(fgrad.grad(f))(np.stack([x, x]))[0],
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_6e_a_rule_may_call_its_function_on_the_tangent(name: str) -> None:
    """A linear function is its own derivative; a bilinear one is so in each argument."""

    @fgrad.custom_jvp
    def triple(x: Any) -> Any:
        return 3.0 * x

    triple.defjvp(lambda p, t: (triple(p[0]), triple(t[0])))

    @fgrad.custom_jvp
    def times(x: Any, y: Any) -> Any:
        return x * y

    times.defjvp(lambda p, t: (times(*p), times(t[0], p[1]) + times(p[0], t[1])))
    transform = TRANSFORMS[name]
    assert transform(lambda x: triple(x) ** 2)(2.0) == 36.0
    assert transform(lambda x: times(x, triple(x)))(2.0) == 12.0
    assert transform(lambda x: fgrad.grad(triple)(x) * x)(2.0) == 3.0
    mapped = transform(lambda x: np.sum(fgrad.vmap(triple)(np.stack([x, 2.0 * x]))))
    assert mapped(2.0) == 9.0


def test_6e_a_rule_that_calls_a_nonlinear_function_on_the_tangent_is_refused() -> None:
    square = fgrad.custom_jvp(lambda x: x * x)
    square.defjvp(lambda p, t: (square(p[0]), square(t[0])))
    with pytest.raises(CustomRuleError, match="not linear in the tangents"):
        fgrad.grad(square)(1.0)


@pytest.mark.parametrize(
    "cotangents",
    [
        lambda ct: ({"a": ct, "n": None}, None),
        lambda ct: ({"a": None, "n": None}, (ct,)),
        lambda ct: (None, (None,)),
        lambda ct: [None, None],
    ],
    ids=["second", "inner", "both", "list"],
)
def test_6h_none_is_a_zero_anywhere_in_the_cotangents(cotangents: Any) -> None:
    """Also where the argument itself holds None."""

    @fgrad.custom_vjp
    def f(p: Any, q: Any) -> Any:
        return p["a"] * q[0]

    f.defvjp(lambda p, q: (f(p, q), None), lambda _, ct: cotangents(ct))

    def value(a: Any, c: Any) -> Any:
        return f({"a": a, "n": None}, (c,))

    found = cotangents(1.0)
    expected = (
        1.0 if found[0] and found[0]["a"] else 0.0,
        1.0 if found[1] and found[1][0] else 0.0,
    )
    gradient = fgrad.grad(value, (0, 1))
    assert gradient(2.0, 3.0) == expected
    assert fgrad.jit(gradient)(2.0, 3.0) == expected
    batched = fgrad.vmap(gradient)(np.ones(2), np.ones(2))
    np.testing.assert_array_equal(batched, np.stack([expected, expected], axis=1))


def test_6i_transposes_of_the_parts_of_complex_numbers() -> None:
    """Cotangents pair with tangents as Re(ct t)."""
    z = 1 + 0j
    for transform in (lambda f: f, fgrad.jit):
        for f, ct, expected in (
            (np.real, 1.0, 1 + 0j),
            (np.imag, 1.0, -1j),
            (np.conj, 1 + 2j, 1 - 2j),
        ):
            assert transform(fgrad.linear_transpose(f, z))(ct) == (expected,)
    assert fgrad.linear_transpose(lambda x: x + 2j * x, 1.0)(1 + 1j) == (-1.0,)


def _closing_over(q: Any) -> Any:
    @fgrad.custom_jvp
    def f(a: Any) -> Any:
        return a * q

    f.defjvp(lambda p, t: (f(*p), t[0] * np.cos(q)))
    return f


@pytest.mark.parametrize("inner", [lambda f: f, fgrad.jit], ids=["plain", "jit"])
@pytest.mark.parametrize("outer", [lambda f: f, fgrad.jit], ids=["plain", "jit"])
def test_6j_custom_functions_close_over_values_of_an_inner_vmap(outer: Any, inner: Any) -> None:
    """The argument belongs to the outer gradient, what is closed over to the lanes inside."""
    qs = np.array([0.5, 1.0, 2.0])

    def total(z: Any) -> Any:
        return np.sum(fgrad.vmap(inner(lambda q: _closing_over(q)(z)))(qs))

    np.testing.assert_allclose(outer(fgrad.grad(total))(3.0), np.sum(np.cos(qs)))
    np.testing.assert_allclose(outer(total)(3.0), 10.5)
    lanes = outer(fgrad.vmap(lambda q: fgrad.grad(inner(_closing_over(q)))(3.0)))
    np.testing.assert_allclose(lanes(qs), np.cos(qs))


@pytest.mark.parametrize("transform", [lambda f: f, fgrad.jit], ids=["plain", "jit"])
def test_6j_the_solver_of_a_root_closes_over_what_is_differentiated(transform: Any) -> None:
    def root(a: Any, q: Any) -> Any:
        scale = a / q

        def solve(f: Any, x: Any) -> Any:
            return np.sqrt(scale)  # counts as constant: the derivative comes from the equation

        return fgrad.custom_root(lambda x: q * x * x - a, 1.0, solve, lambda g, y: y / g(1.0))

    found = transform(fgrad.grad(root, (0, 1)))(8.0, 2.0)
    np.testing.assert_allclose(found, (1 / 8, -1 / 2))
    second = transform(fgrad.grad(fgrad.grad(root)))(8.0, 2.0)
    np.testing.assert_allclose(second, -1 / 128)
    qs = np.array([2.0, 8.0])
    lanes = transform(fgrad.grad(lambda a: np.sum(fgrad.vmap(lambda q: root(a, q))(qs))))(8.0)
    np.testing.assert_allclose(lanes, 1 / 8 + 1 / 16)


def test_6j_a_pullback_is_a_result_of_jit() -> None:
    value, pullback = fgrad.jit(lambda x: fgrad.vjp(np.sin, x))(1.0)
    assert value == np.sin(1.0)
    assert pullback(2.0) == (2 * np.cos(1.0),)


def test_6j_what_examples_share_under_vmap_may_be_any_object() -> None:
    def f(x: Any, how: str) -> Any:
        return x * 2 if how == "double" else x

    x = np.arange(3.0)
    for transform in (lambda g: g, fgrad.jit):
        found = transform(lambda x: fgrad.vmap(f, in_axes=(0, None))(x, "double"))(x)
        np.testing.assert_array_equal(found, 2 * x)
    np.testing.assert_array_equal(
        fgrad.vmap(f, in_axes=(0, None), chunk_size=2)(x, "double"), 2 * x
    )
    np.testing.assert_allclose(
        fgrad.vmap(lambda g, x: fgrad.grad(g)(x), (None, 0))(np.sin, x), np.cos(x)
    )
    shared = {"f": None, "x": 0, "k": None}
    found = fgrad.vmap(lambda d: d["f"](d["x"]) * d["k"], (shared,))({"f": np.sin, "x": x, "k": 3})
    np.testing.assert_allclose(found, 3 * np.sin(x))


def test_6j_trees_are_turned_inside_out_without_the_inner_structure() -> None:
    outer = fgrad.tree.structure((0, 0))
    found = fgrad.tree.transpose(outer, None, ({"a": 1, "b": 2}, {"a": 3, "b": 4}))
    assert found == {"a": (1, 3), "b": (2, 4)}
    with pytest.raises(ArgumentError):
        fgrad.tree.transpose(fgrad.tree.structure(()), None, ())


def test_7_3_infinities_are_found() -> None:
    with np.errstate(divide="ignore"):
        with fgrad.debug.nans(), pytest.raises(NanError, match="produced an infinity"):
            fgrad.grad(np.log)(0.0)
        with fgrad.debug.nans(infs=False):
            assert fgrad.grad(np.log)(0.0) == np.inf


def test_7_6_attention_has_the_layout_of_jax() -> None:
    """Heads stand before the last axis: a query attends over positions, not over heads."""
    value = np.arange(6.0).reshape(3, 2, 1)  # 3 positions, 2 heads
    zeros = np.zeros((3, 2, 4))
    found = fgrad.nn.dot_product_attention(zeros, zeros, value)
    np.testing.assert_allclose(found, np.broadcast_to(value.mean(0), (3, 2, 1)))


def _reversal(rules: str) -> Any:
    """A linear operation whose derivative is made of itself."""

    @fgrad.primitive(out=lambda x: x)
    def flip(x: Any) -> Any:
        return x[::-1].copy()

    @fgrad.primitive(out=lambda x: x)
    def flop(x: Any) -> Any:
        return x[::-1].copy()

    flop.def_jvp(lambda primals, tangents, out: flip(tangents[0]))
    tangents_of = {
        "itself": flip,
        "scaled": lambda t: 2.0 * flip(0.5 * t),
        "another": flop,
    }
    if rules == "transpose":
        flip.def_transpose(lambda ct, x: (flip(ct),))
    else:
        flip.def_jvp(lambda primals, tangents, out: tangents_of[rules](tangents[0]))
    return flip


@pytest.mark.parametrize("rules", ["itself", "scaled", "another", "transpose"])
def test_derivatives_that_are_made_of_the_operation_itself(rules: str) -> None:
    """6: a card says that `def_transpose` is missing, where recursion had no end."""
    flip, x = _reversal(rules), np.arange(3.0)

    def f(x: Any) -> Any:
        return np.sum(flip(x) * x)

    np.testing.assert_array_equal(fgrad.jacfwd(f)(x), 2 * x[::-1])
    for g in (fgrad.grad(f), fgrad.jit(fgrad.grad(f)), fgrad.grad(fgrad.jit(f))):
        if rules == "transpose":
            np.testing.assert_array_equal(g(x), 2 * x[::-1])
        else:
            with pytest.raises(MissingRuleError, match="def_transpose"):
                g(x)


def test_custom_functions_may_call_themselves() -> None:
    @fgrad.custom_jvp
    def pushed(x: Any) -> Any:
        return x[::-1]

    @fgrad.custom_vjp
    def pulled(x: Any) -> Any:
        return x[::-1]

    pushed.defjvp(lambda primals, tangents: (pushed(primals[0]), pushed(tangents[0])))
    pulled.defvjp(lambda x: (pulled(x), None), lambda _, ct: (pulled(ct),))
    for flip in (pushed, pulled):
        gradient = fgrad.grad(lambda x, flip=flip: np.sum(flip(x) * x))
        for g in (gradient, fgrad.jit(gradient)):
            np.testing.assert_array_equal(g(np.arange(3.0)), [4.0, 2.0, 0.0])


def test_custom_functions_that_close_over_what_is_converted() -> None:
    """Integrals in integrands: rules that capture a value which is an argument, too."""

    def inner(a: Any, t: Any) -> Any:
        return fgrad.scipy.integrate.quad(lambda y: y * a * t, 0, 1)[0]

    def outer(a: Any) -> Any:
        converted, consts = fgrad.closure_convert(lambda t: inner(a, t), 0.5)
        return converted(3.0, *consts)

    def twice(a: Any) -> Any:
        return fgrad.scipy.integrate.quad(lambda t: inner(a, t), 0, 1)[0]

    for f, slope in ((outer, 1.5), (twice, 0.25)):
        np.testing.assert_allclose(fgrad.grad(f)(2.0), slope)
        np.testing.assert_allclose(fgrad.jit(fgrad.grad(f))(2.0), slope)


@pytest.mark.parametrize(
    "f", [np.median, np.nanmedian, lambda x: np.quantile(x, 0.5), lambda x: np.nanpercentile(x, 50)]
)
def test_quantiles_between_equal_numbers_share_their_slope(f: Any) -> None:
    x = np.array([2.0, 2.0])
    np.testing.assert_allclose(fgrad.grad(f)(x), [0.5, 0.5])
    np.testing.assert_allclose(fgrad.jit(fgrad.grad(f))(x), [0.5, 0.5])
