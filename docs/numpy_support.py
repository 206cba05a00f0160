"""Write docs/numpy_support.md: which NumPy functions take traced arrays.  Run by `make docs`.

Nothing is counted that is not tried: the ufunc methods are called, the names are looked up.
"""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from fgrad.errors import FgradError
from fgrad.ir.aval import aval_of
from fgrad.numpy.dispatch import TRACED, lookup
from fgrad.numpy.methods import REFUSED, REFUSED_PROPERTIES
from fgrad.numpy.namespace import load_all
from fgrad.numpy.unsupported import ADVICE, NEEDS_VALUES, PLAIN
from fgrad.trace import Tracer, trace

HEAD = """\
# NumPy functions on traced arrays

Written by `make docs` from the tables of `fgrad/numpy`, for NumPy {version}. A function in these
lists takes traced arrays, as `np.name(x)` and as `fgrad.numpy.name(x)`, with NumPy's signature,
dtypes and shapes; on plain arrays `fgrad.numpy.name` is NumPy's own function. Everything else
raises a card that says what to write instead, see [errors.md](errors.md#unsupportednumpyerror).

| | supported | of | |
|---|---|---|---|
| functions of `np` | {functions} | {all_functions} | {traced} take traced arrays, {plain} none |
| of them ufuncs | {ufuncs} | {all_ufuncs} | not: {missing_ufuncs} |
| ufunc methods | {methods} | {all_methods} | `reduce`, `accumulate`, `reduceat`, `outer`, `at` |
| `np.linalg` | {linalg} | {all_linalg} | |
| `np.fft` | {fft} | {all_fft} | `fftfreq` and `rfftfreq` take no array |
| methods and attributes of arrays | {members} | {all_members} | not: {missing_members} |
"""
UFUNC_METHODS = ("reduce", "accumulate", "reduceat", "outer", "at")
HANDED_OVER = """\
NumPy makes plain arrays of what it is given in these, and asks nobody; as `fgrad.numpy.name(x)`
they take traced arrays: {names}. `r_`, `c_`, `mgrid`, `ogrid`, `vectorize` and `ndenumerate` are
there too.
"""
CONSTANTS = """
## Functions that take no array

NumPy's own, called as they are: what they make is a constant.

{names}
"""
UNKNOWN_SHAPES = """
## Where the shape of the result depends on values

These work where values are known (under `grad`, `vjp`, `jvp`), and have derivatives there. Under
`jit` and inside `vmap` they raise a card, unless it is said how many elements there are. An
assignment to a mask, `x[mask] = v`, always works, and so do formulas, reductions and writes
of `x[mask]`.

"""


def paragraph(names: Iterable[str]) -> str:
    """Names in code font, wrapped."""
    return textwrap.fill(" · ".join(f"`{n}`" for n in sorted(names)), 100, break_long_words=False)


def functions() -> list[str]:
    """The callables of the main namespace that are no classes."""
    found = [(n, getattr(np, n)) for n in dir(np) if not n.startswith("_")]
    return [n for n, f in found if callable(f) and not isinstance(f, type)]


def is_handed_over(name: str) -> bool:
    """Whether NumPy hands a traced argument over to fgrad."""
    target = lookup(name)
    return isinstance(target, np.ufunc) or hasattr(target, "_implementation")


def _call(ufunc: np.ufunc, method: str, x: Any) -> Any:
    if method == "outer":
        return ufunc.outer(x, x)
    if method == "reduceat":
        return ufunc.reduceat(x, [0, 2])
    if method == "at":
        y = x.copy()
        ufunc.at(y, [0, 1], *([x[:2]] if ufunc.nin == 2 else []))
        return y
    return getattr(ufunc, method)(x)


def ufunc_methods() -> tuple[int, int]:
    """How many methods of ufuncs work on traced arrays, of those that work on plain ones."""
    supported = total = 0
    arrays = [np.array([1.0, 2.0, 3.0]), np.array([1, 2, 3]), np.array([True, False, True])]
    ufuncs = {u for n in functions() if isinstance(u := getattr(np, n), np.ufunc)}
    for ufunc in ufuncs:
        for method in UFUNC_METHODS:
            for x in arrays:
                try:
                    _call(ufunc, method, x)
                except (TypeError, ValueError, RuntimeError):
                    continue
                total += 1
                try:
                    trace(lambda a: [_leaves(_call(ufunc, method, a))], [aval_of(x)])  # noqa: B023
                    supported += 1
                except (FgradError, TypeError, ValueError):
                    print(f"not supported: {ufunc.__name__}.{method} of {x.dtype}")
                break
    return supported, total


def _leaves(out: Any) -> Any:
    return out[0] if isinstance(out, tuple) else out


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> None:
    """Write the file beside this script."""
    load_all()
    warnings.simplefilter("ignore")
    names = functions()
    traced = {n for n in names if n in TRACED}
    plain = [n for n in names if n in PLAIN]
    ufuncs = {n for n in names if isinstance(getattr(np, n), np.ufunc)}
    modules = ("linalg", "fft", "lib.stride_tricks")
    groups = {g: {n for n in TRACED if n.startswith(g + ".")} for g in modules}
    spaces = {g: [n for n in getattr(np, g).__all__ if n != "LinAlgError"] for g in modules[:2]}
    members = [n for n in dir(np.ndarray) if not n.startswith("_")]
    refused = [n for n in members if n in REFUSED or n in REFUSED_PROPERTIES]
    works, tried = ufunc_methods()
    text = HEAD.format(
        version=".".join(np.__version__.split(".")[:2]),
        functions=len(traced) + len(plain),
        all_functions=len(names),
        traced=len(traced),
        plain=len(plain),
        ufuncs=len(ufuncs & traced),
        all_ufuncs=len(ufuncs),
        missing_ufuncs=", ".join(f"`{n}`" for n in sorted(ufuncs - traced)) or "none",
        methods=works,
        all_methods=tried,
        linalg=len(groups["linalg"]),
        all_linalg=len(spaces["linalg"]),
        fft=len(groups["fft"]) + 2,
        all_fft=len(spaces["fft"]),
        members=len([n for n in members if hasattr(Tracer, n)]) - len(refused),
        all_members=len(members),
        missing_members=", ".join(f"`{n}`" for n in refused),
    )
    sections = [("Ufuncs", ufuncs & traced), ("Functions", traced - ufuncs)]
    sections += [(f"`np.{g}`", found) for g, found in groups.items()]
    for title, found in sections:
        text += f"\n## {title}\n\n{paragraph(found)}\n"
        if title == "Functions":
            own = ", ".join(f"`{n}`" for n in sorted(found) if not is_handed_over(n))
            filled = textwrap.fill(HANDED_OVER.format(names=own), 100, break_long_words=False)
            text += f"\n{filled}\n"
    text += CONSTANTS.format(names=paragraph(plain)) + UNKNOWN_SHAPES
    rows = [[f"`{n}`", write.replace("|", "\\|")] for n, write in sorted(NEEDS_VALUES.items())]
    text += table(["function", "where values are not known, write"], rows)
    text += "\n\n## What has no traced form, and why\n\n"
    rows = [[f"`{n}`", why, write] for n, (why, write) in sorted(ADVICE.items()) if lookup(n)]
    text += table(["function", "why not", "write"], rows) + "\n\n"
    attributes = sorted({**REFUSED, **REFUSED_PROPERTIES}.items())
    rows = [[f"`x.{n}`", write] for n, write in attributes if n in members]
    text += table(["method or attribute", "write"], rows) + "\n"
    Path(__file__).with_suffix(".md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
