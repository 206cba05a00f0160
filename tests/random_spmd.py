"""Random programs over named axes, run in two ways that share no rule of collectives.

`Lanes` runs the program of one place, by `lax.psum` and the like, under nested named `vmap`s.
`Whole` runs it on arrays with the named axes in front, in NumPy: a sum over an axis is `np.sum`,
and an axis along which a value does not vary has length 1 there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import fgrad
from fgrad import lax

WIDTH = 3  # of each register
STEPS = 3  # of loops
SIZES = {"a": 2, "b": 3}

Body = Callable[[Any], Any]


@fgrad.custom_vjp
def scaled(x: Any, w: Any) -> Any:
    """A rule that knows nothing of axes."""
    return np.sin(x) * w


scaled.defvjp(
    lambda x, w: (np.sin(x) * w, (x, w)),
    lambda res, ct: (ct * np.cos(res[0]) * res[1], ct * np.sin(res[0])),
)


@fgrad.custom_jvp
def bent(x: Any, w: Any) -> Any:
    return np.tanh(x * w)


@bent.defjvp
def _(primals: Any, tangents: Any) -> Any:
    (x, w), (s, t) = primals, tangents
    y = np.tanh(x * w)
    return y, (1.0 - y * y) * (s * w + x * t)


def quotient(a: Any, b: Any) -> Any:
    """b / (2 + tanh(a) / 2), as the solution of a linear equation."""
    a = 2.0 + 0.5 * np.tanh(a)

    def solve(matvec: Body, y: Any) -> Any:
        return y / matvec(np.ones(WIDTH))

    return lax.custom_linear_solve(lambda v: a * v, b, solve, solve)


class Lanes:
    """The program of one place."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)

    def varies(self, x: Any) -> frozenset[str]:
        return getattr(getattr(x, "aval", None), "varies", frozenset())

    def psum(self, x: Any, name: str) -> Any:
        return lax.psum(x, name) if name in self.varies(x) else x

    def pmean(self, x: Any, name: str) -> Any:
        return lax.pmean(x, name)

    def extremum(self, x: Any, name: str, largest: bool) -> Any:
        return lax.pmax(x, name) if largest else lax.pmin(x, name)

    def gathered(self, x: Any, name: str, weights: np.ndarray) -> Any:
        return np.tensordot(weights, lax.all_gather(x, name), 1)

    def gathered_tiled(self, x: Any, name: str, weights: np.ndarray) -> Any:
        whole = lax.all_gather(x, name, tiled=True)
        return np.sum(whole.reshape(SIZES[name], WIDTH) * weights[:, None], 0)

    def scattered(self, x: Any, name: str, weights: np.ndarray) -> Any:
        return lax.psum_scatter(lax.pvary(x * weights[:, None], name), name)

    def exchanged(self, x: Any, name: str, weights: np.ndarray) -> Any:
        return np.sum(lax.all_to_all(x * weights[:, None], name, 0, 0) * weights[:, None] ** 2, 0)

    def permuted(self, x: Any, name: str, perm: Sequence[tuple[int, int]]) -> Any:
        return lax.ppermute(x, name, perm)

    def broadcast(self, x: Any, name: str, root: int) -> Any:
        return lax.pbroadcast(lax.pvary(x, name), name, root)

    def placed(self, x: Any, name: str) -> Any:
        return x * (1.0 + 0.1 * lax.axis_index(name))

    def total(self, x: Any) -> Any:
        """The sum of all elements at this place."""
        return np.sum(x)

    def scan(self, body: Callable[[Any, Any], Any], init: Any, x: Any) -> Any:
        xs = np.stack([x * c for c in _factors()])
        last, ys = lax.scan(lambda c, x: (body(c, x),) * 2, init, xs)
        return last + np.sum(ys, 0)

    def fori(self, body: Body, init: Any) -> Any:
        return lax.fori_loop(0, STEPS, lambda _, c: body(c), init)

    def python_loop(self, body: Body, init: Any) -> Any:
        init = lax.pvary(init, self.names)  # a loop that is written out has no fixed point
        for _ in range(STEPS + 4):
            init = body(init) + 0.1 * init
        return init

    def while_(self, body: Body, init: Any, bound: Any) -> Any:
        """While a bound, which doubles, is below 4."""
        return lax.while_loop(
            lambda s: s[0] < 4.0, lambda s: (2.0 * s[0], body(s[1])), (bound, init)
        )[1]

    def cond(self, test: Any, one: Body, two: Body, x: Any) -> Any:
        return lax.cond(test > 0.0, one, two, x)

    def grad(self, body: Body, x: Any) -> Any:
        def loss(x: Any) -> Any:
            found = np.sum(body(x))
            for name in sorted(self.varies(found) - self.varies(x)):
                found = lax.psum(found, name)
            return found

        return fgrad.grad(loss)(x)

    def jvp(self, body: Body, x: Any) -> Any:
        return fgrad.jvp(body, (x,), (np.cos(x),))[1]

    def held(self, how: str, body: Body, x: Any) -> Any:
        return {"jit": fgrad.jit, "checkpoint": fgrad.checkpoint}[how](body)(x)

    def inner(self, body: Body, x: Any, chunk: int | None = None) -> Any:
        """The same under a vmap without a name."""
        return np.sum(fgrad.vmap(body, chunk_size=chunk)(np.stack([x, 0.5 * x])), 0)

    def quotient(self, a: Any, b: Any) -> Any:
        return quotient(a, b)

    def summed_square(self, x: Any, name: str) -> Any:
        """A rule that knows of axes."""
        return _summed_square(name)(lax.pvary(x, name))


def _summed_square(name: str) -> Any:
    @fgrad.custom_vjp
    def f(x: Any) -> Any:
        return lax.psum(x * x, name)

    f.defvjp(lambda x: (lax.psum(x * x, name), x), lambda x, ct: (2.0 * x * ct,))
    return f


def _factors() -> list[float]:
    return [1.0 - 0.3 * k for k in range(STEPS)]


class Whole:
    """The same on arrays of shape (places along each axis, WIDTH)."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.rank = len(self.names)

    def axis(self, name: str) -> int:
        return self.names.index(name)

    def everywhere(self, x: Any, name: str) -> Any:
        at = self.axis(name)
        shape = (*x.shape[:at], SIZES[name], *x.shape[at + 1 :])
        return np.broadcast_to(x, shape)

    def psum(self, x: Any, name: str) -> Any:
        return np.sum(x, self.axis(name), keepdims=True)

    def pmean(self, x: Any, name: str) -> Any:
        return np.mean(x, self.axis(name), keepdims=True)

    def extremum(self, x: Any, name: str, largest: bool) -> Any:
        return (np.max if largest else np.min)(x, self.axis(name), keepdims=True)

    def _weights(self, weights: np.ndarray, name: str) -> np.ndarray:
        shape = [1] * (self.rank + 1)
        shape[self.axis(name)] = len(weights)
        return weights.reshape(shape)

    def gathered(self, x: Any, name: str, weights: np.ndarray) -> Any:
        x = self.everywhere(x, name) * self._weights(weights, name)
        return np.sum(x, self.axis(name), keepdims=True)

    gathered_tiled = gathered

    def scattered(self, x: Any, name: str, weights: np.ndarray) -> Any:
        total = np.sum(self.everywhere(x, name), self.axis(name), keepdims=True)
        return total * self._weights(weights, name)

    def exchanged(self, x: Any, name: str, weights: np.ndarray) -> Any:
        x = self.everywhere(x, name) * self._weights(weights**2, name)
        return np.sum(x, self.axis(name), keepdims=True) * self._weights(weights, name)

    def permuted(self, x: Any, name: str, perm: Sequence[tuple[int, int]]) -> Any:
        x, at = self.everywhere(x, name), self.axis(name)
        source = {to: start for start, to in perm}
        parts = [np.take(x, [source.get(k, k)], at) * (k in source) for k in range(SIZES[name])]
        return np.concatenate(parts, at)

    def broadcast(self, x: Any, name: str, root: int) -> Any:
        return np.take(self.everywhere(x, name), [root], self.axis(name))

    def placed(self, x: Any, name: str) -> Any:
        return x * self._weights(1.0 + 0.1 * np.arange(SIZES[name]), name)

    def total(self, x: Any) -> Any:
        return np.sum(x, -1, keepdims=True)

    def settled(self, step: Body, init: Any) -> Any:
        """The carry in the shape that it has after some steps."""
        while True:
            wide = np.broadcast_shapes(step(init).shape, init.shape)
            if wide == tuple(init.shape):
                return init
            init = np.broadcast_to(init, wide)

    def scan(self, body: Callable[[Any, Any], Any], init: Any, x: Any) -> Any:
        init = self.settled(lambda c: body(c, x), init)
        shape, ys = init.shape, 0.0
        for factor in _factors():
            init = np.broadcast_to(body(init, x * factor), shape)
            ys = ys + init
        return init + ys

    def fori(self, body: Body, init: Any) -> Any:
        init = self.settled(body, init)
        shape = init.shape
        for _ in range(STEPS):
            init = np.broadcast_to(body(init), shape)
        return init

    def python_loop(self, body: Body, init: Any) -> Any:
        for name in self.names:
            init = self.everywhere(init, name)
        for _ in range(STEPS + 4):
            init = body(init) + 0.1 * init
        return init

    def while_(self, body: Body, init: Any, bound: Any) -> Any:
        init = self.settled(lambda c: body(c) + 0.0 * bound, init)
        for _ in range(12):
            go = bound < 4.0
            init = np.where(go, body(init), init)
            bound = np.where(go, 2.0 * bound, bound)
        return init

    def cond(self, test: Any, one: Body, two: Body, x: Any) -> Any:
        return np.where(test > 0.0, one(x), two(x))

    def grad(self, body: Body, x: Any) -> Any:
        return fgrad.grad(lambda x: np.sum(body(x)))(x)

    def jvp(self, body: Body, x: Any) -> Any:
        return fgrad.jvp(body, (x,), (np.cos(x),))[1]

    def held(self, how: str, body: Body, x: Any) -> Any:
        return body(x)

    def inner(self, body: Body, x: Any, chunk: int | None = None) -> Any:
        return body(x) + body(0.5 * x)

    def quotient(self, a: Any, b: Any) -> Any:
        return b / (2.0 + 0.5 * np.tanh(a))

    def summed_square(self, x: Any, name: str) -> Any:
        x = self.everywhere(x, name)
        return np.sum(x * x, self.axis(name), keepdims=True)


Machine = Any
Instruction = Callable[[Machine, list[Any]], Any]


class Program(NamedTuple):
    """Instructions, each of which adds a register; `text` is how they were drawn."""

    instructions: list[Instruction]
    text: list[str]

    def run(self, m: Machine, registers: Sequence[Any]) -> Any:
        """The last register, bounded."""
        found = list(registers)
        for instruction in self.instructions:
            found.append(instruction(m, found))
        return found[-1]

    def result(self, m: Machine, registers: Sequence[Any]) -> Any:
        """A number that is the same at all places."""
        total = m.total(self.run(m, registers))
        for name in m.names:
            total = m.psum(total, name)
        return total


def bounded(x: Any) -> Any:
    return 1.2 * np.tanh(x)


class Draw:
    """Draws programs."""

    def __init__(self, seed: int, names: Sequence[str], only: Sequence[str] | None = None) -> None:
        self.rng, self.names, self.only = np.random.default_rng(seed), tuple(names), only

    def below(self, n: int) -> int:
        return int(self.rng.integers(n))

    def program(self, registers: int, length: int, depth: int, joins: bool = True) -> Program:
        made, text = [], []
        for k in range(length):
            instruction, word = self._instruction(registers + k, depth, joins)
            made.append(instruction)
            text.append(word)
        return Program(made, text)

    def _instruction(self, count: int, depth: int, joins: bool) -> tuple[Instruction, str]:
        kinds = [self._binary, self._unary, self._rule]
        if joins:
            kinds += [self._collective] * 4
        if depth:
            kinds += [self._loop, self._branch, self._held, self._derivative, self._loop]
        chosen = kinds[self.below(len(kinds))]
        return chosen(count, depth, joins)

    def _last(self, count: int) -> int:
        """A register, mostly a late one."""
        return count - 1 - min(self.below(count), self.below(count))

    def _unary(self, count: int, _depth: int, _joins: bool) -> tuple[Instruction, str]:
        i, f = self._last(count), (np.sin, np.tanh, np.square)[self.below(3)]
        return (lambda m, r: bounded(f(r[i]))), f"{f.__name__} {i}"

    def _binary(self, count: int, _depth: int, _joins: bool) -> tuple[Instruction, str]:
        i, j, k = self._last(count), self.below(count), self.below(4)
        f = (np.add, np.multiply, np.maximum, lambda x, y: np.where(x > y, x, y * y))[k]
        return (lambda m, r: bounded(f(r[i], r[j]))), f"binary{k} {i} {j}"

    def _rule(self, count: int, _depth: int, _joins: bool) -> tuple[Instruction, str]:
        i, j = self._last(count), self.below(count)
        f = (scaled, bent)[self.below(2)]

        def run(m: Machine, r: list[Any]) -> Any:
            if isinstance(m, Whole):
                return np.sin(r[i]) * r[j] if f is scaled else np.tanh(r[i] * r[j])
            return f(r[i], r[j])

        return run, f"{'scaled' if f is scaled else 'bent'} {i} {j}"

    def _collective(self, count: int, _depth: int, _joins: bool) -> tuple[Instruction, str]:
        i, name = self._last(count), self.names[self.below(len(self.names))]
        n = SIZES[name]
        weights = self.rng.normal(size=n)
        whole = [(int(k), int(p)) for k, p in enumerate(self.rng.permutation(n))]
        some = whole[: 1 + self.below(n)]
        root, largest = self.below(n), bool(self.below(2))
        table: dict[str, Instruction] = {
            "psum": lambda m, r: bounded(m.psum(r[i], name)),
            "pmean": lambda m, r: m.pmean(r[i], name),
            "extremum": lambda m, r: m.extremum(r[i], name, largest),
            "gathered": lambda m, r: bounded(m.gathered(r[i], name, weights)),
            "gathered_tiled": lambda m, r: bounded(m.gathered_tiled(r[i], name, weights)),
            "scattered": lambda m, r: bounded(m.scattered(r[i], name, weights)),
            "exchanged": lambda m, r: bounded(m.exchanged(r[i], name, weights)),
            "permuted": lambda m, r: m.permuted(r[i], name, some),
            "broadcast": lambda m, r: m.broadcast(r[i], name, root),
            "placed": lambda m, r: m.placed(r[i], name),
            "summed_square": lambda m, r: bounded(m.summed_square(r[i], name)),
        }
        word = list(table)[self.below(len(table))]
        return table[word], f"{word} {i} over {name}"

    def _body(self, count: int, depth: int, joins: bool, more: int = 1) -> Program:
        return self.program(count + more, 1 + self.below(3), depth - 1, joins)

    def _loop(self, count: int, depth: int, joins: bool) -> tuple[Instruction, str]:
        i, j, kind = self._last(count), self.below(count), self.below(4)
        joined = joins and kind != 3
        inner = self._body(count, depth, joined, 2)

        def run(m: Machine, r: list[Any]) -> Any:
            def body(c: Any, x: Any = 0.3) -> Any:
                return inner.run(m, [*r, x * r[j], c])

            if kind == 0:
                return m.scan(lambda c, x: inner.run(m, [*r, x, c]), r[i], r[j])
            if kind == 1:
                return m.fori(body, r[i])
            if kind == 2:
                return m.python_loop(body, r[i])
            return m.while_(body, r[i], 1.0 + 0.5 * m.total(r[j]) ** 2)

        return run, f"{('scan', 'fori', 'loop', 'while')[kind]} {i} {j} {inner.text}"

    def _branch(self, count: int, depth: int, joins: bool) -> tuple[Instruction, str]:
        i, j = self._last(count), self.below(count)
        same = joins and bool(self.below(2))
        one, two = self._body(count, depth, same), self._body(count, depth, same)

        def run(m: Machine, r: list[Any]) -> Any:
            test = m.total(r[j])
            if same:
                for name in m.names:
                    test = m.pmean(test, name)
            f, g = [lambda x, p=p: p.run(m, [*r, x]) for p in (one, two)]
            return m.cond(test, f, g, r[i])

        return run, f"cond{'' if same else ' varying'} {j} {i} {one.text} {two.text}"

    def _held(self, count: int, depth: int, joins: bool) -> tuple[Instruction, str]:
        hows = ("jit", "checkpoint", "inner", "chunks", "quotient")
        i, j, how = self._last(count), self.below(count), hows[self.below(len(hows))]
        inner = self._body(count, depth, joins)

        def run(m: Machine, r: list[Any]) -> Any:
            def body(x: Any) -> Any:
                return inner.run(m, [*r, x])

            if how in ("inner", "chunks"):
                return m.inner(body, r[i], 1 if how == "chunks" else None)
            return m.quotient(r[j], body(r[i])) if how == "quotient" else m.held(how, body, r[i])

        return run, f"{how} {i} {inner.text}"

    def _derivative(self, count: int, depth: int, joins: bool) -> tuple[Instruction, str]:
        i, how = self._last(count), ("grad", "jvp")[self.below(2)]
        inner = self._body(count, depth, joins and how == "jvp")
        # A gradient communicates, so in a branch that not all take there may be none.
        if how == "grad" and not joins:
            return self._unary(count, depth, joins)

        def run(m: Machine, r: list[Any]) -> Any:
            def body(x: Any) -> Any:
                return inner.run(m, [*r, x])

            return bounded(getattr(m, how)(lambda x: body(x) + 0.1 * x * x, r[i]))

        return run, f"{how} {i} {inner.text}"


class Case(NamedTuple):
    """A program and its inputs: each varies over some of the axes."""

    program: Program
    names: tuple[str, ...]
    axes: list[frozenset[str]]
    inputs: list[np.ndarray]  # with the named axes in front

    def lanes(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        """A function of the registers at one place, mapped over all axes that there are; its
        results have the named axes in front."""
        for name in reversed(self.names):
            at = 0  # of the axes outside of this one, none is left inside
            in_axes = tuple([at if name in a else None for a in self.axes])
            fun = fgrad.vmap(fun, in_axes, axis_size=SIZES[name], axis_name=name)
        return fun

    def given(self) -> list[np.ndarray]:
        """The inputs without the axes along which they do not vary."""
        drop = [tuple(k for k, n in enumerate(self.names) if n not in a) for a in self.axes]
        return [np.squeeze(x, d) for x, d in zip(self.inputs, drop, strict=True)]


def case(seed: int) -> Case:
    """The case of a seed."""
    rng = np.random.default_rng((7, seed))
    names = ("a",) if rng.random() < 0.6 else ("a", "b")
    draw = Draw(seed, names)
    subsets = [frozenset(n for n in names if rng.random() < 0.5) for _ in range(2)]
    axes = [frozenset(names), frozenset(), *subsets]
    inputs = [rng.normal(size=(*[SIZES[n] if n in a else 1 for n in names], WIDTH)) for a in axes]
    length = 2 + draw.below(3)
    return Case(draw.program(len(axes), length, 2), names, axes, inputs)
