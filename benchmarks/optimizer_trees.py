"""Optimisers of fgrad compared with optax's and PyTorch's, over random trees of parameters.

    python benchmarks/optimizer_trees.py --trees 8      # the table of largest differences
    python benchmarks/optimizer_trees.py --golden       # tests/golden/optimizer_trees.json

Run it with a Python that has jax, optax and torch.  A difference is in units of the rounding of a
number (`unit` of tests/random_trees.py) relative to the largest update of that number so far.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

import jax  # noqa: E402
import numpy as np  # noqa: E402
import optax  # noqa: E402
import torch  # noqa: E402
from optax import contrib  # noqa: E402
from random_trees import (  # noqa: E402
    BY_PARTS,
    DTYPES,
    IN_SINGLE,
    RULES,
    TORCH,
    Layer,
    Tree,
    by_fgrad,
    by_fgrad_as_torch,
    compared,
    drawn,
    few,
    seed_of,
)
from torch_cases import CASES as TORCH_CASES  # noqa: E402

from fgrad import tree as fgrad_tree  # noqa: E402

Steps = list[list[np.ndarray]]
LIMIT = 64.0


def by_optax(name: str, p: Tree, gradients: list[Tree]) -> Steps | str:
    """The leaves of the updates of each step; the error where optax raises one."""
    optimizer = RULES[name](optax, jax.tree)
    if name in BY_PARTS and any(np.iscomplexobj(x) for x in fgrad_tree.leaves(p)):
        optimizer = contrib.split_real_and_imaginary(optimizer)
    try:
        params = jax.tree.map(jax.numpy.asarray, p)
        state, steps = optimizer.init(params), []
        for g in gradients:
            updates, state = optimizer.update(jax.tree.map(jax.numpy.asarray, g), state, params)
            steps.append([np.asarray(x) for x in jax.tree.leaves(updates)])
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:80]
    return steps


def by_torch(name: str, p: Tree, gradients: list[Tree]) -> Steps:
    """The leaves of the parameters after each step."""
    leaves = [torch.nn.Parameter(torch.tensor(x)) for x in fgrad_tree.leaves(p)]
    optimizer: Any = TORCH_CASES[name][0](torch.optim, leaves)
    steps = []
    for g in gradients:
        for parameter, x in zip(leaves, fgrad_tree.leaves(g), strict=True):
            parameter.grad = torch.tensor(x)
        optimizer.step()
        steps.append([x.detach().numpy().copy() for x in leaves])
    return steps


def theirs(library: str, name: str, p: Tree, gradients: list[Tree]) -> Steps | str:
    """What optax or PyTorch gives."""
    if library == "optax":
        return by_optax(name, p, gradients)
    return by_torch(name, p, gradients)


def table(trees: int, wanted: list[str]) -> int:
    """Print the largest difference of each rule; how many are not equal to rounding."""
    total, wrong = Counter[str](), 0
    for library, names in (("optax", RULES), ("torch", TORCH)):
        largest = 0.0
        for name in names:
            if wanted and name not in wanted:
                continue
            row, failed = [], ""
            for kind in DTYPES:
                worst = 0.0
                for k in range(trees):
                    p, gradients = drawn(seed_of(name, kind) + k, kind, name in IN_SINGLE)
                    other = theirs(library, name, p, gradients)
                    if isinstance(other, str):
                        failed = other
                        total[f"{library}: raised there"] += 1
                        continue
                    run = by_fgrad if library == "optax" else by_fgrad_as_torch
                    mine = run(name, p, gradients)
                    worst = max(worst, compared(library, name, kind, p, mine, other))
                    total[f"{library}: compared"] += 1
                row.append(worst)
            wrong += max(row) > LIMIT
            largest = max(largest, *row)
            print(f"{library} {name:24}", *[f"{x:7.2f}" for x in row], failed, flush=True)
        print(f"{library}: largest difference {largest:.2f} units")
    print(*[f"{what} {count}" for what, count in total.items()], sep="\n")
    print(f"{wrong} rules differ by more than {LIMIT} units")
    return wrong


def golden() -> None:
    """Write what a tree of each rule and dtype gives: the first numbers of each leaf."""
    rows: dict[str, Any] = {"optax": optax.__version__, "torch": torch.__version__}
    for library, names in (("optax", RULES), ("torch", TORCH)):
        for name in names:
            for kind in DTYPES:
                p, gradients = drawn(seed_of(name, kind), kind, name in IN_SINGLE)
                steps = theirs(library, name, p, gradients)
                rows[f"{library}: {name}: {kind}"] = (
                    steps if isinstance(steps, str) else [few(x) for x in steps[-1]]
                )
    path = ROOT / "tests" / "golden" / "optimizer_trees.json"
    text = json.dumps(rows, separators=(",", ":")).replace(',"optax:', ',\n"optax:')
    path.write_text(text.replace(',"torch:', ',\n"torch:') + "\n", encoding="utf-8")
    print(len(rows) - 2, "rows,", path.stat().st_size, "bytes")


def main() -> int:
    """The table, or the golden file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="rules to run; all if there are none")
    parser.add_argument("--trees", type=int, default=4, help="of each rule and dtype")
    parser.add_argument("--golden", action="store_true")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    jax.tree_util.register_dataclass(Layer, ["weights", "rest"], [])
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    if options.golden:
        golden()
        return 0
    return int(table(options.trees, options.names) > 0)


if __name__ == "__main__":
    sys.exit(main())
