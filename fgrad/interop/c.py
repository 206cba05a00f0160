"""L7. A function of fgrad's as a C function, which SciPy and other libraries call without Python.

    as_c(f, "double (double)")     f : R -> R     its address, and a `scipy.LowLevelCallable`

The C function puts the addresses of its arguments, of its result and of its arena, which are on the
stack, into a table, and runs the steps that were compiled.  It takes no lock, so any thread may
call it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
from scipy import LowLevelCallable

from fgrad import numpy as fnp
from fgrad import tree
from fgrad.base.lazy_import import names_shown
from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.kernel.machine import LINE_BYTES
from fgrad.compile.llvm.interrupts import DECLARATIONS, POLL, RAISE
from fgrad.compile.llvm.runtime import Source, build_counted
from fgrad.compile.llvm.signals import CELLS
from fgrad.compile.llvm.text import element_type, literal
from fgrad.config import config
from fgrad.errors import ArgumentError
from fgrad.interop.native import NativeForm, native_form
from fgrad.tracing.capturing import user_form
from fgrad.transforms.core.shapes import ShapeDtype, eval_shape
from fgrad.typing import PyTree, Shape

__all__ = ["CFunction", "as_c"]

STACK_BYTES = 1 << 15  # of an arena; what is larger comes from malloc
DOUBLE, FLOAT, PLACE = (np.dtype(t) for t in (np.float64, np.float32, np.int64))


class Form(NamedTuple):
    """How a signature passes things: the types of parameters in LLVM, what the function of arrays
    takes and gives, and the parameters that are its array, its result, and their lengths."""

    parameters: tuple[str, ...]
    returns: str
    takes: np.dtype
    gives: np.dtype
    numbers: int = 0  # parameters that are numbers, which it takes then
    given: int = 0  # else the parameter that is its array
    result: int | None = None  # None: it is returned
    lengths: tuple[int, ...] = ()


_FILTER = Form(("ptr", "i64", "ptr"), "i32", DOUBLE, DOUBLE, 0, 0, 2, (1,))
_POINTED: dict[str, Form] = {
    "double (int, double *)": Form(("i32", "ptr"), "double", DOUBLE, DOUBLE, 0, 1, None, (0,)),
    "int (double *, intptr_t, double *)": _FILTER,
    "int (double *, intptr_t, double *, intptr_t)": _FILTER._replace(
        parameters=("ptr", "i64", "ptr", "i64"), lengths=(1, 3)
    ),
    "int (intptr_t *, double *, int, int)": Form(
        ("ptr", "ptr", "i32", "i32"), "i32", PLACE, DOUBLE, 0, 0, 1, (2, 3)
    ),
}
_C_TYPES = {"i32": ctypes.c_int, "i64": ctypes.c_int64, "ptr": ctypes.c_void_p,
            "double": ctypes.c_double, "float": ctypes.c_float}  # fmt: skip


class CFunction:
    """A C function: `address`, `pointer` for ctypes, `low_level` for SciPy.  Its code is in memory
    as long as one of these objects."""

    def __init__(
        self, signature: str, form: Form, native: NativeForm, lengths: tuple[int, ...]
    ) -> None:
        text = _Text(form, native.executable, lengths)
        source = Source(text.emit("f")[0], text.emit)
        with config.override(cache=False):  # there are addresses in it
            (self.address,) = build_counted([source])
        self.signature = signature
        self.executable = native.executable
        self._types = [_C_TYPES[t] for t in (form.returns, *form.parameters)]
        self._name = signature.encode()

    def __repr__(self) -> str:
        return f"<C function {self.signature} at {self.address:#x}>"

    @property
    def pointer(self) -> PyTree:
        """The function for ctypes, which can be called."""
        made: PyTree = ctypes.CFUNCTYPE(*self._types)(self.address)
        made.kept = self
        return made

    @property
    def low_level(self) -> LowLevelCallable:
        """The function for `scipy.integrate`, `scipy.ndimage` and others."""
        make = ctypes.pythonapi.PyCapsule_New
        make.restype = ctypes.py_object
        make.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        found = _Kept(make(self.address, self._name, None))
        found.kept = self
        return found


class _Kept(LowLevelCallable):
    """What keeps the code that it stands for."""

    kept: CFunction


def as_c(
    f: Callable[..., PyTree], signature: str, size: int | tuple[int, int] | None = None
) -> CFunction:
    """A C function that does what `f` does, compiled by fgrad, for libraries that call C.

    Arguments:
        f: a function of numbers or of an array, jitted or not: also `fgrad.grad(g)`.
        signature: how it is called; an argument `void *` in the end is not looked at.
            `double (double)`, `double (double, double)`, `float (float)` and the like: numbers;
            `double (int, double *)`: `f` takes an array, as for `nquad`;
            `int (double *, intptr_t, double *, void *)`: a `generic_filter`;
            `int (double *, intptr_t, double *, intptr_t, void *)`: a `generic_filter1d`, where `f`
            takes and gives an array;
            `int (intptr_t *, double *, int, int, void *)`: a `geometric_transform`.
        size: the length of the array that `f` takes, and of the one that it gives.

    Returns:
        An object with `address`, `pointer` (for ctypes) and `low_level` (for SciPy).  A call with
        an array of another length fails: the result is NaN, or 0 where an `int` is returned.

    What `f` reads from outside is as it is now.

    Raises:
        ArgumentError: the signature is not known; `f` does not have it; its calls write, or need
            Python, as those of a factorisation do that raises for singular matrices.

    Example:
        >>> import numpy as np
        >>> from scipy import integrate
        >>> from fgrad.interop.c import as_c
        >>> bell = as_c(lambda x: np.exp(-x * x), "double (double)")
        >>> value, error = integrate.quad(bell.low_level, 0.0, 1.0)
        >>> round(value, 12)
        0.746824132812
    """
    form, lengths = _form_of(signature, size)
    takes: list[Shape] = [()] * form.numbers or [lengths[:1]]
    gives = lengths[1:]
    found = tree.leaves(eval_shape(f, *[ShapeDtype(shape, form.takes) for shape in takes]))
    if len(found) != 1 or found[0].shape != gives or found[0].dtype.kind == "c":
        types = ", ".join([f"{t.dtype}{list(t.shape)}" for t in found])
        raise ArgumentError(
            f"as_c: a function of signature {signature} gives {form.gives}{list(gives)}.",
            (("given", f"it gives {types or 'nothing'}"),),
        )

    def converted(*args: PyTree) -> PyTree:
        return fnp.asarray(user_form(f)(*args), form.gives)

    native = native_form(converted, [np.zeros(s, form.takes)[()] for s in takes], "C")
    if native.executable.image.callbacks:
        raise ArgumentError(
            "as_c: the function needs Python while it runs.",
            (("why", "it calls Python or SciPy, or may raise, as np.linalg.solve does."),),
        )
    return CFunction(signature, form, native, lengths)


def _form_of(signature: str, size: int | tuple[int, int] | None) -> tuple[Form, tuple[int, ...]]:
    """The form of a signature, and the lengths of what the function takes and gives."""
    name = signature.replace("npy_intp", "intptr_t").replace("*", " * ").replace("(", " (")
    kind, _, rest = " ".join(name.split()).partition(" (")
    parts = [part.strip() for part in rest.rstrip(") ").split(",")]
    ignored = ("ptr",) if parts[-1] == "void *" else ()
    parts = parts[: len(parts) - len(ignored)]
    lengths = () if size is None else (size,) if isinstance(size, int) else tuple(size)
    form = _POINTED.get(f"{kind} ({', '.join(parts)})")
    if form is None and kind in ("double", "float") and set(parts) == {kind}:
        dtype = DOUBLE if kind == "double" else FLOAT
        form = Form((kind,) * len(parts), kind, dtype, dtype, len(parts))
    if form is None:
        raise ArgumentError(
            f"as_c does not know the signature {signature!r}.",
            (("write", "double (double)"), *[("write", known) for known in _POINTED]),
        )
    if len(form.lengths) != len(lengths):
        wanted = ("no size", "size=n", "size=(n, m), of argument and result")[len(form.lengths)]
        raise ArgumentError(f"as_c: the signature {signature} takes {wanted}.")
    return form._replace(parameters=(*form.parameters, *ignored)), lengths


_RAISING = f"""define internal i32 @raising(ptr %nothing) #0 {{
  %stop = load volatile i64, ptr @{CELLS}, align 8
  %none = icmp eq i64 %stop, 0
  br i1 %none, label %done, label %kept
kept:
  call void @{RAISE}()
  ret i32 -1
done:
  ret i32 0
}}"""


class _Text(NamedTuple):
    """The text of a C function.

    define double @f(double %p0) {
      lengths, if there are some, compared          else: failed
      %in0, %out, %arena                            on the stack, or a parameter
      table of %in0, consts, %out, %arena
      run(steps, table)                             stopped by a signal: raise it, failed
      return the result, or 1                       failed: NaN, or 0
    }
    """

    form: Form
    executable: PyTree
    lengths: tuple[int, ...]

    def emit(self, symbol: str) -> tuple[str, set[str]]:
        """The definition of the function, and what it calls."""
        form = self.form
        parameters = ", ".join([f"{t} %p{k}" for k, t in enumerate(form.parameters)])
        runs = not self.executable.empty
        lines = [
            _RAISING.replace("@raising", f"@{symbol}_raise") if runs else "",
            f"define {form.returns} @{symbol}({parameters}) #0 {{",
            "entry:",
            *self._inputs(),
            *self._outputs(),
            *self._arena(),
            *self._lengths(),
            *(self._run(symbol) if runs else []),
            *self._end(),
            "}",
        ]
        declarations = {
            *(DECLARATIONS if runs else ()),
            "declare ptr @malloc(i64)",
            "declare void @free(ptr)",
            "declare i32 @Py_AddPendingCall(ptr, ptr)",
        }
        return "\n".join(lines), declarations

    def _inputs(self) -> list[str]:
        form = self.form
        kind = element_type(form.takes)
        if not form.numbers:
            return [f"%in0 = getelementptr i8, ptr %p{form.given}, i64 0"]
        return [
            line
            for k in range(form.numbers)
            for line in (
                f"%in{k} = alloca {kind}, align {LINE_BYTES}",
                f"store {kind} %p{k}, ptr %in{k}, align {form.takes.itemsize}",
            )
        ]

    def _outputs(self) -> list[str]:
        form = self.form
        if form.result is not None:
            return [f"%out = getelementptr i8, ptr %p{form.result}, i64 0"]
        return [f"%out = alloca {element_type(form.gives)}, align {LINE_BYTES}"]

    def _arena(self) -> list[str]:
        size = self.executable.arena_bytes + LINE_BYTES
        if size <= STACK_BYTES:
            return [f"%arena = alloca i8, i64 {size}, align {LINE_BYTES}"]
        return [
            f"%memory = call ptr @malloc(i64 {size})",
            "%start = ptrtoint ptr %memory to i64",
            f"%beyond = add i64 %start, {LINE_BYTES - 1}",
            f"%line = and i64 %beyond, {-LINE_BYTES}",
            "%arena = inttoptr i64 %line to ptr",
        ]

    def _lengths(self) -> list[str]:
        """A call with other lengths fails."""
        lines: list[str] = []
        for j, (k, n) in enumerate(zip(self.form.lengths, self.lengths, strict=True)):
            kind = self.form.parameters[k]
            lines += [
                f"%fits{j} = icmp eq {kind} %p{k}, {n}",
                f"br i1 %fits{j}, label %next{j}, label %failed",
                f"next{j}:",
            ]
        if self.executable.arena_bytes + LINE_BYTES > STACK_BYTES:
            lines += [
                "%none = icmp eq ptr %memory, null",
                "br i1 %none, label %failed, label %got",
                "got:",
            ]
        return lines

    def _run(self, symbol: str) -> list[str]:
        """The call of the steps.  What a signal's handler has raised stops this and further calls,
        until Python code goes on, which raises it."""
        ex = self.executable
        inputs = [f"%in{k}" for k in range(len(ex.in_avals))]
        consts = [f"inttoptr (i64 {address} to ptr)" for address in ex.const_pointers]
        given = [*inputs, *consts, "%out", "%arena"]
        lines = [f"%given = alloca ptr, i64 {len(given)}, align 16"]
        for k, pointer in enumerate(given):
            lines += [
                f"%given{k} = getelementptr ptr, ptr %given, i64 {k}",
                f"store ptr {pointer}, ptr %given{k}, align 8",
            ]
        return [
            *lines,
            f"%table = inttoptr i64 {ex.host.address} to ptr",
            f"%run = inttoptr i64 {ex.host.interpreter} to ptr",
            "call void %run(ptr %table, ptr %given)",
            f"%stop = load volatile i64, ptr @{CELLS}, align 8",
            "%fine = icmp eq i64 %stop, 0",
            "br i1 %fine, label %done, label %ask",
            "ask:",
            f"%told = call i64 @{POLL}()",
            "%ours = icmp ne i64 %told, 0",
            "br i1 %ours, label %stopped, label %done",
            "stopped:",
            f"%noted = call i32 @Py_AddPendingCall(ptr @{symbol}_raise, ptr null)",
            "br label %failed",
            "done:",
        ]

    def _end(self) -> list[str]:
        form = self.form
        kind = element_type(form.gives)
        free = self.executable.arena_bytes + LINE_BYTES > STACK_BYTES
        frees = ["call void @free(ptr %memory)"] if free else []
        stores: list[str] = []
        for _, lit in self.executable.literals:
            value = literal(float(lit.value), form.gives)
            for k in range(max(self.lengths[1:], default=1)):
                stores += [
                    f"%at{k} = getelementptr {kind}, ptr %out, i64 {k}",
                    f"store {kind} {value}, ptr %at{k}, align {form.gives.itemsize}",
                ]
        if form.result is None:
            load = f"%result = load {kind}, ptr %out, align {form.gives.itemsize}"
            returned = [load, *frees, f"ret {kind} %result"]
            failed = f"ret {kind} {literal(float('nan'), form.gives)}"
        else:
            returned, failed = [*frees, "ret i32 1"], "ret i32 0"
        return [*stores, *returned, "failed:", *frees, failed]


__dir__ = names_shown(__name__)
