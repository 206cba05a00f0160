"""L6. Kernels as Python: the source of Numba CUDA kernels, to read, and for Numba's simulator.

    print(source_of(kernel))                         one function for each piece
    NUMBA_ENABLE_CUDASIM=1 python -m pdb debug.py    breakpoints and prints inside of kernels

Each thread runs one iteration of the outer parallel loops, alone: what the compiled kernels do with
teams, tiles and vectors is left out, the arithmetic is the same.  `FGRAD_SHOW=cuda` prints it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fgrad.compile.kernel.ir import (
    Affine,
    Break,
    Const,
    Index,
    Init,
    Kernel,
    Load,
    Loop,
    Op,
    Read,
    Ref,
    Store,
    Update,
)
from fgrad.compile.kernel.rewrite import Body
from fgrad.lower_cuda.emit.forms import Piece, pieces

HEAD = "import math\n\nimport numpy as np\nfrom numba import cuda"
_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|", "xor": "^",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip
_NUMPY = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2",
    "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "max": "maximum", "min": "minimum",
    "not": "invert", "neg": "negative", "pow": "power", "shift_left": "left_shift",
    "shift_right": "right_shift",
}  # fmt: skip
_SPECIAL: dict[str, str] = {
    "muladd": "{0} * {1} + {2}",
    "select": "{1} if {0} else {2}",
    "convert": "{0}",
    "bitcast": "{0}.view(np.{dtype})",
    "logistic": "1 / (1 + np.exp(-{0}))",
    **{
        f"{name}_fits": f"-2**({{bits}} - 1) <= int({{0}}) {op} int({{1}}) < 2**({{bits}} - 1)"
        for name, op in (("add", "+"), ("sub", "-"), ("mul", "*"))
    },
    "mulhi": "(int({0}) * int({1})) >> {bits}",
    "erf": "math.erf({0})",
    "erfc": "math.erfc({0})",
    "lgamma": "math.lgamma({0})",
}


def source_of(kernel: Kernel) -> str:
    """The source of a scheduled kernel.

    Raises:
        NotImplementedError: an operation has no form in Python.
    """
    parts = [HEAD, *["\n".join(_piece(p, k)) for k, p in enumerate(pieces(kernel))]]
    return "\n\n".join(parts) + "\n"


def items_of(kernel: Kernel) -> list[tuple[str, int, list[str]]]:
    """The functions of a kernel's source: names, threads, and buffers in the order of arguments."""
    return [
        (f"{kernel.name}_{k}", math.prod([n for _, n in p.axes]), _buffers(p))
        for k, p in enumerate(pieces(kernel))
    ]


def _buffers(piece: Piece) -> list[str]:
    return [b.name for b in piece.kernel.buffers if b.role != "scratch"]


def _piece(piece: Piece, number: int) -> Iterator[str]:
    kernel = piece.kernel
    yield "@cuda.jit"
    yield f"def {kernel.name}_{number}({', '.join(_buffers(piece))}):"
    items = math.prod([extent for _, extent in piece.axes])
    yield "    item = cuda.grid(1)"
    yield f"    if item >= {items}:"
    yield "        return"
    rest = "item"
    for k, (axis, extent) in reversed(list(enumerate(piece.axes))):
        yield f"    {axis} = {rest} % {extent}" if k else f"    {axis} = {rest}"
        rest = f"{rest} // {extent}" if rest == "item" else f"({rest}) // {extent}"
    for b in kernel.buffers:
        if b.role == "scratch":
            yield f"    {b.name} = cuda.local.array({b.size}, np.{b.dtype.name})"
    writer = _Writer(piece)
    yield from writer.body((*piece.before, *piece.body), 1)


class _Writer:
    """Statements as lines of Python."""

    def __init__(self, piece: Piece) -> None:
        self.buffers = {b.name: b for b in piece.kernel.buffers}
        self.accs: dict[str, Init] = {}

    def body(self, body: Body, depth: int) -> Iterator[str]:
        """The lines of some statements."""
        for s in body:
            if isinstance(s, Loop):
                yield from self.loop(s, depth)
            else:
                yield "    " * depth + _WRITERS[type(s)](self, s)

    def loop(self, s: Loop, depth: int) -> Iterator[str]:
        """A loop and what is inside."""
        head = "while True:" if s.kind == "while" else f"for {s.axis} in range({s.extent}):"
        yield "    " * depth + head
        yield from self.body(s.body, depth + 1)

    def const(self, s: Const) -> str:
        """A number."""
        return f"v{s.id} = {_number(s.value, s.dtype)}"

    def index(self, s: Index) -> str:
        """The value of an affine map."""
        return f"v{s.id} = np.{s.dtype.name}({_affine(s.index)})"

    def place(self, s: Load | Store) -> str:
        """An element of a buffer."""
        indirect = s.gather if isinstance(s, Load) else s.scatter
        terms = [f"{stride} * v{v}" if stride != 1 else f"v{v}" for v, stride in indirect]
        return f"{s.buffer}[{' + '.join([_affine(s.index), *terms])}]"

    def load(self, s: Load) -> str:
        """Memory read."""
        if s.predicate is None:
            return f"v{s.id} = {self.place(s)}"
        other = _number(s.other, self.buffers[s.buffer].dtype)
        return f"v{s.id} = {self.place(s)} if v{s.predicate} else {other}"

    def op(self, s: Op) -> str:
        """A scalar operation."""
        args = [f"v{a}" for a in s.args]
        if s.op in _SPECIAL:
            text = _SPECIAL[s.op].format(*args, dtype=s.dtype.name, bits=8 * s.dtype.itemsize)
        elif s.op in _INFIX:
            text = f" {_INFIX[s.op]} ".join(args)
        elif hasattr(np, _NUMPY.get(s.op, s.op)):
            text = f"np.{_NUMPY.get(s.op, s.op)}({', '.join(args)})"
        else:
            raise NotImplementedError(f"{s.op} has no form in Python.")
        return f"v{s.id} = np.{_name(s.dtype)}({text})"

    def init(self, s: Init) -> str:
        """A new accumulator."""
        self.accs[s.acc] = s
        start = f"v{s.start.id}" if isinstance(s.start, Ref) else _number(s.start, s.dtype)
        return f"{s.acc} = {start}"

    def update(self, s: Update) -> str:
        """A contribution to an accumulator."""
        return f"{s.acc} = {_joined(self.accs[s.acc].op, s.acc, f'v{s.value}')}"

    def store(self, s: Store) -> str:
        """Memory written."""
        place, value = self.place(s), f"v{s.value}"
        value = value if s.mode == "set" else _joined(s.mode, place, value)
        return (
            f"{place} = {value}" if s.predicate is None else f"if v{s.predicate}: {place} = {value}"
        )


def _joined(op: str, a: str, b: str) -> str:
    if op == "carry":
        return b
    return f"{a} {_INFIX[op]} {b}" if op in _INFIX else f"np.{_NUMPY[op]}({a}, {b})"


def _affine(index: Affine) -> str:
    terms = [f"{stride} * {axis}" if stride != 1 else axis for axis, stride in index.terms]
    return " + ".join(terms + ([str(index.const)] if index.const or not terms else []))


def _name(dtype: np.dtype) -> str:
    return "bool_" if dtype.kind == "b" else dtype.name


def _number(value: object, dtype: np.dtype) -> str:
    text = repr(np.asarray(value).astype(dtype).item())
    text = {"inf": "np.inf", "-inf": "-np.inf", "nan": "np.nan"}.get(text, text)
    return f"np.{_name(dtype)}({text})"


_WRITERS: dict[type, Callable[[_Writer, Any], str]] = {
    Const: _Writer.const,
    Index: _Writer.index,
    Load: _Writer.load,
    Op: _Writer.op,
    Init: _Writer.init,
    Read: lambda w, s: f"v{s.id} = {s.acc}",
    Update: _Writer.update,
    Store: _Writer.store,
    Break: lambda w, s: f"if v{s.value}: break",
}
