"""The source of a function is found however long its loops are, wherever NumPy was imported."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from fgrad.capture.source import node_of

LINES = {
    "call": "        s = s + np.sin(x[{k}]) * np.linalg.norm(x)\n",
    "branch": "        if x[{k}] > 0: break\n",
    "step": "        s += 1\n",
}
LOOPS = {"for": "for i in range(4):", "while": "while x[0] < 4:", "if": "if x[0]:"}


def module(path: Path, name: str, text: str) -> ModuleType:
    where = path / f"{name}.py"
    where.write_text(text)
    spec = importlib.util.spec_from_file_location(name, where)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("line", LINES)
def test_bodies_of_all_lengths(tmp_path: Path, loop: str, line: str) -> None:
    """Jumps are longer than a byte holds in what one compilation makes, and not in the other."""
    if (loop, line) == ("if", "branch"):
        pytest.skip("`break` is in loops")
    head = f"    s = 0.0\n    {LOOPS[loop]}\n"
    texts = [
        f"def f{n}(x):\n{head}{''.join([LINES[line].format(k=k) for k in range(n)])}    return s\n"
        for n in range(1, 90)
    ]
    made = module(tmp_path, f"long_{loop}_{line}", "import numpy as np\n" + "\n".join(texts))
    for n in range(1, 90):
        assert node_of(getattr(made, f"f{n}")).lineno > 1
