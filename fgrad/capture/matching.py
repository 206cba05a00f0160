"""L5. `match` -> `if`: what a pattern asks of a value is asked of traced ones too.

    match p:                        subject = p
        case float(y) if y > t:     found = capture_.pattern(subject, ("class", float, ...))
            a                  ->   if found[0]:
        case _:                         y = found[1]["y"]
            b                           fits = not not y > t
                                    else: fits = False
                                    if fits: y = found[1]["y"]; a
                                    else: b

A pattern is a tuple of its kind and its parts, see `patterns.py`.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from fgrad.capture.expressions import load, operator_call
from fgrad.capture.jumps import Block, assign, at
from fgrad.capture.names import MADE, nodes_in, own_nodes

SUBJECT, FOUND, FITS = f"{MADE}subject_{{}}", f"{MADE}pattern_{{}}", f"{MADE}fits_{{}}"


def asks_for_types(body: Sequence[ast.stmt]) -> bool:
    """Whether a pattern of some statements asks for a class, or for True, False or None: of traced
    values Python finds that they are none."""
    return any([isinstance(n, (ast.MatchClass, ast.MatchSingleton)) for n in own_nodes(body)])


class Matches(ast.NodeTransformer):
    """Rewrites the `match` statements of a function."""

    def __init__(self) -> None:
        self.number = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node

    visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = visit_FunctionDef  # type: ignore[assignment]

    def body(self, statements: Block) -> Block:
        """A block without `match`."""
        holder = ast.Module(statements, [])
        self.generic_visit(holder)
        return holder.body

    def visit_Match(self, node: ast.Match) -> Block:
        self.generic_visit(node)
        self.number += 1
        subject = SUBJECT.format(self.number)
        return [*at([assign(subject, node.subject)], node), *self._cases(node.cases, subject)]

    def _cases(self, cases: Sequence[ast.match_case], subject: str) -> Block:
        """The first case that fits, as `if`; the others in its `else`."""
        if not cases:
            return []
        case, rest = cases[0], cases[1:]
        name = _irrefutable(case)
        if name is not None:
            bound: Block = [assign(name, load(subject))] if name else []
            return [*at(bound, case.pattern), *case.body]
        self.number += 1
        found, fits = FOUND.format(self.number), FITS.format(self.number)
        asked = operator_call("pattern", load(subject), _described(case.pattern))
        names = sorted(_names(case.pattern))
        new: Block = [assign(found, asked)]
        test: ast.expr = _part(found, 0)
        if case.guard is not None:
            twice = ast.UnaryOp(ast.Not(), ast.UnaryOp(ast.Not(), case.guard))
            guarded = [*_bindings(found, names), assign(fits, twice)]
            new.append(ast.If(test, guarded, [assign(fits, ast.Constant(False))]))
            test = load(fits)
        body = [*_bindings(found, names), *case.body]
        new.append(ast.If(test, body, self._cases(rest, subject)))
        return at(new, case.pattern)


def _irrefutable(case: ast.match_case) -> str | None:
    """The name that a case binds which always fits, or an empty one; None for others."""
    pattern = case.pattern
    if case.guard is not None or not isinstance(pattern, ast.MatchAs) or pattern.pattern:
        return None
    return pattern.name or ""


def _part(found: str, index: int) -> ast.expr:
    return ast.Subscript(load(found), ast.Constant(index), ast.Load())


def _bindings(found: str, names: Sequence[str]) -> Block:
    """`y = found[1]["y"]`."""
    return [
        assign(name, ast.Subscript(_part(found, 1), ast.Constant(name), ast.Load()))
        for name in names
    ]


def _names(pattern: ast.pattern) -> set[str]:
    """The names that a pattern binds."""
    found = set()
    for part in nodes_in(pattern):
        if isinstance(part, (ast.MatchAs, ast.MatchStar)) and part.name:
            found.add(part.name)
        if isinstance(part, ast.MatchMapping) and part.rest:
            found.add(part.rest)
    return found


def _described(pattern: ast.pattern) -> ast.expr:
    """A pattern as an expression: a tuple that says what is asked."""
    if isinstance(pattern, ast.MatchValue):
        return _tuple("value", pattern.value)
    if isinstance(pattern, ast.MatchSingleton):
        return _tuple("is", ast.Constant(pattern.value))
    if isinstance(pattern, ast.MatchOr):
        return _tuple("or", *map(_described, pattern.patterns))
    if isinstance(pattern, ast.MatchStar):
        return _tuple("star", ast.Constant(pattern.name))
    if isinstance(pattern, ast.MatchSequence):
        return _tuple("sequence", *map(_described, pattern.patterns))
    if isinstance(pattern, ast.MatchMapping):
        pairs = zip(pattern.keys, map(_described, pattern.patterns), strict=True)
        items = [ast.Tuple([key, part], ast.Load()) for key, part in pairs]
        return _tuple("mapping", ast.Constant(pattern.rest), *items)
    if isinstance(pattern, ast.MatchClass):
        named = zip(pattern.kwd_attrs, map(_described, pattern.kwd_patterns), strict=True)
        items = [ast.Tuple([ast.Constant(k), part], ast.Load()) for k, part in named]
        placed = ast.Tuple(list(map(_described, pattern.patterns)), ast.Load())
        return _tuple("class", pattern.cls, placed, *items)
    assert isinstance(pattern, ast.MatchAs)
    name = ast.Constant(pattern.name)
    return _tuple("as", name, *([_described(pattern.pattern)] if pattern.pattern else []))


def _tuple(kind: str, *parts: ast.expr) -> ast.expr:
    return ast.Tuple([ast.Constant(kind), *parts], ast.Load())
