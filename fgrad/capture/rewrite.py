"""L5. Function -> code in which loops and branches are local functions that `capture_` runs.

    for i in range(n):            def body_1(item_):
        s = s + x[i]        ->        nonlocal s
                                      i = item_
                                      s = s + capture_.item(x, i)
                                  capture_.for_(capture_.called(range)(n), body_1, ("s",), ...)

What a body binds and what is wanted after it is `nonlocal`, so it lies in cells, which the loop
reads and writes (`state.py`).  File and line numbers stay.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from types import CodeType, FunctionType

from fgrad.capture import jumps
from fgrad.capture.expressions import CAPTURE, ITEM, Expressions, later, load, operator_call
from fgrad.capture.jumps import Block, at
from fgrad.capture.matching import Matches
from fgrad.capture.names import (
    FUNCTIONS,
    MADE,
    NONE,
    Names,
    elements_written,
    live,
    nodes_in,
    own_nodes,
    read_later,
    stored,
    written,
)
from fgrad.capture.source import (
    Unconvertible,
    code_of,
    codes_in,
    copied,
    definition,
    function_of,
    no_arguments,
    node_of,
    placed,
)


def converted_code(fun: FunctionType) -> CodeType:
    """The code of the rewritten function.

    Raises:
        Unconvertible: it stays as it is; the text says why.
    """
    node = function_of(node_of(fun))
    new = _Function().function(node)
    made = code_of(new, fun.__code__, CAPTURE)
    if made is None:
        raise Unconvertible("its control flow is not understood")
    return renamed(made, fun.__code__)


def renamed(code: CodeType, like: CodeType) -> CodeType:
    """Code whose own functions bear the name of the user's function in tracebacks."""
    lambdas = frozenset([c.co_firstlineno for c in codes_in(like) if c.co_name == "<lambda>"])

    def is_ours(c: CodeType) -> bool:
        """A function made here, or a lambda in a line where the user has none."""
        made = c.co_name.startswith(MADE) and c.co_name[-1].isdigit()
        return made or (c.co_name == "<lambda>" and c.co_firstlineno not in lambdas)

    def one(inner: CodeType, name: str, full: str) -> CodeType:
        constants = tuple([
            one(c, *((name, full) if is_ours(c) else (c.co_name, f"{full}.{c.co_name}")))
            if isinstance(c, CodeType)
            else c
            for c in inner.co_consts
        ])  # fmt: skip
        names = {"co_name": name, "co_consts": constants}
        if hasattr(inner, "co_qualname"):
            names["co_qualname"] = full
        return inner.replace(**names)  # type: ignore[arg-type]

    return one(code, like.co_name, getattr(like, "co_qualname", like.co_name))


class _Function:
    """Rewrites one function; functions in it have another one of their own."""

    def __init__(self) -> None:
        self.number = 0
        self.globals: Names = NONE
        self.outside: Names = NONE  # declared global or nonlocal
        self.later: Names = NONE  # what functions made here read

    def function(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """The definition with another body."""
        nodes = list(own_nodes(node.body))
        if any([isinstance(n, ast.Match) for n in nodes]):
            node.body = Matches().body(node.body)
            nodes = list(own_nodes(node.body))
        if any([isinstance(n, (ast.Yield, ast.YieldFrom, ast.Await)) for n in nodes]):
            raise Unconvertible("it is a generator or a coroutine")
        declared = [n for n in nodes if isinstance(n, (ast.Global, ast.Nonlocal))]
        self.globals = frozenset(
            [name for n in declared if isinstance(n, ast.Global) for name in n.names]
        )
        self.outside = frozenset([name for n in declared for name in n.names])
        args = node.args
        parameters = [*args.posonlyargs, *args.args, *args.kwonlyargs]
        parameters += [a for a in (args.vararg, args.kwarg) if a]
        first = (args.posonlyargs + args.args)[:1]
        self.expressions = Expressions(
            _inner, first[0].arg if first else None, elements_written(node.body)
        )
        returns = [n for n in nodes if isinstance(n, ast.Return)]
        body = jumps.without_returns(node.body, returns, node)
        self.later = read_later(body)
        new, carried = self.block(body, NONE)
        own = carried - {a.arg for a in parameters} - self.outside
        inner = [n for n in nodes if isinstance(n, (*FUNCTIONS, ast.ClassDef))]
        cells = at(_cells(node, inner, self.outside - self.globals), node)
        node.body = [*_declared(own, node), *cells, *new] or at([ast.Pass()], node)
        return node

    def block(self, statements: Block, after: Names) -> tuple[Block, Names]:
        """New statements, and the names that functions in them share with this scope."""
        new: Block = []
        shared: Names = NONE
        for s in reversed(statements):
            after |= self.later | (self.outside - self.globals)  # at any time
            before = live([s], after)
            made, names = self.statement(s, after)
            shared |= names
            new = made + new
            after = before
        return new, shared

    def statement(self, s: ast.stmt, after: Names) -> tuple[Block, Names]:
        """One statement, given the names that are wanted after it."""
        if isinstance(s, ast.If):
            return self.branch(s, after)
        if isinstance(s, (ast.For, ast.While)):
            return self.loop(s, after)
        if isinstance(s, (ast.With, ast.Try)):
            return self.guarded(s, after)
        if type(s).__name__ == "TryStar":
            return [s], NONE
        effects: Block = []
        bound = sorted(stored(s) & self.globals) if self.globals else []
        if bound:
            call = operator_call("effect", ast.Constant(f"global {', '.join(bound)}"))
            effects = at([ast.Expr(call)], s)
        new = self.expressions.visit(s)
        return effects + (new if isinstance(new, list) else [new]), NONE

    def sub(
        self, name: str, body: Block, after: Names, shared: Names, like: ast.AST, *args: str
    ) -> ast.FunctionDef:
        """A block as a local function that shares names with the enclosing one."""
        new, inner = self.block(body, after)
        own = inner - shared - self.outside - set(args)
        head: Block = []
        if shared:
            head.append(ast.Nonlocal(sorted(shared)))
        bound = sorted(stored(body) & self.globals) if self.globals else []
        if bound:
            head.append(ast.Global(bound))
        body = [*at(head, like), *_declared(own, like), *(new or at([ast.Pass()], like))]
        return placed(definition(name, no_arguments(*args), body), like)  # type: ignore[return-value]

    def branch(self, s: ast.If, after: Names) -> tuple[Block, Names]:
        """`if` as a call with two functions."""
        self.number += 1
        k = self.number
        bound = (stored(s.body) | stored(s.orelse)) - self.globals
        wanted = after | live(s.body, after) | live(s.orelse, after)
        shared = bound & wanted
        then = self.sub(f"{MADE}then_{k}", s.body, after, shared, s)
        other = self.sub(f"{MADE}else_{k}", s.orelse, after, shared, s)
        call = operator_call(
            "if_",
            self.expressions.condition(s.test),
            load(then.name),
            load(other.name),
            _constant(bound & after),
            _constant(shared - after),
            _constant(written((*s.body, *s.orelse))),
        )
        return [then, other, *at([ast.Expr(call)], s)], shared

    def loop(self, s: ast.For | ast.While, after: Names) -> tuple[Block, Names]:
        """A loop as a call with a function for its body."""
        self.number += 1
        k = self.number
        if isinstance(s, ast.While) and any(
            [isinstance(n, ast.NamedExpr) for n in own_nodes([s.test])]
        ):
            s = _tested_inside(s)
        body, breaks = jumps.without_breaks(s.body, k)
        flag = jumps.BREAK.format(k)
        before: Block = at([jumps.set_flag(flag, False)], s) if breaks else []
        rest, names = self._else(s.orelse, flag if breaks else "", after, s)
        if s.orelse:
            skipped = [ast.If(jumps.unless([flag]), s.orelse, [])] if breaks else s.orelse
            after = live(skipped, after)
        head = after | ({flag} if breaks else NONE)
        test = s.test if isinstance(s, ast.While) else None
        if isinstance(s, ast.For):
            body = [*at([ast.Assign([s.target], load(ITEM))], s), *body]
        head = _at_head(body, head, test)
        bound = stored(body) - self.globals - {ITEM}
        shared = bound & head
        args = () if test is not None else (ITEM,)
        made = self.sub(f"{MADE}body_{k}", body, head, shared, s, *args)
        state = [load(made.name), _constant(shared), _constant(written(body))]
        if test is not None:
            go = ast.BoolOp(ast.And(), [jumps.unless([flag]), test]) if breaks else test
            test = self.expressions.condition(placed(go, s))  # type: ignore[arg-type]
            call = operator_call("while_", later(test), *state)
        else:
            stop = later(load(flag)) if breaks else ast.Constant(None)
            given = self.expressions.visit(s.iter)  # type: ignore[union-attr]
            call = operator_call("for_", given, stop, *state)
        flags = frozenset({flag}) if breaks else NONE
        return [*before, made, *at([ast.Expr(call)], s), *rest], shared | names | flags

    def _else(self, orelse: Block, flag: str, after: Names, like: ast.stmt) -> tuple[Block, Names]:
        """What follows a loop that was not left by `break`."""
        if not orelse:
            return [], NONE
        if flag:
            orelse = at([ast.If(jumps.unless([flag]), orelse, [])], like)
        return self.block([copied(s) for s in orelse], after)

    def guarded(self, s: ast.With | ast.Try, after: Names) -> tuple[Block, Names]:
        """`with` and `try` stay; blocks in them may be left anywhere."""
        if jumps.contains([s], (ast.Return, ast.Break, ast.Continue), False):
            raise Unconvertible(f"a jump stands in `{type(s).__name__.lower()}`")
        found = stored(s) | live([s], after)
        shared: Names = NONE
        blocks = [s, *getattr(s, "handlers", [])]
        for owner in blocks:
            for field in ("body", "orelse", "finalbody"):
                if getattr(owner, field, None):
                    new, names = self.block(getattr(owner, field), after | found)
                    setattr(owner, field, new)
                    shared |= names
        for item in getattr(s, "items", []):
            item.context_expr = self.expressions.visit(item.context_expr)
        if isinstance(s, ast.Try) and s.handlers:
            _watch(s)
        return [s], shared


def _watch(s: ast.Try) -> None:
    """Tell what the block of a `try` may raise that its handlers catch, and keep from them what is
    raised by tracing itself."""
    kinds: list[ast.expr] = [h.type or ast.Name("BaseException", ast.Load()) for h in s.handlers]
    call = operator_call("trying", later(ast.Tuple([copied(kind) for kind in kinds], ast.Load())))
    s.body = at([ast.With([ast.withitem(call)], s.body)], s)
    for handler in s.handlers:
        handler.body = [*at([ast.Expr(operator_call("caught"))], handler), *handler.body]


def _cells(node: ast.FunctionDef, scopes: Sequence[ast.AST], outside: Names) -> Block:
    """Statements that name the variables of an enclosing function which a function binds, and those
    of its own which `scopes` in it bind."""
    inner = [part for n in scopes for part in nodes_in(n) if isinstance(part, ast.Nonlocal)]
    parameters = {part.arg for part in nodes_in(node.args) if isinstance(part, ast.arg)}
    bound = stored(node.body)
    own = frozenset([n for part in inner for n in part.names]) & (bound | parameters) - outside
    calls = [operator_call("made_cell", later(load(name))) for name in sorted(own)]
    calls += [
        operator_call("changes_cell", ast.Constant(name), later(load(name)))
        for name in sorted(bound & outside)
    ]
    return [ast.Expr(call) for call in calls]


def _inner(node: ast.FunctionDef) -> ast.FunctionDef:
    """A function that is defined in another one; a generator stays as it is."""
    kept = copied(node)
    try:
        return _Function().function(node)
    except Unconvertible:
        return kept


def _tested_inside(s: ast.While) -> ast.While:
    """`while (x := f()): ...` as `while True: if not (x := f()): break; ...`."""
    if s.orelse:
        raise Unconvertible("`:=` stands in a condition")
    leave: Block = [ast.If(ast.UnaryOp(ast.Not(), s.test), [ast.Break()], [])]
    inside = ast.While(ast.Constant(True), [*at(leave, s), *s.body], [])
    return placed(ast.copy_location(inside, s), s)  # type: ignore[return-value]


def _at_head(body: Block, after: Names, test: ast.expr | None) -> Names:
    """The names that are wanted where a loop begins a step."""
    loop: ast.stmt
    if test is not None:
        loop = ast.While(test, body, [])
    else:
        loop = ast.While(ast.Constant(True), body, [])
    return live([loop], after)


def _constant(names: Names) -> ast.expr:
    elements: list[ast.expr] = [ast.Constant(name) for name in sorted(names)]
    return ast.Tuple(elements, ast.Load())


def _declared(names: Names, like: ast.AST) -> Block:
    """What makes names local here without binding them."""
    if not names:
        return []
    targets: list[ast.expr] = [ast.Name(name, ast.Store()) for name in sorted(names)]
    return at([ast.If(ast.Constant(False), [ast.Assign(targets, ast.Constant(None))], [])], like)
