"""L5. Function -> the syntax tree of its source, which was checked to be what runs.

A file may have changed since it was imported, and there may be several lambdas in a line.  So the
tree is compiled, and its code compared with that of the function.
"""

from __future__ import annotations

import ast
import contextlib
import dis
import functools
import linecache
import re
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypeAlias, TypeVar

from fgrad.base.system import Locked
from fgrad.capture.names import MADE, WITHOUT_PARTS, children, nodes_in

FunctionNode: TypeAlias = "ast.FunctionDef | ast.Lambda"
N = TypeVar("N", bound=ast.AST)
NAME = f"{MADE}function"  # of what is compiled, so that its own name is that of the user's function
_FUTURE = 0x1FF0000  # the flags of `from __future__ import`
_MOST_ENDS = 16  # of a definition that are tried before the whole file is parsed


class Unconvertible(Exception):
    """A function stays as it is; the text says why, and `write` what to write instead."""

    def __init__(self, why: str, write: str = "") -> None:
        super().__init__(why)
        self.write = write


def node_of(fun: FunctionType) -> FunctionNode:
    """The tree of a function, with the line numbers of its file.

    Raises:
        Unconvertible: there is no source, or it is not what the function runs.
    """
    code = fun.__code__
    with _PARSER.lock:
        return _node_of(fun, code)


_PARSER = Locked()  # CPython 3.11 counts the depth of trees for all threads together


def _node_of(fun: FunctionType, code: CodeType) -> FunctionNode:
    lines = linecache.getlines(code.co_filename, fun.__globals__) or _lines_by_code(code)
    if not lines or code.co_firstlineno > len(lines):
        raise _without_source(code)
    try:
        found = _nodes(code, lines)
    except SyntaxError:
        raise _without_source(code) from None
    asserts = any([name.startswith("@py") for name in fun.__globals__])  # pytest rewrites them
    for node in found:
        node = _mangled(node, code)
        if _runs(node, fun) or (asserts and _has_assert(node)):
            return node
    changed = f"its source has changed since it was imported ({code.co_filename})"
    raise Unconvertible(changed, "importlib.reload(module)            or start Python anew")


def _lines_by_code(code: CodeType) -> list[str]:
    """The source of code of the prompt or of `-c`, which Python keeps since 3.14 by the code."""
    find: Callable[[CodeType], list[str]] | None = getattr(linecache, "_getlines_from_code", None)
    return [] if find is None else find(code)


def _without_source(code: CodeType) -> Unconvertible:
    why = f"its source could not be read ({code.co_filename} is no file)"
    name = "the function" if code.co_name == "<lambda>" else code.co_name
    return Unconvertible(why, f"put {name} into a file or a notebook, which Python can read again")


def _nodes(code: CodeType, lines: list[str]) -> list[FunctionNode]:
    """What the source has at the first line of a code object, which may be changed."""
    line, name = code.co_firstlineno, code.co_name
    alone = None if name == "<lambda>" else _definition(lines, line - 1)
    tree = alone or _whole("".join(lines))
    kind = ast.Lambda if name == "<lambda>" else ast.FunctionDef
    for nodes in (_around(tree, line), nodes_in(tree)):  # parts of f-strings may stand elsewhere
        found = [n for n in nodes if isinstance(n, kind) and _first_line(n) == line]
        found = [n for n in found if isinstance(n, ast.Lambda) or n.name == name]
        if found:
            return found if alone else [copied(n) for n in found]
    return []


def _definition(lines: list[str], start: int) -> ast.Module | None:
    """The tree of a definition: of as few lines as can be parsed, up to one that is indented no
    more than the first; None if there is none.

    Lines of texts and of what stands in brackets may be indented less, but where one of these is
    cut off, nothing can be parsed.  To ask `tokenize` for the end takes ten times as long.
    """
    indent, is_head, tries = _indent(lines[start]), False, 0
    for end in range(start, len(lines) + 1):
        line = lines[end] if end < len(lines) else "end"
        if not 0 <= _indent(line) <= indent:
            continue
        if is_head:
            block = "".join(lines[start:end])
            before = "\n" * (start - 1) + "if 1:\n" if indent and start else "\n" * start
            with contextlib.suppress(SyntaxError):
                return ast.parse(before + block)
            tries += 1
            if tries == _MOST_ENDS:
                break
        is_head = is_head or line.lstrip().startswith(("def ", "async def "))
    return None


def _indent(line: str) -> int:
    """The width of a line's indentation; -1 if there is nothing else but a comment."""
    text = line.lstrip()
    return len(line) - len(text) if text and text[0] != "#" else -1


def _around(tree: ast.AST, line: int) -> list[ast.AST]:
    """The parts of a tree that a line is in, or may be in, from the outside."""
    found = [tree]
    for node in found:
        for part in children(node):
            if _first_line(part) <= line <= getattr(part, "end_lineno", line):
                found.append(part)
    return found


def _first_line(node: ast.AST) -> int:
    """The line where a part of a tree begins, with its decorators; 0 if it is not told."""
    decorators = [d.lineno for d in getattr(node, "decorator_list", ())]
    return min([getattr(node, "lineno", 0), *decorators])


def copied(node: N) -> N:
    """A tree of the same parts, which may be changed, but for operators and contexts, which have
    none; `deepcopy` takes ten times as long."""
    made = type(node).__new__(type(node))
    fields = vars(made)
    for name, value in vars(node).items():
        kind = type(value)
        if kind is list:
            value = [x if type(x) in WITHOUT_PARTS else copied(x) for x in value]
        elif kind not in WITHOUT_PARTS:
            value = copied(value)
        fields[name] = value
    return made


@functools.lru_cache(maxsize=8)
def _whole(text: str) -> ast.Module:
    return ast.parse(text)


def _runs(node: FunctionNode, fun: FunctionType) -> bool:
    """Whether a function with this source has the code of `fun`."""
    code = fun.__code__
    names = {name for inner in codes_in(code) for name in inner.co_names}
    modules = sorted([n for n in names if isinstance(fun.__globals__.get(n), ModuleType)])
    made = _code_of(function_of(node), code, code.co_freevars, modules)
    return made is not None and _same(made, code)


def function_of(node: FunctionNode) -> ast.FunctionDef:
    """The same as a definition without decorators and annotations, whose defaults do nothing."""
    args = node.args
    plain = ast.arguments(
        posonlyargs=[_bare(a) for a in args.posonlyargs],
        args=[_bare(a) for a in args.args],
        vararg=_bare(args.vararg) if args.vararg else None,
        kwonlyargs=[_bare(a) for a in args.kwonlyargs],
        kw_defaults=[None if d is None else _nothing(node) for d in args.kw_defaults],
        kwarg=_bare(args.kwarg) if args.kwarg else None,
        defaults=[_nothing(node) for _ in args.defaults],
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
    new = [node]
    for part in new:  # what has a place has parts with places
        if part is node or "lineno" not in vars(part):
            if "lineno" in part._attributes and "lineno" not in vars(part):
                vars(part).update(where)
            new += children(part)
    return node


def _nothing(like: FunctionNode) -> ast.Constant:
    return ast.copy_location(ast.Constant(None), like)


def _bare(arg: ast.arg) -> ast.arg:
    return ast.copy_location(ast.arg(arg.arg), arg)


def code_of(node: ast.FunctionDef, like: CodeType, extra: str) -> CodeType | None:
    """The code of a definition, some of whose parts may have no place, with the free variables of
    `like`, and `extra`."""
    _locate(node)
    return _code_of(node, like, (*like.co_freevars, extra), ())


def _code_of(
    node: ast.FunctionDef, like: CodeType, free: Sequence[str], modules: Sequence[str]
) -> CodeType | None:
    """The code of a definition in a file that imports `modules`: a call of `module.f` has other
    instructions than one of a method."""
    result = ast.Return(ast.Name(node.name, ast.Load()))
    factory = definition(f"{MADE}factory", no_arguments(*free), [result])
    imports = ast.Import([ast.alias(name) for name in modules])
    module = ast.Module([imports, factory] if modules else [factory], [])
    for part in module.body:
        _locate(ast.copy_location(part, node))
    factory.body.insert(0, node)
    flags = like.co_flags & _FUTURE
    try:
        with _PARSER.lock:
            outer = compile(module, like.co_filename, "exec", flags, True)
    except SyntaxError:
        return None
    made = next(c for c in outer.co_consts if isinstance(c, CodeType))
    return next((c for c in made.co_consts if isinstance(c, CodeType)), None)


def _locate(node: ast.AST) -> None:
    """Give parts without a place that of what they are in; `ast.fix_missing_locations` takes twice
    as long."""
    left = [(node, vars(node))]
    for outer, place in left:
        for part in children(outer):
            own = vars(part)
            if "lineno" not in own and "lineno" in part._attributes:
                own.update({name: place[name] for name in _PLACE})
            left.append((part, own if "lineno" in own else place))


_PLACE = ("lineno", "col_offset", "end_lineno", "end_col_offset")


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
    return any([isinstance(part, ast.Assert) for part in nodes_in(node)])


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
