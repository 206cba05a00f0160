"""`trace_table`: what comes in at the arguments is the gradient, and each row is the chain rule."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import fgrad
from fgrad.errors import ArgumentError
from fgrad.tools.trace_table import Node


def network(w: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.mean((np.tanh(x @ w) - y) ** 2)


def looped(a: float, b: float) -> float:
    total = 0.0
    for k in range(5):
        total = total + a * np.sin(b * k)
    return total * 2 if total > 0 else total


def written(x: np.ndarray) -> np.ndarray:
    y = np.zeros(3)
    y[1:] = x[:2] ** 2
    return y.sum() * x[2]


CASES: dict[str, tuple[Callable[..., object], tuple[object, ...]]] = {
    "scalars": (lambda x: (3.0 * x + 1.0) ** 2, (2.0,)),
    "one is read twice": (lambda x: x * np.sin(x) + x, (1.5,)),
    "arrays": (network, (np.ones(3) / 3, np.arange(12.0).reshape(4, 3) / 10, np.ones(4))),
    "loop and branch": (looped, (1.0, 2.0)),
    "writes": (written, (np.array([1.0, 2.0, 3.0]),)),
    "float32": (lambda x: np.sum(np.exp(x)), (np.ones(2, np.float32),)),
    "complex": (lambda z: np.abs(z * 1j) ** 2, (2.0 + 1j,)),
    "several results": (lambda x: np.sum(np.linalg.eigh(x + x.T)[0] ** 2), (np.eye(2) + 1.0,)),
    "jitted inside": (fgrad.jit(lambda x: fgrad.jit(np.sin)(x) * x), (0.5,)),
    "not used": (lambda x, y: x, (0.5, 0.25)),
    "constant": (lambda x: 3.0, (0.5,)),
    "empty": (lambda x: np.sum(x**2), (np.ones(0),)),
    "an integer": (lambda x, n: x * n, (0.5, 3)),
}


@pytest.mark.parametrize("name", CASES)
def test_arguments_get_the_gradient(name: str) -> None:
    fun, args = CASES[name]
    table = fgrad.trace_table(fun)(*args)
    float_args = [k for k, a in enumerate(args) if not isinstance(a, int)]
    expected = fgrad.grad(fun, argnums=tuple(float_args))(*args)
    found = [node for node in table.nodes if not node.edges][-len(float_args) :]
    for node, ct in zip(found, expected, strict=True):
        np.testing.assert_allclose(node.incoming, np.conj(ct), rtol=1e-6)  # as `vjp` has it
    assert str(table).splitlines()[0].split()[0] == "node"


def test_each_edge_is_a_product_and_each_node_a_sum() -> None:
    fun, args = CASES["loop and branch"]
    nodes = fgrad.trace_table(fun)(*args).nodes
    given: dict[str, float] = {nodes[0].name: 1.0}
    for node in nodes:
        assert node.incoming == pytest.approx(given[node.name])
        for edge in node.edges:
            assert edge.local is not None
            assert edge.outgoing == pytest.approx(edge.local * node.incoming)
            given[edge.operand] = given.get(edge.operand, 0.0) + float(edge.outgoing)


def test_the_rows_of_the_course() -> None:
    rows = [
        [x for x in row[1:5] if x] for row in fgrad.trace_table(CASES["scalars"][0])(2.0).rows()
    ]
    assert rows == [
        ["49", "14", "1", "14"],
        ["7", "1", "14", "14"],
        ["6", "3", "14", "42"],
        ["2", "42"],
    ]


def test_local_derivatives_are_differences(rng: np.random.Generator) -> None:
    x = rng.normal(size=4)
    (node,) = [
        n for n in fgrad.trace_table(lambda x: np.sum(np.tanh(x)))(x).nodes if "tanh" in n.text
    ]
    assert isinstance(node, Node) and node.edges[0].local is not None
    differences = (np.tanh(x + 1e-6) - np.tanh(x - 1e-6)) / 2e-6
    np.testing.assert_allclose(node.edges[0].local, differences, rtol=1e-8)


def test_lines_are_the_users_and_pages_have_no_code_of_values() -> None:
    table = fgrad.trace_table(network)(*CASES["arrays"][1])
    assert table.nodes[0].line is not None and "np.mean" in table.nodes[0].line.text()
    assert (
        "&lt;" not in table._repr_html_()
        and table._repr_html_().count("<tr>") == len(table.rows()) + 1
    )


@pytest.mark.parametrize("fun", [np.sin, lambda x: (x[0], x[1]), lambda x: x[0] * 1j])
def test_one_real_number_is_wanted(fun: Callable[..., object]) -> None:
    with pytest.raises(ArgumentError, match="has to return one real number"):
        fgrad.trace_table(fun)(np.ones(3))


def test_arguments_have_their_own_names() -> None:
    """Those of a dictionary are sorted, those of a call are not."""

    def scaled(w: float, data: dict[str, float], *, b: float, a: float) -> float:
        return w * data["y"] + data["x"] * a - b

    args, kwargs = (2.0, {"y": 3.0, "x": 5.0}), {"b": 7.0, "a": 11.0}
    nodes = fgrad.trace_table(scaled)(*args, **kwargs).nodes
    known = {"w": 2.0, "data.x": 5.0, "data.y": 3.0, "a": 11.0, "b": 7.0}
    assert {node.name: float(node.value) for node in nodes if not node.edges} == known
    page = fgrad.view(scaled, values=True)(*args, **kwargs)
    found = {page.names[v]: float(np.asarray(page.values[v])) for v in page.program.inputs}
    assert found == known
