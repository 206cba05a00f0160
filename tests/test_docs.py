"""The examples in the documents run, links lead somewhere, and every error has its section."""

from __future__ import annotations

import ast
import doctest
import re
from pathlib import Path

import numpy as np
import pytest
from sources import ROOT, python_files, relative

from fgrad import errors
from fgrad.numpy.dispatch import TRACED

DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs/learn").glob("*.md")),
    *sorted((ROOT / "docs/howto").glob("*.md")),
]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
BLOCK = re.compile(r"^```pycon\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("path", DOCUMENTS, ids=relative)
def test_examples_run(path: Path) -> None:
    text, blocks = path.read_text(encoding="utf-8"), []
    for match in BLOCK.finditer(text):
        before = text[: match.start(1)].count("\n")
        blocks.append("\n" * (before - sum(b.count("\n") for b in blocks)) + match[1])
    test = doctest.DocTestParser().get_doctest("".join(blocks), {}, relative(path), str(path), 0)
    runner, output = doctest.DocTestRunner(optionflags=FLAGS), []
    runner.run(test, out=output.append)
    assert not output, "".join(output)


@pytest.mark.parametrize("path", DOCUMENTS, ids=relative)
def test_links_lead_somewhere(path: Path) -> None:
    targets = LINK.findall(FENCE.sub("", path.read_text(encoding="utf-8")))
    broken = [target for target in targets if not (path.parent / target).exists()]
    assert not broken


def test_every_page_is_in_the_contents_of_the_site() -> None:
    contents = (ROOT / "docs/index.md").read_text(encoding="utf-8").splitlines()
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"index"}
    assert sorted(pages - set(contents)) == []


def test_every_recipe_is_listed() -> None:
    listed = re.findall(r"^\* \[(.*)\]", (ROOT / "docs/howto/index.md").read_text("utf-8"), re.M)
    pages = [
        ROOT / f"docs/howto/{n}.md"
        for n in ("derivatives", "fitting", "models", "speed", "science")
    ]
    recipes = [h for p in pages for h in re.findall(r"^## (.*)$", p.read_text("utf-8"), re.M)]
    assert sorted(listed) == sorted(recipes)
    for text in ("README.md", "docs/index.md"):
        assert f"{len(recipes)} recipes" in (ROOT / text).read_text("utf-8")


def test_every_error_has_a_section() -> None:
    headings = re.findall(r"^## (\w+)$", (ROOT / "docs/errors.md").read_text(), re.MULTILINE)
    own = [v for v in vars(errors).values() if getattr(v, "__module__", "") == errors.__name__]
    classes = [v.__name__ for v in own if isinstance(v, type)]
    assert sorted(headings) == sorted(set(classes) - {"FgradError"})


def test_documents_that_messages_name_exist() -> None:
    """`docs/errors.md#nanerror`, in messages and docstrings: the file, and the heading in it."""
    named = {
        match
        for path in python_files("fgrad")
        for match in re.findall(
            r"(docs/[\w/]+\.md)(?:#([\w-]+))?", path.read_text(encoding="utf-8")
        )
    }
    assert named
    assert sorted(place for place in named if not has_heading(ROOT / place[0], place[1])) == []


def has_heading(path: Path, anchor: str) -> bool:
    """Whether a document is there and has a heading whose link is `anchor`, if one is given."""
    if not path.exists():
        return False
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    links = [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]
    return not anchor or anchor in links


def test_a_class_of_another_module_leads_to_the_section_of_its_base() -> None:
    class OwnError(errors.ShapeError):
        pass

    class Exchanged(OwnError):
        pass

    for made in (errors.ShapeError, OwnError, Exchanged):
        error = made("Shapes.", [("write", "others")])
        assert str(error).splitlines()[-1].endswith("docs/errors.md#shapeerror")
        error.add_rows([("note", "more")])
        assert str(error).splitlines()[-1].endswith("docs/errors.md#shapeerror")


def test_no_plain_base_is_raised() -> None:
    """`FgradError` is for `except`: it has no section."""
    calls = [
        f"{relative(path)}:{node.lineno}"
        for path in python_files("fgrad")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "FgradError"
    ]
    assert calls == []


def test_supported_numpy_functions_are_listed() -> None:
    """`make docs` was run after the last change of the tables; other NumPys have other names."""
    text = (ROOT / "docs/numpy_support.md").read_text()
    if f"for NumPy {'.'.join(np.__version__.split('.')[:2])}." not in text:
        pytest.skip("the list was written with another NumPy")
    listed = set(re.findall(r"`([\w.]+)`", text))
    assert set(TRACED) <= listed
    names = [n for n in dir(np) if not n.startswith("_") and callable(getattr(np, n))]
    assert {n for n in names if not isinstance(getattr(np, n), type)} <= listed


CHAPTERS = sorted(relative(p) for p in (ROOT / "docs/design").glob("*.md"))
GUIDES = ("CONTRIBUTING.md", "docs/design.md", *CHAPTERS)
CODE = re.compile(r"`([^`\n]+)`")
EXAMPLES = {"model.py", "program.txt"}


@pytest.mark.parametrize("guide", GUIDES)
def test_files_that_guides_name_exist(guide: str) -> None:
    names = set(CODE.findall((ROOT / guide).read_text(encoding="utf-8"))) - EXAMPLES
    paths = {n for n in names if re.fullmatch(r"[\w/]+/|[\w/]+\.(py|md|txt)", n)}
    folders = ("fgrad", "tests", "benchmarks", "docs", "examples")
    files = [relative(f) for folder in folders for f in (ROOT / folder).rglob("*")]
    there = [f"/{file}" + "/" * (ROOT / file).is_dir() for file in (*files, *folders)]
    assert not sorted(p for p in paths if not any(t.endswith(f"/{p}") for t in there))


def test_the_overview_of_the_design_is_short_and_names_its_chapters() -> None:
    overview = (ROOT / "docs/design.md").read_text(encoding="utf-8")
    assert len(overview.split()) <= 1500
    assert [c for c in CHAPTERS if f"]({c.removeprefix('docs/')})" not in overview] == []


def test_names_in_checklists_exist() -> None:
    code = "".join(
        path.read_text(encoding="utf-8")
        for path in python_files("fgrad", "tests", "benchmarks")
        if path.name != "test_docs.py"
    )
    names = set(CODE.findall((ROOT / "CONTRIBUTING.md").read_text()))
    plain = {name for name in names if re.fullmatch(r"[A-Za-z_]+(\.[a-zA-Z_]+)*", name)}
    words = set(re.findall(r"\w+", code))
    assert not sorted(n for n in plain if not words.issuperset(n.split(".")))


PLACED = re.compile(r"`(\w+)`(?: of|,? in)? \(?`([\w/]+\.py)`")


@pytest.mark.parametrize("guide", GUIDES)
def test_names_stand_in_the_files_that_guides_name(guide: str) -> None:
    """`PASSES` of `fgrad/tools/run.py`, `Backend` (`fgrad/compile/backend.py`)."""
    text = " ".join((ROOT / guide).read_text(encoding="utf-8").split())
    files = {f"/{relative(f)}": f for f in python_files("fgrad", "tests", "benchmarks")}
    found = [
        (name, path, [f for where, f in files.items() if where.endswith(f"/{path}")])
        for name, path in PLACED.findall(text)
    ]
    holds = {
        (name, path): any(name in re.findall(r"\w+", f.read_text(encoding="utf-8")) for f in places)
        for name, path, places in found
    }
    assert [place for place, there in holds.items() if not there] == []
