"""Containers of arrays: functions of `jax.tree`, named tuples, dataclasses, partial functions."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jax_programs.data import M, N, X, Y

TREE = {"b": [X, (Y, None)], "a": 2.0}
Ordered = collections.OrderedDict


class Point(NamedTuple):
    x: Any
    y: Any


def with_node(J: Any) -> Any:
    class Box:
        def __init__(self, value: Any, unit: str) -> None:
            self.value, self.unit = value, unit

    J.register_node(Box, lambda b: ((b.value,), b.unit), lambda u, c: Box(c[0], u))
    return J.grad(lambda b: (b.value**2).sum())(Box(X, "m")).value


def with_dataclass(J: Any) -> Any:
    @dataclasses.dataclass
    class Layer:
        w: Any
        b: Any
        name: str = dataclasses.field(default="dense", metadata={"static": True})

    J.register_dataclass(Layer)
    g = J.jit(J.grad(lambda p: (M @ p.w + p.b).sum()))(Layer(N, np.zeros(3)))
    return g.w, g.b


def adam(J: Any) -> Any:
    params = {"w": X, "b": 1.0}
    zeros = J.tree.map(lambda p: J.np.zeros_like(p), params)
    m, v = zeros, zeros
    for t in range(1, 4):
        g = J.grad(lambda p: ((p["w"] - p["b"]) ** 2).sum())(params)
        m = J.tree.map(lambda a, b: 0.9 * a + 0.1 * b, m, g)
        v = J.tree.map(lambda a, b: 0.99 * a + 0.01 * b * b, v, g)
        params = J.tree.map(
            lambda p, a, b, t=t: p - 0.1 * (a / (1 - 0.9**t)) / ((b / (1 - 0.99**t)) ** 0.5 + 1e-8),
            params, m, v,
        )  # fmt: skip
    return params


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "leaves": lambda J: J.tree.leaves(TREE),
    "map": lambda J: J.tree.map(lambda x: x * 2, TREE),
    "map of two": lambda J: J.tree.map(lambda a, b: a + b, {"k": X}, {"k": Y}),
    "map is_leaf": lambda J: J.tree.map(
        lambda x: x[0], {"k": (X, Y)}, is_leaf=lambda x: isinstance(x, tuple)),
    "map with None": lambda J: J.tree.map(
        lambda x: 0.0 if x is None else x, [X, None], is_leaf=lambda x: x is None),
    "flatten": lambda J: J.tree.unflatten(J.tree.flatten(TREE)[1], [1.0, X, Y]),
    "structure": lambda J: float(
        J.tree.structure(TREE) == J.tree.structure({"a": 0, "b": [0, (0, None)]})),
    "structure differs": lambda J: float(J.tree.structure([0]) == J.tree.structure((0,))),
    "number of leaves": lambda J: float(J.tree.structure(TREE).num_leaves),
    "reduce": lambda J: J.tree.reduce(lambda a, b: a + b.sum(), {"a": X, "b": Y}, 0.0),
    "all": lambda J: float(J.tree.all({"a": True, "b": [1, 2]})),
    "transpose": lambda J: J.tree.transpose(
        J.tree.structure([0, 0]), J.tree.structure({"a": 0}), [{"a": X}, {"a": Y}]),
    "transpose None": lambda J: J.tree.transpose(
        J.tree.structure([0, 0]), None, [{"a": X}, {"a": Y}]),
    "order of keys": lambda J: J.tree.leaves({"z": 1.0, "a": 2.0, "m": 3.0}),
    "ordered dict": lambda J: J.tree.leaves(Ordered([("z", 1.0), ("a", 2.0)])),
    "default dict": lambda J: J.tree.leaves(collections.defaultdict(list, {"b": 1.0, "a": 2.0})),
    "deque": lambda J: J.tree.leaves(collections.deque([1.0, 2.0])),
    "named tuple": lambda J: J.grad(lambda p: (p.x * p.y).sum())(Point(X, Y)),
    "named tuple map": lambda J: J.tree.map(lambda v: v + 1, Point(1.0, 2.0)).y,
    "nested gradient": lambda J: J.grad(lambda t: (t["b"][0] * t["b"][1][0]).sum() * t["a"])(TREE),
    "jit of trees": lambda J: J.jit(lambda t: {"s": t["b"][0] + t["a"], "n": None})(TREE),
    "vmap of trees": lambda J: J.vmap(lambda t: t["u"] * t["v"][0])({"u": X, "v": [Y]}),
    "axes of a tree": lambda J: J.vmap(
        lambda t, s: t["u"] * t["v"] + s, ({"u": 0, "v": None}, None))({"u": X, "v": 2.0}, 1.0),
    "axes as a prefix": lambda J: J.vmap(lambda t: t["u"] * t["v"], 0)({"u": X, "v": Y}),
    "out axes of a tree": lambda J: J.vmap(
        lambda x: {"a": x, "b": 1.0}, out_axes={"a": 0, "b": None})(X),
    "register_node": with_node,
    "register_dataclass": with_dataclass,
    "paths": lambda J: float(sum(
        [len(J.keystr(path)) for path, _ in J.tree.leaves_with_path(TREE)])),
    "map with path": lambda J: J.tree.map_with_path(
        lambda path, x: x * len(path), {"a": X, "b": [Y]}),
    "keystr": lambda J: [float(ord(c)) for path, _ in J.tree.leaves_with_path(TREE)
                         for c in J.keystr(path)],
    "ravel": lambda J: J.ravel({"w": M, "b": 3.0})[0],
    "unravel": lambda J: J.ravel({"w": M, "b": 3.0})[1](np.arange(21.0)),
    "ravel in grad": lambda J: J.grad(
        lambda v: (J.ravel({"w": M, "b": 3.0})[1](v)["w"] ** 2).sum())(np.ones(21)),
    "Partial": lambda J: J.jit(lambda f, x: f(x))(J.Partial(lambda a, x: a * x, 2.0), X),
    "scan of a named tuple": lambda J: J.lax.scan(
        lambda c, x: (Point(c.x + x, c.y * x), c.x), Point(0.0, 1.0), X)[0],
    "cond of containers": lambda J: J.lax.cond(
        True, lambda t: t, lambda t: J.tree.map(lambda x: -x, t), {"a": [X]}),
    "empty": lambda J: J.tree.leaves({}) + J.tree.leaves(None) + [1.0],
    "jit of an empty tree": lambda J: J.jit(lambda t, x: x * len(t))({}, X),
    "adam": adam,
    "global norm": lambda J: J.np.sqrt(
        sum([(x**2).sum() for x in J.tree.leaves({"a": X, "b": M})])),
    "zeros like": lambda J: J.tree.map(J.np.zeros_like, {"a": X, "b": M}),
    "stack of trees": lambda J: J.tree.map(
        lambda *xs: J.np.stack(xs), *[{"a": X + k, "b": M * k} for k in range(3)]),
}  # fmt: skip
