"""The examples run as users run them, and the notebook is what its script says."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import jupytext
import numpy as np
import pytest
import scipy.optimize
from sklearn.datasets import load_digits
from sources import ROOT

PNG = b"\x89PNG\r\n\x1a\n"


def run_example(name: str, out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run an example, with its figure in `out`."""
    command = [sys.executable, str(ROOT / "examples" / name), "--out", str(out), *options]
    environment = {**os.environ, "FGRAD_CHECK": "1", "PYTHONIOENCODING": "utf-8"}
    return subprocess.run(
        command, env=environment, capture_output=True, encoding="utf-8", timeout=300
    )


def test_digits(tmp_path: Path) -> None:
    done = run_example("digits.py", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    text = done.stdout
    accuracy = re.search(r"test accuracy (\d\.\d+)\n", text)
    difference = re.search(r"largest difference +(\S+)", text)
    assert accuracy and float(accuracy[1]) >= 0.96
    assert difference and float(difference[1]) <= 1e-5
    assert (tmp_path / "digits.png").read_bytes()[:8] == PNG


def test_digits_from_a_file(tmp_path: Path) -> None:
    """A file in the layout of Keras' MNIST: images of bytes, labels of bytes."""
    digits = load_digits()
    x, y = (digits.images * 255 / 16).astype(np.uint8), digits.target.astype(np.uint8)
    parts = {"x_train": x[:1400], "y_train": y[:1400], "x_test": x[1400:], "y_test": y[1400:]}
    np.savez(tmp_path / "data.npz", **parts)
    done = run_example("digits.py", tmp_path, "--data", str(tmp_path / "data.npz"), "--epochs", "3")
    assert done.returncode == 1  # three epochs are not enough, and it says so
    assert "is below 0.96" in done.stdout
    assert (tmp_path / "digits.png").exists()


def test_three_stars(tmp_path: Path) -> None:
    done = run_example("three_stars.py", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.findall(r"masses (\S+) +(\S+) +(\S+)\n", done.stdout)[-1]
    np.testing.assert_allclose([float(m) for m in found], [3.0, 1.0, 0.3], atol=0.05)
    assert (tmp_path / "three_stars.png").read_bytes()[:8] == PNG


def test_three_stars_of_readme(tmp_path: Path) -> None:
    """The block of README, with the rest of the example around it."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.findall(r"^```python\n(def simulate.*?)^```$", text, re.MULTILINE | re.DOTALL)[0]
    found = runpy.run_path(str(ROOT / "examples" / "three_stars.py"))
    mass = np.array([3.0, 1.0, 0.3])
    x = np.array([[0.0, 0.0], [2.2, 0.0], [-4.4, 0.0]])
    v = np.array([[0.0, -0.26], [0.1, 1.2], [0.0, -0.78]])
    steps, every = 400, found["EVERY"]
    truth = np.concatenate([np.log(mass), x.ravel(), v.ravel()])
    inside = found["misfit"].__globals__  # where its `simulate` is replaced by that of README
    inside |= {"scipy": scipy, "steps": steps, "guess": truth + 0.05}
    inside["sightings"] = found["simulate"](mass, x, v, steps)[every - 1 :: every]
    (tmp_path / "readme.py").write_text(block, encoding="utf-8")
    exec(compile(block, str(tmp_path / "readme.py"), "exec"), inside)
    fitted = inside["found"]
    assert inside["simulate"].__code__.co_filename.endswith("readme.py")
    assert inside["misfit"](inside["guess"], inside["sightings"], steps) > 0.1
    np.testing.assert_allclose(np.exp(fitted.x[:3]), mass, atol=0.01)


def test_data_parallel_in_one_process() -> None:
    script = str(ROOT / "examples" / "data_parallel.py")
    command = [sys.executable, script, "--simulate", "4", "--steps", "40", "--batch", "128"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    first, last = re.findall(r"4 places: loss (\S+) -> (\S+) in", done.stdout)[0]
    assert float(last) < 0.7 * float(first)


def test_sweeps() -> None:
    script = str(ROOT / "examples" / "sweeps.py")
    command = [sys.executable, script, "--processes", "2"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    low, high = re.findall(r"decay in \[(\S+), (\S+)\]", done.stdout)[0]
    assert 0.6 < float(low) < 0.7 < float(high) < 0.8
    assert "seeds      error 0.0" in done.stdout and "best of 9" in done.stdout
    assert done.stderr.startswith("fgrad parallel.map: 200/200 in ")


def test_finite_elements() -> None:
    script = str(ROOT / "examples" / "gallery" / "finite_elements.py")
    command = [sys.executable, script, "--cells", "24"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    error = re.findall(r"gradient: error (\S+)", done.stdout)[0]
    outside, inside = re.findall(r"conductivities (\S+) outside, (\S+) inside\n", done.stdout)[0]
    assert float(error) < 1e-7
    assert abs(float(outside) - 1) < 0.005 and abs(float(inside) - 5) < 0.05


GALLERY = [p for p in sorted((ROOT / "examples/gallery").glob("*.py")) if "finite" not in p.stem]


@pytest.mark.parametrize("script", GALLERY, ids=lambda p: p.stem)
def test_gallery(script: Path) -> None:
    """Each checks its own answer against the truth, and its gradient against differences."""
    command = [sys.executable, str(script)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"error \S+e-\d\d", done.stdout) or "gradient errors" in done.stdout


def test_every_program_of_the_gallery_is_listed() -> None:
    page = (ROOT / "docs/gallery.md").read_text(encoding="utf-8")
    names = [p.name for p in (ROOT / "examples/gallery").glob("*.py")]
    assert [n for n in names if f"examples/gallery/{n})" not in page] == []


@pytest.mark.parametrize("script", sorted((ROOT / "notebooks").glob("*.py")), ids=lambda p: p.stem)
def test_notebook_is_paired(script: Path) -> None:
    """`make notebook` was run after the last change of the script."""
    sides = [jupytext.read(path) for path in (script, script.with_suffix(".ipynb"))]
    cells = [[(cell.cell_type, cell.source) for cell in side.cells] for side in sides]
    assert cells[0] == cells[1]
