"""The source files of the project and their syntax trees, for tests about the code itself."""

from __future__ import annotations

import ast
import importlib
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "fgrad"


def python_files(*folders: str) -> list[Path]:
    """All Python files under folders of the project."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def relative(path: Path) -> str:
    """The path as it is written in messages and test names."""
    return path.relative_to(ROOT).as_posix()


@cache
def syntax_tree(path: Path) -> ast.Module:
    """The parsed file."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def module_name(path: Path) -> str:
    """`fgrad.ir.aval` for fgrad/ir/aval.py, `fgrad.ir` for fgrad/ir/__init__.py."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in python_files("fgrad")}


DEFINING = ("fgrad.ops.", "fgrad.transforms.", "fgrad.compile.", "fgrad.scipy.")


def load_primitives() -> None:
    """Import all modules that define primitives or their rules."""
    for module in MODULES:
        if module.startswith(DEFINING):
            importlib.import_module(module)
