"""Functions with rules of the user's: values, nesting in every transform, and cards."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.compile.cpu.structural_hash import identity
from fgrad.errors import ArgumentError, CustomRuleError, LeakedTracerError, MissingRuleError

X = np.array([0.3, -0.7, 1.1])


@fgrad.custom_jvp
def tripled(x: Any) -> Any:
    """sin(x), with three times its derivative."""
    return np.sin(x)


@tripled.defjvp
def _tripled_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return tripled(x), 3.0 * np.cos(x) * t


@fgrad.custom_vjp
def tripled_back(x: Any) -> Any:
    """The same by a rule in reverse."""
    return np.sin(x)


tripled_back.defvjp(lambda x: (tripled_back(x), np.cos(x)), lambda cosine, ct: (3.0 * cosine * ct,))
BOTH = pytest.mark.parametrize("f", [tripled, tripled_back])


@BOTH
def test_value(f: Callable[[Any], Any]) -> None:
    assert np.array_equal(f(X), np.sin(X))
    assert np.array_equal(fgrad.jit(f)(X), fgrad.jit(np.sin)(X))


def derivatives(f: Callable[[Any], Any]) -> dict[str, Callable[[Any], Any]]:
    """The derivative of an elementwise function in many ways."""

    def total(x: Any) -> Any:
        return np.sum(f(x))

    return {
        "grad": fgrad.grad(total),
        "jvp": lambda x: fgrad.jvp(f, (x,), (np.ones_like(x),))[1],
        "vjp": lambda x: fgrad.vjp(f, x)[1](np.ones_like(x))[0],
        "linearize": lambda x: fgrad.linearize(f, x)[1](np.ones_like(x)),
        "jacfwd": lambda x: np.diagonal(fgrad.jacfwd(f)(x)),
        "jacrev": lambda x: np.diagonal(fgrad.jacrev(f)(x)),
        "vmap of grad": fgrad.vmap(fgrad.grad(f)),
        "grad of vmap": fgrad.grad(lambda x: np.sum(fgrad.vmap(f)(x))),
        "jvp of vmap": lambda x: fgrad.jvp(fgrad.vmap(f), (x,), (np.ones_like(x),))[1],
        "jit of grad": fgrad.jit(fgrad.grad(total)),
        "grad of jit": fgrad.grad(fgrad.jit(total)),
        "grad of jit of vmap": fgrad.grad(lambda x: np.sum(fgrad.jit(fgrad.vmap(f))(x))),
        "jit of vmap of grad of jit": fgrad.jit(fgrad.vmap(fgrad.grad(fgrad.jit(f)))),
        "jvp of jit": lambda x: fgrad.jvp(fgrad.jit(f), (x,), (np.ones_like(x),))[1],
        "scan": fgrad.grad(lambda x: fgrad.lax.scan(lambda c, v: (c + f(v), None), 0.0, x)[0]),
        "jit of scan": fgrad.jit(
            fgrad.grad(lambda x: fgrad.lax.scan(lambda c, v: (c + f(v), None), 0.0, x)[0])
        ),
        "cond": fgrad.grad(lambda x: np.sum(fgrad.lax.cond(x[0] > 0, f, np.cos, x))),
    }


@BOTH
@pytest.mark.parametrize("way", list(derivatives(np.sin)))
def test_rule_is_used(f: Callable[[Any], Any], way: str) -> None:
    assert np.allclose(derivatives(f)[way](X), 3.0 * np.cos(X), rtol=1e-12)


@BOTH
@pytest.mark.parametrize("way", list(derivatives(np.sin)))
def test_second_order_goes_through_the_rule(f: Callable[[Any], Any], way: str) -> None:
    second = derivatives(lambda x: derivatives(f)[way](x))["grad"](X)
    assert np.allclose(second, -3.0 * np.sin(X), rtol=1e-12)


@BOTH
def test_while_loop(f: Callable[[Any], Any]) -> None:
    def twice(x: Any) -> Any:
        body = lambda s: (s[0] + 1, f(s[1]))  # noqa: E731 - as short as a loop's body is
        return fgrad.lax.while_loop(lambda s: s[0] < 2, body, (0, x))[1]

    expected = 9.0 * np.cos(np.sin(0.3)) * np.cos(0.3)
    assert np.isclose(fgrad.grad(twice)(0.3), expected, rtol=1e-12)


def test_values_are_known_inside_rules() -> None:
    @fgrad.custom_jvp
    def f(x: Any) -> Any:
        return x if x > 0 else -x

    @f.defjvp
    def f_jvp(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        return f(x), t * (10.0 if x > 0 else -20.0)

    assert fgrad.grad(f)(1.0) == 10.0
    assert fgrad.grad(f)(-1.0) == -20.0
    assert fgrad.grad(lambda x: fgrad.grad(f)(x) * x)(-1.0) == -20.0


def test_only_the_rule_is_traced_if_it_can_do_without_the_function() -> None:
    @fgrad.custom_vjp
    def f(x: Any) -> Any:
        return float(x) ** 2

    f.defvjp(lambda x: (x**2, x), lambda x, ct: (5.0 * x * ct,))
    assert f(3.0) == 9.0
    assert fgrad.jit(fgrad.grad(f))(3.0) == fgrad.grad(f)(3.0) == 15.0


def test_methods() -> None:
    class Scaled:
        def __init__(self, factor: float) -> None:
            self.factor = factor

        @fgrad.custom_vjp(nondiff_argnums=0)
        def apply(self, x: Any) -> Any:
            return self.factor * x

        apply.defvjp(
            lambda self, x: (self.factor * x, None),
            lambda self, _, ct: (10.0 * self.factor * ct,),
        )

    assert fgrad.grad(lambda x: Scaled(3.0).apply(x))(1.0) == 30.0
    assert fgrad.grad(fgrad.jit(lambda x: Scaled(3.0).apply(x)))(1.0) == 30.0


def test_in_place_code_in_rules_leaves_arguments_alone() -> None:
    @fgrad.custom_vjp
    def f(x: Any) -> Any:
        return np.sum(x)

    def fwd(x: Any) -> Any:
        total = f(x)
        x[0] = 100.0
        return total, x

    def bwd(x: Any, ct: Any) -> Any:
        x *= ct
        return (x,)

    f.defvjp(fwd, bwd)
    x = X.copy()
    assert np.array_equal(fgrad.grad(f)(x), [100.0, -0.7, 1.1])
    assert np.array_equal(x, X)


def test_defjvps_skips_zeros() -> None:
    @fgrad.custom_jvp
    def f(x: Any, y: Any) -> Any:
        return x * y

    f.defjvps(lambda t, out, x, y: 2.0 * t * y, None)
    assert fgrad.grad(f, argnums=(0, 1))(3.0, 5.0) == (10.0, 0.0)


def test_keywords_and_defaults() -> None:
    @fgrad.custom_vjp
    def f(x: Any, y: Any = 2.0) -> Any:
        return x * y

    f.defvjp(lambda x, y: (f(x, y), (x, y)), lambda r, ct: (r[1] * ct, None))
    assert fgrad.grad(lambda x: f(y=3.0, x=x))(1.0) == 3.0
    assert fgrad.grad(f)(1.0) == 2.0


def test_static_arguments() -> None:
    @fgrad.custom_jvp(nondiff_argnames="fun", nondiff_argnums=2)
    def apply(fun: Callable[[Any], Any], x: Any, how: str) -> Any:
        return fun(x)

    @apply.defjvp
    def apply_jvp(fun: Any, how: str, primals: Any, tangents: Any) -> Any:
        assert how == "so"
        return apply(fun, *primals, how), fun(tangents[0]) * 7.0

    assert fgrad.grad(lambda x: apply(lambda v: 2.0 * v, x, "so"))(1.0) == 14.0
    assert fgrad.grad(fgrad.jit(lambda x: apply(lambda v: 2.0 * v, x, "so")))(1.0) == 14.0


def test_static_arguments_in_reverse() -> None:
    @fgrad.custom_vjp(nondiff_argnums=(1,))
    def scaled(x: Any, factor: float) -> Any:
        return x

    scaled.defvjp(lambda x, factor: (x, None), lambda factor, _, ct: (factor * ct,))
    assert fgrad.grad(lambda x: scaled(x, -0.5))(1.0) == -0.5
    assert fgrad.jit(fgrad.grad(lambda x: scaled(x, -0.5)))(1.0) == -0.5


def test_trees_and_integers() -> None:
    @fgrad.custom_vjp
    def f(p: Any, n: Any) -> Any:
        return {"y": p["a"] * p["b"], "n": n + 1}

    f.defvjp(
        lambda p, n: (f(p, n), p),
        lambda p, ct: ({"a": ct["y"] * p["b"], "b": None}, None),
    )
    p = {"a": 2.0, "b": 3.0}
    gradient = fgrad.grad(lambda p: f(p, 4)["y"])(p)
    assert gradient == {"a": 3.0, "b": 0.0}
    assert fgrad.grad(fgrad.jit(lambda p, n: f(p, n)["y"]))(p, 4) == gradient


def test_integers_have_zero_tangents() -> None:
    @fgrad.custom_jvp
    def power(x: Any, n: Any) -> Any:
        return x**n

    @power.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        (x, n), (t, dn) = primals, tangents
        assert dn.dtype == n.dtype == np.int64 and not np.any(dn)
        return power(x, n), n * x ** (n - 1) * t + dn

    assert fgrad.grad(power)(2.0, 3) == 12.0
    assert fgrad.grad(fgrad.jit(power))(2.0, 3) == 12.0
    assert np.array_equal(fgrad.vmap(fgrad.grad(power))(X[:2] * 0 + 2.0, np.arange(1, 3)), [1, 4])


def test_compiled_code_is_kept_on_disk_without_the_rules() -> None:
    assert identity(fgrad.make_program(tripled)(X)) is not None
    assert identity(fgrad.make_program(fgrad.grad(fgrad.checkpoint(np.sum)))(X)) is not None
    plain = fgrad.primitive(lambda x: x, out=lambda x: x, name="opaque")
    assert identity(fgrad.make_program(plain)(X)) is None


def test_shared_operands_of_a_batch_sum_their_cotangents() -> None:
    @fgrad.custom_vjp
    def f(x: Any, w: Any) -> Any:
        return x * w

    f.defvjp(lambda x, w: (x * w, (x, w)), lambda r, ct: (r[1] * ct, r[0] * ct))

    def total(w: Any) -> Any:
        return np.sum(fgrad.vmap(f, in_axes=(0, None))(X, w))

    assert np.isclose(fgrad.grad(total)(2.0), X.sum())
    assert np.isclose(fgrad.grad(fgrad.jit(total))(2.0), X.sum())


def test_sizes_stay_numbers_among_residuals() -> None:
    @fgrad.custom_vjp
    def f(x: Any) -> Any:
        return np.sum(x)

    f.defvjp(lambda x: (np.sum(x), x.shape), lambda n, ct: (np.broadcast_to(2.0 * ct, n),))
    assert np.array_equal(fgrad.vmap(fgrad.grad(f))(np.ones((2, 3))), 2.0 * np.ones((2, 3)))


def test_closures_that_are_not_differentiated() -> None:
    def outer(c: Any, x: Any) -> Any:
        @fgrad.custom_jvp
        def f(x: Any) -> Any:
            return c * x

        @f.defjvp
        def f_jvp(primals: Any, tangents: Any) -> Any:
            return f(*primals), 2.0 * tangents[0]

        return f(x)

    assert fgrad.grad(outer, argnums=1)(5.0, 1.0) == 2.0
    assert np.array_equal(fgrad.vmap(outer, in_axes=(0, None))(X, 2.0), 2.0 * X)
    assert fgrad.jit(fgrad.grad(outer, argnums=1))(5.0, 1.0) == 2.0
    assert fgrad.jit(lambda c: fgrad.grad(lambda x: outer(c, x))(1.0))(5.0) == 2.0


@pytest.mark.parametrize("both", [False, True])
def test_closures_that_are_differentiated_raise(both: bool) -> None:
    def outer(c: Any, x: Any) -> Any:
        @fgrad.custom_jvp
        def f(x: Any) -> Any:
            return c * x

        f.defjvps(lambda t, out, x: c * t)
        return f(x)

    argnums = (0, 1) if both else 0
    with pytest.raises(CustomRuleError, match="closes over a value that is being differ"):
        fgrad.grad(outer, argnums=argnums)(5.0, 1.0)
    with pytest.raises((CustomRuleError, LeakedTracerError)):
        fgrad.grad(fgrad.jit(outer), argnums=argnums)(5.0, 1.0)


def test_forward_derivative_of_a_nonlinear_bwd_raises() -> None:
    @fgrad.custom_vjp
    def f(x: Any) -> Any:
        return x

    def bwd(_: Any, ct: Any) -> Any:
        return (np.tanh(ct),)

    f.defvjp(lambda x: (x, None), bwd)
    with pytest.raises(MissingRuleError, match=r"bwd is not linear .*tanh at test_custom"):
        fgrad.jvp(f, (1.0,), (1.0,))


def rule_of(jvp: Callable[..., Any]) -> Any:
    """A function of a dictionary and a number, with a rule."""

    @fgrad.custom_jvp
    def f(p: Any, y: Any) -> Any:
        return {"a": p["w"] * y}

    f.defjvp(jvp)
    return f


JVP_DEFECTS = {
    "arity": (lambda p: p, r"too many positional arguments(.|\n)*def rule\(primals, tangents\)"),
    "no pair": (lambda p, t: {"a": 1.0}, r"must return a pair .*\n.*\n.*it is a dict"),
    "three": (lambda p, t: (1, 2, 3), r"must return a pair .*\n.*\n.*it is a tuple of 3"),
    "result": (lambda p, t: ((1.0,), t), r"result of f first\.\n\n.*\*|structure"),
    "structure": (lambda p, t: ({"a": p[0]["w"]}, t[1]), r"tangent with the structure"),
    "shape": (
        lambda p, t: ({"a": X[0] * X}, {"a": np.ones(2)}),
        r"tangent of result\['a'\] is f64",
    ),
    "dtype": (
        lambda p, t: ({"a": X * 1.0}, {"a": X.astype(np.complex128)}),
        r"c128\[3\], but the value is f64\[3\]",
    ),
    "value": (lambda p, t: ({"a": 1.0}, {"a": 1.0}), r"\['a'\] is f64\[\], but f returns f64\[3\]"),
}


@pytest.mark.parametrize("name", list(JVP_DEFECTS))
@pytest.mark.parametrize("compiled", [False, True])
def test_cards_of_jvp_rules(name: str, compiled: bool) -> None:
    rule, text = JVP_DEFECTS[name]
    f = rule_of(rule)
    f = fgrad.jit(f) if compiled else f
    with pytest.raises(CustomRuleError, match=text) as caught:
        fgrad.grad(lambda p: np.sum(f(p, 2.0)["a"]))({"w": X})
    assert "rule    test_custom_rules.py:" in str(caught.value)


@pytest.mark.parametrize("f", [np.abs, np.sign, fgrad.stop_gradient, lambda t: t * t])
def test_rules_are_linear_in_the_tangents(f: Callable[[Any], Any]) -> None:
    g = fgrad.custom_jvp(lambda x: np.sin(x))
    g.defjvps(lambda t, out, x: f(t))
    with pytest.raises(CustomRuleError, match=r"not linear in the tangents\.\n\n  found   \w+ at "):
        fgrad.grad(g)(1.0)


def vjp_of(fwd: Callable[..., Any], bwd: Callable[..., Any]) -> Any:
    """A function of a dictionary and a number, with rules in reverse."""

    @fgrad.custom_vjp
    def f(p: Any, y: Any) -> Any:
        return p["w"] * y

    f.defvjp(fwd, bwd)
    return f


def _fwd(p: Any, y: Any) -> Any:
    return p["w"] * y, None


VJP_DEFECTS = {
    "fwd takes less": (lambda p: p, None, r"fwd of f .*too many positional(.|\n)*def fwd\(p, y\)"),
    "bwd takes less": (_fwd, lambda ct: ct, r"too many positional(.|\n)*def bwd\(residuals, cotan"),
    "no pair": (lambda p, y: p["w"], None, r"fwd .* must return a pair"),
    "value": (lambda p, y: (y, None), None, r"result is f64\[\], but f returns f64\[3\]"),
    "no tuple": (_fwd, lambda r, ct: ct, r"tuple with a cotangent for each of 'p', 'y'"),
    "too few": (_fwd, lambda r, ct: (None,), r"it returned 1, for 2 arguments"),
    "structure": (_fwd, lambda r, ct: (ct, None), r"structure of the arguments.*\n.*\n.*'p' is"),
    "shape": (_fwd, lambda r, ct: ({"w": ct[:2]}, None), r"of 'p'\['w'\] is f64\[2\], but the va"),
    "dtype": (
        _fwd,
        lambda r, ct: ({"w": ct.astype(np.float32)}, None),
        r"that of 'p'\['w'\] is f32\[3\], but the value is f64\[3\]",
    ),
}


@pytest.mark.parametrize("name", list(VJP_DEFECTS))
@pytest.mark.parametrize("compiled", [False, True])
def test_cards_of_vjp_rules(name: str, compiled: bool) -> None:
    fwd, bwd, text = VJP_DEFECTS[name]
    f = vjp_of(fwd, bwd or (lambda r, ct: (None, None)))
    f = fgrad.jit(f) if compiled else f
    with pytest.raises(CustomRuleError, match=text) as caught:
        fgrad.grad(lambda p: np.sum(f(p, 2.0)))({"w": X})
    assert "test_custom_rules.py:" in str(caught.value)


def test_cards_of_calls() -> None:
    @fgrad.custom_jvp
    def f(x: Any, mode: Any) -> Any:
        return x

    with pytest.raises(CustomRuleError, match="has no derivative yet"):
        f(1.0, 2.0)
    f.defjvps(None, None)
    with pytest.raises(CustomRuleError, match=r"'mode' of .*\n.*\n.*it is a str"):
        f(1.0, "fast")
    with pytest.raises(ArgumentError, match="missing a required argument: 'mode'"):
        f(1.0)
    with pytest.raises(ArgumentError, match="nondiff_argnames='z', but its arguments are x"):
        fgrad.custom_vjp(lambda x: x, nondiff_argnames="z")


def test_cards_of_defjvps() -> None:
    f = fgrad.custom_jvp(lambda x, y: x * y)
    f.defjvps(lambda t, out, x, y: t)
    with pytest.raises(CustomRuleError, match="defjvps got 1 rules, but <lambda> has 2 arg"):
        fgrad.grad(f)(1.0, 2.0)
    f.defjvps(lambda t, out: t, None)
    with pytest.raises(CustomRuleError, match=r"too many positional arguments"):
        fgrad.grad(f)(1.0, 2.0)


def test_straight_through_estimator() -> None:
    @fgrad.custom_jvp
    def rounded(x: Any) -> Any:
        return np.round(x)

    rounded.defjvps(lambda t, out, x: t)
    assert np.array_equal(fgrad.grad(lambda x: np.sum(rounded(x) ** 2))(X), 2.0 * np.round(X))


def test_gradient_reversal() -> None:
    @fgrad.custom_vjp
    def reverse(x: Any) -> Any:
        return x

    reverse.defvjp(lambda x: (x, None), lambda _, ct: (-ct,))
    assert np.array_equal(fgrad.grad(lambda x: np.sum(reverse(x) * 2.0))(X), [-2.0, -2.0, -2.0])


def test_an_error_in_bwd_says_what_bwd_gets() -> None:
    f = fgrad.custom_vjp(lambda x, y: x * y)
    f.defvjp(lambda x, y: (x * y, (x, y)), lambda ct, kept: (kept[1] * ct, kept[0] * ct))
    with pytest.raises(IndexError) as caught:
        fgrad.grad(f)(2.0, 3.0)
    text = "".join(traceback.format_exception(caught.value))
    assert "in bwd of the custom_vjp function <lambda>:  def bwd(residuals, cotangent)" in text
