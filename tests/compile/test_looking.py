"""profile, cost_analysis and view: what a program costs, step by step and line by line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import fgrad


def _loss(w: Any, x: Any) -> Any:
    hidden = np.tanh(x @ w)
    return np.sum(hidden * hidden)


W, X = np.full((6, 4), 0.1), np.arange(30.0).reshape(5, 6) / 10


def test_profile_names_every_step_and_its_lines(tmp_path: Path) -> None:
    found = fgrad.profile(fgrad.grad(_loss), repeat=3)(W, X)
    assert found.seconds > 0
    assert all([step.lines for step in found.steps])
    text = str(found)
    assert "hidden = np.tanh(x @ w)" in text
    assert "dot_general" in text
    path = tmp_path / "trace.json"
    found.chrome_trace(str(path))
    events = json.loads(path.read_text())["traceEvents"]
    assert len(events) == len(found.steps)
    total = sum(found.by_line().values())
    np.testing.assert_allclose(total, found.seconds)


def test_profile_of_loops_libraries_and_static_arguments() -> None:
    def f(a: Any, n: int) -> Any:
        q = np.linalg.solve(a, np.ones(4))
        return fgrad.lax.fori_loop(0, n, lambda i, c: c + np.sort(q), q)

    jitted = fgrad.jit(f, static_argnums=1)
    found = fgrad.profile(jitted, repeat=2)(np.eye(4) * 2, 3)
    assert "np.linalg.solve" in str(found)


def test_costs() -> None:
    forward = fgrad.cost_analysis(_loss)(W, X)
    assert forward.flops == 2 * 5 * 6 * 4 + 20 + 20
    assert forward.transcendentals == 20
    assert forward.residual_bytes in (20 * 8, 40 * 8)
    backward = fgrad.cost_analysis(fgrad.grad(_loss))(W, X)
    assert forward.flops < backward.flops < 4 * forward.flops
    assert forward.bounded
    loop = fgrad.cost_analysis(lambda x: fgrad.lax.fori_loop(0, 7, lambda i, c: c * 2.0, x))(X)
    assert loop.flops >= 7 * 30
    unknown = fgrad.cost_analysis(
        lambda x: fgrad.lax.while_loop(lambda c: c < 9.0, lambda c: c * 2.0, x)
    )(1.0)
    assert not unknown.bounded


def test_view_shows_lines_forward_adjoint_and_steps(tmp_path: Path) -> None:
    page = fgrad.view(fgrad.grad(_loss))(W, X)
    rows = {row.line.text(): row for row in page.rows if row.line is not None}
    row = rows["hidden = np.tanh(x @ w)"]
    assert [e.prim.name for e in row.forward][:1] == ["dot_general"]
    assert "dot_general" in [e.prim.name for e in row.adjoint]
    assert row.groups
    path = tmp_path / "f.html"
    page.save(str(path))
    text = path.read_text()
    assert "hidden = np.tanh(x @ w)" in text
    assert text.count("<tr>") == len(page.rows) + 1
    graph = page.dot()
    assert graph.startswith("digraph")
    assert graph.count("fillcolor") == len(page.program.eqns) + 1
