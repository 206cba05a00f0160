"""Figures that describe processors stand in the machine models, with unit and source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from sources import python_files, relative, syntax_tree

MODELS = ("fgrad/compile/kernel/machine.py", "fgrad/lower_cuda/emit/machine.py")
FILES = [p for p in python_files("fgrad/compile", "fgrad/lower_cuda") if relative(p) not in MODELS]

# What a comment says of a figure that describes a processor.
_WORDS = r"cycles?|caches?|AVX\S*|warps?|multiprocessors?|[0-9.]+ [nu]s|memory answers"
HARDWARE = re.compile(rf"\b({_WORDS})\b")

# Figures of other things all the same.
ALLOWED = {
    "fgrad/compile/fuse/columns.py": ("LEAST_BYTES", "MOST_COLUMNS"),  # of a rule: what it gains
    "fgrad/compile/fuse/parts.py": ("NEAR_COST", "NEAR_PIECE"),  # of kernels, in operations
    "fgrad/compile/host/interpreter.py": ("TURNS",),  # what looking for signals costs
    "fgrad/compile/llvm/interrupts.py": ("_STATES",),  # a format: the mask of XSAVE
    "fgrad/compile/passes/split_scatter.py": ("LEAST_PART",),  # of a rule, in updates
    "fgrad/compile/schedule/columns.py": ("LEAST_BYTES",),  # of a rule: what it gains
    "fgrad/lower_cuda/library/walks.py": ("SHORT",),  # of a form
}


def is_number(node: ast.AST) -> bool:
    """Whether an expression is made of numbers alone."""
    if isinstance(node, ast.Constant):
        return type(node.value) in (int, float)
    if isinstance(node, ast.UnaryOp):
        return is_number(node.operand)
    if isinstance(node, ast.BinOp):
        return is_number(node.left) and is_number(node.right)
    return isinstance(node, ast.Tuple) and bool(node.elts) and all(map(is_number, node.elts))


def figures(path: Path) -> Iterator[tuple[str, str]]:
    """The numbers that a module names, each with its comment."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for node in syntax_tree(path).body:
        if isinstance(node, ast.Assign) and is_number(node.value):
            comment = lines[(node.end_lineno or node.lineno) - 1].partition("#")[2]
            yield ast.unparse(node.targets[0]), comment


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_figures_of_processors_stand_in_the_models(path: Path) -> None:
    found = [name for name, comment in figures(path) if HARDWARE.search(comment)]
    assert tuple(found) == ALLOWED.get(relative(path), ())


@pytest.mark.parametrize("model", MODELS)
def test_figures_of_the_models_say_what_they_are(model: str) -> None:
    path = Path(__file__).parent.parent / model
    assert not [name for name, comment in figures(path) if not comment and "ELEMENTS" not in name]
