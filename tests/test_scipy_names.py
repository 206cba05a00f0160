"""docs/scipy_support.md: what it says is supported stays so, and its lists are of SciPy's names."""

from __future__ import annotations

import importlib
import re
import sys
from fnmatch import fnmatchcase

import pytest
from sources import ROOT

sys.path.insert(0, str(ROOT / "docs"))
NAMES = importlib.import_module("scipy_names")
PAGE = (ROOT / "docs/scipy_support.md").read_text(encoding="utf-8")
ROW = re.compile(r"(\| scipy\.[\w.]+ \|) \d+ \| \d+ \|")


@pytest.mark.parametrize("module", NAMES.WITHOUT)
def test_supported_names_stay_supported(module: str) -> None:
    """The share of each module never falls; a page that lists too few is written by `make docs`."""
    section = PAGE.partition(f"\n## scipy.{module}\n")[2].partition("\n## ")[0]
    listed = section.partition("Supported:")[2].partition("\n\n")[0]
    there = {*NAMES.names(module)}  # other versions of SciPy have other names
    found = re.findall(r"`(\w+)`", listed)
    assert f"| scipy.{module} | {{}} | {{}} | {len(found)} |" in re.sub(ROW, r"\1 {} | {} |", PAGE)
    assert [n for n in found if n in there and not NAMES.has_traced_form(module, n)] == []


@pytest.mark.parametrize("module", NAMES.WITHOUT)
def test_names_without_a_meaning_are_not_supported(module: str) -> None:
    """A name on that list exists, has one reason, and no traced form."""
    there, lists = NAMES.names(module), NAMES.WITHOUT[module].values()
    patterns = [p for text in lists for p in text.split()]
    named = {n: [p for p in patterns if fnmatchcase(n, p)] for n in there}
    assert {n: found for n, found in named.items() if len(found) > 1} == {}
    assert [n for n, found in named.items() if found and NAMES.has_traced_form(module, n)] == []
    if NAMES.scipy.__version__.startswith(PAGE.partition("for SciPy ")[2].partition(". ")[0]):
        assert [p for p in patterns if not any([fnmatchcase(n, p) for n in there])] == []
