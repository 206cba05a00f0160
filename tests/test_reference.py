"""The reference of the site: its pages are made of docstrings, which say all that users need."""

from __future__ import annotations

import ast
import importlib
import types

import pytest
import reference

# Beside those with pages: namespaces, and what annotations are written with.
NAMESPACES = ("fgrad.errors", "fgrad.numpy", "fgrad.numpy.fft", "fgrad.numpy.linalg", "fgrad.scipy",
              "fgrad.scipy.sparse", "fgrad.typing")  # fmt: skip


@pytest.mark.parametrize("module", reference.MODULES)
def test_each_module_has_a_page_with_all_its_names(module: str) -> None:
    page = reference.page(module)
    names = reference.public(module)
    assert [n for n in names if f"`{n}`" not in page] == []


@pytest.mark.parametrize("module", reference.MODULES)
def test_docstrings_say_what_users_need(module: str) -> None:
    """`python docs/reference.py` lists what is missing, by name."""
    names = [(name, value) for home, name, value in reference.checked() if home == module]
    gaps = {name: reference.missing(module, value) for name, value in names}
    assert {name: gap for name, gap in gaps.items() if gap} == {}


def is_code(block: str) -> bool:
    """Whether lines of a paragraph are statements of Python, two or more of them."""
    try:
        found = ast.parse(block).body
    except SyntaxError:
        return False
    return len(found) > 1 and all(isinstance(x, (ast.Assign, ast.Expr)) for x in found)


@pytest.mark.parametrize("module", reference.MODULES)
def test_code_of_docstrings_is_indented(module: str) -> None:
    """Else a page shows it as words."""
    docs = [importlib.import_module(module).__doc__ or ""]
    docs += [value.__doc__ or "" for home, _, value in reference.checked() if home == module]
    blocks = [b for doc in docs for b in reference.parse(doc).text.split("\n\n")]
    assert [b for b in blocks if not b.startswith((" ", ">>>")) and is_code(b)] == []


@pytest.mark.parametrize("module", reference.MODULES)
def test_first_sentences_are_whole(module: str) -> None:
    """A table of a page shows them: none ends within brackets, as at `(Zhuang et al.`."""
    said = [reference.summary(name, value) for name, value in reference.public(module).items()]
    assert [text for text in said if not reference.is_balanced(text)] == []


@pytest.mark.parametrize(
    ("doc", "gaps"),
    [
        ("The sum of both.", ["argument a", "argument b", "error TypeError", "example"]),
        ("Add a to b.\n\nRaises:\n    TypeError: ...\n", ["result", "example"]),
        ("a + b; a TypeError of words.\n\nExample:\n    >>> 1\n    1", []),
        ("a + b; a TypeError of words", ["purpose", "example"]),
    ],
)
def test_what_a_docstring_leaves_out(doc: str, gaps: list[str]) -> None:
    def add(a: float, b: float) -> float:
        if isinstance(a, str):
            raise TypeError("words")
        return a + b

    add.__doc__ = doc
    assert reference.missing("fgrad.testing", add) == gaps


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


@pytest.mark.parametrize("module", [*reference.MODULES, *NAMESPACES])
def test_completion_shows_what_is_public_and_nothing_else(module: str) -> None:
    """No private name, nothing of the standard library, no module that a file needs for itself."""
    loaded = importlib.import_module(module)
    shown = {n: getattr(loaded, n) for n in dir(loaded) if not n.startswith("__")}
    homes = (f"{module}.", "numpy." if module.startswith("fgrad.numpy") else f"{module}.")
    leaked = [
        n
        for n, v in shown.items()
        if n.startswith("_")
        or n in ("annotations", "TYPE_CHECKING")
        or (isinstance(v, types.ModuleType) and not v.__name__.startswith(homes))
        or getattr(v, "__module__", "") in ("collections.abc", "functools", "dataclasses")
    ]
    assert shown
    assert leaked == []
