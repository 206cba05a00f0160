"""Files and functions stay small enough to be read at one go."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from sources import python_files, relative, syntax_tree

FILE_LINES = 600
FUNCTION_LINES = 80

FILES = python_files("fgrad", "tests", "benchmarks", "examples", "notebooks")


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_file_size(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= FILE_LINES, f"{relative(path)} has {lines} lines: split it by subject"


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_function_size(path: Path) -> None:
    long = [
        f"{node.name} (line {node.lineno}): {node.end_lineno - node.lineno + 1} lines"
        for node in ast.walk(syntax_tree(path))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > FUNCTION_LINES
    ]
    assert not long, f"{relative(path)}: " + "; ".join(long)
