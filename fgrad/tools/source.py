"""L7. The source text of a function, also of a lambda inside an expression: file, line and text."""

from __future__ import annotations

import ast
import functools
import linecache
import os
import textwrap
from collections.abc import Callable
from types import CodeType, FunctionType

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.typing import PyTree

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Source(NamedTuple):
    """Where a rule is defined, and its text."""

    place: str
    text: str


def source_of(rule: Callable[..., PyTree]) -> Source:
    """The place and text of a rule; its name alone for functions written in C.

    Example:
        >>> source_of(source_of).place.startswith("fgrad/tools/source.py:")
        True
    """
    while isinstance(rule, functools.partial):
        rule = rule.func
    code = getattr(rule, "__code__", None)
    if code is None:
        module = getattr(rule, "__module__", None) or type(rule).__module__
        return Source("compiled", f"{module}.{getattr(rule, '__name__', repr(rule))}")
    place = f"{os.path.relpath(code.co_filename, _ROOT)}:{code.co_firstlineno}"
    return Source(place, _text(code))


def captured_functions(rule: Callable[..., PyTree]) -> list[tuple[str, Callable[..., PyTree]]]:
    """The functions that a rule made by another function has in its closure, by name.

    Example:
        >>> def twice(f):
        ...     return lambda x: f(f(x))
        >>> captured_functions(twice(source_of)) == [("f", source_of)]
        True
    """
    while isinstance(rule, functools.partial):
        rule = rule.func
    code, cells = getattr(rule, "__code__", None), getattr(rule, "__closure__", None)
    if code is None or not cells:
        return []
    pairs = zip(code.co_freevars, cells, strict=True)
    held = [(name, cell.cell_contents) for name, cell in pairs]
    return [(name, value) for name, value in held if isinstance(value, (FunctionType, np.ufunc))]


@functools.lru_cache(maxsize=256)
def _functions(file: str) -> tuple[str, dict[int, list[ast.AST]]]:
    """The text of a file, and its functions and lambdas by their first line."""
    text = "".join(linecache.getlines(file))
    found: dict[int, list[ast.AST]] = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            first = node.decorator_list[0].lineno if node.decorator_list else node.lineno
            found.setdefault(first, []).append(node)
        elif isinstance(node, ast.Lambda):
            found.setdefault(node.lineno, []).append(node)
    return text, found


def _text(code: CodeType) -> str:
    text, functions = _functions(code.co_filename)
    for node in functions.get(code.co_firstlineno, []):
        if _is_code_of(node, code):
            lines = text.splitlines()[code.co_firstlineno - 1 : node.end_lineno]  # type: ignore[attr-defined]
            if isinstance(node, ast.Lambda):
                return textwrap.dedent(ast.get_source_segment(text, node) or "")
            return textwrap.dedent("\n".join(lines))
    return ""


def _is_code_of(node: ast.AST, code: CodeType) -> bool:
    """Whether a node was compiled to this code: several lambdas can begin on one line."""
    if isinstance(node, ast.FunctionDef):
        return node.name == code.co_name
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    names |= {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
    arguments = [a.arg for a in node.args.args]  # type: ignore[attr-defined]
    constants = {n.value for n in ast.walk(node) if isinstance(n, ast.Constant)}
    numbers = {c for c in code.co_consts if isinstance(c, (int, float)) and c is not None}
    return (
        arguments == list(code.co_varnames[: len(arguments)])
        and set(code.co_names) | set(code.co_freevars) <= names
        and names <= set(code.co_names) | set(code.co_varnames) | set(code.co_freevars)
        and {abs(c) for c in numbers if c} >= {c for c in constants if isinstance(c, float) and c}
    )
