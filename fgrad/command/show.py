"""L8. `python -m fgrad show FILE:FUNCTION --args "np.ones(3)"`: what a function becomes.

The file is run as a module, not as a script: what stands under `if __name__ == "__main__"` is left
out.  The arguments are those of a call in that file, with `np` and `fgrad` at hand.
"""

from __future__ import annotations

import argparse
import inspect as python_inspect
import os
import runpy
import sys
from collections.abc import Callable, Mapping

import numpy as np

import fgrad
from fgrad.base.named_tuple import NamedTuple
from fgrad.capture.explain import explain_capture
from fgrad.command.texts import CommandError, similar
from fgrad.compile.jit.costs import cost_analysis
from fgrad.compile.jit.inspect import inspect, make_program
from fgrad.ir.text import print_program
from fgrad.transforms.grad import grad
from fgrad.typing import PyTree


class Call(NamedTuple):
    """A function, what is shown of it (itself or its gradient), and the arguments of one call."""

    fun: Callable[..., PyTree]
    shown: Callable[..., PyTree]
    args: tuple[PyTree, ...]
    kwargs: dict[str, PyTree]


def _of(tool: Callable[..., Callable[..., PyTree]]) -> Callable[[Call], PyTree]:
    return lambda call: tool(call.shown)(*call.args, **call.kwargs)


STAGES: dict[str, Callable[[Call], str]] = {
    "capture": lambda call: explain_capture(call.fun)(*call.args, **call.kwargs),
    "program": lambda call: print_program(_of(make_program)(call)).rstrip(),
    "cost": lambda call: str(_of(cost_analysis)(call)),
    "passes": lambda call: _of(inspect)(call).report(),
    "kernels": lambda call: str(_of(inspect)(call)).partition("\n\n")[2].rstrip(),
    "llvm": lambda call: _of(inspect)(call).llvm.rstrip(),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("place", metavar="FILE:FUNCTION", help="as model.py:loss")
    parser.add_argument("--args", default="", help='of a call: "np.ones(3), scale=2.0"')
    parser.add_argument("--grad", action="store_true", help="its gradient by the first argument")
    parser.add_argument(
        "--stage", action="append", choices=tuple(STAGES), metavar="STAGE",
        help=f"what to show, can be repeated: {', '.join(STAGES)} (default: capture, program)",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Print the stages."""
    file, colon, path = options.place.rpartition(":")
    if not colon or not file or not path:
        raise CommandError(f"{options.place!r} is not of the form FILE:FUNCTION")
    names = names_of(file)
    fun = function_in(names, file, path)
    args, kwargs = arguments(names, options.args)
    _refuse_missing(fun, args, kwargs, path)
    call = Call(fun, grad(fun) if options.grad else fun, args, kwargs)
    for k, stage in enumerate(options.stage or ("capture", "program")):
        try:
            text = STAGES[stage](call)
        except Exception as error:
            raise CommandError(
                f"{path} cannot be compiled for these arguments.\n{error}", 1
            ) from None
        print(f"{'' if k == 0 else chr(10)}# {stage}\n{text}")
    return 0


def names_of(file: str) -> dict[str, object]:
    """The names that a file defines.

    Raises:
        CommandError: if there is no such file, or it raises.
    """
    if not os.path.isfile(file):
        raise CommandError(f"there is no file {file!r}")
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
    given, sys.argv = sys.argv, [file]
    try:
        return runpy.run_path(file, run_name="fgrad_show")
    except Exception as error:
        text = f"{file} cannot be imported: {type(error).__name__}: {error}"
        raise CommandError(text, 1) from error
    finally:
        sys.argv = given


def function_in(names: Mapping[str, object], file: str, path: str) -> Callable[..., PyTree]:
    """What a path such as `loss` or `Model.loss` leads to.

    Raises:
        CommandError: if it leads to nothing that can be called.
    """
    first, *rest = path.split(".")
    found = names.get(first)
    for name in rest:
        found = getattr(found, name, None)
    if not callable(found):
        own = [n for n, v in names.items() if python_inspect.isroutine(v) and n[0] != "_"]
        hint = similar(path, own) or (f"; there are: {', '.join(own)}" if own else "")
        raise CommandError(f"{file} has no function {path!r}{hint}")
    return found


def arguments(
    names: Mapping[str, object], text: str
) -> tuple[tuple[PyTree, ...], dict[str, PyTree]]:
    """The arguments of a call, written as in the file.

    Raises:
        CommandError: if the text is no list of arguments, or computing it raises.

    Example:
        >>> arguments({"n": 2}, "np.ones(n), scale=3.0")
        ((array([1., 1.]),), {'scale': 3.0})
    """
    known = {"np": np, "fgrad": fgrad, **names, "__call": lambda *args, **kwargs: (args, kwargs)}
    try:
        return eval(f"__call({text})", known)
    except Exception as error:
        raise CommandError(f"--args {text!r}: {type(error).__name__}: {error}") from None


def _refuse_missing(
    fun: Callable[..., PyTree],
    args: tuple[PyTree, ...],
    kwargs: Mapping[str, PyTree],
    path: str,
) -> None:
    """Say which arguments the function wants, before it is traced."""
    try:
        signature = python_inspect.signature(fun)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        text = f'{path}{signature}: {error}; write --args "np.ones(3), ..."'
        raise CommandError(text) from None
