"""Loop kernels as one writes them for Numba: unmodified under jit, gradients and vmap.

    python tests/unmodified/kernels.py                       all, a line for each that is not right
    python tests/unmodified/kernels.py --only physics        modules or kernels, by parts of names
    python tests/unmodified/kernels.py --modes vmap --show

The kernels are in `loops/`; Python says what is right, central differences what a gradient is.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from case import Case
from outcomes import Outcome, call_python, difference, guarded
from probes import MODES as OF_PROBES
from probes import Probe, by_gradient, command

import fgrad


def other_example(x: Any) -> Any:
    """A second example of a batch: other floats, the same integers."""
    return x * 0.97 if is_mapped(x) and np.asarray(x).dtype.kind in "fc" else x


def is_mapped(x: Any) -> bool:
    """Whether each example has its own."""
    return isinstance(x, (np.ndarray, float, complex))


def by_vmap(probe: Probe) -> Iterator[Outcome]:
    """Two examples at once; Python's integers belong to both."""
    plain, function = probe.load(), probe.load()
    for case in plain.cases:  # type: ignore[attr-defined]
        if any(map(is_mapped, case.args)):
            yield vmap_outcome(plain, function, case)


def vmap_outcome(plain: Any, function: Any, case: Case) -> Outcome:
    """A batch against one call of Python for each example."""
    examples = [copy.deepcopy(case.args), tuple([other_example(a) for a in case.args])]
    axes = tuple([0 if is_mapped(a) else None for a in case.args])
    right = [call_python(plain, case._replace(args=args)).result for args in examples]

    def run() -> str:
        columns = zip(*copy.deepcopy(examples), axes, strict=True)
        batch = [a if axis is None else np.stack([a, b]) for a, b, axis in columns]
        found = fgrad.vmap(function, axes)(*batch)
        for k in range(2):
            mine = fgrad.tree.map(lambda a, k=k: a[k], found)
            if text := difference(mine, typed(right[k])):
                return f"example {k}: {text}"
        return ""

    return guarded(run)


def typed(x: Any) -> Any:
    """A result as the element of an array has it."""
    if isinstance(x, (tuple, list)):
        return type(x)([typed(y) for y in x])
    return np.asarray(x)[()]


MODES = {
    "jit": OF_PROBES["jit"],
    "jit_grad": OF_PROBES["jit_grad"],
    "grad_jit": by_gradient(
        lambda loss, places: fgrad.grad(fgrad.jit(loss), places),
    ),
    "grad": OF_PROBES["grad"],
    "vmap": by_vmap,
}

if __name__ == "__main__":
    sys.exit(command("loops", MODES))
