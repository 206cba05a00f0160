"""What a release says of itself in several files is the same."""

from __future__ import annotations

import re

from sources import ROOT

import fgrad


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_version_is_the_same_everywhere() -> None:
    stated = {
        "pyproject.toml": re.findall(r'^version = "(.*)"$', text("pyproject.toml"), re.MULTILINE),
        "CITATION.cff": re.findall(r"^version: (.*)$", text("CITATION.cff"), re.MULTILINE),
        "recipe/meta.yaml": re.findall(
            r'^  version: "(.*)"$', text("recipe/meta.yaml"), re.MULTILINE
        ),
    }
    assert stated == {name: [fgrad.__version__] for name in stated}


def test_the_recipe_asks_for_what_the_package_requires() -> None:
    needs = re.findall(r"^dependencies = \[\n(.*?)^\]", text("pyproject.toml"), re.M | re.S)[0]
    required = [need.replace(">=", " >=") for need in re.findall(r'"(.*)"', needs)]
    run = re.findall(r"^  run:\n(.*?)\n\n", text("recipe/meta.yaml"), re.M | re.S)[0]
    assert re.findall(r"- (.*)", run) == ["python >=3.10", *required]
