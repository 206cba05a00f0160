"""autograd's own examples, run by autograd and, with their imports changed, by fgrad.

    git clone https://github.com/HIPS/autograd
    python tests/unmodified/autograd_examples.py autograd/examples

Imports become NumPy's, fgrad's and those of examples/from_autograd.py, as docs/coming_from.md says;
`BEYOND` lists what else changes. Each program runs in a process of its own for a few gradients,
with nothing drawn and numbers in the place of MNIST; what the gradients were of, and what was
printed, is compared. The table is printed as Markdown; autograd has to be installed.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import pickle
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, NoReturn
from unittest.mock import MagicMock

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
CALLS = 6  # outermost gradients of each program
EQUAL = 1e-6  # relative to the largest number of the result
TIMEOUT = 300.0
NOT_PROGRAMS = {"__init__", "data", "data_mnist"}
FGRAD = {"grad", "value_and_grad", "checkpoint", "jacobian"}  # names of autograd's that fgrad has

INTERNALS = "about autograd's own nodes; `fgrad.make_program(f)(x)` prints a program"
NOT_RUN = {
    "dot_graph": INTERNALS,
    "print_trace": INTERNALS,
    "rkhs": "vector spaces of autograd's own; a registered class of a list of weights and points",
}
# What changes besides imports: the old text, the new one.
BEYOND = {
    "bayesian_optimization": [
        ("lambda x: -acquisition_function(x))", "lambda x: -acquisition_function(x)[0])")
    ],
    "convnet": [("convolve = autograd.scipy.signal.convolve\n", "")],
    "generative_adversarial_net": [("argnum=(0, 1)", "argnums=(0, 1)")],
    "negative_binomial_maxlike": [("argnum=(0, 1)", "argnums=(0, 1)")],
}
DIFFERENT = {
    "fixed_points": "autograd iterates backwards to the same 1e-4; equal to 2e-12 at 1e-13",
    "ode_net": "rtol=0.01: off by 2.5e-3 in autograd, by 1.2e-3 here; equal to 1e-5 at 1e-9",
}


class Enough(BaseException):
    """The program has taken as many gradients as are compared."""


class Run(NamedTuple):
    """What a program computed: results of gradients, what it printed, and how it ended."""

    results: list[list[np.ndarray]]
    printed: str
    error: str


# ------------------------------------------------------------------------ imports


def changed(name: str, text: str) -> tuple[str, int, int]:
    """A program for fgrad, and how many lines of imports and how many others are changed."""
    lines = text.splitlines(keepends=True)
    new = [re.sub(r"(?m)^.*\bautograd\b.*$", _import, line) for line in lines]
    imports = sum(a != b for a, b in zip(lines, new, strict=True))
    text = "".join(new)
    for old, replacement in BEYOND.get(name, ()):
        if old not in text:
            raise ValueError(f"{name} is another version: it has no {old!r}.")
        text = text.replace(old, replacement)
    return text, imports, len(BEYOND.get(name, ()))


def _import(line: re.Match[str]) -> str:
    """One line with autograd's name in it; what is no import stays."""
    text = line[0]
    if not re.match(r"\s*(import|from)\s+autograd\b", text):
        return text
    text = re.sub(r"#.*", "", text).rstrip()
    indent = text[: len(text) - len(text.lstrip())]
    if "autograd.builtins" in text:
        return f"{indent}pass"
    if text.strip() == "import autograd.scipy.signal":
        return f"{indent}from from_autograd import convolve"
    text = re.sub(r"import autograd\.scipy\.(\w+)\.(\w+)", r"from fgrad.scipy.\1 import \2", text)
    text = text.replace("autograd.numpy", "numpy").replace("autograd.scipy", "fgrad.scipy")
    text = text.replace("autograd.test_util", "from_autograd")
    text = re.sub(r"autograd\.(misc|extend)(\.\w+)?", "from_autograd", text)
    found = re.fullmatch(r"(\s*)from autograd import (.*)", text)
    return _split(found[1], found[2]) if found else text


def _split(indent: str, names: str) -> str:
    """`from autograd import` of several names: those that fgrad has, and the others."""
    parts: dict[str, list[str]] = {}
    for part in names.split(","):
        name = part.split()[0]
        module = "fgrad" if name in FGRAD else "from_autograd"
        parts.setdefault(module, []).append(part.strip())
    found = [f"from {module} import {', '.join(some)}" for module, some in parts.items()]
    return indent + "; ".join(found)


# --------------------------------------------------------------------- one process


def stub_surroundings() -> None:
    """Nothing is drawn; images and MNIST are small arrays of random numbers."""
    rng = np.random.RandomState(1)

    def imread(path: str) -> np.ndarray:
        return rng.rand(20, 20, 3) if "init_smoke" in path else rng.rand(40, 40)

    def mnist() -> tuple[np.ndarray, ...]:
        images = rng.randint(0, 256, (300, 28, 28)).astype(np.uint8)
        labels = rng.randint(0, 10, 300).astype(np.uint8)
        return images[:256], labels[:256], images[256:], labels[256:]

    matplotlib, pyplot = MagicMock(), MagicMock(imread=imread)
    matplotlib.pyplot = pyplot
    stubs = {"matplotlib": matplotlib, "matplotlib.pyplot": pyplot}
    stubs |= {f"matplotlib.{name}": MagicMock() for name in ("image", "cm")}
    sys.modules.update(stubs, data_mnist=MagicMock(mnist=mnist))


class Recorder:
    """Keeps what the outermost calls of gradients give, and ends the program after some."""

    def __init__(self, leaves: Callable[[Any], list[Any]]) -> None:
        self.results: list[list[np.ndarray]] = []
        self.leaves = leaves
        self.depth = 0

    def wrap(self, transform: Callable[..., Any]) -> Callable[..., Any]:
        def make(*args: Any, **options: Any) -> Callable[..., Any]:
            derivative = transform(*args, **options)
            return lambda *xs, **keywords: self.call(derivative, *xs, **keywords)

        return make

    def call(self, derivative: Callable[..., Any], *xs: Any, **keywords: Any) -> Any:
        self.depth += 1
        try:
            out = derivative(*xs, **keywords)
        finally:
            self.depth -= 1
        if self.depth == 0:
            self.results.append([np.array(x) for x in self.leaves(out)])
            if len(self.results) >= CALLS:
                raise Enough
        return out


def run_here(path: Path, original: Path, library: str, out: Path) -> None:
    """Run a program in this process and leave what it did in a file.

    It is told its original's place: some programs read others as texts.
    """
    stub_surroundings()
    sys.path[:0] = [str(path.parent), str(ROOT / "examples")]
    recorder = _recorder(library)
    np.random.seed(0)
    np.seterr(all="ignore")
    error = ""
    try:
        text = path.read_text().replace("RandomState()", "RandomState(0)")
        code = compile(text, str(path), "exec")
        exec(code, {"__name__": "__main__", "__file__": str(original)})
    except Enough:
        pass
    except Exception as found:
        error = f"{type(found).__name__}: {str(found).splitlines()[0] if str(found) else ''}"
    out.write_bytes(pickle.dumps((recorder.results, error)))


def _recorder(library: str) -> Recorder:
    """The gradients of a library, wrapped where programs take them from."""
    if library == "fgrad":
        modules = [importlib.import_module(name) for name in ("fgrad", "from_autograd")]
        recorder = Recorder(modules[0].tree.leaves)
    else:
        modules = [importlib.import_module("autograd")]
        recorder = Recorder(_leaves_in_order)
    for module in modules:
        for name in ("grad", "value_and_grad", "elementwise_grad", "hessian_vector_product"):
            if hasattr(module, name):
                setattr(module, name, recorder.wrap(getattr(module, name)))
    return recorder


def _leaves_in_order(tree: Any) -> list[Any]:
    """Leaves as fgrad orders them: dictionaries by keys."""
    if isinstance(tree, dict):
        return [x for key in sorted(tree) for x in _leaves_in_order(tree[key])]
    if isinstance(tree, (list, tuple)):
        return [x for part in tree for x in _leaves_in_order(part)]
    return [tree]


# ---------------------------------------------------------------------- comparison


def run(path: Path, original: Path, library: str, folder: Path) -> Run:
    """Run a program in a process of its own."""
    out = folder / f"{path.stem}.{library}"
    program = [str(path), "--original", str(original)]
    command = [sys.executable, __file__, *program, "--library", library, "--out", str(out)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=TIMEOUT
        )
    except subprocess.TimeoutExpired:
        return Run([], "", f"more than {TIMEOUT:.0f} s")
    if not out.exists():
        return Run([], done.stdout, done.stderr.strip().splitlines()[-1])
    results, error = pickle.loads(out.read_bytes())
    return Run(results, done.stdout, error)


def difference(a: Run, b: Run) -> float:
    """The largest difference of results and of printed numbers, relative to the largest number."""
    if len(a.results) != len(b.results):
        return np.inf
    pairs = [
        pair for x, y in zip(a.results, b.results, strict=True) for pair in zip(x, y, strict=True)
    ]
    pairs.append((_numbers(a.printed), _numbers(b.printed)))
    return max(_relative(x, y) for x, y in pairs)


def _relative(x: np.ndarray, y: np.ndarray) -> float:
    if x.size == 0 or x.shape != y.shape:
        return 0.0 if x.size == y.size else np.inf
    if not np.array_equal(np.isfinite(x), np.isfinite(y)):
        return np.inf
    gap = np.where((x == y) | ~np.isfinite(x), 0, np.abs(x - y))
    scale = np.max(np.abs(x[np.isfinite(x)]), initial=1e-12)
    return float(np.max(gap)) / scale


def _numbers(text: str) -> np.ndarray:
    return np.array([float(x) for x in re.findall(r"-?\d+\.\d+(?:e[+-]?\d+)?", text)])


def table(examples: Path, wanted: list[str]) -> Iterator[str]:
    """A row for each program."""
    yield "| example | imports changed | other changes | gradients | largest difference | |"
    yield "|---|---|---|---|---|---|"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        counts: dict[str, tuple[int, int]] = {}
        for path in examples.rglob("*.py"):
            new = folder / path.relative_to(examples)
            new.parent.mkdir(parents=True, exist_ok=True)
            text, *count = changed(path.stem, path.read_text())
            counts[path.stem] = (count[0], count[1])
            new.write_text(text)
        for path in sorted(examples.rglob("*.py"), key=lambda path: path.stem):
            stem = path.stem
            if stem in NOT_PROGRAMS or (wanted and stem not in wanted):
                continue
            if stem in NOT_RUN:
                yield f"| {stem} | | | | | not run: {NOT_RUN[stem]} |"
                continue
            theirs = run(path, path, "autograd", folder)
            ours = run(folder / path.relative_to(examples), path, "fgrad", folder)
            yield _row(stem, counts[stem], theirs, ours)


def _row(name: str, count: tuple[int, int], theirs: Run, ours: Run) -> str:
    if ours.error or theirs.error:
        said, figure = f"autograd: {theirs.error or 'ran'}; fgrad: {ours.error or 'ran'}", ""
    else:
        gap = difference(theirs, ours)
        figure = f"{gap:.1e}"
        said = "equal" if gap < EQUAL else f"different: {DIFFERENT.get(name, 'unknown why')}"
    return f"| {name} | {count[0]} | {count[1]} | {len(ours.results)} | {figure} | {said} |"


def main() -> NoReturn:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("examples", type=Path, help="the folder, or with --library one program")
    parser.add_argument("names", nargs="*", help="programs to run; all if there are none")
    parser.add_argument("--library", choices=("autograd", "fgrad"), help=argparse.SUPPRESS)
    parser.add_argument("--original", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.library:
        run_here(options.examples, options.original, options.library, options.out)
        sys.exit(0)
    if importlib.util.find_spec("autograd") is None:
        sys.exit("autograd is not installed here: pip install autograd")
    for row in table(options.examples.resolve(), options.names):
        print(row, flush=True)
    sys.exit(0)


if __name__ == "__main__":
    main()
