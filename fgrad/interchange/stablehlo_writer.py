"""L7. StableHLO text: programs as functions, equations as lines, types and constants.

Each equation is written by its rule, see stablehlo_rules.py; regions of loops and branches
read the values around them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.interchange.traced import Format, no_form, no_such_numbers, prepared
from fgrad.ir.aval import INT64, is_bfloat16, is_stored
from fgrad.ir.program import Atom, Eqn, Lit, Program, Var

SHOWN = 16  # elements of a constant that are written as numbers; of others their bytes are


class Ref(NamedTuple):
    """A value of the text: its name and its type."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def type(self) -> str:
        """The type as text."""
        return tensor(self.shape, self.dtype)


Rule = Callable[["Writer", Eqn, list[Ref]], "Ref | list[Ref]"]


def element(dtype: np.dtype) -> str:
    """The type of one element: f64, ui8, complex<f32>."""
    if is_bfloat16(dtype):
        return "bf16"
    bits = dtype.itemsize * 8
    if dtype.kind == "c":
        return f"complex<f{bits // 2}>"
    return "i1" if dtype.kind == "b" else f"{ {'i': 'i', 'u': 'ui', 'f': 'f'}[dtype.kind] }{bits}"


def tensor(shape: Sequence[int], dtype: np.dtype) -> str:
    """The type of an array."""
    return f"tensor<{''.join([f'{n}x' for n in shape])}{element(dtype)}>"


def number(x: np.generic) -> str:
    """One number; of floats that no decimal is, the bits."""
    dtype = x.dtype
    if dtype.kind == "c":
        return f"({number(x.real)}, {number(x.imag)})"
    if dtype.kind in "biu":
        return str(x.item()).lower()
    value = float(x)
    if not math.isfinite(value):
        word = np.array(x).view(f"u{dtype.itemsize}").item()
        return f"0x{word:0{2 * dtype.itemsize}X}"
    text = repr(value)
    mantissa, mark, exponent = text.partition("e")
    return text if "." in mantissa else f"{mantissa}.0{mark}{exponent}"


def dense(x: np.ndarray) -> str:
    """The elements of a constant."""
    if x.size and (x.size <= SHOWN or x.dtype.kind == "b"):
        return f"dense<{_nested(x)}>"
    little = x if x.dtype.kind == "V" else x.astype(x.dtype.newbyteorder("<"))
    return f'dense<"0x{little.tobytes().hex().upper()}">' if x.size else "dense<>"


def _nested(x: np.ndarray) -> str:
    if not x.shape:
        return number(x[()])  # type: ignore[arg-type]
    return f"[{', '.join([_nested(np.asarray(row)) for row in x])}]"


class Writer:
    """The lines of a module, and the names of what was written."""

    def __init__(self, form: Format, rules: Mapping[str, Rule]) -> None:
        self.form, self.rules = form, rules
        self.lines: list[str] = []
        self.depth = 0
        self.count = 0
        self.literals: list[dict[str, Ref]] = []  # of each open region

    def module(self, program: Program) -> str:
        """The module of a program, whose function is `main`."""
        name = re.sub(r"\W", "_", program.name) or "program"
        inputs = [Ref(f"%arg{k}", v.aval.shape, v.aval.dtype) for k, v in enumerate(program.inputs)]
        taken = ", ".join([f"{r.name}: {r.type}" for r in inputs])
        given = [tensor(a.shape, a.dtype) for a in program.out_avals]
        self.line(f"module @{name} {{")
        self.depth = 1
        self.line(f"func.func public @main({taken}) -> ({', '.join(given)}) {{")
        self.region(program, inputs, "return")
        self.line("}")
        self.depth = 0
        self.line("}")
        return "\n".join(self.lines)

    def line(self, text: str) -> None:
        """One line, indented."""
        self.lines.append("  " * self.depth + text)

    def fresh(self) -> str:
        """A new name."""
        self.count += 1
        return f"%{self.count - 1}"

    def region(self, program: Program, inputs: Sequence[Ref], end: str) -> None:
        """The equations of a program, and the operation that ends it."""
        self.opened()
        self.ended(end, self.inlined(program, inputs))
        self.closed()

    def ended(self, end: str, outs: Sequence[Ref]) -> None:
        """The operation that ends a region, with its results."""
        types = ", ".join([r.type for r in outs])
        self.line(f"{end} {', '.join([r.name for r in outs])} : {types}" if outs else end)

    def opened(self) -> None:
        """A region begins."""
        self.depth += 1
        self.literals.append({})

    def closed(self) -> None:
        """A region ends."""
        self.depth -= 1
        self.literals.pop()

    def inlined(self, program: Program, inputs: Sequence[Ref]) -> list[Ref]:
        """The equations of a program, and its results."""
        env: dict[Var, Ref] = dict(zip(program.inputs, inputs, strict=True))
        for var in (*program.inputs, *[v for v, _ in program.consts]):
            if is_stored(var.aval.dtype):
                raise no_such_numbers(self.form, var.aval.dtype)
        for var, array in program.consts:
            env[var] = self.constant(array)
        for eqn in program.eqns:
            self.checked(eqn)
            rule = self.rules.get(eqn.prim.name)
            if rule is None:
                raise no_form(self.form, eqn)
            found = rule(self, eqn, [self.ref(a, env) for a in eqn.inputs])
            outs = [found] if isinstance(found, Ref) else found
            env.update(zip(eqn.outputs, outs, strict=True))
        return [self.ref(a, env) for a in program.outputs]

    def body(self, program: Program, inputs: Sequence[Ref]) -> list[Ref]:
        """The results of the program of a loop or branch, within a region that is open."""
        return self.inlined(prepared(program, self.form), inputs)

    def checked(self, eqn: Eqn) -> None:
        """An error if the format has no such numbers."""
        for atom in (*eqn.inputs, *eqn.outputs):
            if is_stored(atom.aval.dtype):
                raise no_form(self.form, eqn, f"there are no numbers of dtype {atom.aval.dtype}.")

    def ref(self, atom: Atom, env: dict[Var, Ref]) -> Ref:
        """The value of an operand."""
        return self.constant(np.asarray(atom.value)) if isinstance(atom, Lit) else env[atom]

    def constant(self, x: np.ndarray) -> Ref:
        """A constant; a number is written once in a region."""
        text = f"stablehlo.constant {dense(x)} : {tensor(x.shape, x.dtype)}"
        return self.once(text, x.shape, x.dtype)

    def once(self, text: str, shape: tuple[int, ...], dtype: np.dtype) -> Ref:
        """An operation that is written once in a region and those within it."""
        for known in self.literals:
            if text in known:
                return known[text]
        ref = Ref(self.fresh(), shape, dtype)
        self.line(f"{ref.name} = {text}")
        self.literals[-1][text] = ref
        return ref

    def scalar(self, value: object, dtype: np.dtype) -> Ref:
        """A number of a dtype."""
        return self.constant(np.asarray(value, dtype))

    # Operations.

    def op(self, name: str, operands: Sequence[Ref], shape: Sequence[int], dtype: np.dtype,
           attributes: str = "") -> Ref:  # fmt: skip
        """An operation of one result."""
        out = Ref(self.fresh(), tuple(shape), dtype)
        names = ", ".join([r.name for r in operands])
        types = {*[r.type for r in operands], out.type}
        given = ", ".join([r.type for r in operands])
        shown = f"{given} -> {out.type}" if name.startswith("chlo.") else f"({given}) -> {out.type}"
        short = len(types) == 1 and not attributes and not name.startswith("chlo.")
        self.line(f"{out.name} = {name} {names}{attributes} : {out.type if short else shown}")
        return out

    def hlo(self, name: str, *operands: Ref) -> Ref:
        """An elementwise operation: operands and result have one type, numbers being repeated."""
        shape = max([r.shape for r in operands], key=len)
        given = [self.wide(r, shape) for r in operands]
        return self.op(name, given, shape, given[0].dtype)

    def wide(self, x: Ref, shape: tuple[int, ...]) -> Ref:
        """A value of a shape; a number is repeated."""
        if x.shape == shape:
            return x
        wide = tensor(shape, x.dtype)
        text = f"stablehlo.broadcast_in_dim {x.name}, dims = [] : ({x.type}) -> {wide}"
        return self.once(text, shape, x.dtype)

    def broadcast(self, x: Ref, shape: tuple[int, ...], dims: Sequence[int]) -> Ref:
        """A value repeated along new axes."""
        return self.op("stablehlo.broadcast_in_dim", [x], shape, x.dtype, f", dims = {list(dims)}")

    def compare(self, how: str, x: Ref, y: Ref) -> Ref:
        """Truth values of a comparison."""
        shape = max(x.shape, y.shape, key=len)
        given = [self.wide(x, shape), self.wide(y, shape)]
        out = Ref(self.fresh(), shape, np.dtype(bool))
        names, types = ", ".join([r.name for r in given]), ", ".join([r.type for r in given])
        self.line(f"{out.name} = stablehlo.compare {how}, {names} : ({types}) -> {out.type}")
        return out

    def select(self, cond: Ref, x: Ref, y: Ref) -> Ref:
        """x where cond, else y."""
        shape = max(cond.shape, x.shape, y.shape, key=len)
        given = [self.wide(v, shape) for v in (cond, x, y)]
        out = Ref(self.fresh(), shape, x.dtype)
        names = ", ".join([r.name for r in given])
        self.line(f"{out.name} = stablehlo.select {names} : {given[0].type}, {out.type}")
        return out

    def convert(self, x: Ref, dtype: np.dtype) -> Ref:
        """Numbers of another dtype."""
        return x if x.dtype == dtype else self.op("stablehlo.convert", [x], x.shape, dtype)

    def reshape(self, x: Ref, shape: Sequence[int]) -> Ref:
        """The same elements in another shape."""
        same = x.shape == tuple(shape)
        return x if same else self.op("stablehlo.reshape", [x], shape, x.dtype)

    def transpose(self, x: Ref, axes: Sequence[int]) -> Ref:
        """The axes in another order."""
        shape = [x.shape[a] for a in axes]
        return self.op("stablehlo.transpose", [x], shape, x.dtype, f", dims = {list(axes)}")

    def iota(self, shape: Sequence[int], axis: int, dtype: np.dtype = INT64) -> Ref:
        """The place along an axis."""
        out = Ref(self.fresh(), tuple(shape), dtype)
        self.line(f"{out.name} = stablehlo.iota dim = {axis} : {out.type}")
        return out

    def called(
        self, name: str, operands: Sequence[Ref], shape: Sequence[int], dtype: np.dtype, how: str
    ) -> Ref:
        """An operation whose operands stand in brackets."""
        out = Ref(self.fresh(), tuple(shape), dtype)
        names = ", ".join([r.name for r in operands])
        types = ", ".join([r.type for r in operands])
        self.line(f"{out.name} = {name}({names}){how} : ({types}) -> {out.type}")
        return out

    def generic(
        self,
        name: str,
        operands: Sequence[Ref],
        results: Sequence[tuple[Sequence[int], np.dtype]],
        how: str = "",
        regions: Sequence[Callable[[], Sequence[Ref]]] = (),
        arguments: Sequence[Ref] = (),
    ) -> list[Ref]:
        """An operation in the form that all have; its regions take `arguments`."""
        out = self.fresh()
        refs = [Ref(f"{out}#{k}", tuple(shape), dtype) for k, (shape, dtype) in enumerate(results)]
        if len(refs) == 1:
            refs = [refs[0]._replace(name=out)]
        names = ", ".join([r.name for r in operands])
        types = ", ".join([r.type for r in operands])
        outs = ", ".join([r.type for r in refs])
        count = f":{len(refs)}" if len(refs) > 1 else ""
        head = f'{out}{count} = "{name}"({names})' + (f" <{{{how}}}>" if how else "")
        if not regions:
            self.line(f"{head} : ({types}) -> ({outs})")
            return refs
        self.line(f"{head} ({{")
        for k, region in enumerate(regions):
            if k:
                self.line("}, {")
            self.opened()
            if arguments:
                given = ", ".join([f"{r.name}: {r.type}" for r in arguments])
                self.line(f"^bb0({given}):")
            self.ended("stablehlo.return", region())
            self.closed()
        self.line(f"}}) : ({types}) -> ({outs})")
        return refs
