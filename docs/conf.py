"""Sphinx's settings: Markdown pages by MyST, the theme Furo, the reference of `reference.py`."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.nodes import make_refnode

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import pages  # noqa: E402
import reference  # noqa: E402

import fgrad  # noqa: E402

project = "fgrad"
author = copyright = "The fgrad developers"
version = release = fgrad.__version__
extensions = ["myst_parser", "sphinx.ext.viewcode", "sphinx_copybutton"]
exclude_patterns = ["site"]
html_theme = "furo"
html_title = f"fgrad {version}"
html_static_path = ["site/static"]
html_css_files = ["fgrad.css"]
html_js_files = ["versions.js", "search.js"]
html_search_scorer = str(HERE / "site/scorer.js")
html_show_sphinx = False
html_copy_source = False
pygments_style, pygments_dark_style = "friendly", "github-dark"
maximum_signature_line_length = 80
python_display_short_literal_types = True
add_module_names = False
toc_object_entries_show_parents = "hide"
myst_enable_extensions = ["dollarmath", "fieldlist"]
myst_heading_anchors = 4
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

ROOT = HERE.parent
NAME = re.compile(r"(fgrad(?:\.\w+)+)(?:\(.*\))?", re.DOTALL)
FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)")
# Pages that stand elsewhere in the repository, by their names on the site.
BORROWED = {
    "project/contributing": ROOT / "CONTRIBUTING.md",
    "project/changelog": ROOT / "CHANGELOG.md",
    **{f"results/{p.stem}": p for p in sorted((ROOT / "benchmarks/results").glob("*.md"))},
    **{f"notebooks/{p.stem}": p for p in pages.NOTEBOOKS},
    **{f"examples/{p.stem}": p for p in pages.PROGRAMS},
}
PLACES = {path: name for name, path in BORROWED.items()} | {ROOT / "README.md": "index"}
PLACES |= {p.with_suffix(".py"): f"notebooks/{p.stem}" for p in pages.NOTEBOOKS}


def links_within(_app: Sphinx, name: str, source: list[str]) -> None:
    """Links of the repository as links of the site; diagrams as tables."""
    home = BORROWED.get(name, HERE / name).parent

    def led(match: re.Match[str]) -> str:
        target = Path(os.path.normpath(home / match[1]))
        target = HERE / f"{PLACES[target]}.md" if target in PLACES else target
        return "](" + Path(os.path.relpath(target, (HERE / name).parent)).as_posix()

    parts = FENCE.split(source[0])
    parts[::2] = [LINK.sub(led, text) for text in parts[::2]]
    text = "".join(parts).replace("\n\n```\n", "\n```\n")
    source[0] = re.sub(r"^```mermaid\n(.*?)^```$", as_table, text, flags=re.MULTILINE | re.DOTALL)


def as_table(diagram: re.Match[str]) -> str:
    """The arrows of a flowchart as rows, which need no program to be drawn."""
    names = {n: t.replace("<br>", ", ") for n, t in re.findall(r'(\w+)\["(.*?)"\]', diagram[1])}
    lines = re.sub(r'\["(.*?)"\]', "", diagram[1]).splitlines()
    arrows = [re.fullmatch(r' *(\w+) --> *(?:\|"?(.*?)"?\|)? *(\w+)', line) for line in lines]
    rows = [f"| {names[a[1]]} | {a[2] or ''} | {names[a[3]]} |" for a in arrows if a]
    return "| from | by | to |\n|---|---|---|\n" + "\n".join(rows)


def code_as_links(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """`fgrad.lax.scan` in a text leads to its entry of the reference."""
    objects = app.env.domains["py"].objects  # type: ignore[attr-defined]
    for node in list(doctree.findall(nodes.literal)):
        match = NAME.fullmatch(node.astext())
        if match is None or match[1] not in objects or isinstance(node.parent, nodes.reference):
            continue
        target = objects[match[1]]
        link = make_refnode(app.builder, page, target.docname, target.node_id, node.deepcopy())
        node.replace_self(link)


def type_variables_without_links(_app: Sphinx, doctree: nodes.document) -> None:
    """`T` in a signature is a type variable, and not the transpose of a matrix."""
    for node in list(doctree.findall(addnodes.pending_xref)):
        if len(node.get("reftarget", "")) == 1:
            node.replace_self(node.children)


def write_pages(_app: Sphinx) -> None:
    """Make the pages of the reference, and those that stand elsewhere, before Sphinx looks."""
    reference.write(HERE / "reference")
    for name, path in BORROWED.items():
        (HERE / name).parent.mkdir(exist_ok=True)
        text = pages.text_of(path, (HERE / name).parent)
        reference.update(HERE / f"{name}.md", text)


def setup(app: Sphinx) -> None:
    """Register what is done to pages."""
    app.connect("builder-inited", write_pages)
    app.connect("source-read", links_within)
    app.connect("doctree-read", type_variables_without_links)
    app.connect("doctree-resolved", code_as_links)
