"""Pages of the site that are made of other files: notebooks with their results, programs."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PROGRAMS = [
    *sorted((ROOT / "examples").glob("*.py")),
    *sorted((ROOT / "examples/gallery").glob("*.py")),
]
DOCSTRING = re.compile(r'"""(.*?)"""\n+', re.DOTALL)


def text_of(path: Path, folder: Path) -> str:
    """A file as a page; pictures go to the folder of the page."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        return notebook(json.loads(text)["cells"], path, folder)
    return program(text, path) if path.suffix == ".py" else text


def program(text: str, path: Path) -> str:
    """The beginning of a program's first sentence as the title, and its text."""
    first, _, rest = DOCSTRING.match(text)[1].partition("\n")  # type: ignore[index]
    about = rest.strip("\n") + "\n\n"
    place = path.relative_to(ROOT).as_posix()
    code = DOCSTRING.sub("", text, count=1)
    title = re.split(r"[:,]|\.$", first)[0]
    return f"# {title}\n\n{first}\n\n`{place}`\n\n{about}```python\n{code}```\n"


def notebook(cells: list[dict[str, object]], path: Path, folder: Path) -> str:
    """The cells of a notebook: text, code, and what it printed and drew when it was last run."""
    parts: list[str] = []
    for cell in cells:
        source = "".join(cell["source"])  # type: ignore[arg-type]
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", ()):  # type: ignore[attr-defined]
            shown = result(output, f"{path.stem}_{len(parts)}.png", folder)
            parts += [shown] if shown else []
    return "\n\n".join(parts) + "\n"


def result(output: dict[str, dict[str, str]], name: str, folder: Path) -> str:
    """What one line of a cell has printed or drawn."""
    if output.get("name") == "stdout":
        return "```text\n" + "".join(output["text"]).rstrip() + "\n```"
    picture = output.get("data", {}).get("image/png")
    if picture is None:
        return ""
    (folder / name).write_bytes(base64.b64decode(picture))
    return f"```{{image}} {name}\n```"
