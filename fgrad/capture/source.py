"""L5. Function -> the syntax tree of its source, which was checked to be what runs.

A file may have changed since it was imported, and there may be several lambdas in a line.  So the
tree is compiled, and its code compared with that of the function.
"""

from __future__ import annotations

import ast
import dis
import functools
import inspect
import linecache
import re
import tokenize
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any, TypeAlias

FunctionNode: TypeAlias = "ast.FunctionDef | ast.Lambda"
NAME = "function_"  # of what is compiled, so that its own name is that of the user's function
_FUTURE = 0x1FF0000  # the flags of `from __future__ import`


class Unconvertible(Exception):
    """A function stays as it is; the text says why."""


def node_of(fun: FunctionType) -> FunctionNode:
    """The tree of a function, with the line numbers of its file.

    Raises:
        Unconvertible: there is no source, or it is not what the function runs.
    """
    code = fun.__code__
    lines = linecache.getlines(code.co_filename, fun.__globals__)
    if not lines or code.co_firstlineno > len(lines):
        raise Unconvertible("its source is not known")
    try:
        found = _nodes(code, lines)
    except (SyntaxError, tokenize.TokenError, IndentationError):
        raise Unconvertible("its source is not known") from None
    asserts = any([name.startswith("@py") for name in fun.__globals__])  # pytest rewrites them
    for node in found:
        node = _mangled(node, code)
        if _runs(node, code) or (asserts and _has_assert(node)):
            return node
    raise Unconvertible("its source has changed since it was imported")


def _nodes(code: CodeType, lines: list[str]) -> list[FunctionNode]:
    """What the source has at the first line of a code object."""
    start = code.co_firstlineno - 1
    if code.co_name == "<lambda>":
        tree = _whole("".join(lines))
        return [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno
        ]
    block = "".join(inspect.getblock(lines[start:]))
    inner = block[:1].isspace()
    tree = ast.parse(f"if 1:\n{block}" if inner else block)
    ast.increment_lineno(tree, start - inner)
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and node.name == code.co_name
        and min([node.lineno, *[d.lineno for d in node.decorator_list]]) == code.co_firstlineno
    ]


@functools.lru_cache(maxsize=8)
def _whole(text: str) -> ast.Module:
    return ast.parse(text)


def _runs(node: FunctionNode, code: CodeType) -> bool:
    """Whether a function with this source has this code."""
    made = code_of(function_of(node), code, "")
    return made is not None and _same(made, code)


def function_of(node: FunctionNode) -> ast.FunctionDef:
    """The same as a definition without decorators and annotations, whose defaults do nothing."""
    args = node.args
    plain = ast.arguments(
        posonlyargs=[_bare(a) for a in args.posonlyargs],
        args=[_bare(a) for a in args.args],
        vararg=_bare(args.vararg) if args.vararg else None,
        kwonlyargs=[_bare(a) for a in args.kwonlyargs],
        kw_defaults=[None if d is None else ast.Constant(None) for d in args.kw_defaults],
        kwarg=_bare(args.kwarg) if args.kwarg else None,
        defaults=[ast.Constant(None) for _ in args.defaults],
    )
    if isinstance(node, ast.Lambda):
        body: list[ast.stmt] = [ast.copy_location(ast.Return(node.body), node.body)]
    else:
        body = node.body
    made = definition(NAME, plain, body)
    ast.copy_location(made, node)
    return made


def definition(name: str, args: ast.arguments, body: list[ast.stmt]) -> ast.FunctionDef:
    """`def name(args): body`."""
    fields: dict[str, Any] = {"name": name, "args": args, "body": body}
    fields |= {"decorator_list": [], "returns": None, "type_comment": None}
    if "type_params" in ast.FunctionDef._fields:
        fields["type_params"] = []
    return ast.FunctionDef(**fields)


def no_arguments(*names: str) -> ast.arguments:
    """The parameters of `def f(*names)`."""
    return ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])


def placed(node: ast.AST, like: ast.AST) -> ast.AST:
    """A new node where another one begins: Python gives calls the last line of what they span."""
    line, column = like.lineno, like.col_offset  # type: ignore[attr-defined]
    where = {"lineno": line, "end_lineno": line, "col_offset": column, "end_col_offset": column + 1}
    for part in ast.walk(node):
        if not hasattr(part, "lineno") and "lineno" in part._attributes:
            vars(part).update(where)
    return node


def _bare(arg: ast.arg) -> ast.arg:
    return ast.copy_location(ast.arg(arg.arg), arg)


def code_of(node: ast.FunctionDef, like: CodeType, extra: str) -> CodeType | None:
    """The code of a definition, whose free variables are those of `like`, and `extra`."""
    free = [*like.co_freevars, *([extra] if extra else [])]
    made = definition(
        "factory", no_arguments(*free), [node, ast.Return(ast.Name(node.name, ast.Load()))]
    )
    ast.copy_location(made, node)
    ast.fix_missing_locations(made)
    module = ast.Module([made], [])
    flags = like.co_flags & _FUTURE
    try:
        outer = compile(module, like.co_filename, "exec", flags, True)
    except SyntaxError:
        return None
    factory = next(c for c in outer.co_consts if isinstance(c, CodeType))
    return next((c for c in factory.co_consts if isinstance(c, CodeType)), None)


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """A code object, and those of the functions that are made in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_in(constant)


def _same(a: CodeType, b: CodeType) -> bool:
    mine = [c for c in a.co_consts if isinstance(c, CodeType)]
    yours = [c for c in b.co_consts if isinstance(c, CodeType)]
    same = a.co_names == b.co_names and a.co_varnames == b.co_varnames
    same = (
        same
        and (a.co_code == b.co_code or _steps(a) == _steps(b))
        and len(mine) == len(yours)
        and _plain(a) == _plain(b)
    )
    return same and all([_same(x, y) for x, y in zip(mine, yours, strict=True)])


_NULL = re.compile(r"NULL(\|self)? \+ | \+ NULL(\|self)?")  # what is left for `self`, by version
_CALLING = frozenset({"CACHE", "EXTENDED_ARG", "PRECALL", "PUSH_NULL"})


def _steps(code: CodeType) -> list[tuple[str, str]]:
    """The instructions; `module.f()` may be compiled as a method or not, by where the module was
    imported."""
    return [
        (step.opname.replace("METHOD", "ATTR"), _NULL.sub("", step.argrepr))
        for step in dis.get_instructions(code)
        if step.opname not in _CALLING
        and step.opcode not in dis.hasjrel
        and not isinstance(step.argval, CodeType)
    ]


def _plain(code: CodeType) -> list[str]:
    """The constants but for code and names of functions, in which the enclosing one may stand."""
    return [
        repr(c)
        for c in code.co_consts
        if not isinstance(c, (CodeType, frozenset)) and not (isinstance(c, str) and "<locals>" in c)
    ]


def _has_assert(node: ast.AST) -> bool:
    return any([isinstance(part, ast.Assert) for part in ast.walk(node)])


class _Mangler(ast.NodeTransformer):
    """Names `__x` in a class as Python reads them: `_Class__x`."""

    def __init__(self, owner: str) -> None:
        self.owner = owner.lstrip("_")

    def of(self, name: str) -> str:
        private = name.startswith("__") and not name.endswith("__")
        return f"_{self.owner}{name}" if private and self.owner else name

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self.of(node.id)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        node.attr = self.of(node.attr)
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.arg = self.of(node.arg)
        return node


def _mangled(node: FunctionNode, code: CodeType) -> FunctionNode:
    """A method's tree outside of its class."""
    names = [n for c in codes_in(code) for n in (*c.co_names, *c.co_varnames, *c.co_freevars)]
    private = [n for n in names if n.startswith("_") and "__" in n[1:] and not n.endswith("__")]
    if not private:
        return node
    owners = {n[1 : n.index("__", 1)] for n in private}
    return _Mangler(owners.pop()).visit(node) if len(owners) == 1 else node
