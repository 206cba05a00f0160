"""L7. Run compiler passes on a program written as text.

    python -m fgrad.tools.run program.txt --passes dce,cse
    python -m fgrad.tools.run - --passes simplify --each < program.txt

The text is that of `fgrad.ir.text`; `--each` prints the program after every pass.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from fgrad.compile.fuse.one_pass_products import one_pass_products
from fgrad.compile.loops.ahead import compute_ahead
from fgrad.compile.loops.components import split_components
from fgrad.compile.loops.invariants import hoist_invariants
from fgrad.compile.loops.regions import gather_regions
from fgrad.compile.passes.canonical_conv import canonical_conv
from fgrad.compile.passes.canonical_dot import canonical_dot
from fgrad.compile.passes.collectives import collectives
from fgrad.compile.passes.cse import cse
from fgrad.compile.passes.dce import dce
from fgrad.compile.passes.factor_contractions import factor_contractions
from fgrad.compile.passes.fold import fold
from fgrad.compile.passes.inline import inline_calls
from fgrad.compile.passes.legalize_bfloat16 import legalize_bfloat16
from fgrad.compile.passes.legalize_complex import legalize_complex
from fgrad.compile.passes.ranges import ranges
from fgrad.compile.passes.read_updates import read_updates
from fgrad.compile.passes.simplify import simplify
from fgrad.compile.passes.triangles import triangles
from fgrad.ir.check import check_program
from fgrad.ir.program import Program
from fgrad.ir.text import parse_program, print_program
from fgrad.tools.op import load_primitives

# The passes of `fgrad.compile.pipeline` over programs, in its order and by its names.
PASSES: dict[str, Callable[[Program], Program]] = {
    "inline": inline_calls,
    "dce": dce,
    "cse": cse,
    "triangles": triangles,
    "collectives": collectives,
    "legalize_bfloat16": legalize_bfloat16,
    "legalize_complex": legalize_complex,
    "fold": fold,
    "simplify": simplify,
    "read_updates": read_updates,
    "ranges": ranges,
    "factor_contractions": factor_contractions,
    "canonical_conv": canonical_conv,
    "canonical_dot": canonical_dot,
    "invariants": hoist_invariants,
    "one_pass_products": one_pass_products,
    "ahead": compute_ahead,
    "components": split_components,
    "regions": gather_regions,
}


def run_passes(program: Program, names: Sequence[str]) -> list[Program]:
    """The program after each of the named passes, checked after each.

    Raises:
        ValueError: if there is no such pass.
        CheckError: if the program, or a pass's result, breaks an invariant.

    Example:
        >>> from fgrad.ir.text import parse_program, print_program
        >>> text = "program f(a: f64[]) -> (f64[]):\\n  b: f64[] = sin a\\n  return a"
        >>> print(print_program(run_passes(parse_program(text), ["dce"])[-1], locs=False))
        program f(a: f64[]) -> (f64[]):                  # made by dce
          return a
        <BLANKLINE>
    """
    for name in names:
        if name not in PASSES:
            raise ValueError(f"there is no pass {name!r}; there are: {', '.join(PASSES)}")
    check_program(program)
    results = []
    for name in names:
        program = PASSES[name](program)
        check_program(program, name)
        results.append(program)
    return results


def main(arguments: Sequence[str] | None = None) -> int:
    """Read a program, run passes on it and print what comes out."""
    parser = argparse.ArgumentParser(prog="python -m fgrad.tools.run", description=__doc__)
    parser.add_argument("file", help="the text of a program, or - for standard input")
    parser.add_argument("--passes", default="", help=f"separated by commas: {', '.join(PASSES)}")
    parser.add_argument("--each", action="store_true", help="print after every pass")
    options = parser.parse_args(arguments)
    text = sys.stdin.read() if options.file == "-" else Path(options.file).read_text()
    names = [name for name in options.passes.split(",") if name]
    load_primitives()
    try:
        program = parse_program(text)
        results = run_passes(program, names)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    if options.each:
        for name, result in zip(names, results, strict=True):
            print(f"# after {name}\n{print_program(result)}")
    else:
        print(print_program([program, *results][-1]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
