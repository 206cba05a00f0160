"""What docs/jax_names.md tells those who come from JAX to write exists."""

from __future__ import annotations

import importlib
import re
import sys

import pytest
from sources import ROOT

import fgrad

sys.path.insert(0, str(ROOT / "docs"))
TABLES = importlib.import_module("jax_names_tables")
NAME = re.compile(r"\b(?:fgrad|np|math)(?:\.\w+)+")


@pytest.mark.parametrize("there", TABLES.OTHER)
def test_other_names_lead_somewhere(there: str) -> None:
    for text in NAME.findall(TABLES.OTHER[there]):
        top, *names = text.split(".")
        found = fgrad if top == "fgrad" else importlib.import_module({"np": "numpy"}.get(top, top))
        for name in names:
            found = getattr(found, name)


def test_the_document_is_made_of_the_tables() -> None:
    text = (ROOT / "docs/jax_names.md").read_text(encoding="utf-8")
    assert not [n for n, here in TABLES.OTHER.items() if here.replace("|", "\\|") not in text]
