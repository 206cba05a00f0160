"""L5. Functions whose calls alone are rewritten, for traces that have values.

At the prompt Python's control flow works as it is.  What does not is `np.zeros(n)`, into which
traced values cannot be written, `np.array([a, b])`, `math.sin(x)` and the like: these are called
through `capture_.light`.  Calls that cannot matter, such as `np.sin(x)`, are left alone, so that
they cost nothing.
"""

from __future__ import annotations

import ast
import types
from types import CodeType, FunctionType

import numpy as np

from fgrad.capture.buffers import VALUE, Buffers
from fgrad.capture.calls import OF_LISTS, TABLE
from fgrad.capture.expressions import CAPTURE, FRAME_READERS, LEFT_ALONE, load, operator_call
from fgrad.capture.matching import Matches, asks_for_types
from fgrad.capture.names import elements_written, own_nodes
from fgrad.capture.rewrite import renamed
from fgrad.capture.source import Unconvertible, code_of, function_of, node_of, placed

_METHODS = frozenset(dir(np.ndarray)) | {"at"}
_FAMILIAR = frozenset({"numpy", "scipy", "fgrad"})


def light_code(fun: FunctionType, operator: str = "light") -> CodeType | None:
    """The code of a function with other calls; None if there are none.

    Arguments:
        operator: what finds the function to be called.

    Raises:
        Unconvertible: its source is not known.
    """
    node = function_of(node_of(fun))
    nodes = list(own_nodes(node.body))
    if any([isinstance(n, (ast.Await, ast.AsyncFor)) for n in nodes]):
        raise Unconvertible("it is a coroutine")
    if {n.id for n in nodes if isinstance(n, ast.Name)} & FRAME_READERS:
        raise Unconvertible("it reads its own frame")
    calls = _Calls(fun, node.body, operator)
    calls.generic_visit(node)
    if asks_for_types(node.body):
        node.body = Matches().body(node.body)
        calls.count += 1
    if not calls.count:
        return None
    made = code_of(node, fun.__code__, CAPTURE)
    return None if made is None else renamed(made, fun.__code__)


class _Calls(ast.NodeTransformer):
    """Rewrites calls that may matter; functions that are made here are rewritten when called."""

    def __init__(self, fun: FunctionType, body: list[ast.stmt], operator: str) -> None:
        self.operator = operator
        self.scope, self.local = fun.__globals__, frozenset(fun.__code__.co_varnames)
        self.written, self.count = elements_written(body), 0
        self.buffers = Buffers(fun, body)
        bound = [n for n in own_nodes(body) if isinstance(n, ast.Assign)]
        targets = [t for n in bound if isinstance(n.value, _DISPLAYS) for t in n.targets]
        self.lists = {t.id for t in targets if isinstance(t, ast.Name)}

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node

    visit_ClassDef = visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]

    def visit_Assign(self, node: ast.Assign) -> ast.AST | list[ast.stmt]:
        target, value = node.targets[0], node.value
        if isinstance(target, ast.Subscript) and self.buffers.written(target):
            return self._written(node, target)
        fills = isinstance(target, ast.Name) and target.id in self.written - self.buffers.names
        if (
            fills
            and len(node.targets) == 1
            and isinstance(value, (ast.Call, ast.BinOp, ast.UnaryOp))
        ):
            self.generic_visit(value)
            self.count += 1
            if isinstance(value, ast.Call):
                value.func = _operator("filled", value.func)
            else:
                node.value = _operator("own", value)
            return node
        return self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST | list[ast.stmt]:
        if self.buffers.written(node.target):
            return self._written(node, node.target)
        return self.generic_visit(node)

    def _written(self, node: ast.Assign | ast.AugAssign, target: ast.expr) -> list[ast.stmt]:
        """`y[i] = v`, where `y` is an array of the trace from then on if `v` is traced."""
        name = self.buffers.written(target)
        assert name is not None
        self.generic_visit(node)
        if self.buffers.is_known(node.value):
            return [node]
        self.count += 1
        ready = operator_call("ready", load(VALUE), load(name))
        first = ast.Assign([ast.Name(VALUE, ast.Store())], node.value)
        second = ast.Assign([ast.Name(name, ast.Store())], ready)
        node.value = load(VALUE)
        return [placed(s, node) for s in (first, second, node)]  # type: ignore[misc]

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if node.attr != "__class__" or not isinstance(node.ctx, ast.Load):
            return node
        self.count += 1
        return _operator("class_", node.value)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """`p is True`: a traced truth value is an object of its own."""
        self.generic_visit(node)
        sides = (node.left, *node.comparators)
        if len(sides) != 2 or not isinstance(node.ops[0], (ast.Is, ast.IsNot)):
            return node
        if not any([isinstance(s, ast.Constant) and type(s.value) is bool for s in sides]):
            return node
        self.count += 1
        name = "is_" if isinstance(node.ops[0], ast.Is) else "is_not"
        return placed(operator_call(name, *sides), node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        named = any([isinstance(x, ast.Name) and x.id in self.lists for x in node.args])
        lists = named or any([isinstance(x, _DISPLAYS) for x in node.args])
        if self._matters(node.func, lists) and not self.buffers.stays(node):
            self.count += 1
            node.func = _operator(self.operator, node.func)
        return node

    def _matters(self, called: ast.expr, lists: bool) -> bool:
        """Whether a call may be another one in a trace; `lists` says that lists are given."""
        if isinstance(called, ast.Name):
            if called.id in LEFT_ALONE:
                return False
            found = self.scope.get(called.id, self)
            if called.id in self.local or found is self:
                return called.id not in _HARMLESS
            return not _is_familiar(found, lists)
        if not isinstance(called, ast.Attribute):
            return True
        owner = called.value
        if isinstance(owner, ast.Name) and owner.id not in self.local:
            module = self.scope.get(owner.id)
            if isinstance(module, types.ModuleType):
                return not _is_familiar(getattr(module, called.attr, None), lists)
        if _is_module_path(owner, self.scope):
            return lists
        return called.attr not in _METHODS


_OF_LISTS = frozenset(OF_LISTS)
_DISPLAYS = (ast.List, ast.Tuple, ast.ListComp)
_HARMLESS = frozenset({
    "len", "range", "enumerate", "zip", "reversed", "tuple", "abs", "slice", "getattr",
    "hasattr", "callable", "id", "repr", "str", "next", "iter", "sorted", "print", "ValueError",
    "TypeError",
})  # fmt: skip


def _is_familiar(function: object, lists: bool) -> bool:
    """Whether a function does at the prompt what it should."""
    try:
        if function in TABLE and (lists or function not in _OF_LISTS):
            return False
    except TypeError:
        return False
    module = getattr(function, "__module__", None) or ""
    return isinstance(function, np.ufunc) or str(module).partition(".")[0] in _FAMILIAR


def _is_module_path(node: ast.expr, scope: dict[str, object]) -> bool:
    """Whether an expression is `np.linalg` or the like."""
    while isinstance(node, ast.Attribute):
        node = node.value
    module = scope.get(node.id) if isinstance(node, ast.Name) else None
    name = getattr(module, "__name__", "") if isinstance(module, types.ModuleType) else ""
    return name.partition(".")[0] in _FAMILIAR


def _operator(name: str, value: ast.expr) -> ast.expr:
    return placed(operator_call(name, value), value)  # type: ignore[return-value]
