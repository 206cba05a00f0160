"""Processor time to the first results, in fresh processes: fgrad without and with its cache, JAX.

    python benchmarks/start_up.py [--turns 5] [--jax PYTHON] [--cases tiny,mlp]

Milliseconds of processor time beyond the import of NumPy, up to the end of the third call of a
function, the least of some turns: for fgrad with an empty cache, for fgrad when another process has
filled it, and for JAX with an empty cache and with a full one.
"""

from __future__ import annotations

import argparse
import sys
import tempfile

from children import child_value

CASES = ("tiny", "mlp", "transformer")


def turn(case: str, library: str, python: str) -> tuple[float, float]:
    """The milliseconds of one turn of a library, with an empty cache and with a full one."""
    with tempfile.TemporaryDirectory() as cache:
        words = ("first_result.py", library, case, "third")
        found = [1e3 * child_value(*words, cache=cache, python=python) for _ in range(3)]
    return found[0], found[2]


def main() -> None:
    """Print a row for each function."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--turns", type=int, default=5)
    options.add_argument("--cases", default=",".join(CASES))
    options.add_argument("--jax", default="", help="a Python that has JAX")
    chosen = options.parse_args()
    pythons = {"fgrad": sys.executable, **({"jax": chosen.jax} if chosen.jax else {})}
    print("| ms | cold | warm | JAX cold | JAX warm | warm / JAX cold |")
    for case in chosen.cases.split(","):
        turns = [
            [x for library, python in pythons.items() for x in turn(case, library, python)]
            for _ in range(chosen.turns)
        ]
        least = [min(times) for times in zip(*turns, strict=True)]
        ratio = f" {least[1] / least[2]:.2f} |" if chosen.jax else ""
        print(f"| {case} | {' | '.join([f'{x:.0f}' for x in least])} |{ratio}", flush=True)


if __name__ == "__main__":
    main()
