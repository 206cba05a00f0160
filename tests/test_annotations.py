"""Signatures say what functions take and return: `Any` is rare, and absent where users look."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from sources import python_files, relative, syntax_tree

MOST = 800  # times the word `Any` in the whole package
USERS_SEE = ("fgrad/scipy", "fgrad/nn", "fgrad/random", "fgrad/optim", "fgrad/lax")


def _says_any(annotation: ast.expr | None) -> bool:
    return annotation is not None and any(
        isinstance(node, ast.Name) and node.id == "Any" for node in ast.walk(annotation)
    )


def test_any_is_rare() -> None:
    count = sum(
        isinstance(node, ast.Name) and node.id == "Any"
        for path in python_files("fgrad")
        for node in ast.walk(syntax_tree(path))
    )
    assert count < MOST, "say `ArrayLike`, `Array`, `Axis`, `PyTree`, `object`: fgrad/typing.py"


@pytest.mark.parametrize("path", python_files(*USERS_SEE), ids=relative)
def test_public_signatures_say_what_they_take(path: Path) -> None:
    """Options that go on to SciPy, and the `__getattr__` of modules, take and give anything."""
    vague = [
        node.name
        for node in syntax_tree(path).body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
        for arg in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        if _says_any(arg.annotation) or _says_any(node.returns)
    ]
    assert not vague, f"{relative(path)}: {', '.join(sorted(set(vague)))}"
