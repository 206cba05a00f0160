"""What a user sees of an error: their own lines, through libraries and notebooks, and the card."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nbclient import NotebookClient
from nbformat import v4

import fgrad
from fgrad.config import config
from fgrad.errors import FgradError

X = np.array([1.0, 2.0, 3.0])
OUTSIDE = np.zeros(3)


def wrong_shape(x: Any) -> Any:
    return np.sum(x + np.ones(4))


def users_own_error(x: Any) -> Any:
    raise KeyError("a key of the user's")


def stored(x: Any) -> Any:
    OUTSIDE[0] = x[0]
    return np.sum(OUTSIDE)


@fgrad.custom_jvp
def ruled(x: Any) -> Any:
    return wrong_shape(x)


ruled.defjvps(lambda t, out, x: t)

CALLS: dict[str, Callable[[Callable[..., Any]], Any]] = {
    "grad": lambda f: fgrad.grad(f)(X),
    "value_and_grad": lambda f: fgrad.value_and_grad(f)(X),
    "vmap": lambda f: fgrad.vmap(f)(np.stack([X, X])),
    "jit": lambda f: fgrad.jit(f)(X),
    "jit of vmap of grad": lambda f: fgrad.jit(fgrad.vmap(fgrad.grad(f)))(np.stack([X, X])),
    "jvp": lambda f: fgrad.jvp(f, (X,), (X,)),
    "vjp": lambda f: fgrad.vjp(f, X),
    "linearize": lambda f: fgrad.linearize(f, X),
    "hessian": lambda f: fgrad.hessian(f)(X),
    "jacfwd": lambda f: fgrad.jacfwd(f)(X),
    "jacrev": lambda f: fgrad.jacrev(f)(X),
    "checkpoint": lambda f: fgrad.grad(fgrad.checkpoint(f))(X),
    "scan": lambda f: fgrad.lax.scan(lambda c, x: (c + f(x), None), 0.0, np.stack([X, X])),
    "cond": lambda f: fgrad.lax.cond(X[0] > 0, f, f, X),
    "while_loop": lambda f: fgrad.lax.while_loop(lambda x: f(x) < 0, lambda x: x, X),
    "custom rule": lambda f: fgrad.jit(fgrad.grad(lambda x: ruled(x) + f(x)))(X),
}


def files_of(error: BaseException) -> list[str]:
    """The files of the frames that a traceback shows."""
    return [frame.filename for frame in traceback.extract_tb(error.__traceback__)]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("fun", [wrong_shape, users_own_error, stored])
def test_no_frame_of_fgrads_is_shown(call: str, fun: Callable[..., Any]) -> None:
    with pytest.raises((FgradError, KeyError, ValueError)) as caught:
        CALLS[call](fun)
    files = files_of(caught.value)
    if sys.version_info >= (3, 11):
        assert set(files) == {__file__}
    else:  # where an error is raised again there, that frame is shown
        assert len([file for file in files if file != __file__]) <= 2


def test_all_frames_are_shown_on_request() -> None:
    with config.override(traceback="full"), pytest.raises(FgradError) as caught:
        fgrad.grad(wrong_shape)(X)
    assert any("promote.py" in file or "grad.py" in file for file in files_of(caught.value))


def test_frames_of_a_defect_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where fgrad itself is at fault, a report needs them."""
    monkeypatch.setattr("fgrad.transforms.grad.function_name", {}.__getitem__)
    with pytest.raises(KeyError) as caught:
        fgrad.grad(np.sum)(2.0)
    assert set(files_of(caught.value)) > {__file__}


@pytest.mark.parametrize("call", ["grad", "jit", "vmap"])
def test_numpys_error_of_a_store_says_what_to_write(call: str) -> None:
    with pytest.raises(ValueError, match="setting an array element") as caught:
        CALLS[call](stored)
    shown = "".join(traceback.format_exception(caught.value))
    last = shown.rpartition("ValueError: ")[2]
    assert "fgrad.numpy.zeros(n)" in last


def test_the_line_is_the_users_behind_another_library(tmp_path: Path) -> None:
    """An installed package between the user and fgrad is not where the mistake is."""
    site = Path(np.__file__).parent.parent
    source = "def apply(f, x):\n    return f(x) + x.undefined_on_purpose(1)\n"
    code = compile(source, str(site / "somebodys_package.py"), "exec")
    names: dict[str, Any] = {}
    exec(code, names)
    with pytest.raises(FgradError) as caught:
        fgrad.jit(lambda x: names["apply"](lambda y: y + np.ones(4), x))(X)
    assert "test_frames.py" in str(caught.value)
    through = compile("def apply(x):\n    return x + [1, 2]\n", str(site / "other.py"), "exec")
    exec(through, names)
    with pytest.raises(FgradError) as caught:
        fgrad.jit(lambda x: names["apply"](x))(X)
    assert "test_frames.py" in str(caught.value)


def test_a_notebooks_cell_has_its_number() -> None:
    first = "import numpy as np, fgrad\nfgrad.config.cache = False"
    second = textwrap.dedent(
        """
        def loss(x):
            return np.sum(x + np.ones(4))
        try:
            fgrad.grad(loss)(np.ones(3))
        except fgrad.errors.ShapeError as error:
            print(error)
        """
    )
    notebook = v4.new_notebook(cells=[v4.new_code_cell(first), v4.new_code_cell(second)])
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    text = notebook.cells[1].outputs[0]["text"]
    assert "Cell In[2]:2 (loss):  return np.sum(x + np.ones(4))" in text


def test_the_environment_asks_for_all_frames() -> None:
    code = "import numpy as np, fgrad\nfgrad.grad(lambda x: x + np.ones(4))(np.ones(3))"
    for setting, shown in (("full", True), ("", False)):
        env = {**os.environ, "FGRAD_TRACEBACK": setting}
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
        assert ("differentiated" in done.stderr) == shown


def test_warnings_are_at_the_users_line() -> None:
    f = fgrad.jit(lambda x: x + 1, max_traces=1)
    f(np.zeros(2))
    with pytest.warns(fgrad.errors.RetraceWarning) as caught:
        f(np.zeros(3))
    assert caught[0].filename == __file__


LARGE = np.ones(1000)
WRITES: dict[str, Callable[[np.ndarray], Any]] = {
    "b[0] = 3": lambda b: b.__setitem__(0, 3),
    "b += 1": lambda b: b.__iadd__(1),
    "b.sort()": lambda b: b.sort(),
    "b.fill(1)": lambda b: b.fill(1),
    "b.flat[0] = 1": lambda b: b.flat.__setitem__(0, 1),
    "out=b": lambda b: np.sin(b, out=b),
    "copyto": lambda b: np.copyto(b, 1),
    "put": lambda b: np.put(b, 0, 1),
}


def last_part(error: BaseException) -> str:
    """The message of an error and its notes."""
    return "".join(traceback.format_exception(error)).rpartition("ValueError: ")[2]


@pytest.mark.parametrize("write", WRITES)
def test_a_write_into_a_plain_array_that_was_read_says_why_it_is_refused(write: str) -> None:
    def f(x: Any) -> Any:
        y = np.sum(x * LARGE)
        WRITES[write](LARGE)
        return y

    for call in (lambda: fgrad.grad(f)(LARGE), lambda: fgrad.grad(fgrad.checkpoint(f))(LARGE)):
        with pytest.raises(ValueError, match="read-only") as caught:
            call()
        assert last_part(caught.value).count("b = b.copy()") == 1
        assert LARGE.flags.writeable


def test_a_write_into_what_all_chunks_share_says_why_it_is_refused() -> None:
    def f(x: Any, b: Any) -> Any:
        b[0] = 1
        return x * b

    with pytest.raises(ValueError, match="read-only") as caught:
        fgrad.vmap(f, in_axes=(0, None), chunk_size=2)(np.ones(4), np.ones(3))
    assert "chunk_size" in last_part(caught.value)


def test_errors_of_arrays_of_the_users_own_have_no_note() -> None:
    own = np.ones(3)
    own.flags.writeable = False
    with pytest.raises(ValueError, match="read-only") as caught:
        fgrad.grad(lambda x: np.sum(x * own.fill(1)))(np.ones(3))
    assert last_part(caught.value).strip().endswith("read-only")
