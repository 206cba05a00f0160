"""L5. Expressions -> calls of the operators of `capture_`, which do what Python does where values
are known.

    a[i] = f(x) if p and q else y     becomes
    capture_.set_item(capture_.either(capture_.both(p, lambda: q),
                                      lambda: capture_.called(f)(x), lambda: y), a, i)
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from fgrad.capture.names import MADE, WITHOUT_PARTS, nodes_in, own_nodes
from fgrad.capture.source import Unconvertible, copied, no_arguments, placed

_LEFT_ALONE = WITHOUT_PARTS | {ast.Name, ast.Constant}
CAPTURE = f"{MADE}capture"  # the name of the operators in rewritten code
LEFT_ALONE = frozenset({"super", "locals", "globals", "eval", "exec", "vars", "dir"})
ITEM, ITEMS, ROWS, PARTS = f"{MADE}item", f"{MADE}items", f"{MADE}rows", f"{MADE}value"
FRAME_READERS = frozenset({"locals", "eval", "exec", "vars", "dir"})

SHOWING = frozenset({
    "print", "debug", "info", "warn", "warning", "error", "critical", "exception", "log_message",
})  # fmt: skip

Rewrite = Callable[[ast.FunctionDef], ast.FunctionDef]


def load(name: str) -> ast.Name:
    """A name that is read."""
    return ast.Name(name, ast.Load())


def operator_call(name: str, *args: ast.expr) -> ast.Call:
    """`capture_.name(*args)`."""
    return ast.Call(ast.Attribute(load(CAPTURE), name, ast.Load()), list(args), [])


def _is_operator(called: ast.expr) -> bool:
    """Whether what is called is an operator of `capture_`."""
    owner = called.value if isinstance(called, ast.Attribute) else None
    return isinstance(owner, ast.Name) and owner.id == CAPTURE


def later(body: ast.expr) -> ast.Lambda:
    """`lambda: body`."""
    return ast.Lambda(no_arguments(), body)


class Expressions(ast.NodeTransformer):
    """Rewrites the expressions of a statement.

    Arguments:
        function: rewrites the functions that are defined in it.
        first: the name of the first parameter, for `super()`.
        written: the names of arrays whose elements the function writes.
    """

    def __init__(
        self, function: Rewrite, first: str | None, written: frozenset[str] = frozenset()
    ) -> None:
        self.function, self.first, self.written = function, first, written

    # Calls.

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if _is_operator(node.func):
            return self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in LEFT_ALONE:
            if node.func.id in FRAME_READERS:
                raise Unconvertible(f"it calls {node.func.id}()")
            self.generic_visit(node)
            if node.func.id == "super" and not node.args and self.first:
                node.args = [load("__class__"), load(self.first)]
                placed(node, node)
            return node
        walks = bool(node.args) and _walks(node.args[0]) and not _shows(node.func)
        self.generic_visit(node)
        if walks:
            return placed(_over(node.func, *node.args, named=node.keywords), node)
        if _shows(node.func):
            node.args = [_shown(x) for x in node.args]
        node.func = placed(operator_call("called", node.func), node.func)  # type: ignore[assignment]
        return node

    # Truth.

    def condition(self, node: ast.expr) -> ast.expr:
        """An expression of which only the truth counts: `a and b` need not be one of its parts."""
        if not isinstance(node, ast.BoolOp):
            return self.visit(node)  # type: ignore[no-any-return]
        _refuse_bindings(node.values[1:])
        name = "all_hold" if isinstance(node.op, ast.And) else "one_holds"
        first, *rest = [self.condition(part) for part in node.values]
        call = operator_call(name, first, *[later(v) for v in rest])
        return placed(call, node)  # type: ignore[return-value]

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        _refuse_bindings(node.values[1:])
        self.generic_visit(node)
        name = "both" if isinstance(node.op, ast.And) else "any_of"
        first, *rest = node.values
        return placed(operator_call(name, first, *[later(v) for v in rest]), node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        if not isinstance(node.op, ast.Not):
            return self.generic_visit(node)
        return placed(operator_call("not_", self.condition(node.operand)), node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        _refuse_bindings([node.body, node.orelse])
        one, two = later(self.visit(node.body)), later(self.visit(node.orelse))
        return placed(operator_call("either", self.condition(node.test), one, two), node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        if len(node.ops) == 1:
            self.generic_visit(node)
            if not _is_identity(node):
                return node
            name = "is_" if isinstance(node.ops[0], ast.Is) else "is_not"
            return placed(operator_call(name, node.left, node.comparators[0]), node)
        _refuse_bindings(node.comparators)
        self.generic_visit(node)
        rest = [
            part
            for op, value in zip(node.ops, node.comparators, strict=True)
            for part in (ast.Constant(type(op).__name__), later(value))
        ]
        return placed(operator_call("chained", node.left, *rest), node)

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Visit the parts that may be rewritten, not names, numbers and what has no parts."""
        fields = vars(node)
        for name, value in fields.items():
            kind = type(value)
            if kind is list:
                value[:] = [made for part in value for made in self._parts(part)]
            elif kind not in _LEFT_ALONE:
                fields[name] = self.visit(value)
        return node

    def _parts(self, part: object) -> Sequence[object]:
        """What comes in place of an item of a list."""
        if type(part) in _LEFT_ALONE:
            return (part,)
        made = self.visit(part)  # type: ignore[arg-type]
        return made if isinstance(made, list) else (made,)

    # Attributes and elements.

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if node.attr == "__class__" and isinstance(node.ctx, ast.Load):
            return placed(operator_call("class_", node.value), node)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load) or _is_constant(node.slice):
            return node
        return placed(operator_call("item", node.value, self.index(node.slice)), node)

    def index(self, node: ast.expr) -> ast.expr:
        """An index as an expression outside of brackets."""
        if isinstance(node, ast.Slice):
            parts = [part or ast.Constant(None) for part in (node.lower, node.upper, node.step)]
            call = operator_call("slice", *parts)
            return placed(call, node)  # type: ignore[return-value]
        if isinstance(node, ast.Tuple):
            made = ast.Tuple([self.index(part) for part in node.elts], ast.Load())
            return ast.copy_location(made, node)
        return node

    def visit_List(self, node: ast.List) -> ast.AST:
        self.generic_visit(node)
        return placed(operator_call("made", node), node) if isinstance(node.ctx, ast.Load) else node

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        self.generic_visit(node)
        return placed(operator_call("made", node), node)

    visit_Set = visit_ListComp = visit_DictComp = visit_SetComp = visit_Dict  # type: ignore[assignment]

    # Statements that store.

    def visit_Assign(self, node: ast.Assign) -> ast.AST | list[ast.stmt]:
        node.value = self._filled(node) if self._fills(node) else self.visit(node.value)
        if not any([_needs_operator(target) for target in node.targets]):
            node.targets = [self.visit(target) for target in node.targets]
            return node
        if len(node.targets) == 1 and not isinstance(node.targets[0], (ast.Tuple, ast.List)):
            return [placed(self._store(node.targets[0], node.value), node)]  # type: ignore[list-item]
        new: list[ast.stmt] = [ast.Assign([ast.Name(PARTS, ast.Store())], node.value)]
        for target in node.targets:
            new += self._spread(target, load(PARTS))
        return [placed(s, node) for s in new]  # type: ignore[misc]

    def _fills(self, node: ast.Assign) -> bool:
        """Whether a new array is bound to a name, and written later."""
        target = node.targets[0]
        fills = isinstance(target, ast.Name) and target.id in self.written
        return fills and len(node.targets) == 1 and isinstance(node.value, (ast.Call, ast.BinOp))

    def _filled(self, node: ast.Assign) -> ast.expr:
        value = node.value
        self.generic_visit(value)
        if isinstance(value, ast.Call):
            call = operator_call("filled", value.func)
            value.func = placed(call, value.func)  # type: ignore[assignment]
            return value
        return placed(operator_call("own", value), value)  # type: ignore[return-value]

    def _spread(self, target: ast.expr, value: ast.Name) -> list[ast.stmt]:
        """Assign to a target, part by part from the left."""
        if not _needs_operator(target):
            return [ast.Assign([target], value)]
        if not isinstance(target, (ast.Tuple, ast.List)):
            return [self._store(target, value)]
        if any([isinstance(part, ast.Starred) for part in target.elts]):
            raise Unconvertible("a starred target beside elements of arrays")
        names = [f"{value.id}_{k}" for k in range(len(target.elts))]
        new: list[ast.stmt] = [
            ast.Assign([ast.Tuple([ast.Name(n, ast.Store()) for n in names], ast.Store())], value)
        ]
        for name, part in zip(names, target.elts, strict=True):
            new += self._spread(part, load(name))
        return new

    def _store(self, target: ast.expr, value: ast.expr) -> ast.stmt:
        if isinstance(target, ast.Subscript):
            index = self.index(self.visit(target.slice))
            return ast.Expr(operator_call("set_item", value, self.visit(target.value), index))
        if isinstance(target, ast.Attribute):
            name = ast.Constant(target.attr)
            return ast.Expr(operator_call("set_attribute", value, self.visit(target.value), name))
        return ast.Assign([target], value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | list[ast.stmt]:
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        return self.visit(ast.copy_location(ast.Assign([node.target], node.value), node))

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        value = later(self.visit(node.value))
        op, target = ast.Constant(type(node.op).__name__), node.target
        if isinstance(target, ast.Subscript):
            index = self.index(self.visit(target.slice))
            call = operator_call("change_item", self.visit(target.value), index, op, value)
            return placed(ast.Expr(call), node)
        if isinstance(target, ast.Attribute):
            place = self.visit(target.value), ast.Constant(target.attr)
            return placed(ast.Expr(operator_call("change_attribute", *place, op, value)), node)
        changed = operator_call("changed", load(target.id), op, value)
        return placed(ast.Assign([target], changed), node)

    def visit_Delete(self, node: ast.Delete) -> ast.AST | list[ast.AST]:
        new: list[ast.AST] = []
        for target in node.targets:
            if isinstance(target, (ast.Subscript, ast.Attribute)):
                if any([isinstance(part, ast.Call) for part in nodes_in(target.value)]):
                    raise Unconvertible("it deletes an element of what a call returns")
                new.append(
                    placed(ast.Expr(operator_call("changes", self.visit(target.value))), node)
                )
        return [*new, node]

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        self.generic_visit(node)
        if node.exc is not None:
            shown = _shown(node.exc)
            node.exc = placed(operator_call("raised", shown), shown)  # type: ignore[assignment]
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        test = later(self.condition(node.test))
        message = later(_shown(self.visit(node.msg))) if node.msg else ast.Constant(None)
        return placed(ast.Expr(operator_call("assert_", test, message)), node)

    # What has scopes of its own.

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.decorator_list = [self.visit(d) for d in node.decorator_list]
        node.args.defaults = [self.visit(d) for d in node.args.defaults]
        return self.function(node)


def _walks(node: ast.AST) -> bool:
    """Whether an expression is a comprehension with one `for`, which binds no names here."""
    if not isinstance(node, (ast.GeneratorExp, ast.ListComp)) or len(node.generators) > 1:
        return False
    waits = [isinstance(part, (ast.NamedExpr, ast.Await)) for part in nodes_in(node)]
    return not node.generators[0].is_async and not any(waits)


def _over(
    function: ast.expr, whole: ast.expr, *rest: ast.expr, named: Sequence[ast.keyword] = ()
) -> ast.Call:
    """A call of a function of a comprehension, whose parts are rewritten."""
    node: ast.expr = whole.args[0] if isinstance(whole, ast.Call) else whole  # of `made`
    assert isinstance(node, (ast.GeneratorExp, ast.ListComp))
    (loop,) = node.generators
    items, loop.iter = loop.iter, load(ITEMS)
    test: ast.expr = ast.Constant(None)
    if loop.ifs:
        first, *others = [copied(x) for x in loop.ifs]
        test = operator_call("all_hold", first, *[later(x) for x in others]) if others else first
        test = _of_item(test, loop.target)
    inner: Any = copied(node.elt)
    called = inner.func if isinstance(inner, ast.Call) else None
    if isinstance(called, ast.Attribute) and called.attr == "made" and _walks(inner.args[0]):
        inner = placed(_over(load(ROWS), inner), inner)
    plain = ast.Lambda(no_arguments(ITEMS), whole)
    value = _of_item(inner, loop.target)
    call = operator_call("over", function, items, plain, test, value, *rest)
    call.keywords = list(named)
    return call


def _of_item(body: ast.expr, target: ast.expr) -> ast.Lambda:
    """`lambda item, rows: body`, where the item is taken apart by a target."""
    one = ast.Tuple([load(ITEM)], ast.Load())
    step = ast.comprehension(copied(target), one, [], 0)
    made = ast.Subscript(ast.ListComp(body, [step]), ast.Constant(0), ast.Load())
    return ast.Lambda(no_arguments(ITEM, ROWS), made)


def _is_identity(node: ast.Compare) -> bool:
    """Whether it is `x is y`, or `x is True`; None and the like are no traced values."""
    constants = [x.value for x in (node.left, *node.comparators) if isinstance(x, ast.Constant)]
    is_identity = isinstance(node.ops[0], (ast.Is, ast.IsNot))
    return is_identity and all([isinstance(x, (bool, int, float, complex)) for x in constants])


def _needs_operator(target: ast.expr) -> bool:
    """Whether an element or an attribute is among what is assigned to."""
    if isinstance(target, (ast.Tuple, ast.List)):
        return any([_needs_operator(part) for part in target.elts])
    return isinstance(target, (ast.Subscript, ast.Attribute))


def _shows(function: ast.expr) -> bool:
    """Whether a call shows its arguments to somebody, by its name: `print(f"{x}")`, a log."""
    if isinstance(function, ast.Name):
        return function.id in SHOWING
    return isinstance(function, ast.Attribute) and function.attr in SHOWING


def _is_text(node: ast.AST) -> bool:
    """Whether a part of an expression makes a text."""
    if isinstance(node, ast.Name):
        return node.id in ("str", "repr", "ascii", "format")
    if isinstance(node, ast.Attribute):
        return node.attr in ("format", "join")
    return isinstance(node, (ast.JoinedStr, ast.Mod))


def _shown(node: ast.expr) -> ast.expr:
    """An expression in which traced values have texts, if it makes any."""
    parts = list(nodes_in(node))
    bound = any([isinstance(part, (ast.NamedExpr, ast.Starred)) for part in parts])
    if bound or not any([_is_text(part) for part in parts]):
        return node
    return placed(operator_call("shown", later(node)), node)  # type: ignore[return-value]


def _is_constant(index: ast.expr) -> bool:
    """Whether an index is written as numbers."""
    return not any([isinstance(p, (ast.Name, ast.Call, ast.Attribute)) for p in nodes_in(index)])


def _refuse_bindings(nodes: Sequence[ast.expr]) -> None:
    """What is computed later, in a function, must not bind names here."""
    if any([isinstance(part, ast.NamedExpr) for part in own_nodes(nodes)]):
        raise Unconvertible("`:=` stands where it may not be computed: behind `and`, `or` or `if`")
