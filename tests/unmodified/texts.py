"""Functions of texts that tests make."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

NUMBER = itertools.count()


def function_of_text(text: str, folder: Path, name: str = "f") -> Callable[..., Any]:
    """The function of a module with this text, in a file, from which Python can read it again."""
    module_name = f"made_by_a_test_{next(NUMBER)}"
    path = folder / f"{module_name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)
