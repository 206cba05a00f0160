"""profile, cost_analysis and view: what a program costs, step by step and line by line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import fgrad
from fgrad.tools.drawing import BOXES
from fgrad.tools.view import View, summary


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


SVG = "{http://www.w3.org/2000/svg}"


def _drawn(page: View) -> tuple[ElementTree.Element, list[str]]:
    """The picture, and the texts in it."""
    picture = ElementTree.fromstring(page._repr_svg_())
    return picture, [element.text or "" for element in picture.iter(f"{SVG}text")]


def test_the_picture_has_names_shapes_lines_values_and_times() -> None:
    page = fgrad.view(fgrad.value_and_grad(_loss), values=True, times=True)(W, X)
    picture, texts = _drawn(page)
    boxes = [e for e in picture.iter(f"{SVG}rect") if e.get("class") == "box"]
    assert len(boxes) == len(page.program.eqns) + len(page.program.inputs) + 2
    assert {"w", "x", "result 0", "result 1", "hidden = np.tanh(x @ w)"} <= set(texts)
    assert {str(a) for a in page.program.in_avals} <= set(texts)
    value, slope = fgrad.value_and_grad(_loss)(W, X)
    assert f"{value:.4g}" in texts and f"{slope.min():.4g} to {slope.max():.4g}" in texts
    assert sum(text.endswith(" us") for text in texts) > len(page.groups) // 2
    assert "derivative" in texts and "derivative" not in _drawn(fgrad.view(_loss)(W, X))[1]


def test_boxes_of_the_picture_do_not_overlap_and_are_inside_of_it() -> None:
    picture = fgrad.view(fgrad.value_and_grad(_loss), values=True)(W, X).picture()
    width, height = picture.size
    places = [(picture.spots[b], box) for b, box in enumerate(picture.boxes)]
    for k, ((x, y), box) in enumerate(places):
        assert x >= 0 and x + box.width <= width and y >= 0 and y + box.height <= height
        for (x1, y1), other in places[:k]:
            beside = x + box.width <= x1 or x1 + other.width <= x
            assert beside or y + box.height <= y1 or y1 + other.height <= y


@pytest.mark.parametrize("steps", [3, 100])
def test_large_programs_have_few_boxes(steps: int) -> None:
    def energy(z: np.ndarray) -> np.ndarray:
        total = np.zeros(())
        for k in range(steps):
            z = z + 0.1 * np.sin(z * (k + 1.0))
            total = total + np.sum(np.exp(-z) * z)
        return total

    page = fgrad.view(fgrad.jit(fgrad.value_and_grad(energy), capture=False))(np.ones(7))
    boxes = page.picture().boxes
    assert len(boxes) <= BOXES
    drawn = sum([len(box.nodes) for box in boxes])
    assert drawn == len(page.program.eqns) + len(page.program.inputs) + 2  # none is left out
    assert len(page.program.eqns) > 10 * steps
    assert ("100 sin" in _drawn(page)[1]) == (steps == 100)


def test_an_equation_has_the_colour_of_its_own_kernel() -> None:
    """One line, twice in a loop: each result is known, no step is guessed from the line."""

    def twice(x: np.ndarray) -> np.ndarray:
        for k in range(2):
            x = np.sort(np.sin(x + k))
        return x

    page = fgrad.view(fgrad.jit(twice, capture=False))(np.ones(9))
    sines = [page.group_of(e) for e in page.program.eqns if e.prim.name == "sin"]
    assert len(sines) == 2 and sines[0] != sines[1]


def test_pictures_and_pages_are_written(tmp_path: Path) -> None:
    page = fgrad.view(_loss)(W, X)
    page.save(str(tmp_path / "f.svg"))
    assert ElementTree.parse(tmp_path / "f.svg").getroot().tag == f"{SVG}svg"
    assert "<svg" in page._repr_html_() and "<table" in page._repr_html_()


def test_names_of_arguments_in_containers() -> None:
    def fitted(params: dict[str, np.ndarray], points: list[np.ndarray]) -> np.ndarray:
        return params["slope"] * points[0] + params["shift"] * points[1]

    page = fgrad.view(fitted)({"slope": W, "shift": W}, [W, W])
    assert [page.names[v] for v in page.program.inputs] == [
        "params.shift", "params.slope", "points.0", "points.1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("x", "text"),
    [(np.array([1.0, np.nan]), "1, 1 NaN"), (np.zeros((0, 2)), ""), (True, "True"),
     (np.array([3, -2]), "-2 to 3"), (2.5, "2.5"), (np.array([True, False]), "")],
)  # fmt: skip
def test_summaries_of_values(x: object, text: str) -> None:
    assert summary(x) == text
