"""L7. Loaded programs whose lengths may change: which lengths arguments have, and what runs them.

lengths -> a template of the file's machine code    words computed anew, microseconds
        -> what the compiler makes of the text      `fgrad/aot/dynamic.py`, which loads it
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from fgrad.aot.axes import LEAST, MOST_FORMS, Axes, Lengths
from fgrad.aot.files import File, paths_of
from fgrad.base.lazy_import import lazy_module
from fgrad.base.system import own_lock
from fgrad.ir.aval import DTYPE_NAMES, Aval
from fgrad.typing import PyTree

if TYPE_CHECKING:
    from fgrad import errors
    from fgrad.aot import dynamic
    from fgrad.aot.trusted import Form, TrustedCode
    from fgrad.ir.program import Program
else:
    dynamic = lazy_module("fgrad.aot.dynamic")
    errors = lazy_module("fgrad.errors")

Shapes: TypeAlias = "Sequence[tuple[int, ...]]"  # of the leaves


class Changing:
    """The programs of a file for arguments of several lengths.

    Arguments:
        names: what users call the function, and the structure of its arguments.
        avals: the types of arguments and results in the example.
        axes: what the head says of lengths.
        code: the file's machine code, if that may run.
    """

    def __init__(
        self,
        file: File,
        names: tuple[str, PyTree],
        avals: tuple[Sequence[Aval], Sequence[Aval]],
        axes: Axes,
        code: TrustedCode | None,
    ) -> None:
        self.lock = own_lock(self)
        self._file, self._names, self._avals, self._code = file, names, avals, code
        self._in_avals, out_avals = avals
        self.axes, groups = axes, axes.groups
        self._symbols = {place: k for k, group in enumerate(groups) for place in group}
        self._forms: dict[Lengths, Form] = {}
        self._compiled: dynamic.Compiled | None = None
        try:
            self.example = self._lengths([aval.shape for aval in self._in_avals])
            form = self._form_at(self.example, None) if code is None else None
        except errors.ArgumentError:
            file.refuse("its example is not of the lengths that it is for")
        if form is not None and [a.shape for a in form.typed().out_avals] != [
            a.shape for a in out_avals
        ]:
            file.refuse("the program gives other results than its head says")

    @property
    def compiled(self) -> dynamic.Compiled:
        """What the compiler makes of the text."""
        if self._compiled is None:
            self._compiled = dynamic.Compiled(
                self._file, self.axes, self._avals, self._refuse_lengths
            )
        return self._compiled

    # Arguments.

    def form_for(self, shapes: Shapes, forget: Callable[[Form], None] | None) -> Form:
        """What runs the program for arguments of these shapes; `forget` is told of what is no
        longer kept."""
        lengths = self._lengths(shapes)
        return self._forms.get(lengths) or self._form_at(lengths, forget)

    def program_for(self, shapes: Shapes) -> Program:
        """The program for arguments of these shapes."""
        return self.program_at(self._lengths(shapes))

    def program_at(self, lengths: Lengths) -> Program:
        """The program with numbers for the symbols."""
        with self.lock:
            return self.compiled.program_at(lengths)

    def fits(self, shape: tuple[int, ...], k: int) -> bool:
        """Whether a leaf may have a shape, whatever the others have."""
        known = self._in_avals[k].shape
        return len(shape) == len(known) and all(
            [n == known[axis] or (k, axis) in self._symbols for axis, n in enumerate(shape)]
        )

    def expected(self, k: int) -> str:
        """The type of a leaf."""
        aval = self._in_avals[k]
        dims = [
            f"n{self._symbols[k, axis]}" if (k, axis) in self._symbols else str(n)
            for axis, n in enumerate(aval.shape)
        ]
        return f"{DTYPE_NAMES[aval.dtype.name]}[{','.join(dims)}]"

    def _lengths(self, shapes: Shapes) -> Lengths:
        """The lengths of the symbols.

        Raises:
            ArgumentError: axes that are one symbol have several, or one is too short.
        """
        found: list[int] = []
        for k, ((leaf, axis), *others) in enumerate(self.axes.groups):
            length = shapes[leaf][axis]
            for other, at in others:
                if shapes[other][at] != length:
                    self._refuse(
                        f"{self._place(leaf, axis)} has length {length}, "
                        f"{self._place(other, at)} has {shapes[other][at]}",
                        "they had one length in the example, so the program has one for both.",
                        "an example in which they differ",
                    )
            if length < LEAST:
                self._refuse(
                    f"{self._place(leaf, axis)} has length {length}",
                    f"n{k} is {LEAST} or more: shorter axes make other programs.",
                    "an example of this length, without this axis in dynamic",
                )
            found.append(length)
        return tuple(found)

    def _place(self, leaf: int, axis: int) -> str:
        return f"axis {axis} of {paths_of(self._names[1], 'argument ')[leaf]}"

    def _refuse(self, given: str, why: str, example: str) -> NoReturn:
        raise errors.ArgumentError(
            f"{self._names[0]}: the lengths of the arguments do not fit.",
            (
                ("given", given),
                ("why", why),
                ("write", f"fgrad.export(f, ..., dynamic=...)    with {example}"),
            ),
        )

    def _refuse_lengths(self, lengths: Lengths, why: str) -> NoReturn:
        places = [self._place(*group[0]) for group in self.axes.groups]
        given = [f"n{k} = {n}, {p}" for k, (n, p) in enumerate(zip(lengths, places, strict=True))]
        self._refuse("; ".join(given), why, "an example of these lengths")

    # What runs.

    def _form_at(self, lengths: Lengths, forget: Callable[[Form], None] | None) -> Form:
        """What runs the program for these lengths."""
        with self.lock:
            form = self._forms.pop(lengths, None) or self._made(lengths)
            if len(self._forms) >= MOST_FORMS:
                oldest = self._forms.pop(next(iter(self._forms)))
                if forget is not None:
                    forget(oldest)
            self._forms[lengths] = form
            return form

    def _made(self, lengths: Lengths) -> Form:
        form = None if self._code is None else self._code.form_at(lengths, self.program_at)
        return form or self.compiled.form_at(lengths)
