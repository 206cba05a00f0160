"""The reference of the site: its pages are made of docstrings, which say all that users need."""

from __future__ import annotations

import pytest
import reference


@pytest.mark.parametrize("module", reference.MODULES)
def test_each_module_has_a_page_with_all_its_names(module: str) -> None:
    page = reference.page(module)
    names = reference.public(module)
    assert [n for n in names if f"`{n}`" not in page] == []


def test_parts_of_a_docstring() -> None:
    """Indented lines belong to their section; what follows is text again."""
    doc = """The sum of both.

    Arguments:
        a, b: numbers, in one
            or two lines.

    Example:
        >>> 1 + 2
        3

    As in school.
    """
    purpose, text, sections = reference.parse(doc)
    assert (purpose, text) == ("The sum of both.", "As in school.")
    assert list(reference.entries(sections["Arguments"])) == [
        ("a, b", "numbers, in one or two lines.")
    ]
    assert sections["Example"] == ">>> 1 + 2\n3"


def test_words_that_are_no_markup() -> None:
    assert reference.escaped("a*b of `x*y`, [0, 1]") == r"a\*b of `x*y`, \[0, 1\]"
