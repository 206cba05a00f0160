"""L7. Numba and fgrad: each calls what the other has compiled.

    as_njit(f, *args)            f : fgrad -> a function that `numba.njit` code calls
    from_njit(g, result, vjp)    g : njit  -> a function that fgrad traces, with a rule of yours

The first is a native call: what fgrad compiles for a type of arguments is a table of steps, which
one C function walks, `run(table, pointers)`.  The second calls the function from compiled code as
`fgrad.pure_callback` does.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numba
import numpy as np
from numba.core import types
from numba.extending import intrinsic
from numba.np.numpy_support import from_dtype

from fgrad import tree
from fgrad.base.lazy_import import names_shown
from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.host.program import Callback, raise_if_stopped
from fgrad.compile.jit.entries import Entry
from fgrad.compile.kernel.machine import LINE_BYTES
from fgrad.compile.llvm.signals import SIGNALS
from fgrad.interop.native import native_form
from fgrad.ir.aval import Aval
from fgrad.transforms.custom.callback import pure_callback
from fgrad.transforms.custom.vjp import custom_vjp
from fgrad.typing import PyTree

__all__ = ["as_njit", "from_njit"]

_Run = ctypes.CFUNCTYPE(None, ctypes.c_size_t, ctypes.c_size_t)
_KEPT: list[object] = []  # Numba's code has their addresses, and may live as long as the process


def as_njit(f: Callable[..., Any], *args: Any) -> Any:
    """A function for `numba.njit` code that does what `f` does, compiled by fgrad.

    Arguments:
        f: a function of arrays and numbers, jitted or not: also `fgrad.grad(loss)`.
        args: examples of its arguments.  Their shapes and dtypes are those of all calls; arrays may
            have any layout.

    Returns:
        A dispatcher of Numba's, for nopython code and for Python.  It returns an array, a number,
        or a tuple of these, all of them new.

    What `f` reads from outside is as it is now; a function that writes into its arguments, or
    outside, is refused.

    Raises:
        ArgumentError: where that is so.
        ValueError: in a call, if an array has another shape.

    Example: a root, by Newton's method in Numba with fgrad's derivative.
        >>> import numba, numpy as np, fgrad
        >>> from fgrad.interop.njit import as_njit
        >>> def f(x):
        ...     return np.exp(x) - 2.0
        >>> value, slope = as_njit(f, 1.0), as_njit(fgrad.grad(f), 1.0)
        >>> @numba.njit
        ... def newton(x):
        ...     for _ in range(8):
        ...         x -= value(x) / slope(x)
        ...     return x
        >>> newton(1.0)
        0.6931471805599453
    """
    entry, executable, _ = native_form(f, args, "Numba")
    call = Wrapper(entry, executable)
    scope = call.scope()
    exec(call.text(), scope)
    signatures = [call.signature(layout) for layout in "CA"]
    _KEPT.append(executable)
    return numba.njit(list(dict.fromkeys(signatures)))(scope["call"])


class Wrapper(NamedTuple):
    """The function that Numba compiles: it makes the results and calls fgrad's code.

    def call(a0, a1):
        if a0.shape != (3,): raise ValueError("...")
        x0 = np.ascontiguousarray(a0)                        arrays of rank 0: np.array([a1])
        y0 = np.empty((3,), t2)
        arena = np.empty(bytes, np.uint8)
        pointers = np.array([x0.ctypes.data, ..., consts, y0.ctypes.data, arena])
        run(table, pointers.ctypes.data)
        if load(stopped): finish()
        return y0
    """

    entry: Entry
    executable: Any

    def types(self) -> list[Aval]:
        """The types of arguments and results."""
        return [*self.executable.in_avals, *self.executable.out_avals]

    def scope(self) -> dict[str, Any]:
        """What the names in the text mean."""
        literals = {f"value{k}": lit.value for k, lit in self.executable.literals}
        dtypes = {f"t{k}": a.dtype for k, a in enumerate(self.types())}
        run = _Run(self.executable.host.interpreter)
        own = {"np": np, "numba": numba, "run": run, "load": _load, "finish": self.finish}
        return {**own, **literals, **dtypes}

    def signature(self, layout: str) -> Any:
        """Numba's types of the arguments, for arrays of one layout or of any."""
        return tuple(
            [
                types.Array(from_dtype(a.dtype), len(a.shape), layout)
                if a.shape
                else from_dtype(a.dtype)
                for a in self.executable.in_avals
            ]
        )

    def finish(self) -> None:
        """Raise what a handler of signals, or Python code among the steps, has raised."""
        raise_if_stopped()
        for kept in self.executable.image.callbacks:
            if isinstance(kept, Callback):
                kept.reraise()

    def text(self) -> str:
        """The source of the function."""
        ex = self.executable
        ins, outs = len(ex.in_avals), len(ex.out_avals)
        lines = [f"def call({', '.join([f'a{k}' for k in range(ins)])}):"]
        for k, aval in enumerate(ex.in_avals):
            lines += _argument(k, aval)
        for k, aval in enumerate(ex.out_avals):
            lines.append(f"y{k} = np.empty({aval.shape or 1}, t{ins + k})")
        for k, _literal in ex.literals:
            lines.append(f"y{k}[...] = value{k}")
        lines += self._run() if not ex.empty else []
        found = [f"y{k}" if a.shape else f"y{k}[0]" for k, a in enumerate(ex.out_avals)]
        result = found[0] if self.entry.single else "(" + "".join([f"{r}, " for r in found]) + ")"
        return "\n    ".join([*lines, f"return {result if outs else None}"]) + "\n"

    def _run(self) -> list[str]:
        """The lines that call fgrad's code, after which its arrays are still alive."""
        ex = self.executable
        inputs = [f"x{k}" for k in range(len(ex.in_avals))]
        outputs = [f"y{k}" for k in range(len(ex.out_avals))]
        given = [
            *[f"{x}.ctypes.data" for x in inputs],
            *map(str, ex.const_pointers),
            *[f"{y}.ctypes.data" for y in outputs],
            f"(arena.ctypes.data + {LINE_BYTES - 1}) // {LINE_BYTES} * {LINE_BYTES}",
        ]
        lines = [
            f"arena = np.empty({ex.arena_bytes + LINE_BYTES}, np.uint8)",
            f"pointers = np.empty({len(given)}, np.int64)",
            *[f"pointers[{k}] = {pointer}" for k, pointer in enumerate(given)],
            f"run({ex.host.address}, pointers.ctypes.data)",
            "alive = " + " + ".join([f"{x}.size" for x in ("arena", "pointers", *inputs)]),
        ]
        asks = "True" if ex.image.callbacks else f"load({SIGNALS.address}) != 0 and alive > 0"
        return [*lines, f"if {asks}:", "    with numba.objmode():", "        finish()"]


def _argument(k: int, aval: Aval) -> list[str]:
    """The lines that make an argument contiguous memory."""
    if not aval.shape:
        return [f"x{k} = np.empty(1, t{k})", f"x{k}[0] = a{k}"]
    text = f"argument {k} of a function of fgrad has another shape than {list(aval.shape)}"
    return [
        f"if a{k}.shape != {aval.shape}:",
        f"    raise ValueError({text!r})",
        f"x{k} = np.ascontiguousarray(a{k})",
    ]


@intrinsic
def _load(_context: Any, address: Any) -> Any:
    """The word at an address."""

    def emit(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        pointer = context.get_value_type(types.int64).as_pointer()
        return builder.load(builder.inttoptr(args[0], pointer))

    return types.int64(address), emit


def from_njit(
    function: Callable[..., object],
    result: Callable[..., PyTree],
    vjp: Callable[..., object] | None = None,
    vmap_method: str = "sequential",
) -> Callable[..., object]:
    """A function compiled by Numba as one that fgrad traces, with a derivative of yours.

    Arguments:
        function: takes arrays and numbers, writes into none of them, and returns new arrays.
        result: takes the same arguments and returns what the result looks like: things with `shape`
            and `dtype`, as `lambda x, k: x`, or `lambda x: fgrad.ShapeDtype((), float)`.
        vjp: `vjp(*args, result, ct)` returns the cotangents of all arguments, as a tuple if there
            are several; that of an integer counts for nothing.
        vmap_method: see `fgrad.pure_callback`.

    Raises:
        MissingRuleError: if it is differentiated and has no rule; `fgrad.custom_jvp` around it
            gives it one for forward mode.

    Example:
        >>> import numba, numpy as np, fgrad
        >>> from fgrad.interop.njit import from_njit
        >>> @numba.njit
        ... def running(x):
        ...     y = np.empty_like(x)
        ...     total = 0.0
        ...     for i in range(len(x)):
        ...         total += x[i]
        ...         y[i] = total
        ...     return y
        >>> @numba.njit
        ... def running_vjp(x, y, ct):
        ...     return running(ct[::-1])[::-1].copy()
        >>> run = from_njit(running, lambda x: x, vjp=running_vjp)
        >>> fgrad.jit(fgrad.grad(lambda x: np.sum(run(x) ** 2)))(np.array([1.0, 2.0, 3.0]))
        array([20., 18., 12.])
    """

    def call(*args: Any) -> Any:
        return pure_callback(function, _types(result(*args)), *args, vmap_method=vmap_method)

    call.__name__ = getattr(function, "__name__", "function")
    return call if vjp is None else _with_vjp(call, vjp, vmap_method)


def _with_vjp(
    call: Callable[..., object], rule: Callable[..., object], vmap_method: str
) -> Callable[..., object]:
    ruled = custom_vjp(call)

    def forward(*args: object) -> tuple[object, object]:
        out = call(*args)
        return out, (args, out)

    def backward(kept: Any, ct: object) -> tuple[object, ...]:
        args, out = kept
        wanted = _types(args if len(args) > 1 else args[0])
        found = pure_callback(_typed(rule, wanted), wanted, *args, out, ct, vmap_method=vmap_method)
        cts = found if len(args) > 1 else (found,)
        return tuple([c if w.dtype.kind in "fc" else None for c, w in zip(cts, args, strict=True)])

    ruled.defvjp(forward, backward)
    return ruled


def _types(results: PyTree) -> PyTree:
    """The types of the leaves of a tree."""
    return tree.map(lambda x: x if hasattr(x, "dtype") else np.asarray(x), results)


def _typed(rule: Callable[..., Any], wanted: Sequence[Any] | Any) -> Callable[..., Any]:
    """A rule whose cotangents have the dtypes of the arguments: those of integers are zeros."""

    def cotangents(*operands: Any) -> Any:
        found = rule(*operands)
        several = isinstance(wanted, tuple)
        pairs = zip(found if several else (found,), wanted if several else (wanted,), strict=True)
        cts = [
            np.asarray(c, w.dtype) if w.dtype.kind in "fc" else np.zeros(w.shape, w.dtype)
            for c, w in pairs
        ]
        return tuple(cts) if several else cts[0]

    return cotangents


__dir__ = names_shown(__name__)
