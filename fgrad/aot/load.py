"""L7. `load`: a file -> a function.

    trust=False    the program is read from its text, checked, and compiled here
    trust=True     the file's machine code runs, if it is for this machine: no compiler is loaded

A call checks its arguments against the types in the file.  The second call makes further ones
native, as those of `jit` are.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from fgrad.aot.files import File, avals_of, check_spec, leaves_of, made, read
from fgrad.aot.trusted import Form, code_of
from fgrad.base.lazy_import import lazy_module
from fgrad.ir.aval import PYTHON_SCALARS, Aval

if TYPE_CHECKING:
    from fgrad import errors
    from fgrad.aot import axes as axis_words
    from fgrad.aot import lengths, native, parsing
    from fgrad.base import foreign
    from fgrad.compile.jit import call as calls
    from fgrad.ir.program import Program
    from fgrad.typing import PyTree

else:
    calls = lazy_module("fgrad.compile.jit.call")
    axis_words = lazy_module("fgrad.aot.axes")
    lengths = lazy_module("fgrad.aot.lengths")
    errors = lazy_module("fgrad.errors")
    foreign = lazy_module("fgrad.base.foreign")
    native = lazy_module("fgrad.aot.native")
    parsing = lazy_module("fgrad.aot.parsing")


def load(path: str | os.PathLike[str], trust: bool = False) -> Loaded:
    """The function that `fgrad.export` has written into a file.

    Arguments:
        path: the file.
        trust: whether to run the machine code in the file, which takes some milliseconds and loads
            no compiler.  Machine code can do all that you can: trust your own files alone.  Without
            it, or where the file has no code for this machine, the text of the program is compiled,
            and nothing in the file is executed.

    Returns:
        A function of arguments as the exported one had: the same containers, shapes and dtypes.  It
        can be traced and differentiated as others are.

    Raises:
        ExportError: the file is not one of `export`, is damaged, or of another version.
        OSError: it cannot be read.

    Example:
        >>> import fgrad, numpy as np, os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "f.fgx")
        >>> size = fgrad.export(lambda x: {"y": np.sin(x) * 2}, np.zeros(2), path=path)
        >>> fgrad.load(path, trust=True)(np.array([0.0, 1.0]))
        {'y': array([0.        , 1.68294197])}
    """
    file = read(os.fspath(path))
    return Loaded(file, trust)


class Loaded:
    """A function from a file.

    `name` is that of the exported function; `is_native` says whether the file's machine code runs,
    where lengths may change for those that it is for; `program` is what it computes, which can be
    printed; `arguments` and `results` are the structures of what it takes and returns.
    """

    def __init__(self, file: File, trust: bool) -> None:
        self._file = file
        self.name = _text(file, "name")
        self.__name__ = self.name
        self._in_avals = avals_of(file, "inputs")
        self._out_avals = avals_of(file, "outputs")
        self.arguments = _structure(file, "arguments", len(self._in_avals))
        self.results = _structure(file, "results", len(self._out_avals))
        if type(self.arguments) is not dict or [*self.arguments] != ["tuple"]:
            file.refuse("its arguments are no tuple")
        self._program: Program | None = None
        self._native: Any = None  # what makes calls natively
        self._fast: Any = None  # the same, from when it has learnt one
        self._changing: lengths.Changing | None = None
        axes = axis_words.axes_of(file, self._in_avals) if "sizes" in file.head else None
        code = code_of(file, self._in_avals, self._out_avals) if trust else None
        self.is_native = code is not None
        self._form: Form | None = None
        if axes is not None:  # lengths may change
            names = f"<{self.name} of {file.path}>", self.arguments
            avals = self._in_avals, self._out_avals
            self._changing = lengths.Changing(file, names, avals, axes, code)
        elif code is not None:
            self._form = code.form_at((), lambda _: self.program)
        else:
            self._form = Form(parsing.executable_of(file, self.program), lambda: self.program)

    @property
    def program(self) -> Program:
        """The program, read from its text."""
        if self._changing is not None:
            return self._changing.program_at(self._changing.example)
        if self._program is None:
            self._program = parsing.program_of(self._file, self._in_avals, self._out_avals)
        return self._program

    def __repr__(self) -> str:
        how = "machine code" if self.is_native else "compiled"
        how += " for changing lengths" * (self._changing is not None)
        return f"<{self.name} of {self._file.path}: {how}>"

    def __call__(self, *args: PyTree) -> PyTree:
        fast = self._fast
        return fast(*args) if fast is not None else self.call_in_python(args)

    def call_in_python(self, args: tuple[PyTree, ...]) -> PyTree:
        """A call that is not native: of other arguments, traced, or the first ones."""
        found = list(leaves_of(self.arguments, args, self._wrong))
        leaves: list[PyTree] = [None] * len(found)
        traced = False
        for k, leaf, at in found:
            if _is_traced(leaf):
                traced = True
                leaves[k] = leaf
                self._check(leaf.aval.shape, leaf.aval.dtype, k, at)
            else:
                leaves[k] = self._array(leaf, k, at)
        if traced:
            return made(self.results, self._traced(leaves))
        form = self._form or self._form_for(leaves)
        outs = form.executable(leaves)
        if not form.was_called:
            form.was_called = True  # the first call may be the only one
        elif form.signature is None:
            self._native = self._native or native.NativeLoaded(self)
            form.signature = self._native.learnt(form, args)
            if form.signature is not None:
                self._fast = self._native
        return made(self.results, outs)

    def _form_for(self, leaves: Sequence[np.ndarray]) -> Form:
        """What runs the program for these lengths."""
        assert self._changing is not None
        forget = None if self._native is None else self._native.forget
        return self._changing.form_for([x.shape for x in leaves], forget)

    def _traced(self, leaves: Sequence[PyTree]) -> Sequence[object]:
        if self._file.head.get("differentiable") is not True:
            raise errors.ExportError(
                f"{self!r} cannot be traced.",
                (
                    ("why", "it had derivative rules of yours, which are not in the file."),
                    (
                        "write",
                        "fgrad.export(fgrad.value_and_grad(f), ...)    the derivative itself",
                    ),
                ),
            )
        program = self.program
        if self._changing is not None:
            program = self._changing.program_for([np.shape(x) for x in leaves])
        return calls.call(program, leaves)

    def _array(self, leaf: PyTree, k: int, at: str) -> np.ndarray:
        """A leaf as the array that the program takes."""
        aval = self._in_avals[k]
        weak = PYTHON_SCALARS.get(type(leaf))
        if weak is not None and not aval.shape and weak == aval.dtype:
            return np.asarray(leaf, aval.dtype)
        if not isinstance(leaf, (np.ndarray, np.generic)):
            self._wrong(at, f"an array {self._expected(k)}", type(leaf).__name__)
        if type(leaf) is not np.ndarray and isinstance(leaf, np.ndarray):
            foreign.refuse_foreign(leaf, f"argument {at}")
        self._check(leaf.shape, leaf.dtype, k, at)
        return np.asarray(leaf, aval.dtype, order="C")

    def _check(self, shape: tuple[int, ...], dtype: np.dtype, k: int, at: str) -> None:
        if dtype != self._in_avals[k].dtype or not self._fits(shape, k):
            self._wrong(at, self._expected(k), f"{Aval(shape, dtype)}")

    def _fits(self, shape: tuple[int, ...], k: int) -> bool:
        """Whether a leaf has a shape that the program takes."""
        if self._changing is not None:
            return self._changing.fits(shape, k)
        return shape == self._in_avals[k].shape

    def _expected(self, k: int) -> str:
        """The type of a leaf."""
        if self._changing is not None:
            return self._changing.expected(k)
        return f"{self._in_avals[k].strong()}"

    def _wrong(self, at: str, expected: str, given: str = "") -> NoReturn:
        rows = [("wants", expected)]
        if given:
            rows.append(("given", given))
        where = f"argument {at[1:].replace(']', '', 1)} does" if at else "the arguments do"
        rows.append(("why", "a file holds one program, for one type of arguments."))
        raise errors.ArgumentError(f"{self!r}: {where} not fit.", rows)


def _is_traced(leaf: PyTree) -> bool:
    """Whether a leaf is a tracer: there is none before the module of its class is loaded."""
    trace = sys.modules.get("fgrad.trace")
    return trace is not None and type(leaf) is trace.Tracer


def _text(file: File, name: str) -> str:
    found = file.head.get(name)
    if type(found) is not str or not found.isidentifier() or len(found) > 256:
        file.refuse(f"its {name} is not a word")
    return found


def _structure(file: File, name: str, count: int) -> PyTree:
    spec = file.head.get(name)
    if not check_spec(spec, count):
        file.refuse(f"its {name} have no structure")
    return spec
