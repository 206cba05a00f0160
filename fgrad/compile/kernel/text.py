"""L5. Kernels as text and back: `parse_kernel(print_kernel(k)) == k`; and names made canonical.

The text is the kernel's identity: `canonical` renames axes, buffers, accumulators and values in
order of appearance, so that two kernels of equal structure have equal text and share one compiled
function.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count

import numpy as np

from fgrad.compile.kernel.ir import (
    Affine,
    Break,
    Buffer,
    Const,
    Index,
    Init,
    Kernel,
    Load,
    Loop,
    Op,
    Read,
    Ref,
    Scalar,
    Statement,
    Store,
    Update,
)
from fgrad.compile.kernel.rewrite import Renamer

_DTYPE_NAMES = {
    "b1": "bool",
    **{f"{kind}{size}": f"{kind}{8 * size}" for kind in "iuf" for size in (1, 2, 4, 8)},
}
_DTYPES = {name: np.dtype(code) for code, name in _DTYPE_NAMES.items() if code != "f1"}
_NAME_OF = {dtype: name for name, dtype in _DTYPES.items()}


def print_kernel(kernel: Kernel) -> str:
    """The kernel as indented text, one statement per line."""
    buffers = ", ".join(f"{b.name}: {b.role} {_NAME_OF[b.dtype]}[{b.size}]" for b in kernel.buffers)
    lines = [f"kernel {kernel.name}({buffers})"]
    _print_body(kernel.body, "  ", lines)
    return "\n".join(lines) + "\n"


def _print_body(body: tuple[Statement, ...], indent: str, lines: list[str]) -> None:
    for statement in body:
        lines.append(indent + PRINTERS[type(statement)](statement))
        if isinstance(statement, Loop):
            _print_body(statement.body, indent + "  ", lines)


def _scalar(value: Scalar) -> str:
    return repr(value if isinstance(value, (bool, int, float)) else np.asarray(value).item())


def _index(index: Affine, indirect: tuple[tuple[int, int], ...] = ()) -> str:
    const, terms = index
    parts = [str(const)] if const or not (terms or indirect) else []
    parts += [axis if stride == 1 else f"{stride}*{axis}" for axis, stride in terms]
    parts += [f"{stride}*%{value}" for value, stride in indirect]
    return " + ".join(parts)


def _print_load(s: Load) -> str:
    predicate = "" if s.predicate is None else f" if %{s.predicate} else {_scalar(s.other)}"
    return f"%{s.id} = load {s.buffer}[{_index(s.index, s.gather)}]{predicate}"


def _print_store(s: Store) -> str:
    mode = "" if s.mode == "set" else f" {s.mode}="
    predicate = "" if s.predicate is None else f" if %{s.predicate}"
    return f"store {s.buffer}[{_index(s.index, s.scatter)}]{mode} %{s.value}{predicate}"


def _print_op(s: Op) -> str:
    return f"%{s.id} = {s.op} {_NAME_OF[s.dtype]} {' '.join([f'%{a}' for a in s.args])}"


def _print_init(s: Init) -> str:
    start = f"%{s.start.id}" if isinstance(s.start, Ref) else _scalar(s.start)
    return f"acc {s.acc} = {s.op} {_NAME_OF[s.dtype]} {start}"


def _print_loop(s: Loop) -> str:
    lanes = f" lanes {s.lanes}" if s.lanes else ""
    unroll = f" unroll {s.unroll}" if s.unroll != 1 else ""
    return f"{s.kind} {s.axis} in {s.extent}{lanes}{unroll}:"


PRINTERS = {
    Const: lambda s: f"%{s.id} = const {_NAME_OF[s.dtype]} {_scalar(s.value)}",
    Index: lambda s: f"%{s.id} = index {_NAME_OF[s.dtype]} {_index(s.index)}",
    Load: _print_load,
    Op: _print_op,
    Read: lambda s: f"%{s.id} = read {s.acc}",
    Init: _print_init,
    Update: lambda s: f"update {s.acc} %{s.value}",
    Store: _print_store,
    Break: lambda s: f"break if %{s.value}",
    Loop: _print_loop,
}


def parse_kernel(text: str) -> Kernel:
    """The kernel that `text` spells.

    Raises:
      ValueError: a line is not a statement.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    head = re.fullmatch(r"kernel (\w+)\((.*)\)", lines[0].strip())
    if head is None:
        raise ValueError(f"not a kernel header: {lines[0]!r}")
    buffers = [_parse_buffer(part) for part in head[2].split(", ") if part]
    rest = iter(lines[1:])
    body, after = _parse_body(rest, next(rest, None), 2)
    if after is not None:
        raise ValueError(f"unexpected indentation: {after!r}")
    return Kernel(head[1], tuple(buffers), body)


def _parse_buffer(text: str) -> Buffer:
    match = re.fullmatch(r"(\w+): (\w+) (\w+)\[(\d+)\]", text.strip())
    if match is None:
        raise ValueError(f"not a buffer: {text!r}")
    return Buffer(match[1], _DTYPES[match[3]], int(match[4]), match[2])


def _parse_body(
    rest: Iterator[str], line: str | None, indent: int
) -> tuple[tuple[Statement, ...], str | None]:
    """Statements indented by `indent`, and the first line that is not theirs."""
    body: list[Statement] = []
    while line is not None and len(line) - len(line.lstrip()) == indent:
        statement = _parse_statement(line.strip())
        line = next(rest, None)
        if isinstance(statement, Loop):
            inner, line = _parse_body(rest, line, indent + 2)
            statement = statement._replace(body=inner)
        body.append(statement)
    return tuple(body), line


def _parse_statement(line: str) -> Statement:
    for pattern, make in _PARSERS:
        match = pattern.fullmatch(line)
        if match:
            return make(*match.groups())
    raise ValueError(f"not a kernel statement: {line!r}")


def _parse_scalar(text: str) -> Scalar:
    if text in ("True", "False"):
        return text == "True"
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)


def _parse_index(text: str) -> tuple[Affine, tuple[tuple[int, int], ...]]:
    const, terms, indirect = 0, [], []
    for part in re.split(r"\s*\+\s*", text.strip()):
        stride, _, name = part.rpartition("*")
        if name.startswith("%"):
            indirect.append((int(name[1:]), int(stride or 1)))
        elif re.fullmatch(r"-?\d+", name):
            const += int(name)
        else:
            terms.append((name, int(stride or 1)))
    return Affine(const, tuple(sorted(terms))), tuple(indirect)


def _parse_load(id: str, buffer: str, index: str, predicate: str | None, other: str | None) -> Load:
    affine, gather = _parse_index(index)
    if predicate is None or other is None:
        return Load(int(id), buffer, affine, gather)
    return Load(int(id), buffer, affine, gather, int(predicate), _parse_scalar(other))


def _parse_store(
    buffer: str, index: str, mode: str | None, value: str, predicate: str | None
) -> Store:
    affine, scatter = _parse_index(index)
    where = None if predicate is None else int(predicate)
    return Store(buffer, affine, int(value), scatter, mode or "set", where)


def _parse_init(acc: str, op: str, dtype: str, start: str) -> Init:
    ref = Ref(int(start[1:])) if start.startswith("%") else _parse_scalar(start)
    return Init(acc, op, _DTYPES[dtype], ref)


def _parse_op(id: str, op: str, dtype: str, args: str) -> Op:
    return Op(int(id), op, tuple(int(a[1:]) for a in args.split()), _DTYPES[dtype])


def _parse_loop(kind: str, axis: str, extent: str, lanes: str | None, unroll: str | None) -> Loop:
    return Loop(axis, int(extent), kind, (), int(lanes or 0), int(unroll or 1))


_PARSERS = [
    (
        re.compile(r"%(\d+) = const (\w+) (\S+)"),
        lambda id, dtype, value: Const(int(id), _parse_scalar(value), _DTYPES[dtype]),
    ),
    (
        re.compile(r"%(\d+) = index (\w+) (.+)"),
        lambda id, dtype, index: Index(int(id), _parse_index(index)[0], _DTYPES[dtype]),
    ),
    (re.compile(r"%(\d+) = load (\w+)\[(.*)\](?: if %(\d+) else (\S+))?"), _parse_load),
    (re.compile(r"%(\d+) = read (\w+)"), lambda id, acc: Read(int(id), acc)),
    (re.compile(r"%(\d+) = (\w+) (\w+)((?: %\d+)*)"), _parse_op),
    (re.compile(r"acc (\w+) = (\w+) (\w+) (\S+)"), _parse_init),
    (re.compile(r"update (\w+) %(\d+)"), lambda acc, value: Update(acc, int(value))),
    (re.compile(r"break if %(\d+)"), lambda value: Break(int(value))),
    (re.compile(r"store (\w+)\[(.*)\](?: (\w+)=)? %(\d+)(?: if %(\d+))?"), _parse_store),
    (
        re.compile(
            r"(parallel|reduce|serial|while) (\w+) in (\d+)(?: lanes (\d+))?(?: unroll (\d+))?:"
        ),
        _parse_loop,
    ),
]


def canonical(kernel: Kernel) -> Kernel:
    """The same kernel with all names replaced by running numbers: its content without its
    spelling."""
    names = {b.name: f"b{k}" for k, b in enumerate(kernel.buffers)}
    buffers = tuple([b._replace(name=names[b.name]) for b in kernel.buffers])
    ids, accs, axes = count(), count(), count()
    renamer = Renamer(
        lambda _: next(ids), lambda _: f"s{next(accs)}", lambda _: f"a{next(axes)}", names
    )
    return Kernel("k", buffers, renamer.body(kernel.body))
