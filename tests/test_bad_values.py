"""Bad input to random numbers, trees, segments and optimisers of JAX's names: a value
or an error that is meant, never one from the inside of fgrad."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad import lax, optim, random, tree
from fgrad.errors import FgradError

KEY = random.key(0)
MEANT = (FgradError, TypeError, ValueError, ArithmeticError, np.linalg.LinAlgError)
SHAPES: tuple[Any, ...] = ((-1,), 2.5, "3", (2, "a"), (2, 0), None, np.array([2, 3]), {}, (2.0,))
DTYPES: tuple[Any, ...] = ("float16", "int32", "complex64", "bool", "nonsense", object, "U3")
NUMBERS: tuple[Any, ...] = (
    np.nan, np.inf, -1.0, 0, 1j, "a", None, np.zeros(0), np.zeros((2, 0)), np.ones((3, 2)),
    np.float16(0.5), np.array([True]), [], {}, np.array(["a"]), np.full(3, np.nan),
)  # fmt: skip
KEYS: tuple[Any, ...] = (0, None, "a", np.zeros(3), np.zeros(0), 1j, [])
DRAWS: dict[str, Callable[..., Any]] = {
    name: getattr(random, name)
    for name in (
        "normal", "uniform", "bernoulli", "exponential", "gamma", "beta", "poisson", "laplace",
        "gumbel", "cauchy", "logistic", "pareto", "rayleigh", "t", "weibull_min", "dirichlet",
        "categorical", "choice", "permutation", "randint", "truncated_normal", "binomial",
        "multinomial", "ball", "orthogonal", "bits", "chisquare", "f", "geometric", "loggamma",
        "lognormal", "maxwell", "rademacher", "triangular", "wald", "generalized_normal",
        "double_sided_maxwell", "multivariate_normal", "split", "fold_in",
    )
    if hasattr(random, name)
}  # fmt: skip


def outcome(call: Callable[[], Any]) -> str:
    """Nothing for a value or an error that is meant; else what was raised."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            call()
        except MEANT:
            return ""
        except Exception as error:
            return f"{type(error).__name__}: {error}"[:150]
    return ""


@pytest.mark.parametrize("name", DRAWS)
def test_draws(name: str) -> None:
    f = DRAWS[name]
    calls: dict[str, Callable[[], Any]] = {
        **{f"shape={s!r}": lambda s=s: f(KEY, shape=s) for s in SHAPES},
        **{f"dtype={d!r}": lambda d=d: f(KEY, dtype=d) for d in DTYPES},
        **{f"key {k!r}": lambda k=k: f(k) for k in KEYS},
        **{f"of {x!r}": lambda x=x: f(KEY, x) for x in NUMBERS},
        **{f"of {x!r} twice": lambda x=x: f(KEY, x, x) for x in NUMBERS},
        **{f"of 0.5 and {x!r}": lambda x=x: f(KEY, 0.5, x) for x in NUMBERS},
        "nothing": lambda: f(),
        "a keyword that is none": lambda: f(KEY, shpae=(2,)),
    }
    wrong = [f"{label}: {what}" for label, call in calls.items() if (what := outcome(call))]
    assert not wrong, "\n".join(wrong)


TREES: dict[str, Callable[[Any], Any]] = {
    "map": lambda x: tree.map(np.add, {"a": 1.0}, x),
    "map of no function": lambda x: tree.map(x, {"a": 1.0}),
    "unflatten": lambda x: tree.structure({"a": 1, "b": (2, 3)}).unflatten(x),
    "transpose": lambda x: tree.transpose(tree.structure([0, 0]), tree.structure((0,)), x),
    "reduce": lambda x: tree.reduce(np.add, x),
    "ravel": lambda x: tree.ravel(x),
    "flatten_up_to": lambda x: tree.structure({"a": 1, "b": (2, 3)}).flatten_up_to(x),
    "unravel": lambda x: tree.ravel({"a": np.ones(2)})[1](x),
}
OF_TREES: tuple[Any, ...] = (*NUMBERS, {"a": np.ones(2)}, {"b": 1.0}, [1.0, (2.0,)], object(), len)


@pytest.mark.parametrize("name", TREES)
def test_trees(name: str) -> None:
    wrong = [f"{x!r}: {what}" for x in OF_TREES if (what := outcome(lambda x=x: TREES[name](x)))]
    assert not wrong, "\n".join(wrong)


OPTIMISERS: dict[str, Callable[[Any], Any]] = {
    name: getattr(optim, name)
    for name in (
        "adabelief", "adadelta", "adafactor", "adagrad", "adam", "adamax", "adamw", "adan",
        "amsgrad", "fromage", "lamb", "lars", "lbfgs", "lion", "nadam", "novograd", "radam",
        "rmsprop", "rprop", "sgd", "sign_sgd", "sm3", "yogi", "sophia",
        "optimistic_gradient_descent",
    )
}  # fmt: skip


@pytest.mark.parametrize("name", OPTIMISERS)
def test_optimisers(name: str) -> None:
    make, p = OPTIMISERS[name], {"w": np.ones((2, 2)), "b": np.ones(2)}
    good = make(0.1)
    state = good.init(p)
    calls: dict[str, Callable[[], Any]] = {
        **{f"rate {x!r}": lambda x=x: make(x).update(p, make(x).init(p), p) for x in NUMBERS},
        **{f"parameters {x!r}": lambda x=x: good.update(x, good.init(x), x) for x in OF_TREES},
        **{f"gradient {x!r}": lambda x=x: good.update(x, state, p) for x in OF_TREES},
        **{f"compiled {x!r}": lambda x=x: fgrad.jit(good.update)(x, state, p) for x in OF_TREES},
        "another state": lambda: good.update(p, (), p),
        "no parameters": lambda: good.update(p, state),
        "a keyword that is none": lambda: make(0.1, wieght_decay=1.0),
    }
    wrong = [f"{label}: {what}" for label, call in calls.items() if (what := outcome(call))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ["segment_sum", "segment_prod", "segment_max", "segment_min"])
def test_segments(name: str) -> None:
    f = getattr(lax, name)
    data = np.ones((3, 2))
    calls: dict[str, Callable[[], Any]] = {
        **{f"ids {x!r}": lambda x=x: f(data, x, 2) for x in NUMBERS},
        **{f"data {x!r}": lambda x=x: f(x, np.array([0, 1, 1]), 2) for x in NUMBERS},
        **{f"number {x!r}": lambda x=x: f(data, np.array([0, 1, 1]), x) for x in NUMBERS},
    }
    wrong = [f"{label}: {what}" for label, call in calls.items() if (what := outcome(call))]
    assert not wrong, "\n".join(wrong)
