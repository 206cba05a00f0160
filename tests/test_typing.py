"""tests/typing/uses.py, which `make lint` checks, runs, and has a hundred uses."""

from __future__ import annotations

import ast
import runpy

import pytest
from sources import ROOT, syntax_tree

USES = ROOT / "tests/typing/uses.py"
MODULES = {"fgrad", "fnp", "lax", "nn", "optim", "random", "special", "tree"}


def test_the_uses_run(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(USES), run_name="__main__")
    assert "x = [1. 2. 3.]" in capsys.readouterr().out


def test_there_are_a_hundred() -> None:
    """Calls and decorators of fgrad's names."""
    tree = syntax_tree(USES)
    calls = [n.func for n in ast.walk(tree) if isinstance(n, ast.Call)]
    decorators = [
        d
        for n in ast.walk(tree)
        if isinstance(n, (ast.FunctionDef, ast.ClassDef))
        for d in n.decorator_list
    ]
    names = [ast.unparse(n) for n in (*calls, *decorators) if isinstance(n, ast.Attribute)]
    assert len([n for n in names if n.partition(".")[0] in MODULES]) >= 100


def test_the_package_says_that_it_has_types() -> None:
    """Without the file, type checkers take all of an installed package for `Any`."""
    assert (ROOT / "fgrad/py.typed").exists()
