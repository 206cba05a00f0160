"""Functions that come from a file, a doctest, a notebook, a prompt or a string: their buffers and
numbers have derivatives, or a card says that there is no source to capture."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from number_readers import for_the_prompt, in_a_notebook, run_python

PATH = Path(__file__).with_name("prompt_program.py")
SOURCE = PATH.read_text(encoding="utf-8")
PAIRS = 6 * 7  # functions and transforms


def as_doctest(source: str) -> str:
    """The text of a file whose only example is the program."""
    lines = []
    for node in ast.parse(source).body:
        first, *rest = ast.unparse(node).splitlines()
        lines += [f">>> {first}", *[f"... {line}" for line in rest]]
    return "\n".join(lines) + "\n"


def in_a_doctest(source: str, folder: Path) -> str:
    path = folder / "examples.txt"
    path.write_text(as_doctest(source), encoding="utf-8")
    return run_python("-m", "doctest", str(path))


WAYS: dict[str, tuple[Callable[[Path], str], bool]] = {  # and whether the source is known
    "file": (lambda _folder: run_python(str(PATH)), True),
    "doctest": (lambda folder: in_a_doctest(SOURCE, folder), True),
    "notebook": (lambda _folder: in_a_notebook(SOURCE), True),
    "string": (lambda _folder: run_python("-c", SOURCE), False),
    "prompt": (lambda _folder: run_python("-i", "-q", text=for_the_prompt(SOURCE)), False),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_is_typed_has_derivatives_or_a_card(way: str, tmp_path: Path) -> None:
    run, has_source = WAYS[way]
    said = re.findall(r"prompt: (\w+) (\w+) (\w+)", run(tmp_path))
    assert len(said) == PAIRS
    wanted = {"right"} if has_source else {"right", "card"}  # Python 3.13 keeps what is typed
    assert [row for row in said if row[2] not in wanted] == []
