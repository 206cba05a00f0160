"""L1. Programs as text and back: `parse_program(print_program(p))` equals `p` up to names.

    program loss(a: f64[6]) -> (f64[]):              # made by trace
      const b: f64[2] = [1.0, 2.0]
      c: f64[6] = sin a                              # model.py:78 (loss)
      d: f64[6] = mul c 2.0                          # model.py:78 (loss)  via jvp
      e: f64[] = reduce_sum[axes=(0,)] d             # model.py:79 (loss)
      return e

A literal has the dtype f64, i64 or bool by its spelling, else it says so: `2.0:f32`.  Programs
among the parameters follow the main one, labelled: `call[program=@1] a` and `program @1 body(...)`.
A size that may change is an expression in braces; `{7}` is read as the seventh of given numbers.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from fgrad.base.digest import digest
from fgrad.base.kinds import is_scalar, is_tuple
from fgrad.base.sizes import Num, Size
from fgrad.ir.aval import DTYPE_NAMES, DTYPES, Aval, dtype_text
from fgrad.ir.primitive import REGISTRY
from fgrad.ir.program import Atom, Eqn, Lit, Params, Program, Var
from fgrad.ir.walk import subprograms

_RESERVED = frozenset({"nan", "inf", "bool", "const", "return", "program"})
_SMALL_CONST = 16
_COMMENT_COLUMN = 48


def names() -> Iterator[str]:
    """a, b, ..., z, aa, ab, ... without the words of the grammar."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    for length in itertools.count(1):
        for word in itertools.product(letters, repeat=length):
            name = "".join(word)
            if name not in _RESERVED:
                yield name


def print_program(program: Program, locs: bool = True) -> str:
    """The program as text, with the user's lines as comments unless `locs` is False."""
    programs = subprograms(program)
    labels = {id(p): f"@{k}" for k, p in enumerate(programs)}
    return "\n".join(_print_one(p, labels, locs, k > 0) for k, p in enumerate(programs))


Program.__str__ = Program.__repr__ = print_program  # type: ignore[assignment,method-assign]


def _print_one(program: Program, labels: dict[int, str], locs: bool, labelled: bool) -> str:
    name = _Names()
    inputs = ", ".join(f"{name[v]}: {v.aval}" for v in program.inputs)
    outs = ", ".join(str(aval) for aval in program.out_avals)
    label = f"{labels[id(program)]} " if labelled else ""
    head = f"program {label}{program.name}({inputs}) -> ({outs}):"
    lines = [_comment(head, f"made by {program.made_by}")]
    lines += [f"  const {name[v]}: {v.aval} = {const_text(x)}" for v, x in program.consts]
    for eqn in program.eqns:
        line = "  " + print_eqn(eqn, name, labels)
        lines.append(_comment(line, _provenance(eqn)) if locs and eqn.loc else line)
    lines.append("  return " + " ".join(_atom(a, name) for a in program.outputs))
    return "\n".join(lines) + "\n"


class _Names(dict[Var, str]):
    """Names variables as they are met."""

    def __init__(self) -> None:
        super().__init__()
        self.fresh = names()

    def __missing__(self, var: Var) -> str:
        self[var] = name = next(self.fresh)
        return name


def _comment(line: str, text: str) -> str:
    return f"{line:<{_COMMENT_COLUMN}} # {text}"


def _provenance(eqn: Eqn) -> str:
    return f"{eqn.loc}" + (f"  via {' '.join(eqn.via)}" if eqn.via else "")


def print_eqn(
    eqn: Eqn, name: dict[Var, str] | None = None, labels: dict[int, str] | None = None
) -> str:
    """One equation as text."""
    name = _Names() if name is None else name
    inputs = "".join(" " + _atom(a, name) for a in eqn.inputs)
    outs = ", ".join(f"{name[v]}: {v.aval}" for v in eqn.outputs)
    shown = " ".join(f"{k}={_value(v, labels or {})}" for k, v in eqn.params.items())
    return f"{outs} = {eqn.prim.name}{f'[{shown}]' if shown else ''}{inputs}"


def _atom(atom: Atom, name: dict[Var, str]) -> str:
    return name[atom] if type(atom) is Var else scalar_text(atom.value)  # type: ignore[index]


def scalar_text(x: np.generic) -> str:
    """A NumPy scalar; its dtype is written unless the spelling implies it."""
    dtype = x.dtype
    if dtype.kind == "f":
        text = str(x) if dtype.itemsize < 8 else repr(float(x))
        text = text if "." in text or "n" in text or "e" in text else text + ".0"
        return text if dtype.itemsize == 8 else f"{text}:{DTYPE_NAMES[dtype.name]}"
    if dtype.kind == "c":
        text = f"({scalar_text(np.float64(x.real))} {scalar_text(np.float64(x.imag))}j)"
        return text if dtype.itemsize == 16 else f"{text}:{DTYPE_NAMES[dtype.name]}"
    text = str(x.item())
    return text if dtype.name in ("int64", "bool") else f"{text}:{DTYPE_NAMES[dtype.name]}"


def const_text(x: np.ndarray) -> str:
    """Small arrays by their numbers in order, others by a digest of their contents."""
    if x.size <= _SMALL_CONST:
        return "[" + " ".join(scalar_text(item) for item in x.ravel()) + "]"
    return const_digest(x)


def const_digest(x: np.ndarray) -> str:
    """The name of an array's contents."""
    head = f"{dtype_text(x.dtype)}{x.shape}".encode()
    return "digest:" + digest(head, np.ascontiguousarray(x).tobytes())[:24]


def _value(value: object, labels: dict[int, str]) -> str:
    if is_tuple(value):
        inner = ", ".join(_value(v, labels) for v in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, Program):
        return labels.get(id(value), f"<program {value.name}>")
    if isinstance(value, np.dtype):
        return DTYPE_NAMES[value.name]
    if is_scalar(value):
        return f"{scalar_text(value)}!"
    if value is None or type(value) in (bool, int, float, str, Num):
        return repr(value)
    return f"<{getattr(value, '__name__', type(value).__name__)}>"


# Parsing.

_TOKEN = re.compile(
    r"\s*(?:(?P<string>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|(?P<program>@\d+)"
    r"|(?P<complex>\(\S+ \S+j\)(?::\w+)?!?)|(?P<size>\{\d+\})"
    r"|(?P<number>-?(?:\d[\d.]*(?:e[+-]?\d+)?|inf|nan)(?::\w+)?!?)"
    r"|(?P<digest>digest:\w+)|(?P<word>\w+)(?P<bang>(?::\w+)?!?)|(?P<mark>[\[\](),=]))"
)
_HEAD = re.compile(r"program (?:(@\d+) )?([^\s(]+)\((.*)\) -> \(.*\):(?:\s*# made by (.*))?")
_BINDING = re.compile(r"([a-z]+): (\w+)\[([\d,{}]*)\](~?)")
_EQN = re.compile(r"(?P<outs>[^=]*?)\s*= (?P<prim>[\w.]+)(?P<rest>.*)")


def parse_program(
    text: str, arrays: Iterable[np.ndarray] = (), sizes: Sequence[Size] = ()
) -> Program:
    """The program that `text` spells; `arrays` are the constants it names by digest, `sizes` the
    numbers it names by their place: `{0}`.

    Raises:
      ValueError: a line is not part of a program, or a name is unknown.
    """
    digests = {const_digest(x): x for x in arrays}
    blocks: list[list[str]] = []
    for line in text.splitlines():
        if line.startswith("program "):
            blocks.append([])
        if line.strip():
            blocks[-1].append(line)
    labelled: dict[str, Program] = {}
    for block in reversed(_inner_last(blocks)):
        label, program = _Parser(labelled, digests, sizes).program(block)
        labelled[label] = program
    return labelled["@0"]


def _inner_last(blocks: list[list[str]]) -> list[list[str]]:
    """Blocks so ordered that each comes before all that it mentions."""
    label = {_head(block[0])[1] or "@0": block for block in blocks}
    order: dict[str, None] = {}
    opened: set[str] = set()
    pending = [("@0", False)]
    while pending:
        name, done = pending.pop()
        if done:
            order.setdefault(name)
        elif name not in order:
            if name in opened:
                raise ValueError(f"program {name} is part of itself")
            opened.add(name)
            pending.append((name, True))
            pending += [(m, False) for line in label[name][1:] for m in re.findall(r"@\d+", line)]
    return [label[name] for name in reversed(order)]


def _head(line: str) -> re.Match[str]:
    match = _HEAD.fullmatch(line.rstrip())
    if match is None:
        raise ValueError(f"not a program header: {line!r}")
    return match


class _Parser:
    """Reads one block, given the programs, arrays and sizes that it may mention."""

    def __init__(
        self, labelled: dict[str, Program], digests: dict[str, np.ndarray], sizes: Sequence[Size]
    ) -> None:
        self.labelled = labelled
        self.digests = digests
        self.sizes = sizes
        self.vars: dict[str, Var] = {}

    def program(self, block: list[str]) -> tuple[str, Program]:
        head = _head(block[0])
        inputs = self.bindings(head[3])
        consts: list[tuple[Var, np.ndarray]] = []
        eqns: list[Eqn] = []
        outputs: tuple[Atom, ...] = ()
        for line in block[1:]:
            line = re.sub(r"\s+# .*$", "", line).strip()
            if line.startswith("const "):
                consts.append(self.const(line))
            elif line.startswith("return"):
                outputs = tuple(self.atoms(_Tokens(line[6:])))
            else:
                eqns.append(self.eqn(line))
        made_by = head[4] or "parse"
        program = Program(head[2], inputs, tuple(consts), tuple(eqns), outputs, made_by)
        return head[1] or "@0", program

    def bindings(self, text: str) -> tuple[Var, ...]:
        found: list[Var] = []
        for match in _BINDING.finditer(text):
            name, dtype, dims, weak = match.groups()
            shape = tuple(self.size(d) if d[0] == "{" else int(d) for d in dims.split(",") if d)
            var = self.vars[name] = Var(Aval(shape, DTYPES[dtype], bool(weak)))
            found.append(var)
        return tuple(found)

    def size(self, text: str) -> Size:
        place = int(text.removeprefix("{").removesuffix("}"))
        if place >= len(self.sizes):
            raise ValueError(f"no number was given for the size {text}")
        return self.sizes[place]

    def const(self, line: str) -> tuple[Var, np.ndarray]:
        left, _, right = line.partition(" = ")
        (var,) = self.bindings(left)
        shape, dtype = var.aval.shape, var.aval.dtype
        if right.startswith("digest:"):
            if right not in self.digests:
                raise ValueError(f"no array was given for the constant {right}")
            return var, self.digests[right]
        tokens = _Tokens(right[1:-1])
        values: list[np.generic] = []
        while not tokens.done:
            values.append(_scalar(*tokens.next()))
        return var, np.array(values, dtype).reshape(shape)

    def eqn(self, line: str) -> Eqn:
        match = _EQN.fullmatch(line)
        if match is None or match["prim"] not in REGISTRY:
            raise ValueError(f"not an equation: {line!r}")
        tokens = _Tokens(match["rest"])
        params = self.params(tokens) if match["rest"].startswith("[") else Params()
        inputs = tuple(self.atoms(tokens))
        return Eqn(REGISTRY[match["prim"]], inputs, params, self.bindings(match["outs"]))

    def params(self, tokens: _Tokens) -> Params:
        params = Params()
        tokens.expect("[")
        while tokens.peek() != "]":
            _, key = tokens.next()
            tokens.expect("=")
            params[key] = self.value(tokens)
        tokens.expect("]")
        return params

    def value(self, tokens: _Tokens) -> object:
        kind, text = tokens.next()
        if kind == "mark" and text == "(":
            return self.tuple(tokens)
        if kind == "string":
            return text[1:-1].encode().decode("unicode_escape")
        if kind == "program":
            return self.labelled[text]
        if kind == "size":
            return self.size(text)
        if text.endswith("!"):
            return _scalar(kind, text[:-1])
        if text in DTYPES:
            return DTYPES[text]
        if text in ("None", "True", "False"):
            return {"None": None, "True": True, "False": False}[text]
        return int(text) if re.fullmatch(r"-?\d+", text) else float(text)

    def tuple(self, tokens: _Tokens) -> tuple[object, ...]:
        items: list[object] = []
        while tokens.peek() != ")":
            items.append(self.value(tokens))
            if tokens.peek() == ",":
                tokens.next()
        tokens.expect(")")
        return tuple(items)

    def atoms(self, tokens: _Tokens) -> Iterator[Atom]:
        while not tokens.done:
            kind, text = tokens.next()
            yield self.vars[text] if text in self.vars else Lit(_scalar(kind, text))


class _Tokens:
    """The words of one line."""

    def __init__(self, text: str) -> None:
        self.items: list[tuple[str, str]] = []
        text, at = text.rstrip(), 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise ValueError(f"cannot read {text[at:]!r}")
            kind = match.lastgroup or ""
            kind = "word" if kind == "bang" else kind
            tail = match["bang"] or "" if kind == "word" else ""
            self.items.append((kind, match[kind] + tail))
            at = match.end()
        self.at = 0

    @property
    def done(self) -> bool:
        return self.at >= len(self.items)

    def peek(self) -> str:
        return self.items[self.at][1] if not self.done else ""

    def next(self) -> tuple[str, str]:
        item = self.items[self.at]
        self.at += 1
        return item

    def expect(self, text: str) -> None:
        if self.next()[1] != text:
            raise ValueError(f"expected {text!r}")


def _scalar(kind: str, text: str) -> np.generic:
    spelled, _, suffix = text.partition(":")
    if kind == "complex":
        real, imag = spelled[1:-2].split(" ")
        value = np.complex128(complex(float(real), float(imag)))
        return DTYPES[suffix or "c128"].type(value)
    if spelled in ("True", "False"):
        return np.bool_(spelled == "True")
    integer = re.fullmatch(r"-?\d+", spelled) is not None
    if not integer and not re.fullmatch(r"-?(inf|nan|[\d.]+(e[+-]?\d+)?)", spelled):
        raise ValueError(f"unknown name {text!r}")
    dtype = DTYPES[suffix] if suffix else DTYPES["i64" if integer else "f64"]
    return dtype.type(int(spelled) if integer else float(spelled))


# Equality.


def equal_programs(p: Program, q: Program) -> bool:
    """Whether two programs are the same but for names, locations and provenance."""
    pending = [(p, q)]
    seen: set[tuple[int, int]] = set()
    while pending:
        a, b = pending.pop()
        if (id(a), id(b)) in seen:
            continue
        seen.add((id(a), id(b)))
        if not _equal_flat(a, b, pending):
            return False
    return True


def _equal_flat(a: Program, b: Program, pending: list[tuple[Program, Program]]) -> bool:
    same: dict[Var, Var] = {}

    def bound(xs: Iterable[Var], ys: Iterable[Var]) -> bool:
        pairs = list(zip(xs, ys, strict=True))
        same.update(pairs)
        return all(x.aval == y.aval for x, y in pairs)

    def equal(x: Atom, y: Atom) -> bool:
        if type(x) is Var:
            return same.get(x) is y
        return type(y) is Lit and x.aval == y.aval and _same_number(x.value, y.value)  # type: ignore[union-attr]

    sizes = [len(a.inputs), len(a.consts), len(a.eqns), len(a.outputs)]
    if sizes != [len(b.inputs), len(b.consts), len(b.eqns), len(b.outputs)]:
        return False
    if not bound(a.inputs, b.inputs):
        return False
    for (v, x), (w, y) in zip(a.consts, b.consts, strict=True):
        if not bound((v,), (w,)) or x.dtype != y.dtype or const_digest(x) != const_digest(y):
            return False
    for e, f in zip(a.eqns, b.eqns, strict=True):
        if (
            e.prim is not f.prim
            or len(e.inputs) != len(f.inputs)
            or len(e.outputs) != len(f.outputs)
        ):
            return False
        if not all(map(equal, e.inputs, f.inputs)) or not _equal_params(
            e.params, f.params, pending
        ):
            return False
        if not bound(e.outputs, f.outputs):
            return False
    return all(map(equal, a.outputs, b.outputs))


def _same_number(x: np.generic, y: np.generic) -> bool:
    return bool(x == y and np.signbit(x.real) == np.signbit(y.real)) or bool(x != x and y != y)


def _equal_params(p: Params, q: Params, pending: list[tuple[Program, Program]]) -> bool:
    if p.keys() != q.keys():
        return False
    return all(_equal_value(value, q[key], pending) for key, value in p.items())


def _equal_value(x: object, y: object, pending: list[tuple[Program, Program]]) -> bool:
    if isinstance(x, Program) and isinstance(y, Program):
        pending.append((x, y))
        return True
    if type(x) is not type(y):
        return False
    if is_tuple(x) and is_tuple(y):
        if len(x) != len(y):
            return False
        return all(_equal_value(a, b, pending) for a, b in zip(x, y, strict=True))
    if is_scalar(x) and is_scalar(y):
        return x.dtype == y.dtype and _same_number(x, y)
    return bool(x == y) or (x != x and y != y)
