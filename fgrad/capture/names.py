"""L5. Statements -> the names that they bind and read, and those whose values are wanted later.

    live([y = x + 1; z = y], {z})  ==  {x}

A name that a function made here reads may be read at any time, so it is wanted everywhere.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

Names: TypeAlias = "frozenset[str]"
NONE: Names = frozenset()
MADE = "."  # names that rewriting makes begin so, as no name of a user's can: `.item`

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_SCOPES = frozenset([*FUNCTIONS, ast.ClassDef])
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def children(node: ast.AST) -> list[ast.AST]:
    """The parts of a part of a tree, without operators and contexts, which have none;
    `ast.iter_child_nodes` takes ten times as long."""
    found: list[ast.AST] = []
    fields = vars(node)
    for name in PARTS[type(node)]:
        value = fields.get(name)
        if isinstance(value, list):
            found += [x for x in value if x is not None]
        elif value is not None:
            found.append(value)
    return found


def nodes_in(node: ast.AST) -> list[ast.AST]:
    """A part of a tree and all in it, the outermost first."""
    found = [node]
    for part in found:
        found += children(part)
    return found


class _Found:
    """The names of a scope, without those of the scopes in it."""

    __slots__ = ("changed", "elements", "inner", "loads", "stores")

    def __init__(self) -> None:
        self.stores: set[str] = set()
        self.loads: set[str] = set()
        self.inner: set[str] = set()  # of functions that are made here
        self.elements: set[str] = set()  # arrays whose elements are written
        self.changed: set[str] = set()  # by `y += v`

    def visit(self, node: ast.AST) -> None:
        """Add the names of a part of a tree."""
        if isinstance(node, _SIMPLE):
            self.add(found_in_simple(node))
            return
        self.visit_part(node)

    def add(self, other: _Found) -> None:
        """Add the names of another part of the scope."""
        self.stores |= other.stores
        self.loads |= other.loads
        self.inner |= other.inner
        self.elements |= other.elements
        self.changed |= other.changed

    def visit_part(self, node: ast.AST) -> None:
        """Add the names of a part of a tree that is no simple statement."""
        of_kind = _OF_KIND.get(type(node))
        if of_kind is not None:
            of_kind(self, node)
        else:
            for part in children(node):
                self.visit(part)

    def visit_Name(self, node: ast.Name) -> None:
        (self.loads if isinstance(node.ctx, ast.Load) else self.stores).add(node.id)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if isinstance(node.ctx, ast.Store):
            root: ast.expr = node
            while isinstance(root, (ast.Subscript, ast.Attribute)):
                root = root.value
            if isinstance(root, ast.Name):
                self.elements.add(root.id)
        for part in children(node):
            self.visit_part(part)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self.changed.add(node.target.id)
        for part in children(node):
            self.visit_part(part)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.stores.add(node.name)
        self._function(node.args, node.body, node.decorator_list)

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

    def visit_comprehension(self, node: ast.AST) -> None:
        found = _Found()
        for part in children(node):
            found.visit(part)
        self.loads |= found.loads
        self.inner |= found.inner
        self.stores |= {n.target.id for n in nodes_in(node) if isinstance(n, ast.NamedExpr)}

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        self.stores |= {(a.asname or a.name).split(".")[0] for a in node.names}

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self.stores.add(node.name)
        for part in children(node):
            self.visit(part)

    def visit_pattern(self, node: ast.MatchAs | ast.MatchStar | ast.MatchMapping) -> None:
        name = node.rest if isinstance(node, ast.MatchMapping) else node.name
        if name:
            self.stores.add(name)
        for part in children(node):
            self.visit(part)


_OF_KIND: dict[type[ast.AST], Callable[..., None]] = {
    ast.Name: _Found.visit_Name,
    ast.Subscript: _Found.visit_Subscript,
    ast.AugAssign: _Found.visit_AugAssign,
    ast.FunctionDef: _Found.visit_FunctionDef,
    ast.AsyncFunctionDef: _Found.visit_FunctionDef,
    ast.Lambda: _Found.visit_Lambda,
    ast.ClassDef: _Found.visit_ClassDef,
    ast.Import: _Found.visit_Import,
    ast.ImportFrom: _Found.visit_Import,
    ast.ExceptHandler: _Found.visit_ExceptHandler,
    **dict.fromkeys(COMPREHENSIONS, _Found.visit_comprehension),
    **dict.fromkeys((ast.MatchAs, ast.MatchStar, ast.MatchMapping), _Found.visit_pattern),
}

_SIMPLE = (
    ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return, ast.Raise, ast.Assert,
)  # fmt: skip
_FOUND = f"{MADE}found"
_MARKS = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)
WITHOUT_PARTS = frozenset([
    _Found, int, str, type(None), float, bool, complex, bytes, type(...), tuple, frozenset,
    *[kind for mark in _MARKS for kind in mark.__subclasses__()],
])  # fmt: skip


def _kinds(kind: type[ast.AST]) -> Iterator[type[ast.AST]]:
    yield kind
    for other in kind.__subclasses__():
        yield from _kinds(other)


_PLAIN = frozenset([
    "arg", "asname", "attr", "conversion", "ctx", "id", "is_async", "kind", "kwd_attrs", "level",
    "module", "name", "op", "ops", "rest", "simple", "str", "tag", "type_comment",
])  # fmt: skip


def _fields(kind: type[ast.AST]) -> tuple[str, ...]:
    """The fields of a kind of node that may hold parts."""
    if kind in (ast.Constant, ast.MatchSingleton, ast.Global, ast.Nonlocal, ast.TypeIgnore):
        return ()
    kept = ("name",) if kind.__name__ == "TypeAlias" else ()
    return kept + tuple([name for name in kind._fields if name not in _PLAIN])


PARTS = {kind: _fields(kind) for kind in _kinds(ast.AST)}


def found_in_simple(node: ast.stmt) -> _Found:
    """The names of a statement without blocks, which the statement keeps: they are asked for once
    for each block around it, before it is rewritten and after that."""
    found = vars(node).get(_FOUND)
    if found is None:
        found = vars(node)[_FOUND] = _Found()
        found.visit_part(node)
    return found


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
        # Once is enough: what a block wants is what it reads, and what is wanted after it without
        # what it binds.  To look again would take twice as long for each loop around.
        head |= live(s.body, head) - bound
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
        if type(node) not in _SCOPES:
            left += children(node)


def elements_written(body: Iterable[ast.stmt]) -> Names:
    """The names of arrays whose elements a block writes."""
    return frozenset(found_in(body).elements)


def written(body: Iterable[ast.stmt]) -> Names:
    """The names of arrays that a block may write."""
    found = found_in(body)
    return frozenset(found.elements | found.changed)
