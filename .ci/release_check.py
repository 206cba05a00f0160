"""Check a release: `make release-check` builds it twice, compares bytes, installs it, runs README.

python .ci/release_check.py FOLDER     FOLDER receives the wheel and the sdist

The time in the archives is that of the last commit (`SOURCE_DATE_EPOCH`), so that anyone can build
the same bytes. What is installed comes from the wheel alone, in an environment of its own.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```pycon\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Run beside the installed package, in a folder without sources: what is imported is what was built.
EXAMPLES = """
import doctest, sys
import fgrad
from pathlib import Path
assert "site-packages" in fgrad.__file__, fgrad.__file__
flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
failed, number = doctest.testfile(sys.argv[1], module_relative=False, optionflags=flags)
print(f"README: {number} examples, {failed} failed")
sys.exit(failed > 0)
"""


def run(*command: str | Path, **settings: str) -> str:
    """What a command prints; it must succeed. It sees neither Python paths nor sources."""
    hidden = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
    env = {k: v for k, v in os.environ.items() if k not in hidden} | settings
    done = subprocess.run(
        [str(c) for c in command],
        env=env,
        cwd=tempfile.gettempdir(),
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def built(folder: Path) -> dict[str, str]:
    """Build a wheel and an sdist of the working tree; their names with their hashes."""
    epoch = run("git", "-C", ROOT, "log", "-1", "--format=%ct").strip()
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT, SOURCE_DATE_EPOCH=epoch)
    files = sorted(folder.iterdir())
    return {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in files}


def installed(wheel: Path, folder: Path) -> Path:
    """A new environment with the wheel and what it requires; its Python."""
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    run(python, "-m", "pip", "install", "--quiet", wheel)
    return python


def main(target: Path) -> None:
    """Build twice, compare, install, run."""
    version = re.findall(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        first, second = built(work / "first"), built(work / "second")
        if first != second or len(first) != 2:
            sys.exit(f"two builds differ: {first}, {second}")
        for file, digest in first.items():
            print(f"{digest}  {file}")
        (wheel,) = (work / "first").glob(f"fgrad-{version[0]}-*.whl")
        python = installed(wheel, work / "env")
        examples = work / "README.md"
        blocks = BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
        examples.write_text("\n".join(blocks), encoding="utf-8")
        print(run(python, "-c", EXAMPLES, examples).strip().splitlines()[-1])
        print(run(python, "-m", "fgrad", "info").splitlines()[0])
        target.mkdir(parents=True, exist_ok=True)
        for file in first:
            shutil.copy(work / "first" / file, target / file)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
