"""L5. Statements -> the names that they bind and read, and those whose values are wanted later.

    live([y = x + 1; z = y], {z})  ==  {x}

A name that a function made here reads may be read at any time, so it is wanted everywhere.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TypeAlias

Names: TypeAlias = "frozenset[str]"
NONE: Names = frozenset()
MADE = "."  # names that rewriting makes begin so, as no name of a user's can: `.item`

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class _Found(ast.NodeVisitor):
    """The names of a scope, without those of the scopes in it."""

    def __init__(self) -> None:
        self.stores: set[str] = set()
        self.loads: set[str] = set()
        self.inner: set[str] = set()  # of functions that are made here

    def visit_Name(self, node: ast.Name) -> None:
        (self.loads if isinstance(node.ctx, ast.Load) else self.stores).add(node.id)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.stores.add(node.name)
        self._function(node.args, node.body, node.decorator_list)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._function(node.args, [node.body], [])

    def _function(
        self, args: ast.arguments, body: Iterable[ast.AST], outside: Iterable[ast.AST]
    ) -> None:
        for part in (*outside, *args.defaults, *[d for d in args.kw_defaults if d]):
            self.visit(part)
        found = _Found()
        for part in body:
            found.visit(part)
        self.inner |= found.loads | found.stores | found.inner

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.stores.add(node.name)
        self._function(no_parameters, node.body, [*node.decorator_list, *node.bases])

    def _comprehension(self, node: ast.AST) -> None:
        found = _Found()
        found.generic_visit(node)
        self.loads |= found.loads
        self.inner |= found.inner
        self.stores |= {n.target.id for n in ast.walk(node) if isinstance(n, ast.NamedExpr)}

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        self.stores |= {(a.asname or a.name).split(".")[0] for a in node.names}

    visit_ImportFrom = visit_Import

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self.stores.add(node.name)
        self.generic_visit(node)

    def generic_visit(self, node: ast.AST) -> None:
        if type(node).__name__ in ("MatchAs", "MatchStar", "MatchMapping"):
            name = getattr(node, "name", None) or getattr(node, "rest", None)
            if name:
                self.stores.add(name)
        super().generic_visit(node)


no_parameters = ast.arguments([], [], None, [], [], None, [])


def found_in(nodes: ast.AST | Iterable[ast.AST] | None) -> _Found:
    """All names of some statements or expressions."""
    found = _Found()
    for node in [nodes] if isinstance(nodes, ast.AST) else nodes or ():
        found.visit(node)
    return found


def stored(nodes: ast.AST | Iterable[ast.AST] | None) -> Names:
    """The names that are bound."""
    return frozenset(found_in(nodes).stores)


def read(nodes: ast.AST | Iterable[ast.AST] | None) -> Names:
    """The names that are read."""
    found = found_in(nodes)
    return frozenset(found.loads | found.inner)


def read_later(nodes: Iterable[ast.AST]) -> Names:
    """The names that functions made here read."""
    return frozenset(found_in(nodes).inner)


def live(statements: Iterable[ast.stmt], after: Names) -> Names:
    """The names whose values are wanted before some statements, given those wanted after them."""
    wanted = after
    for statement in reversed(list(statements)):
        wanted = _before(statement, wanted)
    return wanted


def _before(s: ast.stmt, after: Names) -> Names:
    if isinstance(s, ast.If):
        return read(s.test) | live(s.body, after) | live(s.orelse, after)
    if isinstance(s, (ast.For, ast.While)):
        test = read(s.test) if isinstance(s, ast.While) else NONE
        bound = stored(s.target) if isinstance(s, ast.For) else NONE
        head = after | live(s.orelse, after) | test
        while True:
            more = head | (live(s.body, head) - bound)
            if more == head:
                break
            head = more
        return head | (read(s.iter) | read(s.target) if isinstance(s, ast.For) else NONE)
    found = found_in(s)
    reads = frozenset(found.loads | found.inner)
    if isinstance(s, ast.Return):
        return reads
    if isinstance(s, (ast.Assign, ast.AnnAssign, ast.FunctionDef, ast.Import, ast.ImportFrom)):
        return (after - found.stores) | reads
    return after | reads | found.stores


def own_nodes(statements: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All parts of statements, without those of functions and classes in them."""
    left = list(statements)
    while left:
        node = left.pop()
        yield node
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            left += list(ast.iter_child_nodes(node))


def elements_written(body: Iterable[ast.stmt]) -> Names:
    """The names of arrays whose elements a block writes."""
    found = set()
    for node in own_nodes(body):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            root: ast.expr = node
            while isinstance(root, (ast.Subscript, ast.Attribute)):
                root = root.value
            if isinstance(root, ast.Name):
                found.add(root.id)
    return frozenset(found)
