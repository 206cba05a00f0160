"""The statements of random in-place programs; see inplace_programs.py."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import fgrad
import fgrad.numpy as fnp
from fgrad import lax
from fgrad.errors import FgradError
from fgrad.trace import Tracer

LARGEST = 1e3


class Program(NamedTuple):
    """The text of a function of (x, m, n, z), and where it is evaluated."""

    name: str
    text: str
    function: Callable[..., Any]
    args: tuple[np.ndarray, ...]  # x: (4,), m: (2, 3), both float64; n: (3,) int64; z: (3,) complex


class Inner:
    """Functions that are transformed inside of a program; on plain arrays, they are just called."""

    @staticmethod
    def call(kind: str, function: Callable[..., Any], given: Any) -> Any:
        """`function(w)`, through a transform that does not change its value."""
        w: Any = given
        if not isinstance(given, Tracer):
            return function(w.copy() if w.shape else w)
        if kind == "vjp":
            return fgrad.vjp(function, w)[0]
        if kind == "jvp":
            return fgrad.jvp(function, (w,), (w * 0.5,))[0]
        if kind == "vmap":
            return fgrad.vmap(function)(np.stack([w, w * 0.5]))[0]
        if kind == "checkpoint":
            return fgrad.checkpoint(function)(w)
        if kind == "jit":
            return fgrad.jit(function)(w)
        if kind == "scan":
            return lax.scan(lambda c, e: (c, function(e)), 0.0, np.stack([w, w]))[1][1]
        assert kind == "custom"
        rule = fgrad.custom_jvp(function)
        rule.defjvp(lambda primals, tangents: fgrad.jvp(function, primals, tangents))
        return rule(w)


KINDS = ("vjp", "jvp", "vmap", "checkpoint", "jit", "scan", "custom")


class Writer:
    """Writes one program: a statement that fails on plain arrays is dropped."""

    def __init__(self, seed: int, number: int) -> None:
        self.rng = np.random.default_rng([seed, number])
        self.args = arguments(self.rng)
        copies = [a.copy() for a in self.args]
        self.env: dict[str, Any] = dict(zip("xmnz", copies, strict=True))
        self.scope: dict[str, Any] = {"np": np, "fnp": fnp, "call": Inner.call}
        self.lines: list[str] = []
        self.count = 0

    # choices

    def pick(self, options: Any) -> Any:
        """One of some options."""
        return options[int(self.rng.integers(len(options)))]

    def chance(self, p: float) -> bool:
        """True, once in 1 / p times."""
        return bool(self.rng.random() < p)

    def name(self, keep: Callable[[np.ndarray], bool] = lambda a: True) -> str:
        """A variable whose array has a property; recent ones more often."""
        found = [k for k, v in self.env.items() if isinstance(v, np.ndarray) and keep(v)]
        if not found:
            raise NotImplementedError
        return found[-1] if self.chance(0.4) else self.pick(found)

    def new(self) -> str:
        """A new variable, or now and then one that is bound anew."""
        if self.count > 2 and self.chance(0.1):
            return f"v{int(self.rng.integers(self.count))}"
        self.count += 1
        return f"v{self.count - 1}"

    # expressions

    def number(self) -> str:
        """A constant, or an element that is traced."""
        if self.chance(0.5):
            return self.pick(("0.5", "-1.25", "2", "0.0", "np.float64(0.75)"))
        return self.pick(("x[0]", "x[-1]", "m[1, 2]", "x[2] * 0.5", "np.sum(x)", "m[0, 0] + 1"))

    def slice_of(self, n: int) -> str:
        """A slice of an axis."""
        low = self.pick(("", "", "1", "0", "-2", str(n)))
        high = self.pick(("", "", "-1", str(n), "2", "0"))
        step = self.pick(("", "", ":2", ":-1", ":-2"))
        return f"{low}:{high}{step}"

    def index(self, shape: tuple[int, ...], basic: bool = False) -> str:
        """An index of an array of a shape."""
        if self.chance(0.08):
            return self.pick(("...", ":", "()"))
        parts = []
        for n in shape[: int(self.rng.integers(1, len(shape) + 1)) if shape else 0]:
            kind = self.rng.random()
            if n and kind < 0.2:
                parts.append(str(int(self.rng.integers(-n, n))))
            elif n and kind < 0.3:  # an integer that is traced gives a view too
                parts.append(f"n[{self.pick((0, 1, -1))}] % {n}")
            elif n and not basic and kind < 0.4:
                parts.append(self.pick((f"[0, {n - 1}]", f"np.array([{n - 1}, 0])", "[-1]")))
            else:
                parts.append(self.slice_of(n))
        if self.chance(0.15):
            parts.insert(int(self.rng.integers(len(parts) + 1)), self.pick(("...", "None")))
        return ", ".join(parts) or "..."

    def value(self, shape: tuple[int, ...], depth: int = 0) -> str:
        """An expression that broadcasts to a shape."""
        if depth > 1 or self.chance(0.2):
            return self.number()

        def fits(a: np.ndarray) -> bool:
            try:
                return np.broadcast_shapes(a.shape, shape) == shape and a.dtype.kind in "fi"
            except ValueError:
                return False

        try:
            v = self.name(fits)
        except NotImplementedError:
            return self.number()
        kind = self.rng.random()
        if kind < 0.45:
            return v
        if kind < 0.6:
            return f"np.sin({v})"
        if kind < 0.7:
            return f"{v}.copy()"
        other = self.value(shape, depth + 1)
        return f"{v} * 0.5 {self.pick(('+', '-', '*'))} {other}"

    def shape_like(self, a: np.ndarray) -> str:
        """Another shape of as many elements."""
        n = a.size
        options = ["-1", f"({n},)", "(-1, 1)", "(1, -1)"]
        options += [f"({k}, {n // k})" for k in (2, 3, 4) if n % k == 0]
        options += ["()"] if n == 1 else []
        return self.pick(options)

    def mask(self, v: str) -> str:
        """A condition of the shape of a variable."""
        if self.env[v].dtype.kind == "c":
            return f"{v}.real > 0.1"
        return self.pick((f"{v} > 0.3", f"{v} < 1", f"np.abs({v}) > 0.4"))

    # statements

    def view(self) -> str:
        """A statement that makes a view, or what looks like one."""
        v, new = self.name(), self.new()
        a = self.env[v]
        options = [
            f"{v}[{self.index(a.shape, basic=True)}]",
            f"{v}[{self.index(a.shape, basic=True)}]",
            f"{v}.T",
            f"{v}.reshape({self.shape_like(a)})",
            f"{v}.reshape({self.shape_like(a)}, order={self.pick('CFA')!r})",
            f"{v}.ravel()",
            f"{v}.ravel({self.pick('CFAK')!r})",
            f"np.ravel({v})",
            f"np.reshape({v}, {self.shape_like(a)})",
            f"np.flip({v})",
            f"np.squeeze({v})",
            f"np.expand_dims({v}, 0)",
            f"np.atleast_2d({v})",
            f"fnp.asarray({v})",
            f"fnp.asfortranarray({v})",
            f"np.broadcast_arrays({v}, {v})[1]",
            f"{v}.conj()",
            f"{v}.astype({v}.dtype, copy=False)",
            f"{v}.view()",
            f"{v}[..., 0]",
            f"{v}.real",
            f"np.diagonal({v})",
            f"np.broadcast_to({v}, (2, *{v}.shape))",
            f"np.split({v}, [1])[{self.pick((0, 1))}]",
            f"np.swapaxes({v}, 0, -1)",
            f"np.moveaxis({v}, 0, -1)",
            f"np.rot90({v}, {self.pick((1, 2, 3))})",
            f"{v}.flat[1:3]",
            f"next(iter({v}))",
            f"{v}.squeeze()",
            f"{v}.transpose()",
            f"np.diag({v})",
            f"np.einsum('ij->ji', {v})",
        ]
        if a.dtype.kind == "c":
            options += [f"{v}.imag", f"np.real({v})", f"{v}.imag"]
        return f"{new} = {self.pick(options)}"

    def copied(self) -> str:
        """A statement that makes a new array."""
        v, new = self.name(), self.new()
        a = self.env[v]
        return f"{new} = " + self.pick(
            (
                f"{v}.copy()", f"np.copy({v})", f"fnp.array({v})", f"+{v}", f"{v} * 1.5",
                f"np.sin({v})", f"{v}.flatten()", f"{v}.astype({v}.dtype)", f"np.roll({v}, 0)",
                f"fnp.zeros_like({v})", f"np.ones_like({v})", "fnp.zeros(4)", "fnp.ones((2, 3))",
                f"np.concatenate([{v}, {v}])", f"{v}[[0]]", f"np.positive({v})", f"{v} + {v}",
                f"np.where({self.mask(v)}, {v}, 0.5)", f"np.sort({v})", f"{v}.flatten('F')",
                f"np.round({v}, 12)" if a.dtype.kind == "i" else f"np.tanh({v})",
                f"{v}.T.copy()", f"{v}.T * 2", f"np.sum({v}, 0)", f"fnp.array({v}, copy=True)",
                f"fnp.ascontiguousarray({v})", f"{v}.conj()", f"np.full_like({v}, x[1])",
                f"np.broadcast_to({v}, (2, *{v}.shape)).copy()", f"np.full_like({v}, 0.25)",
                f"np.zeros_like({v}.T)", f"{v}.astype(np.float32)",
            )
        )  # fmt: skip

    def write(self) -> str:
        """A statement that writes by an index or an operator."""
        v = self.name()
        a = self.env[v]
        i = self.index(a.shape)
        part = a[eval(f"np.index_exp[{i}]", {"np": np, "n": self.env["n"]})] if a.shape else a
        value = self.value(np.shape(part))
        op = self.pick(("=", "=", "+=", "*=", "-="))
        kind = self.rng.random()
        if kind < 0.45:
            return f"{v}[{i}] {op} {value}"
        if kind < 0.6:
            return f"{v} {self.pick(('+=', '*=', '-='))} {self.value(a.shape)}"
        if kind < 0.75:
            return f"{v}[...] = {self.value(a.shape)}"
        if kind < 0.85:
            return f"{v}[{self.mask(v)}] {self.pick(('=', '*=', '+='))} {self.number()}"
        if kind < 0.92:
            return f"{v}[0], {v}[-1] = {v}[-1], {v}[0]"
        return f"for e in {v}: e {self.pick(('+=', '*='))} 0.5"

    def library(self) -> str:
        """A statement that writes through a function of NumPy."""
        v = self.name()
        a = self.env[v]
        w, u = self.value(a.shape), self.value(a.shape)
        k = f"[0, {max(len(a) - 1, 0)}, 0]" if a.shape else "[0]"
        return self.pick(
            (
                f"np.copyto({v}, {w})", f"np.copyto({v}, {w}, where={self.mask(v)})",
                f"np.copyto({v}, {w}, casting='unsafe')", f"{v}.fill({self.number()})",
                f"np.add({w}, {u}, out={v})", f"np.multiply({w}, {u}, {v})",
                f"np.sin({v}, out={v})", f"np.add({v}, {w}, out={v}, where={self.mask(v)})",
                f"np.add.at({v}, {k}, {self.number()})", f"np.multiply.at({v}, {k}, 0.5)",
                f"np.subtract.at({v}, {k}, {self.number()})", f"np.negative.at({v}, [0])",
                f"np.put({v}, {k}, {w})", f"{v}.put([0, -1], {self.number()})",
                f"np.place({v}, {self.mask(v)}, [0.5, x[1]])",
                f"np.putmask({v}, {self.mask(v)}, {w})",
                f"np.put_along_axis({v}, np.zeros_like({v}, int)[:1], {self.number()}, 0)",
                f"np.fill_diagonal({v}, {self.number()})", f"{v}.sort()", f"{v}.sort(0)",
                f"{v}[..., :3].partition(1)", f"{v}.flat = {self.number()}",
                f"{v}.flat[:] = fnp.array({w})",
                f"{v}.flat[{self.pick(('0', '-1', '1:3', '[0, 1]'))}] = {self.number()}",
                f"np.cumsum({v}, 0, out={v})", f"np.clip({v}, -0.5, 0.9, out={v})",
                f"np.nan_to_num({v}, copy=False)", f"{v}.clip(-0.7, 1.1, out={v})",
                f"{v}.T[...] = {v}.T * 0.5", f"{v}.T.__iadd__({self.number()})",
                f"{v}[::-1][...] = {v}", f"np.copyto({v}, {v}[::-1])", f"{v}[1:] = {v}[:-1]",
                f"{v}[:-1] += {v}[1:]", f"np.add({v}[:-1], {v}[1:], out={v}[1:])",
                f"{v}.real = {w}", f"np.real({v})[...] = {w}",
                f"{v}.reshape(-1)[0] = {self.number()}",
                f"np.add.accumulate({v}, out={v})", f"np.sum({v}, 0, out={v}[0])",
                f"np.maximum({v}, {w}, {v})", f"np.exp(-np.abs({v}), out={v})",
                f"np.square({v}, {v})", f"{v}.ravel()[:2] = {self.number()}",
                # NumPy's diagonal of a part without elements may have a length that is not 0.
                f"np.einsum('ii->i', {v}[:2, :2])[...] = {self.number()}" if a.size else "pass",
            )
        )  # fmt: skip

    def inner(self) -> str:
        """A statement that transforms a function which writes in place."""
        w, v, new = self.name(lambda a: a.dtype.kind == "f"), self.name(), self.new()
        local = self.pick(
            (f"{v}.copy()", f"{v} * 1.0", f"fnp.array({v})", f"np.zeros_like({v})", f"np.sin({v})",
             f"fnp.zeros({self.env[v].shape})", f"{v} + np.sum(w)", f"{v}.T.copy()")
        )  # fmt: skip
        shape = self.env[v].shape
        body = [f"    y = {local}"]
        if self.chance(0.5):
            body.append(f"    s = y[{self.index(shape, basic=True)}]")
        writes = (
            f"y[{self.index(shape)}] = np.sum(w)", "y += np.sum(w)", "y[...] = y * w.flat[0]",
            f"y[{self.index(shape)}] *= x[1]", "np.add.at(y, [0, 0], np.sum(w * w))",
            "y.fill(np.sum(w))", "np.sin(y, out=y)", "y.T[...] = np.sum(w)",
        )  # fmt: skip
        body.append("    " + self.pick(writes))
        if len(body) == 3:
            body.append(self.pick(("    y[...] = y * np.sum(s)", "    s[...] = 0.5", "    s += y")))
        kind = self.pick(KINDS)
        lines = ["def g(w):", *body, "    return y * 1.0", f"{new} = call({kind!r}, g, {w})"]
        return "\n".join(lines)

    def statement(self) -> str:
        """Any statement."""
        kind = self.rng.random()
        if kind < 0.3:
            return self.view()
        if kind < 0.45:
            return self.copied()
        if kind < 0.7:
            return self.write()
        if kind < 0.93:
            return self.library()
        if kind < 0.98:
            return self.inner()
        return f"{self.new()} = {self.name()}"

    def attempt(self) -> None:
        """Add a statement if NumPy takes it."""
        try:
            line = self.statement()
            saved = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in self.env.items()}
            exec(line, self.scope | self.env, found := dict(self.env))
        except (NotImplementedError, ValueError, TypeError, IndexError, StopIteration, FgradError,
                ZeroDivisionError, AttributeError, Warning):  # fmt: skip
            return self.restore()
        del saved
        found = {k: v for k, v in found.items() if k not in ("g", "e")}
        arrays = [v for v in found.values() if isinstance(v, np.ndarray)]
        large = any(a.size > 24 or a.ndim > 4 for a in arrays)
        if large or not all(np.all(np.abs(a) < LARGEST) for a in arrays):
            return self.restore()
        if converts_in_place(line, arrays_of(line, found)):
            return self.restore()
        self.env = found
        self.lines.append(line)
        return None

    def restore(self) -> None:
        """Run the statements so far again: the one that failed may have begun to write."""
        copies = [a.copy() for a in self.args]
        self.env = dict(zip("xmnz", copies, strict=True))
        for line in self.lines:
            exec(line, self.scope | self.env, self.env)
        self.env = {k: v for k, v in self.env.items() if k not in ("g", "e")}


def arrays_of(line: str, env: dict[str, Any]) -> list[np.ndarray]:
    """The arrays that are named in a statement."""
    named = [env.get(name) for name in re.findall(r"\b[a-z]\w*", line)]
    return [a for a in named if isinstance(a, np.ndarray)]


def converts_in_place(line: str, arrays: list[np.ndarray]) -> bool:
    """Whether an assignment converts parts of an array into the same memory: z[...] = z.imag[:1].

    NumPy copies where memory overlaps, but not here: it reads what it has written.
    """
    pairs = [(a, b) for a in arrays for b in arrays if a.dtype != b.dtype]
    writes = "] = " in line or "copyto" in line
    return writes and any([np.may_share_memory(a, b) for a, b in pairs])


def arguments(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Where a program is evaluated."""
    z = rng.uniform(-1, 1, 3) + 1j * rng.uniform(-1, 1, 3)
    return rng.uniform(-1.5, 1.5, 4), rng.uniform(-1.5, 1.5, (2, 3)), rng.integers(-3, 4, 3), z


def program(seed: int, number: int, length: int = 9) -> Program:
    """A random program."""
    writer = Writer(seed, number)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("error")
        for _ in range(int(writer.rng.integers(3, 2 * length))):
            writer.attempt()
    arrays = [k for k, v in writer.env.items() if isinstance(v, np.ndarray) and k != "n"]
    body = [row for line in writer.lines for row in line.split("\n")]
    text = "\n    ".join(["def f(x, m, n, z):", *body, f"return [{', '.join([*arrays, 'n'])}]"])
    scope = dict(writer.scope)
    name = f"{seed}:{number}"
    exec(compile(text, f"<program {name}>", "exec"), scope)
    return Program(name, text, scope["f"], writer.args)
