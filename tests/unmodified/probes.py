"""Probes of semantics: under jit a function does what Python does, or a card says what it does not.

    python tests/unmodified/probes.py                      all, a line for each that is not equal
    python tests/unmodified/probes.py --only branches      by parts of names
    python tests/unmodified/probes.py --modes jit --show   every outcome

The programs are in `semantics/`: tiny functions with their arguments, as plain Python.  Python says
what is right: results and their types, errors, what is written into arguments, what is printed.
Every mode loads the module anew, so that what one changes outside is not seen by another.
"""

from __future__ import annotations

import argparse
import collections
import importlib.util
import itertools
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from case import Case
from outcomes import (
    CARD,
    EQUAL,
    Outcome,
    call_python,
    differentiable,
    gradient_outcome,
    value_outcome,
)

import fgrad

HERE = Path(__file__).parent
ORDER = (EQUAL, CARD, "slow", "error", "wrong")  # from good to bad


class Probe(NamedTuple):
    """A function of a module, that can be loaded anew."""

    path: Path
    name: str

    def load(self) -> Callable[..., Any]:
        """The function, in a module of its own."""
        return getattr(module_of(self.path), self.name)

    def __str__(self) -> str:
        return f"{self.path.stem}.{self.name}"


_numbers = itertools.count()


def module_of(path: Path) -> ModuleType:
    """A new copy of a module."""
    name = f"{path.stem}_{next(_numbers)}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def functions_of(folder: str) -> Iterator[Probe]:
    """The functions with cases in the modules of a folder."""
    if str(HERE) not in sys.path:
        sys.path.insert(0, str(HERE))
    for path in sorted((HERE / folder).glob("*.py")):
        for name, value in vars(module_of(path)).items():
            if getattr(value, "cases", None) and value.__name__ == name:
                yield Probe(path, name)


# --- modes ----------------------------------------------------------------------------------------


def by_jit(probe: Probe) -> Iterator[Outcome]:
    """Every call, twice: the second one runs what the first has compiled."""
    plain, function = probe.load(), probe.load()
    jitted = fgrad.jit(function)
    for turn in range(2):
        for case in plain.cases:  # type: ignore[attr-defined]
            if turn and case.once:
                continue
            yield value_outcome(call_python(plain, case), jitted, case)


def by_gradient(transform: Any) -> Callable[[Probe], Iterator[Outcome]]:
    """Every call that can be differentiated."""

    def outcomes(probe: Probe) -> Iterator[Outcome]:
        plain = probe.load()
        cases: list[Case] = plain.cases  # type: ignore[attr-defined]
        for case in cases:
            if differentiable(probe.load(), case):
                yield gradient_outcome(probe.load(), probe.load(), case, transform)

    return outcomes


MODES: dict[str, Callable[[Probe], Iterator[Outcome]]] = {
    "jit": by_jit,
    "jit_grad": by_gradient(lambda loss, places: fgrad.jit(fgrad.grad(loss, places))),
    "grad": by_gradient(lambda loss, places: fgrad.grad(loss, places)),
}


def worst(outcomes: Iterable[Outcome]) -> Outcome | None:
    """The outcome that counts; None if there are none."""
    return max(outcomes, key=lambda o: ORDER.index(o.kind), default=None)


# --- the command line -----------------------------------------------------------------------------


def report(
    probes: list[Probe], modes: dict[str, Callable[[Probe], Iterator[Outcome]]], show: bool
) -> dict[str, collections.Counter[str]]:
    """Run and print; the counts of each mode."""
    counts: dict[str, collections.Counter[str]] = {mode: collections.Counter() for mode in modes}
    for probe in probes:
        for mode, outcomes in modes.items():
            start = time.perf_counter()
            found = worst(outcomes(probe))
            if found is None:
                continue
            counts[mode][found.kind] += 1
            if show or found.kind != EQUAL:
                seconds = time.perf_counter() - start
                print(
                    f"{found.kind:<6}{mode:<10}{probe}  {seconds:.1f} s  {found.says}", flush=True
                )
    for mode, counter in counts.items():
        print(f"{mode:<10}" + ", ".join([f"{counter[k]} {k}" for k in ORDER]))
    return counts


def selected(probes: Iterable[Probe], only: str | None) -> list[Probe]:
    """The probes with one of some parts in their names."""
    parts = only.split(",") if only else [""]
    return [p for p in probes if any([part in str(p) for part in parts])]


def command(folder: str, modes: dict[str, Callable[[Probe], Iterator[Outcome]]]) -> int:
    """The command line of probes, and of kernels."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", help="parts of names, separated by commas")
    parser.add_argument("--modes", default=",".join(modes))
    parser.add_argument("--show", action="store_true", help="show what is equal too")
    options = parser.parse_args()
    chosen = {mode: modes[mode] for mode in options.modes.split(",")}
    counts = report(selected(functions_of(folder), options.only), chosen, options.show)
    return any([counter["wrong"] + counter["error"] for counter in counts.values()])


if __name__ == "__main__":
    sys.exit(command("semantics", MODES))
