"""What needs the types of arguments alone takes `ShapeDtype`s, also within containers."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad import ShapeDtype


def loss(params: Any, x: Any, scale: Any) -> Any:
    return scale * np.sum(np.tanh(x @ params["w"]))


GIVEN = ({"w": np.ones(4)}, np.ones((5, 4)), np.float64(2.0))
TYPES = ({"w": ShapeDtype((4,), np.float64)}, ShapeDtype((5, 4), np.float64),
         ShapeDtype((), np.float64))  # fmt: skip


def _file(export: Callable[..., Any]) -> Callable[..., Any]:
    def made(folder: Path, *args: Any) -> Any:
        export(loss, *args, path=folder / "f")
        found = [p for p in folder.iterdir() if p.suffix != ".so"]
        return {p.name: p.read_bytes() for p in found}

    return made


MAKERS: dict[str, Callable[..., Any]] = {
    "make_program": lambda _, *args: str(fgrad.make_program(loss)(*args)),
    "inspect": lambda _, *args: str(fgrad.inspect(loss)(*args).program),
    "cost_analysis": lambda _, *args: fgrad.cost_analysis(loss)(*args).flops,
    "eval_shape": lambda _, *args: fgrad.eval_shape(loss, *args),
    "lower": lambda _, *args: fgrad.jit(loss).lower(*args).as_text(),
    "stablehlo": lambda _, *args: str(fgrad.stablehlo(loss)(*args)),
    "export": _file(fgrad.export),
    "export_c": _file(fgrad.export_c),
}


@pytest.mark.parametrize("name", MAKERS)
def test_types_stand_for_arrays(name: str, tmp_path: Path) -> None:
    os.mkdir(tmp_path / "a")
    os.mkdir(tmp_path / "b")
    assert MAKERS[name](tmp_path / "a", *GIVEN) == MAKERS[name](tmp_path / "b", *TYPES)
