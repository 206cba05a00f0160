"""A misspelt keyword of a transform: the error names it, and the keyword that was meant."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import fgrad
from fgrad.errors import ArgumentError

MISSPELT = {
    "grad": {"argnum": "argnums", "has_auxiliary": "has_aux", "argname": "argnames"},
    "value_and_grad": {"arg_nums": "argnums", "hasaux": "has_aux"},
    "jacfwd": {"argnum": "argnums"},
    "jacrev": {"argnum": "argnums"},
    "hessian": {"argnum": "argnums"},
    "vmap": {"in_axis": "in_axes", "out_axis": "out_axes", "axisname": "axis_name"},
    "jit": {"static_argnum": "static_argnums", "donate_argnum": "donate_argnums"},
    "checkpoint": {"polcy": "policy"},
    "vjp": {"hasaux": "has_aux"},
    "linearize": {"hasaux": "has_aux"},
    "custom_vjp": {"nondiff_argnum": "nondiff_argnums"},
    "custom_jvp": {"nondiff_argnum": "nondiff_argnums"},
    "per_sample_grad": {"argnum": "argnums"},
}
ROWS = [(name, wrong, right) for name, row in MISSPELT.items() for wrong, right in row.items()]


@pytest.mark.parametrize(("name", "wrong", "right"), ROWS)
def test_the_nearest_is_named(name: str, wrong: str, right: str) -> None:
    with pytest.raises(ArgumentError, match=f"fgrad.{name} has no keyword {wrong}") as found:
        getattr(fgrad, name)(np.sum, **{wrong: 0})
    assert f"{right}=..." in str(found.value)


# What takes the keywords of the user's function.
HANDS_ON = {"eval_shape", "io_callback", "pure_callback"}
# What is called with values, inside of programs: Python's own error names the keyword.
OF_VALUES = {"at", "stop_gradient", "block_until_ready", "device_get", "typeof"}
# The first call in a process that runs an exported file: it imports little, and Python's own error
# names the keyword.
FIRST = {"load"}


def functions() -> list[str]:
    found = {n: getattr(fgrad, n) for n in dir(fgrad) if n[0] != "_"}
    rest = HANDS_ON | OF_VALUES | FIRST
    return [n for n, f in found.items() if inspect.isfunction(f) and n not in rest]


@pytest.mark.parametrize("name", functions())
def test_every_function_names_an_unknown_keyword(name: str) -> None:
    with pytest.raises(ArgumentError, match="has no keyword nothing_like_it") as found:
        getattr(fgrad, name)(np.sum, nothing_like_it=0)
    assert "=..." in str(found.value)


def test_other_keywords_of_jax_are_still_taken() -> None:
    x = np.array([1.0, 2.0])
    np.testing.assert_array_equal(fgrad.grad(np.sum, allow_int=False)(x), [1.0, 1.0])
    with pytest.raises(ArgumentError, match=r"fgrad\.grad does not take allow_int"):
        fgrad.grad(np.sum, allow_int=True)
