"""The versions that a folder of sites has, for the list on each page.

python docs/versions.py build/site      writes versions.json, and index.html for the newest
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

PAGE = """<!doctype html>
<meta charset="utf-8">
<title>fgrad</title>
<meta http-equiv="refresh" content="0; url={newest}/index.html">
<a href="{newest}/index.html">fgrad {newest}</a>
"""


def versions(folder: Path) -> list[str]:
    """The names of the folders that hold a site, the newest first."""
    found = [p.parent.name for p in folder.glob("*/objects.inv")]
    return sorted(found, key=lambda name: [int(n) for n in name.split(".")], reverse=True)


def main(folder: Path) -> None:
    """Write the list, and the page that leads to the newest."""
    found = versions(folder)
    (folder / "versions.json").write_text(json.dumps(found))
    (folder / "index.html").write_text(PAGE.format(newest=found[0]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
