"""Functions from wherever they come: captured, or a card says that their source cannot be read, so
that their loops ran as plain Python, and what to do."""

from __future__ import annotations

import importlib
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from number_readers import for_the_prompt, run_python

import fgrad

LOOP = """
def halved(x):
    s = x[0] * 1.0
    while s > 1.0:
        s = s * 0.5
    return s
"""
CALLED = (
    LOOP
    + """
import numpy as np, fgrad
try:
    print("value", fgrad.jit(halved)(np.full(6, 5.0)))
except Exception as error:
    print(error)
"""
)
NO_SOURCE = ("capture halved ran as plain Python: its source could not be read", "put halved into")
CHANGED = ("halved ran as plain Python: its source has changed", "importlib.reload")


def said(function: Any) -> str:
    try:
        return f"value {fgrad.jit(function)(np.full(6, 5.0))}"
    except fgrad.errors.FgradError as error:
        return str(error)


def of_module(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, where: Path) -> Any:
    monkeypatch.syspath_prepend(str(where))
    importlib.invalidate_caches()
    return importlib.import_module(name)


def by_exec(_folder: Path, _patch: pytest.MonkeyPatch) -> str:
    scope: dict[str, Any] = {}
    exec(LOOP, scope)
    return said(scope["halved"])


def by_file(folder: Path, patch: pytest.MonkeyPatch) -> str:
    (folder / "halves_file.py").write_text(LOOP)
    return said(of_module(folder, patch, "halves_file", folder).halved)


def by_changed_file(folder: Path, patch: pytest.MonkeyPatch) -> str:
    (folder / "halves_changed.py").write_text(LOOP)
    module = of_module(folder, patch, "halves_changed", folder)
    (folder / "halves_changed.py").write_text(LOOP.replace("0.5", "0.25"))
    return said(module.halved)


def by_removed_file(folder: Path, patch: pytest.MonkeyPatch) -> str:
    (folder / "halves_removed.py").write_text(LOOP)
    module = of_module(folder, patch, "halves_removed", folder)
    (folder / "halves_removed.py").unlink()
    return said(module.halved)


def by_zip(folder: Path, patch: pytest.MonkeyPatch) -> str:
    with zipfile.ZipFile(folder / "halves.zip", "w") as file:
        file.writestr("halves_zipped.py", LOOP)
    return said(of_module(folder, patch, "halves_zipped", folder / "halves.zip").halved)


def by_container(_folder: Path, _patch: pytest.MonkeyPatch) -> str:
    made = [lambda x: x[0] if x[0] < 1 else x[1] * 0.125, lambda x: x[0] if x[0] > 1 else -x[1]]
    assert said(made[1]) == "value 5.0"
    return said(made[0])


def by_command(_folder: Path, _patch: pytest.MonkeyPatch) -> str:
    return run_python("-c", CALLED)


def by_prompt(_folder: Path, _patch: pytest.MonkeyPatch) -> str:
    return run_python("-i", "-q", text=for_the_prompt(CALLED))


def by_pipe(_folder: Path, _patch: pytest.MonkeyPatch) -> str:
    run = subprocess.run([sys.executable, "-"], input=CALLED, capture_output=True, text=True)
    return run.stdout


RIGHT = ("value 0.625",)
KEPT = RIGHT if sys.version_info >= (3, 13) else NO_SOURCE  # since then it is kept
WAYS: dict[Callable[[Path, pytest.MonkeyPatch], str], tuple[str, ...]] = {
    by_exec: NO_SOURCE,
    by_file: RIGHT,
    by_changed_file: CHANGED,
    by_removed_file: NO_SOURCE,
    by_zip: RIGHT,
    by_container: RIGHT,
    by_command: KEPT,
    by_prompt: KEPT,
    by_pipe: NO_SOURCE,
}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_the_source_is_read_or_a_card_says_that_it_is_not(
    way: Callable[[Path, pytest.MonkeyPatch], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = way(tmp_path, monkeypatch)
    assert [text for text in WAYS[way] if text not in found] == [], found


PLAIN = {
    "a generator": "def f(x):\n    yield 1 if x[0] > 0 else 2\ndef g(x):\n    return next(f(x))\n",
    "locals": "def g(x):\n    locals()\n    return 1 if x[0] > 0 else 2\n",
}


@pytest.mark.parametrize("why", PLAIN)
def test_cards_say_why_a_function_was_left_as_it_is(
    why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"left_{why.replace(' ', '_')}"
    (tmp_path / f"{name}.py").write_text(PLAIN[why])
    text = said(of_module(tmp_path, monkeypatch, name, tmp_path).g)
    assert text.count("ran as plain Python: ") == 1, text


def test_buffers_at_the_prompt_say_so_too() -> None:
    scope: dict[str, Any] = {}
    exec("import numpy as np\ndef f(x):\n    y = np.zeros(3)\n    y[0] = x\n    return y[0]", scope)
    with pytest.raises(ValueError, match="f ran as plain Python: its source could not be") as error:
        fgrad.grad(scope["f"])(1.0)
    if sys.version_info >= (3, 11):
        assert "put f into a file" in "\n".join(error.value.__notes__)
