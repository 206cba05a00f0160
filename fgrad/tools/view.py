"""L7. Source lines side by side with the equations and costs of each.

view(f)(*args)              in a notebook: a table; `.save("f.html")`, `.dot()` for Graphviz

    your line                       forward                   adjoint             kernels
    h = np.tanh(x @ w)              d = dot_general a b       k = mul j i         1 gemm, 2 tanh
                                    e = tanh d
"""

from __future__ import annotations

import html
from collections.abc import Callable
from pathlib import Path

from fgrad.base.named_tuple import NamedTuple
from fgrad.base.pickling import pickles_as_call
from fgrad.base.source import Loc
from fgrad.compile.jit.inspect import inspect
from fgrad.compile.tasks.steps import Group
from fgrad.ir.program import Eqn, Lit, Program, Var
from fgrad.ir.text import names, print_eqn, scalar_text
from fgrad.transforms.core.wrap import named_like
from fgrad.typing import PyTree

# Fills that text can be read on, for groups in turn.
COLOURS = (
    "#dbeafe", "#dcfce7", "#fef3c7", "#fce7f3", "#ede9fe", "#cffafe", "#ffedd5", "#e2e8f0",
)  # fmt: skip

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
    """A program with its source; `_repr_html_` shows it in notebooks."""

    def __init__(self, program: Program, groups: list[Group]) -> None:
        self.program = program
        self.groups = groups
        self.names: dict[Var, str] = {}
        fresh = names()
        for var in (*program.inputs, *[v for v, _ in program.consts]):
            self.names[var] = next(fresh)
        for eqn in program.eqns:
            self.names.update({v: next(fresh) for v in eqn.outputs})
        self.group_of = {_key(e): k for k, g in enumerate(groups) for e in g.eqns}

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

    def _repr_html_(self) -> str:
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
        group = self.group_of.get(_key(eqn))
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
        """Write the table as a page."""
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
            group = self.group_of.get(_key(eqn))
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
def view(fun: Callable[..., PyTree]) -> Callable[..., View]:
    """A function that compiles `fun` for its arguments and shows the program beside its source.

    Arguments:
        fun: a function of arrays, or what `jit` returned for one; `grad(f)` shows the adjoint too.

    Example:
        >>> import numpy as np, fgrad
        >>> page = fgrad.view(fgrad.value_and_grad(lambda x: np.sum(np.sin(x))))(np.ones(3))
        >>> "sin a" in page._repr_html_(), "cos a" in page._repr_html_()
        (True, True)
    """

    def viewed(*args: PyTree, **kwargs: PyTree) -> View:
        stages = inspect(fun)(*args, **kwargs)
        passes = stages.passes
        return View(passes["cse"], passes["fuse"].groups)

    return named_like(viewed, fun, "view")
