"""L5. `return`, `break` and `continue` -> assignments: blocks that are left at their end alone.

    if p: return a        if p: result = a
    rest                  else: rest'

What follows a jump that is surely taken goes into the other branch; where that is not possible a
flag says that the rest is skipped.  A loop with `break` tests its flag before each step.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from fgrad.capture.names import FUNCTIONS, MADE
from fgrad.capture.source import Unconvertible, placed

RESULT, RETURNED = f"{MADE}result", f"{MADE}returned"  # of a function with several `return`s
BREAK, CONTINUE = f"{MADE}break_{{}}", f"{MADE}continue_{{}}"  # of a loop by its number

Block = list[ast.stmt]
JumpTypes = tuple[type[ast.stmt], ...]


def at(nodes: Block, like: ast.AST) -> Block:
    """New statements where another one stands."""
    return [placed(node, like) for node in nodes]  # type: ignore[misc]


def assign(name: str, value: ast.expr) -> ast.Assign:
    """`name = value`."""
    return ast.Assign([ast.Name(name, ast.Store())], value)


def set_flag(name: str, value: bool) -> ast.Assign:
    """`name = True`."""
    return assign(name, ast.Constant(value))


def unless(names: Sequence[str]) -> ast.expr:
    """`not a and not b`."""
    parts: list[ast.expr] = [ast.UnaryOp(ast.Not(), ast.Name(n, ast.Load())) for n in names]
    return parts[0] if len(parts) == 1 else ast.BoolOp(ast.And(), parts)


def contains(statements: Sequence[ast.stmt], kinds: JumpTypes, in_loops: bool = True) -> bool:
    """Whether a jump stands in some statements; `break` in an inner loop is that loop's."""
    for s in statements:
        if isinstance(s, kinds):
            return True
        if isinstance(s, (*FUNCTIONS, ast.ClassDef)):
            continue
        if isinstance(s, (ast.For, ast.While)) and not in_loops:
            if contains(s.orelse, kinds, in_loops):
                return True
            continue
        if any([contains(block, kinds, in_loops) for block in _blocks(s)]):
            return True
    return False


def _blocks(s: ast.stmt) -> list[Block]:
    found = [getattr(s, field, None) or [] for field in ("body", "orelse", "finalbody")]
    return found + [handler.body for handler in getattr(s, "handlers", [])]


def surely_left(statements: Sequence[ast.stmt], kinds: JumpTypes) -> bool:
    """Whether a block always ends with a jump, or an error."""
    if not statements:
        return False
    last = statements[-1]
    if isinstance(last, (*kinds, ast.Raise)):
        return True
    if isinstance(last, ast.While) and ast.Return in kinds:  # it has no end but a jump
        endless = isinstance(last.test, ast.Constant) and bool(last.test.value)
        return endless and not contains(last.body, (ast.Break,), False)
    both = isinstance(last, ast.If) and last.body and last.orelse
    return bool(both) and all([surely_left(b, kinds) for b in (last.body, last.orelse)])  # type: ignore[attr-defined]


def without_returns(body: Block, returns: Sequence[ast.Return], like: ast.AST) -> Block:
    """The body of a function, which has these jumps, with one `return`, at its end."""
    if not returns or (len(returns) == 1 and body[-1] is returns[0]):
        return body
    jumps = _Returns()
    returns_surely = surely_left(body, (ast.Return,))
    new = jumps.block(body, False)
    head: Block = [set_flag(RETURNED, False)] if jumps.flagged else []
    if not returns_surely:
        head.append(assign(RESULT, ast.Constant(None)))
    end = ast.Return(ast.Name(RESULT, ast.Load()))
    return at([*head, *new, end], like)


def is_guard(s: ast.stmt, kinds: JumpTypes) -> bool:
    """Whether a statement is `with` or `try`, of which a jump leaves all blocks but `finally`."""
    if isinstance(s, ast.With):
        return True
    return isinstance(s, ast.Try) and not contains(s.finalbody, kinds, False)


def blocks_of_guard(s: Any) -> list[tuple[Any, str]]:
    """The blocks of `with` or `try`, by what has them, and their names."""
    handlers = [(handler, "body") for handler in getattr(s, "handlers", ())]
    return [(s, "body"), *handlers, *([(s, "orelse")] if getattr(s, "orelse", None) else [])]


class _Returns:
    """`return x` as `result = x`."""

    def __init__(self) -> None:
        self.flagged = False

    def block(self, statements: Sequence[ast.stmt], in_loop: bool) -> Block:
        new: Block = []
        for k, s in enumerate(statements):
            rest = list(statements[k + 1 :])
            if isinstance(s, ast.Return):
                return new + self._return(s, in_loop)
            if not contains([s], (ast.Return,)):
                new.append(s)
                continue
            if isinstance(s, ast.If):
                return new + self._branch(s, rest, in_loop)
            if isinstance(s, (ast.For, ast.While)):
                self.flagged = True
                s.body = self.block(s.body, True)
                s.orelse = self.block(s.orelse, in_loop)
                new.append(s)
                if in_loop:
                    leave = ast.If(ast.Name(RETURNED, ast.Load()), [ast.Break()], [])
                    new += at([leave], s)
                return new + self._rest(rest, in_loop, s)
            if not is_guard(s, (ast.Return,)):
                raise Unconvertible(f"`return` stands in `{type(s).__name__.lower()}`")
            self.flagged = True
            for owner, field in blocks_of_guard(s):
                new_block = self.block(getattr(owner, field), in_loop)
                if field == "orelse" and new_block:
                    new_block = at([ast.If(unless([RETURNED]), new_block, [])], s)
                setattr(owner, field, new_block)
            return [*new, s, *self._rest(rest, in_loop, s)]
        return new

    def _return(self, s: ast.Return, in_loop: bool) -> Block:
        new: Block = [assign(RESULT, s.value or ast.Constant(None))]
        new.append(set_flag(RETURNED, True))
        if in_loop:
            self.flagged = True
            new.append(ast.Break())
        return at(new, s)

    def _branch(self, s: ast.If, rest: Block, in_loop: bool) -> Block:
        kinds: JumpTypes = (ast.Return, *((ast.Break, ast.Continue) if in_loop else ()))
        if surely_left(s.body, kinds):
            s.orelse, rest = s.orelse + rest, []
        elif surely_left(s.orelse, kinds):
            s.body, rest = s.body + rest, []
        s.body = self.block(s.body, in_loop) or at([ast.Pass()], s)
        s.orelse = self.block(s.orelse, in_loop)
        return [s, *self._rest(rest, in_loop, s)]

    def _rest(self, rest: Block, in_loop: bool, like: ast.stmt) -> Block:
        if not rest:
            return []
        self.flagged = True
        return at([ast.If(unless([RETURNED]), self.block(rest, in_loop), [])], like)


def without_breaks(body: Block, number: int) -> tuple[Block, bool]:
    """The body of a loop with flags for `break` and `continue`, and whether it has a `break`."""
    kinds: JumpTypes = (ast.Break, ast.Continue)
    if not contains(body, kinds, False):
        return body, False
    breaks = contains(body, (ast.Break,), False)
    continues = contains(body, (ast.Continue,), False)
    flags = [BREAK.format(number)] * breaks + [CONTINUE.format(number)] * continues
    new = _flagged(body, number, flags)
    if continues:
        new = [*at([set_flag(CONTINUE.format(number), False)], body[0]), *new]
    return new, breaks


def _flagged(statements: Sequence[ast.stmt], number: int, flags: Sequence[str]) -> Block:
    kinds: JumpTypes = (ast.Break, ast.Continue)
    new: Block = []
    for k, s in enumerate(statements):
        rest = list(statements[k + 1 :])
        if isinstance(s, kinds):
            flag = BREAK if isinstance(s, ast.Break) else CONTINUE
            return new + at([set_flag(flag.format(number), True)], s)
        if not contains([s], kinds, False):
            new.append(s)
            continue
        if isinstance(s, (ast.For, ast.While)):  # after its `else`
            s.orelse = _flagged(s.orelse, number, flags)
            new.append(s)
            return new + _unless_left(rest, number, flags, s)
        if is_guard(s, kinds):
            for owner, field in blocks_of_guard(s):
                block = _flagged(getattr(owner, field), number, flags)
                if field == "orelse" and block:
                    block = at([ast.If(unless(flags), block, [])], s)
                setattr(owner, field, block)
            new.append(s)
            return new + _unless_left(rest, number, flags, s)
        if not isinstance(s, ast.If):
            raise Unconvertible(f"`break` stands in `{type(s).__name__.lower()}`")
        if surely_left(s.body, kinds):
            s.orelse, rest = s.orelse + rest, []
        elif surely_left(s.orelse, kinds):
            s.body, rest = s.body + rest, []
        s.body = _flagged(s.body, number, flags) or at([ast.Pass()], s)
        s.orelse = _flagged(s.orelse, number, flags)
        new.append(s)
        return new + _unless_left(rest, number, flags, s)
    return new


def _unless_left(rest: Block, number: int, flags: Sequence[str], like: ast.stmt) -> Block:
    """What is skipped after a jump."""
    if not rest:
        return []
    return at([ast.If(unless(flags), _flagged(rest, number, flags), [])], like)
