"""Write docs/numpy_support.md: which NumPy functions take traced arrays.  Run by `make docs`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from fgrad.numpy import load_all
from fgrad.numpy.register import TRACED
from fgrad.numpy.unsupported import ADVICE

load_all()

HEAD = """\
# NumPy functions on traced arrays

Written by `make docs` from the tables of `fgrad/numpy`, for NumPy {version}. A function in these
lists takes traced arrays, as `np.name(x)` and as `fgrad.numpy.name(x)`, with NumPy's signature,
dtypes and shapes. Functions that make arrays from no array (`np.zeros(3)`, `np.eye(2)`, ...) are
NumPy's own and need no entry. Everything else raises a card that says what to write instead, see
[errors.md](errors.md#unsupportednumpyerror).

{traced} names in all: {ufuncs} of NumPy's {all_ufuncs} ufuncs, {top} functions of the main
namespace, {linalg} of `np.linalg`, {fft} of `np.fft`.
"""


def paragraph(names: Iterable[str]) -> str:
    """Names in code font, wrapped."""
    return textwrap.fill(" · ".join(f"`{n}`" for n in sorted(names)), 100, break_long_words=False)


def main() -> None:
    """Write the file beside this script."""
    load_all()
    top = {n for n in TRACED if "." not in n}
    ufuncs = {n for n in top if isinstance(getattr(np, n), np.ufunc)}
    groups = {g: {n for n in TRACED if n.startswith(g + ".")} for g in ("linalg", "fft")}
    everything = {n for n in dir(np) if isinstance(getattr(np, n, None), np.ufunc)}
    text = HEAD.format(
        version=".".join(np.__version__.split(".")[:2]),
        traced=len(TRACED),
        ufuncs=len(ufuncs),
        all_ufuncs=len(everything),
        top=len(top - ufuncs),
        linalg=len(groups["linalg"]),
        fft=len(groups["fft"]),
    )
    sections = [("Ufuncs", ufuncs), ("Functions", top - ufuncs)]
    sections += [(f"`np.{g}`", names) for g, names in groups.items()]
    for title, names in sections:
        text += f"\n## {title}\n\n{paragraph(names)}\n"
    rows = (f"| `{n}` | {why} | {write} |" for n, (why, write) in sorted(ADVICE.items()))
    table = "\n".join(["| function | why not | write |", "|---|---|---|", *rows])
    text += f"\n## What has no traced form, and why\n\n{table}\n"
    Path(__file__).with_suffix(".md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
