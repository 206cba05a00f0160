"""The names of docs/coming_from.md: fgrad's for JAX's, and the programs by their full names."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import fgrad
import fgrad.numpy
import fgrad.scipy.integrate

AREAS = ("transforms", "control", "indexing", "trees", "random", "nn", "linalg", "scipy", "users")
SAME = (
    "grad", "value_and_grad", "jacfwd", "jacrev", "hessian", "jvp", "vjp", "linearize",
    "linear_transpose", "vmap", "jit", "custom_jvp", "custom_vjp", "checkpoint", "eval_shape",
    "pure_callback", "lax", "nn", "random", "scipy", "tree",
)  # fmt: skip


def programs() -> dict[str, Callable[[Any], Any]]:
    """All programs, by `area: name`."""
    found = {}
    for area in AREAS:
        module = importlib.import_module(f"jax_programs.{area}")
        found |= {f"{area}: {name}": program for name, program in module.PROGRAMS.items()}
    return found


def of_fgrad() -> SimpleNamespace:
    """fgrad's names."""
    names = {name: getattr(fgrad, name) for name in SAME}
    return SimpleNamespace(
        **names,
        np=fgrad.numpy,
        at=fgrad.at,
        ShapeDtype=fgrad.ShapeDtype,
        ravel=fgrad.tree.ravel,
        keystr=fgrad.tree.keystr,
        Partial=fgrad.tree.Partial,
        register_node=fgrad.tree.register_node,
        register_dataclass=fgrad.tree.register_dataclass,
        segment_sum=fgrad.lax.segment_sum,
        segment_max=fgrad.lax.segment_max,
        odeint=fgrad.scipy.integrate.odeint,
        stop_gradient=fgrad.stop_gradient,
    )
