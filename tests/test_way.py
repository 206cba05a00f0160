"""docs/design.md tells the way from a call to its result: its tables name the modules that run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from sources import ROOT

MOST = 8  # modules that a reader has to know

PROGRAM = """
import json, sys
import numpy as np
import fgrad

ROOT = fgrad.__file__.rpartition("__init__")[0]

def modules(call):
    found = []
    def note(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(ROOT) and code.co_name != "<module>":
            found.append(code.co_filename[len(ROOT):])
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return list(dict.fromkeys(found))

def way(transform):
    x = np.ones(5)
    transform(lambda x: np.sum(np.sin(x) * x * 2.0))(x)  # loads what is first needed
    loss = lambda x: np.sum(np.sin(x) * x)
    return modules(lambda: transform(loss)(x))

print(json.dumps({"grad": way(fgrad.grad), "jit": way(fgrad.jit)}))
"""


class Table(NamedTuple):
    """A table of the document: the modules of its rows, and what may run by the way."""

    spine: list[str]
    others: tuple[str, ...]


def table(transform: str) -> Table:
    """The table of the way of a transform."""
    text = (ROOT / "docs/design.md").read_text(encoding="utf-8")
    section = text.split(f"**`fgrad.{transform}(loss)(x)`**")[1]
    rows = re.findall(r"^\| `([^`]+)` \|(.*)\|(.*)\|$", section.split("\n**")[0], re.MULTILINE)
    others = [name for row in rows for name in re.findall(r"`([\w/]+(?:/|\.py))`", row[2])]
    return Table([row[0] for row in rows], tuple(others))


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The modules whose code runs, in a process that has compiled nothing like it."""
    cache = tmp_path_factory.mktemp("cache")
    settings = {**os.environ, "FGRAD_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(program(cache))]
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def program(folder: Path) -> Path:
    """The program in a file: functions without source are not looked at."""
    path = folder / "way.py"
    path.write_text(PROGRAM, encoding="utf-8")
    return path


@pytest.mark.parametrize("transform", ["grad", "jit"])
def test_the_document_names_the_modules_that_run(
    transform: str, ways: dict[str, list[str]]
) -> None:
    told, run = table(transform), ways[transform]
    assert len(told.spine) <= MOST
    assert [name for name in run if name in told.spine] == told.spine
    unnamed = [name for name in run if name not in told.spine]
    assert not [name for name in unnamed if not name.startswith(told.others)]
    assert not [other for other in told.others if not any(n.startswith(other) for n in run)]
