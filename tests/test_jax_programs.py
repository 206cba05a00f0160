"""Small programs by JAX's users give what they give in JAX, or a documented difference.

`python benchmarks/jax_programs_values.py` writes what JAX gives.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from jax_programs.names import of_fgrad, programs
from sources import ROOT

import fgrad

GOLDEN = json.loads((ROOT / "tests" / "golden" / "jax_programs.json").read_text())["programs"]
PROGRAMS = programs()
J = of_fgrad()

# The program, and the page of the documents and the words there that say so.
INDICES = ("coming_from.md", "Indices are int64")
LOWER = ("coming_from.md", "read the lower triangle, and so does their gradient")
DIFFERENT: dict[str, tuple[str, str]] = {
    "transforms: complex gradient": ("coming_from.md", "the conjugate of JAX's"),
    "indexing: top_k": INDICES,
    "indexing: searchsorted": INDICES,
    "indexing: digitize": INDICES,
    "trees: deque": ("coming_from.md", "A `deque` is a container"),
    "linalg: cholesky gradient": LOWER,
    "linalg: eigh gradient": LOWER,
}


def expected(leaf: dict[str, Any]) -> np.ndarray:
    parts = [np.array(part, float).reshape(leaf["shape"]) for part in leaf["parts"]]
    return parts[0] + 1j * parts[1] if len(parts) == 2 else parts[0]


def difference(name: str) -> str:
    """What differs from JAX; nothing if all is equal."""
    found, wanted = fgrad.tree.leaves(PROGRAMS[name](J)), GOLDEN[name]
    if len(found) != len(wanted):
        return f"{len(found)} leaves, not {len(wanted)}"
    for k, (x, leaf) in enumerate(zip(found, wanted, strict=True)):
        array = np.asarray(x)
        if list(array.shape) != leaf["shape"] or str(array.dtype) != leaf["dtype"]:
            return f"leaf {k}: {array.dtype}{array.shape}, not {leaf['dtype']}{leaf['shape']}"
        precise = "32" not in leaf["dtype"] or "int" in leaf["dtype"]
        rtol, atol = (1e-7, 1e-9) if precise else (2e-5, 1e-6)
        if not np.allclose(array, expected(leaf), rtol=rtol, atol=atol, equal_nan=True):
            return f"leaf {k}: {array}, not {expected(leaf)}"
    return ""


def test_each_program_has_values() -> None:
    assert GOLDEN.keys() == PROGRAMS.keys()


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gives_what_it_gives_in_jax(name: str) -> None:
    if name not in DIFFERENT:
        assert difference(name) == ""
        return
    page, words = DIFFERENT[name]
    text = " ".join((ROOT / "docs" / page).read_text(encoding="utf-8").split())
    assert words in text
    try:
        found = difference(name)
    except TypeError as error:  # a keyword of JAX's alone
        found = str(error)
    assert found
