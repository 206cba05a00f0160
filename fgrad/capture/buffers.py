"""L5. The new arrays of a function that may stay NumPy's until a traced value is written into them.

    y = np.zeros(n)                     y = np.zeros(n)
    y[i] = v                 becomes    written = v
                                        y = capture_.ready(written, y)
                                        y[i] = written

At the prompt an array of the trace costs microseconds for each element that is read or written.  As
`ready` gives another object, this holds for variables alone whose array has no other name and no
views: each use of them is read at once, by a formula, a reduction or the like.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Collection, Iterable, Iterator
from types import FunctionType
from typing import TypeAlias

import numpy as np

from fgrad.capture.names import FUNCTIONS, MADE, children, nodes_in, own_nodes

Parents: TypeAlias = "dict[int, ast.AST]"
VALUE = f"{MADE}written"  # the variable of what is to be written


def _named(names: str, module: types.ModuleType = np) -> frozenset[object]:
    """NumPy's functions of these names; named by texts, as a type checker takes minutes to find
    what so many functions with overloads have in common."""
    return frozenset([getattr(module, name) for name in names.split() if hasattr(module, name)])


_BY_SHAPE = _named("zeros ones empty")
_LIKE = _named("zeros_like ones_like empty_like")
_FULL = _named("full full_like")
_OF_NUMBERS = _named("array arange linspace eye identity")  # if untraced
_READING = _named(
    "sum mean prod max min std var dot vdot inner outer argmax argmin any all cumsum cumprod "
    "trapezoid"
) | _named("norm solve inv det", np.linalg)
_JOINING = _named("concatenate stack hstack vstack column_stack")
_BUILTINS = frozenset({"len", "float", "int", "abs", "sum", "print", "range"})
_FACTS = frozenset({"shape", "size", "ndim", "dtype", "nbytes"})
_METHODS = frozenset({
    "sum", "mean", "prod", "max", "min", "std", "var", "dot", "argmax", "argmin", "any", "all",
    "copy", "cumsum", "tolist", "item",
})  # fmt: skip


class Buffers:
    """What is known of the new arrays of a function.

    Arguments:
        fun: the function.
        body: its statements.
    """

    def __init__(self, fun: FunctionType, body: list[ast.stmt]) -> None:
        code = fun.__code__
        self.scope, self.local = fun.__globals__, {*code.co_varnames, *code.co_cellvars}
        nodes = list(own_nodes(body))
        self.parents: Parents = {id(c): n for n in nodes for c in children(n)}
        self.made = self._made(nodes) - _elsewhere(nodes)
        self.made -= {*code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]}
        if any([isinstance(n, ast.Try) and n.finalbody for n in nodes]):
            self.made = set()  # `finally` may write what is returned
        self.counters = _counters(nodes, self.parents)
        uses = [n for n in nodes if isinstance(n, ast.Name) and n.id in self.made]
        self.names = self.made - {n.id for n in uses if not self._is_plain_use(n)}
        calls = [n for n in nodes if isinstance(n, ast.Call) and self._makes(n)]
        self.calls = {id(n) for n in calls if self._stays(n)}

    def stays(self, node: ast.Call) -> bool:
        """Whether a call makes a new array that is NumPy's as it stands."""
        return id(node) in self.calls

    def _stays(self, node: ast.Call) -> bool:
        if _is_among(self._function(node.func), _OF_NUMBERS):
            return True
        return self._is_stored(node) or self._is_read(node)

    def written(self, target: ast.expr) -> str | None:
        """The variable of such an array that an assignment to `target` writes."""
        root = target.value if isinstance(target, ast.Subscript) else target
        return root.id if isinstance(root, ast.Name) and root.id in self.names else None

    def is_known(self, value: ast.expr) -> bool:
        """Whether a value is made of written numbers and counters of loops: it is not traced."""
        return _is_constant(value, self.counters)

    def _made(self, nodes: Iterable[ast.AST]) -> set[str]:
        """The variables that are bound to new arrays alone, one of them by a call."""
        called: set[str] = set()
        others: set[str] = set()
        for node in nodes:
            others |= {*_bound_otherwise(node)}
            if not isinstance(node, ast.Name) or isinstance(node.ctx, ast.Load):
                continue
            around = self.parents.get(id(node))
            value = around.value if isinstance(around, ast.Assign) else None
            if value is not None and around.targets != [node]:  # type: ignore[union-attr]
                others.add(node.id)
            elif isinstance(value, ast.Call) and self._makes(value):
                called.add(node.id)
            elif not (isinstance(around, ast.AugAssign) or _is_formula(value)):
                others.add(node.id)
        return (called - others) & self.local

    def _makes(self, node: ast.Call) -> bool:
        """Whether a call makes a new array of numbers that are known as they are written."""
        function = self._function(node.func)
        if any([k.arg != "dtype" for k in node.keywords]):
            return False
        if _is_among(function, _BY_SHAPE) or _is_among(function, _LIKE):
            return True
        found = _is_among(function, _OF_NUMBERS) or _is_among(function, _FULL)
        return found and all([_is_constant(x) for x in node.args])

    def _function(self, node: ast.expr) -> object:
        """NumPy's function that an expression names, `np.linalg.norm`; else None."""
        path = []
        while isinstance(node, ast.Attribute):
            path.append(node.attr)
            node = node.value
        if not path or not isinstance(node, ast.Name) or node.id in self.local:
            return None
        found = self.scope.get(node.id)
        for name in reversed(path):
            if not isinstance(found, types.ModuleType) or not found.__name__.startswith("numpy"):
                return None
            found = getattr(found, name, None)
        return found

    def _is_stored(self, node: ast.Call) -> bool:
        """Whether it is the value of such a variable."""
        around = self.parents.get(id(node))
        target = around.targets[0] if isinstance(around, ast.Assign) else None
        return isinstance(target, ast.Name) and target.id in self.names

    def _is_plain_use(self, node: ast.Name) -> bool:
        """Whether a use of a variable leaves its array without other names."""
        if not isinstance(node.ctx, ast.Load):
            return not isinstance(node.ctx, ast.Del)
        around = self.parents[id(node)]
        element = around if isinstance(around, ast.Subscript) and around.value is node else None
        if element is None or isinstance(element.ctx, ast.Load):
            return self._is_read(node)
        statement = self.parents[id(element)]
        if isinstance(statement, ast.Assign):
            return statement.targets == [element]
        return isinstance(statement, ast.AugAssign) and not _calls(element.slice)

    def _is_read(self, node: ast.expr) -> bool:
        """Whether an array is read at once where it stands, and nothing keeps it or a view."""
        around = self.parents[id(node)]
        if isinstance(around, ast.Compare):
            return not any([isinstance(op, (ast.Is, ast.IsNot)) for op in around.ops])
        if isinstance(around, (ast.BinOp, ast.UnaryOp, ast.Expr, ast.FormattedValue, ast.Return)):
            return True
        if isinstance(around, ast.AugAssign):
            return around.value is node
        if isinstance(around, ast.Subscript):
            return around.slice is node or self._is_read(around) or self._is_copied(around)
        if isinstance(around, ast.Call):
            return self._reads(around)
        if isinstance(around, ast.Attribute):
            call = self.parents[id(around)]
            is_call = isinstance(call, ast.Call) and call.func is around and not call.keywords
            return around.attr in _FACTS or (is_call and around.attr in _METHODS)
        if isinstance(around, (ast.List, ast.Tuple)):
            above = self.parents[id(around)]
            return isinstance(above, ast.Call) and _is_among(self._function(above.func), _JOINING)
        return False

    def _is_copied(self, node: ast.Subscript) -> bool:
        """Whether an element is written into an array."""
        around = self.parents[id(node)]
        if not isinstance(around, ast.Assign) or len(around.targets) != 1:
            return False
        target = around.targets[0]
        root = target.value if isinstance(target, ast.Subscript) else None
        return isinstance(root, ast.Name) and root.id in self.made

    def _reads(self, node: ast.Call) -> bool:
        """Whether a call reads its arguments, and gives nothing that is part of them."""
        if any([k.arg not in ("axis", "keepdims", "dtype") for k in node.keywords]):
            return False
        if isinstance(node.func, ast.Name):
            known = node.func.id not in self.local and node.func.id not in self.scope
            return known and node.func.id in _BUILTINS and len(node.args) == 1
        function = self._function(node.func)
        if isinstance(function, np.ufunc):
            return len(node.args) <= function.nin
        return _is_among(function, _READING) and len(node.args) <= 2


def _elsewhere(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that functions made here may use, and those that are not of this function."""
    inner = [n for n in nodes if isinstance(n, (*FUNCTIONS, ast.ClassDef))]
    found = {part.id for n in inner for part in nodes_in(n) if isinstance(part, ast.Name)}
    declared = [n for n in nodes if isinstance(n, (ast.Global, ast.Nonlocal))]
    return found | {name for n in declared for name in n.names}


def _is_formula(value: ast.expr | None) -> bool:
    """Whether it makes a new array if its operands are arrays."""
    if not isinstance(value, ast.BinOp):
        return False
    return not any([isinstance(x, (ast.List, ast.Tuple)) for x in (value.left, value.right)])


def _bound_otherwise(node: ast.AST) -> Iterator[str]:
    """Names that are bound by what is no name itself."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.ExceptHandler)) and node.name:
        yield node.name
    elif isinstance(node, ast.alias):
        yield (node.asname or node.name).split(".")[0]
    elif type(node).__name__ in ("MatchAs", "MatchStar", "MatchMapping"):
        yield getattr(node, "name", None) or getattr(node, "rest", None) or ""


def _counters(nodes: Iterable[ast.AST], parents: Parents) -> set[str]:
    """The variables that are bound by `for i in range(n)` alone."""
    found: set[str] = set()
    others: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            around = parents.get(id(node))
            items = around.iter if isinstance(around, ast.For) and around.target is node else None
            function = items.func if isinstance(items, ast.Call) else None
            is_range = isinstance(function, ast.Name) and function.id == "range"
            (found if is_range else others).add(node.id)
    return set() if "range" in others else found - others


_PARTS = (
    ast.Constant, ast.UnaryOp, ast.BinOp, ast.List, ast.Tuple, ast.unaryop, ast.operator,
    ast.expr_context,
)  # fmt: skip


def _is_constant(node: ast.expr, names: Collection[str] = ()) -> bool:
    """Whether an expression is made of written numbers, and of variables with some names."""
    parts = list(nodes_in(node))
    named = all([part.id in names for part in parts if isinstance(part, ast.Name)])
    return named and all([isinstance(part, (*_PARTS, ast.Name)) for part in parts])


def _calls(node: ast.expr) -> bool:
    return any([isinstance(part, (ast.Call, ast.NamedExpr)) for part in nodes_in(node)])


def _is_among(function: object, functions: frozenset[object]) -> bool:
    try:
        return function in functions
    except TypeError:
        return False
