"""Random trees of parameters and gradients, and the rules that optax and fgrad run over them.

Trees are nested dicts, lists, tuples, named tuples and dataclasses; leaves are 0-d, empty or of odd
shapes, each of a magnitude of its own, with exact zeros, of one dtype or of several in one tree.
`python benchmarks/optimizer_trees.py` compares fgrad with optax and PyTorch, and writes what those
give for some trees to tests/golden/optimizer_trees.json.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from optax_cases import CASES, RATE, SINGLE
from torch_cases import CASES as TORCH_CASES

import fgrad
from fgrad import optim, tree

Tree = Any
Rule = Callable[[Any, Any], Any]  # (library, its functions of trees) -> optimiser

STEPS = 5
DTYPES: dict[str, tuple[str, ...]] = {
    "float32": ("float32",),
    "float64": ("float64",),
    "complex64": ("complex64",),
    "complex128": ("complex128",),
    "mixed real": ("float32", "float64"),
    "mixed": ("float32", "float64", "complex64", "complex128"),
}
SHAPES = ((), (0,), (3, 0), (1,), (5,), (2, 3), (3, 1, 2), (1, 1), (7,), (4, 2))
# Powers of ten, by the width of real numbers.  Squares must be normal numbers, as XLA takes
# subnormal ones for zero.
MAGNITUDES = {4: 8.0, 8: 40.0}


class Pair(NamedTuple):
    """A named tuple as part of a tree."""

    left: Tree
    right: Tree


@dataclass
class Layer:
    """A dataclass as part of a tree."""

    weights: Tree
    rest: Tree


@dataclass(frozen=True)
class Shape:
    """A leaf before it has numbers."""

    shape: tuple[int, ...]
    dtype: int


def _structure(rng: np.random.Generator, depth: int) -> Tree:
    """A tree whose leaves are pairs of a shape and an index of dtypes."""
    kind = rng.integers(0, 7) if depth else 6
    parts = [_structure(rng, depth - 1) for _ in range(int(rng.integers(1, 4)))] if kind < 4 else []
    if kind == 0:
        return parts
    if kind == 1:
        return tuple(parts)
    if kind in (2, 3):
        names = rng.permutation(["w", "b", "gain"])
        return {str(name): part for name, part in zip(names, parts, strict=False)}
    if kind == 4:
        return Pair(_structure(rng, depth - 1), _structure(rng, depth - 1))
    if kind == 5:
        return Layer(_structure(rng, depth - 1), _structure(rng, depth - 1))
    return Shape(SHAPES[rng.integers(0, len(SHAPES))], int(rng.integers(0, 4)))


def _leaves(tree: Tree, visit: Callable[[Shape], Any]) -> Tree:
    """The tree with `visit` of each leaf in its place, in the order of the structure."""
    if isinstance(tree, Shape):
        return visit(tree)
    if isinstance(tree, dict):
        return {name: _leaves(part, visit) for name, part in tree.items()}
    if isinstance(tree, Layer):
        return Layer(_leaves(tree.weights, visit), _leaves(tree.rest, visit))
    if isinstance(tree, Pair):
        return Pair(_leaves(tree.left, visit), _leaves(tree.right, visit))
    return type(tree)([_leaves(part, visit) for part in tree])


def _numbers(rng: np.random.Generator, leaf: Shape, kind: str, single: bool) -> np.ndarray:
    dtypes = DTYPES[kind]
    dtype = np.dtype(dtypes[leaf.dtype % len(dtypes)])
    power = MAGNITUDES[4 if single else np.zeros(0, dtype).real.itemsize]
    size = 10.0 ** float(rng.uniform(-power, power)) if rng.random() < 0.5 else 1.0
    x = rng.standard_normal(leaf.shape)
    if dtype.kind == "c":
        x = x + 1j * rng.standard_normal(leaf.shape)
    x = np.where(rng.random(leaf.shape) < 0.1, 0.0, x * size)
    return x.astype(dtype)


def drawn(seed: int, kind: str, single: bool = False) -> tuple[Tree, list[Tree]]:
    """Parameters, and the gradients of some steps; if `single`, all numbers are float32's too."""
    rng = np.random.default_rng(seed)
    structure = {"first": Shape((3, 2), 0), "more": _structure(rng, 3)}

    def numbers() -> Tree:
        return _leaves(structure, lambda leaf: _numbers(rng, leaf, kind, single))

    return numbers(), [numbers() for _ in range(STEPS)]


def _wide(x: Any) -> bool:
    return x.ndim > 1


MASKED: dict[str, Rule] = {
    "masked": lambda o, t: o.masked(o.adam(RATE), lambda p: t.map(_wide, p)),
    "freeze": lambda o, t: o.masked(o.set_to_zero(), lambda p: t.map(_wide, p)),
    "by_label": lambda o, t: o.multi_transform(
        {"a": o.adam(RATE), "z": o.set_to_zero()},
        lambda p: t.map(lambda x: "a" if _wide(x) else "z", p),
    ),
    "adamw of some": lambda o, t: o.adamw(RATE, weight_decay=0.1, mask=lambda p: t.map(_wide, p)),
}
MORE: dict[str, Rule] = {
    "decayed weights": lambda o, t: o.add_decayed_weights(0.3),
    "schedule": lambda o, t: o.adam(o.exponential_decay(0.1, 2, 0.5)),
    "rmsprop with momentum": lambda o, t: o.rmsprop(RATE, eps_in_sqrt=True, momentum=0.9),
    "adabelief, nesterov": lambda o, t: o.adabelief(RATE, nesterov=True),
    "radam, nesterov": lambda o, t: o.radam(RATE, b2=0.9, nesterov=True),
    "finite": lambda o, t: o.apply_if_finite(o.adam(RATE), 3),
    "clipped": lambda o, t: o.chain(
        o.zero_nans(), o.clip_by_global_norm(1.0), o.sgd(RATE, momentum=0.9)
    ),
    "named chain": lambda o, t: o.named_chain(("a", o.scale_by_adam()), ("b", o.scale(-0.1))),
    "biased ema": lambda o, t: o.chain(o.ema(0.5, debias=False), o.scale(2.0)),
}
RULES: dict[str, Rule] = {
    **{
        name: (lambda o, t, make=make: make(o))
        for name, (make, _) in CASES.items()
        if name not in MASKED
    },
    **MASKED,
    **MORE,
}
TORCH: dict[str, Callable[[Any], Any]] = {name: make for name, (_, make) in TORCH_CASES.items()}
# Rules that optax has for real parameters alone: the parts of complex ones, in both libraries.
BY_PARTS = {name for name, (_, has_complex) in CASES.items() if not has_complex}
# What optax computes in float32, whatever the parameters are.
IN_SINGLE = {*SINGLE, "schedule"}
# One number of all arrays, or of an array: numbers of a leaf cancel, and the coarsest dtype rounds.
OF_ALL = {"clip", "clipped", "update_norm", "lbfgs", "distance", "centralize"}
DECAYED = {
    "adafactor", "adamaxw", "adamw", "adamw of some", "adamw_eps_root", "decayed weights", "lamb",
    "lamb_eps_root", "lars", "nadamw", "nadamw_eps_root", "novograd",
}  # fmt: skip


def seed_of(name: str, kind: str) -> int:
    """A tree of its own for each rule and dtype, the same in each process."""
    return zlib.crc32(f"{name} {kind}".encode())


def unit(name: str, dtype: np.dtype[Any], kind: str) -> float:
    """The rounding of a number: of float32 where optax computes in it."""
    single = name in IN_SINGLE or (name in OF_ALL and kind.startswith("mixed"))
    return float(np.finfo(np.float32 if single else np.zeros(0, dtype).real.dtype).eps)


def scales(name: str, p: np.ndarray, updates: list[np.ndarray]) -> np.ndarray:
    """What rounding is relative to, for each number of a leaf: the largest of its updates.

    Where decayed weights are added they count too: the two may cancel.
    """
    top = np.max(np.abs(np.stack(updates)), axis=0)
    if name in DECAYED:
        top = np.maximum(top, 0.01 * np.abs(p))
    return np.full_like(top, np.max(top, initial=0.0)) if name in OF_ALL else top


def distance(found: np.ndarray, wanted: np.ndarray, scale: np.ndarray, eps: float) -> float:
    """The largest difference in units of rounding."""
    same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
    with np.errstate(all="ignore"):
        kind = np.float64 if eps < np.finfo(np.float32).eps else np.float32
        least = eps * np.finfo(kind).tiny  # a unit of the numbers below the normal ones
        gap = np.abs(found - wanted) / np.maximum(scale * eps, least)
    return float(np.max(np.where(same, 0.0, np.nan_to_num(gap, nan=np.inf)), initial=0.0))


Steps = list[list[np.ndarray]]


def by_fgrad(name: str, p: Tree, gradients: list[Tree], compiled: bool = False) -> Steps:
    """The leaves of the updates of each step."""
    optimizer = RULES[name](optim, tree)
    if name in BY_PARTS and any(np.iscomplexobj(x) for x in tree.leaves(p)):
        optimizer = optim.split_real_and_imaginary(optimizer)
    update = fgrad.jit(optimizer.update) if compiled else optimizer.update
    state, steps = optimizer.init(p), []
    for g in gradients:
        updates, state = update(g, state, p)
        steps.append([np.asarray(x) for x in tree.leaves(updates)])
    return steps


def by_fgrad_as_torch(name: str, p: Tree, gradients: list[Tree], compiled: bool = False) -> Steps:
    """The leaves of the parameters after each step; PyTorch's rules are of the parts."""
    optimizer = optim.split_real_and_imaginary(TORCH[name](optim))
    update = fgrad.jit(optimizer.update) if compiled else optimizer.update
    state, steps = optimizer.init(p), []
    for g in gradients:
        updates, state = update(g, state, p)
        p = optim.apply_updates(p, updates)
        steps.append([np.asarray(x) for x in tree.leaves(p)])
    return steps


def compared(library: str, name: str, kind: str, p: Tree, mine: Steps, other: Steps) -> float:
    """The largest difference of all steps in units of rounding; shapes and dtypes are p's here."""
    worst = 0.0
    for k, leaf in enumerate(tree.leaves(p)):
        seen: list[np.ndarray] = [] if library == "optax" else [leaf]
        for own, theirs in zip(mine, other, strict=True):
            if own[k].shape != leaf.shape or own[k].dtype != leaf.dtype:
                return np.inf
            # optax gives some 0-d updates an axis, and the widest dtype of a tree to all
            wanted = theirs[k].reshape(leaf.shape).astype(leaf.dtype)
            seen.append(wanted)
            scale = scales(name, leaf, seen)
            worst = max(worst, distance(own[k], wanted, scale, unit(name, leaf.dtype, kind)))
    return worst


def few(x: np.ndarray) -> list[float]:
    """The first numbers of an array; of complex ones their parts."""
    flat = np.ravel(x)[:3]
    return [float(v) for v in (flat.view(flat.real.dtype) if flat.dtype.kind == "c" else flat)]
