"""L7. Source lines side by side with the equations and costs of each, as a picture and a table.

view(f)(*args)              in a notebook: the picture, the table below; `.save("f.svg")`

    your line                       forward                   adjoint             kernels
    h = np.tanh(x @ w)              d = dot_general a b       k = mul j i         1 gemm, 2 tanh
                                    e = tanh d
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from pathlib import Path

import numpy as np

from fgrad.base.keywords import also_takes
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.pickling import pickles_as_call
from fgrad.base.source import Loc
from fgrad.base.tree_paths import keystr, leaves_with_path
from fgrad.compile.jit.inspect import inspect, jitted
from fgrad.compile.jit.profile import Profile, profile
from fgrad.compile.tasks.steps import Group
from fgrad.ir.program import Atom, Eqn, Lit, Program, Var
from fgrad.ir.text import names, print_eqn, scalar_text
from fgrad.tools.drawing import Node, Picture
from fgrad.trace import bind
from fgrad.transforms.core.wrap import named_like
from fgrad.typing import PyTree

# Fills that text can be read on, for groups in turn.
COLOURS = (
    "#dbeafe", "#dcfce7", "#fef3c7", "#fce7f3", "#ede9fe", "#cffafe", "#ffedd5", "#e2e8f0",
)  # fmt: skip

LEGEND = 40  # steps that are listed below the picture
LABEL = 90  # letters of each

_STYLE = """
<style>
.fgrad { border-collapse: collapse; font: 12px/1.5 ui-monospace, monospace; color: #0f172a;
  background: #ffffff; }
.fgrad caption { text-align: left; font: 600 14px/2 system-ui, sans-serif; color: #0f172a; }
.fgrad th { text-align: left; font: 600 12px/2 system-ui, sans-serif; color: #475569;
  border-bottom: 2px solid #cbd5e1; padding: 2px 12px; }
.fgrad td { vertical-align: top; text-align: left; border-bottom: 1px solid #e2e8f0;
  padding: 4px 12px; white-space: pre; }
.fgrad .where { color: #64748b; }
.fgrad .chip { border-radius: 4px; padding: 0 4px; }
</style>
"""


class Row(NamedTuple):
    """One line of source: its equations forward and backward, and the groups they are in."""

    line: Loc | None
    forward: list[Eqn]
    adjoint: list[Eqn]
    groups: list[int]


class View:
    """A program with its source; `_repr_svg_` and `_repr_html_` show it in notebooks.

    Arguments:
        program: what is shown.
        groups: the groups of its equations that share a step.
        given: names of the inputs, from the last one backwards.
        values: what each variable is, if that is to be shown.
        profile: the times of the steps, if these are to be shown.
    """

    def __repr__(self) -> str:
        count = len(self.program.eqns)
        return f"<view of {self.program.name}: {count} equations; .save('program.svg')>"

    def __init__(
        self,
        program: Program,
        groups: list[Group],
        given: Sequence[str] = (),
        values: Mapping[Var, object] | None = None,
        profile: Profile | None = None,
    ) -> None:
        self.program = program
        self.groups = groups
        self.values = values or {}
        self.profile = profile
        first = len(program.inputs) - len(given)
        self.names: dict[Var, str] = dict(zip(program.inputs[first:], given, strict=True))
        fresh = (name for name in names() if name not in given)
        for var in (*program.inputs[:first], *[v for v, _ in program.consts]):
            self.names[var] = next(fresh)
        for eqn in program.eqns:
            self.names.update({v: next(fresh) for v in eqn.outputs})
        self.of_var = {v: k for k, g in enumerate(groups) for e in g.eqns for v in e.outputs}
        self.of_key: dict[tuple[Loc | None, str, bool], set[int]] = {}
        for k, group in enumerate(groups):
            for eqn in group.eqns:
                self.of_key.setdefault(_key(eqn), set()).add(k)

    def group_of(self, eqn: Eqn) -> int | None:
        """The step that an equation became a part of, by its result, or by line and operation if
        there is one alone; None if later passes changed it beyond that."""
        for var in eqn.outputs:
            if var in self.of_var:
                return self.of_var[var]
        alike = self.of_key.get(_key(eqn), ())
        return min(alike) if len(alike) == 1 else None

    @property
    def rows(self) -> list[Row]:
        """The lines in the order of the source."""
        found: dict[Loc | None, Row] = {}
        for eqn in self.program.eqns:
            row = found.setdefault(eqn.loc, Row(eqn.loc, [], [], []))
            (row.adjoint if _is_adjoint(eqn) else row.forward).append(eqn)
        for k, group in enumerate(self.groups):
            for line in dict.fromkeys([e.loc for e in group.eqns]):
                if line in found:
                    found[line].groups.append(k)
        return sorted(found.values(), key=lambda row: _place(row.line))

    def _repr_svg_(self) -> str:
        """The picture, as SVG."""
        return self.picture().svg()

    def _repr_html_(self) -> str:
        table = f"<details><summary>as a table</summary>{self.table()}</details>"
        return f'<div style="overflow: auto">{self._repr_svg_()}</div>{table}'

    def picture(self) -> Picture:
        """Where each box of the picture is, and what is in it."""
        counts = f"{len(self.program.eqns)} equations, {len(self.groups)} steps"
        title = f"{self.program.name}: {counts}"
        costs: dict[Loc, str] = {}
        if self.profile is not None:
            title += f", {1e6 * self.profile.seconds:,.1f} us"
            costs = {line: f"{1e6 * t:,.1f} us" for line, t in self.profile.by_line().items()}
        return Picture(title, self._nodes(), self._legend(), _colour, costs)

    def _nodes(self) -> list[Node]:
        """What the picture shows: arguments, equations, results."""
        number: dict[Atom, int] = {}
        nodes: list[Node] = []
        for var in (*self.program.inputs, *[v for v, _ in self.program.consts]):
            number[var] = len(nodes)
            nodes.append(Node(None, "arguments", False, "", self._texts(var, ""), None, ()))
        adjoint: set[Atom] = set()
        for eqn in self.program.eqns:
            reads = tuple([number[a] for a in eqn.inputs if a in number])
            right, group = _is_adjoint(eqn), self.group_of(eqn)
            texts = self._texts(eqn.outputs[0], f" = {eqn.prim.name}") if eqn.outputs else ()
            texts = texts or (eqn.prim.name,)
            if right:
                adjoint.update(eqn.outputs)
            number.update(dict.fromkeys(eqn.outputs, len(nodes)))
            nodes.append(Node(eqn.loc, "", right, eqn.prim.name, texts, group, reads))
        for k, atom in enumerate(self.program.outputs):
            right = atom in adjoint
            texts = (f"result {k}", str(atom.aval))
            if isinstance(atom, Var) and atom in self.values:
                texts += (summary(self.values[atom]),)
            reads = (number[atom],) if atom in number else ()
            place = "arguments" if right else "results"
            nodes.append(Node(None, place, right, "", texts, None, reads))
        return nodes

    def _texts(self, var: Var, made: str) -> tuple[str, ...]:
        texts = (self.names[var] + made, str(var.aval))
        return (*texts, summary(self.values[var])) if var in self.values else texts

    def _legend(self) -> list[tuple[int, str]]:
        """A row for each step; in large programs one for all steps of the same operations."""
        spent: dict[tuple[str, ...], list[float]] = {}
        for step in self.profile.steps if self.profile is not None else ():
            spent.setdefault(step.operations, []).append(step.seconds)
        rows: dict[object, list[int]] = {}
        for k, group in enumerate(self.groups):
            key = _label(group) if len(self.groups) > LEGEND else k
            rows.setdefault(key, []).append(k)
        legend: list[tuple[int, str]] = []
        for same in list(rows.values())[:LEGEND]:
            text = _label(self.groups[same[0]])
            text = f"{same[0] + 1} {text}" if len(same) == 1 else f"{len(same)} times {text}"
            times = [self._time(self.groups[k], spent) for k in same]
            if sum(times):
                text += f", {1e6 * sum(times):,.1f} us"
            legend.append((same[0], text))
        return legend

    @staticmethod
    def _time(group: Group, spent: dict[tuple[str, ...], list[float]]) -> float:
        """The seconds of the first step of these operations that is not told yet."""
        left = spent.get(tuple([e.prim.name for e in group.eqns]), [])
        return left.pop(0) if left else 0.0

    def table(self) -> str:
        """Each line of yours, its equations forward and backward, and their steps, as HTML."""
        head = "".join(f"<th>{t}</th>" for t in ("your line", "forward", "adjoint", "compiled to"))
        body = "\n".join(self._html_row(row) for row in self.rows)
        title = html.escape(self.program.name)
        count = f"{len(self.program.eqns)} equations, {len(self.groups)} steps"
        return (
            f'{_STYLE}<table class="fgrad"><caption>{title}: {count}</caption>'
            f"<tr>{head}</tr>\n{body}</table>"
        )

    def _html_row(self, row: Row) -> str:
        where = html.escape(str(row.line)) if row.line else "made by the compiler"
        text = html.escape(row.line.text()) if row.line else ""
        cells = [f'<span class="where">{where}</span>\n{text}']
        cells += ["\n".join(map(self._chip, eqns)) for eqns in (row.forward, row.adjoint)]
        cells.append("\n".join(self._group(k) for k in row.groups))
        return "<tr>" + "".join(f"<td>{c}</td>" for c in cells) + "</tr>"

    def _chip(self, eqn: Eqn) -> str:
        group = self.group_of(eqn)
        text = html.escape(print_eqn(eqn, self.names))
        if group is None:
            return f'<span class="where">{text}</span>'
        return f'<span class="chip" style="background:{_colour(group)}">{text}</span>'

    def _group(self, k: int) -> str:
        group = self.groups[k]
        operations = " ".join(dict.fromkeys([e.prim.name for e in group.eqns]))
        text = html.escape(f"{k + 1} {group.kind}: {operations}")
        return f'<span class="chip" style="background:{_colour(k)}">{text}</span>'

    def save(self, path: str) -> None:
        """Write the picture (`.svg`), or a page of the picture and the table.

        Example:
            >>> import numpy as np, tempfile
            >>> page = view(np.sin)(np.ones(3))
            >>> page.save(tempfile.mkdtemp() + "/sin.svg")
        """
        if path.endswith(".svg"):
            Path(path).write_text(self._repr_svg_(), encoding="utf-8")
            return
        page = (
            f'<!doctype html><meta charset="utf-8"><title>{html.escape(self.program.name)}</title>'
        )
        Path(path).write_text(page + self._repr_html_(), encoding="utf-8")

    def dot(self) -> str:
        """The equations as a graph for Graphviz, one colour for each step they are compiled to."""
        lines = [
            "digraph program {",
            "  node [shape=box, style=filled, fillcolor=white]",
        ]
        for var in self.program.inputs:
            lines.append(
                f'  {self.names[var]} [shape=ellipse, label="{self.names[var]}: {var.aval}"]'
            )
        for k, eqn in enumerate(self.program.eqns):
            group = self.group_of(eqn)
            colour = "white" if group is None else _colour(group)
            label = f"{eqn.prim.name}\\n{eqn.loc or ''}".replace('"', "'")
            lines.append(f'  e{k} [fillcolor="{colour}", label="{label}"]')
        lines += self._edges()
        return "\n".join([*lines, "}"]) + "\n"

    def _edges(self) -> list[str]:
        source = {v: self.names[v] for v in self.program.inputs}
        lines: list[str] = []
        for k, eqn in enumerate(self.program.eqns):
            for atom in eqn.inputs:
                if isinstance(atom, Lit):
                    lines.append(
                        f'  l{len(lines)} [shape=plain, label="{scalar_text(atom.value)}"]'
                    )
                    lines.append(f"  l{len(lines) - 1} -> e{k}")
                elif atom in source:
                    lines.append(f'  {source[atom]} -> e{k} [label="{atom.aval}"]')
            source.update(dict.fromkeys(eqn.outputs, f"e{k}"))
        for k, atom in enumerate(self.program.outputs):
            if isinstance(atom, Var) and atom in source:
                lines.append(f'  out{k} [shape=ellipse, label="result {k}"]')
                lines.append(f"  {source[atom]} -> out{k}")
        return lines


def _label(group: Group) -> str:
    operations = " ".join(dict.fromkeys([e.prim.name for e in group.eqns]))
    text = f"{group.kind}: {operations}"
    return text if len(text) <= LABEL else text[: LABEL - 3] + "..."


def summary(x: object) -> str:
    """A number, or the range of an array, and whether there are NaN in it.

    Example:
        >>> summary(2.0), summary(np.arange(3.0)), summary(np.ones(3))
        ('2', '0 to 2', 'all 1')
    """
    array = np.asarray(x)
    if array.size == 1:
        return f"{array.ravel()[0]:.4g}" if array.dtype.kind in "fc" else f"{array.ravel()[0]}"
    if array.size == 0 or array.dtype.kind not in "fiu":
        return ""
    nan = int(np.count_nonzero(array != array))
    known = array[array == array]
    ends = (
        list(dict.fromkeys([f"{x:.4g}" for x in (known.min(), known.max())])) if known.size else []
    )
    text = " to ".join(ends) if len(ends) != 1 or nan else f"all {ends[0]}"
    return f"{text}, {nan} NaN" if nan else text


def _is_adjoint(eqn: Eqn) -> bool:
    """Whether an equation is part of a backward pass."""
    return "vjp" in eqn.via


def _key(eqn: Eqn) -> tuple[Loc | None, str, bool]:
    """What tells an equation of the program in the steps that it was compiled to."""
    return eqn.loc, eqn.prim.name, _is_adjoint(eqn)


def _place(line: Loc | None) -> tuple[str, int]:
    return ("", 0) if line is None else (line.file, line.line)


def _colour(group: int) -> str:
    return COLOURS[group % len(COLOURS)]


@pickles_as_call
@also_takes()
def view(
    fun: Callable[..., PyTree], *, values: bool = False, times: bool = False
) -> Callable[..., View]:
    """A function that compiles `fun` for its arguments and draws the program beside its source.

    Arguments:
        fun: a function of arrays, or what `jit` returned for one; `grad(f)` shows the derivative
            on the right, beside what it is the derivative of.
        values: run the program and write what each array is: a number, or its smallest and largest.
        times: run the program step by step and write times at lines and kernels, see `profile`.

    Returns:
        A function of the same arguments whose result is a picture in notebooks; `.save(path)`
        writes it as `.svg`, or as a page with a table below.

    Example:
        >>> import numpy as np, fgrad
        >>> page = fgrad.view(fgrad.value_and_grad(lambda x: np.sum(np.sin(x))))(np.ones(3))
        >>> "sin x" in page.table(), "cos x" in page.table(), "<svg" in page._repr_svg_()
        (True, True, True)
    """

    def viewed(*args: PyTree, **kwargs: PyTree) -> View:
        stages = inspect(fun)(*args, **kwargs)
        program, groups = stages.passes["cse"], stages.passes["fuse"].groups
        known = values_of(fun, program, args, kwargs) if values else None
        timed = profile(fun)(*args, **kwargs) if times else None
        arrays = jitted(fun).arrays_of(args, kwargs)
        given = argument_names(fun, args, kwargs)
        return View(program, groups, given if len(given) == len(arrays) else (), known, timed)

    return named_like(viewed, fun, "view")


def argument_names(
    fun: Callable[..., PyTree], args: Sequence[PyTree], kwargs: Mapping[str, PyTree]
) -> list[str]:
    """What a user calls each array among the arguments: `x`, `params.w1`, `layers.0`."""
    try:
        bound = signature(fun).bind_partial(*args).arguments
    except (TypeError, ValueError):
        return []
    given = [*bound.items(), *sorted(kwargs.items())]  # the leaves of one dictionary are sorted
    leaves = [leaf for name, value in given for leaf in leaves_with_path({name: value})]
    return [keystr(path, simple=True, separator=".") for path, _leaf in leaves]


def values_of(
    fun: Callable[..., PyTree],
    program: Program,
    args: tuple[PyTree, ...],
    kwargs: dict[str, PyTree],
) -> dict[Var, object]:
    """What each variable of a program is for these arguments."""
    entry = jitted(fun).entry_of(args, kwargs)
    given = [*entry.captured, *jitted(fun).arrays_of(args, kwargs)]
    env: dict[Var, object] = dict(zip(program.inputs, map(np.asarray, given), strict=True))
    env.update(program.consts)
    for eqn in program.eqns:
        out = bind(
            eqn.prim, *[a.value if isinstance(a, Lit) else env[a] for a in eqn.inputs], **eqn.params
        )
        env.update(zip(eqn.outputs, out if eqn.prim.multiple else [out], strict=True))
    return env
