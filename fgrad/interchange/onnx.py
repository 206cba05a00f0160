"""L7. `onnx`: a function of arrays as a file of ONNX, which runtimes of other languages read.

The file is written without the package `onnx`: its messages are a page of code.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from fgrad.base.keywords import also_takes
from fgrad.interchange.onnx_rules import EXPANSIONS, RULES, UNCHECKED
from fgrad.interchange.onnx_writer import Writer
from fgrad.interchange.traced import Format, traced
from fgrad.typing import PyTree


@also_takes()
def onnx(
    f: Callable[..., PyTree],
    *example_args: PyTree,
    path: str | os.PathLike[str] | None = None,
    checks: bool = True,
) -> bytes:
    """A function of arrays as a model of ONNX (opset 18).

    The inputs `x0`, `x1`, ... of the model are the arrays and numbers among the arguments, in the
    order of `fgrad.tree.leaves`, its outputs `y0`, `y1`, ... those of `f`. Shapes and dtypes are
    those of the example. Arrays that `f` reads from outside are constants.

    Arguments:
        f: a function of arrays, jitted or not, a gradient or a batch of one.
        example_args: arguments like those that the model will have; `ShapeDtype`s may stand for
            arrays.
        path: the file to write; None: the bytes are returned alone.
        checks: whether checks that may fail when the program runs, as of an index or a divisor, are
            refused; if not they are left out: then an index counts as the nearest that is in
            bounds, and integers by zero are 0.

    Returns:
        The model, as bytes.

    Raises:
        UnsupportedFormatError: ONNX has no form of an operation or a dtype: complex numbers,
            factorisations, Fourier transforms, functions of `scipy.special`, callbacks.
        ArgumentError: `f` writes into its arguments.

    Example:
        >>> import numpy as np, fgrad
        >>> model = fgrad.onnx(fgrad.grad(lambda x: np.sum(np.tanh(x))), np.ones(3))
        >>> type(model), model[:2]
        (<class 'bytes'>, b'\\x08\\x08')
    """
    form = Format("ONNX", EXPANSIONS if checks else {**EXPANSIONS, **UNCHECKED}, real=True)
    model = Writer(form, RULES).model(traced(f, example_args, {}, form))
    if path is not None:
        Path(path).write_bytes(model)
    return model
