"""The parts of trees are those that Python's own walk finds, but for operators and contexts."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from fgrad.capture.names import children

WITHOUT = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)
LIBRARY = Path(ast.__file__).parent
FILES = ["dataclasses.py", "typing.py", "asyncio/base_events.py", "contextlib.py", "inspect.py"]
RARE = """
def f(a, /, b: int = 1, *c, d=2, **e):
    global g
    match a:
        case {"x": [1, *rest], **others} | None as whole if whole:
            return lambda: (yield)
        case Point(0, y=(True | "s")):
            del a[1:2, ...], b.c
    return f"{a!r:>{b}}" + "".join(x async for x in y if x for _ in (z := a))
"""
NEWER = """
type Pair[T: int, *Ts, **P] = tuple[T, T]
def g[T](x: T) -> T: return x
class A[T]: pass
"""


def _same(text: str) -> None:
    for node in ast.walk(ast.parse(text)):
        plain = [part for part in ast.iter_child_nodes(node) if not isinstance(part, WITHOUT)]
        assert children(node) == plain, ast.dump(node)


@pytest.mark.parametrize("name", FILES)
def test_of_the_standard_library(name: str) -> None:
    _same((LIBRARY / name).read_text(encoding="utf-8"))


def test_of_rare_statements() -> None:
    _same(RARE)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="statements of Python 3.12")
def test_of_newer_statements() -> None:
    _same(NEWER)
