"""Rotations of space: SciPy's values, derivatives (also where angles vanish), trees."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation as Theirs
from scipy.spatial.transform import Slerp as TheirSlerp

import fgrad
from fgrad.scipy.spatial.transform import Rotation, Slerp

RNG = np.random.default_rng(3)
EDGES = np.array(
    [[0, 0, 0, 1], [1, 0, 0, 0], [0, 0, 1, 0], [1e-5, 0, 0, 1], [0, -1, 0, 0.0], [0, 0, 0, -1]]
)
QUATS = np.concatenate([EDGES, RNG.normal(size=(6, 4))])
VECTORS = RNG.normal(size=(12, 3))
WEIGHTS = RNG.normal(size=(3, 3))
FIXED = [*map("".join, itertools.permutations("xyz")), *["xyx", "xzx", "yxy", "yzy", "zxz", "zyz"]]
SEQUENCES = [*FIXED, *[s.upper() for s in FIXED]]

# What is done to rotations and vectors, by methods that both have.
METHODS: dict[str, Callable[..., Any]] = {
    "as_quat": lambda r, v: r.as_quat(canonical=True, scalar_first=True),
    "as_matrix": lambda r, v: r.as_matrix(),
    "as_rotvec": lambda r, v: r.as_rotvec(degrees=True),
    "as_mrp": lambda r, v: r.as_mrp(),
    "magnitude": lambda r, v: r.magnitude(),
    "apply": lambda r, v: r.apply(v),
    "apply the inverse": lambda r, v: r.apply(v, inverse=True),
    "inv": lambda r, v: r.inv().as_matrix(),
    "product": lambda r, v: (r * r[3]).as_matrix(),
    "power": lambda r, v: (r**2.5).as_matrix(),
    "mean": lambda r, v: r.mean(np.arange(1.0, 13.0)).as_matrix(),
    "part": lambda r, v: r[2:5].as_matrix(),
    "concatenate": lambda r, v: type(r).concatenate([r, r[0]]).as_matrix(),
    "from_rotvec": lambda r, v: type(r).from_rotvec(v * 50, degrees=True).as_matrix(),
    "from_mrp": lambda r, v: type(r).from_mrp(v).as_matrix(),
    "from_matrix": lambda r, v: type(r).from_matrix(r.as_matrix()).as_matrix(),
    "nearest": lambda r, v: type(r).from_matrix(r.as_matrix() + 0.05 * WEIGHTS).as_matrix(),
}


@pytest.mark.parametrize("name", METHODS)
def test_values(name: str) -> None:
    method = METHODS[name]
    found = fgrad.jit(lambda q, v: method(Rotation.from_quat(q), v))(QUATS, VECTORS)
    np.testing.assert_allclose(found, method(Theirs.from_quat(QUATS), VECTORS), atol=1e-9)


@pytest.mark.parametrize("seq", SEQUENCES)
def test_angles(seq: str) -> None:
    turned = Rotation.from_euler(seq, VECTORS * 3)
    np.testing.assert_allclose(
        turned.as_matrix(), Theirs.from_euler(seq, VECTORS * 3).as_matrix(), atol=1e-9
    )
    locked = np.array([[0.3, 0, 0.4], [0.3, np.pi / 2, 0.4], [0.3, np.pi, 0.4]])
    quats = np.concatenate([QUATS, Theirs.from_euler(seq, locked).as_quat()])
    with pytest.warns(UserWarning, match="Gimbal lock"):
        wanted = Theirs.from_quat(quats).as_euler(seq)
    np.testing.assert_allclose(Rotation.from_quat(quats).as_euler(seq), wanted, atol=1e-6)


@pytest.mark.parametrize("seq, angles", [("x", 0.3), ("z", [0.3]), ("YX", [[0.3, 0.4], [1, 2]])])
def test_fewer_angles(seq: str, angles: Any) -> None:
    wanted = Theirs.from_euler(seq, angles, degrees=True).as_matrix()
    np.testing.assert_allclose(Rotation.from_euler(seq, angles, True).as_matrix(), wanted)


SCALARS: dict[str, Callable[[Any], Any]] = {
    "matrix of a vector": lambda x: np.sum(Rotation.from_rotvec(x).as_matrix() * WEIGHTS),
    "vector of a vector": lambda x: Rotation.from_rotvec(x).as_rotvec() @ np.arange(3.0),
    "parameters": lambda x: Rotation.from_mrp(x).as_rotvec() @ np.arange(3.0),
    "matrix": lambda x: np.sum(
        Rotation.from_matrix(Rotation.from_euler("xyz", x).as_matrix()).as_rotvec()
    ),
    "power": lambda x: np.sum((Rotation.from_rotvec(x) ** 0.3).as_matrix() * WEIGHTS),
}


@pytest.mark.parametrize("name", SCALARS)
@pytest.mark.parametrize("x", [[0.3, -0.4, 0.5], [1e-3, 2e-3, 0.0], [0.0, 0, 0], [1.5, 1.0, -1]])
def test_derivatives(name: str, x: list[float]) -> None:
    f, at = SCALARS[name], np.array(x)
    slope = fgrad.jit(fgrad.grad(f))(at)
    steps = np.eye(3) * 1e-6
    wanted = [(f(at + s) - f(at - s)) / 2e-6 for s in steps]
    np.testing.assert_allclose(slope, wanted, atol=1e-7, rtol=1e-6)
    np.testing.assert_allclose(fgrad.grad(f)(at), slope, rtol=1e-9, atol=1e-12)


def test_paths_between_rotations() -> None:
    times, at = np.array([0.0, 1, 3, 4]), np.array([0.0, 0.2, 1, 2.9, 4])
    wanted = TheirSlerp(times, Theirs.from_rotvec(VECTORS[:4]))(at).as_matrix()

    def path(vectors: Any, at: Any) -> Any:
        return Slerp(times, Rotation.from_rotvec(vectors))(at).as_matrix()

    np.testing.assert_allclose(fgrad.jit(path)(VECTORS[:4], at), wanted, atol=1e-12)
    slope = fgrad.grad(lambda t: np.sum(path(VECTORS[:4], t) * WEIGHTS))(at[1:4:2])
    h = 1e-6
    wanted = [
        (np.sum(path(VECTORS[:4], t + h) * WEIGHTS) - np.sum(path(VECTORS[:4], t - h) * WEIGHTS))
        / (2 * h)
        for t in at[1:4:2]
    ]
    np.testing.assert_allclose(slope, wanted, rtol=1e-6, atol=1e-7)


def test_rotations_are_trees() -> None:
    made = fgrad.jit(lambda r: r.inv())(Rotation.from_rotvec(VECTORS))
    assert isinstance(made, Rotation) and made.shape == (12,) and len(made) == 12
    turned = fgrad.vmap(lambda r, v: r.apply(v))(made, VECTORS)
    np.testing.assert_allclose(turned, made.apply(VECTORS))
    assert Rotation.random(4, rng=fgrad.random.key(0)).shape == (4,)
    assert Rotation.from_rotvec(VECTORS.astype(np.float32)).as_euler("xyz").dtype == np.float32


@pytest.mark.parametrize(
    "program",
    [
        lambda: Rotation.from_quat([1, 2, 3]),
        lambda: Rotation.from_matrix(np.ones((2, 2))),
        lambda: Rotation.from_euler("xxy", [1.0, 2, 3]),
        lambda: Rotation.from_euler("xy", [1.0, 2, 3]),
        lambda: Rotation.from_rotvec(1j * VECTORS),
        lambda: Rotation.from_rotvec(VECTORS).as_euler("xy"),
        lambda: Rotation.random(3),
        lambda: Rotation.identity().apply(np.ones((2, 2))),
        lambda: Rotation.identity()[0],
        lambda: len(Rotation.identity()),
        lambda: Slerp(np.arange(3.0), Rotation.from_rotvec(VECTORS)),
        lambda: Slerp(np.arange(1.0), Rotation.from_rotvec(VECTORS[:1])),
    ],
)
def test_refused(program: Callable[[], Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        program()
