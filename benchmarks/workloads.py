"""All workloads that are compiled, by group, and what each must do at least."""

from __future__ import annotations

from harness import Workload
from workloads_arrays import ARRAYS, CALLS
from workloads_linalg import LINALG
from workloads_loops import LOOPS
from workloads_models import MODELS

COMPILED: dict[str, tuple[Workload, ...]] = {
    "calls": CALLS,
    "arrays": ARRAYS,
    "models": MODELS,
    "loops": LOOPS,
    "linear algebra": LINALG,
}
COSTS = {workload.name: workload.cost for group in COMPILED.values() for workload in group}
