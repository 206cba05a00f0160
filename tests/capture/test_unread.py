"""What nobody reads raises what Python raises, and nothing where Python does not come to it.

    python tests/capture/test_unread.py         every kind of statement at every place in every mode

The tests take every eighth of these.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from unread_programs import BAD, GOOD, KINDS, LEFT, TAKEN, arguments, unread_program

import fgrad

Function = Callable[..., Any]


def _one_lane(f: Function) -> Function:
    mapped = fgrad.vmap(f, in_axes=(None, None, 0, 0))

    def run(x: Any, k: Any, n: int, w: float) -> Any:
        return mapped(x, k, np.array([GOOD, n, GOOD]), np.full(3, w))[1]

    return run


MODES: dict[str, Callable[[Function], Function]] = {
    "jit": fgrad.jit,
    "jit(jit)": lambda f: fgrad.jit(lambda *args: fgrad.jit(f)(*args) * 1.0),
    "jit(grad)": lambda f: fgrad.jit(fgrad.grad(f)),
    "grad(jit)": lambda f: fgrad.grad(fgrad.jit(f)),
    "remat": lambda f: fgrad.jit(fgrad.grad(fgrad.checkpoint(f))),
    "jit(jacfwd)": lambda f: fgrad.jit(fgrad.jacfwd(f)),
    "jacfwd(jit)": lambda f: fgrad.jacfwd(fgrad.jit(f)),
    "jit(hessian)": lambda f: fgrad.jit(fgrad.hessian(f)),
    "hessian(jit)": lambda f: fgrad.hessian(fgrad.jit(f)),
    "vmap": _one_lane,
    "jit(vmap)": lambda f: fgrad.jit(_one_lane(f)),
    "vmap(jit(grad))": lambda f: _one_lane(fgrad.jit(fgrad.grad(f))),
}


def _raised(f: Function, args: tuple[Any, ...]) -> type[Exception] | None:
    try:
        with np.errstate(all="ignore"):
            f(*args)
    except Exception as error:
        return type(error)
    return None


def _right(f: Function, mode: str) -> type[Exception] | None:
    """What Python raises; elements of arrays are NumPy's numbers."""
    x, k, n, w = arguments(BAD)
    return _raised(f, (x, k, np.int64(n), np.float64(w)) if "vmap" in mode else (x, k, n, w))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_what_nobody_reads_raises_where_python_comes_to_it(
    kind: str, mode: str, tmp_path: Path
) -> None:
    wrong = []
    places = [*TAKEN, *LEFT]
    turn = (list(KINDS).index(kind) + list(MODES).index(mode)) % 8
    for place in places[turn::8]:
        wrong += differences(kind, place, [mode], tmp_path)
    assert not wrong


def differences(kind: str, place: str, modes: list[str], folder: Path) -> list[str]:
    """The modes in which a program does not raise what Python does."""
    f = unread_program(kind, place, folder)
    found: list[str] = []
    for mode in modes:
        run = MODES[mode](f)
        good, bad = _raised(run, arguments(GOOD)), _raised(run, arguments(BAD))
        right = _right(f, mode)
        if good is not None or not _is_kind(bad, right):
            found.append(f"{kind}, {place}, {mode}: {good}, {bad} for {right}")
    return found


def _is_kind(found: type[Exception] | None, right: type[Exception] | None) -> bool:
    return found is right if found is None or right is None else issubclass(found, right)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for kind in KINDS:
            for place in [*TAKEN, *LEFT]:
                for line in differences(kind, place, [*MODES], Path(folder)):
                    print(line, flush=True)
