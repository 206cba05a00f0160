"""The benchmarks run, and what they measure is right; nothing is timed here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import eager
import eager_compiled
import eager_table
import harness
import limits
import numpy as np
import peers
import pytest
import ranks_model
import rates
import report
import workloads
import workloads_models
from digits_workloads import DIGITS

import fgrad

SMALL = [
    *workloads.COMPILED["calls"],
    *DIGITS,
    *[w for w in workloads_models.MODELS if "jitted" in w.name],
]


@pytest.mark.parametrize("workload", SMALL, ids=lambda w: w.name)
def test_compiled_workload(workload: harness.Workload) -> None:
    compiled = workload.make(harness.fgrad_library())()
    assert harness.same_numbers(compiled, harness.reference(workload))


@pytest.mark.parametrize("make", [make for _, _, make in eager.WORKLOADS])
def test_eager_workload(make: Callable[[eager.Peer], Callable[[], Any]]) -> None:
    plain = eager.Peer("fgrad", np, lambda x: x, fgrad.grad)
    compiled = eager.Peer("jit", np, lambda x: x, lambda f: fgrad.jit(fgrad.grad(f)))
    assert harness.same_numbers(make(plain)(), make(compiled)())


@pytest.mark.parametrize("program", eager_compiled.PROGRAMS, ids=lambda p: p.name)
def test_gradients_by_hand(program: eager_compiled.Program) -> None:
    right = fgrad.grad(program.loss(np))(program.argument)
    assert harness.same_numbers(program.by_hand()(program.argument), right)


def test_turns() -> None:
    calls: list[str] = []
    times = harness.take_turns({"a": lambda: calls.append("a")}, turns=3, turn_seconds=1e-4)
    assert times["a"] > 0.0
    assert len(calls) > 3


def test_report(tmp_path: Path) -> None:
    rows = [
        harness.Result("sum, 10M f32", {"fgrad": 1e-3, "jax": 2e-3}, 0.6, group="arrays"),
        harness.Result("rosenbrock", {"fgrad": 1e-4, "autograd": 4e-4}, None, group="eager"),
        harness.Result("refused", {}, 0.1, "why", group="arrays"),
        harness.Result("plain", {"fgrad": 1e8, "jax": 1e8}, 0.8, group="memory", unit="B"),
    ]
    path = tmp_path / "quick.json"
    harness.write_json(path, rows, rates=rates.Rates(4e10, 1e11, 5e10)._asdict())
    report.write(path)
    text = path.with_suffix(".md").read_text()
    assert "| sum, 10M f32 | 1 ms | 2 ms | 0.500 | 0.6 met | 100% |" in text
    assert "| plain | 100 MB | 100 MB | 1.000 | 0.8 |" in text
    assert "goals met: 1 of 2" in text


def test_loops_by_hand_have_workloads() -> None:
    names = {w.name for group in workloads.COMPILED.values() for w in group}
    assert set(peers.ROWS) <= names


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1.5, "1.5 s "), (0.0123, "12.3 ms"), (4.56e-6, "4.56 us"), (7e-8, "70 ns")],
)
def test_durations(seconds: float, text: str) -> None:
    assert harness.pretty(seconds) == text


@pytest.mark.parametrize("operation", eager_table.OPERATIONS, ids=lambda o: o.name)
def test_eager_operation(operation: eager_table.Operation, rng: np.random.Generator) -> None:
    x = eager_table.ARGUMENTS[operation.kind](100, rng)
    g = eager_table.gradient(operation, np, fgrad.grad)
    direction = rng.normal(size=x.shape)
    slope = fgrad.jvp(lambda x: np.sum(operation.apply(np, x)), (x,), (direction,))[1]
    np.testing.assert_allclose(np.sum(g(x) * direction), slope, rtol=1e-8, atol=1e-12)


def test_the_model_of_scaling() -> None:
    fast, _, slow = ranks_model.NETWORKS
    for net, least in ((fast, 0.97), (slow, 0.75)):
        found = [ranks_model.efficiency(n, net) for n in ranks_model.NODES]
        assert found[0] == 1.0 and found == sorted(found, reverse=True)
        assert least < ranks_model.efficiency(64, net) < least + 0.02
    # A ring of two sends each byte once each way, as halving does.
    assert ranks_model.allreduce(1e6, 2, slow) == pytest.approx(60e-6 + 1e6 * slow.byte, rel=0.1)


def test_limits() -> None:
    sizes = dict.fromkeys(limits.SIZES, 1e10)
    both = {False: 1e9, True: 2e9}
    fast = {**sizes, limits.SIZES[0]: 1e11}
    rates = limits.Limits(sizes, fast, both, both, both, 1e9, 1e9, 1e7)
    assert limits.limit(harness.Cost(), rates) == (1e-7, "a call")
    assert limits.limit(harness.Cost(reads=1e4), rates) == (1e-7, "bytes")
    assert limits.limit(harness.Cost(1e8, 1e8, within=1e4), rates) == (0.02, "bytes")
    assert limits.limit(harness.Cost(flops=4e6, single=True), rates) == (2e-3, "products")
    assert limits.limit(harness.Cost(functions=4e6, chain=5e6), rates) == (5e-3, "chain")


def test_far_rows_have_reasons() -> None:
    rows = [limits.Row("arrays", str(k), 5.0, 1.0, "bytes", "why" * k) for k in range(2)]
    assert limits.summary(rows)[-1] == "* of these without a reason: 0"
