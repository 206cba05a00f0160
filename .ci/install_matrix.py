"""Install the wheel on several Pythons, with the oldest and the newest packages, and run it there.

python .ci/install_matrix.py WHEEL [--pythons python3.10 ...] [--table FILE]

Each Python gets two environments: one with the lowest versions that `pyproject.toml` allows (where
these have no wheels for that Python, the first that do), one with the newest. All comes from
wheels: `--only-binary :all:` refuses what would need a compiler. In a folder without sources, where
what is imported is what was installed, each runs README's examples, `python -m fgrad doctor`, and
the tests of `TESTS`.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHONS = ("python3.10", "python3.11", "python3.12", "python3.13", "python3.14")
# The first versions that have wheels, where the lowest that are allowed have none.
FIRST = {
    "3.13": {"numpy": "2.1.0", "scipy": "1.14.1"},
    "3.14": {"numpy": "2.3.2", "scipy": "1.16.1", "llvmlite": "0.46.0"},
}
TOOLS = ("pytest", "hypothesis", "mpmath", "ml_dtypes", "nbmake")
TESTS = (
    "tests/numpy/test_op_cases.py",
    "tests/transforms/test_compose.py",
    "tests/transforms/test_custom_rules.py",
    "tests/transforms/test_named_axes.py",
    "tests/transforms/test_per_sample.py",
    "tests/transforms/test_sparse.py",
    "tests/findings",
    "tests/scipy/test_special.py",
    "tests/scipy/test_optimize.py",
    "tests/test_optim.py",
)
# What older versions of NumPy and SciPy have not, or give other results of.
LATER = (
    "cumulative_sum",
    "every_supported_name",
    "clip.integers",
    "logsumexp",
    "log_of_a_sum_of_complex",
    "choices_with_repetition",
    "edges[chdtrc",
    "index array is no slice",  # NumPy 2.0 reads what it has written
)
PACKAGES = ("numpy", "scipy", "llvmlite", "optree", "opt_einsum")
HEAD = f"""# Installations

What `make install-matrix` found: the wheel, installed without a compiler, with the oldest packages
that `pyproject.toml` allows and with the newest ones. Run on each: the {{examples}} examples of
README, `python -m fgrad doctor`, and these tests, less those that compare with names or results
that older versions of NumPy and SciPy do not have ({", ".join(LATER)}):
{", ".join(f"`{name}`" for name in TESTS)}.

| Python | packages | {" | ".join(PACKAGES)} | README | doctor | tests | seconds |
|---|---|{"---|" * len(PACKAGES)}---|---|---|---|
"""


def lowest(version: str) -> list[str]:
    """The requirements of the project, each at its lowest version with a wheel."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    needs = re.findall(r"^dependencies = \[\n(.*?)^\]", text, re.MULTILINE | re.DOTALL)[0]
    first = FIRST.get(version, {})
    pairs = re.findall(r'"(.+)>=(.+)"', needs)
    return [f"{name}=={first.get(name, least)}" for name, least in pairs]


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A command that sees neither the sources nor this environment's paths."""
    hidden = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
    env = {k: v for k, v in os.environ.items() if k not in hidden}
    env["FGRAD_CACHE_DIR"] = str(cwd / "cache")
    return subprocess.run(
        [str(c) for c in command], env=env, cwd=cwd, capture_output=True, encoding="utf-8"
    )


def needed(*command: str | Path, cwd: Path) -> str:
    """What a command prints that must succeed."""
    done = run(*command, cwd=cwd)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def copied(folder: Path) -> None:
    """Tests and examples beside the environment, without the package."""
    left = shutil.ignore_patterns("__pycache__", "results")
    for name in ("tests", "benchmarks"):  # tests import helpers of both
        shutil.copytree(ROOT / name, folder / name, ignore=left)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, folder / name)
    sys.path.insert(0, str(ROOT / ".ci"))
    from release_check import BLOCK, EXAMPLES

    text = (folder / "README.md").read_text(encoding="utf-8")
    (folder / "examples.txt").write_text("\n".join(BLOCK.findall(text)), encoding="utf-8")
    (folder / "run_examples.py").write_text(EXAMPLES, encoding="utf-8")


def tried(python: str, wheel: Path, oldest: bool, folder: Path) -> tuple[list[str], bool]:
    """A row of the table, and whether all was well."""
    start = time.perf_counter()
    needed(python, "-m", "venv", folder / "env", cwd=folder)
    inside = folder / ("env/Scripts/python.exe" if os.name == "nt" else "env/bin/python")
    asked = "import sys; print(*sys.version_info[:3], sep='.')"
    version = needed(inside, "-c", asked, cwd=folder).strip()
    pip = (inside, "-m", "pip", "install", "--quiet", "--only-binary", ":all:")
    pins = lowest(version.rpartition(".")[0]) if oldest else []
    needed(*pip, wheel, *pins, *TOOLS, cwd=folder)
    show = f"from importlib.metadata import version as v; print(*map(v, {PACKAGES}))"
    versions = needed(inside, "-c", show, cwd=folder).split()
    copied(folder)
    readme = run(inside, "run_examples.py", "examples.txt", cwd=folder)
    examples = re.findall(r"README: (\d+) examples, (\d+) failed", readme.stdout)
    doctor = run(inside, "-m", "fgrad", "doctor", cwd=folder)
    options = ("-q", "-p", "no:cacheprovider", "-o", "addopts=--import-mode=importlib")
    left = " or ".join([" and ".join(re.findall(r"[\w.]+", name)) for name in LATER])
    tests = run(inside, "-m", "pytest", *options, *TESTS, "-k", f"not ({left})", cwd=folder)
    last = tests.stdout.strip().splitlines()[-1:] or ["nothing"]
    good = not (readme.returncode or tests.returncode or doctor.returncode)
    for done in (readme, doctor, tests):
        if done.returncode:
            print(done.stdout[-4000:], done.stderr[-2000:], file=sys.stderr)
    counted = (
        f"{int(examples[0][0]) - int(examples[0][1])} of {examples[0][0]}" if examples else "-"
    )
    fixes = "good" if not doctor.returncode else "to do"
    spent = f"{time.perf_counter() - start:.0f}"
    kind = "oldest" if oldest else "newest"
    return [version, kind, *versions, counted, fixes, re.sub(r" in .*", "", last[0]), spent], good


def main() -> None:
    """One row for each environment, as it is known; the table, if it is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--pythons", nargs="+", default=PYTHONS)
    parser.add_argument("--table", type=Path, help="a file that receives the table")
    options = parser.parse_args()
    rows: list[str] = []
    well = True
    for python in options.pythons:
        for oldest in (True, False):
            with tempfile.TemporaryDirectory(prefix="fgrad-install-") as name:
                row, good = tried(python, options.wheel.resolve(), oldest, Path(name))
            well = well and good
            rows.append(f"| {' | '.join(row)} |")
            print(rows[-1], flush=True)
    if options.table is not None:
        count = rows[0].split(" of ")[1].split(" ")[0]
        options.table.write_text(HEAD.format(examples=count) + "\n".join(rows) + "\n", "utf-8")
    sys.exit(not well)


if __name__ == "__main__":
    main()
