"""The tests that README.md names for each entry exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
NAMED = re.findall(r"`((?:\w+/)*test_\w+\.py)(?:::(\w+))?`", (HERE / "README.md").read_text())


@pytest.mark.parametrize("file, name", dict.fromkeys(NAMED))
def test_what_the_table_names_exists(file: str, name: str) -> None:
    text = (HERE.parent / file).read_text(encoding="utf-8")
    assert not name or f"def {name}(" in text
