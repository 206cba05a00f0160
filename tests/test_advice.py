"""What error cards advise exists, and works on the programs that raised them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import numpy as np
import pytest
import scipy
from advice_cases import MENDED
from sources import python_files, relative, syntax_tree
from test_errors import GOLDEN

import fgrad
import fgrad.numpy
from fgrad import lax, nn
from fgrad.numpy.unsupported import ADVICE, NEEDS_VALUES

NAMES = {"fgrad": fgrad, "np": np, "scipy": scipy, "lax": lax, "nn": nn}
NAME = re.compile(rf"(?<![\w.'])({'|'.join(NAMES)})((?:\.[A-Za-z_]\w*)+)")
ROWS = re.compile(r"^  write   (.*?)(?=^  more|\Z)", re.MULTILINE | re.DOTALL)


def advised_lines() -> Iterator[tuple[str, str]]:
    """Every line of advice that stands in the sources, with its file."""
    for path in python_files("fgrad"):
        for node in ast.walk(syntax_tree(path)):
            if not isinstance(node, ast.Tuple) or len(node.elts) != 2:
                continue
            label, text = node.elts
            if isinstance(label, ast.Constant) and label.value == "write":
                yield relative(path), "".join(_literals(text))
    for texts in (ADVICE.values(), ((None, text) for text in NEEDS_VALUES.values())):
        for _, text in texts:
            yield "fgrad/numpy/unsupported.py", text


def _literals(text: ast.expr) -> Iterator[str]:
    """The constant parts of a string; what is filled in is `{}`, which ends a name."""
    for node in ast.walk(text):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.FormattedValue):
            yield "{}"


LINES = sorted(set(advised_lines()))


@pytest.mark.parametrize(("path", "line"), LINES)
def test_names_that_are_advised_exist(path: str, line: str) -> None:
    for root, names in NAME.findall(line):
        owner: object = NAMES[root]
        for name in names.strip(".").split("."):
            if line.partition(root + names)[2].startswith((".{", "{")):
                break
            assert hasattr(owner, name), f"{path} advises {root}{names}, which does not exist"
            owner = getattr(owner, name)


def golden_lines(case: str) -> list[str]:
    """The lines of advice in a golden card; indented ones continue the line before."""
    found = ROWS.search((GOLDEN / f"{case}.txt").read_text())
    lines = found[1].rstrip().split("\n") if found else []
    return [
        line[10:] if k else line for k, line in enumerate(lines) if not line.startswith(" " * 11)
    ]


CARDS = sorted(path.stem for path in GOLDEN.glob("*.txt"))


@pytest.mark.parametrize("case", CARDS)
def test_every_line_of_advice_is_followed_by_a_program(case: str) -> None:
    mended = MENDED.get(case, {})
    missing = [line for line in golden_lines(case) if not line.startswith(tuple(mended))]
    assert not missing, "add a program to advice_cases.py that does what the card says"
    assert all([any(line.startswith(key) for line in golden_lines(case)) for key in mended])


@pytest.mark.parametrize(
    ("case", "line"), [(case, line) for case, lines in MENDED.items() for line in lines]
)
def test_the_advice_works(case: str, line: str) -> None:
    mended = MENDED[case][line]
    results, expected = fgrad.tree.leaves(mended.run()), mended.result
    expected = list(expected) if isinstance(expected, tuple) else [expected]
    for a, b in zip(results, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
