"""L7. The chain rule as a table: each operation, its local derivative, what comes in and goes on.

trace_table(f)(x)               for f(x) = (3 x + 1) ** 2 at 2

    node           value  local  incoming  outgoing  line
    c = mul b b       49     14         1        14  model.py:2 (f):  return (3.0 * x + 1.0) ** 2
    b = add a 1.0      7      1        14        14  ...
    a = mul 3.0 x      6      3        14        42
    x                  2               42
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from fgrad.base.keywords import also_takes
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.pickling import pickles_as_call
from fgrad.base.source import Loc
from fgrad.compile.jit.inspect import jitted
from fgrad.errors import ArgumentError
from fgrad.ir.program import Atom, Eqn, Lit, Program, Var
from fgrad.ir.text import names, scalar_text
from fgrad.ops.checked import checked_p
from fgrad.tools.view import argument_names, summary, values_of
from fgrad.trace import bind
from fgrad.transforms.core.linearize import vjp
from fgrad.transforms.core.wrap import function_name, named_like
from fgrad.typing import PyTree

_HEAD = ("node", "value", "local", "incoming", "outgoing", "line")
_LEFT = (0, 5)  # columns of words
_DEEP = 60  # letters of a node


class Edge(NamedTuple):
    """What a node hands to one of its operands.

    local: the derivative of the node by the operand: for operations on elements that of each
        element, for results of one number the gradient, else None: the Jacobian is not made.
    outgoing: `local` times what comes in, of the operand's shape.
    """

    operand: str
    local: np.ndarray | None
    outgoing: np.ndarray


class Node(NamedTuple):
    """A row: an operation with its value, or an argument.

    incoming: the derivative of the function's result by this value.
    edges: what is handed on, by operand; none for arguments.
    """

    name: str
    text: str
    line: Loc | None
    value: np.ndarray
    incoming: np.ndarray
    edges: tuple[Edge, ...]


class TraceTable(NamedTuple):
    """The nodes that the result depends on, from the result back to the arguments; it prints as a
    table, and is one in notebooks. Arrays are shown by their smallest and largest element."""

    nodes: list[Node]

    def rows(self) -> list[tuple[str, ...]]:
        """The cells as text; a node with two operands has two rows."""
        cells: list[tuple[str, ...]] = []
        for node in self.nodes:
            text = node.text if len(node.text) <= _DEEP else node.text[: _DEEP - 3] + "..."
            first = (text, summary(node.value))
            line = f"{node.line}:  {node.line.text()}" if node.line else ""
            several = len(node.edges) > 1
            for edge in node.edges or (Edge("", None, node.incoming),):
                name = f"{edge.operand}: " if several else ""
                ends = ("", "")
                if node.edges:
                    ends = (name + _local(edge, node.value), name + summary(edge.outgoing))
                cells.append((*first, ends[0], summary(node.incoming), ends[1], line))
                first, line = ("", ""), ""
        return cells

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        cells = [_HEAD, *self.rows()]
        widths = [max([len(row[k]) for row in cells]) for k in range(len(_HEAD))]
        lines: list[str] = []
        for row in cells:
            padded = [
                cell.ljust(width) if k in _LEFT else cell.rjust(width)
                for k, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
            lines.append("  ".join(padded).rstrip())
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{name}</th>" for name in _HEAD)
        rows = ["".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in self.rows()]
        body = "\n".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table><tr>{head}</tr>\n{body}</table>"


def _local(edge: Edge, value: np.ndarray) -> str:
    if edge.local is None:
        return f"{value.shape} by {edge.outgoing.shape}".replace(" ", "")
    return summary(edge.local)


@pickles_as_call
@also_takes()
def trace_table(fun: Callable[..., PyTree]) -> Callable[..., TraceTable]:
    """A function that shows the chain rule at work in `fun`, operation by operation.

    Each row is an operation with its value, its local derivative by each operand, what comes in
    from the result, and what goes on to the operand: the product. What goes out to the same node
    from several rows is added there. `grad` computes the same with fewer operations. Of complex
    numbers what comes in is as `vjp` gives it, the conjugate of what `grad` does.

    Arguments:
        fun: a function of arrays with one real number as its result, or what `jit` returned for
            one. A loop, a branch and a call of a jitted function are one row each.

    Returns:
        A function of the same arguments, whose result prints as a table and has `nodes`.

    Raises:
        ArgumentError: the result is not one real number.

    Example:
        >>> import fgrad
        >>> print(fgrad.trace_table(lambda x: (3.0 * x + 1.0) ** 2)(2.0))  # doctest: +ELLIPSIS
        node             value  local  incoming  outgoing  line
        c = mul b b         49     14         1        14  ...
        b = add a 1.0        7      1        14        14  ...
        a = mul 3.0 x        6      3        14        42  ...
        x                    2               42
    """

    def tabled(*args: PyTree, **kwargs: PyTree) -> TraceTable:
        program = jitted(fun).program_of(args, kwargs)
        _check(fun, program)
        known = values_of(fun, program, args, kwargs)
        count = len(jitted(fun).arrays_of(args, kwargs))
        given = argument_names(fun, args, kwargs)
        return _walked(program, known, given if len(given) == count else (), count)

    return named_like(tabled, fun, "trace_table")


def _check(fun: Callable[..., PyTree], program: Program) -> None:
    """One real number is wanted."""
    avals = program.out_avals
    if len(avals) != 1 or avals[0].size != 1 or avals[0].dtype.kind != "f":
        found = ", ".join([str(a) for a in avals]) or "nothing"
        raise ArgumentError(
            f"trace_table: {function_name(fun)} has to return one real number.",
            (("found", found), ("write", "a component of the result, or a sum")),
        )


def _walked(
    program: Program, known: Mapping[Var, object], given: Sequence[str], count: int
) -> TraceTable:
    """The equations in reverse, each with the sum of what later ones hand to its result."""
    arguments = program.inputs[len(program.inputs) - count :]
    called = _named(program, given, arguments)
    active = _active(program, arguments)
    values = {v: np.asarray(known[v]) for v in active}
    incoming: dict[Atom, np.ndarray] = {v: np.zeros_like(x) for v, x in values.items()}
    result = program.outputs[0]
    if result in incoming:
        incoming[result] = np.ones_like(incoming[result])
    nodes: list[Node] = []
    reached = {result}
    for eqn in reversed(program.eqns):
        outs = [v for v in eqn.outputs if v in active and v in reached]
        if not outs:
            continue
        edges = _edges(eqn, outs, known, active, incoming, called)
        for var, edge in edges:
            incoming[var] = incoming[var] + edge.outgoing
            reached.add(var)
        if eqn.prim is checked_p:  # its operand itself, or an error
            continue
        text = f"{called[outs[0]]} = {_text(eqn, called)}"
        parts = tuple([edge for _, edge in edges])
        nodes.append(
            Node(called[outs[0]], text, eqn.loc, values[outs[0]], incoming[outs[0]], parts)
        )
    for var in arguments:
        if var in active:
            name = called[var]
            nodes.append(Node(name, name, None, values[var], incoming[var], ()))
    return TraceTable(nodes)


def _named(program: Program, given: Sequence[str], arguments: Sequence[Var]) -> dict[Var, str]:
    """Arguments by the user's names, all else by letters in the order of the program."""
    called = dict(zip(arguments, given, strict=True)) if given else {}
    fresh = (name for name in names() if name not in given)
    for var in (*program.inputs, *[v for v, _ in program.consts]):
        if var not in called:
            called[var] = next(fresh)
    for eqn in program.eqns:
        if eqn.prim is checked_p and isinstance(eqn.inputs[0], Var):
            called[eqn.outputs[0]] = called[eqn.inputs[0]]
        else:
            called.update({v: next(fresh) for v in eqn.outputs})
    return called


def _active(program: Program, arguments: Sequence[Var]) -> set[Var]:
    """The arguments that can be differentiated, and what is computed of them."""
    active = {v for v in arguments if v.aval.dtype.kind in "fc"}
    for eqn in program.eqns:
        if any([a in active for a in eqn.inputs]):
            active.update([v for v in eqn.outputs if v.aval.dtype.kind in "fc"])
    return active


def _edges(
    eqn: Eqn,
    outs: Sequence[Var],
    known: Mapping[Var, object],
    active: set[Var],
    incoming: Mapping[Atom, np.ndarray],
    called: Mapping[Var, str],
) -> list[tuple[Var, Edge]]:
    """What an equation hands to each operand; one that it reads twice counts once."""
    by = [a for a in dict.fromkeys(eqn.inputs) if isinstance(a, Var) and a in active]

    def of(*xs: PyTree) -> PyTree:
        env: dict[Var, PyTree] = {**known, **dict(zip(by, xs, strict=True))}
        given = [a.value if isinstance(a, Lit) else env[a] for a in eqn.inputs]
        made = bind(eqn.prim, *given, **eqn.params)
        made = dict(zip(eqn.outputs, made if eqn.prim.multiple else [made], strict=True))
        return [made[v] for v in outs]

    made, pull = vjp(of, *[known[a] for a in by])
    outgoing = pull([np.asarray(incoming[v], x.dtype)[()] for v, x in zip(outs, made, strict=True)])
    local: Sequence[PyTree] = [None] * len(by)
    if len(outs) == 1 and (eqn.prim.elementwise or np.size(made[0]) == 1):
        local = pull([np.ones_like(made[0])])
    rows: list[tuple[Var, Edge]] = []
    for var, slope, goes in zip(by, local, outgoing, strict=True):
        known_slope = None if slope is None else np.asarray(slope)
        rows.append((var, Edge(called[var], known_slope, np.asarray(goes))))
    return rows


def _text(eqn: Eqn, called: Mapping[Var, str]) -> str:
    """The operation and its operands."""
    operands = [scalar_text(a.value) if isinstance(a, Lit) else called[a] for a in eqn.inputs]
    return " ".join([eqn.prim.name, *operands])
